"""A ledger on a disk that fills up: ``python -m tests.ledger.full_disk tmpfs|limit``.

``tmpfs`` mounts a small file system, in a mount namespace of its own (``unshare``), and leaves less and less
room on it; ``limit`` forbids files to grow beyond ever smaller sizes.  Every change is recorded whole or refused
with a sentence, what was recorded before stays, and with room again everything goes on.  Exit status: 0 when
that is so, 77 when such a file system cannot be had.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from numawise.errors import LedgerError
from numawise.ledger.file import user_name
from numawise.results.placement import Grant, Hold, Owner
from tests.ledger.jobs import opened

PAGE = 4096
CANNOT = 77
Outcome = dict[str, int]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def new(count: int, cpus: int = 0x3) -> Hold:
    grant = Grant(cpus=cpus << 2 * count, devices=(("made/up", (f"{count}",)),))
    owner = Owner(os.getuid(), user_name(os.getuid()), "", 7)
    command = ("python", "x" * 3000)  # so that a file is not written in one page
    return Hold(f"k{count}", "job", owner, grant, since=float(count), command=command)


def attempt(path: Path, expected: list[Hold], counted: Outcome) -> None:
    """Add a hold and remove another in one change; count what became of it."""
    hold = new(int(expected[-1].id[1:]) + 1)
    problem = tried(path, expected[0], hold)
    if problem is None:
        expected[:] = [*expected[1:], hold]
    else:
        assert problem.advice, problem
    counted["recorded" if problem is None else "refused"] += 1


def tried(path: Path, old: Hold, hold: Hold) -> LedgerError | None:
    try:
        with opened(path) as ledger, ledger.change() as change:
            change.remove(old)
            change.add(hold)
    except LedgerError as error:
        return error
    return None


def agrees(path: Path, expected: list[Hold]) -> bool:
    with opened(path) as ledger:
        return list(ledger.holds()) == expected


def fill(folder: Path, spare: int) -> Path:
    """Take all room but this many bytes."""
    ballast = folder / "ballast"
    room = os.statvfs(folder)
    with ballast.open("wb") as file:
        file.write(bytes(max(room.f_bavail * room.f_frsize - spare, 0)))
    return ballast


def on_tmpfs(folder: Path) -> Outcome:
    path = folder / "ledger"
    path.mkdir(0o700)
    fill(folder, 0)
    with pytest.raises(LedgerError, match="no space left"), opened(path) as ledger, ledger.change() as change:
        change.add(new(0))
    assert list(path.iterdir()) == [], "half a ledger is left"
    (folder / "ballast").unlink()
    expected = [new(0), new(1), new(2)]
    with opened(path) as ledger, ledger.change() as change:
        for hold in expected:
            change.add(hold)
    counted = {"refused": 0, "recorded": 0}
    for watched in (False, True):
        for spare in range(0, 40 * PAGE, PAGE):
            watcher = opened(path) if watched else None
            ballast = fill(folder, spare)
            attempt(path, expected, counted)
            ballast.unlink()
            if watcher:
                assert list(watcher.holds()) == expected
                watcher.close()
            assert agrees(path, expected), "something else is recorded than was told"
    read_only = subprocess.run(["mount", "-o", "remount,ro", folder], check=False, capture_output=True)
    if read_only.returncode == 0:
        with (
            pytest.raises(LedgerError, match="read-only file system"),
            opened(path) as ledger,
            ledger.change() as change,
        ):
            change.add(new(99))
    return counted


def under_a_limit(folder: Path) -> Outcome:
    path = folder / "ledger"
    expected = [new(0), new(1), new(2)]
    with opened(path) as ledger, ledger.change() as change:
        for hold in expected:
            change.add(hold)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    counted = {"refused": 0, "recorded": 0}
    for size in range(0, 40 * PAGE, PAGE):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            attempt(path, expected, counted)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert agrees(path, expected), "something else is recorded than was told"
    return counted


def main(how: str) -> int:
    if how == "tmpfs":
        rights = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
        if (
            not shutil.which("unshare")
            or subprocess.run([*rights, "true"], check=False, capture_output=True).returncode
        ):
            say("a file system of our own cannot be had here")
            return CANNOT
        return subprocess.run(
            [*rights, sys.executable, "-m", "tests.ledger.full_disk", "inside"], check=False
        ).returncode
    with tempfile.TemporaryDirectory() as name:
        if how == "inside":
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=512k", "numawise-test", name],
                check=False,
                capture_output=True,
            )
            if done.returncode:
                say("a file system of our own cannot be had here")
                return CANNOT
        try:
            counted = on_tmpfs(Path(name)) if how == "inside" else under_a_limit(Path(name))
        finally:
            if how == "inside":
                subprocess.run(["umount", name], check=True)
    assert all(counted.values()), counted
    say(f"{counted['refused']} changes refused, {counted['recorded']} recorded, none by halves")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or ["tmpfs"]))

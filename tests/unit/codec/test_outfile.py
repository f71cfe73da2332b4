"""The writer of files, attacked: links, devices, pipes, owners, full disks, traps in shared folders."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from numawise.codec import outfile
from numawise.codec.outfile import EXECUTABLE, PRIVATE, check_place, write_whole
from numawise.errors import InputError
from tests import needs

ALICE, MALLORY, TEAM = 4242, 4343, 4444


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users can reach; pytest's own are for us alone."""
    folder = Path(tempfile.mkdtemp(prefix="numawise-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def acting_as(user: int, groups: tuple[int, ...] = ()) -> Iterator[None]:
    """Be another user for a while, as far as files go."""
    before, group = os.getgroups(), os.getegid()
    os.setgroups(groups)
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def owner(path: Path) -> tuple[int, int]:
    return path.stat().st_uid, path.stat().st_gid


def isolated(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run shell lines where mounts are nobody else's; ``$WRITE FILE`` writes 100,000 bytes."""
    program = (
        f"{sys.executable} -c 'import sys; from numawise.codec.outfile import write_whole\n"
        'try: write_whole(sys.argv[1], "n" * 100_000)\nexcept Exception as error: sys.exit(str(error))\''
    )
    return subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-e",
            "-c",
            f'write() {{ {program} "$@"; }}\n{script}',
            "sh",
            *map(str, words),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


# --- regular files ------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["täxt\n", b"\x00\xff"])
@pytest.mark.parametrize("old", [None, "longer than the new content"])
def test_a_file_is_written_whole_and_alone(tmp_path: Path, old: str | None, content: str | bytes) -> None:
    path = tmp_path / "out"
    if old is not None:
        path.write_text(old)
    write_whole(path, content)
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208


@pytest.mark.parametrize(("wanted", "umask", "expected"), [
    (0o666,      0o022, 0o644),
    (0o666,      0o007, 0o660),
    (EXECUTABLE, 0o027, 0o750),
    (PRIVATE,    0o022, 0o600),
])  # fmt: skip
def test_a_new_file_obeys_the_umask(tmp_path: Path, wanted: int, umask: int, expected: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "out", "x", wanted)
    finally:
        os.umask(before)
    assert mode(tmp_path / "out") == expected


@needs.ROOT
def test_an_old_file_keeps_mode_owner_and_group(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    os.chown(path, ALICE, TEAM)
    path.chmod(0o604)
    write_whole(path, "new", PRIVATE)
    assert (path.read_text(), mode(path), owner(path)) == ("new", 0o604, (ALICE, TEAM))


@needs.ROOT
def test_a_file_of_somebody_else_that_we_may_write_stays_theirs(shared: Path) -> None:
    path = shared / "out"
    path.write_text("old")
    os.chown(path, ALICE, TEAM)
    path.chmod(0o664)
    shared.chmod(0o775)
    os.chown(shared, ALICE, TEAM)
    with acting_as(MALLORY, (TEAM,)):
        write_whole(path, "new")
    assert (path.read_text(), mode(path), owner(path)) == ("new", 0o664, (ALICE, TEAM))
    assert os.listdir(shared) == ["out"]  # noqa: PTH208


@needs.ROOT
def test_a_folder_that_takes_no_new_files(shared: Path) -> None:
    path = shared / "out"
    path.write_text("something long")
    os.chown(path, ALICE, ALICE)
    with acting_as(ALICE):
        write_whole(path, "new")
        with pytest.raises(InputError, match="Permission denied; check who may write"):
            write_whole(shared / "other", "new")
    assert path.read_text() == "new"


@needs.ROOT
def test_a_file_that_may_not_be_written_is_not_replaced_either(shared: Path) -> None:
    path = shared / "out"
    path.write_text("old")
    shared.chmod(0o777)
    with acting_as(ALICE), pytest.raises(InputError, match="cannot be written: Permission denied"):
        write_whole(path, "new")
    assert path.read_text() == "old"


def test_other_names_of_a_file_see_the_new_content(tmp_path: Path) -> None:
    path, other = tmp_path / "out", tmp_path / "other"
    path.write_text("old and long")
    other.hardlink_to(path)
    write_whole(path, "new")
    assert other.read_text() == "new"
    assert path.samefile(other)


def test_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("the file system has no attributes")
    write_whole(path, "new")
    assert os.getxattr(path, "user.note") == b"mine"


# --- links --------------------------------------------------------------------------------------


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("absolute", [True, False])
def test_a_link_stays_a_link(tmp_path: Path, *, exists: bool, absolute: bool) -> None:
    (tmp_path / "deep").mkdir()
    target, middle, link = tmp_path / "deep" / "real", tmp_path / "deep" / "middle", tmp_path / "link"
    if exists:
        target.write_text("old")
    middle.symlink_to("../deep/real")
    link.symlink_to(middle if absolute else "deep/middle")
    write_whole(link, "new")
    assert link.is_symlink()
    assert middle.is_symlink()
    assert target.read_text() == "new"
    assert not target.is_symlink()


def test_the_way_cannot_be_turned_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on the way becomes a link after it was looked at."""
    way, aside, victim = tmp_path / "way", tmp_path / "aside", tmp_path / "victim"
    way.mkdir()
    victim.mkdir()
    real = os.urandom

    def turning(count: int) -> bytes:
        way.rename(aside)
        way.symlink_to(victim)
        return real(count)

    monkeypatch.setattr(outfile.os, "urandom", turning)
    write_whole(way / "out", "new")
    assert os.listdir(victim) == []  # noqa: PTH208
    assert (aside / "out").read_text() == "new"


def test_links_that_lead_to_each_other(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InputError, match="symbolic links; check where the links lead"):
        write_whole(tmp_path / "a", "new")


# --- what is not a regular file -------------------------------------------------------------------


@needs.ROOT
@pytest.mark.parametrize("linked", [True, False])
def test_a_device_stays_a_device(shared: Path, *, linked: bool) -> None:
    device = shared / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_bytes(b"")
    except OSError:
        pytest.skip("devices cannot be made or used here")
    path = device
    if linked:
        path = shared / "link"
        path.symlink_to("null")
    before = device.stat()
    write_whole(path, "new", EXECUTABLE)
    after = device.stat()
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_mode, after.st_rdev, after.st_ino) == (before.st_mode, before.st_rdev, before.st_ino)
    assert path.is_symlink() == linked


def test_a_full_device_is_a_sentence() -> None:
    with pytest.raises(
        InputError, match=r"^/dev/full: cannot be written: No space left on device; free some"
    ):
        write_whole("/dev/full", "new")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "new" * 50_000)
    reader.join()
    assert received == ["new" * 50_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@needs.PROC
@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "/proc/{pid}/fd/{}"])
def test_a_descriptor_is_written_where_it_stands(tmp_path: Path, name: str) -> None:
    log = tmp_path / "log"
    with log.open("w") as stream:
        stream.write("before\n")
        stream.flush()
        write_whole(name.format(stream.fileno(), pid=os.getpid()), "new\n")
        stream.write("after\n")
    assert log.read_text() == "before\nnew\nafter\n"


@needs.PROC
def test_a_descriptor_that_is_a_pipe_and_one_that_is_closed() -> None:
    reading, writing = os.pipe()
    write_whole(f"/dev/fd/{writing}", b"new")
    os.close(writing)
    assert os.read(reading, 100) == b"new"
    os.close(reading)
    with pytest.raises(InputError, match="cannot be written"):
        write_whole(f"/dev/fd/{writing}", b"new")


# --- full disks, mounted files, failures ----------------------------------------------------------


@needs.MOUNTS
@pytest.mark.parametrize("names", [("out",), ("out", "other")])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, names: tuple[str, ...]) -> None:
    links = "\n".join(f"ln $1/out $1/{name}" for name in names[1:])
    done = isolated(
        f"mount -t tmpfs -o size=65536 none $1\nprintf old > $1/out\n{links}\nwrite $1/out || cat $1/out; ls -A $1",
        tmp_path,
    )
    assert done.stderr == (
        f"{tmp_path}/out: cannot be written: No space left on device; free some space, or choose another place\n"
    )
    assert done.stdout == "old" + "".join(f"{name}\n" for name in sorted(names))


@needs.MOUNTS
def test_a_file_mounted_into_a_container_is_written_in_place(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("old")
    (tmp_path / "inside").write_text("")
    done = isolated("mount --bind $1/outside $1/inside\nwrite $1/inside", tmp_path)
    assert (done.stderr, (tmp_path / "outside").stat().st_size) == ("", 100_000)
    assert sorted(os.listdir(tmp_path)) == ["inside", "outside"]  # noqa: PTH208


@needs.MOUNTS
def test_a_file_system_that_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    done = isolated("mount --bind $1 $1\nmount -o remount,bind,ro $1\nwrite $1/out || write $1/new", tmp_path)
    assert done.stderr == "".join(
        f"{tmp_path}/{name}: cannot be written: Read-only file system; choose a place on another file system\n"
        for name in ("out", "new")
    )


@pytest.mark.parametrize("when", ["write", "fsync", "rename"])
@pytest.mark.parametrize("failure", [OSError(5, "Input/output error"), KeyboardInterrupt(), SystemExit(1)])
def test_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, failure: BaseException
) -> None:
    (tmp_path / "out").write_text("old")

    def fails(*_: object, **__: object) -> None:
        raise failure

    if when == "write":
        monkeypatch.setattr(outfile, "_alike", fails)
    else:
        monkeypatch.setattr(outfile.os, when, fails)
    with pytest.raises(InputError if isinstance(failure, OSError) else type(failure)):
        write_whole(tmp_path / "out", "new")
    monkeypatch.undo()
    assert (tmp_path / "out").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208


ENDED = """
import os, signal, sys
from numawise.codec import outfile
real = os.fsync
def fsync(handle):
    real(handle)
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
outfile.os.fsync = fsync
outfile.write_whole(sys.argv[1], "new")
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
@pytest.mark.parametrize("old", [True, False])
def test_a_signal_waits_until_the_file_is_there(tmp_path: Path, name: str, *, old: bool) -> None:
    path = tmp_path / "out"
    if old:
        path.write_text("old")
    done = subprocess.run([sys.executable, "-c", ENDED, str(path), name], capture_output=True, check=False)
    assert done.returncode == -getattr(signal, name)
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208


@pytest.mark.parametrize(("path", "message"), [
    ("",               ": no file is named"),
    ("{}",             "Is a directory; name a file in it"),
    ("{}/new/",        "No such file or directory; make the folder first"),
    ("{}/..",          "Is a directory; name a file in it"),
    ("{}/file/",       "Not a directory; make the folder first"),
    ("{}/no/out",      "No such file or directory; make the folder first"),
    ("{}/file/out",    "Not a directory; make the folder first"),
    ("{}/" + "x" * 256, "File name too long; choose a shorter name"),
    ("{}/a\0b",        "embedded null"),
    ("/proc/self/out", "cannot be written"),
])  # fmt: skip
def test_errors_are_sentences(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written") as raised:
        write_whole(path.format(tmp_path), "new")
    assert message in str(raised.value)
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208
    if "/proc" not in path:
        with pytest.raises(InputError) as early:
            check_place(path.format(tmp_path))
        assert str(early.value) == str(raised.value)


# --- traps in a folder for everybody --------------------------------------------------------------


@pytest.fixture
def temporary(shared: Path) -> Path:
    folder = shared / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@needs.ROOT
@pytest.mark.parametrize("kind", ["link", "link to nothing", "link on the way", "file", "pipe"])
def test_what_somebody_else_left_in_a_folder_for_everybody_is_not_touched(
    shared: Path, temporary: Path, kind: str
) -> None:
    victim = shared / "etc"
    victim.mkdir()
    (victim / "passwd").write_text("root")
    path = trap = temporary / "out"
    with acting_as(MALLORY):
        match kind:
            case "link":
                trap.symlink_to(victim / "passwd")
            case "link to nothing":
                trap.symlink_to(victim / "crontab")
            case "link on the way":
                trap.symlink_to(victim)
                path = trap / "passwd"
            case "file":
                trap.write_text("mine")
            case "pipe":
                os.mkfifo(trap, 0o666)
    with pytest.raises(
        InputError, match=f"belongs to user {MALLORY}, in a folder that everybody may write to"
    ):
        write_whole(path, "secret")
    with pytest.raises(InputError, match="belongs to user"):
        check_place(path)
    assert [(path.name, path.read_text()) for path in victim.iterdir()] == [("passwd", "root")]
    if kind == "file":
        assert trap.read_text() == "mine"


@needs.ROOT
@pytest.mark.parametrize("exists", [True, False])
def test_root_follows_a_users_link_to_what_is_the_users(shared: Path, *, exists: bool) -> None:
    home, system = shared / "home", shared / "etc"
    for folder in (home, system):
        folder.mkdir()
    os.chown(home, ALICE, ALICE)
    if exists:
        (system / "out").write_text("old")
    with acting_as(ALICE):
        (home / "own").mkdir()
        (home / "good").symlink_to("own/out")
        (home / "bad").symlink_to(system / "out")
        (home / "way").symlink_to(system)
        if exists:
            (home / "own" / "out").write_text("old")
    write_whole(home / "good", "new")
    assert (home / "own" / "out").read_text() == "new"
    for path in (home / "bad", home / "way" / "out"):
        with pytest.raises(InputError, match=f"a link of user {ALICE} leads to what belongs to user 0"):
            write_whole(path, "new")
    assert (system / "out").exists() == exists
    if exists:
        assert (system / "out").read_text() == "old"
        os.chown(system / "out", MALLORY, MALLORY)
        (system / "out").chmod(0o666)
        with acting_as(MALLORY):  # only root has more to lose than the file
            write_whole(home / "bad", "new")
        assert (system / "out").read_text() == "new"


@needs.ROOT
def test_our_own_in_a_folder_for_everybody(temporary: Path) -> None:
    with acting_as(ALICE):
        (temporary / "link").symlink_to("out")
        write_whole(temporary / "link", "one")
        write_whole(temporary / "link", "two")
    assert (temporary / "out").read_text() == "two"
    assert owner(temporary / "out") == (ALICE, ALICE)

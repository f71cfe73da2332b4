"""Files put in the place of old ones, on a real file system; and whether a kubelet works there."""

import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from numawise.errors import HostError
from numawise.host.exchange import Exchange, exchange
from numawise.host.kubelet import DEFAULT_DIRECTORY, kubelet_on, root_directory
from tests import needs
from tests.waiting import PATIENCE, until

NOW = 1_700_000_000.0
KEPT = "numawise-backup-20231114T221320Z"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_new_and_old_file_are_alike_in_all_but_content(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    path.chmod(0o640)
    kept = exchange([Exchange(path, b"old", b"new")], tmp_path, now=NOW)
    assert kept == tmp_path / KEPT
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o640)
    copy = kept / "state"
    assert (copy.read_bytes(), stat.S_IMODE(copy.stat().st_mode)) == (b"old", 0o640)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert names(tmp_path) == [f"{KEPT}/state", "state"]


@ROOT_ONLY
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    os.chown(path, 12, 34)
    kept = exchange([Exchange(path, b"old", b"new")], tmp_path, now=NOW)
    assert kept is not None
    for one in (path, kept / "state"):
        assert (one.stat().st_uid, one.stat().st_gid) == (12, 34)


def test_files_deeper_down_keep_their_place_in_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "device-plugins" / "state"
    path.parent.mkdir()
    path.write_bytes(b"old")
    exchange([Exchange(path, b"old", None)], tmp_path, now=NOW)
    assert names(tmp_path) == [f"{KEPT}/device-plugins/state"]


def test_a_second_copy_in_the_same_second(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"1")
    exchange([Exchange(path, b"1", b"2")], tmp_path, now=NOW)
    assert exchange([Exchange(path, b"2", b"3")], tmp_path, now=NOW) == tmp_path / f"{KEPT}-1"
    assert (tmp_path / KEPT / "state").read_bytes() == b"1"
    assert (tmp_path / f"{KEPT}-1" / "state").read_bytes() == b"2"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    path = tmp_path / "state"
    path.symlink_to("real")
    exchange([Exchange(path, b"old", b"new")], tmp_path, now=NOW)
    assert path.is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_nothing_changes_where_one_file_is_not_what_it_was(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"1")
    other.write_bytes(b"changed")
    with pytest.raises(HostError, match="other has changed meanwhile"):
        exchange([Exchange(one, b"1", b"2"), Exchange(other, b"2", b"3")], tmp_path, now=NOW)
    assert names(tmp_path) == ["one", "other"]
    assert one.read_bytes() == b"1"


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert exchange([Exchange(path, None, b"new")], tmp_path, now=NOW) is None
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "state"
    with pytest.raises(HostError, match="cannot be written"):
        exchange([Exchange(path, None, b"new")], tmp_path, now=NOW)
    assert names(tmp_path) == []


# --- a kubelet at work ---------------------------------------------------------------------------


@contextmanager
def listening(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True)
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(path))
        server.listen(1)
        yield


@pytest.mark.parametrize("name", ["device-plugins", "pod-resources"])
def test_somebody_listens(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "kubelet.sock"
    with listening(path):
        assert kubelet_on(tmp_path) == f"a process listens on {path}"
        assert kubelet_on(tmp_path) != ""  # the first look did not use it up
    assert path.exists()
    assert kubelet_on(tmp_path) == ""  # left over


def test_a_socket_whose_queue_is_full_has_a_listener(tmp_path: Path) -> None:
    path = tmp_path / "device-plugins" / "kubelet.sock"
    with listening(path):
        waiting = []
        for _ in range(3):
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            waiting.append(one)
            try:
                one.connect(str(path))
            except BlockingIOError:
                break
        assert kubelet_on(tmp_path).startswith("a process listens")
        for one in waiting:
            one.close()


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is called kubelet, waits, and ends with the test."""
    program = folder / "kubelet"
    shutil.copy(str(shutil.which("sh")), program)
    process = subprocess.Popen([str(program), "-c", "read -r line; exit", *arguments], stdin=subprocess.PIPE)
    try:
        until(lambda: Path(f"/proc/{process.pid}/comm").read_text().strip() == "kubelet", "its name")
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=PATIENCE)


@needs.PROC
@pytest.mark.skipif(not shutil.which("sh"), reason="no shell")
@pytest.mark.parametrize(("other", "found"), [(False, True), (True, False)])
def test_a_kubelet_runs(tmp_path: Path, other: bool, found: bool) -> None:  # noqa: FBT001 - columns
    state = tmp_path / "state"
    state.mkdir()
    place = tmp_path / "elsewhere" if other else state
    with running(tmp_path, f"--root-dir={place}", "--v=2") as process:
        evidence = kubelet_on(state)
        assert evidence == (f"kubelet runs on it (process {process.pid})" if found else "")
    assert kubelet_on(state) == ""


@pytest.mark.parametrize(("words", "expected"), [
    (["kubelet"],                                       DEFAULT_DIRECTORY),
    (["kubelet", "--root-dir=/data/kubelet"],           Path("/data/kubelet")),
    (["kubelet", "--root-dir", "/data/kubelet", "-v2"], Path("/data/kubelet")),
    (["kubelet", "-root-dir", "/data"],                 Path("/data")),
    (["kubelet", "--root-dir"],                         DEFAULT_DIRECTORY),
])  # fmt: skip
def test_the_directory_of_a_command_line(words: list[str], expected: Path) -> None:
    assert root_directory(words) == expected

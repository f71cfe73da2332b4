"""Processes of this machine's kernel."""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import needs
from tests.jobs import Job, as_user, fork, in_child
from tests.waiting import until

from numawise.errors import HostError
from numawise.host import processes as subject
from numawise.sets import bits_of, parse_ids

pytestmark = needs.PROC
EXIT_THREAD = {"x86_64": 60, "aarch64": 93, "ppc64le": 1, "s390x": 1, "riscv64": 93}
REST = "S 7 8 9 0 -1 4194560 1 0 0 0 2 3 0 0 20 0 1 0 4711 1000 5 18446744073709551615"


@pytest.mark.parametrize(("text", "expected"), [
    (f"12 (sh) {REST}",                   (12, "sh",          "S", 7, 9, 4711)),
    (f"12 (a) b) {REST}",                 (12, "a) b",        "S", 7, 9, 4711)),
    (f"12 () S 1 1 1) {REST}",            (12, ") S 1 1 1",   "S", 7, 9, 4711)),
    (f"12 (two\nlines) {REST}",           (12, "two\nlines",  "S", 7, 9, 4711)),
    (f"12 (((()) {REST}",                 (12, "((()",        "S", 7, 9, 4711)),
    (f"12 () {REST}",                     (12, "",            "S", 7, 9, 4711)),
    ("12 (sh) S 7 8 9",                   None),
    (f"12 sh {REST}",                     None),
    ("",                                  None),
])  # fmt: skip
def test_stat(text: str, expected: tuple[object, ...] | None) -> None:
    found = subject.parse_stat(text)
    assert found == (expected and subject.Process(*expected))


@contextmanager
def sleeper() -> Iterator[int]:
    """A child that sleeps until it is killed."""
    pid = fork()
    if not pid:
        signal.pause()
        os._exit(0)
    try:
        yield pid
    finally:
        if subject.read_process(pid):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_a_life() -> None:
    with sleeper() as pid:
        start = subject.start_time(pid)
        assert start
        assert subject.alive(pid, start)
        assert not subject.alive(pid, start + 1), "another one of the same number"
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert subject.read_process(pid), "it waits for its parent to ask"
        assert not subject.alive(pid, start)
        os.waitpid(pid, 0)
        assert subject.start_time(pid) is None
        assert not subject.alive(pid, start)
        assert subject.threads(pid) == subject.family(pid) == ()
        assert subject.uid_of(pid) is subject.allowed_of(pid) is subject.group_of(pid) is None


@pytest.mark.skipif(os.uname().machine not in EXIT_THREAD, reason="the number of this call is not known here")
def test_a_process_lives_while_any_of_its_threads_does() -> None:
    libc = ctypes.CDLL(None)
    pid = fork()
    if not pid:
        threading.Thread(target=signal.sigwait, args=([signal.SIGUSR1],), daemon=True).start()
        libc.syscall(EXIT_THREAD[os.uname().machine], 0)
    try:
        until(lambda: (found := subject.read_process(pid)) and found.state == "Z", "a zombie")
        found = subject.read_process(pid)
        assert found
        assert found.state == "Z"
        assert subject.alive(pid, found.start)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_strange_names() -> None:
    def look() -> subject.Process | None:
        Path("/proc/self/comm").write_text(") S 1 (x")
        return subject.read_process(os.getpid())

    found = in_child(look)
    assert (found.name, found.parent) == (") S 1 (x", os.getpid())


def test_kinship() -> None:
    with Job() as job:
        job.start(job.bind("affinity", "kin").itself, mebibytes=1, threads=3, children=2)
        family = job.family()
        assert family[0] == job.pid
        assert set(family[1:]) == set(subject.children(job.pid))
        assert len(family) == 3
        assert len(subject.threads(job.pid)) == 4
        assert job.pid in subject.children(os.getpid())


def test_orphans_are_known_by_their_mark() -> None:
    mark = f"NUMAWISE_TEST={os.getpid()}"
    read, write = os.pipe()
    parent = fork()
    if not parent:
        for _ in range(2):
            if not os.fork():
                os.close(read)
                os.write(write, f"{os.getpid()} ".encode())
                os.execve("/bin/sleep", ["sleep", "60"], dict([mark.split("=")]))
        os._exit(0)
    os.waitpid(parent, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        orphans = {int(word) for word in pipe.read().split()}  # until exec closes it
    try:
        assert len(orphans) == 2
        assert set(subject.family(parent)) == set()
        assert set(subject.family(parent, mark)) == orphans
        assert subject.family(parent, mark + "0") == ()
        assert set(subject.family(parent, mark, uid=os.getuid())) == orphans
        assert subject.family(parent, mark, uid=os.getuid() + 1) == ()
        assert set(subject.marked("NUMAWISE_TEST")[(os.getuid(), str(os.getpid()))]) == orphans
    finally:
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)


def test_masks_reach_threads_that_are_born_meanwhile() -> None:
    both = bits_of(os.sched_getaffinity(0))
    if both & both - 1 == 0:
        pytest.skip("one CPU")
    one = both & -both

    def look() -> tuple[int, set[int]]:
        stop = threading.Event()

        def breed() -> None:
            while not stop.is_set():
                thread = threading.Thread(target=time.sleep, args=(0.005,))
                thread.start()
                thread.join(0.001)

        breeders = [threading.Thread(target=breed) for _ in range(3)]
        for breeder in breeders:
            breeder.start()
        me = os.getpid()
        done = subject.set_affinity((me,), one)
        masks = {allowed[0] for tid in subject.threads(me) if (allowed := subject.allowed_of(me, tid))}
        stop.set()
        for breeder in breeders:
            breeder.join()
        return len(done), masks

    count, masks = in_child(look)
    assert count >= 4
    assert masks == {one}


@pytest.mark.parametrize(("cpus", "words"), [
    ("",      "at least one CPU"),
    ("4000",  "refused CPUs 4000"),
])  # fmt: skip
def test_masks_that_cannot_be(cpus: str, words: str) -> None:
    with sleeper() as pid, pytest.raises(HostError, match=words):
        subject.set_affinity((pid,), parse_ids(cpus))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_the_mask_of_another_user() -> None:
    with sleeper() as pid, pytest.raises(HostError, match=f"may not change on which CPUs process {pid} runs"):
        as_user(1000, lambda: subject.set_affinity((pid,), 1))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_one_that_refuses_does_not_keep_the_others() -> None:
    cpus = bits_of(os.sched_getaffinity(0))

    def look() -> tuple[str, set[int]]:
        with sleeper() as own:
            try:
                subject.set_affinity((theirs, own), cpus & -cpus)
            except HostError as error:
                return error.message, os.sched_getaffinity(own)
        raise AssertionError("it was not refused")

    with sleeper() as theirs:
        said, mask = as_user(1000, look)
        assert said == f"may not change on which CPUs process {theirs} runs"
        assert bits_of(mask) == cpus & -cpus
        assert bits_of(os.sched_getaffinity(theirs)) == cpus


def test_facts_about_ourselves() -> None:
    assert subject.uid_of(os.getpid()) == os.getuid()
    assert subject.boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert subject.allowed_of(os.getpid(), os.getpid()) == subject.allowed_of(os.getpid())
    assert subject.allowed_of(os.getpid())[0] == bits_of(os.sched_getaffinity(0))  # type: ignore[index]


def test_a_mask_without_proc(tmp_path: Path) -> None:
    one = min(os.sched_getaffinity(0))
    with sleeper() as pid:
        assert subject.set_affinity((pid,), 1 << one, tmp_path) == (pid,)
        assert os.sched_getaffinity(pid) == {one}


def test_another_root(tmp_path: Path) -> None:
    place = tmp_path / "proc/5"
    place.mkdir(parents=True)
    (place / "stat").write_text(f"5 (x) {REST}")
    (place / "status").write_text("Uid:\t12\t0\t0\t0\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t1\n")
    (place / "cgroup").write_text("4:cpu,cpuacct:/a:b\n0::/c\n")
    (place / "environ").write_bytes(b"A=1\0B=2\0")
    assert subject.start_time(5, tmp_path) == 4711
    assert subject.uid_of(5, tmp_path) == 12
    assert subject.allowed_of(5, root=tmp_path) == (15, 2)
    assert [subject.group_of(5, name, tmp_path) for name in ("cpu", "cpuacct", "", "memory")] == [
        "/a:b",
        "/a:b",
        "/c",
        None,
    ]
    assert [subject.carries(5, mark, tmp_path) for mark in ("A=1", "B=2", "A", "B=")] == [
        True,
        True,
        False,
        False,
    ]
    assert [process.pid for process in subject.processes(tmp_path)] == [5]
    assert subject.boot_id(tmp_path) == ""

"""``verify`` against processes that are really placed well or badly, on several NUMA nodes."""

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from numawise.apps.verify.look import JobHost
from numawise.host import mempolicy
from numawise.host.bandwidth import measure_memory
from numawise.host.discover import read_live
from numawise.host.processes import boot_id, start_time
from numawise.results.finding import Severity
from numawise.results.placement import Grant, Hold, Owner
from numawise.results.verification import CheckedJob
from numawise.sets import ids_of
from tests.vm.guest import USER, Guest, Skip

SIZE = 64 << 20
PROGRAM = f"import os, time; kept = bytearray(b'x' * {SIZE}); os.write({{0}}, b'r'); time.sleep(1000)"
READY = b"r"
HUGE = Path("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages")
SHARED = Path("/dev/shm/numawise-verify")


def fill(size: int = SIZE, flags: int = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, file: int = -1) -> mmap.mmap:
    memory = mmap.mmap(file, size, flags=flags)
    ctypes.memset(ctypes.addressof((ctypes.c_char * size).from_buffer(memory)), 1, size)
    return memory


@contextmanager
def process(work: Callable[[], object], before: Callable[[], object] = int) -> Iterator[int]:
    """A process that does ``before`` as soon as it is born and then ``work``; what that gives it keeps."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before()
            kept = [work()]
            os.write(writing, READY)
            while kept:
                signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 1) == READY, "the process did not get so far"
        yield child
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@contextmanager
def program(before: Callable[[], object]) -> Iterator[int]:
    """A program that is bound before it begins, so that nothing of it is anybody else's."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    child = os.fork()
    if child == 0:
        try:
            before()
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", PROGRAM.format(writing)])
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 1) == READY, "the program did not get so far"
        yield child
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def on(cpus: int) -> None:
    os.sched_setaffinity(0, set(ids_of(cpus)))


def two_nodes(guest: Guest) -> tuple[int, int]:
    """CPUs of the first two nodes, where both have CPUs and memory."""
    if len(guest.cpus) < 2 or not guest.cpus[1] or guest.with_memory & 3 != 3:
        raise Skip("needs two NUMA nodes with CPUs and memory")
    return guest.cpus[0], guest.cpus[1]


def check(pid: int, *holds: Hold) -> CheckedJob:
    return JobHost(read_live(), holds).check_pid(pid)


def codes(found: CheckedJob) -> list[str]:
    return [finding.code for finding in found.verdict.findings if finding.severity is Severity.ERROR]


def expect(found: CheckedJob, *leaks: str) -> str:
    assert codes(found) == list(leaks), found
    assert found.verdict.aligned is (not leaks), found
    return found.verdict.sentence


def bound_well(guest: Guest) -> str:
    """CPUs and memory on one node."""
    said = []
    for node, cpus in enumerate(guest.cpus):
        mems = 1 << guest.near(node)
        if cpus and cpus != guest.all_cpus:
            with program(lambda cpus=cpus, mems=mems: (on(cpus), mempolicy.bind_memory(mems))) as pid:
                found = check(pid)
                assert found.verdict.amounts.own >= SIZE
                assert found.verdict.mems == mems
                said.append(expect(found))
    return "\n".join(said)


def misplaced(guest: Guest) -> str:
    """CPUs on node 0, memory bound to node 1."""
    here, _ = two_nodes(guest)
    with process(fill, lambda: (on(here), mempolicy.bind_memory(2))) as pid:
        found = check(pid)
        text = expect(found, "memory-remote")
        (remote,) = [one for one in found.verdict.amounts.remote if one.kind == "anonymous" and one.numa == 1]
        assert remote.size >= SIZE
        assert remote.reason == "put there by the program itself (policy bind:1)"
        return text


def on_foreign_cpus(guest: Guest) -> str:
    """Bound well, but to a node of which another job has CPUs alone."""
    here, there = two_nodes(guest)
    first = here & -here
    with program(lambda: (on(first), mempolicy.bind_memory(1))) as holding:
        owner = Owner(0, "root", boot_id(), holding, start_time(holding) or 0)
        other = Hold("b2345", "other", owner, Grant(cpus=first, mems=1))
        with program(lambda: (on(here), mempolicy.bind_memory(1))) as pid:
            text = expect(check(pid, other), "cpus-of-another")
            assert "hold b2345 (other) of root has alone" in text
        with program(lambda: (on(there), mempolicy.bind_memory(2))) as pid:
            expect(check(pid, other))
        expect(check(holding, other))
    return text


def bound_late(guest: Guest) -> str:
    """Memory first touched on node 1, CPUs and policy bound to node 0 afterwards."""
    here, there = two_nodes(guest)

    def work() -> object:
        on(there)
        memory = fill()
        on(here)
        mempolicy.bind_memory(1)
        return memory

    with process(work) as pid:
        found = check(pid)
        text = expect(found, "memory-remote")
        largest = found.verdict.amounts.remote[0]
        assert largest.reason == "made before its memory was bound to NUMA 0, or moved there later"
        return text


def interleaved(guest: Guest) -> str:
    """Memory spread over both nodes by the program."""
    here, _ = two_nodes(guest)
    with process(fill, lambda: (on(here), mempolicy.set_mempolicy(mempolicy.INTERLEAVE, 3))) as pid:
        found = check(pid)
        text = expect(found, "memory-remote")
        assert (
            found.verdict.amounts.remote[0].reason == "spread by the program itself (policy interleave:0-1)"
        )
        return text


def unbound(guest: Guest) -> str:
    """Nothing bound at all."""
    two_nodes(guest)
    with process(fill, lambda: on(guest.all_cpus)) as pid:
        return expect(check(pid), "unbound")


def stray_thread(guest: Guest) -> str:
    """One thread that was started before the others were bound, under a hold."""
    import threading  # noqa: PLC0415

    here, _ = two_nodes(guest)

    def work() -> object:
        thread = threading.Thread(target=time.sleep, args=(1000,), daemon=True)
        thread.start()
        on(here)  # binds the first thread alone
        return thread

    with process(work, lambda: on(guest.all_cpus)) as pid:
        hold = hold_of(pid, here)
        found = check(pid, hold)
        assert found.hold == hold
        assert "threads-elsewhere" in codes(found)
        (finding,) = [one for one in found.verdict.findings if one.code == "threads-elsewhere"]
        assert finding.message.startswith("1 of 2 threads may run outside CPUs")
        assert f"({pid}/" in finding.why, finding
        bare = check(pid)
        assert "threads-elsewhere" in codes(bare)
        return finding.message


def hold_of(pid: int, cpus: int, mems: int = 1) -> Hold:
    owner = Owner(os.getuid(), "root", boot_id(), pid, start_time(pid) or 0)
    return Hold("b2345", "job", owner, Grant(cpus=cpus, mems=mems), since=time.time())


def huge_and_shared(guest: Guest) -> str:
    """Huge pages of node 1 and shared memory touched there, seen from a job on node 0."""
    here, there = two_nodes(guest)
    HUGE.write_text("8\n")
    try:
        with SHARED.open("w+b") as stream:
            stream.truncate(SIZE)

            def work() -> object:
                on(there)
                shared = fill(SIZE, mmap.MAP_SHARED, stream.fileno())
                huge = fill(8 << 21, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
                on(here)
                return shared, huge

            with process(work) as pid:
                found = check(pid)
                text = expect(found, "memory-remote")
                kinds = {one.kind: one.size for one in found.verdict.amounts.remote if one.numa == 1}
                assert (kinds["shared"], kinds["huge"]) == (SIZE, 8 << 21), kinds
                return text
    finally:
        SHARED.unlink()
        HUGE.write_text("0\n")


def without_rights(guest: Guest) -> str:
    """Another user sees masks but not pages, and that is told by the exit status, through the real command."""
    here, _ = two_nodes(guest)
    with process(fill, lambda: (on(here), mempolicy.bind_memory(1))) as pid:
        done = subprocess.run(
            [sys.executable, "-m", "numawise", "verify", str(pid)],
            capture_output=True,
            text=True,
            check=False,
            user=USER,
            env={**os.environ, "HOME": "/tmp"},
        )
        assert done.returncode == 3, done
        assert done.stdout.startswith("not known: where "), done
        assert "Permission denied" in done.stdout
        return done.stdout.splitlines()[0]


def a_node_without_memory(guest: Guest) -> str:
    """CPUs of a node that has no memory: the nearest node's is local."""
    empty = [node for node, cpus in enumerate(guest.cpus) if cpus and not guest.with_memory >> node & 1]
    if not empty:
        raise Skip("every NUMA node has memory")
    with process(fill, lambda: on(guest.cpus[empty[0]])) as pid:
        return expect(check(pid))


def memory_without_cpus(guest: Guest) -> str:
    """Memory on a node without CPUs is far, unless it was granted."""
    lone = [node for node, cpus in enumerate(guest.cpus) if not cpus]
    if not lone:
        raise Skip("every NUMA node has CPUs")
    with process(fill, lambda: (on(guest.cpus[0]), mempolicy.bind_memory(1 << lone[0]))) as pid:
        text = expect(check(pid), "memory-remote")
        granted = check(pid, hold_of(pid, guest.cpus[0], mems=guest.with_memory))
        expect(granted)
        return text


def figures(guest: Guest) -> str:
    """Memory of every node can be reached and timed; what the times are means nothing in here."""
    sizes = [(node, 16 << 20) for node in ids_of(guest.with_memory)]
    rates = measure_memory(next(ids_of(guest.cpus[0])), sizes, 1.0)
    assert [rate.numa for rate in rates] == [node for node, _ in sizes]
    assert all(rate.read and rate.copy and not rate.problem for rate in rates), rates
    (refused,) = measure_memory(0, [(len(guest.cpus), 16 << 20)], 1.0)
    assert refused.problem.startswith("the kernel refused mbind"), refused
    return f"{len(rates)} nodes"

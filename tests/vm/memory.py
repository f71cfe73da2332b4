"""Memory that runs short on one NUMA node: where jobs are placed, what spills, and what is said when it is too much."""

import json
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from numawise.host import mempolicy
from numawise.host.nodememory import read_available
from numawise.sets import ids_of
from tests.vm.guest import Guest, Skip
from tests.vm.running import ledger, numawise

MIB = 1 << 20
STEP = 4 * MIB
SPARE = 96 * MIB
JOB = """
import json, os, sys
block = bytearray(int(sys.argv[1]))
for at in range(0, len(block), 4096): block[at] = 1
pages = {}
for line in open("/proc/self/numa_maps"):
    if "file=" not in line:
        for word in line.split():
            if word[0] == "N" and "=" in word:
                node, count = word[1:].split("=")
                pages[node] = pages.get(node, 0) + int(count)
print(json.dumps({"pages": pages, "mems": os.environ["NUMAWISE_MEMS"]}), flush=True)
if len(sys.argv) > 2: sys.stdin.read()
"""


def two_nodes(guest: Guest) -> None:
    if len(guest.cpus) != 2 or guest.with_memory != 3 or not all(guest.cpus):
        raise Skip("needs two NUMA nodes with CPUs and memory")


def available(node: int) -> int:
    return read_available([node])[node]


@contextmanager
def filled(node: int, leave: int) -> Iterator[int]:
    """A process that nobody has booked anything for, and that leaves so much of a node."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            mempolicy.bind_memory(1 << node)
            kept = []
            while available(node) > leave:
                kept.append(mmap.mmap(-1, STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
                kept[-1].write(b"x" * STEP)
            os.write(writing, b"r")
            while kept:
                signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"r", "it could not fill the node"
        yield child
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "somebody else was killed"
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def run(environment: dict[str, str], size: int, *words: str) -> "subprocess.CompletedProcess[str]":
    return numawise(environment, "run", "--name", "job", *words, "--", sys.executable, "-c", JOB, str(size))


def share(seen: dict[str, dict[str, int]], node: int) -> float:
    pages = seen["pages"]
    return pages.get(str(node), 0) / sum(pages.values())


def too_large(guest: Guest) -> int:
    """A size that the first node has not, and the machine has."""
    two_nodes(guest)
    size = available(0) + SPARE
    if available(1) < 2 * SPARE:
        raise Skip("the machine is too small")
    return size


@contextmanager
def at_work(environment: dict[str, str], *command: str) -> "Iterator[tuple[int, str]]":
    """A job on NUMA node 0 that has said a line and waits for its input to end: its process, and what it said."""
    words = ("run", "-q", "--name", "job", "--numa", "0", "--cpus", "1", "--", *command)
    job = subprocess.Popen(
        [sys.executable, "-m", "numawise", *words], env=environment, cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert job.stdout
        said = job.stdout.readline()
        assert said, job.communicate()
        (hold,) = json.loads(numawise(environment, "ps", "-o", "json").stdout)["holds"]
        yield hold["pid"], said
    finally:
        _, problems = job.communicate("")
    assert job.returncode == 0, problems


def verdict(environment: dict[str, str], status: int, word: str) -> tuple[str, float]:
    """What ``verify`` says of the job, and the share of its memory where it was granted."""
    text, every = numawise(environment, "verify", "job"), numawise(environment, "verify")
    data = numawise(environment, "verify", "-o", "json")
    assert text.returncode == every.returncode == data.returncode == status, (text, every, data)
    assert text.stdout.startswith(f"{word}: "), text
    assert word in every.stdout.splitlines()[1], every
    found = json.loads(data.stdout)
    (job,) = found["jobs"]
    assert found["verdict"] == job["verdict"] == word
    assert found["aligned"] is job["aligned"] is (word == "aligned")
    return text.stdout.splitlines()[0], job["memory"]["share"]


def spills(guest: Guest) -> str:
    """Without an amount: what the node has not comes from another one, and verify says so."""
    size = too_large(guest)
    with (
        ledger() as environment,
        at_work(environment, sys.executable, "-c", JOB, str(size), "wait") as (_, line),
    ):
        seen = json.loads(line)
        assert seen["mems"] == "0"
        assert 0.5 < share(seen, 0) < 1, seen
        said, _ = verdict(environment, 1, "spilled")
        return f"{size // MIB} MiB: {share(seen, 0):.0%} on NUMA 0; {said}"


def moved_away(guest: Guest) -> str:
    """Memory that somebody moves from where it was granted, of a large job and of a shell."""
    two_nodes(guest)
    told = []
    for command in (
        (sys.executable, "-c", JOB, str(SPARE), "wait"),
        ("sh", "-c", "echo ready; read line; true"),
    ):
        with ledger() as environment, at_work(environment, *command) as (pid, _):
            verdict(environment, 0, "aligned")
            mempolicy.migrate_pages(pid, 1, 2)
            said, left = verdict(environment, 1, "spilled")
            assert left < 0.5, said
            told.append(said)
    return "\n".join(told)


def bound_and_told(guest: Guest) -> str:
    """The same, bound to the node: it is ended, and told why."""
    size = too_large(guest)
    with ledger() as environment:
        done = run(environment, size, "--numa", "0", "--cpus", "1", "--memory-policy", "bind")
        assert done.returncode == -signal.SIGKILL, done
        said = done.stderr.splitlines()[-1]
        if "perhaps" in said:
            assert "let it use other NUMA nodes, too (--memory-policy preferred)" in said, said
        else:
            assert (
                "was ended by the kernel's OOM killer: memory ran out on NUMA 0, to which it is bound" in said
            ), said
        assert json.loads(numawise(environment, "ps", "-o", "json").stdout)["holds"] == []
        return said


def limit_and_told(guest: Guest) -> str:  # noqa: ARG001 - the shape of a check
    """Beyond its own limit: it is ended, and told how much more to ask for."""
    with ledger() as environment:
        done = run(environment, 200 * MIB, "--cpus", "1", "--memory", "64m")
        assert done.returncode == -signal.SIGKILL, done
        said = done.stderr.splitlines()[-1]
        assert "was ended by the kernel's OOM killer: it needed more than its limit of 64 MiB" in said, said
        assert said.endswith("--memory 128m"), said
        shell = ("sh", "-c", f"{sys.executable} -c 'bytearray({200 * MIB})'; exit 3")
        done = numawise(environment, "run", "-q", "--memory", "64m", "--", *shell)
        assert done.returncode == 3, done
        assert "the kernel's OOM killer ended 1 process of sh" in done.stderr, done
        return said


def placed_by_what_is_there(guest: Guest) -> str:
    """A node that others have filled is left alone, with an amount and without; nobody else is killed."""
    two_nodes(guest)
    with ledger() as environment, filled(0, 168 * MIB):
        before = [available(node) // MIB for node in (0, 1)]
        for words in (("--memory", "250m"), ()):
            done = run(environment, 200 * MIB, "--cpus", "1", *words)
            assert done.returncode == 0, done
            seen = json.loads(done.stdout)
            assert seen["mems"] == "1", (seen, done.stderr)
            assert share(seen, 1) > 0.98, seen
        refused = run(environment, MIB, "--cpus", "1", "--memory", "250m", "--numa", "0")
        assert refused.returncode == 1, refused
        assert "is in use that nobody has booked" in refused.stderr, refused
        return f"{before} MiB available: NUMA 1; on NUMA 0: {refused.stderr.splitlines()[0]}"


def bookings_are_kept(guest: Guest) -> str:
    """A hold that has not touched its memory keeps it, though others fill the node."""
    two_nodes(guest)
    with ledger() as environment:
        program = [
            sys.executable,
            "-m",
            "numawise",
            "run",
            "-q",
            "--name",
            "calm",
            "--numa",
            "0",
            "--memory",
            "128m",
        ]
        calm = subprocess.Popen(
            [*program, "--", "sh", "-c", "echo ready; read line"], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        try:
            assert calm.stdout
            assert calm.stdout.readline() == "ready\n"
            with filled(0, 200 * MIB):
                words = ("--numa", "0", "--memory")
                assert run(environment, MIB, *words, "128m").returncode == 1, "it was given what is booked"
                assert run(environment, MIB, *words, "32m").returncode == 0
        finally:
            calm.communicate("\n")
        return "200 MiB available, 128 booked and untouched: 128 refused, 32 given"


def estimate(guest: Guest) -> str:
    """What all nodes have available together is what the kernel says of the machine."""
    for _ in range(5):
        found = read_available(ids_of(guest.with_memory))
        text = Path("/proc/meminfo").read_text()
        told = next(
            int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("MemAvailable")
        )
        if abs(sum(found.values()) - told) <= max(told // 50, 8 * MIB):
            return f"{[size // MIB for size in found.values()]} MiB, MemAvailable {told // MIB} MiB"
    raise AssertionError(f"{found}, MemAvailable {told}")

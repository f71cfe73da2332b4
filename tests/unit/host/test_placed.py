"""Where processes are: real ones of this kernel, a recorded one, and hand-made trees."""

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from numawise.host.nodememory import read_free
from numawise.host.placed import (
    NO_NUMA,
    Placed,
    container_of,
    in_container,
    in_group,
    read_groups,
    read_placed,
    read_tasks,
    variable_of,
)
from numawise.sets import bits_of, format_ids
from tests import needs
from tests.unit.host.trees import grow
from tests.waiting import until

HERE = Path("/")
RECORDED = Path(__file__).parents[2] / "host/recorded/cuda-job"
CUDA_PID = 422
STAT = (
    "{pid} ({name}) {state} {parent} 1 1 0 -1 {flags} 0 0 0 0 30 12 0 0 20 0 1 0 {start} 0 0 "
    + "0 " * 14
    + "{cpu} 0 0 0"
)
STATUS = """\
Name:\tjob
Uid:\t1000\t1000\t1000\t1000
VmRSS:\t    3000 kB
RssAnon:\t    2000 kB
RssFile:\t     900 kB
RssShmem:\t     100 kB
HugetlbPages:\t    2048 kB
VmSwap:\t      12 kB
Cpus_allowed_list:\t{cpus}
Mems_allowed_list:\t0-1"""


def process(
    pid: int, *, name: str = "job", parent: int = 1, start: int = 77, state: str = "S", flags: int = 0,
    threads: str = "0-3",
) -> dict[str, str | bytes | None]:  # fmt: skip
    """A process of a made-up tree; ``threads`` are the masks of its threads."""
    tree: dict[str, str | bytes | None] = {}
    facts = {"name": name, "parent": parent, "start": start, "flags": flags}
    for at, cpus in enumerate(threads.split()):
        text = STAT.format(pid=pid + at, state=state if at == 0 else "S", cpu=2, **facts)
        tree[f"proc/{pid}/task/{pid + at}/stat"] = text
        tree[f"proc/{pid}/task/{pid + at}/status"] = STATUS.format(cpus=cpus)
    tree[f"proc/{pid}/stat"] = STAT.format(pid=pid, state=state, cpu=2, **facts)
    tree[f"proc/{pid}/status"] = STATUS.format(cpus=threads.partition(" ")[0])
    return tree


@contextmanager
def child(work: Callable[[], object]) -> Iterator[int]:
    """A real process that does something and waits."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            kept = [work()]
            os.write(writing, b"r")
            while kept:
                signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"r"
        yield pid
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def placed(pid: int, root: Path = HERE) -> Placed:
    found = read_placed(root, pid)
    assert found
    return found


def sizes(found: Placed) -> dict[str, int]:
    assert found.pages
    total: dict[str, int] = {}
    for part in found.pages.parts:
        total[part.kind] = total.get(part.kind, 0) + sum(size for _, size in part.bytes)
    return total


def one_cpu() -> int:
    return max(os.sched_getaffinity(0))


# --- real processes ---------------------------------------------------------------------------


@needs.PROC
def test_a_bound_process() -> None:
    cpu = one_cpu()
    with child(lambda: os.sched_setaffinity(0, {cpu})) as pid:
        found = placed(pid)
        assert [thread.allowed for thread in found.threads] == [1 << cpu]
        assert found.threads[0].cpu == cpu
        assert (found.parent, found.uid, found.kernel) == (os.getpid(), os.getuid(), False)


@needs.PROC
def test_a_thread_that_was_started_before_the_binding() -> None:
    every = bits_of(os.sched_getaffinity(0))
    if every.bit_count() < 2:
        pytest.skip("needs two CPUs")
    cpu = one_cpu()

    def work() -> object:
        waiting = threading.Thread(target=threading.Event().wait, daemon=True)
        waiting.start()
        os.sched_setaffinity(0, {cpu})
        return waiting

    with child(work) as pid:
        masks = {thread.tid == pid: thread.allowed for thread in placed(pid).threads}
        assert masks == {True: 1 << cpu, False: every}


@needs.PROC
def test_memory_by_kind() -> None:
    size = 8 << 20

    def work() -> object:
        kept = []
        for flags in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            memory = mmap.mmap(-1, size, flags=flags | mmap.MAP_ANONYMOUS)
            ctypes.memset(ctypes.addressof((ctypes.c_char * size).from_buffer(memory)), 1, size)
            kept.append(memory)
        return kept

    with child(lambda: None) as pid:
        before = sizes(placed(pid))
    with child(work) as pid:
        found = placed(pid)
        after = sizes(found)
    if found.pages is None:
        pytest.skip(found.pages_problem)
    assert after["shared"] - before.get("shared", 0) == size
    assert size <= after["anonymous"] - before["anonymous"] < size + (1 << 20)
    shared = [part for part in found.pages.parts if part.kind == "shared"]
    assert all(part.key for part in shared)
    # The kernel's own sums say the same, but for pages that are being made or given back just then.
    told = dict(found.sizes)
    assert abs(told["shared"] - after["shared"]) <= 1 << 20
    assert abs(told["anonymous"] - after["anonymous"]) <= 1 << 20


def test_what_has_ended_is_left_out() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert read_placed(HERE, pid) is None  # a zombie
    os.waitpid(pid, 0)
    assert read_placed(HERE, pid) is None
    assert list(read_tasks(HERE, [pid])) == []
    assert read_groups(HERE, pid) == ()
    assert not variable_of(HERE, pid, "HOME")


@needs.PROC
def test_a_first_thread_that_has_ended_before_the_others() -> None:
    """What a program does whose main thread calls ``pthread_exit``."""
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=lambda: (print('go', flush=True), time.sleep(3600))).start()\n"
        "ctypes.CDLL(None).syscall(60 if __import__('os').uname().machine == 'x86_64' else 93, 0)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout
            running.stdout.readline()
            until(lambda: all(thread.tid != running.pid for thread in placed(running.pid).threads), "its end")
            found = placed(running.pid)
            assert len(found.threads) == 1
            assert found.pages is None or sizes(found)["anonymous"] > 1 << 20
        finally:
            running.kill()


@needs.PROC
def test_processes_that_come_and_go_never_break_it() -> None:
    """Short-lived processes and threads, read while they live and die."""
    code = "import threading, os\nfor _ in range(40):\n t=threading.Thread(target=int); t.start(); os.waitpid(os.spawnlp(os.P_NOWAIT,'true','true'),0); t.join()"
    with subprocess.Popen([sys.executable, "-c", code]) as running:
        seen = 0
        while running.poll() is None:
            found = read_placed(HERE, running.pid)
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
            for pid in children.read_text().split() if children.exists() else ():
                read_placed(HERE, int(pid))
            seen += found is not None
    assert running.returncode == 0
    assert seen


def test_a_thread_of_the_kernel() -> None:
    found = read_placed(HERE, 2)
    if found is None or found.name != "kthreadd":
        pytest.skip("no kernel threads are seen from here")
    assert found.kernel
    assert found.pages
    assert not found.pages.parts


@needs.PROC
def test_no_rights() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            found = placed(os.getppid())
            told = [found.pages is None, found.pages_problem, found.devices_problem, str(len(found.threads))]
            os.write(writing, "\n".join(map(str, told)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    told = os.read(reading, 4096).decode().splitlines()
    os.close(reading)
    os.waitpid(pid, 0)
    assert told == [
        "True",
        "its pages cannot be read: Permission denied",
        "its open files cannot be read: Permission denied",
        str(len(list(Path("/proc/self/task").iterdir()))),
    ]


def test_variables_and_free_memory() -> None:
    with subprocess.Popen(["sleep", "3600"], env={"NUMAWISE_HOLD": "b2345", "X": ""}) as running:
        try:
            names = ("NUMAWISE_HOLD", "X", "NUMAWISE")
            found = [variable_of(HERE, running.pid, name) for name in names]
        finally:
            running.kill()
    assert found in (["b2345", "", ""], ["", "", ""])  # the second: not yet executed
    free = read_free([0, 99], HERE)
    assert set(free) <= {0}


# --- a recorded CUDA program -------------------------------------------------------------------


def recorded(root: Path) -> Path:
    tree: dict[str, str | bytes | None] = {
        f"proc/{CUDA_PID}/{name}": (RECORDED / name).read_bytes()
        for name in ("numa_maps", "maps", "stat", "status")
    }
    tree[f"proc/{CUDA_PID}/task/{CUDA_PID}/stat"] = (RECORDED / "stat").read_bytes()
    tree[f"proc/{CUDA_PID}/task/{CUDA_PID}/status"] = (RECORDED / "status").read_bytes()
    for line in (RECORDED / "fd.txt").read_text().splitlines():
        number, _, target = line.partition(" ")
        tree[f"proc/{CUDA_PID}/fd/{number}"] = f"-> {target}"
    return grow(root, tree)


def test_recorded_cuda_program(tmp_path: Path) -> None:
    found = placed(CUDA_PID, recorded(tmp_path))
    assert found.devices == ("/dev/nvidia0",)
    assert (found.name, found.start, format_ids(found.mems)) == ("python3", 2519, "0")
    total = sizes(found)
    assert total["shared"] >= 256 << 20  # what CUDA pinned lies in a shared mapping of /dev/zero
    assert total["anonymous"] >= 128 << 20
    assert total["driver"] > 60 << 20
    assert total["file"] < 32 << 20
    assert found.pages
    assert found.pages.garbled == 0


# --- made-up trees -------------------------------------------------------------------------------


def test_a_process_of_a_tree(tmp_path: Path) -> None:
    tree = process(40, threads="0-3 0-7") | {
        "proc/40/numa_maps": "1000 default anon=4 dirty=4 N0=1 N1=3 kernelpagesize_kB=4",
        "proc/40/cgroup": "0::/numawise/b2345",
        "proc/40/fd/3": "-> /dev/dri/renderD129",
        "proc/40/fd/4": "-> /dev/nvidia10",
        "proc/40/fd/5": "-> /dev/nvidia9",
        "proc/40/fd/6": "-> /dev/nvidia-uvm",
        "proc/40/fd/7": "-> socket:[1]",
        "proc/40/fd/8": "-> /dev/kfd",
    }
    found = placed(40, grow(tmp_path, tree))
    assert found.devices == ("/dev/dri/renderD129", "/dev/kfd", "/dev/nvidia9", "/dev/nvidia10")
    assert [(thread.tid, format_ids(thread.allowed)) for thread in found.threads] == [
        (40, "0-3"),
        (41, "0-7"),
    ]
    assert (found.uid, found.start, found.swapped) == (1000, 77, 12 << 10)
    assert found.groups == ("/numawise/b2345",)
    assert found.sizes == (
        ("anonymous", 2000 << 10),
        ("huge", 2048 << 10),
        ("shared", 100 << 10),
        ("file", 900 << 10),
    )
    assert sizes(found) == {"anonymous": 16 << 10}


def test_a_kernel_without_numa_maps(tmp_path: Path) -> None:
    found = placed(40, grow(tmp_path, process(40)))
    assert (found.pages, found.pages_problem) == (None, NO_NUMA)
    assert sum(size for _, size in found.sizes) == 5048 << 10


def test_a_kernel_that_knows_the_whole_only(tmp_path: Path) -> None:
    tree = process(40)
    tree["proc/40/status"] = "Name:\tjob\nVmRSS:\t 3000 kB\nCpus_allowed_list:\t0\nMems_allowed_list:\t0"
    assert placed(40, grow(tmp_path, tree)).sizes == (("anonymous", 3000 << 10),)


@pytest.mark.parametrize("name", ["a b", "(sd-pam)", "x) S 1 (y", "tmux: server", "\ttab", "ünïcode"])
def test_names_with_anything_in_them(tmp_path: Path, name: str) -> None:
    found = placed(40, grow(tmp_path, process(40, name=name)))
    assert (found.name, found.start) == (name, 77)


@pytest.mark.parametrize(("path", "text"), [
    ("proc/40/stat",           "40 (job"),
    ("proc/40/stat",           "40 (job) S 1 2 3"),
    ("proc/40/stat",           STAT.format(pid=40, name="job", state="S", parent="x", flags=0, start=1, cpu=0)),
    ("proc/40/task/40/status", "Cpus_allowed_list:\t0-"),
    ("proc/40/task/40/status", "Name: job"),
])  # fmt: skip
def test_garbled_files(tmp_path: Path, path: str, text: str) -> None:
    assert read_placed(grow(tmp_path, process(40) | {path: text}), 40) is None


@pytest.mark.parametrize(("groups", "wanted", "inside"), [
    (["/numawise/b2345"],             "/sys/fs/cgroup/numawise/b2345",                    True),
    (["/numawise/b2345/init"],        "/sys/fs/cgroup/numawise/b2345",                    True),
    (["/numawise/b2345x"],            "/sys/fs/cgroup/numawise/b2345",                    False),
    (["/numawise"],                   "/sys/fs/cgroup/numawise/b2345",                    False),
    (["/other/b2345"],                "/sys/fs/cgroup/numawise/b2345",                    False),
    (["/a/numawise/b2345"],           "/sys/fs/cgroup/unified/a/numawise/b2345",          True),
    (["/x", "/numawise/b2345"],       "/sys/fs/cgroup/cpuset/numawise/b2345:/sys/fs/cgroup/memory/numawise/b2345", True),
    (["/user.slice/u/numawise-b.scope"], "numawise-b.scope",                              True),
    (["/user.slice/u/numawise-b.scope"], "/user.slice/u/numawise-b.scope",                True),
    (["/user.slice/v/numawise-b.scope"], "/user.slice/u/numawise-b.scope",                False),
    (["/user.slice/u/numawise-b.scope/x"], "numawise-b.scope",                            True),
    ([],                              "/sys/fs/cgroup/numawise/b2345",                    False),
    (["/"],                           "/sys/fs/cgroup/numawise/b2345",                    False),
    (["/numawise/b2345"],             "",                                                 False),
])  # fmt: skip
def test_in_group(groups: list[str], wanted: str, inside: bool) -> None:  # noqa: FBT001
    assert in_group(groups, wanted) is inside


ID = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


@pytest.mark.parametrize(("group", "container"), [
    (f"/docker/{ID}",                                         ID),
    (f"/system.slice/docker-{ID}.scope",                      ID),
    (f"/machine.slice/libpod-{ID}.scope/container",           ID),
    (f"/kubepods/burstable/pod1/{OTHER}/docker/{ID}",         ID),
    (f"/user.slice/nerdctl-{ID}.scope",                       ID),
    ("/system.slice/ssh.service",                             ""),
])  # fmt: skip
def test_containers(group: str, container: str) -> None:
    assert container_of(["/x", group]) == container
    assert in_container([group], ID) is bool(container)
    assert in_container([group], ID[:12]) is bool(container)
    assert not in_container([group], "")
    assert not in_container([group], "f" * 64)


def test_groups_of_several_hierarchies(tmp_path: Path) -> None:
    text = "9:name=systemd:/\n3:cpuset,cpu:/a:b/c\n2:memory:/a:b/c\n0::/\nodd"
    assert read_groups(grow(tmp_path, {"proc/7/cgroup": text}), 7) == ("/a:b/c",)

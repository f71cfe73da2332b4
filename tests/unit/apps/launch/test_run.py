"""The life of a job without a kernel: decided, planned, carried out and given back below a folder.

The folder plays control groups version 2: it fills groups that are made, lets processes enter, and refuses what a test
wants refused.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.holds import Holdings, Taken
from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.run import Job, _start, take_patiently
from numawise.errors import HostError
from numawise.host import confine, jobgroup, plan
from numawise.host.child import NOT_FOUND, CannotStart
from numawise.host.plan import Itself
from numawise.ledger.file import user_name
from numawise.ledger.store import Ledger
from numawise.machine.synthetic import synthetic
from numawise.results.placement import Hold, JobStarted, NoRoom, Owner

PID, OTHER = 4_000_001, 4_000_002
MACHINE = "2s 2n 8c 1t 64g"
TOP = "sys/fs/cgroup"
GIB = 1 << 30


class Kernel:
    """What the kernel does with control groups and masks, done to files."""

    def __init__(self, root: Path) -> None:
        self.root, self.top = root, root / TOP
        self.refuses = ""
        """Writes to files of this name are refused."""
        self.deaf = False
        """Entering a group has no effect."""
        for path, text in {
            "proc/self/mountinfo": "33 24 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "proc/self/cgroup": "0::/\n",
            f"{TOP}/cgroup.controllers": "cpuset cpu memory\n",
            f"{TOP}/cgroup.subtree_control": "cpuset cpu memory\n",
            f"{TOP}/cgroup.procs": "1\n",
            f"{TOP}/cpuset.cpus.effective": "0-7\n",
            f"{TOP}/cpuset.mems.effective": "0-1\n",
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)

    def process(self, pid: int) -> None:
        """A process begins."""
        folder = self.root / f"proc/{pid}"
        (folder / f"task/{pid}").mkdir(parents=True)
        for place in (folder, folder / f"task/{pid}"):
            (place / "stat").write_text(f"{pid} (job) S 1 {pid} {pid} 0 -1 0 {'0 ' * 11} 0 4711 0 0\n")
        (folder / "cgroup").write_text("0::/\n")
        self.allow(pid, "0-7", "0-1")

    def allow(self, pid: int, cpus: str, mems: str) -> None:
        (self.root / f"proc/{pid}/status").write_text(
            f"Uid:\t0\t0\t0\t0\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{mems}\n"
        )

    def end(self, pid: int) -> None:
        """A process ends."""
        shutil.rmtree(self.root / f"proc/{pid}")
        for group in self.groups():
            self.enter(group, "")

    def enter(self, group: Path, pid: str) -> None:
        (group / "cgroup.procs").write_text(f"{pid}\n" if pid else "")
        (group / "cgroup.events").write_text(f"populated {int(bool(pid))}\n")

    def groups(self) -> list[Path]:
        """Those of jobs."""
        return [path for path in (self.top / "numawise").glob("*") if path.is_dir()]

    # --- system calls ---

    def mkdir(self, path: str | Path, *more: int) -> None:
        os_mkdir(path, *more)
        if Path(path).is_relative_to(self.top):
            for file in ("cgroup.subtree_control", "cpuset.cpus", "cpuset.mems", "memory.max", "cpu.max"):
                (Path(path) / file).write_text("\n")
            (Path(path) / "cgroup.controllers").write_text("cpuset cpu memory\n")
            self.enter(Path(path), "")

    def rmdir(self, path: str | Path, **more: int) -> None:
        if Path(path).is_relative_to(self.top):
            if (Path(path) / "cgroup.procs").read_text().strip():
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
            for file in Path(path).iterdir():
                file.unlink()
        os_rmdir(path, **more)

    def write(self, path: str, text: str) -> None:
        file = Path(path)
        if file.name == self.refuses:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if file.name != "cgroup.procs":
            file.write_text(f"{text}\n")
            return
        if file.parent == self.top:
            for group in self.groups():
                self.enter(group, "")
            self.allow(int(text), "0-7", "0-1")
            return
        self.enter(file.parent, text)
        if not self.deaf:
            self.allow(
                int(text),
                *((file.parent / f"cpuset.{name}").read_text().strip() or "0-7" for name in ("cpus", "mems")),
            )

    def sched_setaffinity(self, pid: int, cpus: Sequence[int]) -> None:
        allowed = sorted(set(cpus) & set(range(8)))
        self.allow(pid, ",".join(map(str, allowed)), "0-1")


os_mkdir, os_rmdir = os.mkdir, os.rmdir


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(tmp_path / "root")
    for module in (plan, jobgroup):
        monkeypatch.setattr(module, "write", made.write)
    for call in ("mkdir", "rmdir", "sched_setaffinity"):
        monkeypatch.setattr(os, call, getattr(made, call))
    for pid in (PID, OTHER):
        made.process(pid)
    return made


@pytest.fixture
def holdings(kernel: Kernel, tmp_path: Path) -> Iterator[Holdings]:
    capacity = capacity_of(synthetic(MACHINE), "none")
    with Ledger.open(tmp_path / "ledger.db", "m" * 32) as ledger:
        yield Holdings(ledger, capacity, Owner(os.geteuid(), user_name(os.geteuid()), "boot"), kernel.root)


class Child:
    """A process that waits to become the job."""

    def __init__(self, kernel: Kernel, pid: int = PID, refuses: str = "") -> None:
        self.kernel, self.pid, self.refuses, self.did = kernel, pid, refuses, ""
        self.itself, self.environment = Itself(), {"": ""}

    def exec(self, itself: Itself, environment: Mapping[str, str], _: Sequence[str] | None = None) -> None:
        if self.refuses:
            raise CannotStart(self.refuses, NOT_FOUND)
        self.did, self.itself, self.environment = "exec", itself, dict(environment)

    def abort(self) -> None:
        self.did = "abort"
        self.kernel.end(self.pid)

    def ended(self) -> bool:
        return False


def job(holdings: Holdings, mode: str = "", **request: int | str) -> Job:
    return Job(JobRequest(name="", **request), ("train",), mode=mode, root=holdings.root)  # type: ignore[arg-type]


def started(
    holdings: Holdings, asked: Job, child: Child, on_started: Callable[[JobStarted], None] = lambda _: None
) -> Hold:
    taken = take_patiently(holdings, asked, child.pid, lambda _: None)
    assert isinstance(taken, Taken), taken
    return _start(asked, holdings, taken, child, on_started).hold  # type: ignore[arg-type]


@pytest.mark.parametrize(("policy", "narrow"), [
    pytest.param({},                                 "",  id="preferred unless said otherwise"),
    pytest.param({"memory_policy": "interleave"},    "",  id="interleaved"),
    pytest.param({"memory_policy": "bind"},          "0", id="bound on request"),
    pytest.param({"policy": "restricted"},           "0", id="bound under a policy that promises it"),
    pytest.param({"policy": "single-numa-node", "memory_policy": "preferred"}, "", id="preferred on request"),
])  # fmt: skip
def test_only_bound_memory_narrows_the_cpuset(
    kernel: Kernel, holdings: Holdings, policy: dict[str, str], narrow: str
) -> None:
    """A narrow cpuset.mems is strict whatever the memory policy says, so a policy that spills has none."""
    child = Child(kernel)
    hold = started(holdings, job(holdings, cpus=2000, memory=4 * GIB, **policy), child)
    (group,) = kernel.groups()
    assert (group / "cpuset.mems").read_text().strip() == narrow
    assert (group / "memory.max").read_text().strip() == str(4 * GIB)
    granted = "bind" if narrow else policy.get("memory_policy", "preferred")
    assert hold.grant.memory_policy == granted
    assert child.itself == (Itself() if narrow else Itself(0, 1, hold.grant.memory_policy))
    assert holdings.ledger.holds() == (hold,)


def test_to_prefer_every_node_is_to_prefer_none(kernel: Kernel, holdings: Holdings) -> None:
    child = Child(kernel)
    started(holdings, job(holdings, cpus=500), child)
    assert child.itself == Itself()


def test_a_whole_life(kernel: Kernel, holdings: Holdings) -> None:
    child, seen = Child(kernel), list[JobStarted]()
    asked = job(holdings, cpus=2000, memory=4 * GIB, memory_policy="bind")
    hold = started(holdings, asked, child, seen.append)
    assert hold.mode == confine.CGROUP_V2
    assert holdings.live() == (hold,)
    (group,) = kernel.groups()
    assert hold.group == str(group)
    files = ("cpuset.cpus", "cpuset.mems", "memory.max", "cgroup.procs")
    assert [(group / name).read_text().strip() for name in files] == ["0-1", "0", str(4 * GIB), str(PID)]
    assert confine.prove(PID, kernel.root) == (0b11, 1)
    assert child.did == "exec"
    assert {name: child.environment[f"NUMAWISE_{name}"] for name in ("CPUS", "HOLD", "MODE")} == {
        "CPUS": "0-1", "HOLD": hold.id, "MODE": confine.CGROUP_V2,
    }  # fmt: skip
    assert [one.hold for one in seen] == [hold]
    asked.finish(holdings, hold, 0)
    assert holdings.ledger.holds() == (hold,), "something of it still runs"
    kernel.end(PID)
    asked.finish(holdings, hold, 0)
    assert (holdings.ledger.holds(), kernel.groups()) == ((), [])


@pytest.mark.parametrize("at", ["cpuset.cpus", "cpuset.mems", "memory.max", "cgroup.procs", "proof"])
def test_a_failure_on_the_way_leaves_nothing(kernel: Kernel, holdings: Holdings, at: str) -> None:
    kernel.refuses, kernel.deaf = at, at == "proof"
    child = Child(kernel)
    words = "but may use" if at == "proof" else rf"cannot write '.*' to .*/{at}: Invalid argument"
    with pytest.raises(HostError, match=words):
        started(holdings, job(holdings, "cgroup", cpus=2000, memory=GIB, memory_policy="bind"), child)
    assert child.did == "abort"
    assert (holdings.ledger.holds(), kernel.groups()) == ((), [])


def test_affinity_takes_the_place_of_a_group_that_fails(kernel: Kernel, holdings: Holdings) -> None:
    kernel.refuses = "cpuset.cpus"
    child, seen = Child(kernel), list[JobStarted]()
    hold = started(holdings, job(holdings, cpus=2000), child, seen.append)
    assert (hold.mode, hold.group, kernel.groups()) == (confine.AFFINITY, "", [])
    assert holdings.ledger.holds() == (hold,)
    assert child.itself.cpus == 0b11
    assert confine.prove(PID, kernel.root)[0] == 0b11
    assert any("Bound by affinity: cgroup v2 failed" in remark for remark in seen[0].remarks)


@pytest.mark.parametrize("at", ["exec", "on_started"])
def test_a_job_that_does_not_start_gives_back(kernel: Kernel, holdings: Holdings, at: str) -> None:
    def interrupted(_: JobStarted) -> None:
        if at == "on_started":
            raise KeyboardInterrupt

    child = Child(kernel, refuses="train: command not found" if at == "exec" else "")
    with pytest.raises(CannotStart if at == "exec" else KeyboardInterrupt):
        started(holdings, job(holdings, cpus=2000), child, interrupted)
    assert child.did == "abort"
    assert (holdings.ledger.holds(), kernel.groups()) == ((), [])


def test_no_room_makes_nothing(kernel: Kernel, holdings: Holdings) -> None:
    hold = started(holdings, job(holdings, cpus=6000), Child(kernel))
    refused = take_patiently(holdings, job(holdings, cpus=4000), OTHER, lambda _: None)
    assert isinstance(refused, NoRoom)
    assert (holdings.ledger.holds(), len(kernel.groups())) == ((hold,), 1)


def test_the_shared_pool_follows(kernel: Kernel, holdings: Holdings) -> None:
    """A job without CPUs of its own leaves those that another one gets, and has them again afterwards."""
    shared = started(holdings, job(holdings), Child(kernel, OTHER))
    pool = Path(shared.group) / "cpuset.cpus"
    assert pool.read_text().strip() == "0-7"
    asked = job(holdings, cpus=2000)
    hold = started(holdings, asked, Child(kernel))
    assert pool.read_text().strip() == "2-7"
    holdings.end(hold, even_alive=True)
    assert pool.read_text().strip() == "0-7"


def test_the_dead_are_reaped_by_the_next(kernel: Kernel, holdings: Holdings) -> None:
    started(holdings, job(holdings, cpus=8000), Child(kernel))
    kernel.end(PID)
    hold = started(holdings, job(holdings, cpus=8000), Child(kernel, OTHER))
    assert holdings.ledger.holds() == (hold,)
    assert [str(group) for group in kernel.groups()] == [hold.group]

"""Jobs bound on this machine's kernel: control groups of version 1 and affinity, as root and as nobody special.

Version 2, several NUMA nodes and systemd are in ``tests/vm``.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests import needs
from tests.jobs import Job, as_user, become, in_child, without_calls

from numawise.errors import HostError
from numawise.host import cgroup, confine, mempolicy, processes
from numawise.host import jobgroup as groups
from numawise.host.plan import Prove, Write, remove_folder
from numawise.sets import bits_of, format_ids

MIB = 1 << 20
USER = 1000
OPEN = {mode.name for mode in confine.modes() if not mode.problem}
CPUS, MEMS = confine.allowed()
ONE, OTHER = CPUS & -CPUS, CPUS & CPUS - 1 and 1 << CPUS.bit_length() - 1
NAME = f"test-{os.getpid()}"

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
version_1 = pytest.mark.skipif(
    confine.CGROUP_V1 not in OPEN, reason="needs control groups version 1 and root"
)
pytestmark = [needs.PROC, pytest.mark.skipif(not OTHER, reason="needs two CPUs")]
every_mode = pytest.mark.parametrize("mode", [
    pytest.param(confine.SYSTEMD,   marks=pytest.mark.skipif(confine.SYSTEMD not in OPEN, reason="needs systemd")),
    pytest.param(confine.CGROUP_V2, marks=pytest.mark.skipif(confine.CGROUP_V2 not in OPEN, reason="needs version 2")),
    pytest.param(confine.CGROUP_V1, marks=version_1),
    confine.AFFINITY,
])  # fmt: skip


def places(pid: int) -> str:
    """Where a process lives in every hierarchy."""
    return Path(f"/proc/{pid}/cgroup").read_text()


@every_mode
def test_a_job_keeps_to_its_cpus(mode: str) -> None:
    with Job() as job:
        plan = job.bind(mode, NAME, cpus=OTHER, mems=MEMS)
        job.start(plan.itself, threads=3, children=2)
        assert job.tell("thread") == job.tell("child") == "done"
        assert job.masks() == {OTHER}
        assert job.seen_on() == OTHER
        assert job.share_on(MEMS) == 1
        assert confine.prove(job.pid) == (OTHER, MEMS)
        assert plan.remarks == ()
        members = confine.members(mode, plan.group)
        assert set(members) == (set(job.family()) if plan.group else set())
    assert not any(Path(folder).exists() for folder in groups.folders_of(plan.group) if plan.group)


@every_mode
def test_the_pool_changes_under_a_job(mode: str) -> None:
    with Job() as job:
        plan = job.bind(mode, NAME, cpus=CPUS)
        job.start(plan.itself, threads=3, children=2)
        for cpus in (ONE, CPUS, OTHER, CPUS):
            confine.change_cpus(mode, plan.group, job.family(), cpus)
            job.tell("thread")
            assert job.masks() == {cpus}


@every_mode
def test_what_the_launcher_was_bound_to_does_not_count(mode: str) -> None:
    def look() -> tuple[set[int], str]:
        os.sched_setaffinity(0, {ONE.bit_length() - 1})
        mempolicy.bind_memory(MEMS)
        with Job() as job:
            plan = job.bind(mode, NAME, cpus=CPUS)
            job.start(plan.itself)
            policies = {
                line.split()[1] for line in Path(f"/proc/{job.pid}/numa_maps").read_text().splitlines()
            }
            return job.masks(), policies.pop()

    assert in_child(look) == ({CPUS}, "default")


def test_processes_that_are_born_meanwhile() -> None:
    with Job() as job:
        job.start(job.bind(confine.AFFINITY, NAME, cpus=CPUS).itself, children=1)
        asked = []

        def family() -> tuple[int, ...]:
            found = job.family()
            asked.append(len(found))
            if len(asked) < 3:
                job.tell("child")  # not in what was found
            return found

        confine.change_cpus(confine.AFFINITY, "", family, ONE)
        assert asked == [2, 3, 4, 4]
        assert job.masks() == {ONE}


def test_affinity_binds_memory_too() -> None:
    with Job() as job:
        plan = job.bind(confine.AFFINITY, NAME, cpus=ONE, mems=MEMS)
        job.start(plan.itself)
        policies = {line.split()[1] for line in Path(f"/proc/{job.pid}/numa_maps").read_text().splitlines()}
        assert policies == {f"bind:{format_ids(MEMS)}"}


@version_1
def test_memory_limit() -> None:
    with Job() as job:
        plan = job.bind(confine.CGROUP_V1, NAME, cpus=CPUS, memory=48 * MIB)
        job.start(plan.itself, mebibytes=1, threads=0, children=0)
        assert job.tell("fill 16") == "done"
        assert job.tell("fill 64") == ""
        status = job.reap()
    assert os.WTERMSIG(status) == signal.SIGKILL


@version_1
def test_cpu_limit() -> None:
    with Job() as job:
        plan = job.bind(confine.CGROUP_V1, NAME, cpu_limit=200)
        job.start(plan.itself, mebibytes=1, threads=0, children=0)
        assert plan.remarks == ()
        assert job.tell("spin 100") == "done"
        stat = Path(groups.folders_of(plan.group)[-1], "cpu.stat").read_text()
        assert int(dict(line.split() for line in stat.splitlines())["nr_throttled"]) > 0


@root
def test_a_user_without_rights() -> None:
    def look() -> tuple[set[str], set[int], float]:
        names = {mode.name for mode in confine.modes() if not mode.problem}
        with Job() as job:
            plan = job.bind(confine.choose(), NAME, cpus=OTHER, mems=MEMS)
            job.start(plan.itself)
            return names, job.masks(), job.share_on(MEMS)

    assert as_user(USER, look) == ({confine.AFFINITY}, {OTHER}, 1.0)


@contextmanager
def folder_of_a_user() -> Iterator[Path]:
    """A control group that a user may do with what he likes, as an administrator would make it."""
    home = cgroup.home_of("cpuset")
    assert home
    folder = Path(home.own, f"{NAME}-user")
    folder.mkdir()
    for file in ("cpuset.cpus", "cpuset.mems"):
        (folder / file).write_text(Path(home.own, file).read_text())
    for file in (folder, *folder.iterdir()):
        os.chown(file, USER, USER)
    try:
        yield folder
    finally:
        remove_folder(str(folder))


@version_1
@root
def test_a_user_with_a_group_of_his_own() -> None:
    with folder_of_a_user() as folder:

        def enter() -> None:
            (folder / "cgroup.procs").write_text("0")
            become(USER)

        def look() -> tuple[str, set[int], tuple[str, ...]]:
            with Job() as job:
                plan = job.bind(confine.choose(), NAME, cpus=OTHER, mems=MEMS, memory=64 * MIB)
                job.start(plan.itself)
                return plan.group, job.masks(), plan.remarks

        group, masks, remarks = in_child(look, enter)
    assert group == f"{folder}/numawise/{NAME}"
    assert masks == {OTHER}
    assert remarks == ("The memory limit is not enforced: there is no memory controller for it here.",)


@version_1
def test_a_job_of_a_job() -> None:
    """Whoever lives in a group of ours makes groups below it."""
    with Job() as outer:
        plan = outer.bind(confine.CGROUP_V1, NAME, cpus=OTHER, mems=MEMS)
        folder = groups.folders_of(plan.group)[0]

        def enter() -> None:
            Path(folder, "cgroup.procs").write_text("0")

        def look() -> tuple[str, tuple[int, int], str]:
            with Job() as job:
                inner = job.bind(confine.CGROUP_V1, "inner")
                refused = refusal(confine.CGROUP_V1, cpus=ONE)
                return inner.group, confine.prove(job.pid), refused

        group, proved, refused = in_child(look, enter)
    assert group == f"{folder}/numawise/inner"
    assert proved == (OTHER, MEMS)
    assert refused.startswith(f"CPUs {format_ids(ONE)} are outside of the cpuset that numawise runs in")


def refusal(mode: str, **limits: object) -> str:
    with pytest.raises(HostError) as caught:
        confine.plan(mode, NAME, os.getpid(), **limits)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(("mode", "limits", "said"), [
    ("affinity",  {"cpus": 1 << 900},              "CPUs 900 are outside of the cpuset that numawise runs in; it may use"),
    ("affinity",  {"mems": 1 << 900},              "NUMA node 900 has no memory; nodes with memory are"),
    ("affinity",  {"cpus": ONE, "isolate": "root"}, "CPUs cannot be isolated by affinity; run it as root"),
    ("affinity",  {"isolate": "root"},             "only CPUs of its own can be isolated; ask for whole CPUs"),
])  # fmt: skip
def test_refusals(mode: str, limits: dict[str, object], said: str) -> None:
    assert refusal(mode, **limits).startswith(said)


@version_1
def test_version_1_isolates_nothing() -> None:
    assert refusal(confine.CGROUP_V1, cpus=ONE, isolate="root").startswith(
        "CPUs cannot be isolated: that needs control groups version 2"
    )


@pytest.mark.parametrize(("wanted", "said"), [
    ("slurm",   "unknown way to bind a job 'slurm'; use systemd, cgroup, affinity"),
    pytest.param("systemd", "jobs cannot be kept in a scope here: systemd does not manage this host; leave out --mode",
                 marks=pytest.mark.skipif(Path("/run/systemd/system").exists(), reason="systemd is in charge")),
])  # fmt: skip
def test_a_way_that_is_not_open(wanted: str, said: str) -> None:
    with pytest.raises(HostError) as caught:
        confine.choose(wanted)
    assert str(caught.value).startswith(said)


@root
def test_a_user_who_wants_a_control_group() -> None:
    with pytest.raises(HostError) as caught:
        as_user(USER, lambda: confine.choose("cgroup"))
    assert str(caught.value).startswith("jobs cannot be kept in a control group here: cgroup v2: ")
    missing = "no control group file system with the cpuset controller is mounted"
    refused = f"user {USER} may not write to " if cgroup.home_of("cpuset") else missing
    assert refused in str(caught.value)


@version_1
@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
def test_a_container_with_control_groups_that_are_read_only() -> None:
    code = "from numawise.host import confine; print(confine.choose(), *[mode.problem for mode in confine.modes()], sep='\\n')"
    home = cgroup.home_of("cpuset")
    assert home
    script = f'mount -o remount,bind,ro {home.top} && exec "$0" -c "$1"'
    command = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", script, sys.executable, code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "mount" in done.stderr:
        pytest.skip("may not mount here")
    said = done.stdout.splitlines()
    assert said[0] == confine.AFFINITY, done.stderr
    assert said[3].endswith(" is mounted read-only")


@version_1
@pytest.mark.parametrize("at", ["cpuset.cpus", "cgroup.procs", "proof"])
def test_a_failure_leaves_nothing_behind(at: str) -> None:
    with Job() as job:
        before = places(job.pid), confine.prove(job.pid)
        plan = confine.plan(confine.CGROUP_V1, NAME, job.pid, cpus=ONE, mems=MEMS, memory=64 * MIB)
        steps = list(plan.steps)
        for number, step in enumerate(steps):
            if isinstance(step, Write) and step.path.endswith(f"{NAME}/{at}"):
                steps[number] = replace(step, text="900")
            if isinstance(step, Prove) and at == "proof":
                steps[number] = replace(step, cpus=CPUS)
        with pytest.raises(HostError, match=r"cannot write '900' to|but may use"):
            confine.carry_out(replace(plan, steps=tuple(steps)))
        assert (places(job.pid), confine.prove(job.pid)) == before
        assert not any(Path(folder).exists() for folder in groups.folders_of(plan.group))


@version_1
def test_a_name_that_is_taken() -> None:
    with Job() as job, Job() as other:
        plan = job.bind(confine.CGROUP_V1, NAME, cpus=ONE)
        with pytest.raises(HostError, match="exists already"):
            other.bind(confine.CGROUP_V1, NAME, cpus=OTHER)
        assert confine.members(confine.CGROUP_V1, plan.group) == (job.pid,)
        assert confine.prove(job.pid)[0] == ONE


@version_1
def test_a_process_that_has_ended() -> None:
    job = Job()
    plan = confine.plan(confine.CGROUP_V1, NAME, job.pid, cpus=ONE)
    job.end()
    with pytest.raises(HostError, match="No such process; the process has ended"):
        confine.carry_out(plan)
    assert not Path(groups.folders_of(plan.group)[0]).exists()


@version_1
def test_falling_back_to_affinity() -> None:
    """A way that looked open and failed is followed by affinity, unless it was asked for by name."""
    home = cgroup.home_of("cpuset")
    assert home
    taken = Path(home.own, "numawise", NAME)
    taken.mkdir(parents=True, exist_ok=True)
    try:
        with Job() as job:
            plan = confine.put("", NAME, job.pid, cpus=ONE, mems=MEMS)
            assert plan.mode == confine.AFFINITY
            assert plan.remarks[0].startswith(f"Bound by affinity: cgroup v1 failed ({taken} exists already")
            assert confine.prove(job.pid)[0] == ONE
        with Job() as job, pytest.raises(HostError, match="exists already"):
            confine.put("cgroup", NAME, job.pid, cpus=ONE)
    finally:
        taken.rmdir()


@every_mode
def test_leaving(mode: str) -> None:
    """A program that goes on is where it was before, mask and all."""

    def look() -> tuple[object, ...]:
        pid = os.getpid()
        os.sched_setaffinity(0, {ONE.bit_length() - 1})
        before = places(pid), confine.prove(pid), mempolicy.read_mempolicy()
        plan = confine.put(
            {confine.AFFINITY: "affinity", confine.SYSTEMD: "systemd"}.get(mode, "cgroup"),
            NAME,
            pid,
            cpus=OTHER,
            mems=MEMS,
        )
        policy = confine.settle(plan.itself)
        inside = confine.prove(pid)
        confine.leave(plan)
        mempolicy.set_mempolicy(policy.mode, policy.nodes, policy.flags)
        after = places(pid), confine.prove(pid), mempolicy.read_mempolicy()
        return plan.mode, inside, before == after

    assert in_child(look) == (mode, (OTHER, MEMS), True)


@version_1
def test_groups_that_were_left_behind() -> None:
    mode = confine.CGROUP_V1
    with Job() as job:
        plan = job.bind(mode, NAME, cpus=ONE, memory=64 * MIB)
        assert confine.populated(mode, plan.group)
        assert not confine.tear_down(mode, plan.group)
        made = groups.changed(plan.group)
        assert plan.group not in confine.stale([], made + 60)
        job.group = ""
    assert plan.group in confine.stale([], made + 60)
    assert plan.group not in confine.stale([], made + 59), "it may be in the making"
    assert plan.group not in confine.stale([plan.group], made + 60)
    assert confine.tear_down(mode, plan.group)
    assert plan.group not in confine.stale([], made + 60)
    assert confine.tear_down(mode, plan.group), "what is gone is fine"
    assert not confine.populated(mode, plan.group)
    with pytest.raises(HostError, match="is gone; its job has ended"):
        confine.change_cpus(mode, plan.group, (), ONE)


@version_1
def test_groups_that_the_job_made_itself() -> None:
    with Job() as job:
        plan = job.bind(confine.CGROUP_V1, NAME, cpus=CPUS)
        folder = Path(groups.folders_of(plan.group)[0])
        inner = folder / "inner"
        inner.mkdir()
        for file in ("cpuset.cpus", "cpuset.mems"):
            (inner / file).write_text((folder / file).read_text())
        (inner / "cgroup.procs").write_text(str(job.pid))
        assert confine.members(job.mode, plan.group) == (job.pid,)
        assert not confine.tear_down(job.mode, plan.group)
    assert not folder.exists()


@version_1
def test_killing_all_of_a_job() -> None:
    with Job() as job:
        plan = job.bind(confine.CGROUP_V1, NAME, cpus=CPUS)
        job.start(plan.itself, children=3)
        family = job.family()
        # The kernel counts a child as there until its parent asks, so somebody must.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with suppress(ChildProcessError):
            confine.kill(job.mode, plan.group)
        assert not [
            pid for pid in family if (found := processes.read_process(pid)) and found.state not in "ZX"
        ]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter is made for one processor")
def test_memory_that_may_not_be_bound() -> None:
    def look() -> tuple[int, int, tuple[str, ...]]:
        with Job() as job:
            plan = job.bind(confine.AFFINITY, NAME, cpus=ONE, mems=MEMS, memory=MIB, cpu_limit=500)
            job.start(plan.itself)
            return plan.itself.mems, job.masks().pop(), plan.remarks

    mems, cpus, remarks = in_child(look, without_calls(238))
    assert (mems, cpus) == (0, ONE)
    assert [remark.partition(":")[0] for remark in remarks] == [
        f"Memory is not bound to NUMA nodes {format_ids(MEMS)}",
        "The memory limit is not enforced",
        "The CPU limit is not enforced",
    ]
    assert "SYS_NICE" in remarks[0]


def test_where_we_live() -> None:
    cpus, mems = confine.allowed()
    assert not bits_of(os.sched_getaffinity(0)) & ~cpus
    assert mems
    with pytest.raises(HostError, match="there is no process"):
        confine.prove(1 << 29)
    with pytest.raises(ValueError, match="cannot name"):
        confine.plan(confine.AFFINITY, "../x", 0)

"""Checks of the host layer: a job stays on its CPUs and NUMA nodes, in every mode that the guest has."""

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

from numawise.errors import HostError
from numawise.host import confine, jobgroup, mempolicy, processes
from numawise.host.plan import remove_folder
from numawise.sets import bits_of, format_ids, ids_of
from tests.jobs import Job, as_user, become, in_child
from tests.vm.guest import CGROUP, USER, Guest, Place, Skip

ENOUGH = 0.98
MIB = 1 << 20
LOOKS = 5
NEW_CGROUP, NEW_MOUNTS = 0x02000000, 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2


def stays_on_its_place(mode: str, place: Place, **limits: int) -> str:
    """Bind a job before it starts: every thread on its CPUs, its pages on its nodes, new ones too."""
    with Job() as job:
        plan = job.bind(mode, "placed", cpus=place.cpus, mems=place.mems, **limits)
        job.start(plan.itself, mebibytes=6, threads=3, children=2)
        job.tell("thread")
        job.tell("child")
        job.tell("touch 4")
        seen = 0
        for _ in range(LOOKS):
            job.tell("spin 20")
            seen |= job.seen_on()
        assert job.masks() == {place.cpus}, f"masks {sorted(map(format_ids, job.masks()))}"
        assert not seen & ~place.cpus, f"ran on {format_ids(seen)} instead of {format_ids(place.cpus)}"
        share = job.share_on(place.mems)
        assert share >= ENOUGH, f"{share:.1%} of {job.pages()} on {place}"
        if plan.group:
            assert set(confine.members(mode, plan.group)) == set(job.family())
        return f"{place} {share:.1%} of {sum(job.pages().values())}"


def cgroup_places(guest: Guest) -> str:
    return "; ".join(stays_on_its_place(group_mode(), place) for place in guest.places())


def affinity_places(guest: Guest) -> str:
    return "; ".join(stays_on_its_place(confine.AFFINITY, place) for place in guest.places())


def affinity_places_unprivileged(guest: Guest) -> str:
    def look() -> str:
        assert [mode.name for mode in confine.modes() if not mode.problem] == [confine.AFFINITY]
        return affinity_places(guest)

    return str(as_user(USER, look))


def group_mode() -> str:
    """The mode with control groups that this guest has."""
    return confine.choose("cgroup")


def memory_limit(guest: Guest) -> str:
    """A job that takes more than its limit is ended by the kernel; one within it is not."""
    place = guest.far()
    with Job() as job:
        plan = job.bind(group_mode(), "limited", cpus=place.cpus, mems=place.mems, memory=48 * MIB)
        job.start(plan.itself, mebibytes=1, threads=0, children=0)
        assert job.tell("fill 16") == "done"
        assert not job.tell("fill 64"), "it got more than its limit"
        status = job.reap()
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    return "ended beyond 48 MiB"


def cpu_limit(guest: Guest) -> str:
    """A job with a fraction of a CPU is held back."""
    with Job() as job:
        plan = job.bind(group_mode(), "fraction", cpus=guest.all_cpus, cpu_limit=250)
        job.start(plan.itself, mebibytes=1, threads=0, children=0)
        job.tell("spin 300")
        folder = jobgroup.folders_of(plan.group)[-1]
        stat = dict(line.split() for line in Path(folder, "cpu.stat").read_text().splitlines())
        assert int(stat["nr_throttled"]) > 0, stat
        return f"held back {stat['nr_throttled']} times"


def pool_changes(guest: Guest, mode: str = "") -> str:
    """CPUs taken from and given to a running job reach all its threads, old and new."""
    mode = mode or group_mode()
    few, many = guest.cpus[0], guest.all_cpus
    with Job() as job:
        plan = job.bind(mode, "pool", cpus=many)
        job.start(plan.itself, mebibytes=1, threads=4, children=2)
        told = []
        for cpus in (few, many, many & ~few or many, many):
            confine.change_cpus(mode, plan.group, job.family(), cpus)
            job.tell("thread")
            assert job.masks() == {cpus}, f"{sorted(map(format_ids, job.masks()))} not {format_ids(cpus)}"
            told.append(format_ids(cpus))
        return " → ".join(told)


def pool_changes_by_affinity(guest: Guest) -> str:
    return pool_changes(guest, confine.AFFINITY)


def inherited_binding(guest: Guest) -> str:
    """The mask and memory policy of whoever starts the job do not narrow what it was granted."""
    first = next(node for node in ids_of(guest.with_memory))

    def look() -> str:
        os.sched_setaffinity(0, ids_of(guest.cpus[0]))
        mempolicy.bind_memory(1 << first)
        place = guest.far()
        whole = Place(place.cpus | guest.cpus[0] & -guest.cpus[0], place.mems)
        told = [stays_on_its_place(mode, whole) for mode in (group_mode(), confine.AFFINITY)]
        return "; ".join(told)

    return str(in_child(look))


def failed_binding_is_undone(guest: Guest) -> str:
    """CPUs that are not there: one sentence, and the process is where it was, with no group left."""
    before = confine.prove(os.getpid())
    mode = group_mode()
    with Job() as job:
        where = Path(f"/proc/{job.pid}/cgroup").read_text()
        plan = confine.plan(mode, "broken", job.pid, cpus=guest.cpus[0], mems=guest.with_memory)
        wrong = bits_of([guest.all_cpus.bit_length() + 1])
        steps = tuple(
            type(step)(step.path, format_ids(wrong))
            if getattr(step, "path", "").endswith("broken/cpuset.cpus")
            else step
            for step in plan.steps
        )
        said = refusal_of(lambda: confine.carry_out(type(plan)(mode, plan.group, steps)))
        assert "cpuset.cpus" in said, said
        # Failing at the very end, when the process is in already, brings it back as well.
        late = (*plan.steps[:-1], type(plan.steps[-1])(job.pid, wrong, 0))
        said = refusal_of(lambda: confine.carry_out(type(plan)(mode, plan.group, late)))
        assert Path(f"/proc/{job.pid}/cgroup").read_text() == where
        assert not any(Path(folder).exists() for folder in jobgroup.folders_of(plan.group))
        assert confine.prove(job.pid) == before
        return said


def refusal_of(function: Callable[[], object]) -> str:
    try:
        function()
    except HostError as error:
        return str(error)
    raise AssertionError("it was not refused")


def isolation(guest: Guest) -> str:
    """A job has CPUs alone: nobody else may run on them while it lives, and everybody afterwards."""
    cpus = guest.far().cpus
    everything = (CGROUP / "cpuset.cpus.effective").read_text()
    with Job() as job, Job() as other, Job() as third:
        third.start(third.bind(group_mode(), "third", cpus=guest.all_cpus).itself, children=0)
        mine = job.bind(group_mode(), "alone", cpus=cpus, mems=guest.with_memory, isolate="root")
        other.start(other.bind(confine.AFFINITY, "other").itself, threads=4)
        job.start(mine.itself, threads=4)
        assert job.masks() == {cpus}
        assert other.masks() == third.masks() == {guest.all_cpus & ~cpus}, (other.masks(), third.masks())
        assert "outside of the cpuset" in refusal_of(
            lambda: confine.plan(confine.AFFINITY, "x", 0, cpus=cpus)
        )
        refused = refusal_of(lambda: processes.set_affinity((other.pid,), cpus))
    assert (CGROUP / "cpuset.cpus.effective").read_text() == everything
    return refused


def impossible_isolation(guest: Guest) -> str:
    """All CPUs cannot be made exclusive: the kernel takes the word and calls it invalid."""
    with Job() as job:
        plan = confine.plan(group_mode(), "greedy", job.pid, cpus=guest.all_cpus, isolate="root")
        said = refusal_of(lambda: confine.carry_out(plan))
        assert not Path(plan.group).exists()
        assert "cannot be made exclusive" in said or "cannot write" in said, said
        return said


def no_escape(_: Guest) -> str:
    """Whoever lives under a memory limit starts no jobs outside of it."""
    folder = CGROUP / "box"
    folder.mkdir()
    (folder / "memory.max").write_text(str(200 * MIB))

    def look() -> str:
        (folder / "cgroup.procs").write_text("0")
        said = refusal_of(lambda: confine.choose("cgroup"))
        assert confine.choose() == confine.AFFINITY
        return said

    try:
        return str(in_child(look))
    finally:
        folder.rmdir()


def delegated_subtree(guest: Guest) -> str:
    """A user with a subtree of control groups needs no root."""
    folder = CGROUP / "delegated"
    inner = folder / "session"
    for path in (folder, inner):
        path.mkdir()
        for file in (path, path / "cgroup.procs", path / "cgroup.subtree_control"):
            os.chown(file, USER, USER)

    def enter() -> None:
        (inner / "cgroup.procs").write_text("0")
        become(USER)

    def look() -> str:
        assert confine.choose() == confine.CGROUP_V2
        return "; ".join(stays_on_its_place(confine.CGROUP_V2, place) for place in guest.places()[:2])

    try:
        return str(in_child(look, enter))
    finally:
        remove_folder(str(folder))


def container(guest: Guest) -> str:
    """In namespaces of its own, a container sees its part of the control groups as the whole."""
    folder = CGROUP / "container"
    folder.mkdir()
    place = guest.far()
    (folder / "cpuset.cpus").write_text(format_ids(place.cpus))

    def enter() -> None:
        (folder / "cgroup.procs").write_text("0")
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(NEW_CGROUP | NEW_MOUNTS) == 0, os.strerror(ctypes.get_errno())
        assert libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
        assert libc.umount2(b"/sys/fs/cgroup", MNT_DETACH) == 0
        assert libc.mount(b"cgroup2", b"/sys/fs/cgroup", b"cgroup2", 0, None) == 0

    def look() -> str:
        crowded = refusal_of(lambda: confine.choose("cgroup"))
        assert "processes live in /sys/fs/cgroup itself" in crowded, crowded
        assert confine.allowed() == (place.cpus, guest.with_memory)
        (CGROUP / "init").mkdir()
        (CGROUP / "init/cgroup.procs").write_text("0")
        told = stays_on_its_place(confine.choose("cgroup"), Place(place.cpus & -place.cpus, place.mems))
        alone = refusal_of(lambda: confine.plan(confine.CGROUP_V2, "x", 0, cpus=place.cpus, isolate="root"))
        assert "is not the root of all control groups" in alone, alone
        return told

    def sealed() -> str:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mount(b"none", b"/sys/fs/cgroup", None, MS_REMOUNT | MS_BIND | MS_RDONLY, None) == 0
        assert confine.choose() == confine.AFFINITY
        return refusal_of(lambda: confine.choose("cgroup"))

    try:
        told = str(in_child(look, enter))
        remove_folder(str(folder / "init"))
        remove_folder(str(folder / "numawise"))
        given = folder / "cgroup.subtree_control"
        given.write_text(" ".join(f"-{controller}" for controller in given.read_text().split()))
        said = str(in_child(sealed, enter))
        assert "/sys/fs/cgroup is mounted read-only" in said, said
        return told
    finally:
        remove_folder(str(folder))


def stale_groups(guest: Guest) -> str:
    """What a killed launcher leaves behind is found when it is empty, and not before."""
    mode = group_mode()
    with Job() as job:
        plan = job.bind(mode, "left", cpus=guest.cpus[0], mems=guest.with_memory, memory=64 * MIB)
        assert confine.populated(mode, plan.group)
        assert not confine.tear_down(mode, plan.group)
        made = jobgroup.changed(plan.group)
        assert plan.group not in confine.stale([], made + 60)
        job.group = ""
    assert plan.group in confine.stale([], made + 60)
    assert plan.group not in confine.stale([], made + 59), "it may be in the making"
    assert not confine.stale([plan.group], made + 60)
    assert confine.tear_down(mode, plan.group)
    assert not confine.stale([], made + 60)
    return plan.group


def memory_of_a_node_without(guest: Guest) -> str:
    """A node without memory is refused as such; together with another one only that is bound to."""
    empty = bits_of(range(len(guest.cpus))) & ~guest.with_memory
    if not empty:
        raise Skip("every node has memory")
    said = refusal_of(lambda: confine.plan(group_mode(), "empty", 0, mems=empty))
    return f"{said}; {stays_on_its_place(group_mode(), Place(guest.all_cpus, guest.with_memory))}"


def moving_pages(guest: Guest) -> str:
    """The policies themselves: pages land on, and move to, every node that has memory."""

    def look() -> str:
        for node in ids_of(guest.with_memory):
            mempolicy.bind_memory(1 << node)
            assert mempolicy.read_mempolicy() == mempolicy.Policy(mempolicy.BIND, 1 << node)
            with Job() as job:
                job.start(confine.Itself(0, 1 << node), mebibytes=1, threads=0, children=0)
                assert job.share_on(1 << node) >= ENOUGH, job.pages()
                target = guest.near(0)
                mempolicy.set_mempolicy(mempolicy.DEFAULT)
                mempolicy.migrate_pages(job.pid, guest.with_memory, 1 << target)
                assert job.share_on(1 << target) >= ENOUGH, job.pages()
        return format_ids(guest.with_memory)

    return str(in_child(look))

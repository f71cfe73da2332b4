"""The sentence about a job that the OOM killer ended, from what its group and the machine count."""

from pathlib import Path

import pytest

from numawise.apps.launch.oom import container_oom_text, oom_text
from numawise.host.containers import Container
from numawise.results.placement import AFFINITY, CGROUP_V2, Grant, Hold, MemoryPart, Owner

TOP = "sys/fs/cgroup"
GIB = 1 << 30
KILLED = -9


def host(root: Path, events: str | None, machine: int = 0) -> Path:
    files = {
        "proc/self/mountinfo": "33 24 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "proc/vmstat": f"oom_kill {machine}\n",
        f"{TOP}/numawise/ab12/cgroup.procs": "",
    }
    if events is not None:
        files[f"{TOP}/numawise/ab12/memory.events"] = events
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def hold(root: Path, policy: str = "preferred", memory: int = 0, mode: str = CGROUP_V2) -> Hold:
    parts = (MemoryPart(1, memory),) if memory else ()
    grant = Grant(mems=1, memory=parts, memory_policy=policy)  # type: ignore[arg-type]
    group = f"{root}/{TOP}/numawise/ab12" if mode == CGROUP_V2 else ""
    return Hold("ab12", "train", Owner(0, "root", "boot", pid=2), grant, mode=mode, group=group)


@pytest.mark.parametrize(("events", "policy", "memory", "said"), [
    pytest.param("oom 1\noom_kill 1\n", "preferred", 64 * GIB,
                 "it needed more than its limit of 64 GiB; give it more, such as --memory 128g", id="its limit"),
    pytest.param("oom 0\noom_kill 1\n", "bind", 0,
                 "memory ran out on NUMA 0, to which it is bound, before it reached a limit of its own; let it use other "
                 "NUMA nodes, too (--memory-policy preferred), or say how much it needs (--memory 64g), so that it is "
                 "placed where there is as much", id="bound to a full node"),
    pytest.param("oom 0\noom_kill 1\n", "bind", GIB,
                 "memory ran out on NUMA 0, to which it is bound, before it reached a limit of its own; let it use other "
                 "NUMA nodes, too (--memory-policy preferred), or give it more with --memory, or end others first "
                 "('numawise ps')", id="bound to a full node, below its limit"),
    pytest.param("oom 0\noom_kill 1\n", "preferred", 0,
                 "memory ran out on this machine before it reached a limit of its own; say how much it needs "
                 "(--memory 64g), so that it is placed where there is as much", id="the machine is full"),
])  # fmt: skip
def test_where_memory_ran_out(tmp_path: Path, events: str, policy: str, memory: int, said: str) -> None:
    root = host(tmp_path, events)
    ended = "train (ab12) was ended by the kernel's OOM killer"
    assert oom_text(hold(root, policy, memory), KILLED, 0, root) == f"{ended}: {said}"
    assert oom_text(hold(root, policy, memory), 137, 0, root) == f"{ended}: {said}"
    some = "the kernel's OOM killer ended 1 process of train (ab12)"
    assert oom_text(hold(root, policy, memory), 1, 0, root) == f"{some}: {said}"


def test_the_groups_word_counts(tmp_path: Path) -> None:
    """It was somebody else whom the OOM killer ended meanwhile."""
    root = host(tmp_path, "oom 0\noom_kill 0\n", machine=7)
    assert not oom_text(hold(root), KILLED, 5, root)


@pytest.mark.parametrize(("code", "before", "said"), [
    (KILLED, 5, True), (137, 6, True), (KILLED, 7, False), (1, 5, False), (-15, 5, False),
])  # fmt: skip
def test_without_a_group_it_is_a_possibility(tmp_path: Path, code: int, before: int, said: bool) -> None:  # noqa: FBT001
    root = host(tmp_path, None, machine=7)
    text = oom_text(hold(root, mode=AFFINITY), code, before, root)
    assert text == oom_text(hold(root), code, before, root)
    assert bool(text) == said
    assert ("perhaps this one" in text) == said
    assert "was ended by the kernel's OOM killer" not in text


def test_a_container_by_the_word_of_its_engine(tmp_path: Path) -> None:
    held = hold(tmp_path, memory=GIB, mode=AFFINITY)
    text = container_oom_text(held, 137, Container("f00", oom_killed=True), 0)
    assert text.startswith(
        "train (ab12) was ended by the kernel's OOM killer: it needed more than its limit of 1 GiB"
    )
    assert not container_oom_text(held, 1, Container("f00"), 0)

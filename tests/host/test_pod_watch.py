"""The watcher on control groups of this kernel: a cpuset that somebody changes, seen at once, and written back."""

import asyncio
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import needs
from tests.waiting import PATIENCE
from tests.watched import RealGroups, WatchedNode, container_id, uid

from numawise.apps.agent.drift_reports import DriftReports
from numawise.apps.agent.watching import Watcher, WatchPlan
from numawise.host.discover import read_live
from numawise.host.pod_groups import PodGroups, container_names, group_trees
from numawise.service.log import ServiceLog
from numawise.sets import bits_of, format_ids, ids_of


def _refused() -> str:
    """Why no groups can be made here; '' when they can."""
    trees = group_trees() if os.geteuid() == 0 else None
    if trees is None:
        return "needs root, and a cpuset controller"
    probe = Path("/", trees.cpuset, f"numawise-probe-{os.getpid()}")
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as problem:
        return f"control groups cannot be made: {problem}"
    return (
        ""
        if trees.version == 1 or "cpuset" in Path("/", trees.cpuset, "cgroup.subtree_control").read_text()
        else "cpuset is not handed on"
    )


pytestmark = [
    needs.CONTROL_GROUPS,
    needs.PROC,
    needs.SYS,
    pytest.mark.skipif(bool(_refused()), reason=_refused()),
]


class Sent:
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    async def event(self, about: Mapping[str, str], *, kind: str, reason: str, message: str) -> bool:
        assert kind in ("Normal", "Warning")
        self.events.append((reason, f"{about['name']}: {message}"))
        return True

    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.events]


class Scene:
    """A pod with CPUs of its own and one of the shared pool, with processes in them."""

    def __init__(self, groups: RealGroups, folder: Path) -> None:
        hardware = read_live()
        cpus = bits_of(thread.cpu for thread in hardware.threads)
        allowed = bits_of(os.sched_getaffinity(0)) & cpus
        self.every, own = format_ids(allowed), 1 << max(ids_of(allowed))
        self.own, self.pool = format_ids(own), format_ids(allowed & ~own or own)
        self.mems = (Path("/", groups.trees.cpuset) / groups.trees.effective[1]).read_text().strip()
        self.groups, self.sent = groups, Sent()
        self.node = WatchedNode(folder, hardware, self.pool)
        self.node.add("a", self.own)
        self.node.add("s")
        groups.put("a", self.own, self.mems)
        groups.put("s", self.pool, self.mems)
        for pod in ("a", "s"):
            groups.run(pod, "sh", "-c", "echo ready; exec sleep 10000")
        self.stream = io.StringIO()

    def cpus(self, pod: str) -> str:
        return self.groups.file(pod, "cpus").read_text().strip()

    def watch(self, story: Callable[[], Any], *, repair: bool) -> None:
        """Let the watcher go on for ever, and play a story beside it."""

        async def play() -> None:
            log = ServiceLog(self.stream, structured=True)
            plan = WatchPlan(str(self.node.kubelet_dir), repair=repair)
            watcher = Watcher(plan, self.node, log, DriftReports(log, self.sent))
            await watcher.start()
            tasks = [asyncio.create_task(task) for task in watcher.tasks()]
            try:
                async with asyncio.timeout(PATIENCE):
                    await self.until(lambda: watcher.checks)
                    await story()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                await watcher.stop()

        asyncio.run(play())

    async def until(self, true: Callable[[], object]) -> None:
        while not true():  # noqa: ASYNC110 - what is waited for is outside
            await asyncio.sleep(0.02)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    with RealGroups(f"numawise-watch-{os.getpid()}") as groups:
        yield Scene(groups, tmp_path)


def test_groups_of_this_kernel(scene: Scene) -> None:
    found = PodGroups(scene.groups.trees)
    groups = found.find([(uid("a"), container_id("a"))])
    assert found.cpuset(groups[container_id("a")]).cpus == 1 << int(scene.own)
    assert found.members(groups[container_id("a")]) == (scene.groups.processes[0].pid,)
    pages = found.pages(groups[container_id("a")])
    assert pages is None or all(size > 0 for _, size in (*pages.own, *pages.file))
    assert isinstance(container_names(), dict)


def test_a_changed_cpuset_is_reported_and_left(scene: Scene) -> None:
    async def story() -> None:
        scene.groups.file("a", "cpus").write_text(scene.every)
        await scene.until(lambda: scene.sent.events)

    scene.watch(story, repair=False)
    ((reason, message),) = scene.sent.events
    assert reason == "CpusetChanged"
    assert message.startswith(f"a: container c may run outside CPU {scene.own}. its cpuset has CPUs")
    assert scene.cpus("a") == scene.every, "nothing is changed without --repair"


def test_a_changed_cpuset_is_written_back(scene: Scene) -> None:
    async def story() -> None:
        scene.groups.file("a", "cpus").write_text(scene.every)
        await scene.until(lambda: "CpusetRepaired" in scene.sent.reasons())
        assert scene.cpus("a") == scene.own
        await scene.until(lambda: "no longer" in scene.stream.getvalue())

    scene.watch(story, repair=True)
    assert scene.sent.reasons() == ["CpusetChanged", "CpusetRepaired"]
    assert os.sched_getaffinity(scene.groups.processes[0].pid) == {int(scene.own)}
    assert scene.cpus("s") == scene.pool
    lines = [json.loads(line)["message"] for line in scene.stream.getvalue().splitlines()]
    assert f"ml/a/c: repaired: {scene.own} written to {scene.groups.trees.written[0]}" in lines

"""The watcher look by look: what it reports, what it repairs, and what it never touches."""

import asyncio
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.agent.drift_reports import DriftReports
from numawise.apps.agent.watching import PAGES_EVERY, Watcher, WatchPlan, reconcile_period
from numawise.codec.claims import SliceDevice
from numawise.codec.podresources import ListedClaim, ListedContainer, ListedPod, PodResources
from numawise.errors import ClusterError
from numawise.kube.client import ApiRefused
from numawise.service.log import ServiceLog
from numawise.sets import parse_ids
from tests.watched import Folders, WatchedNode, uid


class Sent:
    """An API server that takes Events, or refuses them."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.refuses = False
        self.refusal: ClusterError = ApiRefused("you may not create events (403)", "ask for that right")

    async def event(self, about: Mapping[str, str], *, kind: str, reason: str, message: str) -> bool:
        if self.refuses:
            raise self.refusal
        self.events.append({**about, "type": kind, "reason": reason, "message": message})
        return True


class Watched:
    """A node, its watcher, and time that the test moves."""

    def __init__(self, root: Path, *, repair: bool = False, **plan: Any) -> None:
        self.node, self.groups, self.sent = WatchedNode(root), Folders(root), Sent()
        self.now = 1000.0
        self.stream = io.StringIO()
        log = ServiceLog(self.stream, structured=True)
        reports = DriftReports(log, self.sent, self.clock)
        made = WatchPlan(str(self.node.kubelet_dir), root, repair, **plan)
        self.watcher = Watcher(made, self.node, log, reports, self.clock)
        self.started = False

    def clock(self) -> float:
        return self.now

    def look(self, *times: float) -> None:
        """Looks so many seconds after each other."""

        async def looking() -> None:
            if not self.started:
                await self.watcher.start()
                self.started = True
            for seconds in times:
                self.now += seconds
                await self.watcher.look()
                await self.watcher.reports.drain()
            await self.watcher.stop()

        asyncio.run(looking())

    def said(self) -> list[str]:
        return [json.loads(line)["message"] for line in self.stream.getvalue().splitlines()][1:]

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.sent.events]

    def metric(self, name: str, **labels: str) -> float:
        (family,) = [one for one in self.watcher.families() if one.about.name == f"numawise_watch_{name}"]
        return sum(value for have, value in family.rows if labels.items() <= have.items())


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """Two pods with CPUs of their own and one without."""
    made = Watched(tmp_path)
    fill(made)
    return made


def fill(made: Watched) -> None:
    made.node.add("a", "2-3", "0")
    made.node.add("b", "4-5", "1")
    made.node.add("s")
    made.groups.put("a", "2-3", "0")
    made.groups.put("b", "4-5", "1")
    made.groups.put("s", "0-1")
    made.groups.pages("a", "N0=100 N1=0")
    made.groups.pages("b", "N0=0 N1=100")


def test_nothing_has_drifted(watched: Watched) -> None:
    watched.look(0, 10, 10, 10)
    assert watched.sent.events == []
    assert watched.metric("containers", verdict="drifted") == 0
    assert watched.metric("containers") == 3
    assert watched.metric("looks") == 4


def test_a_changed_cpuset_is_reported_once_and_again_after_it_was_gone(watched: Watched) -> None:
    watched.groups.put("a", "0-7", "0", written="")
    watched.look(0, 3, 10, 10)
    (event,) = watched.sent.events
    assert (event["kind"], event["namespace"], event["name"], event["uid"]) == ("Pod", "ml", "a", uid("a"))
    assert (event["type"], event["reason"]) == ("Warning", "CpusetChanged")
    assert event["message"].startswith(
        "container c may run outside CPUs 2-3. its cpuset has CPUs 0-7; nothing is written"
    )
    assert "it may run on CPUs 4-5, which ml/b/c has alone" in event["message"]
    assert "To do: let the agent write it back" in event["message"]
    assert watched.metric("drift", kind="cpuset-changed", pod="a", namespace="ml", container="c") == 1
    assert watched.metric("containers", verdict="drifted") == 1
    watched.groups.put("a", "2-3", "0")
    watched.look(10)
    assert watched.said()[-1] == "ml/a/c: no longer: container c may run outside CPUs 2-3"
    assert watched.metric("drift") == 0
    watched.groups.put("a", "0-7", "0")
    watched.look(100, 3)
    assert watched.reasons() == ["CpusetChanged"] * 2
    assert watched.metric("drifts", kind="cpuset-changed") == 2


def test_a_look_alone_is_no_drift(watched: Watched) -> None:
    watched.groups.put("a", "0-7", "0")
    watched.look(0)
    watched.groups.put("a", "2-3", "0")
    watched.look(3, 10)
    assert watched.said() == []


def test_the_kubelet_has_time_to_push_a_new_pool(watched: Watched) -> None:
    watched.look(0, 10)
    watched.node.pool = "0"
    watched.node.add("new", "1")
    watched.groups.put("new", "1")
    watched.look(0, 3, 6)
    assert watched.sent.events == []
    watched.groups.put("s", "0")  # now it has been pushed
    watched.look(3, 10)
    assert watched.sent.events == []


def test_a_pool_that_is_never_pushed_is_drift(watched: Watched) -> None:
    watched.groups.put("s", "0-5")
    watched.look(0, 10, 10)
    assert watched.sent.events == []
    watched.look(4)
    assert watched.sent.events[0]["message"].startswith("container c may run outside CPUs 0-1")


def test_the_period_is_the_kubelets_own(watched: Watched) -> None:
    watched.node.configuration = {"cpuManagerReconcilePeriod": "1m0s"}
    watched.groups.put("s", "0-5")
    watched.look(0, 60, 60)
    assert watched.sent.events == []
    watched.look(5)
    assert watched.reasons() == ["CpusetChanged"]
    assert [reconcile_period({"cpuManagerReconcilePeriod": text}) for text in ("5s", "0s", "x", None)] == [
        5,
        10,
        10,
        10,
    ]


def test_a_pod_that_is_being_deleted_is_left_alone(watched: Watched) -> None:
    watched.groups.put("a", "0-7", "0")
    watched.node.pods[0]["metadata"]["deletionTimestamp"] = "2026-11-16T12:00:00Z"
    watched.look(0, 10, 10)
    assert watched.sent.events == []
    assert watched.metric("containers") == 2


def test_numa_nodes_and_pages(watched: Watched) -> None:
    watched.groups.put("b", "4-5", "0-1")
    watched.groups.pages("a", "N0=900 N1=100")
    watched.groups.pages("b", "N0=0 N1=500")
    watched.look(0, 3)
    assert watched.reasons() == ["MemoryNodesChanged"]
    watched.look(10, 10)
    assert watched.reasons() == ["MemoryNodesChanged"], "memory is looked at once a minute"
    watched.look(PAGES_EVERY)
    assert watched.reasons() == ["MemoryNodesChanged", "MemoryRemote"]
    assert watched.sent.events[-1]["message"].startswith(
        "container c: 10 % of 1000 MiB lies on NUMA 1. made before its control group kept it on NUMA 0"
    )
    watched.groups.pages("a", "N0=900 N1=1")
    watched.look(10)
    assert watched.metric("drift", kind="memory-remote") == 1
    watched.look(PAGES_EVERY)
    assert watched.metric("drift", kind="memory-remote") == 0


def test_records_that_differ_and_far_claims(tmp_path: Path) -> None:
    devices = {("gpu.x", "n1", "gpu-0"): SliceDevice("gpu.x", "gpu-0", numa=1)}
    made = Watched(tmp_path, slices=lambda: devices)
    fill(made)
    claimed = ListedContainer(
        cpus=parse_ids("2-3"), claims=(ListedClaim("gpu", (("gpu.x", "n1", "gpu-0"),)),)
    )
    made.node.mems.clear()
    made.node.save()
    made.node.answers = PodResources(
        (
            ListedPod("ml", "a", {"c": claimed}),
            ListedPod("ml", "b", {"c": ListedContainer(cpus=parse_ids("6-7"))}),
        )
    )
    made.look(0, 11)
    assert sorted(made.reasons()) == ["ClaimFar", "RecordsDiffer"]
    texts = {event["reason"]: event["message"] for event in made.sent.events}
    assert "claim gpu: gpu.x gpu-0 on NUMA 1, but the CPUs beside are on NUMA 0" in texts["ClaimFar"]
    assert "CPUs 4-5 in cpu_manager_state and CPUs 6-7 in PodResources" in texts["RecordsDiffer"]


def test_state_files_that_are_wrong_are_the_nodes(watched: Watched) -> None:
    watched.node.cpus["b"] = "3-4"  # pod a has CPU 3
    watched.look(0, 3, 10)
    wrong = [event for event in watched.sent.events if event["reason"] == "StateFilesWrong"]
    assert [(event["kind"], event["name"]) for event in wrong] == [("Node", "n1")]
    assert "CPU 3" in wrong[0]["message"]
    assert watched.metric("drift", kind="state-files") == 1
    watched.node.cpus["b"] = "4-5"
    watched.look(PAGES_EVERY)
    assert watched.metric("drift", kind="state-files") == 0


def test_slices_that_may_not_be_read_are_said_once(tmp_path: Path) -> None:
    def refused() -> Any:
        raise ClusterError("you may not list resourceslices (403)", "ask for that right")

    made = Watched(tmp_path, slices=refused)
    fill(made)
    claimed = ListedContainer(
        cpus=parse_ids("2-3"), claims=(ListedClaim("gpu", (("gpu.x", "n1", "gpu-0"),)),)
    )
    made.node.mems.clear()
    made.node.answers = PodResources((ListedPod("ml", "a", {"c": claimed}),))
    made.look(0, 300, 300)
    assert [text for text in made.said() if "resourceslices" in text] == [
        "where claimed devices are is not known: you may not list resourceslices (403); ask for that right"
    ]
    assert made.metric("containers", verdict="unknown") == 1
    assert "ClaimFar" not in made.reasons()


def test_a_record_that_cannot_be_read_judges_nobody(watched: Watched) -> None:
    watched.groups.put("a", "0-7", "0")
    broken = {name: text[:40] for name, text in watched.node.texts().items()}
    watched.node.texts = lambda: broken  # type: ignore[method-assign]
    watched.look(0, 10, 10)
    assert {(event["kind"], event["reason"]) for event in watched.sent.events} == {
        ("Node", "StateFilesWrong")
    }
    assert "watch: cpu_manager_state: " in watched.watcher.missing()[0]


def test_events_that_are_refused_change_nothing_else(watched: Watched) -> None:
    watched.sent.refuses = True
    watched.groups.put("a", "0-7", "0")
    watched.groups.put("b", "0-7", "1")
    watched.look(0, 3)
    assert (
        len([text for text in watched.said() if text.startswith("no Event could be sent: you may not")]) == 1
    )
    assert watched.metric("drift") == 2
    assert watched.metric("events", outcome="failed") == 2


def test_an_api_server_that_is_gone_for_ten_minutes_is_told_afterwards(watched: Watched) -> None:
    watched.sent.refuses, watched.sent.refusal = True, ClusterError("https://x cannot be reached", "look")
    watched.groups.put("a", "0-7", "0")
    watched.look(0, 3, 300, 300)
    assert watched.metric("drift") == 1, "looking goes on"
    assert len([text for text in watched.said() if "no Event could be sent" in text]) == 1
    watched.sent.refuses = False
    watched.look(10)
    assert watched.reasons() == ["CpusetChanged"]
    watched.sent.refuses = True
    watched.groups.put("b", "0-7", "1")
    watched.look(10, 3, 2000)
    assert watched.metric("events", outcome="failed") == 1, "after half an hour it is given up"


def test_no_more_than_sixty_events_in_ten_minutes(watched: Watched) -> None:
    for number in range(100):
        watched.node.add(f"p{number:03}")
        watched.groups.put(f"p{number:03}", "0-7")
    watched.look(0, 23)
    assert len(watched.sent.events) == 60
    assert watched.metric("events", outcome="held back") == 40
    assert watched.metric("drift") == 100


# --- repairing ------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_without_repair_nothing_is_changed(watched: Watched, tmp_path: Path) -> None:
    watched.groups.put("a", "0-7", "0-1", written="")
    watched.groups.put("s", "0-7")
    before = contents(tmp_path)
    watched.look(0, 3, 10, 10, 60, 60)
    assert set(watched.reasons()) == {"CpusetChanged", "MemoryNodesChanged"}
    assert contents(tmp_path) == before


@pytest.fixture
def repairing(tmp_path: Path) -> Watched:
    made = Watched(tmp_path, repair=True)
    fill(made)
    return made


def test_what_was_granted_is_written_back_and_nothing_else(repairing: Watched, tmp_path: Path) -> None:
    repairing.groups.put("a", "0-7", "0-1", written="")
    (repairing.groups.place("a") / "cpuset.mems").write_text("\n")
    before = contents(tmp_path)
    repairing.look(0)
    assert contents(tmp_path) == before, "one look is no drift"
    repairing.look(3)
    changed = {name for name, what in contents(tmp_path).items() if what != before[name]}
    place = str(repairing.groups.place("a").relative_to(tmp_path))
    assert changed == {f"{place}/cpuset.cpus", f"{place}/cpuset.mems"}
    assert (repairing.groups.place("a") / "cpuset.cpus").read_text().strip() == "2-3"
    assert (repairing.groups.place("a") / "cpuset.mems").read_text().strip() == "0"
    assert repairing.reasons()[-1] == "CpusetRepaired"
    assert repairing.sent.events[-1]["message"] == (
        "container c: repaired: 2-3 written to cpuset.cpus; 0 written to cpuset.mems; "
        "the kernel moves pages there by itself"
    )
    assert repairing.metric("repairs", outcome="written") == 1


def test_nothing_is_written_when_the_record_changed_meanwhile(repairing: Watched, tmp_path: Path) -> None:
    repairing.groups.put("a", "0-7", "0")
    repairing.look(0)
    sight = repairing.node.last
    repairing.node.cpus["a"] = "6-7"
    repairing.node.save()  # on disk, while the last sight is older
    repairing.watcher.source = type("Older", (), {"last": sight})()
    before = contents(tmp_path)
    repairing.look(3)
    assert contents(tmp_path) == before
    assert "ml/a/c: not repaired: the kubelet's record has just changed" in repairing.said()
    assert repairing.metric("repairs", outcome="left") == 1


@pytest.mark.parametrize("damage", ["", "{", '{"policyName":"static","defaultCpuSet":"0","checksum":1}'])
def test_nothing_is_written_by_a_damaged_record(repairing: Watched, tmp_path: Path, damage: str) -> None:
    repairing.groups.put("a", "0-7", "0")
    (repairing.node.kubelet_dir / "cpu_manager_state").write_text(damage)
    before = contents(tmp_path)
    repairing.look(0, 3)
    assert contents(tmp_path) == before
    assert any("not repaired: the kubelet's record cannot be read" in text for text in repairing.said())


def test_a_group_above_is_not_touched(repairing: Watched, tmp_path: Path) -> None:
    repairing.groups.put("a", "2", "0", written="2-3")
    before = contents(tmp_path)
    repairing.look(0, 3, 61, 61)
    assert contents(tmp_path) == before
    assert repairing.metric("repairs", outcome="left") == 3
    assert len([text for text in repairing.said() if "not repaired" in text]) == 1


def test_who_undoes_it_again_and_again_wins_and_is_named(repairing: Watched) -> None:
    for _ in range(8):
        repairing.groups.put("a", "0-7", "0")
        repairing.look(10, 3)
        repairing.groups.put("a", "2-3", "0")
        repairing.look(10)
    assert repairing.metric("repairs", outcome="written") == 5
    assert any("5 times within an hour; find who changes it" in text for text in repairing.said())

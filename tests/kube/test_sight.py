"""What the agent sees of a kubelet, and when it looks: files, PodResources, and both against each other."""

import asyncio
import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.agent.cluster_view import pod_matters
from numawise.apps.agent.kubelet_sight import GAP, ApiView, KubeletSight, SightSource
from numawise.apps.agent.sight_reading import SightReader
from numawise.apps.agent.sight_values import OwnPlugin
from numawise.codec.document import Document
from numawise.codec.workload import decode_pods
from numawise.engine.admit import Admitted
from numawise.gpus.preference import LauncherPreference
from numawise.inputs.gathered import NodeSources
from numawise.node.node import SimulatedNode
from numawise.service.log import ServiceLog
from tests.kube.noded import CONFIG, GPU, VERSION, NodeOnDisk, node_on_disk, pod
from tests.waiting import PATIENCE


@pytest.fixture
def node() -> Iterator[NodeOnDisk]:
    with node_on_disk() as made, made.listening():
        yield made


def sources(node: NodeOnDisk, **more: Any) -> NodeSources:
    given = {"kubelet_config": str(node.folder / "config.yaml"), "kube": VERSION, **more}
    return NodeSources(root=node.root, kubelet_dir=str(node.folder), **given)


def reader(node: NodeOnDisk, **more: Any) -> SightReader:
    return SightReader(sources(node, **more), "n1")


def view(node: NodeOnDisk) -> ApiView:
    return ApiView(None, tuple(node.pods.values()), synced=True)


def free(kubelet: SimulatedNode) -> set[str]:
    plugin = kubelet.state.devices.plugins[GPU]
    return set(plugin.healthy) - kubelet.state.devices.allocated.get(GPU, frozenset())


def asks(kubelet: SimulatedNode, value: dict[str, Any]) -> str:
    (raw,) = decode_pods(Document(value, "pod"))
    return type(kubelet.ask(kubelet.requested(raw))).__name__


def test_the_node_in_sight_decides_as_the_kubelet_does(node: NodeOnDisk) -> None:
    for value in (pod("a", 2, 1), pod("b", 4), pod("c", "500m"), pod("d", 2, 1)):
        assert node.admit(value)
    sight = reader(node).read(view(node))
    assert sight.problems == ()
    assert sight.node is not None
    assert sight.node.state.cpu == node.node.state.cpu
    assert sight.node.state.memory == node.node.state.memory
    assert free(sight.node) == free(node.node)
    for wish in (pod("x", 2), pod("x", 6), pod("x", 12), pod("x", 2, 2), pod("x", 2, 3), pod("x", "13")):
        assert asks(sight.node, wish) == asks(node.node, wish), wish


def test_a_pod_that_is_gone_holds_until_the_kubelet_collects(node: NodeOnDisk) -> None:
    held = pod("a", 2, 1)
    node.admit(held)
    looks = reader(node)
    before = looks.read(view(node)).node
    node.remove(held)
    after = looks.read(view(node)).node
    assert before is not None
    assert after is not None
    assert free(after) == free(before) == {"gpu1", "gpu2", "gpu3"}
    assert after.state.departed == {held["metadata"]["uid"]}
    assert asks(after, pod("x", 2, 2)) == "Admitted"  # whose admission collects it


@pytest.mark.parametrize("source", ["status", "record"])
def test_a_pod_that_waits_for_another_size_counts_with_what_it_has(node: NodeOnDisk, source: str) -> None:
    """And so it is published, with the size that it waits for."""
    value = pod("a", "500m")
    node.admit(value)
    uid, own = value["metadata"]["uid"], {"cpu": "500m", "memory": "64Mi"}
    waits = {**value, "spec": pod("a", "13500m")["spec"], "status": dict(value["status"])}
    if source == "status":
        waits["status"]["containerStatuses"] = [{"name": "c", "allocatedResources": own}]
        waits["status"]["conditions"] = [
            {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
        ]
    else:
        data = json.dumps({"entries": {uid: {"ContainerResources": {"c": {"requests": own}}}}})
        node.put("allocated_pods_state", json.dumps({"data": data, "checksum": 1}))
    sight = reader(node).read(ApiView(None, (waits,), synced=True))
    assert sight.node is not None
    for wish in (pod("x", "6"), pod("x", "12"), pod("x", "15")):
        assert asks(sight.node, wish) == asks(node.node, wish), wish
    assert asks(sight.node, pod("x", "6")) == "Admitted"
    (wanted,) = sight.node.state.resizes.desired.values()
    assert (wanted.uid, wanted.containers[0].requests["cpu"].milli) == (uid, 13500)
    assert pod_matters(value, waits)


@pytest.mark.parametrize(
    "name", ["cpu_manager_state", "memory_manager_state", "device-plugins/kubelet_internal_checkpoint"]
)
@pytest.mark.parametrize("damage", ["half", "nothing", "checksum", "binary"])
def test_a_damaged_file_keeps_what_it_said(node: NodeOnDisk, name: str, damage: str) -> None:
    node.admit(pod("a", 2, 1))
    looks = reader(node)
    good = looks.read(view(node))
    text = (node.folder / name).read_text()
    broken = {
        "half": text[: len(text) // 2],
        "nothing": "",
        "checksum": text.replace('hecksum":', 'hecksum":1'),
        "binary": "\0\1\2",
    }[damage]
    node.put(name, broken)
    sight = looks.read(view(node))
    assert sight.reasons == ("StateUnreadable",)
    assert name.rpartition("/")[2] in sight.problems[0]
    assert "what it said before counts" in sight.problems[0]
    assert sight.node is not None
    assert good.node is not None
    assert sight.node.state == good.node.state
    node.put(name, text)
    assert looks.read(view(node)).problems == ()


def test_what_pod_resources_has_and_no_file_is_taken(node: NodeOnDisk) -> None:
    node.admit(pod("a", 2, 1))
    looks = reader(node)
    looks.read(view(node))
    node.admit(pod("b", 2, 2), write=False)  # its files are still to come
    sight = looks.read(view(node))
    assert not sight.settled
    assert sight.reasons == ("SourcesDisagree",)
    assert sight.node is not None
    assert free(sight.node) == free(node.node)
    assert sight.node.state.cpu.shared == node.node.state.cpu.shared
    node.write()
    again = looks.read(view(node))
    assert again.settled
    assert again.problems == ()


def test_a_device_is_held_when_its_file_is_damaged_and_it_is_given_away(node: NodeOnDisk) -> None:
    looks = reader(node)
    looks.read(view(node))
    node.put("device-plugins/kubelet_internal_checkpoint", "{")
    node.admit(pod("a", 2, 2), write=False)
    sight = looks.read(view(node))
    assert sight.node is not None
    assert free(sight.node) == free(node.node)
    assert "StateUnreadable" in sight.reasons


def test_without_a_socket_the_files_count_and_it_is_said(node: NodeOnDisk) -> None:
    node.admit(pod("a", 2, 1))
    (node.folder / "pod-resources/kubelet.sock").unlink()
    sight = reader(node).read(view(node))
    assert sight.reasons == ("PodResourcesMissing",)
    assert sight.node is not None
    assert sight.node.state.cpu == node.node.state.cpu


def test_another_configuration_counts_when_another_kubelet_runs(node: NodeOnDisk) -> None:
    looks = reader(node)
    first = looks.read(view(node)).node
    assert first is not None
    node.configure(CONFIG | {"topologyManagerPolicy": "restricted"})
    still = looks.read(view(node)).node
    assert still is not None
    assert still.config.topology_manager_policy == "single-numa-node"
    with node.listening():
        later = looks.read(view(node)).node
    assert later is not None
    assert later.config.topology_manager_policy == "restricted"


def test_a_configuration_younger_than_its_kubelet_is_not_believed(node: NodeOnDisk) -> None:
    path = node.folder / "config.yaml"
    late = (node.folder / "pod-resources/kubelet.sock").stat().st_mtime_ns + 10**9
    os.utime(path, ns=(late, late))
    sight = reader(node).read(view(node))
    assert sight.reasons == ("ConfigurationChanged",)


def test_the_running_kubelet_is_believed_before_its_files(node: NodeOnDisk) -> None:
    running = CONFIG | {"topologyManagerPolicy": "best-effort"}
    looks = SightReader(sources(node), "n1", configz=lambda: running)
    sight = looks.read(view(node))
    assert sight.node is not None
    assert sight.node.config.topology_manager_policy == "best-effort"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        pytest.param({"topologyManagerPolicy": "none"}, "TopologyPolicyNone", id="policy none"),
        pytest.param({"reservedSystemCPUs": "0-99"}, "KubeletWouldNotStart", id="no kubelet would start so"),
    ],
)
def test_what_a_node_lacks_is_said(node: NodeOnDisk, config: dict[str, Any], reason: str) -> None:
    looks = SightReader(sources(node), "n1", configz=lambda: CONFIG | config)
    sight = looks.read(view(node))
    assert sight.reasons == (reason,)
    assert sight.problems[0]
    assert not sight.complete


def test_nothing_known_is_said_part_by_part(tmp_path: Path) -> None:
    looks = SightReader(NodeSources(root=tmp_path, kubelet_dir=str(tmp_path / "none")), "n1")
    sight = looks.read(ApiView())
    assert sight.node is None
    assert {"KubeletVersionUnknown", "ConfigurationUnknown", "PodResourcesMissing", "MachineUnknown"} <= set(
        sight.reasons
    )
    assert all(sight.problems)


def test_devices_without_a_numa_node_are_said(node: NodeOnDisk) -> None:
    from numawise.machine.model import Device, DevicePlugin  # noqa: PLC0415

    node.plugins = (DevicePlugin(GPU, (Device("gpu0", None), Device("gpu1", (1,)))),)
    sight = reader(node).read(view(node))
    assert sight.reasons == ("DevicesWithoutNumaNode",)
    assert GPU in sight.problems[0]


# --- when it looks --------------------------------------------------------------------------------


async def following(
    node: NodeOnDisk,
) -> tuple[SightSource, asyncio.Queue[KubeletSight], list[asyncio.Task[None]]]:
    source = SightSource(
        sources(node), "n1", ServiceLog(io.StringIO(), structured=True), view=lambda: view(node)
    )
    sights: asyncio.Queue[KubeletSight] = asyncio.Queue()
    source.subscribe(sights.put_nowait)
    await source.start()
    return source, sights, [asyncio.create_task(one) for one in source.tasks()]


async def until(sights: asyncio.Queue[KubeletSight], node: NodeOnDisk) -> None:
    """Wait for a sight that shows what the kubelet has now."""
    async with asyncio.timeout(PATIENCE):
        while True:
            sight = await sights.get()
            state = sight.node.state if sight.node is not None else None
            if state is not None and (state.cpu.shared, len(state.active)) == (
                node.node.state.cpu.shared,
                len(node.pods),
            ):
                return


async def ended(source: SightSource, tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await source.stop()


def test_an_admitted_pod_is_seen_without_polling(node: NodeOnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numawise.apps.agent.kubelet_sight.SAFETY", PATIENCE * 2)

    async def play() -> None:
        source, sights, tasks = await following(node)
        await until(sights, node)
        node.admit(pod("a", 2, 1))
        await until(sights, node)
        await ended(source, tasks)

    asyncio.run(play())


def test_many_pods_at_once_are_few_readings_and_the_last_counts(node: NodeOnDisk) -> None:
    async def play() -> None:
        source, sights, tasks = await following(node)
        readings, begin = source.readings, time.monotonic()
        admitted = 0
        for number in range(100):
            admitted += node.admit(pod(f"p{number}", 1 if number < 10 else "1m"))
            await asyncio.sleep(0)
        assert admitted == 100
        await until(sights, node)
        longest = time.monotonic() - begin  # a slow machine reads more often, but never more than this
        assert source.readings - readings <= longest / GAP + 2
        await ended(source, tasks)

    asyncio.run(play())


def test_without_events_the_stamps_are_compared_and_it_is_said(
    node: NodeOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numawise.errors import HostError  # noqa: PLC0415

    def none(_: object) -> None:
        raise HostError("the kernel does not report changes of files: none left")

    monkeypatch.setattr("numawise.apps.agent.kubelet_sight.FileEvents", none)
    monkeypatch.setattr("numawise.apps.agent.kubelet_sight.TICK", 0.02)
    monkeypatch.setattr("numawise.apps.agent.kubelet_sight.SAFETY", PATIENCE * 2)

    async def play() -> str:
        source, sights, tasks = await following(node)
        await until(sights, node)
        node.admit(pod("a", 2, 1))
        await until(sights, node)
        await ended(source, tasks)
        return source.log.stream.getvalue()  # type: ignore[attr-defined, no-any-return]

    assert "once a second" in asyncio.run(play())


def test_the_plugin_of_this_agent_is_known_by_its_preference(node: NodeOnDisk) -> None:
    """Nothing at the kubelet shows it, and which of several devices a pod gets depends on it."""
    preference = LauncherPreference(("gpu3", "gpu2", "gpu1", "gpu0"), (2, 2, 1, 1), ((0,) * 4,) * 4)
    own = {GPU: OwnPlugin(preference), "example.com/other": OwnPlugin()}
    sight = SightReader(sources(node), "n1", own_plugins=lambda: own).read(view(node))
    assert sight.node is not None
    assert sight.node.state.devices.plugins[GPU].preference == preference
    (raw,) = decode_pods(Document(pod("a", 2, 1), "pod"))
    decision = sight.node.ask(sight.node.requested(raw))
    assert isinstance(decision, Admitted)
    assert decision.state.devices.grants[raw.uid]["c"][GPU].ids == {"gpu1"}


def test_a_kubelet_that_starts_and_lists_nothing_yet_frees_nothing(node: NodeOnDisk) -> None:
    """For a second a real one answers as if it had no pods, although its files have them and they run."""
    running, floating = pod("a", 4, 1), pod("b", "3")
    assert node.admit(running)
    assert node.admit(floating)
    known, before = view(node), reader(node).read(view(node)).node
    node.pods.clear()
    sight = reader(node).read(known)
    assert before is not None
    assert sight.node is not None
    assert set(sight.node.state.active) == set(before.state.active)
    assert free(sight.node) == free(before)
    assert (sight.settled, sight.reasons) == (False, ("SourcesDisagree",))
    assert "default/a" in sight.problems[0]
    gone = {**running, "metadata": {**running["metadata"], "deletionTimestamp": "2026-11-16T13:00:00Z"}}
    ended = {**floating, "status": {"phase": "Succeeded"}}
    assert reader(node).read(ApiView(None, (gone, ended), synced=True)).settled


def test_one_call_that_fails_leaves_devices_where_they_were(node: NodeOnDisk) -> None:
    """A busy kubelet answered List and, within the patience, not GetAllocatableResources."""
    assert node.admit(pod("a", 2, 1))
    looks, answers = reader(node), node.answer
    before = looks.read(view(node)).node
    node.answer = lambda peer, request: answers(peer, request) if b"/List" in request else None  # type: ignore[method-assign]
    sight = looks.read(view(node))
    assert before is not None
    assert sight.node is not None
    assert sight.node.machine == before.machine
    assert free(sight.node) == free(before)
    assert (sight.settled, sight.reasons) == (False, ("PodResourcesMissing",))

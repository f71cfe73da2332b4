"""``numawise agent --export`` in a process of its own: a node whose kubelet is the engine, and an API server on loopback."""

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.agent.export import ExportPlan, TopologyExport
from numawise.apps.agent.kubelet_sight import ApiView, SightSource
from numawise.codec.document import Document
from numawise.codec.fingerprint import fingerprint
from numawise.codec.publication import publication_from
from numawise.codec.workload import decode_pods
from numawise.inputs.gathered import NodeSources
from numawise.kube.client import Cluster, access_to
from numawise.kube.writer import ClusterWriter
from numawise.node.node import SimulatedNode
from numawise.node.publication import published_node
from numawise.service.log import ServiceLog
from numawise.values import replace
from tests.kube.noded import CONFIG, GPU, VERSION, NodeOnDisk, node_on_disk, pod
from tests.kube.server import State, kubeconfig, serving
from tests.waiting import PATIENCE, until
from tests.warm import Program

TAINT = "example.com/starting"
CONDITION = "NumawiseTopologyPublished"


def node_object(**spec: Any) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "u-n1", "resourceVersion": "1"},
        "spec": spec,
        "status": {
            "nodeInfo": {"kubeletVersion": "v1.36.4"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


class Exporter:
    """The agent, its node and its API server."""

    def __init__(self, folder: Path, node: NodeOnDisk, state: State, address: str) -> None:
        self.folder, self.node, self.state = folder, node, state
        self.log = folder / "log"
        self.config = kubeconfig(folder / "kubeconfig", address)
        self.processes: list[Program] = []

    def start(self, *words: str) -> Program:
        command = [
            "agent", "--export", "--node", "n1", "--listen", "off",
            "--kubeconfig", str(self.config), "--kubelet-dir", str(self.node.folder), "--root", str(self.node.root),
            "--kubelet-config", str(self.node.folder / "config.yaml"), *words,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self.processes.append(Program(*command, stderr=log, env={**os.environ, "POD_NAME": "agent"}))
        return self.processes[-1]

    def said(self, words: str) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines(keepends=True) if self.log.exists() else []
        read = [json.loads(line) for line in lines if line.endswith("\n")]
        return [line for line in read if words in line["message"]]

    @property
    def published(self) -> SimulatedNode | None:
        """The node that the object describes."""
        value = self.state.topologies.get("n1")
        if value is None:
            return None
        publication = publication_from({one["name"]: one["value"] for one in value.get("attributes", [])})
        return published_node(publication) if publication is not None else None

    def shows(self) -> bool:
        """Whether the object shows what the kubelet has."""
        seen = self.published
        return seen is not None and (
            seen.state.cpu == self.node.node.state.cpu
            and dict(seen.state.devices.allocated) == dict(self.node.node.state.devices.allocated)
            and set(seen.state.active) == set(self.node.pods)
        )

    @property
    def condition(self) -> dict[str, Any]:
        conditions = self.state.nodes["n1"]["status"]["conditions"]
        return next((one for one in conditions if one["type"] == CONDITION), {})

    def admit(self, value: dict[str, Any]) -> None:
        """A pod is bound, admitted, and known to everybody."""
        self.state.put_pod(value)
        assert self.node.admit(value)


@pytest.fixture
def state() -> State:
    return State(
        nodes={
            "n1": node_object(
                taints=[{"key": TAINT, "effect": "NoSchedule"}, {"key": "other", "effect": "NoSchedule"}]
            )
        }
    )


@pytest.fixture
def exporter(tmp_path: Path, state: State) -> Iterator[Exporter]:
    with node_on_disk() as node, node.listening(), serving(state) as server:
        made = Exporter(tmp_path, node, state, server.address)
        try:
            yield made
        finally:
            for process in made.processes:
                if process.poll() is None:
                    process.kill()
                process.wait(PATIENCE)


def taints(state: State) -> list[str]:
    return [one["key"] for one in state.nodes["n1"]["spec"]["taints"]]


def attributes(state: State) -> dict[str, str]:
    return {one["name"]: one["value"] for one in state.topologies["n1"]["attributes"]}


def available(state: State, resource: str) -> dict[str, str]:
    zones = state.topologies["n1"]["zones"]
    return {
        zone["name"]: one["available"]
        for zone in zones
        for one in zone["resources"]
        if one["name"] == resource
    }


def test_a_node_is_published_and_followed(exporter: Exporter, state: State) -> None:
    first = pod("a", 2, 1)
    exporter.admit(first)
    process = exporter.start("--startup-taint", TAINT)
    until(exporter.shows, "the first object")
    until(lambda: exporter.condition.get("status") == "True", "the condition")
    until(lambda: TAINT not in taints(state), "the taint is removed")
    assert taints(state) == ["other"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u-n1"}
    assert state.topologies["n1"]["metadata"]["ownerReferences"] == [owner]  # it goes with its node
    assert attributes(state)["nodeTopologyPodsFingerprint"] == fingerprint([("default", "a")])
    assert available(state, GPU) == {"node-0": "1", "node-1": "2"}
    exporter.admit(pod("b", 4, 1))
    exporter.admit(pod("c", "500m"))
    until(exporter.shows, "the next pods")
    exporter.node.remove(first)
    state.put_pod(first, "DELETED")
    until(lambda: (seen := exporter.published) is not None and seen.state.departed, "the pod is gone")
    assert available(state, GPU) == {"node-0": "0", "node-1": "2"}  # it holds until it is collected
    seen = exporter.published
    assert seen is not None
    for wish in (pod("x", 2), pod("x", 6), pod("x", 2, 2), pod("x", 2, 1), pod("x", "12")):
        (raw,) = decode_pods(Document(wish, "pod"))
        theirs, ours = exporter.node.node, seen
        assert type(ours.ask(ours.requested(raw))) is type(theirs.ask(theirs.requested(raw))), wish
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert [one["reason"] for one in state.events] == ["Published"]


def test_the_server_is_gone_and_comes_back(tmp_path: Path, state: State) -> None:
    with node_on_disk() as node, node.listening():
        with serving(state) as server:
            port = server.server_port
            exporter = Exporter(tmp_path, node, state, server.address)
            exporter.start()
            until(exporter.shows, "the first object")
        try:
            for number in range(4):
                value = pod(f"p{number}", 2)
                state.put_pod(value)
                assert node.admit(value)
            until(lambda: exporter.said("not published"), "the loss is said")
            with serving(state, port=port):
                until(exporter.shows, "the newest state")
                until(lambda: exporter.said("published again"), "it is said that it is back")
            # A connection that was open breaks off, a new one is refused: a sentence each, once.
            assert len(exporter.said("not published")) <= 2
        finally:
            exporter.processes[0].kill()
            exporter.processes[0].wait(PATIENCE)


def test_an_agent_that_was_killed_goes_on_where_it_was(exporter: Exporter) -> None:
    exporter.start().kill()
    exporter.admit(pod("a", 2, 1))
    exporter.start()
    until(exporter.shows, "the object")
    exporter.processes[-1].kill()
    exporter.admit(pod("b", 2, 1))
    exporter.start()
    until(exporter.shows, "the object of the next agent")


def test_what_is_missing_stands_in_a_condition_and_an_event(exporter: Exporter, state: State) -> None:
    exporter.node.configure(CONFIG | {"topologyManagerPolicy": "none"})
    exporter.node.write()
    with exporter.node.listening():
        exporter.start("--startup-taint", TAINT)
        until(lambda: exporter.condition.get("status") == "False", "the condition")
        until(lambda: state.events, "the Event")
        assert exporter.condition["reason"] == "TopologyPolicyNone"
        assert "numawise plan kubelet" in exporter.condition["message"]
        assert state.events[0]["reason"] == "TopologyPolicyNone"
        assert state.events[0]["regarding"]["kind"] == "Node"
        assert exporter.shows()  # what is known is published all the same
        assert TAINT in taints(state)


def test_a_damaged_state_file_is_said_and_no_device_becomes_free(exporter: Exporter) -> None:
    exporter.admit(pod("a", 2, 1))
    exporter.start()
    until(lambda: exporter.condition.get("status") == "True", "the first object")
    path = "device-plugins/kubelet_internal_checkpoint"
    text = (exporter.node.folder / path).read_text()
    exporter.node.put(path, text[:40])
    until(lambda: exporter.condition.get("reason") == "StateUnreadable", "the condition")
    assert exporter.shows()
    exporter.node.put(path, text)
    until(lambda: exporter.condition.get("status") == "True", "it is well again")
    assert exporter.shows()


def test_the_kubelet_vanishes_and_returns(exporter: Exporter, state: State) -> None:
    exporter.admit(pod("a", 2, 1))
    exporter.start()
    until(lambda: exporter.condition.get("status") == "True", "the first object")
    (exporter.node.folder / "pod-resources/kubelet.sock").unlink()
    until(lambda: exporter.condition.get("reason") == "PodResourcesMissing", "the condition")
    assert available(state, GPU) == {"node-0": "1", "node-1": "2"}
    with exporter.node.listening():
        until(lambda: exporter.condition.get("status") == "True", "it is back")
        exporter.admit(pod("b", 2, 1))
        until(exporter.shows, "the next pod")


def test_a_deleted_object_is_made_again(exporter: Exporter, state: State) -> None:
    exporter.start()
    until(exporter.shows, "the first object")
    del state.topologies["n1"]
    exporter.admit(pod("a", 2, 1))
    until(exporter.shows, "the object is made again")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(
            {"topology_versions": ()},
            "install one: numawise agent --definition | kubectl apply -f -",
            id="no definition",
        ),
        pytest.param(
            {"forbidden": {"noderesourcetopologies"}},
            "you may not apply noderesourcetopology n1",
            id="no right",
        ),
        pytest.param({"token": "other"}, "does not know who you are", id="not known"),
    ],
)
def test_a_refusal_is_said_once(exporter: Exporter, state: State, change: dict[str, Any], words: str) -> None:
    for name, value in change.items():
        setattr(state, name, value)
    exporter.start()
    until(
        lambda: [one for one in exporter.said(words) if one["message"].startswith("not published")],
        "the sentence",
    )
    exporter.admit(pod("a", 2, 1))
    assert len(exporter.said("not published")) == 1


def test_a_condition_that_may_not_be_written_holds_nothing_up(exporter: Exporter, state: State) -> None:
    state.forbidden = {"/nodes/n1/status"}
    exporter.start("--startup-taint", TAINT)
    until(lambda: exporter.said("published, but the node's condition is not"), "the sentence")
    until(lambda: TAINT not in taints(state), "the taint is removed all the same")
    exporter.admit(pod("a", 2, 1))
    until(exporter.shows, "the next pod is published, too")
    assert not exporter.said("not published")


def test_another_producers_object_is_not_fought_over(exporter: Exporter, state: State) -> None:
    zones = [{"name": "node-0", "type": "Node"}]
    metadata = {"name": "n1", "resourceVersion": "5", "managedFields": [{"manager": "nfd-topology-updater"}]}
    state.topologies["n1"] = {
        "metadata": metadata,
        "zones": zones,
        "owners": {"zones": "nfd-topology-updater"},
    }
    exporter.start()
    until(lambda: exporter.said("is published by nfd-topology-updater"), "the sentence")
    until(lambda: exporter.condition.get("reason") == "NotPublished", "the condition")
    assert state.topologies["n1"]["zones"] == zones
    exporter.start("--force-ownership")
    until(exporter.shows, "it was taken over because that was asked for")


def test_two_agents_of_one_node_agree(exporter: Exporter, state: State) -> None:
    def publisher() -> str:
        return str(state.topologies["n1"]["metadata"]["annotations"]["numawise.dev/agent"])

    exporter.start()
    until(exporter.shows, "the first object")
    first = publisher()
    exporter.start()
    until(lambda: publisher() != first, "the second agent")
    for number in range(3):
        exporter.admit(pod(f"p{number}", 2))
        until(exporter.shows, "what both see")
    until(lambda: exporter.said("publishes node n1 as well"), "it is said")


def test_ten_minutes_without_a_server(tmp_path: Path, state: State) -> None:
    """On a clock that the waits move: what came meanwhile is published at the first attempt that can be made."""

    async def play(node: NodeOnDisk, stack: contextlib.ExitStack) -> None:
        with serving(state) as server:
            port, config = server.server_port, kubeconfig(tmp_path / "k", server.address)
        log, waits, back = ServiceLog(io.StringIO(), structured=True), list[float](), asyncio.Event()
        places = NodeSources(root=node.root, kubelet_dir=str(node.folder), kube=VERSION)
        places = replace(places, kubelet_config=str(node.folder / "config.yaml"))
        source = SightSource(
            places, "n1", log, view=lambda: ApiView(None, tuple(node.pods.values()), synced=True)
        )
        writer = ClusterWriter(Cluster(access_to(str(config), "")), "n1", "agent-1")

        async def pause(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) % 40 == 0:
                assert node.admit(pod(f"p{len(waits)}", 1))
                await source.read()
            if sum(waits) > 600 and not back.is_set():
                back.set()
                stack.enter_context(serving(state, port=port))

        export = TopologyExport(ExportPlan("n1"), source, writer, log, pause=pause)
        await source.start()
        await export.start()
        tasks = [asyncio.create_task(one) for one in (*export.tasks(), *source.tasks())]
        async with asyncio.timeout(PATIENCE):
            await back.wait()
            tried = len(waits)
            while export.missing():  # noqa: ASYNC110 - it is asked, not told
                await asyncio.sleep(0.01)
        assert max(waits) <= 4.0
        assert sum(waits[tried:]) <= 5.0
        assert len(node.pods) >= 3
        exporter = Exporter(tmp_path, node, state, "")
        assert exporter.shows()
        assert log.stream.getvalue().count("not published") == 1  # type: ignore[attr-defined]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await source.stop()

    with contextlib.ExitStack() as stack, node_on_disk() as node, node.listening():
        asyncio.run(play(node, stack))


def test_without_the_right_to_list_pods_the_kubelets_record_counts(exporter: Exporter, state: State) -> None:
    state.forbidden = {"/pods"}
    value = pod("a", 2, 1)
    assert exporter.node.admit(value)
    exporter.start()
    until(exporter.shows, "the object")
    until(lambda: exporter.condition.get("status") == "True", "the condition")
    assert len(exporter.said("you may not list the pods of node n1")) == 1


def test_the_running_kubelets_configuration_is_asked_for_where_that_is_wanted(
    exporter: Exporter, state: State
) -> None:
    state.configz["n1"] = CONFIG | {"topologyManagerPolicy": "restricted"}
    exporter.start("--configz")
    until(lambda: "n1" in state.topologies, "the object")
    assert attributes(state)["topologyManagerPolicy"] == "restricted"


def test_dry_run_prints_the_object_and_sends_nothing(exporter: Exporter, state: State) -> None:
    exporter.admit(pod("a", 2, 1))
    command = [
        sys.executable, "-m", "numawise", "agent", "--export", "--dry-run", "-o", "json", "--node", "n1",
        "--kubeconfig", str(exporter.config), "--kubelet-dir", str(exporter.node.folder), "--root", str(exporter.node.root),
        "--kubelet-config", str(exporter.node.folder / "config.yaml"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    state.topologies["n1"] = json.loads(done.stdout)
    assert exporter.shows()
    assert state.written == []
    with contextlib.suppress(KeyError):
        del state.topologies["n1"]

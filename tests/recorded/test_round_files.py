"""What a node's own files say suffices: every admission of a real kubelet is predicted from them alone.

Step by step from the state files and the PodResources answers that were there just before, and as a whole from a
bundle that was made before the first pod.  Compared are verdict, reason, message and exclusive CPUs.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise import Node
from numawise.apps.why.nodes import explain_on
from numawise.engine.admit import Admitted, Decision, Rejected
from numawise.inputs.pods import read_pods
from numawise.inputs.spec import NodeSpec, read_node, start_node
from numawise.node.node import SimulatedNode
from numawise.node.publication import publication_of, topology_object
from numawise.sets import format_ids
from tests.recorded.round_files import PREFIX, Round, Step, read_round, unpacked

HERE = Path(__file__).parent / "rounds"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "kubelet-run-1.36.4"
ARCHIVES = sorted(HERE.glob("*.tar.gz"))
FOLDERS = sorted(path.parent for path in SHARED.glob("*/result.json"))
Outcome = tuple[str, str, str, dict[str, str]]


@pytest.fixture(params=[*ARCHIVES, *FOLDERS], ids=lambda path: path.name)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Round:
    path: Path = request.param
    return unpacked(path, tmp_path) if path.is_file() else read_round(path, _manifests(tmp_path))


def _manifests(folder: Path) -> Path:
    """Manifests of pods that were deleted before a round ended."""
    return unpacked(ARCHIVES[0], folder).folder


def expected(step: Step) -> Outcome:
    return "admitted" if step.admitted else "rejected", step.reason, step.message, step.cpus


def outcome(node: SimulatedNode, manifest: dict[str, Any]) -> tuple[Outcome, Decision]:
    """Admit a pod, and what came of it."""
    (raw,) = read_pods([manifest]).pods
    decision = node.admit(node.requested(raw))
    if isinstance(decision, Rejected):
        return ("rejected", decision.reason, decision.message, {}), decision
    assert isinstance(decision, Admitted)
    cpus = {name: format_ids(own) for name, own in node.state.cpu.assignments.get(raw.uid, {}).items()}
    return ("admitted", "", "", cpus), decision


def specs(recorded: Round, before: int) -> Iterator[NodeSpec]:
    """The node after a step, from what it left then: with all that PodResources says, and with its devices."""
    state = (str(recorded.state(before)),) if before else ()
    bundle = str(recorded.folder / "before.tar.gz")
    given = NodeSpec(
        bundle=bundle,
        kubelet_config=(str(recorded.folder / "configz.json"),),
        state=state,
        pod_resources=str(recorded.pod_resources(before)),
    )
    yield given
    yield NodeSpec(
        bundle=bundle,
        kubelet_config=(str(recorded.folder / "config.yaml"),)
        if (recorded.folder / "config.yaml").is_file()
        else given.kubelet_config,
        state=state,
        pod_resources=str(recorded.pod_resources(0)) if not before else given.pod_resources,
        node_object=str(recorded.folder / "node.json"),
    )


def test_every_admission_from_what_was_there_before(recorded: Round) -> None:
    predicted = 0
    for step in recorded.steps:
        for spec in specs(recorded, step.number - 1) if step.uid else ():
            node = start_node(read_node(spec))
            assert (step.pod, outcome(node, recorded.manifest(step))[0]) == (step.pod, expected(step))
            predicted += 1
    assert predicted == 2 * sum(bool(step.uid) for step in recorded.steps)


def test_every_admission_from_the_published_object_alone(recorded: Round, tmp_path: Path) -> None:
    """What an agent would have published just before is all that is known of the node."""
    file = tmp_path / "nrt.json"
    predicted = 0
    for step in recorded.steps:
        for spec in specs(recorded, step.number - 1) if step.uid else ():
            there = read_node(spec)
            published = publication_of(start_node(there), there.name or "n1", kubelet="v1.36.4")
            file.write_text(json.dumps(topology_object(published)))
            source = read_node(NodeSpec(machine=(str(file),)))
            assert source.exact
            node = start_node(source)
            assert (step.pod, outcome(node, recorded.manifest(step))[0]) == (step.pod, expected(step))
            predicted += 1
    assert predicted == 2 * sum(bool(step.uid) for step in recorded.steps)


@pytest.mark.parametrize("name", ["restricted-pod", "besteffort-dist"])
def test_without_the_list_of_pods_the_record_of_allocations_shows_who_is_gone(
    name: str, tmp_path: Path
) -> None:
    """Of a pod with CPUs of its own, that is; in these rounds no other one is deleted."""
    recorded = unpacked(HERE / f"{name}.tar.gz", tmp_path)
    answers = json.loads(recorded.pod_resources(0).read_text())
    devices = tmp_path / "allocatable.json"
    devices.write_text(json.dumps(answers["Allocatable"]))
    for step in recorded.steps:
        if not step.uid or step.number == 1:
            continue
        (spec, _) = specs(recorded, step.number - 1)
        node = start_node(
            read_node(
                NodeSpec(
                    spec.machine,
                    spec.kubelet_config,
                    state=spec.state,
                    bundle=spec.bundle,
                    pod_resources=str(devices),
                )
            )
        )
        assert (step.pod, outcome(node, recorded.manifest(step))[0]) == (step.pod, expected(step))


def test_the_whole_round_from_its_start(recorded: Round) -> None:
    (spec, _) = specs(recorded, 0)
    play(start_node(read_node(spec)), recorded)


def play(node: SimulatedNode, recorded: Round) -> None:
    """Let the pods of a round come and go."""
    uids: dict[str, str] = {}
    for step in recorded.steps:
        node.reconcile()
        if not step.uid:
            node.remove(uids[step.pod])
            node.reconcile()
            continue
        uids[step.pod] = step.uid
        manifest = recorded.manifest(step)
        found, decision = outcome(node, manifest)
        assert (step.pod, found) == (step.pod, expected(step))
        if isinstance(decision, Admitted):
            (raw,) = read_pods([manifest]).pods
            node.start(node.requested(raw), decision)


def test_a_bundle_alone_suffices(tmp_path: Path) -> None:
    """A bundle that asked PodResources and the API server: nothing else is named."""
    recorded = unpacked(HERE / "single-pcpus.tar.gz", tmp_path)
    source = read_node(NodeSpec(bundle=str(recorded.folder / "before.tar.gz")))
    assert source.remarks == ()
    node = start_node(source)
    assert node.description is not None
    assert {one.id: one.numa for plugin in source.machine.plugins for one in plugin.devices} == {
        "gpu0": (0,), "gpu1": (0,), "gpu2": (1,), "gpu3": (1,),
        "nic0": (0,), "nic1": (1,), "nic-both": (0, 1), "nic-any": None,
    }  # fmt: skip
    flags = source.bundle.members["kubelet/flags"].decode() if source.bundle is not None else ""
    assert "--root-dir=/var/lib/kubelet" in flags
    assert "--config=/var/lib/kubelet/config.yaml" in flags
    play(node, recorded)


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.name)
def test_a_pod_that_is_gone_holds_nothing(path: Path, tmp_path: Path) -> None:
    recorded = unpacked(path, tmp_path)
    for step in recorded.steps:
        if step.uid:
            continue
        (spec, _) = specs(recorded, step.number)
        source = read_node(spec)
        assert source.answers is not None
        if step.pod in {pod.name for pod in source.answers.pods or ()}:
            continue  # a busy machine: the kubelet was not done with it
        gone = [one.uid for one in recorded.steps if one.pod == step.pod and one.uid]
        assert source.holders.gone.issuperset(gone)
        assert not {pod.uid for pod in source.running} & set(gone)


def test_what_the_kubelet_said_is_only_what_it_said(tmp_path: Path) -> None:
    recorded = unpacked(HERE / "besteffort-dist.tar.gz", tmp_path)
    (given, _) = specs(recorded, len(recorded.steps))
    bundle = str(recorded.folder / "after.tar.gz")
    source = read_node(
        NodeSpec(bundle=bundle, kubelet_config=given.kubelet_config, pod_resources=given.pod_resources)
    )
    found = {one.name: one for one in explain_on(source, (), ()).found}
    said = {step.pod: (step.reason, f"{PREFIX}{step.message}") for step in recorded.steps if step.reason}
    assert found.keys() == said.keys()
    for name, one in found.items():
        reason, message = said[name]
        assert one.said == (one.reason == reason)
        assert message in (one.message if one.said else "\n".join(one.remarks))
    assert [name for name, one in found.items() if not one.said] == ["burst"]


def test_the_same_from_python(tmp_path: Path) -> None:
    recorded = unpacked(HERE / "restricted-pod.tar.gz", tmp_path)
    step = recorded.steps[7]
    (given, _) = specs(recorded, step.number - 1)
    node = Node(
        config=recorded.folder / "configz.json",
        bundle=given.bundle,
        state=given.state,
        pod_resources=given.pod_resources,
    )
    decision = node.admit(recorded.manifest(step))
    assert (decision.admitted, decision.reason, decision.message) == (False, step.reason, step.message)

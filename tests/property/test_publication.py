"""A node that was published and read back decides as the node itself, whatever happened to it before."""

from collections.abc import Mapping

from hypothesis import assume, given
from hypothesis import strategies as st

from numawise.codec.publication import attributes_of, publication_from
from numawise.engine.admit import Admitted, Crashed, Decision, Rejected
from numawise.engine.predicates import used
from numawise.engine.state import DeviceState, NodeState
from numawise.machine.description import NodeDescription
from numawise.machine.model import Device
from numawise.node.node import Files, SimulatedNode, boot, restart
from numawise.node.publication import publication_of, published_node, topology_object
from numawise.request.model import PodRequest
from numawise.rules.check import Refusal
from numawise.rules.versions import NEWEST, OLDEST, Version
from tests.property.strategies import Case, cases, laws, pods

RELEASES = [(1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)]
"""Every release that is known."""


def read_back(node: SimulatedNode) -> SimulatedNode:
    """The node that a scheduler sees."""
    published = publication_of(node, "worker-1")
    attributes = attributes_of(published)
    again = publication_from(attributes)
    assert again is not None
    assert (again.node, again.kubelet) == ("worker-1", published.kubelet)
    assert again.machine == node.machine
    assert attributes_of(again) == attributes, "written again it is the same, byte for byte"
    return published_node(again)


def devices(state: DeviceState) -> object:
    """The Device Manager's part, without what plugins answered."""
    grants = {
        uid: {name: {res: one.per_numa for res, one in own.items()} for name, own in containers.items()}
        for uid, containers in state.grants.items()
    }
    saved = None if state.saved is None else (state.saved.registered, set(state.saved.grants))
    return state.plugins, grants, state.allocated, saved


def held(state: NodeState) -> object:
    """Everything that a later decision can depend on; names of pods are not."""
    tables = (state.cpu, state.memory, devices(state.devices))
    records = {*state.cpu.assignments, *state.cpu.pods, *state.memory.assignments, *state.devices.grants}
    sums = used(state)
    rest = (state.ready, state.last_pod, state.reusable, state.running, list(state.active))
    return tables, state.departed & records, sums, rest


def said(decision: Decision) -> object:
    """A decision with what comes of it."""
    match decision:
        case Admitted():
            return "admitted", decision.affinity, decision.preempted, held(decision.state)
        case Rejected():
            words = (decision.reason, decision.message, decision.container, decision.provider, decision.error)
            return "rejected", words, decision.preempted, held(decision.state)
    return decision


def agree(node: SimulatedNode, copy: SimulatedNode, next_pods: list[PodRequest]) -> None:
    """Both say the same to every pod that may come next."""
    assert held(copy.state) == held(node.state)
    assert copy.allocatable() == node.allocatable()
    for pod in next_pods:
        assert said(copy.ask(pod)) == said(node.ask(pod))


@st.composite
def probes(draw: st.DrawFn, case: Case) -> list[PodRequest]:
    """Pods that may come next: new ones, and ones that were there before."""
    fresh = [draw(pods(f"q{at}", case.machine)) for at in range(2)]
    return fresh + [event for event in case.events if isinstance(event, PodRequest)][:2]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Case, Version, list[PodRequest], Mapping[int, str]]:
    """A case, a release, pods that may come, and what else happens at some of the steps."""
    case = draw(cases())
    extra = st.sampled_from(
        ["restart", "restart-late", "starting", "unhealthy", "no Node object", "sources", "reconcile"]
    )
    others = draw(st.dictionaries(st.integers(0, len(case.events)), extra, max_size=3))
    return case, draw(st.sampled_from(RELEASES)), draw(probes(case)), others


def begun(case: Case, version: Version) -> SimulatedNode:
    node = boot(case.machine, case.config, Files(), version=version)
    assume(not isinstance(node, Refusal))
    assert isinstance(node, SimulatedNode)
    node.plugins_registered(case.machine.plugins)
    node.describe(
        NodeDescription("worker-1", labels_known=False, allocatable={"ephemeral-storage": 10**9, "pods": 5})
    )
    return node


def disturbed(node: SimulatedNode, what: str) -> SimulatedNode:
    """Something that is not a pod happens to a node."""
    if what == "starting":  # it has not heard of its pods again
        node.files.write(node.rules, node.state)
        begun_again = boot(
            node.machine, node.config, Files(dict(node.files.texts)), node.state, version=node.version
        )
        assume(not isinstance(begun_again, Refusal))
        assert isinstance(begun_again, SimulatedNode)
        begun_again.settle(node)
        begun_again.plugins_registered(node.machine.plugins)
        return begun_again
    if what.startswith("restart"):
        again = restart(node, node.config, late=what.endswith("late"))
        assume(not isinstance(again, Refusal))
        assert isinstance(again, tuple)
        return again[0]
    if what == "unhealthy" and node.machine.plugins:
        plugin = node.machine.plugins[0]
        listed = [Device(one.id, one.numa, healthy=at > 0) for at, one in enumerate(plugin.devices)]
        node.devices_changed(plugin.resource, listed)
    elif what == "no Node object":
        node.describe(None)
    elif what == "sources":
        node.sources_ready()
    elif what == "reconcile":
        node.reconcile()
    return node


@laws(200)
@given(histories())
def test_a_published_node_decides_alike(
    history: tuple[Case, Version, list[PodRequest], Mapping[int, str]],
) -> None:
    case, version, next_pods, others = history
    node = begun(case, version)
    copy = read_back(node)
    came: list[PodRequest] = []
    for at, event in enumerate(case.events):
        if at in others:
            node, copy = disturbed(node, others[at]), disturbed(copy, others[at])
        agree(node, copy, next_pods)
        copy = read_back(node) if at % 2 else copy  # now and then the old copy goes on by itself
        if isinstance(event, int):
            if event < len(came):
                node.remove(came[event].uid)
                copy.remove(came[event].uid)
            continue
        came.append(event)
        mine, its = node.admit(event), copy.admit(event)
        assert said(mine) == said(its)
        if isinstance(mine, Crashed):
            return
        if isinstance(mine, Admitted) and isinstance(its, Admitted):
            assert node.start(event, mine) == copy.start(event, its)
        agree(node, read_back(node), next_pods)
    object_of = topology_object(publication_of(node, "worker-1"))
    assert object_of == topology_object(publication_of(node, "worker-1"), node=node)

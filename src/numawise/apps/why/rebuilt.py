"""A pod of a cluster explained on a node whose state was rebuilt, because nobody gave its state files.

Rules kept here:

1. The machine is the one that was given, else this host where the node is this host, else that of the
   node's NodeResourceTopology.  The configuration is the one that was given, else what the kubelet reports
   (``configz``), the bundle's, or what the NodeResourceTopology shows.
2. A refusal is looked at with the pods that ran at that time.  Start times are whole seconds: pods of the
   same second count first, then not.  The first that gives the kubelet's reason is taken.
3. Where that object has the exact state of the node, it is machine, configuration and state in one, unless
   another machine or configuration was given.
4. What the kubelet's PodResources socket lists, and what a NodeResourceTopology publishes as free, hold for
   now.  They show where the pods of now are, and so where those were that ran then and still run.
5. It is always said that the state is a reconstruction, and from what.  One that does not give the
   kubelet's reason explains nothing: that is the answer then.
"""

from collections.abc import Iterable, Iterator, Sequence

from numawise.apps.why.live import Live, in_order, ran_at, raw_pod
from numawise.apps.why.nodes import started_node
from numawise.codec.document import Document
from numawise.codec.hardware.nrt import NodeTopology, read_topology
from numawise.codec.hardware.nrt_config import assumed_config, fitted_config
from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.codec.kubelet.effective import by_kubelet
from numawise.codec.node import node_from
from numawise.codec.objects import kubelet_uid
from numawise.codec.podresources import ListedPod, PodResources
from numawise.codec.publication import publication_from
from numawise.errors import ClusterError, HostError, InputError
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.explain.resize import explain_resize
from numawise.inputs.machine import read_machine
from numawise.inputs.podresources import located
from numawise.inputs.spec import NodeInput
from numawise.kube.client import Object
from numawise.machine.description import NodeDescription
from numawise.machine.model import Machine
from numawise.node.node import SimulatedNode
from numawise.node.publication import published_node
from numawise.node.rebuild import NumaAmounts, Rebuilt, admit_running, place_by_free, place_listed, release
from numawise.render.words import both, bytes_text, counted
from numawise.request.defaults import RawPod
from numawise.request.model import CPU, HUGEPAGES, MEMORY
from numawise.results.explanation import REJECTED, Explanation, Reconstruction
from numawise.results.publication import Publication
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from numawise.rules.options import FULL_CORES
from numawise.rules.versions import Version
from numawise.values import dataclass, replace

SHOWN = 4
"""So many pods are named."""
DIFFERED = "What was held at that time was something else, and is not known"
PUBLISHED = "its NodeResourceTopology"
EXACT = f"{PUBLISHED}, which has its exact state"
CORES = "A NodeResourceTopology does not say which CPUs are of one core, so full-pcpus-only is not judged"


@dataclass(frozen=True, slots=True)
class NodeWithoutState:
    """A node without its state, and where each part comes from."""

    machine: Machine
    machine_source: str
    config: KubeletConfig
    config_source: str
    version: Version
    description: NodeDescription | None = None
    topology: NodeTopology | None = None
    """What is published about the node."""
    answers: PodResources | None = None
    """What its kubelet's PodResources socket answers."""
    remarks: tuple[str, ...] = ()
    exact: Publication | None = None
    """Its exact state now, where that is published, under this machine and configuration."""


def without_state(live: Live, given: NodeInput) -> NodeWithoutState | str:
    """The node as far as it is known (rule 1); a text that says what is missing."""
    version = given.version if given.spec.kube else live.node.version or given.version
    topology, remarks = _topology(live)
    exact, doubts = _exact(topology)
    remarks += doubts
    answers = given.answers or live.node.answers
    if given.machine_input is not None:
        machine, machine_source = given.machine, given.machine_input.name or "the one given"
    elif exact is not None:
        machine, machine_source = exact.machine, EXACT
    elif live.node.here and (own := _this_machine()) is not None:
        machine, machine_source = own, "this machine"
    elif topology is not None:
        machine, machine_source = topology.machine, PUBLISHED
    else:
        return "the machine"
    published = machine_source == PUBLISHED
    if answers is not None and not published and not given.spec.pod_resources:
        machine = located(machine, answers, None)
    if given.spec.has_config:
        config, source = given.configuration.config(version), given.configuration.name or "the one given"
    elif exact is not None and machine_source == EXACT:
        decoded = decode_kubelet_config(exact.config, version)
        if isinstance(decoded, Refusal):
            return "the kubelet's configuration"
        config, source = decoded, EXACT
    elif (reported := reported_config(live, version)) is not None:
        config, source = reported, "what its kubelet reports (configz)"
    elif given.config_input is not None:
        config, source = given.configuration.config(version), given.configuration.name
    elif topology is not None and (assumed := assumed_config(topology)) is not None:
        decoded = decode_kubelet_config(assumed.raw, version)
        if isinstance(decoded, Refusal):
            return "the kubelet's configuration"
        config, source = decoded, f"assumed from {PUBLISHED}: {assumed.text}"
    else:
        return "the kubelet's configuration"
    if published and topology is not None:
        config = fitted_config(config, topology)
        remarks += (CORES,) if FULL_CORES in config.cpu_manager_policy_options else ()
    listed = None if published else answers
    described = description_of(live, given)
    if exact is not None and (machine_source, source) != (EXACT, EXACT):
        exact = None
    return NodeWithoutState(
        machine, machine_source, config, source, version, described, topology, listed, remarks, exact
    )


def _this_machine() -> Machine | None:
    try:
        return read_machine("this").machine
    except (InputError, HostError):
        return None


def reported_config(live: Live, version: Version) -> KubeletConfig | None:
    """What the node's kubelet says it runs with; None when it could not be asked."""
    raw = by_kubelet(live.node.configz, version)
    config = decode_kubelet_config(raw, version) if raw is not None else None
    return None if isinstance(config, Refusal) else config


def description_of(live: Live, given: NodeInput) -> NodeDescription | None:
    """What the Node object says: the one that was given, or the cluster's."""
    if given.description is not None or live.node.object is None:
        return given.description
    try:
        return node_from(live.node.object)
    except InputError as problem:
        raise ClusterError(f"the API server's node cannot be read: {problem}") from None


def _topology(live: Live) -> tuple[NodeTopology | None, tuple[str, ...]]:
    if live.node.topology is None:
        return None, ()
    try:
        return read_topology(Document(live.node.topology, f"NodeResourceTopology {live.node.name}").root), ()
    except InputError as problem:
        return None, (f"The node's NodeResourceTopology cannot be used: {problem}",)


def _exact(topology: NodeTopology | None) -> tuple[Publication | None, tuple[str, ...]]:
    """The exact state that an object has, and what is wrong with it."""
    if topology is None:
        return None, ()
    try:
        return publication_from(topology.attributes), ()
    except InputError as problem:
        return None, (f"The exact state in the node's NodeResourceTopology cannot be used: {problem}",)


# --- ways to rebuild ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RebuildWay:
    """One way to rebuild the state of a node."""

    pods: tuple[Object, ...]
    moment: str = ""
    """For which time, to the second; '' for now."""
    listed: tuple[ListedPod, ...] | None = None
    """What the kubelet lists of the pods of now."""
    free: NumaAmounts | None = None
    """What is published as free now."""
    exact: Publication | None = None
    """The exact state of now."""
    now: tuple[Object, ...] = ()
    """With any of these: the pods that run now."""
    complete: bool = True
    """All pods of the node are known."""


def ways_for(live: Live, stateless: NodeWithoutState) -> Iterator[RebuildWay]:
    """The ways to rebuild the state that the pod met, the likeliest first (rules 2 to 4)."""
    own = kubelet_uid(live.pod or {})
    known = live.node.pods is not None
    others = [pod for pod in in_order(live.node.pods or ()) if runs(live) or kubelet_uid(pod) != own]
    now = tuple(pod for pod in others if ran_at(pod, ""))
    moment = live.moment
    sets: dict[frozenset[str], tuple[tuple[Object, ...], str]] = {}
    if moment:
        for including in (True, False):
            then = tuple(pod for pod in others if ran_at(pod, moment, including=including))
            sets.setdefault(_uids(then), (then, moment))
    else:
        sets[_uids(now)] = now, ""
    if stateless.exact is not None:
        exact = stateless.exact
        yield from (
            RebuildWay(pods, when, exact=exact, now=now, complete=known) for pods, when in sets.values()
        )
    listed = stateless.answers.pods if stateless.answers is not None else None
    if listed is not None:
        yield from (RebuildWay(pods, when, listed, now=now, complete=known) for pods, when in sets.values())
    free = stateless.topology.available if stateless.topology is not None else {}
    if any(free.values()):
        yield from (
            RebuildWay(pods, when, free=free, now=now, complete=known) for pods, when in sets.values()
        )
    if known:
        yield from (RebuildWay(pods, when) for pods, when in sets.values())


def runs(live: Live) -> bool:
    """Whether the pod was admitted: it is among the pods of its node."""
    return bool(live.sent_to) and not live.refusal[0] and not live.template


def _uids(pods: Iterable[Object]) -> frozenset[str]:
    return frozenset(map(kubelet_uid, pods))


def rebuilt(stateless: NodeWithoutState, way: RebuildWay) -> tuple[SimulatedNode, Rebuilt] | Explanation:
    """The node with its state rebuilt in this way; an explanation when its kubelet would not start."""
    now_raw = [raw_pod(pod) for pod in way.now]
    node: SimulatedNode | Explanation
    if way.exact is not None:
        node = published_node(way.exact)
        node.describe(stateless.description)
        known = [raw for raw in now_raw if raw.uid in node.state.active]
        node.run_already(known)
        unknown = tuple(raw for raw in now_raw if raw.uid not in node.state.active)
        return _as_then(node, way, Rebuilt(tuple(known), unknown))
    node = started_node(stateless.machine, stateless.config, {}, stateless.version, (), stateless.description)
    if isinstance(node, Explanation):
        return node
    if way.listed is not None:
        placing = place_listed(node, now_raw, way.listed)
    elif way.free is not None:
        placing = place_by_free(node, now_raw, way.free)
    else:
        return node, admit_running(node, map(raw_pod, way.pods))
    return _as_then(node, way, placing)


def _as_then(node: SimulatedNode, way: RebuildWay, placing: Rebuilt) -> tuple[SimulatedNode, Rebuilt]:
    """A node of now, with the pods that ran at the time in question instead."""
    then, now = _uids(way.pods), _uids(way.now)
    for uid in now - then:
        node.remove(uid)
        release(node, uid)
    ended = admit_running(node, (raw_pod(pod) for pod in way.pods if kubelet_uid(pod) not in now))
    unplaced = [pod for pod in placing.unplaced if pod.uid in then]
    return node, replace(placing, unplaced=(*unplaced, *ended.unplaced))


# --- the explanation ------------------------------------------------------------------------


def explain_rebuilt(live: Live, stateless: NodeWithoutState) -> Explanation | None:
    """Explain a pod on its node as rebuilt; None when nothing is known of what runs there."""
    assert live.pod is not None
    raw = raw_pod(live.pod)
    reason, message = live.refusal
    first: tuple[RebuildWay, SimulatedNode, Rebuilt] | None = None
    for way in ways_for(live, stateless):
        found = rebuilt(stateless, way)
        if isinstance(found, Explanation):
            return replace(found, remarks=(*found.remarks, *live.remarks, *live.node.remarks))
        node, placing = found
        first = first or (way, node, placing)
        if not reason:
            break
        if explain(case_of(node, raw), suggest=False).reason == reason:
            return _reproduced(live, stateless, way, node, placing, raw)
    if first is None:
        return None
    way, node, placing = first
    if not reason:
        waiting = explain_resize(node, raw) if raw.allocated is not None else None
        found = waiting.explanation if waiting is not None else explain(case_of(node, raw), walk=True)
        return _judged(live, stateless, way, placing, found, reproduced=None)
    by_it = explain(case_of(node, raw), suggest=False)
    lowered = by_it.answer[:1].lower() + by_it.answer[1:]
    answer = (
        f"Rejected: the kubelet of node {live.node.name} refused it ({reason}), and the reconstruction "
        f"does not show why; by the reconstruction it is {lowered}"
    )
    found = Explanation(
        name=raw.name,
        verdict=REJECTED,
        answer=answer,
        namespace=raw.namespace,
        uid=raw.uid,
        qos=by_it.qos,
        reason=reason,
        message=message,
        said=True,
        remarks=(f"{DIFFERED}: run 'numawise bundle' on {live.node.name} soon after a refusal",),
        policy=by_it.policy,
        scope=by_it.scope,
    )
    return _judged(live, stateless, way, placing, found, reproduced=False)


def _reproduced(
    live: Live,
    stateless: NodeWithoutState,
    way: RebuildWay,
    node: SimulatedNode,
    placing: Rebuilt,
    raw: RawPod,
) -> Explanation:
    reason, message = live.refusal
    found = replace(explain(case_of(node, raw), walk=True), reason=reason, message=message, said=True)
    others = [pod for pod in live.node.pods or () if kubelet_uid(pod) != raw.uid]
    now = tuple(pod for pod in in_order(others) if ran_at(pod, ""))
    if way.moment and _uids(way.pods) != _uids(now):
        again = rebuilt(stateless, replace(way, pods=now, moment=""))
        if not isinstance(again, Explanation):
            today = explain(case_of(again[0], raw), suggest=False)
            verdict = "be admitted" if today.admitted else f"be rejected again ({today.reason})"
            text = f"With the {_pods_text(len(now), '')} now it would {verdict}"
            found = replace(found, remarks=(text, *found.remarks))
    return _judged(live, stateless, way, placing, found, reproduced=True)


def _judged(
    live: Live,
    stateless: NodeWithoutState,
    way: RebuildWay,
    placing: Rebuilt,
    found: Explanation,
    *,
    reproduced: bool | None,
) -> Explanation:
    """The same with what it rests on (rule 5)."""
    names = [called(pod.namespace, pod.name) for pod in placing.unplaced]
    reconstruction = Reconstruction(
        node=live.node.name,
        moment=f"{way.moment}Z" if way.moment else "",
        machine=stateless.machine_source,
        configuration=stateless.config_source,
        state=_state_source(way),
        pods=len(way.pods),
        unplaced=tuple(names),
        reproduced=reproduced,
    )
    return replace(
        found,
        reconstruction=reconstruction,
        remarks=(
            *live.remarks,
            *_sources(reconstruction),
            *_doubts(live, way, placing, names),
            *found.remarks,
            *stateless.remarks,
            *live.node.remarks,
        ),
    )


def _pods_text(count: int, moment: str) -> str:
    """``3 pods that ran there then``."""
    which = "that ran there then" if moment else "that runs there" if count == 1 else "that run there"
    return f"one pod {which}" if count == 1 else f"{count} pods {which}"


def _state_source(way: RebuildWay) -> str:
    count = len(way.pods)
    pods = f"the {_pods_text(count, way.moment)}" if count else "no pod that holds anything"
    if way.exact is not None:
        return f"{pods}, with the exact state that {PUBLISHED} publishes"
    if way.listed is not None:
        return f"{pods}, with what its kubelet lists (PodResources)"
    if way.free is not None:
        return f"{pods}, placed by what {PUBLISHED} publishes as free"
    return f"{pods}, admitted in the order of {'its' if count == 1 else 'their'} start" if count else pods


def _sources(one: Reconstruction) -> Iterator[str]:
    when = f" at {one.moment}" if one.moment else ""
    which = f"node {one.node}" if one.node else "a node"
    yield (
        f"This is a reconstruction of {which}{when}, as there are no state files: "
        f"{one.state}; machine: {one.machine}; configuration: {one.configuration}"
    )


def _doubts(live: Live, way: RebuildWay, placing: Rebuilt, names: Sequence[str]) -> Iterator[str]:
    if names:
        them = "it" if len(names) == 1 else "them"
        run = "runs" if len(names) == 1 else "run"
        yield f"Not known where: {_some(names)} {run} there, and the reconstruction has no place for {them}"
    if live.gone and way.moment:
        held = "what it held" if len(live.gone) == 1 else "what they held"
        yield f"Not known: {held}: {_some(live.gone)} ran there then, by events, and {_are(live.gone)} gone"
    if not way.complete:
        yield "Not known: which pods run there"
    for amounts, what in (
        (placing.nameless, "in use that no pod accounts for"),
        (placing.scarce, "published as free that the machine and the configuration do not leave"),
    ):
        texts = [
            _amount_text(name, size, numa) for numa, own in amounts.items() for name, size in own.items()
        ]
        if texts:
            yield f"By {PUBLISHED} there {'is' if len(texts) == 1 else 'are'} {both(texts)} {what}"


def _some(names: Sequence[str]) -> str:
    if len(names) <= SHOWN:
        return both(names)
    return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _amount_text(name: str, size: int, numa: int) -> str:
    if name == CPU:
        return f"{counted(size, 'CPU')} on NUMA {numa}"
    if name == MEMORY or name.startswith(HUGEPAGES):
        return f"{bytes_text(size)} of {name} on NUMA {numa}"
    return f"{size} {name} on NUMA {numa}"


def called(namespace: str, name: str) -> str:
    """``namespace/name``, without the default namespace."""
    return name if namespace == "default" else f"{namespace}/{name}"

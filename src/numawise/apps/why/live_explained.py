"""A pod of a cluster explained: by its status and events alone, or, with a bundle of its node, by simulation.

Rules kept here:

1. The API server knows neither the machine nor who holds what on it.  Without these the answer is what the
   kubelet said, what the pod asks for and under which policy; and which command on which node shows more.
2. The configuration is the running kubelet's where it may be asked (``configz``), else the bundle's.
3. A bundle of another node is refused.  It is recognised by the machine's id, from which its names were
   made, or by the node's name; and with that id the names in its state files become the cluster's own again.
"""

from collections.abc import Iterable, Mapping

from numawise.apps.why.live import Live, raw_pod, raw_pods
from numawise.apps.why.nodes import started_node
from numawise.codec.bundle.manifest import ONCE, Names, key_of
from numawise.codec.bundle.state import renamed_state
from numawise.codec.kubelet import effective
from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.codec.node import node_from
from numawise.engine.failure import TOPOLOGY_AFFINITY
from numawise.errors import ClusterError, InputError
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.explain.merge import RULES
from numawise.explain.outcome import recreation
from numawise.inputs.bundle import Bundle
from numawise.inputs.spec import NodeInput
from numawise.kube.client import Object
from numawise.machine.description import NodeDescription
from numawise.render.words import both
from numawise.request.defaults import RawPod, defaulted
from numawise.results.explanation import ADMITTED, REJECTED, Explanation
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import Version
from numawise.values import dataclass, replace

NOT_SCHEDULED = "not scheduled"
SHOWN = 3
"""Containers whose requests are shown; of more only the number."""


def explain_live(live: Live, given: NodeInput) -> Explanation:
    """Explain a pod of a cluster."""
    if live.pod is None or given.machine_input is None:
        return _by_status(live, given)
    if given.bundle is not None and live.node_name:
        _same_node(live, given.bundle)
    version = _version(live, given)
    raw = raw_pod(live.pod)
    machine, config = given.machine, _config(live, given, version)
    others = [pod for pod in raw_pods(live.neighbours) if pod.uid != raw.uid]
    node = started_node(machine, config, _texts(live, given), version, others, _description(live, given))
    if isinstance(node, Explanation):
        return replace(node, remarks=(*node.remarks, *live.remarks))
    if raw.uid in node.state.active:
        node.run_already([raw])
    reason, _ = live.refusal
    if reason:
        node.remove(raw.uid)
    explanation = explain(case_of(node, raw))
    return replace(
        explanation, remarks=(*_beside(live, given, explanation), *explanation.remarks, *live.remarks)
    )


def _description(live: Live, given: NodeInput) -> NodeDescription | None:
    """What the Node object says: the one that was named, or the cluster's."""
    if given.description is not None or live.node is None:
        return given.description
    try:
        return node_from(live.node)
    except InputError as problem:
        raise ClusterError(f"the API server's node cannot be read: {problem}") from None


# --- by what the API server knows -----------------------------------------------------------


def _by_status(live: Live, given: NodeInput) -> Explanation:
    pod, status = live.pod or {}, live.status
    metadata = pod.get("metadata") or {}
    raw = raw_pod(live.pod) if live.pod is not None else None
    config = _reported_config(live, _version(live, given))
    policy = config.topology_manager_policy if config else ""
    reason, message = live.refusal
    verdict, answer = _verdict(live, raw, policy)
    remarks = list(live.remarks)
    if verdict == REJECTED:
        owner = raw.owner if raw else ""
        remarks += filter(None, [recreation(owner), _more(live)])
    return Explanation(
        name=str(metadata.get("name") or live.asked),
        verdict=verdict,
        answer=answer,
        namespace=live.namespace,
        uid=raw.uid if raw else "",
        qos=str(status.get("qosClass") or (defaulted(raw).qos if raw else "")),
        reason=reason,
        message=message,
        remarks=tuple(remarks),
        policy=policy,
        scope=config.topology_manager_scope if config else "",
        rule=RULES.get(policy, "") if reason == TOPOLOGY_AFFINITY else "",
    )


def _verdict(live: Live, raw: RawPod | None, policy: str) -> tuple[str, str]:
    """One word and one sentence."""
    status, node = live.status, live.node_name
    asks = f" that asks for {_asks(raw)}" if raw and _asks(raw) else ""
    reason, message = live.refusal
    if reason == TOPOLOGY_AFFINITY:
        under = f"policy {policy} of node {node}" if policy else f"the topology policy of node {node}"
        return (
            REJECTED,
            f"Rejected: {under} does not accept a pod{asks} in the state of the node at that time",
        )
    if reason:
        return (
            REJECTED,
            f"Rejected: the kubelet of node {node} did not admit a pod{asks}: {message or reason}",
        )
    if not node:
        told = _condition(status, "PodScheduled")
        return NOT_SCHEDULED, f"Not scheduled: no kubelet has seen it{f'; {told}' if told else ''}"
    phase = str(status.get("phase") or "Unknown")
    waiting = _waiting(status)
    if waiting:
        return ADMITTED, f"Admitted by node {node}, but {waiting}"
    if phase == "Failed":
        told = ": ".join(filter(None, [str(status.get("reason") or ""), str(status.get("message") or "")]))
        return ADMITTED, f"Admitted by node {node}; it failed later{f': {told}' if told else ''}"
    return ADMITTED, f"Admitted by node {node}, {phase.lower()} there; its state files show where"


def _more(live: Live) -> str:
    node = live.node_name or "the node"
    what = "The API server does not know which resource decided, on which NUMA node and by how much"
    return f"{what}: run 'numawise bundle' on {node}, and give the file with --bundle"


def _asks(raw: RawPod) -> str:
    parts = []
    for container in defaulted(raw).containers:
        amounts = [
            f"{amount} CPUs"
            if name == "cpu"
            else f"{amount} of memory"
            if name == "memory"
            else f"{amount} {name}"
            for name, amount in container.requests.items()
            if amount.nano
        ]
        if amounts:
            parts.append((container.name, both(amounts)))
    if len(parts) == 1:
        return parts[0][1]
    if len(parts) > SHOWN:
        return f"resources in {len(parts)} containers"
    return both([f"{asks} ({name})" for name, asks in parts])


def _waiting(status: Mapping[str, object]) -> str:
    """What a container of an admitted pod waits for, when that is an error."""
    for key in ("initContainerStatuses", "containerStatuses"):
        found = status.get(key)
        for one in found if isinstance(found, list) else ():
            waiting = (one.get("state") or {}).get("waiting") or {}
            reason = str(waiting.get("reason") or "")
            if reason and reason not in ("ContainerCreating", "PodInitializing"):
                message = str(waiting.get("message") or "")
                return f"container {one.get('name')} waits: {': '.join(filter(None, [reason, message]))}"
    return ""


def _condition(status: Mapping[str, object], kind: str) -> str:
    found = status.get("conditions")
    for one in found if isinstance(found, list) else ():
        if one.get("type") == kind and one.get("status") == "False":
            return ": ".join(filter(None, [str(one.get("reason") or ""), str(one.get("message") or "")]))
    return ""


# --- by simulation --------------------------------------------------------------------------


def _version(live: Live, given: NodeInput) -> Version:
    return given.version if given.spec.kube else live.version or given.version


def _config(live: Live, given: NodeInput, version: Version) -> KubeletConfig:
    """The kubelet's configuration (rule 2)."""
    if given.spec.has_config:
        return given.configuration.config(version)
    return _reported_config(live, version) or given.configuration.config(version)


def _reported_config(live: Live, version: Version) -> KubeletConfig | None:
    raw = effective.by_kubelet(live.configz, version)
    found = decode_kubelet_config(raw, version) if raw is not None else None
    return None if isinstance(found, Refusal) else found


def _texts(live: Live, given: NodeInput) -> dict[str, str]:
    """The state files, under the names of the cluster (rule 3)."""
    texts = given.texts
    if given.spec.state or given.bundle is None or not given.bundle.manifest.anonymised:
        return texts
    names = Names(key_of(str(live.info.get("machineID") or "")))
    back = _Back.of(names, (*live.neighbours, *([live.pod] if live.pod else [])))
    return {name: renamed_state(name, text, back) for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class _Back:
    """The cluster's own names for the words of a bundle."""

    uids: Mapping[str, str]
    containers: Mapping[str, str]

    @classmethod
    def of(cls, names: Names, pods: Iterable[Object]) -> "_Back":
        raws = [raw_pod(pod) for pod in pods]
        return cls(
            {names.uid(raw.uid): raw.uid for raw in raws},
            {names.name("container", one.name): one.name for raw in raws for one in raw.containers},
        )

    def uid(self, uid: str) -> str:
        return self.uids.get(uid, uid)

    def name(self, kind: str, name: str) -> str:
        return self.containers.get(name, name) if kind == "container" else name

    def device(self, text: str) -> str:
        return text

    def resource(self, name: str) -> str:
        return name


def _same_node(live: Live, bundle: Bundle) -> None:
    """Refuse a bundle of another node, where that can be determined (rule 3)."""
    manifest = bundle.manifest
    if not manifest.anonymised:
        if manifest.node and manifest.node != live.node_name:
            raise _other(live, bundle, f"of node {manifest.node}")
        return
    machine_id = str(live.info.get("machineID") or "")
    if (
        machine_id
        and not manifest.key.startswith(ONCE)
        and Names(key_of(machine_id)).fingerprint != manifest.key
    ):
        raise _other(live, bundle, "of another machine")


def _other(live: Live, bundle: Bundle, what: str) -> InputError:
    advice = f"run 'numawise bundle' on {live.node_name}, or leave --bundle out"
    return InputError(f"is {what}, and the pod was sent to {live.node_name}", file=bundle.path, advice=advice)


def _beside(live: Live, given: NodeInput, explanation: Explanation) -> list[str]:
    """What to know about an answer that comes from files of another time."""
    found = []
    reason, _ = live.refusal
    collected = given.bundle.manifest.collected if given.bundle else ""
    if reason and explanation.admitted:
        when = f"when the bundle was made ({collected})" if collected else "by the state files"
        found.append(f"The kubelet refused it ({reason}), but with what was held {when} it is admitted")
    elif collected and live.status.get("startTime"):
        found.append(f"State files of {collected}; the pod reached the node at {live.status['startTime']}")
    if live.configz is None and given.bundle is not None and not given.spec.has_config:
        found.append("The configuration is the bundle's, as the running kubelet could not be asked")
    return found

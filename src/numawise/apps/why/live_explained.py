"""A pod of a cluster explained: on state files of its node, on a state that was rebuilt, or by its status.

Rules kept here:

1. State files that were given count.  Without any, the state is rebuilt where machine and configuration are
   known. Else the answer is what the kubelet said, what the pod asks for and under which policy; and how to
   learn more.
2. The configuration is the running kubelet's where it may be asked (``configz``), else the bundle's.
3. A bundle of another node is refused.  It is recognised by the machine's id, from which its names were
   made, or by the node's name; and with that id the names in its state files become the cluster's own
   again.
"""

import re
from collections.abc import Iterable, Mapping

from numawise.apps.why.live import Live, ran_at, raw_pod
from numawise.apps.why.nodes import as_said, started_node
from numawise.apps.why.pending import scheduler_words
from numawise.apps.why.rebuilt import (
    NodeWithoutState,
    called,
    explain_rebuilt,
    reported_config,
    runs,
    without_state,
)
from numawise.codec.bundle.manifest import ONCE, Names, key_of
from numawise.codec.bundle.state import renamed_state
from numawise.codec.document import mapping
from numawise.codec.objects import kubelet_uid
from numawise.engine.failure import TOPOLOGY_AFFINITY
from numawise.engine.state import held_by
from numawise.errors import InputError
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.explain.merge import RULES
from numawise.explain.outcome import recreation
from numawise.inputs.bundle import Bundle
from numawise.inputs.spec import NodeInput
from numawise.kube.client import Object
from numawise.node.node import SimulatedNode
from numawise.quantity import Quantity
from numawise.render.words import both, bytes_text
from numawise.request.defaults import RawPod, defaulted
from numawise.request.model import CPU, HUGEPAGES, MEMORY
from numawise.results.explanation import ADMITTED, NOT_SCHEDULED, REJECTED, Explanation
from numawise.strconv import whole_number
from numawise.values import dataclass, replace

SUMS = re.compile(
    r"enough resource: ([^\s,]{1,100}), requested: (\d{1,18}), used: (\d{1,18}), capacity: (\d{1,18})",
    re.ASCII,
)
ODD = re.compile(r"requested (\d{1,6}) cpus not multiple cpus per core = (\d{1,4})", re.ASCII)
SHOWN = 3
"""Containers whose requests are shown; of more only the number."""


def explain_live(live: Live, given: NodeInput) -> Explanation:
    """Explain a pod of a cluster (rule 1)."""
    if live.pod is None:
        return _by_status(live, given, "")
    if given.bundle is not None and live.sent_to:
        _same_node(live, given.bundle)
    stateless = without_state(live, given)
    if isinstance(stateless, str):
        return _by_status(live, given, stateless)
    if given.texts:
        return _recorded(live, given, stateless)
    if not live.node.name and given.machine_input is None:
        return _by_status(live, given, "its node")
    rebuilt = explain_rebuilt(live, stateless)
    if rebuilt is None:
        return _by_status(live, given, "which pods run there")
    return _placed(live, given, rebuilt) if runs(live) else rebuilt


def _placed(live: Live, given: NodeInput, rebuilt: Explanation) -> Explanation:
    """A pod that the kubelet admitted: its status, and the place that the reconstruction gives it."""
    known = _by_status(live, given, "")
    basis = rebuilt.reconstruction
    if not rebuilt.admitted or basis is None or called(rebuilt.namespace, rebuilt.name) in basis.unplaced:
        answer = f"{known.answer}, and the reconstruction has no place for it"
        return replace(known, answer=answer, remarks=rebuilt.remarks, reconstruction=basis)
    where = rebuilt.answer.removeprefix("Admitted").lstrip(":, ").removeprefix("but ")
    return replace(rebuilt, verdict=known.verdict, answer=f"{known.answer}; by the reconstruction {where}")


def _recorded(live: Live, given: NodeInput, stateless: NodeWithoutState) -> Explanation:
    """Explain a pod on the state files that were given."""
    assert live.pod is not None
    raw = raw_pod(live.pod)
    running = (raw_pod(pod) for pod in live.node.pods or () if ran_at(pod, ""))
    others = [pod for pod in running if pod.uid != raw.uid]
    node = started_node(
        stateless.machine,
        stateless.config,
        _texts(live, given),
        stateless.version,
        others,
        stateless.description,
    )
    remarks = (*live.remarks, *live.node.remarks)
    if isinstance(node, Explanation):
        return replace(node, remarks=(*node.remarks, *remarks))
    for uid in _gone(live, node, raw.uid):
        node.remove(uid)
    if raw.uid in node.state.active:
        node.run_already([raw])
    reason, message = live.refusal
    if reason:
        node.remove(raw.uid)
    found = explain(case_of(node, raw), walk=True)
    if reason and not found.admitted:
        found = as_said(found, reason, message)
    return replace(found, remarks=(*_beside(live, given, found), *found.remarks, *remarks))


def _gone(live: Live, node: SimulatedNode, uid: str) -> list[str]:
    """Pods that are recorded and no longer run; none where the files call pods by other words."""
    recorded = [one for one in node.state.active if held_by(node.state, one)]
    ours = {kubelet_uid(pod) for pod in live.node.pods or ()} | {uid}
    if ours.isdisjoint(recorded):
        return []
    return [one for one in recorded if node.state.active[one] is None and one != uid]


# --- by what the API server knows -----------------------------------------------------------


def _by_status(live: Live, given: NodeInput, missing: str) -> Explanation:
    """What the API server knows alone; ``missing``: what would have to be known for more."""
    raw = raw_pod(live.pod) if live.pod is not None else None
    config = reported_config(live, given.version if given.spec.kube else live.node.version or given.version)
    policy = config.topology_manager_policy if config else ""
    reason, message = live.refusal
    verdict, answer = _verdict(live, raw, policy)
    remarks = [*live.remarks, *live.node.remarks]
    if verdict == REJECTED:
        owner = raw.owner if raw else ""
        remarks += filter(None, [recreation(owner), _meaning(message) or _more(live, missing)])
    elif verdict == NOT_SCHEDULED:
        remarks.append("To judge it on a node of the cluster, name one with --node-name")
    elif missing:
        remarks.append(f"Not known: on which NUMA node; {_learn(live)}")
    return Explanation(
        name=raw.name if raw else live.asked,
        verdict=verdict,
        answer=answer,
        namespace=live.namespace,
        uid=raw.uid if raw else "",
        qos=str(live.status.get("qosClass") or (defaulted(raw).qos if raw else "")),
        reason=reason,
        message=message,
        said=True,
        remarks=tuple(remarks),
        policy=policy,
        scope=config.topology_manager_scope if config else "",
        rule=RULES.get(policy, "") if reason == TOPOLOGY_AFFINITY else "",
    )


def _verdict(live: Live, raw: RawPod | None, policy: str) -> tuple[str, str]:
    """One word and one sentence."""
    status, node = live.status, live.sent_to
    where = f"of node {node}" if node else "of its node"
    asks = f" that asks for {_asks(raw)}" if raw and _asks(raw) else ""
    reason, message = live.refusal
    if reason == TOPOLOGY_AFFINITY:
        under = f"policy {policy} {where}" if policy else f"the topology policy {where}"
        return (
            REJECTED,
            f"Rejected: {under} does not accept a pod{asks} in the state of the node at that time",
        )
    if reason:
        return REJECTED, f"Rejected: the kubelet {where} did not admit a pod{asks}: {message or reason}"
    if not node or live.template:
        why = scheduler_words(live)
        exists = "there is no such pod yet" if live.template else "no kubelet has seen it"
        return NOT_SCHEDULED, f"Not scheduled: {exists}{f'; {why}' if why else ''}"
    phase = str(status.get("phase") or "Unknown")
    waiting = _waiting(status)
    if waiting:
        return ADMITTED, f"Admitted by node {node}, but {waiting}"
    if phase == "Failed":
        words = (str(status.get("reason") or ""), str(status.get("message") or ""))
        later = ": ".join(filter(None, words))
        return ADMITTED, f"Admitted by node {node}; it failed later{f': {later}' if later else ''}"
    return ADMITTED, f"Admitted by node {node}, {phase.lower()} there"


def _meaning(message: str) -> str:
    """What decided, where the kubelet's message says it: the sums of the node, or whole cores."""
    if sums := SUMS.search(message):
        resource, wanted, used, room = sums[1], *map(whole_number, sums.groups()[1:])
        amounts = [_amount(resource, size) for size in (room, used, wanted)]
        return (
            f"No NUMA node decided, but the sum of {resource}: of {amounts[0]} the pods there request "
            f"{amounts[1]} already, and this one asks for {amounts[2]}"
        )
    if odd := ODD.search(message):
        asked, threads = whole_number(odd[1]), max(1, whole_number(odd[2]))
        up = -(-asked // threads) * threads
        return (
            f"full-pcpus-only gives out whole cores of {threads} CPUs: ask for {up} CPUs instead of {asked}"
        )
    return ""


def _amount(resource: str, size: int) -> str:
    if resource == CPU:
        return f"{Quantity(size * 1_000_000)} CPUs"
    return bytes_text(size) if resource == MEMORY or resource.startswith(HUGEPAGES) else str(size)


def _more(live: Live, missing: str) -> str:
    """How to learn more."""
    what = "Not known: which resource decided, on which NUMA node and by how much"
    if missing == "the machine":
        return f"{what}, as the machine is not known: {_learn(live)}; or give --machine"
    if missing == "the kubelet's configuration":
        unread = "as the kubelet's configuration may not be read: give --kubelet-config"
        return f"{what}, {unread}; or {_learn(live)}"
    return f"{what}: {_learn(live)}"


def _learn(live: Live) -> str:
    return f"run 'numawise bundle' on {live.sent_to or 'the node'}, and give the file with --bundle"


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
        rows = status.get(key)
        for one in map(mapping, rows if isinstance(rows, list) else ()):
            waiting = mapping(mapping(one.get("state")).get("waiting"))
            reason = str(waiting.get("reason") or "")
            if reason and reason not in ("ContainerCreating", "PodInitializing"):
                message = str(waiting.get("message") or "")
                return f"container {one.get('name')} waits: {': '.join(filter(None, [reason, message]))}"
    return ""


# --- by simulation --------------------------------------------------------------------------


def _texts(live: Live, given: NodeInput) -> dict[str, str]:
    """The state files, under the names of the cluster (rule 3)."""
    texts = given.texts
    if given.spec.state or given.bundle is None or not given.bundle.manifest.anonymised:
        return texts
    names = Names(key_of(str(live.node.info.get("machineID") or "")))
    back = _Back.of(names, (*(live.node.pods or ()), *([live.pod] if live.pod else [])))
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
        if manifest.node and manifest.node != live.sent_to:
            raise _other(live, bundle, f"of node {manifest.node}")
        return
    machine_id = str(live.node.info.get("machineID") or "")
    if (
        machine_id
        and not manifest.key.startswith(ONCE)
        and Names(key_of(machine_id)).fingerprint != manifest.key
    ):
        raise _other(live, bundle, "of another machine")


def _other(live: Live, bundle: Bundle, what: str) -> InputError:
    advice = f"run 'numawise bundle' on {live.sent_to}, or leave --bundle out"
    return InputError(f"is {what}, and the pod was sent to {live.sent_to}", file=bundle.path, advice=advice)


def _beside(live: Live, given: NodeInput, explanation: Explanation) -> list[str]:
    """What to know about an answer that comes from files of another time."""
    remarks = []
    reason, _ = live.refusal
    collected = given.bundle.manifest.collected if given.bundle and not given.spec.state else ""
    if reason and explanation.admitted:
        when = f"when the bundle was made ({collected})" if collected else f"by {given.state_place}"
        remarks.append(f"The kubelet refused it ({reason}), but with what was held {when} it is admitted")
    elif collected and live.status.get("startTime"):
        remarks.append(f"State files of {collected}; the pod reached the node at {live.status['startTime']}")
    if live.node.configz is None and given.bundle is not None and not given.spec.has_config:
        remarks.append("The configuration is the bundle's, as the running kubelet could not be asked")
    return remarks

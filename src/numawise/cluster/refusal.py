"""What the refusal of a pod is called: one name, whichever command asks.

Rules kept here:

1. What a pod demands of a node apart from resources is called as the scheduler calls it.
2. A refusal that lasts is called as the kubelet of the idle node, its devices healthy, calls it: never.
3. Any other is called as the node's kubelet calls it now, which looks at sums after its managers.
4. Where the kubelet would let the pod in, and the scheduler would not send it there, it is the first of the
   sums that do not suffice.
"""

from collections.abc import Hashable, Iterable

from numawise.cluster.asking import CRASHES, NO_START, Asker, Member, Situation, looks_nowhere
from numawise.engine.admit import Crashed, Rejected
from numawise.engine.lifecycle import devices_changed, remove, start_containers
from numawise.engine.matching import Unmet
from numawise.engine.state import NodeState, recorded
from numawise.errors import SearchEnded
from numawise.node.node import SimulatedNode
from numawise.request.defaults import RawPod
from numawise.request.model import PodRequest
from numawise.values import dataclass, replace

MOST_NAMED = 20_000


@dataclass(frozen=True, slots=True)
class RefusalName:
    """What a refusal is called."""

    reason: str
    never: bool = False
    """The idle node with healthy devices would refuse the pod, too."""


def refusal_name(asker: Asker, situation: Situation, raw: RawPod) -> RefusalName:
    """Of a pod that a node does not let in; what is known of the node's state is kept."""
    member = situation.member
    now = situation.state is member.node.state
    key = (asker.shape(raw), asker.place(member, raw)) if now else None
    known = asker.named.get(key) if key is not None else None
    if known is None:
        known = _named(asker, situation, raw)
        if key is not None:
            if len(asker.named) >= MOST_NAMED:
                asker.named.clear()
            asker.named[key] = known
    return known


def _named(asker: Asker, situation: Situation, raw: RawPod) -> RefusalName:
    lack = asker.lack(situation, raw)
    if isinstance(lack, Unmet):
        return RefusalName(lack.reason)
    node = replace(situation.member.node, state=situation.state)
    pod = asker.want(node, raw)[0]
    try:
        lasting = _idle_reason(asker, situation.member, node, raw, pod)
        reason = lasting or kubelet_reason(node, pod)
    except SearchEnded:
        lasting, reason = "", ""
    return RefusalName(reason or (lack.reason if lack is not None else ""), never=bool(lasting))


def _idle_reason(asker: Asker, member: Member, node: SimulatedNode, raw: RawPod, pod: PodRequest) -> str:
    """Rule 2; equal nodes are asked once, where nothing but resources is looked at."""
    key: Hashable = None
    if looks_nowhere(raw.constraints):
        key = asker.shape(raw), kind_when_idle(member)
        if key in asker.lasting:
            return asker.lasting[key]
    state = idle_state(node.state, pod.uid)
    state = healed_state(state, state.devices.plugins)
    reason = kubelet_reason(replace(node, state=state), pod)
    if key is not None:
        if len(asker.lasting) >= MOST_NAMED:
            asker.lasting.clear()
        asker.lasting[key] = reason
    return reason


def kubelet_reason(node: SimulatedNode, pod: PodRequest) -> str:
    """Why a kubelet would not run a pod; '': it would."""
    decision = node.ask(pod)
    if isinstance(decision, Rejected):
        return decision.reason
    if isinstance(decision, Crashed):
        return CRASHES
    _, started = start_containers(node.machine, node.rules, decision.state, pod, decision.affinity)
    return NO_START if any(container.error for container in started) else ""


# --- idle nodes -------------------------------------------------------------------------------


def kind_when_idle(member: Member) -> Hashable:
    """Equal for nodes that answer alike once their pods have ended: of one kind, with the same devices."""
    plugins = member.node.state.devices.plugins.items()
    broken = any(plugin.devices.keys() - plugin.healthy for _, plugin in plugins)
    if member.kind is None or broken:
        return member.number, member.changes
    return member.kind, tuple((resource, len(plugin.devices)) for resource, plugin in plugins)


def idle_state(state: NodeState, uid: str) -> NodeState:
    """A state after all other pods have ended, also those of which only what they hold is known."""
    alone = remove(state, *(other for other in state.active if other != uid))
    return replace(alone, departed=alone.departed | ({*recorded(alone)} - {uid}))


def healed_state(state: NodeState, resources: Iterable[str]) -> NodeState:
    """A state with all devices of some resources healthy."""
    for resource in resources:
        plugin = state.devices.plugins.get(resource)
        if plugin is not None and len(plugin.healthy) < len(plugin.devices):
            healthy = [replace(device, healthy=True) for device in plugin.devices.values()]
            state = devices_changed(state, resource, healthy)
    return state

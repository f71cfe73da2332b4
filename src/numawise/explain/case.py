"""A pod at the door of a kubelet, and the ways to look at it again after a change.

Rules kept here:

1. A case is a value; a change makes another case, and ``admitted`` asks its node about it.
2. A changed configuration takes a restart of the kubelet: every live pod is admitted again under it, and
   when one of them would not be, the change does not help.
3. A pod that must be created again comes under another uid, when what the old one held was collected.
"""

from collections.abc import Iterable

from numawise.cluster.refusal import healed_state, idle_state
from numawise.engine.admit import Admitted, Decision
from numawise.engine.lifecycle import plugins_spoke, remove
from numawise.engine.start import Records, start
from numawise.engine.state import NodeState
from numawise.engine.trace import Note, ignore
from numawise.errors import SearchEnded
from numawise.machine.model import DevicePlugin, Machine
from numawise.node.node import Files, SimulatedNode
from numawise.request.defaults import RawPod
from numawise.request.model import PodRequest, Role, most_at_once
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig, Rules
from numawise.rules.versions import Version
from numawise.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class ExplainCase:
    """One pod, and the node that it comes to."""

    node: SimulatedNode
    """Nobody changes it."""
    raw: RawPod
    pod: PodRequest
    after: NodeState | None = None
    """Of a pod that is admitted again: the state once the kubelet is up, without it.  None: work it out."""

    @property
    def machine(self) -> Machine:
        """What the node runs on."""
        return self.node.machine

    @property
    def config(self) -> KubeletConfig:
        """The kubelet's configuration."""
        return self.node.config

    @property
    def rules(self) -> Rules:
        """How it decides."""
        return self.node.rules

    @property
    def state(self) -> NodeState:
        """Who holds what."""
        return self.node.state

    @property
    def version(self) -> Version:
        """The kubelet's release."""
        return self.node.version

    @property
    def again(self) -> bool:
        """True when the kubelet knows the pod already, as after a restart."""
        return self.pod.uid in self.state.active


def case_of(node: SimulatedNode, raw: RawPod, after: NodeState | None = None) -> ExplainCase:
    """A pod that is about to reach a node, as it is now."""
    return ExplainCase(replace(node, files=Files(), write_files=False), raw, node.requested(raw), after)


def decided(case: ExplainCase, note: Note = ignore) -> Decision:
    """What the kubelet does with the pod."""
    return case.node.ask(case.pod, note)


def admitted(case: ExplainCase) -> bool:
    """True when the pod is known to be admitted and all its containers to start."""
    try:
        return case.node.would_run(case.pod)
    except SearchEnded:
        return False


def admitted_node(case: ExplainCase) -> SimulatedNode | None:
    """The node once the pod runs on it; None: it is not let in."""
    node = case_of(case.node, case.raw).node
    decision = node.admit(case.pod)
    if not isinstance(decision, Admitted):
        return None
    node.start(case.pod, decision)
    return node


def acceptable(pod: PodRequest) -> bool:
    """True when the pod's own resources, where it has any, cover what its containers ask for.

    The API server refuses it otherwise, so that no kubelet would ever see it.
    """
    for name, size in (pod.requests or {}).items():
        asked = {one.name: one.requests[name].nano for one in pod.containers if name in one.requests}
        if most_at_once(pod.containers, lambda one, asked=asked: asked.get(one.name, 0)) > size.nano:  # type: ignore[misc]
            return False
    apps = [one for one in pod.containers if one.role is Role.APP]
    return not any(
        name in one.limits and one.limits[name].nano > size.nano
        for name, size in (pod.limits or {}).items()
        for one in apps
    )


def with_pod(case: ExplainCase, raw: RawPod) -> ExplainCase:
    """The same with another pod."""
    return replace(case, raw=raw, pod=case.node.requested(raw))


def with_state(case: ExplainCase, state: NodeState) -> ExplainCase:
    """The same in another state."""
    return replace(case, node=replace(case.node, state=state))


def without(case: ExplainCase, *uids: str) -> ExplainCase:
    """The same after other pods have ended."""
    return with_state(case, remove(case.state, *uids))


def idle(case: ExplainCase) -> ExplainCase:
    """The same after all other pods have ended, also those of which only what they hold is known."""
    return with_state(case, idle_state(case.state, case.pod.uid))


def healed(case: ExplainCase, resources: Iterable[str]) -> ExplainCase:
    """The same with all devices of some resources healthy."""
    state = healed_state(case.state, resources)
    return case if state is case.state else with_state(case, state)


def created_again(case: ExplainCase) -> ExplainCase:
    """The same pod created again, after the one that the kubelet knows is gone (rule 3)."""
    uid = case.pod.uid
    state = case.after or replace(remove(case.state, uid), ready=True)
    return with_pod(
        replace(with_state(case, state), after=None), replace(case.raw, uid=f"{uid}-again", allocated=None)
    )


def with_config(case: ExplainCase, config: KubeletConfig) -> ExplainCase | None:
    """The same under another configuration, as if nothing had to restart; None: it does not start."""
    node = case.node.configured(config)
    return None if isinstance(node, Refusal) else with_pod(replace(case, node=node), case.raw)


def restarted(case: ExplainCase) -> ExplainCase | None:
    """The same after the kubelet restarted and took back all live pods; None: it did not (rule 2)."""
    before = case.state
    records = Records(before.cpu, before.memory, before.devices.saved)
    state = start(case.machine, case.rules, records, before)
    if isinstance(state, Refusal):
        return None
    node = replace(case.node, state=plugins_spoke(state, plugins_of(before)))
    for pod in before.active.values():
        if pod is not None and not isinstance(node.admit(pod), Admitted):
            return None
    node.sources_ready()
    return replace(case, node=node)


def plugins_of(state: NodeState) -> tuple[DevicePlugin, ...]:
    """The device plugins that have spoken, with the lists they sent last."""
    return tuple(
        DevicePlugin(resource, tuple(plugin.devices.values()), plugin.preference, plugin.refuses_several)
        for resource, plugin in state.devices.plugins.items()
        if plugin.connected
    )

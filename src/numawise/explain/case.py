"""A pod at the door of a kubelet, and the ways to look at it again after a change.

Rules kept here:

1. A case is a value; a change makes another case, and ``admitted`` asks the engine about it.
2. A changed configuration takes a restart of the kubelet: every live pod is admitted again under it, and
   when one of them would not be, the change is no way out.
3. A pod that must be made anew comes under another uid, when what the old one held was collected.
"""

from dataclasses import dataclass, replace

from numawise.engine.admit import Admitted, Decision, admit
from numawise.engine.lifecycle import plugins_spoke, remove, start_containers
from numawise.engine.start import Records, build, start
from numawise.engine.state import NodeState
from numawise.engine.trace import Note, ignore
from numawise.machine.model import DevicePlugin, Machine
from numawise.node.node import Node
from numawise.request.defaults import RawPod, defaulted
from numawise.request.model import PodRequest, Role, most_at_once
from numawise.rules.check import Refusal, check
from numawise.rules.model import KubeletConfig, Rules
from numawise.rules.versions import REFERENCE, Version
from numawise.sets import CpuSet


@dataclass(frozen=True, slots=True)
class ExplainCase:
    """One pod, and everything its admission hangs on."""

    machine: Machine
    config: KubeletConfig
    rules: Rules
    state: NodeState
    raw: RawPod
    pod: PodRequest
    version: Version = REFERENCE
    after: NodeState | None = None
    """Of a pod that is admitted again: the state once the kubelet is up, without it.  None: work it out."""

    @property
    def again(self) -> bool:
        """True when the kubelet knows the pod already, as after a restart."""
        return self.pod.uid in self.state.active


def case_of(
    node: Node, raw: RawPod, version: Version = REFERENCE, after: NodeState | None = None
) -> ExplainCase:
    """A pod that is about to reach a node."""
    pod = requested(raw, node.rules)
    return ExplainCase(node.machine, node.config, node.rules, node.state, raw, pod, version, after)


def requested(raw: RawPod, rules: Rules) -> PodRequest:
    """What reaches a kubelet of these rules."""
    return defaulted(raw, pod_level=rules.pod_level_resources, sidecars=rules.sidecars)


def decided(case: ExplainCase, note: Note = ignore) -> Decision:
    """What the kubelet does with the pod."""
    return admit(case.machine, case.rules, case.state, case.pod, note)


def admitted(case: ExplainCase) -> bool:
    """True when the pod is admitted and all its containers start."""
    decision = decided(case)
    if not isinstance(decision, Admitted):
        return False
    if not any(container.devices for container in case.pod.containers):
        return True
    _, started = start_containers(case.machine, case.rules, decision.state, case.pod, decision.affinity)
    return not any(one.error for one in started)


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
    return replace(case, raw=raw, pod=requested(raw, case.rules))


def without(case: ExplainCase, uid: str) -> ExplainCase:
    """The same after another pod has ended."""
    return replace(case, state=remove(case.state, uid))


def anew(case: ExplainCase) -> ExplainCase:
    """The same pod made anew, after the one that the kubelet knows is gone (rule 3)."""
    uid = case.pod.uid
    state = case.after or replace(remove(case.state, uid), ready=True)
    return with_pod(replace(case, state=state, after=None), replace(case.raw, uid=f"{uid}-anew"))


def with_config(case: ExplainCase, config: KubeletConfig) -> ExplainCase | None:
    """The same under another configuration, as if nothing had to restart; None: it does not start."""
    settings = check(config, CpuSet(case.machine.layout.all), case.machine.capacity, case.version)
    if isinstance(settings, Refusal):
        return None
    rules = build(case.machine, config, settings, case.version, case.rules.behaviour)
    if isinstance(rules, Refusal):
        return None
    return with_pod(replace(case, config=config, rules=rules), case.raw)


def restarted(case: ExplainCase) -> ExplainCase | None:
    """The same after the kubelet restarted and took back all live pods; None: it did not (rule 2)."""
    before = case.state
    records = Records(before.cpu, before.memory, before.devices.saved)
    state = start(case.machine, case.rules, records, before)
    if isinstance(state, Refusal):
        return None
    state = plugins_spoke(state, plugins_of(before))
    for pod in before.active.values():
        if pod is None:
            continue
        decision = admit(case.machine, case.rules, state, pod)
        if not isinstance(decision, Admitted):
            return None
        state = decision.state
    return replace(case, state=replace(state, ready=True))


def plugins_of(state: NodeState) -> tuple[DevicePlugin, ...]:
    """The device plugins that have spoken, with the lists they sent last."""
    return tuple(
        DevicePlugin(resource, tuple(plugin.devices.values()), plugin.prefers_lowest)
        for resource, plugin in state.devices.plugins.items()
        if plugin.connected
    )

"""Whether a pod can ever be aligned on the machine: tried by the engine on an empty node.

Rules kept here:

1. The node is empty, the devices are all there, the configuration is the one that is checked (without what
   would keep the kubelet from starting).  A refusal there is a refusal everywhere on this machine.
2. Every other policy and scope is tried as well, to say which would admit the pod, and which would align it.
3. Without a configuration the most willing one is made up: everything static, a core and 100Mi reserved.
"""

from collections.abc import Iterator

from numawise.apps.check.context import Context
from numawise.apps.check.machine import duration
from numawise.apps.check.pods import requested
from numawise.apps.check.reserved_cpus import first_cores
from numawise.engine.admit import Admitted, Crashed, Decision, Rejected
from numawise.engine.trace import Step, TooManyCombinations
from numawise.errors import meant
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.gpus.choose import advice
from numawise.gpus.links import GpuLinks
from numawise.inputs.pods import PodSource, gpus_of
from numawise.machine.hardware import Hardware
from numawise.machine.locality import whole_gpus
from numawise.machine.model import Machine
from numawise.node.node import Files, Node, boot
from numawise.quantity import Quantity
from numawise.request.model import HUGEPAGES, PodRequest, most_at_once
from numawise.results.finding import Finding, Place, Severity, found
from numawise.rules.model import BEST_EFFORT, RESTRICTED, SINGLE, KubeletConfig, ReservedMemory
from numawise.rules.versions import Version
from numawise.sets import format_ids
from numawise.values import dataclass, replace

INSISTING = (RESTRICTED, SINGLE)
SCOPES = ("container", "pod")
USUAL_SERVER = 4
"""GPUs of a NUMA node on most servers with eight."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a pod on an empty node."""

    decision: Decision
    steps: tuple[Step, ...]

    @property
    def aligned(self) -> bool:
        """True when it was admitted as all its resources prefer."""
        hints = self.decision.affinity.values() if isinstance(self.decision, Admitted) else ()
        return isinstance(self.decision, Admitted) and all(hint.preferred for hint in hints)


def willing(machine: Machine) -> KubeletConfig:
    """A configuration that aligns everything it can (rule 3)."""
    home = next((numa.id for numa in machine.numa if numa.memory), machine.numa[0].id)
    return KubeletConfig(
        cpu_manager_policy="static",
        memory_manager_policy="Static",
        topology_manager_policy=BEST_EFFORT,
        reserved_system_cpus=format_ids(first_cores(machine.layout)),
        eviction_hard={"memory.available": "100Mi"},
        reserved_memory=(ReservedMemory(home, (("memory", Quantity.parse("100Mi")),)),),
        topology_manager_policy_options={"max-allowable-numa-nodes": str(max(8, len(machine.numa)))},
    )


def fit_findings(source: PodSource, context: Context) -> Iterator[Finding]:
    """What the machine makes of a pod."""
    if source.raw is None:
        return
    pod = requested(source, context)
    yield from gpu_findings(source, context.hardware if context.known else None)
    if not context.known:
        return
    yield from _offers(source, context, pod)
    config = context.start.config
    if config is None:
        return
    trial = _try(context, config, pod)
    if trial is None:
        return
    place = _where(source, trial.decision)
    for step in trial.steps:
        if isinstance(step, TooManyCombinations):
            many = f"up to {step.combinations:.1e} combinations of hints, {duration(step.seconds)}"
            yield found("NW436", place, f"{source.title}: {many}")
            break
    if isinstance(trial.decision, Crashed):
        yield found("NW428", place, f"{source.title}: {trial.decision.message}")
    elif isinstance(trial.decision, Rejected):
        yield _never(source, context, config, pod, trial.decision)
    elif len(context.machine.numa) > 1 and not source.uid:
        yield from _unaligned(source, context, config, pod, trial)


def _try(context: Context, config: KubeletConfig, pod: PodRequest) -> Trial | None:
    node = empty_node(context.machine, config, context.version)
    if node is None:
        return None
    steps: list[Step] = []
    return Trial(node.admit(pod, steps.append), tuple(steps))


def empty_node(machine: Machine, config: KubeletConfig, version: Version) -> Node | None:
    """A kubelet that has just started on a machine where nothing runs; None when it does not."""
    node = boot(machine, config, Files(), version=version)
    if not isinstance(node, Node):
        return None
    node.write_files = False
    node.plugins_registered(machine.plugins)
    return node


def _where(source: PodSource, decision: Decision) -> Place:
    """The resources of the container that decided, or of the first that asks for anything."""
    wanted = decision.container if isinstance(decision, Rejected) else ""
    for raw, part in source.parts:
        if raw is not None and (raw.name == wanted or (not wanted and raw.limits)):
            return source.place(part, "resources")
    return source.place(source.spec)


# --- never, or not aligned ------------------------------------------------------------------


def _never(
    source: PodSource, context: Context, config: KubeletConfig, pod: PodRequest, decision: Rejected
) -> Finding:
    node = empty_node(context.machine, config, context.version)
    assert node is not None
    assert source.raw is not None
    told = explain(case_of(node, source.raw))
    fix = told.suggestions[0].text if told.suggestions else ""
    others = _admitting(context, config, pod)
    why = told.answer.removeprefix("Rejected: ")
    if others:
        why += f"; admitted under {others}"
    if source.raw.owner or source.kind not in ("Pod", ""):
        why += f"; its {source.kind} makes it again and again"
    message = f"{source.title}: {decision.reason}: {decision.message}"
    return found("NW420", _where(source, decision), message, why=why, fix=fix)


def _admitting(context: Context, config: KubeletConfig, pod: PodRequest) -> str:
    """The policies and scopes that would admit the pod (rule 2)."""
    now = (config.topology_manager_policy, config.topology_manager_scope)
    yes: list[str] = []
    for policy in (SINGLE, RESTRICTED, BEST_EFFORT, "none"):
        for scope in SCOPES if policy != "none" else SCOPES[:1]:
            if (policy, scope) == now:
                continue
            other = replace(config, topology_manager_policy=policy, topology_manager_scope=scope)
            trial = _try(context, other, pod)
            if trial is not None and isinstance(trial.decision, Admitted):
                yes.append(policy if scope == "container" else f"{policy} in pod scope")
    return ", ".join(yes)


def _unaligned(
    source: PodSource, context: Context, config: KubeletConfig, pod: PodRequest, trial: Trial
) -> Iterator[Finding]:
    """Admitted, but only because the policy does not insist."""
    if not _asks(pod):
        return
    if config.topology_manager_policy == "none":
        trial_ = _try(context, replace(config, topology_manager_policy=BEST_EFFORT), pod)
        if trial_ is None:
            return
        trial = trial_
    if trial.aligned or not isinstance(trial.decision, Admitted):
        return
    refusing = [
        policy
        for policy in INSISTING
        if not any(_admits(context, config, pod, policy, scope) for scope in SCOPES)
    ]
    spread = [name for name, hint in sorted(trial.decision.affinity.items()) if not hint.preferred]
    where = ", ".join(
        f"{name} on NUMA nodes {hint.numa}"
        for name, hint in sorted(trial.decision.affinity.items())
        if name in spread and hint.numa is not None
    )
    message = f"{source.title}: not aligned even on an empty node{f': {where}' if where else ''}"
    why = ""
    if refusing:
        verb = "refuse" if len(refusing) > 1 else "refuses"
        why = f"{' and '.join(refusing)} {verb} it in either scope"
    yield found("NW421", _where(source, trial.decision), message, why=why)


def _asks(pod: PodRequest) -> bool:
    return any(container.devices or (pod.guaranteed and container.whole_cpus) for container in pod.containers)


def _admits(context: Context, config: KubeletConfig, pod: PodRequest, policy: str, scope: str) -> bool:
    other = replace(config, topology_manager_policy=policy, topology_manager_scope=scope)
    trial = _try(context, other, pod)
    return trial is not None and isinstance(trial.decision, Admitted)


# --- what the machine has -------------------------------------------------------------------


def _offers(source: PodSource, context: Context, pod: PodRequest) -> Iterator[Finding]:
    offered = {plugin.resource: len(plugin.devices) for plugin in context.machine.plugins}
    for raw, part in source.parts:
        if raw is None:
            continue
        for name, amount in sorted(raw.limits.items()):
            if "/" in name and amount.nano and offered and name not in offered:
                near = meant(name, tuple(offered))
                fix = (
                    f'did you mean "{near}"?' if near else f"the machine offers {', '.join(sorted(offered))}"
                )
                place = source.place(part, "resources", "limits", name)
                yield found("NW429", place, f"container {raw.name} asks for {name}", fix=fix)
    for name in sorted({n for c in pod.containers for n in c.limits if n.startswith(HUGEPAGES)}):
        wanted = most_at_once(pod.containers, lambda c, n=name: _value(c.limits.get(n)))  # type: ignore[misc]
        has = _pages(context.machine, name)
        if wanted > has:
            message = (
                f"{source.title} asks for {Quantity.of(wanted)} of {name}, the machine has {Quantity.of(has)}"
            )
            yield found("NW427", _where(source, Crashed("")), message)


def _value(amount: Quantity | None) -> int:
    return amount.value if amount is not None else 0


def _pages(machine: Machine, name: str) -> int:
    size = Quantity.parse(name.removeprefix(HUGEPAGES)).value
    return sum(
        pages * size
        for numa in machine.numa
        for text, pages in numa.hugepages
        if Quantity.parse(text).value == size
    )


def gpu_findings(source: PodSource, hardware: Hardware | None) -> Iterator[Finding]:
    """Numbers of GPUs that leave one alone on another NUMA node."""
    for raw, part in source.parts:
        count = gpus_of(raw) if raw is not None else 0
        if count < 2:
            continue
        assert raw is not None
        place = source.place(part, "resources")
        if hardware is not None and hardware.gpus:
            text = _crossing(hardware, count)
            if text:
                message, _, better = text.partition("; ")
                yield found("NW422", place, f"container {raw.name}: {message}", fix=better)
        elif USUAL_SERVER < count < 2 * USUAL_SERVER:
            message = f"container {raw.name}: {count} GPUs are {USUAL_SERVER} and {count - USUAL_SERVER}"
            message += " on servers with four GPUs on a NUMA node"
            yield found("NW422", place, message, severity=Severity.INFO)


def _crossing(hardware: Hardware, count: int) -> str:
    gpus = whole_gpus(hardware)
    if count > len(gpus):
        return ""
    links = GpuLinks.of(hardware, gpus)
    text = advice(links, links.every, count)
    return text if " cross NUMA nodes " in text and ": evenly" not in text else ""

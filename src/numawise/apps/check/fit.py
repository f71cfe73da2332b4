"""Whether pods can be aligned: what the machine puts in the way, and each pod tried on an empty node."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from numawise.apps.check.context import Context
from numawise.apps.check.corrections import field_removed
from numawise.apps.check.pod_corrections import resource_renamed
from numawise.apps.check.pods import requested
from numawise.apps.check.reserved import cpus_are, first_cores, numa_text
from numawise.engine.admit import Crashed, Decision, Rejected
from numawise.engine.matching import NODE_AFFINITY, NODE_NAME, OS_DIFFERS, OS_LABEL_DIFFERS, TAINTS
from numawise.engine.topology.why import NOTICEABLE, PER_COMBINATION, PER_MASK
from numawise.engine.trace import TooManyCombinations
from numawise.errors import SearchEnded, meant
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.gpus.choose import advice
from numawise.gpus.links import GpuLinks
from numawise.inputs.pods import PodSource, gpus_of
from numawise.machine.hardware import Hardware
from numawise.machine.locality import whole_gpus
from numawise.machine.model import DevicePlugin, Machine
from numawise.node.node import Files, SimulatedNode, boot, simulate
from numawise.quantity import Quantity
from numawise.render.alignment import apart_text
from numawise.render.words import both
from numawise.request.defaults import RawPod
from numawise.request.model import HUGEPAGES, PodRequest, most_at_once
from numawise.results.finding import Finding, Place, Severity, found
from numawise.results.simulation import Simulated
from numawise.rules.model import BEST_EFFORT, RESTRICTED, SINGLE, KubeletConfig, ReservedMemory
from numawise.rules.versions import Version
from numawise.sets import bits_of, format_ids
from numawise.values import replace

T = TypeVar("T")
DEVICES_SHOWN = 4
ELSEWHERE = (NODE_AFFINITY, NODE_NAME, TAINTS, OS_DIFFERS, OS_LABEL_DIFFERS)
"""Reasons of pods that another node may take."""
GIVE_PLACES = "give what the kubelet's PodResources socket answers, with --pod-resources"
YEAR = 365 * 86400.0


def machine_findings(context: Context) -> Iterator[Finding]:
    """Everything about the machine; nothing when none was given."""
    if not context.known:
        return
    place = Place(context.machine_file)
    yield from _numa(context, place)
    yield from _cores(context, place)
    yield from _devices(context, place)
    yield from _merging(context)
    closest = "prefer-closest-numa-nodes"
    node = context.start.node
    if node is not None and node.rules.prefer_closest and _has_gaps(context):
        ids = format_ids(context.machine.numa_bits)
        where = context.configuration.place("topologyManagerPolicyOptions", closest)
        ways = [field_removed(context, ("topologyManagerPolicyOptions", closest), certain=False)]
        yield found("NW236", where, f"the NUMA ids are {ids}, and {closest} is on", corrections=ways)


def _has_gaps(context: Context) -> bool:
    return context.machine.numa_bits.bit_length() > len(context.machine.numa)


def _numa(context: Context, place: Place) -> Iterator[Finding]:
    machine = context.machine
    if len(machine.numa) == 1:
        if context.aligning:
            yield found("NW240", place, "the machine has one NUMA node")
        return
    bare = bits_of(numa.id for numa in machine.numa if numa.id not in machine.layout.numas)
    empty = bits_of(numa.id for numa in machine.numa if not numa.memory)
    if bare:
        yield found("NW238", place, f"{numa_text(bare)} {_has(bare)} no CPUs")
    if empty and empty != machine.numa_bits:
        yield found("NW238", place, f"{numa_text(empty)} {_has(empty)} no memory")


def _has(bits: int) -> str:
    return "have" if bits.bit_count() > 1 else "has"


def _cores(context: Context, place: Place) -> Iterator[Finding]:
    layout = context.machine.layout
    sizes = {core.bit_count() for core in layout.cores.values()}
    milder = None if context.static_cpus else Severity.INFO
    if len(sizes) > 1:
        fewest = min(sizes)
        few = bits_of(core for core, cpus in layout.cores.items() if cpus.bit_count() == fewest)
        threads = "thread" if fewest == 1 else "threads"
        cores = f"core {format_ids(few)} has" if few.bit_count() == 1 else f"cores {format_ids(few)} have"
        message = f"{cores} {fewest} {threads}, others {max(sizes)}"
        yield found("NW233", place, message, severity=milder)
    hardware = context.hardware
    if hardware is None:
        return
    if hardware.offline and len(sizes) == 1:
        message = f"{cpus_are(hardware.offline)} offline"
        why = "when they come back, the state file no longer matches and the kubelet does not start"
        fix = "decide which CPUs the machine has before the kubelet starts"
        yield found("NW233", place, message, why=why, fix=fix, severity=milder and Severity.INFO)
    isolated = hardware.host.isolated if hardware.host else None
    if isolated and isolated & layout.all:
        node = context.start.node
        reserved = node.rules.reserved_cpus if node is not None else 0
        also = isolated & reserved
        message = f"{cpus_are(isolated & layout.all)} isolated"
        message += f", {format_ids(also)} of them reserved for the system" if also else ""
        yield found("NW234", place, message, severity=milder)


def _devices(context: Context, place: Place) -> Iterator[Finding]:
    machine = context.machine
    for plugin in machine.plugins:
        where = Place(place.file, place.line, plugin.resource)
        homeless = [one.id for one in plugin.devices if not one.numa and not one.numa_unknown]
        if homeless and len(machine.numa) > 1:
            every = len(homeless) == len(plugin.devices)
            which = "none of its devices has a" if every else f"{_some(homeless)} {_have(homeless)} no"
            yield found("NW237", where, f"{plugin.resource}: {which} NUMA node")
        bad = [one.id for one in plugin.devices if not one.healthy]
        if bad:
            yield found("NW241", where, f"{plugin.resource}: {_some(bad)} of {len(plugin.devices)} unhealthy")


def _have(ids: list[str]) -> str:
    return "has" if len(ids) == 1 else "have"


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:DEVICES_SHOWN]) + (" …" if len(ids) > DEVICES_SHOWN else "")


def _merging(context: Context) -> Iterator[Finding]:
    """What the kubelet's own merge costs for a container with CPUs, memory and a device."""
    node = context.start.node
    if node is None or not context.aligning:
        return
    count = len(context.machine.numa)
    nodes = [len(context.machine.layout.numas)] if node.rules.cpu_static else []
    nodes += [count] if node.rules.memory_static else []
    spots = [_spots(context, plugin) for plugin in context.machine.plugins]
    nodes += [max(spots)] if spots else []
    single = context.config.topology_manager_policy == "single-numa-node"
    combinations, masks = 1, 0
    for some in nodes:
        masks += 2**some - 1
        combinations *= max(1, some if single else 2**some - 1)
    seconds = combinations * PER_COMBINATION + masks * PER_MASK
    if seconds < NOTICEABLE:
        return
    asked = _kinds(node.rules.cpu_static, node.rules.memory_static, bool(spots))
    message = (
        f"{count} NUMA nodes: up to {combinations:,} combinations of hints for a container with {asked};"
        f" {duration(seconds)} of CPU time"
    )
    yield found("NW232", context.configuration.place("topologyManagerPolicy"), message)


def duration(seconds: float) -> str:
    """About how long something takes."""
    if seconds > YEAR:
        return "more than a year"
    if seconds > 3600:
        return f"about {seconds / 3600:.0f} hours"
    return f"about {seconds:.0f} s" if seconds >= 1 else f"about {seconds:.1f} s"


def _spots(context: Context, plugin: DevicePlugin) -> int:
    node = context.start.node
    assert node is not None
    if not node.rules.behaviour.device_hints_over_hosting_nodes:
        return len(context.machine.numa)
    return len({numa for device in plugin.devices for numa in device.numa or ()})


def _kinds(*has: bool) -> str:
    words = [word for word, there in zip(("CPUs", "memory", "a device"), has, strict=True) if there]
    return both(words)


# --------------------------------------------------------------------------------------------------
# Whether a pod can ever be aligned on the machine: tried by the engine on an empty node.
#
# Rules kept here:
#
# 1. The node is empty, the devices are all there, the configuration is the one that is checked (without what
#    would keep the kubelet from starting).  A refusal there is a refusal everywhere on this machine.
# 2. Every other policy and scope is tried as well, to say which would admit the pod, and which would align
#    it.
# 3. Without a configuration the most willing one is made up: everything static, a core and 100Mi reserved.
# 4. Pods that differ in nothing but their names fare alike: the others of a kind cost nothing.


INSISTING = (RESTRICTED, SINGLE)
SCOPES = ("container", "pod")
USUAL_SERVER = 4
"""GPUs of a NUMA node on most servers with eight."""


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


class Fitting:
    """What the machine makes of pods under one kubelet; a node is started, and a kind of pod tried, once."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.nodes: dict[tuple[str, str], SimulatedNode | None] = {}
        self.answers: dict[tuple[str, str], Any] = {}

    def findings(self, source: PodSource) -> Iterator[Finding]:
        """All that there is to say about a pod."""
        try:
            yield from self._findings(source)
        except SearchEnded as ended:
            yield found("NW436", source.place(source.spec), f"{source.title}: {ended.message}")

    def _findings(self, source: PodSource) -> Iterator[Finding]:
        if source.raw is None:
            return
        context = self.context
        pod = requested(source, context)
        yield from gpu_findings(source, context.hardware if context.known else None)
        if not context.known:
            return
        yield from _offers(source, context, pod)
        config = context.start.config
        if config is None:
            return
        kind = repr(replace(source.raw, uid="", name="", namespace=""))
        trial = self._once("trial", kind, lambda: _try(self, config, pod))
        if trial is None:
            return
        place = _where(source, trial.decision)
        for step in trial.steps:
            if isinstance(step, TooManyCombinations):
                many = f"up to {step.combinations:.1e} combinations of hints, {duration(step.seconds)}"
                yield found("NW436", place, f"{source.title}: {many}")
                break
        doubt = trial.doubt
        if doubt.resources and not isinstance(trial.decision, Crashed):
            if doubt.verdict:
                message = f"{source.title}: {doubt.text}"
                yield found("NW003", place, message, fix=GIVE_PLACES, severity=Severity.WARNING)
        elif isinstance(trial.decision, Crashed):
            yield found("NW428", place, f"{source.title}: {trial.decision.message}")
        elif isinstance(trial.decision, Rejected):
            raw = source.raw
            why, fix = self._once("never", kind, lambda: _never(self, config, raw, pod))
            yield _refusal(source, trial.decision, why, fix)
        elif len(context.machine.numa) > 1 and not source.uid:
            spread = self._once("spread", kind, lambda: _unaligned(self, config, pod, trial))
            if spread is not None:
                message = f"{source.title}: not aligned even on an empty node{spread[0]}"
                yield found("NW421", place, message, why=spread[1])

    def _once(self, question: str, kind: str, answer: Callable[[], T]) -> T:
        if (question, kind) not in self.answers:
            self.answers[question, kind] = answer()
        known: T = self.answers[question, kind]
        return known

    def node(self, config: KubeletConfig) -> SimulatedNode | None:
        """The empty node under a configuration that differs in policy and scope; nobody changes it."""
        name = (config.topology_manager_policy, config.topology_manager_scope)
        if name not in self.nodes:
            node = empty_node(self.context.machine, config, self.context.version)
            if node is not None:
                node.describe(self.context.description)
            self.nodes[name] = node
        return self.nodes[name]


def _try(fitting: Fitting, config: KubeletConfig, pod: PodRequest) -> Simulated | None:
    node = fitting.node(config)
    if node is None:
        return None
    (outcome,) = simulate(replace(node, files=Files()), [pod])
    return outcome


def empty_node(machine: Machine, config: KubeletConfig, version: Version) -> SimulatedNode | None:
    """A kubelet that has just started on a machine where nothing runs; None when it does not."""
    node = boot(machine, config, Files(), version=version)
    if not isinstance(node, SimulatedNode):
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


def _never(fitting: Fitting, config: KubeletConfig, raw: RawPod, pod: PodRequest) -> tuple[str, str]:
    """Why a pod is refused, and what helps."""
    node = fitting.node(config)
    assert node is not None
    explanation = explain(case_of(node, raw))
    fix = explanation.suggestions[0].text if explanation.suggestions else ""
    others = _admitting(fitting, config, pod)
    why = explanation.cause
    return f"{why}; admitted under {others}" if others else why, fix


def _refusal(source: PodSource, decision: Rejected, why: str, fix: str) -> Finding:
    if (source.raw is not None and source.raw.owner) or source.kind not in ("Pod", ""):
        why += f"; its {source.kind} makes it again and again"
    message = f"{source.title}: {decision.reason}: {decision.message}"
    unmet = decision.unmet
    meant_for_others = unmet is not None and unmet.reason in ELSEWHERE
    place = source.place(source.spec) if unmet is not None else _where(source, decision)
    return found(
        "NW420", place, message, why=why, fix=fix, severity=Severity.INFO if meant_for_others else None
    )


def _admitting(fitting: Fitting, config: KubeletConfig, pod: PodRequest) -> str:
    """The policies and scopes that would admit the pod (rule 2)."""
    now = (config.topology_manager_policy, config.topology_manager_scope)
    yes: list[str] = []
    for policy in (SINGLE, RESTRICTED, BEST_EFFORT, "none"):
        for scope in SCOPES if policy != "none" else SCOPES[:1]:
            if (policy, scope) != now and _admits(fitting, config, pod, policy, scope):
                yes.append(policy if scope == "container" else f"{policy} in pod scope")
    return ", ".join(yes)


def _unaligned(
    fitting: Fitting, config: KubeletConfig, pod: PodRequest, trial: Simulated
) -> tuple[str, str] | None:
    """Admitted, but only because the policy does not insist: where it lies, and who refuses it."""
    if not _asks(pod):
        return None
    if config.topology_manager_policy == "none":
        aligning = _try(fitting, replace(config, topology_manager_policy=BEST_EFFORT), pod)
        if aligning is None:
            return None
        trial = aligning
    alignment = trial.alignment
    if alignment is None or not alignment.scattered:
        return None
    refusing = [
        policy
        for policy in INSISTING
        if not any(_admits(fitting, config, pod, policy, scope) for scope in SCOPES)
    ]
    verb = "refuse" if len(refusing) > 1 else "refuses"
    why = f"{' and '.join(refusing)} {verb} it in either scope" if refusing else ""
    return f": {apart_text(alignment)}", why


def _asks(pod: PodRequest) -> bool:
    return any(container.devices or (pod.guaranteed and container.whole_cpus) for container in pod.containers)


def _admits(fitting: Fitting, config: KubeletConfig, pod: PodRequest, policy: str, scope: str) -> bool:
    other = replace(config, topology_manager_policy=policy, topology_manager_scope=scope)
    trial = _try(fitting, other, pod)
    return trial is not None and trial.admitted


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
                message = f"container {raw.name} asks for {name}, which is not there"
                ways = [resource_renamed(part, name, near)] if near else []
                yield found("NW429", place, message, fix=fix, corrections=ways)
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

"""Start a kubelet: build the managers from a configuration, and pick up the state of an earlier one.

Counterpart: ``NewContainerManager`` of pkg/kubelet/cm/container_manager_linux.go, and ``Start`` with its
``validateState`` in each manager.

Rules kept here:

1. Stages in the kubelet's order, the first refusal ends it: Topology, CPU, Memory Manager built; then
   the CPU and the Memory Manager started on their state files.
2. A damaged Device Manager file is forgotten; a damaged CPU or memory file stops the kubelet.
"""

from collections.abc import Mapping

from numawise.engine.cpu.allocate import choose
from numawise.engine.cpu.take import NotEnough
from numawise.engine.device.manager import allocated_by
from numawise.engine.memory.tables import empty_tables, replayed, same_tables
from numawise.engine.state import CpuState, DeviceFile, DeviceState, MemoryState, NodeState, Plugin
from numawise.machine.model import Machine
from numawise.quantity import Quantity
from numawise.request.model import CPU, HUGEPAGES, MEMORY
from numawise.rules.behaviour import Behaviour, behaviour_of
from numawise.rules.check import Refusal, Settings, refusal
from numawise.rules.model import (
    CPU_POLICIES,
    MEMORY_POLICIES,
    NONE,
    SINGLE,
    CpuOptions,
    KubeletConfig,
    ResizeRules,
    Rules,
)
from numawise.rules.options import BY_SOCKET, TopologyOptions, as_map, cpu_options, topology_options
from numawise.rules.sysctls import safe_sysctls
from numawise.rules.versions import Version, manners_of
from numawise.sets import format_ids
from numawise.strconv import quote
from numawise.values import dataclass, replace

CLAIMS_GATE = "DRAExtendedResource"
MANAGER_GATES = (
    "TopologyManager",
    "CPUManager",
    "MemoryManager",
    "DevicePlugins",
    "SidecarContainers",
    "PodLevelResources",
    "PodLevelResourceManagers",
    "TaintTolerationComparisonOperators",
    CLAIMS_GATE,
)
"""The gates that decisions depend on; a release that lacks one has a fixed behaviour."""
TOPOLOGY, CPU_STAGE, MEMORY_STAGE = "topology-manager", "cpu-manager", "memory-manager"
LIMITED_SWAP = "LimitedSwap"
CPU_START, MEMORY_START = "cpu-manager-start", "memory-manager-start"


@dataclass(frozen=True, slots=True)
class Records:
    """What the state files said; None: there was no such file."""

    cpu: CpuState | None = None
    memory: MemoryState | Refusal | None = None
    """A refusal waits for its turn: the CPU Manager starts first."""
    devices: DeviceFile | None = None


# --- building the managers ------------------------------------------------------------------


def build(
    machine: Machine,
    config: KubeletConfig,
    settings: Settings,
    version: Version,
    behaviour: Behaviour | None = None,
) -> Rules | Refusal:
    """The rules a kubelet of this release decides by, or why it cannot build its managers.

    A release whose managers have gates of their own goes without those that are switched off.
    ``behaviour``: where it is not simply that of the release.
    """
    policy, gates = config.topology_manager_policy, settings.gates
    behaviour = behaviour or behaviour_of(version)
    rules = Rules(
        topology_policy=policy,
        pod_scope=config.topology_manager_scope == "pod",
        cpu_manager=gates.get("CPUManager", True),
        memory_manager=behaviour.has_memory_manager and gates.get("MemoryManager", True),
        device_manager=gates.get("DevicePlugins", True),
        sidecars=gates.get("SidecarContainers", behaviour.sidecars_keep_their_share),
        pod_level_resources=gates.get("PodLevelResources", False),
        pod_level_managers=gates.get("PodLevelResourceManagers", False),
        numeric_tolerations=gates.get("TaintTolerationComparisonOperators", False),
        safe_sysctls=safe_sysctls(version),
        unsafe_sysctls=tuple(config.other.get("allowedUnsafeSysctls") or ()),
        claims_back_resources=gates.get(CLAIMS_GATE, False),
        resize=_resize_rules(config, settings),
        behaviour=behaviour,
    )
    looked_at = policy != NONE or manners_of(version).none_reads_topology_options
    if looked_at and gates.get("TopologyManager", True):
        topology = _topology(machine, config, settings, version)
        if isinstance(topology, Refusal):
            return topology
        rules = replace(rules, prefer_closest=topology.prefer_closest)
    if rules.cpu_manager:
        with_cpus = _cpus(machine, config, settings, rules, version)
        if isinstance(with_cpus, Refusal):
            return with_cpus
        rules = with_cpus
    if rules.memory_manager:
        return _memory(machine, config, settings, rules, version)
    return rules


def _resize_rules(config: KubeletConfig, settings: Settings) -> ResizeRules:
    gates, swap = settings.gates, config.other.get("memorySwap")
    exclusive_cpus = gates.get("InPlacePodVerticalScalingExclusiveCPUs", False)
    return ResizeRules(
        enabled=gates.get("InPlacePodVerticalScaling", False),
        exclusive_cpus=exclusive_cpus,
        exclusive_memory=gates.get("InPlacePodVerticalScalingExclusiveMemory", exclusive_cpus),
        init_containers=gates.get("InPlacePodVerticalScalingInitContainers", False),
        pod_level=gates.get("InPlacePodLevelResourcesVerticalScaling", False),
        spares_others=gates.get("InPlacePodVerticalScalingSchedulerPreemption", False),
        limited_swap=isinstance(swap, Mapping) and swap.get("swapBehavior") == LIMITED_SWAP,
    )


def _topology(
    machine: Machine, config: KubeletConfig, settings: Settings, version: Version
) -> TopologyOptions | Refusal:
    options = topology_options(config.topology_manager_policy_options, settings.gates, version)
    if isinstance(options, str):
        return Refusal(TOPOLOGY, options)
    if options.prefer_closest and not all(numa.distances for numa in machine.numa):
        message = "cannot discover NUMA topology: error getting NUMA distances from cadvisor"
        return Refusal(TOPOLOGY, message)
    if config.topology_manager_policy != NONE and len(machine.numa) > options.most_numa:
        return Refusal(TOPOLOGY, f"unsupported on machines with more than {options.most_numa} NUMA Nodes")
    return options


def _cpus(
    machine: Machine, config: KubeletConfig, settings: Settings, rules: Rules, version: Version
) -> Rules | Refusal:
    given = config.cpu_manager_policy_options
    if config.cpu_manager_policy == CPU_POLICIES[0]:
        if given:
            message = f"new none policy error: None policy: received unsupported options={as_map(given)}"
            return Refusal(CPU_STAGE, message)
        return rules
    if config.cpu_manager_policy not in CPU_POLICIES:
        return Refusal(CPU_STAGE, f"unknown policy: {quote(config.cpu_manager_policy)}")
    reserved = settings.reservation.get(CPU)
    if reserved is None:
        message = "[cpumanager] unable to determine reserved CPU resources for static policy"
        return Refusal(CPU_STAGE, message)
    options = cpu_options(given, settings.gates, version)
    if isinstance(options, CpuOptions):
        options = _hardware_check(machine, rules, options)
    if isinstance(options, str):
        return Refusal(CPU_STAGE, f"new static policy error: {options}")
    rules = replace(rules, cpu_static=True, cpu_options=options)
    count = -(-reserved.milli // 1000)
    if settings.reserved_cpus is not None:
        chosen: int | NotEnough = settings.reserved_cpus.bits
    else:
        chosen = choose(machine.layout, rules, machine.layout.all, count)
    cpus = 0 if isinstance(chosen, NotEnough) else chosen
    if cpus.bit_count() != count:
        message = (
            "new static policy error: [cpumanager] unable to reserve the required amount of CPUs "
            f"(size of {format_ids(cpus)} did not equal {count})"
        )
        return Refusal(CPU_STAGE, message)
    return replace(rules, reserved_cpus=cpus, reserved_cores=machine.layout.cores_touching(cpus))


def _hardware_check(machine: Machine, rules: Rules, options: CpuOptions) -> CpuOptions | str:
    """What the machine or the topology policy has against the options."""
    if options.by_socket:
        if rules.topology_policy == SINGLE:
            return (
                f"Topolgy manager {SINGLE} policy is incompatible with CPUManager {BY_SOCKET} policy option"
            )
        if len(machine.layout.sockets) > len(machine.layout.numas):
            return (
                "Align by socket is not compatible with hardware where number of sockets are more than "
                "number of NUMA"
            )
    return options


def _memory(
    machine: Machine, config: KubeletConfig, settings: Settings, rules: Rules, version: Version
) -> Rules | Refusal:
    policy = config.memory_manager_policy
    if policy == MEMORY_POLICIES[0]:
        return rules
    if policy == "BestEffort" and manners_of(version).best_effort_memory_named:
        return Refusal(MEMORY_STAGE, 'policy "BestEffort" is not available for platform "linux"')
    if policy not in MEMORY_POLICIES:
        return Refusal(MEMORY_STAGE, f"unknown policy: {quote(policy)}")
    reserved = _reserved_memory(machine, config, settings)
    if isinstance(reserved, str):
        return Refusal(MEMORY_STAGE, reserved)
    return replace(rules, memory_static=True, reserved_memory=reserved)


def _reserved_memory(
    machine: Machine, config: KubeletConfig, settings: Settings
) -> Mapping[int, Mapping[str, int]] | str:
    """What each NUMA node keeps for the system; a text is the kubelet's refusal."""
    known = {numa.id for numa in machine.numa}
    totals: dict[str, Quantity] = {}
    for entry in config.reserved_memory:
        if entry.numa not in known:
            return (
                f"the reserved memory configuration references a NUMA node {entry.numa} "
                "that does not exist on this machine"
            )
        for name, amount in entry.limits:
            totals[name] = amount.ceil_milli() + totals.get(name, Quantity())
    wanted = {n: a for n, a in settings.reservation.items() if n == MEMORY or n.startswith(HUGEPAGES)}
    for name in sorted({*totals, *wanted}):
        total, needed = totals.get(name, Quantity()), wanted.get(name, Quantity())
        if total.nano != needed.nano:
            return (
                f'the total amount "{total}" of type "{name}" is not equal to the value "{needed}" '
                "determined by Node Allocatable feature"
            )
    reserved: dict[int, dict[str, int]] = {}
    for entry in config.reserved_memory:
        for name, amount in entry.limits:
            if not amount.exact:
                return "could not covert a variable of type Quantity to int64"
            reserved.setdefault(entry.numa, {})[name] = amount.value
    if sum(limits.get(MEMORY, 0) for limits in reserved.values()) <= 0:
        return "[memorymanager] you should specify the system reserved memory"
    return reserved


# --- starting on state files -----------------------------------------------------------------


def start(
    machine: Machine,
    rules: Rules,
    records: Records,
    before: NodeState | None = None,
) -> NodeState | Refusal:
    """The state a kubelet begins with.

    ``before``: its state when it went down.  The pods that were active then are still running; nothing is
    collected until all of them were heard of again.
    """
    cpu = _cpu_state(machine, rules, records.cpu)
    if isinstance(cpu, str):
        return refusal(CPU_START, cpu)
    if isinstance(records.memory, Refusal):
        return records.memory
    memory = _memory_state(machine, rules, records.memory)
    if isinstance(memory, str):
        return refusal(MEMORY_START, memory)
    devices = _device_state(records.devices)
    recorded = {*cpu.assignments, *memory.assignments, *devices.grants, *cpu.pods}
    if before is None:
        return NodeState(cpu, memory, devices, active=dict.fromkeys(sorted(recorded)))
    return NodeState(
        cpu=cpu,
        memory=memory,
        devices=devices,
        active=before.active,
        departed=frozenset(recorded - before.active.keys()),
        ready=False,
        running=before.running,
        resizes=before.resizes,
    )


def _cpu_state(machine: Machine, rules: Rules, found: CpuState | None) -> CpuState | str:
    if not rules.cpu_static:
        return found or CpuState()
    everything = machine.layout.all
    strict = rules.cpu_options.strict_reservation
    if strict:
        everything &= ~rules.reserved_cpus
    if found is None:
        return CpuState(shared=everything)
    shared, reserved = found.shared, rules.reserved_cpus
    if not shared:
        return "default cpuset cannot be empty" if found.assignments else replace(found, shared=everything)
    if strict and reserved & shared:
        return (
            f'some of strictly reserved cpus: "{format_ids(reserved & shared)}" are present in '
            f'defaultCpuSet: "{format_ids(shared)}"'
        )
    if not strict and reserved & ~shared:
        return (
            f'not all reserved cpus: "{format_ids(reserved)}" are present in '
            f'defaultCpuSet: "{format_ids(shared)}"'
        )
    together = shared
    for uid, containers in found.assignments.items():
        for container, cpus in containers.items():
            if cpus & shared:
                return (
                    f'pod: {uid}, container: {container} cpuset: "{format_ids(cpus)}" overlaps with '
                    f'default cpuset "{format_ids(shared)}"'
                )
            together |= cpus
    for cpus in found.pods.values():
        together |= cpus
    if together != everything:
        return (
            f'current set of available CPUs "{format_ids(everything)}" doesn\'t match with CPUs in state '
            f'"{format_ids(together)}"'
        )
    return found


def _memory_state(machine: Machine, rules: Rules, found: MemoryState | None) -> MemoryState | str:
    if not rules.memory_static:
        return found or MemoryState()
    if found is None or not found.numa:
        if found is not None and found.assignments:
            return "[memorymanager] machine state can not be empty when it has memory assignments"
        return MemoryState(empty_tables(machine, rules))
    expected = replayed(machine, rules, found)
    if isinstance(expected, str):
        return expected
    if not same_tables(expected, found.numa, by_group=rules.behaviour.memory_compares_groups):
        return "[memorymanager] the expected machine state is different from the real one"
    return found


def _device_state(found: DeviceFile | None) -> DeviceState:
    if found is None:
        return DeviceState()
    plugins = {resource: Plugin() for resource in found.registered}
    return DeviceState(plugins, found.grants, allocated_by(found.grants.values()), found)

"""The kubelet's configuration: what it would refuse, in its own words, and what it accepts and will hurt."""

import re
from collections.abc import Iterator, Mapping

from numawise.apps.check import reserved
from numawise.apps.check.context import Context
from numawise.apps.check.corrections import (
    Ways,
    excluding_ways,
    field_removed,
    field_renamed,
    field_set,
    gate_ways,
    option_ways,
    plain_list,
    retyped,
    topology_ways,
    unknown_entry,
)
from numawise.apps.check.refusals import StartRefusal
from numawise.engine.start import CPU_START, MEMORY_START
from numawise.errors import meant
from numawise.node.refusal_codes import code_of
from numawise.results.finding import Finding, found
from numawise.rules.gates import ALPHA, gates_of
from numawise.rules.options import CPU_MATURITY, MOST_NUMA, TOPOLOGY_MATURITY, History, Maturity, maturity
from numawise.rules.versions import NEWEST, OLDEST, Version, shown
from numawise.strconv import parse_bool

POLICIES = {
    "cpuManagerPolicy": ("none", "static"),
    "memoryManagerPolicy": ("None", "Static"),
    "topologyManagerPolicy": ("none", "best-effort", "restricted", "single-numa-node"),
    "topologyManagerScope": ("container", "pod"),
}
NO_QUOTA_SINCE, CGROUP_SINCE = (1, 33), (1, 35)
NEEDED = re.compile(r"that are disabled: \[([^\]]*)\]")
AT_START = (CPU_START, MEMORY_START)
COMBINED = 3
"""Resources of a container that asks for CPUs, memory and one kind of device."""


def configuration_findings(context: Context) -> Iterator[Finding]:
    """Everything about the configuration; refusals of state files are reported elsewhere."""
    yield from context.configuration.findings
    for refused in context.start.refusals:
        if refused.stage not in AT_START:
            finding = _refused(context, refused)
            if finding is not None:
                yield finding
    yield from gate_findings(context)
    yield from option_findings(context)
    yield from _together(context)
    yield from _rest(context)
    yield from reserved.cpu_findings(context)
    yield from reserved.memory_findings(context)
    yield from reserved.capacity_findings(context)


# --- refusals -------------------------------------------------------------------------------


def _refused(context: Context, refused: StartRefusal) -> Finding | None:
    """The finding for a refusal, with what helps against it."""
    code = code_of(refused.stage, refused.message)
    place = context.configuration.place(*refused.steps)
    why = fix = ""
    ways: Ways = ()
    match code:
        case "NW221":
            return reserved.sum_refused(context, refused)
        case "NW201":
            return reserved.nothing_reserved(context, refused)
        case "NW203":
            return reserved.not_online(context, refused) if context.known else None
        case "NW204" | "NW231" | "NW235" | "NW239" if not context.known:
            return None
        case "NW222" if not context.known and "does not exist" in refused.message:
            return None
        case "NW101":
            fix = _type_advice(refused.message)
            ways = [retyped(context, refused.steps, refused.message)]
        case "NW111":
            name = str(refused.steps[-1])
            why, fix = unknown_gate(name, context.version)
            near = "" if _releases_with(name) else meant(name, tuple(gates_of(context.version)))
            ways = [
                field_renamed(context, refused.steps, near) or field_removed(context, refused.steps),
            ]
        case "NW112":
            ways = [field_removed(context, refused.steps)]
        case "NW113":
            off = sorted({name for listed in NEEDED.findall(refused.message) for name in listed.split()})
            why, fix = f"{', '.join(off)} is off", f"switch {', '.join(off)} on, or what needs it off"
            ways = [field_set(context, ("featureGates", name), True, certain=False) for name in off]
            ways = [*(ways if len(off) == 1 else ()), field_removed(context, refused.steps, certain=False)]
        case "NW222":
            return reserved.entry_refused(context, refused)
        case "NW121" | "NW122" | "NW123":
            fix, ways = _policy_advice(context, refused)
        case "NW124" | "NW125":
            if len(refused.steps) > 1:
                field, name = map(str, refused.steps[:2])
                why, fix = option_advice(field, name, context.version)
                gate = gate_of_option(field, name, context.version) if code == "NW125" else ""
                near = _near_option(field, name, context.version)
                ways = tuple(
                    gate_ways(context, gate, refused.steps)
                    if gate
                    else option_ways(context, field, name, near)
                )
        case "NW205" | "NW206" if len(refused.steps) > 1:
            ways = unknown_entry(context, refused.steps)
        case "NW126":
            ways = tuple(excluding_ways(context, refused.message))
        case "NW127":
            ways = [field_removed(context, refused.steps[:1], certain=False)]
        case "NW202":
            ways = [plain_list(context)]
        case "NW235" | "NW239":
            ways = [field_removed(context, refused.steps)] if len(refused.steps) > 1 else ()
        case "NW204":
            cpus = context.machine.layout.all.bit_count()
            why = f"the machine has {cpus} CPUs"
        case "NW231":
            why, fix = _many_numa(context)
            if MOST_NUMA in fix:
                steps = ("topologyManagerPolicyOptions", MOST_NUMA)
                ways = [field_set(context, steps, str(len(context.machine.numa)), certain=False)]
    return found(code, place, refused.message, why=why, fix=fix, stage=refused.stage, corrections=ways)


def _type_advice(message: str) -> str:
    if "of type string" in message and "unmarshal object" not in message and "unmarshal array" not in message:
        return "the value must be text: put it in quotes"
    if "of type string" in message:
        return "the value must be a text, not a mapping or a list"
    if "invalid duration" in message or "missing unit" in message:
        return "write a duration with its unit, such as 10s"
    return ""


def _policy_advice(context: Context, refused: StartRefusal) -> tuple[str, Ways]:
    field = str(refused.steps[0]) if refused.steps else ""
    known = POLICIES.get(field, ())
    near = meant(str(context.configuration.raw.get(field, "")), known, 0.5)
    if near:
        fix = f'did you mean "{near}"? known are {", ".join(known)}'
        sure = bool(meant(str(context.configuration.raw.get(field, "")), known))
        return fix, [field_set(context, (field,), near, certain=sure)]
    return "", [field_set(context, (field,), one, certain=False) for one in known]


def _many_numa(context: Context) -> tuple[str, str]:
    count = len(context.machine.numa)
    why = f"the machine has {count} NUMA nodes, that is {2**count - 1:,} sets of them for every resource"
    if maturity(TOPOLOGY_MATURITY[MOST_NUMA], context.version) is None:
        return why, f"{shown(context.version)} has no option for more; set topologyManagerPolicy: none"
    cost = f"up to {float(2**count - 1) ** COMBINED:.1e} combinations of hints for CPUs, memory and a device"
    return why, f'{MOST_NUMA}: "{count}" in topologyManagerPolicyOptions, and single-numa-node: else {cost}'


# --- policies that do not go together -------------------------------------------------------


def _together(context: Context) -> Iterator[Finding]:
    config, place = context.config, context.configuration.place
    policy = config.topology_manager_policy
    unknown = [one for one in context.start.refusals if one.steps[:1] == ("topologyManagerPolicy",)]
    if any(code_of(one.stage, one.message) == "NW121" for one in unknown):
        return  # whatever is meant by it, it is not none
    if context.configuration.partial and not context.configuration.written("cpuManagerPolicy"):
        return
    if context.aligning and config.cpu_manager_policy == "none":
        message = f"topologyManagerPolicy is {policy}, and cpuManagerPolicy none"
        yield found("NW130", place("topologyManagerPolicy"), message)
    if context.aligning and context.static_cpus and config.memory_manager_policy == "None":
        settable = context.platform is None or not context.platform.refused("memoryManagerPolicy")
        if context.version >= (1, 22) and settable:
            message = f"topologyManagerPolicy is {policy}, and memoryManagerPolicy None"
            yield found("NW131", place("topologyManagerPolicy"), message)
    elif not context.aligning and (context.static_cpus or context.static_memory):
        field = "cpuManagerPolicy" if context.static_cpus else "memoryManagerPolicy"
        message = f"{field} is {context.configuration.raw.get(field)}, topology none"
        yield found("NW132", place(field), message, corrections=topology_ways(context))


def _rest(context: Context) -> Iterator[Finding]:
    raw, place = context.configuration.raw, context.configuration.place
    if context.static_cpus and context.version < NO_QUOTA_SINCE and raw.get("cpuCFSQuota") is not False:
        message = f"{shown(context.version)} sets a quota for exclusive CPUs"
        ways = [field_set(context, ("cpuCFSQuota",), False, certain=False)]
        yield found("NW134", place("cpuManagerPolicy"), message, corrections=ways)
    if raw.get("cgroupDriver") == "cgroupfs" and (context.static_cpus or context.static_memory):
        yield found("NW135", place("cgroupDriver"), "cgroupDriver is cgroupfs")
    if context.static_memory and (swap := _swap(context)):
        ways = [field_set(context, ("memorySwap", "swapBehavior"), "NoSwap", certain=False)]
        where = place("memorySwap" if "memorySwap" in raw else "failSwapOn")
        yield found("NW136", where, swap, corrections=ways)
    enforced = context.config.enforce_node_allocatable
    reserves = context.config.kube_reserved or context.config.system_reserved
    if context.configuration.written("enforceNodeAllocatable") and "pods" not in enforced and reserves:
        message = f"enforceNodeAllocatable is [{', '.join(enforced)}]"
        named = [*(one for one in enforced if one != "none"), "pods"]
        ways = [field_set(context, ("enforceNodeAllocatable",), named, certain=False)]
        yield found("NW137", place("enforceNodeAllocatable"), message, corrections=ways)
    yield from _cgroups(context)


def _swap(context: Context) -> str:
    raw = context.configuration.raw
    swap = raw.get("memorySwap")
    behaviour = swap.get("swapBehavior") if isinstance(swap, dict) else None
    if behaviour in ("LimitedSwap", "UnlimitedSwap"):
        return f"memorySwap.swapBehavior is {behaviour}"
    if raw.get("failSwapOn") is False and not behaviour and context.version < (1, 30):
        return "failSwapOn is false, and no swapBehavior is written"
    return ""


def _cgroups(context: Context) -> Iterator[Finding]:
    """Rule of the kubelet's validation that depends on the host."""
    host = context.hardware.host if context.hardware else None
    if host is None or host.cgroup not in ("v1", "hybrid"):
        return
    fails = context.configuration.raw.get("failCgroupV1", context.version >= CGROUP_SINCE)
    if fails is not True or context.version < (1, 31):
        return
    fate = "unsupported and will be removed in a future release" if context.version >= CGROUP_SINCE else ""
    message = (
        "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is "
        f"{fate or 'in maintenance mode'}"
    )
    ways = [field_set(context, ("failCgroupV1",), False, certain=False)]
    place = context.configuration.place("failCgroupV1")
    yield found("NW138", place, message, stage="validate-config", corrections=ways)


# --------------------------------------------------------------------------------------------------
# Feature gates and policy options: what a release has against them, and what a later one will have.


RELEASES = tuple((1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1))
OPTIONS: Mapping[str, tuple[str, Mapping[str, History]]] = {
    "cpuManagerPolicyOptions": ("CPUManager", CPU_MATURITY),
    "topologyManagerPolicyOptions": ("TopologyManager", TOPOLOGY_MATURITY),
}


def unknown_gate(name: str, version: Version) -> tuple[str, str]:
    """Why a gate is unknown, and what to do."""
    known = _releases_with(name)
    if not known:
        near = meant(name, tuple(gates_of(version)))
        return "no release has such a gate", f"write {near}, or remove it" if near else "remove it"
    if known[0] > version:
        return f"{shown(known[0])} is the first release that has it", "remove it until you upgrade"
    stays = "; its feature is always on" if _on_for_good(name, known[-1]) else ""
    return f"{shown(known[-1])} is the last release that has it{stays}", f"remove {name}"


def _releases_with(name: str) -> list[Version]:
    return [release for release in RELEASES if name in gates_of(release)]


def _on_for_good(name: str, release: Version) -> bool:
    gate = gates_of(release)[name]
    return gate.default and gate.locked


def option_advice(field: str, name: str, version: Version) -> tuple[str, str]:
    """Why an option is refused, and what to do."""
    histories = OPTIONS[field][1]
    history = histories.get(name)
    level = maturity(history, version) if history else None
    if history is None:
        known = _known_options(field, version)
        near = meant(name, known)
        fix = f'did you mean "{near}"?' if near else f"{shown(version)} has {', '.join(known) or 'none'}"
        return "no release has such an option", fix
    if level is None:
        return f"{shown(min(history))} is the first release that has it", "upgrade, or remove it"
    if level is Maturity.STABLE:
        return "", ""
    gate = gate_of_option(field, name, version)
    return f"it is {level.value.lower()} in {shown(version)}", f"set featureGates.{gate}: true, or remove it"


def _known_options(field: str, version: Version) -> list[str]:
    return sorted(one for one, releases in OPTIONS[field][1].items() if maturity(releases, version))


def _near_option(field: str, name: str, version: Version) -> str:
    """The option that a name stands for which no release has."""
    return "" if name in OPTIONS[field][1] else meant(name, _known_options(field, version))


def gate_of_option(field: str, name: str, version: Version) -> str:
    """The gate that an option needs in a release; '' when it needs none, or is not there."""
    manager, histories = OPTIONS[field]
    level = maturity(histories.get(name, {}), version)
    return "" if level in (None, Maturity.STABLE) else f"{manager}Policy{level.value}Options"


def gate_findings(context: Context) -> Iterator[Finding]:
    """Gates that say nothing and will be refused, and those that are alpha."""
    version, place = context.version, context.configuration.place
    gates = gates_of(version)
    for name, value in sorted(context.config.feature_gates.items()):
        gate = gates.get(name)
        if gate is None:
            continue
        gone = next(
            (release for release in RELEASES if release > version and name not in gates_of(release)), None
        )
        if gate.default == value and gone:
            message = f"{name}: {str(value).lower()} is the default, and {shown(gone)} has no such gate"
            ways = [field_removed(context, ("featureGates", name))]
            yield found("NW114", place("featureGates", name), message, corrections=ways)
        elif gate.stage == ALPHA and value:
            yield found("NW115", place("featureGates", name), f"{name} is alpha in {shown(version)}")


def option_findings(context: Context) -> Iterator[Finding]:
    """Options that are alpha, or that are not read."""
    config, place = context.config, context.configuration.place
    given = {
        "cpuManagerPolicyOptions": config.cpu_manager_policy_options,
        "topologyManagerPolicyOptions": config.topology_manager_policy_options,
    }
    refused = {one.steps[:2] for one in context.start.refusals}
    for field, options in given.items():
        for name, value in sorted(options.items()):
            history = OPTIONS[field][1].get(name, {})
            on = _is_on(value)
            if maturity(history, context.version) is Maturity.ALPHA and on and (field, name) not in refused:
                yield found("NW115", place(field, name), f"{name} is alpha in {shown(context.version)}")
            useless = _useless(context, name) if on else ""
            if useless and (field, name) not in refused:
                out = [field_removed(context, (field, name), certain=False)]
                yield found("NW129", place(field, name), f"{name}: {useless}", corrections=out)
    reads = context.version < (1, 28)
    if config.topology_manager_policy_options and not context.aligning and not reads:
        field = "topologyManagerPolicyOptions"
        names = ", ".join(sorted(config.topology_manager_policy_options))
        ways = (*topology_ways(context), field_removed(context, (field,), certain=False))
        yield found("NW128", place(field), f"{names}: topologyManagerPolicy is none", corrections=ways)


def _is_on(value: str) -> bool:
    try:
        return parse_bool(value)
    except ValueError:
        return False


def _useless(context: Context, name: str) -> str:
    """Why an option changes nothing under this policy, or on this machine."""
    single = context.config.topology_manager_policy == "single-numa-node"
    one = context.known and len(context.machine.numa) == 1
    if name == "prefer-closest-numa-nodes" and context.aligning:
        if single:
            return "under single-numa-node there is never more than one NUMA node to choose"
        if context.known and len(context.machine.numa) == 2:
            return "with two NUMA nodes there is no nearer pair"
    if name == "distribute-cpus-across-numa" and single:
        return "under single-numa-node no container is spread over NUMA nodes"
    if one and name in ("prefer-closest-numa-nodes", "distribute-cpus-across-numa", "align-by-socket"):
        return "the machine has one NUMA node"
    if name == "full-pcpus-only" and context.known and context.machine.layout.threads_per_core == 1:
        return "the machine has one thread per core"
    return ""

"""Feature gates and policy options: what a release has against them, and what a later one will have."""

from collections.abc import Iterator, Mapping

from numawise.apps.check.context import Context
from numawise.errors import meant
from numawise.results.finding import Finding, found
from numawise.rules.gates import ALPHA, gates_of
from numawise.rules.options import CPU_MATURITY, TOPOLOGY_MATURITY, History, Maturity, maturity
from numawise.rules.versions import NEWEST, OLDEST, Version, shown
from numawise.strconv import parse_bool

RELEASES = tuple((1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1))
OPTIONS: Mapping[str, tuple[str, Mapping[str, History]]] = {
    "cpuManagerPolicyOptions": ("CPUManager", CPU_MATURITY),
    "topologyManagerPolicyOptions": ("TopologyManager", TOPOLOGY_MATURITY),
}


def unknown_gate(name: str, version: Version) -> tuple[str, str]:
    """Why a gate is unknown, and what to do."""
    known = [release for release in RELEASES if name in gates_of(release)]
    if not known:
        near = meant(name, tuple(gates_of(version)))
        return "no release has such a gate", f"write {near}, or remove it" if near else "remove it"
    if known[0] > version:
        return f"{shown(known[0])} is the first release that has it", "remove it until you upgrade"
    stays = "; its feature is on for good" if _on_for_good(name, known[-1]) else ""
    return f"{shown(known[-1])} is the last release that has it{stays}", f"remove {name}"


def _on_for_good(name: str, release: Version) -> bool:
    gate = gates_of(release)[name]
    return gate.default and gate.locked


def option_advice(field: str, name: str, version: Version) -> tuple[str, str]:
    """Why an option is refused, and what to do."""
    manager, histories = OPTIONS[field]
    history = histories.get(name)
    level = maturity(history, version) if history else None
    if history is None:
        known = sorted(one for one, told in histories.items() if maturity(told, version))
        near = meant(name, known)
        fix = f'did you mean "{near}"?' if near else f"{shown(version)} has {', '.join(known) or 'none'}"
        return "no release has such an option", fix
    if level is None:
        return f"{shown(min(history))} is the first release that has it", "upgrade, or remove it"
    if level is Maturity.STABLE:
        return "", ""
    gate = f"{manager}Policy{level.value}Options"
    return f"it is {level.value.lower()} in {shown(version)}", f"set featureGates.{gate}: true, or remove it"


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
            yield found("NW114", place("featureGates", name), message)
        elif gate.stage == ALPHA and value:
            yield found("NW115", place("featureGates", name), f"{name} is alpha in {shown(version)}")


def option_findings(context: Context) -> Iterator[Finding]:
    """Options that are alpha, or that nobody reads."""
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
                yield found("NW129", place(field, name), f"{name}: {useless}")
    reads = context.version < (1, 28)
    if config.topology_manager_policy_options and not context.aligning and not reads:
        field = "topologyManagerPolicyOptions"
        names = ", ".join(sorted(config.topology_manager_policy_options))
        yield found("NW128", place(field), f"{names}: topologyManagerPolicy is none")


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

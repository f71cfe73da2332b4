"""Policy options of the CPU and Topology Managers: names, maturity, values, and what excludes what.

An option that is not stable needs the gate of its level; it exists from the first release in its
row.  In 1.22 there were no levels yet, only one gate for all options.
"""

from collections.abc import Mapping
from enum import Enum

from numawise.rules.model import CpuOptions
from numawise.rules.versions import REFERENCE, Version, manners_of
from numawise.strconv import parse_bool, parse_int, quote
from numawise.values import dataclass


class Maturity(Enum):
    """How settled an option is; the two early kinds need a gate."""

    ALPHA = "Alpha"
    BETA = "Beta"
    STABLE = "Stable"


FULL_CORES = "full-pcpus-only"
ACROSS_NUMA = "distribute-cpus-across-numa"
BY_SOCKET = "align-by-socket"
ACROSS_CORES = "distribute-cpus-across-cores"
STRICT = "strict-cpu-reservation"
BY_UNCORE = "prefer-align-cpus-by-uncorecache"
CLOSEST = "prefer-closest-numa-nodes"
MOST_NUMA = "max-allowable-numa-nodes"

ALPHA, BETA, STABLE = Maturity.ALPHA, Maturity.BETA, Maturity.STABLE
History = Mapping[Version, Maturity]
"""Release → maturity from then on."""

CPU_MATURITY: Mapping[str, History] = {
    FULL_CORES: {(1, 22): ALPHA, (1, 23): BETA, (1, 33): STABLE},
    ACROSS_NUMA: {(1, 23): ALPHA, (1, 33): BETA},
    BY_SOCKET: {(1, 25): ALPHA},
    ACROSS_CORES: {(1, 31): ALPHA},
    STRICT: {(1, 32): ALPHA, (1, 33): BETA, (1, 35): STABLE},
    BY_UNCORE: {(1, 32): ALPHA, (1, 34): BETA, (1, 36): STABLE},
}
TOPOLOGY_MATURITY: Mapping[str, History] = {
    CLOSEST: {(1, 26): ALPHA, (1, 28): BETA, (1, 32): STABLE},
    MOST_NUMA: {(1, 31): BETA, (1, 35): STABLE},
}
CPU_FIELDS = {
    FULL_CORES: "full_cores",
    ACROSS_NUMA: "across_numa",
    BY_SOCKET: "by_socket",
    ACROSS_CORES: "across_cores",
    STRICT: "strict_reservation",
    BY_UNCORE: "by_uncore",
}
EXCLUSIVE = (
    (FULL_CORES, ACROSS_CORES),
    (ACROSS_NUMA, ACROSS_CORES),
    (BY_UNCORE, ACROSS_CORES),
    (BY_UNCORE, ACROSS_NUMA),
)
DEFAULT_MOST_NUMA = 8


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """Options of the Topology Manager."""

    prefer_closest: bool = False
    most_numa: int = DEFAULT_MOST_NUMA


def maturity(history: History, version: Version) -> Maturity | None:
    """How settled an option is in a release; None where it does not exist."""
    return next((level for since, level in sorted(history.items(), reverse=True) if since <= version), None)


def ungated(
    cpu: Mapping[str, str], topology: Mapping[str, str], gates: Mapping[str, bool], version: Version
) -> str:
    """The kubelet's refusal of options while the gate for all of them is off; '' when it has none.

    An unknown topology option is left to the manager, which is how the recordings have it.
    """
    if cpu and gates.get("CPUManager", True) and not gates.get("CPUManagerPolicyOptions", True):
        needs = 'require feature gates "CPUManager", "CPUManagerPolicyOptions" enabled'
        return f"CPU Manager policy options {as_map(cpu)} {needs}"
    known = all(maturity(TOPOLOGY_MATURITY.get(name, {}), version) for name in topology)
    if topology and known and gates.get("TopologyManager", True):
        if gates.get("TopologyManagerPolicyOptions", True):
            return ""
        first = '"TopologyManager", ' if manners_of(version).topology_gate_told_twice else ""
        needs = f'require feature gates {first}"TopologyManagerPolicyOptions" enabled'
        return f"topology manager policy options {as_map(topology)} {needs}"
    return ""


def as_map(options: Mapping[str, str]) -> str:
    """Options as Go prints a map."""
    return f"map[{' '.join(f'{name}:{value}' for name, value in sorted(options.items()))}]"


def cpu_options(
    given: Mapping[str, str], gates: Mapping[str, bool], version: Version = REFERENCE
) -> CpuOptions | str:
    """Read the options of the static CPU policy; a text is the kubelet's refusal."""
    manners = manners_of(version)
    values: dict[str, bool] = {}
    for name, value in sorted(given.items()):
        level = maturity(CPU_MATURITY.get(name, {}), version)
        if level is None and not manners.options_have_levels:
            return f"unsupported cpumanager option: {quote(name)} ({value})"
        if level is None:
            return f"unknown CPU Manager Policy option: {quote(name)}"
        if manners.options_have_levels and not _open(level, "CPUManager", gates):
            where = f"CPU Manager Policy {level.value}-level Options"
            return f"{where} not enabled, but option {quote(name)} provided"
        try:
            values[name] = parse_bool(value)
        except ValueError as error:
            return f"bad value for option {quote(name)}: {error}"
    for one, other in EXCLUSIVE:
        if values.get(one) and values.get(other):
            return f"static policy options {one} and {other} can not be used at the same time"
    return CpuOptions(**{CPU_FIELDS[name]: value for name, value in values.items()})


def topology_options(
    given: Mapping[str, str], gates: Mapping[str, bool], version: Version = REFERENCE
) -> TopologyOptions | str:
    """Read the options of the Topology Manager; a text is the kubelet's refusal."""
    closest, most = False, DEFAULT_MOST_NUMA
    for name, value in sorted(given.items()):
        level = maturity(TOPOLOGY_MATURITY.get(name, {}), version)
        if level is None:
            return f"unknown Topology Manager Policy option: {quote(name)}"
        if not _open(level, "TopologyManager", gates):
            where = f"Topology Manager Policy {level.value}-level Options"
            if not manners_of(version).capital_topology_levels:
                where = where.lower()
            return f"{where} not enabled, but option {quote(name)} provided"
        if name == CLOSEST:
            try:
                closest = parse_bool(value)
            except ValueError as error:
                return f"bad value for option {quote(name)}: {error}"
        else:
            try:
                most = parse_int(value)
            except ValueError as error:
                return f"unable to convert policy option to integer {quote(name)}: {error}"
            if most < DEFAULT_MOST_NUMA:
                return f"the minimum value of {quote(name)} should not be less than {DEFAULT_MOST_NUMA}"
    return TopologyOptions(closest, most)


def _open(level: Maturity, manager: str, gates: Mapping[str, bool]) -> bool:
    """Whether options of this level may be used."""
    return level is STABLE or gates.get(f"{manager}Policy{level.value}Options", False)

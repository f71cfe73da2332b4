"""Policy options of the CPU and Topology Managers: names, maturity, values, and what excludes what."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from numawise.rules.model import CpuOptions
from numawise.strconv import parse_bool, parse_int, quote


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

CPU_MATURITY = {
    FULL_CORES: Maturity.STABLE,
    ACROSS_NUMA: Maturity.BETA,
    BY_SOCKET: Maturity.ALPHA,
    ACROSS_CORES: Maturity.ALPHA,
    STRICT: Maturity.STABLE,
    BY_UNCORE: Maturity.STABLE,
}
TOPOLOGY_MATURITY = {CLOSEST: Maturity.STABLE, MOST_NUMA: Maturity.STABLE}
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


def cpu_options(given: Mapping[str, str], gates: Mapping[str, bool]) -> CpuOptions | str:
    """Read the options of the static CPU policy; a text is the kubelet's refusal."""
    values: dict[str, bool] = {}
    for name, value in sorted(given.items()):
        if refusal := _unavailable("CPU Manager", "CPUManager", name, CPU_MATURITY, gates, _cpu_words):
            return refusal
        try:
            values[name] = parse_bool(value)
        except ValueError as error:
            return f"bad value for option {quote(name)}: {error}"
    for one, other in EXCLUSIVE:
        if values.get(one) and values.get(other):
            return f"static policy options {one} and {other} can not be used at the same time"
    return CpuOptions(**{CPU_FIELDS[name]: value for name, value in values.items()})


def topology_options(given: Mapping[str, str], gates: Mapping[str, bool]) -> TopologyOptions | str:
    """Read the options of the Topology Manager; a text is the kubelet's refusal."""
    closest, most = False, DEFAULT_MOST_NUMA
    for name, value in sorted(given.items()):
        if refusal := _unavailable(
            "Topology Manager", "TopologyManager", name, TOPOLOGY_MATURITY, gates, _topology_words
        ):
            return refusal
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


def _cpu_words(level: str, name: str) -> str:
    return f"CPU Manager Policy {level}-level Options not enabled, but option {quote(name)} provided"


def _topology_words(level: str, name: str) -> str:
    where = f"topology manager policy {level.lower()}-level options"
    return f"{where} not enabled, but option {quote(name)} provided"


def _unavailable(
    manager: str,
    gate: str,
    name: str,
    maturity: Mapping[str, Maturity],
    gates: Mapping[str, bool],
    words: Callable[[str, str], str],
) -> str:
    """Why an option cannot be used; '' when it can."""
    level = maturity.get(name)
    if level is None:
        return f"unknown {manager} Policy option: {quote(name)}"
    if level is not Maturity.STABLE and not gates.get(f"{gate}Policy{level.value}Options", False):
        return words(level.value, name)
    return ""

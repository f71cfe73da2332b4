"""Which options of the CPU and Topology Managers suit a machine and a goal, and which gates they need.

Rules kept here:

1. An option is used where the release has it as beta or stable; what is alpha only when asked for.
2. The gates that stand against an option are listed, those that the release opens by itself are not.
3. What a release does not have is mentioned, so that nobody looks for it.
"""

from collections.abc import Iterator

from numawise.apps.plan.reserve import uneven
from numawise.machine.model import Machine
from numawise.results.plan import LATENCY
from numawise.rules.gates import gates_of
from numawise.rules.model import NONE, SINGLE
from numawise.rules.options import (
    ALPHA,
    BY_UNCORE,
    CLOSEST,
    CPU_MATURITY,
    DEFAULT_MOST_NUMA,
    FULL_CORES,
    MOST_NUMA,
    STRICT,
    TOPOLOGY_MATURITY,
    maturity,
)
from numawise.rules.versions import Version, shown
from numawise.values import dataclass

CPU, TOPOLOGY = "CPUManager", "TopologyManager"


@dataclass(frozen=True, slots=True)
class Option:
    """A policy option that is set."""

    manager: str
    name: str
    value: str
    why: str


@dataclass(frozen=True, slots=True)
class Options:
    """The options that are set, their gates, and what was left out."""

    cpu: tuple[Option, ...] = ()
    topology: tuple[Option, ...] = ()
    gates: tuple[tuple[str, str], ...] = ()
    """Gate to switch on → why."""
    remarks: tuple[str, ...] = ()


def options_for(
    machine: Machine, goal: str, version: Version, *, static: bool, topology: str, alpha: bool = False
) -> Options:
    """The options for a machine; ``static``: CPUs are given exclusively, ``topology``: the policy."""
    wanted = [*(_cpu(machine, goal) if static else ()), *_topology(machine, topology)]
    found: dict[str, list[Option]] = {CPU: [], TOPOLOGY: []}
    gates: dict[str, str] = {}
    remarks = []
    for option in wanted:
        history = (CPU_MATURITY if option.manager == CPU else TOPOLOGY_MATURITY)[option.name]
        level = maturity(history, version)
        if level is None:
            first = min(history)
            remarks.append(f"{option.name} would suit this machine; it came with {shown(first)}.")
        elif level is ALPHA and not alpha:
            settled = min((since for since, stage in history.items() if stage is not ALPHA), default=None)
            later = f", and no longer from {shown(settled)} on" if settled else ""
            remarks.append(
                f"{option.name} would suit this machine; in {shown(version)} it is alpha{later} "
                "(--alpha uses it)."
            )
        else:
            found[option.manager].append(option)
            gates |= dict(_gates(option, level.value, version))
    return Options(tuple(found[CPU]), tuple(found[TOPOLOGY]), tuple(gates.items()), tuple(remarks))


def _gates(option: Option, level: str, version: Version) -> Iterator[tuple[str, str]]:
    known = gates_of(version)
    names = [f"{option.manager}PolicyOptions"]
    if level != "Stable":
        names.append(f"{option.manager}Policy{level}Options")
    for name in names:
        gate = known.get(name)
        if gate is not None and not gate.default:
            yield name, f"{option.name} needs it in {shown(version)}."


def _cpu(machine: Machine, goal: str) -> Iterator[Option]:
    layout = machine.layout
    if layout.threads_per_core > 1 and not uneven(layout):
        yield Option(
            CPU,
            FULL_CORES,
            "true",
            f"Cores have {layout.threads_per_core} threads here: a pod gets whole ones, and shares none with "
            f"a neighbour. It must ask for a multiple of {layout.threads_per_core} CPUs.",
        )
    groups = [cpu.uncore_cache for cpu in machine.cpus]
    if None not in groups and len(layout.uncores) > len(layout.numas):
        yield Option(
            CPU,
            BY_UNCORE,
            "true",
            f"There are {len(layout.uncores)} L3 caches of {layout.cpus_per_uncore} CPUs: pods that fit one "
            "get one, as far as that is possible.",
        )
    if goal == LATENCY:
        yield Option(
            CPU,
            STRICT,
            "true",
            "Keeps every pod off the reserved CPUs, not only those with CPUs of their own. Never let pods "
            "take all other CPUs exclusively: with an empty shared pool the kubelet does not come up again.",
        )


def _topology(machine: Machine, policy: str) -> Iterator[Option]:
    if policy == NONE:
        return
    count = len(machine.numa)
    ids = [numa.id for numa in machine.numa]
    complete = all(len(numa.distances) >= count for numa in machine.numa)
    known = complete and sorted(ids) == list(range(count))
    if policy != SINGLE and count > 2 and known and _differ(machine):
        yield Option(
            TOPOLOGY,
            CLOSEST,
            "true",
            "Not all NUMA nodes are equally far from each other: of several sets the closest is taken.",
        )
    if count > DEFAULT_MOST_NUMA:
        yield Option(
            TOPOLOGY,
            MOST_NUMA,
            str(count),
            f"The kubelet refuses more than {DEFAULT_MOST_NUMA} NUMA nodes unless their number is set.",
        )


def _differ(machine: Machine) -> bool:
    """True when some two NUMA nodes are nearer to each other than some other two."""
    others = {
        distance
        for at, numa in enumerate(machine.numa)
        for to, distance in enumerate(numa.distances)
        if to != at
    }
    return len(others) > 1

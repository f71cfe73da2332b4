"""Everything the kubelet checks about its configuration before it builds the managers.

The stages, each of which ends the start when it finds something wrong:

1. ``decode-config-panic``: the feature gates; the kubelet looks at them while it fills in defaults.
2. ``validate-config``: all problems at once (``validate``).
3. ``reserved-cpus``: the reserved CPUs must be online.  They replace any reserved *number* of CPUs.
4. ``kube-reserved``, ``system-reserved``: amounts of cpu, memory, ephemeral-storage and pid.
5. ``eviction-hard``: the thresholds (``eviction``).

What comes out is what the managers start from.  Where the kubelet walks a Go map, in chance
order, names are taken in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from numawise.quantity import Quantity
from numawise.rules import eviction, validate
from numawise.rules.config import KubeletConfig
from numawise.rules.gates import listed, resolve_gates
from numawise.sets import CpuSet
from numawise.strconv import quote

RESERVABLE = frozenset({"cpu", "memory", "ephemeral-storage", "pid"})
NOTHING = Quantity()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The kubelet does not start: who refused, and its own words."""

    stage: str
    message: str


@dataclass(frozen=True, slots=True)
class Settings:
    """A configuration found good so far."""

    gates: Mapping[str, bool]
    """Whether each known feature gate is on."""
    reserved_cpus: CpuSet | None
    """The explicit list of reserved CPUs; None when there is none."""
    kube_reserved: Mapping[str, Quantity]
    system_reserved: Mapping[str, Quantity]
    """Its cpu part is the size of the explicit list, where there is one."""
    reservation: Mapping[str, Quantity]
    """Node allocatable reservation of cpu and memory: both lists and hard eviction; never zero."""


def check(config: KubeletConfig, online: CpuSet, capacity: int) -> Settings | Refusal:
    """Check a configuration against a machine with these CPUs and so many bytes of memory."""
    gates = resolve_gates(config.feature_gates)
    if isinstance(gates, str):
        merging = "failed to merge global and in-flight KubeletConfiguration while setting defaults"
        return Refusal("decode-config-panic", f"{merging}, error: {gates}")
    problems = tuple(validate.problems(config, gates))
    if problems:
        return Refusal("validate-config", listed(problems))

    reserved_cpus = None
    kube_texts, system_texts = dict(config.kube_reserved), dict(config.system_reserved)
    if config.reserved_system_cpus:
        reserved_cpus = _within(config.reserved_system_cpus, online)
        if reserved_cpus is None:
            outside = f"{config.reserved_system_cpus} is not a subset of online-cpus: {online}"
            return Refusal("reserved-cpus", f"reserved-cpus: {outside}")
        kube_texts.pop("cpu", None)
        system_texts["cpu"] = str(len(reserved_cpus))

    kube_reserved = _amounts(kube_texts)
    if isinstance(kube_reserved, str):
        return Refusal("kube-reserved", f"--kube-reserved value failed to parse: {kube_reserved}")
    system_reserved = _amounts(system_texts)
    if isinstance(system_reserved, str):
        return Refusal("system-reserved", f"--system-reserved value failed to parse: {system_reserved}")
    try:
        thresholds = eviction.thresholds(config.eviction_hard)
    except ValueError as problem:
        return Refusal("eviction-hard", str(problem))

    reservation = {
        name: system_reserved.get(name, NOTHING) + kube_reserved.get(name, NOTHING)
        for name in ("cpu", "memory")
    }
    if "memory.available" in thresholds:
        reservation["memory"] += eviction.memory_kept_free(thresholds["memory.available"], capacity)
    return Settings(
        gates=gates,
        reserved_cpus=reserved_cpus,
        kube_reserved=kube_reserved,
        system_reserved=system_reserved,
        reservation={name: amount for name, amount in reservation.items() if amount.nano},
    )


def _within(text: str, online: CpuSet) -> CpuSet | None:
    """A list of CPUs, or None when not all of them are online."""
    try:
        cpus = CpuSet.parse(text)
    except ValueError:  # its syntax was found good before, so a number is beyond any machine
        return None
    return cpus if cpus <= online else None


def _amounts(texts: Mapping[str, str]) -> Mapping[str, Quantity] | str:
    """A list of reserved resources, or what is wrong with it."""
    amounts: dict[str, Quantity] = {}
    for name, text in sorted(texts.items()):
        if name not in RESERVABLE:
            return f"cannot reserve {quote(name)} resource"
        try:
            amount = Quantity.parse(text)
        except ValueError as problem:
            return f"failed to parse quantity {quote(text)} for {quote(name)} resource: {problem}"
        if amount.nano < 0:
            return f"resource quantity for {quote(name)} cannot be negative: {text}"
        amounts[name] = amount
    return amounts

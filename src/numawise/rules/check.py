"""Everything the kubelet checks about its configuration before it builds the managers.

The stages, each of which ends the start when it finds something wrong:

1. ``decode-config-panic``: the feature gates; the kubelet looks at them while it fills in defaults.
   Before 1.32 it did so after that, and the stage is ``feature-gates``.
2. ``validate-config``: all problems at once (``validate``).
3. ``reserved-cpus``: the reserved CPUs must be online.  They replace any reserved *number* of CPUs.
4. ``kube-reserved``, ``system-reserved``: amounts of cpu, memory, ephemeral-storage and pid.
5. ``eviction-hard``: the thresholds (``eviction``).
6. ``policy-options``: options of a manager whose gate for options is off.

What comes out is what the managers start from.  Where the kubelet walks a Go map, in chance
order, names are taken in order.
"""

from collections.abc import Mapping

from numawise.quantity import Quantity
from numawise.rules import eviction
from numawise.rules.gates import listed, resolve_gates
from numawise.rules.model import KubeletConfig
from numawise.rules.options import ungated
from numawise.rules.validate import managers as validate
from numawise.rules.versions import REFERENCE, Version, manners_of
from numawise.sets import CpuSet
from numawise.strconv import parse_int, quote
from numawise.values import dataclass

RESERVABLE = frozenset({"cpu", "memory", "ephemeral-storage", "pid"})
NOTHING = Quantity()
MERGING = "failed to merge global and in-flight KubeletConfiguration while setting defaults, error"
SETTING = "failed to set feature gates from initial flags-based config"
BEGINNINGS: Mapping[str, str] = {
    "decode-config-panic": f"{MERGING}: ",
    "feature-gates": f"{SETTING}: ",
    "reserved-cpus": "reserved-cpus: ",
    "kube-reserved": "--kube-reserved value failed to parse: ",
    "system-reserved": "--system-reserved value failed to parse: ",
    "cpu-manager-start": "start cpu manager error: ",
    "memory-manager-start": "start memory manager error: ",
}
"""How every message of a stage begins, where all of them begin alike."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The kubelet does not start: who refused, and its own words."""

    stage: str
    message: str


def refusal(stage: str, error: str) -> Refusal:
    """A refusal of a stage whose messages begin alike."""
    return Refusal(stage, f"{BEGINNINGS[stage]}{error}")


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


def check(
    config: KubeletConfig, online: CpuSet, capacity: int, version: Version = REFERENCE
) -> Settings | Refusal:
    """Check a configuration against a machine with these CPUs and so many bytes of memory."""
    manners = manners_of(version)
    gates = resolve_gates(config.feature_gates, version)
    if isinstance(gates, str):
        if manners.gates_settled_while_decoding:
            return refusal("decode-config-panic", gates)
        return refusal("feature-gates", gates)
    problems = tuple(validate.problems(config, gates, version))
    if problems:
        return Refusal("validate-config", listed(problems))

    reserved_cpus = _reserved(config.reserved_system_cpus, strictly=manners.reserved_cpus_must_be_online)
    if reserved_cpus is None or (manners.reserved_cpus_must_be_online and not reserved_cpus <= online):
        outside = f"{config.reserved_system_cpus} is not a subset of online-cpus: {online}"
        return refusal("reserved-cpus", outside)
    kube_texts, system_texts = dict(config.kube_reserved), dict(config.system_reserved)
    if reserved_cpus:
        kube_texts.pop("cpu", None)
        system_texts["cpu"] = str(len(reserved_cpus))

    kube_reserved = _amounts(kube_texts)
    if isinstance(kube_reserved, str):
        return refusal("kube-reserved", kube_reserved)
    system_reserved = _amounts(system_texts)
    if isinstance(system_reserved, str):
        return refusal("system-reserved", system_reserved)
    try:
        thresholds = eviction.thresholds(config.eviction_hard, version)
    except ValueError as problem:
        return Refusal("eviction-hard", str(problem))
    cpu, topology = config.cpu_manager_policy_options, config.topology_manager_policy_options
    if gate_off := ungated(cpu, topology, gates, version):
        return Refusal("policy-options", gate_off)

    reservation = {
        name: system_reserved.get(name, NOTHING) + kube_reserved.get(name, NOTHING)
        for name in ("cpu", "memory")
    }
    if "memory.available" in thresholds:
        reservation["memory"] += eviction.memory_kept_free(thresholds["memory.available"], capacity)
    return Settings(
        gates=gates,
        reserved_cpus=reserved_cpus or None,
        kube_reserved=kube_reserved,
        system_reserved=system_reserved,
        reservation={name: amount for name, amount in reservation.items() if amount.nano},
    )


def _reserved(text: str, *, strictly: bool) -> CpuSet | None:
    """The list of reserved CPUs; None when a number in it is beyond any machine.

    Its syntax was found good before.  What runs backwards or has two dashes holds nothing, where the
    kubelet allowed that.
    """
    parts = text.split(",") if text else []
    if not strictly:
        parts = [part for part in parts if part.count("-") < 2 and _forwards(part)]
    try:
        return CpuSet.parse(",".join(parts))
    except ValueError:
        return None


def _forwards(part: str) -> bool:
    first, _, last = part.partition("-")
    return not last or parse_int(first) <= parse_int(last)


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

"""Reserved memory and CPUs: what they must add up to, where they belong, and what is left for pods.

Rules kept here:

1. A split is only shown when the kubelet's own check accepts it.
2. The split changes as little as it can: the difference goes to the entry that is largest; where that cannot
   be, or nothing is written, every NUMA node with memory gets an equal share in whole mebibytes.
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.apps.check.context import Context
from numawise.apps.check.corrections import field_removed, field_set
from numawise.apps.check.refusals import StartRefusal
from numawise.codec.edits import correction
from numawise.codec.kubelet.platforms import Platform
from numawise.engine.memory.tables import empty_tables
from numawise.engine.start import build
from numawise.machine.model import CpuLayout
from numawise.quantity import NANO, Quantity
from numawise.request.model import HUGEPAGES, MEMORY
from numawise.results.correction import Correction
from numawise.results.finding import Finding, Place, Severity, found
from numawise.rules.check import NOTHING, Refusal, Settings, check
from numawise.rules.model import KubeletConfig, ReservedMemory
from numawise.sets import CpuSet, bits_of, format_ids, parse_ids
from numawise.values import replace

MEBI = 1 << 20
SIGNAL = "memory.available"
NUMAS_SHOWN = 8
RESERVING = ("systemReserved", "kubeReserved", "reservedSystemCPUs", "evictionHard")


def settings_of(context: Context, config: KubeletConfig) -> Settings | None:
    """What a configuration reserves on the machine; None when that is not known."""
    found_settings = check(
        config, CpuSet(context.machine.layout.all), context.machine.capacity, context.version
    )
    return None if isinstance(found_settings, Refusal) else found_settings


def sum_refused(context: Context, refused: StartRefusal) -> Finding | None:
    """A sum that does not add up, with the terms and a split that does; None when it cannot be judged."""
    config = refused.config or context.config
    place = context.configuration.place("reservedMemory")
    if not context.known and _in_percent(config):
        message = "evictionHard memory.available is a percentage of memory that is not known"
        return found("NW003", place, message, fix="pass --machine to check reservedMemory")
    if context.platform is not None and context.platform.refused("reservedMemory"):
        return None  # it writes reservedMemory by itself, whatever is reserved
    settings = settings_of(context, config)
    if settings is None or f'type "{MEMORY}"' not in refused.message:
        fix = "remove huge pages from reservedMemory: they cannot be reserved"
        ways = [_without_pages(context, config)]
        return found("NW221", place, refused.message, fix=fix, stage=refused.stage, corrections=ways)
    wanted = settings.reservation.get(MEMORY, NOTHING)
    given = sum((_memory(entry) for entry in config.reserved_memory), 0)
    lacking = _bytes(abs(wanted.nano - given) // NANO)
    amount = "too little" if given < wanted.nano else "too much"
    why = f"{_terms(settings, wanted)}; reservedMemory is {lacking} {amount}"
    partial = context.configuration.partial and not _all_written(context)
    platform = context.configuration.reserved_by
    if partial and platform is not None:
        message = f"whether reservedMemory adds up is not known: {platform.reserves}, memory among it"
        fix = "compare with what the node's /configz answers"
        return found("NW221", place, message, why=why, fix=fix, severity=Severity.INFO)
    if partial:
        why += f"; the configuration below the {context.configuration.inside} may reserve more"
    split = a_split(context, config, wanted)
    fix = f"reservedMemory: {split_text(split)}" if split else ""
    ways = [_split_written(context, config, split, certain=not partial)]
    if given > wanted.nano:
        kept = settings.system_reserved.get(MEMORY, NOTHING).nano + given - wanted.nano
        more = f"systemReserved memory: {_bytes(kept // NANO)}"
        meant = given >= 2 * wanted.nano  # whoever writes so much means it, and forgot the other half
        fix = f"{more}; or {fix}" if meant and fix else f"{fix}; or keep it, and {more}" if fix else more
        ways = [
            _split_written(context, config, split, certain=False),
            field_set(context, ("systemReserved", MEMORY), _bytes(kept // NANO), certain=False),
        ]
        ways = ways[::-1] if meant else ways
    severity = Severity.WARNING if partial else None
    return found(
        "NW221", place, refused.message,
        why=why, fix=fix, stage=refused.stage, severity=severity, corrections=ways,
    )  # fmt: skip


def entry_refused(context: Context, refused: StartRefusal) -> Finding:
    """An entry that cannot be used, at its own place."""
    config = refused.config or context.config
    for at, entry in enumerate(config.reserved_memory):
        if f"references a NUMA node {entry.numa} " in refused.message:
            place = context.configuration.place("reservedMemory", at, "numaNode")
            fix = f"the machine has {numa_text(context.machine.numa_bits)}"
            ways = [field_removed(context, ("reservedMemory", at), certain=False)]
            return found("NW222", place, refused.message, fix=fix, stage=refused.stage, corrections=ways)
        for name, amount in entry.limits:
            if "Quantity to int64" in refused.message and not amount.exact:
                place = context.configuration.place("reservedMemory", at, "limits", name)
                fix = f"write {_bytes(amount.value)}"
                ways = [field_set(context, ("reservedMemory", at, "limits", name), _bytes(amount.value))]
                return found("NW222", place, refused.message, fix=fix, stage=refused.stage, corrections=ways)
    place = context.configuration.place(*(refused.steps or ("reservedMemory",)))
    return found("NW222", place, refused.message, stage=refused.stage)


def _in_percent(config: KubeletConfig) -> bool:
    return config.eviction_hard.get(SIGNAL, "").endswith("%")


def _all_written(context: Context) -> bool:
    return all(
        context.configuration.written(name) for name in ("kubeReserved", "systemReserved", "evictionHard")
    )


def _memory(entry: ReservedMemory) -> int:
    return sum(amount.nano for name, amount in entry.limits if name == MEMORY)


def _terms(settings: Settings, wanted: Quantity) -> str:
    kube = settings.kube_reserved.get(MEMORY, NOTHING)
    system = settings.system_reserved.get(MEMORY, NOTHING)
    threshold = wanted.nano - kube.nano - system.nano
    parts = (("kubeReserved", kube.nano), ("systemReserved", system.nano), ("evictionHard", threshold))
    terms = " + ".join(f"{name} {_bytes(nano // NANO)}" for name, nano in parts)
    return f"{terms} = {_bytes(wanted.nano // NANO)}"


def _bytes(amount: int) -> str:
    return str(Quantity.of(amount))


# --- a split (rules 1 and 2) ----------------------------------------------------------------


def a_split(context: Context, config: KubeletConfig, wanted: Quantity) -> tuple[tuple[int, int], ...]:
    """NUMA node and bytes, so that the sum is what is wanted; empty when there is none."""
    total, left = divmod(wanted.nano, NANO)
    if left or total <= 0:
        return ()
    for split in (_adjusted(config, total), _even(_homes(context, config), total)):
        if split and _accepted(context, config, split):
            return split
    return ()


def _adjusted(config: KubeletConfig, total: int) -> tuple[tuple[int, int], ...]:
    shares = [(entry.numa, _memory(entry) // NANO) for entry in config.reserved_memory if _memory(entry)]
    if not shares or len({numa for numa, _ in shares}) != len(shares):
        return ()
    largest = max(range(len(shares)), key=lambda at: shares[at][1])
    numa, share = shares[largest]
    share += total - sum(one for _, one in shares)
    if share <= 0:
        return ()
    shares[largest] = numa, share
    return tuple(shares)


def _even(homes: Sequence[int], total: int) -> tuple[tuple[int, int], ...]:
    each = total // len(homes) // MEBI * MEBI
    if not each:
        return ((homes[0], total),)
    rest = total - each * (len(homes) - 1)
    return tuple((numa, each if at else rest) for at, numa in enumerate(homes))


def _homes(context: Context, config: KubeletConfig) -> list[int]:
    if context.known:
        return [numa.id for numa in context.machine.numa if numa.memory] or [context.machine.numa[0].id]
    return sorted({entry.numa for entry in config.reserved_memory}) or [0]


def _accepted(context: Context, config: KubeletConfig, split: Sequence[tuple[int, int]]) -> bool:
    entries = tuple(ReservedMemory(numa, ((MEMORY, Quantity.of(share)),)) for numa, share in split)
    trial = replace(
        config, reserved_memory=entries, memory_manager_policy="Static", topology_manager_policy="none",
        cpu_manager_policy="none", cpu_manager_policy_options={}, topology_manager_policy_options={},
    )  # fmt: skip
    settings = settings_of(context, trial)
    return settings is not None and not isinstance(
        build(context.machine, trial, settings, context.version), Refusal
    )


def _split_written(
    context: Context, config: KubeletConfig, split: Sequence[tuple[int, int]], *, certain: bool
) -> Correction | None:
    """A split in the file: in the entries that are there where only amounts change, else as a whole."""
    if not split:
        return None
    old = [(entry.numa, _memory(entry) // NANO, len(entry.limits)) for entry in config.reserved_memory]
    if [numa for numa, _, _ in old] == [numa for numa, _ in split] and all(size for _, size, _ in old):
        ways = [
            field_set(context, ("reservedMemory", at, "limits", MEMORY), _bytes(share), certain=certain)
            for at, ((_, share), (_, before, _)) in enumerate(zip(split, old, strict=True))
            if share != before
        ]
        edits = [one.edits for one in ways if one is not None]
        whole = correction(f"set reservedMemory to {split_text(split)}", *edits, certain=certain)
        return whole if len(edits) == len(ways) else None
    if any(others > 1 for _, _, others in old):
        return None
    entries = [{"numaNode": numa, "limits": {MEMORY: _bytes(share)}} for numa, share in split]
    return field_set(context, ("reservedMemory",), entries, certain=certain)


def _without_pages(context: Context, config: KubeletConfig) -> Correction | None:
    pages = [
        ("reservedMemory", at, "limits", name)
        for at, entry in enumerate(config.reserved_memory)
        for name, _ in entry.limits
        if name.startswith(HUGEPAGES)
    ]
    return field_removed(context, pages[0]) if len(pages) == 1 else None


def split_text(split: Sequence[tuple[int, int]]) -> str:
    """A split as it can be pasted into a configuration."""
    entries = [f"{{numaNode: {numa}, limits: {{memory: {_bytes(share)}}}}}" for numa, share in split]
    if len(entries) > NUMAS_SHOWN:
        return f"[{', '.join(entries[:2])}, and so on: {_bytes(split[-1][1])} on each other NUMA node]"
    return f"[{', '.join(entries)}]"


# --- what is accepted and hurts -------------------------------------------------------------


def memory_findings(context: Context) -> Iterator[Finding]:
    """Reservations of memory that the kubelet accepts and that will hurt."""
    config, place = context.config, context.configuration.place
    written = context.configuration.written
    if written("evictionHard") and not _has_memory_threshold(config) and not context.configuration.partial:
        message = "evictionHard names no memory.available, so the default of 100Mi is dropped"
        ways = []
        if SIGNAL not in config.eviction_hard:
            ways = [field_set(context, ("evictionHard", SIGNAL), "100Mi", certain=not context.static_memory)]
        yield found("NW213", place("evictionHard"), message, corrections=ways)
    if _in_percent(config) and context.static_memory:
        threshold = config.eviction_hard[SIGNAL]
        message = (
            f"memory.available is {threshold}: reservedMemory must match a share of the memory to the byte"
        )
        fix = ""
        settings = settings_of(context, config) if context.known else None
        if settings is not None and MEMORY in settings.reservation:
            kept = settings.reservation[MEMORY].nano - sum(
                reserved.get(MEMORY, NOTHING).nano
                for reserved in (settings.kube_reserved, settings.system_reserved)
            )
            amount = _bytes(-(-kept // NANO // MEBI) * MEBI)
            fix = f'write memory.available: "{amount}", and adjust reservedMemory'
        yield found("NW214", place("evictionHard", SIGNAL), message, fix=fix)
    if config.reserved_memory and config.memory_manager_policy == "None":
        ways = [field_removed(context, ("reservedMemory",), certain=False)]
        yield found("NW133", place("reservedMemory"), "memoryManagerPolicy is None", corrections=ways)
    if context.known and context.start.node is not None and context.start.node.rules.memory_static:
        yield from _overdrawn(context)


def _has_memory_threshold(config: KubeletConfig) -> bool:
    return config.eviction_hard.get(SIGNAL, "0%") not in ("0%", "100%")


def _overdrawn(context: Context) -> Iterator[Finding]:
    """NUMA nodes where more is reserved than they have."""
    node = context.start.node
    assert node is not None
    reserved: Mapping[int, Mapping[str, int]] = node.rules.reserved_memory
    over = []
    for numa, node_memory in empty_tables(context.machine, node.rules).items():
        pages = sum(table.total for name, table in node_memory.tables.items() if name.startswith(HUGEPAGES))
        kept = reserved.get(numa, {}).get(MEMORY, 0)
        total = node_memory.tables[MEMORY].total
        if kept + pages > total:
            over.append(
                f"NUMA node {numa} has {_bytes(total)}, and {_bytes(kept)} is reserved for the system"
                + (f", {_bytes(pages)} for huge pages" if pages else "")
            )
    for text in over:
        yield found("NW224", context.configuration.place("reservedMemory"), text)


def capacity_findings(context: Context) -> Iterator[Finding]:
    """Reservations beyond what the machine has, which the kubelet finds last."""
    if not context.known:
        return
    settings = settings_of(context, context.config)
    if settings is None:
        return
    capacity = {"cpu": Quantity.of(context.machine.layout.all.bit_count(), "DecimalSI"),
                MEMORY: Quantity.of(context.machine.capacity)}  # fmt: skip
    for name, has in capacity.items():
        amount = settings.reservation.get(name)
        if amount is not None and amount.nano > has.nano > 0:
            # The kubelet prints both amounts as Go structs; here they are readable.
            message = (
                f'invalid Node Allocatable configuration. Resource "{name}" has a reservation of {amount} '
                f"but capacity of {has}. Expected capacity >= reservation."
            )
            fields = [one for one in RESERVING if context.configuration.written(one)]
            place = context.configuration.place(*fields[:1])
            yield found("NW215", place, message, stage="allocatable")


def cpus_are(bits: int) -> str:
    """``CPU 0 is`` or ``CPUs 0-1 are``."""
    return f"CPUs {format_ids(bits)} are" if bits.bit_count() > 1 else f"CPU {format_ids(bits)} is"


def numa_text(bits: int) -> str:
    """``NUMA node 0`` or ``NUMA nodes 0-1``."""
    return f"NUMA node{'s' if bits.bit_count() > 1 else ''} {format_ids(bits)}"


# --------------------------------------------------------------------------------------------------
# Reserved CPUs: how many there must be, and where they had better be.


FIELD = "reservedSystemCPUs"


def first_cores(layout: CpuLayout) -> int:
    """A core of every NUMA node that has CPUs, the lowest."""
    cpus = 0
    for own in layout.numas.values():
        cpus |= layout.cores_touching(own & -own)
    return cpus


def nothing_reserved(context: Context, refused: StartRefusal) -> Finding:
    """The static policy without reserved CPUs."""
    fix = ""
    ways = []
    if context.known:
        cores = format_ids(first_cores(context.machine.layout))
        ways = [field_set(context, (FIELD,), cores, certain=False)]
        fix = f'reservedSystemCPUs: "{cores}", a core of each NUMA node'
    place = context.configuration.place("cpuManagerPolicy")
    platform = context.platform
    if platform is not None and platform.reserves_cpus and platform.unless not in context.configuration.raw:
        message = f"how many CPUs are reserved is not in this file: {platform.reserves}"
        why = "the static policy needs some reserved CPU, and the platform sees to that"
        return found("NW201", place, message, why=why, fix=_choose(platform, fix), severity=Severity.INFO)
    if not context.configuration.partial:
        return found("NW201", place, refused.message, fix=fix, stage=refused.stage, corrections=ways)
    below = f"the configuration below the {context.configuration.inside}"
    why = f"{below} must reserve some, or the kubelet stops"
    if platform is not None and platform.reserves and not platform.reserves_cpus:
        why = f"{why}; {platform.reserves}"
    return found(
        "NW201", place, refused.message, why=why, fix=fix, stage=refused.stage, severity=Severity.WARNING
    )


def _choose(platform: Platform, fix: str) -> str:
    """How to choose the reserved CPUs on a platform that reserves some by itself."""
    if refused := platform.refused(FIELD):
        return f"nothing to do; which CPUs are reserved cannot be chosen: {refused}"
    return f"nothing to do; to choose them, set {fix or FIELD}"


def not_online(context: Context, refused: StartRefusal) -> Finding:
    """Reserved CPUs that the machine does not have."""
    config = refused.config or context.config
    place = context.configuration.place(FIELD)
    why = ""
    hardware = context.hardware
    try:
        wanted = parse_ids(config.reserved_system_cpus)
    except ValueError:
        wanted = 0
    missing = wanted & ~context.machine.layout.all
    if missing:
        off = missing & (hardware.offline if hardware else 0)
        parts = [f"{cpus_are(missing & ~off)} not there"] if missing & ~off else []
        parts += [f"{cpus_are(off)} offline"] if off else []
        why = " and ".join(parts)
    there = wanted & ~missing
    ways = [field_set(context, (FIELD,), format_ids(there), certain=False)] if missing and there else []
    return found("NW203", place, refused.message, why=why, stage=refused.stage, corrections=ways)


def cpu_findings(context: Context) -> Iterator[Finding]:
    """Reservations of CPUs that the kubelet accepts and that will hurt."""
    config, place = context.config, context.configuration.place
    if config.reserved_system_cpus:
        for name, given in (
            ("kubeReserved", config.kube_reserved),
            ("systemReserved", config.system_reserved),
        ):
            if "cpu" in given:
                listed = config.reserved_system_cpus
                message = f"cpu {given['cpu']} of {name} is overridden by reservedSystemCPUs {listed}"
                ways = [field_removed(context, (name, "cpu"), certain=False)]
                yield found("NW207", place(name, "cpu"), message, corrections=ways)
    if not context.static_cpus:
        return
    yield from _fraction(context)
    node = context.start.node
    if not context.known or node is None or not node.rules.cpu_static:
        return
    layout, reserved = context.machine.layout, node.rules.reserved_cpus
    where = place(FIELD) if config.reserved_system_cpus else place("cpuManagerPolicy")
    yield from _split_cores(context, layout, reserved, where)
    yield from _one_numa(context, layout, reserved, where)
    left = layout.all & ~reserved
    if not left:
        yield found("NW211", where, f"all {layout.all.bit_count()} CPUs are reserved")
    if node.rules.cpu_options.strict_reservation and left:
        message = f"pods can take all of the other {left.bit_count()} CPUs"
        yield found("NW212", place("cpuManagerPolicyOptions", "strict-cpu-reservation"), message)


def _fraction(context: Context) -> Iterator[Finding]:
    config = context.config
    if config.reserved_system_cpus:
        return
    settings = settings_of(context, config)
    if settings is None:
        return
    total = settings.reservation.get("cpu", NOTHING)
    if not total.milli % 1000:
        return
    whole = -(-total.milli // 1000)
    amounts = {"kubeReserved": settings.kube_reserved, "systemReserved": settings.system_reserved}
    name = _largest(amounts)
    message = f"{total} CPUs are reserved: the CPU Manager keeps {whole}, the node reports {total} less"
    milli = amounts[name].get("cpu", NOTHING).milli + whole * 1000 - total.milli
    rounded = Quantity.parse(f"{milli}m").canonical()
    fix = f'reserve a whole number: {whole} in reservedSystemCPUs, or cpu: "{rounded}" in {name}'
    ways = [field_set(context, (name, "cpu"), str(rounded), certain=False)]
    yield found("NW208", context.configuration.place(name, "cpu"), message, fix=fix, corrections=ways)


def _largest(amounts: Mapping[str, Mapping[str, Quantity]]) -> str:
    return max(amounts, key=lambda name: amounts[name].get("cpu", NOTHING).nano)


def _split_cores(context: Context, layout: CpuLayout, reserved: int, place: Place) -> Iterator[Finding]:
    cores = layout.cores_touching(reserved)
    beside = cores & ~reserved
    if not beside:
        return
    node = context.start.node
    full = node is not None and node.rules.cpu_options.full_cores
    lost = (
        "are lost: full-pcpus-only gives whole cores only" if full else "are given to pods, beside the system"
    )
    message = f"{cpus_are(reserved)} reserved, and the other threads there, {format_ids(beside)}, {lost}"
    why = "Neither the system nor a pod with exclusive CPUs can use them." if full else ""
    fix = f'reservedSystemCPUs: "{format_ids(cores)}"'
    ways = [field_set(context, (FIELD,), format_ids(cores), certain=False)]
    yield found("NW209", place, message, why=why, fix=fix, corrections=ways)


def _one_numa(context: Context, layout: CpuLayout, reserved: int, place: Place) -> Iterator[Finding]:
    homes = bits_of(numa for numa, cpus in layout.numas.items() if cpus & reserved)
    if len(layout.numas) < 2 or homes.bit_count() != 1:
        return
    room = _room({numa: (cpus & ~reserved).bit_count() for numa, cpus in layout.numas.items()}, homes)
    message = f"{cpus_are(reserved)} reserved, all on {numa_text(homes)}; left to give: {room}"
    fix = f'reservedSystemCPUs: "{format_ids(first_cores(layout))}" takes a core of each'
    ways = [field_set(context, (FIELD,), format_ids(first_cores(layout)), certain=False)]
    yield found("NW210", place, message, fix=fix, corrections=ways)


def _room(counts: Mapping[int, int], homes: int) -> str:
    """``60 on 0, 64 on 1``; where all others are alike and many, ``60 on 0, 64 on each other``."""
    others = {count for numa, count in counts.items() if not homes >> numa & 1}
    if len(counts) > 3 and len(others) == 1:
        (own,) = (f"{count} on {numa}" for numa, count in counts.items() if homes >> numa & 1)
        return f"{own}, {others.pop()} on each other"
    return ", ".join(f"{count} on {numa}" for numa, count in counts.items())

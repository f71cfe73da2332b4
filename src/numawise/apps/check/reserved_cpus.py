"""Reserved CPUs: how many there must be, and where they had better be."""

from collections.abc import Iterator, Mapping

from numawise.apps.check.context import Context
from numawise.apps.check.refusals import Refused
from numawise.apps.check.reserved_memory import cpus_are, numa_text, settings_of
from numawise.machine.model import CpuLayout
from numawise.quantity import Quantity
from numawise.results.finding import Finding, Place, Severity, found
from numawise.rules.check import NOTHING
from numawise.sets import bits_of, format_ids

FIELD = "reservedSystemCPUs"


def first_cores(layout: CpuLayout) -> int:
    """A core of every NUMA node that has CPUs, the lowest."""
    cpus = 0
    for own in layout.numas.values():
        cpus |= layout.cores_touching(own & -own)
    return cpus


def nothing_reserved(context: Context, refused: Refused) -> Finding:
    """The static policy without reserved CPUs."""
    fix = ""
    if context.known:
        cores = format_ids(first_cores(context.machine.layout))
        fix = f'reservedSystemCPUs: "{cores}", a core of each NUMA node'
    place = context.configuration.place("cpuManagerPolicy")
    if not context.configuration.partial:
        return found("NW201", place, refused.message, fix=fix, stage=refused.stage)
    why = (
        f"the configuration below the {context.configuration.inside} must reserve some, or the kubelet stops"
    )
    return found(
        "NW201", place, refused.message, why=why, fix=fix, stage=refused.stage, severity=Severity.WARNING
    )


def not_online(context: Context, refused: Refused) -> Finding:
    """Reserved CPUs that the machine does not have."""
    config = refused.config or context.config
    place = context.configuration.place(FIELD)
    why = ""
    hardware = context.hardware
    try:
        wanted = bits_of(_ids(config.reserved_system_cpus))
    except ValueError:
        wanted = 0
    missing = wanted & ~context.machine.layout.all
    if missing:
        off = missing & (hardware.offline if hardware else 0)
        parts = [f"{cpus_are(missing & ~off)} not there"] if missing & ~off else []
        parts += [f"{cpus_are(off)} offline"] if off else []
        why = " and ".join(parts)
    return found("NW203", place, refused.message, why=why, stage=refused.stage)


def _ids(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


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
                message = f"cpu {given['cpu']} of {name} is overruled by reservedSystemCPUs {listed}"
                yield found("NW207", place(name, "cpu"), message)
    if not context.static_cpus:
        return
    yield from _fraction(context)
    node = context.start.node
    if not context.known or node is None or not node.rules.cpu_static:
        return
    layout, reserved = context.machine.layout, node.rules.reserved_cpus
    where = place(FIELD) if config.reserved_system_cpus else place("cpuManagerPolicy")
    yield from _split_cores(context, layout, reserved, where)
    yield from _one_numa(layout, reserved, where)
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
    fix = f'reserve a whole number: {whole} in reservedSystemCPUs, or cpu: "{whole}" in {name}'
    yield found("NW208", context.configuration.place(name, "cpu"), message, fix=fix)


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
    why = "Nobody can use them, neither the system nor a pod with CPUs of its own." if full else ""
    yield found("NW209", place, message, why=why, fix=f'reservedSystemCPUs: "{format_ids(cores)}"')


def _one_numa(layout: CpuLayout, reserved: int, place: Place) -> Iterator[Finding]:
    homes = bits_of(numa for numa, cpus in layout.numas.items() if cpus & reserved)
    if len(layout.numas) < 2 or homes.bit_count() != 1:
        return
    room = _room({numa: (cpus & ~reserved).bit_count() for numa, cpus in layout.numas.items()}, homes)
    message = f"{cpus_are(reserved)} reserved, all on {numa_text(homes)}; left to give: {room}"
    fix = f'reservedSystemCPUs: "{format_ids(first_cores(layout))}" takes a core of each'
    yield found("NW210", place, message, fix=fix)


def _room(counts: Mapping[int, int], homes: int) -> str:
    """``60 on 0, 64 on 1``; where all others are alike and many, ``60 on 0, 64 on each other``."""
    others = {count for numa, count in counts.items() if not homes >> numa & 1}
    if len(counts) > 3 and len(others) == 1:
        (own,) = (f"{count} on {numa}" for numa, count in counts.items() if homes >> numa & 1)
        return f"{own}, {others.pop()} on each other"
    return ", ".join(f"{count} on {numa}" for numa, count in counts.items())

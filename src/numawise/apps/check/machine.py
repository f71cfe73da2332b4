"""The machine: what about it stands in the way of alignment under this configuration."""

from collections.abc import Iterator

from numawise.apps.check.context import Context
from numawise.apps.check.reserved_memory import cpus_are, numa_text
from numawise.engine.topology.why import NOTICEABLE, PER_COMBINATION, PER_MASK
from numawise.machine.model import DevicePlugin
from numawise.results.finding import Finding, Place, Severity, found
from numawise.sets import bits_of, format_ids

DEVICES_SHOWN = 4
YEAR = 365 * 86400.0


def machine_findings(context: Context) -> Iterator[Finding]:
    """Everything about the machine; nothing when none was given."""
    if not context.known:
        return
    place = Place(context.machine_file)
    yield from _numa(context, place)
    yield from _cores(context, place)
    yield from _devices(context, place)
    yield from _merging(context)
    closest = "prefer-closest-numa-nodes"
    node = context.start.node
    if node is not None and node.rules.prefer_closest and _has_gaps(context):
        ids = format_ids(context.machine.numa_bits)
        where = context.configuration.place("topologyManagerPolicyOptions", closest)
        yield found("NW236", where, f"the NUMA ids are {ids}, and {closest} is on")


def _has_gaps(context: Context) -> bool:
    return context.machine.numa_bits.bit_length() > len(context.machine.numa)


def _numa(context: Context, place: Place) -> Iterator[Finding]:
    machine = context.machine
    if len(machine.numa) == 1:
        if context.aligning:
            yield found("NW240", place, "the machine has one NUMA node")
        return
    bare = bits_of(numa.id for numa in machine.numa if numa.id not in machine.layout.numas)
    empty = bits_of(numa.id for numa in machine.numa if not numa.memory)
    if bare:
        yield found("NW238", place, f"{numa_text(bare)} {_has(bare)} no CPUs")
    if empty and empty != machine.numa_bits:
        yield found("NW238", place, f"{numa_text(empty)} {_has(empty)} no memory")


def _has(bits: int) -> str:
    return "have" if bits.bit_count() > 1 else "has"


def _cores(context: Context, place: Place) -> Iterator[Finding]:
    layout = context.machine.layout
    sizes = {core.bit_count() for core in layout.cores.values()}
    milder = None if context.static_cpus else Severity.INFO
    if len(sizes) > 1:
        fewest = min(sizes)
        few = bits_of(core for core, cpus in layout.cores.items() if cpus.bit_count() == fewest)
        threads = "thread" if fewest == 1 else "threads"
        cores = f"core {format_ids(few)} has" if few.bit_count() == 1 else f"cores {format_ids(few)} have"
        message = f"{cores} {fewest} {threads}, others {max(sizes)}"
        yield found("NW233", place, message, severity=milder)
    hardware = context.hardware
    if hardware is None:
        return
    if hardware.offline and len(sizes) == 1:
        message = f"{cpus_are(hardware.offline)} offline"
        why = "when they come back, the state file no longer matches and the kubelet does not start"
        fix = "decide which CPUs the machine has before the kubelet starts"
        yield found("NW233", place, message, why=why, fix=fix, severity=milder and Severity.INFO)
    isolated = hardware.host.isolated if hardware.host else None
    if isolated and isolated & layout.all:
        node = context.start.node
        reserved = node.rules.reserved_cpus if node is not None else 0
        also = isolated & reserved
        message = f"{cpus_are(isolated & layout.all)} isolated"
        message += f", {format_ids(also)} of them reserved for the system" if also else ""
        yield found("NW234", place, message, severity=milder)


def _devices(context: Context, place: Place) -> Iterator[Finding]:
    machine = context.machine
    for plugin in machine.plugins:
        where = Place(place.file, place.line, plugin.resource)
        homeless = [one.id for one in plugin.devices if not one.numa]
        if homeless and len(machine.numa) > 1:
            every = len(homeless) == len(plugin.devices)
            which = "none of its devices has" if every else f"{_some(homeless)} {_have(homeless)} not"
            yield found("NW237", where, f"{plugin.resource}: {which} a NUMA node")
        bad = [one.id for one in plugin.devices if not one.healthy]
        if bad:
            yield found("NW241", where, f"{plugin.resource}: {_some(bad)} of {len(plugin.devices)} unhealthy")


def _have(ids: list[str]) -> str:
    return "has" if len(ids) == 1 else "have"


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:DEVICES_SHOWN]) + (" …" if len(ids) > DEVICES_SHOWN else "")


def _merging(context: Context) -> Iterator[Finding]:
    """What the kubelet's own merge costs for a container with CPUs, memory and a device."""
    node = context.start.node
    if node is None or not context.aligning:
        return
    count = len(context.machine.numa)
    nodes = [count] if node.rules.cpu_static else []
    nodes += [count] if node.rules.memory_static else []
    spots = [_spots(context, plugin) for plugin in context.machine.plugins]
    nodes += [max(spots)] if spots else []
    single = context.config.topology_manager_policy == "single-numa-node"
    combinations, masks = 1, 0
    for some in nodes:
        masks += 2**some - 1
        combinations *= max(1, some if single else 2**some - 1)
    seconds = combinations * PER_COMBINATION + masks * PER_MASK
    if seconds < NOTICEABLE:
        return
    asked = _told(node.rules.cpu_static, node.rules.memory_static, bool(spots))
    message = (
        f"{count} NUMA nodes: up to {combinations:,} combinations of hints for a container with {asked};"
        f" {duration(seconds)} of CPU time"
    )
    yield found("NW232", context.configuration.place("topologyManagerPolicy"), message)


def duration(seconds: float) -> str:
    """About how long something takes."""
    if seconds > YEAR:
        return "more than a year"
    if seconds > 3600:
        return f"about {seconds / 3600:.0f} hours"
    return f"about {seconds:.0f} s" if seconds >= 1 else f"about {seconds:.1f} s"


def _spots(context: Context, plugin: DevicePlugin) -> int:
    node = context.start.node
    assert node is not None
    if not node.rules.behaviour.device_hints_over_hosting_nodes:
        return len(context.machine.numa)
    return len({numa for device in plugin.devices for numa in device.numa or ()})


def _told(*has: bool) -> str:
    words = [word for word, there in zip(("CPUs", "memory", "a device"), has, strict=True) if there]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

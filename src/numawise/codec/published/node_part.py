"""The part of a publication that changes rarely: the machine, the configuration and the release.

Rules kept here:

1. Numbers that follow each other evenly are runs ``[first, step, count]``, so that 256 CPUs are a few
   numbers, and equal machines have equal texts but for the ids of their devices.
2. The order of CPUs, NUMA nodes, plugins and devices is kept: decisions may depend on it.
3. Of the configuration only what decides is there (``DECIDING``); what merely keeps a kubelet from starting
   is not, because this one runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from numawise.codec.forms import decoded
from numawise.codec.machine import MOST_NUMA
from numawise.codec.published.envelope import broken, misread
from numawise.errors import quoted
from numawise.gpus.preference import MOST_LINKED, LauncherPreference
from numawise.machine.model import Cpu, Device, DevicePlugin, Machine, Numa
from numawise.machine.preference import PREFERENCES, LinkedGpus, Preference
from numawise.quantity import Quantity
from numawise.rules.model import KubeletConfig, ReservedMemory
from numawise.sets import ids_of

MOST_CPU_IDS = 8192
"""The most that a Linux kernel is built for."""
MOST_DEVICES = 65536
LARGEST_ID = (1 << 31) - 1
LARGEST_SIZE = (1 << 64) - 1
OTHER = ("maxPods", "podsPerCore", "memorySwap", "allowedUnsafeSysctls")
"""Fields of ``KubeletConfig.other`` that decide on pods."""
CONFIG_NAMES = {
    "cpu_manager_policy": "cpuManagerPolicy",
    "cpu_manager_policy_options": "cpuManagerPolicyOptions",
    "memory_manager_policy": "memoryManagerPolicy",
    "topology_manager_policy": "topologyManagerPolicy",
    "topology_manager_scope": "topologyManagerScope",
    "topology_manager_policy_options": "topologyManagerPolicyOptions",
    "reserved_system_cpus": "reservedSystemCPUs",
    "kube_reserved": "kubeReserved",
    "system_reserved": "systemReserved",
    "feature_gates": "featureGates",
}
DECIDING = frozenset({*CONFIG_NAMES.values(), "evictionHard", "reservedMemory", *OTHER})

Id = Annotated[int, msgspec.Meta(ge=-1, le=LARGEST_ID)]
Step = Annotated[int, msgspec.Meta(ge=-LARGEST_ID, le=LARGEST_ID)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_DEVICES)]
Size = Annotated[int, msgspec.Meta(ge=0)]
"""At most ``LARGEST_SIZE``, which ``within`` checks: msgspec's bounds end at 63 bits."""
NumaNumber = Annotated[int, msgspec.Meta(ge=0, lt=MOST_NUMA)]
AnyNuma = Annotated[int, msgspec.Meta(ge=-(1 << 62), lt=1 << 62)]
Run = tuple[Id | None, Step, Count]


class PublishedCpus(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Columns of the online CPUs, each in runs (rule 1)."""

    cpu: list[Run]
    core: list[Run]
    socket: list[Run]
    numa: list[Run]
    uncore: list[Run] = []


class PublishedNuma(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One NUMA node."""

    id: NumaNumber
    memory: Size = 0
    hugepages: dict[str, Size] = {}
    distances: list[Annotated[int, msgspec.Meta(ge=0, le=LARGEST_ID)]] = []


class PublishedLinks(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A plugin that goes by links: its GPUs, by their place among the devices or by id, and points."""

    gpus: list[Count | str]
    points: list[list[Annotated[int, msgspec.Meta(ge=0, le=LARGEST_ID)]]]
    homes: list[Annotated[int, msgspec.Meta(ge=-1, lt=MOST_NUMA)]] = []
    """Of numawise's own plugin: the NUMA node of each, or -1; of NVIDIA's: none at all."""
    distances: list[tuple[NumaNumber, NumaNumber, Annotated[int, msgspec.Meta(ge=0, le=LARGEST_ID)]]] = []


class PublishedPlugin(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Devices of one resource, in columns."""

    ids: list[str]
    numa: list[AnyNuma | list[AnyNuma] | None]
    unhealthy: list[Count] = []
    """Places of those that are."""
    numa_unknown: list[Count] = []
    preference: str | PublishedLinks | None = None
    refuses_several: bool = False
    connected: bool = True
    """Of a list in the state: its plugin has registered since the kubelet started."""


class PublishedMachine(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The whole part."""

    kubelet: str
    config: dict[str, Any]
    cpus: PublishedCpus
    numa: list[PublishedNuma]
    memory_capacity: Size | None = None
    devices: dict[str, PublishedPlugin] = {}


# --- configuration --------------------------------------------------------------------------


def config_fields(config: KubeletConfig) -> dict[str, Any]:
    """What decides of a configuration, as a file has it (rule 3); equal ones come out equal."""
    plain = KubeletConfig()
    fields: dict[str, Any] = {"evictionHard": dict(sorted(config.eviction_hard.items()))}
    for own, name in CONFIG_NAMES.items():
        value = getattr(config, own)
        if value != getattr(plain, own):
            fields[name] = dict(sorted(value.items())) if isinstance(value, Mapping) else value
    if config.reserved_memory:
        fields["reservedMemory"] = [_reserved(one) for one in config.reserved_memory]
    for name in OTHER:
        value = config.other.get(name)
        if value:
            fields[name] = list(value) if isinstance(value, tuple) else value
    return dict(sorted(fields.items()))


def _reserved(entry: ReservedMemory) -> dict[str, Any]:
    return {"numaNode": entry.numa, "limits": {name: str(size) for name, size in entry.limits}}


# --- writing --------------------------------------------------------------------------------


def encode_node(kubelet: str, machine: Machine, config: Mapping[str, Any]) -> bytes:
    """The part as JSON."""
    cpus = machine.cpus
    uncores = [cpu.uncore_cache for cpu in cpus]
    part = PublishedMachine(
        kubelet=kubelet,
        config=dict(sorted(config.items())),
        cpus=PublishedCpus(
            cpu=runs([cpu.cpu for cpu in cpus]),
            core=runs([cpu.core for cpu in cpus]),
            socket=runs([cpu.socket for cpu in cpus]),
            numa=runs([cpu.numa for cpu in cpus]),
            uncore=runs(uncores) if any(one is not None for one in uncores) else [],
        ),
        numa=[
            PublishedNuma(numa.id, numa.memory, dict(numa.hugepages), list(numa.distances))
            for numa in machine.numa
        ],
        memory_capacity=machine.memory_capacity,
        devices={plugin.resource: encode_plugin(plugin) for plugin in machine.plugins},
    )
    return msgspec.json.encode(part)


def runs(values: Sequence[int | None]) -> list[Run]:
    """Numbers as runs (rule 1)."""
    found: list[Run] = []
    at = 0
    while at < len(values):
        first = values[at]
        following = values[at + 1] if at + 1 < len(values) else None
        step = following - first if first is not None and following is not None else 0
        end = at + 1
        while end < len(values) and values[end] == (None if first is None else first + step * (end - at)):
            end += 1
        found.append((first, step if end - at > 1 else 0, end - at))
        at = end
    return found


def encode_plugin(plugin: DevicePlugin, *, connected: bool = True) -> PublishedPlugin:
    """The devices of one resource."""
    devices = plugin.devices
    return PublishedPlugin(
        ids=[one.id for one in devices],
        numa=[_written_numa(one.numa) for one in devices],
        unhealthy=[at for at, one in enumerate(devices) if not one.healthy],
        numa_unknown=[at for at, one in enumerate(devices) if one.numa_unknown],
        preference=_written_preference(plugin),
        refuses_several=plugin.refuses_several,
        connected=connected,
    )


def _written_numa(numa: tuple[int, ...] | None) -> int | list[int] | None:
    if numa is None:
        return None
    return numa[0] if len(numa) == 1 else list(numa)


def _written_preference(plugin: DevicePlugin) -> str | PublishedLinks | None:
    preference = plugin.preference
    if preference is None:
        return None
    places: dict[str, int] = {one.id: at for at, one in enumerate(plugin.devices)}
    if isinstance(preference, LinkedGpus):
        gpus: list[int | str] = [places.get(gpu, gpu) for gpu in preference.gpus]
        return PublishedLinks(gpus, [list(row) for row in preference.points])
    if isinstance(preference, LauncherPreference):
        gpus = [places.get(gpu, gpu) for gpu in preference.devices]
        return PublishedLinks(
            gpus,
            [list(row) for row in preference.points],
            [home.bit_length() - 1 for home in preference.homes],
            [
                (min(ids_of(pair)), max(ids_of(pair)), far)
                for pair, far in sorted(preference.distances.items())
            ],
        )
    return next(name for name, known in PREFERENCES.items() if known == preference)


# --- reading --------------------------------------------------------------------------------


def decode_node(name: str, data: bytes) -> PublishedMachine:
    """The part, its shape and numbers checked."""
    try:
        return decoded(data, PublishedMachine)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise misread(name, "a machine", problem) from None


def within(*sizes: int | None) -> None:
    """Raise ``ValueError`` for a size of more than 64 bits."""
    if any(size is not None and size > LARGEST_SIZE for size in sizes):
        raise ValueError("an amount is more than 64 bits hold")


def machine_of(name: str, part: PublishedMachine) -> Machine:
    """The machine of the part."""
    if not part.numa or len({one.id for one in part.numa}) != len(part.numa):
        raise broken(name, "does not have NUMA nodes of different numbers")
    columns = (part.cpus.cpu, part.cpus.core, part.cpus.socket, part.cpus.numa, part.cpus.uncore)
    try:
        within(part.memory_capacity, *(one.memory for one in part.numa))
        within(*(pages for one in part.numa for pages in one.hugepages.values()))
        cpus = _cpus(tuple(tuple(column) for column in columns))
        nodes = tuple(
            Numa(
                id=one.id,
                memory=one.memory,
                hugepages=tuple((str(Quantity.parse(size)), pages) for size, pages in one.hugepages.items()),
                distances=tuple(one.distances),
            )
            for one in part.numa
        )
        plugins = tuple(plugin_of(resource, one) for resource, one in part.devices.items())
    except ValueError as problem:
        raise broken(name, f"is not a machine: {problem}") from None
    if not {cpu.numa for cpu in cpus} <= {one.id for one in nodes}:
        raise broken(name, "has CPUs on a NUMA node that is not there")
    return Machine(cpus, nodes, plugins, part.memory_capacity)


@lru_cache(maxsize=64)
def _cpus(columns: tuple[tuple[Run, ...], ...]) -> tuple[Cpu, ...]:
    """The CPUs of runs; machines of one type share them."""
    lengths = {sum(count for _, _, count in column) for column in columns if column}
    if len(lengths) != 1 or not 0 < lengths.copy().pop() <= MOST_CPU_IDS or not all(columns[:4]):
        raise ValueError(f"it has no CPUs with core, socket and NUMA node, or more than {MOST_CPU_IDS}")
    cpu, core, socket, numa, *uncore = (list(_numbers(column)) for column in columns)
    ids = set(cpu)
    if len(ids) != len(cpu) or not all(one is not None and 0 <= one < MOST_CPU_IDS for one in ids):
        raise ValueError(f"its CPUs do not have different numbers below {MOST_CPU_IDS}")
    rows = zip(cpu, core, socket, numa, uncore[0] or [None] * len(cpu), strict=True)
    made = []
    for one, its_core, its_socket, its_numa, its_uncore in rows:
        if one is None or its_core is None or its_socket is None or its_numa is None:
            raise ValueError(f"of CPU {one} core, socket or NUMA node is missing")
        if not 0 <= its_numa < MOST_NUMA:
            raise ValueError(f"CPU {one} is on NUMA node {its_numa}")
        made.append(Cpu(one, its_core, its_socket, its_numa, its_uncore))
    return tuple(made)


def _numbers(column: Sequence[Run]) -> Iterator[int | None]:
    for first, step, count in column:
        if first is None:
            yield from [None] * count
        else:
            yield from (first + step * at for at in range(count))


def plugin_of(resource: str, part: PublishedPlugin) -> DevicePlugin:
    """The plugin of a resource; ``ValueError``: it cannot be one."""
    count = len(part.ids)
    if len(part.numa) != count or len(set(part.ids)) != count or count > MOST_DEVICES:
        raise ValueError(f"devices of {resource} do not have different ids and a NUMA node each")
    if any(at >= count for at in (*part.unhealthy, *part.numa_unknown)):
        raise ValueError(f"{resource} has fewer devices than its list of unhealthy ones says")
    unhealthy, unknown = frozenset(part.unhealthy), frozenset(part.numa_unknown)
    devices = tuple(
        Device(
            one,
            None if numa is None else (numa,) if isinstance(numa, int) else tuple(numa),
            at not in unhealthy,
            at in unknown,
        )
        for at, (one, numa) in enumerate(zip(part.ids, part.numa, strict=True))
    )
    return DevicePlugin(resource, devices, _preference(resource, part), part.refuses_several)


def _preference(resource: str, part: PublishedPlugin) -> Preference | None:
    preference = part.preference
    if preference is None:
        return None
    if isinstance(preference, str):
        if preference not in PREFERENCES:
            raise ValueError(f"{quoted(preference)} is not a preference that is known")
        return PREFERENCES[preference]
    gpus = preference.gpus
    if any(len(row) != len(gpus) for row in preference.points) or len(preference.points) != len(gpus):
        raise ValueError(f"the links of {resource} are not one number for every two GPUs")
    if any(isinstance(one, int) and one >= len(part.ids) for one in gpus):
        raise ValueError(f"the links of {resource} are of more devices than there are")
    names = tuple(one if isinstance(one, str) else part.ids[one] for one in gpus)
    points = tuple(tuple(row) for row in preference.points)
    if not preference.homes:
        return LinkedGpus(names, points)
    if len(preference.homes) != len(names) or len(set(names)) != len(names) or len(names) > MOST_LINKED:
        raise ValueError(
            f"the links of {resource} are not those of up to {MOST_LINKED} devices with a home each"
        )
    homes = tuple(1 << home if home >= 0 else 0 for home in preference.homes)
    return LauncherPreference(
        names, homes, points, {1 << one | 1 << other: far for one, other, far in preference.distances}
    )

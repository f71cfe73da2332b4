"""What state files record beside the machine it is recorded of: each entry is matched, or is named.

Rules kept here:

1. A device is matched by its id; a CPU by its number; memory by its NUMA node and type.
2. Where the machine names the devices of a resource as the files do and only misses some, these are gone:
   the kubelet goes on without them, and so does the simulated one.
3. Where it names them otherwise (``GPU0`` beside UUIDs), what is held is held by devices that nobody knows:
   no answer may rest on such a node.  Likewise where it offers nothing of a resource that is held, and has
   devices of the same vendor that the files do not have: a slice or a share is part of one of these.
4. ``mapped`` matches them by number all the same, for those who ask for that: those that are held on the NUMA
   nodes that the file records, the rest in order.  The kubelet registered as many as the machine has, or else
   it is another machine.
5. CPUs and memory that the machine lacks stop the kubelet; it says so itself.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.checkpoint.look import FLAT, encoded, look
from numawise.codec.checkpoint.reading import CLAIMS_FILE
from numawise.engine.state import DeviceFile, DeviceGrant
from numawise.errors import InputError
from numawise.machine.model import Device, Machine
from numawise.node.state.folder import StateFile, StateFolder, cpus_word, known_cpus
from numawise.node.state.memory_tables import machine_tables, recorded_blocks
from numawise.request.model import CPU
from numawise.results.finding import Finding, Place, Severity, found
from numawise.results.state import Unmatched, some
from numawise.sets import ids_of
from numawise.values import replace

DIGITS = re.compile(r"[0-9a-fA-F]+")
NUMBERED = re.compile(r"(\D*)(\d{1,18})", re.ASCII)
NOT_HERE = "not on this machine"
OPTION = "--match-devices"
SAID_BY = {CPU_FILE: ("NW305",), MEMORY_FILE: ("NW310", "NW311"), DEVICE_FILE: ("NW313",)}
"""File → codes of findings that name its entries one by one."""
AS_IT_WAS = "give the machine as it was, or repair the file"


def unmatched_entries(folder: StateFolder, machine: Machine | None) -> tuple[Unmatched, ...]:
    """The entries that the machine does not have (rules 1 to 3); without a machine, claims alone."""
    if machine is None:
        return tuple(_claims(folder))
    return (*_devices(folder, machine), *_cpus(folder, machine), *_memory(folder, machine), *_claims(folder))


def unmatched_findings(
    folder: StateFolder, machine: Machine | None, codes: Collection[str]
) -> Iterator[Finding]:
    """What the machine does not have; ``codes``: of findings that may say more about it."""
    for one in unmatched_entries(folder, machine):
        others = SAID_BY.get(one.source, ())
        all_held = one.source != DEVICE_FILE or (len(one.names) == one.held and not one.decides)
        if all_held and any(code in codes for code in others):
            continue
        file = folder.file(one.source)
        place = file.place() if file is not None else Place(str(folder.directory / one.source))
        if one.decides:
            yield found("NW320", place, one.text, fix=one.advice)
        else:
            why = "No answer about this machine rests on it."
            yield found("NW320", place, one.text, why=why, fix=one.advice, severity=Severity.INFO)


def _devices(folder: StateFolder, machine: Machine) -> Iterator[Unmatched]:
    there = {plugin.resource: [device.id for device in plugin.devices] for plugin in machine.plugins}
    held = _held(folder.devices)
    recorded = recorded_devices(folder.devices)
    for resource, ids in sorted(recorded.items()):
        own = there.get(resource, [])
        lost = sorted(ids.difference(own), key=natural)
        if not lost:
            continue
        count = len(held.get(resource, frozenset()).intersection(lost))
        whole = [] if own or not count else maybe_whole(resource, recorded, there)
        otherwise = bool(own) and _named_otherwise(ids, own, lost)
        decides = bool(whole or (count and otherwise))
        names = f"{resource} device{'' if len(lost) == 1 else 's'} of the checkpoint"
        text = f"{len(lost)} {names} {_are(lost)} {NOT_HERE} ({some(lost)})"
        if count < len(lost):
            text += f", {count} of them held" if count else ", none of them held"
        advice = f"this machine has no {resource}"
        if whole:
            parts = f"its {' and '.join(whole)} may be what these are parts of"
            advice += f", and {parts}; give the machine with all that its device plugins offer (--machine)"
        elif decides:
            listing = "nvidia-smi -L" if lost[0].startswith("GPU-") else "a print with these ids"
            advice = f"give {listing} beside it (--machine), or {OPTION} to map them by number"
        elif otherwise:
            advice = f"the machine has {len(own)} by other names"
        elif own:
            advice = "the kubelet goes on without them" if len(lost) > 1 else "the kubelet goes on without it"
        yield Unmatched(resource, tuple(lost), DEVICE_FILE, text, advice, count, decides)


def maybe_whole(
    resource: str, recorded: Mapping[str, Collection[str]], there: Mapping[str, Sequence[str]]
) -> list[str]:
    """Resources of the same vendor with devices that the files do not have (rule 3)."""
    vendor = resource.partition("/")[0]
    return [
        other
        for other, own in sorted(there.items())
        if other.partition("/")[0] == vendor and set(own).difference(recorded.get(other, ()))
    ]


def _named_otherwise(ids: Iterable[str], own: Sequence[str], lost: Iterable[str]) -> bool:
    """Whether devices of the machine may be those that it lacks by their ids (rules 2 and 3)."""
    others = [name for name in own if name not in ids]
    if len(others) == len(own):
        return True
    shapes = {DIGITS.sub("#", name) for name in others}
    return bool(shapes) and shapes != {DIGITS.sub("#", name) for name in lost}


def _cpus(folder: StateFolder, machine: Machine) -> Iterator[Unmatched]:
    beyond = known_cpus(folder) & ~machine.layout.all
    if beyond:
        names = tuple(map(str, ids_of(beyond)))
        text = f"{cpus_word(beyond)} of {CPU_FILE} {_are(names)} {NOT_HERE}"
        held = (beyond & ~folder.cpu.shared).bit_count()
        yield Unmatched(CPU, names, CPU_FILE, text, AS_IT_WAS, held)


def recorded_memory(folder: StateFolder) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
    """NUMA nodes and types of the memory that is recorded in all, and of what is held."""
    state = folder.memory
    blocks = (block for _, own in recorded_blocks(state) for block in own)
    held = {(numa, block.type) for block in blocks for numa in ids_of(block.numa)}
    tables = {
        (numa, kind)
        for numa, node in state.numa.items()
        for kind, table in node.tables.items()
        if table.total
    }
    return tables | held, held


def _memory(folder: StateFolder, machine: Machine) -> Iterator[Unmatched]:
    tables = machine_tables(machine, {})
    recorded, held = recorded_memory(folder)
    lost = {(numa, kind) for numa, kind in recorded if numa not in tables or kind not in tables[numa].tables}
    for kind in sorted({kind for _, kind in lost}):
        numas = sorted(numa for numa, own in lost if own == kind)
        names = tuple(f"NUMA {numa}" for numa in numas)
        text = f"{kind} of {some(names)} in {MEMORY_FILE} is {NOT_HERE}"
        yield Unmatched(kind, names, MEMORY_FILE, text, AS_IT_WAS, len(lost & held))


def _claims(folder: StateFolder) -> Iterator[Unmatched]:
    if folder.claims:
        names = tuple(sorted(folder.claims))
        text = (
            f"{len(names)} claim{'' if len(names) == 1 else 's'} of {CLAIMS_FILE} {_are(names)} not matched"
        )
        advice = "the devices of claims are no part of a machine, and what claims hold is not counted"
        yield Unmatched("claim", names, CLAIMS_FILE, f"{text} ({some(names)})", advice, len(names))


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def natural(name: str) -> tuple[str, int, str]:
    """A key that puts ``GPU2`` before ``GPU10``."""
    numbered = NUMBERED.fullmatch(name)
    return (numbered[1], int(numbered[2]), name) if numbered else (name, 0, name)


# --- devices ----------------------------------------------------------------------------------


def recorded_devices(file: DeviceFile) -> dict[str, frozenset[str]]:
    """Resource → ids of all devices that the file has, held or registered."""
    held = _held(file)
    return {
        resource: file.registered.get(resource, frozenset()) | held.get(resource, frozenset())
        for resource in dict.fromkeys((*file.registered, *held))
    }


def _held(file: DeviceFile) -> dict[str, frozenset[str]]:
    held: dict[str, frozenset[str]] = {}
    for containers in file.grants.values():
        for resources in containers.values():
            for resource, grant in resources.items():
                held[resource] = held.get(resource, frozenset()) | grant.ids
    return held


def mapped(folder: StateFolder, machine: Machine) -> tuple[StateFolder, tuple[str, ...]]:
    """The files with the machine's ids in the place of those that it lacks, and what was assumed (rule 4)."""
    file = folder.file(DEVICE_FILE)
    if file is None or file.look.devices is None:
        return folder, ()
    if not file.look.fits:
        return folder, (f"{OPTION}: nothing is mapped, because the checksum of {DEVICE_FILE} is wrong",)
    record = file.look.devices
    numas = {} if file.look.format == FLAT else _numas(record)
    ids: dict[tuple[str, str], str] = {}
    said = []
    for one in _devices(folder, machine):
        devices = next((plugin.devices for plugin in machine.plugins if plugin.resource == one.kind), ())
        known, own = recorded_devices(record)[one.kind], [device.id for device in devices]
        if own and _named_otherwise(known, own, one.names):
            pairs = _paired(one, record, numas, devices)
            ids |= {(one.kind, name): device for name, device in pairs.items()}
            listed = some([f"{name} is {pairs[name]}" for name in sorted(pairs, key=natural)])
            said.append(
                f"{OPTION}: {len(pairs)} {one.kind} devices of the checkpoint are mapped by number, those "
                f"that are held on the NUMA nodes recorded there ({listed}); which is which is assumed"
            )
    if not ids:
        return folder, ()
    text = encoded(replace(file.look, devices=_renamed(record, ids)))
    other = StateFile(file.name, file.path, text.encode(), look(file.name, text))
    files = tuple(other if each is file else each for each in folder.files)
    return replace(folder, files=files), tuple(said)


def _numas(file: DeviceFile) -> dict[tuple[str, str], frozenset[int]]:
    """Resource and id → NUMA nodes, as they were recorded when it was handed out."""
    found: dict[tuple[str, str], frozenset[int]] = {}
    for containers in file.grants.values():
        for resources in containers.values():
            for resource, grant in resources.items():
                for numa, ids in grant.per_numa:
                    for name in ids if numa >= 0 else ():
                        found[resource, name] = found.get((resource, name), frozenset()) | {numa}
    return found


def _cannot(why: str) -> InputError:
    advice = "give the machine of this checkpoint, or nvidia-smi -L beside it"
    return InputError(f"{why}: they cannot be mapped by number", field=OPTION, advice=advice)


def _paired(
    one: Unmatched,
    record: DeviceFile,
    numas: Mapping[tuple[str, str], frozenset[int]],
    devices: Sequence[Device],
) -> dict[str, str]:
    """Id of the files → id of the machine, for a resource."""
    known = recorded_devices(record)[one.kind]
    free = [device for device in sorted(devices, key=lambda each: natural(each.id)) if device.id not in known]
    if len(one.names) > len(free) or (record.registered.get(one.kind) and len(one.names) < len(free)):
        raise _cannot(f"the checkpoint has {len(known)} {one.kind} devices, the machine {len(devices)}")
    left: dict[frozenset[int], list[str]] = {}
    for device in reversed(free):  # the first of each stands at the end
        left.setdefault(frozenset(device.numa or ()), []).append(device.id)
    pairs: dict[str, str] = {}
    elsewhere = []
    for name in sorted(one.names, key=natural):
        where = numas.get((one.kind, name))
        if where is None:
            elsewhere.append(name)
        elif left.get(where):
            pairs[name] = left[where].pop()
        else:
            numa = " and ".join(map(str, sorted(where)))
            raise _cannot(f"the checkpoint has more {one.kind} devices on NUMA {numa} than the machine")
    rest = sorted((device for ids in left.values() for device in ids), key=natural)
    return pairs | dict(zip(elsewhere, rest, strict=False))


def _renamed(file: DeviceFile, ids: Mapping[tuple[str, str], str]) -> DeviceFile:
    def own(resource: str, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(ids.get((resource, name), name) for name in names)

    grants = {
        uid: {
            container: {
                resource: DeviceGrant(
                    tuple((numa, own(resource, names)) for numa, names in grant.per_numa), grant.response
                )
                for resource, grant in resources.items()
            }
            for container, resources in containers.items()
        }
        for uid, containers in file.grants.items()
    }
    registered = {resource: frozenset(own(resource, names)) for resource, names in file.registered.items()}
    return DeviceFile(grants, registered)

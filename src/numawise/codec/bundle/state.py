"""The kubelet's state files with other names in them, as the kubelet itself would have written them.

Rules kept here:

1. Only uids, container names, container ids and device ids are replaced; CPUs, memory and policies stay.
   Members that no release writes are left out.
2. A checksum that was right is right afterwards; one that was wrong, or missing, stays so, because that is
   what keeps the kubelet from starting.
3. What a device plugin answered holds paths and ids of all kinds; the answer of a simulated plugin, which
   names the same devices, takes its place.
4. A file that is not JSON, or holds other things than it should, is kept in shape: its brackets, numbers and
   the words that such files use.  Everything else in it becomes a stand-in.
"""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from numawise.codec import gojson
from numawise.codec.bundle.allowed import is_resource, words
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.checkpoint.device import simulated_response
from numawise.codec.checkpoint.look import DATA_CHECKSUM, look
from numawise.codec.checkpoint.reading import fnv1a

Data = Any
ORDERED = {
    CPU_FILE: ("policyName", "defaultCpuSet", "entries", "podEntries", "checksum", "data", "dataChecksum"),
    MEMORY_FILE: ("policyName", "machineState", "entries", "podEntries", "checksum", "data", "dataChecksum"),
    DEVICE_FILE: ("Data", "Checksum"),
}
INNER = ("policyName", "defaultCpuSet", "machineState", "entries", "podEntries", "checksum")
WORDS = frozenset(
    re.findall(
        r"\S+",
        """
        policyName defaultCpuSet entries podEntries cpuSet memoryBlocks checksum data dataChecksum
        machineState numberOfAssignments memoryMap cells nodes total systemReserved allocatable reserved free
        numaAffinity type size memory static none Static None BestEffort Data PodDeviceEntries PodUID
        ContainerName
        ResourceName DeviceIDs AllocResp RegisteredDevices Checksum
        """,
    )
)
PIECE = re.compile(r'"((?:[^"\\]|\\.)*)("?)|[^"]', re.DOTALL)
PLAIN = re.compile(r"[0-9]{0,5}(?:[,-][0-9]{0,5})*|hugepages-[0-9]{1,9}[KMGT]i", re.ASCII)
"""Lists of CPUs, also misspelt ones, and pages."""
OUTSIDE = frozenset("{}[]:,.+- \t\r\n\0")
LITERAL = re.compile(r"true|false|null|(?<![\d.])-?\d{1,20}(?![\d.])", re.ASCII)


class Renaming(Protocol):
    """What becomes of names; ``Names`` is one."""

    def uid(self, uid: str) -> str:
        """Of a pod."""
        ...

    def name(self, kind: str, name: str) -> str:
        """Of a container."""
        ...

    def device(self, text: str) -> str:
        """Of a device."""
        ...

    def resource(self, name: str) -> str:
        """Of a resource."""
        ...


def renamed_state(file: str, text: str, names: Renaming) -> str:
    """The text of a state file with other names (rules 1 to 4)."""
    if not text.strip("\0 \t\r\n"):
        return text
    try:
        raw = gojson.decode(text)
        changed = _PARTS[file](_known(raw, ORDERED[file]), names)
        _seal(file, raw, changed)
        return _text(changed)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return _scrambled(text, names)


def _known(raw: Mapping[str, Data], order: Sequence[str]) -> dict[str, Data]:
    """The members that a file may have, as they are spelt, in the order of the kubelet's own files."""
    wanted = [name.lower() for name in order]
    found = [name for name in raw if name.lower() in wanted]
    return {name: raw[name] for name in sorted(found, key=lambda name: wanted.index(name.lower()))}


def _seal(file: str, raw: Mapping[str, Data], changed: dict[str, Data]) -> None:
    """Give the changed file checksums that are as right as they were (rule 2)."""
    before, after = look(file, _text(_outer(raw))), look(file, _text(_outer(changed)))
    for old, new in zip(before.sums, after.sums, strict=False):
        _put(changed, old.member, new.right, fits=old.fits)
    inner, stored = _member(raw, "data"), _member(raw, DATA_CHECKSUM)
    if isinstance(inner, str) and inner:
        right = fnv1a(f"(string){_member(changed, 'data')}")
        _put(changed, DATA_CHECKSUM, right, fits=stored == fnv1a(f"(string){inner}"))


def _outer(raw: Mapping[str, Data]) -> dict[str, Data]:
    """A file without the copy of its content that newer releases add as text."""
    return {
        name: value
        for name, value in raw.items()
        if name.lower() != DATA_CHECKSUM.lower() and not (name.lower() == "data" and isinstance(value, str))
    }


def _member(raw: Mapping[str, Data], wanted: str) -> Data:
    return next((value for name, value in raw.items() if name.lower() == wanted.lower()), None)


def _put(raw: dict[str, Data], member: str, right: int, *, fits: bool) -> None:
    for name, value in raw.items():
        if name.lower() == member.lower() and fits:
            raw[name] = right
        elif name.lower() == member.lower() and value == right:
            raw[name] = right ^ 1  # was wrong, and must not come right by chance


# --- the three files ------------------------------------------------------------------------


def _managers(raw: Mapping[str, Data], names: Renaming) -> dict[str, Data]:
    """A file of the CPU or of the Memory Manager."""
    found: dict[str, Data] = {}
    for member, value in raw.items():
        match member.lower():
            case "entries" if value is not None:
                found[member] = {names.uid(uid): _containers(below, names) for uid, below in value.items()}
            case "podentries" if value is not None:
                found[member] = {names.uid(uid): _plain(below, names) for uid, below in value.items()}
            case "data" if isinstance(value, str) and value:
                found[member] = _inner(value, names)
            case _:
                found[member] = _plain(value, names)
    return found


def _plain(value: Data, names: Renaming) -> Data:
    """A part of a file that should have no names in it; stand-ins for what is none of its words."""
    if isinstance(value, dict):
        return {_word(name, names): _plain(below, names) for name, below in value.items()}
    if isinstance(value, list):
        return [_plain(one, names) for one in value]
    return _word(value, names) if isinstance(value, str) else value


def _word(text: str, names: Renaming) -> str:
    return text if text in WORDS or PLAIN.fullmatch(text) else names.uid(text)


def _inner(text: str, names: Renaming) -> str:
    try:
        return _text(_managers(_known(gojson.decode(text), INNER), names))
    except (ValueError, TypeError, AttributeError):
        return _scrambled(text, names)


def _containers(value: Data, names: Renaming) -> Data:
    if not isinstance(value, dict):
        return _plain(value, names)
    return {names.name("container", name): _plain(below, names) for name, below in value.items()}


def _devices(raw: Mapping[str, Data], names: Renaming) -> dict[str, Data]:
    found: dict[str, Data] = {}
    for member, value in raw.items():
        if member.lower() != "data" or value is None:
            found[member] = _plain(value, names)
            continue
        inner: dict[str, Data] = {}
        for name, below in value.items():
            if name.lower() == "poddeviceentries" and isinstance(below, list):
                inner[name] = [_device_entry(one, names) for one in below]
            elif name.lower() == "registereddevices" and isinstance(below, dict):
                inner[name] = {
                    names.resource(resource): None if ids is None else [names.device(one) for one in ids]
                    for resource, ids in below.items()
                }
            elif name.lower() in STRUCTS:
                inner[name] = _plain(below, names)
        found[member] = inner
    return found


def _device_entry(entry: Mapping[str, Data], names: Renaming) -> dict[str, Data]:
    found: dict[str, Data] = {}
    resource, ids = "", []
    for member, value in entry.items():
        match member.lower():
            case "poduid":
                found[member] = names.uid(value)
            case "containername":
                found[member] = names.name("container", value)
            case "resourcename":
                found[member] = resource = names.resource(value)
            case "deviceids" if isinstance(value, dict):
                found[member] = {
                    _word(numa, names): [names.device(one) for one in some or ()]
                    for numa, some in value.items()
                }
                ids = [one for some in found[member].values() for one in some]
            case "deviceids" if isinstance(value, list):
                found[member] = ids = [names.device(one) for one in value]
            case "allocresp":
                answer = simulated_response(resource, ids) if value else b""
                found[member] = base64.b64encode(answer).decode() if value is not None else None
    return found


_PARTS: Mapping[str, Callable[[Mapping[str, Data], Renaming], dict[str, Data]]] = {
    CPU_FILE: _managers,
    MEMORY_FILE: _managers,
    DEVICE_FILE: _devices,
}
STRUCTS = frozenset(word.lower() for word in WORDS)


def _text(value: Data) -> str:
    """JSON as Go writes it: structs in their order, maps by the bytes of their keys."""
    if isinstance(value, dict):
        items = list(value.items())
        if not all(name.lower() in STRUCTS for name in value):
            items.sort(key=lambda item: item[0].encode(errors="replace"))
        return "{" + ",".join(f"{gojson.text(name)}:{_text(below)}" for name, below in items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, str):
        return gojson.text(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    raise ValueError("a number with a fraction")


# --- damaged files --------------------------------------------------------------------------


def _scrambled(text: str, names: Renaming) -> str:
    """A damaged file in the same shape, without names (rule 4)."""
    out: list[str] = []
    at = 0
    while at < len(text):
        if literal := LITERAL.match(text, at):
            out.append(literal[0])
            at = literal.end()
            continue
        found = PIECE.match(text, at)
        assert found is not None
        at = found.end()
        if found[1] is None:
            out.append(found[0] if found[0] in OUTSIDE else "x")
        elif found[1] in WORDS or PLAIN.fullmatch(found[1]) or _is_vendors(found[1]):
            out.append(found[0])
        else:
            out.append(f'"{names.uid(found[1])}{found[2]}')
    return "".join(out)


def _is_vendors(text: str) -> bool:
    """Whether a text is a resource of a maker of devices."""
    return is_resource(text) and text.partition("/")[0] in words("vendor")

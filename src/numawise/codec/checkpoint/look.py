"""A state file as it lies there: its format, what it says, and which checksum it should have.

``decode_*`` answer as one kubelet does and stop at the first complaint.  Here a file is read for people:
whatever can be read is, also behind a wrong checksum or of another policy.

Rules kept here:

1. The format is recognised by the members, and where these fit several formats, by the checksum; where
   that fits none, it is the one that most releases write.
2. ``sums`` names every checksum of the file with the value that it should have in its format.
3. What cannot be read at all is a ``problem``, in the kubelet's words.
"""

import binascii
from collections.abc import Callable, Mapping
from typing import Any

from numawise.codec import gojson
from numawise.codec.checkpoint.cpu import (
    CPU_FILE,
    V1_MAP,
    V2_MAP,
    CpuContent,
    cpu_content,
    cpu_state,
    encode_cpu,
    with_pod_entries,
)
from numawise.codec.checkpoint.device import DEVICE_FILE, device_file, devices_printed, encode_devices
from numawise.codec.checkpoint.memory import MEMORY_FILE, encode_memory, memory_content, memory_print
from numawise.codec.checkpoint.reading import fnv1a, members_of, typed
from numawise.engine.state import CpuState, DeviceFile, MemoryState
from numawise.sets import parse_ids
from numawise.values import dataclass, field

V1, V2, V3, V4, FLAT, BY_NUMA = "v1", "v2", "v3", "v4", "flat lists", "by NUMA node"
WRITERS: Mapping[str, Mapping[str, str]] = {
    CPU_FILE: {
        V1: "1.12 to 1.17",
        V2: "1.18 to 1.36",
        V3: "1.36 with PodLevelResourceManagers",
        V4: "1.37",
    },
    MEMORY_FILE: {V1: "1.21 to 1.36", V2: "1.36 with PodLevelResourceManagers", V3: "1.37"},
    DEVICE_FILE: {FLAT: "up to 1.19", BY_NUMA: "1.20 and later"},
}
"""File → format → the releases that write it."""
CHECKSUM, DATA_CHECKSUM = "checksum", "dataChecksum"
OLD_GROUPS = "nodes"
TWO_COPIES = "the two copies of the content differ; 1.37 uses the second, older releases the first"


@dataclass(frozen=True, slots=True)
class Sum:
    """One checksum of a file."""

    member: str
    stored: int | None
    """None: there is none, or it is zero."""
    right: int

    @property
    def fits(self) -> bool:
        """True when it is the one it should be."""
        return self.stored == self.right


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of one state file."""

    file: str
    format: str = ""
    """'' when nothing could be read."""
    policy: str = ""
    sums: tuple[Sum, ...] = ()
    cpu: CpuState | None = None
    memory: MemoryState | None = None
    devices: DeviceFile | None = None
    by_id: Mapping[str, int] = field(default_factory=dict)
    """CPUs by container id, in the oldest format."""
    problem: str = ""
    """Why it, or a part of it, cannot be read."""
    remarks: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """True when every checksum is right."""
        return bool(self.sums) and all(one.fits for one in self.sums)

    @property
    def readable(self) -> bool:
        """True when the content is known."""
        return self.cpu is not None or self.memory is not None or self.devices is not None


def kind_of_state(data: str) -> str:
    """Which of the state files a text is, by its members; '' when it is none."""
    try:
        raw = members_of(gojson.decode(data), "")
    except ValueError:
        return ""
    if "defaultcpuset" in raw:
        return CPU_FILE
    if "machinestate" in raw:
        return MEMORY_FILE
    return DEVICE_FILE if isinstance(raw.get("data"), dict) else ""


def look(name: str, data: str) -> Look:
    """Read a state file of this name."""
    try:
        raw = members_of(gojson.decode(data), "")
        return {CPU_FILE: _cpu, MEMORY_FILE: _memory, DEVICE_FILE: _devices}[name](raw)
    except (ValueError, TypeError, AttributeError, KeyError, binascii.Error) as error:
        problem = f"a member is missing: {error}" if isinstance(error, KeyError) else str(error)
        return Look(name, problem=problem)


def encoded(found: Look) -> str:
    """The text of a file with this content, in the same format and with the right checksums.

    The two formats that only releases before 1.20 wrote are given in the form of 1.20.
    """
    if found.cpu is not None:
        return encode_cpu(found.policy, found.cpu, pods=found.format == V3, data=found.format == V4)
    if found.memory is not None:
        return encode_memory(found.policy, found.memory, pods=found.format == V2, data=found.format == V3)
    assert found.devices is not None
    return encode_devices(found.devices)


# --- the three files ------------------------------------------------------------------------


def _cpu(raw: Mapping[str, Any]) -> Look:
    stored = _stored(raw, CHECKSUM)
    entries = raw.get("entries")
    by_id = isinstance(entries, dict) and any(isinstance(value, str) for value in entries.values())
    plain = cpu_content(raw, "CPUManagerCheckpoint", nested=not by_id)
    hashes = _Hashes(
        {
            V2: lambda: plain.printed("CPUManagerCheckpoint", V2_MAP),
            V1: lambda: plain.printed("CPUManagerCheckpoint", V1_MAP),
        }
    )
    content = plain
    remarks: tuple[str, ...] = ()
    if raw.get("data"):
        inner, sums, remarks = _with_data(raw, hashes[V2])
        content, kind = with_pod_entries(inner), V4
        if (content.policy, content.shared, content.entries) != (plain.policy, plain.shared, plain.entries):
            remarks += (TWO_COPIES,)
    elif by_id:
        kind, sums = V1, (Sum(CHECKSUM, stored, hashes[V1]),)
    else:
        with_pods = with_pod_entries(raw)
        hashes.printed[V3] = lambda: with_pods.printed("CPUManagerCheckpoint", V2_MAP, pods=True)
        kind = _format_by_checksum(hashes, stored, V3 if "podentries" in raw else V2)
        content = with_pods if kind == V3 else plain
        sums = (Sum(CHECKSUM, stored, hashes[kind]),)
    try:
        if by_id:
            containers = {name: parse_ids(cpus) for name, cpus in (content.entries or {}).items()}
            state = cpu_state(CpuContent(content.policy, content.shared, {}))
            return Look(CPU_FILE, kind, content.policy, sums, cpu=state, by_id=containers, remarks=remarks)
        state = cpu_state(content)
    except ValueError as error:
        return Look(CPU_FILE, kind, content.policy, sums, problem=str(error), remarks=remarks)
    return Look(CPU_FILE, kind, content.policy, sums, cpu=state, remarks=remarks)


def _memory(raw: Mapping[str, Any]) -> Look:
    struct = "MemoryManagerCheckpoint"
    stored = _stored(raw, CHECKSUM)
    policy = outer = typed(raw, "policyName", str, struct, "string") or ""
    state = memory_content(raw, struct)
    plain = MemoryState(state.numa, state.assignments)
    hashes = _Hashes(
        {
            V1: lambda: memory_print(outer, plain, struct, pods=False),
            V2: lambda: memory_print(outer, state, struct, pods=True),
        }
    )
    remarks: tuple[str, ...] = ()
    nodes = raw.get("machinestate")
    if isinstance(nodes, dict) and any(OLD_GROUPS in members_of(node, "") for node in nodes.values()):
        remarks += (f'groups are named "{OLD_GROUPS}", as the first releases did; newer ones read "cells"',)
    if raw.get("data"):
        inner, sums, more = _with_data(raw, hashes[V1])
        policy = typed(inner, "policyName", str, struct, "string") or ""
        whole = memory_content(inner, struct)
        if (whole.numa, whole.assignments) != (plain.numa, plain.assignments):
            more += (TWO_COPIES,)
        return Look(MEMORY_FILE, V3, policy, sums, memory=whole, remarks=remarks + more)
    kind = _format_by_checksum(hashes, stored, V2 if "podentries" in raw else V1)
    sums = (Sum(CHECKSUM, stored, hashes[kind]),)
    return Look(MEMORY_FILE, kind, policy, sums, memory=state if kind == V2 else plain, remarks=remarks)


def _devices(raw: Mapping[str, Any]) -> Look:
    content = members_of(raw.get("data") or {}, "checkpointData")
    text, flat = devices_printed(content)
    sums = (Sum("Checksum", _stored(raw, CHECKSUM), fnv1a(text)),)
    return Look(DEVICE_FILE, FLAT if flat else BY_NUMA, sums=sums, devices=device_file(content))


def _with_data(raw: Mapping[str, Any], outer: int) -> tuple[dict[str, Any], tuple[Sum, ...], tuple[str, ...]]:
    """The content that is kept as text, and the checksums of a file that has some."""
    data = raw["data"]
    if not isinstance(data, str):
        raise ValueError("the member data is not text")  # noqa: TRY004 - bad JSON like any other
    sums = (
        Sum(CHECKSUM, _stored(raw, CHECKSUM), outer),
        Sum(DATA_CHECKSUM, _stored(raw, DATA_CHECKSUM), fnv1a(f"(string){data}")),
    )
    return members_of(gojson.decode(data), "data"), sums, ()


@dataclass(frozen=True, slots=True)
class _Hashes:
    """Checksums by format, each made when it is asked for: they are most of the cost of a look."""

    printed: dict[str, Callable[[], str]]

    def __getitem__(self, kind: str) -> int:
        return fnv1a(self.printed[kind]())


def _format_by_checksum(hashes: _Hashes, stored: int | None, otherwise: str) -> str:
    """The format whose checksum it has (rule 1)."""
    if stored == hashes[otherwise]:
        return otherwise
    return next((kind for kind in hashes.printed if hashes[kind] == stored), otherwise)


def _stored(raw: Mapping[str, Any], member: str) -> int | None:
    value = raw.get(member.lower())
    return value if isinstance(value, int) and not isinstance(value, bool) and value else None

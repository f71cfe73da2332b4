"""Compare what we replayed with what a kubelet was recorded to do.

Rules kept here (``/traces/FORMAT.md``, "What is left to chance"):

1. A file is listed when its content changed, so each side remembers what it showed last.
2. ``cpu_manager_state`` agrees byte for byte; so does ``memory_manager_state`` unless a container has
   several blocks, whose order is chance; the device file agrees in content, whatever the order.
3. Where the order in a file is chance, so is the recorded checksum.  Ours must be right for the text that
   stands around it: it is worked out here once more, by another program than the one that wrote it.
4. Device ids count when the choice was ``exact``, their NUMA nodes when it was ``numa``; from the first
   ``free`` choice on nothing counts.  Even so, the first choice left to chance must be one of those offered.
5. Where several device resources compete, the complaint is chance, and so is what the pod was left with.
6. That the kubelet crashed counts, not Go's words for it.
7. A recording whose ``start`` has its state alone, and none of the amounts that go with it, is compared by
   that state and by the steps.
"""

import base64
import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from msgspec.json import encode

Data = dict[str, Any]

CPU_FILE, MEMORY_FILE = "cpu_manager_state", "memory_manager_state"
DEVICE_FILE = "kubelet_internal_checkpoint"

# What a scenario can agree on or not; each is reported by its first difference.
ASPECTS = (
    "start",      # refusal, or reserved and allocatable CPUs
    "verdict",    # who is admitted, with which class and reason
    "message",    # the kubelet's words
    "hints",      # what each provider answered
    "merge",      # what came of it, and the affinity that was stored
    "cpus",
    "memory",
    "devices",
    "runtime",    # what containers are created with and later given
    "files",      # state files
    "checksums",  # of state files, recomputed
)  # fmt: skip
AMOUNTS = ("reserved_cpus", "allocatable_cpus", "node_allocatable_reservation")
VERDICT = ("op", "uid", "qos", "admitted", "reason", "error")
MESSAGE = ("message", "allocate_failed")
ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing in which one aspect of a scenario differs."""

    aspect: str
    path: str
    recorded: object
    ours: object

    def __str__(self) -> str:
        return f"{self.aspect}: {self.path}\n    kubelet: {_short(self.recorded)}\n    ours:    {_short(self.ours)}"


def differences(recorded: Data, ours: Data) -> list[Difference]:
    """The first difference of each aspect; none: the results are the same but for chance."""
    chance = _Chance(recorded)
    wanted = _told(recorded, chance)
    try:
        got = _told(ours, chance)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        return [Difference("start", "is not a result", "a result as FORMAT.md has it", repr(error))]
    found = []
    for aspect in ASPECTS:
        if encode(wanted[aspect], order="sorted") == encode(got[aspect], order="sorted"):
            continue  # most are; the walk says where others are not
        first = next(_unlike(wanted[aspect], got[aspect], ""), None)
        if first:
            found.append(Difference(aspect, *first))
    if chance.open_choice and not any(one.aspect == "devices" for one in found):
        problem = chance.open_choice.problem(ours)
        if problem:
            found.append(problem)
    return found


# --- what is left to chance -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OpenChoice:
    """The first choice of devices that the kubelet left to chance."""

    step: int
    uid: str
    choice: Data

    def problem(self, ours: Data) -> Difference | None:
        container, resource = self.choice["container"], self.choice["resource"]
        steps = ours.get("steps") or []
        step = steps[self.step] if self.step < len(steps) else {}
        state = step.get("state_after_admit") or step.get("state") or {}
        grants = state.get("devices", {}).get(self.uid, {}).get(container, {})
        if resource not in grants and "state_after_admit" in step:  # chosen when the container started
            grants = step["state"].get("devices", {}).get(self.uid, {}).get(container, {})
        chosen = set(grants.get(resource, {}).get("ids", ()))
        ids, candidates = set(self.choice["ids"]), set(self.choice["candidates"])
        if len(chosen) == len(ids) and ids - candidates <= chosen <= ids | candidates:
            return None
        path = f"steps[{self.step}].device_choices[{container}][{resource}]"
        offered = {"fixed": sorted(ids - candidates), "any of": sorted(candidates)}
        return Difference("devices", path, offered, sorted(chosen))


class _Chance:
    """How much of a recorded result counts."""

    def __init__(self, recorded: Data) -> None:
        self.ids = recorded.get("device_choice") in (None, "exact")
        self.until = recorded.get("device_choice_free_from_step")
        self.bare_start = (recorded.get("start") or {}).keys() == {"state"}
        self.passed_over = frozenset(recorded.get("device_order_unspecified") or ())
        self.silent = [_unsaid(step) for step in recorded.get("steps") or ()]
        self.open_choice = self._first_open(recorded)
        self._files: dict[str, object] = {}

    def of_file(self, name: str, text: str) -> object:
        """What counts of a state file; most are seen many times."""
        if text not in self._files:
            self._files[text] = _file(name, text, self)
        return self._files[text]

    def _first_open(self, recorded: Data) -> _OpenChoice | None:
        for at, step in enumerate(recorded.get("steps") or ()):
            for choice in step.get("device_choices") or ():
                if choice["determinism"] != "exact" and step.get("uid") not in self.passed_over:
                    return _OpenChoice(at, step["uid"], choice)
        return None


def _unsaid(step: Data) -> list[bool]:
    """Whether the complaint is chance: of the step, then of each re-admission in it."""
    return [bool(one.get("message_unspecified")) for one in (step, *(step.get("readmitted") or ()))]


# --- a result by aspects --------------------------------------------------------------------


def _told(result: Data, chance: _Chance) -> dict[str, Any]:
    """What a result says, by aspect and step, with what is left to chance taken out."""
    shown: dict[str, str] = {}
    start = copy.copy(result.get("start") or {})
    first = _state(start.pop("state", None), shown, chance)
    if chance.bare_start:
        start = _without(start, *AMOUNTS)
    told: dict[str, Any] = {aspect: {"start": first[aspect]} for aspect in first}
    told["start"] = {"start": start, "error": result.get("error")}
    steps = (result.get("steps") or [])[: chance.until]
    for aspect in ASPECTS[1:]:
        told.setdefault(aspect, {})["steps"] = []
    for at, step in enumerate(steps):
        silent = chance.silent[at] if at < len(chance.silent) else [False]
        for aspect, value in _step(step, shown, chance, silent).items():
            told[aspect]["steps"].append(value)
    return told


def _step(step: Data, shown: dict[str, str], chance: _Chance, silent: Sequence[bool]) -> dict[str, Any]:
    told = _admission(step, shown, chance, silent=silent[0])
    again = []
    for at, one in enumerate(step.get("readmitted") or (), 1):
        again.append(_admission(one, shown, chance, silent=at < len(silent) and silent[at]))
    for aspect, value in told.items():
        value["readmitted"] = [one[aspect] for one in again]
    # A restart shows its files when all pods are back, so its own state comes after theirs.
    for aspect, value in _state(step.get("state"), shown, chance).items():
        told[aspect]["state"] = value
    return told


def _admission(step: Data, shown: dict[str, str], chance: _Chance, *, silent: bool) -> dict[str, Any]:
    rounds = step.get("hint_rounds") or []
    told: dict[str, Any] = {
        "verdict": {**{key: step.get(key) for key in VERDICT}, "panic": "panic" in step},
        "message": {} if silent else {key: step.get(key) for key in MESSAGE},
        "hints": {
            "hint_rounds": [{key: one.get(key) for key in ("container", "pod", "hints")} for one in rounds]
        },
        "merge": {"merged": [one.get("merged") for one in rounds], "affinity": step.get("affinity")},
        "runtime": {key: step.get(key) for key in ("runtime", "runtime_updates")},
    }
    for aspect, value in _state(step.get("state_after_admit"), shown, chance).items():
        told[aspect] = {"state_after_admit": value}
    return told


def _state(state: Data | None, shown: dict[str, str], chance: _Chance) -> dict[str, Any]:
    if state is None:
        return dict.fromkeys(("cpus", "memory", "devices", "files", "checksums"))
    shown.update(state.get("checkpoints") or {})
    devices = {
        uid: {
            container: {
                name: grant if chance.ids else grant.get("per_numa") for name, grant in grants.items()
            }
            for container, grants in containers.items()
        }
        for uid, containers in (state.get("devices") or {}).items()
        if uid not in chance.passed_over
    }
    return {
        "cpus": _filled(state.get("cpu")),
        "memory": _filled(state.get("memory")),
        "devices": devices,
        "files": {name: chance.of_file(name, text) for name, text in shown.items()},
        "checksums": {name: format_of(name, text) for name, text in shown.items()},
    }


def _filled(value: Data | None) -> Data:
    """A mapping without its empty members, which may as well be absent."""
    return {key: inner for key, inner in (value or {}).items() if inner}


# --- state files ----------------------------------------------------------------------------


def _file(name: str, text: str, chance: _Chance) -> object:
    """What counts of a state file."""
    content = _parsed(text)
    if name == CPU_FILE or content is None:
        return text
    if name == MEMORY_FILE:
        again = _parsed(content.get("data") or "{}")  # from 1.37 on the content stands there once more
        several = False
        for blocks in (*_block_lists(content), *_block_lists(again)):
            several = several or len(blocks) > 1
            blocks.sort(key=lambda block: block["type"])
        return {**_without(content, "checksum", "dataChecksum"), "data": again} if several else text
    data = content["Data"]
    entries = {}
    for entry in data.get("PodDeviceEntries") or ():
        if entry["PodUID"] not in chance.passed_over:
            devices = {n: sorted(ids) if chance.ids else len(ids) for n, ids in entry["DeviceIDs"].items()}
            key = "/".join(entry[part] for part in ("PodUID", "ContainerName", "ResourceName"))
            entries[key] = [devices, entry["AllocResp"] if chance.ids else None]
    registered = {name: sorted(ids or ()) for name, ids in (data.get("RegisteredDevices") or {}).items()}
    return {"entries": entries, "registered": registered, "rest": _without(content, "Checksum", "Data")}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _block_lists(content: Data) -> Iterator[list[Data]]:
    for containers in (content.get("entries") or {}).values():
        yield from containers.values()
    for entry in (content.get("podEntries") or {}).values():
        yield entry.get("memoryBlocks") or []


def _without(mapping: Data, *keys: str) -> Data:
    return {key: value for key, value in mapping.items() if key not in keys}


@lru_cache(maxsize=1024)
def format_of(name: str, text: str) -> str:
    """The format whose checksum the file carries; '' when it is wrong in each of them."""
    content = _parsed(text)
    if content is None:
        return ""
    stored = content.get("Checksum" if name == DEVICE_FILE else "checksum")
    if "data" in content and content.get("dataChecksum") != fnv1a(f"(string){content['data']}"):
        return ""
    for form, printed in PRINTS[name].items():
        if fnv1a(printed(content)) == stored:
            return form
    return ""


def fnv1a(text: str) -> int:
    """FNV-1a of 32 bits."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) % 2**32
    return value


# Go's print of a value, from a shape that says how each part is typed.  A shape is a function from the
# value to text; maps print sorted, and a number that is a key sorts as a number.

Shape = Callable[[Any], str]


def plain(value: object) -> str:
    """A text or a number, raw."""
    return str(value)


def listing(of: Shape) -> Shape:
    """A list; null is no list."""
    return lambda value: "<nil>" if value is None else f"[{' '.join(map(of, value))}]"


def mapping_of(of: Shape, order: Callable[[str], Any] = str.encode) -> Shape:
    """A map by sorted keys."""
    return lambda value: f"map[{' '.join(f'{k}:{of(value[k])}' for k in sorted(value, key=order))}]"


def struct(**fields: tuple[str, str, Shape, object]) -> Shape:
    """A struct; a field is its JSON name, its Go type, its shape, and what it is when absent."""

    def printed(value: Mapping[str, Any]) -> str:
        parts = []
        for name, (member, go_type, shape, absent) in fields.items():
            parts.append(f"{name}:({go_type}){shape(value.get(member, absent))}")
        return f"{{{' '.join(parts)}}}"

    return printed


def cpu_set(text: str) -> str:
    """A set of CPUs, which Go keeps as a map."""
    cpus: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return f"{{elems:(map[int]struct {{}})map[{' '.join(f'{cpu}:{{}}' for cpu in sorted(cpus))}]}}"


def numbers(encoded: str) -> str:
    """Bytes, as numbers."""
    return f"[{' '.join(map(str, base64.b64decode(encoded)))}]"


ZERO = ("checksum is left out", "checksum.Checksum", lambda _: "0", 0)
CPU_FIELDS: Any = {
    "PolicyName": ("policyName", "string", plain, ""),
    "DefaultCPUSet": ("defaultCpuSet", "string", plain, ""),
    "Entries": ("entries", "map[string]map[string]string", mapping_of(mapping_of(plain)), {}),
}
POD_CPUS: Any = {
    "PodEntries": (
        "podEntries",
        "state.PodCPUAssignments",
        mapping_of(struct(CPUSet=("cpuSet", "cpuset.CPUSet", cpu_set, ""))),
        {},
    )
}
TABLE = struct(
    TotalMemSize=("total", "uint64", plain, 0),
    SystemReserved=("systemReserved", "uint64", plain, 0),
    Allocatable=("allocatable", "uint64", plain, 0),
    Reserved=("reserved", "uint64", plain, 0),
    Free=("free", "uint64", plain, 0),
)
NUMA = struct(
    NumberOfAssignments=("numberOfAssignments", "int", plain, 0),
    MemoryMap=(
        "memoryMap",
        "map[v1.ResourceName]*state.MemoryTable",
        mapping_of(lambda v: f"<*>{TABLE(v)}"),
        {},
    ),
    Cells=("cells", "[]int", listing(plain), None),
)
BLOCKS = listing(
    struct(
        NUMAAffinity=("numaAffinity", "[]int", listing(plain), None),
        Type=("type", "v1.ResourceName", plain, ""),
        Size=("size", "uint64", plain, 0),
    )
)
MEMORY_FIELDS: Any = {
    "PolicyName": ("policyName", "string", plain, ""),
    "MachineState": ("machineState", "state.NUMANodeMap", mapping_of(lambda v: f"<*>{NUMA(v)}", int), {}),
    "Entries": ("entries", "state.ContainerMemoryAssignments", mapping_of(mapping_of(BLOCKS)), {}),
}
POD_MEMORY: Any = {
    "PodEntries": (
        "podEntries",
        "state.PodMemoryAssignments",
        mapping_of(struct(MemoryBlocks=("memoryBlocks", "[]state.Block", BLOCKS, None))),
        {},
    )
}
DEVICES = struct(
    PodDeviceEntries=(
        "PodDeviceEntries",
        "[]checkpoint.PodDevicesEntry",
        listing(
            struct(
                PodUID=("PodUID", "string", plain, ""),
                ContainerName=("ContainerName", "string", plain, ""),
                ResourceName=("ResourceName", "string", plain, ""),
                DeviceIDs=("DeviceIDs", "checkpoint.DevicesPerNUMA", mapping_of(listing(plain), int), {}),
                AllocResp=("AllocResp", "[]uint8", numbers, ""),
            )
        ),
        None,
    ),
    RegisteredDevices=("RegisteredDevices", "map[string][]string", mapping_of(listing(plain)), {}),
)


def _top(name: str, *parts: Any) -> Shape:
    fields = {key: value for part in parts for key, value in part.items()}
    printed = struct(**fields, Checksum=ZERO)
    return lambda content: f"(*state.{name}){printed(content)}"


PRINTS: dict[str, dict[str, Shape]] = {
    CPU_FILE: {
        "containers": _top("CPUManagerCheckpoint", CPU_FIELDS),
        "containers and pods": _top("CPUManagerCheckpoint", CPU_FIELDS, POD_CPUS),
    },
    MEMORY_FILE: {
        "containers": _top("MemoryManagerCheckpoint", MEMORY_FIELDS),
        "containers and pods": _top("MemoryManagerCheckpoint", MEMORY_FIELDS, POD_MEMORY),
    },
    DEVICE_FILE: {"devices": lambda content: f"(checkpoint.checkpointData){DEVICES(content['Data'])}"},
}


# --- where two values differ ----------------------------------------------------------------


def _unlike(wanted: Any, got: Any, path: str) -> Iterator[tuple[str, object, object]]:
    """Walk the places where two values differ."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in dict.fromkeys([*wanted, *got]):  # null and absent are two things: see hints
            inside = f"{path}.{key}" if path else str(key)
            yield from _unlike(wanted.get(key, ABSENT), got.get(key, ABSENT), inside)
    elif isinstance(wanted, list) and isinstance(got, list):
        for at, (one, other) in enumerate(zip(wanted, got, strict=False)):
            yield from _unlike(one, other, f"{path}[{at}]")
        if len(wanted) != len(got):
            yield f"{path} (how many)", len(wanted), len(got)
    elif wanted != got or isinstance(wanted, bool) is not isinstance(got, bool):
        yield path, wanted, got


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 400 else f"{text[:397]}…"

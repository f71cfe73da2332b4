"""The kubelet's state files: what it would refuse, and what it takes without a look.

Rules kept here:

1. Refusals are the kubelet's own; beside each stands what differs, in numbers.
2. What the kubelet does not compare is compared here: CPUs and devices that two pods hold, devices that are
   gone, entries of pods that nobody knows.
3. Memory that changed by a reboot is *safe* when everything that pods hold still fits where they hold it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from numawise.apps.check.context import Context
from numawise.apps.check.refusals import Refused, code_of
from numawise.apps.check.reserved_memory import cpus_are
from numawise.codec.checkpoint import (
    CPU_FILE,
    DEVICE_FILE,
    MEMORY_FILE,
    decode_cpu,
    decode_devices,
    decode_memory,
    encode_cpu,
    encode_memory,
)
from numawise.engine.memory.books import empty_books
from numawise.engine.start import CPU_START, MEMORY_START
from numawise.engine.state import CpuState, DeviceFile, MemoryState
from numawise.quantity import Quantity
from numawise.request.model import MEMORY
from numawise.results.finding import Finding, Place, found
from numawise.rules.check import Refusal
from numawise.rules.model import Rules
from numawise.rules.versions import Version, behaviour_of
from numawise.sets import ids_of, parse_ids

FILE_OF = {CPU_START: CPU_FILE, MEMORY_START: MEMORY_FILE}
POLICIES = ("none", "static", "None", "Static", "BestEffort")
HIDDEN = "CPUManagerCheckpointV1.entries of type string"
DIGITS = re.compile(r"[0-9a-fA-F]+")
SHOWN = 3


def state_findings(context: Context, known_pods: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Everything about the state files; ``known_pods``: uids of all pods on the node, where known."""
    for refused in context.start.refusals:
        if refused.stage in FILE_OF:
            finding = _refused(context, refused)
            if finding is not None:
                yield finding
    node = context.start.node
    if node is None:
        return
    cpu, memory, devices = _decoded(context, node.rules)
    yield from _unchecked(context)
    yield from _forgotten(context, node.rules)
    if cpu is not None:
        yield from _shared_cpus(context, cpu)
    if devices is not None:
        yield from _devices(context, devices)
    held = {
        CPU_FILE: set(cpu.assignments) if cpu else set(),
        MEMORY_FILE: set(memory.assignments) if memory else set(),
        DEVICE_FILE: set(devices.grants) if devices else set(),
    }
    for name, uids in held.items():
        gone = sorted(uids - known_pods) if known_pods else []
        if gone:
            message = (
                f"{_some(gone)} {'is' if len(gone) == 1 else 'are'} recorded and not among the pods given"
            )
            yield found("NW312", _place(context, name), message)


def _place(context: Context, name: str, field: str = "") -> Place:
    return Place(context.paths.get(name, name), 1, field)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _decoded(context: Context, rules: Rules) -> tuple[CpuState | None, MemoryState | None, DeviceFile | None]:
    """What the files hold, as far as the kubelet that was started reads them."""
    cpu: CpuState | None = None
    memory: MemoryState | None = None
    devices: DeviceFile | None = None
    if CPU_FILE in context.files:
        cpus = decode_cpu(context.files[CPU_FILE], rules)
        cpu = None if isinstance(cpus, Refusal) else cpus
    if MEMORY_FILE in context.files:
        blocks = decode_memory(context.files[MEMORY_FILE], rules)
        memory = None if isinstance(blocks, Refusal) else blocks
    if DEVICE_FILE in context.files:
        granted = decode_devices(context.files[DEVICE_FILE], rules)
        devices = None if isinstance(granted, str) else granted
    return cpu, memory, devices


# --- refusals -------------------------------------------------------------------------------


def _refused(context: Context, refused: Refused) -> Finding | None:
    name = FILE_OF[refused.stage]
    code = code_of(refused)
    place = _place(context, name)
    raw = _parsed(context.files.get(name, ""))
    why = fix = ""
    if code == "NW303" and HIDDEN in refused.message and _wrong_checksum(name, raw):
        code = "NW302"
    match code:
        case "NW301":
            why = f"it was written under the policy {raw.get('policyName', '')!s}"
            why += "" if raw.get("policyName") in POLICIES else ", which no release has"
            fix = _switch(context, name)
        case "NW302":
            why = _checksums(name, raw)
            fix = "numawise state repair --recompute-checksum, when the values are right; or restore the file"
        case "NW303" if "podEntries" in raw or "data" in raw:
            why = "it has a format of another release, or of the gate PodLevelResourceManagers"
        case "NW305":
            if not context.known:
                return None
            why = _cpus_differ(context, raw)
        case "NW306":
            why = _reservation_differs(context)
        case "NW310":
            why, fix = _memory_differs(context)
        case "NW311" if not context.known:
            return None
    return found(code, place, refused.message, why=why, fix=fix, stage=refused.stage)


def _switch(context: Context, name: str) -> str:
    path = context.paths.get(name, f"/var/lib/kubelet/{name}")
    return f"drain the node, stop the kubelet, remove {path}, start it, uncordon the node"


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        found_value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found_value if isinstance(found_value, Mapping) else {}


def _expected(name: str, raw: Mapping[str, Any]) -> int | None:
    """The checksum that the values of a file should have; None when they cannot be made sense of."""
    rules = Rules(
        cpu_static=raw.get("policyName") == "static", memory_static=raw.get("policyName") == "Static"
    )
    policy = str(raw.get("policyName", ""))
    text = json.dumps({key: value for key, value in raw.items() if key != "checksum"})
    if name == CPU_FILE:
        cpus = decode_cpu(text, rules)
        told = None if isinstance(cpus, Refusal) else encode_cpu(policy, cpus)
    else:
        blocks = decode_memory(text, rules)
        told = None if isinstance(blocks, Refusal) else encode_memory(policy, blocks)
    return json.loads(told)["checksum"] if told else None


def _wrong_checksum(name: str, raw: Mapping[str, Any]) -> bool:
    expected = _expected(name, raw)
    return expected is not None and raw.get("checksum") != expected


def _checksums(name: str, raw: Mapping[str, Any]) -> str:
    if raw.get("data"):
        return "the checksum does not fit the values; the file holds them twice, and both must fit"
    expected = _expected(name, raw)
    given = raw.get("checksum", "missing")
    return f"the checksum is {given}; for these values it is {expected}" if expected is not None else ""


def _cpus_differ(context: Context, raw: Mapping[str, Any]) -> str:
    recorded, owners = _recorded_cpus(raw)
    online = context.machine.layout.all
    offline = context.hardware.offline if context.hardware else 0
    gone, new = recorded & ~online, online & ~recorded
    parts = []
    if gone:
        state = "offline" if gone & ~offline == 0 else "not there"
        who = sorted(owner for owner, cpus in owners.items() if cpus & gone)
        held = f", held by {_some(who)}" if who else ""
        parts.append(f"{cpus_are(gone)} {state}{held}")
    if new:
        parts.append(f"{cpus_are(new)} not in the file")
    return "; ".join(parts)


def _recorded_cpus(raw: Mapping[str, Any]) -> tuple[int, dict[str, int]]:
    owners: dict[str, int] = {}
    entries = raw.get("entries")
    for uid, containers in entries.items() if isinstance(entries, Mapping) else ():
        for container, cpus in containers.items() if isinstance(containers, Mapping) else ():
            owners[f"{uid}/{container}"] = _ids(cpus)
    together = _ids(raw.get("defaultCpuSet"))
    for cpus in owners.values():
        together |= cpus
    return together, owners


def _ids(text: object) -> int:
    try:
        return parse_ids(text) if isinstance(text, str) else 0
    except ValueError:
        return 0


def _reservation_differs(context: Context) -> str:
    node = context.start.node
    if node is None:
        return ""
    reserved = cpus_are(node.rules.reserved_cpus)
    strict = "with" if node.rules.cpu_options.strict_reservation else "without"
    return f"{reserved} reserved now, {strict} strict-cpu-reservation; the file was written otherwise"


def _memory_differs(context: Context) -> tuple[str, str]:
    """What differs in the books of each NUMA node, and whether it matters (rule 3)."""
    node = context.start.node
    if node is None or not node.rules.memory_static:
        return "", ""
    recorded = decode_memory(context.files[MEMORY_FILE], node.rules)
    if isinstance(recorded, Refusal):
        return "", ""
    expected = empty_books(context.machine, node.rules)
    parts: list[str] = []
    fits = expected.keys() == recorded.numa.keys()
    for numa in sorted({*expected, *recorded.numa}):
        if numa not in expected or numa not in recorded.numa:
            where = "in the file" if numa in recorded.numa else "on the machine"
            parts.append(f"NUMA node {numa} is only {where}")
            continue
        for kind in sorted({*expected[numa].tables, *recorded.numa[numa].tables}):
            now, then = expected[numa].tables.get(kind), recorded.numa[numa].tables.get(kind)
            if now is None or then is None:
                parts.append(f"NUMA node {numa}: {kind} is only {'on the machine' if now else 'in the file'}")
                continue
            fits = fits and then.reserved <= now.allocatable
            for what, old, new in (("", then.total, now.total), ("reserved ", then.system, now.system)):
                if old != new:
                    change = f"{_signed(new - old)} ({_bytes(old)} to {_bytes(new)})"
                    parts.append(f"NUMA node {numa}: {what}{kind} {change}")
    if not parts:
        return "the assignments in the file do not add up to its own books", ""
    verdict = "what pods hold still fits: safe" if fits else "what pods hold no longer fits: not safe"
    fix = _switch(context, MEMORY_FILE)
    if fits:
        fix = f"numawise state repair --adapt-memory, with the kubelet stopped; or {fix}"
    return f"{'; '.join(parts)}; {verdict}", fix


def _signed(amount: int) -> str:
    return f"{'+' if amount > 0 else '-'}{_bytes(abs(amount))}"


def _bytes(amount: int) -> str:
    if amount >= 1 << 20 and amount % (1 << 20):
        return f"{amount / (1 << 20):.1f}Mi"
    return str(Quantity.of(amount))


# --- what the kubelet does not look at ------------------------------------------------------


def _unchecked(context: Context) -> Iterator[Finding]:
    for name in (CPU_FILE, MEMORY_FILE):
        raw = _parsed(context.files.get(name, ""))
        if raw and not raw.get("checksum") and not raw.get("data") and _taken(context, name):
            yield found("NW314", _place(context, name), "there is no checksum")


def _taken(context: Context, name: str) -> bool:
    return all(FILE_OF.get(refused.stage) != name for refused in context.start.refusals)


def _forgotten(context: Context, rules: Rules) -> Iterator[Finding]:
    if DEVICE_FILE in context.files and rules.device_manager:
        problem = decode_devices(context.files[DEVICE_FILE], rules)
        if isinstance(problem, str):
            yield found("NW304", _place(context, DEVICE_FILE), problem)


def _shared_cpus(context: Context, cpu: CpuState) -> Iterator[Finding]:
    """CPUs that two pods hold; containers of one pod may share what an init container had."""
    pods = {uid: _union(containers.values()) for uid, containers in cpu.assignments.items()}
    for (one, cpus), (other, others) in combinations(sorted(pods.items()), 2):
        both = cpus & others
        if both:
            message = f"{cpus_are(both)} held by {one} and {other}"
            yield found("NW308", _place(context, CPU_FILE, "entries"), message)


def _union(sets: Any) -> int:  # noqa: ANN401 - values of a mapping
    together = 0
    for bits in sets:
        together |= bits
    return together


def _devices(context: Context, devices: DeviceFile) -> Iterator[Finding]:
    place = _place(context, DEVICE_FILE, "PodDeviceEntries")
    holders: dict[tuple[str, str], list[str]] = {}
    for uid, containers in sorted(devices.grants.items()):
        for resources in containers.values():
            for resource, grant in resources.items():
                for device in grant.ids:
                    owners = holders.setdefault((resource, device), [])
                    owners += [] if uid in owners else [uid]
    for (resource, device), uids in sorted(holders.items()):
        if len(uids) > 1:
            yield found("NW308", place, f"{resource} {device} is held by {' and '.join(uids[:2])}")
    if not context.known:
        return
    offered = {plugin.resource: {one.id: one for one in plugin.devices} for plugin in context.machine.plugins}
    for (resource, device), uids in sorted(holders.items()):
        there = offered.get(resource)
        if there is None:
            continue
        if device not in there:
            if _ids_alike(there, device):
                yield found("NW313", place, f"{resource} {device}, held by {uids[0]}, is not on the machine")
        elif not there[device].healthy:
            yield found("NW313", place, f"{resource} {device}, held by {uids[0]}, is unhealthy")


def _ids_alike(there: Mapping[str, object], device: str) -> bool:
    """Whether the machine names its devices the way the file does; prints often number them."""
    return any(_shape(name) == _shape(device) for name in there)


def _shape(name: str) -> str:
    return DIGITS.sub("#", name)


def inferred(files: Mapping[str, str], version: Version) -> dict[str, Any]:
    """A configuration that fits state files, for when none was given."""
    raw: dict[str, Any] = {"evictionHard": {}}
    cpu, memory = (_content(files.get(name, ""), version) for name in (CPU_FILE, MEMORY_FILE))
    if cpu.get("policyName") == "static":
        shared = _ids(cpu.get("defaultCpuSet"))
        raw |= {"cpuManagerPolicy": "static", "reservedSystemCPUs": str(next(ids_of(shared), 0))}
    if memory.get("policyName") == "Static":
        kept = dict(_kept(memory))
        total = sum(kept.values())
        if total:
            raw |= {
                "memoryManagerPolicy": "Static",
                "kubeReserved": {MEMORY: str(total)},
                "reservedMemory": [
                    {"numaNode": numa, "limits": {MEMORY: str(amount)}}
                    for numa, amount in kept.items()
                    if amount
                ],
            }
    return raw


def _content(text: str, version: Version) -> Mapping[str, Any]:
    """What a release would read: the content that is kept as text, where it looks at that."""
    raw = _parsed(text)
    data = raw.get("data") if behaviour_of(version).files_carry_data else None
    return _parsed(data) if isinstance(data, str) and data else raw


def _kept(memory: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    nodes = memory.get("machineState")
    for numa, node in nodes.items() if isinstance(nodes, Mapping) else ():
        tables = node.get("memoryMap") if isinstance(node, Mapping) else None
        table = tables.get(MEMORY) if isinstance(tables, Mapping) else None
        kept = table.get("systemReserved") if isinstance(table, Mapping) else None
        if isinstance(kept, int) and isinstance(numa, str) and numa.isdecimal():
            yield int(numa), kept

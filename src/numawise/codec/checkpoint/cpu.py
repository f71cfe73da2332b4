"""``cpu_manager_state``: formats v1 to v4."""

from collections.abc import Iterable, Mapping
from typing import Any

from numawise.codec import gojson
from numawise.codec.checkpoint.reading import (
    CORRUPTED,
    ROOT,
    CarriedData,
    by_bytes,
    checksum_of,
    fnv1a,
    map_print,
    members_of,
    mismatch,
    nested_print,
    typed,
    with_data,
    without_checksum,
)
from numawise.engine.start import CPU_START
from numawise.engine.state import CpuState
from numawise.errors import quoted
from numawise.rules.check import Refusal, refusal
from numawise.rules.model import Rules
from numawise.sets import format_ids, ids_of, parse_ids
from numawise.values import dataclass

CPU_FILE = "cpu_manager_state"
MOST_LISTED, MOST_REACHED, MOST_PRINTED = 20_000, 1 << 28, 1 << 22
"""Pods and containers; the highest ids of all lists together, as sets and written out: beyond any node."""


class NotMigratable(ValueError):
    """An old file is in order, but names containers that are not there any more."""


@dataclass(frozen=True, slots=True)
class CpuContent:
    """What the file says, CPU lists still as text; None: the map was null."""

    policy: str
    shared: str
    entries: Mapping[str, Any] | None
    pods: Mapping[str, str] | None = None

    def printed(self, name: str, nested: str, *, pods: bool = False) -> str:
        """Go's print of it as a struct of this name."""
        pods_print = ""
        if pods:
            lists = None if self.pods is None else by_bytes(_cpu_sets(self.pods, MOST_PRINTED))
            rows = None if lists is None else (_pod_cpus_print(uid, cpus) for uid, cpus in lists)
            pods_print = f" PodEntries:(state.PodCPUAssignments){map_print(rows)}"
        return (
            f"(*state.{name}){{PolicyName:(string){self.policy} DefaultCPUSet:(string){self.shared} "
            f"Entries:({nested}){nested_print(self.entries)}{pods_print} Checksum:(checksum.Checksum)0}}"
        )


def _pod_cpus_print(uid: str, cpus: int) -> str:
    elements = " ".join(f"{cpu}:{{}}" for cpu in ids_of(cpus))
    return f"{uid}:{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{elements}]}}}}"


def _cpu_sets(lists: Mapping[str, str], most: int) -> dict[str, int]:
    """CPU lists as sets; together they may reach so many ids, which is far beyond any node."""
    sets: dict[str, int] = {}
    reached = 0
    for name, text in lists.items():
        sets[name] = parse_ids(text)
        reached += sets[name].bit_length()
        if reached > most:
            raise ValueError(
                f"the CPU lists up to that of {quoted(name)} reach more than {most:,} ids in all"
            )
    return sets


V1_MAP, V2_MAP = "map[string]string", "map[string]map[string]string"


def encode_cpu(policy: str, state: CpuState, *, pods: bool = False, data: bool = False) -> str:
    """The text of ``cpu_manager_state``.

    ``pods``: in the format with pod entries; ``data``: without, followed by the whole content as text.
    """
    if data:
        old = encode_cpu(policy, state)
        whole_text = without_checksum(encode_cpu(policy, state, pods=True))
        return with_data(old, whole_text)
    entries = {
        uid: {container: format_ids(cpus) for container, cpus in containers.items()}
        for uid, containers in state.assignments.items()
    }
    whole = {uid: format_ids(cpus) for uid, cpus in state.pods.items()}
    content = CpuContent(policy, format_ids(state.shared), entries, whole)
    checksum = fnv1a(content.printed("CPUManagerCheckpoint", V2_MAP, pods=pods))
    parts = [f'"policyName":{gojson.text(policy)}', f'"defaultCpuSet":{gojson.text(content.shared)}']
    if entries:
        told = (
            f"{gojson.text(uid)}:{{"
            + ",".join(f'{gojson.text(c)}:"{cpus}"' for c, cpus in by_bytes(found))
            + "}"
            for uid, found in by_bytes(entries)
        )
        parts.append(f'"entries":{{{",".join(told)}}}')
    if pods and whole:
        cells = (f'{gojson.text(uid)}:{{"cpuSet":"{cpus}"}}' for uid, cpus in by_bytes(whole))
        parts.append(f'"podEntries":{{{",".join(cells)}}}')
    return f'{{{",".join(parts)},"checksum":{checksum}}}'


def decode_cpu(data: str, rules: Rules) -> CpuState | Refusal:
    """Read ``cpu_manager_state`` as the kubelet does when it starts."""
    try:
        return _decode_cpu(data, "static" if rules.cpu_static else "none", rules)
    except ValueError as error:
        message = (
            f"could not restore state from checkpoint: {error}, please drain this "
            f'node and delete the CPU manager checkpoint file "{ROOT}{CPU_FILE}" before restarting Kubelet'
        )
        return refusal(CPU_START, message)


def _decode_cpu(data: str, policy: str, rules: Rules) -> CpuState:
    value = gojson.decode(data)
    content = _newest_cpu(value) if rules.behaviour.files_carry_data else None
    if content is None:
        oldest = "CPUManagerCheckpointV2" if rules.behaviour.files_carry_data else "CPUManagerCheckpointV1"
        content = _verified_cpu(members_of(value, oldest), rules)
    if content.policy != policy:
        raise ValueError(
            f'configured policy "{policy}" differs from state checkpoint policy "{content.policy}"'
        )
    state = cpu_state(content, capital=rules.behaviour.files_carry_data)
    return state if rules.pod_level_managers else CpuState(state.shared, state.assignments)


DATA = CarriedData("cpu", "v4", "CPUManagerCheckpoint", "CPUManagerCheckpointV2")
BASELINES = "map[string]map[string]state.ContainerCPUs"


def _newest_cpu(value: object) -> CpuContent | None:
    """The content of the newest format; None: the file has an older one."""
    if value is not None and not isinstance(value, dict):
        return None
    raw = members_of(value, DATA.struct)

    def check_old(struct: str) -> None:
        cpu_content(raw, struct, nested=True)
        checksum_of(raw, struct)

    members = DATA.members(raw, check_old)
    if members is None:
        return None
    try:
        content = with_pod_entries(members, DATA.content)
        typed(members, "baselines", dict, DATA.content, BASELINES)
    except ValueError as error:
        raise DATA.not_content(error) from None
    return content


def cpu_state(content: CpuContent, *, capital: bool = False) -> CpuState:
    """The content with its CPU lists read; raise ``ValueError`` in the kubelet's words.

    ``capital``: newer ones say CPU rather than cpu.
    """
    try:
        shared = parse_ids(content.shared)
    except ValueError as error:
        what = "CPU" if capital else "cpu"
        raise ValueError(f'could not parse default {what} set "{content.shared}": {error}') from None
    assignments: dict[str, dict[str, int]] = {}
    reached = 0
    for uid, containers in (content.entries or {}).items():
        for container, cpus in (containers or {}).items():
            try:
                own = assignments.setdefault(uid, {})[container] = parse_ids(cpus)
            except ValueError as error:
                where = f'could not parse cpuset "{cpus}" for container "{container}" in pod "{uid}"'
                raise ValueError(f"{where}: {error}") from None
            reached += own.bit_length()
            if reached > MOST_REACHED:
                raise ValueError(
                    f"the CPU lists up to pod {quoted(uid)} reach more than {MOST_REACHED:,} ids in all"
                )
    return CpuState(shared, assignments, _cpu_sets(content.pods or {}, MOST_REACHED))


def _verified_cpu(raw: Mapping[str, Any], rules: Rules) -> CpuContent:
    """The content in the first format that decodes and whose checksum holds."""
    attempts = ["v2", "v1"] if not rules.behaviour.cpu_file_tries_oldest_first else ["v1", "v2"]
    if rules.behaviour.files_carry_data:
        attempts = ["v3", "v2"]
    elif rules.pod_level_managers:
        attempts.insert(0, "v3")
    error: ValueError | None = None
    for attempt in attempts:
        try:
            return _CPU_FORMATS[attempt](raw, rules)
        except NotMigratable:
            raise
        except ValueError as found:
            error = found
    assert error is not None
    raise error


def with_pod_entries(raw: Mapping[str, Any], struct: str = "CPUManagerCheckpoint") -> CpuContent:
    """The members of a file, pod entries included."""
    content = cpu_content(raw, struct, nested=True)
    pods = typed(raw, "podEntries", dict, struct, "state.PodCPUAssignments")
    whole: dict[str, str] = {}
    for uid, entry in (pods or {}).items():
        if entry is not None and not isinstance(entry, dict):
            raise mismatch(entry, struct, "podEntries", "state.podEntryJSON")
        members = members_of(entry, struct)
        whole[uid] = typed(members, "cpuSet", str, "PodEntry", "string") or ""
        try:
            parse_ids(whole[uid])
        except ValueError as error:
            raise ValueError(f"failed to parse cpuset: {error}") from None
    return CpuContent(content.policy, content.shared, content.entries, None if pods is None else whole)


def _cpu_v3(raw: Mapping[str, Any], rules: Rules) -> CpuContent:
    content = with_pod_entries(raw)
    names = ["CPUManagerCheckpoint"]
    if rules.behaviour.files_carry_data:
        names.append("CPUManagerCheckpointV3")
    checksum = checksum_of(raw, "CPUManagerCheckpoint")
    if all(checksum != fnv1a(content.printed(name, V2_MAP, pods=True)) for name in names):
        raise ValueError(CORRUPTED)
    return content


def _cpu_v2(raw: Mapping[str, Any], rules: Rules) -> CpuContent:
    name = "CPUManagerCheckpoint" if rules.behaviour.cpu_file_tries_oldest_first else "CPUManagerCheckpointV2"
    content = cpu_content(raw, name, nested=True)
    names = {"CPUManagerCheckpoint"} if rules.pod_level_managers else {"CPUManagerCheckpoint", name}
    _check(raw, name, (content.printed(one, V2_MAP) for one in sorted(names)))
    return content


def _cpu_v1(raw: Mapping[str, Any], rules: Rules) -> CpuContent:
    content = cpu_content(raw, "CPUManagerCheckpointV1", nested=False)
    _check(raw, "CPUManagerCheckpointV1", [content.printed("CPUManagerCheckpoint", V1_MAP)])
    for container in sorted(content.entries or ()):
        where = (
            "error migrating v1 checkpoint state to v2 checkpoint state"
            if rules.behaviour.cpu_file_tries_oldest_first
            else "failed to migrate checkpoint from v1 to v2"
        )
        raise NotMigratable(f"{where}: containerID '{container}' not found in initial containers list")
    return content


_CPU_FORMATS = {"v1": _cpu_v1, "v2": _cpu_v2, "v3": _cpu_v3}


def cpu_content(raw: Mapping[str, Any], struct: str, *, nested: bool) -> CpuContent:
    """The members of a file, pod entries left out; ``nested``: by pod and container, not by container id."""
    policy = typed(raw, "policyName", str, struct, "string") or ""
    shared = typed(raw, "defaultCpuSet", str, struct, "string") or ""
    entries = typed(raw, "entries", dict, struct, V2_MAP if nested else V1_MAP)
    listed = len(entries or {})
    for value in (entries or {}).values():
        if nested:
            if value is not None and not isinstance(value, dict):
                raise mismatch(value, struct, "entries", V1_MAP)
            listed += len(value or {})
            for cpus in (value or {}).values():
                if not isinstance(cpus, str):
                    raise mismatch(cpus, struct, "entries", "string")
        elif not isinstance(value, str):
            raise mismatch(value, struct, "entries", "string")
    if listed > MOST_LISTED:
        raise ValueError(f"lists {listed:,} pods and containers, more than {MOST_LISTED:,}")
    return CpuContent(policy, shared, entries)


def _check(raw: Mapping[str, Any], struct: str, texts: Iterable[str]) -> None:
    """Accept an absent or zero checksum, or one of the given prints."""
    checksum = checksum_of(raw, struct)
    if checksum and all(checksum != fnv1a(text) for text in texts):
        raise ValueError(CORRUPTED)

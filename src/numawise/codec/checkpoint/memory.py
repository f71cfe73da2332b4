"""``memory_manager_state``: formats v1 to v3."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from numawise.codec import gojson
from numawise.codec.checkpoint.reading import (
    CORRUPTED,
    ROOT,
    CarriedData,
    by_bytes,
    checksum_of,
    fnv1a,
    ids_print,
    map_print,
    members_of,
    mismatch,
    typed,
    whole_key,
    with_data,
    without_checksum,
)
from numawise.codec.machine import MOST_NUMA
from numawise.engine.start import MEMORY_START
from numawise.engine.state import Block, MemoryState, MemoryTable, NumaMemory
from numawise.rules.check import Refusal, refusal
from numawise.rules.model import Rules
from numawise.sets import bits_of, ids_of

MEMORY_FILE = "memory_manager_state"
WORD = 2**64
COLUMNS = ("total", "systemReserved", "allocatable", "reserved", "free")


def memory_print(policy: str, state: MemoryState, name: str, *, pods: bool) -> str:
    """Go's print of the content as a struct of this name."""
    nodes = []
    for numa, node in sorted(state.numa.items()):
        tables = " ".join(
            f"{kind}:<*>{{TotalMemSize:(uint64){t.total} SystemReserved:(uint64){t.system} "
            f"Allocatable:(uint64){t.allocatable} Reserved:(uint64){t.reserved} Free:(uint64){t.free}}}"
            for kind, t in by_bytes(node.tables)
        )
        nodes.append(
            f"{numa}:<*>{{NumberOfAssignments:(int){node.users} "
            f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable)map[{tables}] "
            f"Cells:([]int){ids_print(ids_of(node.cells))}}}"
        )
    entries = []
    for uid, containers in by_bytes(state.assignments):
        by_container = " ".join(
            f"{container}:{_blocks_print(blocks)}" for container, blocks in by_bytes(containers)
        )
        entries.append(f"{uid}:map[{by_container}]")
    pods_print = ""
    if pods:
        told_pods = (
            f"{uid}:{{MemoryBlocks:([]state.Block){_blocks_print(blocks) if blocks else '<nil>'}}}"
            for uid, blocks in by_bytes(state.pods)
        )
        pods_print = f" PodEntries:(state.PodMemoryAssignments){map_print(told_pods)}"
    return (
        f"(*state.{name}){{PolicyName:(string){policy} MachineState:(state.NUMANodeMap){map_print(nodes)} "
        f"Entries:(state.ContainerMemoryAssignments){map_print(entries)}{pods_print} "
        "Checksum:(checksum.Checksum)0}"
    )


@lru_cache(maxsize=4096)
def _blocks_print(blocks: tuple[Block, ...]) -> str:
    blocks_text = " ".join(
        f"{{NUMAAffinity:([]int){ids_print(ids_of(b.numa))} Type:(v1.ResourceName){b.type} "
        f"Size:(uint64){b.size}}}"
        for b in blocks
    )
    return f"[{blocks_text}]"


def encode_memory(policy: str, state: MemoryState, *, pods: bool = False, data: bool = False) -> str:
    """The text of ``memory_manager_state``.

    ``pods``: in the format with pod entries; ``data``: without, followed by the whole content as text.
    """
    if data:
        return with_data(
            encode_memory(policy, state), without_checksum(encode_memory(policy, state, pods=True))
        )
    checksum = fnv1a(memory_print(policy, state, "MemoryManagerCheckpoint", pods=pods))
    nodes = []
    for numa, node in sorted(state.numa.items(), key=lambda item: str(item[0])):
        tables = ",".join(
            f'{gojson.text(kind)}:{{"total":{t.total},"systemReserved":{t.system},"allocatable":{t.allocatable},'
            f'"reserved":{t.reserved},"free":{t.free}}}'
            for kind, t in by_bytes(node.tables)
        )
        nodes.append(
            f'"{numa}":{{"numberOfAssignments":{node.users},"memoryMap":{{{tables}}},"cells":{_ids_json(node.cells)}}}'
        )
    parts = [f'"policyName":{gojson.text(policy)}', f'"machineState":{{{",".join(nodes)}}}']
    if state.assignments:
        members = (
            f"{gojson.text(uid)}:{{"
            + ",".join(f"{gojson.text(c)}:{_blocks_json(blocks)}" for c, blocks in by_bytes(containers))
            + "}"
            for uid, containers in by_bytes(state.assignments)
        )
        parts.append(f'"entries":{{{",".join(members)}}}')
    if pods and state.pods:
        cells = (
            f"{gojson.text(uid)}:" + (f'{{"memoryBlocks":{_blocks_json(blocks)}}}' if blocks else "{}")
            for uid, blocks in by_bytes(state.pods)
        )
        parts.append(f'"podEntries":{{{",".join(cells)}}}')
    return f'{{{",".join(parts)},"checksum":{checksum}}}'


def _ids_json(bits: int) -> str:
    return f"[{','.join(map(str, ids_of(bits)))}]"


def _blocks_json(blocks: Iterable[Block]) -> str:
    texts = (
        f'{{"numaAffinity":{_ids_json(b.numa)},"type":{gojson.text(b.type)},"size":{b.size}}}' for b in blocks
    )
    return f"[{','.join(texts)}]"


def decode_memory(data: str, rules: Rules) -> MemoryState | Refusal:
    """Read ``memory_manager_state`` as the kubelet does when it starts."""
    try:
        return _decode_memory(data, "Static" if rules.memory_static else "None", rules)
    except ValueError as error:
        message = (
            f"could not restore state from checkpoint: {error}, please drain "
            f'this node and delete the memory manager checkpoint file "{ROOT}{MEMORY_FILE}" before '
            "restarting Kubelet"
        )
        return refusal(MEMORY_START, message)


def _decode_memory(data: str, policy: str, rules: Rules) -> MemoryState:
    raw = members_of(gojson.decode(data), DATA.old)
    newest = rules.behaviour.files_carry_data
    found, state = _newest_memory(raw, rules) if newest else _old_memory(raw, rules)
    if found != policy:
        raise ValueError(
            f'[memorymanager] configured policy "{policy}" differs from state checkpoint policy "{found}"'
        )
    return state if rules.pod_level_managers else MemoryState(state.numa, state.assignments)


DATA = CarriedData("memory", "v3", "MemoryManagerCheckpoint", "MemoryManagerCheckpointV1")


def _newest_memory(raw: Mapping[str, Any], rules: Rules) -> tuple[str, MemoryState]:
    """Policy and content as releases read them that write the newest format."""

    def check_old(struct: str) -> None:
        typed(raw, "policyName", str, struct, "string")
        memory_content(raw, struct, pods=False)
        checksum_of(raw, struct)

    members = DATA.members(raw, check_old)
    if members is not None:
        try:
            policy = typed(members, "policyName", str, DATA.content, "string") or ""
            return policy, memory_content(members, DATA.content)
        except ValueError as error:
            raise DATA.not_content(error) from None
    return _old_memory(raw, rules)


def _old_memory(raw: Mapping[str, Any], rules: Rules) -> tuple[str, MemoryState]:
    """Policy and content in the first of the older formats whose checksum holds."""
    newest = rules.behaviour.files_carry_data
    if newest or rules.pod_level_managers:
        try:
            policy, state, checksum = _old_members(raw, pods=True)
            if _printed_sum(raw, policy, state, DATA.struct, pods=True) == checksum:
                return policy, state
        except ValueError:
            pass  # not this format: the next is tried
    policy, state, checksum = _old_members(raw, pods=False)
    accepted = {_printed_sum(raw, policy, state, DATA.struct, pods=False)}
    if rules.behaviour.memory_file_may_lack_checksum:
        accepted.add(0)
        if not newest and not rules.pod_level_managers:
            accepted.add(_printed_sum(raw, policy, state, DATA.old, pods=False))
    if checksum not in accepted:
        raise ValueError(CORRUPTED)
    return policy, state


def _old_members(raw: Mapping[str, Any], *, pods: bool) -> tuple[str, MemoryState, int]:
    policy = typed(raw, "policyName", str, DATA.old, "string") or ""
    return policy, memory_content(raw, DATA.old, pods=pods), checksum_of(raw, DATA.old)


def _printed_sum(
    raw: Mapping[str, Any], policy: str, state: MemoryState, struct: str, *, pods: bool
) -> int | None:
    """The checksum of the content; None where a map is null, which no kubelet writes."""
    names = ("machinestate", "entries", "podentries") if pods else ("machinestate", "entries")
    if any(name in raw and raw[name] is None for name in names):
        return None
    return fnv1a(memory_print(policy, state, struct, pods=pods))


def memory_content(raw: Mapping[str, Any], struct: str, *, pods: bool = True) -> MemoryState:
    """The members of a file, whatever its checksum says; raise ``ValueError`` in Go's words."""
    numa: dict[int, NumaMemory] = {}
    for key, value in (typed(raw, "machineState", dict, struct, "state.NUMANodeMap") or {}).items():
        number = _possible(whole_key(key, struct, "machineState", "int"))
        node = members_of(value, "NUMANodeState")
        tables: dict[str, MemoryTable] = {}
        memory_map = typed(node, "memoryMap", dict, struct, "map[v1.ResourceName]*state.MemoryTable")
        for kind, table in (memory_map or {}).items():
            members = members_of(table, "MemoryTable")
            tables[kind] = MemoryTable(
                *(_count(members, column, "MemoryTable", "uint64") for column in COLUMNS)
            )
        users = _count(node, "numberOfAssignments", "NUMANodeState", "int")
        numa[number] = NumaMemory(users, tables, _id_list(node, "cells", "NUMANodeState"))
    entries: dict[str, dict[str, tuple[Block, ...]]] = {}
    found = typed(raw, "entries", dict, struct, "state.ContainerMemoryAssignments")
    for uid, containers in (found or {}).items():
        if not isinstance(containers, dict):
            raise mismatch(containers, struct, "entries", "map[string][]state.Block")
        entries[uid] = {name: _blocks(blocks, struct) for name, blocks in containers.items()}
    whole: dict[str, tuple[Block, ...]] = {}
    listed = typed(raw, "podEntries", dict, struct, "state.PodMemoryAssignments") if pods else None
    for uid, entry in (listed or {}).items():
        if entry is not None and not isinstance(entry, dict):
            raise mismatch(entry, struct, "podEntries", "state.PodEntry")
        members = members_of(entry, "PodEntry")
        whole[uid] = _blocks(members.get("memoryblocks"), "PodEntry", "podEntries.memoryBlocks")
    return MemoryState(numa, entries, whole)


def _blocks(value: object, struct: str, field: str = "entries") -> tuple[Block, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise mismatch(value, struct, field, "[]state.Block")
    blocks = []
    for one in value:
        members = members_of(one, "Block")
        kind = typed(members, "type", str, "Block", "v1.ResourceName") or ""
        blocks.append(
            Block(
                _id_list(members, "numaAffinity", "Block"), kind, _count(members, "size", "Block", "uint64")
            )
        )
    return tuple(blocks)


def _id_list(members: Mapping[str, Any], name: str, struct: str) -> int:
    ids = typed(members, name, list, struct, "[]int") or []
    for one in ids:
        if isinstance(one, bool) or not isinstance(one, int):
            raise mismatch(one, struct, name, "int")
    return bits_of(map(_possible, ids))


def _possible(numa: int) -> int:
    """A NUMA node as a kubelet can have it; sets of others would fill the memory."""
    if not 0 <= numa < MOST_NUMA:
        raise ValueError(f"there cannot be a NUMA node {numa}: a kubelet knows 0 to {MOST_NUMA - 1}")
    return numa


def _count(members: Mapping[str, Any], name: str, struct: str, kind: str) -> int:
    value = members.get(name.lower())
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise mismatch(value, struct, name, kind)
    if not isinstance(value, int) or not 0 <= value < WORD:
        number = f"number {value}"
        raise ValueError(
            f"json: cannot unmarshal {number} into Go struct field {struct}.{name} of type {kind}"
        )
    return value

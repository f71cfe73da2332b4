"""A cluster out of files, as ``kubectl get nodes,pods,noderesourcetopologies -A -o json`` prints it.

Rules kept here:

1. A dump has objects of these kinds and no others, in one file or several, nodes or what they publish among
   them; it counts for the time at which the file was written.
2. What an object holds is judged as if the API server had sent it, and of each that is kept which decides.
3. A node that has no name, or one that no API server takes as part of a path, is refused: nobody could ask
   about it.
4. Where a dump has Node objects, a node without one is gone, and said to be; where it has none, that is said.
5. A list in JSON may be long (``codec.object_list``): one object of it is in memory at a time, and what is
   kept of all takes no more memory than ``Extent`` says.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from numawise.cluster.live import LiveCluster, LiveSettings
from numawise.codec.bundle.archive import is_bundle
from numawise.codec.cluster_pod import PodReading
from numawise.codec.document import ORDINARY, TOO_DEEP, mapping, read_file
from numawise.codec.infile import is_file
from numawise.codec.object_list import (
    GIVE,
    LARGEST_LIST,
    MOST_OBJECTS,
    ObjectList,
    memory_of,
    object_list,
    too_many,
)
from numawise.codec.objects import check_texts
from numawise.errors import InputError, quoted
from numawise.inputs.cluster import NODES_NOT_READ, VisibleCluster, gone_remarks
from numawise.inputs.live import NODE, POD, TOPOLOGY, slim_node, slim_topology, take
from numawise.kube.client import Object
from numawise.values import dataclass

TEXTS_OF = {
    NODE: ("metadata", "spec", "status"),
    POD: ("metadata", "status"),
    TOPOLOGY: ("metadata", "attributes", "zones"),
}
"""Where texts are looked at; what a pod asks for is read by itself, and says so where it cannot be."""
Objects = Sequence[object] | ObjectList


@dataclass(frozen=True, slots=True)
class Extent:
    """How much may be read of dumps."""

    objects: int = MOST_OBJECTS
    text: int = LARGEST_LIST
    """Bytes of all files together."""
    memory: int = 1 << 30
    """Bytes that the objects take which are kept, as ``memory_of`` counts them."""


def dumped_cluster(
    paths: Sequence[str],
    *,
    extent: Extent = Extent(),  # noqa: B008 - a frozen value
) -> VisibleCluster | None:
    """The cluster of dumps (rule 1); None: these files are something else."""
    files = [Path(path) for path in paths]
    if not files or any(not is_file(path) or is_bundle(str(path)) for path in files):
        return None
    try:
        objects = _objects(files, extent)
        kinds = {kind for kind, _ in objects}
        if not kinds & {NODE, TOPOLOGY}:
            return None
        return listed_cluster(objects, max(path.stat().st_mtime for path in files))
    except RecursionError:
        raise InputError(TOO_DEEP, file=str(files[0]), advice=ORDINARY) from None


def listed_cluster(objects: Sequence[tuple[str, Object]], now: float) -> VisibleCluster:
    """The cluster that has these objects, each with its kind (rule 2)."""
    view = LiveCluster(LiveSettings())
    for kind in (NODE, POD, TOPOLOGY):
        for own, value in objects:
            if own == kind:
                take(view, kind, None, value, now)
    pods = [value for kind, value in objects if kind == POD]
    if not any(kind == NODE for kind, _ in objects):
        return VisibleCluster(view, now, pods, (NODES_NOT_READ,))
    view.nodes_were_read()
    return VisibleCluster(view, now, pods, gone_remarks(view))


def _objects(files: Sequence[Path], extent: Extent) -> list[tuple[str, Object]]:
    """All objects with their kinds; none where one is of another kind."""
    objects: list[tuple[str, Object]] = []
    text, memory, shared = extent.text, extent.memory, set[int]()
    slim = {NODE: slim_node, POD: PodReading().slim, TOPOLOGY: slim_topology}
    for path in files:
        for kind, rows, size in _lists(path, text, extent.objects - len(objects)):
            text -= size
            if len(objects) + len(rows) > extent.objects:
                raise too_many(extent.objects, str(path))
            for number, row in enumerate(rows):
                own = str(row.get("kind") or kind) if isinstance(row, Mapping) else ""
                if own not in slim:
                    return []
                value = slim[own](mapping(row))
                _check_name(own, value, str(path))
                check_texts(value, own, str(path), ("items", number), TEXTS_OF[own])
                memory -= _memory_of(value, shared)
                if memory < 0:
                    what = f"what is kept of its objects takes more than {extent.memory >> 20} MiB of memory"
                    raise InputError(what, file=str(path), field=f"items[{number}]", advice=GIVE)
                objects.append((own, value))
    return objects


def _memory_of(value: Object, shared: set[int]) -> int:
    """What an object takes; pods of one workload share the parts of their specs."""
    parts = {
        key: part
        for key, part in mapping(value.get("spec")).items()
        if not isinstance(part, Mapping | list) or id(part) not in shared
    }
    shared.update(id(part) for part in parts.values() if isinstance(part, Mapping | list))
    return memory_of({**value, "spec": parts})


def _check_name(kind: str, value: Object, file: str) -> None:
    """Rule 3; a pod may have no node yet."""
    part, key = ("spec", "nodeName") if kind == POD else ("metadata", "name")
    name = mapping(value.get(part)).get(key)
    if kind == POD and not name:
        return
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "%" in name:
        has = "is on a node with" if kind == POD else "has"
        what = f"the name {quoted(name)}, which no node can have" if name else "no name"
        advice = "give what kubectl get -o json prints"
        raise InputError(f"a {kind} {has} {what}", file=file, field=f"{part}.{key}", advice=advice)


def _lists(path: Path, largest: int, most: int) -> list[tuple[str, Objects, int]]:
    """The lists of a file: of which kind objects are that do not say so, the objects, the size (rule 5)."""
    long = object_list(path, largest, most)
    if long is not None and long.kind.endswith("List"):
        return [(long.kind.removesuffix("List"), long, long.size)]
    found: list[tuple[str, Objects, int]] = []
    for document in read_file(path):
        value = mapping(document.root.value)
        kind, rows = str(value.get("kind") or ""), value.get("items")
        listed = rows if isinstance(rows, list) and kind.endswith("List") else [value]
        found.append((kind.removesuffix("List"), listed, 0))
    return found

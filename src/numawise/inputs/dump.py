"""A cluster out of files, as ``kubectl get nodes,pods,noderesourcetopologies -A -o json`` prints it.

Rules kept here:

1. A dump has objects of these kinds and no others, in one file or several; it counts for the time at which
   the file was written.
2. What an object holds is judged as if the API server had sent it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from numawise.cluster.live import LiveCluster, LiveSettings
from numawise.codec.bundle.archive import is_bundle
from numawise.codec.document import Document, mapping, read_file
from numawise.codec.infile import is_file
from numawise.inputs.cluster import VisibleCluster
from numawise.inputs.live import NODE, POD, TOPOLOGY, take
from numawise.kube.client import Object


def dumped_cluster(paths: Sequence[str], *, whole: bool = False) -> VisibleCluster | None:
    """The cluster of dumps (rule 1); None: these files are something else.

    ``whole``: a dump of NodeResourceTopologies alone is something else, too.
    """
    files = [Path(path) for path in paths]
    if not files or any(not is_file(path) or is_bundle(str(path)) for path in files):
        return None
    objects: list[tuple[str, Object]] = []
    for path in files:
        for document in read_file(path):
            found = list(_dumped(document))
            if not found:
                return None
            objects += found
    kinds = {kind for kind, _ in objects}
    if TOPOLOGY not in kinds or (whole and kinds == {TOPOLOGY}):
        return None
    return listed_cluster(objects, max(path.stat().st_mtime for path in files))


def listed_cluster(objects: Sequence[tuple[str, Object]], now: float) -> VisibleCluster:
    """The cluster that has these objects, each with its kind (rule 2)."""
    view = LiveCluster(LiveSettings())
    for kind in (NODE, POD, TOPOLOGY):
        for own, value in objects:
            if own == kind:
                take(view, kind, None, value, now)
    return VisibleCluster(view, now, [value for kind, value in objects if kind == POD])


def _dumped(document: Document) -> Iterator[tuple[str, Object]]:
    """The objects of a document with their kinds; nothing where one is of another kind."""
    value = mapping(document.root.value)
    kind, rows = str(value.get("kind") or ""), value.get("items")
    listed = rows if isinstance(rows, list) and kind.endswith("List") else [value]
    usual = kind.removesuffix("List")
    found = []
    for one in listed:
        own = str(one.get("kind") or usual) if isinstance(one, Mapping) else ""
        if own not in (NODE, POD, TOPOLOGY):
            return
        found.append((own, one))
    yield from found

"""The pods of a node, from every source that knows them.

Rules kept here:

1. Sources in the order of what they know: the API server; files and addresses that somebody names; the
   kubelet's read-only port where it has one; manifests of static pods; the kubelet's own record of what the
   containers were allotted.  A pod that an earlier source listed is not taken again.
2. The record knows uids and containers alone; names come from the folders of the containers' logs.  So does
   the uid of a static pod, which its manifest does not have.
3. What could not be asked is reported, with the reason.
4. What a pod is allocated is what the record says, where a list of pods does not have it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numawise.codec.allocated import status_by_record
from numawise.codec.bundle.manifest import API_SERVER
from numawise.codec.bundle.pods import pods_of
from numawise.codec.checkpoint.look import look
from numawise.codec.checkpoint.reading import (
    ALLOCATED_FILE,
    AllottedPod,
    allocated_manifest,
    allocated_pods,
)
from numawise.codec.document import Document, Part, mapping, read_documents, read_file
from numawise.codec.objects import kubelet_uid
from numawise.codec.podresources import PodResources
from numawise.errors import ClusterError, InputError
from numawise.host.kubelet import files_in, folder_seen, pod_folders, read_seen, read_whole
from numawise.inputs.gathered import PODS, KubeletParts, NodeSources, Notes
from numawise.inputs.podresources import RECORD_GATE, Evidence, holders_of
from numawise.kube.plain import fetch, is_url
from numawise.node.state.folder import StateFile, StateFolder
from numawise.values import dataclass

LOGS, MANIFESTS = "/var/log/pods", "/etc/kubernetes/manifests"
READ_ONLY = "http://127.0.0.1:{port}/pods"
MANIFEST = (".yaml", ".yml", ".json", ".manifest")

Names = Mapping[str, tuple[str, str]]
"""Uid → namespace and name."""


def pods_on_node(
    wanted: NodeSources,
    parts: KubeletParts,
    settings: Mapping[str, Any],
    listed: Sequence[Mapping[str, Any]],
    node: str,
    notes: Notes,
    answers: PodResources | None = None,
    state: Mapping[str, str] | None = None,
) -> "FoundPods":
    """All pods found; ``settings``: the configuration, ``listed``: what the API server returned."""
    every = _Every(notes)
    every.add([Document({"kind": "List", "items": list(listed)}, API_SERVER)] if listed else [], API_SERVER)
    for source in wanted.pods:
        every.add(_named(source), "--pods")
    port = settings.get("readOnlyPort")
    answered = False
    if wanted.root is None and not listed and not wanted.pods and isinstance(port, int) and port > 0:
        documents = _asked(READ_ONLY.format(port=port), notes)
        answered = bool(documents)
        every.add(documents, "the kubelet's read-only port")
    known = pod_folders(
        folder_seen(_text(settings, "podLogsDir") or LOGS, parts.running, wanted.top) or Path()
    )
    every.add(_static(wanted, parts, settings, node, known, notes), "manifests of static pods")
    gates = settings.get("featureGates")
    kept = not (isinstance(gates, Mapping) and gates.get(RECORD_GATE) is False)
    record = _record(wanted, parts, notes) if kept else None
    if record is not None:
        static = settings.get("cpuManagerPolicy") == "static"
        every.allocate(record)
        allotted = _allotted(record, state or {}, known, every, answers, static=static)
        every.add(allotted, "the kubelet's record of what was allocated")
    complete = wanted.asks_cluster or answered or record is not None
    if wanted.asks_cluster and not listed:
        notes.found(PODS, f"{API_SERVER} (0)")
    elif not every.found and not complete:
        notes.missing(PODS, "no source of pods could be read; give --pods FILE or --kubeconfig FILE")
    return FoundPods(tuple(every.found), complete)


@dataclass(frozen=True, slots=True)
class FoundPods:
    """The pods of a node."""

    found: tuple[Part, ...]
    complete: bool
    """No pod of the node is missing."""


class _Every:
    """The pods so far, each uid and each name once."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.found: list[Part] = []
        self.uids: set[str] = set()
        self.names: set[tuple[str, str]] = set()

    def add(self, documents: Iterable[Document], source: str) -> None:
        count = len(self.found)
        for part in pods_of(documents):
            pod = mapping(part.value)
            metadata, uid = mapping(pod.get("metadata")), kubelet_uid(pod)
            name = (str(metadata.get("namespace") or "default"), str(metadata.get("name")))
            if (uid and uid in self.uids) or (not uid and name in self.names):
                continue
            self.uids.add(uid)
            self.names.add(name)
            self.found.append(part)
        if len(self.found) > count:
            self.notes.found(PODS, f"{source} ({len(self.found) - count})")

    def allocate(self, record: "Record") -> None:
        """Let pods that were listed have what the kubelet has recorded (rule 4)."""
        for at, part in enumerate(self.found):
            pod = mapping(part.value)
            uid = kubelet_uid(pod)
            if uid in record:
                status = status_by_record(mapping(pod.get("status")), record[uid])
                self.found[at] = Part(part.document, part.steps, {**pod, "status": status})


def _named(source: str) -> tuple[Document, ...]:
    """A file or an address that somebody gave: what is wrong with it is an error."""
    documents = read_documents(fetch(source), source) if is_url(source) else read_file(source)
    if not any(True for _ in pods_of(documents)):
        raise InputError("has no pods", file=source, advice="give a Pod, a workload or a list of them")
    return documents


def _asked(address: str, notes: Notes) -> tuple[Document, ...]:
    try:
        return read_documents(fetch(address), address)
    except (ClusterError, InputError) as problem:
        notes.missing("pods of the read-only port", "it does not answer with pods", detail=str(problem))
        return ()


def _static(
    wanted: NodeSources,
    parts: KubeletParts,
    settings: Mapping[str, Any],
    node: str,
    known: Names,
    notes: Notes,
) -> Iterator[Document]:
    path = _text(settings, "staticPodPath") or MANIFESTS
    folder = folder_seen(path, parts.running, wanted.top)
    uids = {name: uid for uid, name in known.items()}
    for file in files_in(folder) if folder else ():
        if file.suffix not in MANIFEST or file.name.startswith("."):
            continue
        found = read_whole(file, f"{path.rstrip('/')}/{file.name}")
        if found.problem:
            notes.missing("a static pod", found.problem, found.path)
            continue
        try:
            documents = read_documents(found.data, found.path)
        except InputError as problem:
            place = f"{found.path}:{problem.line or 1}"
            notes.missing("a static pod", "cannot be read as YAML", place, str(problem))
            continue
        for document in documents:
            if isinstance(document.value, Mapping) and document.value.get("kind") == "Pod":
                yield Document(_at_home(document.value, node, uids), document.file)


def _at_home(pod: Mapping[str, Any], node: str, uids: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """A static pod as its kubelet calls it: by its name and the node's, with the uid that it was given."""
    metadata = pod.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        return dict(pod)
    name, namespace = f"{metadata.get('name', '')}-{node}", str(metadata.get("namespace") or "default")
    found = {**metadata, "name": name, "namespace": namespace}
    if uid := uids.get((namespace, name)):
        found["uid"] = uid
    return {**pod, "metadata": found}


Record = Mapping[str, AllottedPod]


def _record(wanted: NodeSources, parts: KubeletParts, notes: Notes) -> Record | None:
    """The kubelet's record of what was allotted; None: it has none."""
    path = f"{parts.directory.rstrip('/')}/{ALLOCATED_FILE}"
    file = read_seen(path, parts.running, wanted.top, written_by_it=True)
    if file.problem:
        return None
    try:
        return allocated_pods(file.data.decode(errors="replace"))
    except ValueError as problem:
        detail = f"{file.path} is damaged: {problem}"
        notes.missing(ALLOCATED_FILE, "is damaged", file.path, detail)
        return None


def _allotted(
    record: Record,
    state: Mapping[str, str],
    known: Names,
    every: _Every,
    answers: PodResources | None,
    *,
    static: bool,
) -> Iterator[Document]:
    """Pods of the record that still run (rule 2)."""
    files = tuple(
        StateFile(name, Path(name), text.encode(), look(name, text)) for name, text in state.items()
    )
    seen = Evidence(StateFolder(Path(), files, record), answers=answers, static_cpus=static, names=known)
    gone = holders_of(seen).gone
    items = [
        allocated_manifest(uid, containers, *known.get(uid, ("default", f"pod-{uid}")))
        for uid, containers in record.items()
        if uid not in every.uids and uid not in gone and containers
    ]
    if items:
        yield Document({"kind": "List", "items": items}, ALLOCATED_FILE)


def _text(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    return value if isinstance(value, str) else ""

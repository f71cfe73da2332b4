"""The pods of a node, from every source that knows them.

Rules kept here:

1. Sources in the order of what they know: the API server; files and addresses that somebody names; the
   kubelet's read-only port where it has one; manifests of static pods; the kubelet's own record of what the
   containers were allotted.  A pod that an earlier source listed is not taken again.
2. The record knows uids and containers alone; names come from the folders of the containers' logs.  So does
   the uid of a static pod, which its manifest does not have.
3. What could not be asked is reported, with the reason.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.bundle.model import PODS, BundleRequest, KubeletParts, Notes
from numawise.codec.bundle.pods import kubelet_uid, pods_of
from numawise.codec.checkpoint.reading import ALLOCATED_FILE, allocated_pods
from numawise.codec.document import Document, Part, read_documents, read_file
from numawise.errors import ClusterError, InputError
from numawise.host.kubelet import files_in, folder_seen, pod_folders, read_seen, read_whole
from numawise.kube.plain import fetch, is_url

LOGS, MANIFESTS = "/var/log/pods", "/etc/kubernetes/manifests"
READ_ONLY = "http://127.0.0.1:{port}/pods"
MANIFEST = (".yaml", ".yml", ".json", ".manifest")

Names = Mapping[str, tuple[str, str]]
"""Uid → namespace and name."""


def pods_on_node(
    wanted: BundleRequest,
    parts: KubeletParts,
    settings: Mapping[str, Any],
    listed: Sequence[Mapping[str, Any]],
    node: str,
    notes: Notes,
) -> tuple[Part, ...]:
    """All pods found; ``settings``: the configuration, ``listed``: what the API server returned."""
    every = _Every(notes)
    every.add([Document({"kind": "List", "items": list(listed)}, "the API server")] if listed else [])
    for source in wanted.pods:
        every.add(_named(source), "--pods")
    port = settings.get("readOnlyPort")
    if wanted.root is None and not listed and not wanted.pods and isinstance(port, int) and port > 0:
        every.add(_asked(READ_ONLY.format(port=port), notes))
    known = pod_folders(
        folder_seen(_text(settings, "podLogsDir") or LOGS, parts.running, wanted.top) or Path()
    )
    every.add(_static(wanted, parts, settings, node, known))
    every.add(_allotted(wanted, parts, known, every, notes))
    if not every.found:
        notes.missing(PODS, "no source of pods could be read; give --pods FILE or --kubeconfig FILE")
    return tuple(every.found)


class _Every:
    """The pods so far, each uid and each name once."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.found: list[Part] = []
        self.uids: set[str] = set()
        self.names: set[tuple[str, str]] = set()

    def add(self, documents: Iterable[Document], source: str = "") -> None:
        for document in documents:
            count = len(self.found)
            for part in pods_of([document]):
                assert isinstance(part.value, Mapping)
                metadata = part.value.get("metadata") or {}
                uid = kubelet_uid(part.value)
                name = (str(metadata.get("namespace") or "default"), str(metadata.get("name")))
                if (uid and uid in self.uids) or (not uid and name in self.names):
                    continue
                self.uids.add(uid)
                self.names.add(name)
                self.found.append(part)
            if len(self.found) > count:
                self.notes.found(PODS, f"{source or document.file} ({len(self.found) - count})")


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
        notes.missing("pods of the read-only port", str(problem))
        return ()


def _static(
    wanted: BundleRequest, parts: KubeletParts, settings: Mapping[str, Any], node: str, known: Names
) -> Iterator[Document]:
    path = _text(settings, "staticPodPath") or MANIFESTS
    folder = folder_seen(path, parts.running, wanted.top)
    uids = {name: uid for uid, name in known.items()}
    for file in files_in(folder) if folder else ():
        if file.suffix not in MANIFEST or file.name.startswith("."):
            continue
        found = read_whole(file, f"{path.rstrip('/')}/{file.name}")
        try:
            documents = read_documents(found.data, found.path)
        except InputError:
            continue
        for document in documents:
            if isinstance(document.value, Mapping) and document.value.get("kind") == "Pod":
                yield Document(_at_home(document.value, node, uids), document.file)


def _at_home(pod: Mapping[str, Any], node: str, uids: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """A static pod as its kubelet calls it: by its name and the node's, with the uid that it was given."""
    metadata = dict(pod.get("metadata") or {})
    name, namespace = f"{metadata.get('name', '')}-{node}", metadata.get("namespace") or "default"
    found = {**metadata, "name": name, "namespace": namespace}
    if uid := uids.get((namespace, name)):
        found["uid"] = uid
    return {**pod, "metadata": found}


def _allotted(
    wanted: BundleRequest, parts: KubeletParts, known: Names, every: _Every, notes: Notes
) -> Iterator[Document]:
    """Pods out of the kubelet's record of what was allotted (rule 2)."""
    file = read_seen(f"{parts.directory.rstrip('/')}/{ALLOCATED_FILE}", parts.running, wanted.top)
    if file.problem:
        return
    try:
        found = allocated_pods(file.data.decode(errors="replace"))
    except ValueError as problem:
        notes.missing(ALLOCATED_FILE, f"{file.path} is damaged: {problem}")
        return
    items = []
    for uid, containers in found.items():
        if uid in every.uids or not containers:
            continue
        namespace, name = known.get(uid, ("default", f"pod-{uid}"))
        items.append(
            {
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace, "uid": uid},
                "spec": {
                    "containers": [{"name": each, "resources": dict(own)} for each, own in containers.items()]
                },
            }
        )
    if items:
        yield Document({"kind": "List", "items": items}, file.path)


def _text(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    return value if isinstance(value, str) else ""

"""A kubelet's configuration, state files and pods, from whichever source knows them.

Rules kept here:

1. A file that somebody names must be there; any other that cannot be read is reported as missing, with the
   reason.
2. A drop-in ends in ``.conf``; others are passed over, as the kubelet does it.
3. A configuration that is not YAML cannot be freed of names; it is left out, and the error is reported.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.bundle.model import CONFIG, PODS, STATE, BundleRequest, KubeletParts, Notes
from numawise.codec.bundle.manifest import API_SERVER
from numawise.codec.bundle.pods import kubelet_uid, mapping, pods_of
from numawise.codec.checkpoint import PLACES
from numawise.codec.checkpoint.look import look
from numawise.codec.checkpoint.reading import (
    ALLOCATED_FILE,
    Resources,
    allocated_manifest,
    allocated_pods,
)
from numawise.codec.document import Document, Part, read_documents, read_file
from numawise.codec.kubelet.config import GROUP, KIND
from numawise.codec.kubelet.flags import Flag, flags_in, is_flags, read_flags
from numawise.codec.podresources import PodResources
from numawise.errors import ClusterError, InputError
from numawise.host.kubelet import (
    DEFAULT_DIRECTORY,
    HostFile,
    Running,
    files_in,
    folder_seen,
    installed_configs,
    installed_drop_ins,
    installed_flags,
    node_kubelets,
    own_arguments,
    passed_arguments,
    pod_folders,
    read_seen,
    read_whole,
)
from numawise.inputs.podresources import RECORD_GATE, Evidence, holders_of
from numawise.kube.plain import fetch, is_url
from numawise.node.state.folder import StateFile, StateFolder
from numawise.values import dataclass

DROP_IN = ".conf"


def kubelet_parts(wanted: BundleRequest, notes: Notes) -> KubeletParts:
    """The configuration of the kubelet on a host, in its parts."""
    running = _running(wanted, notes)
    flags = _flags(running, wanted.top, notes)
    flag_values = KubeletParts(flags=flags).flag
    base = _base(wanted, flag_values.get("config", ""), running, notes)
    drop_ins = _drop_ins(flag_values.get("config-dir", ""), running, wanted, notes)
    if base is None and not flags and not drop_ins and not notes.absent:
        notes.missing(CONFIG, "no kubelet is running here, and there is no configuration in the usual places")
    directory = wanted.kubelet_dir or (str(running.directory) if running else flag_values.get("root-dir", ""))
    broken = base is None and any(what == CONFIG for what, _ in notes.absent)
    return KubeletParts(base, drop_ins, flags, running, directory or str(DEFAULT_DIRECTORY), broken)


def state_texts(parts: KubeletParts, wanted: BundleRequest, notes: Notes) -> dict[str, str]:
    """The state files of a kubelet that are there, by name."""
    found: dict[str, str] = {}
    for name, places in PLACES.items():
        problems = []
        for place in places:
            path = f"{parts.directory.rstrip('/')}/{place}"
            file = read_seen(path, parts.running, wanted.top, written_by_it=True)
            if not file.problem:
                found[name] = file.data.decode("utf-8", errors="replace")
                notes.found(STATE, path=file.path)
                break
            problems.append(file)
        else:
            notes.missing(name, problems[0].problem, problems[0].path)
    return found


def _running(wanted: BundleRequest, notes: Notes) -> Running | None:
    kubelets = node_kubelets(wanted.top, notes.remark)
    wanted_folder = wanted.kubelet_dir.rstrip("/")
    own = [each for each in kubelets if str(each.directory).rstrip("/") == wanted_folder]
    return next(iter((*own, *kubelets)), None)


def _flags(running: Running | None, root: Path, notes: Notes) -> tuple[Flag, ...]:
    if running is not None:
        own = flags_in(own_arguments(running)) if not running.embedded else ()
        if running.embedded and (text := passed_arguments(running, root)):
            own = read_flags(text)
        if own:
            notes.found("flags", f"command line of {running.name}, process {running.pid}")
        elif running.embedded:
            remark = (
                f"{running.name} embeds the kubelet, and its command line does not show the kubelet's flags"
            )
            notes.remark(f"{remark}; configz shows the resulting configuration")
        return own
    flags: list[Flag] = []
    for file in installed_flags(root):
        text = file.data.decode(errors="replace")
        if is_flags(text) and (some := read_flags(text)):
            flags += some
            notes.found("flags", path=file.path)
    return tuple(flags)


def _base(wanted: BundleRequest, named: str, running: Running | None, notes: Notes) -> Document | None:
    if wanted.kubelet_config:
        file = read_whole(Path(wanted.kubelet_config))
        if file.problem:
            raise InputError(file.problem, file=wanted.kubelet_config, advice="check --kubelet-config")
        return _document(file, notes, "--kubelet-config")
    if named:
        file = read_seen(named, running, wanted.top)
        if not file.problem:
            return _document(file, notes)
        notes.missing(CONFIG, file.problem, file.path)
        return None
    if running is not None and not running.embedded:
        return None
    for file in installed_configs(wanted.top):
        if KIND.encode() in file.data:
            return _document(file, notes)
    return None


def _document(file: HostFile, notes: Notes, source: str = "") -> Document | None:
    def twice(problem: InputError) -> None:
        notes.remark("a key appears twice", f"{file.path}:{problem.line or 1}", str(problem))

    try:
        document = read_documents(file.data, file.path, twice)[0]
    except InputError as problem:
        notes.missing(CONFIG, "cannot be read as YAML", f"{file.path}:{problem.line or 1}", str(problem))
        return None
    if not _is_configuration(document.value):
        notes.missing(CONFIG, f"is not a {KIND}", file.path)
        return None
    notes.found(CONFIG, source, "" if source else file.path)
    return document


def _is_configuration(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return value.get("kind") in (KIND, None) and str(value.get("apiVersion") or GROUP).startswith(GROUP)


def _drop_ins(
    named: str, running: Running | None, wanted: BundleRequest, notes: Notes
) -> tuple[Document, ...]:
    if named:
        folder = folder_seen(named, running, wanted.top)
        if folder is None:
            notes.missing("drop-ins", "does not exist or cannot be read", named)
    else:
        known = running is not None and not running.embedded
        folder = None if known or wanted.kubelet_config else installed_drop_ins(wanted.top)
    found = []
    for path in files_in(folder) if folder else ():
        if path.suffix != DROP_IN:
            continue
        shown = f"{named.rstrip('/')}/{path.relative_to(folder)}" if named and folder else str(path)
        file = read_whole(path, shown)
        if file.problem:
            notes.missing("drop-ins", file.problem, shown)
        elif document := _document(file, notes):
            found.append(document)
    return tuple(found)


# --------------------------------------------------------------------------------------------------
# The pods of a node, from every source that knows them.
#
# Rules kept here:
#
# 1. Sources in the order of what they know: the API server; files and addresses that somebody names; the
#    kubelet's read-only port where it has one; manifests of static pods; the kubelet's own record of what the
#    containers were allotted.  A pod that an earlier source listed is not taken again.
# 2. The record knows uids and containers alone; names come from the folders of the containers' logs.  So does
#    the uid of a static pod, which its manifest does not have.
# 3. What could not be asked is reported, with the reason.


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
    wanted: BundleRequest,
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


Record = Mapping[str, Mapping[str, Resources]]


def _record(wanted: BundleRequest, parts: KubeletParts, notes: Notes) -> Record | None:
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

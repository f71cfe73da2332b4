"""A kubelet's configuration and state files, as they lie on its host.

Rules kept here:

1. A file that somebody names must be there; any other that cannot be read is reported as missing, with the
   reason.
2. A drop-in ends in ``.conf``; others are passed over, as the kubelet does it.
3. A configuration that is not YAML cannot be freed of names; it is left out, and the error is reported.
"""

from collections.abc import Mapping
from pathlib import Path

from numawise.codec.checkpoint import PLACES
from numawise.codec.document import Document, read_documents
from numawise.codec.kubelet.config import GROUP, KIND
from numawise.codec.kubelet.flags import Flag, flags_in, is_flags, read_flags
from numawise.errors import InputError
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
    read_seen,
    read_whole,
)
from numawise.inputs.gathered import CONFIG, STATE, KubeletParts, NodeSources, Notes

DROP_IN = ".conf"


def kubelet_parts(wanted: NodeSources, notes: Notes) -> KubeletParts:
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


def state_texts(parts: KubeletParts, wanted: NodeSources, notes: Notes) -> dict[str, str]:
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


def _running(wanted: NodeSources, notes: Notes) -> Running | None:
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


def _base(wanted: NodeSources, named: str, running: Running | None, notes: Notes) -> Document | None:
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


def _drop_ins(named: str, running: Running | None, wanted: NodeSources, notes: Notes) -> tuple[Document, ...]:
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

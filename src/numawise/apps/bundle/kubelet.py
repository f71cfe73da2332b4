"""A kubelet's configuration and state files, from the process that runs or from where installers put them.

Rules kept here:

1. A file that somebody names must be there; any other that cannot be read is reported as missing, with the
   reason.
2. A drop-in ends in ``.conf``; others are passed over, as the kubelet does it.
3. A configuration that is not YAML cannot be freed of names; it is left out, and the error is reported.
"""

from collections.abc import Mapping
from pathlib import Path

from numawise.apps.bundle.model import CONFIG, STATE, BundleRequest, KubeletParts, Notes
from numawise.codec.checkpoint import PLACES
from numawise.codec.document import Document, read_documents
from numawise.codec.kubelet.config import GROUP, KIND
from numawise.codec.kubelet.flags import Flag, is_flags, read_flags
from numawise.errors import InputError
from numawise.host.kubelet import (
    DEFAULT_DIRECTORY,
    HostFile,
    Running,
    command_line,
    files_in,
    folder_seen,
    installed_configs,
    installed_drop_ins,
    installed_flags,
    read_seen,
    read_whole,
    running_kubelets,
)

DROP_IN = ".conf"


def kubelet_parts(wanted: BundleRequest, notes: Notes) -> KubeletParts:
    """The configuration of the kubelet on a host, in its parts."""
    running = _running(wanted)
    flags = _flags(running, wanted.top, notes)
    flag_values = KubeletParts(flags=flags).flag
    base = _base(wanted, flag_values.get("config", ""), running, notes)
    drop_ins = _drop_ins(flag_values.get("config-dir", ""), running, wanted, notes)
    if base is None and not flags and not drop_ins and not notes.absent:
        notes.missing(CONFIG, "no kubelet is running here, and there is no configuration in the usual places")
    directory = wanted.kubelet_dir or (str(running.directory) if running else flag_values.get("root-dir", ""))
    broken = base is None and any(one.what == CONFIG for one in notes.absent)
    return KubeletParts(base, drop_ins, flags, running, directory or str(DEFAULT_DIRECTORY), broken)


def state_texts(parts: KubeletParts, wanted: BundleRequest, notes: Notes) -> dict[str, str]:
    """The state files of a kubelet that are there, by name."""
    found: dict[str, str] = {}
    for name, places in PLACES.items():
        problems = []
        for place in places:
            file = read_seen(f"{parts.directory.rstrip('/')}/{place}", parts.running, wanted.top)
            if not file.problem:
                found[name] = file.data.decode("utf-8", errors="replace")
                notes.found(STATE, file.path)
                break
            problems.append(f"{file.path} {file.problem}")
        else:
            notes.missing(name, problems[0])
    return found


def _running(wanted: BundleRequest) -> Running | None:
    found = running_kubelets(wanted.top)
    if wanted.kubelet_dir:
        own = [one for one in found if str(one.directory).rstrip("/") == wanted.kubelet_dir.rstrip("/")]
        found = tuple(own) or found[:1]
    return found[0] if found else None


def _flags(running: Running | None, root: Path, notes: Notes) -> tuple[Flag, ...]:
    if running is not None:
        text = command_line(running, root)
        if text:
            notes.found("flags", f"command line of {running.name}, process {running.pid}")
        elif running.embedded:
            remark = (
                f"{running.name} embeds the kubelet, and its command line does not show the kubelet's flags"
            )
            notes.remarks.append(f"{remark}; configz shows the resulting configuration")
        return read_flags(text) if text else ()
    flags: list[Flag] = []
    for file in installed_flags(root):
        text = file.data.decode(errors="replace")
        if is_flags(text) and (some := read_flags(text)):
            flags += some
            notes.found("flags", file.path)
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
        notes.missing(CONFIG, f"{file.path} {file.problem}")
        return None
    if running is not None and not running.embedded:
        return None
    for file in installed_configs(wanted.top):
        if KIND.encode() in file.data:
            return _document(file, notes)
    return None


def _document(file: HostFile, notes: Notes, source: str = "") -> Document | None:
    try:
        document = read_documents(file.data, file.path, lambda problem: notes.remarks.append(str(problem)))[0]
    except InputError as problem:
        notes.missing(CONFIG, str(problem))
        return None
    if not _is_configuration(document.value):
        notes.missing(CONFIG, f"{file.path} is no {KIND}")
        return None
    notes.found(CONFIG, source or file.path)
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
            notes.missing("drop-ins", f"{named} does not exist or cannot be read")
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
            notes.missing("drop-ins", f"{shown} {file.problem}")
        elif document := _document(file, notes):
            found.append(document)
    return tuple(found)

"""What is checked: files that people have, read into values, with everything wrong about them as findings.

Rules kept here:

1. A file that cannot be opened is an error of whoever called; a file with nonsense in it is a finding.
2. Every configuration file is a kubelet of its own; drop-ins and flags are laid over each of them.
3. The machine may be a machine file, a folder with /sys, prints (several become one), or a name.
4. A bundle has everything at once; its members are called by their place in it.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from numawise.codec.bundle.manifest import FLAGS as FLAGS_MEMBER
from numawise.codec.bundle.manifest import MACHINE as MACHINE_MEMBER
from numawise.codec.bundle.manifest import STATE as STATE_MEMBERS
from numawise.codec.document import LARGEST_FILE, STDIN, UNREADABLE, Document, read_documents
from numawise.codec.kubelet.config import KIND
from numawise.codec.kubelet.flags import Flag, is_flags, read_flags
from numawise.codec.kubelet.forms import Found, kubelet_configurations
from numawise.errors import InputError
from numawise.inputs.bundle import open_bundle
from numawise.inputs.config import Configuration, configured, directory_finding, drop_in_refusal
from numawise.inputs.files import PLACES, load_state
from numawise.inputs.machine import TELL_MORE, read_machine
from numawise.inputs.pods import PodSource, read_manifest
from numawise.machine.hardware import Hardware
from numawise.machine.model import Machine
from numawise.results.finding import Finding, Place, Severity, found
from numawise.rules.versions import DEFAULT, Version

T = TypeVar("T")
FLAGS = "--kubelet-flags"
DROP_IN = ".conf"
TWICE = re.compile(r"the key (.*) appears twice")
ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Given:
    """What somebody wants checked."""

    configs: tuple[str, ...] = ()
    config_dir: str = ""
    flags: str = ""
    """Flags themselves, or a file that has them."""
    machines: tuple[str, ...] = ()
    state: str = ""
    pods: tuple[str, ...] = ()
    bundle: str = ""
    """A node as it was collected; what is given beside it takes the place of its part."""
    version: Version = DEFAULT


@dataclass(slots=True)
class Sources:
    """The same, read."""

    version: Version = DEFAULT
    configurations: list[Configuration] = field(default_factory=list)
    machine: Machine | None = None
    hardware: Hardware | None = None
    machine_file: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    pods: list[PodSource] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """File → text, of those that may have comments."""
    findings: list[Finding] = field(default_factory=list)
    known_pods: frozenset[str] = frozenset()
    """Uids of all pods of the node, when a list of them was given."""


def sources(given: Given) -> Sources:
    """Read everything that was given; the place to teach other forms, such as archives."""
    read = Sources(given.version)
    if given.bundle:
        _bundle(given, read)
    flags, flags_file = _flags(given, read)
    drop_ins = list(_drop_ins(given, read))
    for path in given.configs:
        for one in _configurations(path, read):
            own = (*one.flags, *flags)
            file = flags_file if flags else path
            read.configurations.append(configured(one, drop_ins, own, file, given.version, read.texts))
    if not given.configs and (flags or drop_ins):
        name = flags_file or given.config_dir
        alone = configured(None, drop_ins, flags, name, given.version, read.texts)
        read.configurations.append(alone)
    if given.machines:
        _machine(given.machines, read)
    if given.state:
        state = load_state(given.state)
        read.files = dict(state.texts)
        read.paths = dict(_paths(given.state))
    listed = False
    for path in _manifests(given.pods):
        for document in _documents(path, read, templates=True):
            value = document.value
            listed = listed or (isinstance(value, Mapping) and str(value.get("kind", "")).endswith("List"))
            for told in read_manifest(document):
                if isinstance(told, Finding):
                    read.findings.append(told)
                else:
                    read.pods.append(told)
    if listed:
        read.known_pods = frozenset(pod.uid for pod in read.pods if pod.uid)
    return read


# --- texts ----------------------------------------------------------------------------------


def _text(path: str, read: Sources) -> str:
    """The text of a file (rule 1)."""
    name = STDIN if path == "-" else path
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with Path(path).open("rb") as stream:
                raw = stream.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        what, advice = UNREADABLE.get(type(problem), (f"cannot be read: {reason}", "check the path"))
        raise InputError(what, file=name, advice=advice) from None
    if len(raw) > LARGEST_FILE:
        raise InputError(f"is larger than {LARGEST_FILE >> 20} MiB", file=name)
    text = raw.decode("utf-8-sig", errors="surrogateescape")
    read.texts[name] = text
    return text


def _manifests(paths: Sequence[str]) -> Iterator[str]:
    """Files with pods; a folder stands for all YAML and JSON below it."""
    for path in paths:
        if path == "-" or not Path(path).is_dir():
            yield path
            continue
        inside = sorted(one for one in Path(path).rglob("*") if one.suffix in ENDINGS and one.is_file())
        if not inside:
            what = f"no file in it ends in {', '.join(ENDINGS)}"
            raise InputError(what, file=path, advice="give files or folders with pods")
        yield from map(str, inside)


def _documents(path: str, read: Sources, *, templates: bool = False) -> tuple[Document, ...]:
    name = STDIN if path == "-" else path
    text = _text(path, read)
    twice: list[InputError] = []
    try:
        documents = read_documents(text, name, twice.append)
    except InputError as problem:
        place = Place(name, problem.line or 1, problem.field)
        if templates and "{{" in text:
            read.findings.append(found("NW402", place, "is a template: it is no YAML before it is filled in"))
        else:
            read.findings.append(found("NW002", place, problem.message, fix=problem.advice))
        return ()
    read.findings += [found("NW104", Place(name, one.line), _already_set(one)) for one in twice]
    return documents


def _already_set(problem: InputError) -> str:
    """A repeated key in the words of Go's YAML."""
    key = TWICE.fullmatch(problem.message)
    return f"yaml: unmarshal errors: line {problem.line}: key {key[1] if key else ''} already set in map"


# --- configurations -------------------------------------------------------------------------


def _configurations(path: str, read: Sources) -> Iterator[Found]:
    name = STDIN if path == "-" else path
    documents = _documents(path, read)
    if not documents:
        return
    forms: list[Found] = []
    for document in documents:
        try:
            forms += _joined(kubelet_configurations(document))
        except InputError as problem:
            place = Place(name, problem.line or 1)
            read.findings.append(found("NW002", place, problem.message, fix=problem.advice))
    kinds = [document.value.get("kind") for document in documents if isinstance(document.value, Mapping)]
    if len(documents) > 1 and kinds and all(kind == KIND for kind in kinds):
        place = Place(name, documents[1].line(()))
        read.findings.append(found("NW105", place, f"the file has {len(documents)} documents"))
        forms = forms[:1]
    if not forms:
        message = "has no kubelet configuration in it"
        fix = "give a KubeletConfiguration, or an object that carries one"
        read.findings.append(found("NW002", Place(name, 1), message, fix=fix))
    yield from forms


def _joined(forms: Sequence[Found]) -> list[Found]:
    """Flags beside a configuration in one document belong to it."""
    flags = tuple(flag for one in forms if one.part is None for flag in one.flags)
    with_fields = [one for one in forms if one.part is not None]
    if not with_fields:
        return list(forms[:1]) if flags else []
    return [Found(one.part, flags, one.inside, one.fragment, one.misplaced) for one in with_fields]


def _flags(given: Given, read: Sources) -> tuple[tuple[Flag, ...], str]:
    if not given.flags:
        return (), ""
    if is_flags(given.flags) and not Path(given.flags).is_file():
        return read_flags(given.flags), FLAGS
    text = _text(given.flags, read)
    flags = read_flags(text)
    if not flags:
        place = Place(given.flags, 1)
        fix = "give a command line, a file of variables or a systemd unit"
        read.findings.append(found("NW002", place, "has no flags of a kubelet in it", fix=fix))
    return flags, given.flags


def _drop_ins(given: Given, read: Sources) -> Iterator[Document]:
    """The drop-in files in the kubelet's order; what it passes over or refuses is told."""
    if not given.config_dir:
        return
    folder = Path(given.config_dir)
    if not folder.is_dir():
        raise InputError(
            "is not a directory" if folder.exists() else "does not exist",
            file=given.config_dir,
            advice="give the directory of --config-dir",
        )
    problem = directory_finding(given.config_dir, given.version)
    if problem is not None:
        read.findings.append(problem)
    for path in _walk(folder):
        name = str(path)
        if path.suffix != DROP_IN:
            if _is_configuration(path):
                read.findings.append(found("NW107", Place(name, 1), f"{path.name} does not end in {DROP_IN}"))
            continue
        text = _text(name, read)
        twice: list[InputError] = []
        try:
            documents = read_documents(text, name, twice.append)
        except InputError as error:
            read.findings.append(drop_in_refusal(name, error, f"error: {error.message}"))
            continue
        for one in twice:
            told = f"error: strict decoding error: {_already_set(one)}"
            read.findings.append(drop_in_refusal(name, one, told))
        if not isinstance(documents[0].value, Mapping):
            read.findings.append(drop_in_refusal(name, None, "error: is not a mapping"))
            continue
        yield documents[0]


def _walk(folder: Path) -> Iterator[Path]:
    """Files in the order of their names, folders where their name comes."""
    for path in sorted(folder.iterdir(), key=lambda one: one.name.encode(errors="surrogateescape")):
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path


def _is_configuration(path: Path) -> bool:
    try:
        return KIND in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


# --- bundles --------------------------------------------------------------------------------


def _bundle(given: Given, read: Sources) -> None:
    """Everything in a bundle that was not given itself (rule 4)."""
    bundle = open_bundle(given.bundle)
    for name, raw in bundle.members.items():
        read.texts[bundle.place(name)] = raw.decode("utf-8", errors="replace")
    if not given.configs:
        base, drop_ins, flags = bundle.layers()
        if base is None and not drop_ins and not flags:
            whole = _member(bundle.config_file, read)
            base = whole.document if whole is not None else None
        found_base = Found(base.root) if base is not None else None
        if base is not None or drop_ins or flags:
            place = bundle.place(FLAGS_MEMBER)
            one = configured(found_base, drop_ins, flags, place, given.version, read.texts)
            read.configurations.append(one)
    if not given.machines:
        read.machine_file = bundle.place(MACHINE_MEMBER)
        read.machine = _member(bundle.machine, read)
        read.hardware = _member(bundle.hardware, read) if read.machine is not None else None
    if not given.state:
        read.files = bundle.texts
        read.paths = {name: bundle.place(f"{STATE_MEMBERS}/{name}") for name in read.files}
    document = bundle.pod_document() if not given.pods else None
    for told in read_manifest(document) if document is not None else ():
        if isinstance(told, Finding):
            read.findings.append(told)
        else:
            read.pods.append(told)
    read.known_pods = frozenset(pod.uid for pod in read.pods if pod.uid)


def _member(reader: Callable[[], T], read: Sources) -> T | None:
    """What a member of a bundle holds; that it has none is told."""
    try:
        return reader()
    except InputError as problem:
        place = Place(problem.file, problem.line, problem.field)
        read.findings.append(found("NW003", place, problem.message, fix=problem.advice))
        return None


# --- machine and state ----------------------------------------------------------------------


def _machine(words: Sequence[str], read: Sources) -> None:
    """The machine; what is missing to use it is told."""
    given = read_machine(words)
    read.machine_file = given.name
    read.hardware = given.hardware
    if given.missing:
        message = f"what depends on the machine is not checked: {given.missing}"
        place = Place(read.machine_file)
        read.findings.append(found("NW003", place, message, fix=TELL_MORE, severity=Severity.WARNING))
        return
    read.machine = given.machine


def _paths(directory: str) -> Iterator[tuple[str, str]]:
    for name, places in PLACES.items():
        for place in places:
            path = Path(directory) / place
            if path.is_file():
                yield name, str(path)
                break

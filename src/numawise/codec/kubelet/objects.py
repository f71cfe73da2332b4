"""A kubelet configuration inside what other tools keep it in: objects, user data, files of a machine.

Rules kept here:

1. Inside another object it is looked for where that kind keeps it (``codec.kubelet.places``): a mapping, a
   text, files, flags, or settings with other names.  All that belongs to one kubelet is laid over each other
   in the order of the table; flags come last.  Line numbers stay those of the file.
2. An object that no table knows is searched for mappings with fields of the managers; those are fragments, of
   which only the known fields count.
3. A mapping without kind is taken for the configuration itself when its keys say so.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from numawise.codec.document import Document, Part, read_documents
from numawise.codec.kubelet import native, userdata
from numawise.codec.kubelet.config import KIND as CONFIGURATION
from numawise.codec.kubelet.fields import configuration_of
from numawise.codec.kubelet.flags import Flag, flags_of, is_flags, read_flags
from numawise.codec.kubelet.forms import PLAIN, Found, joined_apart
from numawise.codec.kubelet.places import EACH, FORMS, LISTED, MAPPING, Form, Path
from numawise.codec.kubelet.userdata import TextPiece
from numawise.codec.lines import LineIndex, line_index
from numawise.errors import InputError
from numawise.rules.versions import NEWEST
from numawise.values import replace

NATIVE: Mapping[str, Callable[[Part], Document]] = {
    "aks": native.aks,
    "bottlerocket": native.bottlerocket,
    "gke": native.gke,
    "kops": native.kops,
    "kubespray": native.kubespray,
    "profile": native.performance_profile,
}
TELLING = frozenset({
    "cpuManagerPolicy", "cpuManagerPolicyOptions", "topologyManagerPolicy", "topologyManagerScope",
    "topologyManagerPolicyOptions", "memoryManagerPolicy", "reservedMemory", "reservedSystemCPUs",
    "kubeReserved", "systemReserved", "evictionHard",
})  # fmt: skip
"""Fields that give a configuration away."""
ENOUGH = 0.5
"""So large a part of a mapping's keys must be fields for it to be taken for a configuration."""
RANCHER = re.compile(r"\brke2\b|/rke2/")
PATCH = re.compile(r"kubeletconfiguration\d*(\+\w+)?\.(ya?ml|json)")
FLAG_FILE = re.compile(r"/(default|sysconfig)/kubelet|kubelet\.service\.d/.*\.conf|kubelet\.service")
CARRIERS = re.compile(r"bootstrap\.sh|node\.eks\.aws|settings\.kubernetes|--kubelet-arg|KubeletConfiguration")


def configurations_inside(root: Part, kind: object) -> tuple[Found, ...]:
    """The configurations in an object that is none itself, in order."""
    value = root.mapping()
    name = kind if isinstance(kind, str) else ""
    found = tuple(_known(root, name))
    if found:
        return found
    if not name and (own := _kindless(root)):
        return own
    if _looks_like_one(value):
        misplaced = next(
            (
                ".".join((*form.root, *way))
                for form in FORMS
                for way, what in form.places
                if name and form.kind == name and what == MAPPING and EACH not in form.root
            ),
            "",
        )
        return (Found(root, inside=name, misplaced=misplaced),)
    carried = tuple(_carried(root, name))
    return carried or tuple(Found(part, inside=name, fragment=True) for part in _fragments(root))


def configurations_in_user_data(
    text: str, file: str, line: int = 1, *, nested: bool = False
) -> tuple[Found, ...] | None:
    """The configurations in user data, a script or TOML; None: the text may be YAML or JSON.

    ``nested``: it is part of another such text, and has no parts of its own.
    """
    text = userdata.plain_text(text)
    pieces = userdata.mime_parts(text, line) if not nested else None
    if pieces is not None:
        parts = [one for piece in pieces for one in _in_user_data(piece, file, nested=True)]
        return tuple(replace(one, platform=one.platform or "eks") for one in _together(parts))
    if userdata.is_toml(text):
        return tuple(_known(userdata.toml_document(text, file, line).root, ""))
    if userdata.is_script(text) and not PLAIN.match(text):
        return tuple(_in_script(TextPiece(text, line), file))
    return None


# --- objects that are known -------------------------------------------------------------------


def _known(root: Part, kind: str) -> Iterator[Found]:
    found: list[Found] = []
    for form in FORMS:
        if form.kind != kind or not _counts(form, root, found):
            continue
        for at, kubelet in enumerate(_ways(root, form.root)):
            pieces: list[Found] = []
            for way, what in form.places:
                for part in _ways(kubelet, way):
                    pieces += _pieces(part, what, kind or next(iter((*form.root, *way)), ""), kind)
            name = kubelet.at("name").value
            title = str(name) if isinstance(name, str) else ".".join(form.root).replace(EACH, str(at))
            found += [replace(one, title=title) for one in _together(pieces, form.platform)]
    yield from joined_apart(found) if kind.startswith("Kubeadm") else found


def _counts(form: Form, root: Part, found: Sequence[Found]) -> bool:
    if form.only_with:
        return root.at(*form.only_with).value is not None
    return not (form.last and found)


def _together(pieces: Iterable[Found], platform: str = "") -> Iterator[Found]:
    """Parts of one kubelet's configuration as one (rule 1)."""
    every = list(pieces)
    if not every:
        return
    base = next((one.part for one in every if one.part is not None), None)
    over: list[Document] = []
    for one in every:
        if one.part is not None and one.part is not base:
            over.append(native.as_document(one.part))
        over += one.over
    yield replace(
        every[0],
        part=base,
        flags=tuple(flag for one in every for flag in one.flags),
        over=tuple(over),
        platform=platform or next((one.platform for one in every if one.platform), ""),
    )


def _pieces(part: Part, what: str, inside: str, kind: str) -> Iterator[Found]:
    match what:
        case "text":
            yield from _in_text(part, inside)
        case "mapping":
            short = not kind and len(part.steps) == 1  # a name that others may use, too
            if isinstance(part.value, Mapping) and not (short and not _looks_like_one(part.value)):
                yield Found(part, inside=inside)
        case "files":
            yield from _in_files(part, inside)
        case "units":
            yield from _in_units(part, inside)
        case "user data":
            if isinstance(part.value, str):
                first = (part.document.line(part.steps) or 1) + ("\n" in part.value.strip())
                for one in _in_user_data(TextPiece(part.value, first), part.document.file):
                    yield replace(one, inside=inside)
        case _ if what in NATIVE:
            yield Found(NATIVE[what](part).root, inside=inside)
        case _ if flags := _flags(part, what):
            yield Found(None, flags, inside=inside)


def _ways(part: Part, way: Path) -> Iterator[Part]:
    if not way:
        if part.value is not None:
            yield part
        return
    step, rest = way[0], way[1:]
    if step != EACH:
        yield from _ways(part.at(step), rest)
    elif isinstance(part.value, Mapping):
        for key in part.value:
            yield from _ways(part.at(key), rest)
    elif isinstance(part.value, list):
        for i in range(len(part.value)):
            yield from _ways(part.at(i), rest)


def _flags(part: Part, what: str) -> tuple[Flag, ...]:
    """Flags as a mapping, as a list of ``name=value``, or as a list of names and values."""
    if isinstance(part.value, Mapping):
        return flags_of(part.value.items(), lambda name: part.document.line((*part.steps, name)))
    pairs: list[tuple[str, object]] = []
    members = [part.value] if isinstance(part.value, str) else part.value
    for one in members if isinstance(members, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("name"), str):
            pairs.append((one["name"], one.get("value")))
        elif isinstance(one, str) and what == LISTED:
            name, equals, value = one.partition("=")
            pairs.append((name.rstrip("+"), value if equals else None))
    lines = iter(range(len(pairs)))
    return flags_of(pairs, lambda _: part.document.line((*part.steps, next(lines))))


# --- objects without kind ---------------------------------------------------------------------


def _kindless(root: Part) -> tuple[Found, ...]:
    """GKE's, AKS's and kubespray's, which are known by their names alone."""
    value = root.mapping()
    for way in (("kubeletConfig",), ("config", "kubeletConfig"), ("nodeConfig", "kubeletConfig")):
        part = root.at(*way)
        if isinstance(part.value, Mapping):
            own = {*native.AKS_OWN, "topologyManagerPolicy"} - set(native.GKE_NAMES)
            azure = own & set(part.value) or {"osType", "orchestratorVersion"} & set(value)
            name = "aks" if azure else "gke"
            return (Found(NATIVE[name](part).root, inside=way[0], platform=name),)
    if native.AKS_OWN & set(value):
        return (Found(native.aks(root).root, inside="kubelet configuration of AKS", platform="aks"),)
    if {*native.KUBESPRAY, *native.KUBESPRAY_EXTRA} & set(value):
        return (Found(native.kubespray(root).root, inside="inventory of kubespray", platform="kubeadm"),)
    return ()


@cache
def _fields() -> frozenset[str]:
    return frozenset(configuration_of(NEWEST).fields)


def _looks_like_one(value: Mapping[str, object]) -> bool:
    known = [key for key in value if key in _fields() - {"kind", "apiVersion"}]
    others = [key for key in value if key not in (*known, "kind", "apiVersion", "metadata")]
    return bool(TELLING & set(known)) and len(known) >= ENOUGH * (len(known) + len(others))


# --- texts ------------------------------------------------------------------------------------


def _in_text(part: Part, inside: str) -> Iterator[Found]:
    """Configurations written as text inside another document, with the lines of that."""
    if not isinstance(part.value, str) or CONFIGURATION not in part.value:
        return
    first = part.document.line(part.steps) or 1
    place = part.block(part.value, first + 1)
    for one in _documents(TextPiece(part.value, first + 1), part.document.file):
        if isinstance(one.value, Mapping) and one.value.get("kind") == CONFIGURATION:
            yield Found(replace(one, **place).root, inside=inside)


def _documents(piece: TextPiece, file: str) -> tuple[Document, ...]:
    if not piece.text.strip():
        return ()
    try:
        documents = read_documents(piece.text, file)
    except InputError as problem:
        line = piece.line - 1 + (problem.line or 1)
        raise InputError(problem.message, file=file, line=line, advice=problem.advice) from None
    if piece.packed:
        return tuple(replace(one, lines=_all_on(one.value, piece.line), text="") for one in documents)
    return tuple(replace(one, first_line=piece.line, text="") for one in documents)


def _all_on(value: object, line: int) -> Callable[[], LineIndex]:
    """The lines of what is packed into one."""
    return cache(lambda: line_index(value, lambda _: line))


def _in_user_data(piece: TextPiece, file: str, *, nested: bool = False) -> Iterator[Found]:
    """User data of a machine: any of its forms, or YAML (NodeConfig, cloud-config)."""
    found = configurations_in_user_data(piece.text, file, piece.line, nested=nested)
    if found is None:
        text = userdata.plain_text(piece.text)
        documents = _documents(TextPiece(text, piece.line), file) if CARRIERS.search(text) else ()
        found = tuple(one for document in documents for one in _of_user_data(document))
    yield from found


def _of_user_data(document: Document) -> tuple[Found, ...]:
    """The kinds that stand in user data; others are not looked into, lest it goes on inside itself."""
    value = document.value
    kind = value.get("kind", "") if isinstance(value, Mapping) else None
    if kind == CONFIGURATION:
        return (Found(document.root),)
    return tuple(_known(document.root, kind)) if kind in ("", "NodeConfig") else ()


def _in_script(piece: TextPiece, file: str) -> Iterator[Found]:
    """What a script passes to the kubelet, and the files that it writes."""
    flags = userdata.script_flags(piece.text, piece.line)
    parts = [one for inner in userdata.script_files(piece.text, piece.line) for one in _file(inner, file)]
    platform = "eks-bootstrap"
    if userdata.ARGUMENT in piece.text:
        platform = "rke2" if RANCHER.search(piece.text) else "k3s"
    if flags:
        parts.append(Found(None, flags))
    yield from (replace(one, inside="script") for one in _together(parts, platform))


def _carried(root: Part, inside: str) -> Iterator[Found]:
    """User data as text in an object that no table knows: launch templates and the like."""
    waiting = deque([root])
    while waiting:
        part = waiting.popleft()
        if isinstance(part.value, Mapping):
            waiting += [part.at(key) for key in part.value]
        elif isinstance(part.value, list):
            waiting += [part.at(i) for i in range(len(part.value))]
        elif isinstance(part.value, str):
            text = userdata.plain_text(part.value)
            first = (part.document.line(part.steps) or 1) + (text is part.value)
            piece = TextPiece(text if "\n" in text and CARRIERS.search(text) else "", first)
            for one in _in_user_data(piece, part.document.file):
                yield replace(one, inside=inside or str(part.steps[-1]))


# --- files of a machine -----------------------------------------------------------------------


def _in_files(part: Part, inside: str) -> Iterator[Found]:
    """Files that are written when the machine is set up: configurations, patches, drop-ins, flags."""
    found: list[Found] = []
    for file in part.items("a list of files") if isinstance(part.value, list) else ():
        piece = _content(file)
        if piece is not None:
            found += [replace(one, inside=inside) for one in _file(piece, part.document.file)]
    yield from sorted(found, key=lambda one: (one.part is None, bool(one.over)))


def _content(file: Part) -> TextPiece | None:
    """The content of a file: plain or packed text (cloud-init, Cluster API), or a URL (ignition)."""
    path = file.at("path").value
    for way in (("content",), ("contents", "inline"), ("contents",)):
        part = file.at(*way)
        if isinstance(part.value, str):
            encoding = file.at("encoding").value
            packed = isinstance(encoding, str) and encoding.lower() not in ("", "text/plain")
            text = userdata.unpacked(part.value, str(encoding) if packed else "")
            break
    else:
        part = file.at("contents", "source")
        if not isinstance(part.value, str):
            return None
        packed, text = True, userdata.from_data_url(part.value, str(file.at("contents", "compression").value))
    if not isinstance(path, str) or not _of_kubelet(path, text or ""):
        return None
    if text is None:
        raise part.error("cannot be unpacked", "give the text of the file itself")
    first = (part.document.line(part.steps) or 1) + (not packed and "\n" in text)
    return TextPiece(text, first, path, packed)


def _of_kubelet(path: str, text: str) -> bool:
    return CONFIGURATION in text or PATCH.search(path) is not None or FLAG_FILE.search(path) is not None


def _file(piece: TextPiece, file: str) -> Iterator[Found]:
    """What a file of a machine says to its kubelet, by its name and content."""
    if PATCH.search(piece.path):
        for one in _documents(piece, file):
            if isinstance(one.value, Mapping):
                yield Found(None, over=(native.as_document(one.root),))
    elif FLAG_FILE.search(piece.path):
        flags = [flag for flag in read_flags(piece.text) if "$" not in (flag.value or "")]
        if flags and is_flags(piece.text):
            yield Found(None, tuple(replace(flag, line=piece.line - 1 + flag.line) for flag in flags))
    elif CONFIGURATION in piece.text:
        for one in _documents(piece, file):
            if isinstance(one.value, Mapping) and one.value.get("kind") == CONFIGURATION:
                drop_in = piece.path.endswith(".conf") and re.search(r"\.d/[^/]*$", piece.path)
                yield Found(None, over=(one,)) if drop_in else Found(one.root)


def _in_units(part: Part, inside: str) -> Iterator[Found]:
    """Units of systemd that start the kubelet, and their drop-ins."""
    for unit in part.items() if isinstance(part.value, list) else ():
        name = unit.at("name").value
        if not isinstance(name, str) or not name.startswith("kubelet.service"):
            continue
        texts = [unit.at("contents"), *(one.at("contents") for one in unit.at("dropins").items())]
        for text in texts:
            if isinstance(text.value, str):
                line = (text.document.line(text.steps) or 1) + 1
                for one in _file(TextPiece(text.value, line, name), part.document.file):
                    yield replace(one, inside=inside)


# --- objects that are not known ---------------------------------------------------------------


def _fragments(root: Part) -> Iterator[Part]:
    """Mappings anywhere inside that have fields of the managers (rule 2)."""
    waiting = deque([root])
    while waiting:
        part = waiting.popleft()
        if isinstance(part.value, Mapping):
            if any(_is_field(key, value) for key, value in part.value.items()):
                yield part
            else:
                waiting += [part.at(key) for key in part.value]
        elif isinstance(part.value, list):
            waiting += [part.at(i) for i in range(len(part.value))]


def _is_field(key: str, value: object) -> bool:
    """A field of the managers with a value of its type; tables of names and schemas have others."""
    if key in ("cpuManagerPolicy", "topologyManagerPolicy", "memoryManagerPolicy"):
        return isinstance(value, str) and re.fullmatch(r"[A-Za-z-]+", value) is not None
    return False

"""Where a kubelet configuration is found: in a file of its own, or inside what other tools keep it in.

Rules kept here:

1. A ``KubeletConfiguration`` is one by its kind; beside it in the same file may stand other kinds of kubeadm.
2. Inside another object it is looked for where that kind keeps it (``PLACES``): a mapping, a text of YAML, or
   flags.  Line numbers stay those of the file.
3. An object that no table knows is searched for mappings with fields of the managers; those are fragments, of
   which only the known fields count.
4. A mapping without kind is taken for the configuration itself when its keys say so.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache

from numawise.codec.document import Document, Part, read_documents
from numawise.codec.kubelet.config import GROUP
from numawise.codec.kubelet.config import KIND as CONFIGURATION
from numawise.codec.kubelet.fields import configuration_of
from numawise.codec.kubelet.flags import Flag, flags_of
from numawise.errors import InputError
from numawise.rules.versions import NEWEST
from numawise.values import dataclass, replace

Path = tuple[str, ...]

MAPPING, TEXT, NAMED, LISTED = "mapping", "text", "named flags", "listed flags"
EACH = "*"
PLACES: tuple[tuple[str, Path, str], ...] = (
    # kind, way to it ('*': every member), what is found there
    ("KubeletConfig",        ("spec", "kubeletConfig"), MAPPING),
    ("Cluster",              ("kubeadmConfigPatches", EACH), TEXT),
    ("Cluster",              ("nodes", EACH, "kubeadmConfigPatches", EACH), TEXT),
    ("ConfigMap",            ("data", EACH), TEXT),
    ("NodeConfig",           ("spec", "kubelet", "config"), MAPPING),
    ("NodeConfig",           ("spec", "kubelet", "flags"), LISTED),
    ("InitConfiguration",    ("nodeRegistration", "kubeletExtraArgs"), NAMED),
    ("JoinConfiguration",    ("nodeRegistration", "kubeletExtraArgs"), NAMED),
    ("",                     ("kubeletconfig",), MAPPING),
    ("",                     ("kubelet",), MAPPING),
    ("",                     ("machine", "kubelet", "extraConfig"), MAPPING),
    ("",                     ("machine", "kubelet", "extraArgs"), NAMED),
    ("",                     ("kubelet-arg",), LISTED),
    ("",                     ("kubelet-arg+",), LISTED),
)  # fmt: skip
TELLING = frozenset({
    "cpuManagerPolicy", "cpuManagerPolicyOptions", "topologyManagerPolicy", "topologyManagerScope",
    "topologyManagerPolicyOptions", "memoryManagerPolicy", "reservedMemory", "reservedSystemCPUs",
    "kubeReserved", "systemReserved", "evictionHard",
})  # fmt: skip
"""Fields that give a configuration away."""
ENOUGH = 0.5
"""So large a part of a mapping's keys must be fields for it to be taken for a configuration."""


@dataclass(frozen=True, slots=True)
class Found:
    """A kubelet configuration, or flags, inside a document."""

    part: Part | None
    """The mapping with the fields; None: there are only flags."""
    flags: tuple[Flag, ...] = ()
    inside: str = ""
    """The kind of object it was found in; '' when it stands alone."""
    fragment: bool = False
    """Only some fields, among things that are none (rule 3)."""
    misplaced: str = ""
    """Where the fields belong in such an object, when they are not there."""


def kubelet_configurations(document: Document) -> tuple[Found, ...]:
    """The configurations in a document, in order; none at all when it has nothing to do with a kubelet."""
    root = document.root
    if not isinstance(document.value, Mapping):
        return ()
    kind, version = document.value.get("kind"), document.value.get("apiVersion")
    if kind == CONFIGURATION or (isinstance(version, str) and version.startswith(f"{GROUP}/")):
        return (Found(root),)
    found = tuple(_known(root, kind if isinstance(kind, str) else ""))
    if found:
        return found
    if _looks_like_one(document.value):
        misplaced = next((".".join(way) for one, way, what in PLACES if one == kind and what == MAPPING), "")
        return (Found(root, inside=str(kind or ""), misplaced=misplaced),)
    return tuple(Found(part, inside=str(kind or ""), fragment=True) for part in _fragments(root))


def _known(root: Part, kind: str) -> Iterator[Found]:
    for wanted, way, what in PLACES:
        if wanted != kind:
            continue
        for part in _ways(root, way):
            if what == TEXT:
                yield from _in_text(part, kind)
            elif what == MAPPING:
                if isinstance(part.value, Mapping) and (kind or _looks_like_one(part.value)):
                    yield Found(part, inside=kind or way[0])
            elif flags := _flags(part, what):
                yield Found(None, flags, inside=kind or way[0])


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


def _in_text(part: Part, kind: str) -> Iterator[Found]:
    """Configurations written as text inside another document, with the lines of that."""
    if not isinstance(part.value, str) or CONFIGURATION not in part.value:
        return
    document = part.document
    first = document.line(part.steps) or 1
    try:
        inner = read_documents(part.value, document.file)
    except InputError as problem:
        line = first + (problem.line or 0)
        raise InputError(problem.message, file=document.file, line=line, advice=problem.advice) from None
    for one in inner:
        if isinstance(one.value, Mapping) and one.value.get("kind") == CONFIGURATION:
            yield Found(replace(one, first_line=first + 1).root, inside=kind)


def _flags(part: Part, what: str) -> tuple[Flag, ...]:
    """Flags as a mapping, as a list of ``name=value``, or as a list of names and values."""
    if isinstance(part.value, Mapping):
        return flags_of(part.value.items(), lambda name: part.document.line((*part.steps, name)))
    pairs: list[tuple[str, object]] = []
    for one in part.value if isinstance(part.value, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("name"), str):
            pairs.append((one["name"], one.get("value")))
        elif isinstance(one, str) and what == LISTED:
            name, equals, value = one.partition("=")
            pairs.append((name, value if equals else None))
    lines = iter(range(len(pairs)))
    return flags_of(pairs, lambda _: part.document.line((*part.steps, next(lines))))


@cache
def _fields() -> frozenset[str]:
    return frozenset(configuration_of(NEWEST).fields)


def _looks_like_one(value: Mapping[str, object]) -> bool:
    known = [key for key in value if key in _fields() - {"kind", "apiVersion"}]
    others = [key for key in value if key not in (*known, "kind", "apiVersion", "metadata")]
    return bool(TELLING & set(known)) and len(known) >= ENOUGH * (len(known) + len(others))


def _fragments(root: Part) -> Iterator[Part]:
    """Mappings anywhere inside that have fields of the managers (rule 3)."""
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

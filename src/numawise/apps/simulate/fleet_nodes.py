"""Where many nodes come from: ``machine:count``, folders, bundles, or a file that lists them.

Rules kept here:

1. ``WORDS:COUNT`` gives so many equal nodes: a machine file, a name of the catalogue or a description.
2. A folder with a machine file is a node; so is a bundle.  Any other folder is a folder of nodes, by name.
3. A file lists nodes with ``machine``, ``kubelet``, ``state``, ``bundle``, ``name`` and ``count``; paths are
   relative to it.  What a node lacks comes from the command line.
4. Files that several nodes name are read once, and equal nodes are started once.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from numawise.apps.why.files import MACHINE, node_files
from numawise.codec.document import Part, read_file
from numawise.errors import InputError
from numawise.inputs.bundle import is_bundle
from numawise.inputs.node import Named, booted, source_of
from numawise.machine.catalog import CATALOG
from numawise.machine.synthetic import is_synthetic
from numawise.node.node import Node
from numawise.rules.versions import Version

COUNTED = re.compile(r"(.+):(\d+)", re.ASCII)
NOT_A_NAME = re.compile(r"[^A-Za-z0-9.-]+")
FIELDS = ("name", "machine", "kubelet", "state", "bundle", "count")
MOST_NODES = 20_000


@dataclass(frozen=True, slots=True)
class Group:
    """So many equal nodes."""

    name: str
    named: Named
    count: int = 1
    numbered: bool = False
    """Their names end in a number, even if it is one alone."""


def groups_of(
    texts: Sequence[str], given: Named, say: Callable[[str], None] = lambda _: None
) -> list[tuple[tuple[str, ...], Node, Version]]:
    """Every group of nodes with their names, and a kubelet that was started for all of them.

    ``say`` is told what a person should know about a release or a state file.
    """
    groups = [group for text in texts for group in _groups(text, given)]
    total = sum(group.count for group in groups)
    if total > MOST_NODES:
        raise InputError(f"{total} nodes are too many", field="--nodes", advice=f"at most {MOST_NODES}")
    taken: set[str] = set()
    started: dict[Named, tuple[Node, Version]] = {}
    found = []
    for group in groups:
        if group.named not in started:
            source = source_of(group.named)
            started[group.named] = node, _ = booted(source), source.version
            if source.remark:
                say(source.remark)
            if node.files.forgotten:
                say(f"warning: {source.state_place}: {node.files.forgotten}")
        node, version = started[group.named]
        found.append((_names(group, taken), replace(node), version))
    return found


def _names(group: Group, taken: set[str]) -> tuple[str, ...]:
    many = group.count > 1 or group.numbered
    names = [f"{group.name}-{number}" for number in range(group.count)] if many else [group.name]
    for name in names:
        if name in taken:
            advice = "give each node a name of its own"
            raise InputError(f"two nodes are named {name!r}", field="--nodes", advice=advice)
        taken.add(name)
    return tuple(names)


def _groups(text: str, given: Named) -> Iterator[Group]:
    path = Path(text)
    if not path.exists():
        yield _counted(text, given)
    elif is_bundle(text):
        yield Group(_plain(path), replace(given, machine=None, bundle=text))
    elif path.is_dir():
        yield from _folder(path, given)
    else:
        yield from _file(text, given)


def _counted(text: str, given: Named) -> Group:
    found = COUNTED.fullmatch(text)
    machine, count = (found[1], int(found[2])) if found else (text, 1)
    if not Path(machine).exists() and machine not in CATALOG and not is_synthetic(machine):
        advice = "give a file, a folder, a bundle, or a machine with a count, such as dgx-h100:40"
        raise InputError(f"{text!r} is neither a file nor a machine", field="--nodes", advice=advice)
    if not count:
        raise InputError(f"{text!r} gives no nodes", field="--nodes", advice="count at least one")
    path = Path(machine)
    name = (path.resolve().parent.name if path.stem == "machine" else path.stem) if path.exists() else machine
    return Group(NOT_A_NAME.sub("-", name), replace(given, machine=machine), count, numbered=True)


def _folder(path: Path, given: Named) -> Iterator[Group]:
    """Rule 2."""
    if any((path / name).is_file() for name in MACHINE):
        yield _node_folder(path, given)
        return
    inside = sorted(one for one in path.iterdir() if _is_node(one))
    if not inside:
        advice = "expected folders with machine.yaml and kubelet.yaml, or bundles"
        raise InputError("has no nodes", file=str(path), advice=advice)
    for one in inside:
        if is_bundle(str(one)):
            yield Group(_plain(one), replace(given, machine=None, bundle=str(one)))
        else:
            yield _node_folder(one, given)


def _is_node(path: Path) -> bool:
    return is_bundle(str(path)) or (path.is_dir() and any((path / name).is_file() for name in MACHINE))


def _node_folder(path: Path, given: Named) -> Group:
    try:
        files = node_files(str(path))
    except InputError:
        if given.config is None:
            raise
        machine = next(str(path / name) for name in MACHINE if (path / name).is_file())
        return Group(path.resolve().name, replace(given, machine=machine))
    named = replace(given, machine=files.machine, config=files.config, state=files.state)
    return Group(path.resolve().name, named)


def _file(text: str, given: Named) -> Iterator[Group]:
    """A list of nodes; a machine file is one node."""
    documents = read_file(text)
    root = documents[0].root
    if len(documents) > 1:
        raise documents[1].error((), "nodes are listed in one document")
    if isinstance(root.value, dict) and {"cpus", "numa"} <= set(root.value):
        yield _counted(text, given)
        return
    if isinstance(root.value, dict):
        root.mapping(("apiVersion", "kind", "nodes"))
        root = root.at("nodes")
    parts = root.items("a list of nodes")
    if not parts:
        raise root.error("lists no nodes", f"give each {', '.join(FIELDS[:3])}")
    for number, part in enumerate(parts):
        yield _listed(part, number, Path(text).parent, given)


def _listed(part: Part, number: int, folder: Path, given: Named) -> Group:
    part.mapping(FIELDS, "a node, such as {name: a, machine: machine.yaml}")
    count = part.at("count")
    many = 1 if count.value is None else count.integer(1, MOST_NODES)
    name = part.at("name")
    called = f"node-{number}" if name.value is None else name.text()
    named = given
    for key in ("machine", "kubelet", "state", "bundle"):
        one = part.at(key)
        if one.value is None:
            continue
        path = folder / one.text()
        known = key == "machine" and (one.text() in CATALOG or is_synthetic(one.text()))
        if not path.exists() and not known:
            raise one.error(f"there is no {path}", "paths are relative to this file")
        value = one.text() if known and not path.exists() else str(path)
        named = replace(named, **{"config" if key == "kubelet" else key: value})
    if named.bundle is None and named.machine is None:
        raise part.at("machine").error("is missing", "give the node a machine, or a bundle")
    if part.at("bundle").value is not None and part.at("machine").value is None:
        named = replace(named, machine=None)
    return Group(called, named, many, numbered=count.value is not None)


def _plain(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")

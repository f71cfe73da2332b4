"""Where many nodes come from: ``machine:count``, folders, bundles, published objects, a file that lists them.

Rules kept here:

1. ``MACHINE:COUNT`` gives so many equal nodes of a machine in any form.
2. A folder with a machine file or a ``/sys`` is a node; so is a bundle.  Any other folder is a folder of
   nodes, by name.
3. A file lists nodes with ``machine``, ``kubelet``, ``state``, ``node``, ``bundle``, ``name``, ``count``;
   paths are relative to it.  What a node lacks comes from the command line.
4. Files that several nodes name are read once, and equal nodes are started once.
5. A file with NodeResourceTopologies is a node for each, by its name; those with the exact state of their
   node are what their kubelets are now.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from numawise.codec.bundle.archive import is_bundle
from numawise.codec.document import Part, read_file
from numawise.codec.hardware.nrt import is_topology, topologies_of
from numawise.codec.infile import is_file, is_folder, is_there, members
from numawise.errors import InputError, quoted
from numawise.inputs.machine import MACHINE_FILES, is_name, topology_machine
from numawise.inputs.nodefolder import folder_spec
from numawise.inputs.spec import NodeSpec, read_node, start_node
from numawise.node.node import SimulatedNode
from numawise.node.publication import published_node
from numawise.strconv import whole_number
from numawise.values import dataclass, replace

COUNTED = re.compile(r"(.+):(\d+)", re.ASCII)
NOT_A_NAME = re.compile(r"[^A-Za-z0-9.-]+")
FIELDS = ("name", "machine", "kubelet", "state", "node", "device_plugin", "bundle", "count")
MOST_NODES = 20_000


@dataclass(frozen=True, slots=True)
class Group:
    """So many equal nodes."""

    name: str
    named: NodeSpec
    count: int = 1
    numbered: bool = False
    """Their names end in a number, even if it is one alone."""
    published: Part | None = None
    """The object that is the node (rule 5)."""


def groups_of(
    texts: Sequence[str], given: NodeSpec, say: Callable[[str], None] = lambda _: None
) -> list[tuple[tuple[str, ...], SimulatedNode]]:
    """Every group of nodes with their names, and a kubelet that was started for all of them.

    ``say`` is called with what a person should know about a release or a state file.
    """
    groups = [group for text in texts for group in _groups(text, given)]
    total = sum(group.count for group in groups)
    if total > MOST_NODES:
        raise InputError(f"{total} nodes are too many", field="--nodes", advice=f"at most {MOST_NODES}")
    taken: set[str] = set()
    started: dict[NodeSpec, SimulatedNode] = {}
    found = []
    for group in groups:
        if group.published is not None:
            found.append((_names(group, taken), _published(group.published, group.named, say)))
            continue
        if group.named not in started:
            try:
                source = read_node(group.named)
            except InputError as problem:
                if problem.field == "--machine":
                    problem.field = "--nodes"  # as it was typed
                raise
            for remark in source.remarks_of_start:
                say(remark)
            started[group.named] = node = start_node(source)
            if node.files.forgotten:
                say(f"warning: {source.state_place}: {node.files.forgotten}")
        node = started[group.named]
        found.append((_names(group, taken), replace(node)))
    return found


def _published(part: Part, given: NodeSpec, say: Callable[[str], None]) -> SimulatedNode:
    """The node of a published object (rule 5)."""
    machine = topology_machine(part)
    beside = given.has_config or given.kube or given.device_plugin_config or given.state
    if machine.publication is not None and not beside:
        for sentence in machine.publication.missing:
            say(f"{machine.node}: {sentence}")
        return published_node(machine.publication)
    source = read_node(replace(given, machine=machine, node_name=machine.node))
    for remark in source.remarks_of_start:
        say(remark)
    return start_node(source)


def _names(group: Group, taken: set[str]) -> tuple[str, ...]:
    many = group.count > 1 or group.numbered
    names = [f"{group.name}-{number}" for number in range(group.count)] if many else [group.name]
    for name in names:
        if name in taken:
            advice = "give each node a name of its own"
            raise InputError(f"two nodes are named {quoted(name)}", field="--nodes", advice=advice)
        taken.add(name)
    return tuple(names)


def _groups(text: str, given: NodeSpec) -> Iterator[Group]:
    path = Path(text)
    if not is_there(path):
        yield _counted(text, given)
    elif is_bundle(text):
        yield Group(_plain(path), folder_spec(text, given))
    elif is_folder(path):
        yield from _folder(path, given)
    else:
        yield from _file(text, given)


def _counted(text: str, given: NodeSpec) -> Group:
    found = COUNTED.fullmatch(text) if not is_there(text) else None
    machine, count = (found[1], whole_number(found[2])) if found else (text, 1)
    if not count:
        raise InputError(f"{quoted(text)} gives no nodes", field="--nodes", advice="count at least one")
    path = Path(machine)
    name = (
        (path.resolve().parent.name if path.stem == "machine" else path.stem) if is_there(path) else machine
    )
    return Group(NOT_A_NAME.sub("-", name), replace(given, machine=(machine,)), count, numbered=True)


def _folder(path: Path, given: NodeSpec) -> Iterator[Group]:
    """Rule 2."""
    if any(is_file(path / name) for name in MACHINE_FILES):
        yield _node_folder(path, given)
        return
    if is_folder(path / "sys"):
        yield _counted(str(path), given)
        return
    inside = [one for one in members(path) if _is_node(one)]
    if not inside:
        advice = "expected folders with machine.yaml and kubelet.yaml, or bundles"
        raise InputError("has no nodes", file=str(path), advice=advice)
    for one in inside:
        if is_bundle(str(one)):
            yield Group(_plain(one), folder_spec(str(one), given))
        else:
            yield _node_folder(one, given)


def _is_node(path: Path) -> bool:
    return is_bundle(str(path)) or (is_folder(path) and any(is_file(path / name) for name in MACHINE_FILES))


def _node_folder(path: Path, given: NodeSpec) -> Group:
    return Group(path.resolve().name, folder_spec(str(path), given))


def _file(text: str, given: NodeSpec) -> Iterator[Group]:
    """A list of nodes; any other file is the machine of one node."""
    try:
        documents = read_file(text)
    except InputError:
        documents = ()
    root = documents[0].root if documents else None
    if root is not None and len(documents) == 1 and is_topology(root.value):
        for number, part in enumerate(topologies_of(root)):
            name = part.at("metadata", "name").value
            yield Group(name if isinstance(name, str) and name else f"node-{number}", given, published=part)
        return
    if root is None or not (
        isinstance(root.value, list) or (isinstance(root.value, dict) and "nodes" in root.value)
    ):
        yield _counted(text, given)
        return
    if len(documents) > 1:
        raise documents[1].error((), "nodes are listed in one document")
    if isinstance(root.value, dict):
        root.mapping(("apiVersion", "kind", "nodes"))
        root = root.at("nodes")
    parts = root.items("a list of nodes")
    if not parts:
        raise root.error("lists no nodes", f"give each {', '.join(FIELDS[:3])}")
    for number, part in enumerate(parts):
        yield _listed(part, number, Path(text).parent, given)


def _listed(part: Part, number: int, folder: Path, given: NodeSpec) -> Group:
    part.mapping(FIELDS, "a node, such as {name: a, machine: machine.yaml}")
    count = part.at("count")
    many = 1 if count.value is None else count.integer(1, MOST_NODES)
    name = part.at("name")
    called = f"node-{number}" if name.value is None else name.text()
    named = given
    for key in ("machine", "kubelet", "state", "node", "device_plugin", "bundle"):
        one = part.at(key)
        if one.value is None:
            continue
        path = folder / one.text()
        known = key == "machine" and is_name(one.text())
        if not is_there(path) and not known:
            raise one.error(f"there is no file {quoted(str(path))}", "paths are relative to this file")
        value = one.text() if known and not is_there(path) else str(path)
        named = _with(named, key, value)
    if not named.bundle and not named.machine:
        raise part.at("machine").error("is missing", "give the node a machine, or a bundle")
    if part.at("bundle").value is not None and part.at("machine").value is None:
        named = replace(named, machine=())
    return Group(called, named, many, numbered=count.value is not None)


def _with(named: NodeSpec, key: str, value: str) -> NodeSpec:
    if key == "machine":
        return replace(named, machine=(value,))
    if key == "kubelet":
        return replace(named, kubelet_config=(value,))
    if key == "node":
        return replace(named, node_object=value)
    if key == "device_plugin":
        return replace(named, device_plugin_config=value)
    return replace(named, state=(value,)) if key == "state" else replace(named, bundle=value)


def _plain(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")

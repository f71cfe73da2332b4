"""What a server shows when it is started: the node that was named, or this host with its kubelet."""

from pathlib import Path

from numawise.codec.infile import is_folder
from numawise.errors import InputError, quoted
from numawise.inputs.gathered import NodeSources, Notes
from numawise.inputs.kubelet import kubelet_parts
from numawise.inputs.machine import THIS
from numawise.inputs.spec import NodeSpec, read_node
from numawise.values import replace
from numawise.web.desk import Served


def served_by(spec: NodeSpec, root: str = "") -> Served:
    """What is shown; ``root``: where the root of the host is; ``InputError``: that cannot be read."""
    if spec != NodeSpec():
        return _named(spec, root)
    if root and not is_folder(root):
        raise InputError(
            f"{quoted(root)} is not a folder", field="--root", advice="give the one that stands for /"
        )
    sources = NodeSources(root=Path(root) if root and Path(root) != Path("/") else None)
    parts = kubelet_parts(sources, Notes())
    if parts.running is not None or parts.base is not None:
        return Served(spec, kubelet=sources, host=sources.root is None)
    return Served(replace(spec, machine=(root or THIS,)), host=sources.root is None)


def _named(spec: NodeSpec, root: str) -> Served:
    if root:
        advice = "leave out --root, or what was named of the node"
        raise InputError("a node was named beside it", field="--root", advice=advice)
    if not spec.machine and not spec.bundle:
        spec = replace(spec, machine=(THIS,))
    read_node(spec)
    return Served(spec, host=spec.machine == (THIS,))

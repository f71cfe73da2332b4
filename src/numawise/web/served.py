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


def served_by(spec: NodeSpec, root: str = "", *, host: bool = True) -> Served:
    """What is shown; ``root``: where the root of the host is; ``InputError``: that cannot be read.

    ``host``: this host is shown where no node is named.
    """
    if not host and root:
        raise InputError("nothing of a host is shown", field="--no-host", advice="leave out --root, or it")
    if spec != NodeSpec():
        return _named(spec, root, host=host)
    if not host:
        return Served(host=False, this=False)
    if root and not is_folder(root):
        raise InputError(
            f"{quoted(root)} is not a folder", field="--root", advice="give the one that stands for /"
        )
    sources = NodeSources(root=Path(root) if root and Path(root) != Path("/") else None)
    parts = kubelet_parts(sources, Notes())
    if parts.running is not None or parts.base is not None:
        return Served(spec, kubelet=sources, host=sources.root is None)
    return Served(replace(spec, machine=(root or THIS,)), host=sources.root is None)


def _named(spec: NodeSpec, root: str, *, host: bool) -> Served:
    if root:
        advice = "leave out --root, or what was named of the node"
        raise InputError("a node was named beside it", field="--root", advice=advice)
    if not spec.machine and not spec.bundle:
        spec = replace(spec, machine=(THIS,))
    if not host and spec.machine == (THIS,):
        advice = "name another machine, or leave it out"
        raise InputError("the machine would be this host's", field="--no-host", advice=advice)
    read_node(spec)
    return Served(spec, named=True, host=host and spec.machine == (THIS,), this=host)

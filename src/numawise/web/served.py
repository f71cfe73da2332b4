"""What a server shows when it is started: the node that was named, or this host."""

from numawise.inputs.machine import THIS
from numawise.inputs.spec import NodeSpec, read_node
from numawise.values import replace
from numawise.web.desk import Served


def served_by(spec: NodeSpec) -> Served:
    """What is shown; ``InputError``: what was named cannot be read."""
    if spec == NodeSpec():
        return Served(NodeSpec(machine=(THIS,)))
    if not spec.machine and not spec.bundle:
        spec = replace(spec, machine=(THIS,))
    read_node(spec)
    return Served(spec, host=spec.machine == (THIS,))

"""The map of a node that was read: what its kubelet would find, or what its files say."""

from contextlib import suppress

from numawise.errors import InputError, KubeletRefused
from numawise.inputs.spec import NodeInput, start_node
from numawise.render.held_map import MapSource, map_of_files, map_of_node, with_offered
from numawise.values import replace


def node_map(node: NodeInput) -> MapSource:
    """Who has what: by the kubelet where its configuration is known, else by its state files alone."""
    hardware = node.hardware
    if node.name:
        remarks = [replace(one, place="") if one.place == hardware.name else one for one in hardware.remarks]
        hardware = replace(hardware, name=node.name, remarks=tuple(remarks))
    names = {pod.uid: f"{pod.namespace}/{pod.name}" for pod in node.running if pod.uid}
    refused: tuple[str, ...] = ()
    if node.has_config:
        try:
            return map_of_node(start_node(node), names, hardware=hardware)
        except KubeletRefused as refusal:
            refused = (str(refusal),)
    if node.state is None:
        return MapSource(hardware, notices=refused)
    with suppress(InputError):  # hardware of which too little is known for a kubelet is drawn as it is
        hardware = with_offered(hardware, node.machine)
    return replace(map_of_files(hardware, node.state, names), notices=refused)

"""The map of a node that was read: what its kubelet would find, or what its files say."""

from numawise.errors import KubeletRefused
from numawise.inputs.spec import NodeInput, start_node
from numawise.machine.hardware import GPU, Hardware, hardware_of
from numawise.render.held_map import MapSource, map_of_files, map_of_node
from numawise.values import replace


def node_map(node: NodeInput) -> MapSource:
    """Who has what: by the kubelet where its configuration is known, else by its state files alone."""
    hardware = _with_plugins(node)
    if node.name:
        remarks = [replace(one, place="") if one.place == hardware.name else one for one in hardware.remarks]
        hardware = replace(hardware, name=node.name, remarks=tuple(remarks))
    names = {pod.uid: f"{pod.namespace}/{pod.name}" for pod in node.running if pod.uid}
    refused: tuple[str, ...] = ()
    if node.has_config:
        try:
            return map_of_node(start_node(node), names, hardware=hardware)
        except KubeletRefused as refusal:
            refused = (f"the kubelet does not start: {refusal}",)
    if node.state is None:
        return MapSource(hardware, notices=refused)
    return replace(map_of_files(hardware, node.state, names), notices=refused)


def _with_plugins(node: NodeInput) -> Hardware:
    """The hardware, with the GPUs that device plugins offer where it shows none itself."""
    hardware = node.hardware
    if hardware.gpus or any(device.kind == GPU for device in hardware.pci):
        return hardware
    return replace(hardware, gpus=hardware_of(node.machine).gpus)

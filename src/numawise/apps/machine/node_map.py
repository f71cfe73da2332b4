"""The map of a node that was read: what its kubelet would find, or what its files say."""

from collections.abc import Iterator
from contextlib import suppress

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.errors import InputError, KubeletRefused
from numawise.inputs.spec import NodeInput, start_node
from numawise.machine.hardware import Hardware
from numawise.node.state.lint import damage
from numawise.render.held_map import CPUS, DEVICES, MapSource, map_of_files, map_of_node, with_offered
from numawise.values import replace

HOW_MUCH = "A NodeResourceTopology says how much is in use, not which CPUs and devices"


def node_map(node: NodeInput) -> MapSource:
    """Who has what: by the kubelet where its configuration is known, else by its state files alone."""
    hardware = node.hardware
    if node.name:
        remarks = [replace(one, place="") if one.place == hardware.name else one for one in hardware.remarks]
        hardware = replace(hardware, name=node.name, remarks=tuple(remarks))
    names = {pod.uid: f"{pod.namespace}/{pod.name}" for pod in node.running if pod.uid}
    named = tuple(f"{one.sentence}." for one in node.unmatched)
    lost = any(one.decides for one in node.unmatched)
    refused = named
    if node.has_config:
        try:
            if not lost:
                drawn = map_of_node(start_node(node), names, hardware=hardware)
                return replace(drawn, notices=(*named, *_not_taken(node)))
        except KubeletRefused as refusal:
            refused = (*named, str(refusal))
    if node.state is None:
        if node.published is None:
            return MapSource(hardware, notices=refused)
        return MapSource(hardware, notices=(*refused, f"{HOW_MUCH}."), unknown=(CPUS, DEVICES))
    with suppress(InputError):  # hardware of which too little is known for a kubelet is drawn as it is
        hardware = with_offered(hardware, node.machine)
    drawn = map_of_files(hardware, node.state, names)
    unknown = tuple(dict.fromkeys((*drawn.unknown, DEVICES))) if lost else drawn.unknown
    notices = (*refused, *_damaged(node, hardware, "".join(refused)))
    return replace(drawn, unknown=unknown, notices=notices)


def _not_taken(node: NodeInput) -> Iterator[str]:
    """What a kubelet that started does not know: the record of devices is the one file it does without."""
    if node.published is not None:
        yield f"{HOW_MUCH}: as much as is in use is drawn."
    file = node.state.file(DEVICE_FILE) if node.state is not None else None
    if file is not None:
        for one in damage(file, node.version):
            yield f"{file.name}: {one.message}. {one.why}"


def _damaged(node: NodeInput, hardware: Hardware, said: str) -> Iterator[str]:
    """What is wrong with the files themselves, where that is not said yet, and what is not known then."""
    folder = node.state
    assert folder is not None
    for name, what in ((CPU_FILE, "CPUs"), (MEMORY_FILE, "memory"), (DEVICE_FILE, "devices")):
        file, unknown = folder.file(name), f"who has {what} is not known"
        if file is None:
            needed = name == CPU_FILE or (name == DEVICE_FILE and (hardware.gpus or hardware.pci))
            if needed:
                yield f"there is no {name}: {unknown}"
            continue
        told = [] if name in said else [one.message for one in damage(file, node.version)]
        if not folder.tells(name):
            told.append(unknown)
        if told:
            yield f"{name}: {'; '.join(told)}"

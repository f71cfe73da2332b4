"""A node in a folder: its parts by the names of files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from numawise.codec.bundle.archive import is_bundle
from numawise.codec.infile import is_file, is_folder, is_there
from numawise.errors import InputError
from numawise.inputs.config import ConfigInput
from numawise.inputs.machine import MACHINE_FILES
from numawise.inputs.spec import NodeSpec
from numawise.values import replace

CONFIG_FILES = ("kubelet.yaml", "kubelet.yml", "kubelet.json", "config.yaml", "config.yml", "config.json")
STATE_FILES = ("cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint", "device-plugins")
NODE_FILES = ("node.yaml", "node.yml", "node.json")
PLUGIN_FILES = ("device-plugin.yaml", "device-plugin.yml", "device-plugin.json")


def folder_spec(folder: str, given: NodeSpec | None = None) -> NodeSpec:
    """A node in a folder: machine.yaml, kubelet.yaml, and state files there or below state/; or a bundle.

    ``node.yaml``: its Node object, ``device-plugin.yaml``: the configuration of its device plugin, where
    there are any.
    """
    given = given or NodeSpec()
    if is_bundle(folder):
        return replace(given, machine=(), bundle=folder)
    root = Path(folder)
    if not is_folder(root):
        raise InputError("is not a directory", file=folder, advice="give a folder with machine.yaml")
    machine = _first(root, MACHINE_FILES)
    config: tuple[str, ...] | Mapping[str, object] | ConfigInput
    try:
        config = (_first(root, CONFIG_FILES),)
    except InputError:
        if not given.has_config:
            raise
        config = given.kubelet_config
    places = (root, root / "state")
    state = next((str(one) for one in places if any(is_there(one / name) for name in STATE_FILES)), "")
    described = next((str(root / name) for name in NODE_FILES if is_file(root / name)), given.node_object)
    plugin = next(
        (str(root / name) for name in PLUGIN_FILES if is_file(root / name)), given.device_plugin_config
    )
    return replace(
        given,
        machine=(machine,),
        kubelet_config=config,
        node_object=described,
        device_plugin_config=plugin,
        state=(state,) if state else given.state,
    )


def _first(root: Path, names: Sequence[str]) -> str:
    for name in names:
        if is_file(root / name):
            return str(root / name)
    raise InputError(f"has no {names[0]}", file=str(root), advice=f"expected one of {', '.join(names)}")

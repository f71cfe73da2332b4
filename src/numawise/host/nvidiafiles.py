"""NVIDIA's GPUs as their driver lists them in ``/proc``: readable without NVML, also below another root."""

import re
from pathlib import Path

from numawise.host.files import Tree
from numawise.machine.places import short_address

GPUS = "proc/driver/nvidia/gpus"
UUID = re.compile(
    r"^GPU UUID:\s*GPU-([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\s*$", re.MULTILINE
)


def nvidia_uuids(root: Path) -> dict[str, str]:
    """UUID of a GPU → its PCI address; those that the driver has not looked at yet are left out."""
    tree = Tree(root)
    found = {}
    for address in sorted(tree.names(GPUS)):
        told = UUID.search(tree.text(f"{GPUS}/{address}/information") or "")
        if told:
            found[told[1].lower()] = short_address(address)
    return found

"""Small ``/sys`` and ``/proc`` trees, written as tables of path and text."""

import os
from collections.abc import Mapping
from pathlib import Path

from numawise.host.discover import read_hardware
from numawise.machine.hardware import Hardware

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
PCI = "sys/bus/pci/devices"


def two_cpus() -> dict[str, str | bytes]:
    """Two CPUs of one core each, with a common L3, in one NUMA node."""
    tree: dict[str, str | bytes] = {
        f"{CPU}/online": "0-1",
        f"{NODE}/node0/cpulist": "0-1",
        f"{NODE}/node0/cpumap": "00000000,00000003",
        f"{NODE}/node0/meminfo": "Node 0 MemTotal:       1024 kB\nNode 0 MemFree:  1 kB",
        f"{NODE}/node0/distance": "10",
        f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages": "7",
        f"{NODE}/node0/hugepages/hugepages-1048576kB/nr_hugepages": "1",
        "proc/meminfo": "MemTotal:       1000 kB\nMemFree:  1 kB",
    }
    for cpu in (0, 1):
        tree |= {
            f"{CPU}/cpu{cpu}/topology/core_id": f"{cpu}",
            f"{CPU}/cpu{cpu}/topology/physical_package_id": "0",
            f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{cpu}",
            f"{CPU}/cpu{cpu}/cache/index0/level": "1",
            f"{CPU}/cpu{cpu}/cache/index3/level": "3",
            f"{CPU}/cpu{cpu}/cache/index3/type": "Unified",
            f"{CPU}/cpu{cpu}/cache/index3/size": "8192K",
            f"{CPU}/cpu{cpu}/cache/index3/id": "0",
            f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list": "0-1",
        }
    return tree


def grow(root: Path, tree: Mapping[str, str | bytes | None]) -> Path:
    """Write a tree: text gets its newline, ``-> there`` is a link, ``None`` an empty folder."""
    for path, content in tree.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            place.mkdir()
        elif isinstance(content, bytes):
            place.write_bytes(content)
        elif content.startswith("-> "):
            place.symlink_to(content[3:])
        else:
            place.write_text(content + "\n")
    return root


def read(root: Path, tree: Mapping[str, str | bytes | None]) -> Hardware:
    return read_hardware(grow(root, tree))


def remarks(hardware: Hardware) -> list[str]:
    """Each remark as ``kind place``, the beginning of every place cut off."""
    return [
        f"{remark.kind} {remark.place.removeprefix('/sys/devices/system/').removeprefix('/')}"
        for remark in hardware.remarks
    ]


def pipe(root: Path, path: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(root / path)

"""Copies of ``/sys`` and ``/proc`` against ``golden.json``: what the kernel's files say, and what cAdvisor said.

Rules kept here:

1. Every field of the golden ``kernel`` section that a ``Hardware`` has is compared, and each one both ways:
   a CPU, node or device that only one side has is a difference.
2. A field that the golden file leaves out, or has as null, has no file in the tree.  Where ``Hardware`` still
   knows it (a PCI class by ``modalias``), there is nothing to compare.
3. Where there is a ``cadvisor`` section, the machine that the kubelet is told is compared with it.
"""

import contextlib
import json
import os
import posixpath
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numawise.host.discover import read_hardware
from numawise.machine.hardware import Cache, Hardware, MemoryNode, PciDevice, Thread
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Machine
from numawise.sets import bits_of, format_ids, parse_ids

NAME = "sysfs"
Data = dict[str, Any]
BESIDE_THE_POINT = re.compile(
    r"/(acpi_cppc|coherency_line_size|cpufreq|cpuidle|device-tree|hotplug|memory\d+|microcode|msi_irqs"
    r"|number_of_sets|physical_line_partition|power|queues|statistics|thermal_throttle|uevent"
    r"|ways_of_associativity)(/|$)"
)
"""Half of all files, and about other things; leaving them packed saves half the time."""
MEMORY, NEEDED = "/dev/shm", 1 << 30
"""Where memory is a file system, and how many bytes must be free there; a page for each of 100,000 files is 400 MB."""
UNITS = {"Ki": 1, "Mi": 1 << 10, "Gi": 1 << 20, "Ti": 1 << 30}


def cases(folder: Path) -> Iterator[tuple[str, list[str]]]:
    for golden in sorted(folder.glob("*/golden.json")):
        yield golden.parent.name, check(golden.parent)


def check(case: Path) -> list[str]:
    golden = json.loads((case / "golden.json").read_text())
    with unpacked(case, golden) as root:
        hardware = read_hardware(root)
    found = list(differences(golden["kernel"], hardware))
    if golden.get("cadvisor"):
        found += cadvisor_differences(golden["cadvisor"], hardware)
    return found


@contextlib.contextmanager
def unpacked(case: Path, golden: Data) -> Iterator[Path]:
    """The tree of a case in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="numawise-", dir=_scratch()) as scratch:
        with tarfile.open(case / golden["tree"]["file"]) as tree:
            unpack(tree, scratch)
        yield Path(scratch) / golden["tree"]["root"]


def _scratch() -> str | None:
    """Memory where there is enough of it, in which files are made ten times as fast; None: the usual folder."""
    with contextlib.suppress(OSError):
        if os.access(MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY).free > NEEDED:
            return MEMORY
    return None


def unpack(tree: tarfile.TarFile, folder: str) -> None:
    """Write folders, files and links below a folder, and nothing anywhere else.

    Links that lead out are left out, and the rest are made last, so that nothing is written through one.
    The filters of ``tarfile`` are as safe, but take twice the time, which counts with 100,000 files.
    """
    made = {""}
    links: dict[str, str] = {}
    for member in tree:
        name = posixpath.normpath(member.name)
        if name.startswith(("/", "..")) or BESIDE_THE_POINT.search(name):
            continue
        above = name if member.isdir() else posixpath.dirname(name)
        if above not in made:
            made.add(above)
            Path(folder, above).mkdir(parents=True, exist_ok=True)
        if member.issym():
            target = posixpath.normpath(posixpath.join(above, member.linkname))
            if not target.startswith(("/", "..")):
                links[name] = member.linkname
        elif member.isfile() and (content := tree.extractfile(member)):
            Path(folder, name).write_bytes(content.read())
    for name, target in links.items():
        with contextlib.suppress(FileExistsError):
            Path(folder, name).symlink_to(target)


def differences(kernel: Data, hardware: Hardware) -> Iterator[str]:
    online = bits_of(thread.cpu for thread in hardware.threads)
    yield from unequal("online", parse_ids(kernel["online"]), online, format_ids)
    offline = parse_ids(kernel["cpu_dirs"]) & ~parse_ids(kernel["online"])
    yield from unequal("offline", offline, hardware.offline, format_ids)
    for thread in hardware.threads:
        if str(thread.cpu) in kernel["cpus"]:
            yield from _cpu(kernel["cpus"][str(thread.cpu)], thread)
    nodes = {node.id: node for node in hardware.numa}
    yield from unequal("nodes", sorted(map(int, kernel["nodes"])), sorted(nodes))
    for name, node in kernel["nodes"].items():
        if int(name) in nodes:
            yield from _node(node, nodes[int(name)])
    table = kernel.get("distances")
    if table:
        rows = [[distance for _, distance in nodes[node].distances] for node in table["nodes"]]
        yield from unequal("distances", table["rows"], rows)
    yield from unequal("memory", kernel.get("proc_memtotal_bytes"), hardware.memory_capacity)
    functions = {device.address: device for device in hardware.pci}
    yield from unequal("pci", sorted(pci["busid"] for pci in kernel["pci"]), sorted(functions))
    for pci in kernel["pci"]:
        if pci["busid"] in functions:
            yield from _function(pci, functions[pci["busid"]])
    isolated = kernel.get("cpu_isolated")
    if isolated is not None:
        ours = hardware.host.isolated if hardware.host else None
        yield from unequal("isolated", parse_ids(isolated), ours)


def _cpu(golden: Data, thread: Thread) -> Iterator[str]:
    at = f"cpu{thread.cpu}"
    yield from unequal(f"{at} core_id", golden.get("core_id"), thread.core)
    yield from unequal(f"{at} physical_package_id", golden.get("physical_package_id"), thread.socket)
    yield from unequal(f"{at} die_id", golden.get("die_id"), thread.die)
    siblings = parse_ids(golden.get("thread_siblings") or "")
    yield from unequal(f"{at} thread_siblings", siblings, thread.siblings, format_ids)
    for name, cache in (("l2", thread.l2), ("l3", thread.l3)):
        yield from unequal(f"{at} {name}", _cache(golden.get(name)), cache)


def _cache(golden: Data | None) -> Cache | None:
    if golden is None:
        return None
    size = golden["size"]
    return Cache(
        parse_ids(golden["shared"] or ""), int(size.removesuffix("K")) * 1024 if size else None, golden["id"]
    )


def _node(golden: Data, node: MemoryNode) -> Iterator[str]:
    at = f"node{node.id}"
    yield from unequal(f"{at} cpulist", parse_ids(golden["cpulist"] or ""), node.cpus, format_ids)
    yield from unequal(f"{at} MemTotal", golden["memtotal_bytes"], node.memory)
    yield from unequal(
        f"{at} distance", golden["distance"] or [], [distance for _, distance in node.distances]
    )
    theirs = {
        int(size.removesuffix("kB")): pages["nr"] for size, pages in golden.get("hugepages", {}).items()
    }
    ours = {int(size[:-2]) * UNITS[size[-2:]]: pages for size, pages in node.hugepages}
    yield from unequal(f"{at} hugepages", theirs, ours)


def _function(golden: Data, device: PciDevice) -> Iterator[str]:
    at = device.address
    for name, ours in (("vendor", device.vendor), ("device", device.device), ("class", device.class_code)):
        if golden.get(name) is not None:
            yield from unequal(f"{at} {name}", int(golden[name], 16), ours)
    yield from unequal(f"{at} numa_node", golden["numa_node"], device.numa)
    cpus = golden["local_cpus"]
    yield from unequal(f"{at} local_cpus", None if cpus is None else parse_ids(cpus), device.local_cpus)
    yield from unequal(f"{at} driver", golden.get("driver", ""), device.driver)
    yield from unequal(f"{at} upstream", golden["upstream"] or [], list(device.parents))


def cadvisor_differences(golden: Data, hardware: Hardware) -> Iterator[str]:
    machine = kubelet_view(hardware)
    if not isinstance(machine, Machine):
        yield f"no machine: {machine}"
        return
    yield from unequal("num_cores", golden["num_cores"], len(machine.cpus))
    yield from unequal("num_sockets", golden["num_sockets"], len(machine.layout.sockets))
    yield from unequal("memory_capacity", golden["memory_capacity"], machine.capacity)
    theirs = [(node["node_id"], node["memory"]) for node in golden["nodes"]]
    yield from unequal("nodes", theirs, [(numa.id, numa.memory) for numa in machine.numa])
    yield from unequal("cores", sorted(map(_cadvisor_core, golden["cores"])), sorted(_cores(machine)))


def _cadvisor_core(core: Data) -> tuple[Any, ...]:
    uncore = core["uncore"]
    first = uncore[0] if uncore else None
    return (
        core["node"],
        core["socket"],
        core["core"],
        tuple(sorted(core["threads"])),
        first["id"] if isinstance(first, dict) else first,
    )


def _cores(machine: Machine) -> Iterator[tuple[Any, ...]]:
    threads: dict[tuple[int, int, int, int | None], list[int]] = {}
    for cpu in machine.cpus:
        threads.setdefault((cpu.numa, cpu.socket, cpu.core, cpu.uncore_cache), []).append(cpu.cpu)
    for (numa, socket, core, uncore), cpus in threads.items():
        yield numa, socket, core, tuple(sorted(cpus)), uncore


def unequal(place: str, golden: Any, ours: Any, shown: Any = repr) -> Iterator[str]:
    if golden != ours:
        yield f"{place}: golden {shown(golden)}, ours {shown(ours)}"

"""hwloc's XML exports against what hwloc itself says of them: every CPU, NUMA node, device and link."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numawise.codec.hardware.hwloc import COMPUTE, read
from numawise.machine.hardware import Gpu, Hardware, MemoryNode, Thread
from numawise.quantity import Quantity
from numawise.sets import bits_of, format_ids

NAME = "hwloc-xml"
HOST_BRIDGE = re.compile(r"host:([0-9a-f]+):\[([0-9a-f]+)-[0-9a-f]+\]")


def cases(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each case of the folder, and the places where we read something else."""
    for golden in sorted(folder.glob("*/golden.json")):
        told = json.loads(golden.read_text())
        text = (golden.parent / told.get("input", "topology.xml")).read_text()
        yield golden.parent.name, differences(read(text, golden.parent.name), told)


def differences(found: Hardware, told: Mapping[str, Any]) -> list[str]:
    pairs = [*_cpus(found, told), *_numa(found, told), *_devices(found, told), *_links(found, told)]
    return [f"{place}: {mine!r}, not {theirs!r}" for place, mine, theirs in pairs if mine != theirs]


def _cpus(found: Hardware, told: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    shown = bits_of(thread.cpu for thread in found.threads)
    yield "cpuset", format_ids(shown), told["cpuset"]
    hidden = "CPUs" if any(r.place == "cpus" for r in found.remarks) else ""
    if not hidden:
        yield "complete_cpuset", format_ids(shown | found.offline), told["complete_cpuset"]
    assert found.host is not None
    assert found.host.cpuset is not None
    yield "allowed_cpuset", format_ids(found.host.cpuset), told["allowed_cpuset"]
    if found.host.mems is not None:
        yield "allowed_nodeset", format_ids(found.host.mems), told["allowed_nodeset"]
    threads = {thread.cpu: thread for thread in found.threads}
    yield "cpus", sorted(threads), sorted(map(int, told["cpus"]))
    for cpu, facts in told["cpus"].items():
        thread = threads.get(int(cpu), Thread(-1))
        yield f"cpu {cpu} core", thread.core, facts["core"]
        yield f"cpu {cpu} siblings", format_ids(thread.siblings) or None, facts["core_cpus"]
        yield f"cpu {cpu} socket", thread.socket, facts["package"]
        yield f"cpu {cpu} die", thread.die, facts["die"]
        yield f"cpu {cpu} l2", thread.l2 and format_ids(thread.l2.cpus), facts["l2"]
        yield f"cpu {cpu} l3", thread.l3 and format_ids(thread.l3.cpus), facts["l3"]
        near = [node.id for node in found.numa if node.cpus >> int(cpu) & 1]
        yield f"cpu {cpu} numa", near, facts["numa"]
        yield f"cpu {cpu} its numa", thread.numa in near if near else thread.numa is None, True


def _numa(found: Hardware, told: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    nodes: dict[int, MemoryNode] = {node.id: node for node in found.numa}
    yield "numa", list(nodes), sorted(map(int, told["numa_nodes"]))
    for name, facts in told["numa_nodes"].items():
        node = nodes.get(int(name), MemoryNode(-1))
        yield f"numa {name} cpus", format_ids(node.cpus), facts["cpus"]
        yield f"numa {name} memory", node.memory or 0, facts["local_memory"]
        yield f"numa {name} note", node.note or None, None if facts["subtype"] == "DRAM" else facts["subtype"]
        pages = sorted(((int(size), count) for size, count in facts.get("page_types", {}).items()))[1:]
        yield f"numa {name} pages", node.hugepages, tuple((str(Quantity.of(s)), n) for s, n in pages)
    tables = [d for d in told.get("distances", ()) if d["type"] == "NUMANode"]
    wanted = [
        {
            a: dict(zip(d["objects"], row, strict=True))
            for a, row in zip(d["objects"], d["matrix"], strict=True)
        }
        for d in tables
        if d["name"] == "NUMALatency" or all(t["name"] is None for t in tables)
    ]
    if wanted:
        mine = {node.id: dict(node.distances) for node in found.numa}
        yield "distances", mine if mine not in wanted else True, True


def _devices(found: Hardware, told: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    wanted = told.get("pci", ())
    yield "pci", [device.address for device in found.pci], [facts["busid"] for facts in wanted]
    for device, facts in zip(found.pci, wanted, strict=False):  # an address may be there twice
        place = f"pci {facts['busid']}"
        assert device.class_code is not None
        yield f"{place} class", f"{device.class_code >> 8:04x}", facts["class"]
        yield f"{place} vendor", f"{device.vendor:04x}", facts["vendor"]
        yield f"{place} device", f"{device.device:04x}", facts["device"]
        yield f"{place} cpus", format_ids(device.local_cpus or 0), facts["local_cpus"]
        yield f"{place} parents", list(device.parents), [_parent(text) for text in facts["bridges"]]
        yield f"{place} names", list(device.names), [one["name"] for one in facts.get("osdevs", ())]
    names = {name: device.address for device in found.pci for name in device.names}
    gpus = {gpu.address: gpu for gpu in found.gpus}
    for facts in told.get("gpus", ()):
        place = f"gpu {facts['name']}"
        yield f"{place} address", names.get(facts["name"]), facts["busid"]
        if COMPUTE.match(facts["name"]):
            gpu = gpus.get(facts["busid"], Gpu(""))
            yield f"{place} cpus", format_ids(gpu.cpus or 0), facts["local_cpus"]
            if facts["name"].startswith(("nvml", "rsmi")):
                yield f"{place} model", gpu.model, facts["info"].get("GPUModel", "")


def _parent(text: str) -> str:
    host = HOST_BRIDGE.fullmatch(text)
    return f"pci{host[1]}:{host[2]}" if host else text


def _links(found: Hardware, told: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    """NVLink where a bandwidth was measured between two GPUs, and nowhere else."""
    for table in told.get("distances", ()):
        if table["name"] != "NVLinkBandwidth":
            continue
        links = found.matrix.links if found.matrix else {}
        gpus = [(at, f"GPU{label[4:]}") for at, label in enumerate(table["labels"]) if label[:4] == "nvml"]
        for a, one in gpus:
            for b, other in gpus:
                if a != b:
                    link = links.get(one, {}).get(other)
                    yield f"{one} to {other}", link and link.startswith("NV"), table["matrix"][a][b] > 0

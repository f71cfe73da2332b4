"""The catalogue: counts as documented, links as printed, everything usable."""

import json
from pathlib import Path

import pytest

from numawise.codec.document import Document, read_file
from numawise.codec.hardware.encode import hardware_data, hardware_from
from numawise.codec.machine import decode_machine
from numawise.errors import InputError
from numawise.machine.catalog import CATALOG, machine_named, slots
from numawise.machine.hardware import NIC
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.locality import cores_in, threads_per_core
from numawise.machine.model import Machine
from numawise.sets import bits_of, format_ids

EXAMPLES = Path(__file__).parents[3] / "examples"

# fmt: off
FACTS = [  # name, sockets, NUMA nodes, cores, CPUs, GPUs, NICs, link of GPU0 to the last GPU
    ("8gpu-server",          2,  2,  64, 128, 8,  0, "SYS"),
    ("3gpu-server",          2,  2,  28,  28, 3,  0, "SYS"),
    ("incident-server",      2,  2,  32,  32, 0,  0, ""),
    ("dgx-a100",             2,  8, 128, 256, 8, 12, "NV12"),
    ("dgx-h100",             2,  2, 112, 224, 8, 12, "NV18"),
    ("dgx-b200",             2,  2, 112, 224, 8, 12, "NV18"),
    ("gb200",                2, 34, 144, 144, 4,  4, "NV18"),
    ("grace-hopper",         1,  9,  72,  72, 1,  1, "X"),
    ("mi300x",               2,  2, 192, 384, 8,  8, "XGMI"),
    ("l40s-8gpu",            2,  2,  64, 128, 8,  4, "SYS"),
    ("epyc-nps1",            2,  2, 128, 256, 0,  1, ""),
    ("epyc-nps4",            2,  8, 128, 256, 0,  1, ""),
    ("sapphire-rapids-snc4", 2,  8, 112, 224, 0,  2, ""),
    ("xeon-2s",              2,  2,  64, 128, 0,  1, ""),
    ("small-vm",             1,  1,   1,   2, 0,  1, ""),
]
# fmt: on


@pytest.mark.parametrize(("name", "sockets", "numa", "cores", "cpus", "gpus", "nics", "link"), FACTS)
def test_counts(
    name: str, sockets: int, numa: int, cores: int, cpus: int, gpus: int, nics: int, link: str
) -> None:
    hardware = machine_named(name)
    every = bits_of(thread.cpu for thread in hardware.threads)
    assert len({thread.socket for thread in hardware.threads}) == sockets
    assert len(hardware.numa) == numa
    assert (len(cores_in(hardware, every)), len(hardware.threads)) == (cores, cpus)
    assert threads_per_core(hardware) == cpus // cores
    assert len(hardware.gpus) == gpus
    assert sum(device.kind == NIC for device in hardware.pci) == nics
    if link:
        assert hardware.matrix
        assert hardware.matrix.links["GPU0"][hardware.matrix.gpus[-1]] == link


def test_every_machine_is_listed_here() -> None:
    assert [fact[0] for fact in FACTS] == list(CATALOG)


@pytest.mark.parametrize("name", CATALOG)
def test_it_can_be_saved_and_simulated(name: str) -> None:
    hardware = machine_named(name)
    assert hardware.name == name
    assert CATALOG[name].source
    assert hardware_from(Document(json.loads(json.dumps(hardware_data(hardware))))) == hardware
    seen = kubelet_view(hardware)
    assert isinstance(seen, Machine)
    assert len(seen.cpus) == len(hardware.threads)


@pytest.mark.parametrize("name", ["8gpu-server", "3gpu-server", "incident-server"])
def test_servers_of_the_documents_are_those_of_the_examples(name: str) -> None:
    (document,) = read_file(EXAMPLES / name / "machine.yaml")
    assert isinstance(document, Document)
    example = decode_machine(document)
    seen = kubelet_view(machine_named(name))
    assert isinstance(seen, Machine)
    assert seen.cpus == example.cpus
    assert seen.numa == example.numa
    places = [[device.numa for device in plugin.devices] for plugin in example.plugins]
    assert [[device.numa for device in plugin.devices] for plugin in seen.plugins] == places


def test_the_document_prints_this_matrix() -> None:
    matrix = machine_named("8gpu-server").matrix
    assert matrix
    rows = {gpu: " ".join(matrix.links[gpu].values()) for gpu in ("GPU0", "GPU3", "GPU4")}
    assert rows == {
        "GPU0": "X PIX NODE NODE SYS SYS SYS SYS",
        "GPU3": "NODE NODE PIX X SYS SYS SYS SYS",
        "GPU4": "SYS SYS SYS SYS X PIX NODE NODE",
    }
    assert matrix.cpu_affinity["GPU0"] == "0-31,64-95"
    assert matrix.cpu_affinity["GPU7"] == "32-63,96-127"


def test_dgx_h100_has_a_nic_beside_every_gpu() -> None:
    matrix = machine_named("dgx-h100").matrix
    assert matrix
    near = {
        gpu: [matrix.nic_names[nic] for nic in matrix.nics if matrix.links[gpu][nic] == "PXB"]
        for gpu in matrix.gpus
    }
    assert list(near.values()) == [[f"mlx5_{i}"] for i in (0, 3, 4, 5, 6, 9, 10, 11)]
    assert matrix.links["NIC1"]["NIC2"] == "PIX"  # the two ports of one card


def test_dgx_a100_keeps_its_gpus_on_odd_nodes() -> None:
    assert [gpu.numa for gpu in machine_named("dgx-a100").gpus] == [
        (3,),
        (3,),
        (1,),
        (1,),
        (7,),
        (7,),
        (5,),
        (5,),
    ]


def test_gb200_shows_gpu_memory_as_numa_nodes() -> None:
    hardware = machine_named("gb200")
    assert [node.id for node in hardware.numa if node.cpus] == [0, 1]
    assert [node.id for node in hardware.numa if not node.cpus and node.memory] == [2, 10, 18, 26]
    assert [gpu.own_numa for gpu in hardware.gpus] == [2, 10, 18, 26]
    rows = {node.id: dict(node.distances) for node in hardware.numa}
    assert [rows[0][i] for i in (0, 1, 2, 17, 18, 33)] == [10, 40, 80, 80, 120, 120]
    assert [rows[2][i] for i in (0, 1, 3, 10, 33)] == [80, 120, 11, 40, 40]
    assert all(rows[i][j] == rows[j][i] for i in rows for j in rows)


def test_sub_numa_clusters_share_an_l3() -> None:
    hardware = machine_named("sapphire-rapids-snc4")
    assert {format_ids(thread.l3.cpus) for thread in hardware.threads if thread.l3} == {
        "0-55,112-167",
        "56-111,168-223",
    }


def test_there_is_no_such_machine() -> None:
    with pytest.raises(InputError, match="did you mean 'dgx-h100'"):
        machine_named("dgx-h10")


def test_slots_of_a_line() -> None:
    found = slots("0: GPU0+mlx5_0 eth0/eth1 -: nvme3", "A", 5)
    assert [(slot.name, slot.kind, slot.numa, bool(slot.switch), bool(slot.card)) for slot in found] == [
        ("GPU0", "gpu", 0, True, False),
        ("mlx5_0", "nic", 0, True, False),
        ("eth0", "nic", 0, False, True),
        ("eth1", "nic", 0, False, True),
        ("nvme3", "nvme", -1, False, False),
    ]
    assert [(slot.model, slot.memory) for slot in found][:2] == [("A", 5), ("", None)]

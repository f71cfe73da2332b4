"""Machines in one line: what the words mean, and which are refused."""

import pytest

from numawise.codec.document import Document
from numawise.codec.machine import decode_machine, encode_machine
from numawise.errors import InputError
from numawise.machine.hardware import GPU, NIC, Hardware, hardware_of
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.locality import (
    Links,
    cores_in,
    cpus_by_numa,
    gpu_numa,
    link_rank,
    pcie_link,
    short_address,
)
from numawise.machine.model import Cpu, Device, DevicePlugin, Machine, Numa
from numawise.machine.synthetic import WORDS, is_synthetic, synthetic
from numawise.sets import format_ids

GIB = 1 << 30


def cpus(hardware: Hardware) -> str:
    """CPUs of every NUMA node: ``0-1|2-3``."""
    return "|".join(format_ids(node.cpus) for node in hardware.numa)


@pytest.mark.parametrize(("words", "expected"), [
    pytest.param("4c",                       "0-3",                   id="one of all"),
    pytest.param("2s 4c",                    "0-1|2-3",               id="a NUMA node per socket"),
    pytest.param("2s 4n 8c",                 "0-1|2-3|4-5|6-7",       id="NUMA nodes in all"),
    pytest.param("2s 1n 4c",                 "0-3",                   id="a NUMA node over two sockets"),
    pytest.param("2s 4c 2t",                 "0-1,4-5|2-3,6-7",       id="threads after all cores"),
    pytest.param("2s 4c 2t adjacent",        "0-3|4-7",               id="threads side by side"),
    pytest.param("2s 4c 2t interleaved",     "0,2,4,6|1,3,5,7",       id="round the NUMA nodes"),
    pytest.param("2s 4c memonly=2",          "0-1|2-3||",             id="memory only"),
    pytest.param("2S-4C-2T",                 "0-1,4-5|2-3,6-7",       id="as the names of test machines"),
    pytest.param("2s, 4c",                   "0-1|2-3",               id="commas"),
])  # fmt: skip
def test_cpus(words: str, expected: str) -> None:
    assert cpus(synthetic(words)) == expected


def test_threads_know_their_place() -> None:
    hardware = synthetic("2s 4n 8c 2t l3=2c")
    thread = hardware.threads[13]
    assert (thread.cpu, thread.core, thread.socket, thread.numa) == (13, 1, 1, 2)
    assert format_ids(thread.siblings) == "5,13"
    assert thread.l3
    assert (format_ids(thread.l3.cpus), thread.l3.id) == ("4-5,12-13", 2)


@pytest.mark.parametrize(("words", "each"), [
    ("2s 4c", 64), ("2s 4c 512g", 256), ("2s 4c 128g/n", 128), ("2s 4c 2t 1tb", 512), ("2s 4c 512g memonly=2", 128), ("2s 4c 96GiB", 48),
])  # fmt: skip
def test_memory(words: str, each: int) -> None:
    hardware = synthetic(words)
    assert {node.memory for node in hardware.numa} == {each * GIB}
    assert hardware.memory_capacity == each * GIB * len(hardware.numa)


@pytest.mark.parametrize(("words", "rows"), [
    ("2s 4n 4c",                  ["10 12 21 21", "12 10 21 21", "21 21 10 12", "21 21 12 10"]),
    ("2s 2c numa-distance=32",    ["10 32", "32 10"]),
    ("2s 2c memonly=2",           ["10 21 17 28", "21 10 28 17", "17 28 10 28", "28 17 28 10"]),
])  # fmt: skip
def test_distances(words: str, rows: list[str]) -> None:
    assert [" ".join(str(d) for _, d in node.distances) for node in synthetic(words).numa] == rows


@pytest.mark.parametrize(("words", "rows"), [
    ("2s 4c 4gpu",                ["X NODE SYS SYS", "NODE X SYS SYS", "SYS SYS X NODE", "SYS SYS NODE X"]),
    ("1s 4c 4gpu pairs",          ["X PIX NODE NODE", "PIX X NODE NODE", "NODE NODE X PIX", "NODE NODE PIX X"]),
    ("2s 4c 2gpu nvlink",         ["X NV18", "NV18 X"]),
    ("2s 4c 2gpu nvlink=4 2nic",  ["X NV4 PIX SYS", "NV4 X SYS PIX", "PIX SYS X SYS", "SYS PIX SYS X"]),
    ("1s 4c 2gpu pairs 1nic",     ["X PIX PIX", "PIX X PIX", "PIX PIX X"]),
])  # fmt: skip
def test_links(words: str, rows: list[str]) -> None:
    matrix = synthetic(words).matrix
    assert matrix
    assert [" ".join(row.values()) for row in matrix.links.values()] == rows


def test_the_tree_and_the_matrix_agree() -> None:
    hardware = synthetic("2s 4n 16c 8gpu 8nic pairs")
    links = Links.of(hardware)
    without = Links({}, {}, links.devices)
    names = [gpu.name for gpu in hardware.gpus] + [f"nic{i}" for i in range(8)]
    for one in names:
        for other in names:
            assert links.between(one, other) == without.between(one, other), (one, other)


def test_addresses_are_unique_on_large_machines() -> None:
    hardware = synthetic("8n 64c 64gpu 128nic 128nvme")
    assert len({device.address for device in hardware.pci}) == 64 + 128 + 128
    assert {device.kind for device in hardware.pci} == {GPU, NIC, "nvme"}


def test_hugepages() -> None:
    assert synthetic("2s 2c hugepages").numa[1].hugepages == (("2Mi", 1024),)
    assert synthetic("2s 2c hugepages=1Gi:16 memonly=1").numa[0].hugepages == (("1Gi", 16),)
    assert synthetic("2s 2c hugepages=7 memonly=1").numa[2].hugepages == ()


@pytest.mark.parametrize(("words", "told"), [
    pytest.param("2m 1g",               "'2m' is not a word of a machine description",                      id="unknown word"),
    pytest.param("4c nvlinks",          "did you mean 'nvlink'?",                            id="mistyped word"),
    pytest.param("4c gpus=8",           "did you mean '8gpu'?",                              id="wrong way round"),
    pytest.param("",                    "is empty",                                          id="nothing"),
    pytest.param("2s 2n",               "the number of cores is missing",                    id="no cores"),
    pytest.param("0c",                  "'0c': cores go from 1 to 8192",                     id="no cores at all"),
    pytest.param("9t 4c",               "'9t': threads per core go from 1 to 8",             id="too many"),
    pytest.param("4c 99999999999gpu",   "is not a word",                                        id="far too many"),
    pytest.param("4c 8c",               "'8c' comes after '4c'",                             id="said twice"),
    pytest.param("4c 1g 2g",            "'2g' comes after '1g'",                             id="memory twice"),
    pytest.param("65c 2s",              "65 cores do not divide into 2 sockets; say 64c or 66c", id="cores and sockets"),
    pytest.param("2s 3n 6c",            "3 NUMA nodes and 2 sockets do not divide",          id="NUMA nodes and sockets"),
    pytest.param("2s 12c l3=4c",        "the 6 cores of a socket divide",                    id="L3"),
    pytest.param("4c l3=c",             "say l3=4c",                                         id="L3 without number"),
    pytest.param("4c 0g",               "not a valid amount of memory",                               id="no memory"),
    pytest.param("4c numa-distance=5",  "from 11 to 254; say numa-distance=11",              id="distance"),
    pytest.param("4c memonly=x",        "'memonly=x': it is a number from 0 to 64",          id="not a number"),
    pytest.param("4c hugepages=4Ki:1",  "write hugepages=2Mi:1024",                            id="page size"),
    pytest.param("4c adjacent interleaved", "exclude each other",                            id="two numberings"),
])  # fmt: skip
def test_refused(words: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        synthetic(words)
    assert told in str(caught.value)


def test_every_refusal_of_a_word_says_what_is_allowed() -> None:
    with pytest.raises(InputError) as caught:
        synthetic("4c what")
    assert all(word in str(caught.value) for word in WORDS)


@pytest.mark.parametrize("word", WORDS)
def test_every_word_of_the_list_is_understood(word: str) -> None:
    synthetic(word if word == "64c" else f"64c {word}")


@pytest.mark.parametrize(("text", "expected"), [
    ("2s 4c", True), ("8c", True), ("2s-4n-64c", True), ("dgx-h100", False), ("8gpu-server", True), ("machine.yaml", False), ("", False),
])  # fmt: skip
def test_is_synthetic(text: str, expected: bool) -> None:  # noqa: FBT001
    assert is_synthetic(text) is expected


def test_the_kubelet_can_be_told() -> None:
    seen = kubelet_view(synthetic("2s 4n 64c 2t 8gpu nvlink"))
    assert isinstance(seen, Machine)
    assert len(seen.cpus) == 128
    assert [d.numa for d in seen.plugins[0].devices] == [(i // 2,) for i in range(8)]
    assert decode_machine(Document(encode_machine(seen))) == seen


def test_hardware_of_a_machine_file() -> None:
    machine = Machine(
        cpus=(Cpu(0, 0, 0, 0, 3), Cpu(2, 0, 0, 0, 3), Cpu(1, 0, 1, 1)),
        numa=(Numa(0, GIB, (("2Mi", 5),), (10, 21)), Numa(1, 0, (), (21, 10))),
        plugins=(
            DevicePlugin(
                "nvidia.com/gpu", (Device("a", (0,)), Device("b"), Device("c", (0, 1)), Device("d", ()))
            ),
            DevicePlugin("nvidia.com/mig-1g.5gb", (Device("m", (1,)),)),
            DevicePlugin("intel.com/sriov", (Device("vf0", (1,)),)),
            DevicePlugin("example.com/fpga", (Device("f", (1,)),)),
        ),
    )
    hardware = hardware_of(machine, "it")
    assert [format_ids(thread.siblings) for thread in hardware.threads] == ["0,2", "1", "0,2"]
    assert [thread.l3.id if thread.l3 else None for thread in hardware.threads] == [3, None, 3]
    assert hardware.numa[0].distances == ((0, 10), (1, 21))
    assert [(gpu.name, gpu.numa) for gpu in hardware.gpus] == [
        ("a", (0,)), ("b", None), ("c", (0, 1)), ("d", None), ("m", (1,)),
    ]  # fmt: skip
    assert [(device.kind, device.names, device.numa) for device in hardware.pci] == [
        (NIC, ("vf0",), 1), ("accelerator", ("f",), 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "expected"), [
    ("h r u a",     "h r u b",     "PIX"),
    ("h r",         "h r",         "PIX"),
    ("h r u a v c", "h r u a v d", "PIX"),
    ("h r u a v c", "h r u b w d", "PXB"),
    ("h r",         "h s",         "PHB"),
    ("h r",         "g r",         ""),
    ("",            "h r",         ""),
])  # fmt: skip
def test_links_by_the_tree(one: str, other: str, expected: str) -> None:
    assert pcie_link(tuple(one.split()), tuple(other.split())) == expected


def test_better_links_come_first() -> None:
    words = ["", "SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV18", "XGMI"]
    assert sorted(words, key=link_rank) == ["NV18", "NV1", "XGMI", "PIX", "PXB", "PHB", "NODE", "SYS", ""]


def test_places() -> None:
    hardware = synthetic("2s 4c 2t 2gpu")
    assert short_address("00000000:1B:00.0") == "0000:1b:00.0"
    assert cpus_by_numa(hardware) == {0: 0b00110011, 1: 0b11001100}
    assert cores_in(hardware, 0b00110001) == (0b10001, 0b100000)
    assert [gpu_numa(hardware, gpu) for gpu in hardware.gpus] == [(0,), (1,)]

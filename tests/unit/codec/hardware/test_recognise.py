import pytest

from numawise.codec.hardware.recognise import READERS, recognise, split

MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV1\t0-3\nGPU1\tNV1\t X \t0-3\n"
LIST = "GPU 0: NVIDIA A100 (UUID: GPU-1)\nGPU 1: NVIDIA A100 (UUID: GPU-2)\n"
ROCM = (
    "==== ROCm System Management Interface ====\n==== Numa Nodes ====\nGPU[0] : (Topology) Numa Affinity: 0\n"
)
NUMACTL = "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 10 MB\nnode distances:\nnode 0\n  0: 10\n"
LSCPU = "Architecture: x86_64\nCPU(s): 2\nOn-line CPU(s) list: 0-1\nNUMA node0 CPU(s): 0-1\n"
TABLE = "CPU NODE SOCKET CORE ONLINE\n0 0 0 0 yes\n1 0 0 1 yes\n"
PARSABLE = "# CPU,Core,Socket,Node,,L1d\n0,0,0,0,,0\n"
JSON = '{\n   "lscpu": [\n      {"field": "NUMA node0 CPU(s):", "data": "0-1"}\n   ]\n}\n'
LSPCI = "17:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n"
HWLOC = (
    '<?xml version="1.0"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">\n</topology>\n'
)
NCCL = '<!-- made by hand -->\n<system version="1">\n  <cpu numaid="0"/>\n</system>\n'
CADVISOR = '{"num_cores": 2, "topology": [{"node_id": 0}]}'
MACHINE = "# a machine\nnuma:\n  - {id: 0}\ncpus:\n  - {cpu: 0, core: 0, socket: 0, numa: 0}\n"


@pytest.mark.parametrize(("text", "expected"), [
    (MATRIX, "nvidia-topo"), (LIST, "nvidia-list"), (ROCM, "rocm-topo"), (NUMACTL, "numactl"), (LSCPU, "lscpu"),
    (TABLE, "lscpu-table"), (PARSABLE, "lscpu-table"), (JSON, "lscpu-json"), (LSPCI, "lspci"),
    (HWLOC, "hwloc-xml"), (NCCL, "nccl-xml"), (CADVISOR, "cadvisor-json"), (MACHINE, "machine-file"),
    ('{"cpus": [{"cpu": 0, "core": 0}]}', "lscpu-json"),
    ('{"cpus": [{"cpu": 0}], "numa": []}', "machine-file"),
    ("Architektur: x86_64\nCPU(s): 4\n", "lscpu"),
    ("NUMA-Knoten0 CPU(s): 0-3\n", "lscpu"),
    ("policy: default\nphyscpubind: 0 1\n", "numactl"),
    ("GPU0  X  OK\nGPU1  OK  X\n", "nvidia-topo"),
])  # fmt: skip
def test_recognise(text: str, expected: str) -> None:
    assert recognise(text) == expected
    assert recognise("".join(f"> {line}\n" for line in text.splitlines())) == expected or text[0] in "<{#"
    assert recognise("root@host:~# command\n\n" + text) == expected


@pytest.mark.parametrize("text", [
    "", "hello", "{", "[]", "{}", '{"a": 1}', "<html></html>", "apiVersion: v1\nkind: Pod\n", "GPU0 is broken", "a: b: c\n" * 9,
    "node is ready", "policy: none", "cpus:\n", "CPU usage: 10%", "{" * 3000, '{"a":' * 3000,
])  # fmt: skip
def test_unknown(text: str) -> None:
    assert recognise(text) is None
    assert split(text) == []


def test_split() -> None:
    parts = [LSCPU, NUMACTL, JSON, MATRIX, LIST, LSPCI, HWLOC, TABLE, ROCM, NCCL, PARSABLE]
    found = split("notes\n" + "\n$ next\n".join(parts) + "\nthanks\n")
    names = [recognise(part) for part in parts]
    assert [name for name, _ in found] == names
    for part, (_, text) in zip(parts, found, strict=True):
        assert part.strip().split("\n")[-1] in text


@pytest.mark.parametrize("text", [LSCPU, NUMACTL, MATRIX, LIST, ROCM, TABLE])
def test_the_same_print_of_two_machines(text: str) -> None:
    assert [part.strip() for _, part in split(text + "\n" + text)] == [text.strip(), text.strip()]


def test_every_format_has_a_reader() -> None:
    texts = (MATRIX, LIST, ROCM, NUMACTL, LSCPU, TABLE, JSON, LSPCI)
    for text in texts:
        name = recognise(text)
        assert name is not None
        assert READERS[name](text, "file").sources
    assert set(READERS) >= {"hwloc-xml", "nccl-xml", "cadvisor-json"}


def test_a_line_of_megabytes_is_looked_at_once() -> None:
    for word in ("=== Link Type between ", "=== x ", "CPU NODE ", "GPU0 ", "0,", " "):
        assert split("CPU " + word * (1_000_000 // len(word)) + "!") is not None

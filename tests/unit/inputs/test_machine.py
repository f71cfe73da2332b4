"""Every form of ``--machine``, and what is said about those that are none."""

import json
from pathlib import Path

import pytest

from numawise.codec.document import read_documents
from numawise.codec.hardware.encode import hardware_data
from numawise.codec.machine import decode_machine
from numawise.codec.output import to_json, to_yaml
from numawise.errors import InputError
from numawise.inputs.machine import machine_data, read_machine
from numawise.machine.catalog import machine_named
from tests.cli.smallnode import MACHINE

LSCPU = """\
CPU,Core,Socket,Node
0,0,0,0
1,1,0,0
2,2,1,1
3,3,1,1
"""
NUMACTL = """\
available: 2 nodes (0-1)
node 0 cpus: 0 1
node 0 size: 4096 MB
node 0 free: 4000 MB
node 1 cpus: 2 3
node 1 size: 4096 MB
node 1 free: 4000 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
"""


def zone(number: int, cpus: str = "2", **more: str) -> dict[str, object]:
    amounts = {"cpu": cpus, "memory": "4Gi", "x.com/gpu": "1", **more}
    return {
        "name": f"node-{number}",
        "type": "Node",
        "costs": [{"name": f"node-{i}", "value": 10 if i == number else 21} for i in range(2)],
        "resources": [
            {"name": name, "capacity": amount, "allocatable": amount, "available": "0"}
            for name, amount in amounts.items()
        ],
    }


def topology(name: str = "node7", **more: object) -> dict[str, object]:
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": [zone(0), zone(1)],
        **more,
    }


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_machine_file_is_taken_to_the_letter(here: Path) -> None:
    (here / "machine.yaml").write_text(MACHINE)
    given = read_machine("machine.yaml")
    assert given.machine == decode_machine(read_documents(MACHINE, "")[0])
    assert given.hardware.name == here.name
    assert read_machine(str(here)).machine == given.machine  # a folder with machine.yaml


def test_a_name_of_the_catalogue_comes_before_a_file_of_that_name(here: Path) -> None:
    (here / "dgx-h100").write_text(MACHINE)
    assert len(read_machine("dgx-h100").machine.cpus) == 224
    assert len(read_machine("./dgx-h100").machine.cpus) == 4


def test_saved_hardware(here: Path) -> None:
    hardware = machine_named("8gpu-server")
    (here / "saved.json").write_text(to_json(hardware_data(hardware)))
    assert read_machine("saved.json").machine == read_machine("8gpu-server").machine
    (here / "made.yaml").write_text(to_yaml(machine_data(hardware)))
    assert read_machine("made.yaml").machine == read_machine("8gpu-server").machine


@pytest.mark.parametrize("words", [("2s", "4n", "64c", "8gpu"), ("2s 4n 64c 8gpu",), ("2s-4n-64c-8gpu",)])
def test_a_description(words: tuple[str, ...]) -> None:
    assert (len(read_machine(words).machine.cpus), len(read_machine(words).machine.numa)) == (64, 4)


def test_several_prints_become_one_machine(here: Path) -> None:
    (here / "lscpu.txt").write_text(LSCPU)
    (here / "numactl.txt").write_text(NUMACTL)
    machine = read_machine(("lscpu.txt", "numactl.txt")).machine
    assert [cpu.numa for cpu in machine.cpus] == [0, 0, 1, 1]
    assert machine.numa[1].distances == (21, 10)
    alone = read_machine("numactl.txt")
    assert "core id of CPUs 0-3 is not known" in alone.missing
    with pytest.raises(InputError, match=r"numactl.txt: the CPU topology is not known: the core id"):
        _ = alone.machine


def test_values_that_are_made_already() -> None:
    machine = read_machine("8gpu-server").machine
    assert read_machine(machine).machine is machine
    assert read_machine(machine_named("8gpu-server")).machine == machine
    assert read_machine(machine_data(machine_named("8gpu-server"))).machine == machine


def test_a_node_resource_topology(here: Path) -> None:
    (here / "nrt.yaml").write_text(to_yaml(topology()))
    given = read_machine("nrt.yaml")
    machine = given.machine
    assert given.node == "node7"
    assert [(cpu.cpu, cpu.core, cpu.socket, cpu.numa) for cpu in machine.cpus] == [
        (0, 0, 0, 0),
        (1, 1, 0, 0),
        (2, 2, 1, 1),
        (3, 3, 1, 1),
    ]
    assert [(numa.memory, numa.distances) for numa in machine.numa] == [
        (4 << 30, (10, 21)),
        (4 << 30, (21, 10)),
    ]
    assert [(one.id, one.numa) for one in machine.plugins[0].devices] == [
        ("gpu-0-0", (0,)),
        ("gpu-1-0", (1,)),
    ]
    assert [text.split(":")[0] for text in given.remarks] == ["nrt.yaml", "nrt.yaml"]
    assert "does not have CPU ids" in given.remarks[0]


def test_a_list_of_topologies_needs_a_name(here: Path) -> None:
    items = {"kind": "List", "items": [topology("a"), topology("b", zones=[zone(0, "8")])]}
    (here / "nrt.json").write_text(json.dumps(items))
    assert len(read_machine("nrt.json", node="b").machine.cpus) == 8
    with pytest.raises(InputError, match="lists 2 nodes: a, b"):
        read_machine("nrt.json")
    with pytest.raises(InputError, match="there is no node 'c'"):
        read_machine("nrt.json", node="c")


def test_a_topology_beside_prints_adds_what_they_lack(here: Path) -> None:
    (here / "lscpu.txt").write_text(LSCPU)
    (here / "nrt.yaml").write_text(to_yaml(topology()))
    machine = read_machine(("lscpu.txt", "nrt.yaml")).machine
    assert [numa.memory for numa in machine.numa] == [4 << 30, 4 << 30]
    assert [cpu.core for cpu in machine.cpus] == [0, 1, 2, 3]


@pytest.mark.parametrize(("value", "words"), [
    (topology(zones=[]),                               "has no zone of type Node"),
    (topology(zones=[zone(0, "1.5")]),                 "'1.5' is not a whole amount"),
    (topology(zones=[{**zone(0), "resources": []}]),   "does not have the resource cpu"),
    (topology(zones=[zone(0), zone(0)]),               "is listed twice"),
    (topology(zones=[zone(0), zone(64)]),              "'node-64' is listed twice or above node-63"),
    (topology(zones=[zone(0), zone(10**20)]),          "is listed twice or above node-63"),
])  # fmt: skip
def test_bad_topologies(value: dict[str, object], words: str, here: Path) -> None:
    (here / "nrt.yaml").write_text(to_yaml(value))
    with pytest.raises(InputError, match=r"nrt\.yaml:\d+: zones.*" + words):
        _ = read_machine("nrt.yaml").machine


@pytest.mark.parametrize(("given", "words"), [
    ("dgx-h10",               ["'dgx-h10' is neither a file, a folder nor a machine of the catalogue"]),
    ("no/such.yaml",          ["'no/such.yaml' is neither a file, a folder nor a machine"]),
    ("empty",                 ["empty: has neither sys nor proc nor machine.yaml"]),
    ("blank.yaml",            ["blank.yaml: is empty"]),
    ("hello.txt",             ["hello.txt: contains nothing about hardware"]),
    ("two.yaml",              ["two.yaml:", "holds 2 documents; expected one machine"]),
    (("dgx-h100", "this"),    ["'dgx-h100' and 'this' name two machines"]),
    (("hello.txt", "nope"),   ["'nope' is neither a file, a folder"]),
])  # fmt: skip
def test_what_is_no_machine(given: str | tuple[str, ...], words: list[str], here: Path) -> None:
    (here / "empty").mkdir()
    (here / "blank.yaml").write_text("# nothing\n")
    (here / "hello.txt").write_text("hello\n")
    (here / "two.yaml").write_text(f"{MACHINE}---\n{MACHINE}")
    with pytest.raises(InputError) as problem:
        _ = read_machine(given).machine
    assert all(word in str(problem.value) for word in words), str(problem.value)

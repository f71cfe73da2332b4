"""``numawise discover``: forms of the answer, sources, refusals."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from numawise.cli.main import main
from numawise.codec.document import read_documents
from numawise.codec.hardware.encode import hardware_from
from numawise.codec.machine import decode_machine

HERE = Path(__file__).parents[1]
HWLOC = HERE / "machines" / "data" / "hwloc"
POWER8 = HWLOC / "hwloc3-power8gpudistances" / "topology.xml"
NODES = """\
available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3
node 0 size: 1024 MB
node 0 free: 100 MB
node 1 cpus: 4 5 6 7
node 1 size: 2048 MB
node 1 free: 100 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
"""
CPUS = """\
Architecture:        x86_64
CPU(s):              8
On-line CPU(s) list: 0-7
Thread(s) per core:  2
Core(s) per socket:  2
Socket(s):           2
NUMA node(s):        2
NUMA node0 CPU(s):   0-3
NUMA node1 CPU(s):   4-7
"""
LINKS = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\t0-3\t0
GPU1\tNV4\t X \t4-7\t1
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A machine with two CPUs on one NUMA node."""
    root = tmp_path / "root"
    system = root / "sys/devices/system"
    write(system / "cpu/online", "0-1\n")
    for cpu in (0, 1):
        topology = system / f"cpu/cpu{cpu}/topology"
        write(topology / "core_id", f"{cpu}\n")
        write(topology / "physical_package_id", "0\n")
        write(topology / "thread_siblings_list", f"{cpu}\n")
    write(system / "node/node0/cpulist", "0-1\n")
    write(system / "node/node0/meminfo", "Node 0 MemTotal:       1048576 kB\n")
    write(system / "node/node0/distance", "10\n")
    return root


@pytest.fixture
def prints(tmp_path: Path) -> list[str]:
    """What numactl, lscpu and nvidia-smi print on one machine."""
    for name, text in (("nodes.txt", NODES), ("cpus.txt", CPUS), ("links.txt", LINKS)):
        write(tmp_path / name, text)
    return [str(tmp_path / name) for name in ("nodes.txt", "cpus.txt", "links.txt")]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["discover", *map(str, arguments)])
    told = capsys.readouterr()
    return status, told.out, told.err


def data(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    status, out, err = run(capsys, *arguments, "-o", "json")
    assert (status, err) == (0, "")
    return json.loads(out)


# --- forms ------------------------------------------------------------------------------------------------


def test_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys)
    assert found["kind"] == "Hardware"
    assert "sysfs" in found["sources"]


def test_yaml_is_the_form_for_programs(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "--root", tree)
    assert (status, err) == (0, "")
    found = hardware_from(read_documents(out, "")[0])
    assert [(thread.cpu, thread.core, thread.numa) for thread in found.threads] == [(0, 0, 0), (1, 1, 0)]


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--from", POWER8, "-o", "text")
    assert status == 0
    assert out == (
        "drac-12.grenoble.grid5000.fr: 2 sockets, 8 cores, 16 threads, 2 NUMA nodes, 4 GPUs, no NICs (from hwloc)\n"
        "\n"
        "NUMA  CPUS                       MEMORY  HUGEPAGES  GPUS       NICS  NOTE\n"
        "0     0-1,8-9,16-17,24-25        63.8Gi  -          GPU0 GPU1  -     -\n"
        "1     80-81,88-89,96-97,104-105  63.7Gi  -          GPU2 GPU3  -     -\n"
        "\n"
        "unknown: numa.hugepages: the huge pages\n"
    )


def test_names_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = POWER8.read_text().replace("drac-12.grenoble.grid5000.fr", "a&#x9;&#x9B;31mb")
    write(tmp_path / "bad.xml", text)
    assert run(capsys, "--from", tmp_path / "bad.xml", "-o", "text")[1].startswith("a??31mb: 2 sockets")


@pytest.mark.parametrize(
    ("name", "begins"), [("m.json", "{\n"), ("m.yaml", "apiVersion:"), ("m", "apiVersion:")]
)
def test_out_is_written_whole(
    name: str, begins: str, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out" / name
    write(target, "old")
    target.chmod(0o640)
    assert run(capsys, "--root", tree, "--out", target) == (0, "", "")
    assert target.read_text().startswith(begins)
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in target.parent.iterdir()] == [name]


def test_text_may_go_to_a_file(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--root", tree, "-o", "text", "--out", tmp_path / "t")[0] == 0
    assert (tmp_path / "t").read_text().startswith("1 socket, 2 cores, 2 threads, 1 NUMA node, no GPUs")


def test_out_nowhere(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "--root", tree, "--out", tmp_path / "none" / "m.json")
    assert status == 2
    assert "cannot be written: No such file or directory; make the folder first" in err


# --- sources ----------------------------------------------------------------------------------------------


def test_a_saved_discovery_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = data(capsys, "--from", POWER8)
    for form in ("json", "yaml"):
        saved = tmp_path / f"saved.{form}"
        assert run(capsys, "--from", POWER8, "--out", saved)[0] == 0
        assert data(capsys, "--from", saved) == first


def test_a_machine_file(capsys: pytest.CaptureFixture[str]) -> None:
    path = HERE.parent / "examples" / "8gpu-server" / "machine.yaml"
    found = data(capsys, "--from", path)
    assert len(found["cpus"]) == 128
    assert found["sources"] == ["machine file"]


def test_a_tree_and_prints_together(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "links.txt", LINKS.replace("4-7\t1", "0-1\t0").replace("0-3", "0-1"))
    found = data(capsys, "--root", tree, "--from", tmp_path / "links.txt")
    assert found["sources"] == ["sysfs", "nvidia-topo"]
    assert [gpu["numa"] for gpu in found["gpu_devices"]] == [[0], [0]]


def test_prints_of_one_machine(prints: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--from", *prints], ["--from", prints[0], "--from", prints[1], "--from", prints[2]]):
        found = data(capsys, *arguments)
        assert [node["cpus"] for node in found["numa"]] == ["0-3", "4-7"]
        assert [node["memory"] for node in found["numa"]] == [1 << 30, 2 << 30]
        assert [node["distances"] for node in found["numa"]] == [[10, 21], [21, 10]]
        assert found["links"]["GPU0"] == {"GPU0": "X", "GPU1": "NV4"}
        unknown = {remark["place"] for remark in found["remarks"] if remark["kind"] == "unknown"}
        assert "cpus.siblings" in unknown
        assert not [remark for remark in found["remarks"] if remark["kind"] == "differs"]


def test_all_in_one_file(
    prints: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\n\n".join(Path(path).read_text() for path in prints)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode("utf-16"))))
    found = data(capsys, "--from", "-")
    assert len(found["cpus"]) == 8
    assert found["gpus"] == ["GPU0", "GPU1"]


def test_machine(prints: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "--from", *prints, "--machine")
    assert status == 2
    assert "the CPU topology is not known: the core id of CPUs 0-7 is not known" in err
    assert "--assume" in err
    status, out, err = run(capsys, "--from", *prints, "--machine", "--assume")
    assert (status, err) == (0, "")
    assert out.startswith("# assumed: cpus.siblings: 2 threads per core, as lscpu counts them")
    machine = decode_machine(read_documents(out, "")[0])
    assert [(cpu.cpu, cpu.core, cpu.socket, cpu.numa) for cpu in machine.cpus][3:5] == [
        (3, 1, 0, 0),
        (4, 0, 1, 1),
    ]
    assert [(device.id, device.numa) for device in machine.plugins[0].devices] == [
        ("GPU0", (0,)),
        ("GPU1", (1,)),
    ]
    write(tmp_path / "m.yaml", out)
    assert json.loads(run(capsys, "--from", *prints, "--machine", "--assume", "-o", "json")[1])["cpus"]


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "hello", "a.txt: contains nothing about hardware"),
        ("a.txt", "", "a.txt: is empty"),
        ("a.xml", "<topology>\n<object>", "a.xml:2: is not valid XML: no element found"),
        ("a.xml", '<!DOCTYPE t [<!ENTITY a "b">]>\n<topology/>', "a.xml:1: declares entities"),
        ("a.json", '{"kind": "Hardware", "cpus": [{}]}', "a.json:1: is not saved hardware"),
        ("a.json", '{"topology": [{}]}', "a.json: has no CPUs"),
        ("a.yaml", "cpus: []\nnuma: []\n", "a.yaml:2: numa: is missing or empty"),
    ],
)
def test_unreadable(
    name: str, text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / name, text)
    status, out, err = run(capsys, "--from", tmp_path / name)
    assert (status, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "/nowhere/at/all"], "/nowhere/at/all: there is no such file"),
        (["--from", "/tmp"], "/tmp: is a directory"),
        (["--root", "/nowhere"], "/nowhere: does not exist"),
        (["--from", "-", "-"], "can be read only once"),
        (["some.txt"], "write --from some.txt"),
    ],
)
def test_wrong_arguments(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert words in err


def test_two_machines(prints: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = CPUS.replace("0-7", "8-15").replace("0-3", "8-11").replace("4-7", "12-15")
    write(tmp_path / "other.txt", other)
    status, _, err = run(capsys, "--from", prints[0], tmp_path / "other.txt")
    assert status == 2
    assert "are not of one machine: numactl has CPUs 0-7, lscpu 8-15; give readings of one" in err


def test_an_empty_tree_still_gives_what_could_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = data(capsys, "--root", tmp_path)
    assert found["cpus"] == []
    assert found["remarks"]

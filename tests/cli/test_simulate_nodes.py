"""``numawise simulate --nodes``: where nodes come from, how one is chosen, and who fits nowhere."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import needs
from tests.cli.run import EXAMPLES, ROOT, Ran, numawise, program, refused
from tests.waiting import PATIENCE

EIGHT, THREE = EXAMPLES / "8gpu-server", EXAMPLES / "3gpu-server"
KUBELET = THREE / "kubelet.yaml"


def deployment(name: str, replicas: int, limits: str) -> str:
    template = f"{{spec: {{containers: [{{name: c, resources: {{limits: {limits}}}}}]}}}}"
    return f"kind: Deployment\nmetadata: {{name: {name}}}\nspec: {{replicas: {replicas}, template: {template}}}\n"


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    path = tmp_path / "queue.yaml"
    path.write_text(deployment("gpu", 5, "{cpu: 2, memory: 1Gi, nvidia.com/gpu: 1}"))
    return path


def nodes(capsys: pytest.CaptureFixture[str], *words: object, config: Path | None = KUBELET) -> Ran:
    given = ("--kubelet-config", config) if config else ()
    return numawise(capsys, "simulate", *given, *words)


def placed(ran: Ran) -> dict[str, str]:
    return {pod["name"]: pod["node"] for pod in json.loads(ran.out)["pods"]}


# --- where nodes come from -----------------------------------------------------------------------


@pytest.mark.parametrize(("text", "names"), [
    ("3gpu-server:2",                            ["3gpu-server-0", "3gpu-server-1"]),
    (f"{THREE}/machine.yaml:2",                  ["3gpu-server-0", "3gpu-server-1"]),
    (f"{THREE}/machine.yaml",                    ["3gpu-server-0"]),
    ("2s-28c-3gpu:1",                            ["2s-28c-3gpu-0"]),
    (str(THREE),                                 ["3gpu-server"]),
    (str(EXAMPLES),                              ["3gpu-server", "8gpu-server", "incident-server"]),
])  # fmt: skip
def test_sources(text: str, names: list[str], queue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(nodes(capsys, "--nodes", text, "-o", "json", queue).out)
    assert [node["name"] for node in found["nodes"]] == names


def test_a_file_that_lists_nodes(queue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = os.path.relpath(THREE / "machine.yaml", tmp_path)
    state = os.path.relpath(THREE / "state" / "numa1-busy", tmp_path)
    kubelet = os.path.relpath(THREE / "kubelet.yaml", tmp_path)
    (tmp_path / "nodes.yaml").write_text(
        f"nodes:\n- {{name: busy, machine: {machine}, state: {state}}}\n- {{name: idle, machine: {machine}, kubelet: {kubelet}}}\n"
        "- {machine: 3gpu-server, count: 2}\n"
    )
    ran = nodes(capsys, "--nodes", tmp_path / "nodes.yaml", "-o", "json", queue)
    assert ran.status == 0
    found = json.loads(ran.out)
    assert [node["name"] for node in found["nodes"]] == ["busy", "idle", "node-2-0", "node-2-1"]
    assert placed(ran) == {
        "gpu-0": "busy",
        "gpu-1": "busy",
        "gpu-2": "idle",
        "gpu-3": "idle",
        "gpu-4": "idle",
    }
    assert [node["pods"] for node in found["nodes"]] == [3, 3, 0, 0]
    assert found["nodes"][0]["resources"]["nvidia.com/gpu"] == {"allocatable": 3, "requested": 3}


@pytest.mark.parametrize(("text", "words"), [
    ("nodes: []",                                    ["nodes.yaml:1: nodes", "lists no nodes"]),
    ("nodes:\n- {machin: x}",                        ["nodes.yaml:2: nodes[0].machin", 'did you mean "machine"?']),
    ("- {name: a}",                                  ["nodes.yaml:1: [0].machine", "is missing"]),
    ("- {machine: none.yaml}",                       ["nodes.yaml:1: [0].machine", "there is no", "relative to this file"]),
    ("- {machine: 3gpu-server, count: 0}",           ["[0].count", "from 1 to 20000, not 0"]),
    ("- {machine: 3gpu-server, state: none}",        ["[0].state", "there is no"]),
    ("- {machine: 3gpu-server, name: a}\n- {machine: 3gpu-server, name: a}", ["--nodes", "two nodes are named 'a'"]),
    ("- 5",                                          ["must be a node", "not 5"]),
    ("nodes: []\n---\nb: 1",                              ["one document"]),
])  # fmt: skip
def test_lists_that_are_none(
    text: str, words: list[str], queue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nodes.yaml").write_text(text)
    refused(nodes(capsys, "--nodes", tmp_path / "nodes.yaml", queue), *words)


def test_nodes_that_are_none(queue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(
        nodes(capsys, "--nodes", "nonsense:4", queue),
        "--nodes: 'nonsense' is neither a file, a folder nor a machine",
    )
    refused(nodes(capsys, "--nodes", "3gpu-server:0", queue), "gives no nodes")
    refused(nodes(capsys, "--nodes", "3gpu-server:30000", queue), "30000 nodes are too many")
    (tmp_path / "empty").mkdir()
    refused(nodes(capsys, "--nodes", tmp_path / "empty", queue), "empty", "has no nodes")
    refused(nodes(capsys, "--nodes", "3gpu-server:2", queue, config=None), "--kubelet-config: is missing")
    bad = ("--nodes", "3gpu-server:2", queue)
    refused(nodes(capsys, *bad, config=EIGHT / "kubelet-refused.yaml"), "the kubelet would not start")


# --- the choice ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("choice", "expected"), [
    ("first",  ["0", "0", "0", "1", "1"]),
    ("spread", ["0", "1", "0", "1", "0"]),
    ("sums",   ["0", "1", "0", "1", "0"]),
])  # fmt: skip
def test_choices(choice: str, expected: list[str], queue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = nodes(capsys, "--nodes", "3gpu-server:2", "--choose", choice, "-o", "json", queue)
    assert ran.status == 0
    assert [name.rpartition("-")[2] for name in placed(ran).values()] == expected


def test_a_scheduler_that_sees_sums_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two GPUs are free on each node, but only one of them has both on one NUMA node."""
    strict = tmp_path / "strict.yaml"
    strict.write_text(KUBELET.read_text().replace("best-effort", "single-numa-node"))
    (tmp_path / "nodes.yaml").write_text(
        f"- {{name: apart, machine: {THREE}/machine.yaml}}\n- {{name: together, machine: {THREE}/machine.yaml}}\n"
    )
    pods = (
        deployment("cpu", 1, "{cpu: 8, memory: 1Gi}")
        + "---\n"
        + deployment("three", 1, "{cpu: 2, memory: 1Gi, nvidia.com/gpu: 3}")
    )
    (tmp_path / "q.yaml").write_text(pods)
    words = ("--nodes", tmp_path / "nodes.yaml", tmp_path / "q.yaml")
    asking = json.loads(nodes(capsys, *words, "-o", "json", config=strict).out)
    assert [pod["verdict"] for pod in asking["pods"]] == ["placed", "nowhere"]
    assert asking["pods"][1]["reasons"] == [{"reason": "TopologyAffinityError", "nodes": 2}]
    sums = nodes(capsys, *words, "--choose", "sums", "-o", "json", config=strict)
    assert sums.status == 1
    found = json.loads(sums.out)
    assert [(pod["verdict"], pod["node"]) for pod in found["pods"]] == [
        ("placed", "apart"),
        ("rejected", "together"),
    ]
    assert (found["placed"], found["rejected"], found["nowhere"]) == (1, 1, 0)
    assert [node["rejected"] for node in found["nodes"]] == [0, 1]
    text = nodes(capsys, *words, "--choose", "sums", config=strict).out
    assert "three: 1 pod rejected by the kubelet of together: TopologyAffinityError\n" in text
    assert "1 of 2 pods placed on 2 nodes, 1 rejected by a kubelet\n" in text


def test_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    big = deployment("gpu", 8, "{cpu: 2, memory: 1Gi, nvidia.com/gpu: 1}") + "---\n"
    (tmp_path / "q.yaml").write_text(big + deployment("huge", 2, "{cpu: 99, memory: 1Gi}"))
    ran = nodes(capsys, "--nodes", "3gpu-server:4", tmp_path / "q.yaml")
    assert ran.status == 1
    lines = ran.out.splitlines()
    assert lines[0].split() == ["NODE", "PODS", "CPU", "EXCLUSIVE", "MEMORY", "DEVICES"]
    assert lines[1].startswith("3gpu-server-0 … 3gpu-server-1 (2)  3 ")
    assert "gpu       8     8       3gpu-server-0 (3), 3gpu-server-1 (3), 3gpu-server-2 (2)" in lines
    assert "huge: 2 pods fit nowhere: UnexpectedAdmissionError on 4 nodes" in lines
    assert lines[-1] == "8 of 10 pods placed on 4 nodes, 2 fit nowhere"


def test_json_and_yaml_say_the_same(queue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--nodes", THREE, queue)
    found = json.loads(nodes(capsys, *words, "-o", "json").out)
    assert found == yaml.safe_load(nodes(capsys, *words, "-o", "yaml").out)
    assert found["kind"] == "FleetSimulation"
    assert found["pods"][0]["containers"][0]["devices"] == {"nvidia.com/gpu": ["gpu0"]}


# --- long runs -----------------------------------------------------------------------------------


def long_run(tmp_path: Path, pods: int, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """A run of so many pods, with a terminal as its standard error."""
    (tmp_path / "long.yaml").write_text(deployment("web", pods, "{cpu: 100m, memory: 1Mi}"))
    (tmp_path / "k.yaml").write_text(KUBELET.read_text().replace("maxPods: 110", "maxPods: 100000"))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "numawise", "simulate", "--nodes", "2s-2n-512c-4tb:300", *words]
    files = ["--kubelet-config", str(tmp_path / "k.yaml"), str(tmp_path / "long.yaml")]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    started = subprocess.Popen(
        [*command, *files], stdout=subprocess.PIPE, stderr=theirs, cwd=ROOT, env=environment
    )
    os.close(theirs)
    return started, ours


def shown_until(descriptor: int, word: bytes) -> bytes:
    """What a terminal shows until this word, or until the program has closed it."""
    shown = b""
    while word not in shown and select.select([descriptor], [], [], PATIENCE)[0]:
        try:
            shown += os.read(descriptor, 65536)
        except OSError:
            break
    return shown


@needs.TERMINALS
@pytest.mark.parametrize("output", ["json", "text"])
def test_a_bar_and_what_is_known_when_interrupted(tmp_path: Path, output: str) -> None:
    started, terminal = long_run(tmp_path, 100_000, "-o", output)
    try:
        assert b"/100,000" in shown_until(terminal, b"/s")
        started.send_signal(signal.SIGINT)
        out = started.communicate(timeout=PATIENCE)[0]
    finally:
        started.kill()
        os.close(terminal)
    assert started.returncode == 130
    if output == "text":
        assert b"; interrupted, " in out
        return
    found: dict[str, Any] = json.loads(out)
    assert found["interrupted"] is True
    assert 0 < found["placed"] == len(found["pods"]) < 100_000


@needs.TERMINALS
def test_no_bar_when_quiet(tmp_path: Path) -> None:
    started, terminal = long_run(tmp_path, 1_500, "-q")  # long enough for a bar
    try:
        out = started.communicate(timeout=PATIENCE)[0]
        shown = shown_until(terminal, b"/s")
    finally:
        started.kill()
        os.close(terminal)
    assert (started.returncode, shown) == (0, b""), out


def test_no_bar_when_piped(queue: Path) -> None:
    assert program("simulate", "--nodes", "3gpu-server:2", "--kubelet-config", KUBELET, queue).err == ""

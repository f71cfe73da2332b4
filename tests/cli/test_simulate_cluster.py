"""``numawise simulate --cluster``: traces, choices side by side, the plot, and what is typed wrong."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.run import EXAMPLES, Ran, numawise, refused

EIGHT = EXAMPLES / "8gpu-server"
NODES = ("--nodes", "8gpu-server:1", "--kubelet-config", EIGHT / "kubelet-single-numa-node.yaml")
POD = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}


def trace(folder: Path, *rows: object) -> Path:
    path = folder / "day.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def job(at: float, seconds: float, gpus: int, **more: object) -> dict[str, object]:
    return {"at": at, "seconds": seconds, "gpus": gpus, "cpu": "2", "memory": "1Gi", **more}


def play(capsys: pytest.CaptureFixture[str], path: Path, *words: object) -> Ran:
    return numawise(capsys, "simulate", *NODES, "--cluster", path, *words)


def choices(ran: Ran) -> dict[str, dict[str, object]]:
    return {choice["choice"]: choice for choice in json.loads(ran.out)["choices"]}


@pytest.fixture
def broken_halves(tmp_path: Path) -> Path:
    """Three GPUs are taken on one half and three on the other; two are free, and no pair."""
    return trace(tmp_path, job(0, 1000, 3), job(1, 500, 3), job(2, 60, 2, name="pair"), job(3, 60, 1))


def test_what_sums_refuse_and_the_engine_lets_wait(
    broken_halves: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = play(capsys, broken_halves, "-o", "json")
    assert ran.status == 0
    found = choices(ran)
    assert list(found) == ["least-allocated", "most-allocated", "asked", "numawise", "pool"]
    assert [found[name]["refusals"] for name in found] == [16, 16, 0, 0, 0]
    pairs = {name: one["shapes"][1] for name, one in found.items()}  # type: ignore[index]
    assert {name: (one["started"], one["longest"]) for name, one in pairs.items()} == {
        "least-allocated": (1, 511.0),
        "most-allocated": (1, 511.0),
        "asked": (1, 499.0),
        "numawise": (1, 499.0),
        "pool": (1, 0.0),
    }


def test_retry(broken_halves: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = play(capsys, broken_halves, "-o", "json", "--choices", "least-allocated", "--retry", "5m")
    assert choices(ran)["least-allocated"]["refusals"] == 2


def test_the_table(broken_halves: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = play(capsys, broken_halves, "--choices", "asked,pool")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].split()[:4] == ["CHOICE", "SHAPE", "PODS", "REFUSED"]
    assert lines[2].split() == [
        "2",
        "gpu,",
        "2",
        "cpu,",
        "1Gi",
        "1",
        "0",
        *["499", "s"] * 4,
        "100",
        "%",
    ]
    assert lines[-1] == (
        "4 pods on 1 node; refusals: 0 with asked; mean wait of all pods: 125 s with asked and 15 s with pool"
    )


def test_the_plot(broken_halves: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = play(capsys, broken_halves, "-o", "svg", "--out", tmp_path / "day.svg")
    assert (ran.status, ran.out) == (0, "")
    drawn = (tmp_path / "day.svg").read_text(encoding="ascii")
    root = ET.fromstring(drawn)
    texts = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Pods that wait" in texts
    for name in ("least-allocated", "most-allocated", "asked", "numawise", "pool"):
        assert any(text.startswith(f"{name}: ") for text in texts)
    assert "<script" not in drawn


def test_what_never_starts_is_a_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = play(capsys, trace(tmp_path, job(0, 10, 5), job(0, 10, 1)), "--choices", "least-allocated,numawise")
    assert ran.status == 1
    assert "least-allocated: 1 pod never started" in ran.out
    assert "numawise: 1 pod never started" in ran.out


def test_retries_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path, job(0, 1e9, 1), job(0, 10, 5))
    found = choices(play(capsys, path, "-o", "json", "--choices", "least-allocated", "--retry", "1"))
    assert found["least-allocated"]["refusals"] == 1000
    assert found["least-allocated"]["never"] == 1


def test_every_form_of_a_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m"}, **POD}
    (tmp_path / "pod.yaml").write_text(json.dumps(manifest))
    path = trace(
        tmp_path,
        {"at": 0, "seconds": 5, "pod": manifest},
        {"at": "1m", "seconds": "5m", "file": "pod.yaml", "name": "other"},
        {"at": 3, "seconds": 5, "cpu": "1", "memory": "1Gi"},
        {"at": 2, "seconds": 5, "resources": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}},
    )
    found = choices(play(capsys, path, "-o", "json", "--choices", "numawise"))["numawise"]
    assert [(one["shape"]["name"], one["pods"]) for one in found["shapes"]] == [  # type: ignore[index, union-attr]
        ("1 gpu, 1 cpu, 1Gi", 1),
        ("1 cpu, 1Gi", 2),
        ("1 cpu, 1Gi", 1),
    ]


@pytest.mark.parametrize(("row", "words"), [
    ({"at": 0, "seconds": 5},                                  ["asks for nothing", "gpus"]),
    ({"at": 0, "seconds": 5, "gpus": 1, "pod": POD},           ["has pod and gpus"]),
    ({"at": -1, "seconds": 5, "gpus": 1},                      ["at", "is not a time"]),
    ({"at": 0, "gpus": 1},                                     ["seconds", "is not a time"]),
    ({"at": 0, "seconds": 0, "gpus": 1},                       ["seconds", "must be more than 0"]),
    ({"at": 0, "seconds": 5, "gpus": "two"},                   ["gpus", "must be an integer"]),
    ({"at": 0, "seconds": 5, "cpu": "many"},                   ["cpu", "is not a quantity"]),
    ({"at": 0, "seconds": 5, "cpu": "-1"},                     ["cpu", "is negative"]),
    ({"at": 0, "seconds": 5, "gpu": 1},                        ["gpu", "gpus"]),
    ({"at": 0, "seconds": 5, "file": "nowhere.yaml"},          ["there is no file", "nowhere.yaml"]),
    (5,                                                        ["must be a pod"]),
])  # fmt: skip
def test_rows_typed_wrong(
    row: object, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = play(capsys, trace(tmp_path, job(0, 5, 1), row))
    refused(ran, "day.jsonl:2", *words)


@pytest.mark.parametrize(("given", "words"), [
    (["--choices", "best"],               ["--choices", "best"]),
    (["--choices", ","],                  ["--choices", "least-allocated"]),
    (["--retry", "soon"],                 ["--retry", "soon", "30s"]),
    (["--retry", "0"],                    ["--retry", "from 1s"]),
    (["--patience", "-5"],                ["--patience", "-5"]),
    (["--choose", "spread"],              ["--cluster and --choose exclude each other"]),
    (["--map"],                           ["--cluster and --map exclude each other"]),
    (["-o", "html"],                      ["--cluster and -o html exclude each other"]),
    (["pod.yaml"],                        ["takes no further pods", "pod.yaml"]),
])  # fmt: skip
def test_options_typed_wrong(
    given: list[str], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(play(capsys, trace(tmp_path, job(0, 5, 1)), *given), *words)


def test_needs_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path, job(0, 5, 1))
    refused(
        numawise(capsys, "simulate", "--machine", "8gpu-server", "--cluster", path), "--cluster needs --nodes"
    )
    refused(numawise(capsys, "simulate", *NODES, "--patience", "5m", path), "--patience needs --cluster")


def test_an_empty_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "day.jsonl").write_text("[]")
    refused(play(capsys, tmp_path / "day.jsonl"), "has no pods")

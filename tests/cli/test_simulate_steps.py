"""``numawise simulate --steps``, ``--fill``, ``--compare``, ``--map``: pods over time on one node."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.run import EXAMPLES, Ran, numawise, refused

EIGHT, THREE = EXAMPLES / "8gpu-server", EXAMPLES / "3gpu-server"
PODS = EIGHT / "pods"
SMALL = """
kind: Pod
metadata: {name: small}
spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}}}]}
"""


def simulate(capsys: pytest.CaptureFixture[str], *words: object, server: Path = THREE) -> Ran:
    files = ("--machine", server / "machine.yaml", "--kubelet-config", server / "kubelet.yaml")
    return numawise(capsys, "simulate", *files, *words)


def played(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, *words: object, status: int = 0
) -> dict[str, Any]:
    """The JSON of a scenario on the machine with three GPUs."""
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "steps.yaml").write_text(text)
    ran = simulate(capsys, "--steps", tmp_path / "steps.yaml", "-o", "json", *words)
    assert (ran.status, ran.err) == (status, ""), ran
    return json.loads(ran.out)  # type: ignore[no-any-return]


def cpus(found: dict[str, Any]) -> dict[str, str]:
    return {pod["name"]: pod["containers"][0].get("cpus", pod.get("reason")) for pod in found["pods"]}


# --- steps ---------------------------------------------------------------------------------------


def test_what_is_freed_is_given_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "- add: {file: small.yaml, count: 2}\n- remove: small-0\n- add: {file: small.yaml}\n"
    found = played(capsys, tmp_path, text)
    assert cpus(found) == {"small-0": "1-2", "small-1": "3-4", "small": "1-2"}
    assert [pod["step"] for pod in found["pods"]] == [1, 1, 3]
    assert [(one["step"], one["op"]) for one in found["steps"]] == [(1, "add"), (2, "remove"), (3, "add")]
    assert found["steps"][1]["pods"] == [{"pod": "default/small-0", "done": True}]


def test_pods_on_the_command_line_come_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    found = played(capsys, tmp_path, "- add: small.yaml\n- remove: default/small*\n", tmp_path / "small.yaml")
    assert [(pod["step"], pod["uid"]) for pod in found["pods"]] == [
        (0, "default/small"),
        (1, "default/small#2"),
    ]
    assert [one["done"] for one in found["steps"][1]["pods"]] == [True, True]


@pytest.mark.parametrize(("change", "expected"), [
    ("{unhealthy: [gpu1]}",                  ["gpu2"]),
    ("{gone: [gpu1, gpu2]}",                 ["gpu0"]),
    ("{gone: all}",                          []),
    ("{gone: all, back: [gpu2]}",            ["gpu2"]),
])  # fmt: skip
def test_devices(
    change: str, expected: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pod = "{kind: Pod, metadata: {name: g}, spec: {containers: [{name: c, resources: {limits: {cpu: 14, memory: 1Gi, nvidia.com/gpu: 1}}}]}}"
    text = f"- devices: {{nvidia.com/gpu: {change}}}\n- add: {pod}\n"
    found = played(capsys, tmp_path, text, status=0 if expected else 1)
    (one,) = found["pods"]
    assert (one["verdict"] == "admitted") is bool(expected)
    if expected:
        assert one["containers"][0]["devices"] == {"nvidia.com/gpu": expected}


def test_a_restart_keeps_pods_where_they_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "- add: {file: small.yaml, count: 2}\n- remove: small-0\n- restart\n- add: small.yaml\n"
    found = played(capsys, tmp_path, text)
    restart = found["steps"][2]
    assert [pod["uid"] for pod in restart["readmitted"]] == ["default/small-1"]
    assert restart["readmitted"][0]["containers"][0]["cpus"] == "3-4"
    assert cpus(found)["small"] == "1-2"


def test_a_restart_with_another_policy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    none = (THREE / "kubelet.yaml").read_text().replace("cpuManagerPolicy: static", "cpuManagerPolicy: none")
    (tmp_path / "none.yaml").write_text(none)
    text = "- add: small.yaml\n- restart: {config: none.yaml}\n- add: small.yaml\n"
    found = played(capsys, tmp_path, text, status=1)
    assert found["steps"][1]["error"]["stage"] == "cpu-manager-start"
    assert len(found["steps"]) == 2  # nothing follows
    assert (found["admitted"], found["rejected"]) == (1, 1)
    text = text.replace("none.yaml", "none.yaml, delete: cpu_manager_state")
    found = played(capsys, tmp_path, text)
    assert [pod["containers"][0]["exclusive"] for pod in found["pods"]] == [True, False]


def test_a_pod_that_a_restart_loses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It spans two NUMA nodes, which the new policy does not allow, not even to one that runs."""
    text = (THREE / "kubelet.yaml").read_text()
    (tmp_path / "strict.yaml").write_text(text.replace("best-effort", "single-numa-node"))
    (tmp_path / "wide.yaml").write_text(SMALL.replace("cpu: 2", "cpu: 16"))
    (tmp_path / "s.yaml").write_text("- add: wide.yaml\n- restart: {config: strict.yaml}\n- add: wide.yaml\n")
    ran = simulate(capsys, "--steps", tmp_path / "s.yaml")
    assert ran.status == 1
    assert [line.split()[:4] for line in ran.out.splitlines()[1:4]] == [
        ["1", "small", "c", "admitted"],
        ["2", "(kubelet)", "-", "restarted"],
        ["2", "small", "c", "rejected"],
    ]
    assert ran.out.endswith("1 of 2 pods admitted, 1 of those that ran lost at a restart\n")
    found = json.loads(simulate(capsys, "--steps", tmp_path / "s.yaml", "-o", "json").out)
    assert found["lost"] == 1
    assert [pod["reason"] for pod in found["steps"][1]["readmitted"]] == ["TopologyAffinityError"]


def test_started_later(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "- add: {file: small.yaml, start: false}\n- start: small\n- start: small\n"
    found = played(capsys, tmp_path, text)
    assert found["pods"][0]["containers"][0]["cpus"] == "1-2"
    assert [one["pods"][0]["done"] for one in found["steps"][1:]] == [True, False]
    assert found["steps"][1]["started"][0]["containers"][0]["cpus"] == "1-2"


def test_reconcile_tells_what_changed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shared = "{kind: Pod, metadata: {name: shared}, spec: {containers: [{name: c, resources: {limits: {cpu: 500m, memory: 1Gi}}}]}}"
    text = f"- add: {shared}\n- add: small.yaml\n- reconcile\n"
    found = played(capsys, tmp_path, text)
    assert found["steps"][2]["pushed"] == [{"pod": "default/shared", "container": "c", "cpus": "0,3-27"}]


def test_the_table_has_numbers_and_times(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "s.yaml").write_text("- add: small.yaml\n- {at: 1h, remove: small}\n- remove: small\n")
    ran = simulate(capsys, "--steps", tmp_path / "s.yaml")
    rows = [line.split()[:5] for line in ran.out.splitlines()[:4]]
    assert rows == [
        ["STEP", "TIME", "POD", "CONTAINER", "VERDICT"],
        ["1", "-", "small", "c", "admitted"],
        ["2", "1h", "small", "-", "removed"],
        ["3", "1h", "small", "-", "not"],
    ]
    (tmp_path / "s.yaml").write_text("- add: small.yaml\n")
    assert simulate(capsys, "--steps", tmp_path / "s.yaml").out.startswith("STEP  POD ")


@pytest.mark.parametrize(("text", "words"), [
    ("- add: small.yaml\n- remove: smal",               ["steps.yaml:2: [1]", "there is no pod 'smal'", "did you mean 'small'?"]),
    ("- remove: small",                                 ["steps.yaml:1: [0]", "there is no pod 'small'", "none has come so far"]),
    ("- add: small.yaml\n- add: small.yaml\n- remove: small", ["steps.yaml:3", "matches several pods", "default/small#2"]),
    ("- devices: {nvidia.com/gpux: {gone: all}}",       ["steps.yaml:1: [0]", "no device plugin for nvidia.com/gpux", "nvidia.com/gpu"]),
    ("- devices: {nvidia.com/gpu: {gone: gpu9}}",       ["steps.yaml:1: [0]", "no device 'gpu9'", "gpu0, gpu1, gpu2"]),
    ("- restart: {config: small.yaml}",                 ["small.yaml:1", "has no kubelet configuration in it"]),
])  # fmt: skip
def test_steps_that_cannot_happen(
    text: str, words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "steps.yaml").write_text(text)
    refused(simulate(capsys, "--steps", tmp_path / "steps.yaml"), *words)


# --- fill ----------------------------------------------------------------------------------------


def filled(capsys: pytest.CaptureFixture[str], tmp_path: Path, limits: str, *words: object) -> dict[str, Any]:
    pod = f"kind: Pod\nmetadata: {{name: f}}\nspec: {{containers: [{{name: c, resources: {{limits: {limits}}}}}]}}\n"
    (tmp_path / "fill.yaml").write_text(pod)
    ran = simulate(capsys, "--fill", tmp_path / "fill.yaml", "-o", "json", *words)
    assert ran.err == ""
    (one,) = json.loads(ran.out)["filled"]
    assert ran.status == (0 if one["count"] else 1)
    return one  # type: ignore[no-any-return]


@pytest.mark.parametrize(("limits", "count", "places", "by", "reason"), [
    ("{cpu: 3, memory: 1Gi}",                    9,   {"0": 4, "1": 4, "0,1": 1}, "rejected", "UnexpectedAdmissionError"),
    ("{cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}", 3,   {"0": 1, "1": 2},           "rejected", "UnexpectedAdmissionError"),
    ("{cpu: 1, memory: 40Gi}",                   3,   {"0": 3},                   "rejected", "OutOfmemory"),
    ("{cpu: 40, memory: 1Gi}",                   0,   {},                         "rejected", "UnexpectedAdmissionError"),
    ("{cpu: 500m, memory: 1Gi}",                 55,  {"": 55},                   "rejected", "OutOfcpu"),
    ("{}",                                       110, {"": 110},                  "rejected", "OutOfpods"),
    ("{example.com/none: 1}",                    0,   {},                         "sums",     "OutOfexample.com/none"),
])  # fmt: skip
def test_how_many_more_fit(
    limits: str,
    count: int,
    places: dict[str, int],
    by: str,
    reason: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    one = filled(capsys, tmp_path, limits)
    found = {",".join(map(str, place["numa"])): place["count"] for place in one["places"]}
    assert (one["count"], found) == (count, places)
    assert (one["stopped"]["by"], one["stopped"]["reason"]) == (by, reason)
    assert len(one["copies"]) == count


def test_the_managers_may_stop_it_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Two GPUs of the first NUMA node cannot be had a third time; by sums they could."""
    files = (*sorted(PODS.glob("0[1-2]*.yaml")), "--fill", PODS / "06-multi-gpu-check.yaml")
    ran = simulate(capsys, *files, server=EIGHT)
    assert ran.status == 0
    assert "multi-gpu-numa-test: 1 more fit: 1 on NUMA 0\n" in ran.out
    pods = (*sorted(PODS.glob("05*.yaml")), "--fill", PODS / "02-four-gpu-training.yaml", "-o", "json")
    (one,) = json.loads(simulate(capsys, *pods, server=EIGHT).out)["filled"]
    stopped = one["stopped"]
    assert (one["count"], stopped["by"], stopped["reason"]) == (1, "rejected", "TopologyAffinityError")
    five = (EIGHT / "pods" / "05-affinity-check.yaml", "--fill", PODS / "04-five-gpu-training.yaml")
    files = ("--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet-single-numa-node.yaml")
    ran = numawise(capsys, "simulate", *files, *five)
    assert ran.status == 1
    assert "ai-training-5gpu: no more fit\n    the next one: TopologyAffinityError: " in ran.out
    assert "    Rejected, never on this machine as configured, even idle: nvidia.com/gpu: " in ran.out


def test_most(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = filled(capsys, tmp_path, "{cpu: 1, memory: 1Gi}", "--most", "4")
    assert (one["count"], one["stopped"]["by"]) == (4, "limit")
    found = played(
        capsys, tmp_path, "- fill: {file: small.yaml, most: 2}\n- fill: small.yaml\n", "--most", "5"
    )
    assert [one["count"] for one in found["filled"]] == [2, 5]


def test_what_is_running_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    empty = filled(capsys, tmp_path, "{cpu: 3, memory: 1Gi}")
    busy = filled(capsys, tmp_path, "{cpu: 3, memory: 1Gi}", "--state", THREE / "state" / "numa1-busy")
    assert busy["count"] == empty["count"] - 1


def test_the_copy_that_did_not_fit_leaves_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "--fill",
        PODS / "06-multi-gpu-check.yaml",
        "--fill",
        PODS / "05-affinity-check.yaml",
        "-o",
        "json",
    )
    first, second = json.loads(simulate(capsys, *words, server=EIGHT).out)["filled"]
    assert (first["count"], second["count"]) == (4, 0)


def test_a_fill_needs_one_kind_of_pod(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = SMALL.replace("small", "other").replace("cpu: 2", "cpu: 3")
    (tmp_path / "two.yaml").write_text(f"{SMALL}---{other}")
    refused(simulate(capsys, "--fill", tmp_path / "two.yaml"), "two.yaml", "holds pods that differ")


# --- two configurations --------------------------------------------------------------------------


def test_compare(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = (THREE / "kubelet.yaml").read_text()
    strict = tmp_path / "strict.yaml"
    strict.write_text(
        one.replace("topologyManagerPolicy: best-effort", "topologyManagerPolicy: single-numa-node")
    )
    pods = sorted((THREE / "pods" / "12-cpus-span-numa").glob("*.yaml"))
    ran = simulate(capsys, "--compare", strict, *pods)
    assert ran.status == 1
    marked = [line.split()[1:5] for line in ran.out.splitlines() if line.startswith("*")]
    name = json.loads(simulate(capsys, "-o", "json", *pods).out)["pods"][-1]["name"]
    assert marked == [[name, "app", "kubelet.yaml", "admitted"], [name, "app", "strict.yaml", "rejected"]]
    assert ran.out.splitlines()[-1] == "1 of 2 pods differs: kubelet.yaml admits 2 of 2, strict.yaml 1"
    found = json.loads(simulate(capsys, "--compare", strict, "-o", "json", *pods).out)
    assert (found["kind"], found["admitted"], found["differing"]) == ("ConfigComparison", [2, 1], 1)
    assert [pod["differs"] for pod in found["pods"]] == [False, True]
    assert [one["verdict"] for one in found["pods"][1]["outcomes"]] == ["admitted", "rejected"]
    assert found == yaml.safe_load(simulate(capsys, "--compare", strict, "-o", "yaml", *pods).out)


def test_compare_with_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    words = ("--compare", THREE / "kubelet.yaml", "--fill", tmp_path / "small.yaml", tmp_path / "small.yaml")
    ran = simulate(capsys, *words)
    assert ran.status == 0
    assert "no pod differs: " in ran.out
    assert ran.out.count("more fit") == 2


def test_compare_counts_copies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    text = (THREE / "kubelet.yaml").read_text()
    (tmp_path / "more.yaml").write_text(f"{text}\nreservedSystemCPUs: 0-9\n")
    ran = simulate(
        capsys, "--compare", tmp_path / "more.yaml", "--fill", tmp_path / "small.yaml", "-o", "json"
    )
    first, second = json.loads(ran.out)["filled"]
    assert ran.status == 1
    assert first[0]["count"] > second[0]["count"]


def test_compare_with_a_kubelet_that_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    pod = PODS / "05-affinity-check.yaml"
    ran = simulate(capsys, "--compare", EIGHT / "kubelet-refused.yaml", pod, server=EIGHT)
    refused(ran, "kubelet-refused.yaml", "the kubelet would not start")


# --- the map -------------------------------------------------------------------------------------


def test_the_map(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    pods = sorted((THREE / "pods" / "11-cpus-short").glob("*.yaml"))
    ran = simulate(capsys, "--map", *pods)
    assert ran.status == 0
    drawn = ran.out.partition("pods admitted\n\n")[2]
    assert "A the system (reserved): 0 " in drawn
    assert "B cpu12: 1-12 " in drawn
    assert "ABBBBBBBBBBBB·" in drawn
    assert "gpu1: gpu1-cpu3" in drawn


@pytest.mark.parametrize("form", ["svg", "html"])
def test_the_map_as_a_file(form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pods = sorted((THREE / "pods" / "11-cpus-short").glob("*.yaml"))
    out = tmp_path / f"map.{form}"
    ran = simulate(capsys, "-o", form, "--out", out, *pods)
    assert (ran.status, ran.out) == (0, "")
    assert "held by cpu12" in out.read_text()
    assert simulate(capsys, "-o", form, *pods).out == out.read_text()
    if form == "svg":
        ET.fromstring(out.read_text())


def test_more_pods_than_marks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = SMALL.replace("cpu: 2", "cpu: 1")
    (tmp_path / "one.yaml").write_text(text)
    words = ("--machine", "2s-2n-64c", "--kubelet-config", THREE / "kubelet.yaml")
    ran = numawise(capsys, "simulate", *words, "--fill", tmp_path / "one.yaml", "--map")
    assert "small: 63 more fit" in ran.out
    assert ran.out.count("held by") == 2


# --- what excludes each other --------------------------------------------------------------------


@pytest.mark.parametrize(("words", "told"), [
    (["--compare", "a", "--compare-kube", "1.35,1.36", "p"], ["--compare and --compare-kube exclude each other"]),
    (["--nodes", "a:2", "--compare", "b", "p"],              ["--nodes and --compare exclude each other"]),
    (["--nodes", "a:2", "--steps", "b", "p"],                ["--nodes and --steps exclude each other"]),
    (["--nodes", "a:2", "-o", "svg", "p"],                   ["--nodes and -o svg exclude each other"]),
    (["--compare", "b", "--map", "p"],                       ["--compare and --map exclude each other"]),
    (["--compare-kube", "1.35,1.36", "--fill", "x", "p"],    ["--compare-kube and --fill exclude each other"]),
    (["--steps", "-", "--fill", "-"],                        ["standard input (-) can be read only once"]),
])  # fmt: skip
def test_what_excludes_each_other(
    words: list[str], told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    refused(simulate(capsys, *words), *told)

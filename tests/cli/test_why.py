"""``numawise why``: the examples, the forms of the answer, exit codes, and bad input."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from numawise.explain.case import ExplainCase
from numawise.explain.explain import ExplainedCase, explain_case
from numawise.explain.node_changes import Elsewhere
from tests.cli.run import EXAMPLES, ROOT, Ran, numawise, program, refused

THREE, EIGHT, INCIDENT = (EXAMPLES / name for name in ("3gpu-server", "8gpu-server", "incident-server"))


def why(
    capsys: pytest.CaptureFixture[str], server: Path, *rest: object, kubelet: str = "kubelet.yaml"
) -> Ran:
    return numawise(
        capsys, "why", "--machine", server / "machine.yaml", "--kubelet-config", server / kubelet, *rest
    )


def pods(ran: Ran) -> list[dict[str, Any]]:
    found = json.loads(ran.out)
    assert (found["apiVersion"], found["kind"]) == ("numawise.dev/v1", "Explanation")
    assert found["admitted"] + found["rejected"] == len(found["pods"])
    return found["pods"]


def test_the_incident(capsys: pytest.CaptureFixture[str]) -> None:
    ran = why(capsys, INCIDENT, *sorted((INCIDENT / "pods").iterdir()))
    assert (ran.status, ran.err) == (1, "")
    told = " ".join(ran.out.split())
    assert "CPU hints only on NUMA 1, memory hints only on NUMA 0: no NUMA node serves both" in told
    assert "StatefulSet vmstorage-common keeps recreating it" in told
    assert (
        "1. Ask for 2 CPUs less: set cpu to 2 instead of 4 in container vmstorage (requests and limits)."
        in told
    )
    assert told.endswith("2 of 3 pods admitted")


def test_the_fix_of_the_incident_is_admitted(capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted((INCIDENT / "pods").glob("0*"))
    ran = why(capsys, INCIDENT, "-o", "json", *before, *(INCIDENT / "fixed").iterdir())
    assert ran.status == 0
    assert pods(ran)[-1]["answer"] == "Admitted: everything on NUMA 0: 2 CPUs (14-15), 120 GiB of memory"


def test_five_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    five = EIGHT / "pods" / "04-five-gpu-training.yaml"
    (one,) = pods(why(capsys, EIGHT, "-o", "json", five, kubelet="kubelet-single-numa-node.yaml"))
    assert one["answer"] == (
        "Rejected, never on this machine as configured, even idle: nvidia.com/gpu: 5 are asked for and no NUMA node of this machine can give more than 4; "
        "single-numa-node needs one NUMA node with all of them"
    )
    assert one["resources"] == ["nvidia.com/gpu"]
    assert (one["reason"], one["scope"], one["container"]) == ("TopologyAffinityError", "pod", "")
    edit = one["suggestions"][0]
    assert edit["pod"] == [
        {"op": "replace", "path": f"/spec/containers/0/resources/{side}/nvidia.com~1gpu", "value": "4"}
        for side in ("requests", "limits")
    ]


def test_every_form_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    five = EIGHT / "pods" / "04-five-gpu-training.yaml"
    forms = {
        form: why(capsys, EIGHT, "-o", form, five, kubelet="kubelet-single-numa-node.yaml").out
        for form in ("json", "yaml", "text")
    }
    assert json.loads(forms["json"]) == yaml.safe_load(forms["yaml"])
    assert json.loads(forms["json"])["pods"][0]["answer"] in " ".join(forms["text"].split())


def test_state_files_are_minded(capsys: pytest.CaptureFixture[str]) -> None:
    pod = next((THREE / "pods" / "14-both-short").glob("b-*"))
    state = THREE / "state" / "numa1-busy"
    (one,) = pods(why(capsys, THREE, "--state", state, "-o", "json", pod))
    assert one["answer"].startswith(
        "Admitted, but nothing is aligned: nvidia.com/gpu: 2 are asked for and would fit one NUMA node"
    )
    assert "5 CPUs (1-5) on NUMA 0 and 11 CPUs (17-27) on NUMA 1" in one["answer"]


def test_a_kubelet_that_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    pod = EIGHT / "pods" / "03-inference-service.yaml"
    ran = why(capsys, EIGHT, pod, kubelet="kubelet-refused.yaml")
    assert ran.status == 1
    told = " ".join(ran.out.split())
    assert told.startswith(
        'The kubelet does not start (memory-manager): the total amount "4Gi" of type "memory"'
    )
    assert "1. Set reservedMemory to 2148Mi on NUMA 0 and 2Gi on NUMA 1, 4196Mi in all." in told


def test_state_of_another_policy(capsys: pytest.CaptureFixture[str]) -> None:
    pod = next((THREE / "pods" / "01-3cpu").iterdir())
    ran = why(capsys, THREE, "--state", THREE / "state" / "policy-none", "-o", "json", pod)
    assert ran.status == 1
    (one,) = pods(ran)
    assert one["verdict"] == "not started"
    assert ["cpu_manager_state"] in [each.get("delete") for each in one["suggestions"]]


def test_memory_that_differs_after_a_reboot(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What keeps all that pods have comes first, in the words of the other commands; the kubelet starts after it."""
    state, pod = EIGHT / "state" / "after-reboot", EIGHT / "pods" / "01-single-gpu-training.yaml"
    node = ("--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet.yaml")
    ran = why(capsys, EIGHT, "--state", state, pod)
    told = " ".join(ran.out.split())
    repair = "numawise state repair --adapt-memory"
    assert (
        f"1. Stop the kubelet, run '{repair} --machine this --write', start it. (pods keep what they have) "
        "2. Stop the kubelet, delete /var/lib/kubelet/memory_manager_state, start it. (drain the node first: "
        "what its pods hold is forgotten)"
    ) in told
    fix = f"{repair}; pods keep what they have"
    for command in (("check", "--state", state), ("state", "verify", state)):
        assert fix in numawise(capsys, *command, *node).out
    for command in ("simulate", "capacity"):
        named = (
            (*node, "--state", state) if command == "simulate" else ("--nodes", _node_folder(tmp_path, state))
        )
        ran = numawise(capsys, command, *named, pod)
        assert (ran.status, ran.err.endswith(f"different from the real one; {fix}\n")) == (2, True), ran
    (one,) = pods(why(capsys, EIGHT, "--state", state, "-o", "json", pod))
    assert [each.get("repair") for each in one["suggestions"]] == [["--adapt-memory"], None]
    copy = tmp_path / "state"
    copy.mkdir()
    for file in state.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    done = numawise(capsys, "state", "repair", copy, *one["suggestions"][0]["repair"], *node, "--write")
    assert done.status == 0, done
    assert why(capsys, EIGHT, "--state", copy, pod).status == 0


def _node_folder(tmp_path: Path, state: Path) -> Path:
    folder = tmp_path / "node"
    folder.mkdir()
    for file in (
        EIGHT / "machine.yaml",
        EIGHT / "kubelet.yaml",
        *(one for one in state.iterdir() if one.is_file()),
    ):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_another_node(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, kubelet in (("strict", "kubelet-single-numa-node.yaml"), ("loose", "kubelet.yaml")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "machine.yaml").write_text((EIGHT / "machine.yaml").read_text())
        (tmp_path / name / "config.yaml").write_text((EIGHT / kubelet).read_text())
    five = EIGHT / "pods" / "04-five-gpu-training.yaml"
    nodes = ["--node", tmp_path / "strict", "--node", tmp_path / "loose"]
    (one,) = pods(why(capsys, EIGHT, "-o", "json", *nodes, five, kubelet="kubelet-single-numa-node.yaml"))
    assert one["suggestions"][0] == {
        "kind": "node",
        "text": "Send the pod to node loose, which admits it as it is",
        "node": "loose",
    }


@pytest.mark.parametrize(("hints", "status", "words"), [
    (["cpu=1! 0-1", "memory=0!"], 1, "Rejected: CPU hints only on NUMA 1, memory hints only on NUMA 0"),
    (["cpu=0! 0-1", "memory=0!"], 0, "Admitted: on NUMA 0, which all resources prefer"),
    (['cpu=[{"NUMANodeAffinity":2,"Preferred":true}]', "memory={01 true}"], 1, "Rejected: CPU hints only on NUMA 1"),
])  # fmt: skip
def test_pasted_hints(hints: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = [word for hint in hints for word in ("--hints", hint)]
    ran = numawise(capsys, "why", "--policy", "single-numa-node", *options)
    assert ran.status == status
    assert ran.out.startswith(words)


def test_older_release(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--policy", "restricted", "--hints", "cpu=0-1!", "--hints", "x/gpu=0! 1! 0-1"]
    assert numawise(capsys, "why", "--kube", "1.23", *options).status == 0
    assert numawise(capsys, "why", "--kube", "1.24", *options).status == 1


MACHINE, KUBELET = str(INCIDENT / "machine.yaml"), str(INCIDENT / "kubelet.yaml")
POD = str(INCIDENT / "pods" / "10-statefulset.yaml")


@pytest.mark.parametrize(("arguments", "words"), [
    ([],                                                              ["--machine: is missing", "--hints"]),
    (["--machine", MACHINE, POD],                                     ["--kubelet-config: is missing"]),
    (["--machine", MACHINE, "--kubelet-config", KUBELET],             ["PODS: is missing"]),
    (["--machine", MACHINE, "--kubelet-config", KUBELET, "/no/pod"],  ["/no/pod", "there is no such file"]),
    (["--machine", "-", "--kubelet-config", "-", POD],                ["standard input (-) can be read only once"]),
    (["--machine", MACHINE, "--kubelet-config", KUBELET, "--node", "/nowhere", POD], ["/nowhere: is not a directory"]),
    (["--machine", MACHINE, "--kubelet-config", KUBELET, "--node", str(EXAMPLES), POD], [f"{EXAMPLES}: has no machine.yaml"]),
    (["--machine", MACHINE, "--kubelet-config", KUBELET, "--policy", "none", POD], ["--policy and --numa go with --hints"]),
    (["--hints", "cpu=0!"],                                           ["--policy: is missing"]),
    (["--policy", "restricted", "--hints", "cpu=x"],                  ["--hints: cpu: 'x' is not a hint"]),
    (["--policy", "restricted", "--hints", "cpu=0!", POD],            ["--hints are explained without a machine"]),
    (["--kube", "2", "--policy", "restricted", "--hints", "cpu=0!"],  ["--kube", "'2'"]),
])  # fmt: skip
def test_bad_input(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    refused(numawise(capsys, "why", *arguments), *words)


def test_pipes_and_colours() -> None:
    arguments = ["why", "--policy", "single-numa-node", "--hints", "cpu=1!", "--hints", "memory=0!"]
    assert "\x1b" not in program(*arguments).out
    assert "\x1b" in program(*arguments, FORCE_COLOR="1").out
    assert "\x1b" not in program(*arguments, FORCE_COLOR="1", NO_COLOR="1").out


def test_standard_input(capsys: pytest.CaptureFixture[str]) -> None:
    del capsys
    ran = program("why", "--machine", MACHINE, "--kubelet-config", KUBELET, "-", stdin=Path(POD).read_text())
    assert ran.status == 0
    assert ran.out.startswith("vm-cluster-common/vmstorage-common-15\nAdmitted: everything on NUMA 0")


def test_examples_of_the_help_run(capsys: pytest.CaptureFixture[str]) -> None:
    help_text = numawise(capsys, "why", "--help").out.replace("\\\n", " ")
    lines = [line.strip() for line in help_text.splitlines() if line.strip().startswith("numawise why")]
    absent = ("m.yaml", "node7", "kubelet.log")
    runnable = [line for line in lines if not any(name in line for name in absent)]
    assert len(runnable) == 2
    for line in runnable:
        words = [
            word
            for part in shlex.split(line)[1:]
            for word in (sorted(map(str, ROOT.glob(part))) if "*" in part else [part])
        ]
        ran = program(*words)
        assert (ran.status, ran.err) == (1, "")


SMALL = """cpus:
- {cpu: 0, core: 0, socket: 0, numa: 0}
- {cpu: 1, core: 1, socket: 0, numa: 0}
- {cpu: 2, core: 2, socket: 0, numa: 0}
numa:
- {id: 0, memory: 8589934592, distances: [10]}
devices:
  example.com/fpga: {devices: [{id: a, numa: [0]}, {id: b, numa: [0]}, {id: c, numa: [0]}]}
"""
SMALL_KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
topologyManagerPolicy: POLICY
"""


@pytest.mark.parametrize(("policy", "inits", "containers", "expected"), [
    ("none",        [],                           [("a", {"cpu": "1"}), ("b", {"cpu": "2"})],
     "container b: cpu: 2 CPUs are asked for and 1 is free on the whole machine (NUMA 0 has 1 free); other containers of the pod have 1"),
    ("restricted",  [],                           [("a", {"cpu": "2"}), ("b", {"cpu": "1"})],
     "container b: cpu: 1 CPU is asked for and none is free on the whole machine; other containers of the pod have 2"),
    ("none",        [("i", {"example.com/fpga": "2"})], [("a", {"example.com/fpga": "4"})],
     "container a: example.com/fpga: 4 are asked for and 3 are free (3 in all, 2 left by init containers)"),
    ("none",        [],                           [("a", {"example.com/fpga": "2"}), ("b", {"example.com/fpga": "2"})],
     "container b: example.com/fpga: 2 are asked for and 1 is free (3 in all, 2 in other containers of the pod)"),
])  # fmt: skip
def test_what_the_pod_itself_has_is_said(
    policy: str,
    inits: list[tuple[str, dict[str, str]]],
    containers: list[tuple[str, dict[str, str]]],
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def made(some: list[tuple[str, dict[str, str]]]) -> list[dict[str, Any]]:
        common = {"memory": "64Mi"}
        return [
            {"name": name, "image": "x", "resources": {"limits": {"cpu": "1", **common, **limits}}}
            for name, limits in some
        ]

    spec = {"initContainers": made(inits), "containers": made(containers)}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    (tmp_path / "machine.yaml").write_text(SMALL)
    (tmp_path / "kubelet.yaml").write_text(SMALL_KUBELET.replace("POLICY", policy))
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    (one,) = pods(why(capsys, tmp_path, "-o", "json", "--kube", "1.36", tmp_path / "pod.yaml"))
    assert one["answer"].endswith(expected), one["answer"]


def test_pods_of_one_workload_are_explained_as_if_each_were_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One after the other they have one explanation; with others in between each has its own."""

    def explained(name: str, *containers: str) -> list[dict[str, Any]]:
        resources = {"limits": {"cpu": "16", "memory": "64Gi"}}
        items = [
            {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {"name": f"p{number}"},
                "spec": {
                    "containers": [{"name": containers[number % len(containers)], "resources": resources}]
                },
            }
            for number in range(12)
        ]
        path = tmp_path / name
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
        ran = why(capsys, EIGHT, "-o", "json", path)
        assert ran.status == 1
        found: list[dict[str, Any]] = json.loads(ran.out.replace("other", "same"))["pods"]
        return found

    alike, apart = explained("alike.json", "same"), explained("apart.json", "same", "other")
    assert [pod["name"] for pod in alike] == [f"p{number}" for number in range(12)]
    assert sum(pod["verdict"] != "admitted" for pod in alike) > 3
    assert alike == apart


def test_replicas_beyond_the_most_pods_have_one_explanation(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them leaves behind what its managers had allocated; that goes when the next one comes."""
    tried: list[str] = []

    def explain(
        case: ExplainCase, elsewhere: Sequence[Elsewhere], *, suggest: bool, walk: bool
    ) -> ExplainedCase:
        tried.append(case.pod.name)
        return explain_case(case, elsewhere, suggest=suggest, walk=walk)

    monkeypatch.setattr("numawise.apps.why.nodes.explain_case", explain)
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}}
    spec = {"parallelism": 40, "template": {"spec": {"containers": [{"name": "a", "resources": resources}]}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "many"}, "spec": spec}
    (tmp_path / "job.json").write_text(json.dumps(job))
    (tmp_path / "machine.yaml").write_text((EIGHT / "machine.yaml").read_text())
    (tmp_path / "kubelet.yaml").write_text((EIGHT / "kubelet.yaml").read_text() + "\nmaxPods: 10\n")
    found = pods(why(capsys, tmp_path, "-o", "json", tmp_path / "job.json"))
    assert [pod["verdict"] for pod in found] == ["admitted"] * 10 + ["rejected"] * 30
    assert len({pod["answer"] for pod in found[10:]}) == 1
    assert len(tried) < 15

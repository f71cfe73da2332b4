"""``numawise simulate``: the examples, the forms of the answer, and every kind of bad input."""

import json
import random
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.run import EXAMPLES, ROOT, Ran, numawise, program, refused
from tests.cli.smallnode import KUBELET, MACHINE

THREE, EIGHT, INCIDENT = (EXAMPLES / name for name in ("3gpu-server", "8gpu-server", "incident-server"))


def simulate(
    capsys: pytest.CaptureFixture[str],
    server: Path,
    *pods: Path,
    kubelet: str = "kubelet.yaml",
    state: Path | None = None,
    status: int = 0,
) -> list[dict[str, Any]]:
    """What became of the pods, from the JSON."""
    more = ["--state", state] if state else []
    ran = numawise(
        capsys, "simulate", "--machine", server / "machine.yaml", "--kubelet-config", server / kubelet, "-o", "json", *more, *pods
    )  # fmt: skip
    assert (ran.status, ran.err) == (status, "")
    found = json.loads(ran.out)
    assert found["kind"] == "Simulation"
    assert found["admitted"] + found["rejected"] == len(found["pods"])
    return found["pods"]


def granted(pod: dict[str, Any]) -> str:
    """CPUs and devices of the pod's only container, or the reason it was refused for."""
    if pod["verdict"] != "admitted":
        return pod["reason"]
    (container,) = pod["containers"]
    cpus = container["cpus"] if container["exclusive"] else "shared"
    return " ".join([cpus, *(i for ids in container["devices"].values() for i in ids)])


def affinity(pod: dict[str, Any]) -> str:
    hint = pod["containers"][0]["affinity"]
    return ",".join(map(str, hint["numa"])) + "!" * hint["preferred"]


def told_hints(pod: dict[str, Any], provider: str) -> dict[str, str]:
    (one_round,) = pod["rounds"]
    return {
        name: " ".join(",".join(map(str, nodes)) + "!" * liked for nodes, liked in hints)
        for name, hints in (one_round["hints"][provider] or {}).items()
    }


# --- the examples --------------------------------------------------------------------------------


@pytest.mark.parametrize(("folder", "expected", "last"), [
    ("01-3cpu",                 ["1-3"],                                "0!"),
    ("02-13cpu",                ["1-13"],                               "0!"),
    ("03-14cpu",                ["14-27"],                              "1!"),
    ("04-14cpu-12cpu",          ["14-27", "1-12"],                      "0!"),
    ("05-2gpu",                 ["shared gpu1 gpu2"],                   "1!"),
    ("06-1gpu-3cpu",            ["1-3 gpu0"],                           "0!"),
    ("07-2gpu-3cpu",            ["14-16 gpu1 gpu2"],                    "1!"),
    ("08-two-pods",             ["1-3 gpu0", "14-16 gpu1 gpu2"],        "1!"),
    ("09-two-equal-pods",       ["1-3 gpu0", "14-16 gpu1"],             "1!"),
    ("10-numa1-busy-1gpu-3cpu", ["14-16 gpu2", "1-3 gpu0"],             "0!"),
    ("11-cpus-short",           ["1-12", "14-16 gpu1"],                 "1!"),
    ("12-cpus-span-numa",       ["14-16 gpu2", "1-5,17-27 gpu0"],       "0,1"),
    ("13-gpus-short",           ["14-16 gpu2", "shared gpu0 gpu1"],     "0,1"),
    ("14-both-short",           ["14-16 gpu2", "1-5,17-27 gpu0 gpu1"],  "0,1"),
])  # fmt: skip
def test_three_gpu_server(
    folder: str, expected: list[str], last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    state = THREE / "state" / "numa1-busy" if "14-16 gpu2" in expected[:1] else None
    pods = simulate(capsys, THREE, *sorted((THREE / "pods" / folder).glob("*.yaml")), state=state)
    assert [granted(pod) for pod in pods] == expected
    assert affinity(pods[-1]) == last


def test_the_table_above_has_every_folder() -> None:
    folders = sorted(path.name for path in (THREE / "pods").iterdir())
    (table,) = (mark for mark in test_three_gpu_server.pytestmark if mark.name == "parametrize")
    assert [row[0] for row in table.args[1]] == folders


def test_three_gpu_server_on_the_state_of_another_policy(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(
        capsys, "simulate", "--machine", THREE / "machine.yaml", "--kubelet-config", THREE / "kubelet.yaml",
        "--state", THREE / "state" / "policy-none", THREE / "pods" / "01-3cpu" / "a-3cpu.yaml",
    )  # fmt: skip
    refused(ran, "policy-none", 'configured policy "static" differs from state checkpoint policy "none"')


def test_incident_server(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, replica = simulate(capsys, INCIDENT, *sorted((INCIDENT / "pods").glob("*.yaml")), status=1)
    assert (first["name"], granted(first)) == ("vmselect-common-3", "2-13")
    assert first["containers"][0]["memory"]["numa"] == "0"
    assert (second["name"], granted(second)) == ("vmstorage-common-7", "16-19")
    assert second["containers"][0]["memory"]["numa"] == "1"
    assert (replica["name"], replica["verdict"], replica["reason"]) == (
        "vmstorage-common-15",
        "rejected",
        "TopologyAffinityError",
    )
    assert replica["message"] == "Resources cannot be allocated with Topology locality"
    assert told_hints(replica, "cpu") == {"cpu": "1! 0,1"}
    assert told_hints(replica, "memory") == {"memory": "0!"}


def test_incident_server_with_fewer_cpus(capsys: pytest.CaptureFixture[str]) -> None:
    pods = [
        *sorted((INCIDENT / "pods").glob("0*.yaml")),
        INCIDENT / "fixed" / "10-statefulset-fewer-cpus.yaml",
    ]
    assert [granted(pod) for pod in simulate(capsys, INCIDENT, *pods)] == ["2-13", "16-19", "14-15"]


EIGHT_PODS = {
    "01-single-gpu-training": ("shared gpu0",                         "shared gpu0"),
    "02-four-gpu-training":   ("shared gpu0 gpu1 gpu2 gpu3",          "shared gpu4 gpu5 gpu6 gpu7"),
    "03-inference-service":   ("2-5,66-69 gpu0",                      "2-5,66-69 gpu1"),
    "04-five-gpu-training":   ("shared gpu0 gpu1 gpu2 gpu3 gpu4",     "TopologyAffinityError"),
    "05-affinity-check":      ("2-3,66-67 gpu0",                      "6-7,70-71 gpu2"),
    "06-multi-gpu-check":     ("2-5,66-69 gpu0 gpu1",                 "TopologyAffinityError"),
}  # fmt: skip


@pytest.mark.parametrize("name", EIGHT_PODS)
def test_eight_gpu_server_alone(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (pod,) = simulate(capsys, EIGHT, EIGHT / "pods" / f"{name}.yaml")
    assert granted(pod) == EIGHT_PODS[name][0]


def test_eight_gpu_server_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    pods = simulate(capsys, EIGHT, *sorted((EIGHT / "pods").glob("*.yaml")), status=1)
    assert [granted(pod) for pod in pods] == [together for _, together in EIGHT_PODS.values()]


def test_eight_gpu_server_single_numa_node(capsys: pytest.CaptureFixture[str]) -> None:
    five = EIGHT / "pods" / "04-five-gpu-training.yaml"
    (pod,) = simulate(capsys, EIGHT, five, kubelet="kubelet-single-numa-node.yaml", status=1)
    assert granted(pod) == "TopologyAffinityError"


def test_eight_gpu_server_refused(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(
        capsys, "simulate", "--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet-refused.yaml",
        EIGHT / "pods" / "01-single-gpu-training.yaml",
    )  # fmt: skip
    refused(ran, "kubelet-refused.yaml", "the kubelet would not start", '"4Gi"', '"4196Mi"')


def commands() -> list[str]:
    """The command lines in the README of the examples."""
    text = (EXAMPLES / "README.md").read_text()
    return [line for line in text.splitlines() if line.startswith("numawise ")]


def test_the_readme_of_the_examples_has_commands() -> None:
    assert len(commands()) >= 4


@pytest.mark.parametrize("line", commands())
def test_the_readme_of_the_examples_runs(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    arguments: list[str] = []
    for word in shlex.split(line)[1:]:
        matching = sorted(str(path) for path in Path().glob(word)) if "*" in word else []
        arguments += matching or [word]
    ran = numawise(capsys, *arguments)
    assert ran.status in (0, 1), ran.err
    assert not ran.err
    assert "pods admitted" in ran.out


# --- forms of the answer -------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a small machine, a configuration and a pod."""
    (tmp_path / "machine.yaml").write_text(MACHINE)
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    (tmp_path / "pod.yaml").write_text(POD)
    return tmp_path


POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: one
spec:
  containers:
  - name: app
    resources:
      limits:
        cpu: 1
        memory: 1Gi
        x/gpu: 1
"""


def run(
    capsys: pytest.CaptureFixture[str], here: Path, *arguments: object, pods: Sequence[object] = ("pod.yaml",)
) -> Ran:
    return numawise(
        capsys,
        "simulate",
        "--machine",
        here / "machine.yaml",
        "--kubelet-config",
        here / "kubelet.yaml",
        *arguments,
        *(pod if pod == "-" else here / str(pod) for pod in pods),
    )


def test_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, here)
    assert (ran.status, ran.err) == (0, "")
    head, row, *rest = ran.out.splitlines()
    assert head.split()[:3] == ["POD", "CONTAINER", "VERDICT"]
    assert row.split()[:4] == ["one", "app", "admitted", "1"]
    assert "x/gpu=a" in row
    assert rest[-1] == "1 of 1 pods admitted"
    assert "\x1b" not in ran.out  # no colours in a pipe


def test_text_of_a_refusal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "pod.yaml").write_text(POD.replace("cpu: 1", "cpu: 2").replace("x/gpu: 1", "x/gpu: 2"))
    ran = run(capsys, here)
    assert (ran.status, ran.err) == (1, "")
    assert "one: TopologyAffinityError: Resources cannot be allocated with Topology locality" in ran.out
    assert ran.out.endswith("0 of 1 pods admitted\n")


def test_json_and_yaml_say_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, here, "-o", "json").out)
    assert found == yaml.safe_load(run(capsys, here, "--output", "yaml").out)
    assert list(found) == ["apiVersion", "kind", "kubernetes", "admitted", "rejected", "pods"]
    (pod,) = found["pods"]
    assert (pod["name"], pod["namespace"], pod["qos"], pod["verdict"]) == (
        "one",
        "default",
        "Guaranteed",
        "admitted",
    )
    (container,) = pod["containers"]
    assert (container["cpus"], container["exclusive"], container["devices"]) == ("1", True, {"x/gpu": ["a"]})
    assert container["affinity"] == {"numa": [0], "preferred": True}


def test_the_kubelet_crashes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extra = "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\nevictionHard: {}\n"
    (here / "kubelet.yaml").write_text(KUBELET.replace("  cpu: 500m", "  cpu: 500m\n  memory: 1Gi") + extra)
    (here / "pod.yaml").write_text(POD.replace("        x/gpu: 1", "        hugepages-2Mi: 2Mi"))
    ran = run(capsys, here)
    assert (ran.status, ran.err) == (1, "")
    assert "one: the kubelet crashes: " in ran.out


def test_findings(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody would expect of the kubelet is told beside the answer."""
    (here / "machine.yaml").write_text(MACHINE.replace("numa: [1]", "numa: [0]"))
    (pod,) = json.loads(run(capsys, here, "-o", "json").out)["pods"]
    (finding,) = pod["findings"]
    assert finding["code"] == "device-choice-left-to-chance"
    assert "a, b" in finding["text"]
    assert "device-choice-left-to-chance" in run(capsys, here).out


def test_a_machine_on_which_the_kubelet_would_stall(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = range(16)
    wide = {
        "cpus": [{"cpu": i, "core": i, "socket": i, "numa": i} for i in nodes],
        "numa": [{"id": i, "memory": "1Gi"} for i in nodes],
        "devices": {"x/gpu": {"devices": [{"id": f"g{i:02}", "numa": [i]} for i in nodes]}},
    }
    (here / "machine.yaml").write_text(json.dumps(wide))
    option = "topologyManagerPolicyOptions: {max-allowable-numa-nodes: '16'}\n"
    (here / "kubelet.yaml").write_text(KUBELET + option)
    (pod,) = json.loads(run(capsys, here, "-o", "json").out)["pods"]
    assert pod["verdict"] == "admitted"
    assert "too-many-combinations" in {finding["code"] for finding in pod["findings"]}


def test_standard_input(here: Path) -> None:
    files = ["--machine", here / "machine.yaml", "--kubelet-config", here / "kubelet.yaml"]
    ran = program("simulate", *files, "-o", "json", "-", stdin=POD)
    assert ran.status == 0
    assert json.loads(ran.out)["pods"][0]["name"] == "one"
    refused(
        program("simulate", *files, "-", stdin="kind: Pod\nmetadata: {name: x}\nspec: {}\n"),
        "<stdin>:3",
        "spec.containers",
    )
    refused(program("simulate", *files, "-", stdin=""), "<stdin>", "is empty")


def test_standard_input_is_read_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(run(capsys, here, pods=["-", "-"]), "standard input (-) can be read only once")


def test_colours_where_they_are_wanted(here: Path) -> None:
    files = ["--machine", here / "machine.yaml", "--kubelet-config", here / "kubelet.yaml", here / "pod.yaml"]
    assert "\x1b" not in program("simulate", *files, NO_COLOR="1").out


def test_several_documents_and_kinds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = "kind: Job\nmetadata: {name: j}\nspec:\n  parallelism: 2\n  template: {spec: {containers: [{name: c}]}}\n"
    (here / "more.yaml").write_text(f"{POD}---\n{job}---\nkind: Service\nmetadata: {{name: s}}\n")
    found = json.loads(run(capsys, here, "-o", "json", pods=["more.yaml"]).out)
    assert [pod["name"] for pod in found["pods"]] == ["one", "j-0", "j-1"]


# --- beginning with state files ------------------------------------------------------------------


def state_of(here: Path, **files: str) -> Path:
    folder = here / "state"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


CPU_STATE = '{"policyName":"static","defaultCpuSet":"0,2-3","entries":{"u":{"c":"1"}},"checksum":0}'


def test_state(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = state_of(here, cpu_manager_state=CPU_STATE)
    found = json.loads(run(capsys, here, "--state", state, "-o", "json").out)
    assert found["pods"][0]["containers"][0]["cpus"] == "2"  # node 0 has no CPU left but the reserved one


def test_a_damaged_device_file_is_a_warning(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = state_of(here, cpu_manager_state=CPU_STATE, kubelet_internal_checkpoint="{")
    ran = run(capsys, here, "--state", state)
    assert ran.status == 0
    (line,) = ran.err.splitlines()
    assert line.startswith("numawise: warning: ")
    assert "kubelet_internal_checkpoint: unexpected end of JSON input" in line


@pytest.mark.parametrize(("text", "words"), [
    pytest.param(CPU_STATE[:40],               ["unexpected end of JSON input"],                                id="truncated"),
    pytest.param("",                           ["unexpected end of JSON input"],                                id="empty"),
    pytest.param(CPU_STATE.replace(":0}", ":1}"), ["checkpoint is corrupted"],                                  id="checksum"),
    pytest.param(CPU_STATE.replace("2-3", "2"), ['available CPUs "0-3" doesn\'t match with CPUs in state "0-2"'], id="other CPUs"),
    pytest.param("x" * 10_000_000,             ["invalid character 'x' looking for beginning of value"],        id="10 MB of garbage"),
    pytest.param("[" * 100_000,                ["exceeded max depth"],                                          id="deep"),
])  # fmt: skip
def test_damaged_state_files(
    text: str, words: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = state_of(here, cpu_manager_state=text)
    refused(
        run(capsys, here, "--state", state),
        str(state),
        "the kubelet would not start (cpu-manager-start)",
        *words,
    )


def test_a_binary_state_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = state_of(here)
    (state / "cpu_manager_state").write_bytes(b"\xff\x00\xfe")
    refused(run(capsys, here, "--state", state), str(state), "looking for beginning of value")


@pytest.mark.parametrize(("name", "words"), [
    ("none",        "there is no such file or folder"),
    ("pod.yaml",    "is not a kubelet state file"),
    ("empty",       "has no kubelet state files"),
])  # fmt: skip
def test_state_folders_that_are_none(
    name: str, words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "empty").mkdir()
    refused(run(capsys, here, "--state", here / name), str(here / name), words)


# --- bad input -----------------------------------------------------------------------------------


def garbage(count: int) -> bytes:
    return random.Random(7).randbytes(count)


NOT_TEXT = b"\x7fELF\x02\x01\x01\x00\x00\x00\xff\xfe"


@pytest.mark.parametrize(("file", "old", "new", "words"), [
    # fields
    pytest.param("machine.yaml", "memory: 4Gi}", "memory: 4Gi, speed: 5}", [":7: numa[0].speed", 'unknown field "speed"'], id="unknown field, machine"),
    pytest.param("machine.yaml", "devices:\n  x", "devces:\n  x",          [":9: devces", 'did you mean "devices"?'],     id="misspelt field, machine"),
    pytest.param("kubelet.yaml", "cpuManagerPolicy", "cpuManagerPolicyy",  [":3: cpuManagerPolicyy", 'did you mean "cpuManagerPolicy"?'], id="misspelt field, kubelet"),
    pytest.param("pod.yaml",     "limits", "limts",                        [":9: spec.containers[0].resources.limts", 'did you mean "limits"?'], id="misspelt field, pod"),
    pytest.param("machine.yaml", "numa:\n- {id: 0", "cpus: []\nnuma:\n- {id: 0", [":6", 'the key "cpus" appears twice'],  id="duplicate key, machine"),
    pytest.param("kubelet.yaml", "systemReserved", "cpuManagerPolicy: none\nsystemReserved", [":5", 'key "cpuManagerPolicy" already set in map'], id="duplicate key, kubelet"),
    pytest.param("pod.yaml",     "kind: Pod", "kind: Pod\nkind: Pod",      [":3", 'the key "kind" appears twice'],       id="duplicate key, pod"),
    # values
    pytest.param("machine.yaml", "cpu: 1,", "cpu: -1,",                    [":3: cpus[1].cpu", "not -1"],                id="negative CPU"),
    pytest.param("machine.yaml", "cpu: 1,", "cpu: 0,",                     [":3: cpus[1].cpu", "CPU 0 is already cpus[0]"], id="CPU twice"),
    pytest.param("machine.yaml", "cpu: 1,", "cpu: one,",                   [":3: cpus[1].cpu", '"one"'],                 id="CPU by name"),
    pytest.param("machine.yaml", "cpu: 1, core: 1,", "cpu: 1,",            [":3: cpus[1].core", "is missing"],           id="CPU without a core"),
    pytest.param("machine.yaml", "numa: [1]", "numa: [7]",                 [":13: devices[x/gpu].devices[1].numa[0]", "there is no NUMA node 7"], id="device on no NUMA node"),
    pytest.param("machine.yaml", "socket: 1, numa: 1", "socket: 1, numa: 9", [":4: cpus[2].numa", "there is no NUMA node 9"], id="CPU on no NUMA node"),
    pytest.param("machine.yaml", "memory: 4Gi", "memory: -4Gi",            [":7: numa[0].memory", "-4Gi"],               id="negative memory"),
    pytest.param("machine.yaml", "x/gpu:", "gpu:",                         [":10: devices[gpu]", "nvidia.com/gpu"],      id="resource without a domain"),
    pytest.param("pod.yaml",     "cpu: 1", "cpu: -1",                      [":10: spec.containers[0].resources.limits[cpu]", "must be greater than or equal to 0"], id="negative request"),
    pytest.param("pod.yaml",     "cpu: 1", "cpu: 1 core",                  [":10: spec.containers[0].resources.limits[cpu]", "is not a quantity"], id="no quantity"),
    pytest.param("pod.yaml",     "x/gpu: 1", "x/gpu: 0.5",                 [":12", "must be an integer"],                id="half a GPU"),
    pytest.param("pod.yaml",     "kind: Pod", "kind: Pdo",                 [":2: kind", 'objects of kind "Pdo"'], id="misspelt kind"),
    pytest.param("pod.yaml",     "kind: Pod", "kind: Service",             ["has no pods"],                              id="no pods"),
    pytest.param("kubelet.yaml", "kind: KubeletConfiguration", "kind: Pod", ['no kind "Pod" is registered'],             id="not a configuration"),
    pytest.param("kubelet.yaml", "cpu: 500m", "cpu: [1]",                  ["cannot unmarshal array"],                   id="wrong type, kubelet"),
    # kubelets that would not start
    pytest.param("kubelet.yaml", "cpu: 500m", "memory: 1Gi",               ["would not start (cpu-manager)", "unable to determine reserved CPU resources"], id="no reservation"),
    pytest.param("kubelet.yaml", "static", "dynamic",                      ["would not start (cpu-manager)", 'unknown policy: "dynamic"'], id="no such policy"),
    pytest.param("kubelet.yaml", "restricted", "strict",                   ["would not start (validate-config)", '"strict" must be one of'], id="no such topology policy"),
    pytest.param("kubelet.yaml", "systemReserved", "featureGates: {TopologyManager: true}\nsystemReserved", ["unrecognized feature gate: TopologyManager"], id="a gate that is gone"),
    # form
    pytest.param("machine.yaml", "numa:\n- {id: 0", "numa:\n- {id: 0,,",   [":7", "is not valid YAML"],                  id="broken YAML"),
    pytest.param("kubelet.yaml", "  cpu: 500m", "\tcpu: 500m",             [":6", "indent with spaces, not tabs"],       id="a tab"),
    pytest.param("machine.yaml", "devices:\n  x", "---\ndevices:\n  x",    ["holds 2 documents"],                        id="two documents"),
])  # fmt: skip
def test_bad_values(
    file: str, old: str, new: str, words: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (here / file).read_text()
    assert old in text
    (here / file).write_text(text.replace(old, new, 1))
    refused(run(capsys, here), str(here / file), *words)


OF_A_MACHINE = {
    "there is no such file": "is neither a file, a folder nor a machine",
    "is a directory": "has neither sys nor proc nor machine.yaml",
}


OF_PODS = {"is a directory": "no file in it ends in .yaml"}


@pytest.mark.parametrize("file", ["machine.yaml", "kubelet.yaml", "pod.yaml"])
@pytest.mark.parametrize(("content", "words"), [
    pytest.param(None,                        "there is no such file",   id="missing"),
    pytest.param("a directory",               "is a directory",          id="directory"),
    pytest.param(b"",                         "is empty",                id="empty"),
    pytest.param(b"# nothing but a comment\n", "is empty",               id="a comment"),
    pytest.param(NOT_TEXT,                    "is not text",             id="binary"),
    pytest.param(garbage(1_000_000),          "is not text",             id="1 MB of bytes"),
    pytest.param(b"x" * 1_000_000,            "",                        id="1 MB of text"),
    pytest.param(b"[" * 1_000_000,            "",                        id="1 MB of brackets"),
    pytest.param(b"- a\n" * 250_000,          "",                        id="1 MB of items"),
    pytest.param(b'{"cpus": [{"cpu": 0,\n',   "is not valid JSON",       id="truncated JSON"),
    pytest.param(b"a: &a [*a]\n",             "",                        id="inside itself"),
    pytest.param(b"just text\n",              "",                        id="text"),
    pytest.param(b"[1, 2]\n",                 "",                        id="a list"),
    pytest.param(b"null\n",                   "is empty",                id="null"),
])  # fmt: skip
def test_files_that_are_none(
    file: str, content: bytes | str | None, words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = here / file
    path.unlink()
    if isinstance(content, str):
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    words = {"machine.yaml": OF_A_MACHINE, "pod.yaml": OF_PODS}.get(file, {}).get(words, words)
    refused(run(capsys, here), str(path), words)


def test_nothing_is_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = state_of(here, cpu_manager_state=CPU_STATE)
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert run(capsys, here, "--state", state).status == 0
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


def test_the_program_refuses_with_one_line(here: Path) -> None:
    files = ["--machine", here / "machine.yaml", "--kubelet-config", here / "kubelet.yaml"]
    refused(program("simulate", *files, here / "none.yaml"), "none.yaml", "there is no such file")
    (here / "machine.yaml").write_text(MACHINE.replace("cpu: 1,", "cpu: -1,"))
    refused(program("simulate", *files, here / "pod.yaml"), "machine.yaml:3: cpus[1].cpu")

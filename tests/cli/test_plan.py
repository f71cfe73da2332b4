"""``numawise plan``: configurations, switches and pods, as people and programs get them."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from numawise.apps.bundle.gather import gather
from numawise.apps.bundle.pack import packed
from numawise.inputs.gathered import NodeSources
from numawise.machine.catalog import CATALOG
from tests.cli.run import EXAMPLES, numawise, program, refused
from tests.nodetree import grow_node, pod_list

Capture = pytest.CaptureFixture[str]
SERVER = EXAMPLES / "8gpu-server"
SMALL = EXAMPLES / "3gpu-server"
MACHINE = ("--machine", SERVER / "machine.yaml")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    path = tmp_path / "new.yaml"
    path.write_text(
        "cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node\nkubeReserved: {cpu: 100m}\n"
        "systemReserved: {cpu: 100m}\nevictionHard: {}\n"
    )
    return path


# --- kubelet -------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", ["training", "inference", "latency"])
def test_kubelet_is_checked_and_used(capsys: Capture, tmp_path: Path, goal: str) -> None:
    config = tmp_path / "kubelet.yaml"
    ran = numawise(capsys, "plan", "kubelet", *MACHINE, "--goal", goal, "--kube", "1.34", "--out", config)
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    checked = numawise(capsys, "check", "--kubelet-config", config, *MACHINE, "--kube", "1.34")
    assert checked.status == 0, checked
    pods = SERVER / "pods" / "05-affinity-check.yaml"
    ran = numawise(capsys, "simulate", *MACHINE, "--kubelet-config", config, "--kube", "1.34", pods)
    assert ran.status == 0


@pytest.mark.parametrize("goal", ["training", "inference", "latency"])
def test_a_plan_for_any_machine_passes_the_check(capsys: Capture, tmp_path: Path, goal: str) -> None:
    config, failed = tmp_path / "kubelet.yaml", []
    for name in CATALOG:
        assert (
            numawise(capsys, "plan", "kubelet", "--machine", name, "--goal", goal, "--out", config).status
            == 0
        )
        checked = numawise(capsys, "check", "--strict", "--machine", name, "--kubelet-config", config)
        if checked.status:
            failed.append(f"{name}: {checked.out}")
    assert not failed


OWN = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}}
clusterDNS: [10.96.0.10]
cgroupDriver: systemd
staticPodPath: /etc/kubernetes/manifests
topologyManagerPolicy: single-numa-node
topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
memoryManagerPolicy: None
kubeReserved: {cpu: 500m, memory: 1Gi, ephemeral-storage: 2Gi}
evictionHard: {memory.available: 500Mi, nodefs.available: 15%}
featureGates: {KubeletInUserNamespace: false}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    return path


def test_kubelet_keeps_the_nodes_own_fields(capsys: Capture, own: Path) -> None:
    text = numawise(capsys, "plan", "kubelet", *MACHINE, "--kubelet-config", own).out
    planned, before = yaml.safe_load(text), yaml.safe_load(OWN)
    for name in ("authentication", "clusterDNS", "cgroupDriver", "staticPodPath", "featureGates"):
        assert planned[name] == before[name]
    assert planned["kubeReserved"] == {"cpu": "500m", "memory": "7680Mi", "ephemeral-storage": "2Gi"}
    assert planned["evictionHard"] == {"memory.available": "1Gi", "nodefs.available": "15%"}
    assert planned["topologyManagerPolicy"] == "restricted"
    assert "topologyManagerPolicyOptions" not in planned
    own.write_text(text)
    checked = numawise(capsys, "check", "--kubelet-config", own, *MACHINE)
    assert checked.status == 0, checked


def test_kubelet_over_a_configuration_that_it_cannot_be_laid_over(capsys: Capture, own: Path) -> None:
    own.write_text(OWN + "kubeReservedCgroup: /kube\nenforceNodeAllocatable: [pods, kube-reserved]\n")
    ran = numawise(capsys, "plan", "kubelet", *MACHINE, "--kubelet-config", own)
    refused(ran, "no configuration was found that starts on this machine", "kubeReservedCgroup")


def test_kubelet_has_a_reason_for_every_line(capsys: Capture) -> None:
    text = numawise(capsys, "plan", "kubelet", *MACHINE).out
    assert text.startswith("# 8gpu-server: 2 sockets, 2 NUMA nodes, 64 cores, 128 CPUs, 1 TiB, 8 GPUs\n")
    assert "8Gi + 8Gi = kubeReserved 7680Mi + systemReserved 7680Mi + eviction 1Gi = 16Gi" in text.replace(
        "\n# ", " "
    )
    assert all(len(line) <= 100 for line in text.splitlines())
    data = json.loads(numawise(capsys, "plan", "kubelet", *MACHINE, "-o", "json").out)
    assert (data["apiVersion"], data["kind"]) == ("numawise.dev/v1", "KubeletPlan")
    assert data["configuration"] == yaml.safe_load(text)
    assert {"cpuManagerPolicy", "reservedSystemCPUs", "reservedMemory"} <= set(data["reasons"])
    assert [room["cpus"] for room in data["rooms"]] == [62, 62]


def test_kubelet_with_wishes(capsys: Capture) -> None:
    words = ("--reserve-cpus", 8, "--reserve-memory", "32Gi", "--hugepages", "1Gi=16")
    text = numawise(capsys, "plan", "kubelet", *MACHINE, *words).out
    config = yaml.safe_load(text)
    assert config["reservedSystemCPUs"] == "0-1,32-33,64-65,96-97"
    assert [one["limits"]["memory"] for one in config["reservedMemory"]] == ["16Gi", "16Gi"]
    assert "#   hugepagesz=1G hugepages=0:16,1:16\n" in text


def test_kubelet_for_words_and_names(capsys: Capture) -> None:
    for name in ("dgx-h100", "2s 4n 64c 2t 8gpu"):
        ran = numawise(capsys, "plan", "kubelet", "--machine", name)
        assert (ran.status, ran.out.splitlines()[0].partition(":")[0]) == (0, f"# {name}")


# --- switch --------------------------------------------------------------------------------------


def test_switch(capsys: Capture, new: Path) -> None:
    state = SMALL / "state" / "policy-none"
    machine = SMALL / "machine.yaml"
    pods = sorted((SMALL / "pods" / "14-both-short").glob("*.yaml"))
    words = (SMALL / "kubelet.yaml", new, "--state", state, "--machine", machine, "--node", "gpu53", *pods)
    ran = numawise(capsys, "plan", "switch", *words, "--kube", "1.27")
    assert ran.status == 1
    assert (
        '  cpu_manager_state: remove, configured policy "static" differs from state checkpoint policy "none"\n'
        in ran.out
    )
    assert "2. Drain it (" in ran.out
    assert "     kubectl drain gpu53 --ignore-daemonsets --delete-emptydir-data --timeout=15m\n" in ran.out
    assert "gpu2-cpu16  -             rejected       TopologyAffinityError: " in ran.out
    data = json.loads(numawise(capsys, "plan", "switch", *words, "-o", "json").out)
    assert (data["kind"], data["node"]) == ("SwitchPlan", "gpu53")
    assert [one["file"] for one in data["stateFiles"] if one["remove"]] == ["cpu_manager_state"]


def test_switch_writes_a_script(capsys: Capture, new: Path, tmp_path: Path) -> None:
    script = tmp_path / "switch.sh"
    words = (SMALL / "kubelet.yaml", new, "--machine", SMALL / "machine.yaml", "--node", "n1")
    ran = numawise(capsys, "plan", "switch", *words, "--script", script)
    assert ran.status == 0
    assert f"sh {script} --dry-run\n" in ran.out
    assert script.stat().st_mode & 0o111
    done = subprocess.run(["sh", str(script), "--dry-run"], capture_output=True, text=True, check=True)
    assert "+ kubectl cordon n1\n" in done.stdout
    assert numawise(capsys, "plan", "switch", *words, "--script", "-").out == script.read_text()


def test_switch_drops_no_field(capsys: Capture, own: Path, new: Path, tmp_path: Path) -> None:
    merged, words = tmp_path / "merged.yaml", ("plan", "switch", own, new, *MACHINE)
    ran = numawise(capsys, *words, "--config-out", merged)
    assert ran.status == 0
    assert f"cp {merged} /var/lib/kubelet/config.yaml" in ran.out
    assert "clusterDNS" in ran.err
    written, before = yaml.safe_load(merged.read_text()), yaml.safe_load(OWN)
    assert {*before, "cpuManagerPolicy", "systemReserved"} - {*written} == {"topologyManagerPolicyOptions"}
    assert written["kubeReserved"] == {"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "2Gi"}
    script = numawise(capsys, *words, "--script", "-").out
    assert merged.read_text() in script


def test_switch_drops_fields_on_demand(capsys: Capture, own: Path, new: Path) -> None:
    ran = numawise(capsys, "plan", "switch", own, new, *MACHINE, "--replace", "-o", "json")
    data = json.loads(ran.out)
    assert (data["kept"], data["changes"]["clusterDNS"]) == ([], {"old": ["10.96.0.10"], "new": None})
    assert "clusterDNS" in ran.err
    assert "will be dropped" in ran.err


def test_switch_to_what_does_not_start(capsys: Capture, new: Path) -> None:
    new.write_text("cpuManagerPolicy: static\n")
    words = ("plan", "switch", SMALL / "kubelet.yaml", new, "--machine", SMALL / "machine.yaml", "--replace")
    ran = numawise(capsys, *words)
    assert ran.status == 1
    assert "[cpumanager] unable to determine reserved CPU resources for static policy" in ran.out
    assert "1. " not in ran.out


# --- pod -----------------------------------------------------------------------------------------


def test_pod_out_of_flags_goes_through_simulate(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "pod.yaml"
    words = ("--gpus", 4, "--cpus", 32, "--memory", "128Gi", "--shm", "64Gi", "--image", "train:1")
    command = ("--command", "torchrun --nproc_per_node=4 'my train.py'")
    ran = numawise(capsys, "plan", "pod", *MACHINE, *words, *command, "--name", "t4", "--out", out)
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    found = yaml.safe_load(out.read_text())
    assert found["metadata"]["name"] == "t4"
    assert found["spec"]["containers"][0]["command"] == ["torchrun", "--nproc_per_node=4", "my train.py"]
    config = SERVER / "kubelet.yaml"
    ran = numawise(capsys, "simulate", *MACHINE, "--kubelet-config", config, "--kube", "1.36", out)
    assert ran.status == 0


@pytest.mark.parametrize(("name", "status"), [
    ("01-single-gpu-training", 0),
    ("02-four-gpu-training",   0),
    ("03-inference-service",   0),
    ("04-five-gpu-training",   1),
    ("05-affinity-check",      0),
    ("06-multi-gpu-check",     0),
])  # fmt: skip
def test_the_documents_pods(capsys: Capture, name: str, status: int) -> None:
    config = ("--kubelet-config", SERVER / "kubelet.yaml", "--kube", "1.36")
    ran = numawise(capsys, "plan", "pod", *MACHINE, *config, SERVER / "pods" / f"{name}.yaml")
    assert ran.status == status
    told = ran.out.replace("\n# ", " ")
    assert ("Tried: admitted on the node (1.36)" in told) == (status == 0)
    assert ("5 nvidia.com/gpu cross NUMA nodes, because none of them has more than 4." in told) == (
        status == 1
    )
    data = json.loads(
        numawise(capsys, "plan", "pod", *MACHINE, *config, SERVER / "pods" / f"{name}.yaml", "-o", "json").out
    )
    assert (data["kind"], data["aligned"]) == ("PodPlan", status == 0)
    assert data["manifests"] == list(yaml.safe_load_all(ran.out))


def test_several_files_stay_several_documents(capsys: Capture) -> None:
    files = sorted((SERVER / "pods").glob("0[56]*.yaml"))
    ran = numawise(capsys, "plan", "pod", *MACHINE, *files)
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(ran.out)] == [
        "numa-affinity-test",
        "multi-gpu-numa-test",
    ]


def test_a_pod_without_a_machine_is_not_tried(capsys: Capture) -> None:
    ran = numawise(capsys, "plan", "pod", SERVER / "pods" / "05-affinity-check.yaml")
    assert ran.status == 0
    assert "# Note: Not tried: give --machine" in ran.out


# --- bundles and bad input -----------------------------------------------------------------------


def test_a_bundle_stands_for_the_node(capsys: Capture, tmp_path: Path, new: Path) -> None:
    root = grow_node(tmp_path / "root")
    (tmp_path / "pods.json").write_text(pod_list("ab"))
    collected = gather(NodeSources(root=root, pods=(str(tmp_path / "pods.json"),), kube="1.36.4"))
    bundle = tmp_path / "node.tar.gz"
    bundle.write_bytes(packed(collected, keep_names=True, when=datetime(2026, 11, 15, tzinfo=UTC)).data)
    ran = numawise(capsys, "plan", "kubelet", "--bundle", bundle)
    assert ran.status == 0
    assert "Kubernetes 1.36. Tried by simulation" in ran.out
    ran = numawise(capsys, "plan", "switch", new, new, "--bundle", bundle)
    assert "POD " in ran.out
    ran = numawise(capsys, "plan", "pod", "--bundle", bundle, "--image", "x", "--cpus", 1, "--memory", "64Mi")
    assert "the node (1.36)" in ran.out.replace("\n# ", " ")


@pytest.mark.parametrize(("words", "told"), [
    pytest.param(["kubelet"],                                                        ["--machine", "is missing"],         id="no machine"),
    pytest.param(["kubelet", "--machine", "nothing"],                                ["'nothing' is neither"],            id="an unknown machine"),
    pytest.param(["kubelet", "--machine", "dgx-h100", "--reserve-cpus", "1000"],     ["--reserve-cpus", "1000 of 224"],   id="too many CPUs"),
    pytest.param(["kubelet", "--machine", "dgx-h100", "--reserve-memory", "4X"],    ["--reserve-memory", "4X"],          id="no size"),
    pytest.param(["kubelet", "--machine", "dgx-h100", "--reserve-memory", "4Ti"],    ["--reserve-memory", "4Ti of 2Ti"],  id="too much memory"),
    pytest.param(["kubelet", "--machine", "dgx-h100", "--hugepages", "1Gi"],         ["--hugepages", "'1Gi'"],            id="no number of pages"),
    pytest.param(["kubelet", "--machine", "dgx-h100", "--kube", "1.2"],              ["--kube", "1.2"],                   id="an old release"),
    pytest.param(["kubelet", "--machine", "dgx-h100", "--out", "no/where"],          ["no/where", "cannot be written"],   id="nowhere to write"),
    pytest.param(["switch", "-", "k.yaml"],                                          ["must be files"],                   id="standard input"),
    pytest.param(["switch", "k.yaml", "missing.yaml"],                               ["missing.yaml", "no such file"],    id="no file"),
    pytest.param(["switch", "k.yaml", "bad.yaml"],                                   ["bad.yaml:1", "cpuManagerPolicyy"], id="a misspelt field"),
    pytest.param(["pod"],                                                            ["--image", "is missing"],           id="no image"),
    pytest.param(["pod", "--image", "x", "--cpus", "4"],                             ["--memory", "does not say"],        id="no memory"),
    pytest.param(["pod", "--image", "x", "--command", "'"],                          ["--command", "quot"],               id="half a command"),
    pytest.param(["pod", "--image", "x", "k.yaml"],                                  ["--image is for a new pod"],        id="both"),
    pytest.param(["pod", "k.yaml"],                                                  ["k.yaml"],                          id="no pod"),
    pytest.param(["pod", "--image", "x", "--state", "."],                            [".", "has no kubelet state files"],            id="state without machine"),
    pytest.param(["pod", "--image", "x", "--cpus", "4", "--memory", "1Gi", "--gpus", "1", "--shm", "2Gi"], ["--shm", "leaves nothing of 1Gi"], id="too much shared memory"),
])  # fmt: skip
def test_bad_input(tmp_path: Path, words: list[str], told: list[str]) -> None:
    (tmp_path / "k.yaml").write_text(
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
    )
    (tmp_path / "bad.yaml").write_text("cpuManagerPolicyy: static\n")
    refused(program("plan", *words, cwd=tmp_path), *told)


@pytest.mark.parametrize("name", ["kubelet", "switch", "pod"])
def test_help_has_examples(capsys: Capture, name: str) -> None:
    ran = numawise(capsys, "plan", name, "--help")
    assert f"numawise plan {name}" in ran.out.partition("Examples:")[2]
    assert "Exit status: 0" in ran.out


def test_a_script_for_nobody_leaves_the_device_alone(capsys: Capture, new: Path) -> None:
    before = Path("/dev/null").stat()
    words = (SMALL / "kubelet.yaml", new, "--machine", SMALL / "machine.yaml", "--node", "n1")
    assert numawise(capsys, "plan", "switch", *words, "--script", "/dev/null").status == 0
    after = Path("/dev/null").stat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)

"""``numawise plan switch`` where a platform writes the kubelet's configuration."""

import base64
import json
from pathlib import Path

import pytest
import yaml

from numawise.codec.kubelet.platforms import platforms
from numawise.inputs.config import read_config
from numawise.rules.versions import DEFAULT
from tests.cli.run import EXAMPLES, numawise, refused

Capture = pytest.CaptureFixture[str]
PLATFORMS = EXAMPLES / "platforms"
MACHINE = ("--machine", EXAMPLES / "8gpu-server" / "machine.yaml")
NEW = "cpuManagerPolicy: static\ntopologyManagerPolicy: restricted\nreservedSystemCPUs: 0-1,64-65\n"
OWN = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {{x509: {{clientCAFile: {ca}}}}}
clusterDNS: [10.96.0.10]
"""


@pytest.fixture
def new(tmp_path: Path) -> Path:
    path = tmp_path / "new.yaml"
    path.write_text(NEW)
    return path


# fmt: off
@pytest.mark.parametrize(("old", "platform", "words"), [
    ("karpenter.yaml",                    "karpenter",             ["kubectl apply -f ec2nodeclass.yaml", "new nodes have no state files"]),
    ("bottlerocket.toml",                 "bottlerocket",          ["user-data.toml", 'reserved-cpus = "0-1,64-65"']),
    ("eks-bootstrap.sh",                  "eks-bootstrap",         ["--reserved-cpus=0-1,64-65'"]),
    ("eks-user-data.txt",                 "eks",                   ["update-nodegroup-version"]),
    ("eksctl.yaml",                       "eksctl",                ["name: gpu-numawise", "eksctl create nodegroup"]),
    ("cluster-api.yaml",                  "cluster-api",           ["kubeletconfiguration9+merge.yaml"]),
    ("openshift-kubeletconfig.yaml",      "openshift",             ["oc apply -f kubeletconfig.yaml", "kubelet-cleanup.service"]),
    ("openshift-performanceprofile.yaml", "openshift-performance", ['reserved: "0-1,64-65"', 'isolated: "2-63,66-127"', "machineconfigpool/gpu"]),
    ("gke.yaml",                          "gke",                   ["--system-config-from-file=system-config.yaml"]),
    ("aks.json",                          "aks",                   ["az aks nodepool add"]),
    ("talos.yaml",                        "talos",                 ["talosctl -n node7 patch machineconfig"]),
    ("k3s.yaml",                          "k3s",                   ["systemctl stop k3s-agent", "config.yaml.d/90-numawise.yaml"]),
])
def test_the_old_configuration_shows_the_platform(
    capsys: Capture, new: Path, tmp_path: Path, old: str, platform: str, words: list[str]
) -> None:
    out = tmp_path / "object"
    ran = numawise(capsys, "plan", "switch", PLATFORMS / old, new, "--node", "node7", "--config-out", out, *MACHINE)
    lacking = platforms()[platform].only  # reservedSystemCPUs cannot be set there
    assert ran.status == (1 if lacking else 0), ran
    assert f"Platform: {platforms()[platform].title} (" in ran.out
    assert all(word in ran.out for word in words), ran.out
    assert "systemctl stop kubelet" not in ran.out
    assert ("reservedSystemCPUs: " + platforms()[platform].title + " has no setting" in ran.out) == bool(lacking)
    written = read_config(str(out)).raw(DEFAULT)
    assert (written["cpuManagerPolicy"], written["topologyManagerPolicy"]) == ("static", "restricted")
    assert lacking or written["reservedSystemCPUs"] == "0-1,64-65"
# fmt: on


# fmt: off
@pytest.mark.parametrize(("ca", "platform"), [
    ("/etc/kubernetes/kubelet-ca.crt",              "openshift"),
    ("/etc/srv/kubernetes/pki/ca-certificates.crt", "gke"),
    ("/etc/kubernetes/certs/ca.crt",                "aks"),
    ("/var/lib/rancher/k3s/agent/client-ca.crt",    "k3s"),
    ("/var/lib/rancher/rke2/agent/client-ca.crt",   "rke2"),
    ("/etc/ssl/some.crt",                           None),
])
def test_a_nodes_own_configuration_gives_it_away(
    capsys: Capture, new: Path, tmp_path: Path, ca: str, platform: str | None
) -> None:
    old = tmp_path / "config.yaml"
    old.write_text(OWN.format(ca=ca))
    ran = numawise(capsys, "plan", "switch", old, new, "-o", "json")
    found = json.loads(ran.out)["platform"]
    assert (found and found["name"]) == platform
# fmt: on


def test_kubeadm_is_edited_in_place_and_gets_its_patch(capsys: Capture, new: Path, tmp_path: Path) -> None:
    old, script = tmp_path / "config.yaml", tmp_path / "switch.sh"
    text = OWN.format(ca="/etc/kubernetes/pki/ca.crt") + "staticPodPath: /etc/kubernetes/manifests\n"
    old.write_text(text)
    ran = numawise(capsys, "plan", "switch", old, new, "--script", script, *MACHINE)
    assert ran.status == 0, ran
    assert "kubeadm upgrade node writes" in ran.out
    assert "kubeletconfiguration0+merge.yaml" in ran.out
    assert "systemctl stop kubelet" in ran.out
    assert "clusterDNS" in script.read_text()


def test_a_version_shows_the_platform(capsys: Capture, new: Path, tmp_path: Path) -> None:
    old = tmp_path / "config.yaml"
    old.write_text("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n")
    ran = numawise(capsys, "plan", "switch", old, new, "--kube", "v1.34.2+k3s1", "-o", "json")
    assert json.loads(ran.out)["platform"]["name"] == "k3s"


def test_labels_of_the_node_object_show_it(capsys: Capture, new: Path, tmp_path: Path) -> None:
    old, node = tmp_path / "config.yaml", tmp_path / "node.yaml"
    old.write_text("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n")
    labels = {"cloud.google.com/gke-nodepool": "gpu"}
    node.write_text(yaml.safe_dump({"kind": "Node", "metadata": {"name": "node7", "labels": labels}}))
    ran = numawise(capsys, "plan", "switch", old, new, "--node-object", node, "-o", "json")
    assert json.loads(ran.out)["platform"]["name"] == "gke"


def test_named_platform_and_pool(capsys: Capture, new: Path, tmp_path: Path) -> None:
    old = tmp_path / "config.yaml"
    old.write_text("cpuManagerPolicy: none\n")
    arguments = ("plan", "switch", old, new, "--platform", "openshift", "--pool", "gpu", "-o", "json")
    plan = json.loads(numawise(capsys, *arguments).out)
    made = yaml.safe_load(plan["platform"]["text"])
    assert made["kind"] == "KubeletConfig"
    labels = made["spec"]["machineConfigPoolSelector"]["matchLabels"]
    assert labels == {"pools.operator.machineconfiguration.openshift.io/gpu": ""}
    assert plan["stateFiles"] == []
    assert "machineconfigpool/gpu" in str(plan["steps"])


def test_none_takes_the_file(capsys: Capture, new: Path) -> None:
    ran = numawise(capsys, "plan", "switch", PLATFORMS / "kubeadm.yaml", new, "--platform", "none")
    assert "Platform:" not in ran.out
    assert "systemctl stop kubelet" in ran.out


def test_state_files_go_where_nodes_stay(capsys: Capture, new: Path, tmp_path: Path) -> None:
    old = tmp_path / "config.yaml"
    old.write_text("kubelet-arg: [max-pods=50]\n")
    ran = numawise(capsys, "plan", "switch", old, new, "--node", "node7", *MACHINE)
    steps = [line for line in ran.out.splitlines() if line[:1].isdigit()]
    titles = [line.split(". ", 1)[1].split(" (")[0] for line in steps]
    assert titles == [
        "Cordon the node", "Drain it", "Stop the kubelet", "Remove cpu_manager_state",
        "Put the file beside the configuration, on the node", "Start the kubelet", "Verify", "Uncordon the node",
    ]  # fmt: skip


def test_what_is_not_the_managers_is_left_to_the_platform(capsys: Capture, tmp_path: Path) -> None:
    new = tmp_path / "new.yaml"
    new.write_text(f"{NEW}clusterDNS: [10.0.0.10]\n")
    ran = numawise(capsys, "plan", "switch", PLATFORMS / "talos.yaml", new)
    assert ran.status == 1
    assert "clusterDNS: it is not a field of the managers" in ran.out


def test_no_pod_is_tried_where_the_platform_reserves(capsys: Capture, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text("kubeletConfig: {cpuManagerPolicy: none}\n")
    new.write_text("cpuManagerPolicy: static\n")
    ran = numawise(capsys, "plan", "switch", old, new, *MACHINE)
    assert ran.status == 0, ran
    assert "how much is not known here, so no pod was tried" in ran.err


def test_a_script_is_refused(capsys: Capture, new: Path, tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    refused(
        numawise(capsys, "plan", "switch", PLATFORMS / "gke.yaml", new, "--script", script), "would be undone"
    )
    assert not script.exists()


# fmt: off
@pytest.mark.parametrize("old", [
    "{kind: EC2NodeClass, metadata: [1], spec: {userData: [1], kubelet: {cpuManagerPolicy: none}}}",
    "{kind: KubeletConfig, metadata: [1], spec: {kubeletConfig: {cpuManagerPolicy: none}}}",
    "{kind: ClusterConfig, nodeGroups: [{kubeletExtraConfig: {cpuManagerPolicy: none}}, 5]}",
    "{kind: PerformanceProfile, metadata: {annotations: 5}, spec: {cpu: {reserved: 0, isolated: 1-3}}}",
    "{kind: PerformanceProfile, spec: {cpu: {isolated: x}}}",
    "{kind: NodeConfig, spec: {kubelet: {config: {cpuManagerPolicy: none}, flags: [1, {a: b}]}}}",
    "{machine: {kubelet: {extraArgs: [1], extraConfig: {cpuManagerPolicy: none}}}}",
    "{kubelet-arg: 5, kubelet-arg+: [cpu-manager-policy=none]}",
    "{kubeletConfig: {cpuManagerPolicy: none, topologyManager: null}}",
    "{kind: KubeadmConfig, spec: {files: [5], joinConfiguration: {patches: 5, nodeRegistration: {kubeletExtraArgs: {max-pods: 5}}}}}",
    "{kind: KubeadmConfig, spec: {files: {a: b}, joinConfiguration: {nodeRegistration: {kubeletExtraArgs: [{name: max-pods, value: 5}, 5]}}}}",
])
def test_objects_of_odd_shape(capsys: Capture, new: Path, tmp_path: Path, old: str) -> None:
    path, out = tmp_path / "old.yaml", tmp_path / "out"
    path.write_text(old)
    ran = numawise(capsys, "plan", "switch", path, new, "--config-out", out)
    assert ran.status in (0, 1), ran.err
    assert read_config(str(out)).raw(DEFAULT)["topologyManagerPolicy"] == "restricted"
# fmt: on


def test_packed_user_data_is_unpacked(capsys: Capture, new: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "old.txt", tmp_path / "out"
    path.write_bytes(base64.b64encode((PLATFORMS / "bottlerocket.toml").read_bytes()))
    ran = numawise(capsys, "plan", "switch", path, new, "--config-out", out)
    assert ran.status == 0, ran.err
    assert 'cluster-name = "training"' in out.read_text()


def test_an_unknown_platform(capsys: Capture, new: Path) -> None:
    ran = numawise(capsys, "plan", "switch", PLATFORMS / "gke.yaml", new, "--platform", "openshft")
    refused(ran, "unknown platform 'openshft'", "openshift")

"""Configurations as platforms keep them: read by the one loader, with their lines, flags and platform."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from numawise.apps.check.lint import lint
from numawise.errors import InputError, KubeletRefused
from numawise.inputs.config import read_config, read_configs
from numawise.inputs.spec import NodeSpec, read_node, start_node
from numawise.results.finding import Severity
from numawise.rules.versions import DEFAULT
from tests.check.folder import named

PLATFORMS = Path(__file__).parents[3] / "examples" / "platforms"
STATIC = {"cpuManagerPolicy": "static"}


# fmt: off
@pytest.mark.parametrize(("name", "platform", "fields", "lines"), [
    # file, platform, fields of what the kubelet gets, fields and the lines that they stand on
    ("karpenter.yaml",        "karpenter",     {**STATIC, "topologyManagerPolicy": "restricted", "maxPods": 110,
                                                "kubeReserved": {"cpu": "1", "memory": "2Gi"}},
                                               {"cpuManagerPolicy": 21, "maxPods": 7}),
    ("bottlerocket.toml",     "bottlerocket",  {**STATIC, "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
                                                "topologyManagerScope": "pod", "reservedSystemCPUs": "0-1,64-65",
                                                "memoryManagerPolicy": "Static", "kubeReserved": {"memory": "1Gi"},
                                                "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1124Mi"}}],
                                                "evictionHard": {"memory.available": "100Mi"}},
                                               {"cpuManagerPolicy": 4, "reservedMemory": 11, "evictionHard": 18}),
    ("eks-bootstrap.sh",      "eks-bootstrap", {**STATIC, "topologyManagerPolicy": "best-effort",
                                                "reservedSystemCPUs": "0,1"},
                                               {"cpuManagerPolicy": 6, "reservedSystemCPUs": 7}),
    ("eks-user-data.txt",     "eks",           {**STATIC, "topologyManagerPolicy": "restricted",
                                                "topologyManagerScope": "pod",
                                                "kubeReserved": {"cpu": "2", "memory": "4Gi"}},
                                               {"cpuManagerPolicy": 15, "topologyManagerScope": 29}),
    ("eksctl.yaml",           "eksctl",        {**STATIC, "reservedSystemCPUs": "0-3"}, {"cpuManagerPolicy": 13}),
    ("cluster-api.yaml",      "cluster-api",   {**STATIC, "topologyManagerPolicy": "single-numa-node",
                                                "topologyManagerScope": "pod",
                                                "systemReserved": {"cpu": "1", "memory": "1Gi"}},
                                               {"cpuManagerPolicy": 11, "topologyManagerPolicy": 22,
                                                "topologyManagerScope": 25}),
    ("openshift-kubeletconfig.yaml", "openshift", {**STATIC, "reservedSystemCPUs": "0-3"}, {"cpuManagerPolicy": 10}),
    ("openshift-performanceprofile.yaml", "openshift-performance",
                                               {**STATIC, "cpuManagerReconcilePeriod": "5s",
                                                "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
                                                "topologyManagerPolicy": "single-numa-node",
                                                "topologyManagerScope": "pod", "reservedSystemCPUs": "0-3",
                                                "memoryManagerPolicy": "Static",
                                                "kubeReserved": {"memory": "500Mi"}, "systemReserved": {"memory": "8Gi"},
                                                "reservedMemory": [{"numaNode": 0, "limits": {"memory": "8792Mi"}}]},
                                               {"topologyManagerPolicy": 17, "reservedSystemCPUs": 10,
                                                "topologyManagerScope": 6}),
    ("openshift-machineconfig.yaml", "openshift", {**STATIC, "topologyManagerPolicy": "restricted",
                                                "topologyManagerScope": "pod", "systemReserved": {"cpu": "1"}},
                                               {"cpuManagerPolicy": 15, "topologyManagerScope": 19}),
    ("gke.yaml",              "gke",           {**STATIC, "memoryManagerPolicy": "Static",
                                                "topologyManagerPolicy": "restricted", "topologyManagerScope": "pod"},
                                               {"cpuManagerPolicy": 2, "memoryManagerPolicy": 4,
                                                "topologyManagerScope": 7}),
    ("aks.json",              "aks",           {**STATIC, "topologyManagerPolicy": "best-effort", "cpuCFSQuota": False,
                                                "imageGCHighThresholdPercent": 90, "containerLogMaxSize": "50Mi"},
                                               {"cpuManagerPolicy": 2, "imageGCHighThresholdPercent": 4}),
    ("talos.yaml",            "talos",         {**STATIC, "maxPods": 200, "systemReserved": {"cpu": "1"}},
                                               {"cpuManagerPolicy": 7, "maxPods": 5}),
    ("k3s.yaml",              "k3s",           {**STATIC, "kubeReserved": {"cpu": "1", "memory": "1Gi"}},
                                               {"cpuManagerPolicy": 4}),
    ("kubeadm.yaml",          "kubeadm",       {**STATIC, "topologyManagerPolicy": "restricted",
                                                "systemReserved": {"cpu": "1"}},
                                               {"cpuManagerPolicy": 5, "topologyManagerPolicy": 14}),
    ("kubespray.yml",         "kubeadm",       {**STATIC, "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
                                                "reservedSystemCPUs": "0-1"},
                                               {"cpuManagerPolicy": 1, "reservedSystemCPUs": 6}),
    ("kops.yaml",             "",              {**STATIC, "kubeReserved": {"cpu": "1"},
                                                "evictionHard": {"memory.available": "500Mi", "nodefs.available": "10%"}},
                                               {"cpuManagerPolicy": 9}),
], ids=lambda value: value if isinstance(value, str) else "")
def test_platform_forms(name: str, platform: str, fields: dict[str, Any], lines: dict[str, int]) -> None:
    config = read_config(str(PLATFORMS / name))
    config.config(DEFAULT)  # nothing in it is refused
    configuration = config.configuration(DEFAULT)
    assert {field: configuration.raw.get(field) for field in fields} == fields
    assert {field: configuration.place(field).line for field in lines} == lines
    assert (configuration.platform.name if configuration.platform else "") == platform
    whole = name == "kubeadm.yaml"  # the node begins the cluster: its configuration is all there is
    assert configuration.partial is not whole
    assert ("part of a kubelet configuration" in config.remark) is not whole
# fmt: on


def test_every_example_is_compared() -> None:
    compared = test_platform_forms.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {path.name for path in PLATFORMS.iterdir()} == {case[0] for case in compared}


# --- the same configuration in other dress -----------------------------------------------------


def raw(text: str, tmp_path: Path, name: str = "config") -> dict[str, Any]:
    path = tmp_path / name
    path.write_text(text)
    return dict(read_config(str(path)).raw(DEFAULT))


def test_user_data_as_base64(tmp_path: Path) -> None:
    for name in ("eks-user-data.txt", "eks-bootstrap.sh", "bottlerocket.toml"):
        text = (PLATFORMS / name).read_text()
        packed = base64.b64encode(text.encode()).decode()
        assert raw(packed, tmp_path) == raw(text, tmp_path)
        template = {"Resources": {"LaunchTemplate": {"Properties": {"UserData": packed}}}}
        found = raw(yaml.safe_dump(template), tmp_path)
        assert found == raw(text, tmp_path)


@pytest.mark.parametrize("encoding", ["base64", "gzip+base64", ""])
def test_files_of_cluster_api(tmp_path: Path, encoding: str) -> None:
    text = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\ncpuManagerPolicy: static\n"
    packed = {
        "": text,
        "base64": base64.b64encode(text.encode()).decode(),
        "gzip+base64": base64.b64encode(gzip.compress(text.encode())).decode(),
    }[encoding]
    file = {"path": "/etc/kubernetes/kubelet.conf.d/10-cpu.conf", "content": packed, "encoding": encoding}
    template = {
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1",
        "kind": "KubeadmConfigTemplate",
        "spec": {"template": {"spec": {"files": [file]}}},
    }
    assert raw(yaml.safe_dump(template), tmp_path)["cpuManagerPolicy"] == "static"


def test_flags_of_cluster_api_as_a_map_and_as_a_list(tmp_path: Path) -> None:
    values: list[object] = [
        {"cpu-manager-policy": "static", "kube-reserved": "cpu=1"},
        [{"name": "cpu-manager-policy", "value": "static"}, {"name": "kube-reserved", "value": "cpu=1"}],
    ]
    found = []
    for flags in values:
        spec = {"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": flags}}}
        spec["initConfiguration"] = spec["joinConfiguration"]
        plane = {"kind": "KubeadmControlPlane", "spec": {"kubeadmConfigSpec": spec}}
        found.append(raw(json.dumps(plane), tmp_path))
    assert found[0] == found[1]
    assert found[0]["kubeReserved"] == {"cpu": "1"}


def test_first_node_and_others_with_different_flags_are_two_kubelets(tmp_path: Path) -> None:
    ways = {
        way: {"nodeRegistration": {"kubeletExtraArgs": {"cpu-manager-policy": policy}}}
        for way, policy in (("initConfiguration", "none"), ("joinConfiguration", "static"))
    }
    path = tmp_path / "plane.yaml"
    path.write_text(json.dumps({"kind": "KubeadmControlPlane", "spec": {"kubeadmConfigSpec": ways}}))
    configs, _ = read_configs([str(path)])
    assert [one.raw(DEFAULT)["cpuManagerPolicy"] for one in configs] == ["none", "static"]


def test_a_script_that_writes_a_drop_in(tmp_path: Path) -> None:
    text = (
        "#!/bin/sh\ncat <<'EOF' >/etc/kubernetes/kubelet/config.json.d/99-numa.conf\n"
        '{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",\n'
        ' "topologyManagerPolicy": "restricted"}\nEOF\n'
        '/etc/eks/bootstrap.sh it --kubelet-extra-args "--cpu-manager-policy=static $MORE"\n'
    )
    found = raw(text, tmp_path)
    assert (found["topologyManagerPolicy"], found["cpuManagerPolicy"]) == ("restricted", "static")
    place = read_config(str(tmp_path / "config")).configuration(DEFAULT).place
    assert (place("topologyManagerPolicy").line, place("cpuManagerPolicy").line) == (4, 6)


def test_k3s_on_a_command_line(tmp_path: Path) -> None:
    text = (
        "curl -sfL https://get.k3s.io | sh -s - agent --kubelet-arg=cpu-manager-policy=static \\\n"
        "  --kubelet-arg 'kube-reserved=cpu=1'\n"
    )
    found = raw(text, tmp_path)
    assert (found["cpuManagerPolicy"], found["kubeReserved"]) == ("static", {"cpu": "1"})


def test_an_object_with_a_script_inside_is_not_a_script(tmp_path: Path) -> None:
    script = "#!/bin/bash\n/etc/eks/bootstrap.sh it --kubelet-extra-args '--cpu-manager-policy=static'\n"
    group = {"name": "gpu", "overrideBootstrapCommand": script}
    text = yaml.safe_dump({"metadata": {}, "nodeGroups": [group], "kind": "ClusterConfig"}, sort_keys=False)
    assert raw(text, tmp_path)["cpuManagerPolicy"] == "static"
    found = read_config(str(tmp_path / "config")).configuration(DEFAULT)
    assert (found.inside, found.platform.name if found.platform else "") == ("ClusterConfig", "eksctl")


def test_what_azure_shows_of_a_pool(tmp_path: Path) -> None:
    pool = {"osType": "Linux", "kubeletConfig": {"cpuManagerPolicy": "static", "podMaxPids": None}}
    found = raw(json.dumps(pool), tmp_path)
    assert found["cpuManagerPolicy"] == "static"
    assert "podPidsLimit" not in found


# --- what is wrong -----------------------------------------------------------------------------


# fmt: off
@pytest.mark.parametrize(("text", "line", "field", "message", "advice"), [
    pytest.param('[settings.kubernetes]\ncpu-manger-policy = "static"\n', 2,
                 "settings.kubernetes[cpu-manger-policy]", 'unknown field "cpu-manger-policy"',
                 "cpu-manager-policy", id="Bottlerocket, misspelt"),
    pytest.param("[settings.kubernetes]\nmax-pods = 5\ncpu-manager-policy = static\n", 3,
                 "", "is not valid TOML: Invalid value", "check quotes", id="Bottlerocket, no quotes"),
    pytest.param('[settings.kubernetes]\ncpu-manager-policy-options = "full-pcpus-only"\n', 2,
                 "settings.kubernetes[cpu-manager-policy-options]", 'must be a list of names, not "full-pcpus-only"',
                 "", id="Bottlerocket, not a list"),
    pytest.param("kubeletConfig:\n  topologyManager:\n    policyy: restricted\n", 3,
                 "kubeletConfig.topologyManager.policyy", 'unknown field "policyy"', "policy", id="GKE, misspelt"),
    pytest.param('{"cpuCfsQuota": true,\n "cpuManagerPolicyy": "static"}\n', 2,
                 "cpuManagerPolicyy", 'unknown field "cpuManagerPolicyy"', "cpuManagerPolicy", id="AKS, misspelt"),
    pytest.param("kind: PerformanceProfile\nspec:\n  cpu:\n    isolated: 2-7\n    reserved: 0-2\n", 5,
                 "spec.cpu.reserved", "CPUs 2 are isolated, too", "every CPU", id="PerformanceProfile, both"),
    pytest.param("kind: PerformanceProfile\nspec:\n  cpu:\n    reserved: zero\n", 4,
                 "spec.cpu.reserved", "must be a list of CPUs", "", id="PerformanceProfile, not CPUs"),
    pytest.param("kind: PerformanceProfile\nmetadata:\n  annotations:\n    kubeletconfig.experimental: '{x'\n", 4,
                 "metadata.annotations[kubeletconfig.experimental]", "is not JSON", "KubeletConfiguration",
                 id="PerformanceProfile, snippet"),
    pytest.param("kind: MachineConfig\nspec:\n  config:\n    storage:\n      files:\n"
                 "      - path: /etc/default/kubelet\n        contents: {source: 'data:;base64,!!'}\n", 7,
                 "spec.config.storage.files[0].contents.source", "cannot be unpacked", "text of the file",
                 id="MachineConfig, damaged"),
    pytest.param("kind: EC2NodeClass\nspec:\n  userData: |\n    apiVersion: node.eks.aws/v1alpha1\n"
                 "    kind: NodeConfig\n    spec: {kubelet: {config: {cpuManagerPolicy: static\n", 6,
                 "", "is not valid YAML", "", id="EC2NodeClass, damaged user data"),
    pytest.param("machine:\n  kubelet:\n    extraConfig:\n      cpuManagerPolicy: 5\n", 4,
                 "", "cannot unmarshal number into Go struct field", "quotes", id="Talos, value"),
])
def test_bad_fields(tmp_path: Path, text: str, line: int, field: str, message: str, advice: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_config(str(path)).config(DEFAULT)
    assert (error.value.file, error.value.line) == (str(path), line)
    assert error.value.field == field or not field
    assert message in error.value.message
    assert advice in error.value.advice
# fmt: on


def test_text_in_text_in_text_ends(tmp_path: Path) -> None:
    text = "kind: NodeConfig\n"
    for _ in range(30):
        inside = "\n".join(f"    {line}" for line in text.splitlines())
        text = f"kind: EC2NodeClass\nspec:\n  userData: |\n{inside}\n"
    path = tmp_path / "config"
    path.write_text(text + "# node.eks.aws\n")
    assert read_configs([str(path)])[0] == ()


# --- what a platform reserves by itself ----------------------------------------------------------


# fmt: off
@pytest.mark.parametrize(("text", "title"), [
    pytest.param("kubeletConfig: {cpuManagerPolicy: static}",                             "GKE",   id="GKE"),
    pytest.param("machine: {kubelet: {extraConfig: {cpuManagerPolicy: static}}}",         "Talos", id="Talos"),
    pytest.param("machine: {kubelet: {extraConfig: {cpuManagerPolicy: static, systemReserved: {memory: 1Gi}}}}",
                 "", id="Talos, which leaves it to the file"),
    pytest.param("kubelet-arg: [cpu-manager-policy=static]",                              "",      id="k3s reserves nothing"),
    pytest.param("cpuManagerPolicy: static",                                              "",      id="a file of a node"),
])
def test_a_refusal_for_want_of_the_platforms_own_reservation_is_not_known(
    tmp_path: Path, text: str, title: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    node = read_node(NodeSpec(machine=("2s 2n 16c",), kubelet_config=(str(path),)))
    with pytest.raises(InputError) as error:
        start_node(node)
    assert isinstance(error.value, KubeletRefused) == (not title)
    assert (f"what {title} reserves is not in this file" in error.value.message) == bool(title)
    severities = {one.code: one.severity for one in lint(**named(configs=(str(path),))).findings}
    whole = text.startswith("cpu")
    assert severities["NW201"] is (Severity.INFO if title else Severity.ERROR if whole else Severity.WARNING)
# fmt: on

"""Containers that are meant to be resized, beside static managers; configurations of platforms and of kubeadm."""

from pathlib import Path

import pytest

from numawise.results.finding import Severity
from tests.check.folder import HEAD, check, codes, one, pod

STATIC = f'{HEAD}cpuManagerPolicy: static\nreservedSystemCPUs: "0"\ntopologyManagerPolicy: best-effort\n'
POLICY = "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]"
FIXED = '{limits: {cpu: "8", memory: 16Gi}}'
GATE = "featureGates: {InPlacePodVerticalScalingExclusiveCPUs: true}\n"


@pytest.mark.parametrize(("config", "resources", "container", "kube", "expected"), [
    pytest.param(STATIC, FIXED, POLICY, "1.36", True,  id="a Guaranteed pod"),
    pytest.param(STATIC, FIXED, POLICY, "1.33", True,  id="the first release that resizes"),
    pytest.param(STATIC, FIXED, POLICY, "1.32", False, id="a release that does not"),
    pytest.param(STATIC, FIXED, "", "1.36", False, id="nobody means to resize it"),
    pytest.param(STATIC, FIXED, POLICY.replace("cpu", "memory"), "1.37", False, id="memory, which is not managed"),
    pytest.param(HEAD, FIXED, POLICY, "1.36", False, id="without managers"),
    pytest.param(STATIC, '{requests: {cpu: "1"}, limits: {cpu: "8", memory: 16Gi}}', POLICY, "1.36", False, id="Burstable"),
    pytest.param(STATIC + GATE, FIXED, POLICY, "1.36", False, id="the gate lets it pass"),
])  # fmt: skip
def test_a_resize_policy_beside_static_managers(
    config: str, resources: str, container: str, kube: str, tmp_path: Path, *, expected: bool
) -> None:
    report = check(tmp_path, {"kubelet.yaml": config, "pod.yaml": pod(resources, container)}, kube)
    assert ("NW439" in codes(report)) is expected
    if expected:
        finding = one(report, "NW439")
        assert finding.message == "container main has a resizePolicy for cpu: a resize is infeasible"
        assert "Resize is infeasible for Guaranteed Pods alongside CPU Manager" in finding.kubelet


# --- platforms and kubeadm --------------------------------------------------------------------

KUBEADM = """\
apiVersion: kubeadm.k8s.io/v1beta4
kind: {kind}
nodeRegistration:
  kubeletExtraArgs:
  - {{name: {flag}, value: "{value}"}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.0
---
{head}cpuManagerPolicy: static
topologyManagerPolicy: none
"""


@pytest.mark.parametrize(("kind", "flag", "value", "expected"), [
    ("InitConfiguration", "reserved-cpus", "0-1", None),
    ("InitConfiguration", "v",             "2",   Severity.ERROR),
    ("JoinConfiguration", "reserved-cpus", "0-1", None),
    ("JoinConfiguration", "v",             "2",   Severity.WARNING),
])  # fmt: skip
def test_documents_of_kubeadm_are_one_kubelet(
    kind: str, flag: str, value: str, expected: Severity | None, tmp_path: Path
) -> None:
    text = KUBEADM.format(kind=kind, flag=flag, value=value, head=HEAD)
    report = check(tmp_path, {"kubelet.yaml": text})
    assert report.looked_at.kubelets == 1
    assert [one.severity for one in report.findings if one.code == "NW201"] == (
        [expected] if expected else []
    )


OPENSHIFT = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: a}\n"
KARPENTER = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\n"
FROM_A_NODE = f"{HEAD}authentication: {{x509: {{clientCAFile: /etc/kubernetes/kubelet-ca.crt}}}}\n"


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("kubeletConfig: {cpuManagerPolicy: static, podMaxPids: 100}\nosType: Linux\n", Severity.INFO, id="AKS"),
    pytest.param(f"{KARPENTER}spec: {{kubelet: {{cpuManagerPolicy: static}}}}\n", Severity.INFO, id="Karpenter"),
    pytest.param(f"{OPENSHIFT}spec: {{kubeletConfig: {{cpuManagerPolicy: static}}}}\n", Severity.INFO, id="OpenShift"),
    pytest.param(f"{FROM_A_NODE}cpuManagerPolicy: static\n", Severity.INFO, id="a file from OpenShift's node"),
    pytest.param("kubelet-arg: [cpu-manager-policy=static]\n", Severity.WARNING, id="k3s, which reserves nothing"),
    pytest.param(f"{HEAD}cpuManagerPolicy: static\n", Severity.ERROR, id="nobody"),
])  # fmt: skip
def test_reserved_cpus_where_the_platform_may_reserve_them(
    text: str, expected: Severity, tmp_path: Path
) -> None:
    finding = one(check(tmp_path, {"kubelet.yaml": text}), "NW201")
    assert finding.severity is expected
    if expected is Severity.INFO:
        assert finding.message.startswith("how many CPUs are reserved is not in this file: ")
        assert not finding.stage

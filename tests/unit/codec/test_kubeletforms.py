"""Kubelet configurations inside what other tools keep them in."""

import pytest

from numawise.codec.document import read_documents
from numawise.codec.kubelet.forms import kubelet_configurations

PLAIN = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\ncpuManagerPolicy: static\n"
OPENSHIFT = """\
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
spec:
  kubeletConfig:
    cpuManagerPolicy: static
"""
MISPLACED = (
    "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\ncpuManagerPolicy: static\n"
)
KIND = """\
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
kubeadmConfigPatches:
- |
  kind: KubeletConfiguration
  cpuManagerPolicy: static
- |
  kind: InitConfiguration
nodes:
- role: worker
  kubeadmConfigPatches:
  - |
    kind: KubeletConfiguration

    cpuManagerPolicy: none
"""
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: kubelet-config}
data:
  kubelet: |
    apiVersion: kubelet.config.k8s.io/v1beta1
    kind: KubeletConfiguration
    cpuManagerPolicy: static
"""
CONFIGZ = '{"kubeletconfig": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}}'
MICROSHIFT = "kubelet:\n  cpuManagerPolicy: static\n"
TALOS = "machine:\n  kubelet:\n    extraConfig:\n      cpuManagerPolicy: static\n    extraArgs:\n      max-pods: 50\n"
K3S = "kubelet-arg:\n- cpu-manager-policy=static\n- fail-swap-on\n"
KUBEADM = """\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration:
  kubeletExtraArgs:
  - name: cpu-manager-policy
    value: static
"""
EKS = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config: {cpuManagerPolicy: static}\n    flags: [--v=2]\n"
FRAGMENT = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"
VALUES = "pools:\n  gpu:\n    zones: 2\n    topologyManagerPolicy: restricted\n"


# fmt: off
@pytest.mark.parametrize(("text", "expected"), [
    # what is found: kind around it, line of cpuManagerPolicy (or topologyManagerPolicy), is it a fragment
    pytest.param(PLAIN,       [("", 3, False)],                                       id="itself"),
    pytest.param(OPENSHIFT,   [("KubeletConfig", 5, False)],                          id="OpenShift"),
    pytest.param(MISPLACED,   [("KubeletConfig", 3, False)],                          id="OpenShift, misplaced"),
    pytest.param(KIND,        [("Cluster", 6, False), ("Cluster", 15, False)],        id="kind"),
    pytest.param(CONFIG_MAP,  [("ConfigMap", 8, False)],                              id="config map"),
    pytest.param(CONFIGZ,     [("kubeletconfig", 1, False)],                          id="configz"),
    pytest.param(MICROSHIFT,  [("kubelet", 2, False)],                                id="MicroShift"),
    pytest.param(FRAGMENT,    [("", 1, False)],                                       id="without kind"),
    pytest.param(VALUES,      [("", 4, True)],                                        id="values of a chart"),
    pytest.param("kind: Service\nspec: {}\n", [],                                     id="nothing of the sort"),
    pytest.param("- 1\n",     [],                                                     id="a list"),
])
def test_where_it_is(text: str, expected: list[tuple[str, int, bool]]) -> None:
    (document,) = read_documents(text, "f")
    found = []
    for one in kubelet_configurations(document):
        assert one.part is not None
        name = "topologyManagerPolicy" if one.fragment else "cpuManagerPolicy"
        assert name in one.part.mapping()
        found.append((one.inside, one.part.document.line((*one.part.steps, name)), one.fragment))
    assert found == expected


@pytest.mark.parametrize(("text", "flags"), [
    pytest.param(TALOS,   [("max-pods", "50", 6)],                                              id="Talos"),
    pytest.param(K3S,     [("cpu-manager-policy", "static", 2), ("fail-swap-on", None, 3)],     id="k3s"),
    pytest.param(KUBEADM, [("cpu-manager-policy", "static", 5)],                                id="kubeadm"),
    pytest.param(EKS,     [("v", "2", 6)],                                                      id="EKS"),
])
def test_flags_inside(text: str, flags: list[tuple[str, str | None, int]]) -> None:
    (document,) = read_documents(text, "f")
    found = [flag for one in kubelet_configurations(document) for flag in one.flags]
    assert [(flag.name, flag.value, flag.line) for flag in found] == flags
# fmt: on


def test_where_it_should_be() -> None:
    (document,) = read_documents(MISPLACED, "f")
    (found,) = kubelet_configurations(document)
    assert found.misplaced == "spec.kubeletConfig"

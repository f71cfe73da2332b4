"""Claims, resources that a claim backs, and pods that come back under their uid, as check sees them."""

from pathlib import Path

import pytest

from numawise.results.finding import Severity
from tests.check.folder import HEAD, STATIC, check, codes, one

ALIGNED = f"{STATIC}topologyManagerPolicy: single-numa-node\n"
MEMORY = (
    f"{ALIGNED}memoryManagerPolicy: Static\nreservedMemory: [{{numaNode: 0, limits: {{memory: 100Mi}}}}]\n"
)
CLAIMING = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: two}]
  containers:
  - name: main
    image: train
    resources:
      limits: {cpu: "4", memory: 1Gi}
      claims: [{name: gpu}]
"""
TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two}
spec:
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]
"""
TOGETHER = f"{TEMPLATE}      constraints: [{{matchAttribute: resource.kubernetes.io/numaNode}}]\n"
CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {extendedResourceName: nvidia.com/gpu}
"""
ASKING = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - name: main
    image: train
    resources: {limits: {cpu: "4", memory: 1Gi, nvidia.com/gpu: "2"}}
"""


@pytest.mark.parametrize(("release", "attribute"), [("1.36", "pcieRoot"), ("1.37", "numaNode")])
def test_a_claim_with_the_one_that_would_keep_its_devices_together(
    release: str, attribute: str, tmp_path: Path
) -> None:
    files = {"kubelet.yaml": ALIGNED, "pod.yaml": CLAIMING, "pod-claim.yaml": TEMPLATE}
    finding = one(check(tmp_path, files, release), "NW433")
    assert finding.severity is Severity.WARNING
    assert finding.line == 5
    assert "its 2 devices may be on several NUMA nodes" in finding.message
    assert f"matchAttribute: resource.kubernetes.io/{attribute}" in finding.manifest
    assert TEMPLATE.rstrip() in finding.manifest
    bare = codes(check(tmp_path / "bare", {"kubelet.yaml": ALIGNED}, release))
    pasted = {"kubelet.yaml": ALIGNED, "pod-pasted.yaml": finding.manifest}
    assert codes(check(tmp_path / "pasted", pasted, release)) == bare


def test_a_claim_that_keeps_its_devices_together_is_still_apart_from_cpus(tmp_path: Path) -> None:
    files = {"kubelet.yaml": ALIGNED, "pod.yaml": CLAIMING, "pod-claim.yaml": TOGETHER}
    finding = one(check(tmp_path, files), "NW433")
    assert "kept together by resource.kubernetes.io/numaNode, apart from CPUs and memory" in finding.message
    assert finding.manifest == ""


@pytest.mark.parametrize(("config", "machine", "expected"), [
    (ALIGNED, "",             True),
    (STATIC,  "",             True),
    (HEAD,    "",             False),
    (ALIGNED, "2s-2n-16c-1t", True),
    (ALIGNED, "1s-1n-16c-1t", False),
])  # fmt: skip
def test_where_claims_matter(config: str, machine: str, expected: bool, tmp_path: Path) -> None:  # noqa: FBT001
    files = {"kubelet.yaml": config, "pod.yaml": CLAIMING}
    if machine:
        files["machine.yaml"] = f"= {machine}"
    assert ("NW433" in codes(check(tmp_path, files))) == expected


def test_an_object_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    files = {"pod.yaml": CLAIMING, "pod-claim.yaml": TEMPLATE.replace("count: 2", "count: some")}
    finding = one(check(tmp_path, files), "NW401")
    assert (finding.file, finding.line) == ("pod-claim.yaml", 7)


@pytest.mark.parametrize(("release", "machine", "severity"), [
    ("1.37", "",                  Severity.WARNING),
    ("1.37", "2s-2n-16c-1t",      Severity.WARNING),
    ("1.37", "2s-2n-16c-1t-4gpu", Severity.INFO),
    ("1.35", "",                  None),
])  # fmt: skip
def test_a_resource_that_a_class_backs(
    release: str, machine: str, severity: Severity | None, tmp_path: Path
) -> None:
    files = {"kubelet.yaml": ALIGNED, "pod.yaml": ASKING, "pod-class.yaml": CLASS}
    if machine:
        files["machine.yaml"] = f"= {machine}"
    found = [each for each in check(tmp_path, files, release).findings if each.code == "NW437"]
    assert [each.severity for each in found] == ([severity] if severity else [])
    assert [bool(each.manifest) for each in found] == ([severity is Severity.WARNING] if severity else [])


def returning(metadata: str, init: str = '{cpu: "4", memory: 4Gi}') -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: agent{metadata}}}\nspec:\n  initContainers:\n"
        f"  - {{name: prepare, image: agent, resources: {{limits: {init}}}}}\n  containers:\n"
        '  - {name: main, image: agent, resources: {limits: {cpu: "1", memory: 1Gi}}}\n'
    )


STATIC_POD = ", annotations: {kubernetes.io/config.source: file}"
REFUSED = (
    "start memory manager error: [memorymanager] the expected machine state is different from the real one"
)


@pytest.mark.parametrize("metadata", [
    STATIC_POD,
    ", annotations: {kubernetes.io/config.mirror: 3f0c}",
    ", ownerReferences: [{kind: Node, name: n1}]",
    ", uid: 3f0c",
])  # fmt: skip
def test_a_pod_that_comes_back_breaks_the_next_start(metadata: str, tmp_path: Path) -> None:
    files = {"machine.yaml": "= 2s-2n-16c-1t", "kubelet.yaml": MEMORY, "pod.yaml": returning(metadata)}
    finding = one(check(tmp_path, files), "NW438")
    assert (finding.severity, finding.kubelet, finding.line) == (Severity.WARNING, REFUSED, 6)
    assert "the kubelet refuses its next start" in finding.message


def test_without_a_machine_it_may(tmp_path: Path) -> None:
    finding = one(check(tmp_path, {"kubelet.yaml": MEMORY, "pod.yaml": returning(STATIC_POD)}), "NW438")
    assert finding.message.endswith("the kubelet may refuse its next start")


def test_without_the_memory_manager_the_kubelet_starts(tmp_path: Path) -> None:
    files = {"machine.yaml": "= 2s-2n-16c-1t", "kubelet.yaml": ALIGNED, "pod.yaml": returning(STATIC_POD)}
    assert one(check(tmp_path, files), "NW438").severity is Severity.INFO


@pytest.mark.parametrize("text", [
    returning(""),                                              # another uid each time
    returning(", uid: 3f0c, resourceVersion: '5'"),             # made by the API server
    returning(STATIC_POD, "{cpu: 100m, memory: 1Gi}").replace('cpu: "1"', "cpu: 100m").replace("4Gi", "0"),
])  # fmt: skip
def test_pods_that_do_no_harm(text: str, tmp_path: Path) -> None:
    config = MEMORY if "100m" not in text else ALIGNED
    assert "NW438" not in codes(check(tmp_path, {"kubelet.yaml": config, "pod.yaml": text}))


def test_the_folder_of_static_pods_tells(tmp_path: Path) -> None:
    config = f"{MEMORY}staticPodPath: {tmp_path}\n"
    report = check(tmp_path, {"kubelet.yaml": config, "pod.yaml": returning("")})
    assert "NW438" in codes(report)

"""Claims of pods, and the objects of resource.k8s.io beside them."""

import pytest
import yaml

from numawise.codec.claim_manifest import aligning_attribute, aligning_claim
from numawise.codec.claims import ClaimObjects, claim_objects
from numawise.codec.document import read_documents
from numawise.codec.pod import pod_from
from numawise.codec.workload import objects_in, pods_in
from numawise.errors import InputError
from numawise.request.claims import NUMA_NODE, PCIE_ROOT, DeviceRequest, MatchConstraint, PodClaim

POD = """
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: ml}
spec:
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: one-gpu
  - name: shared
    resourceClaimName: nic
  initContainers:
  - name: prepare
    resources: {claims: [{name: gpu}]}
  containers:
  - name: main
    resources:
      limits: {cpu: "2", memory: 1Gi, nvidia.com/gpu: "1"}
      claims: [{name: gpu, request: a}, {name: shared}]
status:
  resourceClaimStatuses: [{name: gpu, resourceClaimName: train-gpu-x}]
  extendedResourceClaimStatus:
    resourceClaimName: train-extended-resources-y
    requestMappings:
    - {containerName: main, resourceName: nvidia.com/gpu, requestName: container-0-request-0}
"""
V1 = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train-gpu-x, namespace: ml}
spec:
  devices:
    requests:
    - name: a
      exactly:
        deviceClassName: gpu.nvidia.com
        count: 2
        selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]
    - name: b
      firstAvailable:
      - {name: big, deviceClassName: big}
      - {name: small, deviceClassName: small, count: 3}
    constraints:
    - {matchAttribute: resource.kubernetes.io/pcieRoot, requests: [a, b]}
    - {distinctAttribute: gpu.nvidia.com/uuid}
status:
  allocation:
    devices:
      results:
      - {request: a, driver: gpu.nvidia.com, pool: n1, device: gpu-0}
      - {request: b/small, driver: gpu.nvidia.com, pool: n1, device: gpu-9}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s1}
spec:
  driver: gpu.nvidia.com
  pool: {name: n1, generation: 2, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes:
      type: {string: gpu}
      resource.kubernetes.io/numaNode: {ints: [1, 0]}
      resource.kubernetes.io/pcieRoot: {string: "pci0000:40"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: old}
spec:
  driver: gpu.nvidia.com
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0, attributes: {numa: {int: 7}}}]
"""
V1BETA1 = """
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: one-gpu, namespace: ml}
spec:
  spec:
    devices:
      requests:
      - {name: a, deviceClassName: gpu.amd.com, count: 4}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.amd.com
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-1, basic: {attributes: {numaNode: {int: 3}}}}]
---
apiVersion: resource.k8s.io/v1beta2
kind: DeviceClass
metadata: {name: gpu.amd.com}
spec: {extendedResourceName: amd.com/gpu}
"""


def objects(text: str) -> ClaimObjects:
    return claim_objects(one for document in read_documents(text, "f") for one in objects_in(document.root))


def claims(text: str) -> dict[str, PodClaim]:
    whole = {"kind": "List", "items": [document.value for document in read_documents(text, "f")]}
    (pod,) = pods_in(read_documents(yaml.safe_dump(whole), "f")[0].root)
    return {claim.name: claim for claim in pod.claims}


def test_a_pod_names_its_claims_and_who_uses_them() -> None:
    (document,) = read_documents(POD, "pod.yaml")
    (pod,) = pods_in(document.root)
    assert pod.claims == (
        PodClaim("gpu", "train-gpu-x", "one-gpu", ("prepare", "main")),
        PodClaim("shared", "nic", "", ("main",)),
        PodClaim("", "train-extended-resources-y", "", ("main",), ("nvidia.com/gpu",)),
    )
    assert [one.claimed for one in pod.containers] == [frozenset(), {"nvidia.com/gpu"}]
    assert pod_from(document.value).claims == pod.claims  # type: ignore[arg-type]
    assert pod_from(document.value).containers == pod.containers  # type: ignore[arg-type]


def test_an_allocated_claim_knows_its_devices() -> None:
    claim = claims(f"{POD}---{V1}")["gpu"]
    assert claim.known
    assert claim.requests == (
        DeviceRequest("a", "gpu.nvidia.com", 2),
        DeviceRequest("b/big", "big"),
        DeviceRequest("b/small", "small", 3),
    )
    assert claim.constraints == (MatchConstraint(PCIE_ROOT, ("a", "b")),)
    assert [(one.name, one.numa, one.pcie_root) for one in claim.devices] == [
        ("gpu-0", 1, "pci0000:40"),  # of the newer generation, and the first of the list
        ("gpu-9", None, ""),
    ]
    assert (claim.placed, claim.numa, claim.together) == (False, 0b10, PCIE_ROOT)


def test_older_versions_are_read_alike() -> None:
    beta = objects(V1BETA1)
    assert beta.templates["ml", "one-gpu"].requests == (DeviceRequest("a", "gpu.amd.com", 4),)
    device = beta.devices["gpu.amd.com", "n1", "gpu-1"]
    assert (device.numa, device.attributes) == (3, {"gpu.amd.com/numaNode"})
    assert beta.class_of("amd.com/gpu") == "gpu.amd.com"
    assert beta.class_of("deviceclass.resource.kubernetes.io/gpu.amd.com") == "gpu.amd.com"
    assert beta.class_of("nvidia.com/gpu") == ""
    without_status = POD.partition("status:")[0]
    assert claims(f"{without_status}---{V1BETA1}")["gpu"].count == 4


@pytest.mark.parametrize(("old", "new", "line", "said"), [
    ("resourceClaimName: nic", "x: nic", 10, "unknown field"),
    ("    resourceClaimName: nic\n", "", 9, "Invalid value: must specify one of: `resourceClaimName`"),
    ("resourceClaimName: nic", "resourceClaimName: nic\n    resourceClaimTemplateName: n", 9, "at most one of"),
    ("- name: shared\n", "- name: gpu\n", 9, 'Duplicate value: "gpu"'),
    ("{name: shared}]", "{name: share}]", 18, 'Not found: "share"'),
    ("containerName: main", "containerName: 5", 24, "must be text, not 5"),
])  # fmt: skip
def test_what_is_wrong_with_the_claims_of_a_pod(old: str, new: str, line: int, said: str) -> None:
    assert old in POD
    (document,) = read_documents(POD.replace(old, new), "pod.yaml")
    with pytest.raises(InputError) as caught:
        pods_in(document.root)
    assert said in str(caught.value)
    assert (caught.value.file, caught.value.line) == ("pod.yaml", line)


@pytest.mark.parametrize(("old", "new", "said"), [
    ("resource.k8s.io/v1\n", "resource.k8s.io/v1alpha3\n", '"resource.k8s.io/v1alpha3" of a ResourceClaim is not'),
    ("        deviceClassName: gpu.nvidia.com\n", "", "Required value"),
    ("count: 2", "count: two", 'must be an integer of at least 0, not "two"'),
    ("devices:\n      results:", "devices:\n      results: x\n      more:", 'must be a list of devices, not "x"'),
    ("{ints: [1, 0]}", "here", 'must be a mapping with one value, such as int, not "here"'),
])  # fmt: skip
def test_what_is_wrong_with_an_object(old: str, new: str, said: str) -> None:
    assert old in V1
    with pytest.raises(InputError) as caught:
        objects(V1.replace(old, new))
    assert said in str(caught.value)
    assert caught.value.line


@pytest.mark.parametrize(("version", "served", "attribute"), [
    ((1, 32), "v1beta1", PCIE_ROOT),
    ((1, 33), "v1beta2", PCIE_ROOT),
    ((1, 34), "v1",      PCIE_ROOT),
    ((1, 36), "v1",      PCIE_ROOT),
    ((1, 37), "v1",      NUMA_NODE),
])  # fmt: skip
def test_the_claim_to_paste_can_be_read(version: tuple[int, int], served: str, attribute: str) -> None:
    request = DeviceRequest("a", "no: name", 2)
    text = aligning_claim("t", request, aligning_attribute(None, version), version, cpus=8)
    assert yaml.safe_load(text)["apiVersion"] == f"resource.k8s.io/{served}"
    made = objects(text).templates["default", "t"]
    assert made.requests == (request,)
    assert made.constraints == (MatchConstraint(attribute),)


def test_the_attribute_is_the_one_that_drivers_publish() -> None:
    claim = PodClaim("gpu", numa_attribute="gpu.amd.com/numaNode")
    assert aligning_attribute(claim, (1, 37)) == "gpu.amd.com/numaNode"
    assert objects(V1BETA1).numa_attribute({"gpu.amd.com"}) == "gpu.amd.com/numaNode"
    assert objects(f"{V1}---{V1BETA1}").numa_attribute() == ""

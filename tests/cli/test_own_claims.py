"""The claim that ``check`` and ``why`` propose is the user's own with one constraint more, or there is none."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.run import EXAMPLES, numawise

EIGHT = EXAMPLES / "8gpu-server"
NUMA = "resource.kubernetes.io/numaNode"
REQUEST = """\
deviceClassName: gpu.nvidia.com
{pad}count: 2
{pad}adminAccess: true
{pad}capacity: {{requests: {{memory: 40Gi}}}}   # at least half a card
{pad}selectors:
{pad}- cel: {{expression: "device.attributes['gpu'].model == 'a'"}}
{pad}tolerations:
{pad}- {{key: gpu.nvidia.com/unhealthy, operator: Exists, effect: NoSchedule}}"""
DEVICES = """\
devices:
  requests:
  - name: gpu      # the cards
{request}
  - name: nic
    firstAvailable:
    - {{name: fast, deviceClassName: rdma, count: 2}}
    - {{name: slow, deviceClassName: net}}
  config:
  - requests: [gpu]
    opaque: {{driver: gpu.nvidia.com, parameters: {{apiVersion: v1, kind: GpuConfig, sharing: TimeSlicing}}}}
  constraints:
  - {{matchAttribute: gpu.nvidia.com/driverVersion, requests: [gpu]}}
  - {{distinctAttribute: gpu.nvidia.com/slot, requests: [gpu]}}
"""


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


def claim(version: str, kind: str = "ResourceClaimTemplate", devices: str = "", more: str = "") -> str:
    """A claim with everything in it."""
    flat = version == "v1beta1"
    pad = " " * (4 if flat else 6)
    request = REQUEST.format(pad=pad)
    body = devices or DEVICES.format(request=f"{pad}{request}" if flat else f"    exactly:\n{pad}{request}")
    spec = f"spec:\n{indented(body, 2)}"
    if kind == "ResourceClaimTemplate":
        spec = f"spec:\n  metadata: {{labels: {{team: ml}}}}\n{indented(spec, 2)}"
    head = f"apiVersion: resource.k8s.io/{version}\nkind: {kind}\nmetadata: {{name: cards, labels: {{app: train}}}}\n"
    return f"# What training needs.\n{head}{spec}{more}"


def pod(kind: str) -> str:
    named = "resourceClaimTemplateName" if kind == "ResourceClaimTemplate" else "resourceClaimName"
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: train}}
spec:
  resourceClaims: [{{name: gpus, {named}: cards}}]
  containers:
  - name: main
    image: x
    resources: {{limits: {{cpu: 4, memory: 1Gi}}, claims: [{{name: gpus}}]}}
"""


def check(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> dict[str, Any]:
    (tmp_path / "pods.yaml").write_text(text)
    node = ("--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet.yaml")
    ran = numawise(capsys, "check", *node, tmp_path / "pods.yaml", "-o", "json")
    (finding,) = (one for one in json.loads(ran.out)["findings"] if one["code"] == "NW433")
    why = numawise(capsys, "why", *node, tmp_path / "pods.yaml", "-o", "json")
    (explained,) = json.loads(why.out)["pods"]
    assert explained.get("manifests", []) == ([finding["manifest"]] if finding.get("manifest") else [])
    return finding


def with_constraint(value: dict[str, Any]) -> dict[str, Any]:
    wanted = copy.deepcopy(value)
    spec = wanted["spec"]["spec"] if value["kind"] == "ResourceClaimTemplate" else wanted["spec"]
    spec["devices"].setdefault("constraints", []).append({"matchAttribute": NUMA})
    return wanted


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
@pytest.mark.parametrize("first", [True, False], ids=["before the pod", "behind the pod"])
def test_nothing_that_was_written_is_lost(
    version: str, kind: str, *, first: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = claim(version, kind)
    parts = (own, pod(kind)) if first else (pod(kind), own)
    found = check(capsys, tmp_path, "---\n".join(parts))
    (value,) = yaml.safe_load_all(own)
    assert yaml.safe_load(found["manifest"]) == with_constraint(value)
    for comment in ("# What training needs.", "# at least half a card", "# the cards"):
        assert comment in found["manifest"]
    assert f"matchAttribute {NUMA}, as below" in found["fix"]
    assert found["manifest"].count("\n") > own.count("\n")


@pytest.mark.parametrize("form", ["list", "json", "alias", "no constraints", "empty constraints"])
def test_where_the_text_cannot_be_kept_the_values_are(
    form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kind = "ResourceClaim"
    bare = "devices:\n  requests:\n  - {name: a, exactly: {deviceClassName: gpu, capacity: {requests: {memory: 1Gi}}}}\n"
    text = {
        "alias": claim("v1", kind, f"{bare}  constraints: &some\n  - {{matchAttribute: a/b}}\n"),
        "no constraints": claim("v1", kind, bare),
        "empty constraints": claim("v1", kind, f"{bare}  constraints: []\n"),
    }.get(form, claim("v1", kind))
    value, podded = yaml.safe_load(text), yaml.safe_load(pod(kind))
    if form in ("list", "json"):
        objects = [value, podded]
        text = json.dumps({"kind": "List", "items": objects}) if form == "list" else ""
        text = text or "\n---\n".join(map(json.dumps, objects))
    else:
        text = f"{text}---\n{pod(kind)}"
    assert yaml.safe_load(check(capsys, tmp_path, text)["manifest"]) == with_constraint(value)


def test_what_the_api_server_writes_is_left_out_and_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    value = yaml.safe_load(claim("v1", "ResourceClaim", more="status: {reservedFor: []}\n"))
    value["metadata"] |= {"uid": "u-1", "resourceVersion": "7"}
    text = f"{yaml.safe_dump(value)}---\n{pod('ResourceClaim')}"
    manifest = check(capsys, tmp_path, text)["manifest"]
    assert "by itself: metadata.uid, metadata.resourceVersion, status.\n" in manifest
    assert yaml.safe_load(manifest) == with_constraint(yaml.safe_load(claim("v1", "ResourceClaim")))


@pytest.mark.parametrize(("own", "reason"), [
    pytest.param("", "the claim is not known; give what it says beside the pod: kubectl get resourceclaim cards -o yaml", id="not given"),
    pytest.param(f"  constraints: [{{distinctAttribute: {NUMA}}}]\n", f"its distinctAttribute {NUMA} wants them apart", id="apart"),
    pytest.param("  constraints: [" + ", ".join(["{matchAttribute: a/b}"] * 32) + "]\n", "it has 32 constraints", id="full"),
    pytest.param("ALL", "its request a takes all devices there are", id="all"),
])  # fmt: skip
def test_where_there_is_none_the_reason_is_named(
    own: str, reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    exact = "deviceClassName: gpu, allocationMode: All" if own == "ALL" else "deviceClassName: gpu, count: 2"
    devices = f"devices:\n  requests:\n  - {{name: a, exactly: {{{exact}}}}}\n{own.replace('ALL', '')}"
    text = (
        f"{claim('v1', 'ResourceClaim', devices)}---\n{pod('ResourceClaim')}" if own else pod("ResourceClaim")
    )
    found = check(capsys, tmp_path, text)
    assert not found.get("manifest")
    assert f"matchAttribute {NUMA} (not shown as {reason}" in found["fix"]

"""JSON Schemas: up to date, valid, and true of what every command prints with ``-o json``."""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests import needs
from tests.cli.run import numawise
from tests.nodetree import grow_node, pod_list

import numawise as nw
from numawise.apps.bundle.gather import gather
from numawise.apps.bundle.pack import packed
from numawise.inputs.gathered import NodeSources
from numawise.results.schema import DOCUMENTS, schema

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parent.parent.parent
EIGHT, THREE = ROOT / "examples/8gpu-server", ROOT / "examples/3gpu-server"
SETUP = f"--machine {EIGHT}/machine.yaml --kubelet-config {EIGHT}/kubelet-single-numa-node.yaml"
POD, FEW = f"{EIGHT}/pods/04-five-gpu-training.yaml", f"{EIGHT}/pods/01-single-gpu-training.yaml"
STATE = f"{EIGHT}/state/after-reboot"
COMMANDS = {
    "Check":              f"check {SETUP} --state {THREE}/state/policy-none {POD} -o json",
    "Comparison":         f"simulate {SETUP} {POD} --compare-kube 1.27,1.36 -o json",
    "ConfigComparison":   f"simulate {SETUP} {POD} --compare {EIGHT}/kubelet.yaml -o json",
    "ContainerCommand":   "docker --print --machine dgx-h100 --cpus 4 --gpus 1 -o json -- run --rm image true",
    "Examination":        "doctor --root {tree} -o json",
    "Explanation":        f"why {SETUP} {POD} -o json",
    "FindingCode":        "check --explain NW433 -o json",
    "Flags":              "flags --machine dgx-h100 --cpus 4 --memory 8Gi --gpus 1 -o json",
    "Capacity":           f"capacity --nodes {EIGHT}/machine.yaml:2 --kubelet-config {EIGHT}/kubelet.yaml {POD} -o json",
    "ClusterSimulation":  f"simulate --nodes {EIGHT}/machine.yaml:2 --kubelet-config {EIGHT}/kubelet.yaml --cluster {EIGHT}/arrivals.jsonl -o json",
    "FleetSimulation":    f"simulate --nodes {EIGHT}/machine.yaml:2 --kubelet-config {EIGHT}/kubelet.yaml {POD} {FEW} -o json",
    "Hardware":           "discover --root {tree} -o json",
    "HoldHistory":        "history -o json",
    "HoldList":           "ps -o json",
    "HoldUses":           "top --count 1 --interval 0.1 -o json",
    "KubeletPlan":        f"plan kubelet --machine {EIGHT}/machine.yaml -o json",
    "KubeletState":       f"state show {STATE} -o json",
    "KubeletStateChange": f"state repair {STATE} --adapt-memory --machine {EIGHT}/machine.yaml -o json",
    "KubeletStateReport": f"state verify {STATE} --machine {EIGHT}/machine.yaml -o json",
    "Machine":            "machine new dgx-h100",
    "Nodes":              f"nodes --nodes {EIGHT}/machine.yaml:2 --kubelet-config {EIGHT}/kubelet.yaml -o json",
    "Placement":          "run --dry-run --machine dgx-h100 --cpus 4 --memory 8Gi --gpus 1 -o json -- true",
    "PodPlan":            f"plan pod --machine {EIGHT}/machine.yaml --kubelet-config {EIGHT}/kubelet.yaml {POD} -o json",
    "Simulation":         f"simulate {SETUP} {POD} --fill {FEW} -o json",
    "Simulation steps":   f"simulate {SETUP} --steps {EIGHT}/day.yaml -o json",
    "KubeletLog":         f"why --log {ROOT}/examples/incident-server/kubelet.log -o json",
    "SwitchPlan":         f"plan switch {EIGHT}/kubelet-before.yaml {EIGHT}/kubelet.yaml {FEW} --machine {EIGHT}/machine.yaml -o json",
    "Ranks":              "bind --dry-run --local-size 8 --machine dgx-h100 -o json",
    "Verification":       f"verify {os.getpid()} -o json",
    "Bundle":             "bundle show {bundle} -o json",
}  # fmt: skip


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_schemas_are_schemas(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(kind))


def test_pages_are_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "docs" / "reference"))
    try:
        import make_schemas  # noqa: PLC0415 - lies in the documentation
    finally:
        sys.path.pop(0)
    written = {path.name: path.read_text() for path in (ROOT / "docs/reference/schemas").iterdir()}
    assert make_schemas.pages() == written, "run python docs/reference/make_schemas.py"


def test_every_kind_is_tried() -> None:
    assert {kind.split()[0] for kind in COMMANDS} | {"PodDecision", "Filled", "Map"} == set(DOCUMENTS)


def valid(data: dict[str, Any], kind: str) -> None:
    if kind != "Machine":
        assert data["kind"] == kind
    jsonschema.Draft202012Validator(schema(kind)).validate(data)


LIVE = ("HoldHistory", "HoldList", "HoldUses", "Verification")
"""Documents about this very host."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[needs.PROC, needs.SYS] if kind in LIVE else ()) for kind in COMMANDS]
)
def test_output_is_of_the_form(
    kind: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMAWISE_LEDGER", str(tmp_path / "ledger.json"))
    words = COMMANDS[kind]
    if "{tree}" in words or "{bundle}" in words:
        tree = grow_node(tmp_path / "root")
        (tmp_path / "pods.json").write_text(pod_list("abc"))
        collected = gather(NodeSources(root=tree, pods=(str(tmp_path / "pods.json"),), kube="1.36.4"))
        data = packed(collected, keep_names=False, when=datetime(2026, 11, 15, tzinfo=UTC)).data
        (tmp_path / "node.tar.gz").write_bytes(data)
        words = words.format(tree=tree, bundle=tmp_path / "node.tar.gz")
    ran = numawise(capsys, *words.split())
    assert ran.status in (0, 1, 3), ran.err
    data = yaml.safe_load(ran.out) if kind == "Machine" else json.loads(ran.out)
    valid(data, kind.split(maxsplit=1)[0])


@pytest.mark.parametrize("pod", ["02-four-gpu-training", "04-five-gpu-training"])
def test_decisions_from_python_are_of_the_form(pod: str) -> None:
    node = nw.Node(f"{EIGHT}/machine.yaml", f"{EIGHT}/kubelet-single-numa-node.yaml")
    valid(json.loads(nw.to_json(node.admit(f"{EIGHT}/pods/{pod}.yaml"))), "PodDecision")


def test_copies_from_python_are_of_the_form() -> None:
    node = nw.Node(f"{EIGHT}/machine.yaml", f"{EIGHT}/kubelet-single-numa-node.yaml")
    valid(json.loads(nw.to_json(node.fill(FEW, most=3))), "Filled")


def test_a_member_that_is_not_named_is_noticed(capsys: Capture) -> None:
    data = json.loads(numawise(capsys, *COMMANDS["KubeletState"].split()).out)
    with pytest.raises(jsonschema.ValidationError, match="'more' was unexpected"):
        valid({**data, "more": 1}, "KubeletState")
    del data["sharedPool"]
    with pytest.raises(jsonschema.ValidationError, match="'sharedPool' is a required property"):
        valid(data, "KubeletState")

"""The comparison with a release's managers: its scenarios, its comparing and its report."""

import copy
import json
from pathlib import Path

import pytest

from numawise.node.replay import replay
from tests.release.build import TAGS, CannotBuild, Sources, adapt_imports, downloaded, replaced, tags_of
from tests.release.compare import Outcome, Tally, compared, cut, plain, report, unlike
from tests.release.scenarios import KINDS, bases, numbered, scenario
from tests.release.tables import table_differences


def test_a_number_is_a_scenario() -> None:
    assert scenario(7, "plain", "v1.36.4") == scenario(7, "plain", "v1.36.4")
    assert scenario(7, "plain", "v1.36.4") != scenario(8, "plain", "v1.36.4")


def test_the_machines_are_not_changed_by_making_scenarios() -> None:
    before = copy.deepcopy(bases())
    numbered(0, 40, KINDS, "v1.36.4")
    assert bases() == before


def test_scenarios_are_wide() -> None:
    made = numbered(0, 300, KINDS, "v1.36.4")
    steps = {name for one in made for step in one["steps"] for name in step}
    assert steps == {"add", "remove", "reconcile", "restart", "devices", "resize", "retry"}
    restarts = [step["restart"] for one in made for step in one["steps"] if "restart" in step]
    assert {name for step in restarts for name in step} == {"kubelet", "machine", "plugins"}
    pods = [(one["id"], step["add"]) for one in made for step in one["steps"] if "add" in step]
    assert any(
        c.get("restartPolicy") == "Always" for _, pod in pods for c in pod["spec"].get("initContainers", ())
    )
    assert any("resources" in pod["spec"] for _, pod in pods)
    uids = [(name, pod["metadata"]["uid"]) for name, pod in pods]
    assert len(set(uids)) < len(uids), "some pods come back under their uid"
    ill = [
        d
        for one in made
        for step in one["steps"]
        for list_ in step.get("devices", {}).values()
        for d in list_
    ]
    assert any(device.get("unhealthy") for device in ill)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_the_same_is_found_the_same(kind: str) -> None:
    made = scenario(3, kind, "v1.36.4")
    said = plain(replay(made))
    assert compared(made, lambda _: copy.deepcopy(said), said).kind == "same"


def first_admitted(result: dict) -> int:
    return next(at for at, step in enumerate(result["steps"]) if step.get("admitted"))


def admitting() -> tuple[dict, dict]:
    """A scenario in which a pod is admitted, with our result."""
    for number in range(40):
        made = scenario(number, "plain", "v1.36.4")
        said = plain(replay(made))
        if any(step.get("admitted") for step in said.get("steps", ())):
            return made, said
    raise AssertionError("no pod was admitted in 40 scenarios")


def test_a_difference_is_named_by_its_aspect_and_its_step() -> None:
    made, said = admitting()
    other = copy.deepcopy(said)
    at = first_admitted(other)
    other["steps"][at] |= {"admitted": False, "reason": "TopologyAffinityError"}
    outcome = compared(made, lambda _: copy.deepcopy(other), said)
    assert outcome.kind == "verdict in add"
    assert outcome.found[0].path.startswith(f"steps[{at}]")
    assert (outcome.found[0].recorded, outcome.found[0].ours) == (False, True)


def test_managers_that_disagree_with_themselves_are_chance() -> None:
    made, said = admitting()
    other = copy.deepcopy(said)
    other["steps"][first_admitted(other)]["admitted"] = False
    answers = [other, said]
    assert compared(made, lambda _: copy.deepcopy(answers.pop(0)), said).kind == "chance"


def test_resizes_preemptions_and_allocations_count() -> None:
    wanted = {
        "steps": [
            {"op": "resize", "resizes": [{"uid": "a", "outcome": "deferred"}], "state": {"allocated": {}}}
        ]
    }
    said = {"steps": [{"op": "resize", "preempted": ["b"], "state": {"allocated": {"a": {"c": {}}}}}]}
    assert [one.aspect for one in unlike(wanted, said)] == ["resizes", "preempted", "allocated"]
    assert unlike(wanted, copy.deepcopy(wanted)) == []


def test_a_crash_counts_whatever_was_told_before() -> None:
    wanted = {"steps": [{"op": "add", "panic": "runtime error: index out of range"}]}
    said = {
        "steps": [{"op": "add", "uid": "u1", "hint_rounds": [{"hints": {}}], "panic": "index out of range"}]
    }
    assert unlike(cut(wanted), cut(said)) == []
    alive = {"steps": [{"op": "add", "uid": "u1", "admitted": True, "state": {}}]}
    assert unlike(cut(wanted), cut(alive))


def test_the_report_counts_kinds_and_keeps_the_first_scenarios() -> None:
    made, said = admitting()
    other = copy.deepcopy(said)
    other["steps"][first_admitted(other)]["admitted"] = False
    tally = Tally(keep=2)
    for _ in range(3):
        tally.add(compared(made, lambda _: copy.deepcopy(other), said))
    tally.add(Outcome(made))
    text = report(tally, "v1.36.4")
    assert text.startswith("v1.36.4: 4 scenarios, 1 the same, 0 left to chance, 3 differ")
    assert text.count(made["id"]) == 2
    assert "3 verdict in add" in text


DESCRIBED = {
    "gates": {},
    "defaults": {},
    "fields": [],
    "cpu_options": {"Alpha": [], "Beta": [], "Stable": []},
    "topology_options": {"Alpha": [], "Beta": [], "Stable": []},
}


def test_tables_are_compared_both_ways() -> None:
    told = {
        **DESCRIBED,
        "gates": {"InventedGate": {"stage": "ALPHA", "default": False, "locked": False}},
        "fields": ["inventedField", "kind"],
        "cpu_options": {"Alpha": ["full-pcpus-only"], "Beta": [], "Stable": []},
    }
    lines = table_differences(told, (1, 36))
    assert "gate InventedGate: alpha, off in the release, not in the tables" in lines
    assert "gate CPUManagerPolicyAlphaOptions: in the tables, not in the release" in lines
    assert "field inventedField: in the release, not in the tables" in lines
    assert "field cpuManagerPolicy: in the tables, not in the release" in lines
    assert "CPU option full-pcpus-only: Alpha in the release, Stable in the tables" in lines
    assert "Topology option prefer-closest-numa-nodes: absent in the release, Stable in the tables" in lines


def test_defaults_are_compared_with_those_of_another_release() -> None:
    lines = table_differences(
        {**DESCRIBED, "defaults": {"maxPods": 250}}, (1, 36), {**DESCRIBED, "defaults": {"maxPods": 110}}
    )
    assert "default of maxPods: 110 before, 250 in the release" in lines


def test_modules_of_the_source_tree_become_the_published_ones() -> None:
    module = "replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tk8s.io/cri-api => ./staging/src/k8s.io/cri-api\n)\n"
    wanted = "replace (\n\tk8s.io/api => k8s.io/api v0.37.1\n\tk8s.io/cri-api => k8s.io/cri-api v0.37.1\n)\n"
    assert replaced(module, Sources(Path(), "v1.37.1").staging) == wanted


def test_tags_are_set_where_a_release_has_the_old_shape(tmp_path: Path) -> None:
    assert tags_of(tmp_path) == [tag for tag, _, _ in TAGS]
    policy = tmp_path / "pkg/kubelet/cm/topologymanager/policy.go"
    policy.parent.mkdir(parents=True)
    policy.write_text("type Policy interface {\n\tMerge(logger klog.Logger, hints []Hint) bool\n}\n")
    assert "merge_without_logger" not in tags_of(tmp_path)


def test_a_release_of_another_build_is_named(tmp_path: Path) -> None:
    manager = tmp_path / "pkg/kubelet/cm/cpumanager/cpu_manager.go"
    manager.parent.mkdir(parents=True)
    manager.write_text("package cpumanager\n")
    with pytest.raises(CannotBuild, match="cadvisorapi"):
        adapt_imports(tmp_path)


def test_a_missing_go_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotBuild, match=r"Go is needed .* `go` was not found"):
        downloaded("v1.37.1", tmp_path)


def test_a_module_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\n" + "echo '" + json.dumps({"Error": "no such version"}) + "'\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CannotBuild, match=r"k8s.io/kubernetes@v1.99.0 cannot be downloaded: no such version"):
        downloaded("v1.99.0", tmp_path)

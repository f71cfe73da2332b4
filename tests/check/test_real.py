"""Configurations, pods, state files and reports of real users: nothing crashes, and what they met is found."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.check.lint import lint
from numawise.results.finding import CheckReport, Severity
from numawise.rules.versions import NEWEST, OLDEST
from tests.check.examples import write
from tests.check.folder import named
from tests.check.traces import HEAD

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
MACHINE = ROOT / "examples" / "8gpu-server" / "machine.yaml"
RELEASES = (OLDEST, (1, 27), (1, 34), (1, 36), NEWEST)
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the real data lie elsewhere")


def cases(folder: str, ending: str) -> list[Path]:
    return sorted((DATA / folder).glob(f"*{ending}")) if DATA.is_dir() else []


def golden(path: Path) -> Any:
    return json.loads(path.with_suffix(".json").read_text())["golden"]


def codes(report: CheckReport, *severities: Severity) -> set[str]:
    return {one.code for one in report.findings if not severities or one.severity in severities}


@pytest.mark.parametrize("path", cases("kubelet-config", ".yaml"), ids=lambda path: path.stem)
def test_configurations(path: Path) -> None:
    for version in RELEASES:
        alone = lint(**named(configs=(str(path),), version=version))
        on_machine = lint(**named(configs=(str(path),), machines=(str(MACHINE),), version=version))
        assert all(one.file and one.message and one.why and one.fix for one in alone.findings)
        assert all(one.line for one in on_machine.findings if one.file == str(path))
    balances = [one.get("reserved_memory_check", {}).get("balanced") for one in golden(path)]
    report = lint(**named(configs=(str(path),), version=(1, 36)))
    assert ("NW221" in codes(report)) == (False in balances)
    assert "NW002" not in codes(report)


# fmt: off
@pytest.mark.parametrize(("name", "expected"), [
    pytest.param("seed000",                              {"NW221"},                   id="the seed document's sum is 100Mi short"),
    pytest.param("seed000-5",                            set(),                       id="its corrected form is fine"),
    pytest.param("seed001",                              set(),                       id="CPUs alone"),
    pytest.param("doc-4540-strict-cpu-reservation-2",    {"NW101"},                   id="an option with a structure"),
    pytest.param("doc-virt-cpu-manager-policy",          {"NW101", "NW102"},          id="fields at the wrong place, a bare true"),
    pytest.param("doc-numa",                             {"NW102", "NW201", "NW221"}, id="a documentation that does not start"),
    pytest.param("numaresources-op-examples-kubeletconfig", set(),                    id="balanced"),
])
def test_errors_of_configurations(name: str, expected: set[str]) -> None:
    report = lint(**named(configs=(str(DATA / "kubelet-config" / f"{name}.yaml"),), version=(1, 36)))
    assert codes(report, Severity.ERROR) == expected


@pytest.mark.parametrize(("version", "expected"), [
    pytest.param((1, 20), set(),      id="the release it was written for"),
    pytest.param((1, 24), {"NW108"},  id="flags of the container network are gone"),
    pytest.param((1, 36), {"NW108"},  id="and those of the old logging"),
])
def test_flags_of_the_seed_document(version: tuple[int, int], expected: set[str]) -> None:
    report = lint(**named(flags=str(DATA / "kubelet-config" / "seed002-kubelet-env.env"), version=version))
    assert codes(report, Severity.ERROR) == expected
    assert "NW208" in codes(report)
# fmt: on


@pytest.mark.parametrize("path", cases("gpu-pods", ".yaml"), ids=lambda path: path.stem)
def test_pods(path: Path) -> None:
    for version in RELEASES:
        lint(**named(pods=(str(path),), machines=(str(MACHINE),), version=version))
    report = lint(**named(pods=(str(path),), version=(1, 36)))
    found = codes(report)
    pods = golden(path)
    unlike = [pod for pod in pods if pod["qos_class"] != "Guaranteed" and _devices(pod)]
    assert bool(found & {"NW410", "NW411", "NW430", "NW431"}) == bool(unlike)
    assert not codes(report, Severity.ERROR)


def _devices(pod: dict[str, Any]) -> bool:
    return any("/" in name for one in pod["containers"] for name in one["limits"])


# fmt: off
@pytest.mark.parametrize(("name", "expected"), [
    pytest.param("seed001-1", {"NW410", "NW503"}, id="training by number"),
    pytest.param("seed001-3", {"NW503"},                   id="inference by number"),
    pytest.param("awsome-distr-raycluster", {"NW402"},     id="a template that was not filled in"),
    pytest.param("kubernetes-e-ray-cluster-auto", {"NW411"}, id="a helper without limits"),
])
def test_findings_of_pods(name: str, expected: set[str]) -> None:
    report = lint(**named(pods=(str(DATA / "gpu-pods" / f"{name}.yaml"),), version=(1, 36)))
    assert codes(report, Severity.WARNING) == expected
# fmt: on


@pytest.mark.parametrize("path", cases("kubelet-state", ".state"), ids=lambda path: path.stem)
def test_state_files(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path / path.name.partition("--")[0])
    for version in RELEASES:
        lint(**named(state=str(tmp_path), machines=(str(MACHINE),), version=version))
    if golden(path).get("checksum_valid"):
        report = lint(**named(state=str(tmp_path), version=(1, 36)))
        assert not codes(report), report.findings


def test_a_real_run() -> None:
    folder = DATA / "kubelet-run" / "vm-2s"
    report = lint(**named(state=str(folder), pods=(str(folder / "pods.json"),), version=(1, 36)))
    assert not report.findings


# --- what users reported --------------------------------------------------------------------

EMPTY_STATE = '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'


def reports() -> list[dict[str, Any]]:
    path = DATA / "k8s-reports" / "failing-configs.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


# fmt: off
KNOWN = {
    # report: release, code that finds it, what else was there
    "talos-7504":        ((1, 27), "NW301", "state"),
    "k8s-102073":        ((1, 22), "NW123", ""),
    "k8s-70161":         ((1, 20), "NW201", ""),
    "lokomotive-1337":   ((1, 21), "NW201", ""),
    "website-55714":     ((1, 35), "NW124", "aligning"),
    "numaresources-80":  ((1, 27), "NW221", ""),
    "kind-3238":         ((1, 27), "NW222", "one NUMA node"),
    "seed-000":          ((1, 27), "NW301", "state"),
}
# fmt: on


@pytest.mark.parametrize(
    "told", [one for one in reports() if one["id"] in KNOWN], ids=lambda told: told["id"]
)
def test_reported_failures_are_found(told: dict[str, Any], tmp_path: Path) -> None:
    version, code, beside = KNOWN[told["id"]]
    config = dict(told["config"])
    given = {"configs": (str(tmp_path / "kubelet.yaml"),), "version": version}
    if beside == "state":
        config["reservedSystemCPUs"] = "0"
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "cpu_manager_state").write_text(EMPTY_STATE)
        given["state"] = str(tmp_path / "state")
    if beside == "one NUMA node":
        write({"machine.yaml": "= 1s 4c"}, tmp_path)
        given["machines"] = (str(tmp_path / "machine.yaml"),)
    if beside == "aligning":
        config["topologyManagerPolicy"] = "restricted"
    (tmp_path / "kubelet.yaml").write_text(json.dumps({**HEAD, **config}))
    report = lint(**named(**given))
    found = [one for one in report.findings if one.code == code]
    assert found
    assert all(one.severity is Severity.ERROR for one in found)
    words = told["error"].split(", please drain")[0]
    if words.startswith(("start ", "unknown policy", "[cpumanager]")):
        assert any(words in (one.kubelet or one.message) for one in found)


@pytest.mark.parametrize("told", reports(), ids=lambda told: told["id"])
def test_every_report_is_one_that_could_be_tried(told: dict[str, Any]) -> None:
    """Those that are not found above hang on something that no file tells."""
    untold = {"k8s-79603", "k8s-110478", "k8s-79159", "website-43093"}
    assert (told["id"] in KNOWN) != (told["id"] in untold)

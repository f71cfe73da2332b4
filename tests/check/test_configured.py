"""File, drop-ins and flags taken together, as the kubelet takes them."""

from pathlib import Path

import pytest

from numawise.apps.check.sources import sources
from numawise.codec.kubelet.effective import merged
from tests.check.examples import inside, write
from tests.check.folder import HEAD, STATIC, check, codes, named, one

NO_KIND = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'


def effective(folder: Path, files: dict[str, str], flags: str = "", **given: object) -> dict[str, object]:
    """The configuration that the kubelet ends up with."""
    write(files, folder)
    configs = tuple(name for name in files if name.startswith("kubelet.yaml"))
    with inside(folder):
        directory = "d" if (folder / "d").is_dir() else ""
        read = sources(**named(configs=configs, config_dir=directory, flags=flags, **given))  # type: ignore[arg-type]
    (configuration,) = read.configurations
    return {key: value for key, value in configuration.raw.items() if key not in ("apiVersion", "kind")}


# fmt: off
@pytest.mark.parametrize(("base", "patch", "expected"), [
    pytest.param({"a": 1},             {"a": 2},            {"a": 2},             id="replaced"),
    pytest.param({"a": {"b": 1}},      {"a": {"c": 2}},     {"a": {"b": 1, "c": 2}}, id="maps are merged"),
    pytest.param({"a": [1, 2]},        {"a": [3]},          {"a": [3]},           id="lists are not"),
    pytest.param({"a": 1, "b": 2},     {"a": None},         {"b": 2},             id="null removes"),
    pytest.param({"a": 1},             {"a": {"b": None}},  {"a": {}},            id="nothing to remove"),
])
def test_merged(base: dict[str, object], patch: dict[str, object], expected: dict[str, object]) -> None:
    assert merged(base, patch) == expected


@pytest.mark.parametrize(("files", "flags", "expected"), [
    pytest.param({"kubelet.yaml": f"{HEAD}maxPods: 1\n", "d/10.conf": f"{HEAD}maxPods: 2\n", "d/20.conf": f"{HEAD}maxPods: 3\n"}, "",
                 {"maxPods": 3},                                                                  id="by name"),
    pytest.param({"kubelet.yaml": f"{HEAD}maxPods: 1\n", "d/b/1.conf": f"{HEAD}maxPods: 2\n", "d/a.conf": f"{HEAD}maxPods: 3\n"}, "",
                 {"maxPods": 2},                                                                  id="folders where their name comes"),
    pytest.param({"kubelet.yaml": f"{HEAD}maxPods: 1\n", "d/10.conf": f"{HEAD}maxPods: 2\n"}, "--max-pods=4",
                 {"maxPods": 4},                                                                  id="flags win"),
    pytest.param({"kubelet.yaml": f"{HEAD}maxPods: 1\n", "d/10.yaml": f"{HEAD}maxPods: 2\n"}, "",
                 {"maxPods": 1},                                                                  id="only .conf counts"),
    pytest.param({"kubelet.yaml": f"{HEAD}maxPods: 1\n", "d/10.conf": f"{HEAD}MAXPODS: 2\n"}, "",
                 {"maxPods": 2},                                                                  id="any case in drop-ins"),
    pytest.param({"kubelet.yaml": f"{HEAD}MaxPods: 1\n"}, "",
                 {"MaxPods": 1},                                                                  id="not in the file"),
    pytest.param({"kubelet.yaml": f"{HEAD}kubeReserved: {{cpu: '1'}}\n", "d/10.conf": f"{HEAD}kubeReserved: {{memory: 1Gi}}\n"}, "",
                 {"kubeReserved": {"cpu": "1", "memory": "1Gi"}},                                 id="maps are merged"),
    pytest.param({"kubelet.yaml": f"{HEAD}kubeReserved: {{cpu: '1'}}\n"}, "--kube-reserved=memory=1Gi",
                 {"kubeReserved": {"memory": "1Gi"}},                                             id="but flags replace them"),
])
def test_precedence(files: dict[str, str], flags: str, expected: dict[str, object], tmp_path: Path) -> None:
    found = effective(tmp_path, files, flags)
    found.pop("evictionHard", None)
    assert found == expected


@pytest.mark.parametrize(("files", "flags", "kube", "threshold"), [
    pytest.param({"kubelet.yaml": HEAD},                                                           "",        (1, 36), "default", id="file alone"),
    pytest.param({"kubelet.yaml": HEAD, "d/1.conf": f"{HEAD}evictionHard: {{pid.available: '9'}}\n"}, "",     (1, 36), "100Mi",   id="a drop-in adds to the defaults"),
    pytest.param({"kubelet.yaml": f"{HEAD}evictionHard: {{pid.available: '9'}}\n"},                "",        (1, 36), None,      id="the file replaces them"),
    pytest.param({},                                                                               "--v=2",   (1, 36), None,      id="no file, no defaults"),
    pytest.param({},                                                                               "--v=2",   (1, 25), "default", id="before 1.26 there were"),
    pytest.param({},                                                                               "--config=/etc/kubelet.yaml", (1, 36), "default", id="a file that is not here"),
])
def test_default_thresholds(files: dict[str, str], flags: str, kube: tuple[int, int], threshold: str | None, tmp_path: Path) -> None:
    found = effective(tmp_path, files, flags, version=kube)
    thresholds = found.get("evictionHard")
    told = "default" if thresholds is None else thresholds.get("memory.available")  # type: ignore[attr-defined]
    assert told == threshold


@pytest.mark.parametrize(("files", "kube", "expected"), [
    pytest.param({"d/1.conf": NO_KIND},                                             "1.36", {"NW106"}, id="no kind"),
    pytest.param({"d/1.conf": "apiVersion: v1\nkind: ConfigMap\n"},                 "1.36", {"NW106"}, id="another kind"),
    pytest.param({"d/1.conf": f"{STATIC}cpuManagerPolicy: none\n"},                 "1.36", {"NW106"}, id="a field twice"),
    pytest.param({"d/1.conf": f"{STATIC}  x: ["},                                   "1.36", {"NW106"}, id="no YAML"),
    pytest.param({"d/1.conf": f"{STATIC}nosuch: 1\n"},                              "1.36", {"NW103"}, id="an unknown field"),
    pytest.param({"d/1.yaml": STATIC},                                              "1.36", {"NW107"}, id="another ending"),
    pytest.param({"d/README": "read me"},                                           "1.36", set(),     id="something else"),
    pytest.param({"d/1.conf": STATIC},                                              "1.29", {"NW106"}, id="behind a variable"),
    pytest.param({"d/1.conf": STATIC},                                              "1.27", {"NW106"}, id="not yet there"),
])
def test_drop_ins_that_are_not_taken(files: dict[str, str], kube: str, expected: set[str], tmp_path: Path) -> None:
    report = check(tmp_path, {"kubelet.yaml": HEAD, **files}, kube, config_dir="d", flags="")
    assert codes(report) & {"NW103", "NW106", "NW107"} == expected
# fmt: on


def test_places_are_where_something_was_set_last(tmp_path: Path) -> None:
    files = {
        "kubelet.yaml": f"{HEAD}cpuManagerPolicy: Static\n",
        "d/1.conf": f"{HEAD}\n\ntopologyManagerPolicy: strict\n",
    }
    report = check(tmp_path, files, config_dir="d", flags="--v=2\n--memory-manager-policy=static")
    placed = {finding.code: (finding.file, finding.line) for finding in report.findings}
    assert placed["NW122"] == ("kubelet.yaml", 3)
    assert placed["NW121"] == ("d/1.conf", 5)
    assert placed["NW123"] == ("--kubelet-flags", 2)


def test_a_repeated_field_counts_the_last_time(tmp_path: Path) -> None:
    report = check(tmp_path, {"kubelet.yaml": f"{STATIC}cpuManagerPolicy: Static\n"})
    assert one(report, "NW104").line == 5
    assert one(report, "NW122").message == 'unknown policy: "Static"'


def test_every_refusal_is_told_not_only_the_first(tmp_path: Path) -> None:
    text = f"""{HEAD}featureGates: {{NoSuch: true, CPUManagerPolicyOptions: false}}
maxPods: many
port: -1
topologyManagerPolicy: strict
cpuManagerPolicy: static
cpuManagerPolicyOptions: {{nosuch: "true"}}
reservedSystemCPUs: 0-x
memoryManagerPolicy: static
kubeReserved: {{gpu: "1"}}
evictionHard: {{nosuch: "1"}}
"""
    expected = {"NW101", "NW111", "NW112", "NW120", "NW121", "NW124", "NW202", "NW123", "NW205", "NW206"}
    assert expected <= codes(check(tmp_path, {"kubelet.yaml": text}))


@pytest.mark.parametrize(("wrong", "remarks"), [(60, 0), (65, 1), (200, 1)])
def test_refusals_that_nobody_looked_for_are_said(tmp_path: Path, wrong: int, remarks: int) -> None:
    names = "".join(f"  wrong{number}: '1'\n" for number in range(wrong))
    report = check(tmp_path, {"kubelet.yaml": f"{HEAD}kubeReserved:\n  cpu: '1'\n{names}"})
    assert sum(finding.code == "NW205" for finding in report.findings) == min(wrong, 64)
    assert sum("would refuse more" in remark for remark in report.remarks) == remarks


def test_one_mistake_is_told_once(tmp_path: Path) -> None:
    text = f"{HEAD}cpuManagerPolicy: static\nreservedSystemCPUs: 0-x\n"
    report = check(tmp_path, {"kubelet.yaml": text})
    assert {finding.code for finding in report.findings if finding.stage} == {"NW202"}


def test_several_files_are_several_kubelets(tmp_path: Path) -> None:
    report = check(
        tmp_path, {"kubelet-a.yaml": STATIC, "kubelet-b.yaml": f"{HEAD}cpuManagerPolicy: static\n"}
    )
    assert one(report, "NW201").file == "kubelet-b.yaml"

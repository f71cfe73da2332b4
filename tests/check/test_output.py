"""Forms of the answer, and the command line."""

import json
import re
from pathlib import Path

import pytest

from numawise.render.findings import brief_text, findings_text, github, sarif
from numawise.render.terminal import RED, start
from numawise.results.finding import Finding, Severity
from tests.check.examples import output, write
from tests.check.folder import HEAD, STATIC, pod
from tests.cli.run import numawise, program, refused

ROW = Finding(
    "NW221", Severity.ERROR, "100% wrong,\nreally", "a dir/k.yaml", 3, "reservedMemory", "because: x", "do: y"
)
BARE = Finding("NW003", Severity.INFO, "not known")


def test_github_escapes() -> None:
    told = github([ROW, BARE])
    assert told == (
        "::error file=a dir/k.yaml,line=3,title=NW221 reservedMemory does not add up::100%25 wrong,%0Areally%0Abecause: x%0AFix: do: y\n"
        "::notice title=NW003 Something could not be checked::not known\n"
    )
    odd = Finding("NW302", Severity.WARNING, "m", "x:y,z%.yaml", 1, kubelet="k: 1")
    words = "NW302 The checksum of a state file is wrong::m%0AThe kubelet would say: k: 1"
    assert github([odd]) == f"::warning file=x%3Ay%2Cz%25.yaml,line=1,title={words}\n"


# What SARIF 2.1.0 demands of the objects that are written here: name → (required, allowed).
SARIF = {
    "log":         ({"version", "runs"}, {"$schema"}),
    "run":         ({"tool"}, {"results", "columnKind"}),
    "driver":      ({"name"}, {"version", "rules"}),
    "rule":        ({"id"}, {"shortDescription", "fullDescription", "help", "defaultConfiguration"}),
    "result":      ({"message"}, {"ruleId", "ruleIndex", "level", "locations", "fixes"}),
    "location":    (set(), {"physicalLocation", "logicalLocations"}),
    "physical":    (set(), {"artifactLocation", "region"}),
    "fix":         ({"artifactChanges"}, {"description"}),
    "change":      ({"artifactLocation", "replacements"}, set()),
    "replacement": ({"deletedRegion"}, {"insertedContent"}),
}  # fmt: skip


def shaped(name: str, value: dict[str, object]) -> dict[str, object]:
    required, allowed = SARIF[name]
    assert required <= value.keys() <= required | allowed
    return value


def test_sarif_is_of_the_form(tmp_path: Path) -> None:
    write(
        {
            "kubelet.yaml": f"{HEAD}cpuManagerPolicy: static\nmaxPods: -1\n",
            "pod.yaml": pod('{limits: {nvidia.com/gpu: "1"}}'),
        },
        tmp_path,
    )
    status, told = output("numawise check --kubelet-config kubelet.yaml pod.yaml -o sarif", tmp_path)
    assert status == 1
    log = shaped("log", json.loads(told))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = shaped("driver", shaped("run", run)["tool"]["driver"])
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    ids = [shaped("rule", rule)["id"] for rule in driver["rules"]]
    assert ids == sorted(set(ids))
    for rule in driver["rules"]:
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
        assert all(rule[key]["text"] for key in ("shortDescription", "fullDescription", "help"))
    for result in run["results"]:
        shaped("result", result)
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        for location in result["locations"]:
            physical = shaped("physical", shaped("location", location)["physicalLocation"])
            assert physical["region"]["startLine"] >= 1
            assert re.fullmatch(r"[\w./-]+", physical["artifactLocation"]["uri"])
        for fix in result.get("fixes", ()):
            for change in shaped("fix", fix)["artifactChanges"]:
                assert all(shaped("replacement", one) for one in shaped("change", change)["replacements"])
    assert {"NW120", "NW201", "NW430"} <= set(ids)


# fmt: off
@pytest.mark.parametrize(("file", "uri"), [
    pytest.param("a/k.yaml",       "a/k.yaml",              id="relative"),
    pytest.param("a b/ü#.yaml",    "a%20b/%C3%BC%23.yaml",  id="odd characters"),
    pytest.param("/etc/k.yaml",    "file:///etc/k.yaml",    id="absolute"),
    pytest.param("a:b.yaml",       "./a:b.yaml",            id="no scheme"),
])
def test_sarif_paths(file: str, uri: str) -> None:
    row = Finding("NW221", Severity.ERROR, "m", file, 1)
    (result,) = sarif([row], "0")["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri
# fmt: on


def test_json_has_everything(tmp_path: Path) -> None:
    write({"kubelet.yaml": f"{HEAD}cpuManagerPolicy: static\n"}, tmp_path)
    told = json.loads(output("numawise check --kubelet-config kubelet.yaml -o json", tmp_path)[1])
    assert (told["kind"], told["errors"], told["warnings"], told["notes"]) == ("Check", 1, 0, 1)
    first = told["findings"][0]
    assert set(first) == {
        "code",
        "severity",
        "title",
        "file",
        "line",
        "field",
        "stage",
        "message",
        "why",
        "fix",
    }
    assert (first["code"], first["line"], first["stage"]) == ("NW201", 3, "cpu-manager")


def test_text_is_grouped_and_summed_up() -> None:
    told = findings_text([ROW, ROW, BARE], 2)
    assert told == (
        "a dir/k.yaml\n"
        "  3  error NW221  reservedMemory: 100% wrong, really\n"
        "                  why because: x\n"
        "                  fix do: y\n"
        "  3  error NW221  reservedMemory: 100% wrong, really\n"
        "                  why because: x\n"
        "                  fix do: y\n"
        "\n(no file)\n"
        "     info  NW003  not known\n"
        "\n2 errors, 1 note (2 left out)\n"
    )
    assert findings_text([]) == "nothing found\n"


def test_text_keeps_to_the_width() -> None:
    long = Finding(
        "NW221", Severity.ERROR, "word " * 60, "k.yaml", 1, "", "why " * 60, "fix " * 60, kubelet="says " * 60
    )
    assert max(map(len, findings_text([long], width=80).splitlines())) <= 80
    assert "\x1b" not in findings_text([long], width=80)
    assert start(RED) in findings_text([long], width=80, color=True)


def test_text_cannot_steer_the_terminal() -> None:
    evil = Finding(
        "NW221", Severity.ERROR, "m\x1b[31m\r\n", "k\x1b[2J.yaml", 1, "f\x07", "w\x1b]0;x\x07", "f", "k\x1b"
    )
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", findings_text([evil]))


# --- the command ----------------------------------------------------------------------------


# fmt: off
@pytest.mark.parametrize(("words", "told"), [
    pytest.param([],                                                        ["nothing to check"],                  id="nothing given"),
    pytest.param(["--kubelet-config", "nosuch.yaml"],                       ["nosuch.yaml", "no such file"],       id="no such file"),
    pytest.param(["--state", "nosuch"],                                     ["nosuch", "there is no such file or folder"], id="no such folder"),
    pytest.param(["--config-dir", "nosuch"],                                ["nosuch", "does not exist"],          id="no drop-ins"),
    pytest.param(["--kube", "one", "pod.yaml"],                             ["--kube", "'one'"],                   id="no release"),
    pytest.param(["--upgrade", "1.36", "pod.yaml"],                         ["--upgrade", "1.34:1.36"],            id="half an upgrade"),
    pytest.param(["--ignore", "XY1", "pod.yaml"],                           ["there is no code 'XY1'"],            id="ignore"),
    pytest.param(["--select", "NW999", "pod.yaml"],                         ["there is no code 'NW999'"],          id="select"),
    pytest.param(["--explain", "NW999"],                                    ["there is no code 'NW999'"],          id="explain"),
    pytest.param(["-", "--machine", "-"],                                   ["standard input"],                    id="standard input twice"),
])
def test_bad_input(words: list[str], told: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    refused(numawise(capsys, "check", *words), *told)
# fmt: on


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "check", "--explain", "nw221")
    assert ran.status == 0
    assert ran.out.startswith("NW221 reservedMemory does not add up (error)\n\n")
    assert max(map(len, ran.out.splitlines())) <= 100


def test_standard_input_and_colours(tmp_path: Path) -> None:
    ran = program("check", "-", stdin=pod('{limits: {nvidia.com/gpu: "1"}}'), cwd=tmp_path)
    assert ran.status == 0
    assert ran.out.startswith("<stdin>\n")
    assert "\x1b" not in ran.out


def test_a_kubelet_without_a_file(tmp_path: Path) -> None:
    status, told = output('numawise check --kubelet-flags "--cpu-manager-policy=static"', tmp_path)
    assert status == 1
    assert "[cpumanager] unable to determine reserved CPU resources for static policy" in told


def test_an_upgrade_starts_from_its_old_release(tmp_path: Path) -> None:
    write({"kubelet.yaml": f"{STATIC}featureGates: {{MemoryManager: true}}\n"}, tmp_path)
    told = output("numawise check --kubelet-config kubelet.yaml --upgrade 1.35:1.36 -o json", tmp_path)[1]
    assert {one["code"] for one in json.loads(told)["findings"] if one["severity"] == "error"} == {"NW601"}


def test_the_release_decides(tmp_path: Path) -> None:
    write({"kubelet.yaml": f"{STATIC}featureGates: {{MemoryManager: true}}\n"}, tmp_path)
    line = "numawise check --kubelet-config kubelet.yaml --select NW111"
    assert output(f"{line} --kube 1.35", tmp_path)[0] == 0
    assert output(f"{line} --kube v1.36.4", tmp_path)[0] == 1


# --- one to a line, the gravest first, and nothing at all -------------------------------------

PODS = {
    "a.yaml": pod('{limits: {nvidia.com/gpu: "1"}}'),
    "b.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: A!, image: a}]}\n",
}
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"


def test_errors_come_first_whatever_their_file(tmp_path: Path) -> None:
    write(PODS, tmp_path)
    _, text = output("numawise check a.yaml b.yaml", tmp_path)
    assert re.findall(r"error|warning", text)[:2] == ["error", "warning"]
    assert text.index("b.yaml") < text.index("a.yaml")


def test_brief_is_a_line_for_each_finding(tmp_path: Path) -> None:
    write(PODS, tmp_path)
    status, text = output("numawise check --brief a.yaml b.yaml", tmp_path)
    assert status == 1
    lines = text.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(r"[ab]\.yaml:\d+: (error|warning|info) NW\d{3} \S.*", line) for line in lines)
    assert lines[0].startswith("b.yaml:4: error NW401 spec.containers[0].name: ")


def test_brief_of_what_has_no_line_or_file() -> None:
    no_line = Finding("NW003", Severity.INFO, "not\nknown", "x.yaml")
    assert brief_text([BARE, no_line]) == "-: info NW003 not known\nx.yaml: info NW003 not known\n"


def test_brief_goes_with_text_alone() -> None:
    ran = program("check", "--brief", "-o", "json", "x.yaml")
    assert (ran.status, ran.err) == (2, "numawise: --brief: cannot go with -o json; leave out one of them\n")


@pytest.mark.parametrize(("files", "words"), [
    ({"a.yaml": SERVICE},                                        "a.yaml: nothing was checked; give kubelet"),
    ({"a.yaml": SERVICE, "b.yaml": "kind: ConfigMap\n"},         "nothing in these 2 files was checked; give kubelet"),
    ({"a.yaml": "apiVersion: x.io/v1\nkind: Task\nspec: {}\n"},  "a.yaml: nothing was checked"),
])  # fmt: skip
@pytest.mark.parametrize("more", [(), ("-o", "json"), ("--brief",), ("-o", "github")])
def test_files_in_which_nothing_was_looked_at(
    files: dict[str, str], words: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    write(files, tmp_path)
    ran = program("check", *files, *more, cwd=tmp_path)
    assert ran.status == 2
    assert words in ran.err
    assert "no pod template inside" in ran.out


@pytest.mark.parametrize(("text", "words"), [
    ("resources: [a, b]\n",                         "error NW002 is not recognised: it has no kind"),
    ("just words\n",                                "error NW002 is not a Kubernetes object"),
    ("\n",                                          "error NW002 is empty"),
])  # fmt: skip
def test_a_file_that_is_not_recognised(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    ran = program("check", "--brief", "a.yaml", cwd=tmp_path)
    assert (ran.status, ran.err) == (1, "")
    assert words in ran.out
    if text.strip():
        assert (
            "recognised are objects that make pods, kubelet configurations"
            in program("check", "a.yaml", cwd=tmp_path).out
        )


def test_what_was_looked_at_is_said_where_nothing_was_found(tmp_path: Path) -> None:
    write({"pod.yaml": pod("{}"), "svc.yaml": SERVICE, "kubelet.yaml": HEAD}, tmp_path)
    status, text = output("numawise check --kubelet-config kubelet.yaml pod.yaml", tmp_path)
    assert (status, text) == (0, "nothing found in 1 kubelet configuration and 1 pod\n")
    status, text = output("numawise check pod.yaml svc.yaml", tmp_path)
    assert status == 0
    assert "svc.yaml" in text

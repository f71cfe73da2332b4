"""Scenario files: what they can say, and every way in which they cannot be read."""

from pathlib import Path

import pytest

from numawise.codec.document import read_documents
from numawise.codec.steps import Timed, decode_steps, duration_text, parse_duration, template_of
from numawise.errors import InputError
from numawise.results.simulation import Add, Devices, Fill, Reconcile, Remove, Restart, StartStep

POD = "{metadata: {name: web}, spec: {containers: [{name: c, resources: {limits: {cpu: 1}}}]}}"
JOB = """kind: Job
metadata: {name: work}
spec:
  parallelism: 2
  template: {spec: {containers: [{name: c}]}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pod.yaml").write_text(f"kind: Pod\n{POD[1:-1].replace(', spec', chr(10) + 'spec')}\n")
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "none.yaml").write_text("kind: Service\nmetadata: {name: s}\n")
    (tmp_path / "kubelet.yaml").write_text("cpuManagerPolicy: static\n")
    (tmp_path / "mixed.yaml").write_text(
        f"{JOB}---\nkind: Pod\n{POD[1:-1].replace(', spec', chr(10) + 'spec')}\n"
    )
    return tmp_path


def steps(text: str, folder: Path = Path()) -> tuple[Timed, ...]:
    (document,) = read_documents(text, "s.yaml")
    return decode_steps(document, folder)


def told(one: Timed) -> str:
    """A step in a few words."""
    act = one.act
    if isinstance(act, Add):
        return " ".join(pod.name for pod in act.pods) + ("" if act.start else " (waiting)")
    if isinstance(act, Remove | StartStep):
        return f"{one.word} {' '.join(act.names)}"
    if isinstance(act, Restart):
        return f"restart {Path(act.config).name}{' late' * act.late}{' -'.join(('', *act.delete))}".strip()
    if isinstance(act, Devices):
        return f"{act.resource} " + " ".join(
            f"{k}={'all' if v is None else ','.join(v)}" for k, v in act.changes
        )
    if isinstance(act, Fill):
        return f"fill {act.pod.name}" + (f" {act.most}" if act.most else "")
    assert isinstance(act, Reconcile)
    return "reconcile"


@pytest.mark.parametrize(("text", "expected"), [
    ("- add: pod.yaml",                                   ["web"]),
    ("- add: [pod.yaml, job.yaml]",                       ["web work-0 work-1"]),
    (f"- add: {POD}",                                     ["web"]),
    (f"- add: {{pod: {POD}, count: 3}}",                  ["web-0 web-1 web-2"]),
    ("- add: {file: pod.yaml, start: false}",             ["web (waiting)"]),
    ("steps:\n- reconcile\n- restart",                    ["reconcile", "restart"]),
    ("kind: Scenario\nsteps: [{reconcile: }]",            ["reconcile"]),
    ("- remove: web",                                     ["remove web"]),
    ("- remove: [a/web, web-*]",                          ["remove a/web web-*"]),
    ("- start: web",                                      ["start web"]),
    ("- restart: {config: kubelet.yaml}",                 ["restart kubelet.yaml"]),
    ("- restart: {plugins: after-pods}",                  ["restart  late"]),
    ("- restart: {delete: cpu_manager_state}",            ["restart  -cpu_manager_state"]),
    ("- devices: {x/gpu: {unhealthy: [a, b], gone: c}}",  ["x/gpu unhealthy=a,b gone=c"]),
    ("- devices: {x/gpu: {back: all}, x/nic: {gone: m}}", ["x/gpu back=all", "x/nic gone=m"]),
    ("- fill: pod.yaml",                                  ["fill web"]),
    ("- fill: job.yaml",                                  ["fill work"]),
    (f"- fill: {{pod: {POD}, most: 5}}",                  ["fill web 5"]),
    (f"- fill: {POD}",                                    ["fill web"]),
])  # fmt: skip
def test_what_a_scenario_can_say(text: str, expected: list[str], folder: Path) -> None:
    assert [told(one) for one in steps(text, folder)] == expected


def test_numbers_and_times() -> None:
    found = steps(
        "- reconcile\n- {at: 90, reconcile: }\n- restart\n- {after: 1h, devices: {x/a: {gone: b}, x/c: {gone: d}}}"
    )
    assert [(one.number, one.at) for one in found] == [
        (1, None),
        (2, 90.0),
        (3, 90.0),
        (4, 3690.0),
        (4, 3690.0),
    ]


@pytest.mark.parametrize(("text", "seconds", "canonical"), [
    ("30s",    30.0,     "30s"),
    ("1h30m",  5400.0,   "1h30m"),
    ("90m",    5400.0,   "1h30m"),
    ("1.5d",   129600.0, "1d12h"),
    ("250ms",  0.25,     "250ms"),
    ("0s",     0.0,      "0s"),
])  # fmt: skip
def test_durations(text: str, seconds: float, canonical: str) -> None:
    assert parse_duration(text) == seconds
    assert duration_text(seconds) == canonical


@pytest.mark.parametrize(("text", "words"), [
    ("[]",                                        ["has no steps"]),
    ("steps:",                                    ["s.yaml:1: steps", "has no steps"]),
    ("a: 1",                                      ["s.yaml:1: a", 'unknown field "a"']),
    ("just text",                                 ["must be a list of steps"]),
    ("- reconcile\n- recncile",                   ["s.yaml:2: [1]", 'unknown step "recncile"', 'did you mean "reconcile"?']),
    ("- remove",                                  ["s.yaml:1: [0]", "remove of what?"]),
    ("- reconcile\n- {ad: pod.yaml}",             ["s.yaml:2: [1].ad", 'did you mean "add"?']),
    ("- {at: 1s}",                                ["s.yaml:1: [0]", "does nothing"]),
    ("- {remove: a, add: b}",                     ["has remove and add, and a step does one thing"]),
    ("- 7",                                       ["must be a step: one word, or a mapping, not 7"]),
    ("- {at: soon, reconcile: }",                 ["s.yaml:1: [0].at", '"soon" is not a time', "1h30m"]),
    ("- {at: -1, reconcile: }",                   ["-1 is not a time"]),
    ("- {at: true, reconcile: }",                 ["true is not a time"]),
    ("- {at: 1s, after: 1s, reconcile: }",        ["both at and after"]),
    ("- {at: 1m, reconcile: }\n- {at: 1s, reconcile: }", ["s.yaml:2: [1].at", '"1s" is earlier than the previous step, at 1m']),
    ("- add: missing.yaml",                       ["s.yaml:1: [0].add", "there is no file", "relative to the scenario"]),
    ("- add: none.yaml",                          ["s.yaml:1: [0].add", "none.yaml has no pods"]),
    ("- add:",                                    ["[0].add", "is missing"]),
    ("- add: 5",                                  ["must be a file, a list of files, or a pod, not 5"]),
    ("- add: {count: 3}",                         ["needs either file, text or pod"]),
    ("- add: {file: pod.yaml, count: 0}",         ["[0].add.count", "from 1 to 100000, not 0"]),
    ("- add: {file: pod.yaml, start: maybe}",     ["[0].add.start", 'must be true or false, not "maybe"']),
    ("- add: {file: pod.yaml, cuont: 2}",         ["[0].add.cuont", 'did you mean "count"?']),
    ("- reconcile\n- add: {kind: Pod, metadata: {name: x}, spec: {containers: [{name: c, resources: {limits: {cpu: x}}}]}}",
                                                  ["s.yaml:2: [1].add.spec.containers[0].resources.limits[cpu]", "is not a quantity"]),
    ("- remove: 5",                               ["[0].remove", "must be the name of a pod"]),
    ("- remove: []",                              ["[0].remove", "is missing"]),
    ("- restart: {config: missing.yaml}",         ["[0].restart.config", "there is no file"]),
    ("- restart: {plugins: never}",               ["[0].restart.plugins", "must be before-pods or after-pods"]),
    ("- restart: {delete: cpu_state}",            ["[0].restart.delete", 'there is no state file "cpu_state"', "known are cpu_manager_state"]),
    ("- reconcile: twice",                        ["[0].reconcile", 'takes nothing, not "twice"']),
    ("- devices:",                                ["[0].devices", "is missing"]),
    ("- devices: {x/gpu: }",                      ["[0].devices[x/gpu]", "is missing"]),
    ("- devices: {x/gpu: {ill: [a]}}",            ["[0].devices[x/gpu].ill", 'unknown field "ill"', "unhealthy"]),
    ("- devices: {x/gpu: {gone: 3}}",             ["[0].devices[x/gpu].gone", "must be device ids, or all, not 3"]),
    ("- fill: mixed.yaml",                        ["[0].fill", "holds pods that differ"]),
    ("- fill: {most: 3}",                         ["needs either file, text or pod"]),
    ("- fill: {file: pod.yaml, most: 0}",         ["[0].fill.most", "from 1 to 100000, not 0"]),
])  # fmt: skip
def test_what_it_cannot_say(text: str, words: list[str], folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        steps(text, folder)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_an_error_in_a_named_file_tells_its_own_line(folder: Path) -> None:
    (folder / "bad.yaml").write_text("kind: Pod\nmetadata: {name: x}\nspec: {containers: []}\n")
    with pytest.raises(InputError, match=r"bad\.yaml:3: spec\.containers: Required value"):
        steps("- add: bad.yaml", folder)


def test_copies_need_one_template() -> None:
    (first,) = steps(f"- add: {POD}")
    assert isinstance(first.act, Add)
    (pod,) = first.act.pods
    assert template_of(()) is None
    assert template_of((pod,)) == pod

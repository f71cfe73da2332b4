"""``numawise simulate --resize``, and resizes in scenarios."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import EXAMPLES, Ran, numawise, refused

EIGHT, PODS = EXAMPLES / "8gpu-server", EXAMPLES / "resize" / "pods.yaml"


def simulate(capsys: pytest.CaptureFixture[str], *words: object) -> Ran:
    files = ("--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet.yaml")
    return numawise(capsys, "simulate", *files, PODS, *words)


def outcomes(capsys: pytest.CaptureFixture[str], *words: object, status: int) -> list[tuple[str, str, Any]]:
    ran = simulate(capsys, "-o", "json", *words)
    assert (ran.status, ran.err) == (status, ""), ran
    rows = [row for step in json.loads(ran.out)["steps"] for row in step.get("resizes", ())]
    return [(row["pod"], row["outcome"], row["message"]) for row in rows]


@pytest.mark.parametrize(("words", "outcome", "message"), [
    ("pod=web,cpu=16",                        "allocated",  None),
    ("pod=web,container=server,memory=20Gi",  "allocated",  None),
    ("pod=web,cpu=60",                        "deferred",   "Node didn't have enough resource: cpu, requested: 60000, used: 96000, capacity: 124000"),
    ("pod=train,cpu=32",                      "infeasible", 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'),
    ("pod=web,cpu=8",                         None,         None),
])  # fmt: skip
def test_one(
    capsys: pytest.CaptureFixture[str], words: str, outcome: str | None, message: str | None
) -> None:
    rows = outcomes(capsys, "--resize", words, status=0 if message is None else 1)
    assert [row[1:] for row in rows] == ([(outcome, message)] if outcome else [])


def test_what_the_api_server_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    steps = tmp_path / "steps.yaml"
    steps.write_text("- resize: {pod: train, containers: {main: {requests: {cpu: 8}}}}\n")
    ((_, outcome, message),) = outcomes(capsys, "--steps", steps, status=1)
    assert (outcome, message) == ("refused", "Pod QOS Class may not change as a result of resizing")
    assert (
        "the API server would refuse the resize (main: cpu 64 → 8)" in simulate(capsys, "--steps", steps).out
    )


def test_a_pod_that_goes_makes_room(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    steps = tmp_path / "steps.yaml"
    steps.write_text("- resize: {pod: web, cpu: 40}\n- retry\n- remove: batch\n- retry\n")
    rows = outcomes(capsys, "--steps", steps, status=0)
    assert [row[1] for row in rows] == ["deferred", "deferred", "allocated"]


def test_never_enough(capsys: pytest.CaptureFixture[str]) -> None:
    out = simulate(capsys, "--resize", "pod=web,cpu=500").out
    assert "there will be no room, whatever goes: the whole node has less than that" in out


@pytest.mark.parametrize(("words", "sentence"), [
    ("web",                       "'web' is not a resize"),
    ("pod=web",                   "'pod=web' is not a resize"),
    ("pod=web,cpu=x",             "cpu: 'x' is not a quantity"),
    ("pod=web,gpu=1",             "unknown word 'gpu'"),
    ("pod=nobody,cpu=1",          "there is no pod 'nobody'"),
    ("pod=web,container=c,cpu=1", "web has no container 'c'"),
])  # fmt: skip
def test_bad_words(capsys: pytest.CaptureFixture[str], words: str, sentence: str) -> None:
    refused(simulate(capsys, "--resize", words), sentence)


@pytest.mark.parametrize(("step", "sentence"), [
    ("resize: {cpu: 1}",                                     "does not say which pod"),
    ("resize: {pod: web}",                                   "changes nothing"),
    ("resize: {pod: web, containers: {server: {}}}",         "changes nothing"),
    ("resize: {pod: web, containers: {server: {gpu: 1}}}",   "gpu"),
    ("resize: {pod: web, cpu: much}",                        "is not a quantity"),
    ("retry: 5",                                             "takes nothing"),
])  # fmt: skip
def test_bad_steps(capsys: pytest.CaptureFixture[str], tmp_path: Path, step: str, sentence: str) -> None:
    (tmp_path / "steps.yaml").write_text(f"- {step}\n")
    refused(simulate(capsys, "--steps", tmp_path / "steps.yaml"), sentence)


def test_releases_before(capsys: pytest.CaptureFixture[str]) -> None:
    ran = simulate(capsys, "--kube", "1.32", "--resize", "pod=web,cpu=16")
    refused(ran, "resizes are simulated from Kubernetes 1.33 on")

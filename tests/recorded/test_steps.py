"""Recorded scenarios written as scenario files, and played: the same verdicts, and the same state at the end."""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.simulate.scenario import run_scenario, script
from numawise.codec.decision import decision_data, state_data
from numawise.codec.machine import machine_from
from numawise.codec.steps import read_steps
from numawise.node.node import Files, boot
from numawise.node.replay import replay
from numawise.rules.check import Refusal
from tests.fidelity import trace_files, trace_lines

HERE = Path(__file__).parent / "v1.36.4"
EVERY = {"traces-dev.jsonl.gz": 12, "doc-cases.jsonl.gz": 6}
TOLD = ("admitted", "reason", "message", "affinity", "hint_rounds", "panic")


def scenarios() -> list[dict[str, Any]]:
    """Those that a scenario file can tell: devices come and go, but no new ones, and no pod comes twice."""
    found = []
    for path in trace_files([HERE]):
        for line in list(trace_lines(path))[:: EVERY.get(path.name, 1)]:
            scenario = json.loads(line)["scenario"]
            if scenario.get("kubernetes") == "v1.36.4" and writable(scenario):
                found.append(scenario)
    return found


def writable(scenario: dict[str, Any]) -> bool:
    steps = scenario.get("steps") or []
    uids = [step["add"]["metadata"].get("uid") for step in steps if "add" in step]
    known = {
        (name, device["id"], str(device.get("numa")))
        for name, plugin in (scenario["machine"].get("devices") or {}).items()
        for device in plugin["devices"]
    }
    sent = {
        (name, device["id"], str(device.get("numa")))
        for step in steps
        for name, devices in step.get("devices", {}).items()
        for device in devices
    }
    machines = any("machine" in (step.get("restart") or {}) for step in steps)
    early = any("remove" in step and step["remove"] not in uids for step in steps)
    return (
        bool(steps)
        and len(set(uids)) == len(uids)
        and None not in uids
        and sent <= known
        and not machines
        and not early
    )


def written(scenario: dict[str, Any], folder: Path) -> Path:
    """The steps as a scenario file; configurations beside it."""
    steps: list[object] = []
    for number, step in enumerate(scenario["steps"]):
        ((word, argument),) = step.items()
        if word == "restart":
            given = {"plugins": argument["plugins"]} if "plugins" in argument else {}
            if "kubelet" in argument:
                (folder / f"kubelet-{number}.json").write_text(json.dumps(argument["kubelet"]))
                given["config"] = f"kubelet-{number}.json"
            argument = given
        elif word == "devices":
            argument = {
                name: changes(scenario["machine"]["devices"][name]["devices"], devices)
                for name, devices in argument.items()
            }
        elif word == "reconcile":
            steps.append("reconcile")
            continue
        steps.append({word: argument})
    path = folder / "steps.json"
    path.write_text(json.dumps({"steps": steps}))
    return path


def changes(every: list[dict[str, Any]], now: list[dict[str, Any]]) -> dict[str, list[str]]:
    here = {device["id"]: not device.get("unhealthy") for device in now}
    found: dict[str, list[str]] = {"gone": [], "unhealthy": [], "back": []}
    for device in every:
        state = here.get(device["id"])
        found["gone" if state is None else "back" if state else "unhealthy"].append(device["id"])
    return found


@pytest.mark.parametrize("part", range(4))
def test_played_as_replayed(part: int, tmp_path: Path) -> None:
    some = scenarios()[part::4]
    assert len(some) > 20
    restarts = 0
    for scenario in some:
        restarts += sum("restart" in step for step in scenario["steps"])
        expected = json.loads(json.dumps(replay(scenario)))
        if "error" in expected:
            continue
        node = boot(
            machine_from(scenario["machine"]), scenario.get("kubelet") or {}, Files(), version=(1, 36)
        )
        assert not isinstance(node, Refusal)
        node.predicates = False  # the managers alone were recorded
        node.plugins_registered(node.machine.plugins)
        found = run_scenario(node, script((), read_steps(str(written(scenario, tmp_path)))))
        same(scenario["id"], found, expected["steps"])
    assert restarts


def same(name: str, found: Any, expected: list[dict[str, Any]]) -> None:
    by_number: dict[int, list[Any]] = {}
    for one in found.results:
        by_number.setdefault(one.step.number, []).append(one)
    assert len(by_number) == len(expected), name
    for one, told in zip(by_number.values(), expected, strict=True):
        if told["op"] == "add":
            (came,) = one[0].pods
            assert facts(decision_data(came.decision, came.steps)) == facts(told), name
        for came, again in zip(one[0].again, told.get("readmitted", []), strict=True):
            assert facts(decision_data(came.decision, came.steps)) == facts(again), name
        if told["op"] == "restart":
            assert (one[0].refusal is not None) == ("error" in told), name
    last = expected[-1].get("state")
    if last is not None:
        last.pop("checkpoints", None)
        ours = json.loads(json.dumps(state_data(found.rules, found.state, {})))
        assert ours == last, name


def facts(told: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps({key: told[key] for key in TOLD if key in told}))

"""A whole kubelet in a virtual machine: its verdicts come out the same, the sums included."""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.machine import machine_from
from numawise.codec.pod import pod_from
from numawise.engine.admit import Admitted, Rejected
from numawise.node.node import Files, Node, boot
from numawise.request.defaults import defaulted
from numawise.sets import format_ids, ids_of

RUNS = Path(__file__).parent / "runs"


@pytest.mark.parametrize("name", ["restricted-pod", "besteffort-dist"])
def test_a_kubelets_round(name: str) -> None:
    """What each pod became, in the kubelet's words, and what the live ones hold after every step."""
    recorded = json.loads((RUNS / f"{name}.json").read_text())
    machine = machine_from(recorded["machine"])
    node = boot(machine, recorded["kubelet"], Files())
    assert isinstance(node, Node), node
    node.plugins_registered(machine.plugins)
    for step in recorded["steps"]:
        if "remove" in step:
            node.remove(step["remove"])
        else:
            assert admitted(node, step["add"]) == {
                key: step[key] for key in ("admitted", "reason", "message") if key in step
            }
        assert held(node) == {uid: row for uid, row in holdings(step).items() if uid in node.state.active}
        node.reconcile()  # every two seconds


def admitted(node: Node, manifest: Any) -> dict[str, Any]:
    pod = defaulted(pod_from(manifest))
    decision = node.admit(pod)
    if isinstance(decision, Admitted):
        node.start(pod, decision)
        return {"admitted": True}
    assert isinstance(decision, Rejected)
    return {"admitted": False, "reason": decision.reason, "message": decision.message}


def held(node: Node) -> dict[str, Any]:
    """CPUs and memory of the live pods that have some of their own."""
    cpus = {
        uid: {name: format_ids(own) for name, own in containers.items()}
        for uid, containers in node.state.cpu.assignments.items()
    }
    memory = {
        uid: {
            name: [[list(ids_of(b.numa)), b.type, b.size] for b in blocks]
            for name, blocks in containers.items()
        }
        for uid, containers in node.state.memory.assignments.items()
    }
    rows = holdings({"cpus": cpus, "memory": memory})
    return {uid: row for uid, row in rows.items() if uid in node.state.active}


def holdings(step: Any) -> dict[str, Any]:
    return {
        uid: (step["cpus"].get(uid), step["memory"].get(uid))
        for uid in step["cpus"].keys() | step["memory"].keys()
    }


def test_what_a_pod_was_given_before_the_sums_refused_it_stays() -> None:
    """The kubelet's file shows the CPUs of ``initd``, which it refused with ``OutOfcpu``."""
    recorded = json.loads((RUNS / "restricted-pod.json").read_text())
    machine = machine_from(recorded["machine"])
    node = boot(machine, recorded["kubelet"], Files())
    assert isinstance(node, Node), node
    node.plugins_registered(machine.plugins)
    for step in recorded["steps"][:7]:
        node.reconcile()
        found = admitted(node, step["add"])
    assert found["reason"] == "OutOfcpu"
    uid = recorded["steps"][6]["add"]["metadata"]["uid"]
    ((name, cpus),) = recorded["steps"][6]["cpus"][uid].items()
    assert format_ids(node.state.cpu.assignments[uid][name]) == cpus

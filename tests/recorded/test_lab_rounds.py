"""A virtual kubelet of the lab beside the real one: the same pods in the same order get the same status and the same state.

The steps are those of ``test_rounds``: what a real kubelet in a virtual machine did with pods that a real API server bound to it.
"""

import json
from pathlib import Path

import pytest

from numawise.apps.lab.effects import StatusWrite
from numawise.apps.lab.kubelet import LabKubelet
from numawise.codec.document import Document
from numawise.codec.machine import decode_machine
from numawise.node.node import Files, SimulatedNode, boot
from tests.recorded.test_rounds import ROUNDS, state_of


@pytest.mark.parametrize("path", ROUNDS, ids=lambda path: path.stem)
def test_statuses_and_state_are_those_of_the_real_kubelet(path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    machine = decode_machine(Document(recorded["machine"]))
    node = boot(machine, recorded["kubelet"], Files(), version=(1, 36))
    assert isinstance(node, SimulatedNode), node
    node.plugins_registered(machine.plugins)
    virtual = LabKubelet("numa-vm", node)
    for number, step in enumerate(recorded["steps"], 1):
        virtual.node.reconcile()
        if "remove" in step:
            virtual.gone(step["remove"], float(number))
            virtual.node.reconcile()
        else:
            (status,) = [
                effect.status
                for effect in virtual.take(step["add"], float(number))
                if isinstance(effect, StatusWrite)
            ]
            expected = (
                ("Failed", step["reason"], f"Pod was rejected: {step['message']}")
                if step["reason"]
                else ("Running", None, None)
            )
            assert (number, status["phase"], status.get("reason"), status.get("message")) == (
                number,
                *expected,
            )
        if step.get("copied_while_collecting"):
            continue
        virtual.node.files.write(virtual.node.rules, virtual.node.state)
        state = state_of(virtual.node)
        assert (number, state) == (number, {name: step[name] for name in state})

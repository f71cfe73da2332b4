"""A whole kubelet, step by step: pods that came to a real one in a virtual machine come to the simulated one.

What is compared after every step: verdict, reason and message, exclusive and shared CPUs, memory blocks, devices
in the state files, and the CPUs that the containers of the pod run on.  The CPU Manager's loop ran every two
seconds, so that it has passed between any two steps and after a removal.  In one step the files were copied
while the loop collected what a refused pod had: the log shows one of its containers gone and the other not yet.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.document import Document
from numawise.codec.machine import decode_machine
from numawise.codec.workload import decode_pods
from numawise.engine.admit import Admitted, Rejected
from numawise.node.node import Files, SimulatedNode, boot
from numawise.request.defaults import defaulted
from numawise.sets import format_ids, ids_of

ROUNDS = sorted((Path(__file__).parent / "rounds").glob("*.json"))


def state_of(node: SimulatedNode) -> dict[str, Any]:
    """What the state files would say, in the form of the recording."""
    state = node.state
    return {
        "shared": format_ids(state.cpu.shared),
        "cpus": {
            uid: {name: format_ids(cpus) for name, cpus in containers.items()}
            for uid, containers in sorted(state.cpu.assignments.items())
        },
        "memory": {
            uid: {
                name: [[list(ids_of(block.numa)), block.type, block.size] for block in blocks]
                for name, blocks in containers.items()
            }
            for uid, containers in sorted(state.memory.assignments.items())
        },
        "devices": sorted(
            [entry["PodUID"], entry["ContainerName"], entry["ResourceName"], device_ids(entry["DeviceIDs"])]
            for entry in json.loads(node.files.texts["kubelet_internal_checkpoint"])["Data"][
                "PodDeviceEntries"
            ]
            or ()
        ),
    }


def device_ids(by_numa: dict[str, list[str]]) -> list[str]:
    return sorted(name for names in by_numa.values() for name in names)


@pytest.mark.parametrize("path", ROUNDS, ids=lambda path: path.stem)
def test_every_step_comes_out_as_recorded(path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    machine = decode_machine(Document(recorded["machine"]))
    node = boot(machine, recorded["kubelet"], Files(), version=(1, 36))
    assert isinstance(node, SimulatedNode), node
    node.plugins_registered(machine.plugins)
    for number, step in enumerate(recorded["steps"], 1):
        node.reconcile()
        if "remove" in step:
            node.remove(step["remove"])
            node.reconcile()
        else:
            (raw,) = decode_pods(Document(step["add"]))
            pod = defaulted(raw)
            decision = node.admit(pod)
            runs_on: list[str] = []
            if isinstance(decision, Admitted):
                runs_on = sorted(format_ids(one.cpus) for one in node.start(pod, decision))
            rejected = (decision.reason, decision.message) if isinstance(decision, Rejected) else (None, "")
            assert (number, *rejected) == (number, step["reason"], step["message"])
            assert (number, runs_on) == (number, step["runs_on"])
        state = state_of(node)
        if step.get("copied_while_collecting"):
            uid = step["add"]["metadata"]["uid"]
            assert step["cpus"][uid].items() < state["cpus"][uid].items()
            state["cpus"][uid] = step["cpus"][uid]
        assert (number, state) == (number, {name: step[name] for name in state})

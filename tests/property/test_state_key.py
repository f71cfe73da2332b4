"""Nodes that are taken for equal answer equally, whatever happened to each of them."""

import random

import pytest

from numawise.cluster.asking import Asker, LetIn, Member, Situation, members_of
from numawise.codec.machine import machine_from
from numawise.engine.state import NodeState
from numawise.node.node import Files, boot
from numawise.request.defaults import RawPod
from numawise.rules.check import Refusal
from tests.unit.cluster.nodes import MACHINE, gpu_pod

CONFIGS = (
    {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"},
    {"topologyManagerPolicy": "restricted", "memoryManagerPolicy": "Static"},
    {"topologyManagerPolicy": "best-effort", "memoryManagerPolicy": "Static"},
    {"topologyManagerPolicy": "restricted", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
)


def some_pod(draw: random.Random, name: str) -> RawPod:
    cpu = draw.choice(("1", "2", "2", "4", "500m"))
    memory = draw.choice(("1Gi", "1Gi", "10Gi", "20Gi"))
    return gpu_pod(name, draw.choice((0, 1, 1, 2, 4)), cpu, memory)


def common_pod(draw: random.Random, name: str) -> RawPod:
    """One of few, so that states come again."""
    return gpu_pod(name, draw.choice((0, 1, 1)), "2")


def members(config: dict[str, object], count: int) -> tuple[Member, ...]:
    static = config.get("memoryManagerPolicy") == "Static"
    reserved = [{"numaNode": 0, "limits": {"memory": "600Mi"}}]
    more = {
        "reservedMemory": reserved,
        "kubeReserved": {"memory": "500Mi"},
        "evictionHard": {"memory.available": "100Mi"},
    }
    kubelet = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0-1",
        **config,
        **(more if static else {}),
    }
    node = boot(machine_from(MACHINE), kubelet, Files())
    assert not isinstance(node, Refusal), node
    node.plugins_registered(node.machine.plugins)
    return members_of([([f"n{number}" for number in range(count)], node)])


def granted(state: NodeState, uid: str) -> object:
    return (
        state.cpu.assignments.get(uid),
        state.memory.assignments.get(uid),
        {c: {r: g.ids for r, g in own.items()} for c, own in state.devices.grants.get(uid, {}).items()},
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values()))[:40])
def test_equal_tokens_equal_answers(config: dict[str, object]) -> None:
    met = 0
    for seed in range(3):
        draw = random.Random(seed)
        nodes = members(config, 6)
        asker = Asker(nodes)
        for step in range(120):
            member = draw.choice(nodes)
            if len(member.occupants) > 1 or (member.occupants and draw.random() < 0.3):
                asker.end(member, draw.choice(list(member.occupants)))
            else:
                answer = asker.ask(Situation.of(member), common_pod(draw, f"{member.name}-{step}"))
                if isinstance(answer, LetIn):
                    asker.settle(member, answer)
            alike: dict[int, list[Member]] = {}
            for one in nodes:
                alike.setdefault(one.token, []).append(one)
            probe = some_pod(draw, "probe")
            for first, *others in alike.values():
                expected = asker.ask(Situation.of(first), probe)
                for other in others[:1]:
                    met += first.node.state is not other.node.state
                    answer = asker.ask(Situation.of(other), probe)
                    if isinstance(expected, str) or isinstance(answer, str):
                        assert answer == expected
                    else:
                        assert granted(answer.state, "probe") == granted(expected.state, "probe")
    assert met > 20

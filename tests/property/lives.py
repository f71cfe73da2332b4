"""Lives of nodes: pods come and end at random, as a kubelet lets them in."""

import random
from collections.abc import Callable

from numawise.cluster.asking import Asker, LetIn, Member, Situation, members_of
from numawise.codec.machine import machine_from
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


def is_plain(config: dict[str, object]) -> bool:
    """Whether what each NUMA node has free decides alone, under one of these configurations."""
    return "cpuManagerPolicyOptions" not in config and config["topologyManagerPolicy"] != "best-effort"


def some_pod(draw: random.Random, name: str) -> RawPod:
    cpu = draw.choice(("1", "2", "2", "4", "500m"))
    memory = draw.choice(("1Gi", "1Gi", "10Gi", "20Gi"))
    return gpu_pod(name, draw.choice((0, 1, 1, 2, 4)), cpu, memory)


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


def go_on(
    draw: random.Random,
    asker: Asker,
    member: Member,
    comes: Callable[[], RawPod],
    ends: float,
    most: int | None = None,
) -> None:
    """A pod of a node ends, with the chance ``ends`` or when there are more than ``most``; or another one comes."""
    crowded = most is not None and len(member.occupants) > most
    if crowded or (member.occupants and draw.random() < ends):
        asker.end(member, draw.choice(list(member.occupants)))
        return
    answer = asker.ask(Situation.of(member), comes())
    if isinstance(answer, LetIn):
        asker.settle(member, answer)

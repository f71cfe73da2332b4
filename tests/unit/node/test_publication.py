"""What a node publishes: its zones, and the node that comes of it."""

import json
import random
import uuid

import pytest

from numawise.codec.publication import NODE_ATTRIBUTE, STATE_ATTRIBUTE, attributes_of, publication_from
from numawise.engine.admit import Admitted, Rejected
from numawise.inputs.machine import MachineInput
from numawise.machine.synthetic import synthetic
from numawise.node.node import SimulatedNode, started
from numawise.node.publication import publication_of, published_node, topology_object, zone_amounts
from tests.unit.build import GI, kubelet, pod
from tests.unit.published import GPU, busy_nodes, run, server, static

LIMIT = 32 * 1024
"""Bytes that an object may have at 250 pods."""


def amounts(node: SimulatedNode, numa: int) -> dict[str, tuple[int, int, int]]:
    """Capacity, allocatable and available."""
    zone = zone_amounts(node)[numa]
    return {name: (one.capacity, one.allocatable, one.available) for name, one in zone.items()}


def test_zones_of_an_idle_node() -> None:
    node = static()
    assert amounts(node, 0) == {
        "cpu": (8, 6, 6),
        "memory": (16 * GI, 13 * GI, 13 * GI),
        "hugepages-1Gi": (2 * GI, 2 * GI, 2 * GI),
        GPU: (3, 3, 3),
    }
    assert amounts(node, 1)["cpu"] == (8, 8, 8)
    assert amounts(node, 1)["memory"] == (16 * GI, 14 * GI, 14 * GI)


def test_a_device_is_in_every_zone_of_its_own_and_in_none_without() -> None:
    node = static()
    assert [amounts(node, numa)[GPU] for numa in (0, 1)] == [(3, 3, 3), (3, 3, 3)]
    assert len(node.machine.plugins[0].devices) == 6, "one is in both zones, one in none"


def test_what_an_ended_pod_still_holds_is_not_available() -> None:
    node = static()
    run(node, "ends", "a cpu=4 memory=2Gi nvidia.com/gpu=2")
    held = amounts(node, 0)
    assert (held["cpu"], held["memory"], held[GPU]) == ((8, 6, 2), (16 * GI, 13 * GI, 11 * GI), (3, 3, 1))
    node.remove("ends")
    assert amounts(node, 0) == held
    run(node, "next", "a cpu=1 memory=1Gi")  # the managers collect before they allocate
    assert amounts(node, 0)["cpu"] == (8, 6, 5)


def test_an_unhealthy_device_is_capacity_alone() -> None:
    (_, node, _) = busy_nodes()
    assert amounts(node, 1)[GPU] == (3, 2, 1), "gpu3 is dead, gpu4 is on both NUMA nodes and taken"


def test_without_static_managers_nothing_is_given_by_numa_node() -> None:
    node = kubelet(server(), reservedSystemCPUs="0,8", topologyManagerPolicy="best-effort")
    run(node, "burst", "a cpu=7 memory=8Gi")
    assert amounts(node, 0)["cpu"] == (8, 8, 8)
    assert amounts(node, 0)["memory"] == (16 * GI, 14 * GI, 14 * GI)
    assert amounts(node, 0)["hugepages-1Gi"] == (2 * GI, 2 * GI, 2 * GI)


def test_the_object_speaks_as_the_kubelet_does() -> None:
    node = kubelet(
        server(),
        cpuManagerPolicy="static",
        cpuManagerPolicyOptions={"full-pcpus-only": "true"},
        reservedSystemCPUs="0,8",
        topologyManagerPolicy="single-numa-node",
        topologyManagerPolicyOptions={"prefer-closest-numa-nodes": "true"},
    )
    made = topology_object(publication_of(node, "n1"), fingerprint="pfp0v0010123456789abcdef")
    names = [one["name"] for one in made["attributes"]]
    values = {one["name"]: one["value"] for one in made["attributes"]}
    assert names[-2:] == [NODE_ATTRIBUTE, STATE_ATTRIBUTE]
    assert {name: values[name] for name in names[:-2]} == {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "container",
        "topologyManagerOptionPreferClosestNumaNodes": "true",
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptionFullPcpusOnly": "true",
        "memoryManagerPolicy": "None",
        "nodeTopologyPodsFingerprint": "pfp0v0010123456789abcdef",
        "nodeTopologyPodsFingerprintMethod": "all",
    }
    assert made["topologyPolicies"] == ["SingleNUMANodeContainerLevel"]
    assert made["zones"][0]["costs"] == [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 21}]
    assert {zone["type"] for zone in made["zones"]} == {"Node"}


def test_an_unchanged_node_gives_the_same_bytes() -> None:
    first, again = (
        [json.dumps(topology_object(publication_of(node, "n1"))) for node in busy_nodes()] for _ in range(2)
    )
    assert first == again


def test_nodes_of_one_type_differ_in_their_devices_alone() -> None:
    """The part that changes rarely does not change with pods."""
    node = static()
    before = attributes_of(publication_of(node, "n1"))
    run(node, "comes", "a cpu=4 memory=2Gi nvidia.com/gpu=2")
    after = attributes_of(publication_of(node, "n1"))
    assert before[NODE_ATTRIBUTE] == after[NODE_ATTRIBUTE]
    assert before[STATE_ATTRIBUTE] != after[STATE_ATTRIBUTE]
    one, other = publication_from(before), publication_from(after)
    assert one is not None
    assert other is not None
    assert one.machine is other.machine, "a reader decodes a machine once"


def test_the_sums_of_all_pods_are_published() -> None:
    """OutOfcpu: exclusive CPUs are free, and all are requested."""
    node = kubelet(server(), cpuManagerPolicy="static", reservedSystemCPUs="0,8")
    run(node, "large", "a cpu=13500m")
    publication = publication_from(attributes_of(publication_of(node, "n1")))
    assert publication is not None
    refused = published_node(publication).ask(pod("next", "a cpu=1 memory=1Gi"))
    assert isinstance(refused, Rejected)
    assert refused.message == (
        "Node didn't have enough resource: cpu, requested: 1000, used: 13500, capacity: 14000"
    )


def test_a_port_that_is_taken_is_published() -> None:
    node = next(busy_nodes())
    publication = publication_from(attributes_of(publication_of(node, "n1")))
    assert publication is not None
    live = publication.state.active["shared"]
    assert live is not None
    assert [one.port for one in live.constraints.ports] == [8080]
    assert live.constraints.priority == 7


def test_what_could_not_be_learnt_is_published() -> None:
    missing = ("the NUMA nodes of nvidia.com/gpu are not known",)
    publication = publication_from(attributes_of(publication_of(static(), "n1", missing=missing)))
    assert publication is not None
    assert publication.missing == missing


# --- size -------------------------------------------------------------------------------------


def crowded(count: int) -> SimulatedNode:
    """2 x 64 cores, 8 GPUs and so many pods: a third of them Guaranteed, with uids as the API server gives them."""
    wide = MachineInput(synthetic("2s 2n 128c 2t 8gpu nvlink 2048gb")).machine
    config = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0-3,128-131",
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": "restricted",
        "maxPods": 2000,
        "kubeReserved": {"memory": "4Gi"},
        "evictionHard": {"memory.available": "100Mi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "4196Mi"}}],
    }
    node = started(wide, config)
    node.write_files = False
    draw = random.Random(7)
    exclusive = gpus = 0
    for number in range(count):
        uid = str(uuid.UUID(int=draw.getrandbits(128), version=4))
        memory = 64 * draw.randint(1, 24)
        if number % 3 == 0 and exclusive < 100:
            exclusive += 1
            gpu = f" {GPU}=1" if gpus < 8 else ""
            gpus += bool(gpu)
            wanted = pod(uid, f"main cpu=1 memory={memory}Mi{gpu}", f"proxy cpu=50m memory={memory // 2}Mi")
        else:
            wanted = pod(uid, f"main cpu={10 * draw.randint(1, 10)}m memory={memory}Mi")
        decision = node.admit(wanted)
        assert isinstance(decision, Admitted), (number, decision)
        node.start(wanted, decision)
    return node


@pytest.mark.parametrize(("count", "limit"), [
    pytest.param(0,    4 * 1024, id="no pods"),
    pytest.param(250,  LIMIT,    id="250 pods"),
    pytest.param(1000, 96 * 1024, id="1,000 pods, far below what the API server stores"),
])  # fmt: skip
def test_an_object_stays_small(count: int, limit: int) -> None:
    node = crowded(count)
    made = topology_object(
        publication_of(node, "worker-1"), fingerprint="pfp0v0010123456789abcdef", node=node
    )
    size = len(json.dumps(made, separators=(",", ":")))
    assert size < limit
    assert len(node.state.active) == count

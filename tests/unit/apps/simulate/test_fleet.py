"""Many nodes: what is remembered between pods changes no answer, and sums are never exceeded."""

import random

import pytest

from numawise.apps.simulate.fleet import FIRST, SPREAD, SUMS, Fleet, fleet_of, send
from numawise.codec.machine import machine_from
from numawise.codec.pod import pod_from, unique_uids
from numawise.engine.admit import Admitted
from numawise.engine.predicates import Sums, asked, insufficient, used
from numawise.node.node import Files, SimulatedNode, boot, simulate
from numawise.request.defaults import RawPod
from numawise.results.simulation import NOWHERE, PLACED, REJECTED
from numawise.rules.check import Refusal

GPU = "x/gpu"
MACHINE = {
    "cpus": [{"cpu": i, "core": i // 2, "socket": i // 8, "numa": i // 8} for i in range(16)],
    "numa": [{"id": 0, "memory": "16Gi"}, {"id": 1, "memory": "16Gi", "hugepages": {"2Mi": 512}}],
    "devices": {GPU: {"devices": [{"id": f"g{i}", "numa": [i // 2]} for i in range(4)]}},
}
KUBELET = {
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "restricted",
    "systemReserved": {"cpu": "1", "memory": "412Mi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "512Mi"}}],
    "maxPods": 12,
}


def kubelet(**more: object) -> SimulatedNode:
    node = boot(machine_from(MACHINE), {**KUBELET, **more}, Files())
    assert not isinstance(node, Refusal), node
    node.plugins_registered(node.machine.plugins)
    return node


def raw(name: str, limits: dict[str, str], **spec: object) -> RawPod:
    containers = [{"name": "c", "resources": {"limits": limits}}]
    return pod_from({"metadata": {"name": name, "uid": name}, "spec": {"containers": containers, **spec}})


def some_pods(seed: int, count: int) -> tuple[RawPod, ...]:
    chance = random.Random(seed)
    found = []
    for number in range(count):
        limits = {
            "cpu": chance.choice(["1", "2", "3", "6", "9", "500m"]),
            "memory": chance.choice(["1Gi", "3Gi", "9Gi"]),
        }
        if chance.random() < 0.4:
            limits[GPU] = chance.choice(["1", "2", "3"])
        found.append(raw(f"p{number}", limits))
    return unique_uids(found)


def plainly(pods: tuple[RawPod, ...], nodes: list[SimulatedNode], *, spread: bool) -> list[int | None]:
    """The rule to the letter: nothing remembered, every kubelet asked again for every pod."""
    found: list[int | None] = []
    for pod in pods:
        order = list(range(len(nodes)))
        if spread:
            order.sort(key=lambda at: -free(nodes[at]))
        found.append(None)
        for at in order:
            request = nodes[at].requested(pod)
            sums = Sums(nodes[at].allocatable(), used(nodes[at].state))
            if insufficient(nodes[at].rules, sums, asked(request)):
                continue
            before = nodes[at].state
            (one,) = simulate(nodes[at], [request])
            if isinstance(one.decision, Admitted) and not any(started.error for started in one.started):
                found[-1] = at
                break
            nodes[at].state = before
    return found


def free(node: SimulatedNode) -> float:
    limit, sums = node.allocatable(), used(node.state)
    return sum(1 - sums.get(name, 0) / limit[name] for name in ("cpu", "memory")) / 2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("choice", [FIRST, SPREAD])
@pytest.mark.parametrize("policy", ["restricted", "single-numa-node", "best-effort"])
def test_what_is_remembered_changes_nothing(seed: int, choice: str, policy: str) -> None:
    pods = some_pods(seed, 60)
    names = [f"n{number}" for number in range(4)]
    fleet = fleet_of([(names, kubelet(topologyManagerPolicy=policy))], choice)
    send(fleet, pods)
    nodes = [kubelet(topologyManagerPolicy=policy) for _ in names]
    expected = plainly(pods, nodes, spread=choice == SPREAD)
    assert [one.node or None for one in fleet.sent] == [None if at is None else names[at] for at in expected]
    assert [member.node.state.cpu for member in fleet.members] == [node.state.cpu for node in nodes]
    assert {one.verdict for one in fleet.sent} == {PLACED, NOWHERE}
    check_sums(fleet)


def check_sums(fleet: Fleet) -> None:
    for member in fleet.members:
        assert member.used == used(member.node.state)
        assert all(size <= member.allocatable[name] for name, size in member.used.items())


@pytest.mark.parametrize("seed", range(3))
def test_sums_alone(seed: int) -> None:
    """The emptiest node gets the pod, whether its kubelet likes it or not."""
    fleet = fleet_of([(["a", "b"], kubelet(topologyManagerPolicy="single-numa-node"))], SUMS)
    send(fleet, some_pods(seed, 40))
    assert {one.verdict for one in fleet.sent} == {PLACED, NOWHERE, REJECTED}
    for one in fleet.sent:
        if one.verdict == NOWHERE:
            assert all(reason.startswith("OutOf") for reason, _ in one.reasons)
        if one.verdict == REJECTED:
            assert one.why.startswith(f"{one.node}: Rejected, ")
    check_sums(fleet)


def test_an_interruption_keeps_what_was_done() -> None:
    fleet = fleet_of([(["a", "b"], kubelet())])

    def stop(done: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    send(fleet, some_pods(0, 10), stop)
    assert fleet.interrupted
    assert (len(fleet.sent), fleet.total) == (3, 10)


def test_equal_nodes_do_not_share_what_they_hold() -> None:
    fleet = fleet_of([(["a", "b"], kubelet()), (["c"], kubelet())], SPREAD)
    send(fleet, [raw(f"p{number}", {"cpu": "2", "memory": "1Gi"}) for number in range(3)])
    assert [one.node for one in fleet.sent] == ["a", "b", "c"]
    assert [len(member.node.state.active) for member in fleet.members] == [1, 1, 1]


# --- sums ----------------------------------------------------------------------------------------


def test_allocatable() -> None:
    gi = 1 << 30
    assert kubelet().allocatable() == {
        "cpu": 15000,
        "memory": 32 * gi - 512 * 2**20 - gi,
        "pods": 12,
        "hugepages-2Mi": gi,
        GPU: 4,
    }
    assert kubelet(podsPerCore=1, maxPods=110).allocatable()["pods"] == 16


@pytest.mark.parametrize(("spec", "expected"), [
    pytest.param({"containers": [{"name": "a", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}, {"name": "b", "resources": {"requests": {"cpu": "500m"}}}]},
                 {"cpu": 2000, "memory": 1 << 30}, id="containers together"),
    pytest.param({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "4"}}}], "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Ki"}}}]},
                 {"cpu": 4000, "memory": 1024}, id="the largest init container"),
    pytest.param({"initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}], "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
                 {"cpu": 3000}, id="sidecars go on"),
    pytest.param({"resources": {"requests": {"cpu": "8"}}, "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Ki"}}}]},
                 {"cpu": 8000, "memory": 1024}, id="the pod's own"),
    pytest.param({"containers": [{"name": "a", "resources": {"limits": {GPU: "2"}}}, {"name": "b", "resources": {"limits": {GPU: "1"}}}]},
                 {GPU: 3}, id="devices"),
    pytest.param({"containers": [{"name": "a"}]}, {}, id="nothing"),
])  # fmt: skip
def test_asked(spec: dict[str, object], expected: dict[str, int]) -> None:
    pod = pod_from({"metadata": {"name": "p"}, "spec": spec})
    assert asked(kubelet().requested(pod)) == {"pods": 1, **expected}

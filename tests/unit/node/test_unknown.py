"""Where nobody knows where devices are, nothing is said that hangs on it."""

import pytest

from numawise.machine.model import Machine
from numawise.node.node import SimulatedNode, simulate, started
from numawise.results.simulation import Doubt
from numawise.values import replace
from tests.unit.nodes import config, machine, pod

GPU = "nvidia.com/gpu"


def unlocated(before: Machine, *known: str) -> Machine:
    plugins = tuple(
        replace(
            plugin,
            devices=tuple(
                one if one.id in known else replace(one, numa=None, numa_unknown=True)
                for one in plugin.devices
            ),
        )
        for plugin in before.plugins
    )
    return replace(before, plugins=plugins)


def node(policy: str, words: str = "2s 2n 8c 2t 4gpu 64g") -> SimulatedNode:
    return started(unlocated(machine(words)), config(topologyManagerPolicy=policy))


@pytest.mark.parametrize(("policy", "words", "expected"), [
    ("single-numa-node", "2s 2n 8c 2t 4gpu 64g", Doubt((GPU,), verdict=True)),
    ("restricted",       "2s 2n 8c 2t 4gpu 64g", Doubt((GPU,), verdict=True)),
    ("best-effort",      "2s 2n 8c 2t 4gpu 64g", Doubt((GPU,))),
    ("none",             "2s 2n 8c 2t 4gpu 64g", Doubt()),
])  # fmt: skip
def test_what_is_not_known_by_policy(policy: str, words: str, expected: Doubt) -> None:
    kubelet = node(policy, words)
    (one,) = simulate(kubelet, [kubelet.requested(pod("p", gpus=1))])
    assert one.doubt == expected
    assert one.admitted == (not expected.verdict)


def test_a_pod_without_devices_is_judged() -> None:
    kubelet = node("single-numa-node")
    (one,) = simulate(kubelet, [kubelet.requested(pod("p"))])
    assert one.admitted
    assert one.doubt == Doubt()


@pytest.mark.parametrize(("cpus", "gpus"), [(14, 1), (2, 5)])
def test_what_is_refused_anyway_is_refused(cpus: int, gpus: int) -> None:
    kubelet = node("single-numa-node")
    (one,) = simulate(kubelet, [kubelet.requested(pod("p", cpus=cpus, gpus=gpus))])
    assert not one.admitted
    assert one.doubt == Doubt()


def test_those_that_come_later_are_not_known_either() -> None:
    kubelet = node("single-numa-node")
    wanted = [kubelet.requested(pod(name, gpus=gpus)) for name, gpus in (("a", 1), ("b", 0))]
    first, second = simulate(kubelet, wanted)
    assert (first.doubt, second.doubt) == (Doubt((GPU,), verdict=True),) * 2

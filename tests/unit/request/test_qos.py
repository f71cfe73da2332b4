"""The class of a pod: CPU and memory alone, every container limited, sums of requests equal to those of limits."""

import pytest

from numawise.request.model import BEST_EFFORT, BURSTABLE, GUARANTEED
from tests.unit.build import pod


@pytest.mark.parametrize(("containers", "qos", "exclusive"), [
    # the table of the specification
    (["a cpu=2 memory=1Gi"],                                              GUARANTEED,  [2]),
    (["a cpu=1500m memory=1Gi"],                                          GUARANTEED,  [0]),
    (["a cpu=2 memory=1Gi..2Gi"],                                         BURSTABLE,   [2]),
    (["a cpu=2 memory=1Gi", "b"],                                         BURSTABLE,   [2, 0]),
    (["init i cpu=1", "a cpu=2 memory=1Gi"],                              BURSTABLE,   [1, 2]),
    (["a cpu=2 memory=1Gi", "b cpu=500m memory=1Gi"],                     GUARANTEED,  [2, 0]),
    (["a nvidia.com/gpu=1"],                                              BEST_EFFORT, [0]),
    # more
    (["a"],                                                               BEST_EFFORT, [0]),
    (["a cpu=0 memory=0"],                                                BEST_EFFORT, [0]),
    (["a cpu=2.. memory=1Gi.."],                                          BURSTABLE,   [2]),  # requests alone
    (["a cpu=2"],                                                         BURSTABLE,   [2]),
    (["a memory=1Gi"],                                                    BURSTABLE,   [0]),
    (["sidecar s cpu=1 memory=1Gi", "a cpu=2 memory=1Gi"],                GUARANTEED,  [1, 2]),
    (["a cpu=999.5m memory=1Gi"],                                         GUARANTEED,  [1]),  # rounded up to 1000m
    (["a cpu=2 memory=1Gi ephemeral-storage=1Gi..2Gi"],                   GUARANTEED,  [2]),
    (["a cpu=2 memory=1Gi hugepages-2Mi=4Mi"],                            GUARANTEED,  [2]),
])  # fmt: skip
def test_class(containers: list[str], qos: str, exclusive: list[int]) -> None:
    found = pod("p", *containers)
    assert found.qos == qos
    assert [container.whole_cpus for container in found.containers] == exclusive


@pytest.mark.parametrize(("containers", "level", "qos"), [
    (["a"],                                "cpu=2 memory=1Gi",       GUARANTEED),
    (["a cpu=1 memory=1Gi"],               "cpu=2 memory=2Gi",       BURSTABLE),    # requests come from the containers
    (["a cpu=1 memory=1Gi"],               "cpu=2..2 memory=2Gi..2Gi", GUARANTEED),
    (["a cpu=2 memory=1Gi"],               "",                       BEST_EFFORT),  # an empty spec.resources
    (["a"],                                "cpu=2",                  BURSTABLE),
])  # fmt: skip
def test_pod_level_resources_alone_decide(containers: list[str], level: str, qos: str) -> None:
    assert pod("p", *containers, level=level).qos == qos


def test_without_the_gate_pod_level_resources_are_not_there() -> None:
    found = pod("p", "a cpu=2 memory=1Gi", level="cpu=4", gate=False)
    assert found.qos == GUARANTEED
    assert not found.pod_level


def test_a_class_in_the_status_is_believed() -> None:
    assert pod("p", "a cpu=2 memory=1Gi", qos=BURSTABLE).qos == BURSTABLE

"""What the API server adds: requests out of limits, thousandths, pod-level requests."""

import pytest

from numawise.request.model import PodRequest
from tests.unit.build import GI, pod


def requests(found: PodRequest, at: int = 0) -> dict[str, str]:
    return {name: str(amount) for name, amount in found.containers[at].requests.items()}


@pytest.mark.parametrize(("container", "expected"), [
    ("a cpu=2",                  {"cpu": "2"}),
    ("a cpu=1..2",               {"cpu": "1"}),
    ("a cpu=1.. memory=1Gi",     {"cpu": "1", "memory": "1Gi"}),
    ("a nvidia.com/gpu=2",       {"nvidia.com/gpu": "2"}),
    ("a cpu=0.0001",             {"cpu": "1m"}),
    ("a cpu=0..2",               {"cpu": "0"}),  # zero is a request
])  # fmt: skip
def test_a_missing_request_is_the_limit(container: str, expected: dict[str, str]) -> None:
    assert requests(pod("p", container)) == expected


def test_a_limit_is_never_made_of_a_request() -> None:
    assert pod("p", "a cpu=1..").containers[0].limits == {}


@pytest.mark.parametrize(("containers", "level", "expected"), [
    pytest.param(["a cpu=1 memory=1Gi", "b cpu=2 memory=1Gi"], "cpu=8 memory=8Gi",
                 {"cpu": "3", "memory": "2Gi"}, id="the containers' sum"),
    pytest.param(["a", "b"], "cpu=8 memory=8Gi",
                 {"cpu": "8", "memory": "8Gi"}, id="the limit where no container asks"),
    pytest.param(["a cpu=1"], "cpu=8 memory=8Gi",
                 {"cpu": "1", "memory": "8Gi"}, id="each by itself"),
    pytest.param(["init i cpu=5", "sidecar s cpu=2", "a cpu=1"], "cpu=8",
                 {"cpu": "5"}, id="the most at one time"),
    pytest.param(["a cpu=1"], "cpu=4..8",
                 {"cpu": "4"}, id="what is given stays"),
    pytest.param(["a cpu=1 memory=1Gi"], "cpu=4..",
                 {"cpu": "4"}, id="without limits nothing is added"),
    pytest.param(["a hugepages-2Mi=4Mi"], "hugepages-2Mi=8Mi",
                 {"hugepages-2Mi": "8Mi"}, id="huge pages: the limit"),
])  # fmt: skip
def test_pod_level_requests(containers: list[str], level: str, expected: dict[str, str]) -> None:
    found = pod("p", *containers, level=level)
    assert {name: str(amount) for name, amount in (found.requests or {}).items()} == expected


@pytest.mark.parametrize(("level", "pod_level"), [
    (None,               False),
    ("",                 False),
    ("cpu=1",            True),
    ("memory=1Gi..",     True),
    ("hugepages-1Gi=1Gi", True),
])  # fmt: skip
def test_pod_level_resources_are_set(*, level: str | None, pod_level: bool) -> None:
    assert pod("p", "a", level=level).pod_level is pod_level


@pytest.mark.parametrize(("container", "memory"), [
    ("a memory=1Gi hugepages-2Mi=4Mi", (("hugepages-2Mi", 4 << 20), ("memory", GI))),
    ("a memory=0",                     (("memory", 0),)),
    ("a cpu=1",                        ()),
    ("a memory=1.5Gi",                 None),  # as a static pod gives it; the API server would write 1536Mi
    ("a memory=100Ti",                 None),
])  # fmt: skip
def test_memory_must_be_exact_as_written(container: str, memory: tuple[tuple[str, int], ...] | None) -> None:
    assert pod("p", container).containers[0].memory == memory


@pytest.mark.parametrize(("container", "fixed"), [
    ("a cpu=1 memory=1Gi",        True),
    ("a cpu=1..2 memory=1Gi",     False),
    ("a cpu=1",                   False),
    ("a cpu=0 memory=1Gi",        False),
    ("a cpu=1.. memory=1Gi..",    False),
])  # fmt: skip
def test_fixed(*, container: str, fixed: bool) -> None:
    assert pod("p", container).containers[0].fixed is fixed

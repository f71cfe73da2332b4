"""What a hold says was asked for, else what it was granted; and what it has now."""

import pytest

from numawise.apps.launch.asked import asked_label
from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.held import placement_of, request_of_hold
from numawise.apps.launch.request import JobRequest, read_request
from numawise.machine.synthetic import synthetic
from numawise.results.placement import Grant, Hold, MemoryPart, Owner
from numawise.rules.model import RESTRICTED
from numawise.sets import parse_ids

WISHES = (
    {"cpus": "8", "memory": "64g", "gpus": 2, "policy": "restricted"},
    {"cpu_ids": "0-3,64-67", "full_cores": True},
    {"numa": "0-1", "gpus": "all", "nics": 1, "devices": ["nvme=2"]},
    {"gpu_ids": "0-3", "exclusive": "numa", "memory_policy": "interleave"},
    {"exclusive": "machine"},
    {},
)


def hold(grant: Grant, *labels: tuple[str, str], policy: str = "") -> Hold:
    return Hold("aaaaa", "job", Owner(0, "root", "boot", pid=2), grant, policy=policy, labels=labels)


@pytest.mark.parametrize("options", WISHES)
def test_the_label_says_it_all_but_the_name(options: dict[str, object]) -> None:
    wish = read_request(**options, name="first")  # type: ignore[arg-type]
    again = request_of_hold(hold(Grant(), *asked_label(wish)))
    assert again == read_request(**options)  # type: ignore[arg-type]
    assert read_request(like=again) == again


GRANT = Grant(
    cpus=parse_ids("1-4"),
    memory=(MemoryPart(1, 1 << 30), MemoryPart(2, 1 << 20)),
    devices=(("nvidia.com/gpu", ("a", "b")), ("numawise/nic", ("eth0",)), ("numawise/nvme", ("nvme0n1",))),
)


@pytest.mark.parametrize("label", ["", "{", "[]", '{"cpus": -1}', '{"exclusive": "moon"}', '{"numa": "9-1"}'])
def test_without_a_label_that_can_be_read_the_grant_counts(label: str) -> None:
    labels = (("asked", label),) if label else ()
    assert request_of_hold(hold(GRANT, *labels, policy="restricted")) == JobRequest(
        cpus=4000,
        memory=(1 << 30) + (1 << 20),
        gpus=2,
        nics=1,
        devices=(("numawise/nvme", 1),),
        policy=RESTRICTED,
    )


def test_a_place_in_the_shared_pool() -> None:
    assert request_of_hold(hold(Grant(cpu_limit=500), policy="?")) == JobRequest(cpus=500)


@pytest.mark.parametrize(("options", "expected"), [
    ({"cpus": "4"},          {"cpus": "4", "memory": "1g", "gpu_ids": "0-1", "policy": "restricted"}),
    ({"gpus": 3},            {"cpu_ids": "8-15", "memory": "1g", "gpus": 3, "policy": "restricted"}),
    ({"gpus": "all"},        {"cpu_ids": "8-15", "memory": "1g", "gpus": "all", "policy": "restricted"}),
    ({"memory": "2g"},       {"cpu_ids": "8-15", "memory": "2g", "gpu_ids": "0-1", "policy": "restricted"}),
    ({"policy": "none"},     {"cpu_ids": "8-15", "memory": "1g", "gpu_ids": "0-1", "policy": "none"}),
    ({"name": "other"},      {"cpu_ids": "8-15", "memory": "1g", "gpu_ids": "0-1", "policy": "restricted", "name": "other"}),
])  # fmt: skip
def test_what_is_given_beside_it_wins(options: dict[str, object], expected: dict[str, object]) -> None:
    first = read_request(cpu_ids="8-15", memory="1g", gpu_ids="0-1", policy="restricted", name="first")
    assert read_request(like=first, **options) == read_request(**expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(("memory", "limit"), [("", 0), ("1g", 1 << 30)])
def test_memory_of_whole_nodes_is_no_limit(memory: str, limit: int) -> None:
    wish = read_request(exclusive="numa", memory=memory)
    whole = Grant(cpus=parse_ids("0-3"), mems=1, memory=(MemoryPart(1, 8 << 30),))
    held = hold(whole, ("exclusive", "numa"), *asked_label(wish))
    assert placement_of(capacity_of(synthetic("2s 2n 8c 1t 16g")), (held,), held).memory == limit

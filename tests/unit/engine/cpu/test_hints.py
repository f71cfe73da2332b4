"""CPU hints: who gets exclusive CPUs, and which NUMA nodes could give them."""

import pytest

from numawise.engine.cpu.hints import (
    container_hints,
    empty_pool,
    exclusive_cpus,
    exclusive_pod_cpus,
    family,
    pod_hints,
)
from numawise.engine.draft import Draft
from numawise.engine.provider import Admission
from numawise.engine.state import CpuState, NodeState
from numawise.machine.model import CpuLayout, Machine
from numawise.rules.model import CpuOptions, Rules
from numawise.sets import parse_ids
from tests.unit.build import LAYOUTS, T3, even, machine, pod, shown, three_gpu_server

SERVER = three_gpu_server()
PLAIN = Rules(cpu_static=True, reserved_cpus=1)
MANAGED = Rules(cpu_static=True, reserved_cpus=1, pod_level_managers=True)
BY_SOCKET = Rules(cpu_static=True, cpu_options=CpuOptions(by_socket=True))


def hints(
    layout: CpuLayout, available: str, count: int, reusable: str = "", rules: Rules = PLAIN
) -> str | None:
    return shown(family(layout, rules, parse_ids(available), parse_ids(reusable), count))


@pytest.mark.parametrize(("available", "count", "expected"), [
    # CPU 0 is reserved: node 0 has 13 to give, node 1 has 14
    ("1-27",       3, "0! 1! 0-1"),
    ("1-27",      13, "0! 1! 0-1"),
    ("1-27",      14, "1! 0-1"),
    ("1-13",      12, "0! 0-1"),
    ("1-13,17-27", 16, "0-1!"),
    ("1-27",      27, "0-1!"),
    ("1-27",      28, ""),           # cannot
    ("1-13",      14, ""),
])  # fmt: skip
def test_hints(available: str, count: int, expected: str) -> None:
    assert hints(SERVER.layout, available, count) == expected


def test_a_node_that_fits_on_paper_only_is_never_preferred() -> None:
    """14 CPUs a node, one reserved on each: 14 asked need one node in all, and no node has them."""
    assert hints(SERVER.layout, "1-13,15-27", 14) == "0-1"


@pytest.mark.parametrize(("available", "reusable", "count", "expected"), [
    ("4-15",  "0-3",   4, "0! 0-1"),   # masks must hold what may be used again
    ("4-15",  "0,4",   4, "0-1"),
    ("1-15",  "",      4, "0! 1! 0-1"),
    ("4-7",   "1,9",   6, "0-1"),      # 4 on node 1 and two to use again: only together
])  # fmt: skip
def test_reusable_cpus_must_lie_inside(available: str, reusable: str, count: int, expected: str) -> None:
    assert hints(LAYOUTS["T3"], available, count, reusable) == expected


@pytest.mark.parametrize(("count", "plain", "by_socket"), [
    (3, "0! 1! 2! 3! 0-1 0,2 0,3 1-2 1,3 2-3 0-2 0-1,3 0,2-3 1-3 0-3",
        "0! 1! 2! 3! 0-1! 0,2 0,3 1-2 1,3 2-3! 0-2 0-1,3 0,2-3 1-3 0-3"),
    (6, "0-1! 0,2! 0,3! 1-2! 1,3! 2-3! 0-2 0-1,3 0,2-3 1-3 0-3",
        "0-1! 0,2! 0,3! 1-2! 1,3! 2-3! 0-2 0-1,3 0,2-3 1-3 0-3"),
    (10, "0-2! 0-1,3! 0,2-3! 1-3! 0-3",
         "0-2! 0-1,3! 0,2-3! 1-3! 0-3!"),
])  # fmt: skip
def test_by_socket_the_fewest_sockets_are_preferred_too(count: int, plain: str, by_socket: str) -> None:
    assert hints(LAYOUTS["T5"], "0-15", count) == plain
    assert hints(LAYOUTS["T5"], "0-15", count, rules=BY_SOCKET) == by_socket


def test_by_socket_with_several_sockets_a_node_changes_nothing() -> None:
    assert hints(LAYOUTS["T6"], "0-15", 4, rules=BY_SOCKET) == "0! 1! 0-1"


# --- for containers ------------------------------------------------------------------------------


def draft(hardware: Machine, **held: str) -> Draft:
    """A state in which containers of pod ``p`` hold CPUs."""
    cpus = {name: parse_ids(text) for name, text in held.items()}
    shared = hardware.layout.all
    for owned in cpus.values():
        shared &= ~owned
    return Draft(NodeState(cpu=CpuState(shared, {"p": cpus} if cpus else {})))


@pytest.mark.parametrize(("container", "held", "expected"), [
    ("c cpu=3 memory=1Gi",     {},              "0! 1! 0-1"),
    ("c cpu=1500m memory=1Gi", {},              None),
    ("c cpu=3 memory=1Gi..2Gi", {},             None),            # not Guaranteed
    ("c cpu=3 memory=1Gi",     {"c": "1-3"},    "0! 0-1"),        # its own again
    ("c cpu=3 memory=1Gi",     {"c": "1-4"},    ""),              # another number: cannot
    ("c cpu=3 memory=1Gi",     {"d": "1-13"},   "1! 0-1"),
])  # fmt: skip
def test_container_hints(container: str, held: dict[str, str], expected: str | None) -> None:
    wanted = pod("p", container)
    answer = container_hints(Admission(SERVER, PLAIN, draft(SERVER, **held), wanted), wanted.containers[0])
    assert (None if answer is None else shown(answer["cpu"])) == expected


@pytest.mark.parametrize(("containers", "held", "expected"), [
    (["a cpu=3 memory=1Gi", "b cpu=12 memory=1Gi"], {},                        "0-1!"),     # 15 together
    (["a cpu=3 memory=1Gi", "b cpu=500m memory=1Gi"], {},                      "0! 1! 0-1"),
    (["a cpu=3 memory=1Gi", "b cpu=4 memory=1Gi"],  {"a": "1-3", "b": "4-7"},  "0! 0-1"),   # all held
    (["a cpu=3 memory=1Gi", "b cpu=4 memory=1Gi"],  {"a": "1-3"},              "0! 0-1"),   # some held: must be inside
    (["a cpu=3 memory=1Gi", "b cpu=4 memory=1Gi"],  {"a": "1-4"},              ""),
    (["init i cpu=14 memory=1Gi", "a cpu=2 memory=1Gi"], {},                   "1! 0-1"),
    (["a cpu=500m memory=1Gi"],                     {},                        None),
])  # fmt: skip
def test_pod_hints(containers: list[str], held: dict[str, str], expected: str | None) -> None:
    answer = pod_hints(Admission(SERVER, PLAIN, draft(SERVER, **held), pod("p", *containers)))
    assert (None if answer is None else shown(answer["cpu"])) == expected


def test_without_the_static_policy_there_are_no_hints() -> None:
    wanted = pod("p", "c cpu=3 memory=1Gi")
    assert container_hints(Admission(SERVER, Rules(), draft(SERVER), wanted), wanted.containers[0]) is None
    assert pod_hints(Admission(SERVER, Rules(), draft(SERVER), wanted)) is None


# --- pod-level resources -------------------------------------------------------------------------


@pytest.mark.parametrize(("container", "level", "plain", "managed"), [
    ("c cpu=2 memory=1Gi",       None,                       2, 2),
    ("c cpu=2 memory=1Gi",       "cpu=4..4 memory=4Gi..4Gi", 0, 2),
    ("c cpu=2",                  "cpu=4..4 memory=4Gi..4Gi", 0, 0),  # memory is not fixed
    ("c cpu=1500m memory=1Gi",   "cpu=4..4 memory=4Gi..4Gi", 0, 0),
    ("c cpu=2 memory=1Gi",       "cpu=4 memory=4Gi",         0, 0),  # Burstable
])  # fmt: skip
def test_exclusive_cpus(container: str, level: str | None, plain: int, managed: int) -> None:
    wanted = pod("p", container, level=level)
    assert exclusive_cpus(PLAIN, wanted, wanted.containers[0]) == plain
    assert exclusive_cpus(MANAGED, wanted, wanted.containers[0]) == managed


def test_a_pods_cpus_come_from_the_pod_where_they_are_managed() -> None:
    wanted = pod("p", "c cpu=2 memory=1Gi", level="cpu=4..4 memory=4Gi..4Gi")
    assert exclusive_pod_cpus(PLAIN, wanted) == 0
    assert exclusive_pod_cpus(MANAGED, wanted) == 4


EMPTY_INIT = "pod rejected, pod has shared init containers but no cpus available for them"
EMPTY_APPS = "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"


@pytest.mark.parametrize(("containers", "expected"), [
    (["a cpu=4 memory=1Gi"],                                   ""),          # nobody shares
    (["a cpu=3 memory=1Gi", "b"],                              ""),
    (["a cpu=4 memory=1Gi", "b"],                              EMPTY_APPS),
    (["sidecar s cpu=4 memory=1Gi", "init i", "a cpu=0..0"],   EMPTY_INIT),
    (["init i", "sidecar s cpu=4 memory=1Gi", "a"],            EMPTY_APPS),  # the init container came before
])  # fmt: skip
def test_empty_pool(containers: list[str], expected: str) -> None:
    wanted = pod("p", *containers, level="cpu=4..4 memory=8Gi..8Gi")
    assert empty_pool(MANAGED, wanted, 4) == expected
    answer = pod_hints(Admission(machine(T3), MANAGED, draft(machine(T3)), wanted))
    assert answer is not None
    assert (shown(answer["cpu"]) == "") is bool(expected)


def test_wide_machines_are_told_by_rule() -> None:
    """64 nodes have 2**64 masks; nobody walks them."""
    layout = machine(even(64, 64, 64)).layout
    found = family(layout, PLAIN, layout.all, 0, 3)
    assert found.narrowest == 3
    assert found.prefers(0b111)
    assert not found.offers(0b11)
    assert found.offers(2**64 - 1)

"""Configurations for machines: what is reserved, which options a release gets, and that the kubelet starts."""

from dataclasses import replace
from typing import Any

import pytest

from numawise.apps.plan.kubelet import plan_kubelet
from numawise.apps.plan.reserve import pages_given, reserve_cpus, reserve_memory
from numawise.errors import InputError
from numawise.machine.hardware import Host
from numawise.machine.model import Machine
from numawise.machine.synthetic import synthetic
from numawise.node.node import Files, SimulatedNode, boot
from numawise.quantity import Quantity, parse_size
from numawise.results.plan import GOALS, INFERENCE, LATENCY, TRAINING, KubeletPlan, PlanGoal
from numawise.rules.gates import resolve_gates
from numawise.rules.versions import NEWEST, OLDEST, Version
from numawise.sets import format_ids, parse_ids
from tests.unit.nodes import GIB, MIB, machine, without_cpus

RELEASES: list[Version] = [(1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)]


def planned(words: str, **wish: Any) -> KubeletPlan:
    return plan_kubelet(machine(words), PlanGoal(**wish))


def chosen(plan: KubeletPlan) -> str:
    config = plan.config
    policies = [config[name] for name in ("cpuManagerPolicy", "topologyManagerPolicy")]
    options = {**options_of(plan, "cpu"), **options_of(plan, "topology")}
    return " ".join([*map(str, policies), str(config.get("memoryManagerPolicy", "-")), *sorted(options)])


def options_of(plan: KubeletPlan, manager: str) -> dict[str, str]:
    found = plan.config.get(f"{manager}ManagerPolicyOptions", {})
    assert isinstance(found, dict)
    return found


# --- reservations --------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "wanted", "isolated", "expected"), [
    pytest.param("2s 2n 64c 2t",            None, "",        "0,32,64,96",  id="one core of each node"),
    pytest.param("2s 2n 192c 2t",           None, "",        "0-2,96-98,192-194,288-290", id="one core in 32"),
    pytest.param("2s 2n 64c 2t adjacent",   None, "",        "0-1,64-65",   id="threads side by side"),
    pytest.param("1s 1n 8c 1t",             None, "",        "0",           id="one node"),
    pytest.param("2s 2n 4c 1t",             None, "",        "0",           id="too few cores for each to give one"),
    pytest.param("2s 2n 64c 2t",            3,    "",        "0,32,64,96",  id="whole cores"),
    pytest.param("2s 2n 64c 2t",            2,    "",        "0,64",        id="one core only"),
    pytest.param("2s 2n 64c 2t",            6,    "",        "0-1,32,64-65,96", id="dealt out in turn"),
    pytest.param("2s 2n 64c 2t",            None, "0-1,64-65", "2,32,66,96", id="isolated CPUs are for pods"),
    pytest.param("1s 1n 4c 1t",             None, "0-3",     "0",           id="all are isolated"),
])  # fmt: skip
def test_reserved_cpus(words: str, wanted: int | None, isolated: str, expected: str) -> None:
    found = reserve_cpus(machine(words).layout, wanted, parse_ids(isolated))
    assert format_ids(found.cpus) == expected


@pytest.mark.parametrize("wanted", [0, -1, 8, 100])
def test_not_all_cpus_can_be_reserved(wanted: int) -> None:
    with pytest.raises(InputError, match="--reserve-cpus"):
        reserve_cpus(machine("1s 1n 4c 2t").layout, wanted)


@pytest.mark.parametrize(("words", "wanted", "total", "shares"), [
    pytest.param("2s 2n 8c 1tb",                    None,     16384, {0: 8192, 1: 8192}, id="at most 16Gi"),
    pytest.param("2s 2n 8c 64g",                    None,     2048,  {0: 1024, 1: 1024}, id="a 32nd"),
    pytest.param("2s 2n 8c 4g",                     None,     512,   {0: 256, 1: 256},   id="an eighth of little"),
    pytest.param("3s 3n 9c 96g",                    None,     3072,  {0: 1024, 1: 1024, 2: 1024}, id="three nodes"),
    pytest.param("3s 3n 9c 96g",                    "1000Mi", 1000,  {0: 334, 1: 333, 2: 333}, id="the rest goes to the first"),
    pytest.param("2s 2n 8c 64g",                    "1.5Gi",  1536,  {0: 768, 1: 768},   id="as asked for"),
    pytest.param("2s 2n 8c 64g",                    "1000000000", 954, {0: 477, 1: 477}, id="whole mebibytes"),
    pytest.param("2s 2n 8c 64g memonly=2",          None,     2048,  {0: 1024, 1: 1024}, id="memory without CPUs bears nothing"),
    pytest.param("2s 2n 8c 64g hugepages=1Gi:24",   "6Gi",    6144,  {0: 3072, 1: 3072}, id="beside huge pages"),
    pytest.param("2s 2n 8c 512g hugepages=1Gi:250", None,     3072,  {0: 1536, 1: 1536}, id="what huge pages leave"),
])  # fmt: skip
def test_reserved_memory(words: str, wanted: str | None, total: int, shares: dict[int, int]) -> None:
    found = reserve_memory(machine(words), parse_size(wanted, "--reserve-memory") if wanted else None)
    assert (found.total, dict(found.shares)) == (total, shares)
    assert found.kube + found.system + found.eviction == sum(shares.values())
    assert min(found.kube, found.system, found.eviction) > 0


def test_uneven_nodes_bear_shares_by_size() -> None:
    even = machine("2s 2n 8c 64g")
    small = replace(even, numa=(even.numa[0], replace(even.numa[1], memory=2 * GIB)))
    shares = dict(reserve_memory(small, 4 * GIB).shares)
    assert sum(shares.values()) == 4096
    assert shares[1] * MIB <= small.numa[1].memory // 4


@pytest.mark.parametrize("wanted", [1 * MIB, 33 * GIB])
def test_too_little_or_too_much_memory(wanted: int) -> None:
    with pytest.raises(InputError, match="--reserve-memory"):
        reserve_memory(machine("2s 2n 8c 64g"), wanted)


# --- policies and options ------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "goal", "expected"), [
    pytest.param("2s 2n 64c 2t 8gpu",       TRAINING,  "static restricted Static full-pcpus-only",       id="training"),
    pytest.param("2s 2n 64c 2t 8gpu",       INFERENCE, "static restricted Static full-pcpus-only",       id="inference"),
    pytest.param("2s 2n 64c 2t 8gpu",       LATENCY,   "static single-numa-node Static full-pcpus-only strict-cpu-reservation", id="latency"),
    pytest.param("2s 2n 64c 1t 8gpu",       TRAINING,  "static restricted Static",                       id="no SMT"),
    pytest.param("1s 1n 64c 2t 8gpu",       TRAINING,  "static none None full-pcpus-only",               id="one NUMA node"),
    pytest.param("1s 1n 1c 2t",             TRAINING,  "none none None",                                 id="one core"),
    pytest.param("2s 4n 64c 2t 8gpu",       TRAINING,  "static restricted Static full-pcpus-only prefer-closest-numa-nodes", id="distances differ"),
    pytest.param("2s 2n 64c 2t 8gpu l3=8c", TRAINING,  "static restricted Static full-pcpus-only prefer-align-cpus-by-uncorecache", id="L3 groups"),
    pytest.param("2s 10n 80c 1t 8gpu",      LATENCY,   "static single-numa-node Static max-allowable-numa-nodes strict-cpu-reservation", id="ten NUMA nodes"),
    pytest.param("2s 10n 80c 1t 8gpu",      TRAINING,  "static restricted None max-allowable-numa-nodes prefer-closest-numa-nodes", id="ten NUMA nodes, all combinations"),
    pytest.param("2s 34n 68c 1t 8gpu",      TRAINING,  "static none None",                               id="more than can be counted"),
])  # fmt: skip
def test_what_suits(words: str, goal: str, expected: str) -> None:
    assert chosen(planned(words, goal=goal)) == expected


@pytest.mark.parametrize(("version", "alpha", "expected", "gates"), [
    pytest.param((1, 20), False, "static restricted -",                                          set(), id="1.20"),
    pytest.param((1, 21), False, "static restricted None",                                       set(), id="1.21: the Memory Manager is alpha"),
    pytest.param((1, 21), True,  "static restricted Static",                                     {"MemoryManager"}, id="1.21 with alpha"),
    pytest.param((1, 22), False, "static restricted Static",                                     set(), id="1.22: options are alpha"),
    pytest.param((1, 22), True,  "static restricted Static full-pcpus-only",                     {"CPUManagerPolicyOptions"}, id="1.22 with alpha"),
    pytest.param((1, 23), False, "static restricted Static full-pcpus-only",                     set(), id="1.23"),
    pytest.param((1, 26), True,  "static restricted Static full-pcpus-only prefer-closest-numa-nodes",
                 {"TopologyManagerPolicyOptions", "TopologyManagerPolicyAlphaOptions"}, id="1.26 with alpha"),
    pytest.param((1, 28), False, "static restricted Static full-pcpus-only prefer-closest-numa-nodes", set(), id="1.28"),
    pytest.param((1, 33), True,  "static restricted Static full-pcpus-only prefer-align-cpus-by-uncorecache prefer-closest-numa-nodes",
                 {"CPUManagerPolicyAlphaOptions"}, id="1.33 with alpha"),
    pytest.param((1, 37), False, "static restricted Static full-pcpus-only prefer-align-cpus-by-uncorecache prefer-closest-numa-nodes", set(), id="1.37"),
])  # fmt: skip
def test_what_a_release_has(version: Version, alpha: bool, expected: str, gates: set[str]) -> None:  # noqa: FBT001
    plan = planned("2s 4n 64c 2t 8gpu l3=8c", version=version, alpha=alpha)
    assert chosen(plan) == expected
    given = plan.config.get("featureGates", {})
    assert isinstance(given, dict)
    assert set(given) == gates
    assert not isinstance(resolve_gates(given, version), str)


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("goal", GOALS)
def test_every_release_starts_with_its_plan(version: Version, goal: str) -> None:
    plan = planned("2s 4n 64c 2t 8gpu l3=8c", version=version, goal=goal)
    node = boot(plan.machine, plan.config, Files(), version=version)
    assert isinstance(node, SimulatedNode)
    assert "is admitted on NUMA 0" in plan.trial
    thresholds = plan.config["evictionHard"]
    assert isinstance(thresholds, dict)
    assert "nodefs.available" in thresholds


def test_uneven_cores_get_no_exclusive_cpus() -> None:
    """Three threads on two cores: the kubelet would count one thread a core, and hand out a CPU twice."""
    plan = plan_kubelet(without_cpus(machine("2s 2n 8c 2t 4gpu"), 9), PlanGoal())
    assert plan.config["cpuManagerPolicy"] == "none"
    assert "cpuManagerPolicyOptions" not in plan.config
    (why,) = [entry.why for entry in plan.entries if entry.name == "cpuManagerPolicy"]
    assert "SMT" in why


def test_isolated_cpus_are_taken_from_the_hardware() -> None:
    hardware = replace(synthetic("2s 2n 64c 2t"), host=Host(isolated=parse_ids("0,64")))
    plan = plan_kubelet(machine("2s 2n 64c 2t"), PlanGoal(), hardware)
    assert plan.config["reservedSystemCPUs"] == "1,32,65,96"


def test_huge_pages_are_left_out_of_the_equation() -> None:
    plan = planned("2s 2n 8c 64g", hugepages=pages_given(["1Gi=8", "2Mi=512"]))
    assert [dict(numa.hugepages) for numa in plan.machine.numa] == [{"1Gi": 8, "2Mi": 512}] * 2
    free = [room.memory for room in plan.capacities]
    assert free == [32 * GIB - 9 * GIB - GIB] * 2


@pytest.mark.parametrize(("texts", "words"), [
    (["1Gi"],       "not a page size and a number"),
    (["1Gi=x"],     "not a page size and a number"),
    (["1Gi=0"],     "not a page size and a number"),
    (["big=4"],     "not a size"),
    (["0=4"],       "out of range"),
])  # fmt: skip
def test_huge_pages_that_make_no_sense(texts: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        pages_given(texts)


def test_more_huge_pages_than_memory() -> None:
    with pytest.raises(InputError, match="--hugepages"):
        planned("2s 2n 8c 64g", hugepages=(("1Gi", 30),))


def test_a_machine_whose_memory_is_not_known() -> None:
    known = machine("2s 2n 8c 2t")
    unknown = Machine(known.cpus, tuple(replace(numa, memory=0) for numa in known.numa), known.plugins)
    plan = plan_kubelet(unknown, PlanGoal())
    assert plan.config["memoryManagerPolicy"] == "None"
    assert isinstance(boot(unknown, plan.config, Files(), version=NEWEST), SimulatedNode)


def test_the_equation_is_told_in_numbers() -> None:
    plan = planned("2s 2n 8c 64g")
    (why,) = [entry.why for entry in plan.entries if entry.name == "reservedMemory"]
    assert "1Gi + 1Gi = kubeReserved 896Mi + systemReserved 896Mi + eviction 256Mi = 2Gi" in why
    assert Quantity.parse("1Gi").value * 2 == (896 + 896 + 256) * MIB

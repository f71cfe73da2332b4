"""What each rank gets, under each of torch's words, on machines of every kind."""

from dataclasses import replace

import pytest

from numawise.apps.launch.launchers import visible_gpus
from numawise.apps.launch.ranks import (
    RankCpus,
    RankRefused,
    Shares,
    cpus_of_ranks,
    divide,
    memory_near,
    own_share,
)
from numawise.machine.catalog import machine_named
from numawise.machine.hardware import Gpu, Hardware, MemoryNode, Thread
from numawise.machine.synthetic import synthetic
from numawise.sets import bits_of, format_ids, parse_ids

PAIRS = "2s 4n 16c 2t 4gpu"  # nodes 0-3,16-19 | 4-7,20-23 | 8-11,24-27 | 12-15,28-31; a GPU each
DUAL = "2s 2n 8c 2t 4gpu"  # 0-3,8-11 with GPU0-1 | 4-7,12-15 with GPU2-3


def shared(
    machine: str, by: str, size: int, *, cpus: str = "", gpus: str | None = None
) -> tuple[Hardware, Shares | RankRefused]:
    hardware = synthetic(machine)
    allowed = parse_ids(cpus) if cpus else bits_of(thread.cpu for thread in hardware.threads)
    seen = visible_gpus(hardware, {} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus})
    return hardware, divide(hardware, RankCpus(allowed, 0), seen.gpus, size, by)


def shares(machine: str, by: str, size: int, *, cpus: str = "", gpus: str | None = None) -> Shares:
    found = shared(machine, by, size, cpus=cpus, gpus=gpus)[1]
    assert isinstance(found, Shares), found
    return found


def told(found: Shares) -> str:
    """``0-3/0``: CPUs and memory of each rank; ``+`` when it shares the CPUs."""
    return " ".join(
        f"{format_ids(one.cpus)}{'' if one.alone else '+'}/{format_ids(one.mems)}" for one in found.ranks
    )


# fmt: off
@pytest.mark.parametrize(("machine", "by", "size", "expected"), [
    pytest.param(DUAL,  "node",      4, "0-3,8-11+/0 0-3,8-11+/0 4-7,12-15+/1 4-7,12-15+/1",         id="node: all of it, shared"),
    pytest.param(DUAL,  "exclusive", 4, "0-1,8-9/0 2-3,10-11/0 4-5,12-13/1 6-7,14-15/1",             id="exclusive: whole cores"),
    pytest.param(PAIRS, "node",      4, "0-3,16-19/0 4-7,20-23/1 8-11,24-27/2 12-15,28-31/3",        id="node: one rank has it alone"),
    pytest.param(PAIRS, "socket",    2, "0-7,16-23+/0-1 0-7,16-23+/0-1",                             id="socket: all of its nodes"),
    pytest.param(PAIRS, "socket",    4, "0-7,16-23+/0-1 0-7,16-23+/0-1 8-15,24-31+/2-3 8-15,24-31+/2-3", id="socket of each GPU"),
    pytest.param(DUAL,  "exclusive", 3, "0-1,8-9/0 2-3,10-11/0 4-7,12-15/1",                         id="fewer ranks than GPUs: divided among ranks"),
    pytest.param(DUAL,  "exclusive", 6, "0,8/0 1,9/0 4-5,12-13/1 6-7,14-15/1 2,10/0 3,11/0",         id="more ranks than GPUs: round robin"),
    pytest.param("1s 7c 2gpu", "exclusive", 2, "0-3/0 4-6/0",                                        id="what is left over goes first"),
    pytest.param("1s 8c 2gpu l3=4c", "core-complex", 2, "0-3/0 4-7/0",                               id="core-complex: another L3 for each"),
    pytest.param("1s 8c 2gpu l3=4c", "core-complex", 3, "0-3+/0 4-7/0 0-3+/0",                       id="core-complex: no more of them"),
    pytest.param("1s 8c 2gpu", "core-complex", 2, "0-7+/0 0-7+/0",                                   id="core-complex: one L3 for all"),
    pytest.param("2s 8c adjacent 2t 2gpu", "exclusive", 2, "0-7/0 8-15/1",                           id="threads side by side"),
    pytest.param("2s 8c interleaved 2gpu", "exclusive", 2, "0,2,4,6/0 1,3,5,7/1",                    id="CPUs numbered round the nodes"),
    pytest.param("2s 8c",  "exclusive", 2, "0-3/0 4-7/1",                                            id="no GPUs: a node each"),
    pytest.param("2s 8c",  "exclusive", 4, "0-1/0 2-3/0 4-5/1 6-7/1",                                id="no GPUs: neighbours together"),
    pytest.param("2s 8c",  "node",      3, "0-3+/0 0-3+/0 4-7/1",                                    id="no GPUs: an odd number"),
    pytest.param("2s 4n 16c", "node",   2, "0-7/0-1 8-15/2-3",                                       id="no GPUs: more nodes than ranks"),
    pytest.param("1s 2c",  "node",      1, "0-1/0",                                                  id="one rank"),
])
def test_words(machine: str, by: str, size: int, expected: str) -> None:
    found = shares(machine, by, size)
    assert told(found) == expected
    assert found.by == by


@pytest.mark.parametrize(("cpus", "by", "expected"), [
    pytest.param("0-3,4-7",     "exclusive", "0-1/0 2-3/0 4-5/1 6-7/1",                  id="a thread of each core"),
    pytest.param("0,1,8,4-5",   "exclusive", "0,8/0 1/0 4/1 5/1",                        id="cores that are not whole"),
    pytest.param("0-3,8-11",    "exclusive", "0,8/0 1,9/0 2,10/0 3,11/0",                id="the other node has none"),
    pytest.param("4-5",         "node",      "4-5+/1 4-5+/1 4-5+/1 4-5+/1",              id="far from two of the GPUs"),
])
def test_within_a_hold(cpus: str, by: str, expected: str) -> None:
    assert told(shares(DUAL, by, 4, cpus=cpus)) == expected


@pytest.mark.parametrize(("gpus", "expected"), [
    pytest.param("2,0",  "4-7,12-15/1 0-3,8-11/0",                           id="in the order of the variable"),
    pytest.param("3",    "4-5,12-13/1 6-7,14-15/1",                          id="both on one GPU"),
    pytest.param("",     "0-3,8-11/0 4-7,12-15/1",                           id="none: spread"),
])
def test_gpus_by_variable(gpus: str, expected: str) -> None:
    assert told(shares(DUAL, "exclusive", 2, gpus=gpus)) == expected
# fmt: on


def test_threads_are_a_part_of_the_cores() -> None:
    assert [one.threads for one in shares(DUAL, "node", 4).ranks] == [2, 2, 2, 2]
    assert [one.threads for one in shares("1s 7c 2gpu", "exclusive", 2).ranks] == [4, 3]
    assert [one.threads for one in shares("1s 2c", "node", 5).ranks] == [1] * 5


def test_too_few_cores() -> None:
    found = shared("1s 2c", "exclusive", 3)[1]
    assert isinstance(found, RankRefused)
    assert found.message == "NUMA node 0 has 2 cores here for 3 ranks"
    assert "--by node" in found.advice


def test_without_a_word_ranks_are_alone_where_that_is_possible() -> None:
    assert shares("1s 2c", "", 2).by == "exclusive"
    found = shares("1s 2c", "", 3)
    assert found.by == "node"
    assert told(found) == "0-1+/0 0-1+/0 0-1+/0"
    assert found.remarks[0].startswith("NUMA node 0 has 2 cores here for 3 ranks")


def test_a_gpu_far_from_all_allowed_cpus_says_so() -> None:
    found = shares(DUAL, "node", 4, cpus="4-5")
    assert "GPU0: no allowed CPUs on NUMA node 0; node 1 is used" in found.remarks


# fmt: off
@pytest.mark.parametrize(("machine", "expected"), [
    pytest.param("gb200",                "0-35/0 36-71/0 72-107/1 108-143/1",                 id="GPU memory is NUMA nodes without CPUs"),
    pytest.param("grace-hopper",         "0-71/0",                                            id="one GPU with eight nodes"),
    pytest.param("sapphire-rapids-snc4", "0-13,112-125/0 14-27,126-139/1 28-41,140-153/2 42-55,154-167/3 "
                 "56-69,168-181/4 70-83,182-195/5 84-97,196-209/6 98-111,210-223/7",          id="no GPUs, eight nodes"),
])
def test_known_machines(machine: str, expected: str) -> None:
    hardware = machine_named(machine)
    gpus = visible_gpus(hardware, {}).gpus
    room = RankCpus(bits_of(thread.cpu for thread in hardware.threads), 0)
    found = divide(hardware, room, gpus, len(gpus) or 8)
    assert isinstance(found, Shares)
    assert told(found) == expected
# fmt: on


def test_gpus_that_report_two_nodes_are_shared_out() -> None:
    hardware = synthetic("2s 8c 4gpu")
    hazy = replace(hardware, gpus=tuple(replace(gpu, numa=(0, 1), address="") for gpu in hardware.gpus))
    found = divide(hazy, RankCpus(0xFF, 0), hazy.gpus, 4, "exclusive")
    assert isinstance(found, Shares)
    assert told(found) == "0-1/0 2-3/0 4-5/1 6-7/1"
    assert [remark.partition(":")[0] for remark in found.remarks] == [gpu.name for gpu in hazy.gpus]


def test_a_mig_instance_is_where_its_gpu_is() -> None:
    hardware = synthetic("2s 8c 2gpu")
    second = hardware.gpus[1]
    parts = tuple(
        Gpu(f"GPU1:{i}", f"MIG-{i}", second.address, numa=second.numa, parent="GPU1") for i in range(2)
    )
    hardware = replace(hardware, gpus=(*hardware.gpus, *parts))
    found = divide(hardware, RankCpus(0xFF, 0), parts, 2, "exclusive")
    assert isinstance(found, Shares)
    assert told(found) == "4-5/1 6-7/1"


def test_nics_nearest_to_the_gpu() -> None:
    hardware = machine_named("dgx-h100")
    found = divide(hardware, RankCpus((1 << 224) - 1, 0), hardware.gpus, 8)
    assert isinstance(found, Shares)
    assert [nic.hca for one in found.ranks[:3] for nic in one.nics] == ["mlx5_0", "mlx5_3", "mlx5_4"]


def test_a_machine_without_numa_nodes_is_one() -> None:
    hardware = Hardware(threads=tuple(Thread(cpu) for cpu in range(4)))
    found = divide(hardware, RankCpus(0b1111, 0), (), 2)
    assert isinstance(found, Shares)
    assert told(found) == "0-1/ 2-3/"


def test_memory_of_a_node_without_comes_from_the_nearest() -> None:
    nodes = (
        MemoryNode(0, cpus=0b11, memory=0, distances=((0, 10), (1, 30), (2, 20))),
        MemoryNode(1, cpus=0b1100, memory=1 << 30, distances=((0, 30), (1, 10), (2, 40))),
        MemoryNode(2, memory=1 << 30, distances=((0, 20), (1, 40), (2, 10))),
    )
    hardware = Hardware(threads=tuple(Thread(cpu, numa=cpu // 2) for cpu in range(4)), numa=nodes)
    assert memory_near(hardware, 0b11, 0) == 0b100
    assert memory_near(hardware, 0b11, 0b010) == 0b010
    assert memory_near(hardware, 0b1111, 0) == 0b010


# fmt: off
@pytest.mark.parametrize(("mask", "hold", "launcher", "cpuset", "cpus", "divided", "remark"), [
    pytest.param("0-7",  None,  None,   "0-7",  "0-7", False, "",                                id="nothing but the mask"),
    pytest.param("0-3",  None,  "0-3",  "0-7",  "0-3", False, "",                                id="a mask for the whole job"),
    pytest.param("0",    None,  "0-7",  "0-7",  "0",   True,  "has bound this rank to CPUs 0,",  id="bound by the launcher"),
    pytest.param("0",    None,  "0-63", "0",    "0",   False, "",                                id="a launcher with more than our cgroup allows"),
    pytest.param("0-7",  "0-3", "0-7",  "0-7",  "0-3", False, "",                                id="the hold within the mask"),
    pytest.param("0",    "0-3", "0-3",  "0-7",  "0-3", False, "had bound this rank to CPUs 0;",  id="the hold is wider than what the launcher gave"),
    pytest.param("0-1",  "0-3", "0-1",  "0-7",  "0-1", False, "",                                id="a mask within the hold"),
    pytest.param("0-1",  "0-3", None,   "0-1",  "0-1", False, "",                                id="a cgroup within the hold"),
    pytest.param("4-7",  "0-3", None,   "4-7",  "4-7", False, "none of the hold's CPUs 0-3",     id="a hold that is elsewhere"),
    pytest.param("4-7",  "0-3", None,   "0-7",  "0-3", False, "",                                id="a mask beside the hold"),
])
def test_room(mask: str, hold: str | None, launcher: str | None, cpuset: str, cpus: str, divided: int, remark: str) -> None:
    found = cpus_of_ranks(
        parse_ids(mask),
        0b11,
        hold=None if hold is None else parse_ids(hold),
        launcher=None if launcher is None else parse_ids(launcher),
        cpuset=parse_ids(cpuset),
        unbound="--bind-to none",
    )
    assert (format_ids(found.cpus), found.divided) == (cpus, divided)
    assert remark in " ".join(found.remarks)
    assert bool(found.remarks) == bool(remark)
    assert ("--bind-to none" in " ".join(found.remarks)) == bool(divided)
# fmt: on


@pytest.mark.parametrize(
    ("hold", "cpus", "word"),
    [
        ("0-3", "0-3", "the hold's are divided instead"),
        (None, "0", "bind -- env OMP_PROC_BIND=close COMMAND"),
    ],
)
def test_a_launcher_that_openmp_has_tied(hold: str | None, cpus: str, word: str) -> None:
    """torchrun loads torch, and that the OpenMP library: OMP_PROC_BIND=close ties torchrun itself."""
    found = cpus_of_ranks(
        1,
        1,
        hold=None if hold is None else parse_ids(hold),
        launcher=1,
        cpuset=0xFF,
        tied_by="OMP_PROC_BIND=close",
    )
    assert format_ids(found.cpus) == cpus
    assert word in found.remarks[0]
    assert "OMP_PROC_BIND=close" in found.remarks[0]


@pytest.mark.parametrize(("hold", "expected"), [(None, 0b1110), (0b0110, 0b0110), (0b0001, 0b1110)])
def test_room_of_memory(hold: int | None, expected: int) -> None:
    assert cpus_of_ranks(1, 0b1110, hold_mems=hold).mems == expected


@pytest.mark.parametrize(("mask", "expected"), [("0-1,4", "0-1/0"), ("4-5", "4-5/1")])
def test_a_rank_that_was_bound_keeps_to_its_cpus(mask: str, expected: str) -> None:
    hardware = synthetic("2s 8c 2gpu")
    found = own_share(hardware, RankCpus(parse_ids(mask), 0, divided=True), hardware.gpus, 0)
    assert told(found) == expected
    assert bool(found.remarks) == (mask == "4-5")
    assert found.ranks[0].gpu == hardware.gpus[0]

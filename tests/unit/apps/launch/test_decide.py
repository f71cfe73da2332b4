"""Where jobs go: the source document's server, odd machines, want of room, and laws that always hold."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.decide import place
from numawise.apps.launch.request import JobRequest, read_request
from numawise.errors import InputError
from numawise.machine.hardware import Gpu, Hardware, Host, Matrix
from numawise.machine.synthetic import synthetic
from numawise.results.placement import Capacity, Hold, NoRoom, Owner, Placement, pool_of
from numawise.sets import format_ids, ids_of, parse_ids

SERVER = "2s 2n 64c 2t 8gpu pairs 1024g"
"""The source document's: CPUs 0-31,64-95 and 32-63,96-127, GPUs in pairs behind PCIe switches."""


def site_of(text: str, reserved: str = "") -> Capacity:
    return capacity_of(synthetic(text), reserved)


def hold(placement: Placement, name: str) -> Hold:
    return Hold(name, name, Owner(0, "root", "boot", pid=1), placement.grant)


def placed(capacity: Capacity, holds: Sequence[Hold], **flags: object) -> Placement:
    found = place(capacity, holds, read_request(**flags), f"h{len(holds)}")  # type: ignore[arg-type]
    assert isinstance(found, Placement), found
    return found


def filled(capacity: Capacity, *wishes: dict[str, object]) -> list[Hold]:
    holds: list[Hold] = []
    for request in wishes:
        holds.append(hold(placed(capacity, holds, **request), f"h{len(holds)}"))
    return holds


def told(found: Placement) -> str:
    gpus = "".join(gpu.name.removeprefix("GPU") for gpu in found.gpus)
    own = "" if found.grant.cpus else "shared "
    return f"{own}{format_ids(found.cpus)} | {format_ids(found.mems)} | {gpus}"


@pytest.mark.parametrize(("flags", "expected"), [
    pytest.param({},                                       "shared 0-127 | 0-1 | ",         id="nothing asked for"),
    pytest.param({"cpus": "0.5"},                          "shared 0-127 | 0-1 | ",         id="half a CPU"),
    pytest.param({"gpu_ids": "0"},                         "shared 0-31,64-95 | 0 | 0",     id="one GPU by index"),
    pytest.param({"gpu_ids": "GPU5"},                      "shared 32-63,96-127 | 1 | 5",   id="one GPU by name"),
    pytest.param({"gpu_ids": "0,1,2,3"},                   "shared 0-31,64-95 | 0 | 0123",  id="one node's GPUs"),
    pytest.param({"gpu_ids": "0,1,2,3,4"},                 "shared 0-127 | 0-1 | 01234",    id="five GPUs"),
    pytest.param({"gpu_ids": "0", "cpus": "16", "memory": "32g"}, "1-8,65-72 | 0 | 0",      id="CPUs of its own"),
    pytest.param({"gpus": 2},                              "shared 0-31,64-95 | 0 | 01",    id="a pair"),
    pytest.param({"gpus": 4},                              "shared 0-31,64-95 | 0 | 0123",  id="a node"),
    pytest.param({"gpus": 8},                              "shared 0-127 | 0-1 | 01234567", id="all"),
    pytest.param({"cpus": "8"},                            "1-4,65-68 | 0 | ",              id="the system's core is left"),
    pytest.param({"cpus": "64"},                           "32-63,96-127 | 1 | ",           id="only the other node is whole"),
    pytest.param({"cpus": "100"},                          "1-18,32-63,65-82,96-127 | 0-1 | ", id="more than a node"),
    pytest.param({"memory": "600g"},                       "shared 0-127 | 0-1 | ",         id="memory of two nodes"),
    pytest.param({"memory": "10g"},                        "shared 0-31,64-95 | 0 | ",      id="memory of one"),
])  # fmt: skip
def test_on_the_documents_server(flags: dict[str, object], expected: str) -> None:
    assert told(placed(site_of(SERVER), [], **flags)) == expected


def test_a_single_gpu_breaks_no_pair() -> None:
    capacity = site_of(SERVER)
    holds = filled(capacity, {"gpus": 1}, {"gpus": 1}, {"gpus": 2}, {"gpus": 1}, {"gpus": 2}, {"gpus": 1})
    gpus = [[name for _, names in one.grant.devices for name in names] for one in holds]
    at = [sorted(capacity.gpu_ids.index(name) for name in names) for names in gpus]
    assert [len(set(pair)) for pair in at] == [1, 1, 2, 1, 2, 1]
    assert at[1][0] == at[0][0] ^ 1  # the partner of the GPU that was broken off already
    assert all(pair[0] % 2 == 0 and pair[1] == pair[0] + 1 for pair in (at[2], at[4]))


def test_five_gpus_cross_and_say_so() -> None:
    found = placed(site_of(SERVER), [], gpus=5)
    (remark,) = found.remarks
    assert "NUMA" in remark
    assert "4" in remark
    assert "8" in remark


def test_gpus_lose_to_alignment() -> None:
    """A pair whose node has no CPUs left is passed over for one whose node has."""
    capacity = site_of(SERVER)
    holds = filled(capacity, {"cpus": "62"})
    found = placed(capacity, holds, cpus="8", gpus=2)
    assert found.aligned
    assert told(found) == "32-35,96-99 | 1 | 45"


@pytest.mark.parametrize(("before", "flags", "reason"), [
    pytest.param([{"cpus": "100"}],  {"cpus": "40"},               "40 CPUs asked for, 26 free",        id="CPUs"),
    pytest.param([{"gpus": 7}],      {"gpus": 2},                  "2 GPUs asked for, 1 of 8 free",     id="GPUs"),
    pytest.param([{"gpu_ids": "3"}], {"gpu_ids": "2,3"},           "GPU3 is not free",                  id="that GPU"),
    pytest.param([{"memory": "600g"}], {"memory": "500g"},         "500 GiB of memory asked for, 424",  id="memory"),
    pytest.param([{"cpus": "60"}, {"cpus": "60"}], {"cpus": "6", "policy": "single-numa-node"},
                 "not together as policy single-numa-node",                                             id="not on one node"),
    pytest.param([{"memory": "10g"}], {"memory": "900g"},          "several NUMA nodes, and jobs that keep to some",
                 id="memory that is kept apart"),
    pytest.param([{"cpus": "126"}],  {"cpus": "2.5"},              "2.5 CPUs asked for in the shared pool, 2 CPUs", id="pool"),
])  # fmt: skip
def test_no_room_says_what_is_short(
    before: list[dict[str, object]], flags: dict[str, object], reason: str
) -> None:
    capacity = site_of(SERVER)
    holds = filled(capacity, *before)
    found = place(capacity, holds, read_request(**flags), "new")  # type: ignore[arg-type]
    assert isinstance(found, NoRoom)
    assert reason in found.reason
    assert set(found.holders) <= set(holds)
    assert found.holders


@pytest.mark.parametrize(("flags", "complaint"), [
    pytest.param({"cpus": "127"},                         "127 CPUs asked for, 126 free",     id="CPUs"),
    pytest.param({"gpus": 9},                             "9 GPUs asked for, 8 of 8 free",    id="GPUs"),
    pytest.param({"gpu_ids": "8"},                        "--gpu-ids: '8' is not a GPU",         id="GPU that is not there"),
    pytest.param({"gpu_ids": "0,GPU0"},                   "names a GPU twice",                id="GPU twice"),
    pytest.param({"memory": "2t"},                        "2 TiB of memory asked for",        id="memory"),
    pytest.param({"nics": 1},                             "--nics",                           id="no NICs"),
    pytest.param({"devices": ["tpu=1"]},                  "--device: this machine has no resource 'tpu'", id="resource"),
    pytest.param({"cpus": "17", "full_cores": True},      "ask for 16 or 18",                 id="odd number of threads"),
    pytest.param({"cpus": "65", "policy": "single-numa-node"}, "another --policy",            id="more than a node has"),
])  # fmt: skip
def test_what_the_machine_cannot_give(flags: dict[str, object], complaint: str) -> None:
    capacity = site_of(SERVER)
    for holds in ([], filled(capacity, {"cpus": "100", "gpus": 4})):
        with pytest.raises(InputError) as refused:
            place(capacity, holds, read_request(**flags), "new")  # type: ignore[arg-type]
        assert complaint in str(refused.value)


@pytest.mark.parametrize(("machine", "reserved", "kept"), [
    pytest.param("1s 4c 1t",      "",       "",     id="four CPUs keep none"),
    pytest.param("1s 3c 2t",      "",       "0,3",  id="more keep the lowest core"),
    pytest.param("1s 8c 1t",      "none",   "",     id="none on request"),
    pytest.param("1s 8c 1t",      "2-3",    "2-3",  id="a list"),
])  # fmt: skip
def test_kept_for_the_system(machine: str, reserved: str, kept: str) -> None:
    assert format_ids(site_of(machine, reserved).reserved) == kept


@pytest.mark.parametrize("reserved", ["x", "9-", "64"])
def test_bad_reservation(reserved: str) -> None:
    with pytest.raises(InputError, match="reserved-cpus"):
        site_of("1s 8c 1t", reserved)


def limited(hardware: Hardware, cpuset: str, isolated: str = "") -> Hardware:
    return replace(hardware, host=Host(cpuset=parse_ids(cpuset), isolated=parse_ids(isolated)))


def test_only_cpus_of_our_cpuset() -> None:
    capacity = capacity_of(limited(synthetic("2s 2n 16c 1t"), "4-11"))
    found = placed(capacity, [], cpus="3")
    assert found.cpus & ~parse_ids("4-11") == 0
    assert any("cpuset" in remark for remark in found.remarks)


def test_no_isolated_cpus() -> None:
    capacity = capacity_of(limited(synthetic("1s 8c 1t"), "0-7", "4-7"))
    assert format_ids(placed(capacity, [], cpus="3").cpus) == "0-2"


def test_memory_comes_from_the_nearest_node_that_has_some() -> None:
    hardware = synthetic("2s 2n 8c 1t")
    bare = replace(hardware, numa=(hardware.numa[0], replace(hardware.numa[1], memory=0)))
    capacity = capacity_of(bare)
    found = placed(capacity, filled(capacity, {"cpus": "3"}), cpus="4")
    assert told(found) == "4-7 | 0 | "


def test_those_in_the_pool_keep_a_cpu() -> None:
    capacity = site_of("1s 4c 1t")
    holds = filled(capacity, {"cpus": "1.5"})
    found = place(capacity, holds, read_request(cpus="3"), "new")
    assert isinstance(found, NoRoom)
    assert "shared pool" in found.reason
    assert told(placed(capacity, holds, cpus="2")) == "0-1 | 0 | "


def test_laws() -> None:
    """What is granted was free and is what was asked; nobody has what another has."""
    rng = random.Random(4)
    for machine in (SERVER, "1s 4c 1t", "2s 4n 16c 2t 4gpu nvlink", "4s 4n 32c 1t 16gpu pairs"):
        capacity = site_of(machine)
        holds: list[Hold] = []
        for number in range(60):
            request = JobRequest(
                cpus=rng.choice([0, 500, 1000, 2000, 4000, 7000, 16000]),
                memory=rng.choice([0, 0, 1 << 30, 40 << 30]),
                gpus=rng.choice([0, 0, 1, 2, 4]) if capacity.gpus else 0,
                policy=rng.choice(["none", "best-effort", "restricted", "single-numa-node"]),
            )
            try:
                found = place(capacity, holds, request, f"h{number}")
            except InputError:
                continue
            if isinstance(found, NoRoom):
                holds = rng.sample(holds, len(holds) // 2)
                continue
            free = pool_of(capacity, holds)
            taken = {name for one in holds for _, names in one.grant.devices for name in names}
            devices = [name for _, names in found.grant.devices for name in names]
            assert found.grant.cpus & ~(free & ~capacity.reserved) == 0
            assert found.grant.cpus.bit_count() == request.whole_cpus
            assert len(devices) == request.gpus == len(found.gpus)
            assert not taken & set(devices)
            assert sum(part.size for part in found.grant.memory) == request.memory
            assert found.cpus
            assert found.mems
            if request.policy == "single-numa-node" and (
                request.whole_cpus or request.memory or request.gpus
            ):
                assert len({*ids_of(capacity.numa_of(found.grant.cpus)), *ids_of(found.mems)}) == 1 or (
                    not request.whole_cpus and not request.memory and not request.gpus
                )
            holds.append(hold(found, f"h{number}"))
        cpus = [one.grant.cpus for one in holds]
        assert all(not one & other for one, other in pairwise(sorted(cpus)))
        assert place(capacity, holds, JobRequest(cpus=1000), "a") == place(
            capacity, holds, JobRequest(cpus=1000), "a"
        )


def linked_across() -> Capacity:
    """Four GPUs; the only NVLink joins one of each NUMA node."""
    hardware = synthetic("2s 2n 16c 1t 4gpu")
    names = [f"GPU{i}" for i in range(4)]
    rows = {
        one: {
            two: "X" if one == two else "NODE" if i // 2 == j // 2 else "SYS" for j, two in enumerate(names)
        }
        for i, one in enumerate(names)
    }
    rows["GPU1"]["GPU2"] = rows["GPU2"]["GPU1"] = "NV4"
    gpus = tuple(Gpu(name, uuid=f"GPU-{i}", numa=(i // 2,)) for i, name in enumerate(names))
    return capacity_of(replace(hardware, gpus=gpus, matrix=Matrix(tuple(names), links=rows)))


def test_the_best_links_win_even_across_numa_nodes() -> None:
    capacity = linked_across()
    found = placed(capacity, [], gpus=2, cpus="2")
    assert [gpu.name for gpu in found.gpus] == ["GPU1", "GPU2"]
    assert not found.aligned
    assert any("NUMA" in remark for remark in found.remarks)
    strict = placed(capacity, [], gpus=2, cpus="2", policy="single-numa-node")
    assert [gpu.name for gpu in strict.gpus] == ["GPU0", "GPU1"]


def test_gpus_in_use_without_a_hold_are_passed_over() -> None:
    capacity = replace(site_of(SERVER), users={0: (4711,), 2: (4712,)})
    assert [gpu.name for gpu in placed(capacity, [], gpus=2).gpus] == ["GPU4", "GPU5"]
    found = placed(capacity, [], gpus=8)
    assert any("GPU0 is in use by process 4711" in remark for remark in found.remarks)

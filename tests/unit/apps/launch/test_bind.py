"""How a rank starts: its variables, out of what it inherited and what it got."""

from dataclasses import replace

import pytest

from numawise.apps.launch.bind import start
from numawise.apps.launch.environment import job_environment, joined
from numawise.apps.launch.frame import BindOptions, Prepared, prepare, ranks_meant, within
from numawise.apps.launch.launchers import LocalRank, Visible, rank_gpus
from numawise.apps.launch.ranks import RankCpus, Shares, divide
from numawise.errors import InputError
from numawise.machine.catalog import machine_named
from numawise.machine.hardware import Gpu, Hardware
from numawise.machine.synthetic import synthetic
from numawise.results.placement import Grant, Nic, Placement
from numawise.sets import bits_of, format_ids, parse_ids

DUAL = synthetic("2s 2n 8c 2t 4gpu")


def prepared(hardware: Hardware, size: int, rank: int, by: str = "", *, same_gpus: bool = True) -> Prepared:
    room = RankCpus(bits_of(thread.cpu for thread in hardware.threads), 0)
    found = divide(hardware, room, hardware.gpus, size, by)
    assert isinstance(found, Shares)
    return Prepared(hardware, found, size, rank, same_gpus)


def changed(found: Prepared, inherited: dict[str, str], **flags: object) -> dict[str, str]:
    environment = start(found, BindOptions(**flags), inherited).environment  # type: ignore[arg-type]
    return {name: value for name, value in environment.items() if name not in ("NUMAWISE_SET", "HOME")}


def test_a_rank_alone_gets_threads_and_places() -> None:
    assert changed(prepared(DUAL, 4, 1), {"HOME": "/"}) == {
        "OMP_NUM_THREADS": "2",
        "OMP_PLACES": "{2,10},{3,11}",
        "OMP_PROC_BIND": "false",
        "GOMP_CPU_AFFINITY": "2-3,10-11",
    }


def test_ranks_that_share_get_a_number_of_threads_only() -> None:
    assert changed(prepared(DUAL, 4, 1, "node"), {}) == {"OMP_NUM_THREADS": "2"}


# fmt: off
@pytest.mark.parametrize(("inherited", "flags", "threads"), [
    pytest.param({"OMP_NUM_THREADS": "7"},                             {},             "7", id="the user's stays"),
    pytest.param({"OMP_NUM_THREADS": "1", "TORCHELASTIC_RUN_ID": "x"}, {},             "2", id="torchrun's 1 does not"),
    pytest.param({"OMP_NUM_THREADS": "3", "TORCHELASTIC_RUN_ID": "x"}, {},             "3", id="another under torchrun is the user's"),
    pytest.param({"OMP_NUM_THREADS": "1", "RAY_RAYLET_PID": "7"}, {},                  "2", id="Ray's 1 does not"),
    pytest.param({"OMP_NUM_THREADS": "3", "RAY_RAYLET_PID": "7"}, {},                  "3", id="another under Ray is the user's"),
    pytest.param({"OMP_NUM_THREADS": "7"},                             {"threads": 5}, "5", id="a flag wins"),
    pytest.param({"OMP_NUM_THREADS": "1", "TORCHELASTIC_RUN_ID": "x"}, {"threads": 1}, "1", id="a flag says 1"),
])
def test_number_of_threads(inherited: dict[str, str], flags: dict[str, int], threads: str) -> None:
    assert changed(prepared(DUAL, 4, 1), inherited, **flags)["OMP_NUM_THREADS"] == threads
# fmt: on


def job(**given: str) -> dict[str, str]:
    """The environment that ``run`` gives a job with all CPUs of the machine."""
    cpus = parse_ids("0-15")
    placement = Placement(Grant(cpus=cpus), cpus, 0b11, nics=(Nic("ib0", "mlx5_0"), Nic("ib1", "mlx5_1")))
    return dict(joined(given, job_environment(placement, "k3", "train", DUAL)).environment)


def test_what_run_set_for_the_job_is_narrowed_to_the_rank() -> None:
    found = changed(prepared(DUAL, 4, 1), job())
    assert found["OMP_NUM_THREADS"] == "2"
    assert found["OMP_PLACES"] == "{2,10},{3,11}"
    assert found["GOMP_CPU_AFFINITY"] == "2-3,10-11"
    assert found["NUMAWISE_CPUS"] == "0-15"
    assert found["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
    shared = changed(prepared(DUAL, 4, 1, "node"), job())
    assert not {"OMP_PLACES", "GOMP_CPU_AFFINITY", "OMP_PROC_BIND"} & shared.keys()


def test_what_the_user_set_for_the_job_stays() -> None:
    found = changed(prepared(DUAL, 4, 1), job(OMP_NUM_THREADS="3", OMP_PLACES="cores"))
    assert (found["OMP_NUM_THREADS"], found["OMP_PLACES"]) == ("3", "cores")
    assert "GOMP_CPU_AFFINITY" not in found


def test_network_cards_of_the_rank_and_of_all() -> None:
    machine = machine_named("dgx-h100")
    found = changed(prepared(machine, 4, 1), {})
    assert found["UCX_NET_DEVICES"] == "mlx5_3:1"
    assert found["NCCL_IB_HCA"] == "=mlx5_0,mlx5_3,mlx5_4,mlx5_5"
    alone = changed(prepared(machine, 4, 1, same_gpus=False), {"NCCL_IB_HCA": "mlx5"})
    assert (alone["UCX_NET_DEVICES"], alone["NCCL_IB_HCA"]) == ("mlx5_3:1", "mlx5")
    assert "NCCL_IB_HCA" not in changed(prepared(machine, 4, 1, same_gpus=False), {})


def test_all_ranks_are_told_the_same_for_nccl() -> None:
    machine = machine_named("dgx-h100")
    assert len({changed(prepared(machine, 8, rank), {})["NCCL_IB_HCA"] for rank in range(8)}) == 1


def test_gpus_stay_unless_one_is_asked_for() -> None:
    inherited = {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    assert changed(prepared(DUAL, 4, 1), inherited)["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    assert changed(prepared(DUAL, 4, 1), inherited, one_gpu=True)["CUDA_VISIBLE_DEVICES"] == "1"


# fmt: off
@pytest.mark.parametrize(("rank", "size", "flag", "gpus", "expected"), [
    pytest.param(None, None, None, 4, 4, id="one for each GPU"),
    pytest.param(None, None, None, 0, 2, id="one for each NUMA node"),
    pytest.param(1,    None, None, 4, 4, id="the launcher tells no number"),
    pytest.param(1,    8,    None, 4, 8, id="the launcher's"),
    pytest.param(None, None, 3,    4, 3, id="the flag's"),
])
def test_number_of_ranks(rank: int | None, size: int | None, flag: int | None, gpus: int, expected: int) -> None:
    found = None if rank is None else LocalRank(rank, size)
    assert ranks_meant(found, flag, Visible((Gpu("x"),) * gpus), 2) == expected
# fmt: on


def test_a_rank_beyond_all_gpus_needs_a_number() -> None:
    with pytest.raises(InputError, match="this is rank 4; give --local-size"):
        ranks_meant(LocalRank(4), None, Visible((Gpu("x"),) * 4), 2)


def test_cpus_by_flag() -> None:
    assert within(RankCpus(0b1111, 1), "1-2") == RankCpus(0b0110, 1)
    for text, message in (
        ("1-9", "CPUs 4-9 may not be used here; choose from 0-3"),
        ("x", "'x' is not a list of CPUs"),
    ):
        with pytest.raises(InputError, match=message):
            within(RankCpus(0b1111, 1), text)


def test_another_machine() -> None:
    found = prepare(BindOptions(machine="2s 8c 4gpu"), {}, all_ranks=True)
    assert isinstance(found, Prepared)
    assert (found.size, found.rank, len(found.shares.ranks)) == (4, None, 4)


# fmt: off
@pytest.mark.parametrize(("variables", "rank", "cpus", "mems"), [
    pytest.param({"CUDA_VISIBLE_DEVICES": "0"},   0, "0-1,8-9",       "0",   id="the first GPU"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "3"},   3, "6-7,14-15",     "1",   id="the last GPU"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "2,3"}, 2, "4-7,12-15",     "1",   id="two GPUs: the parts of both"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "3,0"}, 3, "0-1,6-9,14-15", "0-1", id="two GPUs of two NUMA nodes, the first one's rank"),
    pytest.param({"CUDA_VISIBLE_DEVICES": "1", "SLURM_LOCALID": "0", "SLURM_NTASKS_PER_NODE": "1"}, 1, "2-3,10-11", "0", id="Ray started by srun"),
])
def test_a_ray_worker_goes_by_its_gpus(variables: dict[str, str], rank: int, cpus: str, mems: str) -> None:
    options = BindOptions(machine="2s 2n 8c 2t 4gpu")
    found = prepare(options, {"RAY_RAYLET_PID": "77", **variables}, all_ranks=False)
    assert isinstance(found, Prepared)
    share = start(found, options, variables).share
    assert (share.rank, format_ids(share.cpus), format_ids(share.mems)) == (rank, cpus, mems)
    assert share.alone
# fmt: on


# fmt: off
@pytest.mark.parametrize(("held", "shown", "expected", "homes"), [
    pytest.param("2,3",   "0,1",   "2,3",   [2, 2], id="the first of the machine"),
    pytest.param("1,2",   "0,1",   "1,2",   [1, 2], id="some of the hold's"),
    pytest.param("2,3",   "2,3",   "2,3",   [2, 2], id="the hold's own"),
    pytest.param("0,2,3", "2,3",   "2,3",   [2, 2], id="a part of the hold"),
    pytest.param("2,3",   "3,2",   "3,2",   [2, 2], id="the hold's in another order"),
    pytest.param("",      "0,1",   "0,1",   [1, 1], id="a hold without GPUs"),
])
def test_a_launcher_that_shows_others_gpus(held: str, shown: str, expected: str, homes: list[int]) -> None:
    """DeepSpeed's --num_gpus shows the first GPUs of the machine, whatever the hold has."""
    addresses = [DUAL.gpus[int(number)].address for number in held.split(",") if number]
    environment = {"NUMAWISE_HOLD": "abcde", "NUMAWISE_GPUS": ",".join(addresses), "CUDA_VISIBLE_DEVICES": shown, "LOCAL_SIZE": "2"}
    options = BindOptions(machine="2s 2n 8c 2t 4gpu")
    for rank, home in enumerate(homes):
        own = environment | {"LOCAL_RANK": str(rank)}
        found = prepare(options, own, all_ranks=False)
        assert isinstance(found, Prepared)
        bound = start(found, options, own)
        assert bound.environment["CUDA_VISIBLE_DEVICES"] == expected
        assert bound.share.home == home
        assert any("the grant decides its GPUs" in remark for remark in bound.remarks) == (shown != expected)
# fmt: on


def test_parts_of_a_gpu_are_not_widened_to_the_whole() -> None:
    parts = tuple(Gpu(f"GPU2:{i}", f"MIG-{i}", parent="GPU2", maker=0x10DE) for i in range(2))
    machine = replace(DUAL, gpus=(*DUAL.gpus, *parts))
    held = {"NUMAWISE_HOLD": "abcde", "NUMAWISE_GPUS": "MIG-1"}
    seen, anew = rank_gpus(machine, held | {"CUDA_VISIBLE_DEVICES": "MIG-1"})
    assert ([gpu.name for gpu in seen.gpus], anew) == (["GPU2:1"], False)
    seen, anew = rank_gpus(machine, held | {"CUDA_VISIBLE_DEVICES": "0"})
    assert ([gpu.name for gpu in seen.gpus], anew) == (["GPU2:1"], True)


def test_what_runs_inside_ray_wins_over_it() -> None:
    environment = {
        "RAY_RAYLET_PID": "77",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "CUDA_VISIBLE_DEVICES": "2,3",
    }
    found = prepare(BindOptions(machine="2s 2n 8c 2t 4gpu"), environment, all_ranks=False)
    assert isinstance(found, Prepared)
    assert (found.rank, found.size) == (1, 2)

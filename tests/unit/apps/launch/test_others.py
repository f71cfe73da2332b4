"""What ranks leave to the holds of others: CPUs that are left out, GPUs that are reported."""

import pytest

from numawise.apps.launch.others import NOBODY, OtherHolds, gpu_clashes, left_to_ranks
from numawise.apps.launch.ranks import RankCpus, RankRefused
from numawise.machine.synthetic import synthetic
from numawise.results.placement import Grant, Hold, Owner, gpu_id
from numawise.sets import format_ids, parse_ids

DUAL = synthetic("2s 2n 8c 2t 4gpu")
GPU = "nvidia.com/gpu"


def hold(name: str, cpus: str = "", *gpus: str, user: str = "alice") -> Hold:
    grant = Grant(cpus=parse_ids(cpus), devices=((GPU, gpus),) if gpus else ())
    return Hold(f"{name}1", name, Owner(1001, user, "boot", 4711, 1), grant)


def room(cpus: str, *, divided: bool = False) -> RankCpus:
    return RankCpus(parse_ids(cpus), 0, divided, ("before",))


@pytest.mark.parametrize(("cpus", "holds", "left", "said"), [
    pytest.param("0-7", [],                                  "0-7", "",                           id="nobody holds anything"),
    pytest.param("0-7", [hold("t", "8-9")],                  "0-7", "",                           id="others hold others"),
    pytest.param("0-7", [hold("t")],                         "0-7", "",                           id="in the shared pool nothing is alone"),
    pytest.param("0-7", [hold("t", "2-3,12")],               "0-1,4-7", "2-3 by alice (t, t1)",   id="a part of it"),
    pytest.param("0-7", [hold("t", "0"), hold("u", "5-6", user="bob")], "1-4,7", "0 by alice (t, t1) and 5-6 by bob (u, u1)", id="of two users"),
    pytest.param("0-7", [hold(f"h{n}", str(n)) for n in range(6)], "6-7", "and more by 2 others", id="of many"),
])  # fmt: skip
def test_cpus_of_others_are_left_out(cpus: str, holds: list[Hold], left: str, said: str) -> None:
    found = left_to_ranks(room(cpus), OtherHolds(tuple(holds)))
    assert isinstance(found, RankCpus)
    assert (format_ids(found.cpus), found.divided, found.remarks[0]) == (left, False, "before")
    assert said in "".join(found.remarks[1:])
    assert bool(said) == (len(found.remarks) > 1)


@pytest.mark.parametrize("divided", [False, True])
def test_where_nothing_is_left_it_says_who_has_it(divided: bool) -> None:  # noqa: FBT001 - a parameter
    found = left_to_ranks(room("0-3", divided=divided), OtherHolds((hold("t", "0-7"),)))
    assert isinstance(found, RankRefused)
    assert ("the launcher bound this rank to" in found.message) == divided
    assert "0-3 by alice (t, t1)" in found.message
    assert "--ignore-holds" in found.advice


def test_a_ledger_that_could_not_be_read_is_one_sentence() -> None:
    found = left_to_ranks(room("0-3"), OtherHolds(remark="what others hold is not known"))
    assert isinstance(found, RankCpus)
    assert found.remarks == ("before", "what others hold is not known")


def test_gpus_of_others_are_reported_by_hold() -> None:
    ids = [gpu_id(gpu) for gpu in DUAL.gpus]
    others = OtherHolds((hold("t", "", ids[0], ids[1]), hold("u", "0-3", user="bob"), hold("v", "", ids[3])))
    assert gpu_clashes(others, DUAL.gpus[2:3], DUAL.gpus) == ()
    one, two = gpu_clashes(others, DUAL.gpus, DUAL.gpus)
    assert one.startswith("GPU0 and GPU1 are held by alice (t, t1)")
    assert two.startswith("GPU3 is held by alice (v, v1)")
    assert "(free: GPU2)" in one
    assert "numawise run --gpus" in one


def test_a_part_of_a_gpu_is_the_gpu() -> None:
    others = OtherHolds((hold("t", "", f"{gpu_id(DUAL.gpus[0])}/MIG-1"),))
    assert len(gpu_clashes(others, DUAL.gpus[:1], DUAL.gpus[:1])) == 1
    assert "free:" not in gpu_clashes(others, DUAL.gpus[:1], DUAL.gpus[:1])[0]


def test_without_others_nothing_is_said() -> None:
    assert left_to_ranks(room("0-3"), NOBODY) == room("0-3")
    assert gpu_clashes(NOBODY, DUAL.gpus, DUAL.gpus) == ()

"""What a hold has to share out, and which parts of it steps get: the same decision as on a whole machine."""

import random
from collections.abc import Sequence

import pytest

from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.decide import place
from numawise.apps.launch.request import read_request
from numawise.apps.launch.steps import HoldShare, place_step, share_of
from numawise.errors import InputError
from numawise.ledger import record
from numawise.machine.synthetic import synthetic
from numawise.render.holds import hold_data, steps_of
from numawise.results.placement import Hold, NoRoom, Owner, Placement
from numawise.sets import format_ids
from numawise.values import replace

SERVER = capacity_of(synthetic("2s 2n 64c 2t 8gpu pairs 1024g"))
OWNER = Owner(0, "root", "boot", pid=2)


def hold_of(name: str = "job", **flags: object) -> Hold:
    placement = place(SERVER, (), read_request(**flags), name)  # type: ignore[arg-type]
    assert isinstance(placement, Placement)
    return Hold(name, name, OWNER, placement.grant)


def told(found: Placement | NoRoom) -> str:
    if isinstance(found, NoRoom):
        return found.reason
    gpus = "".join(gpu.name.removeprefix("GPU") for gpu in found.gpus)
    own = "" if found.grant.cpus else "shared "
    return f"{own}{format_ids(found.cpus)} | {format_ids(found.mems)} | {gpus}"


def step(share: HoldShare, steps: Sequence[Hold], parent: Hold, **flags: object) -> Hold | NoRoom:
    name = f"s{len(steps)}"
    placement = place_step(share, steps, read_request(**flags), name)  # type: ignore[arg-type]
    if isinstance(placement, NoRoom):
        return placement
    return Hold(name, name, OWNER, placement.grant, parent=parent.id)


@pytest.mark.parametrize(("hold", "asked", "expected"), [
    ({"cpus": "8", "gpus": 2},                  {"cpus": "4", "gpus": 1},      "1-2,65-66 | 0 | 0"),
    ({"cpus": "8", "gpus": 2},                  {"cpus": "8", "gpus": 2},      "1-4,65-68 | 0 | 01"),
    ({"cpus": "8", "gpus": 2},                  {},                            "shared 1-4,65-68 | 0 | "),
    ({"cpus": "8", "gpus": 2},                  {"gpu_ids": "1"},              "shared 1-4,65-68 | 0 | 1"),
    ({"cpus": "8", "gpu_ids": "4,5"},           {"cpus": "2", "gpu_ids": "0"}, "32,96 | 1 | 4"),
    ({"cpus": "8", "gpu_ids": "4,5"},           {"gpu_ids": "GPU5"},           "shared 32-35,96-99 | 1 | 5"),
    ({"cpus": "100", "gpus": 8},                {"cpus": "8", "gpus": 4},      "1-4,65-68 | 0 | 0123"),
    ({"cpus": "4", "memory": "8g"},             {"cpus": "1", "memory": "8g"}, "1 | 0 | "),
    ({"cpus": "4", "memory": "8g"},             {"cpus": "2.5"},               "shared 1-2,65-66 | 0 | "),
])  # fmt: skip
def test_a_part_of_a_hold(hold: dict[str, object], asked: dict[str, object], expected: str) -> None:
    parent = hold_of(**hold)
    share = share_of(SERVER, parent, (parent,))
    assert told(place_step(share, (), read_request(**asked), "s")) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("hold", "asked", "reason"), [
    ({"cpus": "8", "gpus": 2},      {"cpus": "9"},              "9 CPUs asked for, 8 free"),
    ({"cpus": "8", "gpus": 2},      {"gpus": 3},                "3 GPUs asked for, 2 of 2 free"),
    ({"cpus": "8"},                 {"gpus": 1},                "no usable GPU"),
    ({"cpus": "8", "gpu_ids": "4"}, {"gpu_ids": "GPU0"},        "is not a GPU"),
    ({"cpus": "4", "memory": "8g"}, {"memory": "9g"},           "9 GiB of memory asked for, 8 GiB free"),
])  # fmt: skip
def test_more_than_the_hold_has(hold: dict[str, object], asked: dict[str, object], reason: str) -> None:
    parent = hold_of(**hold)
    with pytest.raises(InputError, match=reason):
        place_step(share_of(SERVER, parent, (parent,)), (), read_request(**asked), "s")  # type: ignore[arg-type]


def test_steps_never_meet_and_never_leave_the_hold() -> None:
    """Laws, over random steps of random holds: what one has no other has, and all of it is the hold's."""
    chance = random.Random(14)
    for _ in range(40):
        parent = hold_of(cpus=str(chance.randrange(4, 60)), gpus=chance.randrange(1, 9), memory="64g")
        share = share_of(SERVER, parent, (parent,))
        steps: list[Hold] = []
        for _ in range(8):
            wish = {"cpus": str(chance.randrange(1, 9)), "memory": f"{chance.randrange(1, 16)}g"}
            if chance.random() < 0.5:
                wish["gpus"] = 1  # type: ignore[assignment]
            try:
                made = step(share, steps, parent, **wish)
            except InputError:
                continue
            if isinstance(made, Hold):
                assert record.taken_by(steps, made.grant) is None
                assert record.beyond(made.grant, parent.grant) == ""
                steps.append(made)
        promised = sum(part.size for one in steps for part in one.grant.memory)
        assert promised <= sum(part.size for part in parent.grant.memory)
        assert steps


def test_a_step_of_a_step() -> None:
    parent = hold_of(cpus="8", gpus=2)
    outer = step(share_of(SERVER, parent, (parent,)), (), parent, cpus="4", gpus=1)
    assert isinstance(outer, Hold)
    inner = share_of(SERVER, outer, (parent,))
    assert inner.title == "step s0 (s0)"
    assert told(place_step(inner, (), read_request(cpus="2", gpus=1), "x")) == "1,65 | 0 | 0"


# --- in the list ----------------------------------------------------------------------------------


def test_steps_stand_below_their_hold() -> None:
    parent = hold_of(cpus="8")
    one, two = (replace(parent, id=name, parent="job") for name in ("one", "two"))
    inner = replace(parent, id="inner", parent="one")
    other = replace(inner, id="other", owner=replace(OWNER, uid=7))
    assert [each.id for each in steps_of(parent, (one, two, inner, other))] == ["one", "inner", "two"]


def test_a_long_chain_of_steps_is_listed() -> None:
    parent = hold_of(cpus="8")
    chain = [replace(parent, id=f"c{at}", parent=f"c{at - 1}" if at else "job") for at in range(1024)]
    assert len(steps_of(parent, chain)) == 1024
    steps = hold_data(parent, SERVER, (parent,), chain[:50])["steps"]
    assert isinstance(steps, list)
    assert steps[0]["cpus"] == "1-4,65-68"


def test_one_without_cpus_of_its_own_is_listed_with_what_is_left() -> None:
    parent = hold_of(cpus="8")
    share = share_of(SERVER, parent, (parent,))
    alone = step(share, (), parent, cpus="4")
    assert isinstance(alone, Hold)
    loose = step(share, (alone,), parent)
    assert isinstance(loose, Hold)
    listed = hold_data(parent, SERVER, (parent,), (alone, loose))["steps"]
    assert isinstance(listed, list)
    assert [(one["cpus"], one["exclusive"]) for one in listed] == [("1-2,65-66", True), ("3-4,67-68", False)]

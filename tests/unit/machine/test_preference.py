"""What plugins answer to GetPreferredAllocation."""

import pytest

from numawise.machine.preference import (
    CRASHED,
    DISTRIBUTED,
    PACKED,
    LinkedGpus,
    LowestIds,
    SharedDevices,
)

PAIRS = LinkedGpus(
    tuple("abcdefgh"),
    tuple(
        tuple(0 if i == j else 50 if i // 2 == j // 2 else 20 if i // 4 == j // 4 else 10 for j in range(8))
        for i in range(8)
    ),
)
"""Two NUMA nodes with two pairs each."""
BRIDGED = LinkedGpus(
    tuple("abcde"),
    tuple(tuple(0 if i == j else 600 if {i, j} == {3, 4} else 10 for j in range(5)) for i in range(5)),
)
"""Only d and e have NVLinks."""
REPLICAS = [f"{gpu}::{i}" for gpu in "ab" for i in range(3)]


@pytest.mark.parametrize(("available", "must", "size", "expected", "open_to"), [
    ("abcd",     "",  2, "ab",   "abcd"),      # or c and d: both are pairs
    ("bcd",      "",  2, "cd",   ""),          # the only pair
    ("bcd",      "b", 2, "bc",   "bcd"),
    ("abcdefgh", "",  4, "abcd", "abcdefgh"),
    ("abceg",    "",  2, "ab",   ""),
    ("abcd",     "",  1, "a",    "abcd"),      # one alone: the first, here
    ("abcd",     "c", 1, "c",    ""),
    ("abcd",     "",  4, "abcd", ""),
    ("ab",       "",  3, "",     ""),          # too few
    ("abcd",     "ab", 1, "",    ""),          # too many that must be in
])  # fmt: skip
def test_whole_gpus(available: str, must: str, size: int, expected: str, open_to: str) -> None:
    answer = PAIRS.answer(PAIRS.gpus, set(available), set(must), size)
    assert (answer.ids, answer.open_to, answer.error) == (set(expected), set(open_to), "")


def test_links_of_later_jobs_count_as_much() -> None:
    """Not the pair with the best link, which would leave two without any."""
    chain = LinkedGpus(tuple("abcd"), ((0, 50, 0, 0), (50, 0, 60, 0), (0, 60, 0, 50), (0, 0, 50, 0)))
    assert chain.answer(chain.gpus, set("abcd"), (), 2).ids == set("ab")


def test_an_incomplete_set_that_is_the_best_crashes_the_plugin() -> None:
    answer = BRIDGED.answer(BRIDGED.gpus, set("abcde"), (), 3)
    assert (answer.ids, answer.error) == (set(), CRASHED)


def test_a_device_that_the_library_does_not_know_fails_the_call() -> None:
    answer = PAIRS.answer(PAIRS.gpus, {"a", "x"}, (), 1)
    assert "no device with uuid: x" in answer.error


def test_too_many_gpus_are_left_to_chance() -> None:
    names = tuple(map(str, range(20)))
    many = LinkedGpus(names, tuple((0,) * 20 for _ in names))
    answer = many.answer(names, names, (), 2)
    assert (answer.ids, answer.open_to) == (set(), set(names))


@pytest.mark.parametrize(("policy", "available", "must", "size", "expected"), [
    (DISTRIBUTED, REPLICAS,                      "",     2, "a::0 b::0"),
    (DISTRIBUTED, REPLICAS,                      "",     3, "a::0 b::0 a::1"),
    (DISTRIBUTED, REPLICAS[2:],                  "",     2, "b::0 b::1"),      # two of a are taken
    (DISTRIBUTED, REPLICAS,                      "a::2", 2, "a::2 b::0"),
    (PACKED,      REPLICAS,                      "",     2, "a::0 a::1"),
    (PACKED,      [*REPLICAS[:3], *REPLICAS[4:]], "",    2, "b::1 b::2"),
])  # fmt: skip
def test_replicas(policy: str, available: list[str], must: str, size: int, expected: str) -> None:
    answer = SharedDevices(policy).answer(REPLICAS, available, must.split(), size)
    assert answer.ids == set(expected.split())


def test_no_choice_is_not_reported_as_one() -> None:
    assert SharedDevices().answer(REPLICAS, REPLICAS, (), 6).open_to == set()
    assert SharedDevices().answer(REPLICAS, REPLICAS, (), 1).open_to == set(REPLICAS)
    assert SharedDevices().answer(["m1", "m2"], ["m1"], (), 1).open_to == set()


def test_too_few_replicas_fail_the_call() -> None:
    assert "not enough available devices" in SharedDevices().answer(REPLICAS, ["a::0"], (), 2).error


def test_lowest_ids() -> None:
    assert LowestIds().answer((), {"c", "b", "a"}, {"c"}, 2).ids == {"a", "c"}

"""Sets of NUMA nodes by what can be left out: many nodes, several amounts, and the end of a search."""

import random

import pytest

from numawise.engine import search
from numawise.engine.masks import fewest_nodes, masks_of
from numawise.engine.sparing import Keeper, Need
from numawise.engine.trimming import Trimming
from numawise.errors import SearchEnded

NODES = 32
EVERY = 2**NODES - 1


def need(amounts: list[int], least: int) -> Need:
    return Need(tuple((1 << node, amount) for node, amount in enumerate(amounts)), least)


def test_the_lowest_of_half_a_billion_masks() -> None:
    """The four richest nodes are the highest; one poor node can stand beside them."""
    amounts = [1] * 28 + [10] * 4
    lowest = next(masks_of(16, EVERY, [need(amounts, 52)]))
    assert lowest == 2**12 - 1 | 0b1111 << 28
    assert fewest_nodes(EVERY, [need(amounts, 41)]) == 5


def test_nodes_that_are_contained_are_fixed() -> None:
    lowest = next(masks_of(4, EVERY, [need([1] * NODES, 4)], containing=1 << 31 | 1 << 17))
    assert lowest == 1 << 31 | 1 << 17 | 0b11


def test_two_keepers_share_what_is_left_out() -> None:
    """Each keeper can spare ten nodes, together twenty."""
    keepers = [Keeper(EVERY, [need([1] * NODES, NODES - 10)]) for _ in range(2)]
    trimming = Trimming(EVERY, keepers)
    assert trimming.most() == 20
    assert next(trimming.masks(12)) == 2**12 - 1
    assert next(trimming.masks(11), 0) == 0


def test_quotas() -> None:
    """Two of the upper and eight of the lower half are left out: the highest of each."""
    trimming = Trimming(EVERY, [Keeper(EVERY, [need([1] * NODES, 22)])])
    upper, lower = 0xFFFF << 16, 0xFFFF
    assert next(trimming.masks(22, quotas=((upper, 2), (lower, 8)))) == 0xFF | 0x3FFF << 16


def test_several_amounts_against_all_masks() -> None:
    """The size and the lowest mask, beside trying all masks of ten nodes."""
    draw = random.Random(7)
    for _ in range(60):
        needs = []
        for _ in range(draw.randint(2, 3)):
            amounts = [draw.randint(0, 9) for _ in range(10)]
            needs.append(need(amounts, draw.randint(0, sum(amounts))))
        fitting = [mask for mask in range(1, 1024) if all(one.met_by(mask) for one in needs)]
        fewest = min((mask.bit_count() for mask in fitting), default=0)
        assert fewest_nodes(1023, needs) == fewest
        for size in range(max(fewest, 1), 11):
            expected = [mask for mask in fitting if mask.bit_count() == size]
            assert list(masks_of(size, 1023, needs)) == expected


def test_a_search_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 50)
    draw = random.Random(1)
    needs = [need([draw.randint(1, 10**9) for _ in range(NODES)], 6 * 10**9) for _ in range(3)]
    with pytest.raises(SearchEnded, match="not known"):
        Trimming(EVERY, [Keeper(EVERY, needs)]).most()

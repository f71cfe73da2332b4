"""Memory policies of this machine's kernel; machines with several NUMA nodes are in ``tests/vm``."""

import ctypes
import errno
import mmap
import os
from collections.abc import Callable

import pytest
from tests import needs
from tests.jobs import in_child, without_calls

from numawise.errors import HostError
from numawise.host import mempolicy as subject
from numawise.host.confine import allowed
from numawise.host.mempolicy import BIND, DEFAULT, INTERLEAVE, PREFERRED, STATIC_NODES, Policy
from numawise.sets import parse_ids

pytestmark = [
    needs.PROC,
    pytest.mark.skipif(
        bool(subject.problem()) or os.uname().machine not in subject.NUMBERS,
        reason="this process may not set memory policies",
    ),
]
PAGE = mmap.PAGESIZE
MEMS = allowed()[1] or 1
FIRST = (MEMS & -MEMS).bit_length() - 1
ONE = 1 << FIRST
"""The lowest NUMA node we may use."""


@pytest.mark.parametrize(("policy", "text"), [
    (Policy(),                               "default"),
    (Policy(BIND, 0b1011),                   "bind:0-1,3"),
    (Policy(INTERLEAVE, 1 << 70),            "interleave:70"),
    (Policy(6, 1),                           "weighted interleave:0"),
    (Policy(9, 1),                           "mode 9:0"),
])  # fmt: skip
def test_words(policy: Policy, text: str) -> None:
    assert str(policy) == text


@pytest.mark.parametrize("policy", [
    Policy(BIND, ONE),
    Policy(BIND, ONE, STATIC_NODES),
    Policy(PREFERRED, ONE),
    Policy(INTERLEAVE, ONE),
    Policy(subject.LOCAL),
    Policy(DEFAULT),
])  # fmt: skip
def test_what_is_set_is_read_back(policy: Policy) -> None:
    def look() -> Policy:
        subject.bind_memory(ONE)
        subject.set_mempolicy(policy.mode, policy.nodes, policy.flags)
        return subject.read_mempolicy()

    assert in_child(look) == policy


def test_children_inherit_it() -> None:
    def look() -> Policy:
        subject.bind_memory(ONE)
        found = in_child(subject.read_mempolicy)
        assert isinstance(found, Policy)
        return found

    assert in_child(look) == Policy(BIND, ONE)


@pytest.mark.parametrize(("nodes", "words"), [
    ("63",        "NUMA node 63 "),
    ("900-901",   "NUMA nodes 900-901 "),
    ("60000",     "NUMA node 60000 "),
])  # fmt: skip
def test_nodes_that_are_not_there(nodes: str, words: str) -> None:
    with pytest.raises(HostError, match=f"refused set_mempolicy for {words}") as caught:
        subject.bind_memory(parse_ids(nodes))
    assert "Mems_allowed_list" in caught.value.advice
    assert subject.read_mempolicy() == Policy()


def memory(pages: int) -> tuple[mmap.mmap, int]:
    area = mmap.mmap(-1, pages * PAGE)
    return area, ctypes.addressof(ctypes.c_char.from_buffer(area))


def test_a_mapping() -> None:
    area, address = memory(2)
    subject.mbind(address, PAGE, BIND, ONE, subject.MOVE)
    assert subject.read_mempolicy(address) == Policy(BIND, ONE)
    assert subject.read_mempolicy(address + PAGE) == Policy()
    with pytest.raises(HostError, match="mbind"):
        subject.mbind(address + 1, PAGE, BIND, ONE)
    assert len(area) == 2 * PAGE


def test_pages() -> None:
    area, address = memory(3)
    subject.mbind(address, 3 * PAGE, BIND, ONE)
    area[0] = area[PAGE] = 1
    pages = tuple(address + at * PAGE for at in range(3))
    assert subject.move_pages(0, pages) == [FIRST, FIRST, -errno.ENOENT]
    assert subject.move_pages(0, pages[:2], (FIRST, FIRST)) == [FIRST, FIRST]
    assert subject.move_pages(0, ()) == []
    with pytest.raises(ValueError, match="1 nodes for 2 pages"):
        subject.move_pages(0, pages[:2], (FIRST,))
    assert subject.migrate_pages(0, ONE, ONE) == 0
    with pytest.raises(HostError, match="move_pages failed: No such process"):
        subject.move_pages(1 << 29, pages)


X86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter is made for one processor")


@X86
@pytest.mark.parametrize(("call", "function"), [
    (238, lambda: subject.set_mempolicy(DEFAULT)),
    (239, subject.read_mempolicy),
    (256, lambda: subject.migrate_pages(0, 1, 1)),
    (279, lambda: subject.move_pages(0, (0,))),
])  # fmt: skip
def test_a_container_that_forbids_it(call: int, function: Callable[[], object]) -> None:
    with pytest.raises(HostError, match="is not permitted here") as caught:
        in_child(function, without_calls(call))
    assert "SYS_NICE" in caught.value.advice


@X86
@pytest.mark.parametrize(
    ("calls", "name"), [((), ""), ((238,), "set_mempolicy"), ((238, 239), "get_mempolicy")]
)
def test_whether_it_is_possible(calls: tuple[int, ...], name: str) -> None:
    said = in_child(subject.problem, without_calls(*calls))
    assert said.partition(" ")[0] == name


def test_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(subject.NUMBERS, os.uname().machine)
    with pytest.raises(
        HostError, match=f"get_mempolicy is not known for this processor \\({os.uname().machine}\\)"
    ):
        subject.read_mempolicy()

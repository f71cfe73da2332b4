import pytest

from numawise.codec.hardware.numactl import read
from numawise.errors import InputError
from numawise.machine.hardware import Hardware
from numawise.sets import format_ids

PRINT = """\
available: 2 nodes (0,8)
node 0 cpus: 0 1 2 3 16 17 128 129
node 0 size: 1024 MB
node 0 free: 12 MB
node 8 cpus:
node 8 size: 0 MB
node 8 free: 0 MB
node distances:
node   0   8
  0:  10  40
  8:  40  255
"""
GIB = 1 << 30


def nodes(found: Hardware) -> list[tuple[int, str, int | None, dict[int, int]]]:
    return [(node.id, format_ids(node.cpus), node.memory, dict(node.distances)) for node in found.numa]


WHOLE = [(0, "0-3,16-17,128-129", GIB, {0: 10, 8: 40}), (8, "", 0, {0: 40, 8: 255})]


@pytest.mark.parametrize("text", [
    pytest.param(PRINT,                                                  id="as printed"),
    pytest.param("# numactl -H\n" + PRINT.replace("\n", " \n"),          id="with the command"),
    pytest.param("".join(f"> >> {line}\n" for line in PRINT.splitlines()), id="quoted twice"),
    pytest.param("".join(f"    {line}\n" for line in PRINT.splitlines()), id="indented"),
    pytest.param(PRINT.replace("3 16", "3\n16"),                         id="wrapped"),
    pytest.param(PRINT.replace("128 129", "1\n28 129"),                  id="wrapped inside a number"),
    pytest.param(PRINT.replace("0 1 2 3 16 17 128 129", "0-3,16-17,128-129"), id="ranges"),
    pytest.param(PRINT.replace("1024 MB", "1 GB"),                       id="another unit"),
])  # fmt: skip
def test_print(text: str) -> None:
    found = read(text, "file")
    assert nodes(found) == WHOLE
    assert [(thread.cpu, thread.numa) for thread in found.threads][-1] == (129, 0)
    assert found.remarks == ()


@pytest.mark.parametrize(("old", "new", "place"), [
    pytest.param("2 3 16",      "2 30 16",    "node 0 cpus",           id="the list falls"),
    pytest.param("2 3 16",      "2 x 16",     "node 0 cpus",           id="no number"),
    pytest.param("1024 MB",     "much",       "node 0 size",           id="no amount"),
    pytest.param("  0:  10  40", "  0:  10",  "distances of node 0",   id="short row"),
    pytest.param("available: 2", "available: 3", "nodes",              id="a node is not listed"),
    pytest.param("node 8 cpus:", "node 8 cpus: 3", "node 8",           id="a CPU on two nodes"),
    pytest.param("node distances", "distances", "distances",           id="no table"),
    pytest.param("node 8 size: 0 MB\n", "",   "node 8",                id="no size"),
])  # fmt: skip
def test_damage(old: str, new: str, place: str) -> None:
    found = read(PRINT.replace(old, new), "file")
    assert place in [remark.place for remark in found.remarks]
    assert [node.id for node in found.numa] == [0, 8]


def test_show() -> None:
    text = "policy: default\npreferred node: current\nphyscpubind: 0 1 2 3 \ncpubind: 0 \nnodebind: 0 \nmembind: 0 1 \n"
    found = read(text, "file")
    assert found.host is not None
    assert (found.host.cpuset, found.host.mems) == (0b1111, 0b11)
    assert found.threads == ()


def test_no_nodes() -> None:
    assert read("available: 0 nodes ()\nNo distance information available.\n", "file").numa == ()


def test_two_prints() -> None:
    found = read(PRINT + PRINT.replace("1024", "2048"), "file")
    assert nodes(found) == WHOLE
    assert [remark.kind for remark in found.remarks] == ["odd"]


@pytest.mark.parametrize("text", ["", "numactl: command not found", "<numactl>", "node"])
def test_refusal(text: str) -> None:
    with pytest.raises(InputError, match="names no NUMA node"):
        read(text, "file")

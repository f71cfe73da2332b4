"""cAdvisor's machine info, as the kubelet gets it."""

import json
from typing import Any

import pytest

from numawise.codec.hardware.cadvisor import read
from numawise.errors import InputError
from numawise.machine.hardware import DIFFERS, Cache, MemoryNode, Thread

KIB = 1 << 10
L2 = {"id": 4, "size": 512 * KIB, "type": "Unified", "level": 2}
L1 = {"id": 4, "size": 32 * KIB, "type": "Data", "level": 1}


def core(number: int, *threads: int, uncore: int | None = None, **more: object) -> dict[str, Any]:
    caches = [] if uncore is None else [{"id": uncore, "size": 16 << 20, "type": "Unified", "level": 3}]
    found = {"core_id": number, "thread_ids": threads, "caches": [L1, L2], "uncore_caches": caches}
    return {**found, "socket_id": 0, **more}


def node(number: object, *cores: dict[str, Any], **more: object) -> dict[str, Any]:
    pages = [{"page_size": 2048, "num_pages": 7}, {"page_size": 1 << 20, "num_pages": 0}]
    found = {"node_id": number, "memory": 1 << 30, "hugepages": pages, "cores": cores, "caches": None}
    return {**found, "distances": [10, 21], **more}


def info(*nodes: dict[str, Any], **more: object) -> str:
    return json.dumps({"num_cores": 0, "memory_capacity": 5, "topology": nodes, **more})


TWO = info(
    node(0, core(0, 0, 4, uncore=1), core(1, 1, 5, uncore=1), core(2, 2, 6, uncore=2)),
    node(10, core(0, 3, 7, socket_id=1), caches=[{"id": 9, "size": 99, "type": "Unified", "level": 3}]),
)


def test_cores_and_caches() -> None:
    found = read(TWO)
    l2 = Cache(0b00100010, 512 * KIB, 4)
    assert found.threads[5] == Thread(
        5, core=1, socket=0, numa=0, siblings=0x22, l2=l2, l3=Cache(0x33, 16 << 20, 1)
    )
    assert found.threads[6].l3 == Cache(0x44, 16 << 20, 2)
    assert found.threads[7].l3 == Cache(0x88, 99, 9)
    assert (found.threads[3].socket, found.threads[3].numa) == (1, 10)
    assert (found.memory_capacity, found.sources) == (5, ("cadvisor",))


def test_nodes() -> None:
    found = read(TWO)
    assert found.numa[0] == MemoryNode(0, 0x77, 1 << 30, (("2Mi", 7), ("1Gi", 0)), ((0, 10), (10, 21)))


def test_distances_count_by_ascending_id() -> None:
    found = read(info(node(10, core(0, 0)), node(2, core(0, 1))))
    assert found.numa[0].distances == ((2, 10), (10, 21))


def test_old_versions_know_less() -> None:
    old = {"num_cores": 2, "topology": [{"node_id": 0, "cores": [{"core_id": 0, "thread_ids": [0, 1]}]}]}
    found = read(json.dumps(old))
    assert found.threads[1] == Thread(1, core=0, numa=0, siblings=3)
    assert found.numa == (MemoryNode(0, 3),)
    assert found.memory_capacity is None


def test_counts_that_do_not_add_up() -> None:
    found = read(info(node(0, core(0, 0)), num_cores=2, num_sockets=1))
    assert [(remark.kind, remark.place) for remark in found.remarks] == [(DIFFERS, "num_cores")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "has no topology"),
        ("[]", "has no topology"),
        ('{"topology": 3}', "has no topology"),
        (info(), "has no CPUs"),
        (info(node(0, core(0, 1)), node(0, core(0, 2))), "a NUMA node twice"),
        (info(node(0, core(0, 1), core(1, 1))), "CPU 1 is listed twice"),
        (info(node(0, core(0, 99999999))), r"topology\[0\].cores\[0\].thread_ids\[0\]: must be an integer"),
        (info(node("x", core(0, 1))), r"topology\[0\].node_id: must be an integer"),
        ('{"topology": [', "not valid JSON"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(text, "machine.json")

"""Measuring for real, in children that may fail in any way."""

import os
import signal
import time
from pathlib import Path

import pytest

from numawise.errors import HostError
from numawise.host import bandwidth as cuda
from numawise.host.bandwidth import PATIENCE, Rate, buffer_size, in_child, measure_memory
from numawise.host.mempolicy import problem
from tests import needs

MIB = 1 << 20


@pytest.mark.parametrize(("cache", "free", "size"), [
    (0,          64 << 30,  64 * MIB),
    (32 * MIB,   64 << 30,  64 * MIB),
    (96 * MIB,   64 << 30, 192 * MIB),
    (504 * MIB,  64 << 30, 1008 * MIB),
    (2 << 30,    64 << 30, 1024 * MIB),
    (32 * MIB,   200 * MIB,  50 * MIB),   # half of what is free, for two buffers
    (32 * MIB,   100 * MIB,   0),         # would fit into the cache
    (0,           63 * MIB,   0),
    (0,                  0,   0),
])  # fmt: skip
def test_buffers_are_larger_than_the_cache(cache: int, free: int, size: int) -> None:
    assert buffer_size(cache, free) == size
    assert 2 * buffer_size(cache, free) <= free / 2


def test_memory_is_measured() -> None:
    if problem():
        pytest.skip(problem())
    before = os.sched_getaffinity(0)
    cpu = min(before)
    (rate,) = measure_memory(cpu, [(0, 16 * MIB)], 0.1)
    assert rate.problem == ""
    assert rate.read > 10 * MIB
    assert rate.copy > 10 * MIB
    assert os.sched_getaffinity(0) == before


def test_places_that_do_not_exist() -> None:
    if problem():
        pytest.skip(problem())
    cpu = min(os.sched_getaffinity(0))
    (rate,) = measure_memory(cpu, [(63, 16 * MIB)], 0.1)
    assert rate.problem.startswith("the kernel refused mbind for NUMA node 63")
    (rate,) = measure_memory(1000, [(0, 16 * MIB)], 0.1)
    assert rate == Rate(0, problem="CPU 1000 may not be used from here (Invalid argument)")


def test_memory_that_cannot_be_had() -> None:
    (rate,) = measure_memory(min(os.sched_getaffinity(0)), [(-1, 1 << 60)], 0.1)
    assert rate.problem.endswith("MiB of memory cannot be allocated (Cannot allocate memory)")


@pytest.mark.parametrize(("work", "seconds", "words"), [
    (lambda: os.kill(os.getpid(), signal.SIGKILL), PATIENCE, "the process that measures was ended by signal 9"),
    (lambda: os._exit(3),                          PATIENCE, "the process that measures was ended early"),
    (lambda: 1 // 0,                               PATIENCE, "ZeroDivisionError"),
    (lambda: time.sleep(PATIENCE),                 0.3,      "took longer than 0 s and was ended"),
])  # fmt: skip
def test_children_that_fail(work: object, seconds: float, words: str) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text() if children.exists() else ""
    with pytest.raises(HostError, match=words):
        in_child(work, seconds)  # type: ignore[arg-type]
    assert (children.read_text() if children.exists() else "") == before  # nothing is left behind


@needs.PROC
def test_what_a_child_found() -> None:
    files = len(list(Path("/proc/self/fd").iterdir()))
    assert in_child(lambda: {"a": list(range(100_000))}, PATIENCE) == {"a": list(range(100_000))}
    assert len(list(Path("/proc/self/fd").iterdir())) == files


def test_no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "LIBRARY", "libnot-there.so.1")
    with pytest.raises(HostError, match=r"^CUDA is not installed \(libnot-there\.so\.1 cannot be loaded\)$"):
        cuda.measure_copies("0000:18:00.0", "GPU-1", min(os.sched_getaffinity(0)), [(0, 16 * MIB)], 0.1)

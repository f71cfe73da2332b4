"""How long the choice of GPUs takes: the slowest request for any number, out of any free ones."""

import random
import time
from collections.abc import Callable, Iterator, Sequence

from numawise.gpus.choose import GpuLinks, choices
from numawise.machine.hardware import Gpu
from numawise.machine.nearest import gpus_of
from numawise.machine.synthetic import synthetic

STATES = 8
ROUNDS = 3
KINDS = (10, 20, 30, 40, 50, 110, 220, 410)
"""Points of links, from SYS to four NVLinks."""


def gpu_choices() -> Iterator[tuple[str, float]]:
    """What was measured, and CPU milliseconds of its slowest call."""
    yield "choose of 8 GPUs in pairs, worst of all", slowest(_built("2s 2n 64c 8gpu pairs"))
    yield "choose of 16 GPUs in pairs, worst of all", slowest(_built("2s 2n 64c 16gpu pairs"))
    yield "choose of 16 GPUs, NVLink, 8 NUMA, worst of all", slowest(_built("2s 8n 64c 16gpu nvlink"))
    yield "choose of 16 GPUs in a cube of NVLinks, worst of all", slowest(_cube())
    yield "choose of 16 GPUs with any links, worst of all", slowest(_any_links(16))


def many_gpus() -> Iterator[tuple[str, float]]:
    """Likewise with more GPUs than any machine has."""
    yield "choose of 64 GPUs in pairs, 8 NUMA, worst of some", slowest(_built("2s 8n 64c 64gpu pairs"), 8)
    yield "choose of 64 GPUs with any links, worst of some", slowest(_any_links(64), 8)


def slowest(links: GpuLinks, step: int = 1) -> float:
    """CPU milliseconds of the slowest call, each the best of some rounds."""
    draw = random.Random(1)
    size = len(links.gpus)
    states = [links.every, *(draw.getrandbits(size) | draw.getrandbits(size) for _ in range(STATES))]
    calls = [
        _request(links, free, count) for free in states for count in range(1, free.bit_count() + 1, step)
    ]
    return max(min(_spent(call) for _ in range(ROUNDS)) for call in calls)


def _request(links: GpuLinks, free: int, count: int) -> Callable[[], object]:
    return lambda: choices(links, free, count)


def _spent(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return (time.process_time() - begin) * 1000


def _built(text: str) -> GpuLinks:
    hardware = synthetic(text)
    return GpuLinks.of(hardware, gpus_of(hardware))


def _linked(points: Sequence[Sequence[int]], numas: int) -> GpuLinks:
    size = len(points)
    return GpuLinks(
        gpus=tuple(Gpu(f"GPU{i}") for i in range(size)),
        numa=tuple(1 << i * numas // size for i in range(size)),
        points=tuple(map(tuple, points)),
        texts=tuple(("",) * size for _ in range(size)),
    )


def _cube() -> GpuLinks:
    """Two NVLinks to each of four neighbours."""
    near = [[20 if i // 8 == j // 8 else 10 for j in range(16)] for i in range(16)]
    points = [[near[i][j] + (200 if (i ^ j).bit_count() == 1 else 0) for j in range(16)] for i in range(16)]
    return _linked([[0 if i == j else points[i][j] for j in range(16)] for i in range(16)], 2)


def _any_links(size: int) -> GpuLinks:
    draw = random.Random(2)
    points = [[0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i):
            points[i][j] = points[j][i] = draw.choice(KINDS)
    return _linked(points, 4)


if __name__ == "__main__":
    for part in (gpu_choices, many_gpus):
        for what, spent in part():
            print(f"{what:60} {spent:9.3f} ms")

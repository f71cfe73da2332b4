"""The cluster on a page: the first answer about all nodes, what a change costs, and pods that found no place.

    python -m benchmarks.cluster_page [NODES]

The nodes are those of ``benchmarks.live_cluster``; times are CPU times of this process.
"""

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from benchmarks.live_cluster import SIZES, api_pod, objects
from benchmarks.machines import GPU
from numawise.apps.overview.board import ClusterBoard
from numawise.apps.why.stuck import StuckPods
from numawise.cluster.live import LiveCluster
from numawise.cluster.live_places import LivePlaces
from numawise.codec.web.body import to_bytes
from numawise.kube.client import Object
from numawise.results.cluster_board import BoardSource
from numawise.results.plain import plain

T = TypeVar("T")
NOW = 1000.0
SOURCE = BoardSource("files", "benchmark")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What came of it, and CPU milliseconds."""
    begin = time.process_time()
    result = work()
    return result, (time.process_time() - begin) * 1000


def measured(count: int) -> Iterator[str]:
    """One line for each question."""
    view, draw = LiveCluster(), random.Random(0)
    pods: list[Object] = []
    for api, text, own in objects(count, draw):
        view.take_node(api["metadata"]["name"], api, NOW)
        for value in own:
            view.take_pod(value, NOW)
        view.take_topology(api["metadata"]["name"], json.loads(text), NOW)
        pods += own
    for number in range(20):
        value = api_pod(f"waits-{number}", number % len(SIZES))
        if number % 2:
            value["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "16", "memory": "64Gi", GPU: "4"}
        view.take_pod(value, NOW)
        pods.append(value)
    board = ClusterBoard(view, lambda: NOW)
    first, spent = timed(lambda: board.answer(SOURCE))
    content, encoding = timed(lambda: to_bytes(plain(first)))
    states = len({member.token for member in view.members})
    yield f"{count} nodes, {len(pods)} pods, {states} states"
    yield f"  all nodes: {spent:.0f} ms, and {encoding:.0f} ms for {len(content) // 1000} kB of JSON"
    changes = []
    for held in draw.sample([pod for pod in pods if pod["spec"].get("nodeName")], min(20, count)):
        ended = {**held, "metadata": {**held["metadata"], "resourceVersion": "9"}}
        view.take_pod({**ended, "status": {"phase": "Succeeded"}}, NOW)
        known = first.version
        _, spent = timed(lambda known=known: to_bytes(plain(board.answer(SOURCE, since=known))))  # type: ignore[misc]
        first = board.answer(SOURCE)
        changes.append(spent)
    yield f"  a change: median {sorted(changes)[len(changes) // 2]:.0f} ms, longest {max(changes):.0f} ms"
    stuck = StuckPods(view, lambda: NOW, threading.RLock(), lambda: pods)
    _, spent = timed(lambda: stuck.report(SOURCE, budget=3600.0))
    _, again = timed(lambda: stuck.report(SOURCE))
    yield f"  20 pods that wait, 6 shapes: {spent:.0f} ms, again {again:.0f} ms"
    places = LivePlaces(view)
    report, spent = timed(lambda: places.report((), 64, lambda: NOW, reasons=False))
    yield f"  what fits, {len(report.shapes)} shapes: {spent:.0f} ms"


if __name__ == "__main__":
    for size in map(int, sys.argv[1:] or ("100", "1000", "5000")):
        for line in measured(size):
            print(line)

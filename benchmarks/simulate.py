"""Queues of thousands of pods on one node and on hundreds: ``python -m benchmarks.simulate``."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.machines import GPU, even, node
from numawise.apps.simulate.fleet import CHOICES, fleet_of, send
from numawise.apps.simulate.scenario import run_scenario, script
from numawise.codec.pod import pod_from, unique_uids
from numawise.render.simulation import notes, simulation_data, table_rows
from numawise.request.defaults import RawPod

PODS, NODES = 5000, 200
SHAPES = (
    {"cpu": "500m", "memory": "64Mi"},
    {"cpu": "4", "memory": "8Gi", GPU: "1"},
    {"cpu": "2", "memory": "4Gi"},
    {"cpu": "16", "memory": "32Gi", GPU: "2"},
    {"cpu": "250m", "memory": "32Mi"},
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One queue."""

    what: str
    milliseconds: float
    """Of CPU time for one pod."""
    note: str


def queue(count: int) -> tuple[RawPod, ...]:
    """Pods of several shapes in turn."""
    return unique_uids(
        pod_from(
            {
                "metadata": {"name": f"p{number}"},
                "spec": {
                    "containers": [{"name": "c", "resources": {"limits": SHAPES[number % len(SHAPES)]}}]
                },
            }
        )
        for number in range(count)
    )


def one_node() -> Iterator[Measured]:
    """All pods on one node; most are refused once it is full."""
    pods = queue(PODS)
    kubelet = node(even(2, 128, 8), "restricted")
    begin = time.process_time()
    found = run_scenario(kubelet, script(pods, ()))
    spent = time.process_time() - begin
    yield _measured(f"{PODS} pods on one node", spent, PODS, f"{found.admitted} admitted")
    begin = time.process_time()
    table_rows(found, steps=False)
    notes(found)
    spent = time.process_time() - begin
    yield _measured("  its table and notes", spent, PODS, "")
    begin = time.process_time()
    simulation_data(found, steps=False)
    spent = time.process_time() - begin
    yield _measured("  its JSON, before writing", spent, PODS, "")


def many_nodes() -> Iterator[Measured]:
    """All pods before many nodes, in each order of choice."""
    pods = queue(PODS)
    for choice in CHOICES:
        kubelet = node(even(2, 128, 8), "restricted")
        fleet = fleet_of([([f"n{number}" for number in range(NODES)], kubelet)], choice)
        begin = time.process_time()
        send(fleet, pods)
        spent = time.process_time() - begin
        yield _measured(
            f"{PODS} pods, {NODES} nodes, {choice}", spent, PODS, f"{fleet.result().placed} placed"
        )


def _measured(what: str, seconds: float, count: int, note: str) -> Measured:
    rate = f"{count / seconds:,.0f} pods/s"
    return Measured(what, seconds / count * 1000, f"{rate}, {note}" if note else rate)


def queues() -> Iterator[Measured]:
    """Every measurement."""
    yield from one_node()
    yield from many_nodes()


if __name__ == "__main__":
    for row in queues():
        print(f"{row.what:36} {row.milliseconds:8.3f} ms a pod  {row.note}")

"""What a watcher costs: 250 containers in control groups of this kernel, looked at for a while.

    python -m benchmarks.watch [--containers 250] [--seconds 120]

Needs root.  The groups are real ones, without processes; machine and record of the kubelet are made up: two
sockets with 64 cores of two threads each, every fifth container with CPUs of its own.
"""

import argparse
import asyncio
import io
import os
import tempfile
import time
from pathlib import Path

from tests.watched import RealGroups, WatchedNode

from numawise.apps.agent.drift_reports import DriftReports
from numawise.apps.agent.watching import Watcher, WatchPlan
from numawise.machine.synthetic import synthetic
from numawise.service.log import ServiceLog

LOOKS = 20


def cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system


def fill(node: WatchedNode, groups: RealGroups, count: int) -> None:
    """Containers that have what they were granted: here all of them what this machine has."""
    cpus = (Path("/", groups.trees.cpuset) / groups.trees.effective[0]).read_text().strip()
    mems = (Path("/", groups.trees.cpuset) / groups.trees.effective[1]).read_text().strip()
    node.pool = cpus
    for number in range(count):
        pod = f"p{number:03}"
        if number % 5 == 0:
            node.cpus[pod] = cpus
        groups.put(pod, cpus, mems)
    for number in range(count):
        node.add(f"p{number:03}")


async def measure(watcher: Watcher, seconds: float) -> None:
    await watcher.start()
    started = cpu_seconds()
    await watcher.look()
    print(f"first look at {len(watcher.checks)} containers: {cpu_seconds() - started:.3f} s of CPU")
    for name, at in (("memory too", float("-inf")), ("cpusets", time.monotonic())):
        started = cpu_seconds()
        for _ in range(LOOKS):
            watcher._pages_at = at  # noqa: SLF001 - what a minute does
            await watcher.look()
        print(f"a look, {name}: {(cpu_seconds() - started) / LOOKS * 1000:.1f} ms of CPU")
    tasks = [asyncio.create_task(task) for task in watcher.tasks()]
    started, begin = cpu_seconds(), time.monotonic()
    await asyncio.sleep(seconds)
    share = (cpu_seconds() - started) / (time.monotonic() - begin)
    print(f"idle for {seconds:.0f} s: {share:.2%} of a core")
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await watcher.stop()


class Still:
    """A kubelet that nothing happens to."""

    def __init__(self, node: WatchedNode) -> None:
        self.last = node.last


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--containers", type=int, default=250)
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, RealGroups("numawise-bench") as groups:
        node = WatchedNode(Path(folder), synthetic("2s 2n 128c 2t 8gpu 1024g"))
        fill(node, groups, given.containers)
        log = ServiceLog(io.StringIO(), structured=True)
        plan = WatchPlan(str(node.kubelet_dir))
        watcher = Watcher(plan, Still(node), log, DriftReports(log))
        asyncio.run(measure(watcher, given.seconds))


if __name__ == "__main__":
    main()

"""How many pods a second the real scheduler binds with our extender, beside one that says yes to all.

Rules kept here:

1. Both in one cluster, one after the other and twice in turn: yes, ours, ours, yes.  The ratio is of the sums, so that what
   else the machine does in the meantime falls on both.
2. Nodes are made by the lab, which is then killed: they stay as they are, bound pods are never admitted, and our
   extender has to keep count of all of them by itself.  That is harder for it than nodes that publish.
3. The pods are there before the scheduler starts.  The time runs from the first binding to the last.
4. The scheduler's own limit of requests is lifted, and it looks at all nodes.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from e2e.book import PodLine
from e2e.mixed_pods import GPU, KUBELETS, mixed_pods, write_nodes
from e2e.schedulers import OURS
from e2e.settings import Settings
from e2e.world import World, cpu_seconds, memory

GOAL = 0.8
YES_PORT = 9543
ORDER = ("yes", "ours", "ours", "yes")
LONGEST, STANDS_STILL = 600.0, 30.0


def measured(settings: Settings, size: int) -> dict[str, Any]:
    """Pods a second at so many nodes."""
    count = min(settings.pods, 400 if size >= 2000 else 1000)
    with World(settings.programs, None, settings.scratch / f"throughput-{size}", lifecycle=False) as world:
        write_nodes(world.folder / "nodes", 10)
        options = (
            "--kubelet-config",
            str(world.folder / "nodes/single-pod.yaml"),
            "--kube",
            settings.release,
        )
        assert "single-pod" in KUBELETS
        world.lab([f"2s 8n 96c 2t 8gpu:{size}"], *options, count=size, seconds=900)
        world.plane.stop("lab", kill=True)
        certificate = world.certificate()
        keys = (str(certificate), str(certificate.with_suffix(".key")))
        world.plane.start("yes", "-m", "e2e.yes", str(YES_PORT), *keys, program=Path(sys.executable))
        world.extender("--unpublished", "hold")
        rounds = [_round(world, settings, which, number, count) for number, which in enumerate(ORDER)]
        extender = world.plane.running["extender"].pid
        rates = {
            which: sum(one["pods"] for one in rounds if one["extender"] == which)
            / max(0.001, sum(one["seconds"] for one in rounds if one["extender"] == which))
            for which in ("yes", "ours")
        }
        return {
            "nodes": size,
            "rates": {which: round(rate, 1) for which, rate in rates.items()},
            "ratio": round(rates["ours"] / rates["yes"], 3) if rates["yes"] else 0.0,
            "megabytes": memory(extender, "VmHWM"),
            "rounds": rounds,
        }


def _round(world: World, settings: Settings, which: str, number: int, count: int) -> dict[str, Any]:
    prefix = f"r{number}-"
    pods = mixed_pods(settings.seed + number, count, ending=0)
    pods = [one for one in pods if _fits_one_numa(one)]
    for one in pods:
        one["metadata"]["name"] = prefix + one["metadata"]["name"]
    world.create(pods)

    def mine(line: PodLine) -> bool:
        return line.name.startswith(prefix)

    def bound() -> bool:
        return world.book.count(lambda line: mine(line) and bool(line.node)) >= len(pods)

    begin_ours = cpu_seconds(world.plane.running["extender"].pid)
    url = "" if which == "ours" else f"https://127.0.0.1:{YES_PORT}"
    world.scheduler(OURS, url=url)
    scheduler = world.plane.running["kube-scheduler-default-scheduler"]
    end, last, moved = time.monotonic() + LONGEST, 0, time.monotonic()
    while not bound() and time.monotonic() < min(end, moved + STANDS_STILL):
        time.sleep(0.2)
        count = world.book.count(lambda line: mine(line) and bool(line.node))
        if count != last:
            last, moved = count, time.monotonic()
    spent = cpu_seconds(scheduler.pid)
    world.plane.stop("kube-scheduler-default-scheduler")
    times = sorted(line.bound for line in world.book.lines() if mine(line) and line.bound)
    world.remove(line.name for line in world.book.lines() if mine(line) and not line.gone)
    return {
        "extender": which,
        "pods": len(times),
        "of": len(pods),
        "seconds": round(times[-1] - times[0], 2) if times else 0.0,
        "scheduler_cpu_ms": round(spent / max(1, len(times)) * 1000, 2),
        "extender_cpu_ms": round(
            (cpu_seconds(world.plane.running["extender"].pid) - begin_ours) / max(1, len(times)) * 1000, 2
        ),
    }


def _fits_one_numa(pod: dict[str, Any]) -> bool:
    """The nodes have 24 CPUs, 64 GiB and a GPU on each NUMA node."""
    asked = [one["resources"]["requests"] for one in pod["spec"]["containers"]]
    return sum(int(one["cpu"]) for one in asked) <= 16 and sum(int(one.get(GPU, 0)) for one in asked) <= 1


def table(results: Sequence[dict[str, Any]]) -> str:
    """A line for each size."""
    rows = [f"{'NODES':>6} {'YES TO ALL':>12} {'OURS':>12} {'RATIO':>6} {'MEMORY':>8}"]
    for result in results:
        yes, ours = result["rates"]["yes"], result["rates"]["ours"]
        rows.append(
            f"{result['nodes']:6} {yes:8.1f} /s  {ours:8.1f} /s  {result['ratio']:6.2f} {result['megabytes']:5} MB"
        )
    return "\n".join(rows)

"""A fleet of CI runners by four schedulers: whom kubelets refuse, and how long jobs wait.

Rules kept here:

1. A trace is a line of JSON for each job: ``at`` and ``seconds``, ``gpus``, ``cpu``, ``memory``.  One is made up by the
   seed when none is named.
2. Time is compressed by ``factor``: a job that comes at 3,600 s of the trace comes after 30 s, and runs as much shorter.
   What does not shrink with it is the programs' own time: some hundredths of a second for each pod are some seconds of
   the trace, the same for all four, and the scheduler's shortest back-off, one second, is two minutes of it (a pod that
   is not the only one to be tried may wait that long after a try that failed).
3. A refused job is made anew 30 s of trace time later under another name, as its dispatcher would; the refused pod is
   removed.  A job that ended is removed.
4. A job has waited from when its first pod was made until one of its pods was bound that then ran.  How much later than
   in the trace pods were made is counted by itself (``behind``).
"""

import heapq
import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from benchmarks.cluster import jobs

from e2e.book import PodLine
from e2e.judged import history, managers_program, played, scenario
from e2e.mixed_pods import pod, sized
from e2e.schedulers import OURS, Back
from e2e.settings import Settings
from e2e.world import NUMAWISE, PODS, World

NODES = 20
RETRY = 30.0
PATIENCE = 300.0
LONGEST_TAIL = 300.0
KUBELET = {
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "pod",
    "reservedSystemCPUs": "0,1,96,97",
}


@dataclass
class Job:
    """A job of the trace, and its pods."""

    at: float
    gpus: int
    cpu: str
    memory: str
    seconds: float
    tries: int = 0
    refusals: int = 0
    made: float = 0.0
    """In seconds of the trace."""
    waited: float | None = None
    reasons: list[str] = field(default_factory=list)


def read_trace(path: Path | None, seed: int) -> list[Job]:
    """The jobs of a file, or made up (rule 1)."""
    if path is None:
        return [Job(at, gpus, str(22 * gpus), f"{225 * gpus}Gi", seconds) for at, gpus, seconds in jobs(seed)]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Job(row["at"], row["gpus"], row["cpu"], row["memory"], row["seconds"]) for row in rows]


def write_fleet(folder: Path, nodes: int) -> Path:
    """20 servers: 2 sockets, 2 NUMA nodes, 96 cores with two threads, 2 TiB, 8 GPUs."""
    folder.mkdir(parents=True, exist_ok=True)
    cpus = [
        {"cpu": cpu, "core": cpu % 48, "socket": cpu % 96 // 48, "numa": cpu % 96 // 48} for cpu in range(192)
    ]
    machine = {
        "cpus": cpus,
        "numa": [
            {"id": 0, "memory": 2**40, "distances": [10, 21]},
            {"id": 1, "memory": 2**40, "distances": [21, 10]},
        ],
        "memory_capacity": 2**41,
        "devices": {"nvidia.com/gpu": {"devices": [{"id": f"GPU{i}", "numa": [i // 4]} for i in range(8)]}},
    }
    header = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    (folder / "machine.yaml").write_text(yaml.safe_dump(machine))
    (folder / "kubelet.yaml").write_text(yaml.safe_dump(header | KUBELET))
    listed = folder / "nodes.yaml"
    row = {"name": "runner", "machine": "machine.yaml", "kubelet": "kubelet.yaml", "count": nodes}
    listed.write_text(yaml.safe_dump({"nodes": [row]}))
    return listed


class Dispatcher:
    """Makes the pods of jobs in their time, and refused ones again (rules 2 and 3)."""

    def __init__(self, world: World, jobs: Sequence[Job], factor: float) -> None:
        self.world, self.jobs, self.factor = world, jobs, factor
        self.due = [(job.at, number) for number, job in enumerate(jobs)]
        heapq.heapify(self.due)
        self.news = threading.Condition()
        self.remove: list[str] = []
        self.cleaning = ThreadPoolExecutor(1)
        self.begin = 0.0
        world.book.say = self.hear

    def now(self) -> float:
        """Seconds of the trace."""
        return (time.monotonic() - self.begin) * self.factor

    def hear(self, line: PodLine, what: str) -> None:
        """News of the book, in its thread."""
        if what not in ("Running", "Succeeded", "Failed") or not line.name.startswith("job-"):
            return
        job = self.jobs[int(line.name.split("-")[1])]
        if line.started and job.waited is None:
            job.waited = max(0.0, (line.bound - self.begin) * self.factor - job.made)
        with self.news:
            if line.refused:
                job.refusals += 1
                job.reasons.append(line.reason)
                heapq.heappush(self.due, (self.now() + RETRY, int(line.name.split("-")[1])))
            if what != "Running":
                self.remove.append(line.name)
            self.news.notify()

    def run(self) -> bool:
        """Until every job has run; False: some did not in time."""
        self.begin = time.monotonic()
        last = max(job.at for job in self.jobs)
        while any(job.waited is None for job in self.jobs):
            if self.now() > last + LONGEST_TAIL * self.factor:
                return False
            with self.news:
                wait = (self.due[0][0] - self.now()) / self.factor if self.due else 1.0
                if wait > 0 and not self.remove:
                    self.news.wait(min(wait, 1.0))
                ready = []
                while self.due and self.due[0][0] <= self.now():
                    ready.append(heapq.heappop(self.due)[1])
                removed, self.remove = self.remove, []
            for number in ready:
                self.make(number)
            for name in removed:
                self.cleaning.submit(self.clean, name)
        return True

    def clean(self, name: str) -> None:
        self.world.api.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")

    def make(self, number: int) -> None:
        job = self.jobs[number]
        name = f"job-{number:05}-{job.tries}"
        job.made = job.made or self.now()
        job.tries += 1
        self.world.make(pod(name, [sized(job.cpu, job.memory, job.gpus)], seconds=job.seconds))


def fleet_run(settings: Settings, kind: str) -> dict[str, Any]:
    """The whole trace by one scheduler."""
    trace = read_trace(settings.trace, settings.seed)
    factor, folder = settings.factor, settings.out / "fleet" / kind
    with World(settings.programs, settings.matching, settings.scratch / f"fleet-{kind}") as world:
        nodes = write_fleet(world.folder / "nodes", NODES)
        world.lab(nodes, "--kube", settings.release, "--time-factor", str(factor), count=NODES)
        world.daemons()
        if kind == OURS:
            world.extender("--patience", str(PATIENCE / factor))
        world.scheduler(kind, Back(1, 1))
        dispatcher = Dispatcher(world, trace, factor)
        begin = time.monotonic()
        complete = dispatcher.run()
        took = time.monotonic() - begin
        folder.mkdir(parents=True, exist_ok=True)
        world.book.write(folder / "pods.jsonl")
        return {
            "scheduler": kind,
            "factor": factor,
            "jobs": len(trace),
            "complete": complete,
            "seconds": round(took),
            "refusals": sum(job.refusals for job in trace),
            "reasons": dict(Counter(reason for job in trace for reason in job.reasons)),
            "never": sum(job.waited is None for job in trace),
            "waits": waits_of(trace),
            "at_once": _at_once(trace),
            "behind": round(sum(job.made - job.at for job in trace) / len(trace), 1),
            "replayed": replayed(settings, world.book.lines(), world.folder / "nodes/machine.yaml"),
        }


def waits_of(trace: Sequence[Job]) -> dict[str, dict[str, float]]:
    """By GPUs: how long jobs waited, in seconds of the trace."""
    found = {}
    for gpus in (4, 2, 1):
        waits = sorted(job.waited for job in trace if job.gpus == gpus and job.waited is not None)
        found[str(gpus)] = {
            "jobs": len(waits),
            "median": round(waits[len(waits) // 2], 1) if waits else 0.0,
            "mean": round(sum(waits) / len(waits), 1) if waits else 0.0,
            "95 %": round(waits[int(0.95 * len(waits))], 1) if waits else 0.0,
        }
    return found


def _at_once(trace: Sequence[Job]) -> float:
    """How long the quickest tenth of jobs waited: what the programs themselves take, in seconds of the trace."""
    waits = sorted(job.waited for job in trace if job.waited is not None)
    return round(waits[len(waits) // 10], 1) if waits else 0.0


def replayed(settings: Settings, lines: Sequence[PodLine], machine: Path) -> dict[str, Any]:
    """Every node's history through the kubelet's own code."""
    nodes = sorted({line.node for line in lines if line.node})
    given = []
    for node in nodes:
        steps = history(node, lines)
        given.append((scenario(node, str(machine), KUBELET, settings.release, steps), steps))
    plays = played(managers_program(settings.cache, settings.release), given)
    return {
        "nodes": len(plays),
        "pods": sum(play.pods for play in plays),
        "refused": sum(play.refused for play in plays),
        "reordered": sum(play.reordered for play in plays),
        "differences": [f"{play.node}: {words}" for play in plays for words in play.differences],
    }


def simulated(settings: Settings) -> list[dict[str, Any]]:
    """The same trace without a cluster: ``simulate --cluster``."""
    folder = settings.scratch / "simulated"
    nodes, trace = write_fleet(folder, NODES), folder / "trace.jsonl"
    keys = ("at", "gpus", "cpu", "memory", "seconds")
    with trace.open("w") as file:
        for job in read_trace(settings.trace, settings.seed):
            file.write(json.dumps({key: getattr(job, key) for key in keys}) + "\n")
    command = [str(NUMAWISE), "simulate", "--nodes", str(nodes), "--cluster", str(trace), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = []
    for choice in json.loads(done.stdout)["choices"]:
        waits = {
            str(shape["shape"]["resources"]["nvidia.com/gpu"]): {
                "jobs": shape["started"],
                "median": shape["median"],
                "mean": shape["mean"],
                "95 %": shape["p95"],
            }
            for shape in choice["shapes"]
        }
        found.append(
            {"name": f"simulated {choice['choice']}", "refusals": choice["refusals"], "waits": waits}
        )
    return found


def simulated_table(results: Sequence[dict[str, Any]]) -> str:
    """A line for each choice."""
    rows = []
    for result in results:
        four, two, one = (result["waits"][gpus] for gpus in ("4", "2", "1"))
        rows.append(
            f"{result['name']:26} {result['refusals']:6}  4 GPU: {four['median']:.0f}, {four['mean']:.0f}, "
            f"{four['95 %']:.0f} s; 2 GPU: {two['mean']:.0f} s; 1 GPU: {one['mean']:.0f} s"
        )
    return "\n".join(rows)


def table(results: Sequence[dict[str, Any]]) -> str:
    """A line for each scheduler; waiting in seconds of the trace."""
    head = (
        f"{'SCHEDULER':16} {'REFUSED':>8} {'4 GPU: MEDIAN':>14} {'MEAN':>7} {'95 %':>7} {'2 GPU: MEAN':>12} "
    )
    rows = [f"{head}{'1 GPU: MEAN':>12} {'NEVER':>6} {'AT ONCE':>8}  REPLAYED"]
    for result in results:
        four, two, one = (result["waits"][gpus] for gpus in ("4", "2", "1"))
        again = result["replayed"]
        rows.append(
            f"{result['scheduler']:16} {result['refusals']:8} {four['median']:12.0f} s {four['mean']:5.0f} s "
            f"{four['95 %']:5.0f} s {two['mean']:10.0f} s {one['mean']:10.0f} s {result['never']:6} "
            f"{result['at_once']:6.1f} s  {again['pods']} pods, {len(again['differences'])} differ"
        )
    return "\n".join(rows)

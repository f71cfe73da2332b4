"""Mixed pods on many kinds of nodes, by one scheduler after the other: whom kubelets refuse, and who is left waiting."""

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from e2e.book import PodLine
from e2e.cluster import TOPOLOGIES
from e2e.judged import history, left_waiting, managers_program, played, scenario
from e2e.mixed_pods import KUBELETS, SILENT, kind_of, mixed_pods, pod, sized, write_nodes
from e2e.schedulers import OURS
from e2e.settings import Settings
from e2e.world import World, cpu_seconds, memory

RATE = 20.0
KILLED_FOR = 10.0
SAMPLE = 20


@dataclass(frozen=True)
class MixedRun:
    """One run: the same pods, in the same order, for every scheduler."""

    name: str
    scheduler: str = OURS
    delay: float = 0.0
    loss: float = 0.0
    unpublished: str = "hold"
    kill: bool = False
    """The extender is killed in the middle, and started again."""
    foreign: float = 0.0
    """A share of pods that somebody else binds, to a node by chance."""
    restart_server: bool = False
    malicious: bool = False
    """Somebody writes nonsense into the object of the node that publishes nothing."""
    schedulers: int = 1
    """So many schedulers; each has an extender of its own."""
    size: float = 1.0
    """Of the nodes and pods that were asked for, this share."""


def mixed_run(settings: Settings, run: MixedRun) -> dict[str, Any]:
    """Play it, and say what became of the pods."""
    nodes, pods = max(10, int(settings.nodes * run.size)), max(20, int(settings.pods * run.size))
    settings = replace(settings, nodes=nodes, pods=pods)
    folder = settings.out / "mixed" / run.name
    with World(settings.programs, settings.matching, settings.scratch / run.name) as world:
        every, silent = write_nodes(world.folder / "nodes", settings.nodes)
        options = ["--kube", settings.release]
        lossy = ["--publish-delay", str(run.delay), "--publish-loss", str(run.loss)]
        world.lab(every, *options, *(lossy if run.delay or run.loss else ()), count=settings.nodes - 1)
        world.lab(silent, *options, "--publish", "none", name="lab-silent", count=1)
        world.daemons()
        names = ["default-scheduler", *(f"scheduler-{number}" for number in range(1, run.schedulers))]
        for number, name in enumerate(names):
            port = 9443 + 10 * number
            if run.scheduler == OURS:
                extender = "extender" + (f"-{number}" if number else "")
                world.extender("--unpublished", run.unpublished, port=port, name=extender)
            world.scheduler(run.scheduler, name=name, port=port)
        manifests = mixed_pods(settings.seed, settings.pods)
        for number, one in enumerate(manifests):
            one["spec"]["schedulerName"] = names[number % len(names)]
        begin = time.monotonic()
        down = _Down()
        fault = threading.Thread(target=_faults, args=(world, run, settings, down), daemon=True)
        fault.start()
        world.create(manifests, RATE)
        fault.join()
        rested = world.quiet(15, 240)
        took = time.monotonic() - begin
        folder.mkdir(parents=True, exist_ok=True)
        world.book.write(folder / "pods.jsonl")
        result = asdict(run) | _counted(world, settings, down) | {"seconds": round(took), "rested": rested}
        result |= _programs(world)
        result["replayed"] = replayed(settings, world.book.lines(), SAMPLE)
        return result


class _Down:
    """When the extender was not there."""

    begin = end = 0.0

    def has(self, line: PodLine) -> bool:
        return bool(self.begin) and self.begin <= line.bound <= (self.end or float("inf"))


def _faults(world: World, run: MixedRun, settings: Settings, down: _Down) -> None:
    """What happens in the middle of a run."""
    middle = settings.pods // 2

    def came() -> bool:
        return world.book.count(lambda line: line.name.startswith("p")) >= middle

    if run.malicious:
        _write_nonsense(world)
    if run.foreign:
        _bind_foreign(world, settings, int(settings.pods * run.foreign))
    if not (run.kill or run.restart_server):
        return
    while not came():
        time.sleep(0.2)
    if run.restart_server:
        world.plane.stop("kube-apiserver")
        time.sleep(3)
        world.plane.start_again("kube-apiserver")
        world.plane.wait_for_server()
    if run.kill:
        down.begin = time.monotonic()
        world.plane.stop("extender", kill=True)
        time.sleep(KILLED_FOR)
        world.plane.start_again("extender")
        world.wait_for_extender()
        down.end = time.monotonic()


def _write_nonsense(world: World) -> None:
    """An object that looks like ours, on the node that publishes nothing: more than any machine has, and broken state."""
    published = world.listed(TOPOLOGIES)[0]
    nonsense = json.loads(json.dumps(published))
    nonsense["metadata"] = {"name": "silent"}
    for zone in nonsense["zones"]:
        for resource in zone.get("resources") or ():
            resource |= dict.fromkeys(("capacity", "allocatable", "available"), "99999999999")
    for attribute in nonsense.get("attributes") or ():
        attribute["value"] = "{" * 3000 if len(attribute["value"]) > 100 else "-1e309"
    status, answer = world.api.ask("POST", TOPOLOGIES, nonsense)
    assert status == 201, answer


def is_right(result: dict[str, Any]) -> bool:
    """A run of ours: nothing was refused but where nothing could be known, and nobody waits who need not."""
    excused = result["refused_without_extender"]
    excused += result["refused_on_silent_node"] if result["unpublished"] == "pass" else 0
    strict = not (result["foreign_pods"] or result["schedulers"] > 1)
    refused = result["refused"] <= excused if strict else True
    return refused and not result["waiting_although"] and not result["replayed"]["differences"]


def _bind_foreign(world: World, settings: Settings, count: int) -> None:
    """Pods that come with a node, as DaemonSets of old or another scheduler make them."""
    nodes = sorted(item["metadata"]["name"] for item in world.listed("/api/v1/nodes"))
    for number in range(count):
        node = nodes[(number * 37 + settings.seed) % len(nodes)]
        world.make(pod(f"foreign-{number:03}", [sized(2, "4Gi")], nodeName=node))
        time.sleep(settings.pods / RATE / count)


def _counted(world: World, settings: Settings, down: _Down) -> dict[str, Any]:
    lines = world.book.lines()
    own = [line for line in lines if not (line.name.startswith("foreign") or line.is_daemon)]
    refused = [line for line in own if line.refused]
    waiting = [line for line in own if line.waits]
    told = [one for one in world.listed(TOPOLOGIES) if one["metadata"]["name"] != SILENT.name]  # or nonsense
    could = left_waiting(waiting, told, world.folder)
    foreign = [line for line in lines if line.name.startswith("foreign")]
    waits = sorted(line.bound - line.came for line in own if line.bound)
    return {
        "seed": settings.seed,
        "nodes": settings.nodes,
        "pods": len(own),
        "bound": sum(bool(line.node) for line in own),
        "refused": len(refused),
        "reasons": dict(Counter(line.reason for line in refused)),
        "refused_without_extender": sum(down.has(line) for line in refused),
        "bound_without_extender": sum(down.has(line) for line in own if line.bound),
        "refused_on_silent_node": sum(line.node.startswith("silent") for line in refused),
        "refused_examples": [f"{line.name} on {line.node}: {line.reason}" for line in refused[:5]],
        "waiting": len(waiting),
        "waiting_although": len(could),
        "waiting_examples": [f"{line.name}: {node} would let it in" for line, node in could[:5]],
        "why_waiting": [f"{line.name}: {line.unschedulable[:400]}" for line in waiting[:3]],
        "foreign_pods": len(foreign),
        "foreign_refused": sum(line.refused for line in foreign),
        "filled": round(_filled(world, lines), 3),
        "bound_after": {"middle": _share(waits, 0.5), "95 %": _share(waits, 0.95)},
        "lists_read": world.book.readings,
    }


def _share(values: Sequence[float], share: float) -> float:
    return round(values[min(len(values) - 1, int(share * len(values)))], 2) if values else 0.0


def _cpus(line: PodLine) -> float:
    asked = (one.get("resources", {}).get("requests", {}) for one in line.spec["containers"])
    return sum(float(requests.get("cpu", 0)) for requests in asked)


def _filled(world: World, lines: Sequence[PodLine]) -> float:
    """The largest share of all CPUs that pods were running on at one time."""
    total = sum(_quantity(item["status"]["allocatable"]["cpu"]) for item in world.listed("/api/v1/nodes"))
    changes = [(line.started, _cpus(line)) for line in lines if line.started]
    changes += [(line.ended, -_cpus(line)) for line in lines if line.started and line.ended]
    most = now = 0.0
    for _, cpus in sorted(changes):
        now += cpus
        most = max(most, now)
    return most / total


def _quantity(text: str) -> float:
    return float(text.removesuffix("m")) / (1000 if text.endswith("m") else 1)


def _programs(world: World) -> dict[str, Any]:
    """What our programs took."""
    return {
        name: {
            "cpu_seconds": round(cpu_seconds(world.plane.running[name].pid), 1),
            "megabytes": memory(world.plane.running[name].pid, "VmHWM"),
        }
        for name in ("lab", "extender")
        if name in world.plane.running
    }


def replayed(settings: Settings, lines: Sequence[PodLine], most: int) -> dict[str, Any]:
    """Histories of nodes through the kubelet's own code: those with refusals first, then the fullest."""
    by_node: dict[str, list[PodLine]] = {}
    for line in lines:
        if line.node:
            by_node.setdefault(line.node, []).append(line)

    def weight(node: str) -> tuple[int, int, str]:
        return -sum(line.refused for line in by_node[node]), -len(by_node[node]), node

    chosen = sorted(by_node, key=weight)[: most // 2]
    kinds = sorted(
        (node for node in by_node if node not in chosen), key=lambda node: (len(kind_of(node).name), node)
    )
    chosen += kinds[:: max(1, len(kinds) // (most - most // 2))][: most - most // 2]
    given = []
    for node in chosen:
        kind, steps = kind_of(node), history(node, by_node[node])
        made = scenario(node, kind.machine, KUBELETS[kind.kubelet], settings.release, steps)
        given.append((made, steps))
    plays = played(managers_program(settings.cache, settings.release), given)
    return {
        "nodes": len(plays),
        "pods": sum(play.pods for play in plays),
        "refused": sum(play.refused for play in plays),
        "reordered": sum(play.reordered for play in plays),
        "differences": [f"{play.node}: {words}" for play in plays for words in play.differences],
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """A line for each run."""
    head = f"{'RUN':16} {'SCHEDULER':16} {'BOUND':>6} {'REFUSED':>8} {'WAITING':>8} {'COULD RUN':>10} "
    rows = [f"{head}{'FILLED':>7} {'95 % AFTER':>10}  REPLAYED"]
    for result in results:
        again = result["replayed"]
        rows.append(
            f"{result['name']:16} {result['scheduler']:16} {result['bound']:6} {result['refused']:8} "
            f"{result['waiting']:8} {result['waiting_although']:10} {result['filled']:7.0%} "
            f"{result['bound_after']['95 %']:8.1f} s  {again['pods']} pods of {again['nodes']} nodes, "
            f"{len(again['differences'])} differ"
        )
    return "\n".join(rows)

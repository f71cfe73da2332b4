"""Random scenarios for comparing with a release's managers.

A scenario takes its machine and configuration from a recorded one and its pods and steps from chance.  The same
number always gives the same scenario.  Rules kept here:

1. Every plugin prefers its lowest ids, so that the choice of devices is not left to chance.
2. A pod that comes back under its uid brings its old containers, or others.
3. A restart may bring another configuration, another machine, or plugins that register late.
"""

import copy
import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

Data = dict[str, Any]

RECORDED = Path(__file__).parents[1] / "recorded" / "v1.36.4" / "traces-dev.jsonl.gz"
MOST_NUMA, MOST_CPUS = 6, 96
"""Larger machines make the kubelet's own enumeration slow."""

CPU_OPTIONS: tuple[Data, ...] = (
    {},
    {"full-pcpus-only": "true"},
    {"distribute-cpus-across-numa": "true"},
    {"distribute-cpus-across-cores": "true"},
    {"strict-cpu-reservation": "true"},
    {"prefer-align-cpus-by-uncorecache": "true"},
    {"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"},
    {"full-pcpus-only": "true", "prefer-align-cpus-by-uncorecache": "true"},
    {"align-by-socket": "true"},
    {"align-by-socket": "true", "distribute-cpus-across-numa": "true"},
)
TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
CRITICAL = 2_000_001_000

WEIGHTS: dict[str, Data] = {
    "plain": {"add": 42, "remove": 20, "reconcile": 18, "restart": 10, "devices": 10},
    "reconcile": {"add": 34, "remove": 20, "reconcile": 36, "restart": 8, "devices": 2},
    "devices": {"add": 50, "remove": 20, "reconcile": 5, "restart": 7, "devices": 18},
    "pod-level": {"add": 45, "remove": 22, "reconcile": 18, "restart": 10, "devices": 5},
    "resize": {"add": 26, "remove": 14, "reconcile": 4, "restart": 6, "devices": 2, "resize": 40, "retry": 8},
    "predicates": {"add": 56, "remove": 20, "reconcile": 4, "restart": 10, "devices": 10},
}
"""How often each step comes, by what a scenario is about."""

KINDS = tuple(WEIGHTS)
WHOLE = ("resize", "predicates")
"""What needs the whole admission rather than the managers alone."""


@cache
def bases(path: Path = RECORDED) -> tuple[Data, ...]:
    """Machines with configurations under which a kubelet started."""
    found = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            recorded = json.loads(line)
            machine = recorded["scenario"]["machine"]
            small = len(machine["numa"]) <= MOST_NUMA and len(machine["cpus"]) <= MOST_CPUS
            if small and "error" not in recorded["result"]:
                found.append({"machine": machine, "kubelet": recorded["scenario"]["kubelet"]})
    return tuple(found)


def scenario(number: int, kind: str, release: str, known: Sequence[Data] | None = None) -> Data:
    """The scenario of that number; ``kind`` says what it is about."""
    rng = random.Random(f"{kind}-{number}")
    base = copy.deepcopy(rng.choice(known or bases()))
    maker = _Maker(rng, kind, base["machine"], base["kubelet"])
    made: Data = {"id": f"{kind}-{number}", "kubernetes": release, **maker.scenario()}
    return made


def numbered(first: int, count: int, kinds: Sequence[str], release: str) -> list[Data]:
    """Scenarios of all kinds in turn."""
    return [scenario(number, kinds[number % len(kinds)], release) for number in range(first, first + count)]


@dataclass
class _Maker:
    rng: random.Random
    kind: str
    machine: Data
    kubelet: Data
    live: dict[str, Data] = field(default_factory=dict)
    gone: dict[str, Data] = field(default_factory=dict)
    count: int = 0

    def scenario(self) -> Data:
        for plugin in self.machine.get("devices", {}).values():
            plugin["preferred_allocation"] = "lowest-ids"
        if self.rng.random() < 0.5:
            self.kubelet = self.configuration()
        if self.kind == "pod-level":
            gates = self.kubelet.setdefault("featureGates", {})
            gates |= {"PodLevelResources": True, "PodLevelResourceManagers": True}
        made: Data = {"machine": copy.deepcopy(self.machine), "kubelet": copy.deepcopy(self.kubelet)}
        if self.kind in WHOLE:
            made |= {"admission": "all", "publish": True, "node": self.node()}
        self.devices = {name: plugin["devices"] for name, plugin in self.machine.get("devices", {}).items()}
        return {**made, "steps": [self.step() for _ in range(self.rng.randint(8, 26))]}

    def step(self) -> Data:
        weights = WEIGHTS[self.kind]
        (name,) = self.rng.choices(list(weights), list(weights.values()))
        if name == "add" or (name in {"remove", "resize"} and not self.live):
            return {"add": self.pod()}
        if name == "remove":
            uid = self.rng.choice(list(self.live))
            self.gone[uid] = self.live.pop(uid)
            return {"remove": uid}
        if name == "restart":
            return {"restart": self.restart()}
        if name == "devices" and self.devices:
            return {"devices": self.health()}
        if name == "resize":
            return {"resize": self.resize()}
        return {"retry" if name == "retry" else "reconcile": {}}

    # --- what the node is ---

    def configuration(self) -> Data:
        """Another configuration for the same machine; what it reserves stays."""
        changed = copy.deepcopy(self.kubelet)
        changed["topologyManagerPolicy"] = self.rng.choice(TOPOLOGY_POLICIES)
        changed["topologyManagerScope"] = self.rng.choice(("container", "pod"))
        if changed.get("cpuManagerPolicy") == "static" and self.rng.random() < 0.6:
            options = dict(self.rng.choice(CPU_OPTIONS))
            if changed["topologyManagerPolicy"] == "single-numa-node":
                options.pop("align-by-socket", None)
            changed["cpuManagerPolicyOptions"] = options
            gates = changed.setdefault("featureGates", {})
            gates |= {"CPUManagerPolicyAlphaOptions": True, "CPUManagerPolicyBetaOptions": True}
        if self.rng.random() < 0.15:
            option = self.rng.choice(
                ({"prefer-closest-numa-nodes": "true"}, {"max-allowable-numa-nodes": "8"})
            )
            changed["topologyManagerPolicyOptions"] = option
        return changed

    def other_machine(self) -> Data:
        """The machine after a change of its hardware."""
        machine = copy.deepcopy(self.machine)
        change = self.rng.choice(("memory", "devices", "cpus", "distances", "caches"))
        if change == "memory":
            numa = self.rng.choice(machine["numa"])
            numa["memory"] = max(0, numa["memory"] + self.rng.choice((-1, 1)) * (1 << 30))
        elif change == "devices" and machine.get("devices"):
            plugin = machine["devices"][self.rng.choice(list(machine["devices"]))]
            plugin["devices"] = plugin["devices"][: self.rng.randint(0, len(plugin["devices"]))]
        elif change == "cpus" and len(machine["cpus"]) > 1:
            machine["cpus"].pop()
        elif change == "distances":
            for at, numa in enumerate(machine["numa"]):
                numa["distances"] = [10 if other == at else 20 for other in range(len(machine["numa"]))]
        else:
            for cpu in machine["cpus"]:
                cpu["uncore_cache"] = cpu["core"] // 4
        return machine

    def node(self) -> Data:
        """Labels, taints and amounts of the Node object."""
        node: Data = {"labels": {"zone": self.rng.choice("ab"), "kubernetes.io/os": "linux"}, "taints": []}
        for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule"):
            if self.rng.random() < 0.15:
                node["taints"].append({"key": "dedicated", "value": "gpu", "effect": effect})
        node["allocatable"] = {"pods": str(self.rng.choice((3, 5, 110))), "ephemeral-storage": "100Gi"}
        if self.rng.random() < 0.2:
            node["unschedulable"] = True
        return node

    def restart(self) -> Data:
        step: Data = {}
        if self.rng.random() < 0.4:
            step["plugins"] = "after-pods"
        if self.rng.random() < 0.5:
            self.kubelet = step["kubelet"] = self.configuration()
        if self.rng.random() < 0.15:
            self.machine = step["machine"] = self.other_machine()
            self.devices = {
                name: plugin["devices"] for name, plugin in self.machine.get("devices", {}).items()
            }
        return copy.deepcopy(step)

    def health(self) -> Data:
        name = self.rng.choice(list(self.devices))
        for device in self.devices[name]:
            if self.rng.random() < 0.3 and not device.pop("unhealthy", False):
                device["unhealthy"] = True
        return {name: copy.deepcopy(self.devices[name])}

    # --- pods ---

    def pod(self) -> Data:
        self.count += 1
        uid, pod = f"u{self.count}", None
        if self.gone and self.rng.random() < 0.35:
            uid = self.rng.choice(list(self.gone))
            old = self.gone.pop(uid)
            pod = copy.deepcopy(old) if self.rng.random() < 0.6 else None
        if pod is None:
            pod = {"spec": self.spec()}
        pod["metadata"] = {"name": uid, "uid": uid}
        self.live[uid] = pod
        return copy.deepcopy(pod)

    def spec(self) -> Data:
        qos = self.rng.choices(("Guaranteed", "Burstable", "BestEffort"), (70, 20, 10))[0]
        inits = self.rng.choices((0, 1, 2, 3, 4), (45, 20, 15, 12, 8))[0]
        spec: Data = {
            "containers": [
                self.container(f"c{at}", qos)
                for at in range(self.rng.choices((1, 2, 3, 4), (50, 25, 15, 10))[0])
            ],
        }
        if inits:
            spec["initContainers"] = [self.container(f"i{at}", qos) for at in range(inits)]
            for container in spec["initContainers"]:
                if self.rng.random() < 0.4:
                    container["restartPolicy"] = "Always"
        if self.kind == "pod-level" and self.rng.random() < 0.6:
            spec["resources"] = self.pod_level(spec)
        if self.kind in WHOLE:
            self.placement(spec)
        return spec

    def container(self, name: str, qos: str) -> Data:
        resources: Data = {}
        if qos != "BestEffort":
            amounts = {"cpu": self.cpus(), "memory": self.memory()}
            if self.rng.random() < 0.12:
                amounts |= self.hugepages()
            resources["limits"] = amounts
            if qos == "Burstable":
                resources["requests"] = {"cpu": "100m", "memory": "16Mi"}
                if self.rng.random() < 0.5:
                    del resources["limits"]
        devices = self.machine.get("devices") or {}
        wanted = 0.75 if self.kind == "devices" else 0.3
        if devices and self.rng.random() < wanted:
            most = min(len(devices), 3 if self.kind == "devices" else 1)
            for resource in self.rng.sample(sorted(devices), self.rng.randint(1, most)):
                count = len(devices[resource]["devices"])
                number = self.rng.choice(
                    (1, 1, 2, max(1, count // 2), count + 1 if self.rng.random() < 0.2 else 1)
                )
                resources.setdefault("limits", {})[resource] = str(number)
        return {"name": name, "image": "registry.k8s.io/pause", "resources": resources}

    def cpus(self) -> str:
        whole = len(self.machine["cpus"])
        style = self.rng.random()
        if style < 0.15:
            return f"{self.rng.randint(1, 40) * 100}m"
        if style < 0.8:
            return str(self.rng.randint(1, max(1, whole // 6)))
        return str(self.rng.randint(1, max(1, whole // 2)))

    def memory(self) -> str:
        per_numa = max((numa["memory"] for numa in self.machine["numa"]), default=1 << 30) >> 20
        style = self.rng.random()
        most = per_numa // 6 if style < 0.75 else per_numa if style < 0.92 else per_numa * 3 // 2
        return f"{self.rng.randint(1, max(2, most))}Mi"

    def hugepages(self) -> Data:
        sizes = {
            size
            for numa in self.machine["numa"]
            for size, pages in (numa.get("hugepages") or {}).items()
            if pages
        }
        if not sizes:
            return {}
        size = self.rng.choice(sorted(sizes))
        return {f"hugepages-{size}": f"{int(size[:-2]) * self.rng.randint(1, 6)}{size[-2:]}"}

    def pod_level(self, spec: Data) -> Data:
        """Pod-level amounts, enough for the containers; some of these then have none of their own."""
        cpus, mebibytes = 0, 0
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            if self.rng.random() < 0.4:
                container["resources"] = {}
            for amounts in container["resources"].values():
                cpu = amounts.get("cpu", "0")
                cpus += -(-int(cpu[:-1]) // 1000) if cpu.endswith("m") else int(cpu)
                mebibytes += int(amounts.get("memory", "0Mi")[:-2])
        spare = self.rng.random() < 0.7
        amounts = {
            "cpu": str(max(1, cpus + (self.rng.randint(0, 4) if spare else 0))),
            "memory": f"{max(64, mebibytes + (self.rng.randint(0, 2048) if spare else 0))}Mi",
        }
        return {"limits": amounts, "requests": dict(amounts)}

    def placement(self, spec: Data) -> None:
        """What the predicates look at besides amounts."""
        if self.rng.random() < 0.12:
            spec["nodeSelector"] = {"zone": self.rng.choice("ab")}
        if self.rng.random() < 0.3:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if self.rng.random() < 0.12:
            spec |= {"priority": CRITICAL, "priorityClassName": "system-node-critical"}
        elif self.rng.random() < 0.3:
            spec["priority"] = self.rng.choice((10, 100, 1000))
        if self.rng.random() < 0.1:
            port = self.rng.choice((80, 8080))
            spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
        if self.rng.random() < 0.15:
            limits = spec["containers"][0]["resources"].setdefault("limits", {})
            limits["ephemeral-storage"] = self.rng.choice(("10Gi", "60Gi"))

    def resize(self) -> Data:
        uid = self.rng.choice(list(self.live))
        spec = self.live[uid]["spec"]
        containers = {}
        for container in self.rng.sample(spec["containers"], self.rng.randint(1, len(spec["containers"]))):
            resources = container["resources"]
            change: Data = {}
            for name in self.rng.choice((("cpu",), ("memory",), ("cpu", "memory"))):
                amount = self.cpus() if name == "cpu" else self.memory()
                if name in resources.get("limits", {}):
                    change.setdefault("limits", {})[name] = amount
                    if name not in resources.get("requests", {}):
                        change.setdefault("requests", {})[name] = amount
                elif name in resources.get("requests", {}):
                    change.setdefault("requests", {})[name] = amount
            if change:
                containers[container["name"]] = change
        return {"uid": uid, "containers": containers}

"""The watcher beside a real kubelet, containerd and systemd: nothing is said of a good node, and what somebody changes is."""

import re
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from e2e.cluster import wait_for
from e2e.node import BASE, KUBECONFIG, KUBELET, NODE, STATIC, UNITS, Node, must, runs
from e2e.pods import burstable, guaranteed, pod, pod_spec

CONFIG = {**BASE, **STATIC, "topologyManagerPolicy": "single-numa-node"}
DUTIES = ("--watch", "--kubeconfig", str(KUBECONFIG), "--node", NODE)
METRICS = "http://127.0.0.1:9797/metrics"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
OURS = "numawise.dev/numawise-agent"
LONG = 900.0
Said = tuple[str, bool, str]


class WatchTrial:
    """A node with pods on it that somebody interferes with."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def run(self, name: str, *containers: dict[str, Any]) -> None:
        """A pod that runs."""
        body = pod(name, pod_spec(*containers))
        status, answer = self.node.api.ask("POST", "/api/v1/namespaces/default/pods", body)
        assert status == 201, answer
        wait_for(f"pod {name}", LONG, lambda: self.file(name).exists() and self.status(name))

    def status(self, name: str) -> dict[str, Any]:
        """The status of its container, once it runs."""
        _, found = self.node.api.ask("GET", f"/api/v1/namespaces/default/pods/{name}")
        statuses = found.get("status", {}).get("containerStatuses") or [{}]
        return statuses[0] if "running" in statuses[0].get("state", {}) else {}

    def file(self, name: str) -> Path:
        """The cpuset of its container."""
        id_ = self.status(name).get("containerID", "").rpartition("/")[2]
        found = Path("/sys/fs/cgroup/kubepods.slice").glob(f"**/*{id_}.scope/cpuset.cpus") if id_ else ()
        return next(iter(found), Path("/nowhere"))

    def cpus(self, name: str) -> str:
        return self.file(name).read_text().strip()

    def metric(self, line: str) -> float:
        with urllib.request.urlopen(METRICS, timeout=60) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{re.escape(line)} ([0-9.]+)$", text, re.MULTILINE)
        return float(found[1]) if found else -1.0

    def looked(self, times: int) -> None:
        """The watcher has looked so often from now on."""
        before = self.metric("numawise_watch_looks_total")
        wait_for("looks", LONG, lambda: self.metric("numawise_watch_looks_total") >= max(0.0, before) + times)

    def events(self) -> list[tuple[str, str, str]]:
        """Pod, reason and words of our Events."""
        _, found = self.node.api.ask("GET", EVENTS)
        return [
            (one.get("regarding", {}).get("name", ""), one["reason"], one.get("note", ""))
            for one in found.get("items", ())
            if one.get("reportingController") == OURS
        ]

    def told(self, name: str, reason: str) -> str:
        def found() -> str:
            return next((note for pod, why, note in self.events() if (pod, why) == (name, reason)), "")

        words: str = wait_for(f"{reason} of {name}", LONG, found)
        return words


def watch_trial(node: Node) -> Iterator[Said]:
    """What was tried, whether it was right, and what was seen."""
    trial = WatchTrial(node)
    node.start(CONFIG, DUTIES)
    trial.run("own", guaranteed("c", "2", "100Mi", gpu=1))
    trial.run("shared", burstable("c", "250m", "30Mi"))
    trial.looked(4)
    drifted = trial.metric('numawise_watch_containers{verdict="drifted"}')
    seen = [trial.metric(f'numawise_watch_containers{{verdict="{word}"}}') for word in ("aligned", "unknown")]
    own, pool = trial.cpus("own"), trial.cpus("shared")
    said = f"own {own}, shared {pool}, aligned and unknown {seen}, events {trial.events()}"
    yield "a good node has no drift", drifted == 0 and sum(seen) >= 2 and not trial.events(), said
    trial.run("another", guaranteed("c", "2", "100Mi"))
    wait_for("a smaller pool", LONG, lambda: trial.cpus("shared") != pool)
    trial.looked(3)
    said = f"pool {pool} became {trial.cpus('shared')}, events {trial.events()}"
    yield "a pool that the kubelet changes is no drift", not trial.events(), said
    checked = runs(sys.executable, "-m", "numawise", "verify", "--pods", "--kubelet-dir", str(KUBELET))
    yield "verify --pods agrees", checked.returncode == 0, checked.stdout + checked.stderr
    must("systemctl", "daemon-reload")
    trial.looked(3)
    said = f"own {own} became {trial.cpus('own')}, events {trial.events()}"
    yield "a reload of systemd", (trial.cpus("own") == own) is not bool(trial.events()), said
    trial.file("own").write_text("0-11")
    words = trial.told("own", "CpusetChanged")
    yield "somebody writes a cpuset", words.startswith("container c may run outside"), words
    yield "nothing is changed without --repair", trial.cpus("own") == "0-11", trial.cpus("own")
    unit = UNITS / "agent.service"
    unit.write_text(unit.read_text().replace("--watch", "--watch --repair"))
    must("systemctl", "daemon-reload")
    trial.file("own").write_text("0-11")
    must("systemctl", "restart", "agent")
    words = trial.told("own", "CpusetRepaired")
    yield "it is written back", trial.cpus("own") == own, words
    others = sorted({pod for pod, _, _ in trial.events()} - {"own"})
    yield "nobody else was touched", not others, str(trial.events())

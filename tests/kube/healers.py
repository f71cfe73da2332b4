"""``numawise heal`` in a process of its own, and a cluster with owners that make pods, as a policy lets them."""

import contextlib
import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numawise.apps.heal.hold_list import hold_objects
from numawise.apps.heal.rights import BINDINGS, HOLDS, LEASE, POLICIES, POLICY
from numawise.results.pending import HOLD_GATE
from tests.kube.server import State, kubeconfig
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import gpu_pod, kubelet
from tests.waiting import PATIENCE, until
from tests.warm import Program

NAMESPACE = "numawise"
LISTED = f"/apis/numawise.dev/v1/namespaces/{NAMESPACE}/holdlists/{HOLDS}"
LEASED = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
REGISTERED = "/apis/admissionregistration.k8s.io/v1"
MESSAGE = "Pod was rejected: Resources cannot be allocated with Topology locality"


class HealedCluster:
    """Nodes that have 2 GPUs free, on two NUMA nodes; and owners whose pods want 2 on one."""

    def __init__(self, *nodes: str, policy: bool = True) -> None:
        self.state = State()
        self.numbers = itertools.count(1)
        for name in nodes:
            self.state.put_node(api_node(name))
            self.publish(name, full=True)
        if policy:
            for plural, value in zip((POLICIES, BINDINGS), hold_objects(NAMESPACE)[1:], strict=True):
                self.state.kept[f"{REGISTERED}/{plural}/{POLICY}"] = value

    def publish(self, name: str, *, full: bool) -> None:
        node = kubelet()
        for number in range(2 if full else 1):
            node.admit(node.requested(gpu_pod(f"{name}-{number}", 3)))
            self.state.put_pod(api_pod(f"{name}-{number}", 3, name, phase="Running"))
        if not full:
            self.state.put_pod(api_pod(f"{name}-1", 3, name, phase="Running"), "DELETED")
        self.state.put_topology(published(node, name))

    def owner(self, name: str, kind: str = "ReplicaSet", revision: str = "abc") -> dict[str, Any]:
        value = {
            "kind": kind,
            "metadata": {"name": name, "namespace": "default", "uid": f"u-{name}", "labels": {}},
            "spec": {"replicas": 1},
            "status": {},
        }
        if kind == "ReplicaSet":
            value["metadata"] |= {
                "labels": {"pod-template-hash": revision},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": "web",
                        "uid": "d-web",
                        "controller": True,
                    }
                ],
            }
        else:
            value["status"]["updateRevision"] = revision
        self.state.owners.append(value)
        return value

    @property
    def holds(self) -> dict[str, str]:
        return self.state.kept.get(LISTED, {}).get("data") or {}

    def make(self, owner: dict[str, Any], revision: str = "abc", gpus: int = 2) -> dict[str, Any]:
        """A new pod of an owner; the API server's policy gives it the gate where the list has its owner."""
        metadata = owner["metadata"]
        value = api_pod(f"{metadata['name']}-{next(self.numbers)}", gpus)
        label = "controller-revision-hash" if owner["kind"] == "StatefulSet" else "pod-template-hash"
        value["metadata"]["labels"] = {"app": metadata["name"], label: revision}
        value["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": owner["kind"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "controller": True,
            }
        ]
        if f"{metadata['uid']}.{revision}" in self.holds:
            value["spec"]["schedulingGates"] = [{"name": HOLD_GATE}]
        self.state.put_pod(value)
        return value

    def refuse(self, pod: dict[str, Any], node: str, reason: str = "TopologyAffinityError") -> dict[str, Any]:
        """A kubelet gets a pod and refuses it."""
        value = json.loads(json.dumps(self.pod(pod)))
        value["spec"]["nodeName"] = node
        value["status"] = {"phase": "Failed", "reason": reason, "message": MESSAGE}
        self.state.put_pod(value)
        return value

    def bind(self, pod: dict[str, Any], node: str) -> None:
        value = json.loads(json.dumps(self.pod(pod)))
        value["spec"]["nodeName"] = node
        value["status"] = {"phase": "Running"}
        self.state.put_pod(value)

    def pod(self, pod: dict[str, Any]) -> dict[str, Any]:
        (value,) = [one for one in self.state.pods if one["metadata"]["uid"] == pod["metadata"]["uid"]]
        return value

    def there(self, pod: dict[str, Any]) -> bool:
        return any(one["metadata"]["uid"] == pod["metadata"]["uid"] for one in self.state.pods)

    def gated(self, pod: dict[str, Any]) -> bool:
        return bool(self.pod(pod)["spec"].get("schedulingGates"))

    def events(self, reason: str) -> list[dict[str, Any]]:
        return [one for one in self.state.events if one["reason"] == reason]

    def removals(self) -> list[str]:
        return [path.rsplit("/", 1)[1] for method, path, _ in self.state.written if method == "DELETE"]


class Healer:
    """The program."""

    def __init__(self, folder: Path, server: str, *words: str) -> None:
        folder.mkdir(exist_ok=True)
        self.log, self.audit = folder / "log", folder / "audit.jsonl"
        self.config = kubeconfig(folder / "kubeconfig", server)
        own = ("--kubeconfig", str(self.config), "--audit", str(self.audit), "--listen", "off")
        with self.log.open("ab") as log:
            self.process = Program("heal", *own, *words, stderr=log, stdout=log)

    def said(self, words: str) -> list[str]:
        text = self.log.read_text() if self.log.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line["message"] for line in lines if words in line["message"]]

    def hears(self, words: str) -> None:
        until(lambda: self.said(words) or self.process.poll() is not None, words)
        assert self.process.poll() is None, self.log.read_text()

    def changes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit.read_text().splitlines()]

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def healer(folder: Path, server: str, *words: str) -> Iterator[Healer]:
    """A healer that is gone in the end."""
    running = Healer(folder, server, *words)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait(PATIENCE)

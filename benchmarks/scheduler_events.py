"""What a pod costs the extender from its first event to its last, in CPU time, without a network.

    python -m benchmarks.scheduler_events --nodes 500

A pod is added, asked about (filter, prioritize), bound, runs and is deleted, each as the bytes that the API
server and kube-scheduler send.  Once its node says nothing, as in ``make e2e-cluster WHAT=throughput``; once
its node publishes its state anew after each pod.
"""

import argparse
import asyncio
import gc
import json
import random
import sys
import threading
import time
from typing import Any

from benchmarks.live_cluster import SIZES, api_pod, objects, put
from numawise.apps.scheduler.questions import Questions
from numawise.apps.scheduler.web import WebQuestions
from numawise.cluster.live import LiveCluster
from numawise.codec.cluster_pod import PodReading
from numawise.codec.pod import pod_from
from numawise.inputs.live import NODE, POD, TOPOLOGY, slim_topology, take
from numawise.kube.calls import watch_event
from numawise.node.node import SimulatedNode
from numawise.node.publication import publication_of, topology_object
from numawise.service.log import ServiceLog
from numawise.values import replace

MOMENT = "2026-11-16T10:00:00Z"
STEPS = ("added", "filter", "prioritize", "bound", "runs", "published", "deleted")


def managers(manager: str) -> list[dict[str, Any]]:
    """What the API server remembers of who wrote what."""
    fields = {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"main"}': {".": {}, "f:image": {}, "f:name": {}, "f:resources": {"f:limits": {}}}
            },
            "f:restartPolicy": {},
            "f:schedulerName": {},
            "f:terminationGracePeriodSeconds": {},
        },
    }
    row = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-11-16T10:00:00Z"}
    return [{**row, "fieldsType": "FieldsV1", "fieldsV1": fields}]


class Pods:
    """Pods of a cluster, and what their lives cost."""

    def __init__(self, count: int, *, publish: bool) -> None:
        self.view, self.reading, self.publish = LiveCluster(), PodReading(), publish
        self.kubelets: dict[str, SimulatedNode] = {}
        now = time.time()
        for api, text, _ in objects(count, random.Random(0), (0, 1)):
            name = api["metadata"]["name"]
            take(self.view, NODE, None, api, now)
            take(self.view, TOPOLOGY, None, json.loads(text), now)
            source = self.view.views[name].source
            assert source is not None
            assert source.node is not None
            self.kubelets[name] = replace(source.node)
        self.view.refresh(now)
        gc.collect()
        gc.freeze()
        log = ServiceLog(sys.stderr, structured=True)
        self.web = WebQuestions(Questions(self.view, threading.RLock()), None, lambda: True, log)  # type: ignore[arg-type]
        self.spent = dict.fromkeys(STEPS, 0.0)
        self.version, self.names = 1, list(self.view.names)

    def event(self, step: str, kind: str, word: str, value: dict[str, Any]) -> None:
        """A line of a list that is followed."""
        self.version += 1
        value["metadata"]["resourceVersion"] = str(self.version)
        line = json.dumps({"type": word, "object": value})
        begin = time.process_time()
        _, taken = watch_event(line)
        slim = (self.reading.slim if kind == POD else slim_topology)(taken)
        take(
            self.view,
            kind,
            slim if word == "DELETED" else None,
            None if word == "DELETED" else slim,
            time.time(),
        )
        self.spent[step] += time.process_time() - begin

    def ask(self, step: str, value: dict[str, Any], names: list[str]) -> Any:  # noqa: ANN401 - JSON
        body = json.dumps({"Pod": value, "Nodes": None, "NodeNames": names}).encode()
        said: list[bytes] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            said.append(message.get("body", b""))

        async def asked() -> None:
            begin = time.process_time()
            await self.web({"type": "http", "path": f"/{step}", "method": "POST"}, receive, send)
            self.spent[step] += time.process_time() - begin

        asyncio.run(asked())
        return json.loads(b"".join(said))

    def added(self, name: str, size: int) -> dict[str, Any]:
        value = api_pod(name, size)
        value["metadata"]["managedFields"] = managers("python")
        value["spec"]["schedulerName"] = "default-scheduler"
        value["status"] = {"phase": "Pending", "qosClass": "Guaranteed"}
        self.event("added", POD, "ADDED", value)
        return value

    def lived(self, value: dict[str, Any]) -> dict[str, Any]:
        left = self.ask("filter", value, self.names)["NodeNames"]
        scores = {one["Host"]: one["Score"] for one in self.ask("prioritize", value, left)}
        host = max(scores, key=lambda name: scores[name])
        conditions = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-16T10:00:00Z"}
        ]
        spec, status = {**value["spec"], "nodeName": host}, {**value["status"], "conditions": conditions}
        bound = {**value, "spec": spec, "status": status}
        self.event("bound", POD, "MODIFIED", bound)
        if not self.publish:
            return bound
        kubelet = self.kubelets[host]
        raw = pod_from(bound)
        assert put(kubelet, raw)
        runs = {**bound, "status": {**status, "phase": "Running", "startTime": "2026-11-16T10:00:01Z"}}
        self.event("runs", POD, "MODIFIED", runs)
        self.event("published", TOPOLOGY, "MODIFIED", topology_object(publication_of(kubelet, host)))
        return runs


def measure(count: int, turns: int, *, publish: bool) -> None:
    pods = Pods(count, publish=publish)
    for number in range(4):
        values = [pods.added(f"r{number}-{turn}", turn % (len(SIZES) - 2)) for turn in range(turns)]
        values = [pods.lived(value) for value in values]
        for value in values:
            pods.event("deleted", POD, "DELETED", value)
            if publish:
                host = value["spec"]["nodeName"]
                pods.kubelets[host].remove(value["metadata"]["uid"])
    costs = {step: spent / turns / 4 * 1000 for step, spent in pods.spent.items()}
    words = ", ".join(f"{step} {cost:.2f}" for step, cost in costs.items() if cost)
    way = "published after each" if publish else "nothing published"
    print(f"{count} nodes, {way}: {sum(costs.values()):.2f} ms a pod ({words})")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", metavar="N", type=int, default=500)
    parser.add_argument("--pods", metavar="N", type=int, default=400)
    options = parser.parse_args()
    for publish in (False, True):
        measure(options.nodes, options.pods, publish=publish)


if __name__ == "__main__":
    main()

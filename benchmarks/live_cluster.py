"""A live cluster of thousands of nodes: what it costs to take it in, to follow it, and to ask it.

Nodes with 8 NUMA nodes, 192 CPUs and 8 GPUs, each GPU with an id of its own, as drivers give them; 5 to 15
pods on each, of five shapes, one of which asks for a GPU and one for no CPUs of its own.  Objects are those
that the API server sends, and what is kept of them counts.
"""

import gc
import json
import random
import resource
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.machines import GPU, even, node
from numawise.cluster.live import LiveCluster
from numawise.codec.cluster_pod import PodReading
from numawise.codec.pod import pod_from
from numawise.engine.admit import Admitted
from numawise.machine.model import Device, DevicePlugin
from numawise.node.node import SimulatedNode
from numawise.node.publication import publication_of, topology_object
from numawise.request.defaults import RawPod
from numawise.values import replace

SIZES = (
    {"cpu": "4", "memory": "8Gi", GPU: "1"},
    {"cpu": "8", "memory": "16Gi"},
    {"cpu": "2", "memory": "4Gi"},
    {"cpu": "1", "memory": "12Gi"},
    {"cpu": "1500m", "memory": "2Gi"},
)


def api_pod(name: str, size: int, host: str = "") -> dict[str, Any]:
    """A pod as the API server shows it."""
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": "default",
            "resourceVersion": "1",
            "labels": {"app": "bench", "pod-template-hash": "abc"},
            "creationTimestamp": "2026-11-16T10:00:00Z",
        },
        "spec": {
            **({"nodeName": host} if host else {}),
            "restartPolicy": "Never",
            "priority": 0,
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
                for key in ("not-ready", "unreachable")
            ],
            "containers": [{"name": "main", "image": "x", "resources": {"limits": SIZES[size]}}],
        },
        "status": {"phase": "Running" if host else "Pending", "startTime": "2026-11-16T10:00:01Z"},
    }


def api_node(name: str) -> dict[str, Any]:
    """A Node object."""
    return {
        "metadata": {"name": name, "uid": f"node-{name}", "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "190", "memory": "1000Gi", "pods": "250", GPU: "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def own_gpus(kubelet: SimulatedNode, host: str) -> SimulatedNode:
    """The node with GPUs that no other has."""
    machine = kubelet.machine
    (plugin,) = machine.plugins
    devices = tuple(replace(one, id=f"GPU-{host}-{one.id}") for one in plugin.devices)
    assert all(isinstance(one, Device) for one in devices)
    made = replace(kubelet, machine=replace(machine, plugins=(DevicePlugin(plugin.resource, devices),)))
    made.plugins_registered(made.machine.plugins)
    return made


def put(kubelet: SimulatedNode, raw: RawPod) -> bool:
    """A pod comes to a node."""
    pod = kubelet.requested(raw)
    decision = kubelet.admit(pod)
    if isinstance(decision, Admitted):
        kubelet.start(pod, decision)
    return isinstance(decision, Admitted)


def objects(
    count: int, draw: random.Random, pods_of: tuple[int, int] = (5, 16)
) -> Iterator[tuple[dict[str, Any], bytes, list[dict[str, Any]]]]:
    """Node object, topology and pods of each node; ``pods_of``: how many, from and below."""
    first = node(even(8, 192, 8), "single-numa-node", scope="pod")
    for number in range(count):
        host = f"n{number}"
        kubelet = own_gpus(first, host)
        pods = []
        for serial in range(draw.randrange(*pods_of)):
            size = draw.randrange(len(SIZES))
            value = api_pod(f"{host}-{serial}", size, host)
            if put(kubelet, pod_from({**value, "spec": {"containers": value["spec"]["containers"]}})):
                pods.append(value)
        topology = json.dumps(topology_object(publication_of(kubelet, host))).encode()
        yield api_node(host), topology, pods


def resident() -> float:
    """Megabytes that the process has now."""
    with open("/proc/self/statm", encoding="ascii") as stream:  # noqa: PTH123 - of the kernel
        return int(stream.read().split()[1]) * resource.getpagesize() / 1e6


def live(count: int) -> Iterator[str]:
    """Take in, ask cold, ask warm with events between."""
    draw = random.Random(0)
    before = resident()
    view, slim = LiveCluster(), PodReading().slim
    spent, taken = 0.0, 0
    remembered: list[Any] = []
    for api, text, pods in objects(count, draw):
        begin = time.process_time()
        name = api["metadata"]["name"]
        view.take_node(name, api, 1000.0)
        remembered.append(api)
        for value in pods:
            remembered.append(slim(json.loads(json.dumps(value))))
            view.take_pod(remembered[-1], 1000.0)
        view.take_topology(name, json.loads(text), 1000.0)
        taken += len(pods)
        spent += time.process_time() - begin
    begin = time.process_time()
    view.refresh(1000.0)
    first = time.process_time() - begin
    gc.collect()
    gc.freeze()  # as the feed does
    states = len({member.token for member in view.members})
    yield (
        f"{count} nodes, {taken} pods in {states} states: taken in {spent:.1f} s, ready in {first:.1f} s, "
        f"{(spent + first) / count * 1000:.2f} ms a node; memory {resident() - before:.0f} MB"
    )
    cold = []
    for size in range(len(SIZES)):
        raw = pod_from(api_pod(f"cold-{size}", size))
        begin = time.process_time()
        view.ranked(view.judge(raw, None, 1000.0))
        cold.append((time.process_time() - begin) * 1000)
    yield f"  cold, shapes never asked for: {' '.join(f'{ms:.0f} ms' for ms in cold)} (goal: 500 ms)"
    asked, events = [], []
    names = list(view.names)
    for turn in range(300):
        value = api_pod(f"warm-{turn}", turn % len(SIZES))
        raw = pod_from(value)
        begin = time.process_time()
        best = view.ranked(view.judge(raw, names, 1000.0))
        asked.append((time.process_time() - begin) * 1000)
        if best:
            begin = time.process_time()
            view.promise(raw, best[0].node, 1000.0)
            view.take_pod(slim({**value, "spec": {**value["spec"], "nodeName": best[0].node}}), 1000.0)
            host = names[draw.randrange(count)]
            for uid in list(view.views[host].pods)[:1]:
                gone = api_pod(uid, 0, host)
                view.take_pod(slim(gone), 1000.0, gone=True)
            view.problems(best[0].node)
            view.problems(host)
            events.append((time.process_time() - begin) * 1000 / 3)
    asked.sort()
    events.sort()
    yield (
        f"  warm, a pod bound and one gone between two: median {asked[len(asked) // 2]:.1f} ms, "
        f"99 % {asked[len(asked) * 99 // 100]:.1f} ms, longest {asked[-1]:.1f} ms (goal: 99 % <= 50 ms); "
        f"an event {events[len(events) // 2]:.2f} ms; memory {resident() - before:.0f} MB"
    )

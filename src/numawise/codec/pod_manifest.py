"""Pods as manifests again: what a kubelet decides by, and nothing else.

Rules kept here:

1. What ``codec.pod.pod_from`` reads of the manifest is the pod that it was written from, as far as a kubelet
   looks at it: resources, roles, class, ports, priority, tolerations and what else keeps it from a node.
2. Demands on a node of which nothing is known are left out: nobody judged them (``placed``).
3. Claims are left out: no kubelet aligns them.
"""

from typing import Any

from numawise.codec.constraints import OS_LABEL, SOURCE, WANTED
from numawise.codec.decision import amounts_data
from numawise.codec.objects import MIRROR
from numawise.request.constraints import ANY_ADDRESS, NodeRequirement, PodConstraints
from numawise.request.defaults import RawContainer, RawPod
from numawise.request.model import Role

Manifest = dict[str, Any]
FILE_SOURCE = "file"


def pod_manifest(pod: RawPod, *, placed: bool = True) -> Manifest:
    """An object of kind Pod; ``placed``: with what it demands of its node (rule 2)."""
    demands = pod.constraints
    metadata: Manifest = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    annotations = {SOURCE: FILE_SOURCE} if demands.static else {}
    annotations |= {MIRROR: ""} if demands.mirror else {}
    if annotations:
        metadata["annotations"] = annotations
    if demands.os_label is not None:
        metadata["labels"] = {OS_LABEL: demands.os_label}
    init = [one for one in pod.containers if one.role is not Role.APP]
    spec: Manifest = {"initContainers": [_container(one) for one in init]} if init else {}
    spec["containers"] = [_container(one) for one in pod.containers if one.role is Role.APP]
    if pod.requests is not None:
        spec["resources"] = amounts_data(pod.requests, pod.limits or {})
    if pod.overhead:
        spec["overhead"] = {name: str(amount) for name, amount in pod.overhead.items()}
    spec |= _demands(demands)
    _put_ports(spec, demands)
    if placed:
        spec |= _place(demands)
    manifest: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return manifest | ({"status": {"qosClass": pod.qos}} if pod.qos else {})


def _container(container: RawContainer) -> Manifest:
    found: Manifest = {"name": container.name}
    if container.role is Role.SIDECAR:
        found["restartPolicy"] = "Always"
    resources = amounts_data(container.requests, container.limits)
    if resources:
        found["resources"] = resources
    if container.restarts_for:
        found["resizePolicy"] = [
            {"resourceName": name, "restartPolicy": "RestartContainer"}
            for name in sorted(container.restarts_for)
        ]
    return found


def _demands(demands: PodConstraints) -> Manifest:
    """What is judged on every node."""
    found: Manifest = {}
    if demands.priority is not None:
        found["priority"] = demands.priority
    if demands.tolerations:
        found["tolerations"] = [
            {
                name: value
                for name, value in (
                    ("key", one.key),
                    ("operator", one.operator),
                    ("value", one.value),
                    ("effect", one.effect),
                )
                if value
            }
            for one in demands.tolerations
        ]
    if demands.os:
        found["os"] = {"name": demands.os}
    if demands.sysctls:
        found["securityContext"] = {"sysctls": [{"name": name, "value": ""} for name in demands.sysctls]}
    found |= {"hostNetwork": True} if demands.host_network else {}
    found |= {"hostIPC": True} if demands.host_ipc else {}
    return found | ({} if demands.host_users else {"hostUsers": False})


def _put_ports(spec: Manifest, demands: PodConstraints) -> None:
    """Host ports, at the first container that may have them."""
    for port in demands.ports:
        if port.sidecar:
            home = next(one for one in spec["initContainers"] if one.get("restartPolicy") == "Always")
        else:
            home = spec["containers"][0]
        entry: Manifest = {"containerPort": port.port, "hostPort": port.port, "protocol": port.protocol}
        home.setdefault("ports", []).append(
            entry if port.address == ANY_ADDRESS else {**entry, "hostIP": port.address}
        )


def _place(demands: PodConstraints) -> Manifest:
    """What is judged where a Node object is known."""
    found: Manifest = {}
    if demands.node_selector:
        found["nodeSelector"] = dict(demands.node_selector)
    if demands.node_affinity is not None:
        terms = [
            {
                name: [_requirement(one) for one in expressions]
                for name, expressions in (("matchExpressions", term.labels), ("matchFields", term.fields))
                if expressions
            }
            for term in demands.node_affinity
        ]
        found["affinity"] = {"nodeAffinity": {WANTED: {"nodeSelectorTerms": terms}}}
    return found


def _requirement(one: NodeRequirement) -> Manifest:
    return {"key": one.key, "operator": one.operator} | ({"values": list(one.values)} if one.values else {})

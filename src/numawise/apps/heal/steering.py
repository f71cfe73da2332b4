"""The patch that lets a held pod go: our gate off, and only nodes that would let it in.

Rules kept here:

1. One request does both, and names the version of the pod that was looked at.
2. Nothing that the pod demands is loosened: a requirement is added to each term that it has, and a pod
   without terms gets one.  Other gates stay.
3. Nodes are named by their host name label, as people would; where a node has none, and the pod no terms of
   its own, by its name.  What cannot be said so is not said, and the pod goes where the scheduler sends it.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from numawise.apps.heal.refused import STEERED
from numawise.codec.cluster_pod import scheduling_gates
from numawise.codec.document import mapping
from numawise.results.pending import HOLD_GATE

HOST_NAME, NODE_NAME = "kubernetes.io/hostname", "metadata.name"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Json = dict[str, Any]


def release_patch(pod: Mapping[str, Any], hosts: Mapping[str, str], nodes: Sequence[str]) -> Json:
    """What to merge into a pod; ``hosts``: the host name labels of nodes, '' where there is none."""
    metadata = mapping(pod.get("metadata"))
    left = [{"name": gate} for gate in scheduling_gates(pod) if gate != HOLD_GATE]
    spec: Json = {"schedulingGates": left or None}
    terms = _terms(pod, hosts, nodes) if nodes else None
    if terms is not None:
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    named = {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
    steered = {"annotations": {STEERED: ",".join(nodes[:8])}} if terms is not None else {}
    return {"metadata": {**named, **steered}, "spec": spec}


def _terms(pod: Mapping[str, Any], hosts: Mapping[str, str], nodes: Sequence[str]) -> list[Json] | None:
    """The terms of the pod with one requirement more; None: it cannot be said (rule 3)."""
    affinity = mapping(mapping(mapping(pod.get("spec")).get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get(REQUIRED)).get("nodeSelectorTerms")
    listed = required if isinstance(required, list) else []
    terms = copy.deepcopy([dict(term) for term in listed if isinstance(term, Mapping)])
    values = [hosts.get(node, "") for node in nodes]
    if all(values):
        requirement = {"key": HOST_NAME, "operator": "In", "values": sorted(set(values))}
        for term in terms:
            if term.get("matchExpressions") or term.get("matchFields"):  # an empty one matches nothing
                own = term.get("matchExpressions")
                term["matchExpressions"] = [*(own if isinstance(own, list) else ()), requirement]
        return terms or [{"matchExpressions": [requirement]}]
    if terms:
        return None
    return [{"matchFields": [{"key": NODE_NAME, "operator": "In", "values": [node]}]} for node in nodes]


def steered_to(pod: Mapping[str, Any]) -> bool:
    """Whether a pod was let go to nodes that should have let it in."""
    annotations = mapping(mapping(pod.get("metadata")).get("annotations"))
    return bool(annotations.get(STEERED))

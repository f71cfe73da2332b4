"""The NodeResourceTopology that a kubelet in sight makes, and what a condition says about it.

Rules kept here:

1. What is known is published, with sentences on what is missing.  Where not enough is known to decide
   anything (no configuration), nothing counts as free: capacity alone is said.
2. The Node owns the object, where it is known: the cluster removes what is published of a node that is gone.
3. Complete is an object that nothing is missing of.  The condition is true then, and only then.
"""

from typing import Any

from numawise.apps.agent.sight_values import KubeletSight
from numawise.codec.document import mapping
from numawise.codec.fingerprint import ALL, listed_fingerprint
from numawise.codec.hardware.nrt_write import ZoneAmount, topology_document
from numawise.kube.writer import NodeCondition
from numawise.machine.model import Machine
from numawise.node.publication import publication_of, topology_object
from numawise.request.model import CPU, MEMORY

CONDITION = "NumawiseTopologyPublished"
INSTANCE = "numawise.dev/agent"
"""Annotation: which agent published an object."""
PUBLISHED, NOT_PUBLISHED = "Published", "NotPublished"


def published_object(sight: KubeletSight, method: str = ALL, instance: str = "") -> dict[str, Any] | None:
    """The object; None: not even the machine is known."""
    if sight.node is not None:
        publication = publication_of(sight.node, sight.name, kubelet=sight.kubelet, missing=sight.problems)
        pods = sight.answers.pods if sight.answers is not None else None
        mark = listed_fingerprint(pods, method) if pods is not None else ""
        value = topology_object(publication, fingerprint=mark, method=method, node=sight.node)
    elif sight.machine is not None:
        value = topology_document(sight.name, sight.machine, _capacities(sight.machine), {}, ())
    else:
        return None
    if instance:
        value["metadata"]["annotations"] = {INSTANCE: instance}
    uid = mapping(mapping(sight.object).get("metadata")).get("uid")
    if isinstance(uid, str) and uid:
        owner = {"apiVersion": "v1", "kind": "Node", "name": sight.name, "uid": uid}
        value["metadata"]["ownerReferences"] = [owner]
    return value


def _capacities(machine: Machine) -> dict[int, dict[str, ZoneAmount]]:
    """What a machine has, none of it free (rule 1)."""
    amounts: dict[int, dict[str, ZoneAmount]] = {}
    for numa in machine.numa:
        cpus = machine.layout.numas.get(numa.id, 0).bit_count()
        own = {CPU: ZoneAmount(cpus, 0, 0), MEMORY: ZoneAmount(numa.memory, 0, 0)}
        for plugin in machine.plugins:
            here = sum(numa.id in (device.numa or ()) for device in plugin.devices)
            own |= {plugin.resource: ZoneAmount(here, 0, 0)} if here else {}
        amounts[numa.id] = own
    return amounts


def condition_of(sight: KubeletSight, problem: str = "") -> NodeCondition:
    """What the node's condition says; ``problem``: why nothing could be published (rule 3)."""
    if problem:
        return NodeCondition(CONDITION, "False", NOT_PUBLISHED, problem)
    if sight.complete:
        text = f"NodeResourceTopology {sight.name} says what is free and how the kubelet decides"
        return NodeCondition(CONDITION, "True", PUBLISHED, text)
    reason = sight.reasons[0] if sight.reasons else NOT_PUBLISHED
    return NodeCondition(CONDITION, "False", reason, "; ".join(sight.problems) or "nothing is known")

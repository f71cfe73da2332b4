"""The definition of NodeResourceTopology objects (v1alpha2) that a cluster needs to store them.

It has the fields that producers write and schedulers read, and the approval that the group ``*.k8s.io`` asks
for; clusters that have a definition of any producer need no other.
"""

from typing import Any

from numawise.codec.hardware.nrt import GROUP, KIND

PLURAL, SINGULAR, SHORT = "noderesourcetopologies", "noderesourcetopology", "node-res-topo"
APPROVAL = "https://github.com/kubernetes/enhancements/pull/1870"
TEXT: dict[str, Any] = {"type": "string"}
AMOUNT: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    "x-kubernetes-int-or-string": True,
}


def topology_definition() -> dict[str, Any]:
    """The CustomResourceDefinition."""
    attributes = _list({"name": TEXT, "value": TEXT}, "name", "value")
    resource = {"name": TEXT, "capacity": AMOUNT, "allocatable": AMOUNT, "available": AMOUNT}
    zone = {
        "name": TEXT,
        "type": TEXT,
        "parent": TEXT,
        "costs": _list({"name": TEXT, "value": {"type": "integer", "format": "int64"}}, "name", "value"),
        "attributes": attributes,
        "resources": _list(resource, *resource),
    }
    fields = {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": {"type": "object"},
        "topologyPolicies": {"type": "array", "items": TEXT},
        "zones": _list(zone, "name", "type"),
        "attributes": attributes,
    }
    schema = {"type": "object", "required": ["zones"], "properties": fields}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{PLURAL}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": APPROVAL},
        },
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": [SHORT],
            },
            "versions": [
                {"name": "v1alpha2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def _list(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {"type": "object", "required": list(required), "properties": properties},
    }

"""The list of holds as the API server has it: an object of our own kind, the parameter of a policy.

Rules kept here:

1. A key is the owner's uid and the revision of its template, a value says in JSON who that is and until when.
   A key that is there counts, whatever its value: the policy looks at keys alone, because no time is known
   when a pod is made.
2. A value that is not ours is left alone: nobody is adopted out of it.
3. The policy adds the gate to new pods of listed owners that are not bound.  Where it cannot be worked out,
   pods are made as ever (``failurePolicy: Ignore``).
4. The list has a kind of its own and is no ConfigMap: an API server (1.36) that has once lost its last policy
   with a ConfigMap as parameter finds no ConfigMaps for later ones until it is started anew.
"""

import json
from collections.abc import Mapping
from typing import Any

from numawise.apps.heal.refused import (
    GROUP_VERSION,
    KIND,
    NO_REVISION,
    REVISION,
    REVISIONS,
    UID,
    Controller,
    OwnerRevision,
)
from numawise.apps.heal.rights import HOLD_GROUP, HOLD_LISTS, HOLDS, POLICY
from numawise.codec.stamps import second_stamp, stamp_seconds
from numawise.kube.client import NAME
from numawise.results.pending import HOLD_GATE
from numawise.service.rights import REGISTRATION
from numawise.values import dataclass

Json = dict[str, Any]
POLICY_VERSION = f"{REGISTRATION}/v1"
LIST_VERSION, LIST_KIND = f"{HOLD_GROUP}/v1", "HoldList"
MOST_NAMED = 20
"""Nodes in a value; the list is no longer than an object may be."""


@dataclass(frozen=True, slots=True)
class ListedHold:
    """A hold as the list has it."""

    owner: Controller
    since: float
    until: float
    """Seconds since 1970."""
    number: int = 0
    refused: int = 0
    nodes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The value."""
        owner = self.owner
        return json.dumps(
            {
                "until": second_stamp(self.until),
                "since": second_stamp(self.since),
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "namespace": owner.namespace,
                "name": owner.name,
                "nodes": list(self.nodes[:MOST_NAMED]),
                "number": self.number,
                "refused": self.refused,
            },
            separators=(",", ":"),
        )


def listed_hold(key: str, text: object) -> ListedHold | None:
    """A hold out of the list; None: it is none of ours (rule 2)."""
    uid, dot, revision = key.partition(".")
    if not dot or not UID.fullmatch(uid) or not REVISION.fullmatch(revision) or not isinstance(text, str):
        return None
    try:
        value = json.loads(text[:10_000])
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    parts = [value.get(name) for name in ("kind", "name", "namespace", "apiVersion")]
    patterns = (KIND, NAME, NAME, GROUP_VERSION)
    named = (
        isinstance(part, str) and pattern.fullmatch(part)
        for part, pattern in zip(parts, patterns, strict=True)
    )
    if not all(named):
        return None
    kind, name, namespace, version = map(str, parts)
    number, refused = (value.get(field) for field in ("number", "refused"))
    return ListedHold(
        Controller(kind, name, namespace, OwnerRevision(uid, revision), version),
        stamp_seconds(value.get("since")) or 0.0,
        stamp_seconds(value.get("until")) or 0.0,
        number if type(number) is int else 0,
        refused if type(refused) is int else 0,
    )


# --------------------------------------------------------------------------------------------------
# The objects that the API server must have.


def hold_list(namespace: str) -> Json:
    """The list with nobody on it."""
    return {
        "apiVersion": LIST_VERSION,
        "kind": LIST_KIND,
        "metadata": {"name": HOLDS, "namespace": namespace},
    }


def list_definition(labels: Mapping[str, str] | None = None) -> Json:
    """What a cluster needs to store lists (rule 4)."""
    data = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"type": "object", "properties": {"data": data}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{HOLD_LISTS}.{HOLD_GROUP}", **({"labels": dict(labels)} if labels else {})},
        "spec": {
            "group": HOLD_GROUP,
            "scope": "Namespaced",
            "names": {"plural": HOLD_LISTS, "singular": "holdlist", "kind": LIST_KIND},
            "versions": [version],
        },
    }


def hold_objects(namespace: str, labels: Mapping[str, str] | None = None) -> tuple[Json, ...]:
    """The kind of the list, the policy and its binding (rule 3)."""
    revision = f"'{NO_REVISION}'"
    for label in reversed(REVISIONS):
        revision = f"object.metadata.?labels[?'{label}'].orValue({revision})"
    listed = (
        "params != null && has(params.data) && object.metadata.?ownerReferences.orValue([])"
        f".exists(o, o.?controller.orValue(false) && (o.uid + '.' + {revision}) in params.data)"
    )
    gate = f"Object.spec.schedulingGates{{name: '{HOLD_GATE}'}}"
    gated = f"Object{{spec: Object.spec{{schedulingGates: [{gate}]}}}}"
    named = {"name": POLICY, **({"labels": dict(labels)} if labels else {})}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    return (
        list_definition(labels),
        {
            "apiVersion": POLICY_VERSION,
            "kind": "MutatingAdmissionPolicy",
            "metadata": named,
            "spec": {
                "failurePolicy": "Ignore",
                "reinvocationPolicy": "Never",
                "paramKind": {"apiVersion": LIST_VERSION, "kind": LIST_KIND},
                "matchConstraints": {"resourceRules": [pods]},
                "matchConditions": [
                    {"name": "not-bound", "expression": "object.spec.?nodeName.orValue('') == ''"},
                    {"name": "owner-listed", "expression": listed},
                ],
                "mutations": [
                    {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": gated}}
                ],
            },
        },
        {
            "apiVersion": POLICY_VERSION,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": named,
            "spec": {
                "policyName": POLICY,
                "paramRef": {"name": HOLDS, "namespace": namespace, "parameterNotFoundAction": "Allow"},
            },
        },
    )

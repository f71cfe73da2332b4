"""Rights of a program at the API server, as values: roles, documentation and tests are made of the same list.

Rules kept here:

1. A program lists its rights once, next to itself (``apps/*/rights.py``).  It runs with these, and no others.
2. Nothing stands for everything: no ``*``, and nobody reads secrets.  A value that does is a mistake of ours.
3. ``own_namespace``: meant for objects in the program's own namespace, by a Role there.  ``names``: meant for
   objects of these names; a list, a watch and a creation cannot be limited so.
4. ``chosen``: meant for the namespaces that the program was told to look after; all of them, where nobody
   says which.
5. ``by_name``: meant for the object of the caller's own node.  Rules of the API server cannot say so, because
   all nodes have one account; a policy in the manifest does.
"""

from collections.abc import Iterable, Sequence

from numawise.values import dataclass, replace

CORE, EVENTS, TOPOLOGY = "", "events.k8s.io", "topology.node.k8s.io"
CLAIMS, LEASES = "resource.k8s.io", "coordination.k8s.io"
REGISTRATION = "admissionregistration.k8s.io"
READS = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class ApiRight:
    """Verbs on one kind of object."""

    group: str
    resource: str
    """With its part, as ``nodes/status``."""
    verbs: tuple[str, ...]
    why: str
    by_name: bool = False
    own_namespace: bool = False
    names: tuple[str, ...] = ()
    chosen: bool = False

    def __post_init__(self) -> None:
        kind = self.resource.partition("/")[0]
        assert "*" not in (self.group, self.resource, *self.verbs)  # rule 2
        assert (self.group, kind) != (CORE, "secrets")

    @property
    def writes(self) -> bool:
        """Whether it changes anything."""
        return not set(self.verbs) <= set(READS)


def merged_rights(rights: Iterable[ApiRight]) -> tuple[ApiRight, ...]:
    """Rights together: what has one place is said once, with the verbs and reasons of all."""
    merged: dict[tuple[str, str, bool, tuple[str, ...], bool], ApiRight] = {}
    for right in rights:
        key = right.group, right.resource, right.own_namespace, right.names, right.chosen
        known = merged.get(key)
        if known is None:
            merged[key] = right
            continue
        verbs = (*known.verbs, *(verb for verb in right.verbs if verb not in known.verbs))
        why = known.why if right.why in known.why else f"{known.why}; {right.why}"
        by_name = known.by_name or right.by_name
        merged[key] = replace(known, verbs=verbs, why=why, by_name=by_name)
    return tuple(merged.values())


def rules_of(rights: Sequence[ApiRight]) -> list[dict[str, list[str]]]:
    """Rights as rules of a Role or ClusterRole."""
    return [
        {"apiGroups": [right.group], "resources": [right.resource]}
        | ({"resourceNames": list(right.names)} if right.names else {})
        | {"verbs": list(right.verbs)}
        for right in rights
    ]


VIEW_RIGHTS = (
    ApiRight(CORE, "nodes", ("list", "watch"), "labels, taints, allocatable, release of the kubelet"),
    ApiRight(CORE, "pods", ("list", "watch"), "what is bound where, what waits, what failed"),
    ApiRight(TOPOLOGY, "noderesourcetopologies", ("list", "watch"), "the state that nodes publish"),
)
"""What following the whole cluster needs (``inputs/live.py``)."""

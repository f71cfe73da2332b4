"""What ``numawise heal`` needs at the API server.

Rules kept here:

1. A dry run only reads; what ``--apply`` and ``--defrag`` change is apart.
2. What it keeps for itself lies in its own namespace, in objects with known names.
3. What it reads of owners and writes about pods is of the namespaces that it was told to look after
   (``--in``).  Roles cannot say which pods: a policy does (``pod_policy``).
"""

from numawise.service.rights import (
    CORE,
    EVENTS,
    LEASES,
    REGISTRATION,
    VIEW_RIGHTS,
    ApiRight,
    merged_rights,
)

LEASE, HOLDS, POLICY = "numawise-heal", "numawise-holds", "numawise-hold"
HOLD_GROUP, HOLD_LISTS = "numawise.dev", "holdlists"
POLICIES, BINDINGS = "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"
OWNERS = (
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    (CORE, "replicationcontrollers"),
)

READING = (
    *VIEW_RIGHTS,
    *(
        ApiRight(
            group, kind, ("get",), "whether an owner is there, and its template still the same", chosen=True
        )
        for group, kind in OWNERS
    ),
    *(
        ApiRight(REGISTRATION, plural, ("get",), "whether holds have an effect", names=(POLICY,))
        for plural in (POLICIES, BINDINGS)
    ),
)
APPLYING = (
    ApiRight(LEASES, "leases", ("create",), "the Lease of the leader, the first time", own_namespace=True),
    ApiRight(LEASES, "leases", ("get", "update"), "who of several leads", own_namespace=True, names=(LEASE,)),
    ApiRight(
        EVENTS, "events", ("create", "patch"), "why a pod was refused, and the smallest fix", chosen=True
    ),
    ApiRight(
        CORE, "pods", ("delete", "patch"), "pods that failed are removed; gates are taken off", chosen=True
    ),
    ApiRight(HOLD_GROUP, HOLD_LISTS, ("create",), "the list of holds, the first time", own_namespace=True),
    ApiRight(
        HOLD_GROUP,
        HOLD_LISTS,
        ("get", "patch"),
        "the list of holds: whose new pods wait",
        own_namespace=True,
        names=(HOLDS,),
    ),
)
DEFRAGMENTING = (
    ApiRight(CORE, "pods", ("get",), "the pod that waits"),
    ApiRight("policy", "poddisruptionbudgets", ("list",), "which pods may not be disturbed"),
    ApiRight(CORE, "pods/eviction", ("create",), "pods that are moved on request"),
)


def heal_rights(*, apply: bool = True, defrag: bool = True) -> tuple[ApiRight, ...]:
    """The rights of a healer that does these things."""
    return merged_rights((*READING, *(APPLYING if apply else ()), *(DEFRAGMENTING if defrag else ())))

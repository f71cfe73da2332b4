"""What ``numawise heal`` needs at the API server.

Rules kept here:

1. A dry run reads, and writes nothing but its Lease; what ``--apply`` and ``--defrag`` change is apart.
2. What it keeps for itself lies in its own namespace, in objects with known names.
"""

from numawise.service.rights import CORE, EVENTS, LEASES, VIEW_RIGHTS, ApiRight, merged_rights

LEASE, HOLDS = "numawise-heal", "numawise-holds"

READING = (
    *VIEW_RIGHTS,
    ApiRight("policy", "poddisruptionbudgets", ("list", "watch"), "which pods may not be disturbed"),
    ApiRight(LEASES, "leases", ("create",), "the Lease of the leader, the first time", own_namespace=True),
    ApiRight(LEASES, "leases", ("get", "update"), "who of several leads", own_namespace=True, names=(LEASE,)),
)
APPLYING = (
    ApiRight(EVENTS, "events", ("create", "patch"), "why a pod was refused, and the smallest fix"),
    ApiRight(CORE, "pods", ("delete", "patch"), "pods that failed are removed; gates are taken off"),
    ApiRight(CORE, "configmaps", ("create",), "the list of holds, the first time", own_namespace=True),
    ApiRight(
        CORE,
        "configmaps",
        ("get", "update", "patch"),
        "the list of holds: whose new pods wait",
        own_namespace=True,
        names=(HOLDS,),
    ),
)
DEFRAGMENTING = (ApiRight(CORE, "pods/eviction", ("create",), "pods that are moved on request"),)


def heal_rights(*, apply: bool = True, defrag: bool = True) -> tuple[ApiRight, ...]:
    """The rights of a healer that does these things."""
    return merged_rights((*READING, *(APPLYING if apply else ()), *(DEFRAGMENTING if defrag else ())))

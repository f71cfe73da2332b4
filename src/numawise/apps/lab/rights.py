"""What ``numawise lab`` needs at the API server: the rights of many kubelets together."""

from numawise.service.rights import CORE, EVENTS, LEASES, TOPOLOGY, ApiRight

LAB_RIGHTS = (
    ApiRight(
        CORE,
        "nodes",
        ("get", "list", "watch", "create", "patch", "delete"),
        "the virtual nodes; others are listed, and never changed",
    ),
    ApiRight(CORE, "nodes/status", ("patch",), "what a kubelet reports of its node"),
    ApiRight(LEASES, "leases", ("create", "patch", "delete"), "heartbeats, in namespace kube-node-lease"),
    ApiRight(
        CORE, "pods", ("list", "watch", "delete"), "pods of virtual nodes, removed once they have ended"
    ),
    ApiRight(CORE, "pods/status", ("patch",), "what a kubelet reports of its pods"),
    ApiRight(EVENTS, "events", ("create", "patch"), "why a pod was refused"),
    ApiRight(
        TOPOLOGY,
        "noderesourcetopologies",
        ("list", "create", "patch", "delete"),
        "what the agent would publish",
    ),
)

"""The objects that run ``numawise heal`` in a cluster.

Rules kept here:

1. It has the rights of what it was asked to do: without ``apply`` it can change nothing, and there is no
   policy that holds pods.
2. Of pods it changes what it is for, and no other pods (``pod_policy``); where it looks after some namespaces
   (``namespaces``), its account can change nothing in others.
3. Of those that act, one has the Lease; the others wait for it.  One is enough to say what would be done.
4. Before Kubernetes 1.36 there is no such policy (``holds``): refused pods are explained and removed.
"""

from numawise.apps.heal.hold_list import hold_objects
from numawise.apps.heal.pod_policy import pod_policy
from numawise.apps.heal.rights import heal_rights
from numawise.service.manifest import (
    Json,
    ProgramObjects,
    container_security,
    disruption_budget,
    own_fields,
    pod_security,
    probes,
    resources,
    spread_over_nodes,
)
from numawise.values import dataclass

NAME = "numawise-heal"
PAGES_PORT = 9797
CPU_REQUEST, MEMORY_REQUEST, MEMORY_LIMIT = "50m", "256Mi", "1Gi"


@dataclass(frozen=True, slots=True)
class HealWish:
    """How the healer shall run."""

    image: str
    namespace: str = "numawise"
    replicas: int = 2
    apply: bool = False
    """Act; otherwise it says what it would do."""
    holds: bool = True
    """With the policy that holds pods back."""
    namespaces: tuple[str, ...] = ()
    """Those that it looks after; none: all."""


def heal_objects(wish: HealWish) -> tuple[Json, ...]:
    """All objects, in an order in which they can be applied."""
    own = ProgramObjects(NAME, wish.namespace)
    return (
        own.account(),
        *own.access(heal_rights(apply=wish.apply, defrag=False), wish.namespaces),
        *(pod_policy(own) if wish.apply else ()),
        *(hold_objects(wish.namespace, own.labels) if wish.apply and wish.holds else ()),
        disruption_budget(own),
        _pods(own, wish),
    )


def _pods(own: ProgramObjects, wish: HealWish) -> Json:
    container: Json = {
        "name": "heal",
        "image": wish.image,
        "args": [
            "heal",
            *(["--apply"] if wish.apply else []),
            *("--namespace", wish.namespace),
            *(word for namespace in wish.namespaces for word in ("--in", namespace)),
            *("--listen", f"0.0.0.0:{PAGES_PORT}"),
        ],
        "env": own_fields((("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace"))),
        "ports": [{"name": "pages", "containerPort": PAGES_PORT}],
        **probes(),
        "resources": resources(CPU_REQUEST, MEMORY_REQUEST, MEMORY_LIMIT),
        "securityContext": container_security(),
    }
    pod = {
        "serviceAccountName": own.name,
        "automountServiceAccountToken": True,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        **spread_over_nodes(own),
        "securityContext": pod_security(),
        "containers": [container],
    }
    return own.deployment(wish.replicas if wish.apply else 1, pod)

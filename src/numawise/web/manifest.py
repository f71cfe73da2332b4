"""The objects that run the page in a cluster.

Rules kept here:

1. The page listens on the loopback of its pod alone: whoever may forward ports to pods of its namespace sees
   it (``kubectl port-forward``), with the rights that the API server checks, and nobody else does.
2. It reads, and changes nothing; it shows nothing of the host that it happens to run on.
3. What is dropped on it lies in a folder of the pod's own, of a limited size, and goes with the pod.
"""

from numawise.service.manifest import (
    Json,
    ProgramObjects,
    container_security,
    open_ports,
    pod_security,
    probes,
    resources,
)
from numawise.service.rights import VIEW_RIGHTS
from numawise.values import dataclass

NAME = "numawise-page"
PORT, PAGES_PORT = 9801, 9797
CPU_REQUEST, MEMORY_REQUEST, MEMORY_LIMIT = "50m", "256Mi", "2Gi"
DROPPED, DROPPED_FOLDER, DROPPED_LIMIT = "dropped", "/tmp", "1Gi"  # noqa: S108 - the pod's own
PAGE_RIGHTS = VIEW_RIGHTS


@dataclass(frozen=True, slots=True)
class PageWish:
    """How the page shall run."""

    image: str
    namespace: str = "numawise"


def page_objects(wish: PageWish) -> tuple[Json, ...]:
    """All objects, in an order in which they can be applied."""
    own = ProgramObjects(NAME, wish.namespace)
    return own.account(), *own.access(PAGE_RIGHTS), open_ports(own, {"pages": ()}), _pods(own, wish)


def _pods(own: ProgramObjects, wish: PageWish) -> Json:
    container: Json = {
        "name": "page",
        "image": wish.image,
        "args": [
            *("serve", "--cluster", "--no-host"),
            *("--listen", f"127.0.0.1:{PORT}"),
            *("--pages", f"0.0.0.0:{PAGES_PORT}"),
        ],
        "ports": [{"name": "pages", "containerPort": PAGES_PORT}],
        **probes(),
        "resources": resources(CPU_REQUEST, MEMORY_REQUEST, MEMORY_LIMIT),
        "securityContext": container_security(),
        "volumeMounts": [{"name": DROPPED, "mountPath": DROPPED_FOLDER}],
    }
    pod = {
        "serviceAccountName": own.name,
        "automountServiceAccountToken": True,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": [{"name": DROPPED, "emptyDir": {"sizeLimit": DROPPED_LIMIT}}],
    }
    return own.deployment(1, pod)

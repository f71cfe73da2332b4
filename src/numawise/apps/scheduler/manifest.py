"""The objects that run ``numawise scheduler`` in a cluster, and a kube-scheduler that asks it.

Rules kept here:

1. The extender is a program of its own with an account of its own, which reads and nothing else.  It is asked
   over TLS by clients with a certificate of our authority: whoever else could ask could also make promises.
2. There are two of them, and one client is always sent to the same one (``sessionAffinity``), because
   promises are kept in memory.  When that one goes, the other knows all that the API server shows; what is
   lost are promises of the last moments, and the kubelet has the last word as it always has.
3. The second kube-scheduler is the stock one, of the cluster's release, with the rights that Kubernetes
   itself gives to schedulers; pods come to it by ``schedulerName``.  It works where nobody can change the
   control plane.  Where one can, ``control_plane_configuration`` is for the scheduler that is there.
4. Who may connect is in a NetworkPolicy: the second kube-scheduler, and networks that were named.  A control
   plane's scheduler is no pod that could be named; where nobody was, everybody may connect, and is let in by
   certificate alone.
"""

from numawise.apps.scheduler.configuration import CERTIFICATES, ExtenderWish, scheduler_configuration
from numawise.apps.scheduler.rights import SCHEDULER_RIGHTS
from numawise.codec.output import manifest_yaml
from numawise.service.manifest import (
    NAME_LABEL,
    RBAC,
    Json,
    ProgramObjects,
    container_security,
    disruption_budget,
    open_ports,
    pod_security,
    probes,
    resources,
    spread_over_nodes,
)
from numawise.service.rights import LEASES, ApiRight
from numawise.values import dataclass, replace

NAME, STOCK_NAME = "numawise-scheduler", "numawise-kube-scheduler"
SERVER_SECRET, CLIENT_SECRET = "numawise-scheduler-server", "numawise-scheduler-client"
PROFILE = "numawise"
PORT, PAGES_PORT, STOCK_PORT = 9443, 9797, 10259
SERVER_FOLDER, CLIENT_FOLDER = "/etc/numawise-scheduler", "/etc/numawise-client"
TRIED_AGAIN = "30s"
"""After so long kube-scheduler tries a waiting pod again though nothing happened: it may have asked the very
moment before a pod that ended was known to us, and only the next event would make it ask once more."""
CONFIG_FOLDER, CONFIG_KEY = "/etc/kube-scheduler", "config.yaml"
AUTHORITY, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
"""Names in a Secret of certificates, and of the files that are mounted of it."""
CPU_REQUEST, MEMORY_REQUEST, MEMORY_LIMIT = "100m", "256Mi", "1Gi"
STOCK_RIGHTS = (
    ApiRight(LEASES, "leases", ("create",), "the Lease of the leader, the first time", own_namespace=True),
    ApiRight(
        LEASES, "leases", ("get", "update"), "who of the two leads", own_namespace=True, names=(STOCK_NAME,)
    ),
)
"""Beside the roles that the API server keeps for schedulers."""
STOCK_ROLES = ("system:kube-scheduler", "system:volume-scheduler")


WAITS = (("--patience", "300"), ("--kept-places", "1"), ("--kept-seconds", "1800"), ("--promise", "30"))
"""Options about pods that wait, as the program has them by itself; they stand there to be changed."""


@dataclass(frozen=True, slots=True)
class SchedulerWish:
    """How the extender shall run."""

    image: str
    namespace: str = "numawise"
    replicas: int = 2
    unpublished: str = "pass"
    """What is said of nodes that publish nothing: pass, or hold."""
    waits: tuple[tuple[str, str], ...] = WAITS
    stamp: str = ""
    """Changes when certificates do, so that pods start again with them."""
    stock: bool = False
    """There is a kube-scheduler beside it, which asks."""
    callers: tuple[str, ...] = ()
    """Networks that may connect, as 10.0.0.0/24."""


@dataclass(frozen=True, slots=True)
class StockWish:
    """How a kube-scheduler beside the control plane's shall run."""

    image: str
    """Of the cluster's release, such as registry.k8s.io/kube-scheduler:v1.36.4."""
    namespace: str = "numawise"
    replicas: int = 2
    stamp: str = ""


def server_names(namespace: str) -> tuple[str, ...]:
    """The names by which the extender is asked; the first is the one in configurations."""
    return f"{NAME}.{namespace}.svc", f"{NAME}.{namespace}", f"{NAME}.{namespace}.svc.cluster.local"


# --- the extender ---------------------------------------------------------------------------------


def scheduler_objects(wish: SchedulerWish) -> tuple[Json, ...]:
    """The extender, in an order in which its objects can be applied."""
    own = ProgramObjects(NAME, wish.namespace)
    return (
        own.account(),
        *own.access(SCHEDULER_RIGHTS),
        _service(own),
        open_ports(own, {"extender": _callers(wish), "pages": ()}),
        disruption_budget(own),
        _extender_pods(own, wish),
    )


def _callers(wish: SchedulerWish) -> tuple[Json, ...]:
    """Who may connect (rule 4)."""
    stock = {"podSelector": {"matchLabels": {NAME_LABEL: STOCK_NAME}}}
    return (*([stock] if wish.stock else ()), *({"ipBlock": {"cidr": network}} for network in wish.callers))


def _service(own: ProgramObjects) -> Json:
    """One address; a client stays with the pod that it was sent to (rule 2)."""
    return own.inside(
        "v1",
        "Service",
        spec={
            "selector": own.selector,
            "sessionAffinity": "ClientIP",
            "ports": [{"name": "extender", "port": PORT, "targetPort": "extender"}],
        },
    )


def _extender_pods(own: ProgramObjects, wish: SchedulerWish) -> Json:
    container: Json = {
        "name": "scheduler",
        "image": wish.image,
        "args": [
            "scheduler",
            *("--listen", f"0.0.0.0:{PORT}"),
            *("--tls-cert", f"{SERVER_FOLDER}/{CERTIFICATE}"),
            *("--tls-key", f"{SERVER_FOLDER}/{KEY}"),
            *("--client-ca", f"{SERVER_FOLDER}/{AUTHORITY}"),
            *("--pages", f"0.0.0.0:{PAGES_PORT}"),
            *("--unpublished", wish.unpublished),
            *(word for option in wish.waits for word in option),
        ],
        "ports": [
            {"name": "extender", "containerPort": PORT},
            {"name": "pages", "containerPort": PAGES_PORT},
        ],
        **probes(),
        "resources": resources(CPU_REQUEST, MEMORY_REQUEST, MEMORY_LIMIT),
        "securityContext": container_security(),
        "volumeMounts": [{"name": "certificates", "mountPath": SERVER_FOLDER, "readOnly": True}],
    }
    volumes = [{"name": "certificates", "secret": {"secretName": SERVER_SECRET, "defaultMode": 0o440}}]
    return own.deployment(wish.replicas, _pod(own, container, volumes), stamp=wish.stamp)


def _pod(own: ProgramObjects, container: Json, volumes: list[Json]) -> Json:
    return {
        "serviceAccountName": own.name,
        "automountServiceAccountToken": True,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        **spread_over_nodes(own),
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": volumes,
    }


# --- a kube-scheduler beside the control plane's --------------------------------------------------


def stock_objects(wish: StockWish) -> tuple[Json, ...]:
    """A stock kube-scheduler that asks the extender, for pods with ``schedulerName: numawise`` (rule 3)."""
    own = ProgramObjects(STOCK_NAME, wish.namespace)
    url = f"https://{server_names(wish.namespace)[0]}:{PORT}"
    configuration = scheduler_configuration(_asked(url, CLIENT_FOLDER, kubeconfig="")) | {
        "leaderElection": {
            "leaderElect": True,
            "resourceName": STOCK_NAME,
            "resourceNamespace": wish.namespace,
        },
        "profiles": [{"schedulerName": PROFILE}],
    }
    return (
        own.account(),
        *own.access(STOCK_RIGHTS),
        *(_has_role(own, role) for role in STOCK_ROLES),
        own.inside("v1", "ConfigMap", data={CONFIG_KEY: manifest_yaml(configuration)}),
        disruption_budget(own),
        _stock_pods(own, wish),
    )


def _has_role(own: ProgramObjects, role: str) -> Json:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return own.clusterwide(
        f"{RBAC}/v1",
        "ClusterRoleBinding",
        f"{own.name}-{role.removeprefix('system:')}",
        roleRef=reference,
        subjects=[own.subject],
    )


def _stock_pods(own: ProgramObjects, wish: StockWish) -> Json:
    def probe(path: str) -> Json:
        return {"httpGet": {"path": path, "port": "pages", "scheme": "HTTPS"}, "timeoutSeconds": 5}

    container: Json = {
        "name": "kube-scheduler",
        "image": wish.image,
        "command": ["kube-scheduler"],
        "args": [
            f"--config={CONFIG_FOLDER}/{CONFIG_KEY}",
            f"--secure-port={STOCK_PORT}",
            "--authentication-skip-lookup=true",  # or it needs rights in kube-system
            f"--pod-max-in-unschedulable-pods-duration={TRIED_AGAIN}",
        ],
        "ports": [{"name": "pages", "containerPort": STOCK_PORT}],
        "livenessProbe": {**probe("/livez"), "periodSeconds": 20, "initialDelaySeconds": 15},
        "readinessProbe": {**probe("/readyz"), "periodSeconds": 5},
        "resources": resources(CPU_REQUEST, MEMORY_REQUEST, MEMORY_LIMIT),
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
            {"name": "certificates", "mountPath": CLIENT_FOLDER, "readOnly": True},
        ],
    }
    volumes = [
        {"name": "config", "configMap": {"name": own.name}},
        {"name": "certificates", "secret": {"secretName": CLIENT_SECRET, "defaultMode": 0o440}},
    ]
    return own.deployment(wish.replicas, _pod(own, container, volumes), stamp=wish.stamp)


def control_plane_configuration(namespace: str, url: str) -> Json:
    """For the control plane's own kube-scheduler, which reaches the extender at an address (rule 3)."""
    asked = _asked(url, CERTIFICATES, kubeconfig=ExtenderWish().kubeconfig)
    return scheduler_configuration(replace(asked, server_name=server_names(namespace)[0]))


def _asked(url: str, folder: str, kubeconfig: str) -> ExtenderWish:
    """How a scheduler asks that has the client's files in a folder."""
    return ExtenderWish(
        url,
        kubeconfig,
        ca_file=f"{folder}/{AUTHORITY}",
        client_cert=f"{folder}/{CERTIFICATE}",
        client_key=f"{folder}/{KEY}",
    )

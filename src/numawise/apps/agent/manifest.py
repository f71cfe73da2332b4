"""The objects that run the agent on every node of a cluster, made of what its features need (``rights``).

Rules kept here:

1. An account has exactly the rights of the features that were asked for; without any it gets no token.
2. The container has a read-only root, no capabilities, no way to more, the runtime's seccomp profile, and the
   mounts of its features alone.  It is root because the kubelet's files and sockets are.
3. Rules of the API server cannot tie an agent to its own node, because all nodes share an account.  A policy
   does: what the account writes must be about the node that its token was issued for, and of a Node only
   what the agent is for.
4. The configuration that was named goes along, as a ConfigMap: what was tried here is what runs there.
"""

from collections.abc import Sequence

from numawise.apps.agent.rights import KUBELET_DIR, STARTUP_TAINT, api_of, mounts_of
from numawise.service.manifest import (
    Json,
    ProgramObjects,
    container_security,
    namespace_object,
    own_fields,
    pod_security,
    probes,
    resources,
)
from numawise.service.rights import ApiRight
from numawise.values import dataclass

NAME = "numawise-agent"
CONFIG_FOLDER, CONFIG_KEY = "/etc/numawise-agent", "config.yaml"
PORT = 9797
CONDITION = "NumawiseTopologyPublished"
STATUS_FIELDS = ("capacity", "allocatable", "addresses", "daemonEndpoints", "nodeInfo", "volumesAttached")
SPEC_FIELDS = ("unschedulable", "podCIDRs", "providerID")
MEMORY_REQUEST, MEMORY_LIMIT, CPU_REQUEST = "64Mi", "192Mi", "20m"


@dataclass(frozen=True, slots=True)
class ManifestWish:
    """What an agent in a cluster is to do."""

    features: tuple[str, ...]
    image: str
    words: tuple[str, ...]
    """Its command line, behind ``agent``, without what is made here."""
    namespace: str = "numawise"
    kubelet_dir: str = KUBELET_DIR
    config: str = ""
    """Text of a configuration, or of made-up devices."""
    files: tuple[str, ...] = ()
    """Files of the host that are read."""
    devices: bool = False
    """Devices are found by their files below /dev."""
    nvidia: bool = False
    """NVIDIA's library is needed, which its container runtime gives."""


def manifest(wish: ManifestWish) -> tuple[Json, ...]:
    """All objects, in an order in which they can be applied."""
    rights = api_of(wish.features)
    own = _own(wish)
    return (
        namespace_object(wish.namespace, "privileged"),  # folders of the host are mounted
        own.account(),
        *own.access(rights),
        *(_policy(wish, rights) if any(right.by_name for right in rights) else ()),
        *((own.inside("v1", "ConfigMap", data={CONFIG_KEY: wish.config}),) if wish.config else ()),
        _daemon_set(wish, token=bool(rights)),
    )


def _own(wish: ManifestWish) -> ProgramObjects:
    return ProgramObjects(NAME, wish.namespace)


# --- rights ---------------------------------------------------------------------------------------


OWN = "authentication.kubernetes.io/node-name"
ACCOUNT_NODE = f"request.userInfo.extra[?'{OWN}'][0].orValue('')"
"""The node that the token was issued for; the API server says so since 1.30."""
OWNERS = "object.metadata.?ownerReferences.orValue([])"


def _policy(wish: ManifestWish, rights: Sequence[ApiRight]) -> tuple[Json, ...]:
    """Each agent writes about its own node, and changes of it only what it is for (rule 3)."""
    validations: list[Json] = [
        {
            "expression": "object.metadata.name == variables.node",
            "message": "the agent of a node writes about its own node alone",
        },
        {
            "expression": f"request.resource.resource == 'nodes' || {OWNERS}.all(o, o.kind == 'Node' && "
            "o.name == variables.node && !o.?blockOwnerDeletion.orValue(false))",
            "message": "what the agent of a node publishes belongs to its own node, and blocks no removal",
        },
    ]
    validations += _node_validations(wish)
    rules = [
        {
            "apiGroups": [right.group],
            "apiVersions": ["*"],
            "resources": [right.resource],
            "operations": ["CREATE", "UPDATE"],
        }
        for right in rights
        if right.by_name
    ]
    return _own(wish).account_policy(rules, validations, {"node": ACCOUNT_NODE})


def _node_validations(wish: ManifestWish) -> list[Json]:
    """Of a Node: our condition alone, and taints may only go."""
    spec = "request.resource.resource != 'nodes' || request.?subResource.orValue('') == 'status' || "
    status = "request.resource.resource != 'nodes' || request.?subResource.orValue('') != 'status' || "
    before, after = (f"{which}.status.?conditions.orValue([])" for which in ("oldObject", "object"))
    same = [f"object.status.?{name} == oldObject.status.?{name}" for name in STATUS_FIELDS]
    same += [
        f"{some}.all(c, c.type == '{CONDITION}' || c in {others})"
        for some, others in ((before, after), (after, before))
    ]
    parts = ("labels", "annotations", "ownerReferences", "finalizers")
    validations: list[Json] = [
        {
            "expression": "request.resource.resource != 'nodes' || ("
            + " && ".join(f"object.metadata.?{name} == oldObject.metadata.?{name}" for name in parts)
            + ")",
            "message": "the agent changes no labels and annotations of a node",
        },
        {
            "expression": f"{status}({' && '.join(same)})",
            "message": f"of the status of a node the agent changes the condition {CONDITION} alone",
        },
    ]
    if STARTUP_TAINT in wish.features:
        fields = [f"object.spec.?{name} == oldObject.spec.?{name}" for name in SPEC_FIELDS]
        old = "oldObject.spec.?taints.orValue([])"
        fields.append(f"object.spec.?taints.orValue([]).all(t, t in {old})")
        validations.append(
            {
                "expression": f"{spec}({' && '.join(fields)})",
                "message": "of the specification of a node the agent removes taints alone",
            }
        )
    return validations


# --- the pods -------------------------------------------------------------------------------------


def _daemon_set(wish: ManifestWish, *, token: bool) -> Json:
    own = _own(wish)
    pod: Json = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": token,
        "priorityClassName": "system-node-critical",
        **({"runtimeClassName": "nvidia"} if wish.nvidia else {}),
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 30,
        "securityContext": pod_security(user=0),
        "containers": [_container(wish)],
        "volumes": [volume for volume, _ in _volumes(wish)],
    }
    return own.inside(
        "apps/v1",
        "DaemonSet",
        spec={
            "selector": {"matchLabels": own.selector},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": own.template(pod),
        },
    )


def _container(wish: ManifestWish) -> Json:
    environment = own_fields((("NODE_NAME", "spec.nodeName"), ("POD_NAME", "metadata.name")))
    if wish.nvidia:
        environment += [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
        ]
    port = _port(wish.words)
    words = ["agent", *(f"--{feature}" for feature in wish.features if feature != STARTUP_TAINT), *wish.words]
    container: Json = {
        "name": "agent",
        "image": wish.image,
        "args": words,
        "env": environment,
        "resources": resources(CPU_REQUEST, MEMORY_REQUEST, MEMORY_LIMIT),
        "securityContext": container_security(),
        "volumeMounts": [mount for _, mount in _volumes(wish)],
    }
    if port:
        container["ports"] = [{"name": "pages", "containerPort": port}]
        container |= probes()
    return container


def _port(words: Sequence[str]) -> int:
    """The port of ``--listen``; 0 when there are no pages."""
    text = next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "--listen"), "")
    port = text.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0


def _volumes(wish: ManifestWish) -> list[tuple[Json, Json]]:
    """Volumes, and where they are mounted."""
    places: list[tuple[str, bool, str]] = [
        (mount.path.replace(KUBELET_DIR, wish.kubelet_dir, 1), mount.writes, "Directory")
        for mount in mounts_of(wish.features)
    ]
    if wish.devices:
        places.append(("/dev", False, "Directory"))
    places += [(path, False, "File") for path in wish.files]
    volumes = []
    for path, writes, kind in places:
        name = "host-" + "-".join(
            part for part in path.lower().replace(".", "-").replace("_", "-").split("/") if part
        )
        volume = {"name": name[:63].rstrip("-"), "hostPath": {"path": path, "type": kind}}
        mount = {"name": volume["name"], "mountPath": path, "readOnly": not writes}
        volumes.append((volume, mount))
    if wish.config:
        volumes.append(
            (
                {"name": "config", "configMap": {"name": NAME}},
                {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
            )
        )
    return volumes

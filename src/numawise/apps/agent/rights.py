"""What each feature of the agent needs, and nothing else: mounts, rights at the API server, capabilities.

Rules kept here:

1. This is the one list: manifests are made of it, the page of rights is compared with it, and tests run the
   agent with what it lists, no more.
2. Everything is read-only unless ``writes`` says otherwise.  No feature needs a capability, a privileged
   container, the host's network or its processes; root is needed because the kubelet's files are root's.
   ``/sys`` is not listed: what a container has there is the host's, but for control groups.
3. What all programs' rights have in common is in ``service/rights.py``.
"""

from collections.abc import Iterable

from numawise.service.rights import CLAIMS, CORE, EVENTS, TOPOLOGY, ApiRight, merged_rights
from numawise.values import dataclass

DEVICE_PLUGIN, EXPORT, WATCH = "device-plugin", "export", "watch"
REPAIR, STARTUP_TAINT, CONFIGZ = "repair", "startup-taint", "configz"
FEATURES = (DEVICE_PLUGIN, EXPORT, WATCH, REPAIR, STARTUP_TAINT, CONFIGZ)
"""As their options are called."""
KUBELET_DIR = "/var/lib/kubelet"


@dataclass(frozen=True, slots=True)
class HostMount:
    """A folder of the host, at the same path in the container."""

    path: str
    why: str
    writes: bool = False


@dataclass(frozen=True, slots=True)
class FeatureRights:
    """What one feature needs."""

    feature: str
    mounts: tuple[HostMount, ...] = ()
    api: tuple[ApiRight, ...] = ()


_READS_KUBELET = HostMount(
    KUBELET_DIR,
    "state files, the devices' checkpoint, the configuration, the PodResources socket; the files are "
    "replaced when they change, so the folder is mounted and not each file",
)
_READS_CLUSTER = (
    ApiRight(CORE, "nodes", ("get", "list", "watch"), "the node's own object: release, allocatable, taints"),
    ApiRight(CORE, "pods", ("list", "watch"), "the pods of the node: what they asked for"),
)
_WRITES_EVENTS = ApiRight(EVENTS, "events", ("create", "patch"), "what is wrong, where people look")

RIGHTS: dict[str, FeatureRights] = {
    rights.feature: rights
    for rights in (
        FeatureRights(
            DEVICE_PLUGIN,
            mounts=(
                HostMount(
                    f"{KUBELET_DIR}/device-plugins",
                    "the kubelet's socket is there, and the agent's own are made there",
                    writes=True,
                ),
                HostMount(f"{KUBELET_DIR}/pod-resources", "whether a device that has gone is still held"),
            ),
        ),
        FeatureRights(
            EXPORT,
            mounts=(_READS_KUBELET,),
            api=(
                *_READS_CLUSTER,
                ApiRight(
                    TOPOLOGY,
                    "noderesourcetopologies",
                    ("get", "create", "patch"),
                    "the published object",
                    by_name=True,
                ),
                ApiRight(CORE, "nodes/status", ("patch",), "the condition of the node", by_name=True),
                _WRITES_EVENTS,
            ),
        ),
        FeatureRights(
            WATCH,
            mounts=(
                _READS_KUBELET,
                HostMount("/sys/fs/cgroup", "what containers may use and where their pages are"),
                HostMount("/var/log/containers", "which container an id is; only names of links are read"),
            ),
            api=(
                *_READS_CLUSTER,
                _WRITES_EVENTS,
                ApiRight(CLAIMS, "resourceslices", ("list",), "on which NUMA nodes these devices are"),
            ),
        ),
        FeatureRights(
            REPAIR, mounts=(HostMount("/sys/fs/cgroup", "CPUs of containers are put right", writes=True),)
        ),
        FeatureRights(
            STARTUP_TAINT,
            api=(ApiRight(CORE, "nodes", ("get", "patch"), "the taint is removed", by_name=True),),
        ),
        FeatureRights(
            CONFIGZ,
            api=(
                ApiRight(
                    CORE,
                    "nodes/proxy",
                    ("get",),
                    "the configuration that the kubelet runs with; whoever has this right can run commands "
                    "in every container of a node",
                ),
            ),
        ),
    )
}


def mounts_of(features: Iterable[str]) -> tuple[HostMount, ...]:
    """The mounts of features together, by path, each once; what another one shows already is left out."""
    merged: dict[str, HostMount] = {}
    for feature in features:
        for mount in RIGHTS[feature].mounts:
            known = merged.setdefault(mount.path, mount)
            why = known.why if mount.why in known.why else f"{known.why}; {mount.why}"
            merged[mount.path] = HostMount(mount.path, why, known.writes or mount.writes)
    return tuple(
        merged[path]
        for path in sorted(merged)
        if merged[path].writes or not any(path.startswith(f"{other}/") for other in merged)
    )


def api_of(features: Iterable[str]) -> tuple[ApiRight, ...]:
    """The rights of features together, each resource once."""
    return merged_rights(right for feature in features for right in RIGHTS[feature].api)

"""A node looked at from all sides: hardware, kubelet and pods, and the API server where it may be asked.

Rules kept here:

1. Nothing is asked over the network unless somebody names it; the one exception is the read-only port of the
   kubelet on this very host, where its configuration opens one.
2. What cannot be read is reported with the reason, and the rest is gathered all the same.
"""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from numawise.apps.bundle.model import Collected
from numawise.apps.bundle.pack import Packed, packed
from numawise.codec.bundle.manifest import API_SERVER
from numawise.codec.checkpoint import DEVICE_FILE
from numawise.codec.checkpoint.look import look
from numawise.codec.document import Document, read_documents, read_file
from numawise.codec.infile import is_folder
from numawise.codec.kubelet import effective
from numawise.codec.node import node_values, read_node_file
from numawise.codec.outfile import PRIVATE, write_whole
from numawise.codec.podresources import PodResources, pod_resources_of, read_pod_resources
from numawise.engine.state import DeviceFile
from numawise.errors import ClusterError, InputError, quoted
from numawise.host.discover import nvidia_uuids, read_live
from numawise.host.files import Tree
from numawise.host.kubelet import program_version
from numawise.inputs.devices import seen_machine
from numawise.inputs.gathered import (
    MACHINE,
    NODE,
    POD_RESOURCES,
    VERSION,
    KubeletParts,
    NodeSources,
    Notes,
)
from numawise.inputs.kubelet import kubelet_parts, state_texts
from numawise.inputs.node_pods import pods_on_node
from numawise.kube.plain import fetch, is_url
from numawise.kube.podresources import SOCKET, ask
from numawise.machine.hardware import Hardware
from numawise.values import dataclass, field

MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
RELEASES = ("etc/os-release", "usr/lib/os-release")
NODE_INFO = {
    "kubelet": "kubeletVersion",
    "kernel": "kernelVersion",
    "os": "osImage",
    "runtime": "containerRuntimeVersion",
}


@dataclass(frozen=True, slots=True)
class FromCluster:
    """What the API server returned about a node."""

    node: str = ""
    object: Mapping[str, Any] | None = None
    """The Node object."""
    info: Mapping[str, str] = field(default_factory=dict)
    pods: tuple[Mapping[str, Any], ...] = ()
    configz: Mapping[str, Any] | None = None


def gather(wanted: NodeSources) -> Collected:
    """Everything about a node that can be had."""
    notes = Notes()
    if not is_folder(wanted.top):
        raise InputError("is not a folder", file=str(wanted.top), advice="give the folder that stands for /")
    tree = Tree(wanted.top)
    hardware = read_live(wanted.root)
    notes.found(MACHINE, ", ".join(hardware.sources) or "nothing")
    parts = kubelet_parts(wanted, notes)
    state = state_texts(parts, wanted, notes)
    name = wanted.node or parts.flag.get("hostname-override", "") or _host_name(wanted, tree)
    cluster = _cluster(wanted, name, notes)
    versions = _versions(wanted, parts, cluster, hardware, tree, notes)
    configz = _configz(wanted, cluster, notes)
    version = effective.version_of(versions.get("kubelet", ""))
    files, running_config = parts.together(version), effective.by_kubelet(configz, version)
    if files is not None and running_config is not None:
        for one in effective.differences(running_config, files, version):
            notes.remark(f"{one}: the running kubelet uses a different value than its files")
    node = cluster.node or name
    record = look(DEVICE_FILE, state[DEVICE_FILE]).devices if DEVICE_FILE in state else None
    answers = _pod_resources(wanted, parts, notes)
    settings = running_config or files or {}
    pods = pods_on_node(wanted, parts, settings, cluster.pods, node, notes, answers, state)
    return Collected(
        hardware=hardware,
        machine=seen_machine(hardware, record or DeviceFile(), nvidia_uuids(wanted.top), answers, notes),
        parts=parts,
        configz=configz,
        state=state,
        pods=pods.found,
        all_pods=pods.complete,
        node_object=_node_object(wanted, cluster, notes),
        answers=answers,
        node=node,
        machine_id=_machine_id(tree, cluster),
        versions=versions,
        notes=notes,
    )


def _cluster(wanted: NodeSources, name: str, notes: Notes) -> FromCluster:
    if not wanted.asks_cluster:
        return FromCluster()
    from numawise.kube.client import ApiRefused, Cluster, access_to  # noqa: PLC0415 - only where a cluster is asked

    with Cluster(access_to(wanted.kubeconfig, wanted.context)) as cluster:
        node = cluster.node(name)
        if node is None:
            raise ClusterError(f"there is no node {quoted(name)}", "name it with --node")
        info = (node.get("status") or {}).get("nodeInfo") or {}
        configz = None
        if not wanted.configz:
            try:
                answer = cluster.configz(name)
                configz = (answer or {}).get("kubeletconfig")
                notes.found("configz", API_SERVER) if configz else None
            except ClusterError as problem:
                refused = (
                    "you may not get nodes/proxy" if isinstance(problem, ApiRefused) else "it has no answer"
                )
                notes.missing("configz", f"the API server was asked: {refused}", detail=str(problem))
        return FromCluster(name, node, dict(info), cluster.pods_on(name), configz)


def _node_object(wanted: NodeSources, cluster: FromCluster, notes: Notes) -> Mapping[str, Any] | None:
    if wanted.node_object:
        read_node_file(wanted.node_object, wanted.node)  # what is wrong with it is an error
        found = node_values(wanted.node_object, wanted.node)
        notes.found(NODE, "--node-object")
        return found
    if cluster.object is None:
        notes.missing(NODE, "the API server was not asked; give --kubeconfig FILE or --node-object FILE")
        return None
    notes.found(NODE, API_SERVER)
    return cluster.object


def _pod_resources(wanted: NodeSources, parts: KubeletParts, notes: Notes) -> PodResources | None:
    """What the kubelet says of pods and devices, by its socket or by a file."""
    if wanted.pod_resources:
        notes.found(POD_RESOURCES, "--pod-resources")
        return read_pod_resources(wanted.pod_resources)
    place = f"{parts.directory.rstrip('/')}/{SOCKET}"
    path = wanted.top / place.lstrip("/")
    try:
        is_socket = path.is_socket()
    except OSError:  # a name that is too long
        is_socket = False
    if not is_socket:
        notes.missing(POD_RESOURCES, "does not exist; no kubelet is running here", place)
        return None
    try:
        answers, problems = ask(str(path))
    except ClusterError as problem:
        notes.missing(POD_RESOURCES, "does not answer", place, problem.message)
        return None
    notes.found(POD_RESOURCES, path=place)
    for unanswered in problems:
        notes.missing(f"{POD_RESOURCES} {unanswered.partition(':')[0]}", "is not answered", detail=unanswered)
    return pod_resources_of([Document(answers, place)])


def _configz(wanted: NodeSources, cluster: FromCluster, notes: Notes) -> Mapping[str, Any] | None:
    if not wanted.configz:
        return cluster.configz
    place = wanted.configz
    document = (read_documents(fetch(place), place) if is_url(place) else read_file(place))[0]
    found = effective.configz_of(document)
    if found is None:
        raise InputError(
            "is not a configz response",
            file=place,
            advice="a configz response has the top-level key kubeletconfig",
        )
    notes.found("configz", "--configz")
    return found


def _versions(
    wanted: NodeSources,
    parts: KubeletParts,
    cluster: FromCluster,
    hardware: Hardware,
    tree: Tree,
    notes: Notes,
) -> dict[str, str]:
    found = {what: str(cluster.info[name]) for what, name in NODE_INFO.items() if cluster.info.get(name)}
    if wanted.kube:
        found["kubelet"] = wanted.kube if wanted.kube.startswith("v") else f"v{wanted.kube}"
    if "kubelet" not in found and (version := program_version(parts.running, wanted.top)):
        found["kubelet"] = version
    if "kubelet" not in found:
        notes.missing(VERSION, "no program of a kubelet was found that shows it; give --kube VERSION")
    if hardware.host is not None and hardware.host.kernel:
        found.setdefault("kernel", hardware.host.kernel)
    for place in RELEASES:
        for line in (tree.text(place) or "").splitlines():
            name, _, value = line.partition("=")
            if name == "PRETTY_NAME":
                found.setdefault("os", value.strip("\"'"))
    return found


def _host_name(wanted: NodeSources, tree: Tree) -> str:
    if wanted.root is None:
        return platform.node().lower()
    return (tree.text("etc/hostname") or tree.text("proc/sys/kernel/hostname") or "").lower()


def _machine_id(tree: Tree, cluster: FromCluster) -> str:
    for place in MACHINE_IDS:
        found = tree.text(place)
        if found:
            return found
    return str(cluster.info.get("machineID") or "")


# --------------------------------------------------------------------------------------------------
# From a node to a file.


def collect(wanted: NodeSources) -> Packed:
    """Gather what is wanted, and pack it."""
    return packed(gather(wanted), keep_names=wanted.keep_names, when=datetime.now(UTC).replace(microsecond=0))


def written(bundle: Packed, out: str | None) -> str:
    """Write a bundle whole or not at all, for its owner's eyes; returns where."""
    stamp = bundle.manifest.collected.replace("-", "").replace(":", "").replace("T", "-").rstrip("Z")
    path = out or f"numawise-bundle-{stamp}.tar.gz"
    write_whole(path, bundle.data, PRIVATE)
    return path

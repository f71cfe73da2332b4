"""One node of a cluster in full: what is free, its pods, and its map; and its state as a file."""

import json

from numawise.apps.overview.board import ClusterBoard
from numawise.apps.overview.sources import SourceCluster
from numawise.cluster.asking import Situation
from numawise.cluster.choice import shape_of
from numawise.cluster.live import NodeView
from numawise.codec.cluster_pod import ClusterPod
from numawise.codec.document import mapping
from numawise.codec.objects import kubelet_uid
from numawise.codec.output import to_yaml
from numawise.codec.stamps import second_stamp
from numawise.errors import ClusterError, InputError, meant, quoted
from numawise.kube.client import Object
from numawise.machine.hardware import hardware_of
from numawise.node.publication import publication_of, topology_object
from numawise.render.held_map import MapSource, map_data, map_of_node
from numawise.render.holders import pod_name
from numawise.results.cluster_board import NodeDetailForm, NodeFile, NodeFilesForm, PodOnNode
from numawise.values import replace


def node_detail(cluster: SourceCluster, board: ClusterBoard, name: str, width: int) -> NodeDetailForm:
    """All that is known of a node; ``InputError``: there is no such node."""
    with cluster.lock:
        view = known_node(cluster, name)
        situation = cluster.view.situation(name, cluster.clock())
        described = view.description
        drawn = _map(view, situation) if situation is not None else None
        detail = NodeDetailForm(
            cluster.source,
            board.room(name),
            view.kubelet or (view.source.kubelet if view.source is not None else ""),
            dict(sorted(described.labels.items())) if described is not None else {},
            tuple(map(str, described.taints)) if described is not None else (),
            _pods(view, situation),
            None,
            tuple(cluster.remarks()),
        )
    return replace(detail, map=map_data(drawn, width)) if drawn is not None else detail


def node_files(cluster: SourceCluster, name: str, pod: str = "") -> NodeFilesForm:
    """A node as its agent would publish it now, with names; and the manifest of a pod with that uid."""
    with cluster.lock:
        view = known_node(cluster, name)
        situation = cluster.view.situation(name, cluster.clock())
        names = {uid: (one.namespace, one.name) for uid, one in view.pods.items()}
    if situation is None:
        advice = "run numawise agent on it, or choose another node"
        raise ClusterError(f"the state of node {quoted(name)} is not published", advice)
    value = topology_object(replace(publication_of(situation.member.node, name), names=names))
    manifest = to_yaml(_manifest(_object(cluster, pod))) if pod else ""
    return NodeFilesForm(name, (NodeFile(f"{name}.json", json.dumps(value)),), manifest)


def known_node(cluster: SourceCluster, name: str) -> NodeView:
    """What is known of a node; ``InputError``: there is none of that name."""
    view = cluster.view.views.get(name)
    if view is None or cluster.view.states.is_gone(view):
        near = meant(name, cluster.view.names, 0.8)
        advice = f"did you mean {near}?" if near else "see all nodes"
        raise InputError(f"there is no node {quoted(name)}", field="name", advice=advice)
    return view


def _object(cluster: SourceCluster, uid: str) -> Object:
    for value in cluster.pods():
        if kubelet_uid(value) == uid:
            return value
    raise InputError(f"there is no pod with the uid {quoted(uid)}", field="pod", advice="see /cluster/pods")


def _manifest(value: Object) -> dict[str, object]:
    """A pod as somebody would give it: on no node, and without what has become of it."""
    metadata, spec = mapping(value.get("metadata")), mapping(value.get("spec"))
    kept = ("name", "namespace", "uid", "labels", "annotations", "ownerReferences")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {key: part for key, part in spec.items() if key != "nodeName"},
    }


def _pods(view: NodeView, situation: Situation | None) -> tuple[PodOnNode, ...]:
    """Those that are bound there, in the order they came; then those that are published alone."""
    bound = sorted(view.pods.values(), key=lambda pod: pod.order)
    pods = [_pod(pod) for pod in bound]
    active = situation.state.active if situation is not None else {}
    pods += [PodOnNode("", pod_name(uid, {}), uid, "") for uid in active if uid not in view.pods]
    return tuple(pods)


def _pod(pod: ClusterPod) -> PodOnNode:
    since = pod.bound or pod.created
    return PodOnNode(
        pod.namespace,
        pod.name,
        pod.uid,
        shape_of(pod.raw).name if pod.raw is not None else "",
        pod.raw.owner if pod.raw is not None else "",
        second_stamp(since) if since else "",
        pod.runs,
        pod.leaving,
    )


def _map(view: NodeView, situation: Situation) -> MapSource:
    names = {uid: pod.title for uid, pod in view.pods.items()}
    owners = {uid: pod.raw.owner for uid, pod in view.pods.items() if pod.raw is not None}
    node = situation.member.node
    return map_of_node(node, names, owners, hardware_of(node.machine, view.name))

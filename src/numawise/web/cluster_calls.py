"""The cluster: all nodes, one node, pods that found no place, and what fits; live, of files or of a dump."""

from numawise.apps.overview.detail import node_detail, node_files
from numawise.apps.scheduler.capacity import LARGEST_MOST, MOST, asked_shapes
from numawise.cluster.choice import shape_of
from numawise.codec.web.cluster import CapacityAsked, DumpGiven
from numawise.render.cluster import places_rows, places_summary
from numawise.request.defaults import RawPod
from numawise.results.cluster import PlacesReport
from numawise.results.cluster_board import (
    BoardSource,
    ClusterBoardForm,
    ClusterRoomForm,
    NodeDetailForm,
    NodeFilesForm,
    PodListForm,
    ShapeRoom,
)
from numawise.values import replace
from numawise.web.clusters import ShownCluster
from numawise.web.desk import Desk
from numawise.web.operations import GET, POST, WIDTH, Asked, Operation, QueryField
from numawise.web.problems import WebProblem

PART = "cluster"
WHICH = QueryField("of", "Which cluster: the id of a dump, or 'example'; without it the one that is served.")
SELECTOR = QueryField("selector", "Nodes with these labels, as kubectl takes them: pool=gpu,zone!=a.")
SINCE = QueryField("since", "The version that is known: only rows that are newer are given.")
UID = QueryField("pod", "The uid of a pod whose manifest is wanted, too.")
SHAPE = QueryField(
    "shape", "A shape to be counted, such as cpu=4,memory=8Gi,nvidia.com/gpu=1.", repeated=True
)
PER_NODE = QueryField("most", "Counting stops on a node at so many.", "integer", 1, LARGEST_MOST)
USUAL_WIDTH = 900


def cluster_board(desk: Desk, asked: Asked) -> ClusterBoardForm:
    """All nodes."""
    shown = desk.clusters.shown(asked.query["of"] or "")
    if shown is None:
        return ClusterBoardForm(desk.clusters.source)
    form = shown.board.answer(shown.source, asked.query["selector"] or "", asked.query["since"] or "")
    waiting, refused = shown.stuck.counts()
    return replace(form, waiting=waiting, refused=refused)


def cluster_node(desk: Desk, asked: Asked) -> NodeDetailForm:
    """One node."""
    shown = _shown(desk, asked)
    return node_detail(shown.cluster, shown.board, asked.path["name"], asked.query["width"] or USUAL_WIDTH)


def cluster_node_files(desk: Desk, asked: Asked) -> NodeFilesForm:
    """One node in its state of now, as files."""
    return node_files(_shown(desk, asked).cluster, asked.path["name"], asked.query["pod"] or "")


def cluster_pods(desk: Desk, asked: Asked) -> PodListForm:
    """Pods that wait or were refused."""
    shown = desk.clusters.shown(asked.query["of"] or "")
    return shown.stuck.report(shown.source) if shown is not None else PodListForm(desk.clusters.source)


def cluster_room(desk: Desk, asked: Asked) -> ClusterRoomForm:
    """What fits, of shapes in the address."""
    query = [("shape", text) for text in asked.query["shape"]]
    query.append(("most", str(asked.query["most"] or MOST)))
    return _room(desk, asked.query["of"] or "", query, b"")


def cluster_room_asked(desk: Desk, asked: Asked) -> ClusterRoomForm:
    """What fits, of shapes and pods in the body."""
    body: CapacityAsked = asked.body
    query = [("shape", text) for text in body.shapes]
    query.append(("most", str(body.most)))
    return _room(desk, body.of, query, body.pods.encode("utf-8", "surrogatepass"))


def cluster_dump(desk: Desk, asked: Asked) -> BoardSource:
    """A dump, to be looked at by its id."""
    body: DumpGiven = asked.body
    with desk.files(body.files) as paths:
        return desk.clusters.drop(body.files, paths, asked.who)


def _shown(desk: Desk, asked: Asked) -> ShownCluster:
    shown = desk.clusters.shown(asked.query["of"] or "")
    if shown is None:
        advice = "start it with --nodes FILE or --cluster, or drop a dump"
        raise WebProblem(404, "no cluster is served here", advice)
    return shown


def _room(desk: Desk, which: str, query: list[tuple[str, str]], body: bytes) -> ClusterRoomForm:
    shown = desk.clusters.shown(which)
    if shown is None:
        return ClusterRoomForm(desk.clusters.source)
    most, named = asked_shapes(query, body)
    pods = {(name, shape_of(pod).name): pod for name, pod in named or shown.places.learned()}
    wanted = [(name, pod) for (name, _), pod in pods.items()]
    report = PlacesReport(learned=not named, shapes=())
    if wanted:
        counted = shown.places.report(wanted, most, shown.cluster.clock, reasons=False)
        report = replace(counted, learned=not named)
    rows = [
        _shape_room(shown, PlacesReport(report.learned, (one,)), pods[one.name, one.shape.name])
        for one in report.shapes
    ]
    nodes = tuple(node.node for node in report.shapes[0].nodes) if report.shapes else ()
    return ClusterRoomForm(
        shown.source, report.learned, places_summary(report, len(nodes)), nodes, tuple(rows)
    )


def _shape_room(shown: ShownCluster, alone: PlacesReport, raw: RawPod) -> ShapeRoom:
    (places,) = alone.shapes
    ((_, _, _, where, _),) = places_rows(alone)
    sentence, reasons = shown.stuck.refused_everywhere(raw) if not places.total else ("", ())
    return ShapeRoom(
        places.name,
        places.shape,
        places.total,
        any(node.more for node in places.nodes),
        str(where),
        tuple(node.count for node in places.nodes),
        sentence,
        reasons,
    )


OPERATIONS = (
    Operation(
        GET,
        "/cluster",
        "clusterBoard",
        "All nodes of the cluster in short rows, or those that changed.",
        cluster_board,
        ClusterBoardForm,
        query=(WHICH, SELECTOR, SINCE),
        part=PART,
    ),
    Operation(
        GET,
        "/cluster/nodes/{name}",
        "clusterNode",
        "One node: what is free, its pods, its map.",
        cluster_node,
        NodeDetailForm,
        query=(WHICH, WIDTH),
        part=PART,
    ),
    Operation(
        GET,
        "/cluster/nodes/{name}/files",
        "clusterNodeFiles",
        "One node in its state of now as a file that other calls take, and the manifest of a pod.",
        cluster_node_files,
        NodeFilesForm,
        query=(WHICH, UID),
        part=PART,
    ),
    Operation(
        GET,
        "/cluster/pods",
        "clusterPods",
        "Pods that wait for a node or were refused, with the first sentence of why.",
        cluster_pods,
        PodListForm,
        query=(WHICH,),
        part=PART,
    ),
    Operation(
        GET,
        "/cluster/capacity",
        "clusterCapacity",
        "How many more pods of each shape would be let in now.",
        cluster_room,
        ClusterRoomForm,
        query=(WHICH, SHAPE, PER_NODE),
        part=PART,
    ),
    Operation(
        POST,
        "/cluster/capacity",
        "clusterCapacityAsked",
        "Likewise, of shapes and pods in the body.",
        cluster_room_asked,
        ClusterRoomForm,
        body=CapacityAsked,
        part=PART,
    ),
    Operation(
        POST,
        "/cluster/dump",
        "clusterDump",
        "Look at dumps of kubectl; other calls take the id of the answer.",
        cluster_dump,
        BoardSource,
        body=DumpGiven,
        keeps=True,
        part=PART,
    ),
)

"""All nodes of a cluster in short rows: what ``numawise nodes`` says, and only what is newer."""

import threading

import pytest

from numawise.apps.overview.board import ClusterBoard, label_values
from numawise.apps.overview.sources import example_cluster
from numawise.cluster.live import LiveCluster
from numawise.cluster.node_rooms import live_rooms
from numawise.errors import ClusterError, InputError
from numawise.machine.description import NodeDescription
from numawise.results.cluster_board import BoardSource, ClusterBoardForm
from numawise.results.plain import plain
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import GPU, kubelet

SOURCE = BoardSource("files", "x")


@pytest.fixture
def view() -> LiveCluster:
    view = LiveCluster()
    for name in ("n1", "n2", "n10"):
        node = api_node(name)
        node["metadata"]["labels"]["pool"] = "a" if name == "n2" else "b"
        view.take_node(name, node, 1000.0)
        view.take_topology(name, published(kubelet(), name), 1000.0)
    view.take_node("silent", api_node("silent"), 1000.0)
    view.take_pod(api_pod("large", 4, "n1"), 1000.0)
    view.take_pod(api_pod("small", 1, "n1"), 1000.0)
    view.take_pod(api_pod("waits", 4), 1000.0)
    return view


@pytest.fixture
def board(view: LiveCluster) -> ClusterBoard:
    return ClusterBoard(view, lambda: 1000.0)


def rows(form: ClusterBoardForm) -> list[str]:
    return [row.name for row in form.rows]


def test_rows_say_what_nodes_says(view: LiveCluster, board: ClusterBoard) -> None:
    form = board.answer(SOURCE)
    report = live_rooms(view, view.names, 1000.0)
    assert form.resources == ("cpu", "memory", GPU)
    assert form.names == tuple(node.name for node in report.nodes) == ("n1", "n2", "n10", "silent")
    for row, node in zip(form.rows, report.nodes, strict=True):
        assert (row.fits, row.places, row.holes, row.known) == (
            None if node.known == "unknown" else node.fits,
            node.places,
            node.holes,
            node.known,
        )
        assert row.free == tuple(tuple(map(one.free.get, form.resources)) for one in node.numa)
    first = form.rows[0]
    assert (first.free, first.holes, first.fragmented) == (((6, None, 0), (6, None, 3)), 3, 1.0)
    assert (form.waiting, form.summary.partition(";")[0]) == (1, "4 nodes: 3 exact, 1 unknown")
    assert [(one.resource, one.free, one.whole) for one in form.totals][2] == (GPU, 19, 24)
    assert [(one.unit, one.holes, one.free) for one in form.holes] == [(GPU, 3, 19)]
    assert plain(form)["rows"][3]["notes"] == ["nothing is published about this node"]


def test_without_shapes_it_is_not_known_what_fits() -> None:
    view = LiveCluster()
    view.take_node("n1", api_node("n1"), 1000.0)
    view.take_topology("n1", published(kubelet(), "n1"), 1000.0)
    board = ClusterBoard(view, lambda: 1000.0)
    assert [row.fits for row in board.answer(SOURCE).rows] == [None]
    view.take_pod(api_pod("huge", 400), 1000.0)
    assert [row.fits for row in board.answer(SOURCE).rows] == [""]


def test_only_what_is_newer(view: LiveCluster, board: ClusterBoard) -> None:
    first = board.answer(SOURCE)
    assert (first.changed, len(first.rows)) == (False, 4)
    again = board.answer(SOURCE, since=first.version)
    assert (again.changed, again.rows, again.version) == (True, (), first.version)
    assert again.names == first.names
    view.take_pod(api_pod("more", 1, "n10", 7), 1000.0)
    later = board.answer(SOURCE, since=first.version)
    assert rows(later) == ["n10"]
    assert later.version != first.version
    view.take_node("silent", None, 1000.0)
    gone = board.answer(SOURCE, since=later.version)
    assert (rows(gone), "silent" in gone.names) == ([], False)


@pytest.mark.parametrize("since", ["", "x", "-", "1", "abc-1", "other-9", "other-٣", "a" * 300])
def test_a_version_of_something_else_counts_for_nothing(board: ClusterBoard, since: str) -> None:
    board.answer(SOURCE)
    form = board.answer(SOURCE, since=since)
    assert (form.changed, len(form.rows)) == (False, 4)


def test_a_version_that_is_not_there_yet(board: ClusterBoard) -> None:
    own = board.answer(SOURCE).version.partition("-")[0]
    assert len(board.answer(SOURCE, since=f"{own}-99").rows) == 4


def test_a_shape_that_comes_changes_all_that_it_concerns(view: LiveCluster, board: ClusterBoard) -> None:
    first = board.answer(SOURCE)
    view.take_pod(api_pod("middle", 3), 1000.0)
    assert rows(board.answer(SOURCE, since=first.version)) == ["n1"]  # 3 GPUs fit there, and 4 did not


def test_labels(board: ClusterBoard) -> None:
    form = board.answer(SOURCE, "pool=b")
    assert form.names == ("n1", "n10")
    assert [(one.key, one.values) for one in form.labels] == [("pool", ("a", "b"))]
    assert board.answer(SOURCE, "pool=c").names == ()
    with pytest.raises(InputError) as problem:
        board.answer(SOURCE, "pool>3", field="selector")
    assert problem.value.field == "selector"
    nobody = LiveCluster()
    nobody.take_topology("n", published(kubelet(), "n"), 1000.0)
    with pytest.raises(ClusterError, match="labels of nodes are not known"):
        ClusterBoard(nobody, lambda: 1000.0).answer(SOURCE, "pool=b")


def test_labels_that_tell_nodes_apart() -> None:
    described = [
        NodeDescription(
            labels={"kubernetes.io/hostname": f"n{at}", "all": "x", "few": str(at % 2), "id": str(at)}
        )
        for at in range(30)
    ]
    described[0] = NodeDescription(labels={"own": "yes"})
    found = {one.key: one.values for one in label_values([*described, None])}
    assert found == {"all": ("x",), "few": ("0", "1"), "own": ("yes",)}


def test_several_may_ask_at_once(board: ClusterBoard) -> None:
    forms: list[ClusterBoardForm] = []
    threads = [threading.Thread(target=lambda: forms.append(board.answer(SOURCE))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [form.rows for form in forms] == [forms[0].rows] * 4


def test_the_example_is_one_that_kubelets_came_to() -> None:
    source = example_cluster("e", now=1_800_000_000.0)
    form = ClusterBoard(source.view, source.clock).answer(source.source)
    assert {one.known: one.count for one in form.known} == {"conservative": 1, "exact": 24, "unknown": 1}
    assert all(set(row.notes) <= {"it is cordoned"} for row in form.rows if row.known == "exact")
    assert form.holes[-1].fragmented
    again = example_cluster("e", now=1_800_000_000.0)
    assert ClusterBoard(again.view, again.clock).answer(again.source).rows == form.rows

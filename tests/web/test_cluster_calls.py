"""The cluster through the API: all nodes, one node, pods, what fits, and dumps that are dropped."""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from numawise.apps.overview import sources
from numawise.apps.overview.example import example_objects
from numawise.apps.overview.sources import SourceCluster, example_cluster
from numawise.web import clusters
from numawise.web.clusters import Clusters
from tests.web.calls import Page

NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def served() -> SourceCluster:
    return example_cluster("", NOW)


@pytest.fixture
def page(served: SourceCluster) -> Iterator[Page]:
    page = Page(cluster=served)
    yield page
    page.close()


@pytest.fixture
def empty() -> Iterator[Page]:
    page = Page()
    yield page
    page.close()


def dump() -> dict[str, Any]:
    items = [value for _, value in example_objects(NOW)]
    return {"name": "dump.json", "text": json.dumps({"kind": "List", "items": items})}


def test_all_nodes_then_what_is_newer() -> None:
    served = example_cluster("", NOW)
    page = Page(cluster=served)
    first = page.get("cluster")
    assert first.status == 200
    assert len(first.data["rows"]) == len(first.data["names"]) == 26
    assert (first.data["waiting"], first.data["refused"]) == (7, 10)
    assert page.get("cluster", if_none_match=first.headers["etag"]).status == 304
    since = first.data["version"]
    assert page.get(f"cluster?since={since}").data["rows"] == []
    held = next(pod for pod in served.pods() if pod["metadata"]["name"] == "pretrain-0")
    ended = {
        **held,
        "metadata": {**held["metadata"], "resourceVersion": "9999"},
        "status": {"phase": "Succeeded"},
    }
    served.view.take_pod(ended, NOW)
    later = page.get(f"cluster?since={since}").data
    assert [row["name"] for row in later["rows"]] == [held["spec"]["nodeName"]]
    assert (later["changed"], len(later["names"])) == (True, 26)
    page.close()


def test_labels(page: Page) -> None:
    data = page.get("cluster?selector=node.example.com/pool%3Dservices").data
    assert data["names"] == [f"services-0{number}" for number in range(1, 5)]
    problem = page.get("cluster?selector=pool%3E3").problem
    assert (problem["status"], problem["field"]) == (422, "selector")


def test_one_node(page: Page) -> None:
    data = page.get("cluster/nodes/training-01?width=700").data
    assert data["room"]["name"] == "training-01"
    assert data["labels"]["node.example.com/pool"] == "training"
    assert data["map"]["svg"].startswith("<svg")
    names = {pod["name"] for pod in data["pods"]}
    assert len(names) > 1
    assert {holder["name"] for holder in data["map"]["holders"] if holder["kind"] == "pod"} >= {
        f"research/{name}" for name in names
    }
    assert page.get("cluster/nodes/edge-02").data["map"] is None
    problem = page.get("cluster/nodes/services-00").problem
    assert (problem["detail"], problem["advice"]) == (
        "there is no node 'services-00'",
        "did you mean services-04?",
    )


def test_a_node_is_handed_to_other_calls(page: Page) -> None:
    refused = next(pod for pod in page.get("cluster/pods").data["pods"] if pod["state"] == "refused")
    handed = page.get(f"cluster/nodes/{refused['node']}/files?pod={refused['uid']}").data
    assert "nodeName" not in handed["pod"]
    assert refused["name"] in handed["pod"]
    (file,) = handed["files"]
    assert json.loads(file["text"])["kind"] == "NodeResourceTopology"
    asked = {
        "node": {"files": handed["files"]},
        "files": [{"name": "pod.yaml", "text": handed["pod"]}],
        "pod": f"{refused['namespace']}/{refused['name']}",
    }
    why = page.post("why", asked).data
    called = {
        f"{one['namespace']}/{one['name']}"
        for one in page.get(f"cluster/nodes/{refused['node']}").data["pods"]
    }
    (awaited,) = re.findall(r"Wait until pod (\S+) ", json.dumps(why["explanation"]["suggestions"]))
    assert awaited in called
    problem = page.get("cluster/nodes/edge-01/files").problem
    assert (problem["status"], "is not published" in problem["detail"]) == (409, True)
    assert page.get("cluster/nodes/training-01/files?pod=none").problem["field"] == "pod"


def test_pods_that_found_no_place(page: Page) -> None:
    data = page.get("cluster/pods").data
    assert (data["waiting"], data["refused"], len(data["pods"])) == (7, 10, 17)
    states = {pod["state"] for pod in data["pods"]}
    assert states == {"waiting", "gated", "refused"}
    wide = next(pod for pod in data["pods"] if pod["name"] == "pretrain-wide-0")
    if wide["sentence"]:
        assert "none of 26 nodes" in wide["sentence"]


def test_what_fits(page: Page) -> None:
    learned = page.get("cluster/capacity").data
    assert learned["learned"]
    assert len(learned["nodes"]) == 26
    for shape in learned["shapes"]:
        assert sum(shape["counts"]) == shape["total"]
    asked = page.get("cluster/capacity?shape=cpu%3D8,memory%3D8Gi,nvidia.com/gpu%3D1&shape=cpu%3D4000").data
    none, one = sorted(asked["shapes"], key=lambda shape: shape["total"])
    assert (none["total"], one["total"] > 20, asked["learned"]) == (0, True, False)
    assert none["sentence"].startswith("Not scheduled")
    assert none["reasons"]
    body = {"pods": "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n", "most": 2}
    posted = page.post("cluster/capacity", body).data
    assert [(shape["name"], shape["more"]) for shape in posted["shapes"]] == [("p", True)]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("shape=cpu", "is not a shape"),
        ("shape=", "is not a shape"),
        ("most=0", "is not possible"),
        ("of=abc", "there is no dump 'abc' here any more"),
        ("what=1", "is not a parameter"),
    ],
)
def test_what_fits_asked_wrongly(page: Page, query: str, says: str) -> None:
    assert says in page.get(f"cluster/capacity?{query}").problem["detail"]


def test_nothing_is_served(empty: Page) -> None:
    assert empty.get("cluster").data["source"]["kind"] == "none"
    assert empty.get("cluster/pods").data["pods"] == []
    assert empty.get("cluster/capacity").data["shapes"] == []
    assert empty.get("cluster/nodes/a").problem["status"] == 404


def test_the_example_at_one_click(empty: Page) -> None:
    data = empty.get("cluster?of=example").data
    assert (data["source"]["kind"], data["source"]["id"], len(data["rows"])) == ("example", "example", 26)
    assert empty.get("cluster").data["rows"] == []


def test_a_dump_is_looked_at_by_its_id(empty: Page) -> None:
    source = empty.post("cluster/dump", {"files": [dump()]}).data
    assert (source["kind"], source["name"]) == ("files", "dump.json")
    assert empty.post("cluster/dump", {"files": [dump()]}).data["id"] == source["id"]
    assert len(empty.get(f"cluster?of={source['id']}").data["rows"]) == 26
    assert empty.get("cluster").data["rows"] == []


def test_a_dump_may_be_packed(empty: Page) -> None:
    packed = base64.b64encode(gzip.compress(dump()["text"].encode())).decode()
    source = empty.post("cluster/dump", {"files": [{"name": "dump.json.gz", "base64": packed}]}).data
    assert len(empty.get(f"cluster?of={source['id']}").data["rows"]) == 26


def test_objects_of_dumps_are_bounded(empty: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sources, clusters):
        monkeypatch.setattr(module, "MOST_DROPPED", 150)
    ids = [empty.post("cluster/dump", {"files": [dump(), nrt(number)]}).data["id"] for number in range(2)]
    assert [empty.get(f"cluster?of={one}").status for one in ids] == [404, 200]
    monkeypatch.setattr(sources, "MOST_DROPPED", 100)
    problem = empty.post("cluster/dump", {"files": [dump()]}).problem
    assert (problem["status"], problem["file"]) == (422, "dump.json")
    assert problem["detail"] == "has more than 100 objects"


def nrt(number: int) -> dict[str, Any]:
    value = {"kind": "NodeResourceTopologyList", "items": [{"metadata": {"name": f"n{number}"}}]}
    return {"name": "nrt.json", "text": json.dumps(value)}


def test_few_dumps_are_kept(empty: Page) -> None:
    ids = []
    for number in range(6):
        ids.append(empty.post("cluster/dump", {"files": [nrt(number)]}).data["id"])
    assert [empty.get(f"cluster?of={one}").status for one in ids] == [404, 404, 200, 200, 200, 200]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Pod\n", "there is no dump of a cluster in it"),
        ("{", "dump.json"),
        ("", "dump.json is empty"),
        ('{"kind": "List", "items": [3]}', "there is no dump of a cluster in it"),
    ],
)
def test_something_else_is_dropped(empty: Page, text: str, says: str) -> None:
    problem = empty.post("cluster/dump", {"files": [{"name": "dump.json", "text": text}]}).problem
    assert problem["status"] == 422
    assert says in f"{problem.get('file', '')} {problem['detail']}"
    assert "numawise-page" not in json.dumps(problem)


HOSTILE: list[Any] = [
    {"kind": "NodeResourceTopology", "metadata": {"name": "t"}, "zones": "x", "attributes": {}},
    {
        "kind": "NodeResourceTopology",
        "metadata": {"name": "<b>n\u202e?#", "managedFields": [3]},
        "zones": [{}],
    },
    {"kind": "Node", "metadata": {"name": "<b>n\u202e?#"}},
    {"kind": "Node", "metadata": {"name": "n", "labels": [1]}, "spec": 1, "status": {"allocatable": [2]}},
    {"kind": "Pod", "metadata": {"name": 7, "uid": 8}, "spec": {"containers": 7}, "status": "x"},
    {"kind": "Pod", "metadata": 1, "spec": [], "status": []},
    {
        "kind": "Pod",
        "spec": {"nodeName": "n"},
        "status": {"phase": "Failed", "reason": "TopologyAffinityError"},
    },
    {"kind": "Pod", "spec": {"schedulingGates": 3}},
]


@pytest.mark.parametrize(("item", "field", "words"), [
    ({"kind": "Pod", "metadata": {"name": ["a"]}}, "items[1].metadata.name", "must be text in a Pod, not a list"),
    ({"kind": "Pod", "metadata": {"name": "a"}, "status": {"phase": {}}}, "items[1].status.phase", "must be text in Pod 'a', not a mapping"),
    ({"kind": "Node", "metadata": {"name": "a"}, "status": {"conditions": [{"type": {"x": 1}}]}}, "items[1].status.conditions[0].type", "must be text in Node 'a', not a mapping"),
    ({"kind": "NodeResourceTopology", "metadata": {"name": "a"}, "zones": [{"name": []}]}, "items[1].zones[0].name", "must be text in NodeResourceTopology 'a', not a list"),
])  # fmt: skip
def test_an_object_where_text_is_meant_is_refused(empty: Page, item: Any, field: str, words: str) -> None:
    text = json.dumps({"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n"}}, item]})
    problem = empty.post("cluster/dump", {"files": [{"name": "dump.json", "text": text}]}).problem
    assert (problem["status"], problem["file"], problem["field"]) == (422, "dump.json", field)
    assert problem["detail"] == words


def test_hostile_objects_are_answered_with_values(empty: Page) -> None:
    file = {"name": "dump.json", "text": json.dumps({"kind": "List", "items": HOSTILE})}
    source = empty.post("cluster/dump", {"files": [file]}).data
    board = empty.get(f"cluster?of={source['id']}")
    assert board.status == 200, board.body
    assert len(board.data["names"]) == 2
    assert board.data["remarks"] == ["published of nodes without a Node object, and not counted: t"]
    for name in board.data["names"]:
        assert empty.get(f"cluster/nodes/{quote(name)}?of={source['id']}").status == 200
    for path in ("cluster/pods", "cluster/capacity"):
        answer = empty.get(f"{path}?of={source['id']}")
        assert answer.status == 200, answer.body
    assert "mistake" not in empty.written.getvalue()


def test_who_is_known_does_not_wait_for_a_dump_that_is_read() -> None:
    clusters = Clusters()
    example = clusters.shown("example")

    def read() -> SourceCluster:
        assert clusters.shown("example") is example
        return example_cluster("other", NOW)

    assert clusters._keep("other", "user 7", read) is clusters.shown("other")

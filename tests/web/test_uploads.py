"""What is dropped on the page, and by whom: memory is bounded, and nobody's uploads take the place of others'."""

import base64
import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.overview import sources
from numawise.codec import object_list
from numawise.errors import InputError
from numawise.inputs.dump import Extent, dumped_cluster
from numawise.patience import at_most
from numawise.web import bodies, clusters
from numawise.web.bodies import BodyRoom
from numawise.web.clusters import IDLE_SECONDS, Clusters
from numawise.web.desk import Served
from numawise.web.guards import Guards
from numawise.web.problems import WebProblem
from tests.unit.cluster.live_objects import api_node
from tests.web.calls import Page, own_peer

MANY = 1_000_000
HEAD = b'{"kind": "NodeList", "items": ['
NAMED = b'{"metadata": {"name": "a", "finalizers": ['
BOMBS = {
    "objects": HEAD + b"{}," * MANY + b"{}]}",
    "values of one": HEAD + NAMED + b"[]," * MANY + b"[]]}}]}",
    "values of many": HEAD + b",".join([NAMED + b"[]," * 4000 + b"[]]}}"] * (MANY // 4000)) + b"]}",
    "no objects": HEAD + b"1," * MANY + b"1]}",
    "no list": b'{"kind": "Node", "x": [' + b"[]," * MANY + b"[]]}",
}
"""A few kilobytes each, packed."""


@pytest.fixture
def empty() -> Iterator[Page]:
    page = Page(Served())
    yield page
    page.close()


def peak_of(work: Callable[[], object]) -> int:
    """Bytes of Python's memory that something takes at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_few_packed_bytes_take_little_memory(
    empty: Page, bomb: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds a tenth of what they are, for a text a tenth as long: read whole, each takes 60 to 200 MB."""
    monkeypatch.setattr(object_list, "MOST_VALUES", 50_000)
    monkeypatch.setattr(
        object_list, "LARGEST_FILE", 1 << 20
    )  # room is made for so much, and hardly ever used
    monkeypatch.setattr(sources, "LARGEST_DROPPED", 30 << 20)
    monkeypatch.setattr("numawise.web.application.MOST_VALUES", 200_000)
    packed = base64.b64encode(gzip.compress(bomb)).decode()
    answers = []

    def drop() -> None:
        answers.append(empty.post("cluster/dump", {"files": [{"name": "dump.json.gz", "base64": packed}]}))

    assert peak_of(drop) < 45 << 20
    (answer,) = answers
    assert answer.problem["status"] == 422
    assert answer.problem["file"] == "dump.json.gz"


@pytest.mark.parametrize("bomb", [BOMBS["objects"], BOMBS["values of one"], BOMBS["values of many"]])
@pytest.mark.parametrize("packed", [False, True])
def test_dumps_of_the_command_line_are_bounded_as_well(bomb: bytes, packed: bool, tmp_path: Path) -> None:  # noqa: FBT001
    path = tmp_path / "dump.json"
    path.write_bytes(gzip.compress(bomb) if packed else bomb)
    with pytest.raises(InputError) as problem:
        dumped_cluster([str(path)], extent=Extent(memory=30 << 20))
    assert problem.value.file == str(path)
    assert problem.value.message.startswith(
        ("has more than ", "what is kept of its objects takes more than 30 MiB")
    )


def test_the_values_of_all_documents_of_a_call_are_counted() -> None:
    from numawise.codec.document import read_documents  # noqa: PLC0415 - beside its bound

    for text in ("[" + "1," * 600 + "1]", "- 1\n" * 600):
        with at_most(1000):
            read_documents(text, "x")
            with pytest.raises(InputError, match="holds more than"):
                read_documents(text, "x")
        read_documents(text, "x")


@pytest.mark.parametrize(("path", "body"), [
    ("scenario", {"node": {"machine": "dgx-h100"}, "steps": [{"add": {"pod": {"a": [[]] * 250_000}}}]}),
    ("config", {"text": "", "changes": [{"path": ["a"], "value": [[]] * 250_000}]}),
    ("check", {"files": [], "x": [{}] * 250_000}),
])  # fmt: skip
def test_the_values_of_a_body_are_counted_before_it_is_read(
    empty: Page, path: str, body: dict[str, Any]
) -> None:
    problem = empty.post(path, body).problem
    assert (problem["status"], problem["detail"]) == (422, "the body has more than 200,000 values")
    texts = {"files": [{"name": "a.json", "text": "[" + "1," * 250_000 + "1]"}]}
    assert empty.post("check", texts).status == 200


# --- whose they are ---------------------------------------------------------------------------


def nodes(name: str, count: int = 1) -> dict[str, Any]:
    items = [{"kind": "Node", **api_node(f"{name}{number}")} for number in range(count)]
    return {"files": [{"name": "dump.json", "text": json.dumps({"kind": "List", "items": items})}]}


class People:
    """A page that several people of one machine use."""

    def __init__(self) -> None:
        self.uid = 1000
        self.page = Page(Served(), guards=Guards(peer=lambda _peer, _own: self.uid))
        self.now = 0.0
        self.page.desk.clusters = Clusters(clock=lambda: self.now)

    def drop(self, uid: int, name: str, count: int = 1) -> Any:
        self.uid = uid
        return self.page.post("cluster/dump", nodes(name, count))

    def sees(self, which: str) -> bool:
        return self.page.get(f"cluster?of={which}").status == 200


@pytest.fixture
def people() -> Iterator[People]:
    people = People()
    yield people
    people.page.close()


def test_nobody_pushes_out_the_dumps_of_others(people: People) -> None:
    first = people.drop(1000, "mine").data["id"]
    others = [people.drop(1001, f"theirs{number}") for number in range(12)]
    assert people.sees(first)
    kept = [one.data["id"] for one in others if people.sees(one.data["id"])]
    assert len(kept) == clusters.MOST_DUMPS
    assert kept[-1] == others[-1].data["id"]


def test_what_two_people_dropped_stays_until_both_have_dropped_others(people: People) -> None:
    shared = people.drop(1000, "same").data["id"]
    assert people.drop(1001, "same").data["id"] == shared
    for number in range(clusters.MOST_DUMPS):
        people.drop(1001, f"theirs{number}")
    assert people.sees(shared)
    for number in range(clusters.MOST_DUMPS):
        people.drop(1000, f"mine{number}")
    assert not people.sees(shared)


def test_room_that_is_full_is_refused_until_dumps_are_no_longer_looked_at(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "MOST_DROPPED", 10)
    held = [people.drop(1000 + number, f"user{number}", 10).data["id"] for number in range(clusters.TIMES)]
    refused = people.drop(2000, "late", 10)
    assert refused.problem["status"] == 409
    assert "other people" in refused.problem["detail"]
    people.now = IDLE_SECONDS - 1
    assert all(people.sees(which) for which in held[1:])
    people.now = IDLE_SECONDS + 1
    assert people.drop(2000, "late", 10).status == 200
    assert [people.sees(which) for which in held] == [False, *[True] * (clusters.TIMES - 1)]


def test_large_bodies_under_way_are_bounded_for_each_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SMALL", 10)
    monkeypatch.setattr(bodies, "LARGEST_OWN", 250)
    monkeypatch.setattr(bodies, "LARGEST_ALL", 400)
    room = BodyRoom(lambda peer, _own: str(peer))
    for size in (10, 11, 100):
        room._take("a", size)
    with pytest.raises(WebProblem, match="too many large bodies") as problem:
        room._take("a", 200)
    assert problem.value.status == 429
    room._take("b", 250)
    with pytest.raises(WebProblem, match="too many large bodies"):
        room._take("c", 100)


def test_a_body_counts_until_its_call_ends(empty: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SMALL", 10)
    monkeypatch.setattr(bodies, "LARGEST_OWN", 1 << 20)
    assert empty.application.guards.peer is own_peer
    for _ in range(50):
        assert empty.post("cluster/dump", nodes("a")).status == 200
        assert empty.post("cluster/dump", {"files": [{"name": "x" * 5000}]}).status == 422
    assert not empty.application._bodies._held

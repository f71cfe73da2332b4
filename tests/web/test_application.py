"""Calls: how they are read, answered, kept, and refused."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator

import pytest

from numawise.codec.web.given import NodeGiven
from numawise.errors import InputError
from numawise.results.overview import ServerOverview
from numawise.web import application
from numawise.web.desk import MAP, Desk
from numawise.web.guards import Guards
from numawise.web.operations import GET, POST, Asked, Operation, QueryField
from tests.web.calls import Page, named


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page(named("dgx-h100"))
    yield page
    page.close()


def test_overview_says_what_is_served(page: Page) -> None:
    answer = page.get("overview")
    assert answer.status == 200
    assert answer.data["node"] is True
    assert answer.data["allowChanges"] is False
    assert answer.data["releases"][0] == "1.37"


def test_an_answer_that_is_known_is_not_sent_again(page: Page) -> None:
    first = page.get("overview")
    again = page.get("overview", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert page.get("overview", if_none_match='"other"').status == 200


@pytest.mark.parametrize("path", ["/nothing", "/core/../index.html", "/core/%2e%2e/%2e%2e/desk.py", "/.."])
def test_files_are_known_by_name(page: Page, path: str) -> None:
    assert page.get(path).problem["status"] == 404


def test_every_answer_forbids_what_is_not_ours(page: Page) -> None:
    for path in ("/", "overview", "/nothing", "openapi.json"):
        policy = page.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize(("host", "status"), [
    ("127.0.0.1:9801", 200), ("localhost:9801", 200), ("[::1]:9801", 200), ("127.8.9.1", 200),
    ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("", 421), ("localhost.evil.example:9801", 421),
])  # fmt: skip
def test_only_own_names_are_answered(page: Page, host: str, status: int) -> None:
    assert page.get("overview", host=host).status == status


def test_further_names_can_be_given() -> None:
    page = Page(guards=Guards(frozenset({"gpu7.example"})))
    assert page.get("overview", host="gpu7.example:80").status == 200
    page.close()


@pytest.mark.parametrize("headers", [
    {"origin": "http://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"},
])  # fmt: skip
def test_pages_of_other_hosts_are_refused(page: Page, headers: dict[str, str]) -> None:
    assert page.get("overview", **headers).problem["status"] == 403
    assert page.get("overview", origin="http://127.0.0.1:9801", sec_fetch_site="same-origin").status == 200


def test_a_token_is_asked_for() -> None:
    page = Page(guards=Guards(token="correct horse battery"))
    assert page.get("overview").problem["status"] == 401
    assert page.get("/").status == 200
    assert page.get("overview", authorization="Bearer wrong").status == 401
    assert page.get("overview", authorization="Bearer correct horse battery").status == 200
    assert page.post("session", authorization="Bearer wrong").status == 401
    session = page.post("session", authorization="Bearer correct horse battery").data["session"]
    assert page.get("overview", authorization=f"Bearer {session}").status == 200
    assert page.get("overview", authorization=f"Bearer {session}0").status == 401
    page.close()


def _node(desk: Desk, asked: Asked) -> object:
    return {"cpus": len(desk.machine(asked.body, "$").hardware.threads)}


def _size(_: Desk, asked: Asked) -> object:
    return {"size": asked.query["size"]}


def _mistake(desk: Desk, asked: Asked) -> object:  # noqa: ARG001
    raise ZeroDivisionError("secret words")


@pytest.fixture
def tried() -> Iterator[Page]:
    operations = (
        Operation(POST, "/node", "node", "", _node, ServerOverview, body=NodeGiven),
        Operation(
            GET, "/size", "size", "", _size, ServerOverview, query=(QueryField("size", "", "integer", 1, 9),)
        ),
        Operation(GET, "/mistake", "mistake", "", _mistake, ServerOverview),
        Operation(POST, "/change", "change", "", _node, ServerOverview, body=NodeGiven, changes=True),
    )
    page = Page(named("dgx-h100"), operations=operations)
    yield page
    page.close()


@pytest.mark.parametrize(("body", "field"), [
    ({"machine": 5}, "$.machine"), ({"nothing": 1}, "$"), ({"files": [{"text": ""}]}, "$.files[0]"),
    ({"machine": "/etc/passwd"}, "$.machine"), ({"machine": "../examples"}, "$.machine"),
    ({"files": [{"name": "a"}]}, "$.files[0]"), ({"served": False}, "$.machine"),
    ({"files": [{"name": "a", "base64": "?"}]}, "$.files[0].base64"), ([], "$"), (b"{", "$"),
])  # fmt: skip
def test_what_is_wrong_in_a_body_has_its_place(tried: Page, body: object, field: str) -> None:
    problem = tried.post("node", body).problem
    assert (problem["status"], problem["field"]) == (422, field)


def test_nodes_are_served_named_and_dropped(tried: Page) -> None:
    assert tried.post("node", {"served": True}).data == {"cpus": 224}
    assert tried.post("node", {"machine": "2s 4n 64c 2t"}).data == {"cpus": 128}
    lscpu = "CPU NODE SOCKET CORE\n0 0 0 0\n1 0 0 1\n"
    assert tried.post("node", {"files": [{"name": "../../lscpu.txt", "text": lscpu}]}).data == {"cpus": 2}


def test_a_file_is_named_as_it_was_dropped(tried: Page) -> None:
    problem = tried.post("node", {"files": [{"name": "x/broken.yaml", "text": "numa: [\n"}]}).problem
    assert problem["file"] == "broken.yaml"
    assert "numawise-page" not in str(problem)


@pytest.mark.parametrize("query", ["size=0", "size=10", "size=x", "size=99999999999", "other=1"])
def test_parameters_are_read(tried: Page, query: str) -> None:
    assert tried.get("size?size=3").data == {"size": 3}
    assert tried.get(f"size?{query}").problem["status"] == 422


def test_a_mistake_of_ours_says_no_more(tried: Page) -> None:
    problem = tried.get("mistake").problem
    assert problem["status"] == 500
    assert "secret" not in str(problem)
    line = json.loads(tried.written.getvalue())
    assert line["message"] == "mistake in mistake: ZeroDivisionError: secret words"
    assert re.match(r"test_application\.py:\d+ _mistake < application\.py:\d+ _work", line["at"])
    tried.get("mistake")
    assert len(tried.written.getvalue().splitlines()) == 1


def test_changes_are_allowed_by_name_only(tried: Page) -> None:
    assert tried.post("change", {"served": True}).problem["status"] == 403
    tried.desk.allow_changes = True
    assert tried.post("change", {"served": True}).status == 200


def test_other_media_and_methods_are_refused(tried: Page) -> None:
    assert tried.post("node", {}, content_type="text/plain").problem["status"] == 415
    assert tried.get("node").problem["status"] == 405
    assert tried.call("DELETE", "size").problem["status"] == 405


def test_the_served_node_is_read_anew_when_it_has_changed(page: Page) -> None:
    before = page.desk.served_node()
    assert page.desk.served_node() is before
    page.desk.changed(MAP)
    assert page.desk.served_node() is not before


def test_errors_of_input_keep_their_line() -> None:
    def broken(desk: Desk, asked: Asked) -> object:  # noqa: ARG001
        raise InputError("is wrong", file="a.yaml", line=7, field="spec")

    page = Page(operations=(Operation(GET, "/broken", "broken", "", broken, ServerOverview),))
    problem = page.get("broken").problem
    assert (problem["file"], problem["line"], problem["field"]) == ("a.yaml", 7, "spec")
    page.close()


def test_an_answer_is_worked_out_once_for_all_who_ask() -> None:
    asked: list[int] = []
    go = threading.Event()

    def slow(desk: Desk, call: Asked) -> object:  # noqa: ARG001
        asked.append(1)
        go.wait()
        return {"fine": True}

    operation = Operation(GET, "/slow", "slow", "", slow, ServerOverview, depends=(MAP,))
    page = Page(operations=(operation,))

    async def many() -> list[int]:
        calls = [asyncio.create_task(page.ask("GET", "slow")) for _ in range(200)]
        await asyncio.sleep(0)  # all have asked, and none is answered
        go.set()
        return [answer.status for answer in await asyncio.gather(*calls)]

    assert set(asyncio.run(many())) == {200}
    assert len(asked) == 1
    page.get("slow")
    assert len(asked) == 1
    page.desk.changed(MAP)
    page.get("slow")
    assert len(asked) == 2
    page.close()


def test_a_mistake_is_told_to_all_who_asked_and_is_not_kept() -> None:
    asked: list[int] = []

    def broken(desk: Desk, call: Asked) -> object:  # noqa: ARG001
        asked.append(1)
        raise InputError("is wrong", field="x")

    page = Page(operations=(Operation(GET, "/broken", "broken", "", broken, ServerOverview, depends=()),))
    assert page.get("broken").problem["field"] == "x"
    assert page.get("broken").problem["field"] == "x"
    assert len(asked) == 2
    page.close()


def test_an_answer_that_goes_stale_is_worked_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(application.time, "monotonic", lambda: now[0])
    asked: list[int] = []

    def counted(desk: Desk, call: Asked) -> object:  # noqa: ARG001
        asked.append(1)
        return {"number": len(asked)}

    operation = Operation(GET, "/use", "use", "", counted, ServerOverview, depends=(), fresh=2.0)
    page = Page(operations=(operation,))
    assert [page.get("use").data["number"] for _ in range(3)] == [1, 1, 1]
    now[0] += 2.0
    assert [page.get("use").data["number"] for _ in range(2)] == [2, 2]
    page.close()

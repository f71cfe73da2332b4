"""Requests that no browser of ours sends: heads, methods, names and paths meant to confuse."""

import asyncio
import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from numawise.errors import InputError
from numawise.patience import look
from numawise.results.overview import ServerOverview
from numawise.web import application, bodies, dropped
from numawise.web.desk import Desk
from numawise.web.guards import Guards
from numawise.web.news import News
from numawise.web.operations import GET, POST, Asked, Operation
from tests.web.calls import HOST, Page, named

TOKEN = "correct horse battery"


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page(named("dgx-h100"))
    yield page
    page.close()


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/overview", "/api/v1/openapi.json", "/api/v1/events", "/core/main.js"]
)
def test_heads_have_an_end(page: Page, path: str) -> None:
    answer = page.call("HEAD", path)
    assert answer.status == 200
    assert answer.headers["content-type"]


@pytest.mark.parametrize(
    "method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND", "get"]
)
@pytest.mark.parametrize("path", ["overview", "events", "openapi.json", "/", "/nothing"])
def test_other_methods_are_refused_with_those_that_are_known(page: Page, method: str, path: str) -> None:
    answer = page.call(method, path)
    assert answer.problem["status"] == 405
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize("path", [
    "/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v2/overview", "//api/v1/overview", "/API/v1/overview",
    "/api/v1/overview/", "/api/v1/./overview", "/api/v1/x/../overview", "/..%2f..%2fetc/passwd", "/core/..", "/core", "/core/",
    "/%00", "/\u202e", "/index.html/", "/index.html%00.css", "/.git/config", "/" + "a" * 10_000,
])  # fmt: skip
def test_what_is_not_there_is_not_there(page: Page, path: str) -> None:
    assert page.get(path).problem["status"] == 404


def test_a_token_guards_every_path_of_the_api() -> None:
    page = Page(named("dgx-h100"), guards=Guards(token=TOKEN))
    for path in ("/api/v1/overview", "/api/v1/events", "/api/v1/nothing", "/api/"):
        assert page.get(path).problem["status"] == 401
        assert page.call("DELETE", path).problem["status"] == 401
    assert page.get("//api/v1/overview").status == 404
    assert page.get("openapi.json").status == 200  # it describes the calls, and is the same everywhere
    page.close()


@pytest.mark.parametrize("given", [
    "Bearer", "Bearer ", "Basic " + TOKEN, "bearer  ", TOKEN, "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "x", "Bearer \xff",
])  # fmt: skip
def test_what_is_not_the_token(given: str) -> None:
    page = Page(guards=Guards(token=TOKEN))
    assert page.get("overview", authorization=given).status == 401
    assert page.post("session", authorization=given).status == 401
    page.close()


def test_no_cookie_is_set_and_none_is_read() -> None:
    """A browser sends the cookies of a host name to every port of it, and so to servers of other users."""
    page = Page(guards=Guards(token=TOKEN))
    opened = page.post("session", authorization=f"Bearer {TOKEN}")
    session = opened.data["session"]
    assert "set-cookie" not in opened.headers
    assert opened.headers["cache-control"] == "no-store"
    assert TOKEN not in session
    for value in ("", session, TOKEN, f'"{session}"', "\xff", "=;=;="):
        assert page.get("overview", cookie=f"numawise-session={value}").status == 401
    page.close()


def test_a_session_is_of_one_server_alone() -> None:
    first, second = (Page(guards=Guards(token=TOKEN)) for _ in range(2))
    session = first.post("session", authorization=f"Bearer {TOKEN}").data["session"]
    assert first.get("overview", authorization=f"Bearer {session}").status == 200
    assert second.get("overview", authorization=f"Bearer {session}").status == 401
    assert first.post("session", authorization=f"Bearer {session}").status == 401
    for page in (first, second):
        page.close()


@pytest.mark.parametrize("host", [
    "127.0.0.1@evil.example", "evil.example:9801", "localhost.", "::1", "[evil]", "127.0.0.1,evil.example", "0", "2130706433",
    "127.1", "localhost%00", "127.0.0.1:9801@evil.example", "localhost:evil.example", "[::1]evil.example", "[::1", "[[::1]]", "\xff", "a" * 5000, "10.0.0.7", "0x7f.1",
])  # fmt: skip
def test_other_names_are_not_answered(page: Page, host: str) -> None:
    assert page.get("overview", host=host).problem["status"] == 421


def test_the_address_at_which_a_request_came_in_is_a_name() -> None:
    guards = Guards()

    class Heads(dict[str, str]):
        def getlist(self, name: str) -> list[str]:
            return [self[name]] if name in self else []

    guards.check("/", Heads(host="10.0.0.7:9801"), "10.0.0.7")
    guards.check("/", Heads(host="[2001:db8:0::7]:9801"), "2001:db8::7")
    for host, address in (("10.0.0.8", "10.0.0.7"), ("evil.example", "10.0.0.7"), ("", "10.0.0.7")):
        with pytest.raises(Exception, match="does not go by that name"):
            guards.check("/", Heads(host=host), address)


@pytest.mark.parametrize("name", ["host", "origin", "authorization", "content-type"])
def test_a_header_that_is_given_twice(page: Page, name: str) -> None:
    values = {
        "host": HOST,
        "origin": f"http://{HOST}",
        "authorization": "Bearer x",
        "content-type": "application/json",
    }
    answer = asyncio.run(page.twice("/api/v1/overview", name, values[name]))
    assert (answer.status, name in answer.problem["detail"]) == (400, True)


@pytest.fixture
def tried() -> Iterator[Page]:
    def answer(desk: Desk, asked: Asked) -> object:  # noqa: ARG001
        return {"fine": True}

    def large(desk: Desk, asked: Asked) -> object:  # noqa: ARG001
        return {"text": "x" * 3_000_000}

    def surrogate(desk: Desk, asked: Asked) -> object:  # noqa: ARG001
        raise InputError("a name of \udcff", field="\udcff")

    page = Page(
        operations=(
            Operation(POST, "/plain", "plain", "", answer, ServerOverview),
            Operation(GET, "/large/{name}", "large", "", large, ServerOverview, depends=()),
            Operation(GET, "/odd", "odd", "", surrogate, ServerOverview),
        )
    )
    yield page
    page.close()


@pytest.mark.parametrize(
    ("uid", "status"), [(None, 403), (os.geteuid() + 7, 403), (os.geteuid(), 200), (0, 200)]
)
def test_without_a_token_only_the_own_user_changes_anything(uid: int | None, status: int) -> None:
    def answer(desk: Desk, asked: Asked) -> object:  # noqa: ARG001
        return {"fine": True}

    operation = Operation(POST, "/change", "change", "", answer, ServerOverview, changes=True)
    page = Page(operations=(operation,), allow_changes=True, guards=Guards(peer=lambda peer, own: uid))  # noqa: ARG005
    assert page.post("change", {}).status == status
    page.close()
    page = Page(operations=(operation,), allow_changes=True, guards=Guards(token=TOKEN, peer=lambda *_: None))
    assert page.post("change", {}).status == 401
    assert page.post("change", {}, authorization=f"Bearer {TOKEN}").status == 200
    page.close()


def test_a_form_of_another_page_reaches_nothing(tried: Page) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert tried.post("plain", {}, content_type=kind).problem["status"] == 415
    assert tried.post("plain", {}, content_type="Application/JSON; charset=utf-8").status == 200


def test_a_body_has_an_end(tried: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LARGEST_BODY", 100)
    assert tried.post("plain", b" " * 100).status == 200
    assert tried.post("plain", b" " * 101).problem["status"] == 413
    assert tried.post("plain", b"", content_length="101").problem["status"] == 413
    assert tried.post("plain", b"", content_length="9" * 400).status in (200, 413)


def test_a_body_that_does_not_come(tried: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 0.01)
    assert asyncio.run(tried.never("/api/v1/plain")).problem["status"] == 408


def test_answers_are_kept_within_bounds(tried: Page) -> None:
    for number in range(30):
        assert tried.get(f"large/{number}").status == 200
    kept = tried.application._kept
    assert 0 < sum(len(response.body) for _, response in kept.values()) <= application.LARGEST_KEPT
    assert len(kept) < 30


def test_words_that_are_no_text_are_a_problem_like_others(tried: Page) -> None:
    assert tried.get("odd").problem["detail"] == "a name of ?"


def test_what_a_killed_server_left_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(dropped, "YOUNG", -1.0)
    left = tmp_path / f"{dropped.PREFIX}left_123"
    left.mkdir(mode=0o700)
    (left / "0").mkdir()
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / f"{dropped.PREFIX}linked__").symlink_to("own")
    own = {f"{dropped.PREFIX}{name}": mode for name, mode in {"notes": 0o700, "open____": 0o755}.items()}
    for name, mode in own.items():
        (tmp_path / name).mkdir(mode=mode)
    (tmp_path / f"{dropped.PREFIX}written_").mkdir(mode=0o700)
    (tmp_path / f"{dropped.PREFIX}written_/thesis.txt").touch()
    before = sorted(set(tmp_path.iterdir()) - {left})
    first = dropped.DroppedFiles()
    second = dropped.DroppedFiles()
    assert not left.exists()
    assert Path(first.folder).stat().st_mode & 0o777 == 0o700
    second.close()
    first.close()
    assert sorted(tmp_path.iterdir()) == before


def test_too_many_listeners(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "MOST_LISTENERS", 0)
    answer = page.get("events")
    assert (answer.problem["status"], answer.headers["retry-after"]) == (429, "1")


def test_reads_do_not_wait_for_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go, begun = threading.Event(), threading.Barrier(application.WORKERS + 1)

    def slow(desk: Desk, asked: Asked) -> object:  # noqa: ARG001
        begun.wait()
        let_go.wait()
        look()
        return {}

    def quick(desk: Desk, asked: Asked) -> object:  # noqa: ARG001
        return {}

    monkeypatch.setattr(application, "LONGEST_CALL", 0.0)
    page = Page(
        operations=(
            Operation(POST, "/slow", "slow", "", slow, ServerOverview),
            Operation(GET, "/quick", "quick", "", quick, ServerOverview),
        )
    )
    with ThreadPoolExecutor() as callers:
        slow_calls = [callers.submit(page.post, "slow", {}) for _ in range(application.WORKERS)]
        begun.wait()
        try:
            assert page.get("quick").status == 200
        finally:
            let_go.set()
        for call in slow_calls:
            problem = call.result().problem
            assert (problem["status"], problem["advice"]) == (422, "ask for less")
    page.close()


def test_too_many_calls(tried: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "MOST_WAITING", 0)
    answer = tried.post("plain", {})
    assert (answer.problem["status"], answer.headers["retry-after"]) == (429, "1")


def test_whoever_leaves_is_forgotten() -> None:
    async def listen() -> int:
        news = News()
        news.changed("map")
        events = news.follow(beat=0.01)
        first = [await anext(events) for _ in range(3)]
        assert first == [
            b"retry: 2000\n",
            b'event: hello\ndata: {"what": "map", "version": 1}\n\n',
            b": beat\n\n",
        ]
        news.changed("map", "box")
        changed = await anext(events)
        while changed == b": beat\n\n":
            changed = await anext(events)
        assert changed.count(b"event: changed") == 2
        assert len(news) == 1
        await events.aclose()
        return len(news)

    assert asyncio.run(listen()) == 0

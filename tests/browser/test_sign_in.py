"""Who has signed in, on a host name that other users' servers share."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.browser.chromium import DRIVER, Watched, serving

if DRIVER:
    from playwright.sync_api import expect
if TYPE_CHECKING:
    from playwright.sync_api import Page

PageAt = Callable[..., Watched]
TOKEN = "correct-horse-battery-staple-0123456789"
Headers = list[tuple[str, str]]


@contextmanager
def another_user() -> Iterator[tuple[str, list[Headers]]]:
    """A server on another port of the same host that writes down what browsers send it."""
    heard: list[Headers] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(list(self.headers.items()))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def words(tmp_path: Path) -> tuple[str, ...]:
    token = tmp_path / "token"
    token.write_text(TOKEN, encoding="utf-8")
    token.chmod(0o600)
    return "--machine", "dgx-h100", "--token-file", str(token)


def sign_in(page: "Page") -> None:
    dialog = page.get_by_role("dialog", name="This server asks for a token")
    dialog.get_by_label("Token").fill(TOKEN)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("h1")).to_have_text("dgx-h100")


def leave(page: "Page") -> None:
    """Before its server ends: a page that listens for news asks for them again at once."""
    page.goto("about:blank")


def status_of(home: str, headers: Headers) -> int:
    """How a server answers who sends these headers."""
    place = urlsplit(home).netloc
    line = http.client.HTTPConnection(place)
    try:
        line.request("GET", "/api/v1/overview", headers={**dict(headers), "Host": place})
        return line.getresponse().status
    finally:
        line.close()


def test_another_server_of_the_host_receives_nothing_that_opens_this_one(
    page_at: PageAt, words: tuple[str, ...]
) -> None:
    with serving(words) as home, another_user() as (elsewhere, heard):
        watched = page_at(home)
        watched.expect_error("401|another host")
        page = watched.open("map")
        sign_in(page)
        page.goto(f"{elsewhere}a.html")
        assert page.evaluate("() => [document.cookie, sessionStorage.length, localStorage.length]") == [
            "",
            0,
            0,
        ]
        assert heard
        for headers in heard:
            assert status_of(home, headers) == 401
        assert status_of(home, [("Authorization", f"Bearer {TOKEN}")]) == 200
        page.goto(home)  # the same tab is still signed in
        expect(page.locator("h1")).to_have_text("dgx-h100")
        leave(page)


def test_two_servers_of_a_host_do_not_sign_each_other_out(page_at: PageAt, words: tuple[str, ...]) -> None:
    with serving(words) as first, serving(words) as second:
        watched = page_at(first)
        watched.expect_error("401|another host")
        page = watched.open("map")
        sign_in(page)
        page.goto(second)
        sign_in(page)
        page.goto(first)
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.goto(second)
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.get_by_role("dialog")).to_have_count(0)
        leave(page)

"""The checks that the other tests rely on find what they are there for."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.browser.chromium import Watched, crooked, serious

PageAt = Callable[..., Watched]
FAULTY = """<!doctype html><html lang="en"><title>faulty</title><link rel="icon" href="data:,"><main><h1>Faulty</h1>
<script>throw new Error("inline")</script>
<img src="http://127.0.0.2:9/elsewhere.png" alt="elsewhere">
<button></button>
<p id="wide">w</p><p id="cut">a sentence that is much too long for its box</p>
<script src="/script.js"></script></main>"""
SCRIPT = """document.getElementById("wide").style.setProperty("width", "3000px");
const cut = document.getElementById("cut");
for (const [name, value] of [["width", "60px"], ["overflow", "hidden"], ["white-space", "nowrap"]]) {
  cut.style.setProperty(name, value);
}
console.error("a word on the console");
undefinedFunction();"""
GOOD = """<!doctype html><html lang="en"><title>good</title><link rel="icon" href="data:,"><main><h1>Good</h1></main>"""


class Pages(BaseHTTPRequestHandler):
    """Two pages, one with every fault."""

    def do_GET(self) -> None:
        text, kind = {
            "/faulty/": (FAULTY, "text/html"),
            "/script.js": (SCRIPT, "text/javascript"),
        }.get(self.path, (GOOD, "text/html"))
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header(
            "Content-Security-Policy",
            "default-src 'self'; img-src data: http://127.0.0.2:9; script-src 'self'",
        )
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def home() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_every_fault_of_a_page_is_found(home: str, page_at: PageAt) -> None:
    faulty = page_at(f"{home}faulty/")
    page = faulty.open()
    page.wait_for_load_state("networkidle")
    text = "\n".join(faulty.unexpected())
    assert "Content Security Policy" in text
    assert "a request to another host: http://127.0.0.2:9/elsewhere.png" in text
    assert "a word on the console" in text
    assert "exception: undefinedFunction is not defined" in text
    assert any("button-name" in line for line in serious(page))
    laid_out = "\n".join(crooked(page))
    assert "the page is 30" in laid_out
    assert "p.: w leaves the window" in laid_out
    assert "is cut off" in laid_out
    faulty.expect_error("")  # all of them were expected here


def test_a_good_page_has_none(home: str, page_at: PageAt) -> None:
    page = page_at(home).open()
    assert serious(page) == []
    assert crooked(page) == []

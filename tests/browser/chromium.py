"""Debian's Chromium, driven by Playwright, and the server whose page it opens.

Rules kept here:

1. The browser is the system's; Playwright's own download is never used.
2. A page is watched from its first request on: console errors (refusals by the content security policy are among them),
   exceptions, and requests to any host but the server's are kept, and end the test.
3. The server is the command that people type, in a process of its own, on a free port of the loopback.
"""

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

try:
    from playwright.sync_api import (
        Browser,
        BrowserContext,
        ConsoleMessage,
        Error,
        Page,
        Request,
        sync_playwright,
    )

    DRIVER = True
except ImportError:
    DRIVER = False

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--font-render-hinting=none",
]
WIDTHS = {390: 844, 1280: 800, 2560: 1440}
"""A telephone, a laptop and a large screen, each with its height."""
PATIENCE = 1000 * float(os.environ.get("BROWSER_SECONDS", "120"))
"""Milliseconds that one step of the page may take: a safety net that no load reaches."""
ROOT = Path(__file__).parents[2]


def missing() -> str | None:
    """What the tests in a browser lack here."""
    if PROGRAM is None:
        return "Chromium is not installed (Debian: apt install chromium)"
    if not DRIVER:
        return "playwright is not installed (scripts/setup installs it where Chromium is)"
    return None


@contextmanager
def chromium() -> "Iterator[Browser]":
    """One browser, without anything of an earlier one."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=PROGRAM, args=ARGUMENTS, headless=True)
        try:
            yield browser
        finally:
            browser.close()


ADDRESS = re.compile(r"http://(?:127\.0\.0\.1|localhost|\[::1\]):\d+/?")
SLIPS = re.compile(r'Traceback|"level": "error"')


@contextmanager
def serving(
    words: Sequence[str] = (), surroundings: dict[str, str] | None = None, folder: Path = ROOT
) -> Iterator[str]:
    """``numawise serve WORDS`` on a free port; gives the address that it names, and reads its log to the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "numawise", "serve", "--listen", "127.0.0.1:0", *words],
        cwd=folder,
        env={**os.environ, **(surroundings or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said: list[str] = []
    answers: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process, said, answers))
    reader.start()
    try:
        address = answers.get()
        assert address, f"the server named no address: {''.join(said)}"
        yield address
    finally:
        process.terminate()
        reader.join()
        process.wait()
    slips = [line for line in said if SLIPS.search(line)]
    assert slips == [], "".join(said)


def _read(process: "subprocess.Popen[str]", said: list[str], answers: "queue.Queue[str]") -> None:
    assert process.stdout
    with process.stdout:
        for line in process.stdout:
            said.append(line)
            if address := ADDRESS.search(line):
                answers.put(address[0])
    answers.put("")


@dataclass  # without slots: Playwright keeps its wrappers of methods on the object
class Watched:
    """A page and what went wrong on it."""

    page: "Page"
    home: str
    faults: list[str] = field(default_factory=list)
    expected: list[re.Pattern[str]] = field(default_factory=list)

    @property
    def listeners(self) -> tuple[tuple[Any, Any], ...]:
        """What hears of each kind of event."""
        return (
            ("console", self.on_console),
            ("pageerror", self.on_exception),
            ("request", self.on_request),
        )

    def expect_error(self, pattern: str) -> None:
        """Let the console have errors of this form: the browser reports every refused request there."""
        self.expected.append(re.compile(pattern))

    def open(self, path: str = "", parameters: str = "") -> "Page":
        """Open a view by its path, such as ``map``."""
        hash_part = f"#/{path}{parameters}" if path else ""
        self.page.goto(f"{self.home}{hash_part}")
        return self.page

    def on_console(self, message: "ConsoleMessage") -> None:
        if message.type in {"error", "warning"}:
            self.faults.append(f"console {message.type}: {message.text}")

    def on_exception(self, error: "Error") -> None:
        self.faults.append(f"exception: {error}")

    def on_request(self, request: "Request") -> None:
        address = urlsplit(request.url)
        if address.scheme in {"data", "blob"}:
            return
        if address.netloc != urlsplit(self.home).netloc:
            self.faults.append(f"a request to another host: {request.url}")

    def unexpected(self) -> list[str]:
        """The faults that nobody expected."""
        return [fault for fault in self.faults if not any(one.search(fault) for one in self.expected)]


def watched(page: "Page", home: str) -> Watched:
    """A page, watched (rule 2)."""
    page.set_default_timeout(PATIENCE)
    result = Watched(page, home.split("#", 1)[0].rstrip("/") + "/")
    for event, listener in result.listeners:
        page.on(event, listener)
    return result


@dataclass(frozen=True, slots=True)
class Tabs:
    """Pages of one profile that tests have one after another; none remembers anything of the test before."""

    context: "BrowserContext"
    free: list["Page"] = field(default_factory=list)

    def take(self, home: str, width: int, theme: str) -> Watched:
        """An empty page, watched from now on."""
        page = self.free.pop() if self.free else self.context.new_page()
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        return watched(page, home)

    def put_back(self, used: Watched) -> None:
        """Forget what the page's server was told to keep, and leave it."""
        page = used.page
        page.unroute_all(behavior="ignoreErrors")
        for event, listener in used.listeners:
            page.remove_listener(event, listener)
        page.evaluate(
            "() => { try { localStorage.clear(); sessionStorage.clear(); } catch { /* it has none */ } }"
        )
        page.goto("about:blank")
        self.free.append(page)


def axe_source() -> str:
    """The text of axe-core."""
    return resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def resize(page: "Page", width: int) -> None:
    """Give the window one of the widths, and wait until it is drawn."""
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def serious(page: "Page") -> list[str]:
    """What axe-core calls serious or critical, a line each."""
    if not page.evaluate("() => 'axe' in globalThis"):
        page.evaluate(axe_source())
    found: list[dict[str, Any]] = page.evaluate(
        "() => axe.run(document, {resultTypes: ['violations']}).then(all => all.violations)"
    )
    return [
        f"{rule['impact']}: {rule['id']}: {rule['help']}: {node['target']}: {node['html'][:160]}"
        for rule in found
        if rule["impact"] in {"serious", "critical"}
        for node in rule["nodes"][:5]
    ]


LAYOUT = """() => {
  const faults = [], root = document.documentElement, width = root.clientWidth;
  if (root.scrollWidth > width + 1) faults.push(`the page is ${root.scrollWidth} wide, the window ${width}`);
  const scrolls = box => {
    for (let up = box; up && up !== root; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (/auto|scroll/.test(style.overflowX) || style.clipPath !== "none" || /rect/.test(style.clip)) return true;
    }
    return false;
  };
  const named = box => `${box.tagName.toLowerCase()}.${box.getAttribute("class") || ""}: ${box.textContent.trim().slice(0, 60)}`;
  for (const box of document.body.querySelectorAll("*")) {
    if (box.ownerSVGElement || !box.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const own = [...box.childNodes].some(one => one.nodeType === 3 && one.data.trim());
    const place = box.getBoundingClientRect();
    if (!place.width || !place.height) continue;
    if ((place.right > width + 1 || place.left < -1) && !scrolls(box)) {
      faults.push(`${named(box)} leaves the window: ${Math.round(place.left)} to ${Math.round(place.right)} of ${width}`);
    }
    if (!own) continue;
    const style = getComputedStyle(box);
    if (style.overflowX !== "visible" && style.overflowX !== "auto" && style.overflowX !== "scroll" && !scrolls(box)
        && box.scrollWidth > box.clientWidth + 1 && !box.title && !box.closest("[title]")) {
      faults.push(`${named(box)} is cut off: ${box.scrollWidth} of ${box.clientWidth}`);
    }
  }
  return faults.slice(0, 12);
}"""


def crooked(page: "Page") -> list[str]:
    """What does not fit the window: parts that leave it, and words that are cut off without saying them elsewhere."""
    faults: list[str] = page.evaluate(LAYOUT)
    return faults

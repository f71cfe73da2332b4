"""Take pictures of the page in Chromium: ``python docs/pictures/make_pages.py [NAME…]``.

What is shown is what ``numawise serve`` shows first, or after the steps that stand here.  Needs Chromium;
the pictures are not compared by any test, since fonts differ from machine to machine.
Those that are kept were brought to 256 colours afterwards, which is a third of the size and looks the same.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser.chromium import chromium, missing, serving, watched  # noqa: E402 - needs the path above
from tests.host.launching import Host  # noqa: E402 - likewise

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NODE = "examples/3gpu-server"
WORDS = (
    *("--machine", f"{NODE}/machine.yaml", "--kubelet-config", f"{NODE}/kubelet.yaml"),
    *("--state", f"{NODE}/state/numa1-busy"),
)
LARGE = ("--machine", "2s 4n 192c 2t 8gpu 16nic")


class Picture(NamedTuple):
    """One picture: of which server, view and window, and what is done before it is taken."""

    name: str
    words: Sequence[str]
    view: str
    wait: str
    size: tuple[int, int] = (1280, 860)
    theme: str = "light"
    before: Callable[["Page"], object] = lambda _: None
    around: Callable[[], AbstractContextManager[dict[str, str]]] = lambda: nullcontext({})
    """Gives the surroundings of the server."""


@contextmanager
def _jobs() -> Iterator[dict[str, str]]:
    """This host with a ledger of its own, in which one job has ended, one runs and one waits."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text("import time\ntime.sleep(3600)\n")
        host = Host(Path(folder))
        try:
            host.run("run", "-q", "--cpus", "1", "--name", "evaluate", "--", "true")
            host.start("run", "-q", "--cpus", "1", "--name", "train", "--", "python3", "train.py", cwd=folder)
            host.hold("train")
            host.start("run", "-q", "--cpus", str(os.cpu_count()), "--wait", "--", "true")
            yield host.environment
        finally:
            host.end()


def _holder(page: "Page") -> None:
    page.locator("button.holder").first.click()


def _machines_own(page: "Page") -> None:
    """Without the warning that this ledger is not the machine's."""
    page.locator(".notice").evaluate("notice => notice.remove()")


def _second_step(page: "Page") -> None:
    page.get_by_role("button", name="Next", exact=True).click()


PICTURES = (
    Picture("page-map", WORDS, "map", "main svg [data-cpus]", (1280, 720), before=_holder),
    Picture("page-map-384", LARGE, "map", "main svg [data-cpus]", (1280, 820), "dark"),
    Picture("page-why", LARGE, "why?example=incident", ".steps", (1280, 1000), before=_second_step),
    Picture("page-what-if", LARGE, "what-if", "main svg [data-cpus]", (1280, 1080)),
    Picture("page-check", LARGE, "check", ".badge-no", (1280, 900)),
    Picture("page-cluster", LARGE, "cluster", ".node-card", (1280, 900)),
    Picture(
        "page-box",
        ("--allow-changes",),
        "box",
        r"td >> text=/^\d\.\d$/",
        (1280, 720),
        before=_machines_own,
        around=_jobs,
    ),
    Picture("page-phone", LARGE, "what-if", "main svg [data-cpus]", (390, 844), "dark"),
)


def take(browser: "Browser", picture: Picture) -> int:
    """Take one picture; gives its size."""
    width, height = picture.size
    with picture.around() as surroundings, serving(picture.words, surroundings) as home:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if picture.theme == "dark" else "light",
            reduced_motion="reduce",
            locale="en-GB",
        )
        page = watched(context.new_page(), home).open(picture.view)
        page.wait_for_selector(picture.wait)
        page.wait_for_selector("#live[data-state=on]")
        picture.before(page)
        page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")
        raw = page.screenshot(path=Path(__file__).parent / f"{picture.name}.png", scale="css")
        context.close()
    return len(raw)


def main() -> int:
    """Take all pictures, or those that are named."""
    if reason := missing():
        print(reason, file=sys.stderr)  # noqa: T201 - a script
        return 2
    wanted = sys.argv[1:]
    with chromium() as browser:
        for picture in PICTURES:
            if not wanted or picture.name in wanted:
                print(f"{picture.name}: {take(browser, picture) / 1000:.0f} kB")  # noqa: T201 - a script
    return 0


if __name__ == "__main__":
    sys.exit(main())

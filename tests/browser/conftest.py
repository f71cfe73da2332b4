"""One browser for all tests of the page, a server for each way of starting it, and a watched page for each test."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.browser.chromium import DRIVER, PATIENCE, WIDTHS, Watched, chromium, missing, serving, watched

if DRIVER:
    from playwright.sync_api import Browser, expect

    expect.set_options(timeout=PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip everything here where there is no browser."""
    if reason := missing():
        for item in items:
            if "/tests/browser/" in str(item.path):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="package")
def browser() -> "Iterator[Browser]":
    """Ends with the last test of this folder: the driver's event loop would be in the way of other tests."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="package")
def served() -> Iterator[Callable[..., str]]:
    """The address of ``numawise serve WORDS``, started once for all tests that want the same."""
    with contextlib.ExitStack() as running:
        known: dict[tuple[str, ...], str] = {}

        def start(*words: str) -> str:
            if words not in known:
                known[words] = running.enter_context(serving(words))
            return known[words]

        yield start


@pytest.fixture
def page_at(browser: "Browser") -> Iterator[Callable[..., Watched]]:
    """A new page for an address, at a width, in a theme; what went wrong on it ends the test."""
    with contextlib.ExitStack() as opened:
        pages: list[Watched] = []

        def begin(home: str, width: int = 1280, theme: str = "light", *, still: bool = True) -> Watched:
            context = browser.new_context(
                viewport={"width": width, "height": WIDTHS[width]},
                color_scheme="dark" if theme == "dark" else "light",
                reduced_motion="reduce" if still else "no-preference",
                locale="en-GB",
            )
            opened.callback(context.close)
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            pages.append(watched(context, home))
            return pages[-1]

        yield begin
        assert [fault for one in pages for fault in one.unexpected()] == []

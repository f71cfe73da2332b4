"""One browser for all tests of the page, a server for each way of starting it, and a watched, empty page for each test."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.browser.chromium import DRIVER, PATIENCE, Tabs, Watched, chromium, missing, serving

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


@pytest.fixture(scope="package")
def tabs(browser: "Browser") -> "Iterator[Tabs]":
    """One profile for all tests: a browser process and a cold cache for each would be most of their time."""
    context = browser.new_context(reduced_motion="reduce", locale="en-GB")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield Tabs(context)
    context.close()


@pytest.fixture
def page_at(tabs: "Tabs") -> Iterator[Callable[..., Watched]]:
    """An empty page for an address, at a width, in a theme; what went wrong on it ends the test."""
    pages: list[Watched] = []

    def begin(home: str, width: int = 1280, theme: str = "light") -> Watched:
        pages.append(tabs.take(home, width, theme))
        return pages[-1]

    try:
        yield begin
    finally:
        for page in pages:
            tabs.put_back(page)
    assert [fault for page in pages for fault in page.unexpected()] == []

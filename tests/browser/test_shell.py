"""The frame of the page: every view opens, at every width, in both themes, by keyboard."""

from collections.abc import Callable

import pytest

from tests.browser.checks import BOTH, is_sound
from tests.browser.chromium import DRIVER, Watched, serving

if DRIVER:
    from playwright.sync_api import expect

PageAt = Callable[..., Watched]
Served = Callable[..., str]
VIEWS = ("Map", "Why", "What if", "Check", "Cluster")


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_opens_and_is_sound(served: Served, page_at: PageAt, name: str) -> None:
    page = page_at(served("--machine", "dgx-h100")).open()
    page.get_by_role("navigation", name="Views").get_by_role("link", name=name, exact=True).click()
    expect(page.locator("#views [aria-current=page]")).to_have_text(name)
    expect(page).to_have_title(f"{name} · numawise")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    is_sound(page, themes=BOTH)


def test_content_and_views_are_reached_by_keyboard_and_the_focus_is_seen(
    served: Served, page_at: PageAt
) -> None:
    page = page_at(served("--machine", "dgx-h100")).open("why")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    link = page.get_by_role("link", name="Check", exact=True)
    for _ in range(8):
        page.keyboard.press("Tab")
        if link.evaluate("one => one === document.activeElement"):
            break
    expect(link).to_be_focused()
    assert link.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("#views [aria-current=page]")).to_have_text("Check")
    skip.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator("#views [aria-current=page]")).to_have_text("Check")


def test_the_theme_follows_the_system_and_a_choice_stays(served: Served, page_at: PageAt) -> None:
    def background() -> str:
        colour: str = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return colour

    page = page_at(served("--machine", "dgx-h100"), theme="dark").open("map")
    chooser = page.locator("#theme")
    expect(chooser).to_have_text("Theme: system")
    expect(page.locator("#live")).to_have_text("Live")
    dark = background()
    chooser.click()
    expect(chooser).to_have_text("Theme: light")
    light = background()
    assert light != dark
    page.reload()
    expect(chooser).to_have_text("Theme: light")
    assert background() == light
    chooser.click()
    assert background() == dark


def test_a_server_that_ends_lets_its_pages_go_and_they_say_so(page_at: PageAt) -> None:
    with serving(["--machine", "small-vm"]) as home:  # complains when the server's log has an error
        watched = page_at(home)
        page = watched.open("map")
        expect(page.locator("#live")).to_have_text("Live")
    watched.expect_error("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING")
    expect(page.locator("#live")).to_have_text("Not connected")

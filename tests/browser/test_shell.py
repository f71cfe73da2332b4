"""The frame of the page: every view opens, at every width, in both themes, by keyboard."""

from collections.abc import Callable
from pathlib import Path

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


def test_without_a_host_the_page_opens_with_the_cluster_and_the_map_is_an_example(
    served: Served, page_at: PageAt
) -> None:
    config = "examples/8gpu-server/kubelet.yaml"
    page = page_at(served("--no-host", "--nodes", "dgx-h100:2", "--kubelet-config", config)).open()
    expect(page.locator(".node-card")).to_have_count(2)
    expect(page.locator("#views a[aria-current]")).to_have_text("Cluster")
    expect(page.locator("#views")).not_to_contain_text("Box")
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page.locator(".notice-info")).to_contain_text("This is an example: no node is served here.")
    expect(page.locator("main svg [data-cpus]").first).to_be_visible()


def test_a_machine_that_cannot_be_read_and_a_server_that_ends(page_at: PageAt, tmp_path: Path) -> None:
    with serving(["--root", str(tmp_path)]) as home:  # complains when the server's log has an error
        watched = page_at(home)
        watched.expect_error("422")
        page = watched.open("map")
        expect(page.get_by_role("alert")).to_contain_text("has neither sys nor proc")
        expect(page.locator("h1")).to_have_text("dgx-h100")  # nobody starts before an empty page
        expect(page.get_by_text("an example")).to_be_visible()
        expect(page.locator("#live")).to_have_text("Live")
        is_sound(page)
    watched.expect_error("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET")
    expect(page.locator("#live")).to_have_text("Not connected")
    page.get_by_role("link", name="What if", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What if")
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    is_sound(page)

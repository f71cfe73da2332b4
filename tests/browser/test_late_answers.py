"""Answers that come when something else was asked or another view is shown, and servers that come back."""

import contextlib
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser.chromium import DRIVER, Watched, crooked, serious, serving

if DRIVER:
    from playwright.sync_api import Error, Page, Route, expect

PageAt = Callable[..., Watched]
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture
def home(served: Callable[..., str]) -> str:
    return served("--machine", "dgx-h100")


def held_back(page: "Page", path: str, act: Callable[[], None]) -> "Route":
    """The request that an act of somebody sends there; it is answered when the route goes on."""
    held: list[Route] = []
    with page.expect_request(f"**/api/v1/{path}"):
        page.route(f"**/api/v1/{path}", lambda route: held.append(route), times=1)  # noqa: PLW0108
        act()
    page.evaluate(TWO_FRAMES)
    assert len(held) == 1
    return held[0]


def answered(page: "Page", route: "Route") -> None:
    with page.expect_response(route.request.url):
        route.continue_()
    page.evaluate(TWO_FRAMES)


def test_who_has_left_a_view_is_led_nowhere_by_it(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("why", "?example=incident")
    late = held_back(page, "why/scenario", page.get_by_role("button", name="Open in What if").click)
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page.locator("h1")).to_have_text("dgx-h100")
    answered(page, late)
    assert page.url.endswith("#/map")
    page.get_by_role("link", name="What if", exact=True).click()
    page.get_by_role("button", name="Share…").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.go_back()
    expect(page.locator("h1")).to_have_text("dgx-h100")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_of_two_suggestions_the_later_one_is_shown(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("why", "?example=incident")
    tries = page.get_by_role("button", name="Try it")
    late = held_back(page, "why/try", tries.nth(0).click)
    tries.nth(1).click()
    expect(tries.nth(1)).to_have_attribute("aria-pressed", "true")
    title = page.locator(".tried-title").inner_text()
    with contextlib.suppress(Error):  # nobody waits for it any more
        late.continue_()
        late.request.response()
    page.evaluate(TWO_FRAMES)
    assert page.locator(".tried-title").inner_text() == title
    expect(tries.nth(0)).to_have_attribute("aria-pressed", "false")


def test_a_window_that_changes_leads_nobody_back_to_another_step(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("what-if")
    expect(page.locator(".what-map h2")).to_have_text("After step 3")
    steps = page.locator(".what-step")
    late = held_back(page, "scenario", steps.nth(2).click)
    steps.nth(5).click()
    page.set_viewport_size({"width": 700, "height": 800})
    page.evaluate(TWO_FRAMES)
    answered(page, late)
    expect(page.locator(".what-map h2")).to_have_text("After step 5")


def test_nobody_is_called_back_from_where_they_write(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("check")
    page.get_by_role("button", name=re.compile("Errors")).focus()
    late = held_back(page, "check", lambda: page.get_by_label("Release").select_option("1.30"))
    words = page.get_by_label("Its name or words")
    words.focus()
    answered(page, late)
    expect(page.locator(".listing").first).to_be_visible()
    expect(words).to_be_focused()
    page = page_at(home).open("what-if")
    step = page.locator('.what-step[aria-current="step"]')
    step.focus()
    late = held_back(page, "scenario", lambda: step.press("ArrowRight"))
    name = page.get_by_label("Name", exact=True)
    name.focus()
    answered(page, late)
    expect(page.locator(".what-map h2")).to_have_text("After step 4")
    expect(name).to_be_focused()


def test_nodes_are_those_of_the_newest_labels(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("cluster")
    expect(page.get_by_role("tab", name="Nodes (26)")).to_be_visible()
    labels = page.get_by_label("Labels")

    def choose(pool: str) -> None:
        labels.fill(f"node.example.com/pool={pool}")
        labels.press("Enter")

    late = held_back(page, "cluster?*", lambda: choose("services"))
    choose("training")
    answered(page, late)
    expect(page.get_by_role("tab", name="Nodes (12)")).to_be_visible()
    expect(page.locator(".node-card")).to_have_count(12)


def test_a_shape_of_ones_own_stays_when_all_is_counted_again(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("cluster")
    expect(page.locator(".node-card").first).to_be_visible()
    tab = page.get_by_role("tab", name="What fits")
    tab.click()
    expect(page.get_by_role("row", name="4 GPUs, 48 CPUs, 400 GiB")).to_be_visible()
    held_back(page, "cluster/capacity", page.get_by_role("button", name="Count").click)
    for _ in range(2):
        with page.expect_response("**/cluster/capacity"):
            tab.click()
        expect(page.get_by_role("row", name="1 GPU, 8 CPUs, 64 GiB")).to_be_visible()
        page.evaluate(TWO_FRAMES)
    page.get_by_role("tab", name="Nodes (26)").focus()
    page.keyboard.press("End")
    page.get_by_role("button", name=re.compile("^training-")).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("^training-"))
    page.get_by_role("button", name="All nodes").click()
    expect(page.get_by_role("tab", name="Pods without a place")).to_have_attribute("aria-selected", "true")


def test_views_hear_of_changes(served: Callable[..., str], page_at: PageAt) -> None:
    """A stream that ends after each event, so that the next comes when the browser listens again."""
    version = itertools.count(1)

    def tell(route: "Route") -> None:
        number = next(version)
        news = [
            f'event: changed\ndata: {{"what": "{what}", "version": {number}}}\n\n'
            for what in ("cluster", "map")
        ]
        route.fulfill(content_type="text/event-stream", body="".join(["retry: 200\n", *news]))

    server = Path(__file__).parents[2] / "examples/8gpu-server"
    config = ("--kubelet-config", str(server / "kubelet.yaml"))
    watched = page_at(served("--machine", str(server / "machine.yaml"), *config))
    watched.page.route("**/api/v1/events", tell)
    page = watched.open("cluster")
    with page.expect_request(re.compile(r"/cluster\?.*since=")):
        expect(page.locator(".node-card").first).to_be_visible()
    page.get_by_role("tab", name="What fits").click()
    with page.expect_request("**/cluster/capacity"):
        expect(page.locator(".fit-table")).to_be_visible()
    page.get_by_role("link", name="Why", exact=True).click()
    page.get_by_label("Files", exact=True).set_input_files(next((server / "pods").glob("*.yaml")))
    expect(page.get_by_text("The node has changed since.")).to_be_visible()


def test_a_token_is_asked_for_and_again_by_a_server_that_was_started_anew(
    page_at: PageAt, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse-battery-staple-0123456789\n", encoding="utf-8")
    token.chmod(0o600)
    words = ("--machine", "dgx-h100", "--token-file", str(token))
    dialog_name = "This server asks for a token"

    def sign_in(page: "Page") -> None:
        dialog = page.get_by_role("dialog", name=dialog_name)
        dialog.get_by_label("Token").fill(token.read_text(encoding="utf-8"))
        dialog.get_by_role("button", name="Sign in").click()
        expect(dialog).to_have_count(0)
        expect(page.locator("#live")).to_have_text("Live")

    with serving(words) as home:
        watched = page_at(home)
        watched.expect_error("401")
        page = watched.open("map")
        dialog = page.get_by_role("dialog", name=dialog_name)
        expect(dialog).to_be_visible()
        assert [*serious(page), *crooked(page)] == []
        dialog.get_by_label("Token").fill("wrong")
        dialog.get_by_role("button", name="Sign in").click()
        expect(dialog.get_by_role("alert")).to_have_text("That is not the token.")
        sign_in(page)
        expect(page.locator("h1")).to_have_text("dgx-h100")
    watched.expect_error("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET")
    expect(page.locator("#live")).to_have_text("Not connected")
    with serving(("--listen", urlsplit(home).netloc, *words)):
        sign_in(page)

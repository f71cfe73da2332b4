"""Why, in the browser: the decision step by step beside the map, and suggestions that are tried."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.checks import is_sound, said
from tests.browser.chromium import DRIVER, Watched

if DRIVER:
    from playwright.sync_api import Page, expect

PageAt = Callable[..., Watched]
Served = Callable[..., str]
EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL, INCIDENT = EXAMPLES / "3gpu-server", EXAMPLES / "incident-server"
EXPLAINED = {"five-gpus": "training-5gpu", "three-gpus": "late", "admitted": "thirteen"}
FOLDERS = ("04-14cpu-12cpu", "12-cpus-span-numa", "13-gpus-short")


@pytest.fixture
def home(served: Served) -> str:
    return served("--machine", "dgx-h100")


def drop(page: "Page", *files: Path) -> None:
    page.get_by_label("Files", exact=True).set_input_files([str(file) for file in files])


def current(page: "Page") -> str:
    return page.locator(".step-current .step-title").inner_text()


def marked(page: "Page", kind: str) -> list[str]:
    """The names of what is marked on the map."""
    names: list[str] = page.locator(f".walk-map .{kind}").evaluate_all(
        "all => all.map(one => one.getAttribute('data-id'))"
    )
    return names


def test_every_example_is_sound(home: str, page_at: PageAt) -> None:
    watched = page_at(home)
    for name, pod in EXPLAINED.items():
        page = watched.open("why", f"?example={name}")
        expect(page.locator(".explanation h2").first).to_have_text(pod)
        page.get_by_role("button", name="All at once").click()
        is_sound(page)


def test_the_merge_narrows_on_the_map(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("why")
    expect(page.locator(".notice-info")).to_contain_text("This is an example")
    expect(page.locator(".answer")).to_contain_text("no NUMA node serves both")
    expect(page.locator(".step-count")).to_have_text("Step 1 of 5")
    row = page.locator(".step-current .hints tbody tr").first
    expect(row.locator("td")).to_have_text(["4 CPUs", "no2 free", "yes!12 free", "0-1"])
    page.get_by_role("button", name="Next").click()
    assert current(page) == "Merge: cpu"
    assert marked(page, "step-numa") == ["numa-1"]
    assert marked(page, "step-out") == ["numa-0"]
    expect(page.locator(".walk-map .step-key")).to_have_text("left: NUMA 1")
    page.get_by_role("button", name="Next").click()
    assert marked(page, "step-out") == ["numa-0", "numa-1"]
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".step-current .step-rule")).to_contain_text("one NUMA node serves all resources")


def test_cpus_are_taken_pass_by_pass_on_the_map(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("why", "?example=admitted")
    page.get_by_role("button", name="Whole cores").click()
    assert len(marked(page, "step-now")) == 6
    expect(page.locator(".walk-map figcaption")).to_contain_text("taken now: CPUs 8-13,24-29")
    page.get_by_role("button", name="Next").click()
    assert current(page) == "Single CPUs"
    assert len(marked(page, "step-before")) == 6
    assert len(marked(page, "step-part")) == 1
    expect(page.locator(".step-current")).to_contain_text("13 of 13 CPUs")
    page.get_by_role("button", name="Next").click()
    assert current(page) == "Admitted"
    assert len(marked(page, "step-own")) == 6
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    expect(page.get_by_role("button", name="Next")).to_be_focused()
    assert said(page).startswith("Step 8 of 8: Admitted. ")


def test_steps_are_walked_by_keyboard_and_another_pod_is_chosen(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("why", "?example=incident")
    page.locator(".step-head").first.focus()
    page.keyboard.press("ArrowDown")
    assert current(page) == "Merge: cpu"
    expect(page.locator(".step-current .step-head")).to_be_focused()
    page.keyboard.press("End")
    assert current(page) == "Refused"
    page.keyboard.press("Home")
    assert current(page) == "Hints of container app"
    page.get_by_role("button", name="storage-7").press("Enter")
    expect(page.locator(".explanation h2").first).to_have_text("storage-7")
    expect(page.get_by_role("button", name="storage-7")).to_be_focused()
    assert said(page).startswith("storage-7: Admitted")
    expect(page.locator(".walk-panel")).to_contain_text("Memory of container app")


def test_a_suggestion_is_tried_and_the_map_afterwards_is_shown(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("why", "?example=incident")
    suggestions = page.locator(".suggestion")
    expect(suggestions).to_have_count(5)
    for number in range(5):
        tried = suggestions.nth(number).get_by_role("button", name="Try it")
        tried.press("Enter")
        expect(page.locator(".tried-answer")).to_contain_text("admitted")
        expect(tried).to_be_focused()
        text = suggestions.nth(number).locator("p").first.inner_text().rstrip(".")
        expect(page.locator(".tried-title")).to_have_text(f"Afterwards: {text}")
        expect(page.locator(".tried svg.picture")).to_be_visible()
    holders = page.locator(".tried").get_by_label("Who holds what")
    afterwards = holders.text_content()
    assert afterwards
    page.get_by_role("button", name="Show the map before").click()
    expect(holders).not_to_have_text(afterwards)
    expect(page.locator(".tried .step-picture")).to_contain_text("select-3")
    is_sound(page)


def test_dropped_files_are_explained(home: str, page_at: PageAt) -> None:
    """Cases of the 3-GPU server; tests/web asks about all that are refused."""
    watched = page_at(home)
    for folder in FOLDERS:
        page = watched.open("why", f"?example=incident&before={folder}")
        expect(page.locator(".explanation h2").first).to_have_text("storage-15")
        pods = sorted((SMALL / "pods" / folder).glob("*.yaml"))
        drop(page, SMALL / "machine.yaml", SMALL / "kubelet.yaml", *pods)
        expect(page.locator(".why-ask-words")).to_have_text(f"{len(pods) + 2} files")
        expect(page.locator(".step-map svg")).to_have_attribute("aria-label", re.compile("28 CPUs"))
        expect(page.locator(".explanation h2").first).not_to_have_text("storage-15")
        assert page.locator(".notice-no").count() == 0


def test_a_log_is_dropped(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("why")
    expect(page.locator(".answer")).to_be_visible()
    drop(page, INCIDENT / "kubelet.log")
    expect(page.get_by_role("heading", name="Kubelet's log")).to_be_visible()
    expect(page.locator(".explanation")).to_contain_text("vmstorage-common-15")
    expect(page.locator(".steps")).to_be_visible()
    is_sound(page)


def test_what_is_wrong_is_one_sentence(home: str, page_at: PageAt, tmp_path: Path) -> None:
    watched = page_at(home)
    watched.expect_error("422")
    page = watched.open("why")
    expect(page.locator(".answer")).to_be_visible()
    evil = tmp_path / "<img src=x onerror=alert(1)>.yaml"
    evil.write_text("kind: Pod\nmetadata: {name: '<b>x</b>'}\nspec: 7\n")
    drop(page, SMALL / "machine.yaml", SMALL / "kubelet.yaml", evil)
    expect(page.locator(".notice-no")).to_contain_text(".yaml:2: metadata.name: Invalid value")
    assert page.locator("img[src=x], .notice b").count() == 0
    is_sound(page)
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: Pod\nspec: [1\n")
    page.get_by_role("button", name="Empty the form").click()
    drop(page, broken)
    expect(page.locator(".notice-no")).to_contain_text("broken.yaml:2: is not valid YAML")
    drop(page, SMALL / "machine.yaml", SMALL / "kubelet.yaml", SMALL / "pods" / "01-3cpu" / "a-3cpu.yaml")
    expect(page.locator(".explanation h2").first).to_have_text("cpu3")  # the file that was wrong is forgotten


def test_names_are_never_markup(home: str, page_at: PageAt) -> None:
    watched = page_at(home)
    watched.expect_error("422")
    page = watched.open("why", "?example=incident")
    page.locator(".why-ask summary").click()
    text = page.get_by_label("Pods to ask about", exact=True)
    text.fill(text.input_value().replace("name: app", "name: '<svg/onload=alert(1)>'"))
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".notice-no")).to_contain_text("<svg/onload=alert(1)>")
    assert page.locator("[onload]").count() == 0

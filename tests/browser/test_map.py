"""The map, in the browser: who holds what, found, filtered, zoomed, by keys, and as it changes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.checks import is_sound
from tests.browser.chromium import DRIVER, Watched, resize, serving

if DRIVER:
    from playwright.sync_api import Page, expect

PageAt = Callable[..., Watched]
Served = Callable[..., str]
EIGHT = Path(__file__).parents[2] / "examples/8gpu-server"
LARGE = "2s 8n 192c 2t 8gpu nvlink 16nic"

DROP = """(place, text) => {
  const given = new DataTransfer();
  given.items.add(new File([text], "machine.yaml"));
  place.dispatchEvent(new DragEvent("drop", {dataTransfer: given, bubbles: true}));
}"""


@pytest.fixture
def home(served: Served) -> str:
    return served("--machine", str(EIGHT / "machine.yaml"), "--state", str(EIGHT / "state/after-reboot"))


def shown(page: "Page") -> int:
    """How many cores and devices are not dimmed."""
    return page.locator(
        ".map-left .core:not(.dim), .map-left .gpu:not(.dim), .map-left .nic:not(.dim)"
    ).count()


def focused(page: "Page") -> str:
    return str(page.evaluate("() => document.activeElement.dataset.id ?? ''"))


@pytest.mark.parametrize("machine", ["1c", LARGE, "16s 64n 256c 2t"])
def test_every_size_is_sound(served: Served, page_at: PageAt, machine: str) -> None:
    page = page_at(served("--machine", "dgx-h100"), 2560).open("map", f"?machine={machine}")
    for width in (2560, 1280, 390):
        if width != 2560:
            resize(page, width)
            page.reload()  # the drawing is made for the width
        expect(page.locator("h1")).to_have_text(machine)
        expect(page.locator("svg.picture .core").first).to_be_visible()
        is_sound(page, [width], themes=("dark",) if width == 390 else ())


def test_holders_are_marked_and_listed(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("map")
    expect(page.locator(".holder")).to_have_count(3)
    assert page.locator('[data-id="cpu-2"] text').text_content() == "A"
    assert page.locator('[data-id="gpu-0"]').get_attribute("aria-label") == "gpu0, held by pod 3f0c9a52"
    page.locator('[data-id="gpu-1"]').hover()
    expect(page.locator(".map-card")).to_be_visible()
    expect(page.locator(".map-card")).to_contain_text("pod b7e6d0c1")
    page.locator(".holder").nth(1).click()
    assert shown(page) == 4 + 2
    expect(page.get_by_role("region", name="Chosen")).to_contain_text("CPUs 4-7,68-71")
    is_sound(page)
    page.get_by_role("button", name="Show everything again").click()
    assert shown(page) == 64 + 8
    page.locator('[data-id="numa-0"] > text').first.click()
    expect(page.get_by_role("region", name="Chosen")).to_contain_text("52 of 64 CPUs free")


def test_search_and_filters(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("map")
    search = page.get_by_label("Search on the map")
    search.fill("cpu 66")
    expect(page.locator(".map-tools [role=status]")).to_have_text("1 shown")
    search.press("Enter")
    assert focused(page) == "cpu-2"
    search.fill("gpu3")
    expect(page.locator(".gpu:not(.dim)")).to_have_count(1)
    search.fill("nothing of this kind")
    expect(page.locator(".map-tools [role=status]")).to_have_text("nothing fits")
    page.get_by_role("button", name="Show everything again").click()
    page.get_by_label("Show", exact=True).select_option("held")
    assert shown(page) == 6 + 3
    page.get_by_label("Kind").select_option("gpu")
    assert shown(page) == 3


def test_screen_readers_find_a_tree(served: Served, page_at: PageAt) -> None:
    page = page_at(served("--machine", "dgx-h100")).open("map", "?machine=2s 4n 8c 2gpu 2nic")
    expect(page.locator("svg.picture .core")).to_have_count(8)
    found = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    items = [one for one in found if not one["ignored"] and one["role"]["value"] == "treeitem"]
    levels = {
        one["name"]["value"].split(",")[0]: item["value"]["value"]
        for one in items
        for item in one["properties"]
        if item["name"] == "level"
    }
    parts = {"Socket 0": 1, "NUMA 0": 2, "CPU 0": 3, "GPU0": 3, "nic0": 3}  # the devices are behind a switch
    assert {name: levels.get(name) for name in parts} == parts
    assert len(items) == 2 + 4 + 8 + 2 + 2


def test_what_is_printed_is_the_whole_machine_without_controls(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("map")
    page.locator(".holder").first.click()
    page.emulate_media(media="print", color_scheme="dark")
    try:
        for gone in (".top", ".button", ".map-tools"):
            assert page.locator(gone).evaluate_all("all => all.every(one => !one.checkVisibility())")
        side = page.locator(".map-side")
        assert side.evaluate("one => one.scrollHeight === one.clientHeight")
        assert page.evaluate("() => getComputedStyle(document.documentElement).colorScheme") == "light"
    finally:
        page.emulate_media(media="screen")


def test_who_has_what_is_not_known_where_a_file_is_damaged(
    served: Served, page_at: PageAt, tmp_path: Path
) -> None:
    state = shutil.copytree(EIGHT / "state/after-reboot", tmp_path / "state")
    cpus = state / "cpu_manager_state"
    cpus.write_text(cpus.read_text()[:-20])
    home = served("--machine", str(EIGHT / "machine.yaml"), "--state", str(state))
    page = page_at(home).open("map")
    expect(page.locator(".map-problem .notice")).to_contain_text("cpu_manager_state: cannot be read")
    expect(page.locator(".map-summary")).to_have_text("128 CPUs: who has which is not known")
    page.locator(".holder").first.click()
    expect(page.locator(".map-side .remarks")).to_contain_text("its CPUs are not known")
    page.get_by_label("Show everything again").click()
    page.locator('[data-id="cpu-2"]').click()
    expect(page.locator(".map-side .badge").first).to_have_text("not known")
    page.get_by_label("Show", exact=True).select_option("free")
    assert page.locator(".core:not(.dim)").count() == 0
    is_sound(page, [1280, 390])


def test_keys_go_from_part_to_part(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("map")
    expect(page.locator("svg.picture [tabindex='0']")).to_have_count(1)
    page.locator("svg.picture [tabindex='0']").focus()
    assert focused(page) == "numa-0"
    went = []
    for key in ("ArrowRight", "Enter", "ArrowRight", "Escape", "End", "Home"):
        page.keyboard.press(key)
        went.append(focused(page))
    assert went == ["numa-1", "cpu-32", "cpu-33", "numa-1", "gpu-7", "numa-0"]
    expect(page.locator("[aria-selected=true]")).to_have_attribute("data-id", "numa-1")
    wide = page.locator("svg.picture").bounding_box()
    page.keyboard.press("+")
    larger = page.locator("svg.picture").bounding_box()
    assert wide
    assert larger
    assert larger["width"] > wide["width"] * 1.2
    page.keyboard.press("0")
    expect(page.get_by_label("Zoom", exact=True).last).to_be_visible()
    assert page.locator("svg.picture").bounding_box() == wide


def test_another_machine_and_back(home: str, page_at: PageAt) -> None:
    page = page_at(home)
    page.expect_error("422")
    view = page.open("map")
    view.get_by_text("Another machine…").click()
    view.get_by_label("Name or words").fill("9x nonsense")
    view.get_by_role("button", name="Show", exact=True).click()
    expect(view.get_by_role("alert")).to_contain_text("'9x' is not a word of a machine description")
    assert view.url.endswith("#/map")  # what is shown is still what is served
    view.get_by_text("Another machine…").click()
    view.get_by_label("Name or words").fill("gb200")
    view.get_by_role("button", name="Show", exact=True).press("Enter")
    expect(view.locator("h1")).to_have_text("gb200")
    expect(view.get_by_text("Another machine…")).to_be_focused()
    assert view.url.endswith("?machine=gb200")
    expect(view.get_by_role("table", name="Links")).to_contain_text("NV18")
    expect(view.get_by_role("table", name="NUMA distances", exact=True)).to_contain_text("120")
    view.get_by_text("34 by 34").click()
    expect(view.get_by_role("table", name="All NUMA distances").locator("td")).to_have_count(34 * 34)
    is_sound(view)
    view.get_by_role("button", name="Try it in What if").click()
    expect(view.get_by_role("alert")).to_contain_text("the kubelet would not start")  # 34 NUMA nodes
    view.get_by_role("button", name="Suggest a configuration").click()
    expect(view.get_by_role("tree", name="The machine at this step: gb200")).to_be_visible()
    view.get_by_role("link", name="Map").click()
    expect(view.locator(".holder")).to_have_count(3)


def test_files_are_dropped_and_nothing_in_them_is_markup(home: str, page_at: PageAt, tmp_path: Path) -> None:
    watched = page_at(home)
    watched.expect_error("422")  # state files alone, and then what is no part of a node
    page = watched.open("map")
    machine = tmp_path / "machine.yaml"
    machine.write_text((EIGHT / "machine.yaml").read_text().replace("gpu0", '"<img src=x onerror=alert(1)>"'))
    page.get_by_text("Another machine…").click()
    page.get_by_label("Or drop files").set_input_files(str(machine))
    expect(page.get_by_role("button", name="Back to what is served")).to_be_visible()
    assert page.locator("svg.picture img").count() == 0
    expect(page.locator("svg.picture")).to_contain_text("<img src=x")
    expect(page.get_by_text("Nobody holds anything")).to_be_visible()
    state = [str(file) for file in (EIGHT / "state/after-reboot").rglob("*") if file.is_file()]
    page.get_by_label("Or drop files").set_input_files(state)  # of the machine that is shown
    expect(page.locator(".holder")).to_have_count(3)
    other = tmp_path / "notes.txt"
    other.write_text("nothing")
    page.get_by_label("Or drop files").set_input_files(str(other))
    expect(page.get_by_role("alert")).to_contain_text("is no part of a node")
    with page.expect_response("**/api/v1/map") as drawn:
        resize(page, 390)
    assert drawn.value.ok  # what is shown is still what is asked for
    expect(page.locator(".holder")).to_have_count(3)
    back = page.get_by_role("button", name="Back to what is served")
    back.click()
    expect(back).to_have_count(0)
    page.locator(".map-panel").evaluate(DROP, machine.read_text())
    expect(page.locator("svg.picture")).to_contain_text("<img src=x")


def test_changes_come_without_a_reload_and_keep_zoom_and_focus(page_at: PageAt, tmp_path: Path) -> None:
    state = tmp_path / "state"
    shutil.copytree(EIGHT / "state/after-reboot", state)
    with serving(("--machine", str(EIGHT / "machine.yaml"), "--state", str(state))) as home:
        watched = page_at(home)
        page = watched.open("map")
        expect(page.locator(".holder")).to_have_count(3)
        page.evaluate("() => { window.sameDocument = true }")
        page.locator("svg.picture [tabindex='0']").focus()
        for key in ("End", "+", "+"):
            page.keyboard.press(key)
        level = page.locator(".map-level").inner_text()
        for other in state.iterdir():
            if other.name != "cpu_manager_state":
                other.unlink() if other.is_file() else shutil.rmtree(other)
        file = state / "cpu_manager_state"
        data = json.loads(file.read_text())
        entries = data["entries"]
        entries.pop(next(iter(entries)))
        file.write_text(json.dumps(data))
        expect(page.locator(".holder")).to_have_count(1)
        assert page.locator(".map-level").inner_text() == level != "100%"
        assert focused(page) == "gpu-7"
        assert page.evaluate("() => window.sameDocument")
        page.goto("about:blank")  # nothing of it listens to a server that ends


def test_wheel_fingers_and_mouse(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("map")
    expect(page.locator(".holder")).to_have_count(3)
    room = page.locator(".map-room")
    box = room.bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + 40
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    expect(page.locator(".map-level")).to_have_text("272%")
    before = room.evaluate("one => one.scrollLeft")
    page.mouse.down()
    page.mouse.move(x - 100, y, steps=3)
    page.mouse.up()
    assert room.evaluate("one => one.scrollLeft") == before + 100
    expect(page.locator("[aria-selected=true]")).to_have_count(0)
    page.get_by_role("button", name="Reset").click()
    driver = page.context.new_cdp_session(page)
    for kind, away in [("touchStart", 50), ("touchMove", 51), ("touchMove", 75), ("touchMove", 100)]:
        points = [{"x": x - away, "y": y, "id": 0}, {"x": x + away, "y": y, "id": 1}]
        driver.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    driver.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.locator(".map-level")).to_have_text("200%")

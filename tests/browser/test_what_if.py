"""What if, in the browser: steps that are added, undone, compared and shared; a configuration as form and text."""

import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.checks import is_sound
from tests.browser.chromium import DRIVER, Watched
from tests.cli.run import program

if DRIVER:
    from playwright.sync_api import Page, Route, expect

PageAt = Callable[..., Watched]
Served = Callable[..., str]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(served: Served) -> str:
    return served("--machine", "dgx-h100")


def opened(home: str, page_at: PageAt, *words: str, **options: object) -> "Page":
    page = page_at(home, **options).open("what-if", *words)
    expect(page.locator(".what-map svg").first).to_be_visible()
    expect(page.locator(".what-fits li").first).to_be_visible()
    return page


DROP = """files => {
  const given = new DataTransfer();
  for (const {name, text} of files) given.items.add(new File([text], name));
  document.querySelector("#view").dispatchEvent(new DragEvent("drop", {dataTransfer: given, bubbles: true}));
}"""


def word(value: object) -> str:
    """What a link has of a scenario."""
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    content = packed.compress(json.dumps(value).encode()) + packed.flush()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def verdicts(page: "Page") -> list[str]:
    return [text.split(" ", 1)[1] for text in page.locator(".what-step-verdict").all_inner_texts()[1:]]


def admit(page: "Page", name: str, cpus: int | str, gpus: int) -> None:
    page.get_by_label("Name", exact=True).fill(name)
    page.locator(".what-next").get_by_label("CPUs", exact=True).fill(str(cpus))
    page.get_by_label("GPUs", exact=True).fill(str(gpus))
    page.get_by_role("button", name="Admit", exact=True).click()


def test_the_first_visit_tells_a_story_and_steps_are_added_and_undone(home: str, page_at: PageAt) -> None:
    page = opened(home, page_at)
    assert verdicts(page) == ["admitted", "admitted", "rejected", "done", "admitted", "admitted"]
    expect(page.locator(".what-map")).to_contain_text("single-numa-node needs one NUMA node with all of them")
    page.get_by_role("button", name=re.compile(r"^6")).click()
    expect(page.locator(".what-map h2")).to_have_text("After step 6")
    admit(page, "late", 8, 1)
    expect(page.locator(".what-map")).to_contain_text("Step 7: late")
    assert verdicts(page)[-1] == "admitted"
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".what-step")).to_have_count(7)
    page.get_by_role("button", name="Redo").press("Enter")
    expect(page.locator(".what-step")).to_have_count(8)
    expect(page.get_by_role("button", name="Redo")).to_be_focused()
    expect(page.locator("#announce")).to_have_text("done again: late")
    page.keyboard.press("Control+z")
    expect(page.locator(".what-step")).to_have_count(7)


def test_a_step_goes_behind_the_one_that_is_looked_at(home: str, page_at: PageAt) -> None:
    page = opened(home, page_at)
    page.get_by_label("What happens next").select_option("remove")
    page.get_by_label("Pod", exact=True).select_option("default/serve")
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator(".what-map h2")).to_have_text("After step 4")
    assert verdicts(page) == ["admitted", "admitted", "rejected", "done", "done", "admitted", "admitted"]
    page.get_by_role("button", name="Delete step").click()
    expect(page.locator(".what-step")).to_have_count(7)


def test_every_kind_of_step_is_played_and_shapes_are_counted(home: str, page_at: PageAt) -> None:
    page = opened(home, page_at)
    happens, form = page.get_by_label("What happens next"), page.locator(".what-next")
    for number, (kind, prepare, act) in enumerate(
        [
            ("restart", form.get_by_label("Device plugins register late").check, "Restart"),
            ("resize", lambda: form.get_by_label("Memory").fill("24Gi"), "Resize"),
            ("devices", form.get_by_role("checkbox").last.check, "Change devices"),
            ("reconcile", lambda: None, "Reconcile"),
        ],
        start=4,
    ):
        happens.select_option(kind)
        prepare()
        form.get_by_role("button", name=act, exact=True).click()
        expect(page.locator(".what-map h2")).to_have_text(f"After step {number}")
        expect(page.locator(".what-step")).to_have_count(number + 4)
    page.get_by_text("Other shapes").click()
    page.get_by_label("Another shape").fill("cpu=2,nvidia.com/gpu=2")
    page.get_by_role("button", name="Count it").click()
    expect(page.locator(".what-fits code")).to_have_text(
        [*[re.compile("memory")] * 3, "cpu=2, nvidia.com/gpu=2"]
    )
    page.get_by_role("button", name="Do not count cpu=2,nvidia.com/gpu=2").click()
    expect(page.locator(".what-fits code")).to_have_count(3)


def test_the_time_line_goes_by_keys(home: str, page_at: PageAt) -> None:
    page = opened(home, page_at)
    page.locator('.what-step[aria-current="step"]').focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".what-map h2")).to_have_text("After step 2")
    page.keyboard.press("Home")
    expect(page.locator(".what-map h2")).to_have_text("Before the first step")
    page.keyboard.press("End")
    expect(page.locator(".what-map h2")).to_have_text("After step 6")
    expect(page.locator('.what-step[aria-current="step"]')).to_be_focused()


def test_form_and_text_are_in_step(home: str, page_at: PageAt) -> None:
    page = opened(home, page_at)
    page.get_by_role("button", name="Edit the configuration").click()
    text = page.get_by_label("Configuration as YAML", exact=True)
    policy = page.locator(".what-editing").get_by_label("topologyManagerPolicy", exact=True)
    expect(policy).to_have_value("single-numa-node")
    policy.select_option("best-effort")
    expect(text).to_have_value(
        re.compile(r"# All four managers on.*\n(.*\n)+topologyManagerPolicy: best-effort\n")
    )
    expect(page.locator(".what-step").nth(3)).to_contain_text("admitted")
    text.fill(
        text.input_value().replace("topologyManagerPolicy: best-effort", "topologyManagerPolicy: restricted")
    )
    expect(policy).to_have_value("restricted")
    expect(page.locator(".what-policies")).to_contain_text(
        "restricted"
    )  # another change takes its place until then
    text.fill(text.input_value().replace("memory: 14Gi", "memory: 13Gi"))
    expect(page.locator(".what-text .notice-no")).to_contain_text("is not equal to the value")
    is_sound(page)
    page.locator(".what-problems").get_by_role("button", name="set systemReserved.memory").first.click()
    expect(page.locator(".what-text .notice-no")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()  # of the text that a kubelet starts with
    expect(policy).to_have_value("best-effort")
    expect(text).to_have_value(re.compile("memory: 14Gi"))


TOGETHER = """values => {
  for (const [name, value] of values) {
    const input = document.querySelector(`[data-setting="${name}"]`).querySelector("select");
    input.value = value;
    input.dispatchEvent(new Event("change"));
  }
}"""


def test_nothing_is_lost_to_an_answer_that_comes_late(home: str, page_at: PageAt) -> None:
    watched = page_at(home)
    watched.expect_error("status of 422")
    page = watched.open("what-if")
    expect(page.locator(".what-fits li").first).to_be_visible()
    page.get_by_role("button", name="Edit the configuration").click()
    text = page.get_by_label("Configuration as YAML", exact=True)
    policy = page.locator(".what-editing").get_by_label("topologyManagerPolicy", exact=True)
    expect(policy).to_have_value("single-numa-node")
    page.evaluate(TOGETHER, [["topologyManagerPolicy", "restricted"], ["topologyManagerScope", "container"]])
    expect(text).to_have_value(re.compile("Policy: restricted\\ntopologyManagerScope: container"))
    policy.press("Control+z")  # both are one change; a list to choose from has no undo of its own
    expect(text).to_have_value(re.compile("Policy: single-numa-node\\ntopologyManagerScope: pod"))
    held: list[Route] = []
    page.route("**/api/v1/scenario", lambda route: route.continue_() if held else held.append(route))
    for line in ("maxPods: 50\n", "podsPerCore: 9\n"):
        with page.expect_response("**/api/v1/config"):
            text.press("Control+End")
            page.keyboard.type(line)
        expect(page.locator(".what-editing .what-text")).to_contain_text("A kubelet starts with it")
    text.press("Control+End")
    page.keyboard.type("# not asked about yet")
    held[0].continue_()
    expect(page.locator("#announce")).to_contain_text("the configuration's text")
    expect(text).to_have_value(re.compile("maxPods: 50\npodsPerCore: 9\n# not asked about yet$"))
    text.fill("a: [1")
    expect(page.locator(".what-text .notice-no")).to_contain_text("not valid YAML")
    policy.select_option("none")  # it cannot be written there, so the form does not say it
    expect(policy).to_have_value("single-numa-node")
    page.unroute("**/api/v1/scenario")


def test_a_configuration_is_suggested_for_the_machine(home: str, page_at: PageAt) -> None:
    page = opened(home, page_at)
    page.get_by_role("button", name="Edit the configuration").click()
    page.get_by_role("button", name="Suggest one for this machine").click()
    text = page.get_by_label("Configuration as YAML", exact=True)
    expect(text).to_have_value(re.compile("topologyManagerPolicy: restricted"))
    expect(page.locator(".what-policies")).to_contain_text("restricted")


def test_why_is_asked_at_a_step(home: str, page_at: PageAt) -> None:
    page = opened(home, page_at)
    page.get_by_role("button", name="Why is tune rejected?").click()
    expect(page.get_by_role("dialog")).to_contain_text("Step by step")
    page.locator(".suggestion").first.get_by_role("button", name="Try it").click()
    expect(page.locator(".tried-answer")).to_contain_text("admitted")
    is_sound(page, [1280])
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)


def test_what_another_view_hands_over_can_be_undone(home: str, page_at: PageAt) -> None:
    page = opened(home, page_at)
    expect(page).to_have_url(re.compile("s="))
    page.get_by_role("link", name="Why").click()
    page.get_by_label("Examples").select_option("incident")
    page.get_by_role("button", name="Open in What if").click()
    expect(page.locator(".what-map h2")).to_have_text("After step 3")
    assert verdicts(page) == ["admitted", "admitted", "rejected"]
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".what-step")).to_have_count(7)


def test_two_sides_with_the_differing_pods_marked(home: str, page_at: PageAt) -> None:
    page = opened(home, page_at)
    page.get_by_label("Compare with").select_option("policy:best-effort")
    expect(page.locator(".what-differences li").first).to_contain_text("tune")
    expect(page.locator(".what-step").nth(3)).to_contain_text("differs")
    expect(page.locator(".what-side svg.picture, .what-side svg")).not_to_have_count(0)
    expect(page.locator(".what-side figcaption")).to_contain_text(
        ["single-numa-node, by pod", "best-effort, by pod"]
    )
    is_sound(page)
    page.get_by_role("button", name="Why is tune rejected?").click()
    expect(page.get_by_role("dialog")).to_contain_text("Step by step")
    page.keyboard.press("Escape")
    page.get_by_label("Compare with").select_option("release:1.30")
    expect(page.locator(".what-side").nth(1)).to_contain_text("Kubernetes 1.30")


def test_a_link_opens_the_same_scenario_at_another_server(home: str, served: Served, page_at: PageAt) -> None:
    page = opened(home, page_at)
    admit(page, "shared", 4, 0)
    expect(page.locator(".what-step")).to_have_count(8)
    page.get_by_label("Compare with").select_option("policy:best-effort")
    expect(page.locator(".what-side")).to_have_count(2)
    page.get_by_role("button", name=re.compile(r"^3")).click()
    expect(page.locator(".what-map h2")).to_have_text("After step 3")
    page.get_by_role("button", name="Share…").click()
    address = page.get_by_label("Link").input_value()
    assert "#/what-if?s=" in address
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("() => navigator.clipboard.readText()") == address
    other = opened(served("--machine", "1c"), page_at, "?s=" + address.split("?s=")[1])
    expect(other.locator(".what-map h2")).to_have_text("After step 3")
    expect(other.locator(".what-step")).to_have_count(8)
    expect(other.locator(".what-line")).to_contain_text("shared")
    expect(other.locator(".what-side")).to_have_count(2)
    other.goto(other.url.split("?")[0] + "?s=abcdef")
    expect(other.locator(".notice-no").first).to_contain_text("the link is damaged")
    expect(other.locator(".what-step")).to_have_count(8)  # what was there is not lost
    newer = word({"apiVersion": "numawise.dev/v2", "node": {"machine": "1c"}, "steps": []})
    other.goto(other.url.split("?")[0] + f"?s={newer}")
    expect(other.locator(".notice-no").first).to_contain_text("the scenario is of version numawise.dev/v2")
    expect(other.locator(".what-step")).to_have_count(8)
    two = [{"name": f"{name}.yaml", "text": "kind: KubeletConfiguration"} for name in "ab"]
    other.evaluate(DROP, two)
    expect(other.locator(".what-time .notice-no")).to_contain_text(
        "a.yaml, b.yaml are 2 kubelet configurations"
    )
    other.evaluate(
        DROP, [{"name": "s.json", "text": '{"kind": "Scenario", "node": {"gpu": 1}, "steps": []}'}]
    )
    expect(other.locator(".what-time .notice-no")).to_contain_text("what is not known here: node.gpu")
    expect(other.locator(".what-step")).to_have_count(8)


def test_what_is_dropped_is_for_the_view_that_is_shown(home: str, page_at: PageAt) -> None:
    page = page_at(home).open("why")
    expect(page.locator(".answer")).to_be_visible()
    page.get_by_role("link", name="What if").click()
    expect(page.locator(".what-step")).to_have_count(7)
    calls: list[str] = []
    page.on("request", lambda request: calls.append(request.url.rsplit("/", 1)[-1]))
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: late}, spec: {containers: [{name: a, image: b}]}}"
    page.evaluate(DROP, [{"name": "late.yaml", "text": pod}])
    expect(page.locator(".what-step")).to_have_count(8)
    assert "why" not in calls
    assert "scenario" in calls


def test_file_and_trace(home: str, page_at: PageAt, tmp_path: Path) -> None:
    page = opened(home, page_at)
    page.get_by_role("button", name="Share…").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the scenario").click()
    scenario = tmp_path / "scenario.json"
    saved.value.save_as(scenario)
    with page.expect_download() as traced:
        page.get_by_role("button", name="Save the trace").click()
    trace = tmp_path / "trace.jsonl"
    traced.value.save_as(trace)
    done = program("replay", trace, "--jobs", "1")
    steps = json.loads(done.out)["result"]["steps"]
    assert [step.get("admitted") for step in steps] == [True, True, False, None, True, True]
    whole = json.loads(scenario.read_text())
    (tmp_path / "kubelet.yaml").write_text(whole["node"]["config"])
    config = ("--machine", "dgx-h100", "--kubelet-config", tmp_path / "kubelet.yaml")
    played = program("simulate", *config, "--steps", scenario)
    assert "4 of 5 pods admitted" in played.out
    page.get_by_role("button", name="Close").last.click()
    page.get_by_role("button", name="Open…").click()
    page.get_by_label("Drop a scenario").set_input_files(str(scenario))
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.locator(".what-step")).to_have_count(7)


def test_any_machine_by_name_and_words(home: str, page_at: PageAt) -> None:
    watched = page_at(home)
    watched.expect_error("status of 422")
    page = watched.open("what-if")
    expect(page.locator(".what-fits li").first).to_be_visible()
    page.get_by_label("Machine", exact=True).select_option("name:small-vm")
    expect(page.locator(".what-time .notice-no")).to_contain_text("the kubelet would not start")
    page.get_by_role("button", name="Use a simple configuration").click()
    expect(page.get_by_role("tree", name="The machine at this step: small-vm")).to_be_visible()
    page.get_by_label("Machine", exact=True).select_option("words")
    page.get_by_label("Description").fill("1s 1n 4c 2t 8g")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator(".what-node .hint").first).to_contain_text(
        "1 socket, 1 NUMA node, 4 cores, 8 CPUs, 8 GiB"
    )
    is_sound(page)


def test_no_shape_is_counted_that_nobody_asked_for(home: str, page_at: PageAt) -> None:
    page = opened(home, page_at)
    for left in (2, 1, 0):
        page.get_by_role("button", name="Do not count").first.click()
        expect(page.locator(".what-fits li")).to_have_count(left)


def test_a_wrong_step_changes_nothing(home: str, page_at: PageAt) -> None:
    watched = page_at(home)
    watched.expect_error("status of 422")
    page = watched.open("what-if")
    expect(page.locator(".what-fits li").first).to_be_visible()
    page.get_by_label("What happens next").select_option("yaml")
    page.get_by_label("Manifests").fill("kind: Pod\nmetadata: {name: <b>x</b>}\n")
    page.get_by_role("button", name="Admit", exact=True).click()
    wrong = page.locator(".what-time .notice-no")
    expect(wrong).to_contain_text("Manifests")
    assert page.locator("b").count() == 0
    page.get_by_label("What happens next").select_option("form")
    for cpus, told in (
        ("many", 'step 4, cpu: "many" is not a quantity'),
        ("-2", 'step 4, cpu: Invalid value: "-2": must be greater than or equal to 0'),
    ):
        admit(page, "wrong", cpus, 1)
        expect(wrong).to_contain_text(told)
    expect(page.locator(".what-step")).to_have_count(7)

"""Check in a browser: an example to begin with, findings below their lines, corrections applied, undone and downloaded."""

from collections.abc import Callable
from pathlib import Path

from tests.browser.checks import is_sound
from tests.browser.chromium import DRIVER, WIDTHS, Watched, resize

if DRIVER:
    from playwright.sync_api import Page, expect

PageAt = Callable[..., Watched]
Served = Callable[..., str]
HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
BAD = f"{HEAD}cpuManagerPolicy: Static  # ünïcode 😀\nreservedSystemCPUs: 0\ntopologyManagerPolicy: restricted\n"
GOOD = BAD.replace("Static", "static").replace("CPUs: 0", 'CPUs: "0"')


def opened(served: Served, page_at: PageAt) -> "Page":
    page = page_at(served("--machine", "dgx-h100")).open("check")
    expect(page.locator(".finding").first).to_be_visible()
    return page


def drop(page: "Page", **files: str) -> None:
    given = [
        {"name": name.replace("__", "."), "mimeType": "text/plain", "buffer": text.encode()}
        for name, text in files.items()
    ]
    page.set_input_files("input[type=file]", given)
    name, text = next(iter(files.items()))
    label = f"{name.replace('__', '.')}, {len(text.splitlines())} lines"
    expect(page.get_by_role("region", name=label)).to_be_visible()


def downloaded(page: "Page") -> str:
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download").click()
    return Path(waiting.value.path()).read_bytes().decode()


def test_it_is_sound_with_findings_after_corrections_and_empty(served: Served, page_at: PageAt) -> None:
    page = opened(served, page_at)
    expect(page.get_by_role("tablist", name="Files").get_by_role("tab")).to_have_count(3)
    card = page.get_by_role("article", name="error NW122, line 4")
    expect(card).to_contain_text('unknown policy: "Static"')
    for width in WIDTHS:
        resize(page, width)
        above = card.evaluate("card => card.previousElementSibling.dataset.line")
        assert above == "4"
    page.get_by_role("button", name="certain corrections").click()
    expect(page.get_by_text("corrections made and proved")).to_be_visible()
    is_sound(page)
    for _ in range(3):
        page.locator(".file-head").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No files")).to_be_visible()
    is_sound(page)


def test_corrections_undo_redo_and_the_file(served: Served, page_at: PageAt) -> None:
    page = opened(served, page_at)
    drop(page, kubelet__yaml=BAD)
    page.get_by_role("button", name='Apply to kubelet.yaml: set cpuManagerPolicy to "static"').click()
    expect(page.get_by_role("article", name="error NW122")).to_have_count(0)
    assert downloaded(page) == BAD.replace("Static", "static")
    page.get_by_role("button", name="Undo").press("Enter")
    expect(page.get_by_role("article", name="error NW122")).to_have_count(1)
    expect(page.get_by_role("button", name="Undo")).to_be_focused()
    page.get_by_role("button", name="Redo").click()
    expect(page.get_by_role("article", name="error NW122")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Apply all 2 certain corrections").click()
    expect(page.get_by_text("2 corrections made and proved")).to_be_visible()
    assert downloaded(page) == GOOD


def test_names_byte_order_mark_and_line_ends_stay(served: Served, page_at: PageAt) -> None:
    page = opened(served, page_at)
    text = "\ufeff" + BAD.replace("\n", "\r\n")
    drop(page, cpu_manager_state='{"policyName":"none"}', 設定__yaml=text, 配置__yaml=BAD)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download").click()
    assert waiting.value.suggested_filename == "cpu_manager_state"
    page.get_by_role("tab", name="設定.yaml").click()
    page.get_by_role("button", name='Apply to 設定.yaml: set cpuManagerPolicy to "static"').click()
    expect(page.get_by_role("article", name="error NW122")).to_have_count(0)
    page.get_by_role("button", name="Edit", exact=True).click()
    field = page.get_by_role("textbox", name="Text")
    field.fill(field.input_value().replace("restricted", "best-effort"))
    page.get_by_role("button", name="Check it").click()
    expect(page.locator(".listing")).to_contain_text("best-effort")
    assert downloaded(page) == text.replace("Static", "static").replace("restricted", "best-effort")


def test_severities_release_and_machine(served: Served, page_at: PageAt) -> None:
    watched = page_at(served("--machine", "dgx-h100"))
    watched.expect_error("422|400")
    page = watched.open("check")
    drop(page, kubelet__yaml=f'{HEAD}cpuManagerPolicy: static\nreservedSystemCPUs: "500"\n')
    expect(page.get_by_role("article", name="error NW203")).to_have_count(0)
    page.get_by_label("Machine", exact=True).select_option("served")
    expect(page.get_by_role("article", name="error NW203")).to_be_visible()
    page.get_by_role("button", name="Errors 1").click()
    expect(page.get_by_role("article", name="error NW203")).to_have_count(0)
    page.get_by_label("Release").select_option("1.24")
    expect(page.get_by_role("article", name="NW134")).to_be_visible()
    page.get_by_label("Machine", exact=True).select_option("words")
    page.get_by_label("Its name or words").fill("no such thing")
    page.get_by_label("Its name or words").press("Tab")
    expect(page.get_by_role("alert")).to_contain_text("neither in the catalogue nor a description")


def test_a_correction_of_another_file_is_shown_and_applied_there(served: Served, page_at: PageAt) -> None:
    page = opened(served, page_at)
    pod = """apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - name: main
    image: train
    resources: {limits: {cpu: "8", memory: 16Gi, nvidia.com/gpu: "1"}}
"""
    drop(page, pod__yaml=pod, kubelet__yaml=f'{HEAD}cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n')
    card = page.get_by_role("article", name="warning NW432")
    expect(card).to_contain_text("+ topologyManagerPolicy: restricted")
    card.get_by_role(
        "button", name='Apply to kubelet.yaml: set topologyManagerPolicy to "restricted"'
    ).click()
    expect(card).to_have_count(0)
    page.get_by_role("tab", name="kubelet.yaml").click()
    assert downloaded(page).endswith("topologyManagerPolicy: restricted\n")


def test_by_keyboard_from_the_list_to_the_line(served: Served, page_at: PageAt) -> None:
    page = opened(served, page_at)
    page.get_by_role("complementary", name="All findings").get_by_role("button").filter(
        has_text="deployment.yaml:28"
    ).press("Enter")
    expect(page.get_by_role("tab", name="deployment.yaml")).to_have_attribute("aria-selected", "true")
    assert "NW429" in page.evaluate("() => document.activeElement.getAttribute('aria-label')")


def test_nothing_from_a_file_is_markup(served: Served, page_at: PageAt) -> None:
    page = opened(served, page_at)
    evil = "<img src=x onerror=alert(1)>"
    drop(
        page,
        pod__yaml=f"kind: Pod\nmetadata: {{name: '{evil}'}}\nspec:\n  nodeName: '{evil}'\n  containers: [{{name: a}}]\n",
    )
    expect(page.locator(".finding-message").filter(has_text=evil)).to_have_count(2)
    assert page.locator("#view img").count() == 0


def test_a_file_of_thousands_of_lines_is_a_handful_of_elements(served: Served, page_at: PageAt) -> None:
    page = opened(served, page_at)
    many = "---\n".join(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: pod-{i}}}\nspec:\n  containers:\n  - {{name: a, image: b}}\n"
        for i in range(700)
    )
    drop(page, many__yaml=f"{many}---\n{BAD}")
    expect(page.locator(".listing")).to_have_attribute("aria-label", "many.yaml, 4905 lines, 2 findings")
    assert page.locator(".listing *").count() < 200


def test_of_hundreds_of_findings_those_in_sight_are_made_and_a_correction_keeps_the_place(
    served: Served, page_at: PageAt
) -> None:
    page = opened(served, page_at)
    pod = """apiVersion: v1
kind: Pod
metadata: {{name: pod-{0}}}
spec:
  containers:
  - name: main
    env: [{{name: OMP_NUM_THREADS, value: "64"}}]
    resources: {{limits: {{cpu: "8", memory: 8Gi}}}}
"""
    drop(page, many__yaml="---\n".join(pod.format(number) for number in range(80)))
    expect(page.locator(".finding")).to_have_count(80)
    assert page.locator(".correction").count() < 80
    page.get_by_role("complementary", name="All findings").get_by_role("button").nth(40).click()
    card = page.locator(".finding").nth(40)
    expect(card).to_be_in_viewport(ratio=1)
    card.get_by_role("button", name="Apply").first.click()
    expect(page.locator(".finding")).to_have_count(79)
    after = page.locator(".finding").nth(40)  # the next one
    expect(after).to_be_in_viewport()
    expect(after.locator(".correction").first).to_be_visible()


def test_text_is_pasted_and_edited(served: Served, page_at: PageAt) -> None:
    page = opened(served, page_at)
    page.get_by_role("button", name="Paste text").click()
    page.get_by_role("textbox", name="Text").fill(BAD)
    page.get_by_role("button", name="Check it").click()
    expect(page.get_by_role("tab", name="pasted.yaml")).to_be_visible()
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_role("textbox", name="Text").fill(GOOD)
    page.get_by_role("button", name="Check it").click()
    expect(page.get_by_role("article", name="error")).to_have_count(0)


def test_a_configuration_is_suggested_and_checked(served: Served, page_at: PageAt) -> None:
    page = opened(served, page_at)
    page.get_by_role("tab", name="Suggest a configuration").click()
    expect(page.get_by_text("Tried:")).to_be_visible()
    is_sound(page)
    page.get_by_label("What the node is for").select_option("latency")
    page.locator("#view input[type=file]").set_input_files(
        [{"name": "kubelet.yaml", "mimeType": "text/plain", "buffer": f"{HEAD}maxPods: 99\n".encode()}]
    )
    page.get_by_role("button", name="Suggest a configuration").click()
    expect(page.get_by_role("region", name="kubelet.yaml").locator("pre")).to_contain_text("maxPods: 99")
    expect(page.get_by_role("heading", name="Steps of the switch")).to_be_visible()
    is_sound(page)
    page.get_by_role("button", name="Check it").click()
    expect(page.get_by_role("tablist", name="Files").get_by_role("tab")).to_have_count(1)

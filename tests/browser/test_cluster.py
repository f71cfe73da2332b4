"""The cluster: all nodes as small maps and as a table, what fits, pods without a place, one node, dropped dumps."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from numawise.apps.overview.example import example_objects
from tests.browser.checks import is_sound
from tests.browser.chromium import DRIVER, Watched, serving
from tests.kube.server import State, kubeconfig
from tests.kube.server import serving as api_server
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import kubelet

if DRIVER:
    from playwright.sync_api import Page, expect

PageAt = Callable[..., Watched]


REDUCED = r"""async () => {
  const { packedDump } = await import("./core/large_dump.js");
  const container = { name: "c", env: [{ name: "A", value: "]}" }], resources: { limits: { cpu: "1" } } };
  const items = Array.from({ length: 300 }, (_, at) => ({ kind: "Pod",
    metadata: { name: `é…"]}\\ ${at}`, labels: { env: "prod" }, managedFields: [{ time: "t", fieldsV1: { "f:a": {} } }] },
    spec: { containers: [container], volumes: [{ name: "v" }] } }));
  const text = JSON.stringify({ apiVersion: "v1", metadata: { a: [{}] }, items, kind: "List" }, null, 4);
  const bytes = new TextEncoder().encode(text), pieces = [];
  for (let at = 0; at < bytes.length; at += 37) pieces.push(bytes.subarray(at, at + 37));
  const stream = () => new ReadableStream({ start: (to) => (pieces.forEach((one) => to.enqueue(one)), to.close()) });
  const shares = [];
  const packed = await packedDump({ size: bytes.length, stream }, (share) => shares.push(share));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return { ...(await new Response(unpacked).json()), shares };
}"""
"""What is sent of a dump that is too large for a request."""


@pytest.fixture
def address(served: Callable[..., str]) -> str:
    return served("--machine", "dgx-h100")


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    items = [value for _, value in example_objects(1_800_000_000.0)]
    odd = next(value for kind, value in example_objects(1_800_000_000.0) if kind == "Node")
    items.append({**odd, "metadata": {**odd["metadata"], "name": "<b>odd"}})
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    return path


def opened(page_at: PageAt, address: str, parameters: str = "") -> "Page":
    page = page_at(address).open("cluster", parameters)
    expect(page.locator(".node-card").first).to_be_visible()
    return page


def names(page: "Page") -> list[str]:
    return page.locator(".node-name").all_inner_texts()


def test_nodes_are_searched_filtered_and_sorted(page_at: PageAt, address: str) -> None:
    page = opened(page_at, address)
    expect(page.get_by_text("This is an example")).to_be_visible()
    expect(page.get_by_role("tab", name="Nodes (26)")).to_be_visible()
    expect(page.get_by_text("26 nodes: 24 exact, 1 conservative, 1 unknown")).to_be_visible()
    page.get_by_label("Search").fill("training")
    expect(page.get_by_text("12 of 26 nodes")).to_be_visible()
    page.get_by_label("Search").fill("")
    page.get_by_label("Policy").select_option("best-effort")
    expect(page.get_by_text("5 of 26 nodes")).to_be_visible()
    page.get_by_label("Policy").select_option("")
    page.get_by_label("Free GPUs, at least").fill("5")
    expect(page.get_by_text(re.compile(r"^\d of 26 nodes"))).to_be_visible()
    page.get_by_label("Free GPUs, at least").fill("")
    page.get_by_label("Free, but of no use").select_option("half")
    expect(
        page.get_by_text(re.compile(r"^\d+ of 26 nodes: \d+ of \d+ free GPUs .*on one NUMA node"))
    ).to_be_visible()
    assert page.locator(".node-card:not(.node-stuck)").count() == 0
    page.get_by_label("Free, but of no use").select_option("")
    page.get_by_label("Sort by").select_option("fragmented")
    expect(page.locator(".node-card").first).to_contain_text("of no use")
    page.get_by_label("Labels").fill("node.example.com/pool=services")
    page.get_by_label("Labels").press("Enter")
    expect(page.get_by_role("tab", name="Nodes (4)")).to_be_visible()
    page.get_by_label("Search").fill("nothing like it")
    expect(page.get_by_text("No node is like that")).to_be_visible()
    is_sound(page)


def test_by_keys_and_as_a_table(page_at: PageAt, address: str) -> None:
    page = opened(page_at, address)
    page.locator(".node-card").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    expect(page.locator(".node-card:focus")).to_have_attribute("data-name", "training-12")
    assert page.locator(".node-card[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="training-12")).to_be_visible()
    expect(page.locator("main")).to_be_focused()
    page.go_back()
    page.get_by_role("button", name="Table").click()
    row = page.get_by_role("row", name="training-07")
    expect(row).to_contain_text("single-numa-node/pod")
    expect(row).to_contain_text("exact")
    is_sound(page)


def test_one_node(page_at: PageAt, address: str) -> None:
    page = page_at(address).open("cluster", "?of=example&node=training-07")
    expect(page.get_by_role("heading", level=1, name="training-07")).to_be_visible()
    expect(page.get_by_role("row", name="NUMA 0")).to_contain_text("of 108")
    expect(page.get_by_role("region", name="Who holds what").locator("svg")).to_be_visible()
    expect(page.get_by_role("region", name=re.compile("Pods")).get_by_role("row")).not_to_have_count(1)
    is_sound(page)
    page.get_by_role("button", name="All nodes").click()
    page.locator(".node-card[data-name=edge-02]").click()
    expect(page.get_by_text("there is no map of it")).to_be_visible()
    expect(page.get_by_role("button", name="Try pods here")).to_have_count(0)
    page.go_back()
    page.locator(".node-card[data-name=training-07]").click()
    page.get_by_role("button", name="Try pods here").click()
    expect(page.get_by_role("tree", name="The machine at this step: training-07")).to_be_visible()
    expect(page.locator(".what-map").get_by_role("list", name="Who holds what")).to_contain_text("research/")
    page.go_back()
    pod = page.get_by_role("region", name=re.compile("Pods")).get_by_role("row").nth(1)
    name = pod.get_by_role("cell").first.inner_text().split("/")[1]
    pod.get_by_role("button", name=f"Why is {name} there?").click()
    expect(page.get_by_role("heading", name=f"research/{name}")).to_be_visible()
    expect(page.locator(".answer")).to_contain_text("Admitted")


def test_what_fits(page_at: PageAt, address: str) -> None:
    watched = page_at(address)
    watched.expect_error("422")
    page = watched.open("cluster")
    page.get_by_role("tab", name="What fits").click()
    expect(page.get_by_role("row", name="4 GPUs, 48 CPUs, 400 GiB")).to_be_visible()
    is_sound(page)
    page.get_by_label("CPUs").fill("8")
    page.get_by_label("Memory").fill("much")
    page.get_by_role("button", name="Count").click()
    expect(page.get_by_role("alert")).to_contain_text("much")
    page.get_by_label("Memory").fill("16Gi")
    page.get_by_label("Devices").fill("2")
    page.get_by_role("button", name="Count").click()
    row = page.get_by_role("row", name="2 GPUs, 8 CPUs, 16 GiB")
    row.get_by_role("button", name="Show nodes").click()
    expect(page.get_by_text(re.compile(r"of 2 GPUs, 8 CPUs, 16 GiB fit"))).to_be_visible()
    assert 0 < page.locator(".node-card").count() < 26
    page.get_by_role("button", name="Show all nodes").click()
    expect(page.locator(".node-card")).to_have_count(26)


def test_pods_without_a_place_and_why(page_at: PageAt, address: str) -> None:
    page = opened(page_at, address)
    page.get_by_role("tab", name="Pods without a place (17)").click()
    expect(page.get_by_text("7 wait, 10 were refused")).to_be_visible()
    expect(page.get_by_text("being asked")).to_have_count(0)
    expect(page.get_by_text("it can never be admitted as the nodes are")).to_be_visible()
    is_sound(page)
    page.get_by_label("State").select_option("refused")
    card = page.get_by_role("listitem").filter(has_text="Its kubelet said").first
    expect(card).to_contain_text("TopologyAffinityError")
    card.get_by_role("button", name=re.compile("Why on ")).click()
    expect(page).to_have_url(re.compile("#/why"))
    expect(page.get_by_text(re.compile("Rejected"))).not_to_have_count(0)


def test_a_dropped_dump(page_at: PageAt, address: str, dump: Path) -> None:
    watched = page_at(address)
    watched.expect_error("422")
    page = watched.open("cluster")
    page.get_by_role("button", name="Other data…").click()
    is_sound(page)
    pod = dump.with_name("pod.yaml")
    pod.write_text("kind: Pod\n", encoding="utf-8")
    page.locator("dialog input[type=file]").set_input_files(pod)
    expect(page.get_by_role("alert")).to_contain_text("there is no dump of a cluster in it")
    expect(page.locator(".node-card").first).to_be_visible()
    page.get_by_role("button", name="Other data…").click()
    page.locator("dialog input[type=file]").set_input_files(dump)
    expect(page).to_have_url(re.compile(r"of=[0-9a-f]{16}"))
    expect(page.get_by_text("dump.json")).to_be_visible()
    expect(page.get_by_text("<b>odd")).to_be_visible()
    expect(page.get_by_text("This is an example")).to_have_count(0)
    sent = page.evaluate(REDUCED)
    assert (sent["kind"], len(sent["items"]), sent["shares"][-1]) == ("List", 300, 1)
    assert sent["items"][299] == {
        "kind": "Pod",
        "metadata": {"name": 'é…"]}\\ 299', "labels": {"env": "prod"}, "managedFields": [{"time": "t"}]},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
    }


def test_what_changes_is_shown_and_the_keyboard_stays_where_it_was(page_at: PageAt, tmp_path: Path) -> None:
    state = State(nodes={name: api_node(name) for name in ("n1", "n2")})
    for name in state.nodes:
        state.put_topology(published(kubelet(), name))
    with (
        api_server(state) as server,
        serving(
            ("--machine", "8gpu-server", "--kubeconfig", str(kubeconfig(tmp_path / "c", server.address)))
        ) as home,
    ):
        page = opened(page_at, home)
        card = page.locator(".node-card[data-name=n2]")
        card.focus()
        for number, free in (("1", "GPUs 3|4"), ("2", "GPUs 2|4")):
            state.put_pod(api_pod(f"p{number}", 1, "n2"))
            expect(card).to_contain_text(free)
            expect(card).to_be_focused()
            assert page.locator(".node-card[tabindex='0']").count() == 1

"""A kubelet's configuration as a form and as text: whichever is changed, the other follows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.calls import Page, named

EXAMPLE = Path(__file__).parents[2] / "examples" / "8gpu-server"
CONFIG = (EXAMPLE / "kubelet.yaml").read_text()
NODE = {"machine": "8gpu-server"}


@pytest.fixture
def page() -> Iterator[Page]:
    opened = Page(named("8gpu-server"))
    yield opened
    opened.close()


def changed(page: Page, text: str, *changes: tuple[list[str], Any], **more: Any) -> dict[str, Any]:
    rows = [{"path": path, "value": value} for path, value in changes]
    answer = page.post("config", {"text": text, "release": "1.36", "node": NODE, "changes": rows, **more})
    assert answer.status == 200, answer.body
    return dict(answer.data)


def test_every_setting_of_a_release(page: Page) -> None:
    new, old = (page.get(f"config/options?release={one}").data for one in ("1.36", "1.20"))
    names = {".".join(one["path"]) for one in new["settings"]}
    assert {"topologyManagerPolicy", "reservedMemory", "cpuManagerPolicyOptions.full-pcpus-only"} <= names
    assert "memoryManagerPolicy" not in {".".join(one["path"]) for one in old["settings"]}
    assert new["release"] == "1.36"
    assert page.get("config/options?release=nine").problem["field"] == "release"


def test_the_text_as_values(page: Page) -> None:
    found = changed(page, CONFIG)
    assert found["text"] == CONFIG
    assert found["values"]["topologyManagerPolicy"] == "restricted"
    assert found["values"]["reservedMemory"][1] == {"numaNode": 1, "limits": {"memory": "2Gi"}}
    assert found["starts"]
    assert "kind" not in found["values"]


def test_a_changed_value_keeps_comments_and_order(page: Page) -> None:
    found = changed(page, CONFIG, (["topologyManagerPolicy"], "single-numa-node"))
    assert found["text"] == CONFIG.replace("Policy: restricted", "Policy: single-numa-node")
    assert "rewritten" not in found
    assert found["values"]["topologyManagerPolicy"] == "single-numa-node"


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (["maxPods"], 50, "maxPods: 50"),
        (["cpuManagerPolicyOptions", "strict-cpu-reservation"], "true", '  strict-cpu-reservation: "true"'),
        (["featureGates", "PodLevelResourceManagers"], True, "  PodLevelResourceManagers: true"),
        (["kubeReserved"], {"cpu": "4", "memory": "1Gi"}, '  cpu: "4"'),
        (["memorySwap", "swapBehavior"], "NoSwap", "  swapBehavior: NoSwap"),
        (["enforceNodeAllocatable"], ["pods"], "- pods"),
    ],
)
def test_new_settings_are_written_into_the_text(page: Page, path: list[str], value: Any, line: str) -> None:
    found = changed(page, CONFIG, (path, value))
    assert line in found["text"]
    assert "# All four managers on" in found["text"]
    inner: Any = found["values"]
    for step in path:
        inner = inner[step]
    assert inner == value


def test_a_setting_goes_with_its_lines_and_its_empty_mapping(page: Page) -> None:
    found = changed(page, CONFIG, (["cpuManagerPolicyOptions", "full-pcpus-only"], None))
    assert "full-pcpus-only" not in found["text"]
    assert "cpuManagerPolicyOptions" not in found["values"]
    assert "# Must add up to" in found["text"]
    assert changed(page, CONFIG, (["maxPods"], None))["text"] == CONFIG


def test_the_first_setting_makes_a_configuration(page: Page) -> None:
    found = changed(page, "", (["cpuManagerPolicy"], "static"), node=None)
    assert "kind: KubeletConfiguration" in found["text"]
    assert found["values"]["cpuManagerPolicy"] == "static"


def test_what_keeps_the_kubelet_from_starting_is_said(page: Page) -> None:
    found = changed(page, CONFIG, (["kubeReserved", "memory"], "2Gi"))
    assert not found["starts"]
    assert "is not equal to the value" in found["refusal"]
    assert any(one["severity"] == "error" and one["file"] == "kubelet.yaml" for one in found["problems"])
    unknown = changed(page, CONFIG + "cpuManagerPolicyy: none\n")
    assert not unknown["starts"]
    assert any("cpuManagerPolicyy" in one["message"] for one in unknown["problems"])


def test_a_text_that_cannot_be_changed_in_place_is_written_anew(page: Page) -> None:
    text = "kind: KubeletConfiguration\nkubeReserved: &sizes {cpu: '1'}\nsystemReserved: *sizes # shared\n"
    found = changed(page, text, (["systemReserved", "cpu"], "2"), node=None)
    assert found["values"]["systemReserved"]["cpu"] == "2"
    assert found["values"]["kubeReserved"]["cpu"] == "1"
    assert found["rewritten"]


def test_flow_style_and_json_stay_what_they_are(page: Page) -> None:
    text = '{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "maxPods": 20}'
    found = changed(page, text, (["maxPods"], 30), (["cpuManagerPolicy"], "none"), node=None)
    assert found["text"].startswith('{"kind"')
    assert found["values"] == {"maxPods": 30, "cpuManagerPolicy": "none"}


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"text": "a: [\n"}, "$.text", "is not valid YAML"),
        (
            {"text": "- 1\n", "changes": [{"path": ["maxPods"], "value": 3}]},
            "$.text",
            "kubelet configuration",
        ),
        ({"text": "kind: Pod\n"}, "$.text", "kubelet configuration"),
        ({"text": "", "release": "9"}, "$.release", "is not a Kubernetes version"),
        ({"changes": [{"path": []}]}, "$.changes[0].path", "length >= 1"),
        ({"text": 3}, "$.text", "expected str"),
        (
            {"text": "a: [1]\n", "changes": [{"path": ["a", "b"], "value": 3}]},
            "$.text",
            "is no member of a list",
        ),
        ({"text": "a: [1]\n", "changes": [{"path": ["a", "b", "c"]}]}, "$.text", "is no member of a list"),
    ],
)
def test_what_is_no_configuration(page: Page, body: dict[str, Any], field: str, words: str) -> None:
    problem = page.post("config", body).problem
    assert problem["field"] == field, problem
    assert words in problem["detail"]


def test_the_own_configuration_of_a_node_is_where_one_begins() -> None:
    page = Page(named("8gpu-server", kubelet_config=(str(EXAMPLE / "kubelet.yaml"),)))
    try:
        found = page.post("config", {"node": {"served": True}, "release": "1.36"}).data
        assert found["values"]["topologyManagerScope"] == "pod"
        assert "topologyManagerScope: pod" in found["text"]
    finally:
        page.close()

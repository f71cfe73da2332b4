"""What-if by calls: scenarios played, compared, counted and written as traces."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import program
from tests.web.calls import Page, named

EXAMPLE = Path(__file__).parents[2] / "examples" / "8gpu-server"
CONFIG = (EXAMPLE / "kubelet.yaml").read_text()
SINGLE = CONFIG.replace("Policy: restricted", "Policy: single-numa-node")
NODE = {"machine": "8gpu-server", "config": CONFIG, "release": "1.36"}


def pod(name: str, cpu: int, gpus: int = 0, memory: str = "8Gi") -> dict[str, Any]:
    limits: dict[str, Any] = {"cpu": cpu, "memory": memory}
    limits |= {"nvidia.com/gpu": gpus} if gpus else {}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    return {"add": {"pod": {"kind": "Pod", "metadata": {"name": name}, "spec": spec}}}


STORY: list[Any] = [
    pod("train", 16, 3),
    pod("tune", 16, 2),
    pod("serve", 60, 3),
    {"remove": "train"},
    pod("serve", 60, 3),
    {"devices": {"nvidia.com/gpu": {"unhealthy": ["GPU7"]}}},
    "restart",
]


@pytest.fixture
def page() -> Iterator[Page]:
    opened = Page(named("8gpu-server"))
    yield opened
    opened.close()


def test_a_scenario_step_by_step(page: Page) -> None:
    answer = page.post("scenario", {"node": NODE, "steps": STORY})
    assert answer.status == 200, answer.body
    side = answer.data["side"]
    assert answer.data["at"] == len(STORY)
    assert [one["op"] for one in side["steps"]] == [
        "add",
        "add",
        "add",
        "remove",
        "add",
        "devices",
        "restart",
    ]
    assert [one["verdict"] for one in side["steps"]] == [
        "admitted",
        "admitted",
        "rejected",
        "done",
        "admitted",
        "done",
        "lost",
    ]
    refused = side["steps"][2]["pods"][0]
    assert refused["sentence"].startswith("Rejected, not now")
    assert refused["name"] == "serve"
    assert side["steps"][0]["pods"][0]["rows"][0][0] == "train"
    assert side["summary"] == "3 of 4 pods admitted, 1 of those that ran lost at a restart"
    assert {one["name"] for one in side["map"]["holders"] if one["kind"] == "pod"} == {"tune", "serve (gone)"}
    health = {one["id"]: one["health"] for one in side["devices"][0]["devices"]}
    assert health["GPU7"] == "unhealthy"
    assert health["GPU0"] == "healthy"
    assert answer.data["compared"] is None


def test_the_map_at_any_step(page: Page) -> None:
    holders = []
    for at in range(len(STORY) + 1):
        side = page.post("scenario", {"node": NODE, "steps": STORY, "at": at, "width": 600}).data["side"]
        assert len(side["steps"]) == len(STORY)
        holders.append(sorted(one["name"] for one in side["map"]["holders"] if one["kind"] == "pod"))
    assert holders[0] == []
    assert holders[1] == ["train"]
    assert holders[3] == ["train", "tune"]
    assert holders[5] == ["serve", "tune"]
    assert page.post("scenario", {"node": NODE, "steps": STORY, "width": 0}).data["side"]["map"] is None


def test_two_configurations_side_by_side(page: Page) -> None:
    steps = [pod("wide", 80, 8, "600Gi"), pod("last", 8)]
    answer = page.post("scenario", {"node": NODE, "steps": steps, "compare": {"config": SINGLE}})
    compared = answer.data["compared"]
    assert not compared["same"]
    wide = next(one for one in compared["differences"] if one["name"] == "wide")
    assert wide["step"] == 1
    assert wide["words"][0].startswith("rejected (TopologyAffinityError")
    assert wide["words"][0].endswith("instead of admitted")
    assert [one["verdict"] for one in compared["side"]["steps"]] == ["rejected", "admitted"]
    assert "differ" in compared["summary"]
    same = page.post("scenario", {"node": NODE, "steps": steps, "compare": {"config": CONFIG + "\n"}}).data
    assert same["compared"]["same"]
    assert same["compared"]["differences"] == []


def test_another_release_beside(page: Page) -> None:
    answer = page.post("scenario", {"node": NODE, "steps": STORY[:2], "compare": {"release": "1.30"}})
    assert answer.data["side"]["release"] == "1.36"
    assert answer.data["compared"]["side"]["release"] == "1.30"
    assert answer.data["compared"]["side"]["name"] == "the other one"


def test_a_second_kubelet_that_does_not_start_is_an_answer(page: Page) -> None:
    refused = (EXAMPLE / "kubelet-refused.yaml").read_text()
    answer = page.post("scenario", {"node": NODE, "steps": STORY[:1], "compare": {"config": refused}})
    assert answer.status == 200
    assert answer.data["compared"]["side"] is None
    assert "is not equal to the value" in answer.data["compared"]["refusal"]


def test_why_a_pod_was_refused_at_its_step(page: Page) -> None:
    body = {"node": NODE, "steps": STORY}
    found = page.post("scenario/why", {**body, "at": 3}).data
    assert found["explanation"]["verdict"] == "rejected"
    assert found["explanation"]["walk"]["steps"]
    assert found["explanation"]["suggestions"]
    assert {one["name"] for one in found["before"]["holders"] if one["kind"] == "pod"} == {"train", "tune"}
    assert found["after"] is None
    assert found["tries"] == len(found["explanation"]["suggestions"])
    marks = {one["id"]: one["mark"] for one in found["before"]["holders"]}
    after = page.post("scenario/why/try", {**body, "at": 3}).data
    assert after["suggestion"] == found["explanation"]["suggestions"][0]
    assert after["explanation"]["verdict"] == "admitted"
    assert all(marks.get(one["id"], one["mark"]) == one["mark"] for one in after["after"]["holders"])
    assert (
        page.post("scenario/why/try", {**body, "at": 3, "suggestion": 99}).problem["field"] == "$.suggestion"
    )
    admitted = page.post("scenario/why", {**body, "at": 5}).data
    assert admitted["explanation"]["verdict"] == "admitted"
    assert "serve" in {one["name"] for one in admitted["after"]["holders"]}
    assert page.post("scenario/why", {**body, "at": 4}).problem["field"] == "$.at"
    assert page.post("scenario/why", {**body, "at": 99}).problem["field"] == "$.at"
    assert page.post("scenario/why", {**body, "at": 3, "pod": "x"}).problem["field"] == "$.pod"


def test_why_of_several_pods_that_came_together(page: Page) -> None:
    several = {"add": {**pod("many", 4, 3)["add"], "count": 3}}
    body = {"node": NODE, "steps": [several], "at": 1, "pod": "default/many-2"}
    found = page.post("scenario/why", body).data
    assert found["explanation"]["verdict"] == "rejected"
    assert len([one for one in found["before"]["holders"] if one["kind"] == "pod"]) == 2


def test_a_trace_that_replay_reads(page: Page, tmp_path: Path) -> None:
    answer = page.post("scenario/trace", {"node": NODE, "steps": STORY, "name": "story"})
    assert answer.status == 200, answer.body
    assert 'filename="scenario.jsonl"' in answer.headers["content-disposition"]
    path = tmp_path / "scenario.jsonl"
    path.write_bytes(answer.body)
    done = program("replay", path, "--jobs", "1")
    assert done.status == 0, done.err
    line = json.loads(done.out)
    assert line["id"] == "story"
    told = [step["admitted"] for step in line["result"]["steps"] if step["op"] == "add"]
    assert told == [True, True, False, True]


def test_how_many_more_fit(page: Page) -> None:
    body = {
        "node": NODE,
        "steps": STORY[:1],
        "shapes": ["cpu=4,memory=8Gi,nvidia.com/gpu=1", "nvidia.com/gpu=8"],
    }
    first, second = page.post("fits", body).data["shapes"]
    assert first["count"] == 5
    assert "5 more fit" in first["lines"][0]
    assert second["count"] == 0
    before = page.post("fits", {**body, "at": 0}).data["shapes"]
    assert before[0]["count"] == 8
    own = page.post("fits", {"node": NODE, "steps": STORY}).data["shapes"]
    assert [one["shape"] for one in own] == ["train", "tune", "serve"]


def test_a_scenario_on_the_node_that_is_served(page: Page) -> None:
    answer = page.post("scenario", {"node": {"served": True, "config": CONFIG}, "steps": STORY[:1]})
    assert answer.data["side"]["steps"][0]["verdict"] == "admitted"
    missing = page.post("scenario", {"node": {"served": True}, "steps": []})
    assert missing.status == 422
    assert missing.problem["field"] == "$.node.config"


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"steps": [{"add": "/etc/passwd"}]}, "$.steps[0].add", "no file may be named here"),
        ({"steps": [STORY[0], {"remove": "nobody"}]}, "$.steps[1]", "there is no pod 'nobody'"),
        ({"steps": [{"add": {"text": "a: [\n"}}]}, "$.steps[0].add.text", "is not valid YAML"),
        ({"steps": [{"restart": {"text": "cpuManagerPolicyy: x\nkind: KubeletConfiguration"}}]},
         "$.steps[0].restart.text", "unknown field"),
        ({"steps": ["dance"]}, "$.steps[0]", "unknown step"),
        ({"steps": [3]}, "$.steps[0]", "got int"),
        ({"steps": [{}] * 501}, "$.steps", "length <= 500"),
        ({"node": {"machine": "../../etc"}}, "$.node.machine", "neither in the catalogue nor a description"),
        ({"at": -1}, "$.at", ">= 0"),
        ({"compare": {"release": "9"}}, "$.compare.release", "is not a Kubernetes version"),
    ],
)  # fmt: skip
def test_what_cannot_be_played(page: Page, change: dict[str, Any], field: str, words: str) -> None:
    answer = page.post("scenario", {"node": NODE, "steps": [], **change})
    assert answer.status in (400, 422), answer.body
    assert answer.problem.get("field") == field, answer.body
    assert words in answer.problem["detail"]


def test_a_shape_that_is_none(page: Page) -> None:
    answer = page.post("fits", {"node": NODE, "shapes": ["cpu=4", "lots"]})
    assert answer.problem["field"] == "$.shapes[1]"


def test_what_a_trace_cannot_tell_is_said_at_its_step(page: Page) -> None:
    steps = [STORY[0], {"restart": {"delete": "all"}}]
    answer = page.post("scenario/trace", {"node": NODE, "steps": steps})
    assert answer.problem["field"] == "$.steps[1]"
    assert "state files are deleted" in answer.problem["detail"]


def test_names_out_of_pods_are_never_more_than_text(page: Page) -> None:
    hostile = "kind: Pod\nmetadata: {name: x, namespace: a}\nspec: {containers: [{name: c, resources: {limits: {'<b>/x': 1}}}]}"
    answer = page.post("scenario", {"node": NODE, "steps": [{"add": {"text": hostile}}]})
    assert answer.status in (200, 422)
    steered = page.post("scenario", {"node": NODE, "steps": [{"remove": "\x1b[31mred"}]})
    assert "\x1b" not in steered.problem["detail"]

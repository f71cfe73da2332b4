"""Why: pods, bundles, logs and pasted objects are explained as ``why`` explains them, and suggestions are tried."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from numawise.results.schema import definition
from numawise.results.why_page import TriedPage, WhyPage
from numawise.web.desk import Served
from tests.cli.run import numawise
from tests.cli.test_published import pod, topology
from tests.cli.test_why_resize import BATCH, waiting
from tests.nodetree import grow_node, pod_list
from tests.web.calls import Page, named

EXAMPLES = Path("examples")
SMALL, INCIDENT, EIGHT = EXAMPLES / "3gpu-server", EXAMPLES / "incident-server", EXAMPLES / "8gpu-server"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    page = Page(named("dgx-h100"))
    yield page
    page.close()


def file(path: Path) -> dict[str, str]:
    return {"name": path.name, "text": path.read_text()}


def node(folder: Path, config: str = "kubelet.yaml") -> list[dict[str, str]]:
    return [file(folder / "machine.yaml"), file(folder / config)]


def asked(page: Page, **body: Any) -> dict[str, Any]:
    answer = page.post("why", body)
    assert answer.status == 200, answer.body
    _, form = definition(WhyPage)
    jsonschema.Draft202012Validator(form).validate(answer.data)
    return dict(answer.data)


def tried(page: Page, **body: Any) -> dict[str, Any]:
    answer = page.post("why/try", body)
    assert answer.status == 200, answer.body
    _, form = definition(TriedPage)
    jsonschema.Draft202012Validator(form).validate(answer.data)
    return dict(answer.data)


def incident() -> list[dict[str, str]]:
    return [*node(INCIDENT), *map(file, sorted((INCIDENT / "pods").glob("*.yaml")))]


# --- pods ----------------------------------------------------------------------------------------


def test_the_first_refused_pod_is_explained_in_full(page: Page) -> None:
    found = asked(page, files=incident())
    assert [pod["verdict"] for pod in found["pods"]] == ["admitted", "admitted", "rejected"]
    assert found["chosen"] == 2
    steps = found["explanation"]["walk"]["steps"]
    assert [step["kind"] for step in steps] == ["hints", "merge", "merge", "verdict", "outcome"]
    assert steps[3]["ok"] is False
    assert found["before"]["svg"].startswith("<svg")
    assert found["after"] is None
    holders = [holder["name"] for holder in found["before"]["holders"] if holder["kind"] == "pod"]
    assert holders == ["vm-cluster-common/vmselect-common-3", "vm-cluster-common/vmstorage-common-7"]


@pytest.mark.parametrize("chosen", [{"number": 1}, {"pod": "vmstorage-common-7"}, {"pod": "vm-cluster-common/vmstorage-common-7"}])  # fmt: skip
def test_another_pod_is_chosen_by_number_or_name(page: Page, chosen: dict[str, Any]) -> None:
    found = asked(page, files=incident(), **chosen)
    assert (found["chosen"], found["explanation"]["name"]) == (1, "vmstorage-common-7")
    assert found["explanation"]["walk"]["steps"][-1]["cpus"] == "16-19"
    assert found["after"]["holders"][-2]["cpus"] == "16-19"
    assert found["tries"] == 0


def test_it_is_what_the_command_says(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    pods = sorted((INCIDENT / "pods").glob("*.yaml"))
    machine = ("--machine", INCIDENT / "machine.yaml", "--kubelet-config", INCIDENT / "kubelet.yaml")
    command = json.loads(numawise(capsys, "why", "-o", "json", *machine, *pods).out)["pods"]
    assert asked(page, files=incident())["explanation"] == command[2]


def test_a_pod_as_text_on_the_node_that_is_served() -> None:
    page = Page(named(str(EIGHT / "machine.yaml"), kubelet_config=(str(EIGHT / "kubelet.yaml"),)))
    try:
        found = asked(page, text=(EIGHT / "pods" / "05-affinity-check.yaml").read_text())
        assert found["explanation"]["verdict"] == "admitted"
        assert found["drawn"] == {"gpu0": "gpu0"}
        assert [pod["origin"] for pod in found["pods"]] == ["given"]
    finally:
        page.close()


def everything(folder: Path) -> list[dict[str, str]]:
    """A node and all pods of its examples, one after the other."""
    return [*node(folder), *map(file, sorted((folder / "pods").rglob("*.yaml")))]


@pytest.mark.parametrize(("folder", "every"), [(SMALL, 5), (INCIDENT, 1), (EIGHT, 1)])
def test_every_suggestion_of_a_refusal_can_be_tried(page: Page, folder: Path, every: int) -> None:
    files = everything(folder)
    refused = [at for at, pod in enumerate(asked(page, files=files)["pods"]) if pod["verdict"] == "rejected"]
    assert refused
    for number in refused[::every]:
        found = asked(page, files=files, number=number)
        assert found["explanation"]["walk"]["steps"][-1]["text"] == found["explanation"]["answer"]
        assert found["tries"] == len(found["explanation"]["suggestions"]) > 0
        marks = {holder["id"]: holder["mark"] for holder in found["before"]["holders"]}
        for suggestion in range(found["tries"]):
            after = tried(page, files=files, number=number, suggestion=suggestion)
            assert after["suggestion"] == found["explanation"]["suggestions"][suggestion]
            assert after["explanation"]["verdict"] == "admitted"
            holders = after["after"]["holders"]
            name = f"{after['explanation']['namespace']}/{after['explanation']['name']}".removeprefix(
                "default/"
            )
            assert name in [holder["name"] for holder in holders]
            for holder in holders:
                assert marks.get(holder["id"], holder["mark"]) == holder["mark"]
            assert not set(after["suggestion"].get("remove", ())) & {holder["id"] for holder in holders}


def test_a_kubelet_that_does_not_start_is_explained_and_mended(page: Page) -> None:
    files = [*node(EIGHT, "kubelet-refused.yaml"), file(EIGHT / "pods" / "01-single-gpu-training.yaml")]
    found = asked(page, files=files)
    assert (found["explanation"]["verdict"], found["chosen"], found["before"]) == ("not started", None, None)
    assert found["tries"] == len(found["explanation"]["suggestions"]) > 0
    after = tried(page, files=files, suggestion=0)
    assert after["explanation"]["verdict"] == "admitted"
    assert after["after"]["svg"].startswith("<svg")
    alone = tried(page, files=files[:-1], suggestion=0)
    assert alone["explanation"] is None


# --- resizes, and questions as scenarios ---------------------------------------------------------


@pytest.mark.parametrize(("wanted", "has", "verdict", "answers"), [
    ("{requests: {cpu: 100}}", "allocatedResources: {cpu: 8}", "deferred", ["cpu 8 → 92", "cpu 8 → 100"]),
    ("{limits: {cpu: 16, memory: 8Gi}}", "resources: {limits: {cpu: 8, memory: 8Gi}}", "infeasible", ["16 CPUs (2-9,66-73)"]),
])  # fmt: skip
def test_a_resize_is_tried_and_opened_as_a_scenario(
    page: Page, wanted: str, has: str, verdict: str, answers: list[str]
) -> None:
    body = {"files": node(EIGHT), "text": f"{BATCH}\n---\n{waiting(wanted, has)}", "pod": "web"}
    found = asked(page, **body)
    assert found["explanation"]["verdict"] == verdict
    assert found["tries"] == len(found["explanation"]["suggestions"]) == len(answers)
    assert {"batch", "web"} <= {holder["name"] for holder in found["before"]["holders"]}
    for number, words in enumerate(answers):
        after = tried(page, **body, suggestion=number)
        assert after["explanation"]["verdict"] == "admitted"
        assert words in after["explanation"]["answer"]
        assert not set(after["suggestion"].get("remove", ())) & {
            one["id"] for one in after["after"]["holders"]
        }
    assert [step["verdict"] for step in played(page, **body)] == ["admitted", "admitted", verdict]


def played(page: Page, **body: Any) -> list[dict[str, Any]]:
    """The steps of a question that was opened as a scenario."""
    opened = page.post("why/scenario", body).data
    answer = page.post("scenario", {"node": opened["node"], "steps": opened["steps"], "width": 0})
    assert answer.status == 200, answer.body
    return list(answer.data["side"]["steps"])


@pytest.mark.parametrize("folder", [SMALL, INCIDENT, EIGHT])
def test_a_question_becomes_a_scenario_that_decides_the_same(page: Page, folder: Path) -> None:
    files = everything(folder)
    verdicts = [pod["verdict"] for pod in asked(page, files=files)["pods"]]
    assert [step["verdict"] for step in played(page, files=files, number=len(verdicts) - 1)] == verdicts
    refused = verdicts.index("rejected")
    assert len(played(page, files=files)) == refused + 1


# --- bundles and logs ----------------------------------------------------------------------------


def test_a_bundle_lists_its_pods(page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pods.json").write_text(pod_list())
    words = (
        "--pods",
        tmp_path / "pods.json",
        "--kube",
        "1.36.4",
        "--keep-names",
        "-o",
        tmp_path / "b.tar.gz",
    )
    assert numawise(capsys, "bundle", "--root", grow_node(tmp_path / "root"), *words).status == 0
    content = base64.b64encode((tmp_path / "b.tar.gz").read_bytes()).decode()
    files = [{"name": "node7.tar.gz", "base64": content}]
    found = asked(page, files=files)
    origins = [pod["origin"] for pod in found["pods"]]
    assert origins[0] == "refused"
    assert set(origins[1:]) == {"running"}
    assert found["chosen"] == 0
    assert found["explanation"]["verdict"] == "rejected"
    running = asked(page, files=files, number=2)
    assert running["explanation"]["verdict"] == "admitted"
    assert any(step["title"].startswith("Kept by") for step in running["explanation"]["walk"]["steps"])
    assert [step["verdict"] for step in played(page, files=files)] == ["rejected"]
    assert played(page, files=files, number=2) == []  # it is there already


def test_a_log_is_explained_by_itself(page: Page) -> None:
    found = asked(page, files=[file(INCIDENT / "kubelet.log")])
    assert (found["log"]["rejected"], found["chosen"], found["pods"]) == (1, None, [])
    pod = found["log"]["pods"][0]
    assert pod["name"] == "vmstorage-common-15"
    assert [step["kind"] for step in pod["walk"]["steps"]] == [
        "hints",
        "merge",
        "merge",
        "verdict",
        "outcome",
    ]


def test_a_log_beside_its_node_has_amounts(page: Page) -> None:
    found = asked(page, files=[file(INCIDENT / "kubelet.log"), *incident()])
    assert "With these files the engine finds the same hints" in " ".join(found["log"]["pods"][0]["remarks"])


def test_what_kubectl_prints_is_explained_without_a_machine() -> None:
    page = Page(Served(None, host=False))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "reason": "TopologyAffinityError",
        "message": "Resources cannot be allocated with Topology locality",
        "involvedObject": {"kind": "Pod", "name": "train-0", "namespace": "team-a"},
    }
    try:
        found = asked(page, text=json.dumps(event))
        assert [one["name"] for one in found["others"]] == ["train-0"]
    finally:
        page.close()


def test_where_nothing_is_known_that_is_said_and_is_no_error(page: Page) -> None:
    found = asked(page)
    assert found["remarks"] == ["no kubelet configuration is known of what is served here"]
    assert (found["chosen"], found["explanation"], found["pods"]) == (None, None, [])
    nobody = Page(Served(None, host=False))
    try:
        assert asked(nobody)["remarks"] == ["no node is served here"]
        assert nobody.post("why", {"text": "kind: Pod"}).problem["field"] == "$.node.machine"
    finally:
        nobody.close()


def test_a_node_as_it_publishes_itself_is_dropped_beside_a_pod(page: Page) -> None:
    files = [{"name": "n1.json", "text": json.dumps(topology())}, {"name": "p.json", "text": pod(9, 2)}]
    found = asked(page, files=files)
    assert (found["explanation"]["verdict"], [one["name"] for one in found["pods"]]) == ("rejected", ["p"])
    assert "single-numa-node" in found["explanation"]["policy"]


def test_what_is_dropped_takes_the_place_of_what_is_served() -> None:
    page = Page(named(str(EIGHT / "machine.yaml"), kubelet_config=(str(EIGHT / "kubelet.yaml"),)))
    pod = (EIGHT / "pods" / "05-affinity-check.yaml").read_text()
    refused = file(EIGHT / "kubelet-refused.yaml")
    try:
        assert asked(page, text=pod)["explanation"]["verdict"] == "admitted"
        assert asked(page, text=pod, files=[refused])["explanation"]["verdict"] == "not started"
        problem = page.post("why", {"text": pod, "files": [refused, file(EIGHT / "kubelet.yaml")]}).problem
        assert problem["detail"] == (
            "kubelet-refused.yaml and kubelet.yaml are kubelet configurations, and a node has one"
        )
    finally:
        page.close()


# --- used wrongly --------------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "field", "words"), [
    ({"text": "kind: Pod"}, "$.node.config", "no kubelet configuration is known"),
    ({"node": {"machine": "../../etc"}}, "$.node.machine", "is neither in the catalogue nor a description"),
    ({"files": [{"name": "a"}]}, "$.files[0]", "needs either text or base64"),
    ({"files": [{"name": "a", "base64": "%"}]}, "$.files[0].base64", "is not base64"),
    ({"width": 1}, "$.width", "expected int"),
    ({"more": 1}, "$", "unknown field"),
])  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(page: Page, body: Any, field: str, words: str) -> None:
    problem = page.post("why", body).problem
    assert problem["status"] in (400, 422)
    assert words in problem["detail"]
    assert problem["field"].startswith(field)


@pytest.mark.parametrize(("more", "words"), [
    ({"pod": "nobody"}, "there is no pod"),
    ({"number": 9}, "there is no pod number 9"),
])  # fmt: skip
def test_a_pod_that_is_not_there(page: Page, more: Any, words: str) -> None:
    assert words in page.post("why", {"files": incident(), **more}).problem["detail"]


def test_a_suggestion_that_is_not_there(page: Page) -> None:
    problem = page.post("why/try", {"files": incident(), "suggestion": 77}).problem
    assert "there is no suggestion 77" in problem["detail"]
    assert problem["field"] == "$.suggestion"
    log = page.post("why/try", {"files": [file(INCIDENT / "kubelet.log")]}).problem
    assert log["detail"] == "a log cannot be simulated"


def test_files_that_are_nothing(page: Page) -> None:
    for content in (b"\x00\xff" * 100, b"\x1f\x8bbroken", b"", b"- - -", b"{" * 500):
        encoded = base64.b64encode(content).decode()
        answer = page.post("why", {"files": [*node(SMALL), {"name": "x", "base64": encoded}]})
        assert answer.status == 422, content
        assert answer.problem["detail"]
        assert "numawise-page" not in answer.body.decode()

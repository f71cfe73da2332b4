"""Whoever reads an answer has no command line: errors name members of the body, and advice what a page can do."""

from collections.abc import Iterator
from typing import Any

import pytest

from numawise.codec.web.body import members_of
from numawise.web.catalogue import OPERATIONS
from numawise.web.desk import Served
from numawise.web.page_words import said_here
from tests.web.calls import Page

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n"
CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
NODES = [one for one in OPERATIONS if one.body is not None and "node" in members_of(one.body)]
KUBELETS = [one for one in NODES if one.name not in ("nodeMap", "plan", "config")]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    opened = Page(Served(None, host=False))
    yield opened
    opened.close()


def beside(form: type) -> dict[str, Any]:
    """What a body of this form needs beside a node: the number of a step, a pod, a configuration."""
    pods = "files" in members_of(form)
    known = {"at": 1, "text": POD if pods else CONFIG}
    return {name: value for name, value in known.items() if name in members_of(form)}


def refused(page: Page, operation: Any, node: Any) -> tuple[str, str]:
    problem = page.post(operation.path.removeprefix("/"), {"node": node, **beside(operation.body)}).problem
    assert problem["status"] == 422
    assert "--" not in problem["detail"] + problem["advice"]
    return problem["field"], problem["detail"]


def test_every_call_that_takes_a_node_is_here() -> None:
    assert len(NODES) >= 9
    assert {"nodeMap", "why", "whyTry", "scenario", "fits", "plan", "config"} <= {one.name for one in NODES}


@pytest.mark.parametrize("operation", NODES, ids=lambda one: one.name)
def test_a_node_without_a_machine(page: Page, operation: Any) -> None:
    assert refused(page, operation, {}) == ("$.node.machine", "no machine is known")


@pytest.mark.parametrize("operation", KUBELETS, ids=lambda one: one.name)
def test_a_node_without_a_configuration(page: Page, operation: Any) -> None:
    found = refused(page, operation, {"machine": "8gpu-server"})
    assert found == ("$.node.config", "no kubelet configuration is known")


@pytest.mark.parametrize("operation", NODES, ids=lambda one: one.name)
def test_a_release_that_is_none(page: Page, operation: Any) -> None:
    field, words = refused(page, operation, {"machine": "8gpu-server", "config": CONFIG, "release": "soon"})
    assert field == "$.node.release"
    assert "soon" in words


def test_the_other_side(page: Page) -> None:
    body = {"node": {"machine": "8gpu-server", "config": CONFIG}, "compare": {"release": "soon"}}
    assert page.post("scenario", body).problem["field"] == "$.compare.release"


@pytest.mark.parametrize(("more", "field"), [
    ({"reserveCpus": 5000}, "$.reserveCpus"),
    ({"reserveMemory": "900Ti"}, "$.reserveMemory"),
    ({"hugepages": ["1Gi=900000"]}, "$.hugepages"),
])  # fmt: skip
def test_what_a_plan_cannot_keep(page: Page, more: Any, field: str) -> None:
    problem = page.post("plan", {"node": {"machine": "8gpu-server"}, **more}).problem
    assert problem["field"] == field
    assert "--" not in problem["detail"] + problem.get("advice", "")


@pytest.mark.parametrize(("text", "here"), [
    ("m.yaml: a machine, passed over, as --machine names another", "m.yaml: a machine, passed over, as another is named"),
    ("2 machines: none is taken; --machine names one", "2 machines: none is taken; name one"),
    ("the Node object is not known; give it with --node-object", "the Node object is not known; give it"),
    ("it is a machine (--machine), and what is free on it (--state)", "it is a machine, and what is free on it"),
    ("give --machine and --kubelet-config as well, to simulate it",
     "give a machine and a kubelet configuration as well, to simulate it"),
    ("Without --state, they are empty", "Without state files, they are empty"),
    ("run 'numawise why --bundle FILE'; or give --bundle", "run 'numawise why --bundle FILE'; or give a bundle"),
    ("run 'numawise bundle' on n1, and give the file with --bundle", "run 'numawise bundle' on n1, and give the file"),
    ("a kubelet has --kube-reserved and --config-dir", "a kubelet has --kube-reserved and --config-dir"),
    ("nothing of it", "nothing of it"),
])  # fmt: skip
def test_words_of_commands(text: str, here: str) -> None:
    assert said_here(text) == here

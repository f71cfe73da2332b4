"""Completion of names of a cluster: nodes, pods and owners, and nothing where it does not answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from numawise.cli.completion import kubectl
from tests.kube.server import Server, State, kubeconfig, serving
from tests.unit.cluster.live_objects import api_node, api_pod


@pytest.fixture
def server() -> Iterator[Server]:
    state = State(
        pods=[api_pod("web-1"), api_pod("web-2"), api_pod("db-0")],
        nodes={"n1": api_node("n1"), "n2": api_node("n2")},
        owners=[{"kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}],
    )
    state.nodes["odd"] = {"metadata": {"name": "$(reboot)"}}
    with serving(state) as made:
        yield made


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    assert kubectl(words) == 0
    *lines, directive = capsys.readouterr().out.splitlines()
    return [line.partition("\t")[0] for line in lines], directive


def test_names(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = str(kubeconfig(tmp_path / "config", server.address))
    monkeypatch.setenv("KUBECONFIG", config)
    assert told(capsys, "nodes", "") == (["n1", "n2"], ":4")
    assert told(capsys, "why", "pod/web") == (["pod/web-1", "pod/web-2"], ":4")
    assert told(capsys, "why", "deploy/") == (["deploy/web"], ":4")
    assert told(capsys, "why", "-n", "other", "pod/")[0] == []
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert told(capsys, "why", "--kubeconfig", config, "po/db") == (["po/db-0"], ":4")


def test_kinds_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    words, directive = told(capsys, "why", "")
    assert {"pod/", "deployment/", "statefulset/", "job/"} <= set(words)
    assert directive == ":0"


def test_a_cluster_that_cannot_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", "http://127.0.0.1:1")))
    assert told(capsys, "nodes", "")[0] == []
    assert told(capsys, "why", "pod/")[0] == []
    assert capsys.readouterr().err == ""

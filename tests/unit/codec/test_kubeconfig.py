"""Kubeconfigs, merged as kubectl merges them."""

import os
from pathlib import Path

import pytest

from numawise.codec.kubeconfig import kubeconfig_files, read_access
from numawise.errors import InputError

FIRST = """\
current-context: one
clusters: [{name: c, cluster: {server: "https://first", certificate-authority: ca.pem}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: team}}
- {name: broken, context: {cluster: nowhere, user: u}}
- {name: nobody, context: {cluster: c, user: nobody}}
users: [{name: u, user: {token: first}}]
"""
SECOND = """\
current-context: two
clusters: [{name: c, cluster: {server: "https://second"}}, {name: d, cluster: {server: "https://d"}}]
contexts: [{name: two, context: {cluster: d}}]
users: [{name: u, user: {token: second}}]
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "first").write_text(FIRST)
    (tmp_path / "second").write_text(SECOND)
    return [str(tmp_path / name) for name in ("missing", "first", "second")]


def test_what_stands_first_wins(files: list[str], tmp_path: Path) -> None:
    found = read_access(files)
    assert found is not None
    assert (found.context, found.server, found.namespace) == ("one", "https://first", "team")
    assert found.user == {"token": "first"}
    assert found.cluster["certificate-authority"] == str(tmp_path / "ca.pem")


def test_a_context_by_name_from_a_later_file(files: list[str]) -> None:
    found = read_access(files, "two")
    assert found is not None
    assert (found.server, found.namespace, found.user) == ("https://d", "default", {})


def test_no_file_at_all(tmp_path: Path) -> None:
    assert read_access([str(tmp_path / "missing")]) is None


@pytest.mark.parametrize(("context", "words"), [
    pytest.param("twoo",   ["there is no context 'twoo'", 'did you mean "two"?'], id="misspelt"),
    pytest.param("broken", ["refers to cluster 'nowhere', which does not exist"],     id="no such cluster"),
    pytest.param("nobody", ["refers to user 'nobody', which does not exist"],           id="no such user"),
])  # fmt: skip
def test_contexts_that_lead_nowhere(files: list[str], context: str, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read_access(files, context)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(("text", "words"), [
    pytest.param("kind: Pod",                                                        ["is not a kubeconfig"],        id="a pod"),
    pytest.param("[1]",                                                              ["is not a kubeconfig"],        id="a list"),
    pytest.param("clusters: []",                                                     ["has no current context"],     id="no context"),
    pytest.param("clusters: []\ncurrent-context: x",                                 ["its current context 'x' does not exist"], id="a context that is not there"),
    pytest.param("clusters: {}",                                                     ["clusters: must be a list"],   id="a mapping"),
    pytest.param("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: c, cluster: {}}]", ["has no server"], id="no server"),
    pytest.param("a: [",                                                             ["is not valid YAML"],          id="no YAML"),
])  # fmt: skip
def test_bad_kubeconfigs(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_access([str(path)])
    assert all(word in str(caught.value) for word in (str(path), *words)), caught.value


def test_where_they_are_looked_for() -> None:
    both = os.pathsep.join(["/a", "", "/b"])
    assert kubeconfig_files("x", {"KUBECONFIG": both}) == ("x",)
    assert kubeconfig_files("", {"KUBECONFIG": both, "HOME": "/home/x"}) == ("/a", "/b")
    assert kubeconfig_files("", {"HOME": "/home/x"}) == ("/home/x/.kube/config",)
    assert kubeconfig_files("", {}) == ()

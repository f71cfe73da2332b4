"""What a server shows when it is started."""

from pathlib import Path
from typing import Any

import pytest

from numawise.errors import InputError
from numawise.inputs.spec import NodeSpec, start_node
from numawise.values import replace
from numawise.web.desk import MAP, SERVED, _Kept
from numawise.web.served import served_by
from tests.cli.run import program
from tests.nodetree import UIDS, grow_node
from tests.web.calls import Page, named

CONFIG = Path(__file__).parents[2] / "examples/8gpu-server/kubelet-single-numa-node.yaml"
PLAIN = {"name": "kubelet.yaml", "text": "kind: KubeletConfiguration"}


def test_a_host_with_a_kubelet_is_its_node(tmp_path: Path) -> None:
    root = grow_node(tmp_path / "root")
    page = Page(served_by(NodeSpec(), str(root)))
    node = page.desk.served_node()
    assert node.config.cpu_manager_policy == "static"
    assert UIDS["a"] in start_node(node).state.cpu.assignments
    state = root / "var/lib/kubelet/cpu_manager_state"
    state.unlink()
    page.desk.changed(MAP)
    assert page.desk.served_node().state is None or "cpu_manager_state" not in page.desk.served_node().texts
    assert page.get("overview").status == 200
    page.close()


def test_what_was_read_before_a_change_is_not_kept() -> None:
    page = Page(named("dgx-h100"))
    desk, first, later = page.desk, page.desk.served_node(), object()

    def slow() -> Any:
        desk.changed(MAP)
        return _Kept(first)

    assert desk._once(f"{SERVED}key", slow) is first
    assert desk._once(f"{SERVED}key", lambda: _Kept(later)) is later  # type: ignore[arg-type, comparison-overlap]
    page.close()


def test_nothing_of_it_is_left_behind(tmp_path: Path) -> None:
    page = Page(served_by(NodeSpec(), str(grow_node(tmp_path / "root"))))
    page.desk.served_node()
    folder = Path(page.desk.dropped.folder)
    assert any(folder.rglob("this-host.tar.gz"))
    page.close()
    assert not folder.exists()


def test_a_host_without_a_kubelet_is_a_machine(tmp_path: Path) -> None:
    root = grow_node(tmp_path / "root", running=False)
    for file in ("var/lib/kubelet/config.yaml", "etc/kubernetes/kubelet.conf"):
        (root / file).unlink(missing_ok=True)
    served = served_by(NodeSpec(), str(root))
    assert served.kubelet is None
    assert served.spec == NodeSpec(machine=(str(root),))


def test_a_root_that_is_not_there_is_said() -> None:
    with pytest.raises(InputError, match="is not a folder"):
        served_by(NodeSpec(), "/nowhere/at/all")
    with pytest.raises(InputError, match="a node was named beside it"):
        served_by(NodeSpec(machine=("dgx-h100",)), "/")


def test_a_server_that_shows_nothing_of_its_host() -> None:
    page = Page(replace(served_by(NodeSpec(), host=False), cluster=True))
    overview = page.get("overview").data
    assert (overview["node"], overview["host"], overview["first"]) == (False, False, "cluster")
    for path, body in (
        ("map", {"node": {"machine": "this"}}),
        ("check", {"machine": "this", "files": [PLAIN]}),
    ):
        assert page.post(path, body).problem["detail"] == "this server shows nothing of its host"
    assert page.post("map", {"node": {"machine": "dgx-h100"}}).status == 200
    assert page.get("box").status == 404
    page.close()


@pytest.mark.parametrize(("words", "said"), [
    (["--root", "/"],                  "nothing of a host is shown"),
    (["--machine", "this"],            "the machine would be this host's"),
    (["--kube", "1.34"],               "the machine would be this host's"),
])  # fmt: skip
def test_nothing_of_the_host_beside_something_of_it(words: list[str], said: str) -> None:
    ran = program("serve", "--dry-run", "--no-host", *words)
    assert ran.status == 2
    assert ran.err.startswith(f"numawise: --no-host: {said}; ")


@pytest.mark.parametrize(("cluster", "spec", "first"), [
    (False, NodeSpec(),                        "map"),
    (True,  NodeSpec(),                        "cluster"),
    (True,  NodeSpec(machine=("dgx-h100",)),   "map"),
])  # fmt: skip
def test_the_page_opens_with_what_was_asked_for(spec: NodeSpec, first: str, *, cluster: bool) -> None:
    page = Page(replace(served_by(spec), cluster=cluster))
    assert page.get("overview").data["first"] == first
    page.close()


def test_a_configuration_beside_nodes_is_theirs() -> None:
    ran = program("serve", "--dry-run", "--nodes", "dgx-h100:2", "--kubelet-config", str(CONFIG), "--no-host")
    assert (ran.status, ran.out.splitlines()[1]) == (0, "Would show nothing of this host.")


@pytest.mark.parametrize(("words", "said"), [
    (["--listen", "off"],          "--listen 'off' is not an address and a port; write it like 127.0.0.1:9801\n"),
    (["--listen", "9801"],         "--listen '9801' is not an address and a port"),
    (["--listen", "[::1]:99999"],  "--listen '[::1]:99999' is not an address and a port"),
    (["--listen", "0.0.0.0:0"],    "without a token everybody who reaches 0.0.0.0 would be answered"),
    (["--listen", "[::]:0"],       "without a token everybody who reaches :: would be answered"),
    (["--pages", "here"],          "--pages 'here' is not an address and a port; write it like 127.0.0.1:9802, or 'off'\n"),
])  # fmt: skip
def test_where_it_does_not_listen(words: list[str], said: str) -> None:
    ran = program("serve", "--dry-run", "--machine", "1c", *words)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize("name", ["", "a:9801", "http://gpu7.example", "[::1]", "me@gpu7"])
def test_a_name_that_no_browser_sends(name: str) -> None:
    ran = program("serve", "--host", name, "--dry-run")
    assert (ran.status, ran.err.startswith("numawise: --host: ")) == (2, True)


@pytest.mark.parametrize(("text", "words"), [
    ("\n\n",                          "the token has 0 characters"),
    ("a" * 20 + "\n" + "b" * 20,      "the token must be one line of printable ASCII"),
    ("ü" * 20,                        "the token must be one line of printable ASCII"),
])  # fmt: skip
def test_a_token_that_is_none(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "token").write_text(text)
    ran = program("serve", "--token-file", tmp_path / "token", "--dry-run")
    assert (ran.status, words in ran.err) == (2, True)


def test_a_token_that_everybody_can_read(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    token.chmod(0o644)
    assert (
        "everybody on this machine can read the token"
        in program("serve", "--token-file", token, "--dry-run").err
    )
    token.chmod(0o600)
    assert not program("serve", "--token-file", token, "--dry-run").err

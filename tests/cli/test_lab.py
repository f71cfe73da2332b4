"""``numawise lab`` as it is typed, also wrongly; nothing here reaches a cluster."""

from pathlib import Path

import pytest

from tests.cli.run import EXAMPLES, program

CONFIG = EXAMPLES / "8gpu-server" / "kubelet.yaml"
GOOD = ("--nodes", "8gpu-server:2", "--kubelet-config", CONFIG)


@pytest.mark.parametrize(("words", "said"), [
    pytest.param(["--kubelet-config", CONFIG],       "--nodes: is missing",                           id="no nodes"),
    pytest.param(["--nodes", "8gpu-server:2"],       "--kubelet-config: is missing",                  id="no configuration"),
    pytest.param(["--nodes", "8gpu-server:0"],       "'8gpu-server:0' gives no nodes",                id="none of them"),
    pytest.param(["--nodes", "no-such-machine:3"],   "no-such-machine",                               id="no such machine"),
    pytest.param([*GOOD, "--lab", "My Lab"],         "'My Lab' cannot be the name of a lab",          id="name of the lab"),
    pytest.param([*GOOD, "--taint", "lab"],          "'lab' is not a taint",                          id="taint"),
    pytest.param([*GOOD, "--label", "lab"],          "'lab' is not a label",                          id="label"),
    pytest.param([*GOOD, "--listen", "here"],        "--listen 'here' is not an address and a port",  id="address"),
    pytest.param([*GOOD, "--publish-loss", "2"],     "2.0 is not in the range 0<=x<=1",               id="loss"),
    pytest.param([*GOOD, "--time-factor", "0"],      "is not in the range",                           id="factor"),
])  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(words: list[object], said: str) -> None:
    ran = program("lab", *words)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_names_that_no_node_can_have(tmp_path: Path) -> None:
    listed = tmp_path / "nodes.yaml"
    listed.write_text(f"- {{name: My_Node, machine: 8gpu-server, kubelet: {CONFIG}}}\n")
    ran = program("lab", "--nodes", listed)
    assert ran.status == 2
    assert "'My_Node' cannot be the name of a node" in ran.err


def test_no_cluster(tmp_path: Path) -> None:
    ran = program("lab", *GOOD, HOME=str(tmp_path), KUBECONFIG="")
    assert ran.status == 5
    assert "no cluster is known here" in ran.err

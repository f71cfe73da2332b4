"""A kubelet's directory, devices that do not exist, a server with the state of a test, and commands that ask it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.run import Ran, numawise
from tests.kube.agents import FAKES, node
from tests.kube.server import Server, State, kubeconfig, serving
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import kubelet


@pytest.fixture
def folder() -> Iterator[Path]:
    with node() as made:
        yield made


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    path = tmp_path / "fakes.yaml"
    path.write_text(FAKES)
    return path


@pytest.fixture
def state() -> State:
    """Two nodes that publish themselves, and a pod on the first; tests that need another say so."""
    state = State(pods=[api_pod("a", 4, "n1")], nodes={name: api_node(name) for name in ("n1", "n2")})
    for name in state.nodes:
        state.put_topology(published(kubelet(), name))
    return state


@pytest.fixture
def server(state: State) -> Iterator[Server]:
    with serving(state) as made:
        yield made


@pytest.fixture
def asking(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Callable[..., Ran]]:
    """Ways to type a command that asks the server."""

    def command(name: str) -> Callable[..., Ran]:
        def asked(*words: object) -> Ran:
            config = kubeconfig(tmp_path / "config", server.address)
            return numawise(capsys, name, "--kubeconfig", config, *words)

        return asked

    return command

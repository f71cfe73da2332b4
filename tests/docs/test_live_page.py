"""The page about pods of a cluster shows what the commands really print."""

import re
from pathlib import Path

import pytest
from tests.cli.run import numawise
from tests.kube.server import State, kubeconfig, serving
from tests.kube.test_why_rebuilt import CONFIG, MACHINE, owner, pod

PAGE = (Path(__file__).parents[2] / "docs/how-to/explain-a-live-pod.md").read_text()
NODE = {"metadata": {"name": "n1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.4"}}}


def state() -> State:
    """A Deployment whose pods n1 refuses, beside two pods that run there and one refusal that cannot be explained."""
    refused = [
        pod(f"web-7d4b9-{name}", 30 + at, 6, refused=True, owner="ReplicaSet web-7d4b9")
        for at, name in enumerate(("4xkzp", "9w2lm", "tq8vr"))
    ]
    return State(
        pods=[
            pod("db-0", 10, 4, owner="StatefulSet db"),
            pod("db-1", 12, 4, owner="StatefulSet db"),
            *refused,
            pod("solo", 20, 2, refused=True),
        ],
        owners=[owner("Deployment", "web", 6), owner("ReplicaSet", "web-7d4b9", 6, parent="Deployment web")],
        nodes={"n1": NODE},
        configz={"n1": dict(CONFIG)},
    )


def sessions() -> list[tuple[str, str]]:
    return re.findall(r"```console\n\$ ([^\n]*)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("command", "output"), [one for one in sessions() if one[1]])
def test_sessions_are_real(
    command: str,
    output: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n1.yaml").write_text(MACHINE)
    with serving(state()) as server:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", server.address)))
        ran = numawise(capsys, *command.removeprefix("kubectl ").split()[1:])
    assert ran.out + ran.err == output, command


def test_there_are_sessions() -> None:
    assert len(sessions()) >= 3

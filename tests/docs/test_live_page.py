"""The page about pods of a cluster shows what the commands really print."""

from pathlib import Path

import pytest
from tests.docs.cluster_sessions import sessions, typed
from tests.kube.server import State
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


@pytest.mark.parametrize(("command", "output"), [one for one in sessions(PAGE) if one[1]])
def test_sessions_are_real(
    command: str,
    output: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "n1.yaml").write_text(MACHINE)
    assert typed(command, state(), tmp_path, capsys, monkeypatch) == output


def test_there_are_sessions() -> None:
    assert len(sessions(PAGE)) >= 3

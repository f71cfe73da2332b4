"""What pages show of commands that ask a cluster, typed at a server with the state that the page tells of."""

import re
from pathlib import Path

import pytest
from tests.cli.run import numawise
from tests.kube.server import State, kubeconfig, serving


def sessions(page: str) -> list[tuple[str, str]]:
    """The commands of a page and what they print."""
    return re.findall(r"```console\n\$ ([^\n]*)\n(.*?)```", page, re.DOTALL)


def typed(
    command: str,
    state: State,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """What a command prints, typed in a folder."""
    monkeypatch.chdir(folder)
    with serving(state) as server:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(folder / "config", server.address)))
        ran = numawise(capsys, *command.removeprefix("kubectl ").split()[1:])
    return ran.out + ran.err

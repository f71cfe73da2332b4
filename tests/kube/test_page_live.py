"""``numawise serve --kubeconfig`` in a process of its own: changes of the cluster are told, and then shown."""

import contextlib
import http.client
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests import needs
from tests.kube.server import State, kubeconfig, serving
from tests.unit.cluster.live_objects import api_pod
from tests.unit.cluster.nodes import GPU
from tests.waiting import PATIENCE, until

pytestmark = [needs.PROC, needs.SYS]


class LivePage:
    """The program, and one listener of its events."""

    def __init__(self, folder: Path, server: str) -> None:
        self.log = folder / "log"
        config = kubeconfig(folder / "config", server)
        words = ["serve", "--listen", "127.0.0.1:0", "--machine", "8gpu-server", "--kubeconfig", str(config)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "numawise", *words], stderr=log)
        until(lambda: self.process.poll() is not None or "the page is at" in self.log.read_text(), "a page")
        assert self.process.poll() is None, self.log.read_text()
        self.events = self._ask("events")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.events.close()
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0
        assert '"level": "error"' not in self.log.read_text(), self.log.read_text()

    def _ask(self, path: str) -> http.client.HTTPResponse:
        address = urlsplit(json.loads(self.log.read_text().splitlines()[0])["address"])
        line = http.client.HTTPConnection(str(address.hostname), address.port, timeout=PATIENCE)
        line.request("GET", f"/api/v1/{path}", headers={"Connection": "close"})
        return line.getresponse()

    def get(self, path: str) -> Any:
        with contextlib.closing(self._ask(path)) as answer:
            assert answer.status == 200
            return json.load(answer)

    def told(self, what: str, true: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The board as it is asked for at each word of the cluster, once this is true of it."""
        for line in self.events:
            if line.startswith(b"data:") and json.loads(line[5:])["what"] == "cluster":
                board: dict[str, Any] = self.get("cluster")
                if true(board):
                    return board
        raise AssertionError(f"the events ended before {what}")


def gpus(board: dict[str, Any]) -> dict[str, Any]:
    """Node → free GPUs by NUMA node; None: not known."""
    at = board["resources"].index(GPU)
    return {row["name"]: [numa[at] for numa in row["free"]] for row in board["rows"]}


def test_what_happens_is_told_and_then_shown(state: State, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        server = first.enter_context(serving(state))
        port = server.server_port
        page = stack.enter_context(LivePage(tmp_path, server.address))
        begin = page.told("nodes", lambda board: len(board["rows"]) == 2 and not board["remarks"])
        assert gpus(begin) == {"n1": [0, 4], "n2": [4, 4]}
        state.put_pod(api_pod("b", 2, "n2"))
        page.told("a pod is bound", lambda board: gpus(board)["n2"] == [2, 4])
        state.put_pod(api_pod("wide", 8))
        page.told("a pod waits", lambda board: board["waiting"] == 1)
        (wide,) = page.get("cluster/pods")["pods"]
        assert (wide["name"], wide["state"]) == ("wide", "waiting")
        assert wide["sentence"].startswith("Not scheduled: it can never be admitted as the nodes are")
        state.put_pod(state.pods[1], "DELETED")
        state.put_topology(state.topologies["n2"], "DELETED")
        with state.changed:
            state.happened("nodes", "DELETED", state.nodes.pop("n2"))
        page.told("a node leaves", lambda board: board["names"] == ["n1"])
        first.close()
        gone = re.compile(
            rf"what is shown may be old since [0-9: -]+ UTC: {re.escape(server.address)} cannot be reached: "
            "Connection refused; "
        )
        away = page.told("the server is away", lambda board: gone.match("; ".join(board["remarks"])))
        (remark,) = away["remarks"]
        assert page.get("cluster/nodes/n1")["remarks"] == [remark]
        assert gpus(away) == {"n1": [0, 4]}
        state.put_pod(api_pod("late", 1, "n1"))
        stack.enter_context(serving(state, port=port))
        page.told("it is back", lambda board: not board["remarks"] and gpus(board) == {"n1": [0, 3]})

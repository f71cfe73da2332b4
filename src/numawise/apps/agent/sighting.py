"""A kubelet kept in sight for whichever duties want to know: one reading serves all of them."""

import os
import socket
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from numawise.apps.agent.duty import MetricFamily
from numawise.apps.agent.kubelet_sight import SightSource

NODE_VARIABLE = "NODE_NAME"


class Sighting:
    """The duty that reads; what is missing of a kubelet is said by those who need it."""

    name = "sight"

    def __init__(self, source: SightSource) -> None:
        self.source = source

    async def start(self) -> None:
        """Read for the first time."""
        await self.source.start()

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Read again whenever something happens."""
        return self.source.tasks()

    async def stop(self) -> None:
        """Listen no more."""
        await self.source.stop()

    def missing(self) -> Sequence[str]:
        """Nothing by itself."""
        return ()

    def stuck(self) -> Sequence[str]:
        """Nothing by itself."""
        return ()

    def families(self) -> Sequence[MetricFamily]:
        """None of its own."""
        return ()


def node_name(named: str, environment: Mapping[str, str] = os.environ) -> str:
    """The node's name in the cluster: as named, as a pod is told it, else the host's in lower case."""
    return named or environment.get(NODE_VARIABLE, "") or socket.gethostname().lower()

"""What the agent publishes, followed as it comes, and the node that it describes."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2e.cluster import NODE, TOPOLOGIES, Api

PATIENCE = 600.0


@dataclass(frozen=True)
class Published:
    """An object, and when it came."""

    object: dict[str, Any]
    at: float


class Follower:
    """Watches the object of the node from a thread of its own."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.all: list[Published] = []
        self.news = threading.Condition()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while True:
            try:
                for event in self.api.lines(f"{TOPOLOGIES}?watch=true&fieldSelector=metadata.name%3D{NODE}"):
                    if event.get("type") in ("ADDED", "MODIFIED"):
                        with self.news:
                            self.all.append(Published(event["object"], time.time()))
                            self.news.notify_all()
            except (OSError, ValueError):
                time.sleep(1)

    def wait(self, what: str, shows: Callable[[dict[str, Any]], bool]) -> Published:
        """The newest object, once it shows what it should."""
        judged: Published | None = None
        end = time.monotonic() + PATIENCE
        with self.news:
            while time.monotonic() < end:
                newest = self.all[-1] if self.all else None
                if newest is not None and newest is not judged:
                    judged = newest
                    if shows(newest.object):
                        return newest
                self.news.wait(1)
        raise TimeoutError(f"no object was published that shows {what} within {PATIENCE:.0f} s")

    def first(self, since: float, shows: Callable[[dict[str, Any]], bool]) -> Published | None:
        """The first object after a time that shows something; None: none yet."""
        with self.news:
            return next((one for one in self.all if one.at >= since and shows(one.object)), None)

"""What became of every pod, as the API server told it: when it came, where and when it was bound, how it ended.

Rules kept here:

1. Times are of this machine's monotonic clock, when the news came here.
2. The list is read, then followed; when that ends (a server that was restarted, a version too old), it is read again.
   What happened in between is seen late, but not lost: a pod that is gone then was removed.
3. ``order`` is the server's own: the number of the change at which a pod was bound, its kubelet's verdict was told, and it
   ended.
"""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.cluster import Api

DAEMON = "daemon"
ENDED = ("Succeeded", "Failed")


@dataclass
class PodLine:
    """One pod (one uid)."""

    uid: str
    namespace: str
    name: str
    came: float
    spec: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    node: str = ""
    bound: float = 0.0
    bound_order: int = 0
    started: float = 0.0
    judged_order: int = 0
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    ended: float = 0.0
    ended_order: int = 0
    gone: float = 0.0
    unschedulable: str = ""

    @property
    def refused(self) -> bool:
        """By its kubelet, at admission: it failed and never ran."""
        return self.phase == "Failed" and not self.started

    @property
    def is_daemon(self) -> bool:
        """One of the pods that every node has."""
        return self.name.startswith(f"{DAEMON}-")

    @property
    def waits(self) -> bool:
        """It is there, and no node was found for it."""
        return not self.node and not self.gone and self.phase == "Pending"


class PodBook:
    """Every pod of the cluster, kept from a thread of its own."""

    def __init__(self, api: Api, say: Callable[[PodLine, str], None] = lambda _, __: None) -> None:
        self.api, self.say = api, say
        self.pods: dict[str, PodLine] = {}
        self.lock = threading.RLock()
        self.readings = 0
        self.ending = False
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.ending = True

    def lines(self) -> list[PodLine]:
        with self.lock:
            return list(self.pods.values())

    def count(self, condition: Callable[[PodLine], bool]) -> int:
        with self.lock:
            return sum(map(condition, self.pods.values()))

    def write(self, path: Path) -> None:
        """A line of JSON for each pod, in the order they came."""
        with path.open("w") as file:
            for line in sorted(self.lines(), key=lambda line: line.came):
                file.write(json.dumps(line.__dict__) + "\n")

    def _follow(self) -> None:
        while not self.ending:
            try:
                for kind, item in self._news():
                    with self.lock:
                        self._take(kind, item)
                    if self.ending:
                        return
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.2)

    def _news(self) -> Iterator[tuple[str, dict[str, Any]]]:
        status, listed = self.api.ask("GET", "/api/v1/pods")
        if status != 200:
            raise OSError(f"pods cannot be listed: {status}")
        self.readings += 1
        present = set()
        for item in listed["items"]:
            present.add(item["metadata"]["uid"])
            yield "MODIFIED", item
        with self.lock:
            for line in self.pods.values():
                if line.uid not in present and not line.gone:
                    line.gone = time.monotonic()
        version = listed["metadata"]["resourceVersion"]
        for event in self.api.lines(f"/api/v1/pods?watch=true&resourceVersion={version}"):
            if event.get("type") == "ERROR":
                return
            yield event["type"], event["object"]

    def _take(self, kind: str, item: dict[str, Any]) -> None:
        now, data = time.monotonic(), item["metadata"]
        order = int(data["resourceVersion"])
        line = self.pods.get(data["uid"])
        if line is None:
            labels = data.get("labels") or {}
            line = PodLine(data["uid"], data["namespace"], data["name"], now, item["spec"], labels)
            self.pods[line.uid] = line
            self.say(line, "came")
        status = item.get("status") or {}
        node = item["spec"].get("nodeName", "")
        if node and not line.node:
            line.node, line.bound, line.bound_order = node, now, order
            self.say(line, "bound")
        phase = status.get("phase", line.phase)
        if phase != "Pending" and not line.judged_order:
            line.judged_order = order
        if phase == "Running" and not line.started:
            line.started = now
        for condition in status.get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                line.unschedulable = condition.get("message", "")
        if phase != line.phase:
            line.phase, line.reason, line.message = phase, status.get("reason", ""), status.get("message", "")
            if phase == "Succeeded" and not line.started:
                line.started = now  # it ran between two readings
            if phase in ENDED:
                line.ended, line.ended_order = now, order
            self.say(line, phase)
        if kind == "DELETED" and not line.gone:
            line.gone = now
            if not line.ended:
                line.ended, line.ended_order = now, order
            self.say(line, "gone")

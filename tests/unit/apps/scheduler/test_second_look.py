"""A pod for which no node is left: what is heard in the next moment still counts."""

import asyncio
import io
import json
from typing import Any

from numawise.apps.scheduler.questions import Questions
from numawise.apps.scheduler.web import WebQuestions
from numawise.service.log import ServiceLog
from tests.unit.apps.scheduler.test_questions import asking, bind
from tests.unit.cluster.live_objects import api_pod


class Scheduler:
    """Asks; ``heard`` happens while the extender waits for news."""

    def __init__(self, questions: Questions) -> None:
        self.heard: list[dict[str, Any]] = []
        self.waits: list[float] = []
        self.now = 0.0
        self.questions = questions
        self.web = WebQuestions(
            questions,
            self.capacity,
            lambda: True,
            ServiceLog(io.StringIO(), structured=True),
            self.pause,
            lambda: self.now,
        )

    async def capacity(self, query: list[tuple[str, str]], body: bytes) -> bytes:
        raise AssertionError((query, body))

    async def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        for pod in self.heard:
            self.questions.view.take_pod(pod, 1000.0)

    def filter(self, gpus: int) -> list[str]:
        body = json.dumps({"Pod": api_pod("p", gpus), "NodeNames": ["a"]}).encode()
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "path": "/filter", "method": "POST"}
        asyncio.run(self.web(scope, receive, send))
        return json.loads(sent[1]["body"])["NodeNames"] or []


def full() -> Scheduler:
    questions = asking("a")
    bind(questions, "x", 4, "a")
    bind(questions, "y", 4, "a", version=2)
    return Scheduler(questions)


def test_an_end_that_is_heard_a_moment_later_counts() -> None:
    scheduler = full()
    scheduler.heard = [api_pod("y", 4, "a", 3, phase="Succeeded")]
    assert scheduler.filter(4) == ["a"]
    assert scheduler.questions.counts.no_node == 0


def test_nobody_is_kept_waiting_again_and_again() -> None:
    scheduler = full()
    assert [scheduler.filter(4) for _ in range(3)] == [[], [], []]
    assert len(scheduler.waits) == 1
    assert scheduler.questions.counts.no_node == 3
    scheduler.now = 1.0
    scheduler.filter(4)
    assert len(scheduler.waits) == 2


def test_what_can_never_be_is_said_at_once() -> None:
    scheduler = full()
    assert scheduler.filter(5) == []
    assert not scheduler.waits

"""Requests over HTTP: which path is which question, how large and how slow a request may be.

Rules kept here:

1. ``POST /filter``, ``/prioritize`` and ``/preempt`` are kube-scheduler's; ``GET`` and ``POST /capacity`` are
   for whoever sends jobs.  Nothing that is asked changes the cluster.
2. A body has at most ``LARGEST_BODY`` bytes and ``MOST_VALUES`` values, so that reading it takes less than a
   second, and comes within ``PATIENCE`` seconds.  What is larger is answered with 413 and a sentence.
3. A question that cannot be read is answered with its sentence: of ``filter`` in ``Error``, and status 200,
   which is what the scheduler reads.  A mistake of ours is logged once, counted, and answered as if nothing
   were known: the pod goes on, or is held back, as the settings say.
4. Before the cluster has been read once, a question waits ``FIRST_WAIT`` seconds for that.
5. The scheduler asks again the moment it hears that a pod has ended, which may be before we do; and then not
   until something else happens.  So before "no node" is answered, what was heard meanwhile is looked at:
   ``SETTLING`` seconds later, and not again for ``REST``, because others wait.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl

from numawise.apps.scheduler.questions import NOT_YET, Questions
from numawise.cluster.live import HOLD
from numawise.codec.extender import (
    LARGEST_BODY,
    ExtenderArgs,
    FilterAnswer,
    check_size,
    check_values,
    filter_body,
    preempt_body,
    priority_body,
    read_args,
    read_preemption,
)
from numawise.errors import InputError, NumawiseError
from numawise.render.cluster import shortened
from numawise.service.durations import Durations
from numawise.service.duty import COUNTER, HISTOGRAM, MetricFamily, MetricName
from numawise.service.log import ServiceLog
from numawise.values import dataclass

MOST_TAKEN = 64 << 20
"""Bytes of a question that is too large which are taken, and forgotten, so that its answer is heard."""
PATIENCE, FIRST_WAIT, LOOK = 5.0, 2.0, 0.02
SETTLING, REST = 0.02, 0.1
FILTER, PRIORITIZE, PREEMPT, CAPACITY = "filter", "prioritize", "preempt", "capacity"
VERBS = (FILTER, PRIORITIZE, PREEMPT, CAPACITY)
OURS, BAD, FAILED = "answered", "unreadable", "failed"
JSON = b"application/json"
OOPS = "numawise made a mistake; its log says more"
REQUESTS = MetricName("numawise_scheduler_requests", COUNTER, "Questions, by verb and by how they ended.")
SECONDS = MetricName("numawise_scheduler_seconds", HISTOGRAM, "Seconds to answer a question, by verb.")
Capacity = Callable[[list[tuple[str, str]], bytes], Awaitable[bytes]]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """What goes back."""

    status: int
    body: bytes
    ended: str = OURS


class WebQuestions:
    """An application of uvicorn's kind (ASGI)."""

    def __init__(
        self,
        questions: Questions,
        capacity: Capacity,
        synced: Callable[[], bool],
        log: ServiceLog,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.questions, self.capacity, self.synced, self.log = questions, capacity, synced, log
        self._pause, self._clock = pause, clock
        self._looked = float("-inf")
        """When a second look was last taken."""
        self._requests = {(verb, end): 0 for verb in VERBS for end in (OURS, BAD, FAILED)}
        self._seconds = Durations(SECONDS, "verb", VERBS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        begin = time.monotonic()
        verb = scope["path"].strip("/")
        answer = await self._answer(scope, verb, receive)
        if verb in VERBS and answer.status != 405:
            self._requests[verb, answer.ended] += 1
            self._seconds.took(verb, time.monotonic() - begin)
        headers = [(b"content-type", JSON), (b"content-length", str(len(answer.body)).encode())]
        if answer.status in (408, 413):
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        if verb == PRIORITIZE and answer.ended == OURS:
            self._prepare()

    def _prepare(self) -> None:
        try:
            self.questions.prepare()
        except Exception as problem:  # noqa: BLE001 - rule 3; the next question meets it, and answers
            self.log.mistake("prepare", problem)

    async def _answer(self, scope: Scope, verb: str, receive: Receive) -> WebAnswer:
        method = scope["method"]
        if verb not in VERBS:
            return _plain(404, f"there are /{', /'.join(VERBS)}")
        if method != "POST" and not (verb == CAPACITY and method == "GET"):
            return _plain(405, "ask with POST")
        try:
            body = await _body(receive)
            check_values(body)
        except InputError as problem:
            return WebAnswer(413, _error(verb, str(problem)), BAD)
        except TimeoutError:
            words = f"the question did not come within {PATIENCE:.0f} seconds"
            return WebAnswer(408, _error(verb, words), BAD)
        try:
            return await self._decided(scope, verb, body)
        except InputError as problem:
            return WebAnswer(200 if verb == FILTER else 400, _error(verb, str(problem)), BAD)
        except NumawiseError as problem:
            return WebAnswer(503, _error(verb, str(problem)), FAILED)
        except Exception as problem:  # noqa: BLE001 - rule 3
            self.log.mistake(verb, problem)
            return WebAnswer(*self._nothing_known(verb, body), FAILED)

    async def _decided(self, scope: Scope, verb: str, body: bytes) -> WebAnswer:
        questions = self.questions
        if verb == CAPACITY:
            if not await self._ready():
                raise NumawiseError(NOT_YET)
            query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), max_num_fields=100)
            return WebAnswer(200, await self.capacity(query, body))
        if verb == PREEMPT:
            victims = read_preemption(body)
            return WebAnswer(200, preempt_body(questions.preempt(victims, synced=await self._ready())))
        args = read_args(body)
        ready = await self._ready()
        if verb == FILTER:
            return WebAnswer(200, filter_body(await self._filtered(args, ready=ready), args))
        return WebAnswer(200, priority_body(questions.prioritize(args, synced=ready)))

    async def _filtered(self, args: ExtenderArgs, *, ready: bool) -> FilterAnswer:
        """Which nodes are left; none only after a second look (rule 5)."""
        since = self.questions.view.changes
        answer = self.questions.filter(args, synced=ready)
        if answer.names or not answer.failed or not ready or self._clock() - self._looked < REST:
            return answer
        await self._pause(SETTLING)
        self._looked = self._clock()
        return self.questions.filter_again(args, since) or answer

    async def _ready(self) -> bool:
        """Whether the cluster has been read once (rule 4)."""
        end = time.monotonic() + FIRST_WAIT
        while not self.synced():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(LOOK)
        return True

    def _nothing_known(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """Rule 3."""
        if verb == CAPACITY:
            return 500, _error(verb, OOPS)
        if verb == PREEMPT:
            return 200, preempt_body(read_preemption(body).victims)
        args = read_args(body)
        if verb == PRIORITIZE:
            return 200, priority_body(dict.fromkeys(args.names, 0))
        if self.questions.settings.unreadable == HOLD:
            return 200, filter_body(FilterAnswer((), dict.fromkeys(args.names, OOPS)), args)
        return 200, filter_body(FilterAnswer(args.names), args)

    def families(self) -> Iterable[MetricFamily]:
        """How many questions there were, and how long they took."""
        rows = [({"verb": verb, "ended": end}, count) for (verb, end), count in self._requests.items()]
        return REQUESTS.of(*rows), self._seconds.family()


async def _body(receive: Receive) -> bytes:
    """Rule 2."""
    parts: list[bytes] = []
    size = 0
    async with asyncio.timeout(PATIENCE):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise InputError("the question was cut short")
            part = message.get("body", b"")
            size += len(part)
            if size > LARGEST_BODY:  # the sender hears of it when it has sent all
                parts.clear()
            else:
                parts.append(part)
            if not message.get("more_body") or size > MOST_TAKEN:
                check_size(size)
                return b"".join(parts)


def _error(verb: str, words: str) -> bytes:
    """A sentence, in the form in which the verb answers."""
    if verb == FILTER:
        return filter_body(FilterAnswer((), error=shortened(words)))
    return json.dumps({"error": shortened(words)}).encode()


def _plain(status: int, words: str) -> WebAnswer:
    return WebAnswer(status, json.dumps({"error": words}).encode(), BAD)

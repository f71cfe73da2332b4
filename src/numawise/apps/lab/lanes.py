"""Requests to the API server in lanes: a bounded number at a time, in order for each object, until done.

Rules kept here:

1. What is asked of one object is done one after the other.  While something waits, what comes for the same
   object takes its place or is joined to it, as ``join`` says: nothing piles up.
2. What fails is tried again after ``kube.following.back_off``, what is refused after ``REFUSED_WAIT``; the
   sentence is said once.  What others did meanwhile (``ApiConflict``) is not done over.
3. Requests block; each lane has threads of its own, so that heartbeats never wait for pods.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from numawise.errors import NumawiseError
from numawise.kube.client import ApiConflict, ApiRefused
from numawise.kube.following import back_off
from numawise.service.log import INFO, WARNING, ServiceLog

REFUSED_WAIT = 15.0
DONE, FAILED, DROPPED = "ok", "failed", "conflict"
Job = TypeVar("Job")


class Lane(Generic[Job]):
    """One lane."""

    def __init__(
        self,
        name: str,
        width: int,
        carry_out: Callable[[Job], None],
        log: ServiceLog,
        join: Callable[[Job, Job], Job] = lambda _, job: job,
    ) -> None:
        self.name, self.width, self.log = name, width, log
        self.counts: Counter[str] = Counter()
        self.problem = ""
        self._carry_out, self._join = carry_out, join
        self._waiting: dict[str, Job] = {}
        self._order: deque[str] = deque()
        self._busy: set[str] = set()
        self._news = asyncio.Semaphore(0)
        self._idle = asyncio.Event()
        self._idle.set()
        self._pool = ThreadPoolExecutor(width, thread_name_prefix=name)

    def put(self, key: str, job: Job) -> None:
        """Something is to be done of an object (rule 1)."""
        before = self._waiting.get(key)
        self._waiting[key] = job if before is None else self._join(before, job)
        self._idle.clear()
        if before is None and key not in self._busy:
            self._order.append(key)
            self._news.release()

    @property
    def length(self) -> int:
        """How much waits."""
        return len(self._waiting) + len(self._busy)

    async def empty(self) -> None:
        """Wait until everything is done."""
        await self._idle.wait()

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Work for ever."""
        return [self._work() for _ in range(self.width)]

    def stop(self) -> None:
        """Nothing more is begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            await self._news.acquire()
            key = self._order.popleft()
            job = self._waiting.pop(key)
            self._busy.add(key)
            wait = 0.0
            try:
                await loop.run_in_executor(self._pool, self._carry_out, job)
            except ApiConflict:
                self.counts[DROPPED] += 1
            except NumawiseError as problem:
                failures += 1
                self.counts[FAILED] += 1
                self.problem = str(problem)
                self.log.once(self.name, WARNING, f"{self.name}: {problem}")
                later = self._waiting.get(key)
                self._waiting[key] = job if later is None else self._join(job, later)
                wait = REFUSED_WAIT if isinstance(problem, ApiRefused) else back_off(failures)
            else:
                self.counts[DONE] += 1
                if self.problem:
                    self.log.say(INFO, f"{self.name}: goes on")
                    self.log.forget(self.name)
                failures, self.problem = 0, ""
            if wait:
                await asyncio.sleep(wait)
            self._busy.discard(key)
            if key in self._waiting:
                self._order.append(key)
                self._news.release()
            elif not self._waiting and not self._busy:
                self._idle.set()

"""Drift in words: for the log, and as Kubernetes Events on the pod.

Rules kept here:

1. The words are those of the finding, which ``verify`` and ``why`` use.  An Event has room for 1,024
   characters.
2. Events are few: a drift by the rules of ``drift_book``, and no more than ``MOST`` in ``PERIOD`` seconds
   from this node, whatever happens.  What is held back stands in the log and in the metrics.
3. Nobody waits for an API server: Events stand in a line.  One that does not answer is tried again for half
   an hour, one that refuses is not; either is said once, and changes nothing else.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Protocol

from numawise.apps.agent.drift_book import DriftChange, DriftKey
from numawise.apps.agent.repairing import FAILED, WRITTEN, Repair
from numawise.apps.agent.sight_values import KubeletSight
from numawise.codec.document import mapping
from numawise.errors import NumawiseError
from numawise.explain.drift import CLAIM_FAR, CPUSET_CHANGED, DEVICE_FAR, MEMS_CHANGED, RECORDS_DIFFER
from numawise.explain.placement import MEMORY_REMOTE
from numawise.explain.pod_check import ContainerCheck
from numawise.kube.client import ApiRefused
from numawise.kube.events import NORMAL, WARNING_EVENT
from numawise.render.words import clean
from numawise.results.finding import Finding
from numawise.service.log import INFO, WARNING, ServiceLog
from numawise.values import dataclass

MOST, PERIOD = 60, 600.0
LONGEST, LONGEST_LINE = 1024, 100
FIRST_PAUSE, LONGEST_PAUSE, TRIED = 2.0, 60.0, 1800.0
"""Seconds between attempts to send an Event, and after which it is given up."""
SENT, HELD, LOST = "sent", "held back", "failed"
REASONS = {
    CPUSET_CHANGED: "CpusetChanged",
    MEMS_CHANGED: "MemoryNodesChanged",
    MEMORY_REMOTE: "MemoryRemote",
    DEVICE_FAR: "DeviceFar",
    CLAIM_FAR: "ClaimFar",
    RECORDS_DIFFER: "RecordsDiffer",
}
"""Kind of drift → reason of its Event."""
STATE_REASON, REPAIRED, NOT_REPAIRED = "StateFilesWrong", "CpusetRepaired", "CpusetNotRepaired"


class EventSink(Protocol):
    """Whoever sends Events to an API server."""

    async def event(self, about: Mapping[str, str], *, kind: str, reason: str, message: str) -> bool:
        """Send one; ``about``: kind, namespace, name and uid.  Whether it was sent, or is one too many.

        ``ClusterError``: it was not taken.
        """
        ...


class DriftReports:
    """Says what has drifted, and what came of it."""

    def __init__(
        self,
        log: ServiceLog,
        sink: EventSink | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``sink``: None where there is no API server to tell."""
        self.log, self.sink, self.clock = log, sink, clock
        self.counts: Counter[str] = Counter({SENT: 0, HELD: 0, LOST: 0})
        self._times: deque[float] = deque(maxlen=MOST)
        self._line: deque[_Waiting] = deque()
        self._woken = asyncio.Event()

    def risen(self, change: DriftChange, check: ContainerCheck | None, sight: KubeletSight) -> None:
        """A drift is news."""
        finding = change.finding
        self.log.say(
            WARNING,
            f"{_called(change.key, check)}: {clean(finding.message)}",
            kind=finding.code,
            why=clean(finding.why),
            todo=finding.fix,
        )
        if change.quiet:
            self.counts[HELD] += 1
            return
        reason = REASONS.get(finding.code, STATE_REASON)
        self._send(check, sight, WARNING_EVENT, reason, sentence(finding))

    def gone(self, change: DriftChange, check: ContainerCheck | None) -> None:
        """A drift has gone."""
        text = f"{_called(change.key, check)}: no longer: {clean(change.finding.message)}"
        self.log.say(INFO, text, kind=change.finding.code)

    def repaired(self, key: DriftKey, check: ContainerCheck, repair: Repair, sight: KubeletSight) -> None:
        """Something was written back, or was not."""
        text = f"{check.grant.name}: {repair.text}"
        if repair.outcome == WRITTEN:
            self.log.say(INFO, text, kind=key.code)
            self.log.forget(f"repair {check.id}")
            message = f"container {check.grant.container}: {repair.text}"
            self._send(check, sight, NORMAL, REPAIRED, message)
            return
        self.log.once(f"repair {check.id}", WARNING, text, kind=key.code)
        if repair.outcome == FAILED:
            message = f"container {check.grant.container}: {repair.text}"
            self._send(check, sight, WARNING_EVENT, NOT_REPAIRED, message)

    def forget(self, id_: str) -> None:
        """A container is gone, and with it what was said of its repair."""
        self.log.forget(f"repair {id_}")

    def _send(
        self, check: ContainerCheck | None, sight: KubeletSight, kind: str, reason: str, message: str
    ) -> None:
        """Put an Event in the line of those that are sent (rules 2 and 3)."""
        if self.sink is None:
            return
        now = self.clock()
        often = len(self._times) == MOST and now - self._times[0] < PERIOD
        if often or len(self._line) >= LONGEST_LINE:
            self.counts[HELD] += 1
            self.log.once(
                "events", WARNING, f"more than {MOST} Events in {PERIOD:.0f} seconds; the rest is here"
            )
            return
        self._times.append(now)
        self._line.append(_Waiting(about(check, sight), kind, reason, message[:LONGEST], now))
        self._woken.set()

    async def deliver(self) -> None:
        """Send what is in the line, for ever; what a server did not take is tried again (rule 3)."""
        pause = FIRST_PAUSE
        while True:
            if not self._line:
                self._woken.clear()
                await self._woken.wait()
            if await self.drain():
                pause = FIRST_PAUSE
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def drain(self) -> bool:
        """Send what is in the line now; whether all of it is done with."""
        while self._line and self.sink is not None:
            one = self._line[0]
            try:
                sent = await self.sink.event(one.about, kind=one.kind, reason=one.reason, message=one.message)
            except NumawiseError as problem:
                self.log.once("event", WARNING, f"no Event could be sent: {problem}")
                if not isinstance(problem, ApiRefused) and self.clock() - one.since < TRIED:
                    return False
                self.counts[LOST] += 1
            else:
                self.counts[SENT if sent else HELD] += 1
                self.log.forget("event")
            self._line.popleft()
        return True


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An Event in the line."""

    about: Mapping[str, str]
    kind: str
    reason: str
    message: str
    since: float


def sentence(finding: Finding) -> str:
    """A finding as one text: what is wrong, why, and what to do."""
    parts = [clean(finding.message), clean(finding.why), f"To do: {finding.fix}" if finding.fix else ""]
    text = ". ".join(part for part in parts if part)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def about(check: ContainerCheck | None, sight: KubeletSight) -> dict[str, str]:
    """The object that an Event is about: the pod as the API server knows it, else the node."""
    if check is None:
        return {"kind": "Node", "namespace": "", "name": sight.name, "uid": sight.name}
    grant = check.grant
    uid = grant.uid
    for pod in sight.pods or ():
        metadata = mapping(pod.get("metadata"))
        if (metadata.get("namespace"), metadata.get("name")) == (grant.namespace, grant.pod):
            uid = str(metadata.get("uid") or uid)  # that of a static pod's mirror
    return {"kind": "Pod", "namespace": grant.namespace, "name": grant.pod, "uid": uid}


def _called(key: DriftKey, check: ContainerCheck | None) -> str:
    if check is not None:
        return check.grant.name
    return f"{key.uid[:8]}/{key.container}" if key.uid else "state files"

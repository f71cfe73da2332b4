"""The node's state at the API server: the duty behind ``--export``.

Rules kept here:

1. The newest sight is published, and only where it differs from what the server has.  While the server is
   gone, newer ones take its place: nothing is queued, nothing is lost.
2. A failed attempt is made again after ``kube.following.back_off``, a refused one after ``REFUSED_WAIT``; the
   sentence is said once.
3. Once in ``VERIFY`` seconds the object's version is compared: what somebody deleted or changed is put right,
   unless another program owns it, which is said (``--force-ownership`` takes it over).
4. Two agents of one node see the same kubelet and make the same object.  One that finds the other's object
   says so, and leaves it where it says the same; where it differs for ``DISPUTE`` seconds, the newest reading
   is published.
5. The condition follows each publication; an Event is sent when it changes.  One that we may not write is
   said, and holds nothing else up.  The start-up taint is removed once, after the first complete object.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from numawise.apps.agent.kubelet_sight import SightSource
from numawise.apps.agent.published_object import CONDITION, INSTANCE, condition_of, published_object
from numawise.apps.agent.sight_values import KubeletSight
from numawise.codec.document import mapping
from numawise.codec.fingerprint import ALL
from numawise.errors import ClusterError, NumawiseError
from numawise.kube.client import ApiConflict, ApiRefused, Object
from numawise.kube.events import NORMAL, WARNING_EVENT, ObjectReference
from numawise.kube.following import back_off
from numawise.kube.writer import ClusterWriter, NodeCondition, NoDefinition, OtherOwner
from numawise.service.duty import COUNTER, GAUGE, MetricFamily, MetricName
from numawise.service.log import INFO, WARNING, ServiceLog
from numawise.service.turns import Turns
from numawise.values import dataclass

VERIFY, REFUSED_WAIT, DISPUTE = 60.0, 15.0, 2.0
LONGEST_ATTEMPT = 120.0
"""Seconds that an attempt may take: some requests, each with its patience."""
LOOP = "publishing"
COMPARED = ("zones", "attributes", "topologyPolicies")
DONE, FAILED = "ok", "failed"
PUBLICATIONS = MetricName("numawise_export_publications", COUNTER, "Publications of the node, by outcome.")
COMPLETE = MetricName("numawise_export_complete", GAUGE, "1: nothing is missing of what is published.")
PUBLISHED_AT = MetricName(
    "numawise_export_published_timestamp_seconds", GAUGE, "When the node was last published, or verified."
)
READINGS = MetricName("numawise_export_readings", COUNTER, "Readings of the kubelet.")
EXPORT_METRICS = (PUBLICATIONS, COMPLETE, PUBLISHED_AT, READINGS)
Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """How the node is published."""

    node: str
    method: str = ALL
    """Of the pods' fingerprint."""
    startup_taint: str = ""
    force: bool = False
    """Take the object from another owner."""


class Disputed(ClusterError):
    """Another agent published something else."""


class TopologyExport:
    """Publishes what is in sight."""

    name = "export"

    def __init__(
        self,
        plan: ExportPlan,
        source: SightSource,
        writer: ClusterWriter,
        log: ServiceLog,
        *,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self.plan, self.source, self.writer, self.log = plan, source, writer, log
        self.turns = Turns()
        self.counts: Counter[str] = Counter()
        self.problem = "nothing was published yet"
        self.published_at = 0.0
        self._pause = pause
        self._sight: KubeletSight | None = None
        self._news = asyncio.Event()
        self._last: Mapping[str, Any] | None = None
        self._version = ""
        self._disputed = 0.0
        self._condition: NodeCondition | None = None
        self._status = ""
        self._told: tuple[str, str] | None = None
        self._taint_done = not plan.startup_taint

    async def start(self) -> None:
        """Wait for sights."""
        self.source.subscribe(self._seen)

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Publish for ever."""
        return [self._go_on()]

    async def stop(self) -> None:
        """What was published stays."""

    def missing(self) -> Sequence[str]:
        """Why the newest sight is not published."""
        return [self.problem] if self.problem else []

    def stuck(self) -> Sequence[str]:
        """Publishing that does not go on."""
        return self.turns.late()

    def families(self) -> Sequence[MetricFamily]:
        """What was published."""
        sight = self._sight
        return (
            PUBLICATIONS.of(*(({"outcome": one}, self.counts[one]) for one in (DONE, FAILED))),
            COMPLETE.of(({}, int(sight is not None and sight.complete and not self.problem))),
            PUBLISHED_AT.of(({}, self.published_at)),
            READINGS.of(({}, self.source.readings)),
        )

    # --- when -----------------------------------------------------------------------------------

    def _seen(self, sight: KubeletSight) -> None:
        self._sight = sight
        self._news.set()

    async def _go_on(self) -> None:
        failures = 0
        while True:
            self.turns.turn(LOOP, VERIFY + LONGEST_ATTEMPT)
            verify = not await self._wait(VERIFY)
            sight = self._sight
            if sight is None:
                continue
            self._news.clear()
            try:
                await asyncio.to_thread(self.publish, sight, verify=verify)
            except NumawiseError as problem:
                failures += 1
                self.counts[FAILED] += 1
                self.problem = str(problem)
                self.log.once(self.name, WARNING, f"not published: {problem}")
                self._news.set()
                refused = isinstance(problem, ApiRefused | NoDefinition | OtherOwner)
                wait = DISPUTE if isinstance(problem, Disputed) else back_off(failures)
                await self._pause(REFUSED_WAIT if refused else wait)
                continue
            if failures:
                self.log.say(INFO, "published again")
                self.log.forget(self.name)
            failures, self.problem = 0, ""

    async def _wait(self, longest: float) -> bool:
        """Until there is news, at most so long; whether there was."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._news.wait()
                return True
        return False

    # --- one attempt ------------------------------------------------------------------------------

    def publish(self, sight: KubeletSight, *, verify: bool = False) -> None:
        """Bring the server up to date; blocks.  ``verify``: see whether somebody else changed it (rule 3)."""
        if verify and self._last is not None and self.writer.topology_version() != self._version:
            self._last = None
        value = published_object(sight, self.plan.method, self.writer.instance)
        try:
            if value is not None and value != self._last:
                self._apply(value)
                self._last = value
                self.counts[DONE] += 1
                self.log.once("published", INFO, "published" if sight.complete else "published what is known")
            self.published_at = self.writer.clock()
        except (ApiRefused, NoDefinition, OtherOwner) as refusal:
            with contextlib.suppress(ClusterError):
                self._say(condition_of(sight, str(refusal)), sight)
            raise
        try:
            self._say(condition_of(sight), sight)
            self.log.forget(CONDITION)
        except ApiRefused as refusal:  # what matters most is published; it is tried again with the next one
            self.log.once(CONDITION, WARNING, f"published, but the node's condition is not: {refusal}")
        if not self._taint_done and sight.complete and value is not None:
            self._untaint()

    def _apply(self, value: Mapping[str, Any]) -> None:
        try:
            answer = self.writer.apply_topology(value, self._version, force=self.plan.force)
        except OtherOwner:
            self._version = ""
            raise
        except ApiConflict:
            answer = self._settled(value)
        self._version = str(mapping(answer.get("metadata")).get("resourceVersion") or "")
        self._disputed = 0.0

    def _settled(self, value: Mapping[str, Any]) -> Object:
        """The object after somebody else changed it (rule 4)."""
        now = self.writer.topology()
        self._version = ""
        if now is None:
            return self.writer.apply_topology(value, force=self.plan.force)
        metadata = mapping(now.get("metadata"))
        who = mapping(metadata.get("annotations")).get(INSTANCE)
        if who and who != self.writer.instance:
            text = f"another agent ({who}) publishes node {self.plan.node} as well; end one of the two"
            self.log.once("another", WARNING, text)
        if all(now.get(name) == value.get(name) for name in COMPARED):
            return now
        if who and who != self.writer.instance:
            if not self._disputed:
                self._disputed = self.writer.clock()
            if self.writer.clock() - self._disputed < DISPUTE:
                raise Disputed(f"another agent ({who}) published something else of node {self.plan.node}")
        version = str(metadata.get("resourceVersion") or "")
        return self.writer.apply_topology(value, version, force=self.plan.force)

    def _say(self, condition: NodeCondition, sight: KubeletSight) -> None:
        """Set the node's condition, and tell of a change (rule 5)."""
        if condition == self._condition:
            return
        known = self._status or _known_status(sight.object)
        self.writer.set_condition(condition, changed=known != condition.status)
        first = self._condition is None
        self._condition, self._status = condition, condition.status
        told = (condition.status, condition.reason)
        if told == self._told or (first and condition.status == "True" == known):
            self._told = told
            return
        self._told = told
        metadata = mapping(mapping(sight.object).get("metadata"))
        about = ObjectReference("Node", self.plan.node, uid=str(metadata.get("uid") or self.plan.node))
        kind = NORMAL if condition.status == "True" else WARNING_EVENT
        self.writer.events.tell(about, condition.reason, condition.message, kind, "Publish")

    def _untaint(self) -> None:
        removed = self.writer.remove_taint(self.plan.startup_taint)
        self._taint_done = True
        if removed:
            self.log.say(INFO, "the node's start-up taint is removed", taint=self.plan.startup_taint)


def _known_status(node: Mapping[str, Any] | None) -> str:
    """What the condition said before this agent started."""
    conditions = mapping(mapping(node).get("status")).get("conditions")
    own = (
        [one for one in conditions if mapping(one).get("type") == CONDITION]
        if isinstance(conditions, list)
        else []
    )
    return str(own[0].get("status")) if own else ""

"""The healer from start to stop: what it follows, when it turns, and who of several acts.

Rules kept here:

1. Two short lists are followed beside the cluster as a whole: pods that failed, and pods without a node.
   What happens to them wakes the healer at once, because an owner makes ten pods a second.
2. A dry run writes nothing, not even a Lease.  With ``apply`` the Lease decides; it is given back at the end.
3. ``--once``: everything is read, turns are made until nothing is left to do, every owner that is in trouble
   is explained.  A list that cannot be read ends it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from numawise.apps.heal.audit import AuditLog
from numawise.apps.heal.changing import HealWriter
from numawise.apps.heal.healer import Healer
from numawise.apps.heal.judging import LiveJudge
from numawise.apps.heal.rights import LEASE
from numawise.apps.heal.terms import HealRules
from numawise.cluster.live import HOLD, LiveSettings
from numawise.codec.kubeconfig import ClusterAccess
from numawise.codec.objects import unmanaged
from numawise.errors import ClusterError
from numawise.inputs.live import LiveFeed, never
from numawise.kube.calls import send
from numawise.kube.client import PODS, Cluster, Object
from numawise.kube.events import EventWriter
from numawise.kube.following import Change, FollowedObjects
from numawise.kube.lease import RENEWED, LeaseKeeper
from numawise.service.attending import ServicePages, attend
from numawise.service.duty import COUNTER, GAUGE, INFO_METRIC, Duty, MetricFamily, MetricName
from numawise.service.log import INFO, ServiceLog
from numawise.service.turns import Turns
from numawise.values import dataclass

PROGRAM = "numawise-heal"
PAUSE = 1.0
"""Seconds between turns when nothing happens."""
FIRST_ANSWER = 3.0
LONGEST_READ = 60.0
HEAL = MetricName("numawise_heal", INFO_METRIC, "The healer and its version.")
REFUSED = MetricName("numawise_heal_refused_pods", COUNTER, "Pods that kubelets refused, by reason.")
HOLDS = MetricName("numawise_heal_holds", GAUGE, "Owners whose new pods wait.")
WAITING = MetricName("numawise_heal_waiting_pods", GAUGE, "Pods that wait behind the gate.")
LONGEST = MetricName("numawise_heal_longest_hold_seconds", GAUGE, "How long the oldest hold has lasted.")
UNHELD = MetricName("numawise_heal_unheld_owners", COUNTER, "Owners not held because too many are.")
STRANDED = MetricName(
    "numawise_heal_stranded_pods", GAUGE, "Pods let go to nodes that have no room any more."
)
CHANGES = MetricName("numawise_heal_changes", COUNTER, "Lines of the audit log, by action and outcome.")
LEADING = MetricName("numawise_heal_leading", GAUGE, "1 while this healer is the one that acts.")
POLICY_THERE = MetricName("numawise_heal_policy", GAUGE, "1 while the policy that holds pods is there.")
HEAL_METRICS = (HEAL, REFUSED, HOLDS, WAITING, LONGEST, STRANDED, UNHELD, CHANGES, LEADING, POLICY_THERE)


@dataclass(frozen=True, slots=True)
class HealPlan:
    """What a healer is going to do."""

    access: ClusterAccess
    rules: HealRules
    namespace: str
    """Its own: of the Lease and the list of holds."""
    instance: str
    """Which healer this is."""
    audit: str = ""
    """The file of the audit log; '': the program's log."""
    listen: tuple[str, int] | None = None


def run(plan: HealPlan, log: ServiceLog) -> int:
    """Heal until a signal ends it."""
    attend(lambda: duties_of(plan, log), ServicePages(HEAL, plan.listen), log)
    return 0


def duties_of(plan: HealPlan, log: ServiceLog) -> Sequence[Duty]:
    """The duties of a plan, not yet started."""
    feed = LiveFeed(plan.access, log, LiveSettings(unpublished=HOLD))
    return feed, Healing(plan, feed, log)


def run_once(plan: HealPlan, log: ServiceLog) -> int:
    """What is to be done now (rule 3); 1 when some pod was refused."""
    return asyncio.run(_once(plan, log))


async def _once(plan: HealPlan, log: ServiceLog) -> int:
    feed = LiveFeed(plan.access, log, LiveSettings(unpublished=HOLD))
    healing = Healing(plan, feed, log)
    try:
        first = {"limit": "1"}  # what is wrong with the server is said once, and not by each list
        await asyncio.to_thread(send, healing.cluster, "GET", PODS, "list pods", params=first)
        await feed.start()
        await healing.start()
        end = time.monotonic() + LONGEST_READ
        while missing := [*feed.missing(), *healing.missing()]:
            if problem := feed.problem or healing.problem:
                raise ClusterError(problem)
            if time.monotonic() >= end:
                raise ClusterError(missing[0])
            await asyncio.sleep(0.05)
        healer = healing.healer
        if healing.lease is not None and not await asyncio.to_thread(healing.lease.turn):
            holder = healing.lease.election.holder
            problem = healing.lease.problem or f"{holder or 'another healer'} leads"
            raise ClusterError(problem, "stop it first, or leave the work to it")
        while True:
            await asyncio.to_thread(healer.turn)
            while await asyncio.to_thread(healer.explain_next):
                pass
            if healer.problem:
                raise ClusterError(healer.problem)
            if not healer.more:
                return 1 if healer.refused else 0
            if healing.lease is not None:
                await asyncio.to_thread(healing.lease.turn)
    finally:
        await healing.stop()
        await feed.stop()


class Healing:
    """The duty: follows, turns, leads and explains."""

    name = "heal"

    def __init__(
        self, plan: HealPlan, feed: LiveFeed, log: ServiceLog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.plan, self.log, self.turns = plan, log, Turns()
        self.cluster = Cluster(plan.access)
        self.audit = AuditLog(plan.audit, log, plan.instance)
        apply = plan.rules.apply
        own = (plan.namespace, LEASE, plan.instance)
        self.lease = LeaseKeeper(Cluster(plan.access), *own, clock) if apply else None
        events = EventWriter(Cluster(plan.access), PROGRAM, plan.instance) if apply else None
        self.healer = Healer(
            plan.rules,
            HealWriter(self.cluster, plan.namespace, self.audit),
            LiveJudge(feed),
            events,
            log,
            self.lease.leads if self.lease is not None else lambda: True,
            clock,
        )
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._first = True
        feed.subscribe(self._heard)
        failed, unbound = "status.phase=Failed", "spec.nodeName=,status.phase=Pending"
        self._followed = tuple(
            FollowedObjects(
                Cluster(plan.access),
                PODS,
                "list pods",
                {"fieldSelector": selector},
                self._said,
                never,
                took=took,
                slim=unmanaged,
            )
            for selector, took in ((failed, self._failed), (unbound, self._unbound))
        )

    # --- a duty ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to follow."""
        self._loop = asyncio.get_running_loop()
        for followed in self._followed:
            followed.start()
        for followed in self._followed:
            await asyncio.to_thread(followed.wait, FIRST_ANSWER)
        if not self.plan.rules.apply:
            self.log.say(INFO, "a dry run: nothing is changed without --apply")

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What goes on for ever."""
        return (self._work(), self._explain(), *((self._lead(),) if self.lease is not None else ()))

    async def stop(self) -> None:
        """Give the Lease back."""
        for followed in self._followed:
            followed.stop()
        if self.lease is not None:
            with contextlib.suppress(ClusterError):
                await asyncio.to_thread(self.lease.release)
        self.audit.close()

    def missing(self) -> Sequence[str]:
        """What is not ready."""
        lines = [one.problem or "pods are not read yet" for one in self._followed if not one.synced]
        if self.lease is not None and self.lease.problem:
            lines.append(self.lease.problem)
        return (*lines, *((self.healer.problem,) if self.healer.problem else ()))

    @property
    def problem(self) -> str:
        """Why a list cannot be read; '': all were, or are not answered yet."""
        return next((one.problem for one in self._followed if one.problem), "")

    def stuck(self) -> Sequence[str]:
        """Loops that do not go on."""
        return self.turns.late()

    def families(self) -> Sequence[MetricFamily]:
        """Its metrics."""
        healer = self.healer
        return (
            REFUSED.of(*(({"reason": reason}, n) for reason, n in sorted(healer.counts.refused.items()))),
            HOLDS.of(({}, len(healer.book.holds))),
            WAITING.of(({}, healer.counts.waiting)),
            LONGEST.of(({}, round(healer.counts.longest, 1))),
            STRANDED.of(({}, healer.stranded.count)),
            UNHELD.of(({}, healer.book.overfull)),
            CHANGES.of(
                *(
                    ({"action": action, "outcome": outcome}, n)
                    for (action, outcome), n in sorted(self.audit.counts.items())
                )
            ),
            LEADING.of(({}, int(self.lease is not None and self.lease.leads()))),
            POLICY_THERE.of(({}, int(not healer.policy_problem))),
        )

    # --- inside ---------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            self.turns.turn("heal", PAUSE)
            self._wake.clear()
            await asyncio.to_thread(self.healer.turn)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE):
                    await self._wake.wait()

    async def _explain(self) -> None:
        while True:
            self.turns.turn("explain", PAUSE)
            if not await asyncio.to_thread(self.healer.explain_next):
                await asyncio.sleep(PAUSE / 5)

    async def _lead(self) -> None:
        lease = self.lease
        assert lease is not None
        led = False
        while True:
            self.turns.turn("lease", RENEWED)
            leads = await asyncio.to_thread(lease.turn)
            if leads != led:
                led = leads
                self.log.say(INFO, "leads" if leads else "leads no longer")
                self._wake.set()
            await asyncio.sleep(RENEWED)

    def _failed(self, changes: Sequence[Change]) -> None:
        first, self._first = self._first, False
        news = [self.healer.failed_changed(before, after, first=first) for before, after in changes]
        self._woken(any(news))

    def _unbound(self, changes: Sequence[Change]) -> None:
        news = [self.healer.unbound_changed(before, after) for before, after in changes]
        self._woken(any(news))

    def _heard(self, kind: str, _: Object | None, __: Object | None) -> None:
        """A node, or what it publishes, changed: somebody who waits may go."""
        self._woken(kind != "Pod" and self.healer.counts.waiting > 0)

    def _woken(self, news: bool) -> None:  # noqa: FBT001 - what a caller has just worked out
        if news and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake.set)

    def _said(self) -> None:
        for followed in self._followed:
            if followed.problem:
                self.log.once(f"heal {followed.params}", "warning", followed.problem)

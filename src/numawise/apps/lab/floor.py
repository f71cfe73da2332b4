"""All virtual nodes of a lab together: the duty behind ``numawise lab``.

Rules kept here:

1. One list of pods is followed for all nodes; pods of nodes that are not ours are never looked at.
2. First what is there is recovered (nodes, what was published of them, the pods on them), then the nodes are
   registered, and only then new pods are decided on.
3. A node that somebody deletes is gone: it is not made again.
4. Heartbeats are spread evenly over their interval.  A kubelet that is down sends none.
5. Times are those of a clock that never jumps.
"""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

from numawise.apps.lab.calls import BOUND_PODS, MANAGER, OWN_NODES, LabCalls, stranger
from numawise.apps.lab.effects import (
    LabEffect,
    PodAlarm,
    PodRemoval,
    RefusalEvent,
    StatusWrite,
)
from numawise.apps.lab.feed import ChangeFeed
from numawise.apps.lab.kubelet import LabKubelet
from numawise.apps.lab.lanes import Lane
from numawise.apps.lab.node_object import (
    RESTART,
    conditions,
    is_ours,
    kubelet_version,
    node_object,
    node_status,
)
from numawise.apps.lab.plan import FOREIGN, NOTHING, LabPlan
from numawise.apps.lab.published import published_state, published_value
from numawise.codec.document import mapping
from numawise.codec.node import node_from
from numawise.codec.objects import ENDED, object_name, object_uid, unmanaged
from numawise.errors import InputError
from numawise.inputs.live import slim_node
from numawise.kube.client import NODES, PODS, ApiConflict, Cluster, Object
from numawise.kube.events import WARNING_EVENT, EventWriter, ObjectReference
from numawise.service.duty import COUNTER, GAUGE, MetricFamily, MetricName
from numawise.service.log import INFO, WARNING, ServiceLog
from numawise.service.turns import Turns
from numawise.values import dataclass, replace

STATUS_INTERVAL = 300.0
"""Seconds between two reports of a node that does not change, as of a kubelet."""
MOST_EVENTS = 200
"""Events that may wait; more are left out, as a kubelet does."""
VERIFY = 60.0
KEPT = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds")
"""What is kept of a pod that is known already, or is not ours."""
BEATING, ALARMS = "heartbeats", "alarms"
NODES_NOW = MetricName("numawise_lab_nodes", GAUGE, "Virtual nodes, by whether they are registered.")
PODS_NOW = MetricName("numawise_lab_pods", GAUGE, "Pods that the virtual nodes know.")
ADMISSIONS = MetricName("numawise_lab_admissions", COUNTER, "Pods that were decided on, by outcome.")
REQUESTS = MetricName("numawise_lab_requests", COUNTER, "Requests to the API server, by lane and outcome.")
WAITING = MetricName("numawise_lab_waiting", GAUGE, "Requests that wait or are under way, by lane.")
LAB_METRICS = (NODES_NOW, PODS_NOW, ADMISSIONS, REQUESTS, WAITING)


@dataclass(frozen=True, slots=True)
class PodJob:
    """What is to be written of a pod."""

    pod: ObjectReference
    status: dict[str, Any] | None = None
    remove: bool = False


def joined(before: PodJob, later: PodJob) -> PodJob:
    """Both at once: the last status, and then the removal."""
    return PodJob(before.pod, later.status or before.status, before.remove or later.remove)


def steady_clock() -> Callable[[], float]:
    """The time of day, as it was at the start and has gone on since (rule 5)."""
    base = time.time() - time.monotonic()
    return lambda: base + time.monotonic()


class LabFloor:
    """The virtual nodes."""

    name = "lab"

    def __init__(self, plan: LabPlan, log: ServiceLog) -> None:
        self.plan, self.log = plan, log
        self.clock = steady_clock()
        self.cluster = Cluster(plan.access)
        self.calls = LabCalls(self.cluster, plan.look.lab, self.clock)
        self.kubelets = {name: LabKubelet(name, node, plan.factor) for name, node in plan.nodes.items()}
        self.uids: dict[str, str] = {}
        """Of the Node objects that are registered."""
        self.turns = Turns()
        self.problem = "no node is registered yet"
        self.lost = 0
        """Publications that did not come through, as the plan wants it."""
        self.random = random.Random(plan.publish.seed)  # noqa: S311 - not a secret
        self.events = EventWriter(self.cluster, "kubelet", MANAGER, self.clock)
        self.pod_lane: Lane[PodJob] = Lane("pods", 8, self._write_pod, log, joined)
        self.node_lane: Lane[str] = Lane("nodes", 6, self._register, log)
        self.lease_lane: Lane[str] = Lane("heartbeats", 3, self._renew, log)
        self.publish_lane: Lane[str] = Lane("publications", 3, self._publish, log)
        self.event_lane: Lane[RefusalEvent] = Lane("events", 1, self._tell, log)
        self.lanes: tuple[Lane[Any], ...] = (
            self.pod_lane,
            self.node_lane,
            self.lease_lane,
            self.publish_lane,
            self.event_lane,
        )
        self._loop = asyncio.get_running_loop()
        self._alarms: list[tuple[float, int, str, str]] = []
        self._serial = count()
        self._sooner = asyncio.Event()
        self._due: set[str] = set()
        """Nodes whose publication is to come."""
        self._reported: set[str] = set()
        """Nodes that are known to be well."""
        self._feeds: list[ChangeFeed] = []

    # --- as a duty ----------------------------------------------------------------------------

    async def start(self) -> None:
        """See whether the nodes may be made at all; nothing is changed yet."""
        await asyncio.to_thread(self._check)

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Everything that goes on."""
        return [
            *(task for lane in self.lanes for task in lane.tasks()),
            self._live(),
            self._beat(),
            self._ring(),
        ]

    async def stop(self) -> None:
        """The nodes stay; whoever looks after nodes finds out that they no longer answer."""
        for feed in self._feeds:
            feed.stop()
        for lane in self.lanes:
            lane.stop()

    def missing(self) -> Sequence[str]:
        """Nodes that are not registered, and lists that are not followed."""
        lines = [self.problem] if self.problem else []
        return [*lines, *(feed.problem for feed in self._feeds if feed.problem)]

    def stuck(self) -> Sequence[str]:
        """Loops that do not go on."""
        return self.turns.late()

    def families(self) -> Sequence[MetricFamily]:
        """What happened."""
        known = len(self.uids)
        every = self.kubelets.values()
        return (
            NODES_NOW.of(({"registered": "yes"}, known), ({"registered": "no"}, len(self.kubelets) - known)),
            PODS_NOW.of(({}, sum(len(kubelet.pods) for kubelet in every))),
            ADMISSIONS.of(
                ({"outcome": "admitted"}, sum(kubelet.admitted for kubelet in every)),
                ({"outcome": "refused"}, sum(kubelet.refused for kubelet in every)),
            ),
            REQUESTS.of(
                *(
                    ({"lane": lane.name, "outcome": outcome}, number)
                    for lane in self.lanes
                    for outcome, number in sorted(lane.counts.items())
                )
            ),
            WAITING.of(*(({"lane": lane.name}, lane.length) for lane in self.lanes)),
        )

    # --- the beginning (rule 2) ---------------------------------------------------------------

    def _check(self) -> None:
        if self.plan.publish.form != NOTHING:
            self.calls.check_definition()
        for name, value in self.calls.nodes_named(self.kubelets).items():
            if not is_ours(value, self.plan.look.lab):
                raise stranger(value, self.plan.look.lab)
            self.uids[name] = object_uid(value)

    async def _live(self) -> None:
        now = self.clock()
        for name, kubelet in self.kubelets.items():
            kubelet.node.describe(node_from(node_object(name, kubelet.node, self.plan.look, now)))
        published: dict[str, Object] = {}
        if self.uids and self.plan.publish.form != NOTHING:
            published = await asyncio.to_thread(self.calls.published)
        pods = ChangeFeed(
            self.cluster, PODS, "list and watch pods", BOUND_PODS, self._pod_changed, self._slim
        )
        nodes = ChangeFeed(
            self.cluster, NODES, "list and watch nodes", OWN_NODES, self._node_changed, slim_node
        )
        self._feeds = [pods, nodes]
        there: dict[str, list[Object]] = {}
        for value in await pods.start():
            there.setdefault(_node_of(value), []).append(value)
        for name, kubelet in self.kubelets.items():
            if name in self.uids:
                published_state(kubelet, published.get(name), self.plan.look.release)
            self._do(kubelet, kubelet.recover(there.get(name, ()), self.clock()))
        for value in await nodes.start():
            self._node_changed(None, value)
        for name in self.kubelets:
            self.node_lane.put(name, name)
        await self.node_lane.empty()
        self.problem = ""
        seconds = round(self.clock() - now, 1)
        self.log.say(INFO, "all nodes are registered", nodes=len(self.uids), seconds=seconds)

    # --- what changes -------------------------------------------------------------------------

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        """Rule 1."""
        value = after if after is not None else before
        kubelet = self.kubelets.get(_node_of(value)) if value is not None else None
        if kubelet is None or value is None:
            return
        try:
            now = self.clock()
            effects = kubelet.gone(object_uid(value), now) if after is None else kubelet.take(value, now)
        except InputError as problem:
            self.log.say(WARNING, f"a pod is left alone: {problem}", node=kubelet.name, uid=object_uid(value))
            return
        self._do(kubelet, effects)

    def _slim(self, value: Object) -> Object:
        """What is kept of a pod; called in the feed's thread."""
        metadata, status = mapping(value.get("metadata")), mapping(value.get("status"))
        kubelet = self.kubelets.get(_node_of(value))
        if kubelet is not None and status.get("phase") not in ENDED and object_uid(value) not in kubelet.pods:
            return unmanaged(value)
        return {
            "metadata": {name: metadata[name] for name in KEPT if name in metadata},
            "spec": {"nodeName": _node_of(value)},
            "status": {"phase": status.get("phase")},
        }

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        value = after if after is not None else before
        name = object_name(value)
        kubelet = self.kubelets.get(name)
        if kubelet is None or value is None:
            return
        if after is None:  # rule 3
            if self.uids.get(name) == object_uid(value):
                self.kubelets.pop(name)
                self.uids.pop(name)
                self.log.say(WARNING, "a node was deleted, and is not made again", node=name)
            return
        if before is None or _described(before) != _described(after):
            try:
                kubelet.node.describe(node_from(after))
            except InputError as problem:
                self.log.say(WARNING, f"what a Node object says is left out: {problem}", node=name)
        if before is not None and _restart(before) != _restart(after):
            self.log.say(INFO, "a kubelet is restarted", node=name)
            down = bool(kubelet.down)
            self._do(kubelet, kubelet.restart(self.clock()))
            if down and not kubelet.down:  # pods that came meanwhile
                for pod in self._feeds[0].objects:
                    if _node_of(pod) == name:
                        self._pod_changed(None, pod)

    def _do(self, kubelet: LabKubelet, effects: Iterable[LabEffect]) -> None:
        """Carry out what a kubelet wants."""
        for effect in effects:
            if isinstance(effect, StatusWrite):
                self.pod_lane.put(effect.pod.uid, PodJob(effect.pod, effect.status))
            elif isinstance(effect, PodRemoval):
                self.pod_lane.put(effect.pod.uid, PodJob(effect.pod, remove=True))
            elif isinstance(effect, PodAlarm):
                heappush(self._alarms, (effect.at, next(self._serial), kubelet.name, effect.uid))
                self._sooner.set()
            elif isinstance(effect, RefusalEvent):
                if self.event_lane.length < MOST_EVENTS:
                    self.event_lane.put(effect.pod.uid, effect)
            else:
                self._publish_soon(kubelet.name)
        if kubelet.down:
            self.log.once(f"down {kubelet.name}", WARNING, kubelet.down, node=kubelet.name)
        else:
            self.log.forget(f"down {kubelet.name}")

    # --- time ---------------------------------------------------------------------------------

    async def _ring(self) -> None:
        """Alarms, when their time comes."""
        while True:
            self.turns.turn(ALARMS, VERIFY)
            now = self.clock()
            while self._alarms and self._alarms[0][0] <= now:
                _, _, name, uid = heappop(self._alarms)
                kubelet = self.kubelets.get(name)
                if kubelet is not None:
                    self._do(kubelet, kubelet.due(uid, self.clock()))
            self._sooner.clear()
            wait = min(self._alarms[0][0] - self.clock(), VERIFY / 2) if self._alarms else VERIFY / 2
            if wait > 0:
                try:
                    async with asyncio.timeout(wait):
                        await self._sooner.wait()
                except TimeoutError:
                    pass
            else:
                await asyncio.sleep(0)

    async def _beat(self) -> None:
        """Rule 4."""
        names = list(self.kubelets)
        step = self.plan.heartbeat / max(1, len(names))
        turn = 0
        begin = self.clock()
        reported = dict.fromkeys(names, begin)
        while True:
            self.turns.turn(BEATING, self.plan.heartbeat)
            name = names[turn % len(names)]
            kubelet = self.kubelets.get(name)
            if kubelet is not None and name in self.uids and not kubelet.down:
                self.lease_lane.put(name, name)
                if self.clock() - reported[name] >= STATUS_INTERVAL:
                    reported[name] = self.clock()
                    self.node_lane.put(name, name)
                    self._publish_soon(name)  # somebody may have deleted it
            turn += 1
            wait = begin + turn * step - self.clock()
            if wait < -self.plan.heartbeat:  # a machine that slept does not make up for it
                begin += -wait
            await asyncio.sleep(max(0.0, wait))

    def _publish_soon(self, name: str) -> None:
        if self.plan.publish.form == NOTHING or name in self._due:
            return
        self._due.add(name)
        self._loop.call_later(self.plan.publish.delay, self._publish_now, name)

    def _publish_now(self, name: str) -> None:
        self._due.discard(name)
        if name not in self.kubelets:
            return
        if self.plan.publish.loss and self.random.random() < self.plan.publish.loss:
            self.lost += 1
            self._loop.call_later(VERIFY, self._publish_soon, name)
            return
        self.publish_lane.put(name, name)

    # --- requests, in the lanes' threads ------------------------------------------------------

    def _write_pod(self, job: PodJob) -> None:
        try:
            if job.status is not None and not self.calls.write_status(job.pod, job.status):
                return
        except ApiConflict:
            if not job.remove:
                raise
        if job.remove:
            self.calls.remove_pod(job.pod)

    def _register(self, name: str) -> None:
        kubelet = self.kubelets.get(name)
        if kubelet is None:
            return
        now = self.clock()
        if name in self.uids:
            known = name in self._reported
            status = {
                **node_status(name, kubelet.node, self.plan.look, now),
                "conditions": conditions(now, changed=not known),
            }
            self.calls.report(name, status)
            self._reported.add(name)
            return
        value = self.calls.register(node_object(name, kubelet.node, self.plan.look, now))
        self.uids[name] = object_uid(value)
        self._reported.add(name)
        self.calls.first_lease(name, self.uids[name])
        self._loop.call_soon_threadsafe(self._publish_soon, name)

    def _renew(self, name: str) -> None:
        if name in self.uids:
            self.calls.renew(name, self.uids[name])

    def _publish(self, name: str) -> None:
        kubelet = self.kubelets.get(name)
        if kubelet is None or name not in self.uids:  # once it is registered, it is published
            return
        copy = replace(kubelet.node)
        release = kubelet_version(copy, self.plan.look.release)
        value = published_value(copy, name, release, foreign=self.plan.publish.form == FOREIGN)
        self.calls.publish(name, value)

    def _tell(self, effect: RefusalEvent) -> None:
        self.events.tell(effect.pod, effect.reason, effect.message, WARNING_EVENT, "Admit")


def _node_of(value: Mapping[str, Any]) -> str:
    return str(mapping(value.get("spec")).get("nodeName") or "")


def _restart(value: Mapping[str, Any]) -> object:
    return mapping(mapping(value.get("metadata")).get("annotations")).get(RESTART)


def _described(value: Mapping[str, Any]) -> tuple[object, ...]:
    """What a kubelet reads of its own Node object."""
    spec, status = mapping(value.get("spec")), mapping(value.get("status"))
    labels = mapping(value.get("metadata")).get("labels")
    return labels, spec.get("taints"), spec.get("unschedulable"), status.get("allocatable")

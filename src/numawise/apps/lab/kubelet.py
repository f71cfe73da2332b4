"""One virtual kubelet: pods come, are decided on by the engine, run for their time, and go.

Rules kept here:

1. Nothing is read or written here: what is to be done comes out as effects, and time is an argument.
2. Pods are decided on in the order in which they come, each once, by the engine, with everything that a
   kubelet looks at.  A refused pod fails with the kubelet's words; what it was given stays until the kubelet
   looks at it the next time, as does what a pod had that ended.
3. ``numawise.dev/run-seconds`` of a pod says how long its containers run, ``init-seconds`` how long its init
   containers take together, ``exit-code`` how they end, ``stop-seconds`` how long it takes to end them.  All
   are divided by the time factor.  Without the first a pod runs for ever.
4. What the restart policy says happens then: containers start again after the kubelet's back-off, or the pod
   has ended.
5. A pod that is to be deleted is ended first, and is removed only then.
6. A pod that ran before this program did runs on: it is put in, and never refused.
7. A restarted kubelet has its state files and decides on every pod anew, as the real one does.  One that
   crashes or does not start is down: it does nothing until it is restarted.
8. The CPU Manager's loop collects CPUs of pods that are gone: it passes every ``RECONCILE`` seconds, at a
   time of each node's own, also divided by the factor.  It runs only where something is left to collect.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

from numawise.apps.lab import pod_status
from numawise.apps.lab.effects import (
    LabEffect,
    PodAlarm,
    PodRemoval,
    RefusalEvent,
    StateChanged,
    StatusWrite,
)
from numawise.apps.lab.pod_status import ContainerFace, PodFace
from numawise.codec.document import mapping
from numawise.codec.kubeletlog.hints import rejected_prefix
from numawise.codec.objects import ENDED, RUNNING
from numawise.codec.pod import pod_from
from numawise.codec.stamps import stamp_seconds
from numawise.engine.admit import Admitted, Crashed, Rejected
from numawise.engine.hint import Hint
from numawise.kube.events import ObjectReference
from numawise.node.node import Files, SimulatedNode, restart
from numawise.request.defaults import RawPod
from numawise.request.model import PodRequest, Role
from numawise.rules.check import Refusal
from numawise.values import dataclass, field, replace

PREFIX = "numawise.dev/"
RUN, INIT, EXIT, STOP = (
    f"{PREFIX}{name}" for name in ("run-seconds", "init-seconds", "exit-code", "stop-seconds")
)
FIRST_BACK_OFF, LONGEST_BACK_OFF = 10.0, 300.0
RECONCILE = 10.0
"""The kubelet's default for cpuManagerReconcilePeriod."""
NODE_ITSELF = ""
"""The uid of an alarm that is not about a pod."""
INITIALIZING, UP, RESTING, STOPPING, OVER = "initializing", "up", "resting", "stopping", "over"


@dataclass(slots=True)
class LabPod:
    """A pod that its kubelet knows."""

    ref: ObjectReference
    face: PodFace
    request: PodRequest
    raw: RawPod
    restarts_when: str
    """``restartPolicy``."""
    run: float | None
    init: float
    exit_code: int
    stop: float
    since: float
    """When it was admitted."""
    stage: str = INITIALIZING
    started: float = 0.0
    """When its containers last started."""
    next_at: float | None = None
    """When it is to be looked at again."""
    restarts: int = 0
    affinity: Mapping[str, Hint] = field(default_factory=dict)
    deleted: bool = False
    problem: str = ""


class LabKubelet:
    """A virtual node's kubelet."""

    def __init__(self, name: str, node: SimulatedNode, factor: float = 1.0) -> None:
        self.name, self.factor = name, factor
        self.node = replace(node, files=Files(), write_files=False)
        self.pods: dict[str, LabPod] = {}
        self.down = ""
        """Why it does nothing; '': it runs."""
        self.admitted = self.refused = 0
        self.look_at: float | None = None
        """When the CPU Manager's loop passes, where that matters."""

    # --- what the API server says -------------------------------------------------------------

    def take(self, value: Mapping[str, Any], now: float) -> list[LabEffect]:
        """A pod of this node as it is now."""
        metadata, status = mapping(value.get("metadata")), mapping(value.get("status"))
        uid = str(metadata.get("uid") or "")
        deleted = metadata.get("deletionTimestamp") is not None
        known = self.pods.get(uid)
        if status.get("phase") in ENDED and (known is None or known.stage == OVER):
            if not deleted:
                self.pods.pop(uid, None)
            asked = known is not None and known.deleted
            return [PodRemoval(ref_of(value))] if deleted and not asked else []
        if known is not None and status.get("phase") in ENDED:  # somebody else ended it
            known.stage, known.next_at, known.deleted = OVER, None, deleted
            self.node.remove(uid)
            return [*self._left(now), *([PodRemoval(known.ref)] if deleted else [])]
        if known is not None:
            return self._stop(known, metadata, now) if deleted and not known.deleted else []
        if self.down:
            return []
        if deleted:
            return [PodRemoval(ref_of(value))]
        if status.get("startTime"):
            return self.adopt(value, now)
        return self._admit(value, now)

    def gone(self, uid: str, now: float) -> list[LabEffect]:
        """A pod is no longer at the API server."""
        known = self.pods.pop(uid, None)
        if known is None or known.stage == OVER:
            return []
        self.node.remove(uid)
        return self._left(now)

    def recover(self, values: Iterable[Mapping[str, Any]], now: float) -> list[LabEffect]:
        """All pods of this node as this program finds them (rule 6)."""
        every = [value for value in values if mapping(value.get("status")).get("phase") not in ENDED]
        listed = {str(mapping(value.get("metadata")).get("uid")) for value in every}
        for uid in [uid for uid in self.node.state.active if uid not in listed]:
            self.node.remove(uid)
        every.sort(key=lambda value: not mapping(value.get("status")).get("startTime"))
        effects = [effect for value in every for effect in self.take(value, now)]
        return [*effects, StateChanged()]

    # --- admission ----------------------------------------------------------------------------

    def _admit(self, value: Mapping[str, Any], now: float) -> list[LabEffect]:
        """Rule 2."""
        pod = self._read(value, now)
        decision = self.node.admit(pod.request)
        if isinstance(decision, Crashed):
            self.down = _crash(pod.request, decision)
            return []
        effects = [effect for uid in decision.preempted for effect in self._preempt(uid, now)]
        self.pods[pod.ref.uid] = pod
        if isinstance(decision, Rejected):
            refusal = self._refuse(pod, decision.reason, decision.message, now)
            return [*effects, *refusal, *self._left(now)]
        self.admitted += 1
        pod.affinity = decision.affinity
        if pod.init and any(one.role is not Role.APP for one in pod.face.containers):
            pod.next_at = now + pod.init
            status = pod_status.initializing(pod.face, pod.since, now)
            return [
                *effects,
                StatusWrite(pod.ref, status),
                PodAlarm(pod.next_at, pod.ref.uid),
                StateChanged(),
            ]
        return [*effects, *self._start(pod, now)]

    def adopt(self, value: Mapping[str, Any], now: float) -> list[LabEffect]:
        """A pod that was admitted before (rule 6)."""
        pod = self._read(value, now)
        status = mapping(value.get("status"))
        pod.since = stamp_seconds(status.get("startTime")) or now
        uid = pod.ref.uid
        self.pods[uid] = pod
        if uid not in self.node.state.active:
            before = self.node.state
            decision = self.node.admit(pod.request)
            if isinstance(decision, Admitted) and not decision.preempted:
                pod.affinity = decision.affinity
                self.node.start(pod.request, decision)
            else:
                self.node.keep(before)
        self.node.run_already([pod.raw])
        rows = status.get("containerStatuses")
        first = mapping(rows[0]) if isinstance(rows, list) and rows else {}
        began = stamp_seconds(mapping(mapping(first.get("state")).get("running")).get("startedAt"))
        restarts = first.get("restartCount")
        pod.restarts = restarts if isinstance(restarts, int) else 0
        if status.get("phase") != RUNNING:
            pod.next_at = max(now, pod.since + pod.init)
            return [PodAlarm(pod.next_at, uid), StateChanged()]
        pod.started, pod.stage = began or pod.since, UP
        return [*self._end_alarm(pod), StateChanged()]

    def _read(self, value: Mapping[str, Any], now: float) -> LabPod:
        raw = pod_from(value)
        request = self.node.requested(raw)
        spec, metadata = mapping(value.get("spec")), mapping(value.get("metadata"))
        notes = mapping(metadata.get("annotations"))
        images = {
            str(one.get("name")): str(one.get("image") or "")
            for part in ("initContainers", "containers")
            for one in spec.get(part) or ()
        }
        faces = tuple(
            ContainerFace(one.name, images.get(one.name, ""), one.role) for one in request.containers
        )
        conditions = mapping(value.get("status")).get("conditions")
        bound = [
            str(mapping(one).get("lastTransitionTime") or "")
            for one in (conditions if isinstance(conditions, list) else ())
            if mapping(one).get("type") == "PodScheduled"
        ]
        run = _seconds(notes.get(RUN))
        return LabPod(
            ref_of(value),
            PodFace(raw.uid, request.qos, faces, bound[0] if bound else ""),
            request,
            raw,
            str(spec.get("restartPolicy") or "Always"),
            None if run is None else run / self.factor,
            (_seconds(notes.get(INIT)) or 0.0) / self.factor,
            int(_seconds(notes.get(EXIT)) or 0),
            (_seconds(notes.get(STOP)) or 0.0) / self.factor,
            now,
        )

    def _refuse(self, pod: LabPod, reason: str, message: str, now: float) -> list[LabEffect]:
        self.refused += 1
        pod.stage, pod.next_at = OVER, None
        said = rejected_prefix(self.node.version) + message
        status = pod_status.refused(pod.face, reason, said, now)
        return [StatusWrite(pod.ref, status), RefusalEvent(pod.ref, reason, message)]

    def _preempt(self, uid: str, now: float) -> list[LabEffect]:
        """A pod that was ended for a critical one; the engine has let it go already."""
        pod = self.pods.get(uid)
        if pod is None:
            return []
        pod.stage, pod.next_at = OVER, None
        return [StatusWrite(pod.ref, pod_status.preempted(pod.face, pod.since, now, pod.restarts))]

    # --- containers ---------------------------------------------------------------------------

    def due(self, uid: str, now: float) -> list[LabEffect]:
        """The time of an alarm has come; one that no longer holds does nothing."""
        if uid == NODE_ITSELF:
            return self._reconcile(now)
        pod = self.pods.get(uid)
        if pod is None or pod.next_at is None or pod.next_at > now or self.down:
            return []
        pod.next_at = None
        if pod.stage == INITIALIZING:
            return self._start(pod, now)
        if pod.stage == UP:
            return self._finish(pod, now)
        if pod.stage == RESTING:
            return self._run(pod, now)
        return self._stopped(pod, now) if pod.stage == STOPPING else []

    def _start(self, pod: LabPod, now: float) -> list[LabEffect]:
        """The containers start, the first time."""
        started = self.node.start(pod.request, Admitted(self.node.state, pod.affinity))
        errors = {one.container: one.error for one in started if one.error}
        if errors:
            pod.stage, pod.problem = RESTING, next(iter(errors.values()))
            status = pod_status.not_created(pod.face, pod.since, now, errors)
            return [StatusWrite(pod.ref, status), StateChanged()]
        return [*self._run(pod, now), StateChanged()]

    def _run(self, pod: LabPod, now: float) -> list[LabEffect]:
        pod.stage, pod.started = UP, now
        status = pod_status.running(pod.face, pod.since, now, pod.restarts, pod.exit_code)
        return [StatusWrite(pod.ref, status), *self._end_alarm(pod)]

    def _end_alarm(self, pod: LabPod) -> list[LabEffect]:
        if pod.run is None:
            return []
        pod.next_at = pod.started + pod.run
        return [PodAlarm(pod.next_at, pod.ref.uid)]

    def _finish(self, pod: LabPod, now: float) -> list[LabEffect]:
        """The containers have run for their time (rule 4)."""
        again = pod.restarts_when == "Always" or (pod.restarts_when == "OnFailure" and pod.exit_code != 0)
        if not again:
            status = pod_status.ended(pod.face, pod.since, now, pod.restarts, pod.exit_code)
            return self._over(pod, status, now)
        pod.restarts += 1
        if pod.restarts == 1:
            return self._run(pod, now)
        wait = min(FIRST_BACK_OFF * 2.0 ** min(pod.restarts - 2, 10), LONGEST_BACK_OFF) / self.factor
        pod.stage, pod.next_at = RESTING, now + wait
        status = pod_status.backing_off(pod.face, pod.since, now, pod.restarts - 1, pod.exit_code)
        return [StatusWrite(pod.ref, status), PodAlarm(pod.next_at, pod.ref.uid)]

    def _over(self, pod: LabPod, status: pod_status.Status, now: float) -> list[LabEffect]:
        """A pod has ended, and what it has is collected at the next look."""
        pod.stage, pod.next_at = OVER, None
        self.node.remove(pod.ref.uid)
        return [StatusWrite(pod.ref, status), *self._left(now)]

    def _left(self, now: float) -> list[LabEffect]:
        """Something is left of a pod that the CPU Manager's loop will collect (rule 8)."""
        if not self.node.rules.cpu_static or self.look_at is not None:
            return [StateChanged()]
        period = RECONCILE / self.factor
        own = crc32(self.name.encode()) % 1000 / 1000 * period
        self.look_at = own + period * (math.floor((now - own) / period) + 1)
        return [StateChanged(), PodAlarm(self.look_at, NODE_ITSELF)]

    def _reconcile(self, now: float) -> list[LabEffect]:
        if self.look_at is None or self.look_at > now or self.down:
            return []
        self.look_at, before = None, self.node.state.cpu
        self.node.reconcile()
        return [StateChanged()] if self.node.state.cpu.assignments != before.assignments else []

    # --- deletion -----------------------------------------------------------------------------

    def _stop(self, pod: LabPod, metadata: Mapping[str, Any], now: float) -> list[LabEffect]:
        """A pod is to go (rule 5)."""
        pod.deleted = True
        if pod.stage == OVER:
            return [PodRemoval(pod.ref)]
        grace = metadata.get("deletionGracePeriodSeconds")
        most = float(grace) if isinstance(grace, int) and not isinstance(grace, bool) else 30.0
        pod.stage, pod.next_at = STOPPING, now + min(pod.stop, most)
        return self.due(pod.ref.uid, now) or [PodAlarm(pod.next_at, pod.ref.uid)]

    def _stopped(self, pod: LabPod, now: float) -> list[LabEffect]:
        status = pod_status.ended(pod.face, pod.since, now, pod.restarts, pod_status.KILLED)
        return [*self._over(pod, status, now), PodRemoval(pod.ref)]

    # --- the kubelet itself -------------------------------------------------------------------

    def restart(self, now: float) -> list[LabEffect]:
        """The kubelet ends and starts again while its pods run on (rule 7)."""
        again = restart(self.node, self.node.config)
        if isinstance(again, Refusal):
            self.down = f"the kubelet does not start: {again.message}"
            return []
        node, outcomes = again
        self.down = ""
        effects: list[LabEffect] = []
        for outcome in outcomes:
            decision, pod = outcome.decision, self.pods.get(outcome.pod.uid)
            if isinstance(decision, Crashed):
                self.down = _crash(outcome.pod, decision)
                return effects
            for uid in decision.preempted:
                effects += self._preempt(uid, now)
            if isinstance(decision, Rejected) and pod is not None:
                effects += self._refuse(pod, decision.reason, decision.message, now)
        self.node, self.look_at = node, None
        return [*effects, *self._left(now)]


def _crash(pod: PodRequest, decision: Crashed) -> str:
    return f"the kubelet crashes at pod {pod.namespace}/{pod.name}: {decision.message}"


def ref_of(value: Mapping[str, Any]) -> ObjectReference:
    """Which pod an object is."""
    metadata = mapping(value.get("metadata"))
    return ObjectReference("Pod", *(str(metadata.get(key) or "") for key in ("name", "namespace", "uid")))


def _seconds(text: object) -> float | None:
    """An annotation as a number; None: it is none."""
    try:
        number = float(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e9 else None

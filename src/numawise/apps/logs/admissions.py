"""Admissions out of events.

Rules kept here:

1. Lines that name a pod go to its admission, wherever they stand; lines that name none go to the admission
   that the same kubelet was last busy with.
2. An admission begins with the kubelet's word, or with hints for a container that has its answer already.
3. A verdict is what a line shows: a refusal, an allocation that failed, a pod that is being run.  Lines that
   are missing show nothing: a log may be cut or filtered.  What is only probable is ``likely``; what follows
   from the policy is concluded once all of the log is known (``settled``).
4. What a line says later (the event, the status) completes an admission, and never turns one that another
   pod of the same name has begun since.
5. Never more than ``MOST_OPEN`` admissions of a kubelet are open, and ``MOST_KUBELETS`` kubelets known.
6. A kubelet that starts again, under the same process number or none, is another kubelet: what was open of
   the last one is over, and its policy says nothing of the next.
"""

from collections import OrderedDict
from collections.abc import Callable

from numawise.apps.logs.kubelets import Kubelets
from numawise.apps.logs.open_admission import OpenAdmission, OpenRound
from numawise.engine.hint import NOWHERE
from numawise.request.model import CPU
from numawise.results import log as values
from numawise.results.explanation import ADMITTED, REJECTED
from numawise.results.log import (
    Event,
    LoggedAdmission,
    Origin,
    PodRef,
    Shortage,
    Trouble,
)
from numawise.values import replace

MOST_OPEN = 64
MOST_KUBELETS = 256
MOST_REMEMBERED = 512
LONGEST_AGO = 500_000
"""Lines after which an admission that nothing more was heard of is done."""

Done = Callable[[LoggedAdmission], None]


class Admissions:
    """Takes events in the order of the log; gives admissions as they end."""

    def __init__(
        self,
        done: Done,
        life: Callable[[Event], None] = lambda _: None,
        failed: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self.done = done
        self.life = life
        self.failed = failed
        """Called with what a kubelet says that does not start."""
        self.kubelets = Kubelets(MOST_KUBELETS)
        self._open: OrderedDict[Origin, OrderedDict[int, OpenAdmission]] = OrderedDict()
        self._busy: dict[Origin, OpenAdmission] = {}
        self._ended: OrderedDict[PodRef, frozenset[tuple[str, str]]] = OrderedDict()
        """Rejected pods whose admission is done, so that late words about them make no new one."""

    def hear(self, event: Event) -> None:
        """One more event."""
        if event.origin.boot and event.origin not in self._open:
            self._leave(replace(event.origin, boot=event.origin.boot - 1))
        if event.kind == values.START_FAILED:
            self._leave(event.origin)
            self.kubelets.forget(event.origin)
            self.failed(event)
            return
        self.kubelets.hear(event)
        match event.kind:
            case values.ADMIT_STARTED:
                self._started(event)
            case values.HINTS | values.PROVIDER_HINTS:
                self._hints(event)
            case values.NO_PREFERENCE | values.IMPOSSIBLE:
                self._preference(event)
            case values.SHORT:
                self._short(event)
            case values.MERGED | values.BEST:
                self._answered(event)
            case values.AFFINITY:
                self._stored(event)
            case values.ALLOCATING:
                self._allocating(event)
            case values.CPUS_WANTED | values.WANTED:
                self._wanted(event)
            case values.CPUS | values.DEVICES:
                self._given(event)
            case values.FAILED:
                self._failed(event)
            case values.RESULT:
                self._result(event)
            case values.DENIED | values.EVENT_REJECTED | values.STATUS:
                self._turned_away(event)
            case values.CAME | values.RECREATED:
                self._came(event)
            case values.RUNNING:
                self._runs(event)

    def finish(self) -> None:
        """The log ends."""
        for origin in list(self._open):
            self._leave(origin)

    # --- which admission ---

    def _of(self, event: Event, *, adopt: bool = True) -> OpenAdmission | None:
        """The admission a line belongs to (rule 1); ``adopt``: it may be the first to name the pod."""
        busy = self._busy.get(event.origin)
        if not event.pod:
            return busy
        if busy is not None and (busy.pod.matches(event.pod) or (adopt and not busy.pod)):
            return busy
        for one in reversed(self._open.get(event.origin, {}).values()):
            if one.pod.matches(event.pod):
                return one
        # A line with nothing but a uid, while the pod that is busy has shown its name only.
        if adopt and busy is not None and not event.pod.name and not busy.pod.uid and not busy.settled:
            return busy
        return None

    def _touched(self, one: OpenAdmission, event: Event) -> OpenAdmission:
        if not one.pod and event.pod:
            for other in list(self._open[event.origin].values()):
                if other is not one and other.pod.matches(event.pod):
                    self._end(other)
        one.pod = one.pod.with_(event.pod)
        one.last = event.line
        one.time = one.time or event.time
        self._busy[event.origin] = one
        self._open[event.origin].move_to_end(id(one))
        return one

    def _begin(self, event: Event) -> OpenAdmission:
        opened = self._open.setdefault(event.origin, OrderedDict())
        self._open.move_to_end(event.origin)
        if len(self._open) > MOST_KUBELETS:
            self._leave(next(iter(self._open)))
        while opened:
            oldest = next(iter(opened.values()))
            if len(opened) < MOST_OPEN and event.line - oldest.last < LONGEST_AGO:
                break
            self._end(oldest)
        one = OpenAdmission(event.origin, event.pod, event.line, event.line, event.time)
        opened[id(one)] = one
        self._busy[event.origin] = one
        return one

    def _ongoing(self, event: Event) -> OpenAdmission:
        found = self._of(event)
        return self._begin(event) if found is None else self._touched(found, event)

    def _end(self, one: OpenAdmission) -> None:
        del self._open[one.origin][id(one)]
        if self._busy.get(one.origin) is one:
            del self._busy[one.origin]
        if not one.pod and not one.rounds and not one.verdict:
            return
        value = one.value()
        if value.rejected:
            self._ended.pop(one.pod, None)
            self._ended[one.pod] = frozenset(one.heard)
            if len(self._ended) > MOST_REMEMBERED:
                self._ended.popitem(last=False)
        self.kubelets.learn(value)
        self.done(value)

    def _leave(self, origin: Origin) -> None:
        for one in list(self._open.get(origin, {}).values()):
            self._end(one)
        self._open.pop(origin, None)
        self._busy.pop(origin, None)

    def _came(self, event: Event) -> None:
        """A pod that comes again is another one: what there was of the last is over."""
        pods = event.pods if event.kind == values.CAME else (event.pod,)
        for pod in pods:
            for one in list(self._open.get(event.origin, {}).values()):
                if one.pod.matches(pod) and (one.over or event.kind == values.CAME):
                    self._end(one)
        self.life(event)

    # --- hints and their merge ---

    def _started(self, event: Event) -> None:
        found = self._of(event) if event.pod else self._busy.get(event.origin)
        if found is not None and not found.pod and not found.rounds:
            self._touched(found, event).announced = True
            return
        if found is not None and found.pod and event.pod:
            self._end(found)
        self._begin(event).announced = True

    def _round(self, event: Event) -> OpenRound:
        """The merge that hints belong to; they may begin another admission (rule 2)."""
        one = self._of(event)
        if one is not None and (one.over or any(each.answered for each in one.rounds)):
            again = any(each.answered and each.container == event.container for each in one.rounds)
            over = bool(one.verdict) or (one.over and not one.announced)
            if over or again or event.container is None:
                if one.pod:
                    self._end(one)
                one = None
        if one is not None and event.resize and not one.resize and one.rounds:
            self._end(one)
            one = None
        one = self._begin(event) if one is None else self._touched(one, event)
        one.resize = one.resize or event.resize
        if not one.rounds or one.rounds[-1].answered or one.rounds[-1].container != event.container:
            one.rounds.append(OpenRound(event.container))
            one.pod_scope = one.pod_scope or event.container is None
        return one.rounds[-1]

    def _hints(self, event: Event) -> None:
        round_ = self._round(event)
        target = round_.hints if event.kind == values.HINTS else round_.own
        target.update(event.hints)
        round_.unsure |= event.unsure
        round_.cut = round_.cut or event.cut

    def _preference(self, event: Event) -> None:
        """Decides what the print of hints leaves open: no preference, or impossible."""
        one = self._busy.get(event.origin)
        if one is None or not one.rounds or one.rounds[-1].answered or not event.resource:
            return
        round_ = one.rounds[-1]
        if event.resource in round_.unsure or event.resource not in round_.hints:
            round_.hints[event.resource] = NOWHERE if event.kind == values.IMPOSSIBLE else None
            round_.unsure.discard(event.resource)
            round_.nearby.add(event.resource)
        one.last = event.line

    def _short(self, event: Event) -> None:
        one = self._of(event)
        if one is not None and one.over and event.pod:
            self._end(one)
            one = None
        one = self._begin(event) if one is None else self._touched(one, event)
        one.shortages[event.resource] = Shortage(event.asked, event.available, event.text == "held")

    def _answered(self, event: Event) -> None:
        """An answer; one that names no pod, where no hints wait for one, is that of a pod not yet named."""
        one = self._of(event)
        merged = event.kind == values.MERGED
        if one is not None and merged and not event.pod and one.rounds and one.rounds[-1].answered:
            one = None
        if one is not None and not one.pod and event.pod:
            one = self._joined(one, event)
        one = self._begin(event) if one is None else self._touched(one, event)
        round_ = one.rounds[-1] if one.rounds else None
        again = round_ is not None and round_.answered and self._is_another(round_, event)
        if round_ is None or again:
            round_ = OpenRound(event.container)
            one.rounds.append(round_)
        if event.container is not None and round_.container is None and not one.pod_scope:
            round_.container = event.container
        if event.scope == "pod":
            one.pod_scope = True
        if event.hint is not None:
            round_.best, round_.named = event.hint, round_.named or bool(event.pod)
        round_.answered = True
        round_.shortages, one.shortages = {**round_.shortages, **one.shortages}, {}

    @staticmethod
    def _is_another(round_: OpenRound, event: Event) -> bool:
        """True for an answer that is not said again, but that of another merge."""
        if event.container is not None and round_.container not in (None, event.container):
            return True
        return event.kind == values.MERGED or (event.hint is not None and event.hint != round_.best)

    def _joined(self, nameless: OpenAdmission, event: Event) -> OpenAdmission:
        """The admission of the pod that an answer turns out to be about, with that answer."""
        for other in reversed(self._open[event.origin].values()):
            known = any(each.answered and each.container == event.container for each in other.rounds)
            if other is not nameless and other.pod.matches(event.pod) and not other.over and not known:
                other.rounds += nameless.rounds
                del self._open[event.origin][id(nameless)]
                return other
        return nameless

    def _stored(self, event: Event) -> None:
        one = self._ongoing(event)
        if not one.rounds:
            one.rounds.append(OpenRound(event.container, best=event.hint))
        for round_ in reversed(one.rounds):
            if one.pod_scope or event.container is None or round_.container in (None, event.container):
                break
        else:
            round_ = OpenRound(event.container, best=event.hint)
            one.rounds.append(round_)
        round_.best = event.hint or round_.best
        round_.named = round_.named or (event.hint is not None and bool(event.pod))
        round_.answered = round_.placed = True
        if event.container is None:
            for each in one.rounds:
                each.placed = each.answered

    # --- allocation ---

    def _allocating(self, event: Event) -> None:
        found = self._of(event)
        if found is not None and found.over and found.pod and event.pod:
            self._end(found)
            found = None
        one = self._begin(event) if found is None else self._touched(found, event)
        one.allocating = True

    def _wanted(self, event: Event) -> None:
        one = self._of(event)
        if one is not None and event.asked is not None:
            one.wanted[event.resource] = event.asked
            self._touched(one, event)

    def _given(self, event: Event) -> None:
        one = self._of(event)
        if one is None or one.over or one.accepted:
            return  # later lines are about the CPUs that are shared, too
        self._touched(one, event)
        if event.kind == values.CPUS:
            one.cpus[event.container or ""] = event.text
        else:
            before = one.devices.get(event.resource)
            one.devices[event.resource] = f"{before},{event.text}" if before else event.text

    def _failed(self, event: Event) -> None:
        one = self._ongoing(event)
        container = event.container or (one.rounds[-1].container if one.rounds else "") or ""
        errors = {trouble.error for trouble in one.troubles}
        if event.message not in errors:
            one.troubles.append(Trouble(event.provider, event.message, container, bool(event.pod)))
        if event.asked is not None:
            one.wanted.setdefault(CPU, event.asked)

    # --- the verdict ---

    def _result(self, event: Event) -> None:
        one = self._ongoing(event)
        if event.message:
            one.verdict, one.message, one.reason = REJECTED, event.message, event.reason
        else:
            one.accepted = True

    def _runs(self, event: Event) -> None:
        """A pod is run that was admitted; one that was not, and has the same name, is another."""
        one = self._of(event, adopt=False)
        if one is None or one.settled:
            return
        if one.passed or (one.pod.uid and event.pod.uid):
            one.verdict = ADMITTED
            one.last = event.line

    def _turned_away(self, event: Event) -> None:
        """The kubelet's word, its event, or the pod's status (rule 4)."""
        one = self._of(event, adopt=False)
        heard = (event.kind, event.text)
        if one is not None and (one.verdict == ADMITTED or (event.resize and one.passed)):
            self._end(one)  # it was admitted: this is another pod of its name, or another size for it
            one = None
        if one is None:
            if self._was_ended(event, heard):
                return
            one = self._begin(event)
        elif event.kind == values.STATUS:
            if not self._may_be_about(one, event):
                return
        elif heard in one.heard and not (one.pod.uid and event.pod.uid):
            self._end(one)
            one = self._begin(event)
        one.heard.add(heard)
        one.resize = one.resize or event.resize
        if one.verdict != REJECTED or not one.reason:
            one.verdict, one.reason = REJECTED, event.reason or one.reason
            one.message = event.message or one.message
        one.pod = one.pod.with_(event.pod)
        one.last = event.line

    @staticmethod
    def _may_be_about(one: OpenAdmission, event: Event) -> bool:
        if one.pod.uid and event.pod.uid:
            return one.pod.uid == event.pod.uid
        return one.over or not (one.rounds or one.allocating)

    def _was_ended(self, event: Event, heard: tuple[str, str]) -> bool:
        """True for a late word about an admission that is done; the same word again belongs to another."""
        for pod, known in reversed(self._ended.items()):
            if pod.matches(event.pod):
                known_pod = bool(pod.uid and event.pod.uid)
                return known_pod or event.kind == values.STATUS or heard not in known
        return False

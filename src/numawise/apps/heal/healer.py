"""The healer at work: refused pods in, holds, releases, removals and Events out.

Rules kept here:

1. A refused pod holds its owner first; the words for it are found afterwards, in a thread of their own.
2. Nothing is changed unless that was asked for (``apply``) and we lead now; both are looked at before each
   change.  Otherwise what would be done is said once.
3. What is not known is no reason to act: an owner that cannot be read is not held, a pod that changed is left
   to the next turn, a server that is gone ends the turn.
4. The list of holds at the server counts: what somebody took off it is held no longer, and what another
   healer put there is gone on with.
5. Namespaces take turns (``taking_turns``), and what one pod is refused, others are not: a server that does
   not take one change is asked for the next.
6. Pods that had failed before we looked are explained and removed by rule; they hold nobody, unless they are
   only just made.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numawise.apps.heal.changing import GONE, HealWriter, people_look_at, unfit
from numawise.apps.heal.cleaning import AgedPod, Allowance, removable
from numawise.apps.heal.hold_list import ListedHold, listed_hold
from numawise.apps.heal.holds import (
    EndHold,
    HoldBook,
    HoldDecision,
    LetGo,
    Prospect,
    PutHold,
    WaitingPod,
)
from numawise.apps.heal.refused import (
    HELD_KINDS,
    Controller,
    OwnerRevision,
    RefusedPod,
    controller_of,
    is_held,
    refused_pod,
)
from numawise.apps.heal.steering import release_patch, steered_to
from numawise.apps.heal.stranded import StrandedPods, stranded_note
from numawise.apps.heal.taking_turns import MOST_STEPS, WaitingLines, by_namespace, in_turns
from numawise.apps.heal.terms import HealCounts, HealRules, Judging
from numawise.codec.cluster_pod import scheduling_gates
from numawise.codec.document import mapping
from numawise.codec.objects import object_uid
from numawise.codec.stamps import stamp_seconds
from numawise.errors import ClusterError, NumawiseError
from numawise.kube.client import ApiConflict, ApiInvalid, ApiRefused, Object
from numawise.kube.events import NORMAL, EventWriter, ObjectReference
from numawise.results.pending import HOLD_GATE
from numawise.service.log import INFO, WARNING, ServiceLog

AGAIN = 3.0
"""Seconds after which the list, owners of holds and removals are looked at again; a connection that is idle
for longer is closed, and opening it again would take as long as an owner needs for two more pods."""
POLICY_AGAIN = 10.0
JUST_MADE = 60.0
MOST_REMEMBERED, MOST_EXPLAINED = 100_000, 50
MOST_AT_ONCE = 20
"""Pods removed in a turn: whoever is refused meanwhile does not wait for long."""
EXPLAINED_AGAIN = 60.0
MOST_REASONS, OTHER_REASON = 50, "other"
"""Reasons with a metric of their own: resources can have any name."""
REFUSED_EVENT, HELD_EVENT, RELEASED_EVENT = "PodRefused", "PodsHeld", "PodReleased"
STRANDED_EVENT = "PodStranded"
CHANGE_REFUSED = (ApiRefused, ApiInvalid)
NOT_CHOSEN = "its namespace is not looked after"
RefusedNews = tuple[RefusedPod, Object, bool]
"""A refused pod, as the server has it, and whether it was refused just now."""


class Healer:
    """Decides and does; one thread calls ``turn``, another ``explain_next``."""

    def __init__(
        self,
        rules: HealRules,
        writer: HealWriter,
        judge: Judging,
        events: EventWriter | None,
        log: ServiceLog,
        leads: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.rules, self.writer, self.judge, self.events, self.log = rules, writer, judge, events, log
        self.leads, self.clock, self.wall = leads, clock, wall
        self.book = HoldBook(rules.holds)
        self.counts = HealCounts()
        self.stranded = StrandedPods()
        self.problem = ""
        self.policy_problem = ""
        self.more = False
        """There is more to do at once than one turn does."""
        self.refused: dict[str, RefusedPod] = {}
        """Refused pods that are there now, by uid."""
        self.unbound: dict[str, Object] = {}
        """Pods that no node has yet, by uid."""
        self._news: WaitingLines[RefusedNews] = WaitingLines(lambda news: news[0].namespace)
        self._refused_change = ""
        self._explanations: WaitingLines[tuple[RefusedPod, Object]] = WaitingLines(
            lambda news: news[0].namespace, MOST_EXPLAINED
        )
        self._lock = threading.Lock()
        self._seen: dict[str, None] = {}
        self._ages: dict[str, tuple[float, float]] = {}
        self._explained: dict[str, float] = {}
        self._said: dict[str, None] = {}
        self._since: dict[OwnerRevision, float] = {}
        self._owners: dict[Controller, tuple[float, Object | None]] = {}
        self._allowance = Allowance(rules.cleaning.per_minute)
        self._led = False
        self._next = self._next_policy = float("-inf")

    # --- what is heard, from threads that follow -------------------------------------------------

    def failed_changed(self, before: Object | None, after: Object | None, *, first: bool) -> bool:
        """A failed pod came, changed or went; whether that is news."""
        uid = object_uid(after if after is not None else before)
        pod = refused_pod(after) if after is not None else None
        with self._lock:
            if pod is None or after is None:
                self.refused.pop(uid, None)
                self._ages.pop(uid, None)
                return False
            self.refused[uid] = pod
            if uid in self._seen:
                return False
            self._remember(self._seen, uid)
            age = max(0.0, self.wall() - (stamp_seconds(pod.created) or 0.0)) if first else 0.0
            self._ages[uid] = age, self.clock()
        if self.rules.cleaning.selection.chooses(pod):
            self._news.add((pod, after, not first or age < JUST_MADE))
        return True

    def unbound_changed(self, before: Object | None, after: Object | None) -> bool:
        """A pod without a node came, changed or went; whether that is news."""
        uid = object_uid(after if after is not None else before)
        with self._lock:
            known = self.unbound.pop(uid, None)
            if after is not None:
                self.unbound[uid] = after
        return (after is not None and is_held(after)) or (known is not None and is_held(known))

    # --- a turn ------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Do what is to be done now."""
        now, self.more, self._refused_change = self.clock(), False, ""
        self._news.begin_turn()
        if self.rules.apply and not self.leads():
            self._stand_by()
            return
        try:
            if not self._led:
                self._begin(now)
            self._hold_refused(now)
            again = now >= self._next
            if again:
                self._next = now + AGAIN
                self._compare_list(now)
                self._check_owners(now)
            self._decide(now)
            if again:
                self._clean(now)
                self._tell_stranded(now)
            self.problem = self._refused_change
            self.more = self.more or bool(self._news)
        except ApiConflict as problem:
            self.log.say(INFO, f"left to the next turn: {problem}")
        except NumawiseError as problem:
            self.problem = str(problem)
            self.log.once("turn", WARNING, self.problem)

    def _stand_by(self) -> None:
        if self._led:
            self.log.say(WARNING, "acts no longer: the Lease could not be kept, or another healer has it")
        self._led = False
        self._news.clear()

    def _begin(self, now: float) -> None:
        """We lead from now on: what is on the list is ours."""
        self.book = HoldBook(self.rules.holds)
        self._next = self._next_policy = float("-inf")
        self._compare_list(now)
        self._led = True

    def _check_policy(self, now: float) -> None:
        if now < self._next_policy:
            return
        self._next_policy = now + POLICY_AGAIN
        self.policy_problem = self.writer.policy_problem()
        if self.policy_problem:
            self.log.once("policy", WARNING, self.policy_problem)
        else:
            self.log.forget("policy")

    # --- holds -------------------------------------------------------------------------------------

    def _hold_refused(self, now: float) -> None:
        """Hold the owners of pods that were refused, in turns (rule 5)."""
        for pod, value, fresh in self._news.take():
            known = pod.reason in self.counts.refused or len(self.counts.refused) < MOST_REASONS
            reason = pod.reason if known else OTHER_REASON
            self.counts.refused[reason] = self.counts.refused.get(reason, 0) + 1
            try:
                if fresh and not self.policy_problem:
                    self._refused(pod, value, now)
            except CHANGE_REFUSED as problem:
                self._not_taken(pod.title, problem)
            finally:
                self._explain_later(pod, value, now)

    def _not_taken(self, title: str, problem: ClusterError) -> None:
        """A change that the server refused, which keeps others from nothing."""
        self.log.once(f"refused {title}", WARNING, f"{title} is left alone: {problem}")
        if isinstance(problem, ApiRefused):
            self._refused_change = str(problem)

    def _refused(self, pod: RefusedPod, value: Object, now: float) -> None:
        owner = pod.owner
        if owner is None or owner.kind not in HELD_KINDS:
            return
        unknown = self.book.hold_of(owner.of, owner.namespace) is None and not self.book.is_full(
            owner.namespace
        )
        if unknown and (reason := unfit(owner, self._owner(owner, now))):
            if reason != GONE:
                self.log.say(INFO, f"{owner.title} is not held: {reason}")
            return
        decision = self.book.refuse(pod, now, steered=steered_to(value))
        if decision is None:
            return
        evidence = {
            "pod": pod.title,
            "uid": pod.uid,
            "version": pod.version,
            "node": pod.node,
            "reason": pod.reason,
            "message": pod.message,
        }
        try:
            self._do(decision, now, evidence)
        except NumawiseError:
            self.book.holds.pop(owner.of, None)  # the next refused pod tries again
            raise

    def _compare_list(self, now: float) -> None:
        """Rule 4."""
        self._check_policy(now)
        if not self.rules.apply:
            return
        if self.policy_problem:  # nobody is held any more, and pods that wait are let go
            self._end_holds(list(self.book.holds), "there is no policy that holds pods", now)
            return
        data, wall = self.writer.listed(), self.wall()
        for key, text in data.items():
            hold = listed_hold(str(key), text)
            if hold is None:
                self.log.once(f"list {key}", WARNING, f"the list of holds has a key that is not ours: {key}")
            elif hold.owner.of not in self.book.holds:
                inside = self.rules.cleaning.selection.has(hold.owner.namespace)
                reason = unfit(hold.owner, self._owner(hold.owner, now)) if inside else NOT_CHOSEN
                if reason:
                    if self._may():
                        self.writer.end_hold(hold.owner, reason)
                    continue
                self.book.adopt(hold.owner, hold.number, hold.until - wall, hold.refused, now)
                self._since[hold.owner.of] = min(hold.since, wall)
        gone = [of for of in self.book.holds if of.key not in data]
        self._end_holds(gone, "somebody took it off the list", now)

    def _end_holds(self, owners: Sequence[OwnerRevision], why: str, now: float) -> None:
        for of in owners:
            ended = self.book.end(of, why, now)
            if ended is not None:
                self.log.say(INFO, f"{ended.owner.title} is held no longer: {ended.why}")

    def _check_owners(self, now: float) -> None:
        oldest = sorted(self.book.holds.values(), key=lambda hold: hold.checked)
        lanes = by_namespace(oldest, lambda hold: hold.owner.namespace)
        for hold in in_turns(lane[:MOST_STEPS] for lane in lanes):
            hold.checked = now
            reason = unfit(hold.owner, self._owner(hold.owner, now))
            ended = self.book.end(hold.owner.of, reason, now) if reason else None
            if ended is not None:
                self._do(ended, now, {})

    def _decide(self, now: float) -> None:
        with self._lock:
            unbound = dict(self.unbound)
        held = {uid: value for uid, value in unbound.items() if is_held(value) and self._chooses(value)}
        waiting = [_waiting(uid, value) for uid, value in held.items()]

        def judged(pod: WaitingPod) -> Prospect:
            self._hold_refused(self.clock())  # thousands of nodes are asked in the time of several refusals
            return self.judge.prospect(held[pod.uid])

        self.counts.waiting = len(waiting)
        self.counts.longest = max((now - hold.since for hold in self.book.holds.values()), default=0.0)
        most = MOST_STEPS if self.rules.apply else len(waiting)
        for decision in self.book.decide(waiting, unbound, judged, now, most):
            try:
                if isinstance(decision, LetGo):
                    self._release(decision, held[decision.pod.uid])
                else:
                    self._do(decision, now, {})
            except ApiConflict as problem:
                self.log.say(INFO, f"left to the next turn: {problem}")
            except CHANGE_REFUSED as problem:
                about = decision.pod if isinstance(decision, LetGo) else decision.owner
                self._not_taken(about.title, problem)

    def _chooses(self, value: Object) -> bool:
        namespace = str(mapping(value.get("metadata")).get("namespace"))
        return self.rules.cleaning.selection.has(namespace)

    def _do(self, decision: HoldDecision, now: float, evidence: Mapping[str, Any]) -> None:
        """Change the list."""
        match decision:
            case PutHold(owner, length, refused, nodes, why, again):
                action = "prolong" if again else "hold"
                sentence = f"{action} {owner.title} for up to {length:.0f} s: {why}"
                if not self._may_say(f"{action} {owner.of.key} {length}", sentence):
                    return
                wall = self.wall()
                since = self._since.setdefault(owner.of, wall)
                number = self.book.holds[owner.of].number
                listed = ListedHold(owner, since, wall + length, number, refused, nodes)
                self.writer.put_hold(
                    listed, action, why, evidence or {"nodes": list(nodes), "refused": refused}
                )
                self.log.say(INFO, sentence)
                if again:
                    self._tell_owner(owner, now, HELD_EVENT, f"its pods still wait: {why}")
            case EndHold(owner, why):
                self._since.pop(owner.of, None)
                if self._may_say(f"end {owner.of.key} {now}", f"end the hold of {owner.title}: {why}"):
                    self.writer.end_hold(owner, why)
                    self.log.say(INFO, f"{owner.title} is held no longer: {why}")
            case LetGo():
                raise AssertionError("released elsewhere")

    def _release(self, decision: LetGo, value: Object) -> None:
        pod, nodes = decision.pod, decision.nodes
        if not self._may_say(f"release {pod.uid}", f"release pod {pod.title}: {decision.why}"):
            return
        patch = release_patch(value, self.judge.hosts(nodes), nodes)
        self.writer.release(value, patch, decision.why, {"nodes": list(nodes)})
        if nodes:
            self.judge.promise(value, nodes[0])
        self.log.say(INFO, f"release pod {pod.title}: {decision.why}", nodes=",".join(nodes[:8]))
        about = ObjectReference("Pod", pod.name, pod.namespace, pod.uid)
        self._tell(about, RELEASED_EVENT, f"waits no longer: {decision.why}", NORMAL)

    # --- removals ----------------------------------------------------------------------------------

    def _clean(self, now: float) -> None:
        with self._lock:
            pods = [
                AgedPod(pod, self._ages[uid][0] + now - self._ages[uid][1])
                for uid, pod in self.refused.items()
            ]
        wishes = removable(pods, self.rules.cleaning)
        if not self.rules.apply:
            for wish in wishes:
                self._may_say(f"delete {wish.pod.uid}", f"delete pod {wish.pod.title}: {wish.why}")
            return
        chosen = self._allowance.take(wishes[:MOST_AT_ONCE], now)
        self.more = len(chosen) == MOST_AT_ONCE
        if self.more:
            self._next = now
        for wish in chosen:
            self._hold_refused(self.clock())
            if not self._may():
                return
            try:
                self.writer.remove(wish.pod, wish.why)
                self.log.say(INFO, f"delete pod {wish.pod.title}: {wish.why}")
            except ApiConflict as problem:
                self.log.say(INFO, f"pod {wish.pod.title} is left alone: {problem}")
            except CHANGE_REFUSED as problem:
                self._not_taken(wish.pod.title, problem)
                continue
            with self._lock:
                if self.refused.get(wish.pod.uid) is wish.pod:  # what it is now, if anything, will be heard
                    del self.refused[wish.pod.uid]

    def _tell_stranded(self, now: float) -> None:
        with self._lock:
            unbound = {uid: value for uid, value in self.unbound.items() if self._chooses(value)}
        for value in self.stranded.look(unbound, lambda pod: bool(self.judge.prospect(pod).nodes), now):
            pod, note = _waiting(object_uid(value), value), stranded_note(value)
            if self._may_say(f"stranded {pod.uid}", f"say of pod {pod.title}: {note}"):
                self.log.say(WARNING, f"pod {pod.title} is stranded: {note}")
                self._tell(ObjectReference("Pod", pod.name, pod.namespace, pod.uid), STRANDED_EVENT, note)

    # --- words -------------------------------------------------------------------------------------

    def _explain_later(self, pod: RefusedPod, value: Object, now: float) -> None:
        """One explanation for an owner, a node's reason and a minute: its pods are alike."""
        key = f"{pod.owner.of.key if pod.owner is not None else pod.uid} {pod.reason}"
        if now - self._explained.get(key, float("-inf")) < EXPLAINED_AGAIN:
            return
        if len(self._explained) > MOST_REMEMBERED:
            self._explained.clear()
        self._explained[key] = now
        if not self._explanations.add((pod, value)):
            self.log.once("explanations", WARNING, "too many pods are refused at once to explain each")

    def explain_next(self) -> str:
        """Explain one refused pod, where some are to be; the words, '' when none is."""
        self._explanations.begin_turn()
        news = next(self._explanations.take(), None)
        if news is None:
            return ""
        pod, value = news
        note = self.judge.explanation(pod, value)
        now = self.clock()
        if self.rules.apply and not self.leads():
            return note  # whoever leads says it
        if not self._may_say(f"explain {pod.uid}", f"explain pod {pod.title}: {note}"):
            return note
        self._tell(ObjectReference("Pod", pod.name, pod.namespace, pod.uid), REFUSED_EVENT, note)
        if pod.owner is not None:
            held = pod.owner.of in self.book.holds
            wait = ". New pods of this revision wait until a node would let them in" if held else ""
            self._tell_owner(pod.owner, now, HELD_EVENT if held else REFUSED_EVENT, f"{note}{wait}")
        return note

    def _tell_owner(self, owner: Controller, now: float, reason: str, note: str) -> None:
        try:
            found = self._owner(owner, now)
        except NumawiseError:
            found = None
        self._tell(people_look_at(owner, found), reason, note)

    def _tell(self, about: ObjectReference, reason: str, note: str, kind: str = "Warning") -> None:
        if self.events is None:
            return
        try:
            self.events.tell(about, reason, note, kind, action="Heal")
        except NumawiseError as problem:
            self.log.once("events", WARNING, str(problem))

    # --- whether it may be done ----------------------------------------------------------------------

    def _may(self) -> bool:
        """Rule 2."""
        return self.rules.apply and self.leads()

    def _may_say(self, key: str, sentence: str) -> bool:
        """Whether a change may be made; in a dry run it is said once what it would be."""
        if not self.rules.apply:
            with self._lock:
                if key not in self._said:
                    self._remember(self._said, key)
                    self.log.say(INFO, f"would {sentence}")
            return False
        if not self._may():
            raise ApiConflict("another healer may lead by now")
        return True

    def _owner(self, owner: Controller, now: float) -> Object | None:
        """The owner as the server has it, read not long ago."""
        known = self._owners.get(owner)
        if known is not None and now - known[0] < AGAIN:
            return known[1]
        found = self.writer.owner(owner)
        if len(self._owners) >= MOST_REMEMBERED:
            self._owners.clear()
        self._owners[owner] = now, found
        return found

    @staticmethod
    def _remember(memory: dict[str, None], key: str) -> None:
        memory[key] = None
        while len(memory) > MOST_REMEMBERED:
            del memory[next(iter(memory))]


def _waiting(uid: str, value: Object) -> WaitingPod:
    metadata = mapping(value.get("metadata"))
    owner = controller_of(value)
    return WaitingPod(
        uid,
        str(metadata.get("namespace")),
        str(metadata.get("name")),
        owner.of if owner is not None else None,
        str(metadata.get("creationTimestamp") or ""),
        any(gate != HOLD_GATE for gate in scheduling_gates(value)),
    )

"""The smallest set of pods whose restart elsewhere lets a waiting pod in.

What is proved by asking the kubelets: once all pods of the set have ended, the waiting pod is let in on its
node, and then each of the others on some node, one after the other.

Rules kept here:

1. Only pods that ``cluster.restartable`` allows; of the pods of one disruption budget no more than it allows.
2. Of two sets the one with fewer pods is better, then the one whose highest priority is lower, then the one
   that asks for less: devices, then CPUs, then memory; then the first by name.
3. A pod is restarted to make room on a node to which the waiting pod goes, or another one that is restarted.
   That may be its own node: with the waiting pod there it gets other CPUs and devices.
4. Sets are looked at in the order of their size, up to ``MOST_RESTARTED`` pods.  What a kubelet refuses when
   more pods have ended it is not asked with fewer.
5. Of pods of a node that ask for the same, have the same priority and budgets, and hold nothing, it does not
   matter which are restarted; the first by name are.
6. After ``MOST_QUESTIONS`` questions to kubelets the search ends, and what is found then is not said to be
   the smallest.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from numawise.cluster.asking import Asker, LetIn, Situation
from numawise.cluster.choice import shape_of
from numawise.cluster.live import LiveCluster, Object
from numawise.cluster.restartable import Restartable, budget_of, priority_of, restartable
from numawise.codec.objects import kubelet_uid
from numawise.engine.state import held_by
from numawise.errors import SearchEnded
from numawise.request.constraints import SYSTEM_CRITICAL
from numawise.request.defaults import RawPod
from numawise.results.cluster import PodShape, PodSize
from numawise.results.node_room import EXACT
from numawise.results.restart import RestartPlan, RestartSearch, RestartStep
from numawise.sets import NumaSet
from numawise.values import dataclass, field, replace

MOST_RESTARTED = 4
MOST_QUESTIONS = 60_000
LAST_QUESTIONS = 2_000
"""To try what was found when the search had ended."""
Situations = Mapping[str, Situation]


@dataclass(frozen=True, slots=True)
class RestartBounds:
    """How far to look."""

    pods: int = MOST_RESTARTED
    questions: int = MOST_QUESTIONS


BOUNDS = RestartBounds()


def search_restart(
    situations: Situations,
    pods: Iterable[Restartable],
    raw: RawPod,
    allowed: Mapping[str, int] | None = None,
    bounds: RestartBounds = BOUNDS,
) -> RestartSearch:
    """Look for the smallest restart that lets a pod in; ``allowed``: disruptions, by budget."""
    search = _Search(situations, raw, allowed or {}, bounds.questions)
    by_uid = {pod.uid: pod for pod in pods}
    for pod in sorted(by_uid.values(), key=lambda pod: (pod.raw.namespace, pod.raw.name)):
        if pod.node in situations:
            search.here.setdefault(pod.node, []).append(pod)
    plan, complete = None, True
    try:
        for size in range(bounds.pods + 1):
            plan = search.smallest(size)
            if plan is not None:
                break
    except SearchEnded:
        plan, complete = search.last_resort(), False
    return RestartSearch(plan, complete, bounds.pods)


@dataclass(frozen=True, slots=True)
class _Set:
    """Pods to restart, and the node that the waiting pod goes to then."""

    node: str
    pods: tuple[Restartable, ...]

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(pod.uid for pod in self.pods)


@dataclass(slots=True)
class _Search:
    """One search."""

    situations: Situations
    raw: RawPod
    allowed: Mapping[str, int]
    left: int
    """Questions that may still be asked."""
    here: dict[str, list[Restartable]] = field(default_factory=dict)
    """Pods that may be restarted, by node."""
    asker: Asker = field(default_factory=lambda: Asker(()))
    known: dict[object, bool] = field(default_factory=dict)
    """Whether a pod is let in, by state and shape."""
    made: dict[object, tuple[bool, Situation]] = field(default_factory=dict)
    """Whether the end of pods makes room; the node is kept, so that nothing else has its id."""
    like: dict[str, object] = field(default_factory=dict)
    """What stands for a pod, by uid: itself, or all that it is like."""
    shapes: dict[str, PodShape] = field(default_factory=dict)
    stuck: list[_Set] = field(default_factory=list)
    """Sets that let the pod in, whose own pods are let in nowhere."""
    sets: list[_Set] = field(default_factory=list)
    """Sets of the size that is looked at which let the pod in."""
    tried: set[tuple[str, frozenset[str]]] = field(default_factory=set)

    def smallest(self, size: int) -> RestartPlan | None:
        """The best plan of so many pods (rule 2)."""
        self.sets = []
        for node, situation in self.situations.items():
            pods = self.here.get(node, [])
            for chosen in self.rooms(situation, self.raw, pods, size):
                self.sets.append(_Set(node, chosen))
        for start in self.stuck[:]:
            for wide in self.wider(start, size):
                self.sets.append(wide)
        return self.best_of_sets()

    def best_of_sets(self) -> RestartPlan | None:
        """The first set whose own pods are all let in, too."""
        for one in sorted(self.sets, key=self.key):
            if (one.node, one.uids) in self.tried or not self.is_allowed(one.pods):
                continue
            self.tried.add((one.node, one.uids))
            plan = self.plan(one)
            if plan is not None:
                return plan
            self.stuck.append(one)
        return None

    def last_resort(self) -> RestartPlan | None:
        """The best of what was found before the search ended (rule 6)."""
        self.left += LAST_QUESTIONS
        try:
            plan = self.best_of_sets()
        except SearchEnded:
            return None
        return replace(plan, smallest=False) if plan is not None else None

    def key(self, one: _Set) -> tuple[object, ...]:
        """Rule 2."""
        sizes = [self.shape(pod).size for pod in one.pods]
        total = PodSize(
            sum(size.devices for size in sizes),
            sum(size.milli_cpus for size in sizes),
            sum(size.memory for size in sizes),
        )
        priorities = sorted((pod.priority for pod in one.pods), reverse=True)
        names = sorted((pod.raw.namespace, pod.raw.name) for pod in one.pods)
        return len(one.pods), priorities, total, names, one.node

    def shape(self, pod: Restartable) -> PodShape:
        shape = self.shapes.get(pod.uid)
        if shape is None:
            shape = self.shapes[pod.uid] = shape_of(pod.raw)
        return shape

    def is_allowed(self, pods: Iterable[Restartable]) -> bool:
        """Rule 1."""
        counts = Counter(budget for pod in pods for budget in pod.budgets)
        return all(count <= self.allowed.get(budget, 0) for budget, count in counts.items())

    # --- which pods make room -----------------------------------------------------------------

    def rooms(
        self, situation: Situation, raw: RawPod, pods: Sequence[Restartable], size: int
    ) -> Iterator[tuple[Restartable, ...]]:
        """Sets of exactly so many pods of a node whose end lets a pod in there, none of them for nothing."""
        if size > len(pods) or (size and not self.makes_room(situation, pods, raw)):
            return
        for chosen in self._chosen(situation, raw, (), tuple(pods), size):
            fewer = (chosen[:at] + chosen[at + 1 :] for at in range(size))
            if not any(self.makes_room(situation, some, raw) for some in fewer):
                yield chosen

    def _chosen(
        self,
        situation: Situation,
        raw: RawPod,
        chosen: tuple[Restartable, ...],
        open_: tuple[Restartable, ...],
        size: int,
    ) -> Iterator[tuple[Restartable, ...]]:
        """All sets that have the chosen ones and some of those that are open (rule 4)."""
        enough = self.makes_room(situation, chosen, raw)
        if len(chosen) == size:
            if enough:
                yield chosen
            return
        if enough or len(chosen) + len(open_) < size:  # more would be for nothing, or there are no more
            return
        if not self.makes_room(situation, chosen + open_, raw):
            return
        yield from self._chosen(situation, raw, (*chosen, open_[0]), open_[1:], size)
        others = tuple(pod for pod in open_[1:] if not self.are_alike(situation, pod, open_[0]))
        yield from self._chosen(situation, raw, chosen, others, size)

    def are_alike(self, situation: Situation, pod: Restartable, other: Restartable) -> bool:
        """Whether it is the same which of two pods ends: they ask for the same and hold nothing."""
        return self.likeness(situation, pod) == self.likeness(situation, other)

    def likeness(self, situation: Situation, pod: Restartable) -> object:
        """The same for pods of a node that can stand for each other (rule 5)."""
        known = self.like.get(pod.uid)
        if known is None:
            holding = held_by(situation.state, pod.uid)
            own = bool(holding.cpus or holding.memory or holding.devices)
            known = pod.uid if own else (self.asker.shape(pod.raw), pod.priority, pod.budgets)
            self.like[pod.uid] = known
        return known

    def wider(self, start: _Set, size: int) -> Iterator[_Set]:
        """A set that is not enough, with others that make room for its own pods (rule 3)."""
        more = size - len(start.pods)
        if more < 1:
            return
        gone = start.uids
        for node, situation in self.situations.items():
            others = [pod for pod in self.here.get(node, ()) if pod.uid not in gone]
            if not others:
                continue
            after = _without(situation, (pod for pod in start.pods if pod.node == node))
            if node == start.node:
                answer = self.ask(after, self.raw)
                if answer is None:
                    continue
                after = after.after(answer)
            for pod in self.different(start.pods):
                for count in range(1, more + 1):
                    for room in self.rooms(after, pod.raw, others, count):
                        wide = _Set(start.node, (*start.pods, *room))
                        if count == more:
                            yield wide
                        else:
                            yield from self.wider(wide, size)

    def different(self, pods: Iterable[Restartable]) -> list[Restartable]:
        """One of each shape."""
        shapes: dict[object, Restartable] = {}
        for pod in pods:
            shapes.setdefault(self.asker.shape(pod.raw), pod)
        return list(shapes.values())

    # --- whether all are let in then ----------------------------------------------------------

    def plan(self, one: _Set) -> RestartPlan | None:
        """The steps, when everything is let in somewhere."""
        gone = one.uids
        after = {
            node: _without(situation, (pod for pod in self.here.get(node, ()) if pod.uid in gone))
            for node, situation in self.situations.items()
        }
        answer = self.ask(after[one.node], self.raw)
        if answer is None:
            return None
        after[one.node] = after[one.node].after(answer)
        steps = self.steps(after, one.pods)
        if steps is None:
            return None
        numa = answer.outcome.numas(after[one.node].member.node.machine)
        return RestartPlan(self.raw.namespace, self.raw.name, one.node, NumaSet(numa), steps)

    def steps(
        self, after: dict[str, Situation], pods: Sequence[Restartable]
    ) -> tuple[RestartStep, ...] | None:
        """Where each of the pods is let in, in some order; None: not all of them are."""
        if not pods:
            return ()
        for pod in self.different(sorted(pods, key=lambda pod: self.shape(pod).size, reverse=True)):
            rest = [other for other in pods if other is not pod]
            looked: set[object] = set()
            for node in sorted(after, key=lambda name: after[name].member.free):
                token = self.asker.token(after[node])
                if token in looked:
                    continue
                looked.add(token)
                answer = self.ask(after[node], pod.raw)
                if answer is None:
                    continue
                later = self.steps({**after, node: after[node].after(answer)}, rest)
                if later is not None:
                    return self.step(pod, node), *later
        return None

    def step(self, pod: Restartable, node: str) -> RestartStep:
        raw = pod.raw
        return RestartStep(
            raw.namespace, raw.name, pod.uid, pod.owner, pod.priority, self.shape(pod), pod.node, node
        )

    # --- asking -------------------------------------------------------------------------------

    def ask(self, situation: Situation, raw: RawPod) -> LetIn | None:
        """What becomes of a node that lets a pod in; None: it does not."""
        if not self.is_let_in(situation, raw):
            return None
        answer = self.asker.ask(situation, raw)
        return None if isinstance(answer, str) else answer

    def makes_room(self, situation: Situation, pods: Sequence[Restartable], raw: RawPod) -> bool:
        """Whether a pod is let in on a node once others have ended."""
        key = id(situation), frozenset(pod.uid for pod in pods), self.asker.shape(raw), raw.uid
        known = self.made.get(key)
        if known is None:
            known = self.made[key] = self.is_let_in(_without(situation, pods), raw), situation
        return known[0]

    def is_let_in(self, situation: Situation, raw: RawPod) -> bool:
        """Whether a kubelet lets a pod in; it answers once for each state and shape (rule 6)."""
        alone = raw.constraints.ports or (raw.constraints.priority or 0) >= SYSTEM_CRITICAL
        key = (
            (situation.member.name, frozenset(situation.state.active), raw.uid)
            if alone  # it looks at who is there
            else (self.asker.token(situation), self.asker.shape(raw))
        )
        if self.left <= 0:
            raise SearchEnded("the search for pods to restart has ended")
        self.left -= 1
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = not isinstance(self.asker.ask(situation, raw), str)
        return known


def _without(situation: Situation, pods: Iterable[Restartable]) -> Situation:
    uids = [pod.uid for pod in pods]
    return situation.without(uids) if uids else situation


# --- a cluster ------------------------------------------------------------------------------


def smallest_restart(
    view: LiveCluster,
    raw: RawPod,
    now: float,
    pods: Iterable[Object],
    budgets: Iterable[Object] = (),
    bounds: RestartBounds = BOUNDS,
) -> RestartSearch:
    """The smallest restart that lets a pod of a cluster in.

    Only nodes whose answers are exact take part, because the plan is to come true.  ``pods``: objects of the
    pods that run, ``budgets``: PodDisruptionBudgets, as the API server sends them.
    """
    situations = {
        name: situation
        for name in view.names
        if (situation := view.situation(name, now)) is not None and view.how(name) == EXACT
    }
    known = [budget_of(one) for one in budgets]
    able: list[Restartable] = []
    fixed: Counter[str] = Counter()
    for value in pods:
        uid = kubelet_uid(value)
        pod = view.pods.get(uid)
        if pod is None or pod.raw is None or pod.ended or pod.node not in situations or uid == raw.uid:
            continue
        if uid not in situations[pod.node].state.active:
            continue  # what it holds is not known there
        found = restartable(value, pod.raw, priority_of(raw), known)
        if isinstance(found, Restartable):
            able.append(found)
        else:
            fixed[found] += 1
    allowed = {one.key: one.allowed for one in known}
    return replace(search_restart(situations, able, raw, allowed, bounds), fixed=dict(fixed))

"""Whose new pods wait, for how long, and which of them may go: decided here, done elsewhere.

Rules kept here:

1. An owner whose pod was refused is held at once: its next pods get a scheduling gate.  A pod behind the gate
   goes as soon as a kubelet would let it in, only to nodes that would, and of a namespace one at a time: the
   next one when it is bound, or after ``BINDING`` seconds.  A pod that others hold, too, is not let go and
   keeps nobody waiting.
2. A hold has a time limit that doubles each time, up to ``longest``.  At the limit it goes on only where the
   state of every node is known exactly and none would let the pod in.  Otherwise, and in any case ``longest``
   seconds after the last try, one pod is let go without advice: whoever judges may be wrong.  When a node
   keeps it for ``STAYS`` seconds, the next one is tried at once.  No other pod keeps an owner from this.
3. A node that refuses a pod which it should have let in is not named for that owner again until a time has
   passed that doubles with each such refusal.
4. A hold ends when its owner is gone or has another template, when somebody took it off the list, or when no
   pod waited and none was refused for ``calm`` seconds.  An owner that is refused again before ``forget``
   seconds have passed goes on with the limits that it had.
5. Time is a monotonic clock, passed in.  No more than ``most`` owners are held, and of one namespace no more
   than a fifth of them.
6. Namespaces take turns, and in each decision a namespace has ``MOST_STEPS`` of them, for those that have
   waited longest for one: what one namespace has that waits does not put off what another one has.  Nobody
   holds a pod of another namespace, whatever owner it names.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from numawise.apps.heal.refused import HELD_KINDS, Controller, OwnerRevision, RefusedPod
from numawise.apps.heal.taking_turns import MOST_STEPS, by_namespace, in_turns
from numawise.values import dataclass, field

FIRST, LONGEST, CALM, FORGET, MOST_HOLDS = 30.0, 3600.0, 60.0, 900.0, 1000
BINDING = 5.0
"""Seconds that others wait for a pod that was let go and is not bound yet."""
SETTLING = 1.0
"""Seconds after a refusal in which a node is not named again: what it publishes comes later."""
STAYS = 5.0
"""Seconds after which a node is taken to keep a pod; a kubelet refuses at once."""
MOST_NODES = 64
"""So many nodes a pod is sent to at most."""


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """How long owners are held."""

    first: float = FIRST
    longest: float = LONGEST
    calm: float = CALM
    forget: float = FORGET
    most: int = MOST_HOLDS

    def limit(self, number: int) -> float:
        """Seconds of the hold of a number, from 0."""
        return min(self.first * 2.0 ** min(max(number, 0), 30), self.longest)


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod behind our gate."""

    uid: str
    namespace: str
    name: str
    owner: OwnerRevision | None
    created: str = ""
    gated: bool = False
    """Others hold it, too."""

    @property
    def title(self) -> str:
        """As people name it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Prospect:
    """What kubelets would say to a pod now."""

    nodes: tuple[str, ...] = ()
    """Those that would let it in, the best first."""
    exact: bool = False
    """The state of every node is known exactly."""
    reason: str = ""
    """Why most of them would not."""


@dataclass(slots=True)
class OwnerHold:
    """An owner that is held."""

    owner: Controller
    since: float
    until: float
    number: int = 0
    """How often its limit was prolonged."""
    tried: float = 0.0
    """When a pod was last let go without advice, or the hold began."""
    refused: int = 0
    last: float = 0.0
    """When a pod was last refused, or last waited."""
    nodes: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Nodes that refused: how often against what was said, and until when they are not named."""
    trial: str = ""
    """The pod that was let go without advice, by uid; '': none, or it was refused."""
    stays: float = 0.0
    """Since when that pod is bound; 0: it is not."""
    checked: float = 0.0
    """When its owner was last looked at."""
    looked: float = 0.0
    """When it was last asked what nodes would say to its first pod."""


@dataclass(frozen=True, slots=True)
class PutHold:
    """Put an owner on the list, or keep it there for longer."""

    owner: Controller
    seconds: float
    refused: int
    nodes: tuple[str, ...]
    why: str
    again: bool = False
    """It is on the list already."""


@dataclass(frozen=True, slots=True)
class EndHold:
    """Take an owner off the list."""

    owner: Controller
    why: str


@dataclass(frozen=True, slots=True)
class LetGo:
    """Take the gate off a pod; ``nodes``: it may go to these alone, none: anywhere."""

    pod: WaitingPod
    nodes: tuple[str, ...]
    why: str
    owner: Controller | None = None


HoldDecision = PutHold | EndHold | LetGo
Judge = Callable[[WaitingPod], Prospect]


class HoldBook:
    """All holds, and what becomes of them."""

    def __init__(self, settings: HoldSettings = HoldSettings()) -> None:  # noqa: B008 - a frozen value
        self.settings = settings
        self.holds: dict[OwnerRevision, OwnerHold] = {}
        self.overfull = 0
        """Owners that were not held because too many are."""
        self._ended: dict[OwnerRevision, tuple[int, float]] = {}
        """Limits of holds that ended, and when."""
        self._going: dict[str, tuple[str, float]] = {}
        """Pods that were let go and are not bound: their namespace, and since when."""

    # --- what happens --------------------------------------------------------------------------

    def hold_of(self, owner: OwnerRevision | None, namespace: str) -> OwnerHold | None:
        """The hold of an owner in a namespace (rule 6)."""
        hold = self.holds.get(owner) if owner is not None else None
        return hold if hold is not None and hold.owner.namespace == namespace else None

    def is_full(self, namespace: str) -> bool:
        """Whether no more owners of a namespace can be held (rule 5)."""
        near = sum(hold.owner.namespace == namespace for hold in self.holds.values())
        return len(self.holds) >= self.settings.most or near >= max(1, self.settings.most // 5)

    def refuse(self, pod: RefusedPod, now: float, *, steered: bool) -> PutHold | None:
        """A pod was refused; ``steered``: on a node of which the judge had said that it would not be."""
        owner = pod.owner
        self._going.pop(pod.uid, None)
        if owner is None or owner.kind not in HELD_KINDS:
            return None
        hold = self.hold_of(owner.of, owner.namespace)
        if hold is not None:
            self._count(hold, pod, now, steered=steered)
            return None
        if owner.of in self.holds or self.is_full(owner.namespace):
            self.overfull += 1
            return None
        number, ended = self._ended.pop(owner.of, (-1, 0.0))
        number = number + 1 if number >= 0 and now - ended < self.settings.forget else 0
        seconds = self.settings.limit(number)
        hold = OwnerHold(owner, now, now + seconds, number, tried=now)
        self.holds[owner.of] = hold
        self._count(hold, pod, now, steered=steered)
        why = f"pod {pod.title} was refused by {pod.node}: {pod.reason}"
        return PutHold(owner, seconds, 1, (pod.node,), why)

    def _count(self, hold: OwnerHold, pod: RefusedPod, now: float, *, steered: bool) -> None:
        hold.refused += 1
        hold.last = now
        if hold.trial == pod.uid:
            hold.trial, hold.stays = "", 0.0
        wrong, until = hold.nodes.get(pod.node, (0, 0.0))
        if steered:
            wrong, until = wrong + 1, now + self.settings.limit(wrong)
        hold.nodes[pod.node] = wrong, max(until, now + SETTLING)

    def adopt(self, owner: Controller, number: int, left: float, refused: int, now: float) -> None:
        """A hold that stands on the list and is not known yet: ours of before, or another leader's."""
        if owner.of in self.holds or owner.kind not in HELD_KINDS:
            return
        number = min(max(number, 0), 30)
        left = min(max(left, 0.0), self.settings.limit(number))
        self.holds[owner.of] = OwnerHold(owner, now, now + left, number, now, max(refused, 0), now)

    def end(self, of: OwnerRevision, why: str, now: float) -> EndHold | None:
        """A hold ends; None: there is none."""
        hold = self.holds.pop(of, None)
        if hold is None:
            return None
        self._ended[of] = hold.number, now
        for old in [key for key, (_, at) in self._ended.items() if now - at >= self.settings.forget]:
            del self._ended[old]
        return EndHold(hold.owner, why)

    # --- what follows --------------------------------------------------------------------------

    def decide(
        self,
        waiting: Iterable[WaitingPod],
        unbound: Iterable[str],
        judge: Judge,
        now: float,
        most: int = MOST_STEPS,
    ) -> Iterator[HoldDecision]:
        """What is to be done now, in turns (rule 6); ``unbound``: uids of pods that no node has yet.

        Each is to be done before the next one is asked for.
        """
        pods = sorted(waiting, key=lambda pod: (pod.created, pod.title))
        uids = {pod.uid for pod in pods} | set(unbound)
        self._settle(uids, now)
        lanes = [self._lane(own, uids, judge, now) for own in by_namespace(pods, lambda pod: pod.namespace)]
        steps = in_turns(islice(lane, most) for lane in lanes)
        yield from (decision for decision in steps if decision is not None)
        yield from self._calm(now)

    def _lane(
        self, pods: Iterable[WaitingPod], unbound: set[str], judge: Judge, now: float
    ) -> Iterator[HoldDecision | None]:
        """The steps of one namespace; None: somebody was looked at, and waits."""
        free: list[WaitingPod] = []
        first: dict[OwnerRevision, tuple[OwnerHold, WaitingPod]] = {}
        for pod in pods:
            hold = self.hold_of(pod.owner, pod.namespace)
            if hold is None:
                free.append(pod)
            elif not pod.gated:
                first.setdefault(hold.owner.of, (hold, pod))
        for hold, _ in first.values():
            hold.last = now
            self._watch_trial(hold, bound=hold.trial not in unbound, now=now)
        held = sorted(first.values(), key=lambda pair: pair[0].looked)
        judged = (self._judged(hold, pod, judge, now) for hold, pod in held)
        return in_turns((judged, (LetGo(pod, (), "no hold has its owner") for pod in free)))

    def _settle(self, unbound: set[str], now: float) -> None:
        for uid, (_, since) in list(self._going.items()):
            if uid not in unbound or now - since >= BINDING:
                del self._going[uid]

    def _watch_trial(self, hold: OwnerHold, *, bound: bool, now: float) -> None:
        if not hold.trial or not bound:
            return
        hold.stays = hold.stays or now
        if now - hold.stays >= STAYS:
            hold.trial, hold.stays, hold.number, hold.until = "", 0.0, 0, now

    def _judged(self, hold: OwnerHold, pod: WaitingPod, judge: Judge, now: float) -> HoldDecision | None:
        """Rules 1 and 2, for the first pod of an owner that waits."""
        others = any(namespace == pod.namespace for namespace, _ in self._going.values())
        if others and now < hold.until:
            return None
        hold.looked = now
        prospect = judge(pod)
        nodes = tuple(node for node in prospect.nodes if hold.nodes.get(node, (0, 0.0))[1] <= now)
        if nodes:
            self._going[pod.uid] = pod.namespace, now
            count = f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}"
            return LetGo(pod, nodes[:MOST_NODES], f"{count} would let it in now", hold.owner)
        if now < hold.until:
            return None
        hold.number += 1
        seconds = self.settings.limit(hold.number)
        hold.until = now + seconds
        waited = now - hold.tried
        refusing = tuple(sorted(hold.nodes))
        if prospect.exact and not prospect.nodes and waited < self.settings.longest:
            why = f"no node would let its pods in: {prospect.reason or 'no node is there'}"
            return PutHold(hold.owner, seconds, hold.refused, refusing, why, again=True)
        hold.tried = now
        hold.trial, hold.stays = pod.uid, 0.0
        self._going[pod.uid] = pod.namespace, now
        known = "" if prospect.exact else "; what all nodes would say is not known"
        return LetGo(pod, (), f"tried after {waited:.0f} s{known}", hold.owner)

    def _calm(self, now: float) -> list[HoldDecision]:
        quiet = [of for of, hold in self.holds.items() if now - hold.last >= self.settings.calm]
        ended = [self.end(of, f"nothing refused for {self.settings.calm:.0f} s", now) for of in quiet]
        return [decision for decision in ended if decision is not None]

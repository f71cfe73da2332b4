"""What the kubelets of many nodes would say to a pod, asked once for each state and each shape of pod.

Rules kept here:

1. A node must have enough by sums, as the scheduler sees it, before its kubelet is asked.
2. A kubelet that is only asked remembers nothing.  A pod is let in when it is admitted and its containers
   start.
3. Pods of one shape ask for the same: what they request, and what else they demand of a node.
4. An answer holds for all nodes with the same token, and for a shape that looks at labels or other pods for
   this node alone, until it changes.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from numawise.cluster.state_key import DeviceRanks, StateKey, state_key
from numawise.engine.admit import Crashed, Rejected, admit
from numawise.engine.lifecycle import remove, start_containers
from numawise.engine.matching import Unmet, kept_away
from numawise.engine.predicates import Insufficient, Sums, add, asked, insufficient, judged, used
from numawise.engine.state import NodeState
from numawise.node.node import SimulatedNode
from numawise.request.constraints import NO_CONSTRAINTS, PodConstraints
from numawise.request.defaults import ORDINARY, RawPod
from numawise.request.model import CPU, MEMORY, PodRequest
from numawise.results.simulation import Simulated, numas_of
from numawise.values import dataclass, field, replace

if TYPE_CHECKING:
    from numawise.cluster.refusal import RefusalName

CRASHES, NO_START = "the kubelet crashes", "a container cannot start"
MOST_WANTED = 512
MOST_SHAPES_SEEN = 8192
Shape = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Occupant:
    """A pod on a node, as far as the choice of a node looks at it."""

    numa: int
    """NUMA nodes, packed, on which it has something of its own."""
    since: float = 0.0
    """When it came."""
    ends: bool = True
    """False: nobody knows that it will, so nobody waits for it."""


@dataclass(slots=True)
class Member:
    """One node of many."""

    name: str
    node: SimulatedNode
    token: int
    """Stands for the state: nodes with the same one would answer the same."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    placed: list[Simulated] = field(default_factory=list)
    rejected: int = 0
    """Pods that were sent here and refused."""
    before: int = 0
    """Pods that were here from the start."""
    free: float = 0.0
    """The share of CPU and memory that no pod asked for."""
    changes: int = 0
    """How often its state changed."""
    occupants: dict[str, Occupant] = field(default_factory=dict)
    """Its pods, by uid."""
    number: int = 0
    """Its place among all."""
    kind: Hashable = None
    """Stands for its machine, rules and Node object where equal ones are known to be equal."""

    def __post_init__(self) -> None:
        self.count()

    def count(self) -> None:
        """Work out the free share again."""
        shares = [
            1 - self.used.get(name, 0) / self.allocatable[name]
            for name in (CPU, MEMORY)
            if self.allocatable.get(name)
        ]
        self.free = sum(shares) / len(shares) if shares else 0.0


@dataclass(frozen=True, slots=True)
class LetIn:
    """What a kubelet would do with a pod that it lets in."""

    pod: PodRequest
    outcome: Simulated
    state: NodeState
    """After its containers have started."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A node as it is, or as it would be."""

    member: Member
    state: NodeState
    used: Mapping[str, int]

    @classmethod
    def of(cls, member: Member) -> "Situation":
        """A node as it is."""
        return cls(member, member.node.state, member.used)

    def after(self, answer: LetIn) -> "Situation":
        """The node once a pod has been let in."""
        sums = dict(self.used)
        add(sums, asked(answer.pod))
        return Situation(self.member, answer.state, sums)

    def without(self, uids: Iterable[str]) -> "Situation":
        """The node once pods have ended."""
        gone = [uid for uid in uids if uid in self.state.active]
        state = remove(self.state, *gone)
        return Situation(self.member, state, used(state))


def members_of(groups: Iterable[tuple[Sequence[str], SimulatedNode]]) -> tuple[Member, ...]:
    """Nodes out of kubelets that were started; those of one group begin alike."""
    members: list[Member] = []
    for token, (names, node) in enumerate(groups):
        node.write_files = False
        limits, sums = node.allocatable(), used(node.state)
        there = {
            uid: Occupant(numas_of(node.machine, node.state, uid), ends=False) for uid in node.state.active
        }
        for name in names:
            own = replace(node) if len(names) > 1 else node
            member = Member(name, own, token, limits, dict(sums), before=len(there), number=len(members))
            member.occupants.update(there)
            members.append(member)
    return tuple(members)


class Asker:
    """Asks kubelets, and knows which of them answer alike."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.tokens = count()
        self.states: dict[StateKey, int] = {}
        self.ranks = DeviceRanks()
        self.shapes: dict[tuple[int, int], tuple[object, object, Shape]] = {}
        self.kept: dict[int, object] = {}
        self.named: dict[Hashable, RefusalName] = {}
        self.lasting: dict[Hashable, str] = {}
        """What refusals are called (``cluster.refusal``)."""
        self.wanted: dict[tuple[int, int, frozenset[str]], tuple[RawPod, PodRequest, dict[str, int]]] = {}
        for member in members:
            member.token = self.token(Situation.of(member))

    # --- what is the same ---------------------------------------------------------------------

    def token(self, situation: Situation) -> int:
        """The number of a state; equal ones have the same."""
        node = situation.member.node
        kind = situation.member.kind
        key = state_key(node, situation.state, situation.used, self.ranks, kind)
        if key is None:
            return next(self.tokens)
        known = self.states.get(key)
        if known is None:
            known = self.states[key] = next(self.tokens)
            for thing in (node.machine, node.rules, node.description) if kind is None else ():
                self.kept[id(thing)] = thing  # as long as it lives, nothing else has its id
        return known

    def shape(self, raw: RawPod) -> Shape:
        """What a pod asks for, as a key (rule 3); pods of one workload share their containers."""
        at = id(raw.containers), id(raw.constraints)
        known = self.shapes.get(at)
        if known is None or raw.requests is not None or raw.limits is not None or raw.overhead:
            containers = tuple(
                (one.name, one.role, _key(one.requests), _key(one.limits), one.claimed, one.backed)
                for one in raw.containers
            )
            shape: Shape = (
                containers,
                _key(raw.requests),
                _key(raw.limits),
                _key(raw.overhead),
                repr(raw.constraints) if raw.constraints is not NO_CONSTRAINTS else "",
                raw.qos,
            )
            if len(self.shapes) >= MOST_SHAPES_SEEN:
                self.shapes.clear()
            known = self.shapes[at] = (
                raw.containers,
                raw.constraints,
                shape,
            )  # kept: nothing else has their id
        shape = known[2]
        return shape if shape[-1] == raw.qos else (*shape[:-1], raw.qos)

    def place(self, member: Member, raw: RawPod) -> Hashable:
        """What an answer to a pod is remembered by (rule 4)."""
        if looks_nowhere(raw.constraints):
            return member.token
        return member.number, member.changes

    # --- what a kubelet says ------------------------------------------------------------------

    def want(self, node: SimulatedNode, raw: RawPod) -> tuple[PodRequest, dict[str, int]]:
        """What reaches a kubelet of these rules, and its sums; worked out once for each pod."""
        rules = node.rules
        key = id(raw), id(rules), node.claimed(raw)
        known = self.wanted.get(key)
        if known is None:
            if len(self.wanted) >= MOST_WANTED:
                self.wanted.clear()
            pod = node.requested(raw)
            known = self.wanted[key] = raw, pod, judged(rules, pod)
        return known[1:]

    def lack(self, situation: Situation, raw: RawPod) -> Insufficient | Unmet | None:
        """Why a scheduler would not send a pod to a node (rule 1)."""
        member = situation.member
        node = member.node
        pod, want = self.want(node, raw)
        short = insufficient(node.rules, Sums(member.allocatable, situation.used), want)
        if short:
            return short[0]
        return kept_away(node.rules, node.description, pod, situation.state.active.items())

    def ask(self, situation: Situation, raw: RawPod) -> LetIn | str:
        """What a kubelet would do with a pod, or why it would not; nothing is kept (rules 1 and 2)."""
        short = self.lack(situation, raw)
        if short is not None:
            return short.reason
        member = situation.member
        node = member.node
        pod, _ = self.want(node, raw)
        sums = None  # the scheduler has looked at them, and at what it asks for more than the kubelet
        if node.description is not None or pod.constraints is not ORDINARY:
            sums = Sums(member.allocatable, situation.used, node.description)
        decision = admit(node.machine, node.rules, situation.state, pod, sums=sums)
        if isinstance(decision, Rejected):
            return decision.reason
        if isinstance(decision, Crashed):
            return CRASHES
        state, started = start_containers(node.machine, node.rules, decision.state, pod, decision.affinity)
        if any(container.error for container in started):
            return NO_START
        granted = NodeState(decision.state.cpu, decision.state.memory, state.devices)
        return LetIn(pod, Simulated(pod, decision, (), started, granted, node.facts), state)

    # --- what happens -------------------------------------------------------------------------

    def settle(self, member: Member, answer: LetIn, now: float = 0.0) -> None:
        """A pod is let in and starts."""
        member.node.keep(answer.state)
        add(member.used, asked(answer.pod))
        member.count()
        member.placed.append(answer.outcome)
        member.occupants[answer.pod.uid] = Occupant(
            numas_of(member.node.machine, answer.state, answer.pod.uid), now
        )
        self.changed(member)

    def end(self, member: Member, uid: str) -> None:
        """A pod ends."""
        member.node.remove(uid)
        member.used = dict(used(member.node.state))
        member.count()
        member.occupants.pop(uid, None)
        self.changed(member)

    def changed(self, member: Member) -> None:
        """The state of a node is another one."""
        member.changes += 1
        member.token = self.token(Situation.of(member))

    def tidy(self, members: Iterable[Member]) -> None:
        """Forget states that no node is in any more."""
        live = {member.token for member in members}
        if len(self.states) > 4 * len(live) + 1000:
            self.states = {key: token for key, token in self.states.items() if token in live}
            self.named.clear()


def looks_nowhere(constraints: PodConstraints) -> bool:
    """Whether a pod demands nothing of a node but that its taints are tolerated (rule 4)."""
    return constraints is NO_CONSTRAINTS or (
        not constraints.critical and replace(constraints, tolerations=(), priority=None) == NO_CONSTRAINTS
    )


def looks_at_labels(constraints: PodConstraints) -> bool:
    """Whether a pod demands of a node, besides, labels and nothing else."""
    return looks_nowhere(replace(constraints, node_selector={}, node_affinity=None))


def _key(amounts: object) -> Hashable:
    if not isinstance(amounts, dict):
        return None
    return tuple((name, amount.nano, amount.exact) for name, amount in amounts.items())

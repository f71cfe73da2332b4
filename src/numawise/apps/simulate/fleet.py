"""Many nodes and a queue of pods: which node each goes to, and who fits nowhere.

Rules kept here:

1. Pods arrive in order, and none leaves.  A node must have enough by sums, as the scheduler sees it, before
   its kubelet is asked.
2. ``first``: the first node in order whose kubelet admits the pod and starts its containers.  ``spread``:
   likewise, but the emptiest first.  ``sums``: the emptiest by sums, as a scheduler sends it that knows no
   NUMA nodes; when the kubelet there refuses, the pod has failed.
3. A kubelet that is only asked remembers nothing; the answer holds until its state changes, for all nodes in
   the same state and all pods that ask for the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from numawise.apps.simulate.scenario import Progress
from numawise.engine.admit import Crashed, Rejected, admit
from numawise.engine.lifecycle import start_containers
from numawise.engine.matching import Unmet, kept_away
from numawise.engine.predicates import Insufficient, Sums, add, asked, insufficient, judged, used
from numawise.engine.state import NodeState
from numawise.node.node import SimulatedNode
from numawise.render.demands import unmet_text
from numawise.request.defaults import ORDINARY, RawPod
from numawise.request.model import CPU, MEMORY, PodRequest
from numawise.results.simulation import NOWHERE, PLACED, REJECTED, FleetNode, FleetRun, Sent, Simulated
from numawise.values import dataclass, field, replace

FIRST, SPREAD, SUMS = "first", "spread", "sums"
CHOICES = (FIRST, SPREAD, SUMS)
CRASHES, NO_START = "the kubelet crashes", "a container cannot start"


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


@dataclass(slots=True)
class Fleet:
    """All nodes, and what became of the pods so far."""

    members: tuple[Member, ...]
    choice: str = FIRST
    sent: list[Sent] = field(default_factory=list)
    total: int = 0
    interrupted: bool = False

    def result(self) -> FleetRun:
        """What became of all of it so far."""
        nodes = tuple(
            FleetNode(
                name=member.name,
                version=member.node.version,
                pods=member.before + len(member.placed),
                rejected=member.rejected,
                exclusive_cpus=exclusive_cpus(member.node.state),
                allocatable=dict(member.allocatable),
                requested=member.used,
                resources=tuple(sorted(member.node.state.devices.plugins)),
            )
            for member in self.members
        )
        return FleetRun(nodes, self.choice, self.sent, self.total, self.interrupted)


def fleet_of(groups: Iterable[tuple[Sequence[str], SimulatedNode]], choice: str = FIRST) -> Fleet:
    """Nodes out of kubelets that were started; those of one group begin alike."""
    tokens = count()
    members: list[Member] = []
    for names, node in groups:
        node.write_files = False
        token = next(tokens)
        limits, sums = node.allocatable(), used(node.state)
        for name in names:
            own = replace(node) if len(names) > 1 else node
            before = len(node.state.active)
            members.append(Member(name, own, token, limits, dict(sums), before=before))
    return Fleet(tuple(members), choice)


def send(fleet: Fleet, pods: Sequence[RawPod], progress: Progress = lambda _: None) -> Fleet:
    """Send the pods in order; interrupted, the fleet reports what was done so far."""
    fleet.total = len(pods)
    desk = _Desk(fleet)
    try:
        for number, pod in enumerate(pods, 1):
            fleet.sent.append(desk.send(pod))
            progress(number)
    except KeyboardInterrupt:
        fleet.interrupted = True
    return fleet


Shape = tuple[object, ...]


@dataclass(slots=True)
class _Asked:
    """What is known about pods of one shape."""

    refused: dict[int, str] = field(default_factory=dict)
    """State → why it does not go there."""
    nowhere: tuple[int, Sent] | None = None
    """After how many changes no node took it, and what was said."""


class _Desk:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.tokens = count(1 + max((one.token for one in fleet.members), default=0))
        self.changes = 0
        self.known: dict[Shape, _Asked] = {}
        self.shapes: dict[int, Shape] = {}
        self.kept: list[object] = []
        self.wanted: dict[tuple[int, frozenset[str]], tuple[PodRequest, dict[str, int]]] = {}

    def send(self, raw: RawPod) -> Sent:
        self.wanted.clear()
        known = self.known.setdefault(self.shape(raw), _Asked())
        if known.nowhere is not None and known.nowhere[0] == self.changes:
            return replace(known.nowhere[1], pod=raw)
        return self.by_sums(raw, known) if self.fleet.choice == SUMS else self.by_asking(raw, known)

    def shape(self, raw: RawPod) -> Shape:
        """What a pod asks for, as a key; pods of one workload share their containers."""
        found = self.shapes.get(id(raw.containers))
        if found is None or raw.requests is not None or raw.limits is not None:
            containers = tuple(
                (one.name, one.role, _key(one.requests), _key(one.limits)) for one in raw.containers
            )
            found = (containers, _key(raw.requests), _key(raw.limits), raw.qos, repr(raw.constraints))
            self.shapes[id(raw.containers)] = found
            self.kept.append(raw.containers)  # as long as it lives, nothing else has its id
        return found if found[3] == raw.qos else (*found[:3], raw.qos, found[4])

    def by_asking(self, raw: RawPod, known: _Asked) -> Sent:
        """The first node that admits it (rule 2)."""
        refused = known.refused
        for member in self.in_order():
            if member.token in refused:
                continue
            found = self.ask(member, raw)
            if isinstance(found, str):
                refused[member.token] = found
                continue
            pod, outcome, state = found
            self.settle(member, pod, outcome, state)
            return Sent(raw, PLACED, member.name, outcome)
        reasons = Counter(refused[member.token] for member in self.fleet.members)
        sent = Sent(raw, NOWHERE, reasons=tuple(reasons.most_common()), why=self.why(raw, known))
        known.nowhere = (self.changes, sent)
        return sent

    def by_sums(self, raw: RawPod, known: _Asked) -> Sent:
        """The emptiest node; its kubelet has the last word (rule 2)."""
        lacks: Counter[str] = Counter()
        for member in self.in_order():
            pod, want = self.want(member, raw)
            short = _lack(member, pod, want)
            if short is not None:
                lacks[short.reason] += 1
                continue
            answer = self.ask(member, raw)
            if not isinstance(answer, str):
                self.settle(member, *answer)
                return Sent(raw, PLACED, member.name, answer[1])
            why = _why(member, raw)
            decision = member.node.admit(pod)  # this time it is meant: what a refusal leaves behind stays
            member.rejected += 1
            self.changed(member)
            outcome = Simulated(pod, decision, (), (), member.node.state, member.node.facts)
            return Sent(raw, REJECTED, member.name, outcome, ((answer, 1),), why)
        sent = Sent(raw, NOWHERE, reasons=tuple(lacks.most_common()))
        known.nowhere = (self.changes, sent)
        return sent

    def want(self, member: Member, raw: RawPod) -> tuple[PodRequest, dict[str, int]]:
        """What reaches a kubelet of these rules, and its sums; worked out once for each pod."""
        rules = member.node.rules
        key = id(rules), member.node.claimed(raw)
        found = self.wanted.get(key)
        if found is None:
            pod = member.node.requested(raw)
            found = self.wanted[key] = pod, judged(rules, pod)
        return found

    def in_order(self) -> Iterable[Member]:
        if self.fleet.choice == FIRST:
            return self.fleet.members
        return sorted(self.fleet.members, key=lambda member: -member.free)

    def ask(self, member: Member, raw: RawPod) -> tuple[PodRequest, Simulated, NodeState] | str:
        """What a kubelet would do with a pod, or why it would not; nothing is kept (rules 1 and 3)."""
        node = member.node
        pod, want = self.want(member, raw)
        short = _lack(member, pod, want)
        if short is not None:
            return short.reason
        sums = None  # the scheduler has looked at them, and at what it asks for more than the kubelet
        if node.description is not None or pod.constraints is not ORDINARY:
            sums = Sums(member.allocatable, member.used, node.description)
        decision = admit(node.machine, node.rules, node.state, pod, sums=sums)
        if isinstance(decision, Rejected):
            return decision.reason
        if isinstance(decision, Crashed):
            return CRASHES
        state, started = start_containers(node.machine, node.rules, decision.state, pod, decision.affinity)
        if any(one.error for one in started):
            return NO_START
        granted = NodeState(decision.state.cpu, decision.state.memory, state.devices)
        return pod, Simulated(pod, decision, (), started, granted, node.facts), state

    def settle(self, member: Member, pod: PodRequest, outcome: Simulated, state: NodeState) -> None:
        member.node.keep(state)
        add(member.used, asked(pod))
        member.count()
        member.placed.append(outcome)
        self.changed(member)

    def changed(self, member: Member) -> None:
        member.token = next(self.tokens)
        self.changes += 1

    def why(self, raw: RawPod, known: _Asked) -> str:
        """Of one node where the sums would do: what decided, for its scheduler or its kubelet."""
        for member in self.fleet.members:
            if not known.refused[member.token].startswith("OutOf"):
                pod, want = self.want(member, raw)
                short = _lack(member, pod, want)
                if not isinstance(short, Unmet):
                    return _why(member, raw)
                cause, fix = unmet_text(short, pod, lambda uid: uid)
                return f"{member.name}: {cause}; {fix}"
        return ""


def _lack(member: Member, pod: PodRequest, want: dict[str, int]) -> Insufficient | Unmet | None:
    """Why a scheduler would not send a pod to a node (rule 1)."""
    node = member.node
    short = insufficient(node.rules, Sums(member.allocatable, member.used), want)
    return short[0] if short else kept_away(node.rules, node.description, pod, node.state.active.items())


def _why(member: Member, raw: RawPod) -> str:
    from numawise.explain.case import case_of  # noqa: PLC0415 - few pods need it
    from numawise.explain.explain import explain  # noqa: PLC0415

    answer = explain(case_of(member.node, raw), suggest=False).answer
    return f"{member.name}: {answer}"


def _key(amounts: object) -> object:
    if not isinstance(amounts, dict):
        return None
    return tuple((name, amount.nano, amount.exact) for name, amount in amounts.items())


def exclusive_cpus(state: NodeState) -> int:
    """How many CPUs of a node are exclusive."""
    found = 0
    for containers in state.cpu.assignments.values():
        for own in containers.values():
            found |= own
    for own in state.cpu.pods.values():
        found |= own
    return found.bit_count()

"""Many nodes and a queue of pods: which node each goes to, and who fits nowhere.

Rules kept here:

1. Pods arrive in order, and none leaves.  A node must have enough by sums, as the scheduler sees it, before
   its kubelet is asked.
2. ``first``: the first node in order whose kubelet admits the pod and starts its containers.  ``spread``:
   likewise, but the emptiest first.  ``sums``: the emptiest by sums, as a scheduler sends it that knows no
   NUMA nodes; when the kubelet there refuses, the pod has failed.
3. Answers are remembered as ``cluster.asking`` says: for all nodes in the same state and all pods that ask
   for the same.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import partial

from numawise.apps.simulate.scenario import Progress
from numawise.cluster.asking import Asker, LetIn, Member, Shape, Situation, members_of
from numawise.cluster.refusal import refusal_name
from numawise.engine.predicates import Insufficient
from numawise.engine.state import NodeState
from numawise.node.node import SimulatedNode
from numawise.render.demands import unmet_text
from numawise.request.defaults import RawPod
from numawise.results.simulation import NOWHERE, PLACED, REJECTED, FleetNode, FleetRun, Sent, Simulated
from numawise.values import dataclass, field, replace

FIRST, SPREAD, SUMS = "first", "spread", "sums"
CHOICES = (FIRST, SPREAD, SUMS)


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
    return Fleet(members_of(groups), choice)


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


@dataclass(slots=True)
class _Asked:
    """What is known about pods of one shape."""

    refused: set[Hashable] = field(default_factory=set)
    """States in which a node does not take them."""
    nowhere: tuple[int, Sent] | None = None
    """After how many changes no node took it, and what was said."""


class _Desk:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.asker = Asker(fleet.members)
        self.changes = 0
        self.known: dict[Shape, _Asked] = {}

    def send(self, raw: RawPod) -> Sent:
        known = self.known.setdefault(self.asker.shape(raw), _Asked())
        if known.nowhere is not None and known.nowhere[0] == self.changes:
            return replace(known.nowhere[1], pod=raw)
        return self.by_sums(raw, known) if self.fleet.choice == SUMS else self.by_asking(raw, known)

    def by_asking(self, raw: RawPod, known: _Asked) -> Sent:
        """The first node that admits it (rule 2)."""
        refused, place = known.refused, self.asker.place
        for member in self.in_order():
            if place(member, raw) in refused:
                continue
            answer = self.asker.ask(Situation.of(member), raw)
            if isinstance(answer, str):
                refused.add(place(member, raw))
                continue
            self.settle(member, answer)
            return Sent(raw, PLACED, member.name, answer.outcome)
        name = partial(refusal_name, self.asker)
        reasons = Counter(name(Situation.of(member), raw).reason for member in self.fleet.members)
        sent = Sent(raw, NOWHERE, reasons=tuple(reasons.most_common()), why=self.why(raw))
        known.nowhere = (self.changes, sent)
        return sent

    def by_sums(self, raw: RawPod, known: _Asked) -> Sent:
        """The emptiest node; its kubelet has the last word (rule 2)."""
        lacks: Counter[str] = Counter()
        for member in self.in_order():
            situation = Situation.of(member)
            short = self.asker.lack(situation, raw)
            if short is not None:
                lacks[short.reason] += 1  # as a scheduler says it that knows no NUMA nodes
                continue
            answer = self.asker.ask(situation, raw)
            if not isinstance(answer, str):
                self.settle(member, answer)
                return Sent(raw, PLACED, member.name, answer.outcome)
            why = _why(member, raw)
            pod = member.node.requested(raw)
            decision = member.node.admit(pod)  # this time it is meant: what a refusal leaves behind stays
            member.rejected += 1
            self.asker.changed(member)
            self.changes += 1
            outcome = Simulated(pod, decision, (), (), member.node.state, member.node.facts)
            return Sent(raw, REJECTED, member.name, outcome, ((answer, 1),), why)
        sent = Sent(raw, NOWHERE, reasons=tuple(lacks.most_common()))
        known.nowhere = (self.changes, sent)
        return sent

    def in_order(self) -> Iterable[Member]:
        if self.fleet.choice == FIRST:
            return self.fleet.members
        return sorted(self.fleet.members, key=lambda member: -member.free)

    def settle(self, member: Member, answer: LetIn) -> None:
        self.asker.settle(member, answer)
        self.changes += 1

    def why(self, raw: RawPod) -> str:
        """Of one node where the sums would do: what decided, for its scheduler or its kubelet."""
        for member in self.fleet.members:
            short = self.asker.lack(Situation.of(member), raw)
            if not isinstance(short, Insufficient):
                if short is None:
                    return _why(member, raw)
                cause, fix = unmet_text(short, member.node.requested(raw), lambda uid: uid)
                return f"{member.name}: {cause}; {fix}"
        return ""


def _why(member: Member, raw: RawPod) -> str:
    from numawise.explain.case import case_of  # noqa: PLC0415 - few pods need it
    from numawise.explain.explain import explain  # noqa: PLC0415

    answer = explain(case_of(member.node, raw), suggest=False).answer
    return f"{member.name}: {answer}"


def exclusive_cpus(state: NodeState) -> int:
    """How many CPUs of a node are exclusive."""
    found = 0
    for containers in state.cpu.assignments.values():
        for own in containers.values():
            found |= own
    for own in state.cpu.pods.values():
        found |= own
    return found.bit_count()

"""A pod that waits for a node, in words: the answer, the nodes by their reasons, and what would let it in."""

from collections.abc import Iterator, Sequence

from numawise.render.restart import restart_notes, restart_sentence
from numawise.render.words import both, counted
from numawise.results.pending import HOLD_GATE, ClusterAnswer, NodesAlike

MOST_NAMED = 4


def pending_answer(answer: ClusterAnswer, *, template: bool = False) -> str:
    """The first sentence, without a full stop."""
    start = "Not scheduled: there is no such pod yet" if template else "Not scheduled"
    join = "; " if template else ": "
    nodes = counted(answer.nodes, "node")
    if not answer.nodes:
        return f"{start}{join}the cluster has no nodes that are known here"
    if answer.able:
        would = "would" if answer.gates or template else "would by now"
        return f"{start}{join}{named(answer.able)} {would} let it in{_of(answer)}"
    if answer.never:
        none = "the one node could not" if answer.nodes == 1 else f"none of {nodes} could"
        return f"{start}{join}it can never be admitted as the nodes are: {none}, even idle"
    if answer.open:
        rest = answer.nodes - len(answer.open)
        others = "; the other node would not" if rest == 1 else f"; none of the other {rest} would"
        told = f"{named(answer.open)} may let it in, but publishes nothing that would tell"
        if len(answer.open) > 1:
            told = told.replace("publishes", "publish")
        return f"{start}{join}{told}{others if rest else ''}"
    none = "the one node would not" if answer.nodes == 1 else f"none of {nodes} would"
    return f"{start}{join}{none} let it in now"


def _of(answer: ClusterAnswer) -> str:
    return f" ({len(answer.able)} of {counted(answer.nodes, 'node')})" if answer.nodes > 1 else ""


def named(nodes: Sequence[str]) -> str:
    """``nodes a, b and 3 others``."""
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    if len(nodes) <= MOST_NAMED:
        return f"nodes {both(list(nodes))}"
    return f"nodes {', '.join(nodes[:3])} and {len(nodes) - 3} others"


def pending_remarks(answer: ClusterAnswer) -> Iterator[str]:
    """What stands between the pod and the scheduler, a sentence each without a full stop."""
    if answer.gates:
        gates = both([f"{gate}" for gate in answer.gates])
        ours = (
            " (numawise heal removes it once a node would let the pod in)"
            if HOLD_GATE in answer.gates
            else ""
        )
        yield f"It is held back by the scheduling gate {gates}{ours}"
    if answer.scheduler:
        yield f"The scheduler says: {answer.scheduler.rstrip('.')}"


def alike_line(alike: NodesAlike) -> tuple[str, str]:
    """How many nodes, and why; which they are."""
    doubt = "" if alike.known == "exact" else f" ({alike.known})"
    never = "" if not alike.never or "even when idle" in alike.reason else ", never even when idle"
    return f"{counted(len(alike.nodes), 'node')}: {alike.reason}{never}{doubt}", named(alike.nodes)


def pending_ways(answer: ClusterAnswer) -> Iterator[tuple[str, str]]:
    """What would let the pod in besides changes: a sentence, and what else to know of it."""
    if answer.awaited is not None:
        pods, node = answer.awaited.pods, answer.awaited.node
        who = (
            both(list(pods))
            if len(pods) <= MOST_NAMED
            else f"{', '.join(pods[:3])} and {len(pods) - 3} others"
        )
        yield (
            f"Wait until {who} {'has' if len(pods) == 1 else 'have'} ended on node {node}",
            "they end by themselves",
        )
    if answer.restart is not None and answer.restart.plan is not None and answer.restart.plan.steps:
        yield restart_sentence(answer.restart), "; ".join(restart_notes(answer.restart))


def pending_limits(answer: ClusterAnswer) -> Iterator[str]:
    """What was looked for in vain, a sentence each."""
    if answer.restart is not None and answer.restart.plan is None:
        yield restart_sentence(answer.restart)

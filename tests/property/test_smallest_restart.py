"""The smallest restart is the one that trying all sets of pods gives, and its steps come true."""

import random
from collections.abc import Iterable, Sequence
from itertools import combinations, permutations

import pytest

from numawise.cluster.asking import Asker, LetIn, Member, Situation
from numawise.cluster.defrag import RestartBounds, search_restart
from numawise.cluster.restartable import Restartable
from numawise.request.defaults import RawPod
from numawise.results.restart import RestartPlan
from numawise.values import replace
from tests.unit.cluster.nodes import gpu_pod, nodes, put

MOST = 3


def fleet(seed: int) -> tuple[tuple[Member, ...], list[Restartable], RawPod]:
    draw = random.Random(seed)
    members = nodes(
        draw.choice((1, 2, 2, 3)),
        topologyManagerPolicy=draw.choice(("single-numa-node", "single-numa-node", "restricted")),
    )
    asker = Asker(members)
    pods = []
    there: list[tuple[Member, RawPod]] = []
    for number in range(18):
        raw = gpu_pod(f"p{number}", draw.choice((0, 1, 1, 2, 3)), draw.choice(("1", "2", "4", "1500m")))
        room = [m for m in members if isinstance(asker.ask(Situation.of(m), raw), LetIn)]
        if room:
            there.append((draw.choice(room), raw))
            put(asker, *there[-1])
    draw.shuffle(there)  # what is free lies in pieces
    for member, raw in there[: draw.randint(2, 4)]:
        asker.end(member, raw.uid)
    for member, raw in there[4:13]:
        again = replace(raw, uid=f"again {raw.uid}")
        budgets = ("b",) if draw.random() < 0.3 else ()
        priority = draw.choice((0, 0, 5))
        pods.append(Restartable(again, raw.uid, member.name, priority, "ReplicaSet web", budgets))
    return members, pods, gpu_pod("waits", draw.choice((2, 3, 4)), draw.choice(("1", "2", "4")))


def is_possible(members: Sequence[Member], chosen: Sequence[Restartable], raw: RawPod) -> bool:
    """Try every node for the waiting pod, then every order and every node for the others."""
    asker = Asker(())
    start = {m.name: Situation.of(m).without([p.uid for p in chosen if p.node == m.name]) for m in members}

    def placed(after: dict[str, Situation], order: Sequence[RawPod]) -> bool:
        if not order:
            return True
        for name, situation in after.items():
            answer = asker.ask(situation, order[0])
            if isinstance(answer, LetIn) and placed({**after, name: situation.after(answer)}, order[1:]):
                return True
        return False

    return any(placed(start, [raw, *(p.raw for p in order)]) for order in permutations(chosen))


def by_force(
    members: Sequence[Member], pods: Sequence[Restartable], raw: RawPod, allowed: int
) -> list[frozenset[str]]:
    """All smallest sets."""
    for size in range(MOST + 1):
        sets = [
            frozenset(pod.uid for pod in chosen)
            for chosen in combinations(pods, size)
            if sum(len(pod.budgets) for pod in chosen) <= allowed and is_possible(members, chosen, raw)
        ]
        if sets:
            return sets
    return []


def comes_true(
    members: Iterable[Member], plan: RestartPlan, pods: Iterable[Restartable], raw: RawPod
) -> bool:
    """Do it: end all, then let everything in where the plan says."""
    asker = Asker(())
    after = {m.name: Situation.of(m) for m in members}
    for step in plan.steps:
        after[step.node] = after[step.node].without([step.uid])
    by_uid = {pod.uid: pod for pod in pods}
    for node, pod in [(plan.node, raw), *((step.to, by_uid[step.uid].raw) for step in plan.steps)]:
        answer = asker.ask(after[node], pod)
        if not isinstance(answer, LetIn):
            return False
        after[node] = after[node].after(answer)
    return True


@pytest.mark.parametrize("seed", range(40))
def test_it_is_what_trying_everything_gives(seed: int) -> None:
    members, pods, raw = fleet(seed)
    allowed = seed % 3
    search = search_restart(
        {m.name: Situation.of(m) for m in members}, pods, raw, {"b": allowed}, RestartBounds(pods=MOST)
    )
    assert search.complete
    smallest = by_force(members, pods, raw, allowed)
    if search.plan is None:
        assert not smallest
        return
    assert frozenset(step.uid for step in search.plan.steps) in smallest
    assert comes_true(members, search.plan, pods, raw)
    priorities = {pod.uid: pod.priority for pod in pods}

    def highest(uids: Iterable[str]) -> list[int]:
        return sorted((priorities[uid] for uid in uids), reverse=True)

    assert highest(step.uid for step in search.plan.steps) == min(map(highest, smallest))

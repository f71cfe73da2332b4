"""Places that are kept: nobody joins those waited for, and every pod that fits an empty node runs in the end."""

import random

import pytest

from numawise.apps.simulate.cluster import TraceSettings, _ByNode, _Given, run_trace
from numawise.cluster.asking import Asker, Member, members_of
from numawise.cluster.kept_places import KeptPlaces, KeptTerms, LatePod, turn_of
from numawise.node.node import SimulatedNode
from numawise.results.cluster import OURS, Arrival
from tests.unit.cluster.nodes import gpu_pod, kubelet, nodes, put


class Watched(_ByNode):
    """A trace whose kept places are looked at after every step."""

    def keep_places(self) -> None:
        before = {
            uid: (place.member, place.waited_for, place.uids) for uid, place in self.kept.places.items()
        }
        super().keep_places()
        for uid, place in self.kept.places.items():
            member, waited, uids = before.get(uid, (None, frozenset(), frozenset()))
            if member is place.member and uids == place.uids:
                assert place.waited_for <= waited
        self.seen = getattr(self, "seen", 0) + len(self.kept.places)


@pytest.mark.parametrize("seed", range(3))
def test_every_pod_runs_in_the_end(seed: int) -> None:
    draw = random.Random(seed)
    arrivals = [
        Arrival(
            draw.uniform(0, 900),
            draw.choice((50, 400, 900)),
            gpu_pod(f"p{number}", draw.choice((1, 1, 1, 2, 4))),
        )
        for number in range(50)
    ]
    arrivals.sort(key=lambda arrival: arrival.at)
    members = members_of([(["a", "b", "c"], kubelet())])
    play = Watched(_Given(OURS, members, arrivals, TraceSettings(patience=60), "x/gpu"))
    play.play(lambda _: None)
    assert play.result().never == 0
    assert play.seen
    assert not play.queue


def endless(patience: float) -> list[float]:
    """Four small pods at a time for ever, one always there before the last has gone; a large one waits."""
    arrivals = [Arrival(25.0 * number, 101.0, gpu_pod(f"small-{number}", 1)) for number in range(120)]
    arrivals.append(Arrival(300.0, 50.0, gpu_pod("large", 4)))
    arrivals.sort(key=lambda arrival: arrival.at)
    groups = [(["a"], one_half())]
    run = run_trace(groups, arrivals, [OURS], TraceSettings(patience=patience))
    return [shape.longest for shape in run.choices[0].shapes]


def one_half() -> SimulatedNode:
    """A node with a half that is held for ever; nobody waits for that."""
    node = kubelet()
    members = members_of([(["a"], node)])
    put(Asker(members), members[0], gpu_pod("for-ever", 4))
    return members[0].node


def test_a_large_pod_is_not_starved_by_small_ones() -> None:
    kept, starved = endless(200), endless(1e9)
    assert starved[0] > 2000
    assert kept[0] < 500
    assert kept[1] < 200


def full(member: Member, asker: Asker, *gpus: int) -> None:
    for number, count in enumerate(gpus):
        put(asker, member, gpu_pod(f"{member.name}-{number}", count))


def test_the_place_with_the_fewest_pods_to_end() -> None:
    members = nodes(2)
    asker = Asker(members)
    full(members[0], asker, 2, 2, 1, 1, 1)
    full(members[1], asker, 2, 2, 3)
    kept = KeptPlaces(members, asker, KeptTerms(places=2))
    first, second = gpu_pod("w0", 4), gpu_pod("w1", 4)
    kept.keep([LatePod(second, 2.0), LatePod(first, 1.0)], 10.0)
    assert [(place.member.name, sorted(place.uids)) for place in kept.places.values()] == [
        ("n1", ["n1-2"]),
        ("n0", ["n0-0", "n0-1"]),
    ]
    small = gpu_pod("small", 1)
    assert not kept.allows(members[1], small, turn_of(small))
    assert kept.allows(members[0], small, turn_of(small))
    assert kept.allows(members[1], first, turn_of(first, 1.0))


def test_who_takes_nothing_that_is_waited_for_may_pass() -> None:
    members = nodes(1)
    asker = Asker(members)
    full(members[0], asker, 4, 3)
    kept = KeptPlaces(members, asker)
    kept.keep([LatePod(gpu_pod("w", 4))], 0.0)
    small, none, shared = gpu_pod("small", 1), gpu_pod("no-gpu", 0), gpu_pod("shared", 0, cpu="500m")
    assert not kept.allows(members[0], small, turn_of(small))
    assert kept.allows(members[0], none, turn_of(none))
    assert kept.allows(members[0], shared, turn_of(shared))


def test_what_fits_no_empty_node_keeps_nothing() -> None:
    members = nodes(1)
    kept = KeptPlaces(members, Asker(members))
    kept.keep([LatePod(gpu_pod("w", 5))], 0.0)
    assert not kept.places

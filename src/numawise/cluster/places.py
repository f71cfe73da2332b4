"""How many more pods of a shape would be let in now, by node and in all.

Rules kept here:

1. Every shape is counted for itself: copies of a pod are let in one after the other, until the kubelet
   refuses one or the sums do.  Nothing is kept.
2. Without pods the shapes are those of pods that run on the nodes and have something of their own: what they
   ask for, without what else they demand of a node.
3. Nodes in equal states are counted once.
"""

from collections.abc import Callable, Hashable, Sequence

from numawise.cluster.asking import Asker, LetIn, Member, Situation
from numawise.cluster.choice import shape_of
from numawise.cluster.refusal import refusal_name
from numawise.request.defaults import RawContainer, RawPod
from numawise.request.model import PodRequest
from numawise.results.cluster import NodePlaces, PlacesReport, ShapePlaces
from numawise.values import replace


def count_places(
    members: Sequence[Member],
    pods: Sequence[RawPod],
    most: int,
    progress: Callable[[int], None] = lambda _: None,
    asker: Asker | None = None,
) -> PlacesReport:
    """Count copies of each pod, at most so many on a node; without pods, of each shape that runs (rule 2).

    ``asker``: the one that knows the members already.
    """
    asker = asker or Asker(members)
    learned = not pods
    named = [(pod.name, pod) for pod in pods] if pods else running_pods(members)
    shapes: dict[Hashable, tuple[str, RawPod]] = {}
    for name, pod in named:
        shapes.setdefault(asker.shape(pod), (name, pod))
    report = []
    for number, (name, pod) in enumerate(shapes.values()):
        known: dict[Hashable, tuple[int, bool, str]] = {}
        nodes = []
        for at, member in enumerate(members):
            place = asker.place(member, pod)
            if place not in known:
                known[place] = places_on(asker, member, pod, most)
            nodes.append(NodePlaces(member.name, *known[place]))
            progress(number * len(members) + at + 1)
        report.append(ShapePlaces(name, shape_of(pod), tuple(nodes)))
    report.sort(key=lambda places: places.shape.size, reverse=True)
    return PlacesReport(learned, tuple(report))


def places_on(asker: Asker, member: Member, raw: RawPod, most: int) -> tuple[int, bool, str]:
    """How many copies of a pod one node lets in; whether it may be more; why there is no further one."""
    situation = Situation.of(member)
    for number in range(most):
        copy = replace(raw, uid=f"copy {number}", name=f"{raw.name}-{number}")
        answer = asker.ask(situation, copy)
        if not isinstance(answer, LetIn):
            return number, False, refusal_name(asker, situation, copy).reason or answer
        situation = situation.after(answer)
    return most, True, ""


def running_pods(members: Sequence[Member]) -> list[tuple[str, RawPod]]:
    """The pods that run and have something of their own, as they would come again."""
    pods = []
    for member in members:
        for uid, request in member.node.state.active.items():
            if request is not None and member.occupants[uid].numa:
                pod = _again(request)
                pods.append((shape_of(pod).name, pod))
    return pods


def _again(request: PodRequest) -> RawPod:
    containers = tuple(
        RawContainer(one.name, one.role, one.requests, one.limits, claimed=one.claimed)
        for one in request.containers
    )
    return RawPod(
        "again",
        request.name,
        containers,
        request.requests,
        request.limits,
        request.namespace,
        request.overhead,
        request.qos,
    )

"""Whatever a tenant adds to a cluster, what others hold, wait for or are let in to stays as it was.

Ten kinds of litter are added to a small cluster in which others hold, wait and ask; some of each usually, and
10,000 of each with ``LAWS=10``.
"""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from numawise.apps.scheduler.questions import Questions
from numawise.cluster.live import LiveCluster, LiveSettings
from numawise.cluster.live_places import LivePlaces
from numawise.codec.extender import ExtenderArgs
from numawise.codec.pod import pod_from
from numawise.codec.publication import STATE_ATTRIBUTE
from numawise.inputs.cluster import gone_remarks
from tests.property.strategies import TIMES
from tests.unit.cluster.live_objects import ALWAYS, api_node, api_pod, published
from tests.unit.cluster.nodes import GPU, kubelet

BORN = 1_763_287_200.0
OLD, YOUNG = "2025-11-16T10:00:00Z", "2025-11-16T10:05:00Z"
"""Of that time, and when the litter comes."""
NOW = BORN + 1000.0
NODES = tuple(f"n{number}" for number in range(6))
SIZE = min(10_000, 30 if TIMES < 1 else round(1000 * TIMES))
PATIENCE, KEPT = 300.0, 1800.0


def named(name: str, gpus: int, namespace: str, created: str = OLD, priority: int = 0, **more: Any) -> Any:
    spec = {"priority": priority, **more.pop("spec", {})}
    pod = api_pod(name, gpus, created=created, spec=spec, **more)
    pod["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{name}"}
    return pod


class Cluster:
    """Others' pods: two that hold, one that waits with a place, one that is promised a node."""

    def __init__(self) -> None:
        self.now = NOW
        self.view = LiveCluster(LiveSettings(patience=PATIENCE))
        for name in NODES:
            self.view.take_node(name, api_node(name), BORN)
            self.view.take_topology(name, published(kubelet(), name), BORN)
        self.view.nodes_were_read()
        self.questions = Questions(self.view, threading.RLock(), clock=lambda: self.now)
        for number, name in enumerate(NODES):
            restart = "Never" if number == 1 else ALWAYS
            pod = named(f"half-{name}", 4, "others", node=name, version=number + 1, restart=restart)
            self.take(pod)
        self.take(named("job", 4, "others", node="n0", version=20))
        waits = named("waits", 4, "others")
        self.take(waits)
        self.ask(waits, "n0")
        self.take(named("promised", 2, "others"))
        self.ask(named("promised", 2, "others"), "n5")

    def take(self, pod: Any, *, gone: bool = False) -> None:
        self.view.take_pod(pod, self.now, gone=gone)

    def ask(self, pod: Any, *names: str) -> tuple[str, ...]:
        """What kube-scheduler is answered."""
        return self.questions.filter(ExtenderArgs(pod, names or NODES)).names

    def looks(self, pod: Any) -> dict[str, tuple[bool, str, str, str]]:
        """What every node says to a pod, without a trace."""
        verdicts = self.view.judge(pod_from(pod), NODES, self.now)
        return {one.node: (one.rating is not None, one.reason, one.how, one.kept) for one in verdicts}

    def others(self) -> dict[str, Any]:
        """What others hold, wait for and are let in to."""
        shapes = [
            named(f"{gpus}-{priority}", gpus, "others", OLD, priority)
            for gpus in (1, 3, 4, 5)
            for priority in (0, 1000, 2_000_000_000)
        ]
        for pod in shapes:
            self.take(pod)
        seen: dict[str, Any] = {pod["metadata"]["name"]: self.looks(pod) for pod in shapes}
        for pod in shapes:
            self.take(pod, gone=True)
        for name in ("waits", "promised"):
            seen[name] = self.looks(named(name, 4, "others"))
        own = [pod for pod in self.view.pods.values() if pod.namespace == "others"]
        seen["hold"] = {pod.uid: pod.node for pod in own}
        seen["promises"] = {
            uid: one.node for uid, one in self.view.promises.items() if uid.startswith("others")
        }
        places = self.view.kept.places
        seen["places"] = {uid: one.member.name for uid, one in places.items() if uid.startswith("others")}
        asked = [("four", pod_from(named("four", 4, "others")))]
        (report,) = LivePlaces(self.view).report(asked, 8, lambda: self.now).shapes
        seen["places left"] = report.total
        seen["nodes"] = self.view.names
        return seen


def litter(kind: str, number: int, gpus: int = 4, **more: Any) -> Any:
    return named(f"{kind}-{number}", gpus, "tenant", YOUNG, **more)


def waiting(cluster: Cluster, draw: random.Random) -> None:
    for number in range(SIZE):
        cluster.take(litter("waiting", number, draw.choice((1, 2, 4, 8))))


def asked(cluster: Cluster, draw: random.Random) -> None:
    """Their volumes are where nothing is free."""
    for number in range(SIZE):
        pod = litter("asked", number, draw.choice((4, 5, 8)))
        cluster.take(pod)
        assert not cluster.ask(pod, "n0")


def asked_and_deleted(cluster: Cluster, draw: random.Random) -> None:
    for number in range(SIZE):
        pod = litter("asked_and_deleted", number, draw.choice((1, 4, 8)))
        cluster.take(pod)
        cluster.ask(pod, *draw.sample(NODES, 3))
        cluster.take(pod, gone=True)


def promised_and_withdrawn(cluster: Cluster, draw: random.Random) -> None:
    for number in range(SIZE):
        pod = litter("promised_and_withdrawn", number, 1)
        cluster.take(pod)
        cluster.ask(pod, draw.choice(NODES[1:5]))
        cluster.take({**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": "x"}]}})
        cluster.view.withdraw(pod["metadata"]["uid"])


def bound_where_no_node_is(cluster: Cluster, draw: random.Random) -> None:
    for number in range(SIZE):
        cluster.take(
            litter("bound_where_no_node_is", number, node=f"gone-{draw.randrange(40)}", version=100 + number)
        )


def ended(cluster: Cluster, draw: random.Random) -> None:
    for number in range(SIZE):
        phase = draw.choice(("Failed", "Succeeded"))
        cluster.take(litter("ended", number, node=draw.choice(NODES), version=100 + number, phase=phase))


def unreadable(cluster: Cluster, draw: random.Random) -> None:
    for number in range(SIZE):
        pod = litter("unreadable", number)
        pod["spec"]["containers"] = draw.choice((7, [{"resources": {"limits": {GPU: "many"}}}], [[]]))
        cluster.take(pod)


def gated(cluster: Cluster, draw: random.Random) -> None:
    for number in range(SIZE):
        gates = [{"name": f"gate-{draw.randrange(9)}"}]
        cluster.take(litter("gated", number, spec={"schedulingGates": gates}))


def of_gone_nodes(cluster: Cluster, draw: random.Random) -> None:
    value = published(kubelet(), "gone-0")
    for number in range(SIZE):
        name = f"gone-{number if draw.random() < 0.9 else 0}"
        cluster.view.take_topology(name, {**value, "metadata": {"name": name}}, cluster.now)


def broken(cluster: Cluster, draw: random.Random) -> None:
    for number in range(SIZE):
        value = published(kubelet(), "gone-0") if not number % 50 else {"attributes": [], "zones": 5}
        for one in value["attributes"]:
            if one["name"] == STATE_ATTRIBUTE:
                one["value"] = one["value"][: draw.randrange(40)]
        cluster.view.take_topology(f"gone-{number}", {**value, "metadata": {"name": "x"}}, cluster.now)


KINDS: tuple[Callable[[Cluster, random.Random], None], ...] = (
    waiting, asked, asked_and_deleted, promised_and_withdrawn, bound_where_no_node_is, ended, unreadable,
    gated, of_gone_nodes, broken,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_others_are_left_as_they_were(kind: Callable[[Cluster, random.Random], None]) -> None:
    cluster = Cluster()
    before = cluster.others()
    assert before["places"] == {"others-waits": "n0"}
    assert before["promises"] == {"others-promised": "n5"}
    assert before["places left"] == 4
    cluster.now += 5.0
    kind(cluster, random.Random(kind.__name__))
    assert cluster.others() == before


def test_all_of_it_together() -> None:
    cluster = Cluster()
    before = cluster.others()
    draw = random.Random(1)
    for kind in draw.sample(KINDS, len(KINDS)):
        cluster.now += 1.0
        kind(cluster, draw)
    assert cluster.others() == before
    (published_words, bound_words) = gone_remarks(cluster.view)  # named, however many
    assert "gone-" in published_words
    assert len(published_words) < 400
    assert f"{SIZE} pods" in bound_words


def test_those_behind_lose_one_node_to_a_namespace_and_not_for_ever() -> None:
    """A place is meant to hold off pods behind it: one, for its time; the next pods of the tenant gain none."""
    cluster = Cluster()
    late = named("late", 3, "others", "2025-11-16T10:09:00Z")
    cluster.take(late)
    before = cluster.looks(late)
    for name in NODES[1:5]:
        cluster.take(named(f"fills-{name}", 2, "others", node=name, version=60))

    def litter_asks(number: int) -> None:
        pod = litter("more", number)
        cluster.take(pod)
        cluster.ask(pod, *NODES[1:5])

    def closed() -> set[str]:
        return {name for name, said in cluster.looks(late).items() if said[3] != before[name][3]}

    for number in range(min(SIZE, 200)):
        litter_asks(number)
    for name in NODES[1:5]:
        cluster.take(named(f"fills-{name}", 2, "others", node=name, version=70, phase="Succeeded"))
    assert len(closed()) == 1
    for number in range(9):  # one after the other goes, and the next one waits in its stead
        cluster.now += KEPT / 10
        cluster.take(litter("more", number), gone=True)
        for name in NODES[1:5]:
            cluster.take(named(f"again-{number}-{name}", 2, "others", node=name, version=80 + number))
        for other in range(number + 1, 20):
            litter_asks(other)
        for name in NODES[1:5]:
            ends = named(f"again-{number}-{name}", 2, "others", node=name, version=90, phase="Succeeded")
            cluster.take(ends)
        assert len(closed()) <= 1
    cluster.now += KEPT / 10 + 1
    assert not closed()

"""A live view says what the kubelets would, however late, lost or early the pieces of it come."""

import random
from typing import Any

import pytest

from numawise.cluster.asking import Asker, LetIn, Member, Situation, members_of
from numawise.cluster.live import LiveCluster, LiveSettings
from numawise.codec.pod import pod_from
from numawise.engine.admit import Admitted
from numawise.node.node import SimulatedNode
from numawise.request.defaults import RawPod
from numawise.values import replace
from tests.property.lives import CONFIGS, members, some_pod
from tests.unit.cluster.live_objects import api_pod, published

PROMISED = 30.0


class Truth:
    """Kubelets as they are, and an API server that counts versions."""

    def __init__(self, config: dict[str, object], names: tuple[str, ...]) -> None:
        (first,) = members(config, 1)
        self.nodes = {name: replace(first.node) for name in names}
        self.pods: dict[str, dict[str, Any]] = {}
        self.version = 0

    def changed(self, value: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        value["metadata"] = {**value["metadata"], "resourceVersion": str(self.version)}
        return value

    def bind(self, value: dict[str, Any], name: str) -> list[dict[str, Any]]:
        """A pod is bound, its kubelet decides, and its status says so; the objects, as they were."""
        bound = self.changed(
            {**value, "spec": {**value["spec"], "nodeName": name}, "status": {"phase": "Pending"}}
        )
        node, pod = self.nodes[name], self.nodes[name].requested(pod_from(bound))
        decision = node.admit(pod)
        phase = "Failed"
        if isinstance(decision, Admitted):
            node.start(pod, decision)
            phase = "Running"
            self.pods[value["metadata"]["uid"]] = bound
        return [bound, self.changed({**bound, "status": {"phase": phase}})]

    def end(self, uid: str) -> dict[str, Any]:
        value = self.pods.pop(uid)
        self.nodes[value["spec"]["nodeName"]].remove(uid)
        return self.changed({**value, "status": {"phase": "Succeeded"}})


def says(view: LiveCluster, raw: RawPod, now: float) -> dict[str, str]:
    return {verdict.node: verdict.reason or verdict.how for verdict in view.judge(raw, None, now)}


def would_say(nodes: dict[str, SimulatedNode], raw: RawPod) -> dict[str, str]:
    made: tuple[Member, ...] = members_of([((name,), replace(node)) for name, node in nodes.items()])
    asker = Asker(made)
    answers = {member.name: asker.ask(Situation.of(member), raw) for member in made}
    return {name: "exact" if isinstance(answer, LetIn) else answer for name, answer in answers.items()}


def api_form(raw: RawPod) -> dict[str, Any]:
    (container,) = raw.containers
    limits = {name: str(amount) for name, amount in container.limits.items()}
    value = api_pod(raw.name)
    value["spec"]["containers"] = [{"name": container.name, "resources": {"limits": limits}}]
    return value


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values()))[:40])
@pytest.mark.parametrize("lag", [0, 1, 4, 1000])
def test_the_view_says_what_the_kubelets_would(config: dict[str, object], lag: int) -> None:
    """Objects of nodes come ``lag`` steps late, and a third is lost; those of pods come in order."""
    refusals = 0
    for seed in range(2):
        draw = random.Random(seed)
        truth = Truth(config, ("a", "b", "c"))
        view = LiveCluster(LiveSettings(promise_seconds=PROMISED))
        for name, node in truth.nodes.items():
            view.take_topology(name, published(node, name), 0.0)
        late: list[tuple[int, str, dict[str, Any]]] = []
        now = 100.0
        for step in range(45):
            now += draw.choice((0.1, 1.0, 3.0, -40.0))
            if truth.pods and draw.random() < 0.4:
                uid = draw.choice(sorted(truth.pods))
                name = truth.pods[uid]["spec"]["nodeName"]
                view.take_pod(truth.end(uid), now, gone=draw.random() < 0.4)
            else:
                value = api_form(some_pod(draw, f"p{step}"))
                name = draw.choice(sorted(truth.nodes))  # also where it is refused: somebody else bound it
                if draw.random() < 0.3:
                    view.take_pod(truth.changed(value), now)
                    view.promise(pod_from(value), draw.choice("abc"), now)
                for one in truth.bind(value, name)[draw.choice((0, 0, 0, 1)) :]:
                    view.take_pod(one, now)
            if draw.random() < 0.7:
                late.append((step + lag, name, published(truth.nodes[name], name)))
            while late and late[0][0] <= step:
                view.take_topology(*late.pop(0)[1:], now)
            probe = some_pod(draw, "probe")
            expected = would_say(truth.nodes, probe)
            refusals += sum(answer != "exact" for answer in expected.values())
            assert says(view, probe, now) == expected, (seed, step)
    assert refusals > 20


def test_promises_are_what_the_kubelets_would_say_after_them() -> None:
    for seed in range(6):
        draw = random.Random(seed)
        truth = Truth(dict(CONFIGS[seed % len(CONFIGS)]), ("a", "b"))
        view = LiveCluster(LiveSettings(promise_seconds=PROMISED))
        for name, node in truth.nodes.items():
            view.take_topology(name, published(node, name), 0.0)
        promised: list[tuple[float, dict[str, Any], str]] = []
        now = 0.0
        for step in range(50):
            now += draw.choice((0.5, 5.0))
            promised = [one for one in promised if one[0] + PROMISED > now]
            value = api_form(some_pod(draw, f"p{step}"))
            if promised and draw.random() < 0.6:
                _, bound, name = promised.pop(draw.randrange(len(promised)))
                uid = bound["metadata"]["uid"]
                if draw.random() < 0.5:
                    view.withdraw(uid)
                else:
                    for one in truth.bind(bound, draw.choice((name, "a", "b"))):
                        view.take_pod(one, now)
            else:
                name = draw.choice("ab")
                view.promise(pod_from(value), name, now)
                promised.append((now, value, name))
            if draw.random() < 0.3:
                view.take_topology("a", published(truth.nodes["a"], "a"), now)
            after = {name: replace(node) for name, node in truth.nodes.items()}
            for _, value, name in promised:
                pod = after[name].requested(pod_from(value))
                decision = after[name].admit(pod)
                if isinstance(decision, Admitted):
                    after[name].start(pod, decision)
            probe = some_pod(draw, "probe")
            assert says(view, probe, now) == would_say(after, probe), (seed, step)

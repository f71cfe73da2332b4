"""Providers: in which order they are asked, and that a further one is one class and one entry."""

import pytest

from numawise.engine.admit import Admitted, Rejected
from numawise.engine.failure import Failure
from numawise.engine.hint import NO_PREFERENCE, Answer, Hint, HintList
from numawise.engine.provider import Admission, Provider
from numawise.engine.topology import scope
from numawise.engine.trace import HintsFound, Step
from numawise.request.model import ContainerRequest
from numawise.rules.model import Rules
from numawise.sets import format_ids
from tests.unit.build import GI, STATIC, T3, kubelet, machine, pod

CONFIG = {**STATIC, "topologyManagerPolicy": "restricted"}


class Claims:
    """A made-up provider of things that only NUMA node 1 has, and that somebody may have taken."""

    name = "claims"

    def __init__(self, failure: Failure | None = None) -> None:
        self.failure = failure
        self.asked: list[str] = []

    def present(self, rules: Rules) -> bool:
        return rules.cpu_static

    def collect(self, admission: Admission) -> None:
        self.asked.append(f"collect {admission.pod.uid}")

    def hints(self, admission: Admission, container: ContainerRequest | None) -> Answer:
        assert admission.pod.containers
        return NO_PREFERENCE if container is None else {"claim": HintList(((0b10, True),))}

    def allocate(self, admission: Admission, container: ContainerRequest, affinity: Hint) -> Failure | None:
        self.asked.append(f"{admission.pod.uid}/{container.name} on {format_ids(affinity.mask or 0)}")
        return self.failure

    def allocate_pod(self, admission: Admission, affinity: Hint) -> Failure | None:
        raise NotImplementedError


def test_the_kubelets_order() -> None:
    assert [provider.name for provider in scope.PROVIDERS] == ["device", "cpu", "memory"]
    steps: list[Step] = []
    kubelet(machine(T3, 8 * GI), **CONFIG).admit(pod("p", "c cpu=2 memory=1Gi"), steps.append)
    assert [step.provider for step in steps if isinstance(step, HintsFound)] == ["device", "cpu", "memory"]


def test_a_further_provider_has_its_say(monkeypatch: pytest.MonkeyPatch) -> None:
    claims: Provider = Claims()
    monkeypatch.setattr(scope, "PROVIDERS", (*scope.PROVIDERS, claims))
    decision = kubelet(machine(T3, 8 * GI), **CONFIG).admit(pod("p", "c cpu=2 memory=1Gi"))
    assert isinstance(decision, Admitted)
    assert decision.affinity["c"].mask == 0b10
    assert isinstance(claims, Claims)
    assert claims.asked == ["collect p", "p/c on 1"]


def test_a_further_provider_may_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "PROVIDERS", (*scope.PROVIDERS, Claims(Failure("it is taken"))))
    node = kubelet(machine(T3, 8 * GI), **CONFIG)
    decision = node.admit(pod("p", "c cpu=2 memory=1Gi"))
    assert isinstance(decision, Rejected)
    assert (decision.provider, decision.container, decision.error) == ("claims", "c", "it is taken")
    assert "p" in node.state.cpu.assignments  # what the others gave stays until it is collected

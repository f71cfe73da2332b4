"""What matches what: selectors and labels, taints and tolerations, ports; what is judged without a Node object."""

from dataclasses import replace
from typing import Any

import pytest

from numawise.engine.admit import Admitted, Rejected
from numawise.engine.matching import kept_away, mismatches, not_judged
from numawise.machine.description import NodeDescription, Taint
from numawise.request.constraints import (
    HostPort,
    NodeRequirement,
    NodeSelectorTerm,
    PodConstraints,
    Toleration,
)
from numawise.rules.behaviour import behaviour_of
from tests.unit.build import GI, STATIC, T3, kubelet, machine, pod

NODE = NodeDescription("n7", {"kubernetes.io/os": "linux", "zone": "a", "gen": "3"})


def demanding(**constraints: Any) -> Any:
    return replace(pod("p", "c cpu=1"), constraints=PodConstraints(**constraints))


def term(*expressions: str) -> NodeSelectorTerm:
    """``zone In a,b``."""
    parts = [text.split() for text in expressions]
    return NodeSelectorTerm(
        tuple(
            NodeRequirement(key, operator, tuple("".join(rest).split(",")) if rest else ())
            for key, operator, *rest in parts
        )
    )


@pytest.mark.parametrize(("expressions", "matches"), [
    (["zone In b,a"],               True),
    (["zone In b"],                 False),
    (["zone NotIn b"],              True),
    (["none NotIn b"],              True),
    (["none Exists"],               False),
    (["none DoesNotExist"],         True),
    (["gen Gt 2"],                  True),
    (["gen Gt 3"],                  False),
    (["gen Lt 10"],                 True),
    (["zone Gt 1"],                 False),
    (["gen Gt x"],                  False),
    (["zone In a", "gen Lt 3"],     False),
    ([],                            False),
])  # fmt: skip
def test_terms(expressions: list[str], *, matches: bool) -> None:
    rules = kubelet(machine(T3)).rules
    found = mismatches(rules, NODE, demanding(node_affinity=(term(*expressions),)), ())
    assert [one.reason for one in found] == ([] if matches else ["NodeAffinity"])


def test_one_term_of_several_is_enough() -> None:
    rules = kubelet(machine(T3)).rules
    affinity = (term("zone In b"), term("zone In a"))
    assert mismatches(rules, NODE, demanding(node_affinity=affinity), ()) == []
    by_name = NodeSelectorTerm(fields=(NodeRequirement("metadata.name", "In", ("n8",)),))
    assert mismatches(rules, NODE, demanding(node_affinity=(by_name,)), ())[0].reason == "NodeAffinity"


@pytest.mark.parametrize(("toleration", "tolerated"), [
    (Toleration("gpu", "Exists"),                       True),
    (Toleration("gpu", "", "h100"),                     True),
    (Toleration("gpu", "Equal", "a100"),                False),
    (Toleration(operator="Exists"),                     True),
    (Toleration("gpu", "Exists", effect="NoSchedule"),  False),
    (Toleration("other", "Exists"),                     False),
])  # fmt: skip
def test_tolerations(toleration: Toleration, *, tolerated: bool) -> None:
    rules = kubelet(machine(T3)).rules
    node = replace(NODE, taints=(Taint("gpu", "NoExecute", "h100"),))
    found = mismatches(rules, node, demanding(tolerations=(toleration,)), ())
    assert [str(one.taint) for one in found] == ([] if tolerated else ["gpu=h100:NoExecute"])


def test_kubelet_and_scheduler_look_at_different_taints() -> None:
    rules = kubelet(machine(T3)).rules
    node = replace(NODE, taints=(Taint("gpu", "NoSchedule"),), unschedulable=True)
    wanted = demanding()
    assert mismatches(rules, node, wanted, ()) == []
    refused = kept_away(rules, node, wanted, ())
    assert refused is not None
    assert str(refused.taint) == "node.kubernetes.io/unschedulable:NoSchedule"
    tainted = replace(NODE, taints=(Taint("gpu", "NoExecute"),))
    assert mismatches(rules, tainted, demanding(static=True), ()) == []
    early = replace(rules, behaviour=behaviour_of((1, 23)))
    assert mismatches(early, tainted, wanted, ()) == []


@pytest.mark.parametrize(("port", "taken"), [
    (HostPort(80),                          True),
    (HostPort(80, "UDP"),                   False),
    (HostPort(80, address="10.0.0.1"),      True),
    (HostPort(80, address="10.0.0.2"),      False),
    (HostPort(81),                          False),
    (HostPort(80, sidecar=True),            True),
])  # fmt: skip
def test_ports(port: HostPort, *, taken: bool) -> None:
    rules = kubelet(machine(T3)).rules
    other = demanding(ports=(HostPort(80, address="10.0.0.1"),))
    (found,) = mismatches(rules, None, demanding(ports=(port,)), [("q", other)]) or [None]
    assert (found is not None) == taken
    assert found is None or (found.port, found.holder) == (port, "q")
    early = replace(rules, behaviour=behaviour_of((1, 32)))
    assert bool(mismatches(early, None, demanding(ports=(port,)), [("q", other)])) == (
        taken and not port.sidecar
    )


def test_messages_by_release() -> None:
    rules = kubelet(machine(T3)).rules
    (found,) = mismatches(rules, NODE, demanding(node_name="n8"), ())
    assert found.message == "Predicate NodeName failed: node(s) didn't match the requested node name"
    (found,) = mismatches(
        replace(rules, behaviour=behaviour_of((1, 30))), NODE, demanding(node_name="n8"), ()
    )
    assert found.message == "Predicate NodeName failed"


def test_what_a_node_object_alone_could_answer_is_not_judged_without_one() -> None:
    wanted = demanding(node_selector={"zone": "b"}, strict_groups=True)
    assert not_judged(None, wanted, {}) == ("nodeSelector", "supplementalGroupsPolicy")
    assert not_judged(NODE, wanted, {}) == ()
    node = kubelet(machine(T3, 8 * GI))
    assert isinstance(node.ask(wanted), Admitted)
    node.describe(NODE)
    refused = node.ask(wanted)
    assert isinstance(refused, Rejected)
    assert refused.reason == "SupplementalGroupsPolicyNotSupported"


def test_pressure_comes_before_the_managers_and_leaves_nothing() -> None:
    node = kubelet(machine(T3, 8 * GI), **STATIC)
    node.describe(replace(NODE, pressures=("DiskPressure",)))
    refused = node.admit(pod("p", "c cpu=4 memory=1Gi"))
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.message) == ("Evicted", "The node had condition: [DiskPressure]. ")
    assert node.state.cpu.assignments == {}
    node.describe(replace(NODE, pressures=("MemoryPressure",)))
    assert isinstance(node.admit(pod("p", "c cpu=4 memory=1Gi")), Admitted)
    assert isinstance(node.admit(pod("q", "c")), Rejected)


def test_sysctls() -> None:
    node = kubelet(machine(T3, 8 * GI), allowedUnsafeSysctls=["net.core.*"])
    for name, answer in (
        ("net.ipv4.tcp_syncookies", ""),
        ("net.core.somaxconn", ""),
        ("vm.swappiness", 'forbidden sysctl: "vm.swappiness" not allowlisted'),
    ):
        decision = node.ask(demanding(sysctls=(name,)))
        assert (decision.message if isinstance(decision, Rejected) else "") == answer
    shared = node.ask(demanding(sysctls=("net.core.somaxconn",), host_network=True))
    assert isinstance(shared, Rejected)
    assert shared.message == 'forbidden sysctl: "net.core.somaxconn" not allowed with host Net enabled'


def test_allocatable_of_the_node_object_holds_until_the_configuration_changes() -> None:
    node = kubelet(machine(T3, 8 * GI))
    node.describe(replace(NODE, allocatable={"cpu": 2000, "ephemeral-storage": 5}))
    assert (node.allocatable()["cpu"], node.allocatable()["ephemeral-storage"]) == (2000, 5)
    assert isinstance(node.ask(pod("p", "c cpu=3")), Rejected)
    other = node.configured(replace(node.config, system_reserved={"cpu": "1"}))
    assert not hasattr(other, "stage")
    assert other.allocatable()["cpu"] == 15000  # type: ignore[union-attr]
    assert other.allocatable()["ephemeral-storage"] == 5  # type: ignore[union-attr]

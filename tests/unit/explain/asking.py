"""Short ways to bring a pod to a kubelet's door and ask why."""

from collections.abc import Mapping, Sequence
from typing import Any

from numawise.explain.case import ExplainCase, admitted, case_of
from numawise.explain.explain import explain
from numawise.machine.model import Machine
from numawise.node.node import SimulatedNode
from numawise.request.defaults import RawPod
from numawise.results.explanation import Explanation
from tests.unit.build import STATIC, _amounts, _container, even, kubelet, machine, static_memory

GI = 1 << 30
SMALL = machine(even(2, 2, 16), 64 * GI, devices={"x/gpu": "g0@0 g1@0 g2@1 g3@1"})
"""16 CPUs, 128 GiB and 4 GPUs on two NUMA nodes."""
SMT = machine(even(2, 2, 8, 2), 64 * GI)
"""16 CPUs, two threads a core."""
FOUR = machine(even(4, 2, 32), 16 * GI, devices={"x/gpu": "a@0 b@0 c@1 d@3"})
"""32 CPUs on four NUMA nodes."""


def raw(uid: str, *containers: str, level: str | None = None, owner: str = "") -> RawPod:
    """``init i cpu=2 memory=1Gi``, ``c cpu=1..2 x/gpu=1``; ``level``: the pod's own resources."""
    requests = limits = None
    if level is not None:
        requests, limits = _amounts(level.split())
    return RawPod(uid, uid, tuple(map(_container, containers)), requests, limits, owner=owner)


def config(policy: str, *, memory: bool = True, **more: Any) -> dict[str, Any]:
    """Static policies, CPU 0 and 1 GiB of NUMA 0 reserved."""
    found: dict[str, Any] = {**STATIC, "topologyManagerPolicy": policy, **more}
    if memory:
        found |= static_memory(GI)
        found["systemReserved"] = {**STATIC["systemReserved"], **found["systemReserved"]}
    return found


def node(hardware: Machine, policy: str, running: Sequence[str | RawPod] = (), **more: Any) -> SimulatedNode:
    """A kubelet on which pods run already."""
    found = kubelet(hardware, **config(policy, **more))
    for number, text in enumerate(running):
        pod = raw(f"r{number}", text) if isinstance(text, str) else text
        case = case_of(found, pod)
        assert admitted(case), pod
        decision = found.admit(case.pod)
        found.start(case.pod, decision)  # type: ignore[arg-type]
    return found


def case(
    hardware: Machine, policy: str, *containers: str, running: Sequence[str | RawPod] = (), **more: Any
) -> ExplainCase:
    level = more.pop("level", None)
    return case_of(node(hardware, policy, running, **more), raw("p", *containers, level=level))


def why(hardware: Machine, policy: str, *containers: str, **more: Any) -> Explanation:
    """The explanation of a pod with these containers."""
    return explain(case(hardware, policy, *containers, **more))


def kinds(found: Explanation) -> list[str]:
    return [one.kind for one in found.suggestions]


def of_kind(found: Explanation, kind: str) -> Mapping[str, Any]:
    """Text and edits of the first suggestion of a kind."""
    from numawise.results.explanation import suggestion_data  # noqa: PLC0415

    return suggestion_data(next(one for one in found.suggestions if one.kind == kind))

"""A question about a pod as a scenario: the pods before it come one after the other, and it is the next.

Rules kept here:

1. Pods that are given come in their order, up to the one that is asked about, as ``PodQueue`` lets them.
2. What runs on the node already is on it; of the pods that its kubelet refused only that one comes.
3. A pod that waits for another size comes as it is, and then asks for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from numawise.apps.why.chosen import choose_pod, pod_number, pods_of
from numawise.apps.why.nodes import PodQueue, node_of
from numawise.codec.decision import amounts_data
from numawise.codec.pod_manifest import pod_manifest
from numawise.errors import InputError
from numawise.inputs.pods import PodNamed
from numawise.inputs.spec import NodeInput
from numawise.request.defaults import RawPod
from numawise.request.resize import SIZES
from numawise.results.explanation import Explanation
from numawise.values import dataclass

ScenarioSteps = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """What happens until a pod has come."""

    name: str
    steps: ScenarioSteps


def queued_pod(
    source: NodeInput, pods: Sequence[PodNamed], name: str = "", number: int | None = None
) -> QueuedPod:
    """The steps to a pod, by its name or number; without either to the one that ``choose_pod`` explains."""
    node = node_of(source)
    if isinstance(node, Explanation):
        advice = "see what would help, and ask again with another configuration"
        raise InputError(f"the kubelet would not start: {node.message}", field="node", advice=advice)
    queue = PodQueue(source, node, pods or pods_of(source))
    wanted = pod_number(queue.pods, name, number)
    if wanted is None:
        wanted = choose_pod(source, pods).chosen or 0
    if wanted >= len(queue.pods):
        raise InputError("no pod is given, and none is known to run", advice="give a pod")
    steps: list[Mapping[str, Any]] = []
    for raw in queue.pods[: wanted + 1]:
        asked = raw is queue.pods[wanted]
        if raw.uid in queue.refusals and not asked:
            continue
        steps += _steps(raw, here=raw.uid in node.state.active, asked=asked)
    return QueuedPod(queue.pods[wanted].name, tuple(steps))


def _steps(raw: RawPod, *, here: bool, asked: bool) -> ScenarioSteps:
    """A pod that comes, and, where it is asked about, what it waits for (rules 2 and 3)."""
    steps: ScenarioSteps = () if here else ({"add": {"pod": pod_manifest(raw.as_allocated)}},)
    if raw.allocated and asked:
        steps += ({"resize": {"pod": f"{raw.namespace}/{raw.name}", "containers": _sizes(raw)}},)
    return steps


def _sizes(raw: RawPod) -> dict[str, Any]:
    """The sizes that a pod asks for, of those containers whose sizes differ; a limit is a request, too."""
    found = {}
    for wanted, has in zip(raw.containers, raw.as_allocated.containers, strict=True):
        if wanted != has:
            limits = {name: wanted.limits[name] for name in SIZES if name in wanted.limits}
            requests = {name: wanted.requests[name] for name in SIZES if name in wanted.requests}
            found[wanted.name] = amounts_data({**limits, **requests}, limits)
    return found

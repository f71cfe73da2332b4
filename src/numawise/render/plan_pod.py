"""Planned pods as manifests with comments, and as data."""

from collections.abc import Iterator

from numawise.apps.plan.pod import PlannedPod, PodPlan
from numawise.codec.output import comment_lines, manifest_yaml
from numawise.results.plain import API_VERSION
from numawise.sets import format_ids

Data = dict[str, object]


def plan_text(plan: PodPlan) -> str:
    """The manifests, ready for kubectl; comments say what was changed, and what came of it."""
    header = comment_lines([line for pod in plan.pods for line in _lines(pod, many=len(plan.pods) > 1)])
    return header + "---\n".join(manifest_yaml(document) for document in plan.documents)


def _lines(pod: PlannedPod, *, many: bool) -> Iterator[str]:
    if many:
        yield f"{pod.kind} {pod.name}:"
    if not pod.changes:
        yield "Nothing had to be changed."
    for change in pod.changes:
        yield f"{change.where}: {change.text}"
    if pod.proof is not None:
        proof = pod.proof
        fits = f"; {proof.fits} of these fit there" if proof.fits > 1 else ""
        yield f"Tried: {proof.text}{fits}."
        if proof.crosses:
            yield f"{proof.crosses}."
        elif proof.admitted and not proof.aligned:
            yield "It is admitted, but not aligned."
        if proof.instead:
            yield "What would be aligned:"
        for line in proof.instead:
            yield f"  {line}"
    for remark in pod.remarks:
        yield f"Note: {remark}"


def plan_data(plan: PodPlan) -> Data:
    """The plan as JSON."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PodPlan",
        "aligned": plan.good,
        "pods": [_pod_data(pod) for pod in plan.pods],
        "manifests": list(plan.documents),
    }


def _pod_data(pod: PlannedPod) -> Data:
    proof = pod.proof
    return {
        "name": pod.name,
        "kind": pod.kind,
        "changes": [{"where": one.where, "text": one.text} for one in pod.changes],
        "proof": None
        if proof is None
        else {
            "admitted": proof.admitted,
            "aligned": proof.aligned,
            "text": proof.text,
            "fits": proof.fits,
            "crosses": proof.crosses or None,
            "instead": list(proof.instead),
            "containers": [
                {
                    "name": one.container,
                    "cpus": format_ids(one.cpus),
                    "memory": format_ids(one.memory),
                    "devices": list(one.devices),
                    "numa": format_ids(one.numa),
                }
                for one in proof.placed
            ],
        },
        "remarks": list(pod.remarks),
    }

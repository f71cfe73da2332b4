"""Why a pod and a node do not go together, resources apart, and the smallest change of the pod that helps.

Rules kept here:

1. A change takes away what stands in the way and nothing else; it counts only when the engine admits the pod.
2. Where the pod cannot be changed so, the cause says what would have to change on the node.
"""

from collections.abc import Iterator

from numawise.engine.matching import (
    NODE_AFFINITY,
    NODE_NAME,
    NODE_PORTS,
    TAINTS,
    Unmet,
    labels_of,
    untolerated,
)
from numawise.explain.case import ExplainCase, with_pod, without
from numawise.explain.ranking import Level, Ranked
from numawise.explain.search import ChangeSearch
from numawise.explain.words import pod_name
from numawise.machine.description import NO_EXECUTE, NodeDescription
from numawise.render.demands import unmet_text
from numawise.render.words import both
from numawise.request.constraints import PodConstraints, Toleration
from numawise.request.defaults import RawPod
from numawise.results.explanation import Patch, Suggestion
from numawise.values import replace

AFFINITY = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def unmet_cause(case: ExplainCase, unmet: Unmet) -> str:
    """What stands in the way, and what would help."""
    cause, fix = unmet_text(unmet, case.pod, lambda uid: pod_name(case, uid))
    return f"{cause}; {fix}"


def demand_changes(search: ChangeSearch, unmet: Unmet) -> Iterator[Ranked]:
    """The change of the pod, or of the pods around it, that takes the obstacle away (rule 1)."""
    case = search.case
    if unmet.reason == NODE_PORTS and search.works(freed := without(case, unmet.holder)):
        text = f"Remove pod {pod_name(case, unmet.holder)}, which has the port"
        yield Ranked(Level.WAIT, Suggestion("remove", text, remove=(unmet.holder,)), after=freed)
    found = _changed(search, unmet)
    if found is not None:
        raw, text, price, patches = found
        after = with_pod(case, raw)
        if search.works(after):
            yield Ranked(Level.LITTLE, Suggestion("constraint", text, price, pod=patches), after=after)


def _changed(search: ChangeSearch, unmet: Unmet) -> tuple[RawPod, str, str, tuple[Patch, ...]] | None:
    raw, node = search.case.raw, unmet.node or NodeDescription()
    constraints = raw.constraints
    if unmet.reason == TAINTS:
        return _tolerating(search, node)
    if unmet.reason == NODE_NAME:
        changed = replace(constraints, node_name="")
        patch = Patch("remove", ("spec", "nodeName"))
        return _with(raw, changed), "Remove nodeName", "the scheduler then chooses the node", (patch,)
    if unmet.reason != NODE_AFFINITY:
        return None
    labels = labels_of(node)
    wrong = [key for key, value in constraints.node_selector.items() if labels.get(key) != value]
    if wrong:
        kept = {key: value for key, value in constraints.node_selector.items() if key not in wrong}
        patches = tuple(Patch("remove", ("spec", "nodeSelector", key)) for key in wrong)
        text = f"Remove {both(wrong)} from nodeSelector"
        return (
            _with(raw, replace(constraints, node_selector=kept)),
            text,
            "it may then run on other nodes",
            patches,
        )
    changed = replace(constraints, node_affinity=None)
    text = "Remove the required node affinity"
    return _with(raw, changed), text, "it may then run on other nodes", (Patch("remove", AFFINITY),)


def _tolerating(
    search: ChangeSearch, node: NodeDescription
) -> tuple[RawPod, str, str, tuple[Patch, ...]] | None:
    """Tolerations for all taints that stand in the way."""
    raw, rules = search.case.raw, search.case.rules
    constraints = search.case.pod.constraints
    added: list[Toleration] = []
    while len(added) <= len(node.taints):
        taint = untolerated(rules, constraints, node.taints, (NO_EXECUTE,))
        if taint is None:
            break
        operator = "Equal" if taint.value else "Exists"
        added.append(Toleration(taint.key, operator, taint.value, taint.effect))
        constraints = replace(constraints, tolerations=(*constraints.tolerations, added[-1]))
    written = [
        {
            "key": one.key,
            "operator": one.operator,
            **({"value": one.value} if one.value else {}),
            "effect": one.effect,
        }
        for one in added
    ]
    path = ("spec", "tolerations")
    own = raw.constraints.tolerations
    patches = (
        tuple(Patch("add", (*path, "-"), one) for one in written) if own else (Patch("add", path, written),)
    )
    text = f"Tolerate {both([str(one.key) for one in added])}: add it to the pod's tolerations"
    changed = replace(raw.constraints, tolerations=(*own, *added))
    return _with(raw, changed), text, "the pod then runs where the taint keeps others away", patches


def _with(raw: RawPod, constraints: PodConstraints) -> RawPod:
    return replace(raw, constraints=constraints)

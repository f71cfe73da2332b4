"""An explanation: why a pod was refused, or where it went, as values and as plain data.

Rules kept here:

1. An explanation is complete in itself: it can be drawn, written as JSON or stored without the machine,
   the configuration and the state that it was made from.
2. Sentences are ready to be read; whatever a program may want to act upon is a value beside them.
3. What to edit is given as JSON Patch (RFC 6902): for a pod relative to the Pod or the pod template, for the
   kubelet relative to the KubeletConfiguration.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from numawise.engine.hint import Hint
from numawise.results.alignment import Alignment
from numawise.results.pending import ClusterAnswer
from numawise.results.plain import API_VERSION, plain
from numawise.results.walk import WalkStep
from numawise.sets import ids_of
from numawise.values import dataclass

KIND = "Explanation"

ADMITTED, REJECTED, CRASHED, NOT_STARTED = "admitted", "rejected", "crashed", "not started"
NOT_SCHEDULED = "not scheduled"
"""Of a pod of a cluster that no kubelet has seen."""
DEFERRED, INFEASIBLE = "deferred", "infeasible"
"""Of a pod that runs and asks for another size."""
NEVER, NOT_NOW = "never", "not now"
"""Of a refusal: not even on an idle machine; only while others hold what is missing."""
PREFERRED, POSSIBLE, NO = "preferred", "possible", "no"
CPUS, BYTES, DEVICES, UNKNOWN = "CPUs", "bytes", "devices", ""
HINTS, NO_PREFERENCE, IMPOSSIBLE = "hints", "no preference", "impossible"

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NumaFree:
    """What one NUMA node has of one resource."""

    numa: int
    mark: str = NO
    """Whether it could serve all of the request alone: ``PREFERRED``, ``POSSIBLE`` or ``NO``."""
    free: int | None = None
    """What is free there; None: not known."""
    size: int | None = None
    """What it could give when nothing else ran; None: not known."""
    note: str = ""
    """Why it does not serve although enough is free."""


@dataclass(frozen=True, slots=True)
class ResourceHints:
    """What one resource answered when asked for NUMA nodes."""

    resource: str
    answer: str = HINTS
    """``HINTS``, ``NO_PREFERENCE`` or ``IMPOSSIBLE``."""
    asked: int | None = None
    unit: str = UNKNOWN
    places: tuple[NumaFree, ...] = ()
    wider: tuple[tuple[int, bool], ...] = ()
    """The first masks of several NUMA nodes, narrowest first, and whether each is preferred."""
    more: bool = False
    """There are more of these than are listed."""
    note: str = ""
    """Why it is impossible, or why there is no preference."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What is left once one more resource was heard."""

    resource: str
    prefers: tuple[int, ...]
    """NUMA masks that the resource itself prefers."""
    left: tuple[int, ...]
    """Those that all resources so far prefer."""
    more: bool = False
    """There are more than are listed."""
    wanted: int = 0
    """All NUMA nodes of what the resource prefers, those that are not listed too."""
    reach: int = 0
    """All NUMA nodes of what is left, likewise."""


@dataclass(frozen=True, slots=True)
class Round:
    """One merge: the hints, how it was narrowed, and what came of it."""

    container: str | None
    """None: for the pod as a whole."""
    hints: tuple[ResourceHints, ...]
    narrowings: tuple[Narrowing, ...]
    best: Hint
    admitted: bool | None
    """None: not known, where a log does not show it."""


@dataclass(frozen=True, slots=True)
class DecisionWalk:
    """The whole decision, step by step."""

    steps: tuple[WalkStep, ...]
    rounds: tuple[Round, ...] = ()
    """The merges, in order."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One operation of a JSON Patch."""

    op: str
    path: tuple[str | int, ...]
    value: object = None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change after which the pod is admitted; found by simulation."""

    kind: str
    text: str
    """What to do, to the letter."""
    price: str = ""
    """What is lost by it, or what else it takes."""
    pod: tuple[Patch, ...] = ()
    kubelet: tuple[Patch, ...] = ()
    remove: tuple[str, ...] = ()
    """Uids of pods to remove first."""
    delete: tuple[str, ...] = ()
    """State files to delete while the kubelet is stopped."""
    repair: tuple[str, ...] = ()
    """Options of ``numawise state repair``, to be run while the kubelet is stopped."""
    heal: tuple[str, ...] = ()
    """Resources whose devices must become healthy."""
    recreate: bool = False
    """The pod has to be created again, under another uid."""
    node: str = ""
    """Send the pod to this node instead."""

    @property
    def patch(self) -> list[Data]:
        """What to edit as a JSON Patch: of the pod, or else of the kubelet's configuration."""
        return patch_data(self.pod or self.kubelet)


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """A node whose state was rebuilt because there are no state files: from what, and how well it fits."""

    node: str
    """The node's name; '' when it is not known."""
    moment: str
    """For which time (RFC 3339); '' for now."""
    machine: str
    configuration: str
    state: str
    """Where each part comes from."""
    pods: int
    """How many pods were counted."""
    unplaced: tuple[str, ...] = ()
    """Pods that run and for which it has no place."""
    reproduced: bool | None = None
    """Whether it gives the kubelet's reason; None: there was no refusal."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of one pod, why, and what would change it."""

    name: str
    verdict: str
    answer: str
    """One sentence: which resource decided, on which NUMA node, by how much."""
    namespace: str = "default"
    uid: str = ""
    qos: str = ""
    container: str = ""
    """Where it failed; '' when the pod as a whole did."""
    resources: tuple[str, ...] = ()
    """Those that decided."""
    reason: str = ""
    message: str = ""
    """The kubelet's own words."""
    said: bool = False
    """A kubelet said them, in a log, a status or an event; False: it would say them, as simulated."""
    outlook: str = ""
    """Of a refusal: ``NEVER`` or ``NOT_NOW``; '' where it is not known."""
    held_by: tuple[str, ...] = ()
    """Of one that is not now: uids of the pods that hold what decided."""
    remarks: tuple[str, ...] = ()
    """What else there is to know, a sentence each."""
    policy: str = ""
    scope: str = ""
    rule: str = ""
    """What the policy demands, in one sentence; '' when it had no say."""
    round: Round | None = None
    """The merge that decided, or the first that was not preferred."""
    walk: DecisionWalk | None = None
    """The decision step by step; None: it was not asked for, or nothing decided."""
    suggestions: tuple[Suggestion, ...] = ()
    searched: bool = False
    """Changes were looked for, so that an empty list means none was found."""
    findings: tuple[tuple[str, str], ...] = ()
    """Known defects of the kubelet that had a part in it: name and text."""
    alignment: Alignment | None = None
    """Of an admitted pod: what is aligned, and why the rest is not."""
    manifests: tuple[str, ...] = ()
    """Claims that keep devices on one NUMA node, as YAML, where the pod's own do not."""
    reconstruction: Reconstruction | None = None
    """What the answer rests on; None: on state files, or on what the kubelet said alone."""
    cluster: ClusterAnswer | None = None
    """Of a pod that waits for a node: what all nodes would say."""

    @property
    def admitted(self) -> bool:
        """True when the answer is yes."""
        return self.verdict == ADMITTED

    @property
    def missing(self) -> tuple[str, ...]:
        """Device resources that it asks for and is admitted without, as nothing here offers them."""
        return self.alignment.missing if self.alignment is not None else ()

    @property
    def cause(self) -> str:
        """What decided against the pod, without the verdict in front; '' when it is admitted."""
        return "" if self.admitted else self.answer.partition(": ")[2]


# --- plain data -----------------------------------------------------------------------------


def explanations_data(found: Sequence[Explanation]) -> Data:
    """All explanations of one run."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "admitted": sum(one.admitted for one in found),
        "rejected": sum(not one.admitted for one in found),
        "pods": [explanation_data(one) for one in found],
    }


def explanation_data(one: Explanation) -> Data:
    """One explanation, with the names users see in JSON."""
    found: Data = {"name": one.name, "namespace": one.namespace, "uid": one.uid, "qos": one.qos}
    found |= {"verdict": one.verdict, "answer": one.answer, "resources": list(one.resources)}
    if not one.admitted:
        found |= {"container": one.container, "reason": one.reason, "message": one.message}
        if one.said:
            found["said"] = True
        found |= {"outlook": one.outlook or None, "heldBy": list(one.held_by)}
    if one.alignment is not None:
        found["alignment"] = plain(one.alignment)
    found |= {"policy": one.policy, "scope": one.scope, "rule": one.rule, "remarks": list(one.remarks)}
    found["round"] = _round_data(one.round) if one.round else None
    if one.walk is not None:
        found["walk"] = {
            "rounds": [_round_data(each) for each in one.walk.rounds],
            "steps": [plain(step) for step in one.walk.steps],
        }
    if one.searched:
        found["suggestions"] = [suggestion_data(each) for each in one.suggestions]
    found["findings"] = [{"code": code, "text": text} for code, text in one.findings]
    if one.manifests:
        found["manifests"] = list(one.manifests)
    if one.reconstruction is not None:
        found["reconstruction"] = _reconstruction_data(one.reconstruction)
    if one.cluster is not None:
        found["cluster"] = plain(one.cluster)
    return found


def _reconstruction_data(one: Reconstruction) -> Data:
    found: Data = {"node": one.node, "moment": one.moment, "machine": one.machine}
    found |= {"configuration": one.configuration, "state": one.state, "pods": one.pods}
    found |= {"unplaced": list(one.unplaced), "reproduced": one.reproduced}
    return found


def suggestion_data(one: Suggestion) -> Data:
    """One suggestion; what it does not touch is left out."""
    found: Data = {"kind": one.kind, "text": one.text}
    if one.price:
        found["price"] = one.price
    if one.pod:
        found["pod"] = patch_data(one.pod)
    if one.kubelet:
        found["kubelet"] = patch_data(one.kubelet)
    if one.remove:
        found["remove"] = list(one.remove)
    if one.delete:
        found["delete"] = list(one.delete)
    if one.repair:
        found["repair"] = list(one.repair)
    if one.heal:
        found["heal"] = list(one.heal)
    if one.recreate:
        found["recreate"] = True
    if one.node:
        found["node"] = one.node
    return found


def patch_data(patches: Iterable[Patch]) -> list[Data]:
    """A JSON Patch."""
    found = []
    for patch in patches:
        operation: Data = {"op": patch.op, "path": pointer(patch.path)}
        if patch.op in ("add", "replace"):
            operation["value"] = patch.value
        found.append(operation)
    return found


def pointer(steps: Iterable[str | int]) -> str:
    """Steps as a JSON Pointer (RFC 6901)."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def _round_data(one: Round) -> Data:
    return {
        **({"pod": True} if one.container is None else {"container": one.container}),
        "hints": [_hints_data(hints) for hints in one.hints],
        "narrowing": [
            {
                "resource": step.resource,
                "prefers": [list(ids_of(mask)) for mask in step.prefers],
                "left": [list(ids_of(mask)) for mask in step.left],
                "complete": not step.more,
                "reach": list(ids_of(step.reach)),
            }
            for step in one.narrowings
        ],
        "best": {
            "numa": None if one.best.numa is None else list(one.best.numa),
            "preferred": one.best.preferred,
            "admit": one.admitted,
        },
    }


def _hints_data(hints: ResourceHints) -> Data:
    found: Data = {"resource": hints.resource, "answer": hints.answer}
    if hints.asked is not None:
        found |= {"asked": hints.asked, "unit": hints.unit}
    found["numa"] = [_place_data(place) for place in hints.places]
    found["wider"] = [{"numa": list(ids_of(mask)), "preferred": liked} for mask, liked in hints.wider]
    found["complete"] = not hints.more
    if hints.note:
        found["note"] = hints.note
    return found


def _place_data(place: NumaFree) -> Data:
    found: Data = {"id": place.numa, "hint": place.mark}
    if place.free is not None:
        found["free"] = place.free
    if place.size is not None:
        found["size"] = place.size
    if place.note:
        found["note"] = place.note
    return found

"""What the healer's account may do to pods: a policy of the API server, because roles cannot say which pods.

Rules kept here:

1. It deletes pods that a kubelet refused, by the reasons and marks that ``refused`` goes by, and no others.
2. Of a pod it changes what a release changes (``steering``): our gate goes off; required node affinity may
   name nodes in addition; one annotation says which.  A field that nobody knew when this was written counts
   as any other: it stays as it is.
3. Where the policy cannot be worked out, the request is refused.
"""

from collections.abc import Iterable

from numawise.apps.heal.refused import STEERED
from numawise.apps.heal.steering import HOST_NAME, NODE_NAME, REQUIRED
from numawise.codec.kubeletlog.hints import ADMISSION, OLD_NAMES, OUT_OF
from numawise.codec.objects import FAILED
from numawise.results.pending import HOLD_GATE
from numawise.service.manifest import Json, ProgramObjects
from numawise.service.rights import CORE

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
WRITTEN_BY_SERVER = ("managedFields", "resourceVersion", "generation")
BEFORE, AFTER = "oldObject", "object"


def pod_policy(own: ProgramObjects) -> tuple[Json, ...]:
    """The policy for the healer's account, and its binding."""
    pods = {
        "apiGroups": [CORE],
        "apiVersions": ["*"],
        "resources": ["pods"],
        "operations": ["UPDATE", "DELETE"],
    }
    variables = {
        "gates": f"{AFTER}.spec.?schedulingGates.orValue([])",
        "oldGates": f"{BEFORE}.spec.?schedulingGates.orValue([])",
        "notes": f"dyn({AFTER}.metadata).?annotations.orValue({{}})",
        "oldNotes": f"dyn({BEFORE}.metadata).?annotations.orValue({{}})",
        "affinity": f"dyn({AFTER}.spec).?affinity.orValue({{}})",
        "oldAffinity": f"dyn({BEFORE}.spec).?affinity.orValue({{}})",
        "terms": _terms("affinity"),
        "oldTerms": _terms("oldAffinity"),
        "containers": " + ".join(f"{BEFORE}.status.?{name}.orValue([])" for name in STATUSES),
    }
    return own.account_policy([pods], [*_deletions(), *_changes()], variables)


def _terms(affinity: str) -> str:
    return f"variables.{affinity}.?nodeAffinity.?{REQUIRED}.?nodeSelectorTerms.orValue([])"


# --- rule 1 ---------------------------------------------------------------------------------------


def _deletions() -> list[Json]:
    reason = f"{BEFORE}.status.?reason.orValue('')"
    reasons = _texts(sorted({*ADMISSION, *OLD_NAMES}))
    refused = (
        f"{BEFORE}.status.?phase.orValue('') == '{FAILED}' && {BEFORE}.spec.?nodeName.orValue('') != '' && "
        f"({reason} in {reasons} || {reason}.startsWith('{OUT_OF}'))"
    )
    states = [
        f"c.?{state}.?{what}.hasValue()"
        for state in ("state", "lastState")
        for what in ("running", "terminated")
    ]
    began = " || ".join(
        (
            "c.?restartCount.orValue(0) > 0",
            "c.?started.orValue(false)",
            "c.?containerID.orValue('') != ''",
            *states,
        )
    )
    return [
        _validation("DELETE", refused, "the healer deletes pods that a kubelet refused, and no others"),
        _validation(
            "DELETE",
            f"!variables.containers.exists(c, {began})",
            "the healer deletes no pod of which a container began",
        ),
    ]


# --- rule 2 ---------------------------------------------------------------------------------------


def _changes() -> list[Json]:
    ours = f"g.name == '{HOLD_GATE}'"
    gates, old_gates = "variables.gates", "variables.oldGates"
    freed = f"{old_gates}.exists(g, {ours}) && !{gates}.exists(g, {ours})"
    others = f"{old_gates}.all(g, {ours} || g in {gates}) && {gates}.all(g, g in {old_gates})"
    spec, old_spec = f"dyn({AFTER}.spec)", f"dyn({BEFORE}.spec)"
    metadata, old_metadata = f"dyn({AFTER}.metadata)", f"dyn({BEFORE}.metadata)"
    preferred = f"?nodeAffinity.?{PREFERRED}"
    affinity = (
        f"{_same('variables.oldAffinity', 'variables.affinity', ('nodeAffinity',))} && "
        f"variables.affinity.{preferred} == variables.oldAffinity.{preferred} && "
        f"variables.terms.all(t, {_added('matchExpressions', HOST_NAME)} && "
        f"{_added('matchFields', NODE_NAME)})"
    )
    notes = _same("variables.oldNotes", "variables.notes", (STEERED,))
    return [
        _validation(
            "UPDATE", freed, "the healer changes a pod when it takes its own gate off, and at no other time"
        ),
        _validation("UPDATE", others, "the healer takes off no gate but its own, and adds none"),
        _validation(
            "UPDATE",
            _same(old_spec, spec, ("schedulingGates", "affinity")),
            "of the specification of a pod the healer changes its gate and the node affinity alone",
        ),
        _validation(
            "UPDATE",
            affinity,
            "of the affinity of a pod the healer names nodes in addition, and nothing else",
        ),
        _validation(
            "UPDATE",
            f"{_same(old_metadata, metadata, ('annotations', *WRITTEN_BY_SERVER))} && {notes}",
            f"of the metadata of a pod the healer writes the annotation {STEERED} alone",
        ),
    ]


def _same(before: str, after: str, free: tuple[str, ...]) -> str:
    """Two objects have the same fields with the same values, but for some that may differ."""
    names = f"k in {_texts(free)}"
    return (
        f"{after}.all(k, {names} || (k in {before} && {after}[k] == {before}[k])) && "
        f"{before}.all(k, {names} || k in {after})"
    )


def _added(part: str, key: str) -> str:
    """What a term requires stood in one of the pod's own, or names nodes."""
    own = f"variables.oldTerms.exists(o, r in o.?{part}.orValue([]))"
    return f"t.?{part}.orValue([]).all(r, (r.key == '{key}' && r.operator == 'In') || {own})"


def _texts(words: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def _validation(operation: str, expression: str, message: str) -> Json:
    guarded = f"request.operation != '{operation}' || ({expression})"
    return {"expression": guarded, "message": message, "reason": "Forbidden"}

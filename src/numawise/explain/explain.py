"""One pod explained: the decision, what decided it, and the smallest changes that let it in.

Rules kept here:

1. Nothing is suggested that the engine did not admit on the same state, after the very change.
2. Suggestions stand in the order of ``ranking``.
3. A pod that the kubelet knows already cannot be changed; it has to be recreated.
4. Whether the pod is refused even on an idle machine, or only now, is said first, and *never* with what
   decides on the idle machine.
"""

from collections.abc import Sequence

from numawise.codec.decision import findings
from numawise.engine.admit import Admitted, Crashed, Decision, Rejected
from numawise.engine.failure import TOPOLOGY_AFFINITY
from numawise.engine.hint import Family, Hint
from numawise.engine.topology.policy import judge
from numawise.engine.topology.scope import NOT_ALIGNED
from numawise.engine.trace import HintsMerged, Step
from numawise.explain import words
from numawise.explain.case import ExplainCase, admitted, created_again, decided, healed, idle, with_pod
from numawise.explain.change import with_amounts
from numawise.explain.combined import combined_changes
from numawise.explain.demands import demand_changes
from numawise.explain.free import REUSED, Voter, pasted, voters_of
from numawise.explain.merge import Cause, Merging, merge_cause
from numawise.explain.node_changes import (
    Elsewhere,
    elsewhere_changes,
    node_changes,
)
from numawise.explain.outcome import (
    admitted_alignment,
    admitted_answer,
    admitted_remarks,
    claim_manifests,
    claim_remarks,
    remarks_of,
)
from numawise.explain.outlook import NEVER_TEXT, Outlook, outlook_of
from numawise.explain.pod_changes import last_resorts, pod_changes
from numawise.explain.ranking import Level, Ranked
from numawise.explain.rounds import (
    decisive_merge,
    merges_in,
    merging_of,
    only_voters,
    round_of,
    state_at,
)
from numawise.explain.search import ChangeSearch
from numawise.explain.shortage import crash_cause, failure_cause, with_own_uses
from numawise.explain.walk import walk_of
from numawise.machine.model import Machine, Numa
from numawise.node.unknown import doubt_about
from numawise.render.words import both
from numawise.request.model import Role
from numawise.results.explanation import (
    ADMITTED,
    CRASHED,
    NEVER,
    REJECTED,
    Explanation,
    ResourceHints,
    Suggestion,
)
from numawise.results.simulation import NOT_KNOWN
from numawise.rules.behaviour import behaviour_of
from numawise.rules.model import NONE, Rules
from numawise.rules.versions import DEFAULT, Version
from numawise.sets import ids_of
from numawise.values import dataclass, replace

SHOWN = 6
"""So many are shown at most."""


@dataclass(frozen=True, slots=True)
class Proven:
    """A suggestion, and the case after it, as the engine admitted it."""

    suggestion: Suggestion
    after: ExplainCase


@dataclass(frozen=True, slots=True)
class ExplainedCase:
    """An explanation, with what its suggestions lead to."""

    explanation: Explanation
    proven: tuple[Proven, ...] = ()
    """As many as the explanation has suggestions, in the same order."""


def proven_changes(
    case: ExplainCase,
    decision: Rejected | Crashed,
    container: str,
    resources: Sequence[str],
    others: Sequence[Elsewhere] = (),
) -> tuple[Proven, ...]:
    """What would let the pod in, in the order of their ranks (rule 2).

    ``container``: where it failed; ``resources``: those that decided; ``others``: nodes it could go to.
    """
    again = case.again
    if again:
        case = created_again(case)
        if admitted(case):
            text = words.FORCED if isinstance(decision, Crashed) else words.RECREATED
            return (Proven(Suggestion("recreate", text, recreate=True), case),)
    search = ChangeSearch(case, decision, container, resources)
    unmet = decision.unmet if isinstance(decision, Rejected) else None
    if unmet is not None:
        changes = [*demand_changes(search, unmet), *elsewhere_changes(search, others)]
        return _proven(sorted(changes, key=lambda one: one.key))
    changes = [*pod_changes(search), *node_changes(search, others)]
    if all(one.level > Level.PART for one in changes):
        changes += combined_changes(search)
    if not changes:
        changes = [*last_resorts(search), *combined_changes(search, last_resorts)]
    changes.sort(key=lambda one: one.key)
    shown = _proven([one for one in changes if _lasting(case, one)][:SHOWN])
    if not again:
        return shown
    return tuple(
        one if one.suggestion.node else replace(one, suggestion=replace(one.suggestion, recreate=True))
        for one in shown
    )


def _proven(changes: Sequence[Ranked]) -> tuple[Proven, ...]:
    return tuple(Proven(one.suggestion, one.after) for one in changes if one.after is not None)


def _lasting(case: ExplainCase, change: Ranked) -> bool:
    """True when a changed pod is admitted on an idle machine, too, and not only beside those that run now."""
    if not change.changes:
        return True
    alone = idle(with_pod(case, with_amounts(case.raw, change.changes)))
    return admitted(alone) or admitted(healed(alone, case.state.devices.plugins))


# --------------------------------------------------------------------------------------------------
# One pod explained: the decision, what decided it, and what would change it.


def explain(
    case: ExplainCase, others: Sequence[Elsewhere] = (), *, suggest: bool = True, walk: bool = False
) -> Explanation:
    """What becomes of a pod, and why.

    ``suggest``: look for changes that would let it in; ``walk``: give the decision step by step as well.
    """
    return explain_case(case, others, suggest=suggest, walk=walk).explanation


def explain_case(
    case: ExplainCase, others: Sequence[Elsewhere] = (), *, suggest: bool = True, walk: bool = False
) -> ExplainedCase:
    """The same with the cases after each suggestion, to look at or to go on from."""
    steps: list[Step] = []
    decision = decided(case, steps.append)
    doubt = doubt_about(case.node, case.pod)
    found = _explained(case, decision, steps, known=not doubt.resources)
    if doubt.resources:
        unsaid = replace(found, reason="", message="", round=None, rule="", findings=(), alignment=None)
        verdict, word = (NOT_KNOWN, "Not known") if doubt.verdict else (ADMITTED, "Admitted, place unknown")
        answer = f"{word}: {doubt.text}"
        return ExplainedCase(replace(unsaid, verdict=verdict, answer=answer, resources=doubt.resources))
    if walk:
        found = replace(found, walk=walk_of(case, decision, steps, found))
    if isinstance(decision, Admitted) or not suggest:
        return ExplainedCase(found)
    changes = proven_changes(case, decision, found.container, found.resources, others)
    shown = tuple(one.suggestion for one in changes)
    return ExplainedCase(replace(found, suggestions=shown, searched=True), changes)


def _explained(
    case: ExplainCase, decision: Decision, steps: Sequence[Step], *, known: bool = True
) -> Explanation:
    pod, rules = case.pod, case.rules
    merging = merging_of(case)
    merges = merges_in(steps)
    decisive = decisive_merge(merges, decision)
    voters: tuple[ResourceHints | Voter, ...] = ()
    drawn = None
    if decisive is not None:
        voters = voters_of(case, state_at(case, decision, merges, decisive), decisive.found)
        drawn = round_of(voters, decisive.merged, merging)
    base = Explanation(
        name=pod.name,
        verdict=ADMITTED,
        answer="",
        namespace=pod.namespace,
        uid=pod.uid,
        qos=pod.qos,
        policy=rules.topology_policy,
        scope="" if rules.topology_policy == NONE else "pod" if rules.pod_scope else "container",
        rule=merging.rule,
        round=drawn,
        findings=tuple(findings(steps)),
    )
    if isinstance(decision, Admitted):
        lost = None
        if decisive is not None and not decisive.merged.best.preferred:
            lost = merge_cause(only_voters(voters), merging)
        alignment = admitted_alignment(case, decision)
        answer, resources = admitted_answer(alignment, lost)
        remarks = admitted_remarks(case, decision)
        if pod.claims:
            manifests, unshown = claim_manifests(case, decision)
            remarks = (*remarks, *claim_remarks(case, decision), *unshown)
            base = replace(base, manifests=manifests)
        return replace(base, answer=answer, resources=resources, remarks=remarks, alignment=alignment)
    if isinstance(decision, Crashed):
        cause = crash_cause(case, decision.message)
        return replace(
            base,
            verdict=CRASHED,
            answer=f"The kubelet crashes on this pod: {cause.text}",
            resources=cause.resources,
            message=decision.message,
            remarks=remarks_of(case, None),
        )
    refused = decisive is not None and not decisive.merged.admitted
    cause, container = _refused(case, decision, steps)
    outlook = outlook_of(case, decision, cause.resources) if known else Outlook()
    lasting = _lasting_cause(case, container, cause, outlook)
    return replace(
        base,
        verdict=REJECTED,
        answer=_answer(case, container, cause, outlook) if lasting is None else lasting.answer,
        outlook=outlook.when,
        held_by=outlook.holders,
        container=container,
        resources=cause.resources if lasting is None else lasting.resources,
        reason=decision.reason,
        message=decision.message,
        rule=base.rule if refused else "",
        remarks=(*(lasting.remarks if lasting is not None else ()), *remarks_of(case, decision)),
    )


def _refused(case: ExplainCase, decision: Rejected, steps: Sequence[Step]) -> tuple[Cause, str]:
    """What decided against the pod, and the container it did so at; '': the pod as a whole."""
    merges = merges_in(steps)
    if not merges or merges[-1].merged.admitted:
        cause, container = failure_cause(case, decision, steps), decision.container
    else:
        voters = voters_of(case, decision.state, merges[-1].found)
        cause = merge_cause(only_voters(voters), merging_of(case))
        container = merges[-1].merged.container or ""
    return with_own_uses(case, decision.state, cause), container


@dataclass(frozen=True, slots=True)
class LastingCause:
    """Why a pod is refused even on an idle machine, where something else decided now."""

    answer: str
    resources: tuple[str, ...]
    remarks: tuple[str, ...]
    """What decided now."""


def _lasting_cause(case: ExplainCase, container: str, cause: Cause, outlook: Outlook) -> LastingCause | None:
    """What is said of a pod that is never let in; None: what decided now (rule 4)."""
    if outlook.when != NEVER or outlook.text != NEVER_TEXT:
        return None
    alone = healed(idle(created_again(case) if case.again else case), case.state.devices.plugins)
    steps: list[Step] = []
    decision = decided(alone, steps.append)
    if not isinstance(decision, Rejected):
        return None
    found, where = _refused(alone, decision, steps)
    again = REUSED in found.text and REUSED in cause.text  # the same init container, elsewhere
    if where == container and (found.text == cause.text or again):
        return None
    plugins = case.state.devices.plugins.values()
    if any(one.healthy != one.devices.keys() for one in plugins):
        outlook = replace(outlook, text=f"{outlook.text} and with healthy devices")
    now = f"Now: {_in_container(case, container)}{cause.text}"
    return LastingCause(_answer(case, where, found, outlook), found.resources, (now,))


def _answer(case: ExplainCase, container: str, cause: Cause, outlook: Outlook) -> str:
    first = f"Rejected, {outlook.text}" if outlook.text else "Rejected"
    return f"{first}: {_in_container(case, container)}{cause.text}"


def _in_container(case: ExplainCase, name: str) -> str:
    """``init container setup: ``; '' where the pod has one container, or all of it decided."""
    one = next((one for one in case.pod.containers if one.name == name), None)
    if one is None or len(case.pod.containers) < 2:
        return ""
    return f"{'init ' if one.role is Role.INIT else ''}container {name}: "


def explain_hints(
    policy: str,
    hints: dict[str, Family | None],
    numas: Sequence[int],
    *,
    name: str = "",
    namespace: str = "default",
    container: str | None = "",
    scope: str = "",
    version: Version = DEFAULT,
    remarks: Sequence[str] = (),
) -> Explanation:
    """Why hints alone, pasted or out of a log, are or are not enough for a policy."""
    machine = Machine((), tuple(Numa(numa) for numa in numas))
    rules = Rules(topology_policy=policy, behaviour=behaviour_of(version))
    merging = Merging(policy, machine.numa_bits, rules.behaviour.preferred_needs_equal_masks)
    voters = tuple(pasted(resource, family, sorted(numas)) for resource, family in hints.items())
    some = only_voters(voters)
    if policy == NONE:
        best, admitted = Hint(None, preferred=False), True
    else:
        best, admitted = judge(machine, rules, [voter.family for voter in some])
    merged = HintsMerged(container, best, admitted, 0, (), ())
    base = Explanation(
        name=name,
        namespace=namespace,
        verdict=ADMITTED if admitted else REJECTED,
        answer="",
        policy=policy,
        scope=scope,
        rule=merging.rule,
        round=round_of(voters, merged, merging),
        container=container or "",
        remarks=tuple(remarks),
    )
    if policy == NONE:
        return replace(base, answer="Admitted: policy none does not look at hints")
    if admitted and best.preferred:
        where = "any NUMA node" if best.numa is None else f"NUMA {best.numa}"
        if best.numa is None and some:
            where = f"NUMA {','.join(map(str, ids_of(machine.numa_bits)))}"
        return replace(base, answer=f"Admitted: {_preferred_by(voters, some, where)}")
    cause = merge_cause(some, merging)
    if admitted:
        text = f"Admitted on NUMA {best.numa}, but not as preferred: {cause.text}"
        return replace(base, answer=text, resources=cause.resources)
    return replace(
        base,
        answer=f"Rejected: {cause.text}",
        resources=cause.resources,
        reason=TOPOLOGY_AFFINITY,
        message=NOT_ALIGNED,
    )


def _preferred_by(voters: Sequence[ResourceHints | Voter], some: Sequence[Voter], where: str) -> str:
    """Who prefers these NUMA nodes; a resource without a preference does not."""
    if not some:
        return "no resource has a NUMA preference"
    if len(some) == len(voters) > 1:
        return f"on {where}, which all resources prefer"
    names = [voter.hints.resource for voter in some]
    return f"on {where}, which {both(names)} {'prefers' if len(names) == 1 else 'prefer'}"

"""The merges among the steps of a decision, and what was free at the time of each.

Rules kept here:

1. A merge that was never finished, because the kubelet crashed, is left out.
2. Under container scope a container's hints see what the containers before it were given: what is free is
   that of the state after these were admitted alone.
"""

from collections.abc import Sequence

from numawise.engine.admit import Admitted, Decision, Rejected, admit
from numawise.engine.draft import Draft
from numawise.engine.provider import Admission
from numawise.engine.state import NodeState
from numawise.engine.topology.scope import PROVIDERS
from numawise.engine.trace import HintsFound, HintsMerged, RoundBegan, Step
from numawise.explain.case import ExplainCase
from numawise.explain.free import Voter
from numawise.explain.merge import Merging, narrowings
from numawise.results.explanation import ResourceHints, Round
from numawise.values import dataclass, replace


def merging_of(case: ExplainCase) -> Merging:
    """The policy's side of every merge of a case."""
    rules = case.rules
    return Merging(rules.topology_policy, case.machine.numa_bits, rules.behaviour.preferred_needs_equal_masks)


@dataclass(frozen=True, slots=True)
class HintMerge:
    """The steps of one merge."""

    found: tuple[HintsFound, ...]
    merged: HintsMerged


def merges_in(steps: Sequence[Step]) -> list[HintMerge]:
    """The merges among the steps; one that was never finished is left out."""
    merges: list[HintMerge] = []
    found: list[HintsFound] = []
    for step in steps:
        if isinstance(step, RoundBegan):
            found = []
        elif isinstance(step, HintsFound):
            found.append(step)
        elif isinstance(step, HintsMerged):
            merges.append(HintMerge(tuple(found), step))
    return merges


def decisive_merge(merges: Sequence[HintMerge], decision: Decision) -> HintMerge | None:
    """The most informative merge: of a refusal the last, else the first that was not preferred."""
    if isinstance(decision, Admitted):
        for one in merges:
            if not one.merged.best.preferred:
                return one
    return merges[-1] if merges else None


def state_at(
    case: ExplainCase, decision: Decision, merges: Sequence[HintMerge], merge: HintMerge
) -> NodeState | None:
    """The state at the time of a merge; None: not known."""
    if isinstance(decision, Rejected) and merge is merges[-1]:
        return decision.state
    if merge is merges[0]:
        return _collected(case, case.state)
    names = [one.name for one in case.pod.containers]
    if case.again or merge.merged.container not in names:
        return None
    earlier = case.pod.containers[: names.index(merge.merged.container)]
    outcome = admit(case.machine, case.rules, case.state, replace(case.pod, containers=earlier))
    return outcome.state if isinstance(outcome, Admitted) else None


def _collected(case: ExplainCase, state: NodeState) -> NodeState:
    """The state once the managers took back what pods left that are gone, as they do before they answer."""
    if not state.departed:
        return state
    admission = Admission(case.machine, case.rules, Draft(state, case.pod), case.pod)
    for provider in PROVIDERS:
        if provider.present(case.rules):
            provider.collect(admission)
    return admission.draft.freeze()


def only_voters(voters: Sequence[ResourceHints | Voter]) -> list[Voter]:
    """Those with a say."""
    return [voter for voter in voters if isinstance(voter, Voter)]


def round_of(voters: Sequence[ResourceHints | Voter], merged: HintsMerged, merging: Merging) -> Round:
    """One merge as a value."""
    hints = tuple(one.hints if isinstance(one, Voter) else one for one in voters)
    steps = narrowings(only_voters(voters), merging)
    return Round(merged.container, hints, steps, merged.best, merged.admitted)

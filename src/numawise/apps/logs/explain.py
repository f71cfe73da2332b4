"""One admission out of a log, explained without the machine.

Rules kept here:

1. The hints are merged again under the policy; the log's own answer decides what is said, and where ours is
   another, that is said too.
2. A policy or release that the log leaves open is chosen so that the merge gives the log's answer; it is
   named only where no other would do.
3. Whatever the log does not contain is reported as unknown, never made up.  A refusal that no line states is
   certain where every policy that the kubelet can have refuses the hints that are there: more hints can make
   an answer worse, never preferred.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from numawise.apps.logs.kubelets import POLICIES
from numawise.apps.logs.wording import (
    NO_AMOUNTS,
    NO_HINTS,
    allocated_text,
    loop_text,
    merge_text,
    policy_text,
    shortage_text,
    unfinished_text,
    verdict_text,
)
from numawise.engine.failure import TOPOLOGY_AFFINITY
from numawise.engine.hint import NOWHERE, Hint
from numawise.engine.topology.scope import NOT_ALIGNED
from numawise.explain.explain import explain_hints
from numawise.explain.resize import INFEASIBLE_WORDS
from numawise.explain.words import number
from numawise.render.words import bytes_text, counted
from numawise.request.model import CPU, MEMORY
from numawise.results.explanation import (
    ADMITTED,
    DEFERRED,
    IMPOSSIBLE,
    INFEASIBLE,
    REJECTED,
    Explanation,
    ResourceHints,
    Round,
)
from numawise.results.log import UNFINISHED, Kubelet, LoggedAdmission, LoggedRound, Repeats, Trouble
from numawise.rules.model import BEST_EFFORT, NONE, SINGLE
from numawise.rules.versions import ENDLESS, NEWEST, Version
from numawise.sets import ids_of
from numawise.strconv import whole_number
from numawise.values import dataclass, replace

EQUAL_MASKS = (1, 24)
"""Since when masks must agree to be preferred."""


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """What the user knows beside the log."""

    policy: str = ""
    version: Version | None = None
    numas: int = 0
    """NUMA nodes, packed."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A merge under one policy and release."""

    policy: str
    found: Explanation
    agrees: bool
    """It gives the answer that the log has, and so does its verdict."""
    policies: tuple[str, ...] = ()
    """All that do."""


def settled(
    admission: LoggedAdmission, kubelet: Kubelet, given: LogEvidence | None = None, *, filtered: bool = True
) -> LoggedAdmission:
    """An admission that no line decides, with what follows from the policy (rule 3).

    ``filtered``: the log may lack lines about answers that were accepted.
    """
    if admission.verdict != UNFINISHED or not admission.rounds or admission.likely:
        return admission
    given = given or LogEvidence()
    one = admission.rounds[-1]
    policies = _policies(kubelet, given)
    refused = one.best is not None and one.named and not one.best.preferred
    if refused and one.best is not None and one.best.numa is None:
        policies = (SINGLE,)
    if policies and not {BEST_EFFORT, NONE} & {*policies} and (refused or _all_refuse(one, kubelet, given)):
        return replace(admission, verdict=REJECTED, reason=admission.reason or TOPOLOGY_AFFINITY)
    if one.best is None:
        return admission
    if one.best.preferred or tuple(policies) == (BEST_EFFORT,):
        return replace(admission, likely=ADMITTED)
    return replace(admission, likely=REJECTED) if kubelet.stores or not filtered else admission


def _all_refuse(one: LoggedRound, kubelet: Kubelet, given: LogEvidence) -> bool:
    """True when the hints that are there are refused under every policy and release that it can be."""
    hints = {name: None if name in one.open else family for name, family in one.hints.items()}
    numas = list(ids_of(kubelet.numas | given.numas)) or [0]
    return bool(hints) and not any(
        explain_hints(policy, hints, numas, version=version).admitted
        for policy in _policies(kubelet, given)
        for version in _versions(kubelet, given)
    )


def explain_admission(
    admission: LoggedAdmission, kubelet: Kubelet, repeats: Repeats, given: LogEvidence | None = None
) -> Explanation:
    """What became of a pod, and why, as far as a log says."""
    given = given or LogEvidence()
    one = admission.decisive
    attempt = _merged(admission, one, kubelet, given) if one is not None and one.hints else None
    by_topology = admission.reason in ("", TOPOLOGY_AFFINITY)
    refused = REJECTED in (admission.verdict, admission.likely)
    if refused and by_topology and attempt is not None:
        found = _refused(admission, attempt)
    elif refused:
        found = _failed(admission, attempt if by_topology else None)
    elif attempt is not None:
        found = _passed(admission, attempt)
    else:
        found = _silent(admission)
    if attempt is not None and not _is_known(attempt, kubelet, given):
        found = replace(found, policy="", rule="")
    if admission.resize and admission.rejected:
        found = _resized(found)
    elif admission.verdict == UNFINISHED:
        found = _probable(admission, found)
    remarks = list(_remarks(admission, kubelet, repeats, attempt, found, given))
    return replace(
        found,
        name=admission.pod.name or admission.pod.uid,
        namespace=admission.pod.namespace,
        uid=admission.pod.uid,
        scope=_scope(admission, kubelet),
        said=admission.stated,
        remarks=tuple(remarks),
    )


def _is_known(attempt: _Attempt, kubelet: Kubelet, given: LogEvidence) -> bool:
    """True when the policy is stated, or no other answers so."""
    return bool(given.policy) or kubelet.policy_stated or (attempt.agrees and len(attempt.policies) == 1)


def _probable(admission: LoggedAdmission, found: Explanation) -> Explanation:
    """What no line decides is not called decided."""
    one = admission.decisive
    placed = True if one is not None and one.placed else None
    drawn = None if found.round is None else replace(found.round, admitted=placed)
    found = replace(found, verdict=UNFINISHED, round=drawn, reason="", message="")
    if not admission.likely:
        return found
    answer = found.answer[:1].lower() + found.answer[1:]
    return replace(found, answer=f"Probably {answer}")


def _resized(found: Explanation) -> Explanation:
    """A pod that runs goes on with the size it has; the kubelet tries what is not infeasible again."""
    verdict = INFEASIBLE if found.reason == "Infeasible" else DEFERRED
    cause = found.cause
    if verdict == INFEASIBLE:
        cause = next((text for word, text in INFEASIBLE_WORDS.items() if word in found.message), cause)
    return replace(found, verdict=verdict, answer=f"{verdict.capitalize()}: resize of a running pod: {cause}")


def _scope(admission: LoggedAdmission, kubelet: Kubelet) -> str:
    return "pod" if admission.pod_scope else kubelet.scope or ("container" if admission.rounds else "")


# --- the merge, once more -------------------------------------------------------------------


def _merged(
    admission: LoggedAdmission, one: LoggedRound, kubelet: Kubelet, given: LogEvidence
) -> _Attempt | None:
    """The hints merged under the policy that gives the log's answer (rule 2)."""
    numas = kubelet.numas | given.numas
    first: _Attempt | None = None
    agreeing: dict[str, _Attempt] = {}
    policies = _policies(kubelet, given) or POLICIES
    if admission.likely == REJECTED and set(policies) - {BEST_EFFORT}:
        policies = [policy for policy in policies if policy != BEST_EFFORT]
    for policy in policies:
        for version in _versions(kubelet, given):
            found = explain_hints(
                policy,
                dict(one.hints),
                list(ids_of(numas)) or [0],
                container=one.container,
                version=version,
            )
            found = replace(found, round=_with_shortages(found.round, one))
            attempt = _Attempt(policy, found, _agrees(admission, one, found, numas))
            if attempt.agrees:
                agreeing.setdefault(policy, attempt)
            first = first or attempt
    for attempt in agreeing.values():
        return replace(attempt, policies=tuple(agreeing))
    return first


def _policies(kubelet: Kubelet, given: LogEvidence) -> Sequence[str]:
    if given.policy:
        return (given.policy,)
    return [policy for policy in kubelet.policies if policy != NONE]


def _versions(kubelet: Kubelet, given: LogEvidence) -> Iterator[Version]:
    if given.version is not None:
        yield given.version
        return
    since, until = kubelet.releases
    newest = NEWEST if until == ENDLESS else until
    yield newest
    if since < EQUAL_MASKS <= newest:
        yield (1, 23)


def _agrees(admission: LoggedAdmission, one: LoggedRound, found: Explanation, numas: int) -> bool:
    """True when it is the log's answer; NUMA nodes that no line names may be all that differs."""
    assert found.round is not None
    ours, best = found.round.best, one.best
    if best is not None and ours != best:
        all_that_are_named = ours.numa is None and best.numa is not None and best.numa.bits == numas
        if not all_that_are_named or ours.preferred != best.preferred:
            return False
    if admission.rejected and admission.reason == TOPOLOGY_AFFINITY:
        return not found.admitted
    return found.admitted or not one.placed


def _with_shortages(drawn: Round | None, one: LoggedRound) -> Round | None:
    """Notes of why a resource has no hints, where a line says it."""
    if drawn is None or not one.shortages:
        return drawn
    kept: list[ResourceHints] = []
    for hints in drawn.hints:
        short = one.shortages.get(hints.resource)
        if short is not None and hints.answer == IMPOSSIBLE:
            hints = replace(hints, note=shortage_text(short))
        kept.append(hints)
    return replace(drawn, hints=tuple(kept))


# --- answers --------------------------------------------------------------------------------


def _refused(admission: LoggedAdmission, attempt: _Attempt) -> Explanation:
    """For want of common NUMA nodes."""
    found = attempt.found
    one = admission.decisive
    assert one is not None
    drawn = _logged(found.round, one.best, admitted=False)
    message = admission.message or NOT_ALIGNED
    base = replace(
        found, verdict=REJECTED, reason=TOPOLOGY_AFFINITY, message=message, round=drawn, rule=found.rule
    )
    if found.admitted:
        where = "the hints in the log do not show why"
        missing = "; a line of them is cut off" if one.cut else "; a line of them may be missing"
        return replace(base, answer=f"Rejected: {where}{missing}", resources=())
    short = [name for name, family in one.hints.items() if family is NOWHERE and name in one.shortages]
    if short:
        text = "; ".join(f"{name}: {shortage_text(one.shortages[name])}" for name in short)
        return replace(base, answer=_in_container(admission, f"Rejected: {text}"), resources=tuple(short))
    return replace(base, answer=_in_container(admission, found.answer))


def _in_container(admission: LoggedAdmission, answer: str) -> str:
    """Names the container where there are several."""
    one = admission.decisive
    names = {each.container for each in admission.rounds}
    if one is None or one.container is None or len(names) < 2:
        return answer
    verdict, colon, cause = answer.partition(": ")
    return f"{verdict}{colon}container {one.container}: {cause}"


def _logged(drawn: Round | None, best: Hint | None, *, admitted: bool | None) -> Round | None:
    """The merge with the log's own answer."""
    return None if drawn is None else replace(drawn, best=best or drawn.best, admitted=admitted)


def _failed(admission: LoggedAdmission, attempt: _Attempt | None) -> Explanation:
    """For something else, or with nothing known of the hints."""
    container = next((each.container for each in reversed(admission.troubles) if each.container), "")
    base = Explanation(
        name=admission.pod.name,
        verdict=REJECTED,
        answer="",
        container=container,
        reason=admission.reason,
        message=admission.message,
        policy=attempt.policy if attempt else "",
    )
    if admission.reason in ("", TOPOLOGY_AFFINITY) and not admission.troubles:
        return replace(base, answer=f"Rejected: {NO_HINTS}")
    resource, text = cause_of(admission.message, admission.troubles)
    resources = (resource,) if resource else ()
    return replace(base, answer=f"Rejected: {text or admission.reason}", resources=resources)


def _passed(admission: LoggedAdmission, attempt: _Attempt) -> Explanation:
    """Admitted, or not decided."""
    one = admission.decisive
    assert one is not None
    found = attempt.found
    if ADMITTED in (admission.verdict, admission.likely):
        drawn = _logged(found.round, one.best, admitted=True)
        if found.admitted and attempt.agrees:
            return replace(found, round=drawn, answer=_in_container(admission, found.answer))
        where = "" if one.best is None or one.best.numa is None else f" on NUMA {one.best.numa}"
        return replace(found, verdict=ADMITTED, round=drawn, answer=f"Admitted{where}", reason="", message="")
    best = one.best
    drawn = _logged(found.round, best, admitted=None)
    return replace(found, verdict=UNFINISHED, round=drawn, answer=unfinished_text(one), reason="", message="")


def _silent(admission: LoggedAdmission) -> Explanation:
    """No preference was logged, or nothing is known of it."""
    if ADMITTED not in (admission.verdict, admission.likely):
        answer = unfinished_text(admission.decisive)
        return Explanation(name=admission.pod.name, verdict=UNFINISHED, answer=answer)
    answer = "Admitted: no resource has a NUMA preference" if admission.rounds else "Admitted"
    return Explanation(name=admission.pod.name, verdict=ADMITTED, answer=answer)


# --- remarks --------------------------------------------------------------------------------


def _remarks(
    admission: LoggedAdmission,
    kubelet: Kubelet,
    repeats: Repeats,
    attempt: _Attempt | None,
    found: Explanation,
    given: LogEvidence,
) -> Iterator[str]:
    refused = REJECTED in (admission.verdict, admission.likely)
    yield from loop_text(admission, repeats)
    yield from verdict_text(admission, kubelet)
    yield from allocated_text(admission)
    one = admission.decisive
    if attempt is not None and one is not None:
        yield from policy_text(kubelet, attempt.policies, one, given_policy=given.policy)
        if not attempt.agrees and one.best is not None:
            assert attempt.found.round is not None
            yield from merge_text(attempt.policy, attempt.found.round.best, one, kubelet)
    if refused and found.round is not None and not _amounts(admission, found.round):
        yield NO_AMOUNTS


def _amounts(admission: LoggedAdmission, drawn: Round) -> bool:
    """True when lines say how much was asked of what decided."""
    notes = {hints.resource for hints in drawn.hints if hints.note}
    return bool(notes) or all(hints.resource in admission.wanted for hints in drawn.hints)


# --------------------------------------------------------------------------------------------------
# What the kubelet's own words for a failed allocation mean.


WRAPPED = re.compile(r"Allocate failed due to (.*), which is unexpected", re.DOTALL)
Telling = Callable[[re.Match[str]], tuple[str, str]]


def unwrapped(message: str) -> str:
    """The error inside a pod's message."""
    found = WRAPPED.fullmatch(message)
    return found[1] if found else message


def cause_of(message: str, troubles: Sequence[Trouble] = ()) -> tuple[str, str]:
    """The resource that decided ('' when the words name none), and a sentence without its full stop."""
    for text in [unwrapped(message), *(trouble.error for trouble in reversed(troubles))]:
        for pattern, telling in KNOWN:
            found = pattern.search(text)
            if found:
                return telling(found)
    text = unwrapped(message) or (troubles[-1].error if troubles else "")
    provider = troubles[-1].provider if troubles else ""
    return (provider if provider in (CPU, MEMORY) else "", text.strip().rstrip("."))


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _free(count: int) -> str:
    return f"{count or 'none'} {'is' if count < 2 else 'are'} free"


def _cpus(found: re.Match[str]) -> tuple[str, str]:
    asked = whole_number(found[1])
    return CPU, f"cpu: {counted(asked, 'CPU')} {_are(asked)} asked for and {_free(whole_number(found[2]))}"


def _some_cpus(_found: re.Match[str]) -> tuple[str, str]:
    return CPU, "cpu: more CPUs are asked for than are free"


def _odd(found: re.Match[str]) -> tuple[str, str]:
    asked, threads = whole_number(found[1]), whole_number(found[2])
    return CPU, (
        f"cpu: {counted(asked, 'CPU')} {_are(asked)} asked for, which is not a multiple of the "
        f"{number(threads)} threads of a core, and full-pcpus-only hands out whole cores"
    )


def _cores(found: re.Match[str]) -> tuple[str, str]:
    free, asked = whole_number(found[1]), whole_number(found[2])
    return CPU, (
        f"cpu: {counted(asked, 'CPU')} {_are(asked)} asked for and {_free(free)} in whole cores, "
        "which full-pcpus-only demands"
    )


def _devices(found: re.Match[str]) -> tuple[str, str]:
    asked = whole_number(found[2])
    return found[1], f"{found[1]}: {asked} {_are(asked)} asked for and {_free(whole_number(found[3]))}"


def _unhealthy(found: re.Match[str]) -> tuple[str, str]:
    return found[1], f"{found[1]}: no device is healthy"


def _unregistered(found: re.Match[str]) -> tuple[str, str]:
    return found[1], f"{found[1]}: its device plugin has not registered"


def _memory(_found: re.Match[str]) -> tuple[str, str]:
    return MEMORY, "memory: no set of NUMA nodes has enough free memory"


def _no_extension(_found: re.Match[str]) -> tuple[str, str]:
    return MEMORY, (
        "memory: the NUMA nodes chosen for the other resources have too little free memory, "
        "and no larger set has enough"
    )


def _grouped(_found: re.Match[str]) -> tuple[str, str]:
    return MEMORY, ("memory: the NUMA nodes chosen for the other resources are in different memory groups")


def _capacity(found: re.Match[str]) -> tuple[str, str]:
    resource, asked, used, capacity = (
        found[1],
        whole_number(found[2]),
        whole_number(found[3]),
        whole_number(found[4]),
    )
    shown: Callable[[int], str] = str
    if resource == CPU:
        shown = _milli
    elif resource == MEMORY or resource.startswith(("hugepages", "ephemeral")):
        shown = bytes_text
    return resource, (
        f"{resource}: {shown(asked)} {'is' if shown is bytes_text else 'are'} asked for, {shown(used)} of "
        f"{shown(capacity)} are taken"
    )


def _milli(amount: int) -> str:
    return f"{amount / 1000:g} CPUs" if amount != 1000 else "1 CPU"


KNOWN: tuple[tuple[re.Pattern[str], Telling], ...] = tuple(
    (re.compile(pattern), telling)
    for pattern, telling in (
        (r"not enough cpus available to satisfy request: requested=(\d+), available=(\d+)", _cpus),
        (r"not enough cpus available to satisfy request", _some_cpus),
        (r"requested (\d+) cpus not multiple cpus per core = (\d+)", _odd),
        (r"available physical CPUs = (\d+), requested CPUs = (\d+)", _cores),
        (r"number of devices unavailable for (\S+)\. Requested: (\d+), Available: (\d+)", _devices),
        (r"cannot allocate unhealthy devices (\S+)", _unhealthy),
        (r"cannot allocate unregistered device (\S+)", _unregistered),
        (r"failed to get the default NUMA affinity, no NUMA nodes with enough memory", _memory),
        (r"failed to find NUMA nodes to extend the current topology hint", _no_extension),
        (r"preferred hint violates NUMA node allocation", _grouped),
        (r"enough resource: ([^\s,]+), requested: (\d+), used: (\d+), capacity: (\d+)", _capacity),
    )
)
"""Words of the kubelet, and what they mean; the first that fits."""

"""What is said of an admission beside its cause: who makes the pod, how often, how sure.

Rules kept here:

1. Controllers name pods by fixed rules: a StatefulSet by number; a ReplicaSet, Job or DaemonSet by five
   letters out of an alphabet without vowels; a ReplicaSet of a Deployment has a hash of such letters before.
2. A name proves nothing: what it shows is said only of pods that came again.
"""

import re
from collections.abc import Iterator, Sequence

from numawise.engine.hint import Hint
from numawise.render.words import both, counted, times_text
from numawise.results.explanation import ADMITTED, REJECTED
from numawise.results.log import Kubelet, LoggedAdmission, LoggedRound, Repeats, Shortage, stamp_text
from numawise.rules.model import BEST_EFFORT, RESTRICTED, SINGLE
from numawise.values import dataclass

LETTERS = "[bcdfghjklmnpqrstvwxz2456789]"
NUMBERED = re.compile(r"(.+)-(0|[1-9]\d{0,8})", re.ASCII)
MADE = re.compile(rf"(.+)-{LETTERS}{{5}}", re.ASCII)
HASHED = re.compile(rf"(.+)-{LETTERS}{{6,10}}", re.ASCII)
TIMED = re.compile(r"(.+)-\d{8,10}", re.ASCII)

STATEFUL, REPLICA, JOB, UNKNOWN = "StatefulSet", "ReplicaSet", "Job", ""


@dataclass(frozen=True, slots=True)
class PodOwner:
    """What a pod's name says about who made it."""

    name: str
    kind: str = UNKNOWN
    above: str = ""
    """The Deployment of a ReplicaSet, the CronJob of a Job."""
    numbered: bool = False
    made: bool = False
    """The pod's name is made up, so that the next one will have another."""


def owner_of(pod: str) -> PodOwner:
    """The owner that a pod's name shows; the pod itself when it shows none."""
    made = MADE.fullmatch(pod)
    if made:
        hashed, timed = HASHED.fullmatch(made[1]), TIMED.fullmatch(made[1])
        if hashed and any(letter.isdecimal() for letter in made[1][len(hashed[1]) :]):
            return PodOwner(made[1], REPLICA, hashed[1], made=True)
        if timed:
            return PodOwner(made[1], JOB, timed[1], made=True)
        return PodOwner(made[1], made=True)
    numbered = NUMBERED.fullmatch(pod)
    if numbered:
        return PodOwner(numbered[1], STATEFUL, numbered=True)
    return PodOwner(pod)


# --------------------------------------------------------------------------------------------------
# What is said of an admission beside its cause: how often, how sure, and what the log leaves open.


NO_HINTS = "the log has no hints for it"
NO_AMOUNTS = (
    "The log does not say how much was asked for or how much was free; with --machine, --kubelet-config, "
    "--state and the pod the amounts can be computed"
)
UNITS = (
    (2 * 86400.0, 86400.0, "day"),
    (2 * 3600.0, 3600.0, "hour"),
    (120.0, 60.0, "minute"),
    (1.0, 1.0, "second"),
)


def span_text(seconds: float) -> str:
    """``0.6 seconds``, ``45 seconds``, ``5 minutes``, ``3 hours``."""
    for least, size, word in UNITS:
        if seconds >= least:
            return counted(round(seconds / size), word)
    return f"{seconds:.1f} seconds"


# --- how often ------------------------------------------------------------------------------


def loop_text(admission: LoggedAdmission, repeats: Repeats) -> Iterator[str]:
    """A pod that is recreated after each rejection, shown once for all of them."""
    if not admission.rejected:
        if repeats.count > 1:
            yield f"This is the last of {repeats.count:,} such admissions{_since(repeats)}"
        return
    if repeats.count < 2 and not repeats.recreated:
        return
    owner = owner_of(admission.pod.name)
    span = _span(repeats)
    if repeats.recreated and not owner.made:
        who = f"{admission.pod.name} of {repeats.owner}" if repeats.kind == STATEFUL else admission.pod.name
        kind = "StatefulSet" if repeats.kind == STATEFUL else "Pod"
        others = f" and {repeats.names - 1} more of its pods" if repeats.names > 1 else ""
        rejected, again = times_text(repeats.count), times_text(repeats.recreated)
        same = "" if repeats.changes else "; each new pod asks for the same and fails in the same way"
        yield (
            f"{kind} recreated again and again: {who}{others} was rejected {rejected} and recreated "
            f"{again}{span}{_since(repeats)}{same}"
        )
    elif owner.made:
        what = {REPLICA: "ReplicaSet", JOB: "Job"}.get(owner.kind, "Its owner")
        above = {REPLICA: f" of Deployment {owner.above}", JOB: f" of CronJob {owner.above}"}.get(
            owner.kind, ""
        )
        lead = f"{what} {owner.name}{above}" if owner.kind else f"{what}, by the names {owner.name},"
        yield (
            f"{lead} makes a new pod after each rejection: {repeats.names:,} were rejected{span}"
            f"{_since(repeats)}, the last is {admission.pod.name}"
        )
    else:
        yield f"It was rejected {times_text(repeats.count)}{span}{_since(repeats)}"
    if repeats.changes:
        yield f"Its hints or the reason changed {times_text(repeats.changes)}; the last are shown"


def _span(repeats: Repeats) -> str:
    seconds = repeats.seconds
    if seconds is None or (repeats.count < 2 and seconds <= 0):
        return ""
    rate = seconds / (repeats.count - 1) if repeats.count > 2 else 0.0
    every = f" (every {span_text(rate)})" if rate else ""
    return f" in {span_text(seconds)}{every}"


def _since(repeats: Repeats) -> str:
    return f", since {stamp_text(repeats.first)}" if repeats.first is not None else ""


# --- how sure -------------------------------------------------------------------------------


def verdict_text(admission: LoggedAdmission, kubelet: Kubelet) -> Iterator[str]:
    """Where a verdict is concluded, or only probable, from what."""
    if admission.stated:
        return
    if admission.rejected:
        cause = "the best hint, which is not preferred, and the policy"
        if admission.troubles:
            cause = "the allocation that failed"
        yield f"No log line states the rejection; it follows from {cause}"
    elif admission.likely == ADMITTED:
        yield (
            "The Topology Manager lets it pass, but no line in this log shows whether it was refused later "
            "or run"
        )
    elif admission.likely == REJECTED and admission.troubles:
        yield "No line in this log names the pod whose allocation failed; this one was the last before it"
    elif admission.likely == REJECTED:
        others = [policy for policy in kubelet.policies if policy != BEST_EFFORT]
        yield (
            f"No line in this log shows how it ended: {both(others, 'or')} would refuse it, and under "
            f"{BEST_EFFORT} a line 'Topology Affinity' would follow; --policy settles it"
        )
    elif kubelet.policies and BEST_EFFORT in kubelet.policies and len(kubelet.policies) > 1:
        one = admission.decisive
        if one is not None and one.best is not None:
            others = [policy for policy in kubelet.policies if policy != BEST_EFFORT]
            yield (
                f"{both(others, 'or').capitalize()} would refuse it, {BEST_EFFORT} would not; the log does "
                "not name the policy: --policy settles it"
            )


def allocated_text(admission: LoggedAdmission) -> Iterator[str]:
    """What a pod was given, or the managers' own errors."""
    parts = [
        f"CPUs {cpus}{f' (container {name})' if name and len(admission.cpus) > 1 else ''}"
        for name, cpus in admission.cpus.items()
        if cpus
    ]
    parts += [f"{devices} of {resource}" for resource, devices in admission.devices.items()]
    if parts and not admission.rejected and not admission.troubles:
        yield f"It got {both(parts)}"
    placed = [
        (one.container, one.best.numa) for one in admission.rounds if one.placed and one.best is not None
    ]
    if len(placed) > 1:
        shown = [f"{name} on {'any NUMA node' if numa is None else f'NUMA {numa}'}" for name, numa in placed]
        yield f"Containers that were placed: {both(shown)}"
    for trouble in admission.troubles:
        manager = {"cpu": "CPU", "memory": "Memory", "device": "Device"}.get(trouble.provider)
        if trouble.error not in admission.message:
            yield (
                f"The {manager} Manager says: {trouble.error}"
                if manager
                else f"The log says: {trouble.error}"
            )


def policy_text(
    kubelet: Kubelet, policies: Sequence[str], one: LoggedRound, *, given_policy: str = ""
) -> Iterator[str]:
    """Where the policy is concluded, from what; ``policies``: those that give the answer of the log."""
    if kubelet.policy_stated or given_policy:
        return
    if kubelet.policy == SINGLE and one.best is not None and one.best.numa is None:
        yield f"The policy is {SINGLE}: not named in the log, but no other policy answers without NUMA nodes"
    elif kubelet.policy == BEST_EFFORT:
        yield f"The policy is {BEST_EFFORT}: not named in the log, but no other policy accepts such nodes"
    elif kubelet.policy:
        yield f"The policy is {kubelet.policy}: not named in the log, but no other policy answers like this"
    elif policies:
        verb = "answers" if len(policies) == 1 else "answer"
        yield f"The log does not name the policy; {both(policies, 'and')} {verb} like this"
    else:
        yield "The log does not name the policy, and under none do these hints give its answer"


def merge_text(policy: str, ours: Hint, one: LoggedRound, kubelet: Kubelet) -> Iterator[str]:
    """Where the hints that the log has do not give the answer that it has."""
    assert one.best is not None
    if ours == one.best:
        return
    why = "a line with hints is missing, or the policy is a different one"
    if one.cut:
        why = "a line with hints is cut off"
    elif kubelet.closest and policy in (RESTRICTED, BEST_EFFORT):
        why = "prefer-closest-numa-nodes uses distances, which the log does not contain"
    yield f"These hints alone would give {hint_text(ours)}, the log has {hint_text(one.best)}: {why}"


def hint_text(hint: Hint) -> str:
    """``NUMA 0-1, not preferred``."""
    where = f"NUMA {hint.numa}" if hint.numa is not None else "no NUMA nodes"
    return f"{where}, {'preferred' if hint.preferred else 'not preferred'}"


def shortage_text(short: Shortage) -> str:
    """Why a resource has no hints."""
    asked = short.asked or 0
    are = "is" if asked == 1 else "are"
    if short.held:
        return f"{asked} {are} asked for, but {short.available or 0} are held already"
    free = short.available or 0
    return f"{asked} {are} asked for and {free or 'none'} {'is' if free < 2 else 'are'} free"


def unfinished_text(one: LoggedRound | None) -> str:
    """An admission whose end the log does not have."""
    if one is None or one.best is None:
        return "Not decided in this log: no line has the answer for the pod"
    return f"Not decided in this log: the merge gave {hint_text(one.best)}, and no line says what followed"

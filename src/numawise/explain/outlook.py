"""Whether a pod that is refused could ever be admitted on this machine: never, even idle, or not now.

Rules kept here:

1. It is found by trying: the same pod on the same node after all other pods have ended.
2. What holds the pod back now is named: the pods that hold what decided, or devices that are not healthy.
3. What a search could not decide is not said.
"""

from collections.abc import Sequence

from numawise.engine.admit import Admitted, Rejected
from numawise.engine.matching import EVICTED, NODE_PORTS, SHUTDOWN, Unmet
from numawise.engine.predicates import PODS, Insufficient, asked, held, others
from numawise.engine.state import Holding, held_by, recorded
from numawise.errors import SearchEnded
from numawise.explain.case import ExplainCase, created_again, decided, healed, idle
from numawise.explain.free import is_memory
from numawise.render.words import amount_text, both, bytes_text, counted
from numawise.request.model import CPU, MEMORY
from numawise.results.explanation import NEVER, NOT_NOW
from numawise.values import dataclass

NEVER_TEXT = "never on this machine as configured, even idle"
NEVER_HERE = "never on this node, even idle"
RECREATE = "not now (recreated, the pod is admitted)"
MOST_RESOURCES = 2


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the future holds for a refused pod."""

    when: str = ""
    """``NEVER``, ``NOT_NOW``; '': not known."""
    text: str = ""
    """For the first sentence, behind the verdict."""
    holders: tuple[str, ...] = ()
    """Uids of pods that hold what decided."""


def outlook_of(case: ExplainCase, decision: Rejected, resources: Sequence[str]) -> Outlook:
    """Whether the pod is refused for ever, or only now; ``resources``: those that decided."""
    if decision.unmet is not None:
        return _unmet(decision.unmet)
    try:
        base = case
        if case.again:
            base = created_again(case)
            if _fits(base):
                return Outlook(NOT_NOW, RECREATE)
        alone = idle(base)
        if _fits(alone):
            return _held(case, decision.insufficient, resources)
        well = healed(alone, case.state.devices.plugins)
        if well is not alone and _fits(well):
            return Outlook(NOT_NOW, f"not now ({_unhealthy(case)})")
    except SearchEnded:
        return Outlook()
    return Outlook(NEVER, NEVER_TEXT)


def _fits(case: ExplainCase) -> bool:
    return isinstance(decided(case), Admitted)


def _unmet(unmet: Unmet) -> Outlook:
    """A node that does not suit the pod, resources apart."""
    if unmet.reason in (EVICTED, SHUTDOWN):
        return Outlook(NOT_NOW, "not now")
    if unmet.reason == NODE_PORTS:
        return Outlook(NOT_NOW, "not now", (unmet.holder,))
    return Outlook(NEVER, NEVER_HERE)


def _held(case: ExplainCase, short: Insufficient | None, resources: Sequence[str]) -> Outlook:
    """Who holds what is missing; ``short``: what the sums had too little of."""
    state = case.state
    if short is not None:
        return _requested(case, short)
    gone = {case.pod.uid, *state.departed}
    every = dict.fromkeys((*state.active, *recorded(state)))
    holdings = {uid: held_by(state, uid) for uid in every if uid not in gone}
    amounts = {name: {uid: _amount(one, name) for uid, one in holdings.items()} for name in resources}
    shown = [name for name, sizes in amounts.items() if any(sizes.values())][:MOST_RESOURCES]
    holding = [uid for uid in holdings if any(amounts[name][uid] for name in shown)]
    holders = tuple(uid for uid in holding if uid in state.active)
    if not holding:
        on_node = f"{counted(len(state.active.keys() - gone), 'other pod')} on the node"
        return Outlook(NOT_NOW, f"not now ({on_node})", tuple(uid for uid in holdings if uid in state.active))
    parts = both([_amount_text(name, sum(amounts[name].values())) for name in shown])
    who = counted(len(holders), "pod") if holders else ""
    if len(holding) > len(holders):
        who = f"{who} and others that are not known" if who else "pods that are not known"
    return Outlook(
        NOT_NOW, f"not now ({who} {'holds' if len(holding) == 1 and holders else 'hold'} {parts})", holders
    )


def _requested(case: ExplainCase, short: Insufficient) -> Outlook:
    """Who requests what the sums have too little of."""
    name = short.resource
    sizes = {
        uid: (asked(pod) if pod is not None else held(case.state, uid)).get(name, 0)
        for uid, pod in others(case.state, case.pod.uid)
    }
    users = tuple(uid for uid, size in sizes.items() if size)
    if name == PODS:
        return Outlook(NOT_NOW, f"not now ({counted(len(users), 'other pod')} on the node)", users)
    request = "requests" if len(users) == 1 else "request"
    size = f"{amount_text(name, short.used)} {'CPUs' if name == CPU else f'of {name}'}"
    return Outlook(NOT_NOW, f"not now ({counted(len(users), 'pod')} {request} {size})", users)


def _amount(holding: Holding, resource: str) -> int:
    if resource == CPU:
        return holding.cpus.bit_count()
    if is_memory(resource):
        return (holding.memory or {}).get(resource, 0)
    return (holding.devices or {}).get(resource, 0)


def _amount_text(resource: str, size: int) -> str:
    if resource == CPU:
        return counted(size, "CPU")
    if is_memory(resource):
        return f"{bytes_text(size)} of {'memory' if resource == MEMORY else resource}"
    return f"{size} {resource}"


def _unhealthy(case: ExplainCase) -> str:
    parts = []
    for resource, plugin in case.state.devices.plugins.items():
        count = len(plugin.devices) - len(plugin.healthy)
        asked = any(dict(one.devices).get(resource) for one in case.pod.containers)
        if count and asked:
            parts.append(f"{count} {resource} {'is' if count == 1 else 'are'} unhealthy")
    return both(parts) if parts else "devices are unhealthy"

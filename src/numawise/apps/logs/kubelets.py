"""What a log says of the kubelets that wrote it: policy, scope, release, NUMA nodes.

Rules kept here:

1. What a kubelet says of itself holds for its process.
2. A policy that is not logged is inferred from answers.  Only ``single-numa-node`` answers without NUMA
   nodes, and never with several; only ``best-effort`` stores what is not preferred; ``best-effort`` refuses
   nothing.
3. A release that is not logged is one of those that word all lines as they stand.
"""

from collections import OrderedDict

from numawise.engine.failure import TOPOLOGY_AFFINITY
from numawise.results import log as values
from numawise.results.log import ANY_RELEASE, Event, Kubelet, LoggedAdmission, LoggedRound, Origin
from numawise.rules.model import BEST_EFFORT, RESTRICTED, SINGLE
from numawise.rules.versions import Version, parse_version
from numawise.values import replace

POLICIES = (SINGLE, RESTRICTED, BEST_EFFORT)


class Kubelets:
    """All kubelets of a log, the last so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Origin, Kubelet] = OrderedDict()

    def hear(self, event: Event) -> None:
        """What an event says of its kubelet."""
        before = self.of(event.origin)
        now = before
        numas, releases = before.numas, before.releases
        if event.releases != ANY_RELEASE:
            releases = _both(releases, event.releases)
        for family in event.hints.values():
            numas |= family.reach if family is not None else 0
        if event.hint is not None and event.hint.numa is not None:
            numas |= event.hint.numa.bits
        if (numas, releases) != (before.numas, before.releases):
            now = replace(now, numas=numas, releases=releases)
        if event.kind == values.POLICY and event.text:
            now = replace(
                now,
                policy=event.text,
                policies=(event.text,),
                policy_stated=True,
                scope=event.scope or now.scope,
                closest=event.message == "closest",
            )
        elif event.kind == values.RELEASE:
            now = _with_release(now, event.text)
        elif event.kind == values.AFFINITY and not now.stores:
            now = replace(now, stores=True)
        elif event.kind == values.MACHINE:
            now = replace(now, numas=now.numas | event.numas)
        elif event.kind == values.MERGED and event.scope not in ("", now.scope) and not now.policy_stated:
            now = replace(now, scope=event.scope)
        if now is not before or event.origin not in self._known:
            self._keep(now)

    def learn(self, admission: LoggedAdmission) -> None:
        """What an admission shows of the policy (rule 2)."""
        before = self.of(admission.origin)
        if before.policy_stated:
            return
        left = before.policies
        for one in admission.rounds:
            possible = _policies_of(one, admission)
            left = tuple(policy for policy in left if policy in possible)
        if left != before.policies:
            self._keep(replace(before, policies=left, policy=left[0] if len(left) == 1 else ""))

    def of(self, origin: Origin) -> Kubelet:
        """What is known of one."""
        return self._known.get(origin) or Kubelet(origin, policies=POLICIES)

    def forget(self, origin: Origin) -> None:
        """It has not started: there is nothing to know of it."""
        self._known.pop(origin, None)

    @property
    def all(self) -> tuple[Kubelet, ...]:
        """Those that are known, in the order of the log."""
        return tuple(self._known.values())

    def _keep(self, kubelet: Kubelet) -> None:
        self._known[kubelet.origin] = kubelet
        if len(self._known) > self._most:
            self._known.popitem(last=False)


def _policies_of(one: LoggedRound, admission: LoggedAdmission) -> tuple[str, ...]:
    best = one.best
    if best is None:
        return POLICIES
    if best.numa is None:
        return (SINGLE,)
    found = list(POLICIES)
    if len(best.numa) > 1:
        found.remove(SINGLE)
    if not best.preferred and one.placed:
        return (BEST_EFFORT,)
    refused = admission.rejected and admission.reason == TOPOLOGY_AFFINITY and one is admission.rounds[-1]
    if refused and not one.placed:
        found.remove(BEST_EFFORT)
    return tuple(found)


def _both(one: tuple[Version, Version], other: tuple[Version, Version]) -> tuple[Version, Version]:
    """Releases that are in both; where none is, the kubelet was updated, and the later line holds."""
    since, until = max(one[0], other[0]), min(one[1], other[1])
    return (since, until) if since <= until else other


def _with_release(kubelet: Kubelet, text: str) -> Kubelet:
    try:
        version = parse_version(text)
    except ValueError:
        return kubelet
    return replace(kubelet, release=text, releases=(version, version))

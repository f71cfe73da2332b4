"""Changes around the pod: another node, fewer other pods, healthy devices, another configuration.

Rules kept here:

1. Of the pods, the smallest one whose end is enough; several only where no single one is.
2. Of the policies, the strictest that still lets the pod in.
3. A configuration is changed by a restart, after which all live pods must be admitted again.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from numawise.engine.failure import SMT_ALIGNMENT
from numawise.engine.lifecycle import devices_changed
from numawise.engine.predicates import Insufficient, asked
from numawise.engine.state import Holding, held_by
from numawise.explain import words
from numawise.explain.case import ExplainCase, restarted, with_config, with_pod, with_state, without
from numawise.explain.change import Setting, setting_patches, with_settings
from numawise.explain.search import ChangeSearch, Priced
from numawise.request.model import PodRequest
from numawise.results.explanation import Suggestion
from numawise.rules.model import BEST_EFFORT, NONE, RESTRICTED, SINGLE
from numawise.rules.options import ACROSS_NUMA, CLOSEST, FULL_CORES
from numawise.values import dataclass, replace

ELSEWHERE, HEAL, REMOVE, SCOPE, OPTION = 0.02, 0.04, 0.6, 1.0, 1.1
POLICY = {RESTRICTED: 1.15, BEST_EFFORT: 1.25, NONE: 1.35}
LOOSER = {SINGLE: (RESTRICTED, BEST_EFFORT, NONE), RESTRICTED: (BEST_EFFORT, NONE), BEST_EFFORT: (NONE,)}
MOST_PODS, MOST_PAIRS, MOST_TOGETHER = 250, 60, 4


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another node that the pod could go to."""

    name: str
    case: ExplainCase


def node_changes(search: ChangeSearch, others: Sequence[Elsewhere]) -> Iterator[Priced]:
    """Every change around the pod that lets it in, of each kind the smallest."""
    yield from elsewhere_changes(search, others)
    yield from _healed(search)
    yield from _removed(search)
    yield from _scope(search)
    yield from _options(search)
    yield from _policy(search)


def elsewhere_changes(search: ChangeSearch, others: Sequence[Elsewhere]) -> Iterator[Priced]:
    """Another node that admits the pod as it is."""
    for one in others:
        if search.works(with_pod(one.case, search.case.raw)):
            yield Priced(ELSEWHERE, Suggestion("node", words.elsewhere_text(one.name), node=one.name))
            return


def _healed(search: ChangeSearch) -> Iterator[Priced]:
    """Devices that are unhealthy, as if they were not."""
    state = search.case.state
    for resource in search.resources:
        plugin = state.devices.plugins.get(resource)
        if plugin is None:
            continue
        ill = sorted(plugin.devices.keys() - plugin.healthy)
        if ill:
            well = [replace(device, healthy=True) for device in plugin.devices.values()]
            if search.works(with_state(search.case, devices_changed(state, resource, well))):
                text = words.healing_text(resource, ill)
                yield Priced(HEAL, Suggestion("heal", text, heal=(resource,)))
                return


# --- other pods -----------------------------------------------------------------------------


def _removed(search: ChangeSearch) -> Iterator[Priced]:
    """The smallest pod without which this one is admitted, or the fewest pods (rule 1)."""
    state = search.case.state
    holdings = {uid: held_by(state, uid) for uid in state.active if uid != search.case.pod.uid}
    shares = {uid: _share(search.case, holding) for uid, holding in holdings.items() if holding}
    if search.insufficient is not None:  # pods without anything of their own count, too
        for uid in holdings.keys() - shares.keys():
            shares[uid] = _requested_share(search.insufficient, state.active[uid])
    uids = sorted(shares, key=lambda one: shares[one])[:MOST_PODS]
    one = next((uid for uid in uids if search.works(without(search.case, uid))), None)
    found = (one,) if one is not None else _several(search, uids, shares)
    if found:
        share = sum(shares[uid] for uid in found)
        text = words.removal_text(search.case, {uid: holdings[uid] for uid in found})
        yield Priced(REMOVE + min(share, 0.35), Suggestion("remove", text, remove=tuple(found)))


def _several(search: ChangeSearch, uids: Sequence[str], shares: dict[str, float]) -> tuple[str, ...] | None:
    """Two pods, or a few, none of which can stay."""

    def works(gone: Sequence[str]) -> bool:
        case = search.case
        for uid in gone:
            case = without(case, uid)
        return search.works(case)

    if len(uids) < 2 or not works(uids):
        return None
    pairs = sorted(combinations(uids, 2), key=lambda pair: shares[pair[0]] + shares[pair[1]])
    for pair in pairs[:MOST_PAIRS]:
        if works(pair):
            return pair
    gone = list(uids)
    for uid in reversed(uids):  # the largest may stay first
        rest = [one for one in gone if one != uid]
        if works(rest):
            gone = rest
    return tuple(gone) if len(gone) <= MOST_TOGETHER else None


def _share(case: ExplainCase, holding: Holding) -> float:
    """Which part of the node a pod holds."""
    parts = [holding.cpus.bit_count() / max(1, case.machine.layout.all.bit_count())]
    total = sum(numa.memory for numa in case.machine.numa)
    parts.append(sum((holding.memory or {}).values()) / max(1, total))
    for resource, count in (holding.devices or {}).items():
        plugin = case.state.devices.plugins.get(resource)
        parts.append(count / max(1, len(plugin.devices) if plugin else 1))
    return sum(parts) / len(parts)


def _requested_share(short: Insufficient, pod: PodRequest | None) -> float:
    """Which part of a resource a pod requests."""
    return asked(pod).get(short.resource, 0) / max(1, short.capacity) if pod is not None else 0.0


# --- the configuration ----------------------------------------------------------------------


def _configured(search: ChangeSearch, settings: Sequence[Setting]) -> bool:
    """True when the pod is admitted after a restart with other settings (rule 3)."""
    case = with_config(search.case, with_settings(search.case.config, settings))
    if case is None or not search.works(case):
        return False
    after = restarted(case)
    return after is not None and search.works(after)


def _priced_settings(
    search: ChangeSearch, cost: float, kind: str, text: tuple[str, str], settings: Sequence[Setting]
) -> Priced:
    patches = setting_patches(search.case.config, settings)
    return Priced(cost, Suggestion(kind, *text, kubelet=patches))


def _scope(search: ChangeSearch) -> Iterator[Priced]:
    """The other scope."""
    case = search.case
    if case.rules.topology_policy == NONE or (len(case.pod.containers) < 2 and not case.pod.pod_level):
        return
    other = "container" if case.rules.pod_scope else "pod"
    settings = [Setting(("topologyManagerScope",), other)]
    if _configured(search, settings):
        text = words.scope_text(other, case.config.topology_manager_scope)
        yield _priced_settings(search, SCOPE, "scope", text, settings)


def _policy(search: ChangeSearch) -> Iterator[Priced]:
    """Another policy (rule 2)."""
    now = search.case.config.topology_manager_policy
    for policy in LOOSER.get(search.case.rules.topology_policy, ()):
        settings = [Setting(("topologyManagerPolicy",), policy)]
        if _configured(search, settings):
            yield _priced_settings(search, POLICY[policy], "policy", words.policy_text(policy, now), settings)
            return


def _options(search: ChangeSearch) -> Iterator[Priced]:
    """Without an option that stands in the way."""
    config = search.case.config
    suspects: list[tuple[str, str]] = []
    if search.reason == SMT_ALIGNMENT or search.crashed:
        suspects += [("cpuManagerPolicyOptions", name) for name in (FULL_CORES, ACROSS_NUMA)]
    if search.crashed:
        suspects.append(("topologyManagerPolicyOptions", CLOSEST))
    given = {
        "cpuManagerPolicyOptions": config.cpu_manager_policy_options,
        "topologyManagerPolicyOptions": config.topology_manager_policy_options,
    }
    for field, name in suspects:
        settings = [Setting((field, name))]
        if name in given[field] and _configured(search, settings):
            yield _priced_settings(search, OPTION, "option", words.option_text(field, name), settings)
            return

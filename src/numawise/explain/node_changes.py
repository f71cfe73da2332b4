"""Changes around the pod: another node, fewer other pods, healthy devices, another configuration.

Rules kept here:

1. Of the pods, the smallest one whose end is enough; several only where no single one is.
2. Of the policies, the strictest that still lets the pod in.
3. A configuration is changed by a restart, after which all live pods must be admitted again.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from numawise.engine.failure import SMT_ALIGNMENT
from numawise.engine.predicates import Insufficient, asked
from numawise.engine.state import Holding, held_by
from numawise.explain import words
from numawise.explain.case import ExplainCase, healed, restarted, with_config, with_pod, without
from numawise.explain.change import Setting, setting_patches, with_settings
from numawise.explain.ranking import Level, Ranked
from numawise.explain.search import ChangeSearch, fewest
from numawise.request.model import PodRequest
from numawise.results.explanation import Suggestion
from numawise.rules.model import BEST_EFFORT, NONE, RESTRICTED, SINGLE
from numawise.rules.options import ACROSS_NUMA, CLOSEST, FULL_CORES
from numawise.values import dataclass

SYSTEM_NAMESPACE = "kube-system"
POLICY = {RESTRICTED: Level.SETTING, BEST_EFFORT: Level.ALIGNMENT, NONE: Level.ALIGNMENT}
LOOSER = {SINGLE: (RESTRICTED, BEST_EFFORT, NONE), RESTRICTED: (BEST_EFFORT, NONE), BEST_EFFORT: (NONE,)}
MOST_PODS, MOST_PAIRS, MOST_TOGETHER = 250, 30, 32


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another node that the pod could go to."""

    name: str
    case: ExplainCase


def node_changes(search: ChangeSearch, others: Sequence[Elsewhere]) -> Iterator[Ranked]:
    """Every change around the pod that lets it in, of each kind the smallest."""
    yield from elsewhere_changes(search, others)
    yield from _healed(search)
    yield from _removed(search)
    yield from _scope(search)
    yield from _options(search)
    yield from _policy(search)


def elsewhere_changes(search: ChangeSearch, others: Sequence[Elsewhere]) -> Iterator[Ranked]:
    """Another node that admits the pod as it is."""
    for one in others:
        there = with_pod(one.case, search.case.raw)
        if search.works(there):
            suggestion = Suggestion("node", words.elsewhere_text(one.name), node=one.name)
            yield Ranked(Level.NOTHING, suggestion, 0, after=there)
            return


def _healed(search: ChangeSearch) -> Iterator[Ranked]:
    """Devices that are unhealthy, as if they were not."""
    plugins = search.case.state.devices.plugins
    for resource in search.resources:
        plugin = plugins.get(resource)
        unhealthy = sorted(plugin.devices.keys() - plugin.healthy) if plugin is not None else []
        if unhealthy and search.works(well := healed(search.case, (resource,))):
            text = words.healing_text(resource, unhealthy)
            yield Ranked(Level.NOTHING, Suggestion("heal", text, heal=(resource,)), after=well)
            return


# --- other pods -----------------------------------------------------------------------------


def _removed(search: ChangeSearch) -> Iterator[Ranked]:
    """The smallest pod without which this one is admitted, or the fewest pods (rule 1)."""
    shares = pod_shares(search)
    gone = fewest_pods(search, shares)
    if gone:
        suggestion = Suggestion("remove", words.removal_text(search.case, gone), remove=gone)
        loss = sum(shares[uid] for uid in gone)
        yield Ranked(Level.WAIT, suggestion, len(gone), loss, after=without(search.case, *gone))


def pod_shares(search: ChangeSearch) -> dict[str, float]:
    """Which part of the node each other pod holds, those first that are the least to lose."""
    state = search.case.state
    holdings = {uid: held_by(state, uid) for uid in state.active if uid != search.case.pod.uid}
    shares = {uid: _share(search.case, holding) for uid, holding in holdings.items() if holding}
    if search.insufficient is not None:  # pods without anything of their own count, too
        for uid in holdings.keys() - shares.keys():
            shares[uid] = _requested_share(search.insufficient, state.active[uid])

    def rank(uid: str) -> tuple[bool, float]:
        pod = state.active[uid]
        return pod is not None and pod.namespace == SYSTEM_NAMESPACE, shares[uid]

    return {uid: shares[uid] for uid in sorted(shares, key=rank)[:MOST_PODS]}


def fewest_pods(search: ChangeSearch, shares: Mapping[str, float]) -> tuple[str, ...] | None:
    """The pod, or two, or a few, none of which can stay; ``shares``: pods, the least to lose first."""

    def works(gone: Sequence[str]) -> bool:
        return search.works(without(search.case, *gone))

    uids = list(shares)
    if not uids or not works(uids):
        return None
    alike = _alike(search.case, uids)
    for some in alike:
        if works(some[:1]):
            return (some[0],)
    gone = fewest(uids[::-1], works)  # the largest may stay first
    if len(gone) > 2:
        few = [uid for some in alike for uid in some[:2]]
        pairs = sorted(combinations(few, 2), key=lambda pair: shares[pair[0]] + shares[pair[1]])
        gone = next((pair for pair in pairs[:MOST_PAIRS] if works(pair)), gone)
    return gone if len(gone) <= MOST_TOGETHER and not search.trials.spent else None


def _alike(case: ExplainCase, uids: Sequence[str]) -> list[tuple[str, ...]]:
    """Pods that hold the same amounts on the same NUMA nodes, so that one of them stands for all."""
    kinds: dict[object, tuple[str, ...]] = {}
    for uid in uids:
        holding = held_by(case.state, uid)
        cpus = tuple((own & holding.cpus).bit_count() for own in case.machine.layout.numas.values())
        grants = case.state.devices.grants.get(uid, {}).values()
        devices = tuple(sorted((name, one[name].per_numa) for one in grants for name in one))
        memory = tuple((holding.memory or {}).items())
        kind = (cpus, memory, holding.numa, devices, uid if not holding else "")
        kinds[kind] = (*kinds.get(kind, ()), uid)
    return list(kinds.values())


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


def _configured(search: ChangeSearch, settings: Sequence[Setting]) -> ExplainCase | None:
    """The pod after a restart with other settings; None: it is not admitted then (rule 3)."""
    case = with_config(search.case, with_settings(search.case.config, settings))
    if case is None or not search.works(case):
        return None
    after = restarted(case)
    return after if after is not None and search.works(after) else None


def _ranked_settings(
    search: ChangeSearch,
    level: Level,
    kind: str,
    text: tuple[str, str],
    settings: Sequence[Setting],
    after: ExplainCase,
) -> Ranked:
    patches = setting_patches(search.case.config, settings)
    return Ranked(level, Suggestion(kind, *text, kubelet=patches), 2, after=after)


def _scope(search: ChangeSearch) -> Iterator[Ranked]:
    """The other scope."""
    case = search.case
    if case.rules.topology_policy == NONE or (len(case.pod.containers) < 2 and not case.pod.pod_level):
        return
    other = "container" if case.rules.pod_scope else "pod"
    settings = [Setting(("topologyManagerScope",), other)]
    if after := _configured(search, settings):
        text = words.scope_text(other, case.config.topology_manager_scope)
        yield _ranked_settings(search, Level.SETTING, "scope", text, settings, after)


def _policy(search: ChangeSearch) -> Iterator[Ranked]:
    """Another policy (rule 2)."""
    now = search.case.config.topology_manager_policy
    for policy in LOOSER.get(search.case.rules.topology_policy, ()):
        settings = [Setting(("topologyManagerPolicy",), policy)]
        if after := _configured(search, settings):
            text = words.policy_text(policy, now)
            yield _ranked_settings(search, POLICY[policy], "policy", text, settings, after)
            return


def _options(search: ChangeSearch) -> Iterator[Ranked]:
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
        if name in given[field] and (after := _configured(search, settings)):
            text = words.option_text(field, name)
            yield _ranked_settings(search, Level.SETTING, "option", text, settings, after)
            return

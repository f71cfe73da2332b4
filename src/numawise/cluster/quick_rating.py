"""Ratings that need no trial: where what each NUMA node has decides alone, as in ``cluster.counting``.

A shape that nobody asked for before is rated on thousands of states; asking a kubelet for each takes
seconds.  Under ``single-numa-node``, and ``restricted`` where one NUMA node could have it, a pod of one
container goes to the lowest NUMA node that has all it asks for.  What is left there, and how many larger
ones would still find a place, are small sums.

Rules kept here:

1. A rating is given where it is what asking would give (``tests/property/test_quick_rating.py``), else None;
   so is a reason.
2. What a state has free is worked out once for each token, what a shape needs once for each kind of node.
"""

from collections.abc import Hashable, Iterable, Mapping

from numawise.cluster.asking import Asker, Member, Shape, Situation
from numawise.cluster.counting import (
    FreeAmounts,
    devices_by_numa,
    is_calm,
    is_simple,
    memory_by_numa,
    only_container,
    wide_enough,
)
from numawise.engine.cpu.hints import exclusive_cpus
from numawise.engine.failure import TOPOLOGY_AFFINITY
from numawise.engine.matching import kept_away
from numawise.engine.memory.hints import takes_part, wanted_by
from numawise.engine.predicates import PODS, Sums, asked, insufficient
from numawise.machine.preference import LinkedGpus
from numawise.request.defaults import RawPod
from numawise.request.model import CPU
from numawise.results.cluster import LostPlaces, NodeRating
from numawise.rules.model import RESTRICTED
from numawise.values import dataclass, field

MOST_TABLES = 40_000
Amount = tuple[str, int]


@dataclass(frozen=True, slots=True)
class FreeTable:
    """What a state has free, by NUMA node in the order of their ids."""

    numas: tuple[int, ...]
    own: Mapping[str, tuple[int, ...]]
    """CPUs, memory by type and devices by resource that can be given out there."""
    sums: Mapping[str, int]
    """What the sums of the node leave."""


@dataclass(frozen=True, slots=True)
class ShapeNeeds:
    """What a shape asks of nodes of one kind."""

    own: tuple[Amount, ...]
    """What it is given on a NUMA node."""
    memory: tuple[str, ...]
    """Types of memory among it."""
    devices: tuple[str, ...]
    amounts: tuple[Amount, ...]
    """What counts in the sums."""
    unmet: str = ""
    """Why no node of this kind would do, whatever is free."""


@dataclass(slots=True)
class QuickRatings:
    """Rates states by what they have free (rule 2)."""

    asker: Asker
    tables: dict[int, FreeTable | None] = field(default_factory=dict)
    needs: dict[tuple[Shape, Hashable], ShapeNeeds | None] = field(default_factory=dict)
    aligned: dict[tuple[Shape, Hashable], bool | None] = field(default_factory=dict)
    """Of shapes that are given nothing of their own: what asking said."""

    def rate(
        self, member: Member, copy: RawPod, larger: Iterable[tuple[Shape, str, RawPod, int]]
    ) -> NodeRating | str | None:
        """The rating of a node for a pod, or why it would not be let in; None: it has to be asked.

        ``larger``: of each larger shape its key, its name, a pod and how many places count.
        """
        if member.kind is None:
            return None
        needs = self._needs(member, self.asker.shape(copy), copy)
        table = self._table(member, copy) if needs is not None else None
        if needs is None or table is None or not _listed(table, needs):
            return None
        if any(size > table.sums.get(name, -1) for name, size in needs.amounts):
            short = insufficient(
                member.node.rules, Sums(member.allocatable, member.used), dict(needs.amounts)
            )
            return short[0].reason if short else None
        if needs.unmet:
            return needs.unmet
        at, aligned = None, True
        if needs.own:
            fits = _fits(table, needs)
            at = next((number for number, most in enumerate(fits) if most), None)
            if at is None:
                fitting = _least(table, [(name, size) for name, size in needs.own if name in needs.memory])
                return TOPOLOGY_AFFINITY if not needs.memory or any(fitting) else None
        else:
            known = self.aligned.get((self.asker.shape(copy), member.kind), self)
            if known is self:
                return None
            aligned = known  # type: ignore[assignment]
        lost = []
        for key, name, pod, most in larger:
            other = self._needs(member, key, pod)
            if other is None or not _listed(table, other):
                return None
            before, after = _places(table, other, needs, at, most)
            lost.append(LostPlaces(name, before, after))
        if at is None:
            return NodeRating(aligned, 0, tuple(lost))
        left = {name: table.own[name][at] - dict(needs.own).get(name, 0) for name in (CPU, *needs.devices)}
        return NodeRating(
            True,
            1 << table.numas[at],
            tuple(lost),
            (sum(left[name] for name in needs.devices), left[CPU]),
        )

    def learn(self, member: Member, copy: RawPod, rating: NodeRating) -> None:
        """What asking said of a shape that is given nothing of its own."""
        if member.kind is not None and not rating.numa:
            self.aligned[self.asker.shape(copy), member.kind] = rating.aligned

    def tidy(self, live: Iterable[Hashable], shapes: Iterable[Shape]) -> None:
        """Forget what no node answers any more."""
        tokens, known = set(live), set(shapes)
        self.tables = {token: table for token, table in self.tables.items() if token in tokens}
        self.needs = {at: needs for at, needs in self.needs.items() if at[0] in known}
        self.aligned = {at: aligned for at, aligned in self.aligned.items() if at[0] in known}

    # --- inside ---------------------------------------------------------------------------------

    def _table(self, member: Member, copy: RawPod) -> FreeTable | None:
        if member.token not in self.tables:
            if len(self.tables) >= MOST_TABLES:
                self.tables.clear()
            self.tables[member.token] = self._made(member, copy)
        return self.tables[member.token]

    def _made(self, member: Member, copy: RawPod) -> FreeTable | None:
        node, state = member.node, member.node.state
        if not state.ready or not is_calm(state, node.description):
            return None
        pod, _ = self.asker.want(node, copy)
        free = FreeAmounts(Situation.of(member), pod)
        layout = node.machine.layout.numas
        numas = tuple(sorted(numa.id for numa in node.machine.numa))
        own = {CPU: tuple((free.cpus & layout.get(numa, 0)).bit_count() for numa in numas)}
        if node.rules.memory_static:
            kinds = {kind for memory in free.memory.values() for kind in memory.tables}
            for kind in kinds:
                amounts = memory_by_numa(free.memory, kind, 1, restricted=False)
                if amounts is None:
                    return None
                own[f"memory {kind}"] = tuple(amounts.get(numa, 0) for numa in numas)
        for name, plugin in state.devices.plugins.items():
            devices = devices_by_numa(plugin, free.taken.get(name, frozenset()), 1)
            if devices is not None:
                own[name] = tuple(devices.get(numa, 0) for numa in numas)
        limits = member.allocatable
        sums = {name: limit - member.used.get(name, 0) for name, limit in limits.items()}
        return FreeTable(numas, own, sums)

    def _needs(self, member: Member, key: Shape, copy: RawPod) -> ShapeNeeds | None:
        at = key, member.kind
        if at not in self.needs:
            self.needs[at] = self._needed(member, copy)
        return self.needs[at]

    def _needed(self, member: Member, copy: RawPod) -> ShapeNeeds | None:
        """What a shape needs on nodes of this kind; None: that is not simple."""
        node = member.node
        rules, machine, plugins = node.rules, node.machine, node.state.devices.plugins
        pod, want = self.asker.want(node, copy)
        container = only_container(pod)
        if not is_simple(rules) or not rules.cpu_static or container is None:
            return None
        sizes = wanted_by(rules, pod, container) if takes_part(rules, pod) else ()
        amounts = {name: size for name, size in want.items() if size}
        if sizes is None or PODS not in member.allocatable or not amounts.keys() <= member.allocatable.keys():
            return None
        if asked(pod) != want:
            return None
        cpus = exclusive_cpus(rules, pod, container)
        strict = rules.topology_policy == RESTRICTED
        if strict and cpus > max(map(int.bit_count, machine.layout.numas.values())):
            return None
        own: list[Amount] = [(CPU, cpus)] if cpus else []
        for kind, size in sizes:
            tables = [memory.tables.get(kind) for memory in node.state.memory.numa.values()]
            if not size or any(table is None or table.allocatable < size for table in tables):
                return None  # some NUMA node could never have it: the free amount alone does not decide
            own.append((f"memory {kind}", size))
        devices = []
        for name, count in container.devices:
            plugin = plugins.get(name)
            if plugin is None or not count or devices_by_numa(plugin, frozenset(), 1) is None:
                return None
            if (plugin.refuses_several or isinstance(plugin.preference, LinkedGpus)) and count > 1:
                return None
            if strict and not wide_enough(plugin, count):
                return None
            own.append((name, count))
            devices.append(name)
        unmet = kept_away(rules, node.description, pod, ())
        return ShapeNeeds(
            tuple(own),
            tuple(f"memory {kind}" for kind, _ in sizes),
            tuple(devices),
            tuple({PODS: 1, **amounts}.items()),
            unmet.reason if unmet is not None else "",
        )


def _listed(table: FreeTable, needs: ShapeNeeds) -> bool:
    """Whether the state has what a shape is given, in a simple form: plugins come and go."""
    return all(name in table.own for name, _ in needs.own)


def _least(table: FreeTable, amounts: Iterable[Amount]) -> list[int]:
    """How often amounts go into each NUMA node."""
    rows = [[free // size for free in table.own.get(name, ())] for name, size in amounts]
    return [min(column) for column in zip(*rows, strict=True)] if rows else []


def _fits(table: FreeTable, needs: ShapeNeeds) -> list[int]:
    return _least(table, needs.own)


def _places(
    table: FreeTable, other: ShapeNeeds, taken: ShapeNeeds, at: int | None, most: int
) -> tuple[int, int]:
    """How many pods of another shape find a place, before and after one that is given something ``at``."""
    if other.unmet:
        return 0, 0
    gone = dict(taken.amounts)
    before = min(most, *(table.sums.get(name, -1) // size for name, size in other.amounts))
    if before <= 0:
        return 0, 0
    after = min(
        most, *((table.sums.get(name, -1) - gone.get(name, 0)) // size for name, size in other.amounts)
    )
    if other.own:
        fits = _fits(table, other)
        total = sum(fits)
        before = min(before, total)
        if at is not None:
            lost = dict(taken.own)
            there = min((table.own[name][at] - lost.get(name, 0)) // size for name, size in other.own)
            total += there - fits[at]
        after = min(after, total)
    return before, max(0, after) if before else 0

"""Families told by rule are the lists that the kubelet would make, mask by mask."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from numawise.engine.cpu import hints as cpu_hints
from numawise.engine.device import hints as device_hints
from numawise.engine.hint import Family, HintRule
from numawise.engine.masks import fewest_nodes, masks_of
from numawise.engine.memory import hints as memory_hints
from numawise.engine.sparing import Need
from numawise.engine.state import MemoryTable, NumaMemory, Plugin
from numawise.machine.model import Cpu, Device
from numawise.rules.model import CpuOptions, Rules
from numawise.sets import ids_of
from tests.property.strategies import even_cpus, laws, masks, ruled, uneven_cpus
from tests.unit.build import even, machine

NODES = 4


def every_mask(nodes: list[int]) -> list[int]:
    """All sets of nodes in the kubelet's order: by size, then by the positions of the nodes."""
    found = []
    for size in range(1, len(nodes) + 1):
        found += [sum(1 << node for node in chosen) for chosen in combinations(nodes, size)]
    return found


def told(family: Family) -> list[tuple[int, bool]]:
    return list(family)


# --- the rule itself -----------------------------------------------------------------------------


def is_hint(family: HintRule, mask: int) -> bool:
    if mask in family.extra_masks:
        return True
    inside = not mask & ~family.nodes and mask.bit_count() >= family.smallest
    touching = all(mask & nodes for nodes in family.touch)
    enough = all(
        sum(amount for nodes, amount in need.amounts if nodes & mask) >= need.least for need in family.needs
    )
    return inside and touching and enough


def is_liked(family: HintRule, mask: int) -> bool:
    if mask.bit_count() == family.width:
        return True
    if family.sockets is None:
        return False
    sockets = {socket for node in ids_of(mask) for socket in ids_of(family.sockets.of_numa.get(node, 0))}
    return len(sockets) == family.sockets.fewest


@laws(500)
@given(ruled(NODES))
def test_walking_a_family(family: HintRule) -> None:
    expected = [(mask, is_liked(family, mask)) for mask in every_mask([0, 1, 2, 3]) if is_hint(family, mask)]
    assert list(family) == expected
    assert family.narrowest == min((mask.bit_count() for mask, _ in expected), default=0)
    reach = 0
    for mask, _ in expected:
        reach |= mask
    assert reach == family.reach


@laws(300)
@given(ruled(NODES))
def test_asking_a_family(family: HintRule) -> None:
    listed = dict(family)
    for mask in every_mask([0, 1, 2, 3]):
        assert family.offers(mask) is (mask in listed)
        assert family.prefers(mask) is listed.get(mask, False)


@laws(300)
@given(ruled(NODES), masks(NODES), masks(NODES))
def test_a_rule_is_upward_closed(family: HintRule, mask: int, more: int) -> None:
    if family.possible and family.by_rule(mask):
        assert family.by_rule((mask | more) & family.nodes)


needs = st.lists(
    st.builds(
        Need,
        st.lists(st.tuples(masks(5), st.integers(0, 4)), max_size=5).map(tuple),
        st.integers(0, 9),
    ),
    max_size=2,
)


@laws(300)
@given(st.integers(0, 6), masks(5), needs, st.lists(masks(5), max_size=2))
def test_masks_of(size: int, nodes: int, wanted: list[Need], touch: list[int]) -> None:
    expected = [
        mask
        for mask in range(1, 32)
        if not mask & ~nodes
        and mask.bit_count() == size
        and all(sum(a for n, a in need.amounts if n & mask) >= need.least for need in wanted)
        and all(mask & one for one in touch)
    ]
    assert list(masks_of(size, nodes, wanted, touch)) == expected


@laws(300)
@given(masks(5), needs, st.lists(masks(5), max_size=2), st.integers(1, 3))
def test_fewest_nodes(nodes: int, wanted: list[Need], touch: list[int], smallest: int) -> None:
    fitting = [size for size in range(smallest, 6) if next(masks_of(size, nodes, wanted, touch), 0)]
    assert fewest_nodes(nodes, wanted, touch, smallest) == min(fitting, default=0)


# --- CPUs ----------------------------------------------------------------------------------------


@laws(250)
@given(st.one_of(even_cpus(), uneven_cpus()), st.data())
def test_cpu_hints(cpus: tuple[Cpu, ...], data: st.DataObject) -> None:
    """For each set of nodes: are all CPUs to use again inside, and with the free ones enough?"""
    layout = machine(cpus).layout
    if sorted(layout.numas) != list(range(len(layout.numas))):
        return  # a node without CPUs: its machine has gaps
    numbers = [cpu.cpu for cpu in cpus]
    available = data.draw(st.sets(st.sampled_from(numbers)))
    again = data.draw(st.sets(st.sampled_from(numbers), max_size=2)) - available
    count = data.draw(st.integers(1, len(numbers)))
    by_socket = data.draw(st.booleans()) and len(layout.sockets) <= len(layout.numas)

    numa_of = {cpu.cpu: cpu.numa for cpu in cpus}
    sockets_of = {numa: {cpu.socket for cpu in cpus if cpu.numa == numa} for numa in layout.numas}
    width, found = len(layout.numas), []
    for mask in every_mask(sorted(layout.numas)):
        nodes = set(ids_of(mask))
        if sum(numa_of[cpu] in nodes for cpu in numbers) >= count:
            width = min(width, len(nodes))
        if any(numa_of[cpu] not in nodes for cpu in again):
            continue
        if len(again) + sum(numa_of[cpu] in nodes for cpu in available) >= count:
            found.append(mask)
    fewest = -(-width // (len(layout.numas) // len(layout.sockets))) if by_socket else -1

    def preferred(mask: int) -> bool:
        touched = set().union(*(sockets_of[numa] for numa in ids_of(mask)))
        return mask.bit_count() == width or (by_socket and len(touched) == fewest)

    rules = Rules(cpu_options=CpuOptions(by_socket=by_socket))
    family = cpu_hints.family(
        layout, rules, sum(1 << c for c in available), sum(1 << c for c in again), count
    )
    assert told(family) == [(mask, preferred(mask)) for mask in found]


# --- devices -------------------------------------------------------------------------------------


@st.composite
def devices(draw: st.DrawFn, nodes: int) -> list[Device]:
    """Devices on no, one or several NUMA nodes, some of which do not exist."""
    found = []
    for number in range(draw(st.integers(1, 6))):
        numa = draw(st.none() | st.lists(st.integers(0, nodes), max_size=2, unique=True).map(tuple))
        found.append(Device(f"d{number}", numa))
    return found


@laws(300)
@given(devices(3), st.data())
def test_device_hints(found: list[Device], data: st.DataObject) -> None:
    """For each set of nodes: do all devices to use again touch it, and with the free ones enough?"""
    hardware = machine(even(3, 3, 3))
    names = [device.id for device in found]
    available = data.draw(st.sets(st.sampled_from(names)))
    again = data.draw(st.sets(st.sampled_from(names), max_size=2)) - available
    count = data.draw(st.integers(0, len(names) + 1))

    by_id = {device.id: device for device in found}
    hosts = sorted({numa for device in found for numa in device.numa or () if numa < 3}) or [0, 1, 2]
    width, expected = len(hosts), []
    for mask in every_mask(hosts):
        nodes = set(ids_of(mask))
        if sum(bool(nodes & set(device.numa or ())) for device in found) >= count:
            width = min(width, len(nodes))
        inside = [by_id[name] for name in again if by_id[name].numa is not None]
        if any(not nodes & set(device.numa or ()) for device in inside):
            continue
        if len(inside) + sum(bool(nodes & set(by_id[name].numa or ())) for name in available) >= count:
            expected.append(mask)
    family = device_hints.family(hardware, Rules(), Plugin(by_id, frozenset(names)), available, again, count)
    assert told(family) == [(mask, mask.bit_count() == width) for mask in expected]


# --- memory --------------------------------------------------------------------------------------


@st.composite
def memory_books(draw: st.DrawFn, nodes: int, kinds: list[str], unit: int) -> dict[int, NumaMemory]:
    """Books of nodes that are idle, used alone, or in a group; not always in a way that should happen."""
    books = {}
    for numa in range(nodes):
        users = draw(st.integers(0, 2))
        cells = 1 << numa
        if users and draw(st.booleans()):
            cells |= draw(masks(nodes))
        tables = {}
        for kind in kinds:
            allocatable = draw(st.integers(0, 6))
            free = draw(st.integers(0, allocatable)) if users else allocatable
            tables[kind] = MemoryTable(
                unit * 6, 0, unit * allocatable, unit * (allocatable - free), unit * free
            )
        books[numa] = NumaMemory(users, tables, cells)
    return books


@laws(300)
@given(st.data(), st.sampled_from([1, 2**61]))
def test_memory_hints(data: st.DataObject, unit: int) -> None:
    """The kubelet's own test of each set of nodes; sums wrap at 64 bits, which 2**61 makes happen."""
    kinds = data.draw(st.sampled_from([["memory"], ["hugepages-2Mi", "memory"]]))
    books = data.draw(memory_books(3, kinds, unit))
    wanted = tuple((kind, unit * data.draw(st.integers(0, 7))) for kind in kinds)
    reuse = {
        (data.draw(masks(3)), kinds[0]): unit * data.draw(st.integers(0, 3))
        for _ in range(data.draw(st.integers(0, 1)))
    }
    width, expected = 3, []
    for mask in every_mask([0, 1, 2]):
        nodes = list(ids_of(mask))

        def total(kind: str, column: str, nodes: list[int] = nodes) -> int:
            return sum(getattr(books[numa].tables[kind], column) for numa in nodes) % 2**64

        if any(total(kind, "allocatable") < size for kind, size in wanted):
            continue
        width = min(width, len(nodes))
        if len(nodes) == 1 and books[nodes[0]].cells.bit_count() > 1:
            continue
        used = [books[numa] for numa in nodes if books[numa].users]
        if len(nodes) > 1 and any(node.cells.bit_count() == 1 or node.cells != mask for node in used):
            continue
        if any((total(kind, "free") + reuse.get((mask, kind), 0)) % 2**64 < size for kind, size in wanted):
            continue
        expected.append(mask)
    family = memory_hints.family(books, reuse, wanted)
    assert told(family) == [(mask, mask.bit_count() == width) for mask in expected]

"""Laws of the choice of CPUs on even machines.

On uneven machines (offline threads, mixed cores) the kubelet judges cores and sockets by their average
size, and hands out CPUs that were not free; ``test_uneven`` says how far that goes.
"""

from hypothesis import given
from hypothesis import strategies as st

from numawise.engine.cpu.distribute import take_distributed
from numawise.engine.cpu.subsets import NeverReturns
from numawise.engine.cpu.take import NotEnough, Style, take
from numawise.engine.trace import CpuPassBegan, CpusTaken, Step
from numawise.machine.model import Cpu, CpuLayout
from tests.property.strategies import even_cpus, laws, uneven_cpus
from tests.unit.build import machine

STYLES = st.sampled_from([Style(), Style(by_uncore=True), Style(across_cores=True)])


@st.composite
def asked(draw: st.DrawFn) -> tuple[CpuLayout, int, int]:
    """An even machine, some of its CPUs, and a number."""
    cpus = draw(even_cpus())
    layout = machine(cpus).layout
    available = 0
    for cpu in draw(st.sets(st.sampled_from([cpu.cpu for cpu in cpus]))):
        available |= 1 << cpu
    if draw(st.booleans()):
        available ^= layout.all  # whole units are more likely this way
    return layout, available, draw(st.integers(0, len(cpus) + 1))


@laws(500)
@given(asked(), STYLES)
def test_as_many_as_asked_out_of_the_available(case: tuple[CpuLayout, int, int], style: Style) -> None:
    layout, available, count = case
    found = take(layout, available, count, style)
    if count > available.bit_count():
        message = f"not enough cpus available to satisfy request: requested={count}, available={available.bit_count()}"
        assert found == NotEnough(message)
    else:
        assert isinstance(found, int)
        assert found.bit_count() == count
        assert not found & ~available


@laws(300)
@given(asked(), STYLES)
def test_the_steps_add_up(case: tuple[CpuLayout, int, int], style: Style) -> None:
    layout, available, count = case
    steps: list[Step] = []
    found = take(layout, available, count, style, steps.append)
    if isinstance(found, int):
        together = 0
        for step in steps:
            if isinstance(step, CpuPassBegan):
                assert step.wanted == count - together.bit_count()
                assert step.free == available & ~together
                continue
            assert isinstance(step, CpusTaken)
            assert not step.cpus & together
            assert not step.not_free
            together |= step.cpus
        assert together == found


@laws(300)
@given(asked(), STYLES)
def test_a_whole_free_node_is_taken_whole(case: tuple[CpuLayout, int, int], style: Style) -> None:
    """As many CPUs as a node has, and a node all of whose CPUs are free: exactly one such node."""
    layout, available, _ = case
    whole = [cpus for cpus in layout.numas.values() if not cpus & ~available]
    if whole:
        assert take(layout, available, whole[0].bit_count(), style) in whole


@laws(300)
@given(asked())
def test_whole_cores_where_there_are_enough(case: tuple[CpuLayout, int, int]) -> None:
    """Packed: a multiple of the threads, and enough whole cores, give whole cores only."""
    layout, available, count = case
    threads = layout.threads_per_core
    free = sum(cpus.bit_count() for cpus in layout.cores.values() if not cpus & ~available)
    if count % threads == 0 and count <= free:
        found = take(layout, available, count)
        assert isinstance(found, int)
        assert layout.cores_touching(found) == found


@laws(300)
@given(asked())
def test_no_core_is_broken_for_want_of_looking(case: tuple[CpuLayout, int, int]) -> None:
    """Packed: at most one whole core is broken."""
    layout, available, count = case
    found = take(layout, available, count)
    if isinstance(found, int):
        broken = [
            cpus for cpus in layout.cores.values() if not cpus & ~available and cpus & found and cpus & ~found
        ]
        assert len(broken) <= 1


@laws(200)
@given(asked(), STYLES)
def test_all_of_them(case: tuple[CpuLayout, int, int], style: Style) -> None:
    layout, available, _ = case
    assert take(layout, available, available.bit_count(), style) == available


@laws(300)
@given(asked(), st.booleans())
def test_distributed(case: tuple[CpuLayout, int, int], whole_cores: bool) -> None:  # noqa: FBT001
    """As many as asked out of the available, unless one of the two known defects strikes."""
    layout, available, count = case
    group = layout.threads_per_core if whole_cores else 1
    try:
        found = take_distributed(layout, available, count, group)
    except NeverReturns:
        assert group > 1
        return
    if isinstance(found, NotEnough):
        assert count > available.bit_count() or found.message.startswith("accounting error")
    else:
        assert found.bit_count() == count
        assert not found & ~available


@laws(200)
@given(even_cpus(most_numas=3), st.integers(1, 24))
def test_an_idle_machine_is_shared_out_evenly(cpus: tuple[Cpu, ...], count: int) -> None:
    """Up to three nodes, so that no set of nodes is overwritten: shares differ by one at most."""
    layout = machine(cpus).layout
    count = min(count, len(cpus))
    found = take_distributed(layout, layout.all, count, 1)
    assert isinstance(found, int)
    shares = [(found & numa).bit_count() for numa in layout.numas.values() if found & numa]
    assert max(shares) - min(shares) <= 1
    size = len(cpus) // len(layout.numas)
    assert len(shares) == -(-count // size)  # the fewest nodes that can hold it


@laws(300)
@given(uneven_cpus(), st.data())
def test_uneven(cpus: tuple[Cpu, ...], data: st.DataObject) -> None:
    """The known defect: whatever comes along without being free is told, and shares a unit with what was."""
    layout = machine(cpus).layout
    available = sum(
        1 << cpu for cpu in data.draw(st.sets(st.sampled_from([c.cpu for c in cpus]), min_size=1))
    )
    count = data.draw(st.integers(1, available.bit_count()))
    steps: list[Step] = []
    found = take(layout, available, count, note=steps.append)
    assert isinstance(found, int)
    along = 0
    for step in steps:
        if isinstance(step, CpuPassBegan):
            continue
        assert isinstance(step, CpusTaken)
        along |= step.not_free
    assert found & ~available == along & ~available
    units = [*layout.cores.values(), *layout.sockets.values()]
    assert all(
        any(unit & 1 << cpu and unit & available for unit in units) for cpu in range(64) if along >> cpu & 1
    )

"""Laws of dividing: what ranks get was allowed, and ``exclusive`` gives everything once, in whole cores."""

from hypothesis import given
from hypothesis import strategies as st

from numawise.apps.launch.environment import cores_of
from numawise.apps.launch.ranks import MODES, RankCpus, RankRefused, Shares, divide
from numawise.machine.hardware import Hardware
from numawise.machine.locality import cpus_by_numa
from numawise.machine.nearest import gpus_of
from numawise.machine.synthetic import synthetic
from numawise.sets import bits_of

MACHINES = [
    synthetic(text)
    for text in (
        "2s 4n 16c 2t 4gpu",
        "2s 8c 2t adjacent 3gpu pairs",
        "2s 12c interleaved l3=2c 2gpu",
        "1s 6c",
        "4s 8n 16c",
        "2s 8c 8gpu memonly=2",
    )
]


@given(
    st.sampled_from(MACHINES), st.integers(min_value=1), st.integers(1, 20), st.sampled_from(MODES), st.data()
)
def test_laws(machine: Hardware, bits: int, size: int, by: str, data: st.DataObject) -> None:
    every = bits_of(thread.cpu for thread in machine.threads)
    allowed = bits & every or every
    gpus = data.draw(st.permutations(gpus_of(machine)))[: data.draw(st.integers(0, 8))]
    found = divide(machine, RankCpus(allowed, 0), gpus, size, by)
    if isinstance(found, RankRefused):
        assert by == "exclusive"
        assert len(cores_of(machine, allowed)) < size or gpus
        return
    assert isinstance(found, Shares)
    assert found == divide(machine, RankCpus(allowed, 0), gpus, size, by)
    assert [one.rank for one in found.ranks] == list(range(size))
    nodes = cpus_by_numa(machine)
    for one in found.ranks:
        assert one.cpus
        assert not one.cpus & ~allowed
        assert one.mems
        home = sum(nodes.get(numa, 0) for numa in nodes if one.home >> numa & 1)
        assert by == "socket" or not one.cpus & ~home
        assert 1 <= one.threads <= max(1, len(cores_of(machine, one.cpus)))
    if by == "exclusive":
        for one in found.ranks:
            assert one.alone
            for core in cores_of(machine, allowed):
                assert one.cpus & core in (0, core), "a core was torn apart"
        homes = {one.home for one in found.ranks}
        at_home = (
            sum(cpus for numa, cpus in nodes.items() if any(home >> numa & 1 for home in homes)) & allowed
        )
        assert sum(one.cpus for one in found.ranks) == at_home

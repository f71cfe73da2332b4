"""How many more would be let in: shapes of pods that run."""

from numawise.cluster.asking import Asker
from numawise.cluster.places import count_places
from tests.unit.cluster.nodes import gpu_pod, nodes, put


def test_shapes_of_pods_that_run() -> None:
    members = nodes(2)
    asker = Asker(members)
    put(asker, members[0], gpu_pod("large", 4))
    put(asker, members[0], gpu_pod("small", 1))
    put(asker, members[1], gpu_pod("other", 1))
    put(asker, members[1], gpu_pod("shared", 0, cpu="500m"))
    before = [member.node.state for member in members]
    report = count_places(members, (), 50)
    assert report.learned
    assert [(places.name, places.total) for places in report.shapes] == [
        ("4 gpu, 1 cpu, 1Gi", 1),
        ("1 gpu, 1 cpu, 1Gi", 3 + 7),
    ]
    assert [member.node.state for member in members] == before

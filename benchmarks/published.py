"""What the exact state of a node costs: bytes, writing, reading, a decision; and all nodes of a cluster.

    python -m benchmarks.published [--nodes 500]

The machine has 2 x 64 cores with two threads, 2 TiB and 8 GPUs; a third of the pods is Guaranteed.  Times are
CPU times of this process, best of several rounds.
"""

import argparse
import json
import time
import uuid
from collections.abc import Callable

from tests.unit.build import pod
from tests.unit.node.test_publication import crowded

from numawise.codec.publication import NODE_ATTRIBUTE, STATE_ATTRIBUTE, attributes_of, publication_from
from numawise.machine.model import Device, DevicePlugin
from numawise.node.node import SimulatedNode
from numawise.node.publication import publication_of, published_node, topology_object
from numawise.values import replace

FINGERPRINT = "pfp0v0010123456789abcdef"
NEXT = "a cpu=4 memory=8Gi"


def cpu_ms(work: Callable[[], object], rounds: int = 7) -> float:
    """CPU milliseconds of one call, the best of some."""
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times) * 1000


def one_node(count: int) -> None:
    node = crowded(count)
    made = topology_object(publication_of(node, "worker-1"), fingerprint=FINGERPRINT, node=node)
    texts = {one["name"]: one["value"] for one in made["attributes"]}
    publication = publication_from(texts)
    assert publication is not None
    copy, wanted = published_node(publication), pod("next", NEXT)
    write = cpu_ms(
        lambda: topology_object(publication_of(node, "worker-1"), fingerprint=FINGERPRINT, node=node)
    )
    size = len(json.dumps(made, separators=(",", ":")))
    read = cpu_ms(lambda: publication_from(texts))
    ready, decision = cpu_ms(lambda: published_node(publication)), cpu_ms(lambda: copy.ask(wanted))
    parts = f"node {len(texts[NODE_ATTRIBUTE]):,}, state {len(texts[STATE_ATTRIBUTE]):,}"
    print(f"{count:5} pods: {size:6,} bytes ({parts})")
    print(f"    write {write:.1f} ms, read {read:.1f} ms, node {ready:.2f} ms, decision {decision:.2f} ms")


def named(node: SimulatedNode, number: int) -> dict[str, str]:
    """The attributes of another node of the same type: its GPUs have other ids."""
    plugins = tuple(
        DevicePlugin(
            plugin.resource,
            tuple(
                Device(f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{number}-{one.id}')}", one.numa)
                for one in plugin.devices
            ),
        )
        for plugin in node.machine.plugins
    )
    other = replace(node, machine=replace(node.machine, plugins=plugins))
    other.plugins_registered(plugins)
    return attributes_of(publication_of(other, f"worker-{number}"))


def many_nodes(nodes: int, count: int) -> None:
    node = crowded(count)
    every = [named(node, number) for number in range(nodes)]
    for what in ("the first time", "again, with other pods"):
        begin = time.process_time()
        for attributes in every:
            publication = publication_from(attributes)
            assert publication is not None
        spent = time.process_time() - begin
        print(f"{nodes} nodes with {count} pods, {what}: {spent:.2f} s, {1000 * spent / nodes:.2f} ms each")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=500)
    asked = parser.parse_args()
    for count in (0, 30, 110, 250, 1000):
        one_node(count)
    many_nodes(asked.nodes, 30)


if __name__ == "__main__":
    main()

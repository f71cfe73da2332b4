"""The slowest decision on machines with many NUMA nodes, looked for at random.

    python -m benchmarks.many_nodes [--nodes N…] [--seconds S] [--seed N] [--only N]

Each round draws a machine (sockets, distances in levels, rings, cubes or at random, memory and huge pages
that differ from node to node, devices on one or several nodes), a kubelet (policy, scope, options) and pods
that come and go, and measures every admission.  Printed are the median, the 99th percentile and the longest
by number of NUMA nodes, in CPU milliseconds of this process, and the round of the longest, which ``--only``
repeats.
"""

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.machines import GI, GPU, NIC, node, pod
from numawise.engine.admit import Admitted, admit
from numawise.errors import SearchEnded
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.model import Cpu, Device, DevicePlugin, Machine, Numa
from numawise.machine.preference import LowestIds
from numawise.machine.synthetic import synthetic
from numawise.node.node import Files, SimulatedNode, boot
from numawise.request.model import PodRequest
from numawise.rules.check import Refusal

FPGA = "example.com/fpga"
GOALS = {24: 50.0, 28: 50.0, 32: 50.0, 48: 200.0, 64: 200.0}
"""Milliseconds for one admission, by NUMA nodes."""


@dataclass(slots=True)
class Found:
    """What was measured on machines of one size."""

    times: list[float] = field(default_factory=list)
    longest: tuple[float, int, str] = (0.0, 0, "")
    ended: Counter[str] = field(default_factory=Counter)
    """Searches that were given up, by kubelet."""


def _distance(draw: random.Random, shape: str, count: int, sockets: int) -> list[list[int]]:
    per_socket = -(-count // sockets)
    far = [[10 if i == j else draw.randint(11, 60) for j in range(count)] for i in range(count)]
    rows = []
    for i in range(count):
        row = []
        for j in range(count):
            here, there = i // per_socket, j // per_socket
            if i == j:
                row.append(10)
            elif shape == "levels":
                row.append(12 if here == there else 21)
            elif shape == "deep":
                row.append(
                    11 if i // 4 == j // 4 else 12 if here == there else 32 if here // 2 == there // 2 else 40
                )
            elif shape == "ring":
                row.append(
                    12 if here == there else 20 + 4 * min(abs(here - there), sockets - abs(here - there))
                )
            elif shape == "cube":
                row.append(12 if here == there else 16 + 8 * (here ^ there).bit_count())
            else:
                row.append(far[min(i, j)][max(i, j)])
        rows.append(row)
    return rows


def _devices(draw: random.Random, name: str, count: int, sockets: int) -> DevicePlugin:
    """Devices on one node, a pair, a socket, any nodes, or none."""
    spread = draw.choice(("node", "node", "pair", "socket", "mixed"))
    per_socket = -(-count // sockets)
    hosts = draw.sample(range(count), draw.choice((count, count, count // 2, 4)))
    devices = []
    for number in range(draw.choice((4, 8, 16, count, 2 * count))):
        home = hosts[number % len(hosts)]
        how = draw.choice(("node", "pair", "socket", "none")) if spread == "mixed" else spread
        numa: tuple[int, ...] = (home,)
        if how == "pair":
            numa = tuple(sorted({home, home ^ 1 if home ^ 1 < count else home}))
        elif how == "socket":
            first = home // per_socket * per_socket
            numa = tuple(range(first, min(count, first + per_socket)))
        devices.append(Device(f"{name}{number}", () if how == "none" else numa))
    return DevicePlugin(name, tuple(devices), LowestIds())


def machine_of(draw: random.Random, count: int) -> tuple[Machine, str]:
    """A machine with CPUs on all nodes, and the shape of its distances."""
    sockets = draw.choice([n for n in (1, 2, 4, 8, 16) if count % n == 0])
    per_numa = draw.choice((2, 4, 8, 16))
    shape = draw.choice(("levels", "levels", "deep", "ring", "cube", "random"))
    rows = _distance(draw, shape, count, sockets)
    sizes = draw.choice(("equal", "equal", "pages", "two", "any"))
    numa = []
    for i in range(count):
        memory = 64 * GI
        if sizes == "pages":
            memory -= draw.randrange(1 << 16) * 4096
        elif sizes == "two":
            memory = (64 if i % 2 else 96) * GI
        elif sizes == "any":
            memory = draw.randint(16, 128) * GI
        pages = 8 if draw.random() < 0.9 else draw.randint(0, 12)
        numa.append(Numa(i, memory, (("1Gi", pages),), tuple(rows[i])))
    machine = Machine(
        tuple(
            Cpu(c, c // 2, c // per_numa * sockets // count, c // per_numa) for c in range(per_numa * count)
        ),
        tuple(numa),
        tuple(_devices(draw, name, count, sockets) for name in (GPU, NIC, FPGA)[: draw.randint(0, 3)]),
    )
    return machine, shape


def kubelet_of(draw: random.Random, machine: Machine) -> SimulatedNode:
    """A kubelet on the machine."""
    topology = {"max-allowable-numa-nodes": "64"}
    if draw.random() < 0.5:
        topology["prefer-closest-numa-nodes"] = "true"
    cpu: dict[str, str] = {}
    policy = draw.choice(("best-effort", "best-effort", "restricted", "single-numa-node"))
    if draw.random() < 0.3 and policy != "single-numa-node":
        cpu["align-by-socket"] = "true"
    kubelet = {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": cpu,
        "reservedSystemCPUs": draw.choice(("0", "0-1", f"0,{len(machine.cpus) - 1}")),
        "memoryManagerPolicy": draw.choice(("Static", "Static", "Static", "None")),
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "100Mi"}}],
        "topologyManagerPolicy": policy,
        "topologyManagerScope": draw.choice(("container", "pod")),
        "topologyManagerPolicyOptions": topology,
        "featureGates": {"CPUManagerPolicyAlphaOptions": True},
    }
    started = boot(machine, kubelet, Files())
    assert not isinstance(started, Refusal), started
    started.write_files = False
    started.plugins_registered(machine.plugins)
    return started


def pod_of(draw: random.Random, machine: Machine, number: int) -> PodRequest:
    """A pod: mostly small, or a good part of the machine."""
    cpus = len(machine.cpus)
    memory = sum(numa.memory for numa in machine.numa) >> 20
    containers = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        small = draw.random() < 0.5
        share = draw.choice((2, 3, 4, 6, 10))
        part = memory // (share if not small else len(machine.numa))
        limits = {
            "cpu": str(
                draw.randint(1, 6) if small else max(1, draw.choice((cpus // share, draw.randint(1, cpus))))
            ),
            "memory": f"{max(1, draw.choice((part, draw.randint(1, part))))}Mi",
        }
        if draw.random() < 0.4:
            limits["hugepages-1Gi"] = (
                f"{draw.randint(1, 4) if small else draw.randint(1, 4 * len(machine.numa))}Gi"
            )
        for plugin in machine.plugins:
            if draw.random() < 0.5:
                limits[plugin.resource] = str(
                    draw.randint(1, 2 if small else max(1, len(plugin.devices) // 2))
                )
        containers.append(limits)
    return pod(f"p{number}", *containers)


def wide_pods() -> Iterator[tuple[str, float, float]]:
    """Pods of a third and of half the CPUs, with memory, on machines as they are described: the slowest."""
    for nodes in (16, 24, 28, 32, 64):
        text = f"2s-{nodes}n-{8 * nodes}c"
        machine = kubelet_view(synthetic(text))
        assert isinstance(machine, Machine)
        gigabytes = sum(numa.memory for numa in machine.numa) >> 30
        for nearest in (False, True):
            kubelet = node(machine, "best-effort", nearest=nearest)
            longest = 0.0
            for at, share in enumerate((3, 2, 3, 2, 10, 2)):
                request = pod(
                    f"p{at}", {"cpu": str(8 * nodes // share), "memory": f"{max(1, gigabytes // share)}Gi"}
                )
                begin = time.process_time()
                decision = admit(kubelet.machine, kubelet.rules, kubelet.state, request)
                longest = max(longest, (time.process_time() - begin) * 1000)
                if isinstance(decision, Admitted):
                    kubelet.admit(request)
            what = "closest nodes preferred, " if nearest else ""
            yield f"{text}: {what}a third, half, …: slowest", longest, 200.0 if nodes > 32 else 50.0


def one_round(number: int, count: int, by_kind: dict[str, Found]) -> None:
    """Pods that come and go on one node; every admission is measured."""
    draw = random.Random(f"{number} {count}")
    machine, shape = machine_of(draw, count)
    kubelet = kubelet_of(draw, machine)
    kind = "plain"
    if kubelet.rules.cpu_options.by_socket:
        kind = "align-by-socket"
    if kubelet.rules.prefer_closest:
        kind = "closest, any distances" if shape == "random" else f"closest, {kind}"
    found = by_kind.setdefault(kind, Found())
    running: list[str] = []
    for at in range(draw.choice((4, 12, 40))):
        if running and draw.random() < 0.25:
            kubelet.remove(running.pop(draw.randrange(len(running))))
            continue
        request = pod_of(draw, machine, at)
        begin = time.process_time()
        try:
            decision = admit(kubelet.machine, kubelet.rules, kubelet.state, request)
        except SearchEnded:
            found.ended[f"round {number}, pod {at}, {(time.process_time() - begin) * 1000:.0f} ms"] += 1
            continue
        spent = (time.process_time() - begin) * 1000
        found.times.append(spent)
        found.longest = max(found.longest, (spent, number, f"pod {at}"))
        if isinstance(decision, Admitted):
            kubelet.admit(request)
            running.append(request.uid)


def main() -> None:
    """Look for the slowest admissions and print them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many_nodes", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--nodes", metavar="N", nargs="*", type=int, default=list(GOALS))
    parser.add_argument("--seconds", metavar="S", type=float, default=60.0, help="for each number of nodes")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="number of the first round")
    parser.add_argument("--only", metavar="N", type=int, help="this round alone")
    options = parser.parse_args()
    print("NUMA nodes kubelet                  admissions   median     99 %  longest   goal")
    for count in options.nodes:
        by_kind: dict[str, Found] = {}
        end = time.monotonic() + options.seconds
        number = first = options.seed if options.only is None else options.only
        while number == first or (options.only is None and time.monotonic() < end):
            one_round(number, count, by_kind)
            number += 1
        for kind, found in sorted(by_kind.items()):
            times = sorted(found.times) or [0.0]
            spent, at, which = found.longest
            print(
                f"{count:10} {kind:24} {len(times):10} {times[len(times) // 2]:8.2f} "
                f"{times[len(times) * 99 // 100]:8.2f} {spent:8.1f} {GOALS.get(count, 200.0):6g}"
                f"  round {at}, {which}; {sum(found.ended.values())} not decided",
                flush=True,
            )
            for text in list(found.ended)[:8]:
                print(f"{'':10} not decided: {text}")


if __name__ == "__main__":
    main()

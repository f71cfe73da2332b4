"""What laws are tried on: families of hints, machines, configurations, pods.

Everything is drawn small: the laws hold for any size, and small cases are read more easily.
"""

import os
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from numawise.engine.hint import NOWHERE, Family, HintList, HintRule, Sockets
from numawise.engine.sparing import Need
from numawise.machine.model import Cpu, Machine
from numawise.machine.preference import LowestIds
from numawise.request.model import PodRequest
from tests.unit.build import MI, even, machine, pod

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


TIMES = float(os.environ.get("LAWS", "0.33"))
"""How many times as many examples are tried; ``LAWS=10 scripts/test -m property`` tries many."""


def laws(examples: int) -> settings:
    """The same examples at every run, as many as asked, however long each takes."""
    return settings(
        max_examples=max(20, round(examples * TIMES)),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=SLOW,
    )


# --- families of hints --------------------------------------------------------------------------


def masks(nodes: int) -> st.SearchStrategy[int]:
    """A set of some of the nodes, never empty."""
    return st.integers(1, 2**nodes - 1)


@st.composite
def listed(draw: st.DrawFn, nodes: int) -> HintList:
    """Hints told one by one, in the kubelet's order; possibly none."""
    found = draw(st.dictionaries(masks(nodes), st.booleans(), max_size=6))
    return HintList(tuple(sorted(found.items(), key=lambda hint: (hint[0].bit_count(), hint[0]))))


@st.composite
def cpu_like(draw: st.DrawFn, nodes: int) -> HintRule:
    """An amount per node, some nodes that must be in, and perhaps sockets."""
    amounts = draw(st.lists(st.integers(0, 4), min_size=nodes, max_size=nodes))
    sockets = None
    if draw(st.booleans()):
        of_numa = {numa: 1 << draw(st.integers(0, 1)) for numa in range(nodes)}
        sockets = Sockets(of_numa, draw(st.integers(1, 2)))
    return HintRule(
        nodes=2**nodes - 1,
        needs=(
            Need(tuple((1 << numa, amount) for numa, amount in enumerate(amounts)), draw(st.integers(0, 8))),
        ),
        touch=tuple(1 << numa for numa in draw(st.sets(st.integers(0, nodes - 1), max_size=1))),
        width=draw(st.integers(1, nodes)),
        sockets=sockets,
    )


@st.composite
def device_like(draw: st.DrawFn, nodes: int) -> HintRule:
    """Devices on one or several nodes each, over those nodes that have any."""
    amounts = draw(st.dictionaries(masks(nodes), st.integers(1, 3), max_size=4))
    return HintRule(
        nodes=draw(masks(nodes)),
        needs=(Need(tuple(amounts.items()), draw(st.integers(0, 5))),),
        touch=tuple(draw(st.lists(masks(nodes), max_size=2))),
        width=draw(st.integers(1, nodes)),
    )


@st.composite
def memory_like(draw: st.DrawFn, nodes: int) -> HintRule:
    """Several amounts over the idle nodes, and single nodes and groups apart."""
    needs = []
    for _ in range(draw(st.integers(1, 2))):
        amounts = draw(st.lists(st.integers(0, 4), min_size=nodes, max_size=nodes))
        needs.append(
            Need(tuple((1 << numa, amount) for numa, amount in enumerate(amounts)), draw(st.integers(0, 8)))
        )
    return HintRule(
        nodes=draw(st.integers(0, 2**nodes - 1)),
        needs=tuple(needs),
        smallest=2,
        extra_masks=draw(st.frozensets(masks(nodes), max_size=3)),
        width=draw(st.integers(1, nodes)),
    )


def families(nodes: int) -> st.SearchStrategy[Family]:
    """Any kind of family over so many NUMA nodes."""
    return st.one_of(listed(nodes), cpu_like(nodes), device_like(nodes), memory_like(nodes), st.just(NOWHERE))


def ruled(nodes: int) -> st.SearchStrategy[HintRule]:
    """Families that are told by rule."""
    return st.one_of(cpu_like(nodes), device_like(nodes), memory_like(nodes))


@st.composite
def distances(draw: st.DrawFn, nodes: int) -> list[list[int]]:
    """A matrix of distances; not always symmetric, as firmware has it."""
    row = st.lists(st.integers(10, 40), min_size=nodes, max_size=nodes)
    return draw(st.lists(row, min_size=nodes, max_size=nodes))


# --- machines -----------------------------------------------------------------------------------


@st.composite
def even_cpus(draw: st.DrawFn, most_numas: int = 4) -> tuple[Cpu, ...]:
    """CPUs of a machine on which all nodes, sockets, caches and cores are alike."""
    numas, sockets = draw(
        st.sampled_from([(1, 1), (2, 1), (2, 2), (1, 2), (4, 2), (2, 4), (4, 4), (3, 3), (4, 1)])
    )
    numas, sockets = (numas, sockets) if numas <= most_numas else (2, 2)
    larger = max(numas, sockets)
    cores = larger * draw(st.integers(1, 3))
    threads = draw(st.sampled_from([1, 2, 2, 4]))
    caches = draw(st.sampled_from([0, larger, cores]))
    return even(numas, sockets, cores, threads, near=draw(st.booleans()), caches=caches)


@st.composite
def uneven_cpus(draw: st.DrawFn) -> tuple[Cpu, ...]:
    """An even machine some of whose CPUs are offline; at least two are left."""
    cpus = draw(even_cpus())
    gone = draw(st.sets(st.integers(0, len(cpus) - 1), max_size=max(0, len(cpus) - 2)))
    return tuple(cpu for at, cpu in enumerate(cpus) if at not in gone)


@st.composite
def servers(draw: st.DrawFn) -> Machine:
    """An even machine with memory, huge pages, distances and devices."""
    cpus = draw(even_cpus())
    numas = len({cpu.numa for cpu in cpus})
    memory = [256 * MI * draw(st.integers(2, 12)) for _ in range(numas)]
    devices = {}
    for resource in draw(st.sampled_from([(), ("x/gpu",), ("x/gpu", "x/nic")])):
        words = []
        for number in range(draw(st.integers(1, 5))):
            nodes = draw(
                st.sampled_from(["", "@", *(f"@{n}" for n in range(numas)), "@0,1" if numas > 1 else "@0"])
            )
            ill = "!" if draw(st.integers(0, 7)) == 0 else ""
            words.append(f"{ill}{resource[2:]}{number}{nodes}")
        devices[resource] = " ".join(words)
    pages = {"2Mi": draw(st.integers(0, 16))} if draw(st.booleans()) else None
    matrix = draw(distances(numas))
    return machine(
        cpus,
        memory,
        hugepages=pages,
        distances=matrix,
        devices=devices,
        preference=draw(st.sampled_from((None, LowestIds()))),
    )


# --- kubelets -----------------------------------------------------------------------------------

OPTIONS = (
    {}, {}, {},
    {"full-pcpus-only": "true"},
    {"distribute-cpus-across-numa": "true"},
    {"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"},
    {"distribute-cpus-across-cores": "true"},
    {"prefer-align-cpus-by-uncorecache": "true"},
    {"strict-cpu-reservation": "true"},
    {"align-by-socket": "true"},
)  # fmt: skip


@st.composite
def configs(draw: st.DrawFn, hardware: Machine) -> dict[str, Any]:
    """A configuration with which a kubelet starts on the machine."""
    config: dict[str, Any] = {
        "topologyManagerPolicy": draw(
            st.sampled_from(["none", "best-effort", "best-effort", "restricted", "single-numa-node"])
        ),
        "topologyManagerScope": draw(st.sampled_from(["container", "pod"])),
        "evictionHard": {},
    }
    if draw(st.booleans()):
        config["topologyManagerPolicyOptions"] = {"prefer-closest-numa-nodes": "true"}
    if draw(st.integers(0, 4)):
        layout = hardware.layout
        options = draw(st.sampled_from(OPTIONS))
        single = config["topologyManagerPolicy"] == "single-numa-node"
        if "align-by-socket" in options and (single or len(layout.sockets) > len(layout.numas)):
            options = {}
        config["cpuManagerPolicy"] = "static"
        config["cpuManagerPolicyOptions"] = options
        config["featureGates"] = {"CPUManagerPolicyAlphaOptions": True}
        if draw(st.booleans()):
            amounts = ["100m", "1", "1500m"] if len(hardware.cpus) > 1 else ["100m", "1"]
            config["systemReserved"] = {"cpu": draw(st.sampled_from(amounts))}
        else:
            config["reservedSystemCPUs"] = str(draw(st.sampled_from([cpu.cpu for cpu in hardware.cpus])))
    if draw(st.booleans()):
        kept = [MI * draw(st.sampled_from([0, 64, 256])) for _ in hardware.numa]
        kept[0] += MI
        config["memoryManagerPolicy"] = "Static"
        config["kubeReserved"] = {"memory": str(sum(kept))}
        config["reservedMemory"] = [
            {"numaNode": numa.id, "limits": {"memory": str(size)}}
            for numa, size in zip(hardware.numa, kept, strict=True)
            if size
        ]
    return config


# --- pods ---------------------------------------------------------------------------------------


@st.composite
def pods(draw: st.DrawFn, uid: str, hardware: Machine, *, pages: bool = True) -> PodRequest:
    """A pod of up to four containers, mostly Guaranteed."""
    guaranteed = draw(st.integers(0, 4)) > 0
    most = max(1, len(hardware.cpus) // 2)
    with_pages = pages and bool(hardware.numa[0].hugepages) and draw(st.booleans())
    texts = []
    for number in range(draw(st.integers(1, 4))):
        role = "" if number == 0 else draw(st.sampled_from(["", "", "init ", "sidecar "]))
        words = [f"{role}c{number}"]
        if guaranteed or draw(st.booleans()):
            words.append(f"cpu={draw(st.sampled_from(['500m', *map(str, range(1, most + 1))]))}")
            words.append(f"memory={128 * draw(st.integers(1, 12))}Mi")
            if with_pages:
                words.append(f"hugepages-2Mi={2 * draw(st.integers(0, 8))}Mi")
        for plugin in hardware.plugins:
            if draw(st.integers(0, 2)) == 0:
                words.append(f"{plugin.resource}={draw(st.integers(0, 2))}")
        texts.append(" ".join(words))
    texts.sort(key=lambda text: not text.startswith(("init ", "sidecar ")))  # they stand before the others
    return pod(uid, *texts)


@dataclass(frozen=True, slots=True)
class Case:
    """A machine, a configuration, and what happens there: pods that come, or numbers of pods that go."""

    machine: Machine
    config: dict[str, Any]
    events: tuple[PodRequest | int, ...]


@st.composite
def cases(draw: st.DrawFn, most: int = 7) -> Case:
    """What a kubelet goes through."""
    hardware = draw(servers())
    config = draw(configs(hardware))
    events: list[PodRequest | int] = []
    for number in range(draw(st.integers(2, most))):
        if number and draw(st.integers(0, 3)) == 0:
            events.append(draw(st.integers(0, number - 1)))
        else:
            events.append(draw(pods(f"p{number}", hardware)))
    return Case(hardware, config, tuple(events))

"""Saying where a job goes: NUMA nodes, CPUs and GPUs by number, whole nodes, the whole machine."""

import random
from collections.abc import Sequence

import pytest

from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.decide import place
from numawise.apps.launch.request import JobRequest, read_request
from numawise.apps.launch.where import nodes_of, where_labels
from numawise.errors import InputError
from numawise.machine.hardware import Hardware, Host
from numawise.machine.synthetic import synthetic
from numawise.results.placement import Capacity, Hold, NoRoom, Owner, Placement, pool_of
from numawise.sets import format_ids, parse_ids
from numawise.values import replace

SERVER = "2s 2n 64c 2t 8gpu pairs 1024g"
"""CPUs 0-31,64-95 and 32-63,96-127, four GPUs on each node; CPUs 0 and 64 are kept for the system."""
FOUR = "2s 4n 32c 1t 4gpu 64g"
"""CPUs 0-7, 8-15, 16-23 and 24-31, a GPU and 16 GiB on each node; CPU 0 is kept for the system."""
WORDS = {"alone": ("exclusive", "numa"), "machine": ("exclusive", "machine"), "cores": ("full_cores", True)}


def flags(text: str) -> dict[str, object]:
    """``cpus=8 numa=1 alone``: the options of a request."""
    given: dict[str, object] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if equals:
            given[name] = [value.replace(":", "=")] if name == "devices" else value
        else:
            key, meaning = WORDS[name]
            given[key] = meaning
    return given


def request(text: str) -> JobRequest:
    return read_request(**flags(text))  # type: ignore[arg-type]


def site_of(text: str) -> Capacity:
    return capacity_of(synthetic(text))


def filled(capacity: Capacity, text: str) -> list[Hold]:
    """The holds of some requests, divided by ``;``, one after another."""
    holds: list[Hold] = []
    for words in text.split(";") if text else ():
        wish = request(words)
        name = f"h{len(holds)}"
        placement = place(capacity, holds, wish, name)
        assert isinstance(placement, Placement), placement
        holds.append(hold(placement, wish, name))
    return holds


def hold(placement: Placement, wish: JobRequest, name: str) -> Hold:
    return Hold(name, name, Owner(0, "root", "boot", pid=1), placement.grant, labels=where_labels(wish))


def outcome(capacity: Capacity, holds: Sequence[Hold], text: str) -> str:
    """``CPUs | NUMA nodes of the memory | GPUs``, or why there is no room, with the holders."""
    answer = place(capacity, holds, request(text), "new")
    if isinstance(answer, NoRoom):
        return f"{answer.reason} <{' '.join(holder.name for holder in answer.holders)}>"
    gpus = "".join(gpu.name.removeprefix("GPU") for gpu in answer.gpus)
    own = "" if answer.grant.cpus else "shared "
    return f"{own}{format_ids(answer.cpus)} | {format_ids(answer.mems)} | {gpus}"


@pytest.mark.parametrize(("machine", "before", "asked", "expected"), [
    # NUMA nodes
    pytest.param(SERVER, "", "numa=1",                      "shared 32-63,96-127 | 1 | ",      id="a node"),
    pytest.param(SERVER, "", "numa=0-1",                    "shared 0-127 | 0-1 | ",           id="all nodes"),
    pytest.param(SERVER, "", "numa=1 cpus=0.5",             "shared 32-63,96-127 | 1 | ",      id="a share of a node's pool"),
    pytest.param(SERVER, "", "numa=1 cpus=8",               "32-35,96-99 | 1 | ",              id="CPUs of a node"),
    pytest.param(SERVER, "", "numa=1 cpus=64",              "32-63,96-127 | 1 | ",             id="all CPUs of a node"),
    pytest.param(SERVER, "", "numa=1 memory=10g",           "shared 32-63,96-127 | 1 | ",      id="memory of a node"),
    pytest.param(SERVER, "", "numa=1 gpus=2",               "shared 32-63,96-127 | 1 | 45",    id="GPUs of a node"),
    pytest.param(SERVER, "", "numa=1 gpus=all",             "shared 32-63,96-127 | 1 | 4567",  id="all GPUs of a node"),
    pytest.param(SERVER, "", "numa=1 gpus=1 cpus=4 memory=1g policy=single-numa-node", "32-33,96-97 | 1 | 4", id="one node, strictly"),
    pytest.param(FOUR,   "", "numa=1,3 cpus=12",            "8-15,24-27 | 1,3 | ",             id="two nodes apart"),
    pytest.param(FOUR,   "", "numa=2-3 cpus=16 memory=30g", "16-31 | 2-3 | ",                  id="two nodes to the last"),
    pytest.param(FOUR,   "", "numa=3 gpu_ids=3",            "shared 24-31 | 3 | 3",            id="its own GPU by name"),
    pytest.param(SERVER, "numa=1 cpus=60", "numa=1 cpus=4", "62-63,126-127 | 1 | ",            id="what is left there"),
    # CPUs by number
    pytest.param(SERVER, "", "cpu_ids=8-15",                "8-15 | 0 | ",                     id="CPUs"),
    pytest.param(SERVER, "", "cpu_ids=8-15 cpus=8",         "8-15 | 0 | ",                     id="CPUs and their number"),
    pytest.param(SERVER, "", "cpu_ids=40-43 memory=1g",     "40-43 | 1 | ",                    id="CPUs, memory beside them"),
    pytest.param(SERVER, "", "cpu_ids=40-43 gpus=1",        "40-43 | 1 | 4",                   id="CPUs, a GPU beside them"),
    pytest.param(SERVER, "", "cpu_ids=31-34",               "31-34 | 0-1 | ",                  id="CPUs of two nodes"),
    pytest.param(SERVER, "", "cpu_ids=3,67 cores",          "3,67 | 0 | ",                     id="a whole core"),
    pytest.param(SERVER, "cpus=8", "cpu_ids=5-7",           "5-7 | 0 | ",                      id="CPUs beside others"),
    # GPUs
    pytest.param(SERVER, "", "gpu_ids=0-3",                 "shared 0-31,64-95 | 0 | 0123",    id="a range of GPUs"),
    pytest.param(SERVER, "", "gpu_ids=GPU4-5,7",            "shared 32-63,96-127 | 1 | 457",   id="as ps writes them"),
    pytest.param(SERVER, "", "gpus=all",                    "shared 0-127 | 0-1 | 01234567",   id="all GPUs"),
    # whole nodes, the whole machine
    pytest.param(SERVER, "", "alone",                       "1-31,65-95 | 0 | 0123",           id="a node alone"),
    pytest.param(SERVER, "", "alone numa=1",                "32-63,96-127 | 1 | 4567",         id="that node alone"),
    pytest.param(SERVER, "", "alone gpu_ids=6",             "32-63,96-127 | 1 | 4567",         id="the node of a GPU"),
    pytest.param(SERVER, "cpus=2", "alone",                 "32-63,96-127 | 1 | 4567",         id="the one that is free"),
    pytest.param(SERVER, "", "alone gpus=5",                "1-63,65-127 | 0-1 | 01234567",    id="as many nodes as it takes"),
    pytest.param(SERVER, "gpu_ids=0;cpus=0.5", "alone",     "32-63,96-127 | 1 | 4567",         id="beside the shared pool"),
    pytest.param(SERVER, "", "machine",                     "1-63,65-127 | 0-1 | 01234567",    id="the machine"),
    pytest.param(FOUR,   "cpus=2;cpu_ids=8", "alone memory=20g", "16-31 | 2-3 | 23",           id="two free nodes of four"),
])  # fmt: skip
def test_where_a_job_goes(machine: str, before: str, asked: str, expected: str) -> None:
    capacity = site_of(machine)
    assert outcome(capacity, filled(capacity, before), asked) == expected


@pytest.mark.parametrize(("before", "asked", "expected"), [
    pytest.param("numa=1 cpus=60",  "numa=1 cpus=8",   "8 CPUs asked for, 4 free on NUMA 1 <h0>",           id="CPUs of a node"),
    pytest.param("gpu_ids=4-6",     "numa=1 gpus=2",   "2 GPUs asked for, 1 of 4 free on NUMA 1 <h0>",      id="GPUs of a node"),
    pytest.param("gpu_ids=4-6",     "gpus=all",        "GPU4-6 are not free <h0>",                          id="all GPUs"),
    pytest.param("gpu_ids=4-6",     "numa=1 gpus=all", "GPU4-6 are not free <h0>",                          id="all GPUs of a node"),
    pytest.param("numa=1 memory=500g", "numa=1 memory=20g",
                 "20 GiB of memory asked for, 12 GiB free on NUMA 1 <h0>",                                  id="memory of a node"),
    pytest.param("numa=1 cpus=64",  "numa=1",          "no CPU of NUMA 1 is left in the shared pool <h0>",  id="pool of a node"),
    pytest.param("numa=1 cpus=63",  "numa=1 cpus=1.5",
                 "1.5 CPUs asked for in the shared pool on NUMA 1, 1 CPU of it left <h0>",                  id="share of a node's pool"),
    pytest.param("numa=1",          "numa=1 cpus=64",
                 "no CPU of NUMA 1 would be left in the shared pool, where h0 keeps to it <h0>",            id="last of a node's pool"),
    pytest.param("cpus=2.5",        "cpus=126",
                 "2 CPUs would be left in the shared pool, where 1 job runs (2.5 CPUs promised) <h0>",      id="last of the pool"),
    pytest.param("cpus=8",          "cpu_ids=3-6",     "CPUs 3-4 are not free <h0>",                        id="CPUs"),
    pytest.param("cpus=2;numa=1 gpus=1", "alone",      "no NUMA node is free as a whole <h0 h1>",           id="no node"),
    pytest.param("gpu_ids=5",       "alone numa=1",    "NUMA 1 is not free <h0>",                           id="that node"),
    pytest.param("numa=1",          "alone numa=1",    "NUMA 1 is not free <h0>",                           id="a place in its pool"),
    pytest.param("cpus=2",          "alone gpus=5",    "5 GPUs asked for, 4 of 4 free on NUMA 1 <>",        id="more nodes than are free"),
    pytest.param("cpus=0.5",        "machine",         "the machine is not free: 1 hold on it <h0>",        id="the machine"),
    pytest.param("machine",         "cpus=0.5",        "h0 has the whole machine <h0>",                     id="a place beside the machine's holder"),
    pytest.param("machine",         "gpus=1",          "h0 has the whole machine <h0>",                     id="a GPU of the machine's holder"),
    pytest.param("alone",           "numa=0 memory=1g", "NUMA 0 is held as a whole <h0>", id="memory of a whole node"),
    pytest.param("alone",           "gpu_ids=0-1",     "GPU0-1 are not free <h0>",                          id="GPUs of a whole node"),
])  # fmt: skip
def test_no_room_where_it_was_said(before: str, asked: str, expected: str) -> None:
    capacity = site_of(SERVER)
    assert outcome(capacity, filled(capacity, before), asked) == expected


@pytest.mark.parametrize(("asked", "complaint"), [
    pytest.param("numa=2",               "--numa: this machine has no NUMA node 2; it has nodes 0-1",               id="node"),
    pytest.param("numa=1-4",             "--numa: this machine has no NUMA nodes 2-4; it has nodes 0-1",            id="nodes"),
    pytest.param("numa=1 cpus=65",       "65 CPUs asked for, 64 free on NUMA 1; NUMA 1 has 64 CPUs, 512 GiB, 4 GPUs", id="CPUs of a node"),
    pytest.param("numa=0 gpus=5",        "5 GPUs asked for, 4 of 4 free on NUMA 0",                                 id="GPUs of a node"),
    pytest.param("numa=0 gpu_ids=3-5",   "--gpu-ids and --numa: GPU4-5 are on NUMA 1, not on 0; on NUMA 0 there is GPU0-3", id="GPUs elsewhere"),
    pytest.param("cpu_ids=126-129",      "--cpu-ids: CPUs 128-129 are not on this machine; choose from 1-63,65-127", id="CPUs"),
    pytest.param("cpu_ids=0-7",          "--cpu-ids: CPU 0 is kept for the system",                                 id="the system's CPU"),
    pytest.param("numa=1 cpu_ids=30-33", "--cpu-ids: CPUs 30-31 are not on NUMA 1; choose from 32-63,96-127",       id="CPUs elsewhere"),
    pytest.param("cpu_ids=1-2 cores",    "--cpu-ids and --full-cores: 1-2 has a part of a core",                    id="half a core"),
    pytest.param("cpu_ids=31-32 policy=single-numa-node", "not together as policy single-numa-node wants it",       id="CPUs of two nodes"),
])  # fmt: skip
def test_what_is_not_there(asked: str, complaint: str) -> None:
    capacity = site_of(SERVER)
    for before in ("", "cpus=100;gpus=4"):
        with pytest.raises(InputError) as refused:
            place(capacity, filled(capacity, before), request(asked), "new")
        assert complaint in str(refused.value)


def test_cpus_out_of_reach() -> None:
    hardware = synthetic("1s 1n 8c 1t 8g")
    capacity = capacity_of(replace(hardware, offline=0x300, host=Host(cpuset=0x3F, isolated=0x20)))
    for ids, cause in (
        ("8", "CPU 8 is offline"),
        ("5-7", "CPUs 5-7 are out of reach here"),
        ("10", "not on this"),
    ):
        with pytest.raises(InputError, match=cause):
            place(capacity, (), request(f"cpu_ids={ids}"), "new")


def with_memory_only_node() -> Hardware:
    """A machine whose second NUMA node has memory alone, as CXL memory shows."""
    hardware = synthetic("1s 2n 8c 1t 32g")
    return replace(
        hardware,
        threads=tuple(thread for thread in hardware.threads if thread.numa == 0),
        numa=tuple(replace(node, cpus=0) if node.id else node for node in hardware.numa),
    )


def test_a_node_with_memory_alone() -> None:
    capacity = capacity_of(with_memory_only_node(), "none")
    with pytest.raises(
        InputError, match="NUMA node 1 has memory, but no CPU to run on; name one with CPUs as well: 0"
    ):
        place(capacity, (), request("numa=1 cpus=2"), "new")
    assert outcome(capacity, (), "numa=0-1 cpus=2 memory=20g") == "0-1 | 0-1 | "
    assert outcome(capacity, (), "alone numa=0-1") == "0-3 | 0-1 | "


def test_a_node_without_memory() -> None:
    hardware = synthetic("1s 2n 8c 1t 32g")
    bare = replace(hardware, numa=tuple(replace(n, memory=0) if n.id else n for n in hardware.numa))
    capacity = capacity_of(bare, "none")
    with pytest.raises(InputError, match="--numa and --memory: NUMA node 1 has no memory"):
        place(capacity, (), request("numa=1 memory=1g"), "new")
    assert outcome(capacity, (), "numa=1 cpus=2") == "4-5 | 0 | "


def test_whole_nodes_have_all_that_lies_there() -> None:
    capacity = site_of(SERVER)
    whole = place(capacity, (), request("alone numa=1 memory=1g"), "new")
    assert isinstance(whole, Placement)
    assert whole.whole == 0b10
    assert whole.memory == 1 << 30  # the limit that was asked for
    assert [(part.numa, part.size) for part in whole.grant.memory] == [(0b10, 512 << 30)]
    assert len(dict(whole.grant.devices)["nvidia.com/gpu"]) == 4


def test_memory_kept_together_with_a_node_outside_is_not_given() -> None:
    capacity = site_of(SERVER)
    holds = filled(capacity, "memory=600g")
    assert outcome(capacity, holds, "numa=1 memory=10g").endswith("0 bytes free on NUMA 1 <h0>")


WISHES = (
    *(
        "cpus=4",
        "cpus=0.5",
        "cpus=12 gpus=1",
        "gpus=2",
        "memory=3g",
        "cpus=3 memory=10g gpus=1",
        "numa=2",
        "numa=1-2",
    ),
    *("numa=1 cpus=4", "numa=3 gpus=1", "numa=0,2 cpus=10 memory=20g", "numa=1 memory=2g", "cpu_ids=5-9"),
    *(
        "cpu_ids=30,31 memory=1g",
        "gpu_ids=0-1",
        "alone",
        "alone numa=3",
        "alone gpus=2",
        "alone memory=20g",
        "machine",
    ),
)


@pytest.mark.parametrize("seed", range(60))
def test_all_that_is_granted_lies_where_it_was_said(seed: int) -> None:
    chance = random.Random(seed)
    capacity = site_of(FOUR)
    holds: list[Hold] = []
    for number in range(40):
        if holds and chance.random() < 0.4:
            holds.remove(chance.choice(holds))
        wish = request(chance.choice(WISHES))
        answer = place(capacity, holds, wish, f"h{number}")
        if isinstance(answer, NoRoom):
            assert holds, "an idle machine has room for each"
            continue
        new = hold(answer, wish, f"h{number}")
        _check_within(capacity, wish, answer, new)
        _check_apart(capacity, holds, wish, new)
        holds.append(new)


def _check_within(capacity: Capacity, wish: JobRequest, answer: Placement, new: Hold) -> None:
    if wish.numa is not None:
        assert not answer.cpus & ~capacity.cpus_of(wish.numa.bits)
        assert not (answer.mems | nodes_of(capacity, new)) & ~wish.numa.bits
    if wish.cpu_ids is not None:
        assert answer.cpus == wish.cpu_ids.bits
    if wish.exclusive:
        nodes = capacity.numa_of(answer.cpus)
        assert answer.cpus == capacity.cpus_of(nodes) & ~capacity.reserved
        assert len(answer.gpus) == nodes.bit_count()
        assert sum(part.size for part in new.grant.memory) == nodes.bit_count() << 34


def _check_apart(capacity: Capacity, holds: Sequence[Hold], wish: JobRequest, new: Hold) -> None:
    """Whole nodes are shared with nobody; nobody loses the place in the pool that was promised."""
    assert not any(("exclusive", "machine") in other.labels for other in holds)
    if wish.exclusive and wish.exclusive.value == "machine":
        assert not holds
    every = [*holds, new]
    for one in every:
        alone = nodes_of(capacity, one) if dict(one.labels).get("exclusive") else 0
        assert not any(nodes_of(capacity, other) & alone for other in every if other is not one)
        numa = dict(one.labels).get("numa")
        if numa and not one.grant.cpus:
            assert pool_of(capacity, every) & capacity.cpus_of(parse_ids(numa))

"""Machine files: what is read, what is refused and where, and that nothing is lost."""

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.document import Document, field_name, read_documents
from numawise.codec.machine import decode_machine, devices_from, encode_machine, machine_from
from numawise.errors import InputError
from numawise.machine.model import Cpu, Device, DevicePlugin, Machine, Numa
from numawise.machine.preference import LowestIds

TRACES = Path(__file__).parents[4] / "shared" / "traces"

TEXT = """\
cpus:
- {cpu: 0, core: 0, socket: 0, numa: 0, uncore_cache: 5}
- {cpu: 1, core: 0, socket: 0, numa: 0}
- {cpu: 2, core: 0, socket: 1, numa: 2}
numa:
- id: 0
  memory: 512Gi
  hugepages: {2048Ki: 3, 1Gi: 0}
  distances: [10, 20]
- id: 2
  memory: 1e9
  distances: [20, 10]
memory_capacity: 1073741824
devices:
  x/gpu:
    preferred_allocation: lowest-ids
    devices:
    - {id: a, numa: [0, 2]}
    - {id: b, numa: []}
    - {id: c, numa: null, unhealthy: true}
  x/nic:
    devices: []
"""
MACHINE = Machine(
    cpus=(Cpu(0, 0, 0, 0, 5), Cpu(1, 0, 0, 0), Cpu(2, 0, 1, 2)),
    numa=(
        Numa(0, 512 << 30, (("2Mi", 3), ("1Gi", 0)), (10, 20)),
        Numa(2, 10**9, (), (20, 10)),
    ),
    plugins=(
        DevicePlugin(
            "x/gpu",
            (Device("a", (0, 2)), Device("b", ()), Device("c", None, healthy=False)),
            preference=LowestIds(),
        ),
        DevicePlugin("x/nic", ()),
    ),
    memory_capacity=1 << 30,
)
ABSENT = object()


def steps_of(path: str) -> tuple[str | int, ...]:
    """``cpus.1.core`` as steps."""
    return tuple(int(step) if step.isdigit() else step for step in path.split("."))


def changed(path: str, value: object) -> Any:
    """The machine above with one field replaced."""
    machine = copy.deepcopy(read_documents(TEXT, "m")[0].value)
    *way, last = steps_of(path)
    inner: Any = machine
    for step in way:
        inner = inner[step]
    if value is ABSENT:
        del inner[last]
    else:
        inner[last] = value
    return machine


def test_decode() -> None:
    assert decode_machine(read_documents(TEXT, "m.yaml")[0]) == MACHINE


def test_encode_and_decode_undo_each_other() -> None:
    encoded = json.loads(json.dumps(encode_machine(MACHINE)))
    assert machine_from(encoded) == decode_machine(Document(encoded)) == MACHINE


def test_the_least_that_is_a_machine() -> None:
    least = {"cpus": [{"cpu": 0, "core": 0, "socket": 0, "numa": 0}], "numa": [{"id": 0}]}
    assert decode_machine(Document(least)) == Machine((Cpu(0, 0, 0, 0),), (Numa(0),))


@pytest.mark.parametrize(("path", "value", "expected"), [
    ("cpus",                   [],     "is missing or empty; list the CPUs with cpu, core, socket and numa"),
    ("cpus",                   ABSENT, "is missing or empty"),
    ("cpus",                   5,      "must be a list of CPUs, not 5"),
    ("cpus.1",                 5,      "must be a CPU: a mapping with cpu, core, socket and numa, not 5"),
    ("cpus.1.core",            ABSENT, "is missing; it must be an integer of at least -1"),
    ("cpus.1.core",            None,   "is missing"),
    ("cpus.1.socket",          "0",    'must be an integer of at least -1, not "0"'),
    ("cpus.1.numa",            1,      "there is no NUMA node 1; numa lists 0, 2"),
    ("cpus.1.numa",            64,     "must be an integer from 0 to 63, not 64"),
    ("cpus.1.cpu",             0,      "CPU 0 is already cpus[0]; give each id once"),
    ("cpus.1.cpu",             65536,  "must be an integer from 0 to 65535, not 65536"),
    ("cpus.1.cpu",             -1,     "must be an integer from 0 to 65535, not -1"),
    ("cpus.1.cpu",             True,   "must be an integer from 0 to 65535, not true"),
    ("cpus.1.uncore_cache",    "x",    'must be an integer of at least 0, not "x"'),
    ("cpus.1.nuna",            0,      'unknown field "nuna"; did you mean "numa"?'),
    ("numa",                   [],     "is missing or empty; list the NUMA nodes with id and memory"),
    ("numa.1.id",              0,      "NUMA node 0 is already numa[0]; give each id once"),
    ("numa.1.id",              64,     "must be an integer from 0 to 63, not 64"),
    ("numa.1.memory",          -1,     "-1 is not an amount of memory: it is negative"),
    ("numa.1.memory",          "500m", '"500m" is not an amount of memory: it is not a whole number of bytes'),
    ("numa.1.memory",          "1 GB", '"1 GB" is not an amount of memory: quantities must match'),
    ("numa.1.memory",          [],     "a list is not an amount of memory"),
    ("numa.1.memory",          True,   "true is not an amount of memory"),
    ("numa.0.hugepages.1Gi",   -1,     "must be an integer of at least 0, not -1"),
    ("numa.0.hugepages.big",   1,      '"big" is not a page size: quantities must match'),
    ("numa.1.distances.1",     "x",    'must be an integer of at least 0, not "x"'),
    ("memory_capacity",        "much", '"much" is not an amount of memory'),
    ("devices",                [],     "must be a mapping from resource names to their devices, not a list"),
    ("devices.x/gpu.devices",  ABSENT, "is missing; list the devices with id and numa"),
    ("devices.x/gpu.device",   [],     'unknown field "device"; did you mean "devices"?'),
    ("devices.x/gpu.devices.1.id",   "a", 'device "a" is already entry 0; give each id once'),
    ("devices.x/gpu.devices.1.id",   7,   "must be text, not 7"),
    ("devices.x/gpu.devices.1.numa", 0,   "must be a list of NUMA ids, [] or null, not 0"),
    ("devices.x/gpu.devices.1.unhealthy", 1,    "must be true or false, not 1"),
    ("devices.x/gpu.preferred_allocation", "x",
     "must be one of 'lowest-ids', 'distributed', 'packed', 'best-effort' or absent, not \"x\""),
    ("devices.x/gpu.preferred_allocation", "best-effort",
     "'best-effort' goes by links, and there are none; give the points"),
    ("devices.x/gpu.links",    ["0"],  "must have 3 rows of 3 numbers, as there are devices"),
    ("devices.x/gpu.links",    ["0 1 1", "2 0 1", "1 1 0"], "from device 1 to 0 it is 2, and back 1"),
    ("devices.x/gpu.refuses_several", "yes", 'must be true or false, not "yes"'),
    ("cpu",                    [],     'unknown field "cpu"; did you mean "cpus"?'),
])  # fmt: skip
def test_both_ways_refuse_nonsense_in_the_same_words(path: str, value: object, expected: str) -> None:
    machine = changed(path, value)
    with pytest.raises(InputError) as strict:
        decode_machine(Document(machine))
    with pytest.raises(InputError) as fast:
        machine_from(machine)
    assert str(strict.value) == str(fast.value)
    assert str(strict.value).startswith(f"{field_name(steps_of(path))}: {expected}")


@pytest.mark.parametrize(("path", "value", "expected"), [
    ("numa.0.hugepages.2M",            1,               '"2M" is not a power of two'),
    ("numa.0.hugepages.2Mi",           1,               '"2Mi" is the same size as another one'),
    ("numa.1.distances",               [10],            "must have one entry for each of the 2 NUMA nodes"),
    ("devices.gpu",                    {"devices": []}, "a resource name is a domain, / and a name"),
    ("devices.x/gpu.devices.0.numa.1", 7,               "there is no NUMA node 7; numa lists 0, 2"),
])  # fmt: skip
def test_only_a_hand_written_file_must_be_plausible(path: str, value: object, expected: str) -> None:
    machine = changed(path, value)
    machine_from(machine)
    with pytest.raises(InputError) as caught:
        decode_machine(Document(machine))
    assert str(caught.value).startswith(f"{field_name(steps_of(path))}: {expected}")


def test_devices_may_stand_anywhere_when_told() -> None:
    machine = changed("devices.x/gpu.devices.0.numa", [0, 7])
    assert decode_machine(Document(machine), devices_anywhere=True) == machine_from(machine)


@pytest.mark.parametrize(("old", "new", "expected"), [
    pytest.param(TEXT,       "kind: Pod", '1: is "Pod", not a machine; give a file with cpus', id="a pod"),
    pytest.param(TEXT,       "- 1",       "1: must be a machine: a mapping with cpus",          id="a list"),
    pytest.param("core: 0, socket: 1", "socket: 1", "4: cpus[2].core: is missing",              id="no core"),
    pytest.param("numa: 2}", "numa: 7}",  "4: cpus[2].numa: there is no NUMA node 7",           id="no node"),
    pytest.param("id: b",    "id: a",     '19: devices[x/gpu].devices[1].id: device "a" is',    id="id twice"),
])  # fmt: skip
def test_a_complaint_names_the_line(old: str, new: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_machine(read_documents(TEXT.replace(old, new), "m.yaml")[0])
    assert str(caught.value).startswith(f"m.yaml:{expected}")


def test_devices_from() -> None:
    assert devices_from([{"id": "a", "numa": [9]}, {"id": "b", "numa": None, "unhealthy": True}]) == (
        Device("a", (9,)),
        Device("b", None, healthy=False),
    )
    with pytest.raises(InputError, match='device "a" is already entry 0'):
        devices_from([{"id": "a"}, {"id": "a"}])


def recorded_machines() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(TRACES.glob("*.jsonl*")):
        raw = path.read_bytes()
        for line in (gzip.decompress(raw) if path.suffix == ".gz" else raw).splitlines():
            scenario = json.loads(line)["scenario"]
            yield scenario["id"], scenario["machine"]
            for step in scenario["steps"]:
                if "machine" in step.get("restart", {}):
                    yield scenario["id"], step["restart"]["machine"]


@pytest.mark.skipif(not TRACES.is_dir(), reason="no recorded traces at ../shared/traces")
def test_recorded_machines_read_the_same_both_ways() -> None:
    odd = 0
    for scenario, recorded in recorded_machines():
        machine = machine_from(recorded)
        assert decode_machine(Document(recorded), devices_anywhere=True) == machine, scenario
        assert machine_from(encode_machine(machine)) == machine, scenario
        known = {numa.id for numa in machine.numa}
        used = {numa for plugin in machine.plugins for device in plugin.devices for numa in device.numa or ()}
        if used <= known:
            assert decode_machine(Document(recorded)) == machine, scenario
        else:
            odd += 1
            with pytest.raises(InputError, match="there is no NUMA node"):
                decode_machine(Document(recorded))
    assert odd

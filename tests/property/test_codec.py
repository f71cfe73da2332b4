"""Whatever is read gives a value or an ``InputError``; what is written reads back the same."""

import copy
import json
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numawise.codec.document import Document, read_documents
from numawise.codec.machine import decode_machine, encode_machine, machine_from
from numawise.codec.pod import pod_from, unique_uids
from numawise.codec.workload import decode_pods
from numawise.errors import InputError
from numawise.machine.model import Cpu, Device, DevicePlugin, Machine, Numa
from numawise.machine.preference import PREFERENCES, LinkedGpus, Preference
from numawise.request.defaults import RawPod
from tests.property.strategies import laws

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
TELLING = """
    cpus numa cpu core socket id memory hugepages distances devices kind Pod List Job items metadata name spec
    containers initContainers template replicas resources requests limits nvidia.com/gpu 2Mi 1Gi 500m -1 Always
"""
WORDS = st.sampled_from(TELLING.split())
JSON = st.recursive(
    SCALARS | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=25,
)
YAML_BITS = st.lists(
    st.sampled_from([*"abc01:-[]{}&*!|>'\"%@`#,?~\n \t", "\n- ", "a: ", "\n---\n", "<<: ", "&a ", "*a"])
)

POD: Any = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "b", "uid": "c"},
    "spec": {
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}}],
        "containers": [
            {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 2, "x/y": "1"}}}
        ],
        "resources": {"requests": {"cpu": "8"}, "limits": {"memory": "8Gi"}},
    },
    "status": {"qosClass": "Burstable"},
}
JOB: Any = {
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"parallelism": 2, "template": {"spec": POD["spec"]}},
}
MACHINE: Any = {
    "cpus": [{"cpu": 0, "core": 0, "socket": 0, "numa": 0, "uncore_cache": 1}],
    "numa": [{"id": 0, "memory": "1Gi", "hugepages": {"2Mi": 1}, "distances": [10]}],
    "memory_capacity": 5,
    "devices": {
        "x/y": {
            "devices": [{"id": "a", "numa": [0], "unhealthy": True}],
            "preferred_allocation": "lowest-ids",
        }
    },
}


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for step, each in inner for place in places(each, (*way, step)))]


@st.composite
def damaged(draw: st.DrawFn, *good: Any) -> Any:
    """A good value with one part of it replaced, renamed or removed."""
    value = copy.deepcopy(draw(st.sampled_from(good)))
    way = draw(st.sampled_from(places(value)[1:]))
    inner = value
    for step in way[:-1]:
        inner = inner[step]
    what = draw(st.sampled_from(["replace", "remove", "add"]))
    if what == "add" and isinstance(inner, dict):
        inner[draw(WORDS | st.text(max_size=10))] = draw(JSON)
    elif what == "remove":
        del inner[way[-1]]
    else:
        inner[way[-1]] = draw(JSON)
    return value


def check(error: InputError) -> None:
    """An error is one line that can be printed, and knows its line when there is a file."""
    assert str(error).isprintable()
    assert str(error).encode()
    assert error.line is not None or not error.file or "empty" in error.message


def read_all(text: str | bytes) -> None:
    """Read, and walk on into every decoder; an ``InputError`` is one line and is fine."""
    try:
        documents = read_documents(text, "f")
    except InputError as error:
        check(error)
        return
    for document in documents:
        for decode in (decode_machine, decode_pods):
            try:
                decode(document)
            except InputError as error:
                check(error)


@given(st.binary(max_size=300))
def test_random_bytes(data: bytes) -> None:
    read_all(data)


@given(st.text(max_size=200))
def test_random_text(text: str) -> None:
    read_all(text)


@given(YAML_BITS)
def test_random_yaml(bits: list[str]) -> None:
    read_all("".join(bits))


@given(JSON)
def test_random_values(value: Any) -> None:
    read_all(json.dumps(value))
    read_all(json.dumps(value, indent=1, ensure_ascii=False).encode(errors="surrogatepass"))


@given(JSON)
def test_json_is_read_as_itself(value: Any) -> None:
    text = json.dumps({"value": value}, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert [document.value for document in read_documents(text, "f")] == [{"value": value}]


@laws(300)
@given(damaged(POD, JOB, {"kind": "List", "items": [POD, JOB]}))
def test_damaged_pods(value: Any) -> None:
    read_all(json.dumps(value))
    try:
        pod_from(value)
    except InputError as error:
        check(error)


@laws(300)
@given(damaged(MACHINE))
def test_damaged_machines_are_refused_by_both_or_read_the_same(value: Any) -> None:
    read_all(json.dumps(value))
    try:
        machine = decode_machine(Document(value))
    except InputError:
        try:
            machine_from(value)
        except InputError as error:
            check(error)
    else:
        assert machine_from(value) == machine


@given(damaged(POD))
def test_a_pod_that_passes_reads_the_same_both_ways(value: Any) -> None:
    try:
        found = decode_pods(Document(value))
    except InputError:
        return
    if "name" in value.get("metadata", {}) and found:
        assert found == (pod_from(value),)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    numas = draw(st.lists(st.integers(0, 63), min_size=1, max_size=5, unique=True))
    on = st.sampled_from(numas)
    cpus = draw(st.lists(st.integers(0, 65535), min_size=1, max_size=12, unique=True))
    distances = st.just(()) | st.tuples(*[st.integers(10, 255)] * len(numas))
    sizes = st.lists(st.sampled_from(["64Ki", "2Mi", "32Mi", "1Gi"]), unique=True, max_size=3)
    device_ids = st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=4)
    resources = draw(st.lists(st.sampled_from(["nvidia.com/gpu", "a/b", "x.y/z"]), unique=True))
    return Machine(
        cpus=tuple(
            Cpu(
                cpu,
                draw(st.integers(0, 99)),
                draw(st.integers(0, 3)),
                draw(on),
                draw(st.none() | st.integers(0, 9)),
            )
            for cpu in cpus
        ),
        numa=tuple(
            Numa(
                numa,
                draw(st.integers(0, 2**50)),
                tuple((size, draw(st.integers(0, 2**40))) for size in draw(sizes)),
                draw(distances),
            )
            for numa in numas
        ),
        plugins=tuple(draw(plugins(resource, device_ids, on)) for resource in resources),
        memory_capacity=draw(st.none() | st.integers(0, 2**60)),
    )


@st.composite
def plugins(
    draw: st.DrawFn, resource: str, ids: st.SearchStrategy[list[str]], on: st.SearchStrategy[int]
) -> DevicePlugin:
    nodes = st.none() | st.lists(on, unique=True).map(tuple)
    devices = tuple(Device(name, draw(nodes), draw(st.booleans())) for name in draw(ids))
    preference: Preference | None = draw(st.sampled_from((None, *PREFERENCES.values())))
    if draw(st.booleans()):
        points = [[0] * len(devices) for _ in devices]
        for i, j in combinations(range(len(devices)), 2):
            points[i][j] = points[j][i] = draw(st.integers(0, 1860))
        preference = LinkedGpus(tuple(device.id for device in devices), tuple(map(tuple, points)))
    return DevicePlugin(resource, devices, preference, draw(st.booleans()))


@given(machines())
def test_a_machine_survives_writing_and_reading(machine: Machine) -> None:
    encoded = encode_machine(machine)
    assert decode_machine(Document(encoded)) == machine_from(encoded) == machine
    try:
        text = json.dumps(encoded, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert decode_machine(read_documents(text, "f")[0]) == machine


@given(st.lists(st.sampled_from(["a", "b", "a#2", "a#3", "a#2#2"])))
def test_uids_are_unique_and_first_comers_keep_theirs(uids: list[str]) -> None:
    pods = [RawPod(uid, uid, ()) for uid in uids]
    found = unique_uids(pods)
    assert len({pod.uid for pod in found}) == len(pods)
    assert [pod.name for pod in found] == uids
    assert unique_uids(found) == found


def test_no_error_escapes_from_a_cycle() -> None:
    with pytest.raises(InputError):
        read_documents("a: &a {b: *a}", "f")

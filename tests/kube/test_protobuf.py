"""Messages of protobuf: bytes as Google's own library writes them, and damaged ones."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from numawise.kube import deviceplugin as plugin
from numawise.kube.protobuf import NUMBER, NUMBERS, TEXT, Message, Single, decoded, encoded

DEVICES = [
    {"ID": "g0", "health": "Healthy", "topology": {"nodes": [{"ID": 0}, {"ID": 300}]}},
    {"ID": "g1", "health": "Unhealthy"},
]
ALLOCATED = {
    "envs": {"A": "1", "B": ""},
    "mounts": [{"container_path": "/c", "host_path": "/h", "read_only": True}],
    "devices": [{"container_path": "/dev/a", "host_path": "/dev/b", "permissions": "rw"}],
    "annotations": {"k": "v"},
    "cdi_devices": [{"name": "v/c=n"}],
}
REGISTERED = {
    "version": "v1beta1",
    "endpoint": "a.sock",
    "resource_name": "x/y",
    "options": {"get_preferred_allocation_available": True},
}
QUESTION = {"available_deviceIDs": ["a", "b"], "must_include_deviceIDs": ["a"], "allocation_size": 2}


WRITTEN = {
    "register": (plugin.REGISTRATION, REGISTERED, "0a07763162657461311206612e736f636b1a03782f7922021001"),
    "devices": (
        plugin.LISTED,
        {"devices": DEVICES},
        "0a160a02673012074865616c7468791a070a000a0308ac020a0f0a0267311209556e6865616c746879",
    ),
    "question": (plugin.PREFERRED_REQUEST, {"container_requests": [QUESTION]}, "0a0b0a01610a01621201611802"),
    "preferred": (
        plugin.PREFERRED_RESPONSE,
        {"container_responses": [{"deviceIDs": ["a", "b"]}]},
        "0a060a01610a0162",
    ),
    "allocate": (
        plugin.ALLOCATE_REQUEST,
        {"container_requests": [{"devices_ids": ["a", "b"]}, {"devices_ids": []}]},
        "0a060a01610a01620a00",
    ),
    "allocated": (
        plugin.ALLOCATE_RESPONSE,
        {"container_responses": [ALLOCATED]},
        (
            "0a420a060a01411201310a050a01421200120a0a022f6312022f6818011a140a062f6465762f6112062f6465762f62"
            "1a02727722060a016b1201762a070a05762f633d6e"
        ),
    ),
}
"""Bytes that protobuf 6 for Python writes, out of the kubelet's own api.proto."""


@pytest.mark.parametrize(("message", "values", "raw"), WRITTEN.values(), ids=WRITTEN)
def test_bytes_are_those_of_protobuf(message: Message, values: dict[str, Any], raw: str) -> None:
    assert encoded(values, message).hex() == raw
    assert encoded(decoded(bytes.fromhex(raw), message), message).hex() == raw


TREE = Message({1: ("name", TEXT), 2: ("size", NUMBER), 3: ("ids", NUMBERS)})
OUTER = Message({1: ("one", Single(TREE)), 2: ("many", TREE)})


@given(some.text(), some.integers(-(2**63), 2**63 - 1), some.lists(some.integers(0, 2**64 - 1)))
def test_what_is_written_is_read(name: str, size: int, ids: list[int]) -> None:
    inner = {"name": name, "size": size, "ids": ids}
    read = decoded(encoded({"one": inner, "many": [inner, {}]}, OUTER), OUTER)
    filled = {"ids": ids} | ({"name": name} if name else {}) | ({"size": size} if size else {})
    assert read == {"one": filled, "many": [filled, {"ids": []}]}


@given(some.binary(max_size=200))
def test_damaged_bytes_are_no_more_than_an_error(raw: bytes) -> None:
    for message in (plugin.LISTED, plugin.ALLOCATE_RESPONSE, plugin.PREFERRED_REQUEST):
        with contextlib.suppress(ValueError):
            encoded(decoded(raw, message), message)


def test_a_name_that_no_field_has() -> None:
    with pytest.raises(KeyError, match="no such field: devces"):
        encoded({"devces": []}, plugin.LISTED)

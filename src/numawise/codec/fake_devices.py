"""Devices that do not exist, for labs: a YAML list of entries with resource, ids, numa and health."""

import re
from collections.abc import Iterator

from numawise.codec.agent_config import resource_name, variable_name
from numawise.codec.agent_values import FakeDevice, variable_of
from numawise.codec.document import Part, read_documents, shown
from numawise.codec.infile import read_raw
from numawise.errors import suggestion

FAKE = ("resource", "ids", "numa", "health", "env")
MOST_IDS, LARGEST_NUMA = 10_000, 63
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
DEVICE_ID = re.compile(r"[!-+\--~]{1,63}")


def read_fakes(path: str) -> tuple[FakeDevice, ...]:
    """The made-up devices of a file."""
    documents = read_documents(*read_raw(path))
    devices: dict[tuple[str, str], FakeDevice] = {}
    for document in documents:
        for entry in document.root.items("a list of entries with resource and ids"):
            for device in _fakes(entry):
                key = device.resource, device.id
                if key in devices:
                    raise entry.at("ids").error(
                        f"{shown(device.id)} of {device.resource} is listed twice", "give each device one id"
                    )
                devices[key] = device
    if len(devices) > MOST_IDS:
        raise documents[0].error((), f"has more than {MOST_IDS:,} devices", "offer fewer")
    return tuple(devices.values())


def _fakes(part: Part) -> Iterator[FakeDevice]:
    members = part.mapping(FAKE, "a mapping with resource and ids")
    name = resource_name(part.at("resource"))
    numa = part.at("numa")
    nodes: tuple[int, ...] = ()
    if isinstance(numa.value, list):
        nodes = tuple(item.integer(0, LARGEST_NUMA) for item in numa.items())
    elif numa.value not in (None, -1):
        nodes = (numa.integer(0, LARGEST_NUMA),)
    health = part.at("health").text() if members.get("health") is not None else HEALTHY
    if health not in (HEALTHY, UNHEALTHY):
        raise part.at("health").error(
            f"unknown value {shown(health)}", suggestion(health, (HEALTHY, UNHEALTHY))
        )
    env = variable_name(part.at("env")) if "env" in members else variable_of(name)
    ids = part.at("ids").items("a list of ids")
    if not ids:
        raise part.at("ids").error("is empty", "list at least one id, such as [gpu0]")
    for item in ids:
        text = (
            str(item.value)
            if isinstance(item.value, int) and not isinstance(item.value, bool)
            else item.text()
        )
        if not DEVICE_ID.fullmatch(text):
            raise item.error(
                f"{shown(text)} is not an id of a device", "use up to 63 letters, digits and signs"
            )
        yield FakeDevice(name, text, nodes, health == HEALTHY, env)

"""``kubelet_internal_checkpoint``: who has which devices, by NUMA node (a flat list up to 1.19)."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numawise.codec import gojson
from numawise.codec.checkpoint.reading import (
    CORRUPTED,
    by_bytes,
    fnv1a,
    ids_print,
    map_print,
    members_of,
    mismatch,
    typed,
    whole_key,
)
from numawise.engine.state import DeviceFile, DeviceGrant
from numawise.rules.model import Rules

DEVICE_FILE = "kubelet_internal_checkpoint"
STRUCT = "PodDevicesEntry"


def simulated_response(resource: str, ids: Iterable[str]) -> bytes:
    """What a simulated plugin answers to Allocate: one environment variable with the ids."""
    name = "DEVICES_" + resource.upper().translate(str.maketrans("/.-", "___"))
    entry = _field(1, name.encode()) + _field(2, ",".join(sorted(ids)).encode())
    return _field(1, entry)


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    size = len(payload)
    length = bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes([number << 3 | 2]) + bytes(length) + payload


def encode_devices(file: DeviceFile) -> str:
    """The text of ``kubelet_internal_checkpoint``; entries and ids in sorted order."""
    printed, entries = [], []
    for uid, containers in by_bytes(file.grants):
        for container, resources in by_bytes(containers):
            for resource, grant in by_bytes(resources):
                response = grant.response
                if response is None:
                    response = simulated_response(resource, grant.ids)
                by_number = " ".join(f"{numa}:{ids_print(ids)}" for numa, ids in sorted(grant.per_numa))
                printed.append(
                    f"{{PodUID:(string){uid} ContainerName:(string){container} "
                    f"ResourceName:(string){resource} "
                    f"DeviceIDs:(checkpoint.DevicesPerNUMA)map[{by_number}] "
                    f"AllocResp:([]uint8){ids_print(response)}}}"
                )
                by_text = ",".join(
                    f'"{numa}":[{",".join(map(gojson.text, ids))}]'
                    for numa, ids in sorted(grant.per_numa, key=lambda item: str(item[0]))
                )
                entries.append(
                    f'{{"PodUID":{gojson.text(uid)},"ContainerName":{gojson.text(container)},'
                    f'"ResourceName":{gojson.text(resource)},"DeviceIDs":{{{by_text}}},'
                    f'"AllocResp":"{base64.b64encode(response).decode()}"}}'
                )
    registered = [(name, sorted(ids)) for name, ids in by_bytes(file.registered)]
    by_name = " ".join(f"{name}:{ids_print(ids)}" for name, ids in registered)
    text = devices_print(f"[{' '.join(printed)}]" if printed else "<nil>", f"map[{by_name}]")
    listed = ",".join(f"{gojson.text(name)}:[{','.join(map(gojson.text, ids))}]" for name, ids in registered)
    pods = f"[{','.join(entries)}]" if entries else "null"
    return (
        f'{{"Data":{{"PodDeviceEntries":{pods},"RegisteredDevices":{{{listed}}}}},"Checksum":{fnv1a(text)}}}'
    )


def devices_print(entries: str, registered: str) -> str:
    """Go's print of the content, made of those of its two members."""
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries} "
        f"RegisteredDevices:(map[string][]string){registered}}}"
    )


def decode_devices(data: str, rules: Rules) -> DeviceFile | str:
    """Read ``kubelet_internal_checkpoint``; a text says why the kubelet goes on without it."""
    try:
        raw = members_of(gojson.decode(data), "Data")
        content = members_of(raw.get("data") or {}, "checkpointData")
        text, flat = devices_printed(content)
        if raw.get("checksum") != fnv1a(text) or (flat and not rules.behaviour.reads_flat_device_lists):
            return CORRUPTED
        return device_file(content)
    except (ValueError, TypeError, AttributeError, binascii.Error) as error:
        return str(error)


def device_file(content: Mapping[str, Any]) -> DeviceFile:
    """What the file holds."""
    return DeviceFile(
        device_grants(content), {r: frozenset(ids) for r, ids in (_registered(content) or {}).items()}
    )


def devices_printed(content: Mapping[str, Any]) -> tuple[str, bool]:
    """Go's print of the content, and whether its entries are in the old form with flat lists."""
    entries, flat = device_entries(content)
    registered = _registered(content)
    listed = None if registered is None else [f"{r}:{ids_print(ids)}" for r, ids in by_bytes(registered)]
    return devices_print(entries, map_print(listed) if "registereddevices" in content else "<nil>"), flat


def _registered(content: Mapping[str, Any]) -> dict[str, list[str]] | None:
    found = typed(content, "RegisteredDevices", dict, "checkpointData", "map[string][]string")
    if found is None:
        return None
    return {name: _texts(ids, "checkpointData", "RegisteredDevices") for name, ids in found.items()}


def device_entries(content: Mapping[str, Any]) -> tuple[str, bool]:
    """Go's print of the entries, and whether these are in the old form with flat lists."""
    if content.get("poddeviceentries") is None:
        return "<nil>", False
    printed = []
    flat = False
    for entry in _entries(content):
        ids = entry["deviceids"]
        if isinstance(ids, list):
            flat = True
            devices = f"([]string){ids_print(ids)}"
        else:
            by_numa = (f"{n}:{ids_print(ids[n])}" for n in sorted(ids))
            devices = f"(checkpoint.DevicesPerNUMA)map[{' '.join(by_numa)}]"
        printed.append(
            f"{{PodUID:(string){entry['poduid']} "
            f"ContainerName:(string){entry['containername']} "
            f"ResourceName:(string){entry['resourcename']} DeviceIDs:{devices} "
            f"AllocResp:([]uint8){ids_print(entry['allocresp'])}}}"
        )
    return f"[{' '.join(printed)}]", flat


def device_grants(content: Mapping[str, Any]) -> dict[str, dict[str, dict[str, DeviceGrant]]]:
    """The entries by pod, container and resource."""
    grants: dict[str, dict[str, dict[str, DeviceGrant]]] = {}
    for entry in _entries(content):
        ids = entry["deviceids"]
        per_numa = {0: ids} if isinstance(ids, list) else ids
        grant = DeviceGrant(
            tuple((n, tuple(found)) for n, found in sorted(per_numa.items())), entry["allocresp"]
        )
        containers = grants.setdefault(entry["poduid"], {})
        containers.setdefault(entry["containername"], {})[entry["resourcename"]] = grant
    return grants


def _entries(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The entries with members of the right types; raise ``ValueError`` for any other."""
    listed = typed(content, "PodDeviceEntries", list, "checkpointData", "[]checkpoint.PodDevicesEntry")
    for one in listed or ():
        entry = members_of(one, STRUCT)
        found: dict[str, Any] = {
            name.lower(): typed(entry, name, str, STRUCT, "string") or ""
            for name in ("PodUID", "ContainerName", "ResourceName")
        }
        ids = entry.get("deviceids") or {}
        if isinstance(ids, dict):
            found["deviceids"] = {
                whole_key(numa, STRUCT, "DeviceIDs", "int64"): _texts(names, STRUCT, "DeviceIDs")
                for numa, names in ids.items()
            }
        else:
            found["deviceids"] = _texts(ids, STRUCT, "DeviceIDs")
        response = typed(entry, "AllocResp", str, STRUCT, "[]uint8") or ""
        found["allocresp"] = base64.b64decode(response, validate=True)
        yield found


def _texts(value: object, struct: str, name: str) -> list[str]:
    """A list of strings; none when there is none."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise mismatch(value, struct, name, "[]string")
    for one in value:
        if not isinstance(one, str):
            raise mismatch(one, struct, name, "string")
    return value

"""``kubelet_internal_checkpoint``: who has which devices, by NUMA node (a flat list up to 1.19)."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from numawise.codec import gojson
from numawise.codec.checkpoint.goprint import by_bytes, fnv1a, ids_print, map_print
from numawise.codec.checkpoint.reading import CORRUPTED, members_of, typed
from numawise.engine.state import DeviceFile, DeviceGrant
from numawise.rules.model import Rules

DEVICE_FILE = "kubelet_internal_checkpoint"


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
    told = " ".join(f"{name}:{ids_print(ids)}" for name, ids in registered)
    text = devices_print(f"[{' '.join(printed)}]" if printed else "<nil>", f"map[{told}]")
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
    registered = typed(content, "RegisteredDevices", dict, "checkpointData", "map[string][]string") or {}
    return DeviceFile(device_grants(content), {r: frozenset(ids or ()) for r, ids in registered.items()})


def devices_printed(content: Mapping[str, Any]) -> tuple[str, bool]:
    """Go's print of the content, and whether its entries are in the old form with flat lists."""
    entries, flat = device_entries(content)
    registered = typed(content, "RegisteredDevices", dict, "checkpointData", "map[string][]string")
    listed = (
        None if registered is None else [f"{r}:{ids_print(ids or ())}" for r, ids in by_bytes(registered)]
    )
    return devices_print(entries, map_print(listed) if "registereddevices" in content else "<nil>"), flat


def device_entries(content: Mapping[str, Any]) -> tuple[str, bool]:
    """Go's print of the entries, and whether these are in the old form with flat lists."""
    listed = content.get("poddeviceentries")
    if listed is None:
        return "<nil>", False
    printed = []
    flat = False
    for one in listed:
        entry = members_of(one, "PodDevicesEntry")
        ids = entry.get("deviceids") or {}
        if isinstance(ids, list):
            flat = True
            devices = f"([]string){ids_print(ids)}"
        else:
            told = (f"{n}:{ids_print(ids[n])}" for n in sorted(ids, key=int))
            devices = f"(checkpoint.DevicesPerNUMA)map[{' '.join(told)}]"
        response = base64.b64decode(entry.get("allocresp") or "", validate=True)
        printed.append(
            f"{{PodUID:(string){entry.get('poduid', '')} "
            f"ContainerName:(string){entry.get('containername', '')} "
            f"ResourceName:(string){entry.get('resourcename', '')} DeviceIDs:{devices} "
            f"AllocResp:([]uint8){ids_print(response)}}}"
        )
    return f"[{' '.join(printed)}]", flat


def device_grants(content: Mapping[str, Any]) -> dict[str, dict[str, dict[str, DeviceGrant]]]:
    """The entries by pod, container and resource."""
    grants: dict[str, dict[str, dict[str, DeviceGrant]]] = {}
    for one in content.get("poddeviceentries") or ():
        entry = members_of(one, "PodDevicesEntry")
        ids = entry.get("deviceids") or {}
        per_numa = {0: ids} if isinstance(ids, list) else {int(numa): found for numa, found in ids.items()}
        response = base64.b64decode(entry.get("allocresp") or "", validate=True)
        grant = DeviceGrant(tuple((n, tuple(found)) for n, found in sorted(per_numa.items())), response)
        containers = grants.setdefault(entry["poduid"], {})
        containers.setdefault(entry["containername"], {})[entry["resourcename"]] = grant
    return grants

"""``allocated_pods_state`` (1.33 and later): the resources that the containers of every pod were allotted.

The kubelet keeps it for resizing pods in place.  It has neither names of pods nor roles of containers, but
it is there when nobody can ask the API server.
"""

from collections.abc import Mapping
from typing import Any

from numawise.codec import gojson
from numawise.codec.checkpoint.reading import members_of

ALLOCATED_FILE = "allocated_pods_state"

Resources = Mapping[str, Any]


def allocated_pods(text: str) -> dict[str, dict[str, Resources]]:
    """Uid → container → its resources; raise ``ValueError`` when the file is none of these."""
    data = members_of(gojson.decode(text), "Checkpoint").get("data")
    if not isinstance(data, str):
        raise ValueError("it has no text named data")  # noqa: TRY004 - bad JSON like any other
    entries = members_of(gojson.decode(data), "PodResourceCheckpointInfo").get("entries") or {}
    if not isinstance(entries, dict):
        raise ValueError("its entries are no map")  # noqa: TRY004
    found: dict[str, dict[str, Resources]] = {}
    for uid, entry in entries.items():
        containers = members_of(entry, "PodResourceInfo").get("containerresources") or {}
        if isinstance(containers, dict):
            found[uid] = {
                name: resources for name, resources in containers.items() if isinstance(resources, dict)
            }
    return found

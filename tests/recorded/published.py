"""Published objects of a node, the node that each describes, and a run of ``make e2e-node`` as one file.

    python -m tests.recorded.published OUT/node tests/recorded/published/NAME.jsonl.gz

The first line of a file has the hardware, as ``/sys`` and ``/proc`` showed it, the devices in the form of ``--fake``, and
the release.  Every other line is a step.  Of a pod that came: ``object`` as it was published before, ``before`` (all that an exporter could see then:
state files, answers of PodResources, pods, Node object), the ``pod``, its ``status``, and ``after`` (state files and
answers).  Of anything else that happened, ``do`` says what.  ``configuration``: the kubelet's file, where it
changed.
"""

import gzip
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numawise.codec.publication import publication_from
from numawise.node.node import SimulatedNode
from numawise.node.publication import published_node
from numawise.results.publication import Publication


def publication(found: Mapping[str, Any]) -> Publication:
    """What an object says, which must be one of ours."""
    said = publication_from({one["name"]: one["value"] for one in found.get("attributes") or ()})
    assert said is not None, "not an object of ours"
    return said


def node_of(found: Mapping[str, Any]) -> SimulatedNode:
    """The node that an object describes."""
    return published_node(publication(found))


def live_uids(found: Mapping[str, Any]) -> set[str]:
    """The pods that count."""
    return set(publication(found).state.active)


def healthy(found: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Resource and id of devices that can be given out or are."""
    plugins = publication(found).state.devices.plugins
    return {(name, one) for name, plugin in plugins.items() for one in plugin.healthy}


def policy_of(found: Mapping[str, Any]) -> str:
    """The policy of the Topology Manager."""
    return str(publication(found).config.get("topologyManagerPolicy", "none"))


# --- recordings -----------------------------------------------------------------------------------


def read_run(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The hardware and the steps of a run."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        first, *steps = map(json.loads, lines)
    return first, steps


def pack(folder: Path, archive: Path) -> None:
    """Write what the tests need of a run."""
    lines = [(folder / "first.json").read_text()]
    configuration = ""
    for path in sorted(folder.glob("step-*.json")):
        step = json.loads(path.read_text())
        if step["configuration"] == configuration:
            del step["configuration"]
        else:
            configuration = step["configuration"]
        step.get("object", {}).get("metadata", {}).pop("managedFields", None)
        step.pop("predicted", None)
        step["after"] = {name: step["after"][name] for name in ("files", "answers")}
        lines.append(json.dumps(step))
    archive.parent.mkdir(exist_ok=True)
    archive.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), 9, mtime=0))


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))

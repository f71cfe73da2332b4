"""What a NodeResourceTopology says: the exact state of its node, zones of another exporter, or nothing.

Rules kept here:

1. An object with our attributes is exact or nothing: what is broken, of a newer form, of another node, or
   of a kubelet that would not run like this counts for nothing, its zones included.
2. Any other object is read as another exporter's.
3. Whatever an object holds, the answer is a value: somebody else wrote it.
"""

from collections.abc import Mapping
from typing import Any

from numawise.cluster.foreign import ForeignZones, foreign_zones
from numawise.codec.cluster_pod import seconds
from numawise.codec.document import Document, mapping
from numawise.codec.hardware.nrt import read_topology
from numawise.codec.publication import NODE_ATTRIBUTE, STATE_ATTRIBUTE, publication_from
from numawise.errors import NumawiseError, cut, quoted
from numawise.node.node import SimulatedNode
from numawise.node.publication import published_node
from numawise.values import dataclass

LONGEST = 400


@dataclass(frozen=True, slots=True)
class TopologySource:
    """What an object says of its node; one of ``node``, ``zones`` and ``problem`` is there."""

    node: SimulatedNode | None = None
    """Decides as the node that published itself."""
    kubelet: str = ""
    """Its version, as it says it."""
    missing: tuple[str, ...] = ()
    """What the publisher could not learn, in sentences."""
    zones: ForeignZones | None = None
    problem: str = ""
    """Why nothing of it counts."""


def topology_source(name: str, value: Mapping[str, Any], now: float) -> TopologySource:
    """Read an object that stands for a node."""
    try:
        return _source(name, value, now)
    except NumawiseError as problem:
        words = str(problem)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as problem:
        words = f"{type(problem).__name__}: {problem}"
    return TopologySource(problem=cut(f"its NodeResourceTopology is not used: {words}", LONGEST))


def _source(name: str, value: Mapping[str, Any], now: float) -> TopologySource:
    attributes = _attributes(value)
    publication = publication_from(attributes)
    if publication is None:
        zones = foreign_zones(read_topology(Document(value).root), _written(value) or now)
        return TopologySource(problem=zones) if isinstance(zones, str) else TopologySource(zones=zones)
    if publication.node != name:
        words = f"its NodeResourceTopology is not used: it is the state of node {quoted(publication.node)}"
        return TopologySource(problem=cut(words, LONGEST))
    node = published_node(publication)
    return TopologySource(node, publication.kubelet, publication.missing)


def _attributes(value: Mapping[str, Any]) -> dict[str, str]:
    """Our two attributes, as far as they are there."""
    rows = value.get("attributes")
    found = {}
    for row in rows if isinstance(rows, list) else ():
        one = mapping(row)
        name, text = one.get("name"), one.get("value")
        if name in (NODE_ATTRIBUTE, STATE_ATTRIBUTE) and isinstance(text, str):
            if name in found:
                raise ValueError(f"attribute {name} is there twice")
            found[name] = text
    return found


def _written(value: Mapping[str, Any]) -> float:
    """When an object was last written, by its managers; 0: they do not say."""
    rows = mapping(value.get("metadata")).get("managedFields")
    times = [seconds(mapping(row).get("time")) for row in (rows if isinstance(rows, list) else ())]
    return max(times, default=0.0)

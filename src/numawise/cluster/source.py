"""What a NodeResourceTopology says: the exact state of its node, zones of another exporter, or nothing.

Rules kept here:

1. An object with our attributes is exact or nothing: what is broken, of a newer form, of another node, or
   of a kubelet that would not run like this counts for nothing, its zones included.
2. Any other object is read as another exporter's.
3. Whatever an object holds, the answer is a value: somebody else wrote it.
4. Nodes that differ in the ids of their devices alone are of one kind: they share their rules and a number.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any

from numawise.cluster.foreign import ForeignZones, foreign_zones
from numawise.codec.document import Document, mapping
from numawise.codec.hardware.nrt import read_topology
from numawise.codec.publication import MOST_KNOWN, NODE_ATTRIBUTE, STATE_ATTRIBUTE, publication_from
from numawise.codec.published.envelope import hash_of
from numawise.codec.published.node_part import encode_node
from numawise.codec.stamps import stamp_seconds
from numawise.errors import NumawiseError, cut, quoted
from numawise.machine.model import DevicePlugin, Machine
from numawise.machine.preference import LinkedGpus, LowestIds
from numawise.node.node import SimulatedNode
from numawise.node.publication import Ruled, published_node, published_rules
from numawise.results.publication import Publication
from numawise.values import dataclass, replace

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
    kind: int = 0
    """Equal for nodes that differ in the ids of their devices alone."""


class TopologyReading:
    """Reads objects; what nodes of one kind share is worked out once (rule 4)."""

    def __init__(self) -> None:
        self._numbers = count()
        self._kinds: dict[str, tuple[int, Ruled]] = {}
        self._machines: dict[int, tuple[Machine, int, Ruled]] = {}

    def source(self, name: str, value: Mapping[str, Any], now: float) -> TopologySource:
        """Read an object that stands for a node."""
        try:
            return self._source(name, value, now)
        except NumawiseError as problem:
            words = str(problem)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as problem:
            words = f"{type(problem).__name__}: {problem}"
        return TopologySource(problem=cut(f"its NodeResourceTopology is not used: {words}", LONGEST))

    def _source(self, name: str, value: Mapping[str, Any], now: float) -> TopologySource:
        attributes = _attributes(value)
        publication = publication_from(attributes)
        if publication is None:
            zones = foreign_zones(read_topology(Document(value).root), _written(value) or now)
            return TopologySource(problem=zones) if isinstance(zones, str) else TopologySource(zones=zones)
        if publication.node != name:
            words = (
                f"its NodeResourceTopology is not used: it is the state of node {quoted(publication.node)}"
            )
            return TopologySource(problem=cut(words, LONGEST))
        kind, ruled = self._ruled(publication)
        node = published_node(publication, ruled)
        return TopologySource(node, publication.kubelet, publication.missing, kind=kind)

    def _ruled(self, publication: Publication) -> tuple[int, Ruled]:
        """The kind of a node, and how it decides; a machine is one value as long as its text is the same."""
        machine = publication.machine
        known = self._machines.get(id(machine))
        if known is None:
            plain = replace(machine, plugins=tuple(map(_unnamed, machine.plugins)))
            key = hash_of(encode_node(publication.kubelet, plain, publication.config))
            if key not in self._kinds:
                if len(self._kinds) >= MOST_KNOWN:
                    self._kinds.clear()
                    self._machines.clear()
                self._kinds[key] = next(self._numbers), published_rules(publication)
            if len(self._machines) >= MOST_KNOWN:
                self._machines.clear()
            known = self._machines[id(machine)] = machine, *self._kinds[key]
        return known[1], known[2]


def _unnamed(plugin: DevicePlugin) -> DevicePlugin:
    """A plugin whose devices are called by their rank, where their ids are only ever compared."""
    preference = plugin.preference
    names = sorted(device.id for device in plugin.devices)
    ranks = {name: f"{rank:08}" for rank, name in enumerate(names)}
    if isinstance(preference, LinkedGpus) and ranks.keys() >= set(preference.gpus):
        preference = LinkedGpus(tuple(ranks[name] for name in preference.gpus), preference.points)
    elif preference is not None and not isinstance(preference, LowestIds):
        return plugin
    devices = tuple(replace(device, id=ranks[device.id]) for device in plugin.devices)
    return replace(plugin, devices=devices, preference=preference)


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
    times = [stamp_seconds(mapping(row).get("time")) for row in (rows if isinstance(rows, list) else ())]
    return max((time for time in times if time is not None), default=0.0)

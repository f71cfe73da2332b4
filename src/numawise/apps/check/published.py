"""NodeResourceTopologies: what an exporter publishes, by itself, beside the Node object and the kubelet.

Rules kept here:

1. Every object of a list is judged.  The one that ``--node-name`` or the Node object names, or the only one,
   is the machine as well.
2. What the reader refuses is a finding at its place; everything else is judged whether it can be read or not.
3. A resource that only some zones have may be as it should be, so it is a note.
4. Where an object has the exact state of its node, that can be read, and the zones say the same.
5. Exporters publish memory under the Static Memory Manager alone, and devices that have a NUMA node: that no
   zone has a resource of the node is a warning for GPUs and the like, a note for other devices.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from numawise.codec.document import Document, Part, field_name
from numawise.codec.hardware.nrt import (
    KIND,
    POLICY_ATTRIBUTE,
    SCOPE_ATTRIBUTE,
    ZONE,
    NodeTopology,
    published_policies,
    read_topology,
    topologies_of,
)
from numawise.codec.kubelet.effective import Configuration
from numawise.errors import InputError, quoted
from numawise.inputs.pods import is_accelerator
from numawise.inputs.published import publication_in
from numawise.machine.description import NodeDescription
from numawise.node.publication import published_node, zone_amounts
from numawise.quantity import NANO, Quantity
from numawise.render.words import both
from numawise.request.model import CPU
from numawise.results.finding import Finding, Place, Severity, found
from numawise.rules.model import NONE
from numawise.values import dataclass

SIZES = ("capacity", "allocatable", "available")
MEANING = {
    "allocatable": "more than the NUMA node has",
    "available": "more than pods may get there",
}
CONTAINER_SCOPE = "container"


@dataclass(frozen=True, slots=True)
class PublishedNode:
    """One object, with what it is compared with."""

    root: Part
    description: NodeDescription | None = None
    configurations: Sequence[Configuration] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        name = self.root.at("metadata", "name").value
        return name if isinstance(name, str) else ""

    def findings(self) -> Iterator[Finding]:
        """Everything that is wrong with it."""
        zones = {name: zone for zone, name in self._zones() if ZONE.fullmatch(name)}
        amounts = {name: _amounts(zone) for name, zone in zones.items()}
        own = [*_zone_findings(self._zones())]
        for zone in zones.values():
            own += _amount_findings(zone)
        own += self._resource_findings(amounts)
        own += _cost_findings(zones)
        own += self._policy_findings()
        yield from own
        try:
            topology = read_topology(self.root)
        except InputError as problem:  # rule 2
            place = Place(problem.file, problem.line, problem.field)
            if not any((one.line, one.field) == (place.line, place.field) for one in own):
                yield found("NW801", place, problem.message, fix=problem.advice)
        else:
            yield from self._exact_findings(topology)

    def _exact_findings(self, topology: NodeTopology) -> Iterator[Finding]:
        """What is wrong with the exact state (rule 4)."""
        place = _place(self.root.at("attributes"))
        try:
            publication = publication_in(topology, self.root.document.file)
            if publication is None:
                return
            amounts = zone_amounts(published_node(publication))
        except InputError as problem:
            what = f"{problem.field}: {problem.message}" if problem.field else problem.message
            yield found("NW810", place, what, fix=problem.advice)
            return
        if publication.node != self.name:
            message = f"the object is of {quoted(self.name)}, its exact state of {quoted(publication.node)}"
            yield found("NW811", place, message)
        for numa, own in sorted(amounts.items()):
            for which in ("allocatable", "available"):
                shown = getattr(topology, which).get(numa, {})
                mine = {name: getattr(one, which) for name, one in own.items()}
                names = sorted(name for name in {*shown, *mine} if shown.get(name, 0) != mine.get(name, 0))
                if names:
                    each = [
                        f"{shown.get(name, 0)} {name}, by the state {mine.get(name, 0)}" for name in names
                    ]
                    message = f"node-{numa}: {which} is {'; '.join(each)}"
                    yield found("NW811", _place(self.root.at("zones")), message)

    def _zones(self) -> list[tuple[Part, str]]:
        """The zones of type Node with their names."""
        zones = [zone for zone in _members(self.root.at("zones")) if zone.at("type").value == "Node"]
        return [(zone, str(zone.at("name").value or "")) for zone in zones]

    # --- resources ----------------------------------------------------------------------------

    def _resource_findings(self, amounts: Mapping[str, Mapping[str, int]]) -> Iterator[Finding]:
        every = sorted({name for own in amounts.values() for name in own})
        place = _place(self.root.at("zones"))
        for name, amount in self._offered().items():
            if name not in every:
                severity = None if is_accelerator(name) else Severity.INFO
                what = f"the node has {amount} of {name}, and no zone has it"
                yield found("NW804", place, what, severity=severity)
        if every == [CPU] and self.description is None:
            what = "the zones have cpu and nothing else, neither memory nor devices"
            yield found("NW804", place, what, severity=Severity.INFO)
        for name in every:
            without = [zone for zone, own in amounts.items() if name not in own]
            if without and name != CPU:
                some = [zone for zone in amounts if zone not in without]
                have = "have" if len(some) > 1 else "has"
                message = (
                    f"{both(some)} {have} {name}, {both(without)} {'do' if len(without) > 1 else 'does'} not"
                )
                yield found("NW805", place, message)

    def _offered(self) -> dict[str, int]:
        """Devices that the Node object has, with their number (rule 5)."""
        if self.description is None or (self.description.name and self.description.name != self.name):
            return {}
        amounts = self.description.allocatable.items()
        return {name: amount for name, amount in amounts if amount and "/" in name}

    # --- policy -------------------------------------------------------------------------------

    def _policy_findings(self) -> Iterator[Finding]:
        policies = published_policies(self.root)
        attributes = self.root.at("attributes")
        place = _place(attributes if attributes.value is not None else self.root)
        listed = _place(self.root.at("topologyPolicies"))
        if policies.written and not policies.attribute:
            message = f"{POLICY_ATTRIBUTE} is {quoted(policies.written)}, which no kubelet has as a policy"
            yield found("NW806", place, message)
        elif not policies.attribute and not policies.listed[0]:
            yield found("NW806", place, f"there is no attribute {POLICY_ATTRIBUTE}")
        elif not policies.attribute:
            message = f"the policy is in topologyPolicies alone: {_pair(*policies.listed)}"
            fix = f"{POLICY_ATTRIBUTE}: {policies.listed[0]}, {SCOPE_ATTRIBUTE}: {policies.listed[1]}"
            yield found("NW807", listed, message, fix=f"publish the attributes {fix}")
        elif policies.listed[0] and not policies.agree:
            message = f"topologyPolicies has {_pair(*policies.listed)}, "
            message += f"the attributes have {_pair(policies.attribute, policies.scope)}"
            yield found("NW807", listed, message, severity=Severity.WARNING)
        policy, scope = policies.policy, policies.scope
        for configuration in self.configurations if policy else ():
            yield from _against(configuration, policy, scope, self.name or KIND, place)


def topology_findings(
    documents: Iterable[Document],
    description: NodeDescription | None,
    configurations: Sequence[Configuration],
) -> Iterator[Finding]:
    """What is wrong with the objects of the documents (rule 1); only one of them has these configurations."""
    roots = [root for document in documents for root in topologies_of(document.root)]
    for root in roots:
        node = PublishedNode(root, description, configurations if len(roots) == 1 else ())
        yield from node.findings()


def _against(
    configuration: Configuration, policy: str, scope: str, name: str, place: Place
) -> Iterator[Finding]:
    raw: Mapping[str, Any] = configuration.raw
    if configuration.partial and "topologyManagerPolicy" not in raw:
        return
    own = raw.get("topologyManagerPolicy") or NONE
    own_scope = raw.get("topologyManagerScope") or CONTAINER_SCOPE
    if own != policy or (own_scope != scope and policy != NONE):
        message = f"{name} publishes {_pair(policy, scope)}, {configuration.name} has {_pair(own, own_scope)}"
        yield found("NW809", place, message)


def _pair(policy: object, scope: object) -> str:
    return f"{policy} with scope {scope}"


# --- zones ------------------------------------------------------------------------------------


def _zone_findings(zones: Iterable[tuple[Part, str]]) -> Iterator[Finding]:
    for zone, name in zones:
        if name and not ZONE.fullmatch(name):
            message = f"a zone of type Node is named {quoted(name)}, so which NUMA node it is is not known"
            yield found("NW801", _place(zone.at("name")), message)


def _amounts(zone: Part) -> dict[str, int]:
    """Resources of a zone that it has some of, with their capacity in billionths."""
    amounts: dict[str, int] = {}
    for resource in _members(zone.at("resources")):
        name, amount = resource.at("name").value, _nano(resource.at("capacity"))
        if isinstance(name, str) and amount:
            amounts[name] = amount
    return amounts


def _amount_findings(zone: Part) -> Iterator[Finding]:
    for resource in _members(zone.at("resources")):
        title = f"{zone.at('name').value}: {resource.at('name').value}"
        before: tuple[str, int] | None = None
        for size in SIZES:
            part = resource.at(size)
            amount = _nano(part)
            if amount is None or amount < 0 or (size == SIZES[0] and amount % NANO):
                value = "is missing" if part.value is None else f"is {quoted(part.value)}"
                what = f"{title}: {size} {value}" + (", below zero" if (amount or 0) < 0 else "")
                yield found("NW802", _place(part if part.value is not None else resource), what)
                continue
            if before is not None and amount > before[1]:
                message = f"{title}: {size} is {part.value}, {before[0]} is {resource.at(before[0]).value}"
                yield found("NW803", _place(part), f"{message}: {MEANING[size]}")
            before = size, amount


def _cost_findings(zones: Mapping[str, Part]) -> Iterator[Finding]:
    names = set(zones)
    rows = {name: _members(zone.at("costs")) for name, zone in zones.items()}
    if not any(rows.values()):
        return
    for name, zone in zones.items():
        place = _place(zone.at("costs") if rows[name] else zone)
        costs = {str(one.at("name").value): one.at("value").value for one in rows[name]}
        strange = [one for one in costs if one not in names]
        absent = sorted(names - costs.keys())
        bad = [one for one, cost in costs.items() if not isinstance(cost, int) or cost < 0]
        if absent:
            yield found("NW808", place, f"{name} has no cost to {both(absent)}")
        if strange:
            yield found("NW808", place, f"{name} has a cost to {both(strange)}, which is not a zone")
        if bad:
            yield found("NW808", place, f"{name}: the cost to {both(bad)} is not a distance")
        numbers = {one: cost for one, cost in costs.items() if isinstance(cost, int) and one in names}
        nearer = [one for one, cost in numbers.items() if name in numbers and cost < numbers[name]]
        if nearer and not bad:
            yield found("NW808", place, f"{name} is nearer to {both(nearer)} than to itself")


def _members(part: Part) -> list[Part]:
    """The members of a list; none where it is something else, which the reader refuses."""
    return part.items() if isinstance(part.value, list) else []


def _nano(part: Part) -> int | None:
    """An amount in billionths; None: it is not an amount."""
    try:
        return Quantity.parse(str(part.value)).nano if isinstance(part.value, str | int) else None
    except ValueError:
        return None


def _place(part: Part) -> Place:
    return Place(part.document.file, part.document.line(part.steps), field_name(part.steps))

"""Claims of dynamic resource allocation as values: what a pod claims, and which devices it was allocated.

Rules kept here:

1. The scheduler chooses the devices of a claim, and their driver prepares them.  Of the kubelet's managers
   none reads it: it gives the Topology Manager no hints.
2. The NUMA node of a device is what its driver publishes: ``resource.kubernetes.io/numaNode`` (named since
   1.37), or an attribute of the driver's own such as ``dra.cpu/numaNodeID``.  Of a list the first is the
   device's own node.
3. ``matchAttribute`` makes devices of one claim agree on an attribute, and touches nothing outside the claim.
"""

from numawise.values import dataclass

STANDARD = "resource.kubernetes.io/"
NUMA_NODE, PCIE_ROOT = f"{STANDARD}numaNode", f"{STANDARD}pcieRoot"
NUMA_NAMES = frozenset({"numanode", "numanodeid", "numa"})
"""What drivers call the attribute, in small letters and without their domain."""
CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""Before the name of a DeviceClass: the extended resource that stands for it."""


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """A device that a claim was allocated."""

    request: str
    """The request of the claim that it serves."""
    driver: str
    pool: str
    name: str
    numa: int | None = None
    """Its NUMA node; None: not known."""
    pcie_root: str = ""
    """Such as ``pci0000:40``; '' when it is not known."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a claim asks for."""

    name: str
    device_class: str
    count: int = 1
    every: bool = False
    """All devices that match, however many."""


@dataclass(frozen=True, slots=True)
class MatchConstraint:
    """Devices that must agree on an attribute."""

    attribute: str
    requests: tuple[str, ...] = ()
    """Of these requests; empty: of all."""

    def covers(self, request: str) -> bool:
        """True when devices of a request, or of one of its alternatives, must agree."""
        return not self.requests or request in self.requests or request.partition("/")[0] in self.requests


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One claim of a pod."""

    name: str
    """By which the pod's containers call it; '' for the claim that backs extended resources."""
    claim: str = ""
    """The ResourceClaim; '' when it is made of a template and its name is not known."""
    template: str = ""
    """The ResourceClaimTemplate that it is made of."""
    containers: tuple[str, ...] = ()
    """Those that use it."""
    resources: tuple[str, ...] = ()
    """Extended resources that it backs."""
    known: bool = False
    """The object was given, so that what follows is complete."""
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[MatchConstraint, ...] = ()
    apart: tuple[str, ...] = ()
    """Attributes in which devices must differ."""
    constrained: str = ""
    """Its object with a constraint more, whose attribute is still to be named; '' when there is none."""
    unconstrained: str = ""
    """Why there is none."""
    devices: tuple[ClaimedDevice, ...] = ()
    """Empty: not allocated, or not known."""
    numa_attribute: str = ""
    """What the drivers of its devices call the NUMA node, where ResourceSlices say; '' for none."""

    @property
    def numa(self) -> int:
        """The NUMA nodes of its devices, packed, as far as they are known."""
        mask = 0
        for device in self.devices:
            if device.numa is not None and device.numa >= 0:
                mask |= 1 << device.numa
        return mask

    @property
    def placed(self) -> bool:
        """True when the NUMA node of every device is known."""
        return bool(self.devices) and all(device.numa is not None for device in self.devices)

    @property
    def together(self) -> str:
        """The attribute that keeps all its devices on one NUMA node, such as ``pcieRoot``; '' for none."""
        for constraint in self.constraints:
            near = constraint.attribute == PCIE_ROOT or is_numa(constraint.attribute)
            if near and all(constraint.covers(one.name) for one in self.requests):
                return constraint.attribute
        return ""

    def contradicts(self, attribute: str) -> str:
        """Why its devices can not all agree on an attribute; '' when nothing is known against it."""
        for other in self.apart:
            if other == attribute or (is_numa(other) and (is_numa(attribute) or attribute == PCIE_ROOT)):
                return f"its distinctAttribute {other} wants them apart"
        every = next((one.name for one in self.requests if one.every), "")
        return f"its request {every} takes all devices there are" if every else ""

    @property
    def count(self) -> int:
        """How many devices it asks for at least."""
        names = {one.name.partition("/")[0]: one.count for one in self.requests}
        return sum(names.values())


def is_numa(attribute: str) -> bool:
    """True for an attribute that names the NUMA node of a device."""
    return attribute.rpartition("/")[2].lower() in NUMA_NAMES

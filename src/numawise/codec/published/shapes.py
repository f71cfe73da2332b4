"""What live pods ask for, as far as sums and later decisions need it.

Rules kept here:

1. Pods that ask for the same share one entry, a *shape*; a pod names it by its place in the list.
2. A shape has no names of pods or namespaces, and nothing that only its own admission looked at: labels,
   tolerations, kernel parameters, claims.  Host ports, priority and where the pod comes from are in it,
   because later pods are compared with them.  A pod that runs puts up with the taints of its node, or
   it would have been ended.
3. An amount is the canonical text; where that would be read differently, it is written out in full.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated

import msgspec

from numawise.errors import quoted
from numawise.machine.description import NO_EXECUTE
from numawise.quantity import BINARY, DECIMAL, SCIENTIFIC, Quantity
from numawise.request.constraints import ANY_ADDRESS, TCP, HostPort, PodConstraints, Toleration
from numawise.request.model import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    Amounts,
    ContainerRequest,
    PodRequest,
    Role,
)

CLASSES = (GUARANTEED, BURSTABLE, BEST_EFFORT)
STYLES = (DECIMAL, BINARY, SCIENTIFIC)
LONGEST_NANO = 40
MOST_CONTAINERS = 1000
RUNS = (Toleration(operator="Exists", effect=NO_EXECUTE),)
"""What a pod tolerates that runs (rule 2)."""
SHORT = 8
"""Of a uid, in the name of a pod whose name is not known."""
Amount = str | tuple[str, str, bool]
"""A quantity, or (rule 3) its billionths, its style, and whether it was read as an exact integer."""
Port = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
Priority = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]


class PublishedContainer(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What one container asks for."""

    name: str
    role: str = Role.APP.value
    requests: dict[str, Amount] = {}
    limits: dict[str, Amount] | None = None
    """None: as requested."""
    restarts_for: list[str] = []
    claimed: list[str] = []


class PublishedPort(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A port of the node."""

    port: Port
    protocol: str = TCP
    address: str = ANY_ADDRESS
    sidecar: bool = False


class PublishedShape(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What one pod asks for."""

    qos: str
    containers: list[PublishedContainer]
    requests: dict[str, Amount] | None = None
    limits: dict[str, Amount] | None = None
    overhead: dict[str, Amount] = {}
    ports: list[PublishedPort] = []
    priority: Priority | None = None
    static: bool = False
    mirror: bool = False


class ShapeList:
    """The shapes of a publication, each once (rule 1)."""

    def __init__(self) -> None:
        self.shapes: list[PublishedShape] = []
        self._places: dict[bytes, int] = {}

    def place(self, pod: PodRequest) -> int:
        """Where the shape of a pod stands."""
        shape = _shape(pod)
        key = msgspec.json.encode(shape)
        if key not in self._places:
            self._places[key] = len(self.shapes)
            self.shapes.append(shape)
        return self._places[key]


def _shape(pod: PodRequest) -> PublishedShape:
    constraints = pod.constraints
    return PublishedShape(
        qos=pod.qos,
        containers=[_container(one) for one in pod.containers],
        requests=None if pod.requests is None else _amounts(pod.requests),
        limits=None if pod.limits is None else _amounts(pod.limits),
        overhead=_amounts(pod.overhead),
        ports=[
            PublishedPort(port.port, port.protocol, port.address, port.sidecar) for port in constraints.ports
        ],
        priority=constraints.priority,
        static=constraints.static,
        mirror=constraints.mirror,
    )


def _container(one: ContainerRequest) -> PublishedContainer:
    requests, limits = _amounts(one.requests), _amounts(one.limits)
    return PublishedContainer(
        name=one.name,
        role=one.role.value,
        requests=requests,
        limits=None if list(limits.items()) == list(requests.items()) else limits,
        restarts_for=sorted(one.restarts_for),
        claimed=sorted(one.claimed),
    )


def _amounts(amounts: Amounts) -> dict[str, Amount]:
    return {name: _amount(size) for name, size in amounts.items()}


@lru_cache(maxsize=4096)
def _amount(size: Quantity) -> Amount:
    text = str(size)
    try:
        if Quantity.parse(text) == size:
            return text
    except ValueError:
        pass
    return str(size.nano), size.style, size.exact


# --- reading --------------------------------------------------------------------------------


class PodShapes:
    """Shapes that were read, made into requests of pods."""

    def __init__(self, shapes: Sequence[PublishedShape]) -> None:
        self._made = [_read_shape(shape) for shape in shapes]

    def pod(self, place: int, uid: str) -> PodRequest:
        """The request of one pod; ``ValueError``: there is no such shape."""
        if not 0 <= place < len(self._made):
            raise ValueError(f"there is no shape {place}")
        qos, containers, requests, limits, overhead, constraints = self._made[place]
        return PodRequest(
            uid=uid,
            name=f"pod-{uid[:SHORT]}",
            qos=qos,
            containers=containers,
            requests=requests,
            limits=limits,
            overhead=overhead,
            constraints=constraints,
        )


Made = tuple[str, tuple[ContainerRequest, ...], Amounts | None, Amounts | None, Amounts, PodConstraints]


def _read_shape(shape: PublishedShape) -> Made:
    if shape.qos not in CLASSES:
        raise ValueError(f"{quoted(shape.qos)} is not a QoS class")
    names = {one.name for one in shape.containers}
    if len(names) != len(shape.containers) or len(names) > MOST_CONTAINERS:
        raise ValueError("a pod has two containers of one name, or too many")
    ports = tuple(HostPort(one.port, one.protocol, one.address, one.sidecar) for one in shape.ports)
    constraints = PodConstraints(
        tolerations=RUNS, ports=ports, priority=shape.priority, static=shape.static, mirror=shape.mirror
    )
    return (
        shape.qos,
        tuple(_read_container(one) for one in shape.containers),
        None if shape.requests is None else _read_amounts(shape.requests),
        None if shape.limits is None else _read_amounts(shape.limits),
        _read_amounts(shape.overhead),
        constraints,
    )


def _read_container(one: PublishedContainer) -> ContainerRequest:
    requests = _read_amounts(one.requests)
    return ContainerRequest(
        name=one.name,
        role=Role(one.role),
        requests=requests,
        limits=dict(requests) if one.limits is None else _read_amounts(one.limits),
        restarts_for=frozenset(one.restarts_for),
        claimed=frozenset(one.claimed),
    )


def _read_amounts(amounts: Mapping[str, Amount]) -> dict[str, Quantity]:
    return {name: _read_amount(size) for name, size in amounts.items()}


@lru_cache(maxsize=4096)
def _read_amount(size: Amount) -> Quantity:
    if isinstance(size, str):
        return Quantity.parse(size)
    nano, style, exact = size
    digits = nano.removeprefix("-")
    if style not in STYLES or len(nano) > LONGEST_NANO or not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"{quoted(nano)} is not an amount in billionths")
    return Quantity(int(nano), style, exact)

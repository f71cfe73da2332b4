"""What the agent is to offer: resources, which devices they have, and how containers are told of them."""

import re

from numawise.gpus.nvidia_plugin import PluginConfig
from numawise.values import dataclass, field

UUID, INDEX = "uuid", "index"
IGNORED_XIDS = (13, 31, 43, 45, 68, 109)
"""Xids that a program causes, not the GPU; NVIDIA's plugin passes over the same ones."""


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """How a container is told its devices."""

    env: str = ""
    """Variable that has their ids, with commas; '': none."""
    ids: str = UUID
    """Of NVIDIA's GPUs: ``uuid`` or ``index``."""
    listed_below: str = ""
    """Folder in the container with an entry for each device, which the variable names then."""
    cdi_kind: str = ""
    """Kind of the CDI names, such as ``nvidia.com/gpu``; '': none."""
    cdi_field: bool = True
    """The CDI names, where there are any, go into the field of the answer, not into annotations alone."""
    cdi_annotations: str = ""
    """Prefix of annotations that have the names; '': none."""
    own_nodes: bool = False
    """The device files of each device."""
    nodes: tuple[str, ...] = ()
    """Device files for every container that has such a device."""
    dev_root: str = ""
    """Where on the host the device files lie, when not at /."""


@dataclass(frozen=True, slots=True)
class PciMatch:
    """Which PCI functions; '' and empty: any."""

    vendor: int | None = None
    devices: tuple[int, ...] = ()
    class_digits: str = ""
    """The first digits of the class, in hexadecimal."""
    driver: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """One resource, and which devices it has."""

    name: str
    answer: AnswerForm
    pci: PciMatch | None = None
    paths: tuple[str, ...] = ()
    """Paths with wildcards."""
    nvidia: PluginConfig | None = None
    fails_without: bool = True
    """Of NVIDIA: no driver is an error."""
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class FakeDevice:
    """A made-up device."""

    resource: str
    id: str
    numa: tuple[int, ...] = ()
    healthy: bool = True
    env: str = ""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What the agent offers."""

    resources: tuple[ResourceRule, ...] = ()
    ignored_xids: frozenset[int] = frozenset(IGNORED_XIDS)
    remarks: tuple[str, ...] = field(default=(), compare=False)
    """Fields that are not acted on, a sentence each."""


def variable_of(resource: str) -> str:
    """The variable for a resource, where none is named: ``example.com/nic`` is ``EXAMPLE_COM_NIC``."""
    return re.sub(r"[^A-Z0-9]", "_", resource.upper())

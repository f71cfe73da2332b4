"""What was found of a node, names and all."""

from collections.abc import Mapping
from typing import Any

from numawise.codec.document import Part
from numawise.codec.podresources import PodResources
from numawise.inputs.gathered import KubeletParts, Notes
from numawise.machine.hardware import Hardware
from numawise.machine.model import Machine
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class Collected:
    """Everything about a node, names and all."""

    hardware: Hardware
    machine: Machine | None
    parts: KubeletParts
    configz: Mapping[str, Any] | None
    state: Mapping[str, str]
    """State file → text."""
    pods: tuple[Part, ...]
    node: str
    machine_id: str
    versions: Mapping[str, str]
    notes: Notes
    all_pods: bool = False
    """``pods`` has every pod of the node."""
    node_object: Mapping[str, Any] | None = None
    answers: PodResources | None = None
    """What the kubelet's PodResources socket answered."""

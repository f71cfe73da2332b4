"""What a request asks of a check, and of a plan for a node."""

from typing import Annotated, Literal

import msgspec

from numawise.codec.web.body import WebBody
from numawise.codec.web.given import Files, NodeGiven, Release, Words

MOST_CPUS = 1 << 16

Size = Annotated[str, msgspec.Meta(max_length=40)]
Pages = Annotated[tuple[Size, ...], msgspec.Meta(max_length=8)]
Cpus = Annotated[int, msgspec.Meta(ge=1, le=MOST_CPUS)]


class CheckAsked(WebBody, frozen=True):
    """Files to be checked together."""

    files: Files
    """Configurations, flags, pods, state files, a machine, a bundle; each known by its content."""
    machine: Words = ""
    """A name of the catalogue, or a description such as ``2s 4n 64c 8gpu``; never a path."""
    served: bool = False
    """Judge them on the machine of the node that is served."""
    release: Release = ""
    fix: bool = False
    """Apply every correction that is certain and proves right, and report what is left."""


class PlanAsked(WebBody, frozen=True):
    """A configuration to be suggested for a node."""

    node: NodeGiven
    goal: Literal["training", "inference", "latency"] = "training"
    reserve_cpus: Cpus | None = None
    """CPUs to keep for the system; null: as many as seem right."""
    reserve_memory: Size = ""
    """Memory to keep for the system, such as ``8Gi``."""
    hugepages: Pages = ()
    """Pages on every NUMA node, such as ``1Gi=16``."""
    alpha: bool = False
    """Options may be used that are alpha in the release."""

"""What a request gives of a cluster: dumps of kubectl, and shapes of pods."""

from typing import Annotated

import msgspec

from numawise.codec.web.body import WebBody
from numawise.codec.web.given import Files, Text, Words

MOST_SHAPES, LARGEST_MOST = 50, 10_000


class DumpGiven(WebBody, frozen=True):
    """Nodes, pods and NodeResourceTopologies, as ``kubectl get -o json`` or ``-o yaml`` prints them."""

    files: Files


class CapacityAsked(WebBody, frozen=True):
    """Shapes to be counted; without any, those seen most often."""

    of: Annotated[str, msgspec.Meta(max_length=80)] = ""
    """Which cluster: the id of a dump, or ``example``; '': the one that is served."""
    shapes: Annotated[tuple[Words, ...], msgspec.Meta(max_length=MOST_SHAPES)] = ()
    """Such as ``cpu=4,memory=8Gi,nvidia.com/gpu=1``."""
    pods: Text = ""
    """Pods or workloads, as YAML or JSON."""
    most: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_MOST)] = 64
    """Counting stops on a node at so many."""

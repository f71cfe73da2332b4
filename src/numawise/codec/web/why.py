"""What a request asks about a decision: a node, pods, and which of them."""

from typing import Annotated

import msgspec

from numawise.codec.web.body import WebBody
from numawise.codec.web.drawn import Width
from numawise.codec.web.given import Files, NodeGiven, Text

Number = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
Name = Annotated[str, msgspec.Meta(max_length=600)]


class WhyAsked(WebBody, frozen=True):
    """Why a pod is refused or admitted."""

    node: NodeGiven = NodeGiven()
    """Without anything named: the node that is served."""
    files: Files = ()
    """Pods, a bundle, a kubelet's log, parts of a node; each is known by its content."""
    text: Text = ""
    """A pod, or what kubectl prints about one, as text."""
    pod: Name = ""
    """The pod to explain in full, by name, namespace and name, or uid."""
    number: Number | None = None
    """Likewise by its number in the list of the answer."""
    width: Width = 1000
    """Pixels that the maps may take."""


class WhyTried(WhyAsked, frozen=True):
    """A suggestion to be tried."""

    suggestion: Number = 0
    """Its number, from 0."""

"""Bodies of calls that draw a machine."""

from typing import Annotated

import msgspec

from numawise.codec.web.body import WebBody
from numawise.codec.web.given import NodeGiven

NARROWEST, WIDEST, USUAL = 240, 4096, 1240

Width = Annotated[int, msgspec.Meta(ge=NARROWEST, le=WIDEST)]
"""Pixels that a map may be wide."""


class MapGiven(WebBody, frozen=True):
    """A node to be drawn."""

    node: NodeGiven
    width: Width = USUAL
    """Pixels that the drawing may be wide."""

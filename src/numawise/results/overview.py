"""What a web server shows: the document that its page begins with."""

from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class ServerOverview:
    """What there is to see, and what may be done."""

    version: str
    node: bool
    """A node is served: its map, its pods, what it would do."""
    node_name: str
    node_words: str
    """What the node was read from, in one line."""
    host: bool
    """This host's jobs are shown."""
    cluster: bool
    """A cluster's nodes are shown."""
    first: str
    """The view that the page opens with: ``map``, or ``cluster`` where that is what was asked for."""
    allow_changes: bool
    releases: tuple[str, ...]
    """Kubernetes releases that are known, the newest first."""
    release: str
    """The default of all calls."""
    remarks: tuple[str, ...] = ()
    """What was assumed about the node."""

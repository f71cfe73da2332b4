"""All nodes of a cluster in short rows, asked for again and again.

Rules kept here:

1. A row says what ``numawise nodes`` says of the node, in the numbers that a small map needs; the first
   sentence is that command's, too.
2. Rows have a version.  Whoever knows one asks for what is newer, and is given all names, so that what is
   gone shows.  A version of another board counts for nothing.
3. Whoever follows the cluster holds ``lock`` while it changes; here it is held while the nodes are looked at.
"""

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from numawise.cluster.live import LiveCluster
from numawise.cluster.live_places import Lock
from numawise.cluster.node_rooms import NodeBoard
from numawise.inputs.cluster import chosen_nodes
from numawise.machine.description import NodeDescription
from numawise.render.nodes import device_resources, holes_by_unit, nodes_summary, policy_text
from numawise.request.model import CPU, MEMORY
from numawise.results.cluster_board import (
    BoardSource,
    ClusterBoardForm,
    HolesTotal,
    KnownCount,
    LabelValues,
    NodeRow,
    ResourceTotal,
)
from numawise.results.node_room import UNKNOWN, NodeRoom, NodesReport
from numawise.strconv import whole_number
from numawise.values import replace

MOST_VALUES = 24
"""A label with more values tells no groups apart."""
MOST_LABELS = 40
HOSTNAME = "kubernetes.io/hostname"


class ClusterBoard:
    """The nodes of one cluster; several threads may ask."""

    def __init__(
        self,
        view: LiveCluster,
        clock: Callable[[], float],
        *,
        lock: Lock | None = None,
        given: bool = False,
        remarks: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.view, self.clock, self.remarks = view, clock, remarks
        self.lock: Lock = lock if lock is not None else threading.RLock()
        self._nodes = NodeBoard(view, given=given)
        self._own = secrets.token_hex(4)
        self._version = 0
        self._columns: tuple[str, ...] = ()
        self._rows: dict[str, tuple[NodeRoom, NodeRow, int]] = {}
        """Each node as it was last seen, and since which version."""
        self._labels: tuple[list[NodeDescription | None], tuple[LabelValues, ...]] = ([], ())
        """What nodes said of themselves, and the labels that came of it."""

    def answer(
        self, source: BoardSource, selector: str = "", since: str = "", field: str = "selector"
    ) -> ClusterBoardForm:
        """The nodes with these labels, or those of them that changed (rule 2)."""
        with self.lock:
            names = chosen_nodes(self.view, selector, field)
            report = self._nodes.report(names, self.clock())
            report = replace(report, remarks=tuple(self.remarks()))
            labels = self._label_values()
            waiting = len(self.view.waiting)
            rows = self._taken(report)
            columns = self._columns
            known = self._number(since)
            newer = [row for row, version in rows if version > known]
            version = f"{self._own}-{self._version}"
        return ClusterBoardForm(
            source,
            version,
            changed=known > 0,
            summary=nodes_summary(report),
            resources=columns,
            names=tuple(row.name for row, _ in rows),
            rows=tuple(newer),
            shapes=report.shapes,
            totals=_totals(columns, [row for row, _ in rows]),
            holes=_holes(report.nodes),
            known=_known(report.nodes),
            labels=labels,
            waiting=waiting,
            remarks=report.remarks,
        )

    def room(self, name: str) -> NodeRoom:
        """One node that is there."""
        with self.lock:
            return self._nodes.report((name,), self.clock()).nodes[0]

    def _number(self, since: str) -> int:
        """The version that somebody knows; 0: none of this board."""
        own, dash, number = since.partition("-")
        if own != self._own or not dash or not number.isascii() or not number.isdecimal():
            return 0
        known = whole_number(number[:18])
        return known if known <= self._version else 0

    def _taken(self, report: NodesReport) -> list[tuple[NodeRow, int]]:
        """Rows of the nodes with the version since which they are so; the numbers of versions go on."""
        columns = (CPU, MEMORY, *device_resources(report))
        if not set(columns) <= set(self._columns):  # a board of some nodes has the columns of all
            self._columns = tuple(dict.fromkeys((*self._columns, *columns)))
            self._rows.clear()
        rows, newest = [], self._version + 1
        for room in report.nodes:
            known = self._rows.get(room.name)
            if known is None or known[0] is not room:
                described = self.view.views[room.name].description
                row = node_row(room, self._columns, described, shapes=bool(report.shapes))
                version = known[2] if known is not None and known[1] == row else newest
                known = self._rows[room.name] = room, row, version
                self._version = max(self._version, version)
            rows.append(known[1:])
        if len(self._rows) > len(self.view.views):
            self._rows = {name: known for name, known in self._rows.items() if name in self.view.views}
        return rows

    def _label_values(self) -> tuple[LabelValues, ...]:
        described = [view.description for view in self.view.views.values()]
        if described != self._labels[0]:
            self._labels = described, label_values(described)
        return self._labels[1]


def node_row(
    room: NodeRoom, columns: Sequence[str], described: NodeDescription | None, *, shapes: bool
) -> NodeRow:
    """A node in few numbers (rule 1); ``shapes``: there are some that were tried on it."""
    free = room.free.get(room.unit, 0)
    return NodeRow(
        name=room.name,
        known=room.known,
        policy=policy_text(room),
        numa=tuple(one.numa for one in room.numa),
        free=tuple(tuple(map(one.free.get, columns)) for one in room.numa),
        size=tuple(tuple(map(one.allocatable.get, columns)) for one in room.numa),
        left=tuple(map(room.free.get, columns)),
        whole=tuple(map(room.allocatable.get, columns)),
        pods=room.pods,
        fits=room.fits if shapes and room.known != UNKNOWN else None,
        places=room.places,
        more=room.more,
        largest=room.largest,
        unit=room.unit,
        holes=room.holes,
        fragmented=round(room.holes / free, 4) if room.holes is not None and free else None,
        cordoned=described is not None and described.unschedulable,
        ready=described is None or described.ready,
        notes=room.notes,
    )


def label_values(described: Sequence[NodeDescription | None]) -> tuple[LabelValues, ...]:
    """Labels that divide the nodes into a few groups; those with the fewest groups first."""
    values: dict[str, set[str]] = {}
    count = 0
    for description in described:
        if description is None:
            continue
        count += 1
        for key, value in description.labels.items():
            own = values.setdefault(key, set())
            if len(own) <= MOST_VALUES:
                own.add(value)
    bearing = Counter(key for one in described if one is not None for key in one.labels)
    telling = [
        LabelValues(key, tuple(sorted(own)))
        for key, own in values.items()
        if key != HOSTNAME and len(own) <= MOST_VALUES and (len(own) > 1 or bearing[key] < count)
    ]
    telling.sort(key=lambda one: (len(one.values), one.key))
    return tuple(telling[:MOST_LABELS])


def _totals(columns: Sequence[str], rows: Sequence[NodeRow]) -> tuple[ResourceTotal, ...]:
    return tuple(
        ResourceTotal(
            resource, sum(row.left[at] or 0 for row in rows), sum(row.whole[at] or 0 for row in rows)
        )
        for at, resource in enumerate(columns)
    )


def _holes(nodes: Sequence[NodeRoom]) -> tuple[HolesTotal, ...]:
    return tuple(HolesTotal(unit, *amounts) for unit, amounts in holes_by_unit(nodes).items())


def _known(nodes: Sequence[NodeRoom]) -> tuple[KnownCount, ...]:
    kinds: Mapping[str, int] = Counter(node.known for node in nodes)
    return tuple(KnownCount(kind, kinds[kind]) for kind in sorted(kinds))

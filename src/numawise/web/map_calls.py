"""The map: the node or host that is served, or any machine that is named; and the catalogue."""

from numawise.apps.machine.node_map import node_map
from numawise.codec.web.drawn import USUAL, MapGiven
from numawise.errors import HostError, InputError, LedgerError
from numawise.inputs.machine import THIS
from numawise.inputs.spec import NodeSpec
from numawise.machine.catalog import CATALOG
from numawise.render.held_map import MapSource, map_data, map_of_holds, with_jobs
from numawise.results.machine_map import CatalogueList, CatalogueMachine, MapForm
from numawise.results.plain import document
from numawise.values import replace
from numawise.web.desk import MAP, Desk
from numawise.web.operations import GET, POST, WIDTH, Asked, Operation

PART = "map"


def served_map(desk: Desk) -> MapSource:
    """What is served: a node by its kubelet, this host by its jobs, or both."""
    served = desk.served
    if served.spec is None:
        raise InputError("no node is served here", advice="name a machine, or drop files")
    if served.kubelet is None and served.spec == NodeSpec(machine=(THIS,)):
        return _host(desk)
    node = node_map(desk.served_node())
    if not served.host:
        return node
    try:
        return with_jobs(node, _host(desk))
    except (LedgerError, HostError) as problem:  # the pods can be drawn all the same
        return replace(node, notices=(*node.notices, f"jobs are not shown: {problem}"))


def _host(desk: Desk) -> MapSource:
    with desk.box.holdings() as holdings:
        live = holdings.live()
        return map_of_holds(holdings.capacity, live, (*holdings.place.warnings, *holdings.silent))


def get_map(desk: Desk, asked: Asked) -> dict[str, object]:
    """The map of what is served."""
    return _document(map_data(served_map(desk), asked.query["width"] or USUAL))


def post_map(desk: Desk, asked: Asked) -> dict[str, object]:
    """The map of any node."""
    given: MapGiven = asked.body
    served = given.node.served and given.node == type(given.node)(served=True)
    source = served_map(desk) if served else node_map(desk.node(given.node))
    return _document(map_data(source, given.width))


def _document(form: MapForm) -> dict[str, object]:
    return document("Map", form)


def machines(_: Desk, __: Asked) -> CatalogueList:
    """The machines of the catalogue."""
    return CatalogueList(
        tuple(CatalogueMachine(name, entry.summary, entry.source) for name, entry in CATALOG.items())
    )


OPERATIONS = (
    Operation(
        GET,
        "/map",
        "servedMap",
        "The machine that is served and who holds what of it.",
        get_map,
        "Map",
        query=(WIDTH,),
        depends=(MAP,),
        part=PART,
    ),
    Operation(
        POST,
        "/map",
        "nodeMap",
        "Any machine, by name, words or files, and who holds what of it.",
        post_map,
        "Map",
        body=MapGiven,
        part=PART,
    ),
    Operation(
        GET,
        "/machines",
        "machines",
        "The machines of the catalogue.",
        machines,
        CatalogueList,
        depends=(),
        part=PART,
    ),
)

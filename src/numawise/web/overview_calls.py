"""What the page begins with: what is served, and what may be done."""

from numawise.errors import NumawiseError
from numawise.results.overview import ServerOverview
from numawise.rules.versions import DEFAULT, NEWEST, OLDEST, shown
from numawise.version import __version__
from numawise.web.desk import CLUSTER, MAP, Desk
from numawise.web.operations import GET, Asked, Operation
from numawise.web.page_words import all_said_here


def overview(desk: Desk, _: Asked) -> ServerOverview:
    """What there is to see."""
    served = desk.served
    name, words = "", ""
    remarks: tuple[str, ...] = ()
    if served.spec is not None:
        try:
            node = desk.served_node()
            name = node.name or (node.machine_input.name if node.machine_input else "")
            words = node.hardware.name or name
            remarks = all_said_here(node.remarks)
        except NumawiseError as problem:
            remarks = all_said_here((str(problem),))
    minors = range(NEWEST[1], OLDEST[1] - 1, -1)
    return ServerOverview(
        version=__version__,
        node=served.spec is not None,
        node_name=name,
        node_words=words,
        host=served.host,
        cluster=served.cluster,
        first=CLUSTER if served.cluster and not served.named else MAP,
        allow_changes=desk.allow_changes,
        releases=tuple(shown((NEWEST[0], minor)) for minor in minors),
        release=shown(DEFAULT),
        remarks=remarks,
    )


OPERATIONS = (
    Operation(
        GET,
        "/overview",
        "overview",
        "What this server shows, and what may be done with it.",
        overview,
        ServerOverview,
        depends=(MAP,),
    ),
)

"""The box: holds, those who wait and what has ended on this host, as ``ps``, ``top`` and ``history`` say it.

Rules kept here:

1. Whoever may end a hold on the command line may do it here: the user who runs the server its own, root any.
2. A hold and one who waits are named by their id alone; nothing else is touched.
"""

from collections.abc import Iterable
from typing import TypeVar

from numawise.apps.launch.box import MOST_ENDED, hold_history
from numawise.apps.launch.ending import put_out, release
from numawise.apps.launch.holds import Holdings
from numawise.codec.web.box import CancelGiven, ReleaseGiven
from numawise.errors import InputError, quoted
from numawise.ledger.record import ID
from numawise.results.forms_launch import BoxForm, EndedHereForm
from numawise.results.placement import Hold, Waiter
from numawise.results.plain import without_head
from numawise.web.desk import BOX, MAP, Desk
from numawise.web.operations import GET, POST, Asked, Operation, QueryField
from numawise.web.problems import WebProblem

PART = "box"
FRESH_SECONDS = 1.0
"""What is free and what is used changes without any change of the ledger."""
MOST = QueryField("most", "At most so many, the newest.", "integer", 1, 1000)
USER = QueryField("user", "Those of this user only.")
Row = TypeVar("Row", Hold, Waiter)


def get_box(desk: Desk, _: Asked) -> dict[str, object]:
    """Who holds what, what is free, who waits, and what of it the user may end."""
    _check(desk)
    return {**without_head(desk.box.holds()), "allowChanges": desk.allow_changes}


def get_history(desk: Desk, asked: Asked) -> dict[str, object]:
    """What has ended."""
    _check(desk)
    with desk.box.holdings() as holdings:
        return hold_history(holdings, asked.query["user"] or "", asked.query["most"] or MOST_ENDED)


def get_uses(desk: Desk, _: Asked) -> dict[str, object]:
    """What jobs use."""
    _check(desk)
    return desk.box.uses()


def release_hold(desk: Desk, asked: Asked) -> dict[str, object]:
    """Give a hold back, as ``numawise release`` does."""
    _check(desk)
    given: ReleaseGiven = asked.body
    if given.kill and given.term is not None:
        raise InputError(
            "kills, too, what has not ended in time", field="$.term", advice="give one of the two"
        )
    with desk.box.holdings() as holdings:
        hold = _named(holdings, holdings.ledger.holds(), asked.path["id"], "hold")
        problem = release(holdings, hold, kill=given.kill, force=given.force, term=given.term)
    if problem:
        raise WebProblem(409, problem.replace("--", ""))
    desk.changed(BOX, MAP)
    return {"id": hold.id, "text": f"{hold.name} ({hold.id}) released"}


def cancel(desk: Desk, asked: Asked) -> dict[str, object]:
    """Put one who waits out of the line, as ``numawise release`` does."""
    _check(desk)
    with desk.box.holdings() as holdings:
        waiter = _named(holdings, holdings.ledger.waiters(), asked.path["id"], "job that waits")
        put_out(holdings, waiter)
    desk.changed(BOX)
    return {"id": waiter.id, "text": f"{waiter.id} ({waiter.request}) waits no longer"}


def _check(desk: Desk) -> None:
    if not desk.served.host:
        raise WebProblem(404, "this server does not show its host", "start numawise serve on the host itself")


def _named(holdings: Holdings, rows: Iterable[Row], name: str, what: str) -> Row:
    """Rule 2; rule 1."""
    known = [row for row in rows if row.id == name]
    if not known or not ID.fullmatch(name):
        raise WebProblem(404, f"there is no {what} {quoted(name)}", "it may have ended meanwhile")
    own = [row for row in known if _may_end(holdings, row)]
    if not own:
        raise WebProblem(
            403, f"{name} belongs to {known[0].owner.user}", f"ask {known[0].owner.user}, or root"
        )
    return next((row for row in own if row.owner.uid == holdings.who.uid), own[0])


def _may_end(holdings: Holdings, row: Hold | Waiter) -> bool:
    return holdings.who.uid in (0, row.owner.uid)


OPERATIONS = (
    Operation(
        GET,
        "/box",
        "box",
        "Who holds what on this host, what is free and who waits.",
        get_box,
        BoxForm,
        depends=(BOX,),
        fresh=FRESH_SECONDS,
        part=PART,
    ),
    Operation(
        GET,
        "/box/history",
        "boxHistory",
        "Jobs that ended on this host, the newest first.",
        get_history,
        "HoldHistory",
        query=(MOST, USER),
        depends=(BOX,),
        part=PART,
    ),
    Operation(
        GET,
        "/box/use",
        "boxUse",
        "CPUs and memory that jobs use now.",
        get_uses,
        "HoldUses",
        depends=(),
        fresh=FRESH_SECONDS,
        part=PART,
    ),
    Operation(
        POST,
        "/box/holds/{id}/release",
        "releaseHold",
        "Give a hold back before its job ends, or end the job.",
        release_hold,
        EndedHereForm,
        body=ReleaseGiven,
        changes=True,
        part=PART,
    ),
    Operation(
        POST,
        "/box/queue/{id}/cancel",
        "cancelWaiter",
        "Put a job that waits for room out of the line.",
        cancel,
        EndedHereForm,
        body=CancelGiven,
        changes=True,
        part=PART,
    ),
)

"""Errors as ``application/problem+json`` (RFC 9457).

Rules kept here:

1. Every error has a status, a title, one sentence and what to do next; input that is wrong has the field of
   the request, or file and line of what was dropped.
2. A mistake of ours says that it is one and no more; the log has the rest.
"""

from http import HTTPStatus
from typing import NotRequired, TypedDict

from numawise.errors import ClusterError, HostError, InputError, KubeletRefused, LedgerError, NumawiseError

MEDIA = "application/problem+json"
OOPS = "numawise made a mistake; its log says more"
STATUSES: tuple[tuple[type[NumawiseError], int], ...] = (
    (KubeletRefused, 422),
    (InputError, 422),
    (HostError, 409),
    (LedgerError, 409),
    (ClusterError, 409),
)
"""Nothing here is the server's own failure: what it was asked cannot be done on this host or cluster now."""


class ProblemForm(TypedDict):
    """Why a call was not answered."""

    type: str
    title: str
    status: int
    detail: str
    """One sentence."""
    advice: NotRequired[str]
    """What to do."""
    field: NotRequired[str]
    """The member of the body, or the parameter, that is wrong."""
    file: NotRequired[str]
    """The dropped file that is wrong."""
    line: NotRequired[int]


class WebProblem(Exception):
    """A call that cannot be answered, for a reason of HTTP."""

    def __init__(self, status: int, detail: str, advice: str = "") -> None:
        super().__init__(detail)
        self.status, self.detail, self.advice = status, detail, advice


def problem_data(status: int, detail: str, advice: str = "") -> ProblemForm:
    """A problem of HTTP."""
    data: ProblemForm = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    if advice:
        data["advice"] = advice
    return data


def problem_of(error: Exception) -> ProblemForm:
    """What went wrong in a handler."""
    if isinstance(error, WebProblem):
        return problem_data(error.status, error.detail, error.advice)
    status = next((status for form, status in STATUSES if isinstance(error, form)), 500)
    if not isinstance(error, NumawiseError):
        return problem_data(500, OOPS, "report it, with the log")
    data = problem_data(status, error.message, error.advice)
    if isinstance(error, InputError):
        if error.field:
            data["field"] = error.field
        if error.file:
            data["file"] = error.file
        if error.line is not None:
            data["line"] = error.line
    return data

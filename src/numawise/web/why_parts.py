"""What answers about decisions have in common: an explanation, and what a suggestion leads to."""

from typing import cast

from numawise.explain.tried import TriedSuggestion
from numawise.machine.hardware import Hardware
from numawise.render.held_map import walk_devices
from numawise.results.explanation import Explanation, explanation_data, suggestion_data
from numawise.results.forms_why import ExplanationForm, SuggestionForm
from numawise.results.machine_map import MapForm
from numawise.results.why_page import TriedPage
from numawise.values import replace
from numawise.web.page_words import all_said_here


def explanation_said(found: Explanation) -> ExplanationForm:
    """An explanation in the words of the page."""
    return cast("ExplanationForm", explanation_data(replace(found, remarks=all_said_here(found.remarks))))


def tried_page(tried: TriedSuggestion, after: MapForm, hardware: Hardware) -> TriedPage:
    """What a suggestion leads to; ``after``: the map of the node then."""
    return TriedPage(
        suggestion=cast("SuggestionForm", suggestion_data(tried.suggestion)),
        explanation=explanation_said(tried.explanation) if tried.explanation is not None else None,
        after=after,
        drawn=walk_devices(hardware, tried.explanation),
    )

"""All calls of the API."""

from numawise.web import (
    box_calls,
    check_calls,
    cluster_calls,
    config_calls,
    map_calls,
    overview_calls,
    scenario_calls,
    why_calls,
)
from numawise.web.operations import Operation

OPERATIONS: tuple[Operation, ...] = (
    *overview_calls.OPERATIONS,
    *check_calls.OPERATIONS,
    *cluster_calls.OPERATIONS,
    *box_calls.OPERATIONS,
    *map_calls.OPERATIONS,
    *scenario_calls.OPERATIONS,
    *config_calls.OPERATIONS,
    *why_calls.OPERATIONS,
)

"""What jobs hold on this host now, for those who draw it."""

import os
from collections.abc import Mapping

from numawise.apps.launch.run import capacity_here, open_holdings
from numawise.host.settings import read_settings
from numawise.results.placement import Capacity, Hold
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class HostHolds:
    """This host and its live holds."""

    capacity: Capacity
    holds: tuple[Hold, ...]
    remarks: tuple[str, ...]
    """What a reader should know about the ledger, a sentence each."""


def host_holds(environment: Mapping[str, str] | None = None) -> HostHolds:
    """What there is now."""
    settings = read_settings()
    surroundings = os.environ if environment is None else environment
    with open_holdings(capacity_here(settings), surroundings, settings) as holdings:
        live = tuple(holdings.live())
        return HostHolds(holdings.capacity, live, (*holdings.place.warnings, *holdings.silent))

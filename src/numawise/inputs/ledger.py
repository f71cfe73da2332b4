"""Where the ledger lies by what user and administrator have set: the one way for all commands."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from numawise.host.settings import ADMINISTRATORS, LEDGER, HostSettings
from numawise.ledger.place import ROOT, VARIABLE, LedgerPlace, find_ledger


def ledger_place(
    environment: Mapping[str, str],
    settings: HostSettings | None = None,
    root: Path = ROOT,
    trusted: Collection[int] = ADMINISTRATORS,
) -> LedgerPlace:
    """The place for this process; what settings do not say, the environment does."""
    settings = settings or HostSettings()
    wishes = {**environment, VARIABLE: settings.ledger} if settings.ledger else environment
    origin = settings.origin(LEDGER) or VARIABLE
    return find_ledger(
        wishes, os.geteuid(), system=settings.box_ledger, origin=origin, root=root, trusted=trusted
    )

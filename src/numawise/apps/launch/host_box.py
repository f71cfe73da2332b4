"""This host's jobs for those who look again and again: what is costly is kept a while, changes are noticed.

Rules kept here:

1. The machine is read anew after ``MACHINE_SECONDS``; holds are read whenever they are asked for.
2. What jobs use is measured at most once in ``USE_SECONDS``, for all who ask together.
3. The version is another after each change of the ledger, and when a job or one in line has died or was
   stopped: of these the ledger knows nothing.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from numawise.apps.launch.box import UseMeter, hold_list, hold_uses
from numawise.apps.launch.holds import ROOT, Holdings
from numawise.apps.launch.run import capacity_here, open_holdings
from numawise.errors import LedgerError
from numawise.host import processes
from numawise.host.settings import HostSettings, read_settings
from numawise.ledger.store import LedgerVersion
from numawise.render.holds import gpu_names
from numawise.results.placement import Capacity, Owner

MACHINE_SECONDS, USE_SECONDS = 30.0, 1.0


class HostBox:
    """This host, as the user sees it who runs this process; threads may share it."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._lock = threading.Lock()
        self._machine: tuple[float, Capacity, HostSettings] | None = None
        self._watched: Holdings | None = None
        self._meter: UseMeter | None = None
        self._owners: tuple[LedgerVersion, list[Owner]] | None = None
        self._uses: tuple[float, dict[str, object]] | None = None

    def close(self) -> None:
        """Let go of what is open."""
        with self._lock:
            for holdings in (self._watched, self._meter.holdings if self._meter else None):
                if holdings is not None:
                    holdings.ledger.close()
            self._watched = self._meter = None

    @contextmanager
    def holdings(self) -> Iterator[Holdings]:
        """This host's holds, for one question."""
        with self._open() as holdings:
            yield holdings

    def holds(self) -> dict[str, object]:
        """Who holds what, what is free, who waits, and what of it this user may end."""
        with self._open() as holdings:
            data = hold_list(holdings)
            who, names = holdings.who, gpu_names(holdings.capacity)
            rows = [(hold.id, hold.owner.uid) for hold in holdings.ledger.holds()]
            rows += [(waiter.id, waiter.owner.uid) for waiter in holdings.ledger.waiters()]
        return data | {
            "hostname": os.uname().nodename,
            "user": who.user,
            "deviceNames": names,
            "own": [name for name, uid in rows if who.uid in (ROOT, uid)],
            "now": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }

    def uses(self) -> dict[str, object]:
        """What jobs use (rule 2); CPUs are known from the second time on."""
        holdings = self._open()
        with self._lock:
            if self._uses is not None and time.monotonic() - self._uses[0] < USE_SECONDS:
                holdings.ledger.close()
                return self._uses[1]
            if self._meter is None:
                self._meter = UseMeter(holdings)
            else:
                self._meter.holdings.ledger.close()
                self._meter.holdings = holdings
            holds = holdings.live()
            uses = self._meter.look(holds)
            data = hold_uses(holdings, holds, uses, self._meter.seconds)
            self._uses = (time.monotonic(), data)
            return data

    def version(self) -> object:
        """Something that is another after each change (rule 3); for one thread alone."""
        try:
            if self._watched is None:
                self._watched = self._open()
            ledger = self._watched.ledger
            version = ledger.version()
            if self._owners is None or self._owners[0] != version:
                owners = [hold.owner for hold in ledger.holds()]
                owners += [waiter.owner for waiter in ledger.waiters()]
                self._owners = (version, owners)
        except LedgerError as problem:
            if self._watched is not None:
                self._watched.ledger.close()
                self._watched = None
            return str(problem)
        return version, tuple(_state(owner) for owner in self._owners[1])

    def _open(self) -> Holdings:
        capacity, settings = self._capacity()
        return open_holdings(capacity, self._environment, settings)

    def _capacity(self) -> tuple[Capacity, HostSettings]:
        """Rule 1."""
        with self._lock:
            if self._machine is not None and time.monotonic() - self._machine[0] < MACHINE_SECONDS:
                return self._machine[1:]
        settings = read_settings()
        capacity = capacity_here(settings)
        with self._lock:
            self._machine = (time.monotonic(), capacity, settings)
        return capacity, settings


def _state(owner: Owner) -> str:
    """``T`` for one that is stopped, '' for one that runs or is a container, ``X`` for one that has ended."""
    process = processes.read_process(owner.pid) if owner.pid else None
    if process is None or process.start != owner.start or process.state in processes.DEAD:
        return "X" if owner.pid else ""
    return "T" if process.state in processes.STOPPED else ""

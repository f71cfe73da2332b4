"""The time that a job may take (``run --time``): who ends it, and how.

Rules kept here:

1. At the limit every process of the job is asked to end (SIGTERM); what is left after ``GRACE`` seconds is
   killed.  Whether it then ended well or not, the exit status is ``TIMED_OUT``.
2. The time counts from the start of the job's process, by a clock that nobody sets.
3. The numawise that started the job sees to it.  Where that was killed, ``numawise reap`` does: for holds of
   its own user, or as root for all with the rights of each, and only some time after the limit.
"""

import os
import signal
import time
from collections.abc import Callable

from numawise.apps.launch.ending import kill_all, release, send_all, wait_for_end
from numawise.apps.launch.holds import Holdings
from numawise.errors import NumawiseError
from numawise.host.child import WaitingChild, wait_for
from numawise.results.placement import OVERTIME, RUN, TIMED_OUT, Hold, time_limit

GRACE = 10.0
LATE = 30.0
"""Seconds after limit and grace for which a job is left to the numawise that started it."""
AGAIN = 0.2


class TimeKeeper:
    """Watches over a job's time while it runs; ``also`` is what is to be done meanwhile besides."""

    def __init__(
        self, holdings: Holdings, hold: Hold, also: Callable[[], float | None] | None, every: float
    ) -> None:
        self.holdings, self.hold, self.also, self.every = holdings, hold, also, every
        self.until = time.monotonic() + time_limit(hold)
        self.struck = False
        self.killed = False

    def __call__(self) -> float:
        """See whether the time is over; seconds until the next look."""
        if self.also is not None:
            self.also()
        left = self.until - time.monotonic()
        if left > 0:
            return min(left, self.every)
        if not self.struck:
            self.struck = True
            self._send(signal.SIGTERM, signal.SIGCONT)
        elif left <= -GRACE:
            self.killed = True
            self._send(signal.SIGKILL)
        return AGAIN

    def finish(self) -> str:
        """After the end of the job's first process: end the others, too; a sentence, or ''."""
        if not self.struck:
            return ""
        wait_for_end(self.holdings, self.hold, max(self.until + GRACE - time.monotonic(), 0))
        how = ""
        if self.killed or self.holdings.lives(self.hold):
            how = f", and was killed {GRACE:g} s later"
            try:
                kill_all(self.holdings, self.hold, self.holdings.ledger.holds())
            except NumawiseError as problem:
                how = f"; {problem}"
        hold = self.hold
        return f"{hold.name} ({hold.id}) was ended after its {time_limit(hold):g} s (--time){how}"

    def _send(self, *numbers: signal.Signals) -> None:
        try:
            send_all(self.holdings, self.hold, self.holdings.ledger.holds(), numbers)
        except (NumawiseError, OSError):
            return  # tried again, and reported at the end


def wait_within(
    child: WaitingChild,
    holdings: Holdings,
    hold: Hold,
    report: Callable[[str], None],
    also: Callable[[], float | None] | None,
    every: float,
) -> int:
    """The wait status of a job or step that has ended, by itself or because its time was over."""
    keeper = TimeKeeper(holdings, hold, also, every)
    status = wait_for(child, keeper, min(time_limit(hold), every))
    if text := keeper.finish():
        report(text)
        return TIMED_OUT << 8
    return status


def end_overdue(holdings: Holdings) -> tuple[str, ...]:
    """End jobs whose time is long over (rule 3); a sentence for each."""
    said = []
    for hold in holdings.live():
        limit = time_limit(hold)
        ours = hold.owner.boot == holdings.who.boot and hold.owner.namespace in (0, holdings.who.namespace)
        if not limit or hold.kind != RUN or not hold.owner.start or not ours or not holdings.acts_for(hold):
            continue
        ran = time.clock_gettime(time.CLOCK_BOOTTIME) - hold.owner.start / os.sysconf("SC_CLK_TCK")
        if ran > limit + GRACE + LATE:
            problem = release(holdings, hold, term=GRACE, how=OVERTIME)
            title = f"{hold.name} ({hold.id}) of {hold.owner.user}"
            said.append(problem or f"{title}: ended, since its {limit:g} s were over (--time)")
    return tuple(said)

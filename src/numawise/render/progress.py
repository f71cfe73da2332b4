"""A bar for long work: how much is done, how fast, and how long it will take."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from numawise.render.table import terminal_width
from numawise.render.terminal import CLEAR_LINE

SOON, STEP = 1.0, 0.1
"""Seconds after which a bar appears, and between two drawings of it."""
LONGEST = 40

Done = Callable[[int], None]


@contextmanager
def progress_bar(
    file: IO[str] | None,
    word: str,
    total: int | None,
    *,
    shown: bool = True,
    after: float = SOON,
    amount: Callable[[float], str] = "{:,.0f}".format,
) -> Iterator[Done]:
    """A bar that appears when the work takes longer than a moment, on a terminal alone, and leaves no trace.

    The caller says how much is done; ``total``: of how much, None when that is not known; ``amount``: how
    amounts are written.
    """
    if not shown or file is None or not file.isatty():
        yield lambda _: None
        return
    bar = _Bar(file, word, total, time.monotonic() + after, amount)
    try:
        yield bar.done
    finally:
        bar.close()


class _Bar:
    def __init__(
        self, file: IO[str], word: str, total: int | None, begin: float, amount: Callable[[float], str]
    ) -> None:
        self.file, self.word, self.total, self.next, self.amount = file, word, total, begin, amount
        self.start = time.monotonic()
        self.drawn = False

    def done(self, count: int) -> None:
        """Show how much is done."""
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + STEP
        rate = count / max(now - self.start, 1e-9)
        words = f"{self.amount(count)}  {self.amount(rate)}/s"
        bar = ""
        if self.total:
            left = int(max(self.total - count, 0) / rate) if rate else 0
            words = f"{self.amount(count)}/{self.amount(self.total)}  {self.amount(rate)}/s"
            words += f"  {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"
            room = min(LONGEST, terminal_width(self.file) - len(self.word) - len(words) - 5)
            full = max(0, room) * min(count, self.total) // self.total
            drawn, open_ = "━╌" if "utf" in (getattr(self.file, "encoding", "") or "utf").lower() else "#-"
            bar = f"{drawn * full}{open_ * (room - full)}  " if room > 0 else ""
        self.file.write(f"{CLEAR_LINE}{self.word}  {bar}{words}")
        self.file.flush()
        self.drawn = True

    def close(self) -> None:
        """Remove the bar."""
        if self.drawn:
            self.file.write(CLEAR_LINE)
            self.file.flush()

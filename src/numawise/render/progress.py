"""A bar for long work: how much is done, how fast, how long it will take."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

SOON, STEP = 1.0, 0.1
"""Seconds after which a bar appears, and between two looks at it."""

Tell = Callable[[int], None]


@contextmanager
def progress_bar(
    file: IO[str], word: str, total: int | None, *, shown: bool = True, after: float = SOON
) -> Iterator[Tell]:
    """A bar that appears when the work takes longer than a moment, on a terminal alone, and leaves no trace.

    The caller says how many are done; ``total``: of how many, None when that is not known.
    """
    if not shown or not file.isatty():
        yield lambda _: None
        return
    bar = _Bar(file, word, total, time.monotonic() + after)
    try:
        yield bar.done
    finally:
        bar.close()


class _Bar:
    def __init__(self, file: IO[str], word: str, total: int | None, begin: float) -> None:
        self.file, self.word, self.total, self.next = file, word, total, begin
        self.start = time.monotonic()
        self.progress: object = None

    def done(self, count: int) -> None:
        """Show that so many are done."""
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + STEP
        from rich.console import Console  # noqa: PLC0415 - costs time, and only long work needs it
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        if not isinstance(self.progress, Progress):
            self.progress = Progress(
                TextColumn(self.word),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=Console(file=self.file),
                transient=True,
                auto_refresh=False,
            )
            self.progress.start()
            self.progress.add_task(self.word, total=self.total, rate="")
        rate = count / max(now - self.start, 1e-9)
        self.progress.update(self.progress.task_ids[0], completed=count, rate=f"{rate:,.0f}/s", refresh=True)

    def close(self) -> None:
        """Remove the bar."""
        if self.progress is None:
            return
        from rich.progress import Progress  # noqa: PLC0415

        if isinstance(self.progress, Progress):
            self.progress.stop()

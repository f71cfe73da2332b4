"""A program from start to stop: its duties start, go on until a signal ends them, and stop.

Rules kept here:

1. SIGTERM and SIGINT end it in order: tasks are cancelled, every duty stops, the exit status is 0.
2. A task that fails by a mistake ends the program with that error: whoever started it starts it again.
3. What libraries write goes into the program's own log.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from numawise.service.duty import Duty, MetricName
from numawise.service.log import INFO, LibraryLog, ServiceLog
from numawise.service.pages import serve_pages
from numawise.values import dataclass

LONGEST_STOP = 5.0
"""Seconds that tasks have to end."""


@dataclass(frozen=True, slots=True)
class ServicePages:
    """Where a program says how it is."""

    about: MetricName
    """The family that names the program and its version."""
    listen: tuple[str, int] | None = None
    """None: nowhere."""


def attend(
    duties: Callable[[], Sequence[Duty]],
    pages: ServicePages,
    log: ServiceLog,
    libraries: Iterable[str] = (),
) -> None:
    """Do duties until a signal ends them; they are made where their loop runs."""
    with _logged(log, ("asyncio", *libraries)):
        asyncio.run(_attend(duties, pages, log))


@contextlib.contextmanager
def _logged(log: ServiceLog, libraries: Iterable[str]) -> Iterator[None]:
    """Rule 3."""
    handler = LibraryLog(log)
    loggers = [logging.getLogger(name) for name in libraries]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


async def _attend(make: Callable[[], Sequence[Duty]], pages: ServicePages, log: ServiceLog) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    duties = make()
    server = serve_pages(*pages.listen, pages.about, duties) if pages.listen else None
    if server is not None:
        host, port = server.sockets[0].getsockname()[:2]
        log.say(INFO, "listening", address=f"{host}:{port}")
    tasks: list[asyncio.Task[None]] = []
    try:
        for duty in duties:
            await duty.start()
        tasks = [asyncio.create_task(one) for duty in duties for one in duty.tasks()]
        ending = asyncio.create_task(stop.wait())
        await _until(ending, tasks)
        log.say(INFO, "stopping")
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LONGEST_STOP)
        for duty in duties:
            await duty.stop()
        if server is not None:
            server.close()


async def _until(ending: "asyncio.Task[Any]", tasks: list["asyncio.Task[None]"]) -> None:
    """Wait for a signal; what fails before is raised (rule 2)."""
    waiting: set[asyncio.Task[Any]] = {ending, *tasks}
    while not ending.done():
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {ending}:
            with contextlib.suppress(asyncio.CancelledError):
                task.result()

"""The kubelet in sight: read when something happens, and handed to everybody who wants to know.

Rules kept here:

1. One reading serves all subscribers.  It is done in a thread: the agent answers the kubelet meanwhile.
2. A change of the kubelet's files or of its pods at the API server is a reason to read.  So is ``SAFETY``:
   what nobody reported is found by comparing.
3. Between two readings are at least ``GAP`` seconds, so that a hundred pods at once are a few readings; what
   happens meanwhile is read at the end of the gap, so that the last state is always read.  A first change
   waits ``SETTLE`` seconds, because the kubelet writes several files for a pod, and one at the API server
   ``LATER``, because the kubelet has yet to admit the pod.
4. Sources that disagree are read again after ``SOON`` seconds, and longer and longer after that.
5. Where the kernel does not report changes, the files' stamps are compared once in ``TICK`` seconds, which is
   said in the log.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.agent.sight_reading import SightReader
from numawise.apps.agent.sight_settings import Configz
from numawise.apps.agent.sight_values import ApiView, KubeletSight, OwnPlugins
from numawise.codec.checkpoint import PLACES
from numawise.codec.checkpoint.reading import ALLOCATED_FILE
from numawise.errors import HostError
from numawise.host.file_events import FileEvents
from numawise.inputs.gathered import NodeSources
from numawise.kube.deviceplugin import FOLDER
from numawise.kube.podresources import SOCKET
from numawise.service.duty import MetricFamily
from numawise.service.log import INFO, WARNING, ServiceLog
from numawise.service.turns import Turns

__all__ = ["ApiView", "KubeletSight", "SightSource"]

SETTLE, GAP, LATER, SOON, SAFETY, TICK = 0.05, 0.4, 0.3, 0.2, 30.0, 1.0
"""Seconds."""
LOOP, LONGEST_READING = "looking at the kubelet", 60.0
OWN = frozenset({*(name for places in PLACES.values() for name in places), ALLOCATED_FILE, SOCKET})
"""What matters below the kubelet's directory."""
Subscriber = Callable[[KubeletSight], None]


class SightSource:
    """A kubelet, read whenever something happens to it; a duty that others stand on."""

    name = "sight"

    def __init__(
        self,
        sources: NodeSources,
        name: str,
        log: ServiceLog,
        *,
        view: Callable[[], ApiView] = ApiView,
        configz: Configz | None = None,
        own_plugins: OwnPlugins = dict,
    ) -> None:
        """``view``: what the API server says now; ``configz``: asks the kubelet through it.

        ``own_plugins``: the resources that this agent serves.
        """
        self.log = log
        self.reader = SightReader(sources, name, configz=configz, own_plugins=own_plugins)
        self.folder = Path(sources.kubelet_dir)
        self.last: KubeletSight | None = None
        self.readings = 0
        self._begun = 0
        self.turns = Turns()
        self._view = view
        self._subscribers: list[Subscriber] = []
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._events: FileEvents | None = None

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hand every new sight to somebody, the last one at once."""
        self._subscribers.append(subscriber)
        if self.last is not None:
            subscriber(self.last)

    def wake(self) -> None:
        """Something happened at the API server; may be called from any thread, and after the end."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._read_later)

    def _read_later(self) -> None:
        """Read, unless the kubelet does something in ``LATER`` seconds, which is read anyhow (rule 3)."""
        if self._loop is not None:
            self._loop.call_later(LATER, self._read_unless, self._begun)

    def _read_unless(self, begun: int) -> None:
        if self._begun == begun:
            self._woken.set()

    async def read(self) -> KubeletSight:
        """Read now, and hand it on where it is new."""
        self._begun += 1
        sight = await asyncio.to_thread(self.reader.read, self._view())
        self.readings += 1
        for number, text in enumerate(sight.problems):
            self.log.once(f"sight {number}", WARNING, text)
        for number in range(len(sight.problems), len(self.last.problems) if self.last is not None else 0):
            self.log.forget(f"sight {number}")
        is_new = not sight.same(self.last)
        self.last = sight
        if is_new:
            for subscriber in self._subscribers:
                subscriber(sight)
        return sight

    async def start(self) -> None:
        """Begin to listen, and read for the first time."""
        self._loop = asyncio.get_running_loop()
        folders = (self.folder, self.folder / FOLDER, (self.folder / SOCKET).parent)
        try:
            self._events = FileEvents(folders)
        except HostError as problem:
            text = f"{problem}; the kubelet's files are looked at once a second instead"
            self.log.say(INFO, text)
        else:
            self._loop.add_reader(self._events.descriptor, self._happened)
        await self.read()

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What goes on for ever."""
        return [self._go_on()]

    async def stop(self) -> None:
        """Listen no more."""
        if self._events is not None and self._loop is not None:
            self._loop.remove_reader(self._events.descriptor)
            self._events.close()
            self._events = None

    def missing(self) -> Sequence[str]:
        """Nothing: who needs what is missing says so."""
        return ()

    def stuck(self) -> Sequence[str]:
        """Reading that does not go on."""
        return self.turns.late()

    def families(self) -> Sequence[MetricFamily]:
        """None of its own."""
        return ()

    def _happened(self) -> None:
        assert self._events is not None
        changed = self._events.changed()
        self._events.refresh()
        own = {self.folder / name for name in OWN} | set(self._events.folders)
        if changed & own:
            self._woken.set()

    async def _go_on(self) -> None:
        """Read for ever (rules 2 to 4)."""
        again = SOON
        while True:
            self.turns.turn(LOOP, SAFETY + LONGEST_READING)
            settled = self.last is None or self.last.settled
            await self._wait(SAFETY if settled else again)
            again = SOON if settled else min(again * 2, SAFETY)
            await asyncio.sleep(SETTLE)
            self._woken.clear()
            await self.read()
            await asyncio.sleep(GAP - SETTLE)

    async def _wait(self, longest: float) -> None:
        """Until something happens, at most so long."""
        if self._events is not None:
            if not self._events.refresh():
                longest = min(longest, TICK)  # a folder is not there yet
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(longest):
                    await self._woken.wait()
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + longest
        while loop.time() < end and not self._woken.is_set():
            await asyncio.sleep(min(TICK, longest))
            if await asyncio.to_thread(self.reader.stamps) != self.reader.stamps_read:
                return

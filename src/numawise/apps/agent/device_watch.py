"""What says that a device is bad: its place in ``/sys`` or ``/dev``, NVIDIA's driver, a file of made-up ones.

Rules kept here:

1. Presence is looked at once in ``TICK`` seconds, all devices of a resource together; a replica fares as its
   device does.
2. An Xid that is not a program's fault makes a GPU bad until it has gone and come back (a reset), or until
   the agent is started again.  One that names no GPU makes all of them bad: none is known to be well.
3. A driver that does not answer holds up nothing else; that is what ``Turns`` are asked about.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.agent.offers import OfferedDevice
from numawise.apps.agent.plugin import ResourcePlugin
from numawise.errors import NumawiseError
from numawise.host.device_files import function_is_there, is_there
from numawise.host.gpu_events import GpuEvent, GpuEvents
from numawise.service.log import ERROR, WARNING, ServiceLog
from numawise.service.turns import Turns

TICK = 2.0
WAIT_MILLISECONDS = 1000
AGAIN = 30.0
"""Seconds until a driver that could not be asked is asked again."""
LETTING_GO = 5.0
"""Seconds that a driver has to answer, before it is asked by somebody else beside us."""
PRESENCE, DRIVER, FAKE = "presence", "driver", "fake"
PRESENCE_LOOP, DRIVER_LOOP = "presence of devices", "events of NVIDIA's driver"


async def watch_presence(plugins: Sequence[ResourcePlugin], root: Path, turns: Turns) -> None:
    """Look for the devices, for ever, and publish what is due."""
    while True:
        turns.turn(PRESENCE_LOOP, TICK)
        now = time.monotonic()
        for plugin in plugins:
            look(plugin, root, now)
            plugin.publish(now)
        await asyncio.sleep(_pause(plugins, now))


def _pause(plugins: Sequence[ResourcePlugin], now: float) -> float:
    """Until the next look, or until a device is due."""
    due = [one for one in (plugin.health.due() for plugin in plugins) if one is not None]
    return max(0.05, min(TICK, min(due, default=now + TICK) - now))


def look(plugin: ResourcePlugin, root: Path, now: float) -> None:
    """Report which devices of a resource are there (rule 1)."""
    known: dict[tuple[str, str], str] = {}
    for device in plugin.offer.devices:
        key = device.address, device.path
        if key not in known:
            known[key] = _missing(device, root)
        plugin.health.report(device.id, PRESENCE, known[key], now)
        if known[key]:
            plugin.health.report(device.id, DRIVER, "", now)  # what comes back was reset (rule 2)


def _missing(device: OfferedDevice, root: Path) -> str:
    if device.address and not function_is_there(root, device.address):
        return f"the PCI function {device.address} has gone"
    if device.path and not is_there(root, device.path):
        return f"{device.path} has gone"
    return ""


class DriverWatch:
    """Listens to NVIDIA's driver, and lets go of it when somebody else wants to ask it afresh."""

    def __init__(
        self,
        plugins: Sequence[ResourcePlugin],
        load: Callable[[], Any],
        ignored: Callable[[], Collection[int]],
        log: ServiceLog,
        turns: Turns,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """``changed``: told when GPUs may have to be offered otherwise."""
        self.plugins, self.load, self.ignored, self.log, self.turns = plugins, load, ignored, log, turns
        self.changed = changed
        self._wanted = 0
        self._idle, self._wake = asyncio.Event(), asyncio.Event()
        self._idle.set()

    @contextlib.asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """The driver, let go of: a library that was closed sees GPUs that are new."""
        self._wanted += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LETTING_GO):
                    await self._idle.wait()
            yield
        finally:
            self._wanted -= 1
            self._wake.set()

    async def listen(self) -> None:
        """Listen for ever."""
        while True:
            self.turns.turn(DRIVER_LOOP, AGAIN)
            if not self._wanted and any(
                plugin.offer.nvidia and plugin.offer.devices for plugin in self.plugins
            ):
                self._idle.clear()
                try:
                    await self._heard()
                except NumawiseError as problem:
                    self.log.once("driver", WARNING, f"no health events: {problem}")
                except Exception as problem:
                    if type(problem).__name__ != "NVMLError":  # of whichever library was loaded
                        raise
                    self.log.once("driver", WARNING, f"no health events: NVML says {problem}")
                finally:
                    self._idle.set()
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN):
                    await self._wake.wait()

    async def _heard(self) -> None:
        """Pass events on until somebody else wants the driver, or a GPU is lost."""
        events = await asyncio.to_thread(lambda: GpuEvents(self.load()))
        if events.silent:
            names = ", ".join(events.silent)
            self.log.once("silent", WARNING, f"no health events of {names}: not supported there")
        with contextlib.closing(events):
            modes = events.modes()
            while not self._wanted:
                self.turns.turn(DRIVER_LOOP, WAIT_MILLISECONDS / 1000)
                heard = await _undisturbed(events.wait, WAIT_MILLISECONDS)
                if events.modes() != modes:
                    self.changed()
                    return
                gpus = [plugin for plugin in self.plugins if plugin.offer.nvidia]
                for event in heard:
                    hear(gpus, event, self.ignored(), self.log)
                if any(not event.xid for event in heard):  # it would say so again at once
                    return


async def _undisturbed(
    wait: Callable[[int], tuple[GpuEvent, ...]], milliseconds: int
) -> tuple[GpuEvent, ...]:
    """Wait in a thread; whoever ends us does so when the library is not inside that call any more."""
    waiting = asyncio.create_task(asyncio.to_thread(wait, milliseconds))
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await asyncio.wait({waiting}, timeout=LETTING_GO)
        raise


def hear(
    plugins: Sequence[ResourcePlugin], event: GpuEvent, ignored: Collection[int], log: ServiceLog
) -> None:
    """Report what an event says about the GPUs (rule 2)."""
    if event.xid in ignored:
        return
    reason = (
        f"Xid {event.xid}; see dmesg, and reset the GPU"
        if event.xid
        else "the driver lost the GPU; see dmesg"
    )
    if not event.address:
        log.say(ERROR, f"{reason}; the driver does not say of which GPU, so none is offered")
    now = time.monotonic()
    for plugin in plugins:
        for device in plugin.offer.devices:
            if event.address in ("", device.address):
                plugin.health.report(device.id, DRIVER, reason, now)
        plugin.publish(now)


def follow_fakes(
    plugin: ResourcePlugin, unhealthy: Collection[tuple[str, str]], path: str, now: float
) -> None:
    """Report the health that a file of made-up devices gives."""
    for device in plugin.offer.devices:
        bad = (plugin.offer.resource, device.id) in unhealthy
        plugin.health.report(device.id, FAKE, f"{path} says so" if bad else "", now)

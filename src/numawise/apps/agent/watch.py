"""What says that a device is bad: its place in ``/sys`` or ``/dev``, NVIDIA's driver, a file of made-up ones.

Rules kept here:

1. Presence is looked at once in ``TICK`` seconds, all devices of a resource together; a replica fares as its
   device does.
2. An Xid that is not a program's fault makes a GPU bad until it has gone and come back (a reset), or until
   the agent is started again.  One that names no GPU makes all of them bad: none is known to be well.
3. A file of made-up devices that cannot be read any more leaves everything as it was, and is said once.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.agent.log import ERROR, WARNING, AgentLog
from numawise.apps.agent.offers import OfferedDevice
from numawise.apps.agent.plugin import ResourcePlugin
from numawise.codec.fake_devices import read_fakes
from numawise.errors import NumawiseError
from numawise.host.device_files import function_is_there, is_there
from numawise.host.gpu_events import GpuEvent, GpuEvents

TICK = 2.0
WAIT_MILLISECONDS = 1000
AGAIN = 30.0
"""Seconds until a driver that could not be asked is asked again."""
PRESENCE, DRIVER, FAKE = "presence", "driver", "fake"


async def watch_presence(plugins: Sequence[ResourcePlugin], root: Path) -> None:
    """Look for the devices, for ever, and publish what is due."""
    while True:
        now = time.monotonic()
        for plugin in plugins:
            look(plugin, root, now)
            plugin.publish(now)
        await asyncio.sleep(_pause(plugins, now))


def look_first(plugins: Sequence[ResourcePlugin], root: Path, fake: str, log: AgentLog) -> None:
    """Know the health of everything before anybody is told of it."""
    now = time.monotonic()
    for plugin in plugins:
        look(plugin, root, now)
        plugin.publish(now)
    if fake:
        follow_fakes(plugins, fake, log)


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


async def watch_driver(
    plugins: Sequence[ResourcePlugin], load: Callable[[], Any], ignored: Collection[int], log: AgentLog
) -> None:
    """Listen to NVIDIA's driver, for ever."""
    gpus = [plugin for plugin in plugins if plugin.offer.nvidia and plugin.offer.devices]
    if not gpus:
        return
    while True:
        try:
            events = await asyncio.to_thread(lambda: GpuEvents(load()))
            if events.silent:
                log.once(
                    "silent", WARNING, f"no health events of {', '.join(events.silent)}: not supported there"
                )
            with contextlib.closing(events):
                while True:
                    heard = await asyncio.to_thread(events.wait, WAIT_MILLISECONDS)
                    for event in heard:
                        hear(gpus, event, ignored, log)
                    if any(not event.xid for event in heard):  # it would say so again at once
                        await asyncio.sleep(AGAIN)
        except NumawiseError as problem:
            log.once("driver", WARNING, f"no health events: {problem}")
        except Exception as problem:
            if type(problem).__name__ != "NVMLError":  # of whichever library was loaded
                raise
            log.once("driver", WARNING, f"no health events: NVML says {problem}")
        await asyncio.sleep(AGAIN)


def hear(plugins: Sequence[ResourcePlugin], event: GpuEvent, ignored: Collection[int], log: AgentLog) -> None:
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


async def watch_fakes(plugins: Sequence[ResourcePlugin], path: str, log: AgentLog) -> None:
    """Follow the health that a file of made-up devices gives, for ever (rule 3)."""
    seen: object = None
    while True:
        stamp = await asyncio.to_thread(_stamp, path)
        if stamp != seen:
            seen = stamp
            follow_fakes(plugins, path, log)
        await asyncio.sleep(TICK / 4)


def follow_fakes(plugins: Sequence[ResourcePlugin], path: str, log: AgentLog) -> None:
    """Report the health that a file gives now."""
    try:
        devices = {(one.resource, one.id): one for one in read_fakes(path)}
    except NumawiseError as problem:
        log.once(FAKE, ERROR, f"{problem}; everything stays as it was")
        return
    log.forget(FAKE)
    now = time.monotonic()
    offered = {
        (plugin.offer.resource, one.id): one.numa for plugin in plugins for one in plugin.offer.devices
    }
    for plugin in plugins:
        for device in plugin.offer.devices:
            given = devices.get((plugin.offer.resource, device.id))
            reason = "" if given is not None and given.healthy else f"{path} says so"
            plugin.health.report(device.id, FAKE, reason, now)
        plugin.publish(now)
    if any(offered.get(key) != one.numa for key, one in devices.items()):
        log.say(WARNING, f"{path} has other devices or NUMA nodes; a restart offers them")


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        there = Path(path).stat()
    except OSError:
        return None
    return there.st_ino, there.st_mtime_ns, there.st_size

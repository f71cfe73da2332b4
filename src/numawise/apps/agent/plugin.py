"""One resource at the kubelet: served, registered, and registered again whenever that is needed.

Rules kept here:

1. The kubelet is a socket in a folder.  It is looked at once in ``TICK`` seconds: another socket is another
   kubelet, which knows nothing of us and has removed our own socket from the folder.
2. Registered is what a kubelet took; in touch is a kubelet that watches our devices.  One that does not start
   watching, or stops, is registered at again, with a wait that doubles up to ``LONGEST_WAIT``.
3. What cannot be done now is said once and tried again; only another process at our own socket, at the start,
   is an error that ends the agent.
4. Other devices may be offered at any time.  One that is no longer there is bad at once; it is forgotten
   after a while, unless a container got it: then only when the kubelet says that none has it any more.
"""

import asyncio
import contextlib
import hashlib
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from numawise.apps.agent import answers
from numawise.apps.agent.health import DeviceHealth
from numawise.apps.agent.offers import OfferedDevice, ResourceOffer
from numawise.errors import HostError, NumawiseError
from numawise.kube.deviceplugin import (
    KUBELET_SOCKET,
    ContainerEdits,
    ListedDevice,
    PreferenceQuestion,
    register,
    serve_plugin,
)
from numawise.kube.grpc import CallRefused, Serving
from numawise.kube.podresources import LONGEST_NAME
from numawise.service.log import INFO, WARNING, ServiceLog
from numawise.service.turns import Turns

TICK = 1.0
FIRST_WAIT, LONGEST_WAIT, GRACE, MOST_GRACE = 0.25, 4.0, 5.0, 40.0
"""Seconds between attempts to register; and until a kubelet must have begun to watch."""
PATIENCE = 10.0
PREFIX, SUFFIX = "numawise-", ".sock"
GIVEN, REFUSED = "ok", "refused"
OFFER = "offer"
"""Cause of devices that are no longer there."""


def socket_name(resource: str, folder: Path) -> str:
    """The name of a resource's socket: readable where the kernel takes it, else a short one."""
    name = f"{PREFIX}{resource.replace('/', '_')}{SUFFIX}"
    if len(os.fsencode(folder / name)) <= LONGEST_NAME:
        return name
    return f"{PREFIX}{hashlib.sha256(resource.encode()).hexdigest()[:12]}{SUFFIX}"


class ResourcePlugin:
    """A resource, what is known of it, and who watches it."""

    def __init__(
        self, offer: ResourceOffer, folder: Path, log: ServiceLog, turns: Turns | None = None
    ) -> None:
        self.offer, self.folder, self.log = offer, folder, log
        self.turns = turns or Turns()
        self.health = DeviceHealth(device.id for device in offer.devices)
        self.socket = folder / socket_name(offer.resource, folder)
        self.gone: dict[str, tuple[OfferedDevice, float]] = {}
        """Devices that are no longer there, and since when (rule 4)."""
        self.given: set[str] = set()
        """Devices that containers got."""
        self.watchers = 0
        self.registered = False
        self.counts: Counter[tuple[str, str]] = Counter()
        """Method and outcome → how often."""
        self._changed = asyncio.Event()
        self._watched = asyncio.Event()
        self._serving: Serving | None = None

    @property
    def loop(self) -> str:
        """What its loop is called where loops are watched."""
        return f"registration of {self.offer.resource}"

    @property
    def in_touch(self) -> bool:
        """A kubelet took the resource and watches it."""
        return self.registered and self.watchers > 0

    # --- what the kubelet asks ----------------------------------------------------------------

    def listed(self) -> tuple[ListedDevice, ...]:
        """The devices as they are published now."""
        return tuple(
            ListedDevice(device.id, self.health.is_healthy(device.id), device.numa)
            for device in self.offer.devices
        ) + tuple(
            ListedDevice(device.id, healthy=False, numa=device.numa) for device, _ in self.gone.values()
        )

    async def devices(self) -> AsyncGenerator[Sequence[ListedDevice]]:
        """The devices, now and after every change, for one who watches."""
        self.watchers += 1
        self._watched.set()
        try:
            seen: tuple[ListedDevice, ...] | None = None
            while True:
                changed = self._changed
                now = self.listed()
                if now != seen:
                    seen = now
                    self.counts["ListAndWatch", GIVEN] += 1
                    yield now
                else:
                    await changed.wait()
        finally:
            self.watchers -= 1
            self._watched.set()

    def preferred(self, question: PreferenceQuestion) -> Sequence[str]:
        """The devices that are preferred."""
        self.counts["GetPreferredAllocation", GIVEN] += 1
        return answers.preferred(self.offer, question)

    def allocated(self, ids: Sequence[str]) -> ContainerEdits:
        """What a container gets with its devices."""
        try:
            edits = answers.edits(self.offer, ids)
        except CallRefused as refusal:
            self.counts["Allocate", REFUSED] += 1
            self.log.say(WARNING, str(refusal), resource=self.offer.resource)
            raise
        self.counts["Allocate", GIVEN] += 1
        self.given.update(ids)
        self.log.say(INFO, "given to a container", resource=self.offer.resource, devices=",".join(ids))
        return edits

    def publish(self, now: float) -> None:
        """Tell those who watch what has become of the devices' health."""
        changed = self.health.settle(now)
        for name, reason in changed.items():
            self.counts["health", "bad" if reason else "good"] += 1
            if reason:
                self.log.say(WARNING, f"unhealthy: {reason}", resource=self.offer.resource, device=name)
            else:
                self.log.say(INFO, "healthy again", resource=self.offer.resource, device=name)
        if changed:
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # --- other devices (rule 4) ---------------------------------------------------------------

    def renew(self, offer: ResourceOffer, now: float) -> None:
        """Offer these devices from now on."""
        present = {device.id for device in offer.devices}
        came = [device.id for device in offer.devices if device.id not in self.health]
        for device in self.offer.devices:
            if device.id not in present:
                self.gone.setdefault(device.id, (device, now))
                self.health.only(device.id, OFFER, "it is no longer there", now)
        for name in present:
            self.gone.pop(name, None)
            self.health.add(name)
            self.health.report(name, OFFER, "", now)
        if came:
            self.log.say(INFO, "new devices", resource=offer.resource, devices=",".join(came))
        if offer != self.offer:
            self.offer = offer
            self._tell()

    def forget(self, now: float, patience: float) -> None:
        """Forget devices that have been away for long enough, and that no container has."""
        due = [
            name
            for name, (_, since) in self.gone.items()
            if name not in self.given and now - since >= patience
        ]
        for name in due:
            del self.gone[name]
            self.health.drop(name)
        if due:
            self.log.say(INFO, "no longer offered", resource=self.offer.resource, devices=",".join(due))
            self._tell()

    # --- staying in touch ---------------------------------------------------------------------

    async def start(self) -> None:
        """Serve, so that a mistake at the start is an error (rule 3)."""
        if await asyncio.to_thread(self.folder.is_dir):
            self._serving = await serve_plugin(str(self.socket), self)

    async def keep_in_touch(self) -> None:
        """Serve and register for ever."""
        known: tuple[int, int, int] | None = None
        wait, since, grace = FIRST_WAIT, 0.0, GRACE
        while True:
            self.turns.turn(self.loop, PATIENCE + LONGEST_WAIT)
            kubelet = _identity(self.folder / KUBELET_SOCKET)
            served = self._serving is not None and self._serving.is_there()
            lost = self.registered and not self.watchers and time.monotonic() - since > grace
            if self.watchers:  # one that has watched would come back at once, if it did
                since, grace = time.monotonic(), TICK
            if kubelet is None:
                self._out_of_touch("waiting for the kubelet's socket")
                known = None
            elif kubelet != known or not served or lost:
                if lost and kubelet == known:
                    self._out_of_touch("the kubelet no longer watches; registering again")
                later = min(grace * 2, MOST_GRACE) if lost and grace >= GRACE else GRACE
                self.registered = False
                if await self._register():
                    known, since, wait, grace = kubelet, time.monotonic(), FIRST_WAIT, later
                else:
                    known = None
                    await asyncio.sleep(wait)
                    wait = min(wait * 2, LONGEST_WAIT)
                    continue
            self._watched.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK):  # wait_for of Python 3.11 loses a cancellation now and then
                    await self._watched.wait()

    async def _register(self) -> bool:
        resource = self.offer.resource
        try:
            if self._serving is None or not self._serving.is_there():
                await self._stop_serving()
                self._serving = await serve_plugin(str(self.socket), self)
            await register(str(self.folder / KUBELET_SOCKET), self.socket.name, resource, PATIENCE)
        except NumawiseError as problem:
            self.counts["Register", REFUSED] += 1
            self.log.once(resource, WARNING, f"not registered: {problem}", resource=resource)
            return False
        self.registered = True
        self.counts["Register", GIVEN] += 1
        self.log.forget(resource)
        self.log.say(INFO, "registered", resource=resource, devices=len(self.offer.devices))
        return True

    def _out_of_touch(self, why: str) -> None:
        self.registered = False
        self.log.once(
            self.offer.resource, WARNING, why, resource=self.offer.resource, folder=str(self.folder)
        )

    async def stop(self) -> None:
        """Give the socket up; the kubelet then counts the devices as unhealthy until someone registers."""
        self.registered = False
        await self._stop_serving()

    async def _stop_serving(self) -> None:
        if self._serving is not None:
            serving, self._serving = self._serving, None
            with contextlib.suppress(HostError):
                await serving.close()


def _identity(path: Path) -> tuple[int, int, int] | None:
    """What distinguishes a socket from a later one of the same name."""
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_dev, there.st_ino, there.st_ctime_ns

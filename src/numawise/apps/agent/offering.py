"""Devices offered to the kubelet: the duty behind ``--device-plugin``."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from numawise.apps.agent.device_watch import DriverWatch, follow_fakes, look, watch_presence
from numawise.apps.agent.follow import OfferFollowing
from numawise.apps.agent.offer_plan import OfferPlan, planned_again
from numawise.apps.agent.plugin import GIVEN, REFUSED, ResourcePlugin
from numawise.apps.agent.sight_values import OwnPlugin
from numawise.codec.infile import is_there
from numawise.errors import NumawiseError
from numawise.kube.podresources import SOCKET, held_devices
from numawise.service.duty import COUNTER, GAUGE, MetricFamily, MetricName, MetricRow
from numawise.service.log import WARNING, ServiceLog
from numawise.service.turns import Turns
from numawise.values import replace

AWAY = 60.0
"""Seconds after which a device that has gone is forgotten; a reset takes less."""
ASKED_AGAIN = 30.0
FOLLOW_LOOP = "looking for devices"
NVIDIA_SOCKET = "nvidia-gpu.sock"
DEVICES = MetricName("numawise_device_plugin_devices", GAUGE, "Devices by resource, NUMA node and health.")
IN_TOUCH = MetricName(
    "numawise_device_plugin_in_touch", GAUGE, "1: the kubelet took the resource and watches it."
)
REGISTRATIONS = MetricName(
    "numawise_device_plugin_registrations", COUNTER, "Registrations at the kubelet, by outcome."
)
CALLS = MetricName("numawise_device_plugin_calls", COUNTER, "Calls of the kubelet, by method and outcome.")
HEALTH_CHANGES = MetricName(
    "numawise_device_plugin_health_changes", COUNTER, "Changes of devices' health that were published."
)
OFFER_METRICS = (DEVICES, IN_TOUCH, REGISTRATIONS, CALLS, HEALTH_CHANGES)
METHODS = ("ListAndWatch", "GetPreferredAllocation", "Allocate")


class DeviceOffering:
    """All resources of a plan at the kubelet: those of the start, and those that come later."""

    name = "device plugin"

    def __init__(self, plan: OfferPlan, log: ServiceLog, driver: Callable[[], Any]) -> None:
        self.plan, self.log = plan, log
        self.turns = Turns()
        self.plugins: list[ResourcePlugin] = []
        self.following = OfferFollowing(plan, self.planned, self.renew, log)
        self.driver = DriverWatch(
            self.plugins, driver, lambda: self.plan.ignored_xids, log, self.turns, self.following.again
        )
        self._changed = asyncio.Event()
        self._said: tuple[str, ...] = ()
        self._asked = 0.0

    async def start(self) -> None:
        """Know the health of everything, then serve."""
        self.renew(self.plan, time.monotonic())
        self._say_neighbours()
        for plugin in self.plugins:
            await plugin.start()

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Stay registered, watch the devices, and look for others."""
        return [
            self._stay_in_touch(),
            watch_presence(self.plugins, self.plan.root, self.turns),
            self._follow(),
            *(() if self.plan.fake else (self.driver.listen(),)),
        ]

    async def stop(self) -> None:
        """Give the sockets up."""
        for plugin in self.plugins:
            await plugin.stop()

    def own_plugins(self) -> Mapping[str, OwnPlugin]:
        """How the resources are answered for that a kubelet watches now."""
        return {
            plugin.offer.resource: OwnPlugin(plugin.offer.preference, plugin.offer.refuses_several)
            for plugin in self.plugins
            if plugin.in_touch
        }

    # --- other devices ------------------------------------------------------------------------

    async def planned(self, plan: OfferPlan) -> OfferPlan:
        """What the same settings offer now."""
        async with self.driver.closed():
            return await asyncio.to_thread(planned_again, plan)

    def renew(self, plan: OfferPlan, now: float) -> None:
        """Offer what a plan says from now on; nobody is told of a device before its health is known."""
        self.plan = plan
        for remark in plan.remarks:
            if remark not in self._said:
                self.log.say(WARNING, remark)
        self._said = plan.remarks
        known = {plugin.offer.resource: plugin for plugin in self.plugins}
        for offer in plan.offers:
            plugin = known.pop(offer.resource, None)
            if plugin is None:
                plugin = ResourcePlugin(offer, plan.folder, self.log, self.turns)
                self.plugins.append(plugin)
            plugin.renew(offer, now)
        for plugin in known.values():
            plugin.renew(replace(plugin.offer, devices=(), links=None), now)
        for plugin in self.plugins:
            look(plugin, plan.root, now)
            if plan.fake:
                follow_fakes(plugin, plan.unhealthy, plan.fake, now)
            plugin.publish(now)
        self._changed.set()

    def sweep(self, now: float) -> None:
        """Forget devices that have gone, and resources that nothing is left of."""
        for plugin in self.plugins:
            plugin.forget(now, 0.0 if self.plan.fake else AWAY)
        offered = {offer.resource for offer in self.plan.offers}
        for plugin in list(self.plugins):
            if plugin.offer.resource not in offered and not plugin.gone:
                self.plugins.remove(plugin)
                self._changed.set()

    async def _follow(self) -> None:
        while True:
            now = time.monotonic()
            await self.following.turn(now)
            await self._ask_holders(now)
            self.sweep(now)
            self.turns.turn(FOLLOW_LOOP, self.following.tick)
            await asyncio.sleep(self.following.tick)

    async def _ask_holders(self, now: float) -> None:
        """Whether containers still have what has gone; a kubelet that is not asked leaves it as it is."""
        waiting = [plugin for plugin in self.plugins if plugin.given & plugin.gone.keys()]
        if not waiting or now - self._asked < ASKED_AGAIN:
            return
        self._asked = now
        socket = self.plan.folder.parent / SOCKET
        if not await asyncio.to_thread(is_there, socket):
            return
        try:
            held = await asyncio.to_thread(held_devices, str(socket))
        except NumawiseError as problem:
            self.log.once(
                "holders", WARNING, f"who has devices that are no longer there is not known: {problem}"
            )
            return
        self.log.forget("holders")
        for plugin in waiting:
            plugin.given -= plugin.gone.keys() - held.get(plugin.offer.resource, frozenset())

    async def _stay_in_touch(self) -> None:
        """Keep every resource registered, also those that come later."""
        tasks: dict[ResourcePlugin, asyncio.Task[None]] = {}
        try:
            while True:
                self._changed.clear()
                for plugin in self.plugins:
                    if plugin not in tasks:
                        tasks[plugin] = asyncio.create_task(plugin.keep_in_touch())
                for plugin in [one for one in tasks if one not in self.plugins]:
                    await _ended([tasks.pop(plugin)])
                    self.turns.ended(plugin.loop)
                    await plugin.stop()
                changed = asyncio.create_task(self._changed.wait())
                done, _ = await asyncio.wait({changed, *tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                for task in done - {changed}:
                    await task  # it failed
        finally:
            await _ended(tasks.values())

    # --- what is asked of it ------------------------------------------------------------------

    def missing(self) -> Sequence[str]:
        """Resources that no kubelet watches."""
        return [
            f"{plugin.offer.resource}: no kubelet watches it"
            for plugin in self.plugins
            if not plugin.in_touch
        ]

    def stuck(self) -> Sequence[str]:
        """Loops that do not turn any more."""
        return self.turns.late()

    def families(self) -> Sequence[MetricFamily]:
        """What was offered and asked."""
        plugins = self.plugins
        return (
            DEVICES.of(*(row for plugin in plugins for row in _devices(plugin))),
            IN_TOUCH.of(*((_of(plugin), int(plugin.in_touch)) for plugin in plugins)),
            REGISTRATIONS.of(
                *(
                    ({**_of(plugin), "outcome": outcome}, plugin.counts["Register", outcome])
                    for plugin in plugins
                    for outcome in (GIVEN, REFUSED)
                )
            ),
            CALLS.of(
                *(
                    ({**_of(plugin), "method": method, "outcome": outcome}, plugin.counts[method, outcome])
                    for plugin in plugins
                    for method in METHODS
                    for outcome in (GIVEN, REFUSED)
                )
            ),
            HEALTH_CHANGES.of(
                *(
                    ({**_of(plugin), "to": word}, plugin.counts["health", word])
                    for plugin in plugins
                    for word in ("bad", "good")
                )
            ),
        )

    def _say_neighbours(self) -> None:
        """Warn where NVIDIA's own plugin is at the same kubelet: the last one that registers wins."""
        socket = self.plan.folder / NVIDIA_SOCKET
        if any(offer.nvidia for offer in self.plan.offers) and is_there(socket):
            self.log.say(
                WARNING,
                "NVIDIA's own device plugin has a socket here; the kubelet takes whichever registers last",
                socket=str(socket),
            )


async def _ended(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """End tasks, whatever becomes of them."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)


def _of(plugin: ResourcePlugin) -> dict[str, str]:
    return {"resource": plugin.offer.resource}


def _devices(plugin: ResourcePlugin) -> list[MetricRow]:
    counts: Counter[tuple[str, str]] = Counter()
    for device in plugin.listed():
        numa = ",".join(map(str, device.numa)) or "none"
        counts[numa, "healthy" if device.healthy else "unhealthy"] += 1
    return [
        ({**_of(plugin), "numa": numa, "health": health}, count)
        for (numa, health), count in sorted(counts.items())
    ]

"""Devices offered to the kubelet: the duty behind ``--device-plugin``."""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.agent.duty import COUNTER, GAUGE, MetricFamily, MetricName, MetricRow
from numawise.apps.agent.log import WARNING, AgentLog
from numawise.apps.agent.offers import ResourceOffer
from numawise.apps.agent.plugin import GIVEN, REFUSED, ResourcePlugin
from numawise.apps.agent.watch import look_first, watch_driver, watch_fakes, watch_presence
from numawise.codec.infile import is_there
from numawise.values import dataclass

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


@dataclass(frozen=True, slots=True)
class OfferPlan:
    """What is going to be offered, and where."""

    offers: tuple[ResourceOffer, ...]
    folder: Path
    """Where the kubelet's socket is, and ours will be."""
    root: Path = Path("/")
    fake: str = ""
    """The file of made-up devices, where they are offered."""
    ignored_xids: frozenset[int] = frozenset()
    remarks: tuple[str, ...] = ()


class DeviceOffering:
    """All resources of a plan at the kubelet."""

    name = "device plugin"

    def __init__(self, plan: OfferPlan, log: AgentLog, driver: Callable[[], Any]) -> None:
        self.plan, self.log, self.driver = plan, log, driver
        self.plugins = [ResourcePlugin(offer, plan.folder, log) for offer in plan.offers]

    async def start(self) -> None:
        """Know the health of everything, then serve."""
        plan = self.plan
        for remark in plan.remarks:
            self.log.say(WARNING, remark)
        self._say_neighbours()
        look_first(self.plugins, plan.root, plan.fake, self.log)
        for plugin in self.plugins:
            await plugin.start()

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Stay registered, and watch the devices."""
        plan, plugins, log = self.plan, self.plugins, self.log
        health = (
            watch_fakes(plugins, plan.fake, log)
            if plan.fake
            else watch_driver(plugins, self.driver, plan.ignored_xids, log)
        )
        return [*(plugin.keep_in_touch() for plugin in plugins), watch_presence(plugins, plan.root), health]

    async def stop(self) -> None:
        """Give the sockets up."""
        for plugin in self.plugins:
            await plugin.stop()

    def missing(self) -> Sequence[str]:
        """Resources that no kubelet watches."""
        return [
            f"{plugin.offer.resource}: no kubelet watches it"
            for plugin in self.plugins
            if not plugin.in_touch
        ]

    def stuck(self) -> Sequence[str]:
        """Nothing is looked at yet."""
        return ()

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

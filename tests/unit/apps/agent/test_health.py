"""Health of devices over hours that pass in a moment, and what says so."""

import asyncio
import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.agent.device_watch import DriverWatch, hear, look
from numawise.apps.agent.health import FORGIVEN, LONGEST_WAIT, DeviceHealth
from numawise.apps.agent.offers import OfferedDevice, ResourceOffer
from numawise.apps.agent.plugin import ResourcePlugin, socket_name
from numawise.codec.agent_values import IGNORED_XIDS, AnswerForm
from numawise.host.gpu_events import XID, GpuEvent, GpuEvents
from numawise.service.log import ServiceLog
from numawise.service.turns import GRACE, Turns


def test_bad_at_once_and_good_after_a_wait() -> None:
    health = DeviceHealth(["a", "b"])
    health.report("a", "presence", "it has gone", 10)
    assert health.settle(10) == {"a": "it has gone"}
    assert not health.is_healthy("a")
    assert health.is_healthy("b")
    health.report("a", "presence", "", 20)
    assert health.settle(20.5) == {}
    assert health.due() == 21
    assert health.settle(21) == {"a": ""}
    assert health.due() is None


def test_two_causes() -> None:
    health = DeviceHealth(["a"])
    health.report("a", "presence", "gone", 0)
    health.report("a", "driver", "Xid 79", 0)
    assert health.settle(0) == {"a": "gone; Xid 79"}
    health.report("a", "presence", "", 1)
    assert health.settle(100) == {}
    health.report("a", "driver", "", 100)
    assert health.settle(101) == {"a": ""}


def test_a_device_that_comes_and_goes_is_published_ever_more_rarely() -> None:
    health = DeviceHealth(["a"])
    changes = 0
    for second in range(3600):  # there for two seconds of three
        health.report("a", "presence", "gone" if second % 3 == 0 else "", second)
        changes += len(health.settle(second))
    assert changes <= 6
    assert health.wait("a") == LONGEST_WAIT
    health.report("a", "presence", "", 3600)
    assert health.settle(3600 + LONGEST_WAIT) == {"a": ""}
    later = 3600 + FORGIVEN + LONGEST_WAIT
    health.report("a", "presence", "gone", later)
    assert health.wait("a") == 1


@pytest.fixture
def plugin() -> ResourcePlugin:
    devices = tuple(
        OfferedDevice(f"GPU-{at}::{copy}", f"GPU-{at}", (at,), f"0000:0{at}:00.0")
        for at in range(2)
        for copy in range(2)
    )
    offer = ResourceOffer("nvidia.com/gpu", devices, AnswerForm(), nvidia=True)
    return ResourcePlugin(offer, Path("/run/x"), ServiceLog(io.StringIO(), structured=False))


def bad(plugin: ResourcePlugin) -> list[str]:
    return [device.id for device in plugin.listed() if not device.healthy]


def test_xids(plugin: ResourcePlugin) -> None:
    for xid in IGNORED_XIDS:
        hear([plugin], GpuEvent("0000:01:00.0", xid), IGNORED_XIDS, plugin.log)
    assert bad(plugin) == []
    hear([plugin], GpuEvent("0000:01:00.0", 79), IGNORED_XIDS, plugin.log)
    assert bad(plugin) == ["GPU-1::0", "GPU-1::1"]
    hear([plugin], GpuEvent("", 48), IGNORED_XIDS, plugin.log)
    assert len(bad(plugin)) == 4


def test_a_reset_forgives_an_xid(plugin: ResourcePlugin, tmp_path: Path) -> None:
    places = [tmp_path / "sys/bus/pci/devices" / f"0000:0{at}:00.0" for at in range(2)]
    for place in places:
        place.mkdir(parents=True)
    hear([plugin], GpuEvent("0000:01:00.0", 79), IGNORED_XIDS, plugin.log)
    look(plugin, tmp_path, 0)
    plugin.publish(1e9)
    assert bad(plugin) == ["GPU-1::0", "GPU-1::1"]
    places[1].rmdir()
    look(plugin, tmp_path, 1e9)
    plugin.publish(1e9)
    assert bad(plugin) == ["GPU-1::0", "GPU-1::1"]
    places[1].mkdir()
    look(plugin, tmp_path, 1e9 + 1)
    plugin.publish(1e9 + 400)
    assert bad(plugin) == []


class Driver:
    """NVML with two GPUs, one of which has no events."""

    class NVMLError(Exception):
        pass

    def __init__(self, *events: Any) -> None:
        self.events = list(events)
        self.lost: set[int] = set()
        self.freed: list[str] = []

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        return "events"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetPciInfo(self, device: int) -> Any:  # noqa: N802
        if device not in (0, 1):
            raise self.NVMLError("Invalid Argument")
        return type("Pci", (), {"busId": f"00000000:0{device}:00.0".encode()})

    def nvmlDeviceGetSupportedEventTypes(self, device: int) -> int:  # noqa: N802
        return XID if device == 0 else 0

    def nvmlDeviceRegisterEvents(self, device: int, kinds: int, events: str) -> None:  # noqa: N802
        assert (device, kinds, events) in ((0, XID, "events"), (1, 0, "events"))

    def nvmlDeviceGetUUID(self, device: int) -> str:  # noqa: N802
        if device in self.lost:
            raise self.NVMLError("GPU is lost")
        return f"GPU-{device}"

    def nvmlEventSetFree(self, events: str) -> None:  # noqa: N802
        self.freed.append(events)

    def close(self) -> None:
        self.freed.append("library")

    def handle(self, value: int) -> int:
        return value

    def nvmlEventSetWait(self, events: str, milliseconds: int) -> Any:  # noqa: N802
        assert (events, milliseconds) == ("events", 7)
        event = self.events.pop(0)
        if isinstance(event, str):
            raise self.NVMLError(event)
        return event


def event(device: int, xid: int) -> Any:
    return type("Event", (), {"device": device, "eventType": XID, "eventData": xid})


def test_what_the_driver_reports() -> None:
    driver = Driver(event(1, 79), None, event(9, 48), "GPU is lost", "Unknown Error")
    events = GpuEvents(driver)
    assert events.silent == ("0000:01:00.0",)
    assert events.wait(7) == (GpuEvent("0000:01:00.0", 79),)
    assert events.wait(7) == ()
    assert events.wait(7) == (GpuEvent("", 48),)
    driver.lost = {0}
    assert events.wait(7) == (GpuEvent("0000:00:00.0"),)
    driver.lost = set()
    with pytest.raises(Driver.NVMLError, match="Unknown Error"):
        events.wait(7)


def test_a_lost_gpu_is_not_asked_about_without_end(plugin: ResourcePlugin) -> None:
    driver = Driver(*["GPU is lost"] * 1000)
    driver.lost = {1}
    driver.nvmlEventSetWait = lambda *_: Driver.nvmlEventSetWait(driver, "events", 7)  # type: ignore[method-assign]

    async def scenario() -> None:
        watch = DriverWatch([plugin], lambda: driver, lambda: IGNORED_XIDS, plugin.log, Turns())
        task = asyncio.create_task(watch.listen())
        while not bad(plugin):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert bad(plugin) == ["GPU-1::0", "GPU-1::1"]
    assert len(driver.events) > 900
    assert driver.freed == ["events", "library"]


def test_the_driver_is_let_go_of_for_whoever_asks_it_afresh(plugin: ResourcePlugin) -> None:
    drivers = []

    def load() -> Driver:
        driver = Driver(*[None] * 100_000)
        driver.nvmlEventSetWait = lambda *_: Driver.nvmlEventSetWait(driver, "events", 7)  # type: ignore[method-assign]
        drivers.append(driver)
        return driver

    async def scenario() -> None:
        watch = DriverWatch([plugin], load, lambda: IGNORED_XIDS, plugin.log, Turns())
        task = asyncio.create_task(watch.listen())
        while not drivers:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        async with watch.closed():
            assert drivers[0].freed == ["events", "library"]
            await asyncio.sleep(0.01)
            assert len(drivers) == 1
        while len(drivers) < 2 or len(drivers[1].events) == 100_000:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert drivers[1].freed == ["events", "library"]

    asyncio.run(scenario())


def test_mig_that_is_switched_on_is_noticed(plugin: ResourcePlugin) -> None:
    driver = Driver(*[None] * 100_000)
    driver.nvmlEventSetWait = lambda *_: Driver.nvmlEventSetWait(driver, "events", 7)  # type: ignore[method-assign]
    mode = 0
    driver.nvmlDeviceGetMigMode = lambda _: [mode, mode]  # type: ignore[attr-defined]

    async def scenario() -> None:
        nonlocal mode
        told = asyncio.Event()
        watch = DriverWatch([plugin], lambda: driver, lambda: (), plugin.log, Turns(), told.set)
        task = asyncio.create_task(watch.listen())
        while len(driver.events) > 99_990:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        assert not told.is_set()
        mode = 1
        await told.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_loop_that_does_not_turn_is_named() -> None:
    now = 0.0
    turns = Turns(lambda: now)
    turns.turn("this", 2)
    turns.turn("that", 10)
    now = 2 + GRACE
    assert turns.late() == ()
    now += 1
    assert turns.late() == (f"this: has not gone on for {3 + GRACE:.0f} seconds",)
    turns.turn("this", 2)
    now += 8
    assert turns.late() == (f"that: has not gone on for {11 + GRACE:.0f} seconds",)
    turns.ended("that")
    assert turns.late() == ()


@pytest.mark.parametrize("turns", range(6))
def test_the_end_is_heard_in_every_moment(plugin: ResourcePlugin, turns: int) -> None:
    async def scenario() -> None:
        task = asyncio.create_task(plugin.keep_in_touch())
        for _ in range(5):
            await asyncio.sleep(0)
        plugin._watched.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=10)
        task.cancel()
        assert done == {task}

    asyncio.run(scenario())


def test_names_of_sockets() -> None:
    folder = Path("/var/lib/kubelet/device-plugins")
    assert socket_name("nvidia.com/gpu", folder) == "numawise-nvidia.com_gpu.sock"
    long = f"{'d' * 200}.example.com/gpu"
    assert socket_name(long, folder) != socket_name(long + "2", folder)
    assert len(str(folder / socket_name(long, folder))) < 107

"""Devices that come and go while an agent runs, step by step: no clock, no kubelet, a machine in a folder."""

import asyncio
import io
from pathlib import Path

import pytest

from numawise.apps.agent import offer_plan as plans
from numawise.apps.agent.follow import LONGEST_WAIT
from numawise.apps.agent.offer_plan import offer_plan
from numawise.apps.agent.offering import AWAY, DeviceOffering
from numawise.errors import HostError
from numawise.machine.hardware import NVIDIA, NVML, UNKNOWN, Hardware, Remark
from numawise.machine.synthetic import synthetic
from numawise.service.log import ServiceLog
from numawise.values import replace
from tests.unit.host.trees import PCI, grow, two_cpus

CONFIG = """\
agent: v1
resources:
- {name: example.com/x, paths: ["/dev/x/*"]}
- {name: example.com/nic, pci: {vendor: "15b3", driver: mlx5_core}}
"""
NIC = {"vendor": "0x15b3", "device": "0x1021", "class": "0x020000", "numa_node": "0"}


class Steps:
    """An offering that is moved on by hand."""

    def __init__(self, folder: Path, *, config: str = "", fake: str = "") -> None:
        self.log = io.StringIO()
        plan = offer_plan(config, fake, str(folder / "kubelet"), folder)
        self.offering = DeviceOffering(plan, ServiceLog(self.log, structured=False), no_driver)
        self.offering.renew(plan, 0.0)
        self.now = 0.0
        self.after(0)

    def after(self, seconds: float) -> dict[str, str]:
        """What is listed when so much time has passed; ``-`` before those that are bad."""
        self.now += seconds
        asyncio.run(self.turn())
        return {
            plugin.offer.resource: " ".join(
                device.id if device.healthy else f"-{device.id}" for device in plugin.listed()
            )
            for plugin in self.offering.plugins
        }

    async def turn(self) -> None:
        await self.offering.following.turn(self.now)
        await self.offering._ask_holders(self.now)
        self.offering.sweep(self.now)
        for plugin in self.offering.plugins:
            plugin.publish(self.now)


def no_driver() -> None:
    raise HostError("there is none")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    grow(tmp_path, {**two_cpus(), "dev/x/a0": "", "kubelet/keep": ""})
    plug(tmp_path, "0000:01:00.0")
    (tmp_path / "agent.yaml").write_text(CONFIG)
    return tmp_path


def plug(folder: Path, address: str) -> None:
    grow(folder, {f"{PCI}/{address}/{name}": text for name, text in NIC.items()})
    (folder / PCI / address / "driver").symlink_to("../../drivers/mlx5_core")


def unplug(folder: Path, address: str) -> None:
    place = folder / PCI / address
    for path in place.iterdir():
        path.unlink()
    place.rmdir()


def test_devices_that_are_plugged_in_are_offered(folder: Path) -> None:
    steps = Steps(folder, config=str(folder / "agent.yaml"))
    assert steps.after(2) == {"example.com/x": "x-a0", "example.com/nic": "0000:01:00.0"}
    (folder / "dev/x/a1").touch()
    plug(folder, "0000:02:00.0")
    assert steps.after(2) == {
        "example.com/x": "x-a0 x-a1",
        "example.com/nic": "0000:01:00.0 0000:02:00.0",
    }
    assert "new devices (resource=example.com/x devices=x-a1)" in steps.log.getvalue()


def test_a_device_that_goes_is_bad_at_once_and_forgotten_later(folder: Path) -> None:
    steps = Steps(folder, config=str(folder / "agent.yaml"))
    (folder / "dev/x/a0").unlink()
    unplug(folder, "0000:01:00.0")
    assert steps.after(2) == {"example.com/x": "-x-a0", "example.com/nic": "-0000:01:00.0"}
    plug(folder, "0000:01:00.0")
    assert steps.after(2)["example.com/nic"] == "-0000:01:00.0"  # it must stay for a while
    assert steps.after(2) == {"example.com/x": "-x-a0", "example.com/nic": "0000:01:00.0"}
    assert steps.after(AWAY) == {"example.com/x": "", "example.com/nic": "0000:01:00.0"}
    (folder / "dev/x/a0").touch()
    assert steps.after(2)["example.com/x"] == "x-a0"


def test_a_device_that_was_given_stays_bad_as_long_as_nobody_says_that_it_is_free(folder: Path) -> None:
    steps = Steps(folder, config=str(folder / "agent.yaml"))
    (plugin, _) = steps.offering.plugins
    plugin.allocated(("x-a0",))
    (folder / "dev/x/a0").unlink()
    assert steps.after(2)["example.com/x"] == "-x-a0"
    assert steps.after(1000 * AWAY)["example.com/x"] == "-x-a0"


def test_another_driver_is_another_device(folder: Path) -> None:
    steps = Steps(folder, config=str(folder / "agent.yaml"))
    driver = folder / PCI / "0000:01:00.0/driver"
    driver.unlink()
    driver.symlink_to("../../drivers/vfio-pci")
    assert steps.after(2)["example.com/nic"] == "-0000:01:00.0"


def test_another_configuration_and_one_that_is_broken(folder: Path) -> None:
    config = folder / "agent.yaml"
    steps = Steps(folder, config=str(config))
    config.write_text(CONFIG + '- {name: example.com/y, paths: ["/dev/x/*"]}\n')
    assert steps.after(2)["example.com/y"] == "x-a0"
    config.write_text("agent: v1\nresources: [half a fi")
    assert set(steps.after(2)) == {"example.com/x", "example.com/nic", "example.com/y"}
    assert steps.log.getvalue().count("everything stays as it was") == 1
    config.write_text("agent: v1\nresources:\n- {name: example.com/x, paths: ['/dev/x/*']}\n")
    assert steps.after(2) == {
        "example.com/x": "x-a0",
        "example.com/nic": "-0000:01:00.0",
        "example.com/y": "-x-a0",
    }
    assert steps.after(AWAY) == {"example.com/x": "x-a0"}


def test_made_up_devices_come_and_go_with_their_file(folder: Path) -> None:
    fake = folder / "fake.yaml"
    fake.write_text("- {resource: example.com/gpu, ids: [a, b]}\n")
    steps = Steps(folder, fake=str(fake))
    steps.offering.plugins[0].allocated(("b",))
    fake.write_text("- {resource: example.com/gpu, ids: [c]}\n- {resource: example.com/nic, ids: [n0]}\n")
    assert steps.after(1) == {"example.com/gpu": "c -b", "example.com/nic": "n0"}
    fake.unlink()
    assert steps.after(1) == {"example.com/gpu": "c -b", "example.com/nic": "n0"}


def test_a_driver_that_comes_later(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """failOnInitError false: a driver is asked ever more rarely, and at once when its files appear."""
    server = synthetic("2s 2n 4c 2gpu")
    server = replace(server, pci=tuple(replace(one, vendor=NVIDIA) for one in server.pci))
    reads: list[float] = []
    answers = False

    def read(_: Path | None) -> Hardware:
        reads.append(steps.now if steps else 0.0)
        if answers:
            return server
        return replace(server, gpus=(), remarks=(Remark(UNKNOWN, NVML, "NVML cannot be loaded"),))

    steps: Steps | None = None
    monkeypatch.setattr(plans, "read_live", read)  # what the driver says is not in files
    config = folder / "plugin.yaml"
    config.write_text("version: v1\nflags: {failOnInitError: false}\n")
    steps = Steps(folder, config=str(config))
    assert steps.after(1) == {"nvidia.com/gpu": ""}
    for _ in range(300):
        steps.after(1)
    assert 300 / LONGEST_WAIT <= len(reads) <= 5 + 300 / LONGEST_WAIT + 5
    answers = True
    for address in (gpu.address for gpu in server.gpus):  # its folders appear with it
        grow(folder, {f"proc/driver/nvidia/gpus/{address}/information": "Device Minor: 0"})
        grow(folder, {f"{PCI}/{address}/vendor": "0x10de"})
    assert steps.after(1) == {"nvidia.com/gpu": "GPU0 GPU1"}
    answers = False
    (folder / f"proc/driver/nvidia/gpus/{server.gpus[0].address}/information").unlink()
    (folder / f"proc/driver/nvidia/gpus/{server.gpus[0].address}").rmdir()
    assert steps.after(1) == {"nvidia.com/gpu": "-GPU0 -GPU1"}

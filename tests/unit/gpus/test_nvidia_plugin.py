"""What NVIDIA's plugin offers on a machine."""

import pytest

from numawise.codec.hardware.nvidia_list import read as nvidia_list
from numawise.errors import InputError
from numawise.gpus.links import GpuLinks
from numawise.gpus.nvidia_plugin import (
    MIXED,
    MPS,
    SINGLE,
    TIME_SLICING,
    PluginConfig,
    Replicas,
    library_points,
    with_plugin,
)
from numawise.inputs.machine import MachineInput, read_machine
from numawise.machine.catalog import machine_named
from numawise.machine.hardware import Hardware
from numawise.machine.model import DevicePlugin, Machine
from numawise.machine.preference import LinkedGpus, SharedDevices
from numawise.machine.synthetic import synthetic
from numawise.values import replace
from tests.unit.build import T3, machine

CUT = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)
  MIG 1g.5gb     Device  0: (UUID: MIG-00)
  MIG 1g.5gb     Device  1: (UUID: MIG-01)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1)
  MIG 1g.5gb     Device  0: (UUID: MIG-10)
"""


def hardware(listed: str) -> Hardware:
    """Two NUMA nodes with a GPU each, cut as in the list."""
    base = synthetic("2s 2n 4c 2gpu")
    cut = nvidia_list(listed)
    known = {gpu.name: gpu for gpu in base.gpus}
    gpus = tuple(replace(known[gpu.name], uuid=gpu.uuid) if gpu.name in known else gpu for gpu in cut.gpus)
    return replace(base, gpus=gpus)


def offered(given: Hardware, config: PluginConfig | None = None) -> dict[str, str]:
    """Resource → devices with their NUMA nodes."""
    return shown(MachineInput(given, plugin=config).machine.plugins)


def shown(plugins: tuple[DevicePlugin, ...]) -> dict[str, str]:
    return {
        plugin.resource: " ".join(
            f"{device.id}@{','.join(map(str, device.numa or ()))}" for device in plugin.devices
        )
        for plugin in plugins
    }


@pytest.mark.parametrize(("strategy", "expected"), [
    ("none",   {"nvidia.com/gpu": "GPU-0@0 GPU-1@1"}),
    ("single", {"nvidia.com/gpu": "MIG-00@0 MIG-01@0 MIG-10@1"}),
    ("mixed",  {"nvidia.com/mig-1g.5gb": "MIG-00@0 MIG-01@0 MIG-10@1"}),
])  # fmt: skip
def test_mig_strategies(strategy: str, expected: dict[str, str]) -> None:
    assert offered(hardware(CUT), PluginConfig(strategy)) == expected


def test_mixed_offers_whole_gpus_and_profiles_apart() -> None:
    cut = hardware(
        "GPU 0: NVIDIA A100 (UUID: GPU-0)\n  MIG 3g.20gb Device 0: (UUID: MIG-00)\n"
        "  MIG 1g.5gb+me Device 1: (UUID: MIG-01)\nGPU 1: NVIDIA A100 (UUID: GPU-1)\n"
    )
    assert offered(cut, PluginConfig(MIXED)) == {
        "nvidia.com/gpu": "GPU-1@1",
        "nvidia.com/mig-3g.20gb": "MIG-00@0",
        "nvidia.com/mig-1g.5gb.me": "MIG-01@0",
    }
    plugins = MachineInput(cut, plugin=PluginConfig(MIXED)).machine.plugins
    assert [type(plugin.preference) for plugin in plugins] == [LinkedGpus, SharedDevices, SharedDevices]


@pytest.mark.parametrize(("listed", "strategy", "message"), [
    (CUT.replace("  MIG 1g.5gb     Device  0: (UUID: MIG-10)\n", ""), SINGLE, "the same migEnabled value"),
    (CUT.replace("1g.5gb     Device  1", "2g.10gb    Device  1"), SINGLE, "more than one MIG device type"),
    (CUT.replace("1g.5gb     Device  1", "1c.2g.10gb Device  1"), MIXED, "MIG profile '1c.2g.10gb' does not"),
])  # fmt: skip
def test_what_the_plugin_refuses(listed: str, strategy: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        offered(hardware(listed), PluginConfig(strategy))


@pytest.mark.parametrize("way", [TIME_SLICING, MPS])
def test_replicas_have_the_gpus_numa_node(way: str) -> None:
    config = PluginConfig(
        sharing=way, replicas=(Replicas("nvidia.com/gpu", 2, "nvidia.com/gpu.shared"),), refuses_several=True
    )
    made = MachineInput(hardware(CUT), plugin=config).machine
    assert shown(made.plugins) == {"nvidia.com/gpu.shared": "GPU-0::0@0 GPU-0::1@0 GPU-1::0@1 GPU-1::1@1"}
    assert made.plugins[0].preference == SharedDevices()
    assert made.plugins[0].refuses_several


def test_replicas_of_mig_instances() -> None:
    replicas = (Replicas("nvidia.com/mig-1g.5gb", 2, "nvidia.com/mig-1g.5gb"),)
    config = PluginConfig(MIXED, TIME_SLICING, replicas, policy="packed")
    made = MachineInput(hardware(CUT), plugin=config).machine
    assert shown(made.plugins)["nvidia.com/mig-1g.5gb"].startswith("MIG-00::0@0 MIG-00::1@0 MIG-01::0@0")
    assert made.plugins[0].preference == SharedDevices("packed")


def test_a_machine_file_is_taken_to_the_letter() -> None:
    exact = machine(T3, devices={"nvidia.com/gpu": "a@0 b@0", "x/nic": "n@0"})
    assert MachineInput(Hardware(), exact=exact).machine is exact
    config = PluginConfig(replicas=(Replicas("nvidia.com/gpu", 2, "nvidia.com/gpu"),))
    made = with_plugin(exact, None, config)
    assert shown(made.plugins) == {"nvidia.com/gpu": "a::0@0 a::1@0 b::0@0 b::1@0", "x/nic": "n@0"}
    assert with_plugin(made, None, config) == made  # replicas are not made of replicas


def test_a_plugin_without_preference() -> None:
    made = MachineInput(machine_named("dgx-h100"), plugin=PluginConfig(prefers=False)).machine
    assert all(plugin.preference is None for plugin in made.plugins)


def test_machines_without_nvidia_gpus_are_left_alone() -> None:
    given = read_machine("mi300x")
    assert all(plugin.preference is None for plugin in given.machine.plugins)


# --- links ------------------------------------------------------------------------------------


def points(name: str) -> tuple[tuple[int, ...], ...]:
    given = machine_named(name)
    return library_points(GpuLinks.of(given, given.gpus))


def test_nvlinks_over_a_switch_count_for_no_pair() -> None:
    rows = points("dgx-h100")
    assert rows[0] == (0, 20, 20, 20, 10, 10, 10, 10)
    first = points("dgx-a100")[0]
    assert first[1] > max(first[2:])  # one switch above both


def test_direct_nvlinks_count() -> None:
    given = read_machine("2s 2n 16c 4gpu nvlink").hardware
    assert given.matrix is not None
    links = {
        row: {
            column: text.replace(text, "NV4") if text.startswith("NV") else text
            for column, text in cells.items()
        }
        for row, cells in given.matrix.links.items()
    }
    four = replace(given, matrix=replace(given.matrix, links=links))
    rows = library_points(GpuLinks.of(four, four.gpus))
    assert rows[0] == (0, 420, 410, 410)


@pytest.mark.parametrize(("name", "free", "wanted", "expected"), [
    ("8gpu-server", "GPU1 GPU2 GPU3",                2, "GPU2 GPU3"),
    ("8gpu-server", "GPU0 GPU1 GPU2 GPU3 GPU4 GPU5", 4, "GPU0 GPU1 GPU2 GPU3"),
    ("dgx-a100",    "GPU0 GPU2 GPU3",                2, "GPU2 GPU3"),
])  # fmt: skip
def test_catalogue_machines_prefer_links(name: str, free: str, wanted: int, expected: str) -> None:
    seen = read_machine(name).machine
    assert isinstance(seen, Machine)
    plugin = next(one for one in seen.plugins if one.resource == "nvidia.com/gpu")
    assert plugin.preference is not None
    listed = [device.id for device in plugin.devices]
    assert plugin.preference.answer(listed, set(free.split()), (), wanted).ids == set(expected.split())

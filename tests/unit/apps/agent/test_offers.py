"""What the agent offers on a machine, which devices it prefers, and what containers get."""

import os
from pathlib import Path

import pytest

from numawise.apps.agent.answers import edits, preferred
from numawise.apps.agent.offers import ResourceOffer, fake_offers, offers_of
from numawise.codec.agent_config import agent_config
from numawise.codec.agent_nvidia import nvidia_config
from numawise.codec.agent_values import AgentConfig, FakeDevice, ResourceRule
from numawise.codec.document import read_documents
from numawise.codec.hardware.nvidia_list import read as nvidia_list
from numawise.codec.nvidia_forms import plugin_source
from numawise.errors import HostError, InputError
from numawise.gpus.choose import choices
from numawise.gpus.links import GpuLinks
from numawise.kube.deviceplugin import PreferenceQuestion
from numawise.kube.grpc import CallRefused
from numawise.machine.catalog import machine_named
from numawise.machine.hardware import Hardware, PciDevice
from numawise.machine.synthetic import synthetic
from numawise.sets import ids_of
from numawise.values import replace
from tests.unit.host.trees import grow

NOWHERE = Path("/nonexistent")
CUT = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)
  MIG 1g.5gb     Device  0: (UUID: MIG-00)
  MIG 1g.5gb     Device  1: (UUID: MIG-01)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1)
"""


def nvidia(text: str = "version: v1") -> AgentConfig:
    source = plugin_source(read_documents(text, "plugin.yaml"), certain=True)
    assert source is not None
    return nvidia_config(source, "")


def offers(hardware: Hardware, text: str = "version: v1", root: Path = NOWHERE) -> dict[str, ResourceOffer]:
    return {offer.resource: offer for offer in offers_of(nvidia(text).resources, hardware, root)}


def shown(offer: ResourceOffer) -> str:
    return " ".join(f"{device.id}@{','.join(map(str, device.numa)) or '-'}" for device in offer.devices)


def ask(offer: ResourceOffer, available: list[str], size: int, *must: str) -> tuple[str, ...]:
    return preferred(offer, PreferenceQuestion(tuple(available), must, size))


def cut() -> Hardware:
    base = synthetic("2s 2n 4c 2gpu")
    known = {gpu.name: gpu for gpu in base.gpus}
    gpus = nvidia_list(CUT).gpus
    return replace(
        base,
        gpus=tuple(replace(known[gpu.name], uuid=gpu.uuid) if gpu.name in known else gpu for gpu in gpus),
    )


# --- NUMA nodes -----------------------------------------------------------------------------------


def test_numa_nodes_of_a_server() -> None:
    offer = offers(machine_named("8gpu-server"))["nvidia.com/gpu"]
    assert shown(offer) == "GPU0@0 GPU1@0 GPU2@0 GPU3@0 GPU4@1 GPU5@1 GPU6@1 GPU7@1"
    assert offer.remarks == ()


def test_the_node_of_the_cpus_not_that_of_a_gpus_memory() -> None:
    tray = machine_named("gb200")
    assert {gpu.own_numa for gpu in tray.gpus} == {2, 10, 18, 26}
    assert shown(offers(tray)["nvidia.com/gpu"]) == "GPU0@0 GPU1@0 GPU2@1 GPU3@1"
    wrong = tuple(
        replace(device, numa=next(gpu.own_numa for gpu in tray.gpus if gpu.address == device.address))
        if device.kind == "gpu"
        else device
        for device in tray.pci
    )
    offer = offers(replace(tray, pci=wrong))["nvidia.com/gpu"]
    assert shown(offer) == "GPU0@0 GPU1@0 GPU2@1 GPU3@1"
    assert "GPU2: NUMA node 18 has no CPUs; offered on 1" in offer.remarks


def test_a_device_without_a_node_has_no_topology_and_that_is_said_once() -> None:
    server = machine_named("8gpu-server")
    lost = replace(server, pci=tuple(replace(device, numa=-1) for device in server.pci))
    offer = offers(lost)["nvidia.com/gpu"]
    assert {device.numa for device in offer.devices} == {()}
    (remark,) = offer.remarks
    assert "no NUMA node for GPU0, GPU1, GPU2, GPU3 and 4 more: offered without topology" in remark
    assert "numawise doctor" in remark


def test_on_one_node_nothing_is_said() -> None:
    small = synthetic("1s 1n 4c 2gpu")
    lost = replace(small, pci=tuple(replace(device, numa=-1) for device in small.pci))
    assert offers(lost)["nvidia.com/gpu"].remarks == ()


@pytest.mark.parametrize(("strategy", "expected"), [
    ("none",   {"nvidia.com/gpu": "GPU0@0 GPU1@1"}),
    ("mixed",  {"nvidia.com/gpu": "GPU1@1"}),
    ("single", None),
])  # fmt: skip
def test_a_gpu_with_mig_and_without_instances(strategy: str, expected: dict[str, str] | None) -> None:
    base = synthetic("2s 2n 4c 2gpu")
    first, second = base.gpus
    text = f"version: v1\nflags: {{migStrategy: {strategy}}}"
    half = replace(base, gpus=(replace(first, mig=True), second))
    if expected is None:
        with pytest.raises(InputError, match="must be configured with the same migEnabled value"):
            offers(half, text)
    else:
        assert {name: shown(offer) for name, offer in offers(half, text).items()} == expected
    both = replace(base, gpus=(replace(first, mig=True), replace(second, mig=True)))
    (offer,) = offers(both, text).values()
    assert (shown(offer) == "") == (strategy != "none")
    assert any("there are no instances" in remark for remark in offer.remarks) == (strategy != "none")


def test_files_of_mig_instances(tmp_path: Path) -> None:
    address = cut().gpus[0].address
    parted = replace(
        cut(), gpus=tuple(replace(gpu, address=address) if gpu.parent else gpu for gpu in cut().gpus)
    )
    tree: dict[str, str] = {f"proc/driver/nvidia/gpus/{address}/information": "Device Minor: \t 3"}
    for place, minor in (("gi1", 30), ("gi1/ci0", 31), ("gi2", 39), ("gi2/ci0", 40)):
        tree[f"proc/driver/nvidia/capabilities/gpu3/mig/{place}/access"] = f"DeviceFileMinor: {minor}\n"
    grow(tmp_path, tree)
    rules = nvidia("version: v1\nflags: {migStrategy: mixed, plugin: {passDeviceSpecs: true}}").resources
    numbers = {"MIG-00": (1, 0), "MIG-01": (2, 0)}
    whole, parts = offers_of(rules, parted, tmp_path, instance_of=numbers.get)
    assert whole.remarks == ()
    assert [[inside for inside, _ in device.files] for device in parts.devices] == [
        ["/dev/nvidia3", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"],
        ["/dev/nvidia3", "/dev/nvidia-caps/nvidia-cap39", "/dev/nvidia-caps/nvidia-cap40"],
    ]
    assert [inside for inside, _ in edits(parts, ("MIG-00", "MIG-01")).nodes].count("/dev/nvidia3") == 1
    _, unknown = offers_of(rules, parted, tmp_path, instance_of={"MIG-00": (7, 7)}.get)
    assert [len(device.files) for device in unknown.devices] == [1, 1]
    assert "which files of /dev/nvidia-caps belong to GPU0:0, GPU0:1" in unknown.remarks[0]


@pytest.mark.parametrize(("files", "expected"), [
    pytest.param({}, "", id="the folders are not to be seen"),
    pytest.param({"etc/cdi/x.txt": "kind: nvidia.com/gpu"}, "no CDI file of kind nvidia.com/gpu lies in", id="none"),
    pytest.param({"etc/cdi/x.yaml": "kind: nvidia.com/gpu2\n"}, "no CDI file of kind", id="another kind"),
    pytest.param({"etc/cdi/x.yaml": "kind: nvidia.com/gpu\ndevices:\n- name: GPU1\n"},
                 "do not name GPU0: the container runtime will refuse", id="one is missing"),
    pytest.param({"var/run/cdi/x.json": '{"kind": "nvidia.com/gpu", "devices": [{"name": "GPU0"},{"name":"GPU1"}]}'},
                 "", id="all are there"),
])  # fmt: skip
def test_cdi_files_that_nobody_made(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    grow(tmp_path, files)
    named = offers(
        synthetic("2s 2n 4c 2gpu"), "version: v1\nflags: {plugin: {deviceListStrategy: [cdi-cri]}}", tmp_path
    )["nvidia.com/gpu"]
    if expected:
        (remark,) = named.remarks
        assert expected in remark
        assert "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml" in remark
    else:
        assert named.remarks == ()


# --- NVIDIA's configuration -----------------------------------------------------------------------


def test_mig_instances_and_replicas() -> None:
    mixed = offers(cut(), "version: v1\nflags: {migStrategy: mixed}")
    assert {name: shown(offer) for name, offer in mixed.items()} == {
        "nvidia.com/gpu": "GPU-1@1",
        "nvidia.com/mig-1g.5gb": "MIG-00@0 MIG-01@0",
    }
    sliced = offers(
        synthetic("2s 2n 4c 2gpu"),
        "sharing: {timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: true, "
        "resources: [{name: nvidia.com/gpu, replicas: 2}]}}",
    )["nvidia.com/gpu.shared"]
    assert shown(sliced) == "GPU0::0@0 GPU0::1@0 GPU1::0@1 GPU1::1@1"
    assert ask(sliced, [device.id for device in sliced.devices], 2) == ("GPU0::0", "GPU1::0")
    assert dict(edits(sliced, ("GPU1::0",)).envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU1"}
    with pytest.raises(CallRefused, match="a container gets one, not 2"):
        edits(sliced, ("GPU1::0", "GPU0::0"))


@pytest.mark.parametrize(("plugin", "given"), [
    ("{}",                                             "NVIDIA_VISIBLE_DEVICES=GPU0,GPU1"),
    ("{deviceIDStrategy: index}",                      "NVIDIA_VISIBLE_DEVICES=0,1"),
    ("{deviceListStrategy: volume-mounts}",            "NVIDIA_VISIBLE_DEVICES={0} mount:{0}/GPU0 mount:{0}/GPU1"),
    ("{deviceListStrategy: cdi-cri}",                  "cdi:nvidia.com/gpu=GPU0 cdi:nvidia.com/gpu=GPU1"),
    ("{deviceListStrategy: cdi-annotations}",          "cdi.k8s.io/numawise_GPU0=nvidia.com/gpu=GPU0,nvidia.com/gpu=GPU1"),
    ("{deviceListStrategy: [envvar, cdi-cri], cdiAnnotationPrefix: x/}",
     "NVIDIA_VISIBLE_DEVICES=GPU0,GPU1 cdi:nvidia.com/gpu=GPU0 cdi:nvidia.com/gpu=GPU1"),
])  # fmt: skip
def test_ways_of_telling_a_container(plugin: str, given: str) -> None:
    text = f"version: v1\nflags: {{plugin: {plugin}}}"
    offer = offers(machine_named("8gpu-server"), text)["nvidia.com/gpu"]
    answer = edits(offer, ("GPU0", "GPU1"))
    words = [f"{name}={value}" for name, value in (*answer.envs.items(), *answer.annotations.items())]
    words += [f"mount:{inside}" for inside, outside in answer.mounts if outside == "/dev/null"]
    words += [f"cdi:{name}" for name in answer.cdi]
    assert " ".join(words) == given.format("/var/run/nvidia-container-devices")


def test_device_files_are_passed(tmp_path: Path) -> None:
    server = machine_named("8gpu-server")
    for number, gpu in enumerate(server.gpus):
        place = tmp_path / "proc/driver/nvidia/gpus" / gpu.address
        place.mkdir(parents=True)
        (place / "information").write_text(f"Device Minor: \t {number}\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    text = "version: v1\nflags: {nvidiaDriverRoot: /run/nvidia/driver, plugin: {passDeviceSpecs: true}}"
    offer = offers(server, text, tmp_path)["nvidia.com/gpu"]
    assert edits(offer, ("GPU5",)).nodes == (
        ("/dev/nvidiactl", "/dev/nvidiactl"),
        ("/dev/nvidia5", "/dev/nvidia5"),
    )
    (tmp_path / "run/nvidia/driver/dev").mkdir(parents=True)
    (tmp_path / "run/nvidia/driver/dev/nvidiactl").touch()
    offer = offers(server, text, tmp_path)["nvidia.com/gpu"]
    assert edits(offer, ("GPU5",)).nodes[1] == ("/dev/nvidia5", "/run/nvidia/driver/dev/nvidia5")


def test_no_driver() -> None:
    with pytest.raises(HostError, match=r"no GPUs of NVIDIA's driver.*failOnInitError"):
        offers(machine_named("xeon-2s"))
    offer = offers(machine_named("xeon-2s"), "flags: {failOnInitError: false}")["nvidia.com/gpu"]
    assert offer.devices == ()
    assert offer.remarks


# --- preference -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["8gpu-server", "dgx-a100", "dgx-h100", "l40s-8gpu"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_the_choice_is_the_launchers(name: str, size: int) -> None:
    hardware = machine_named(name)
    offer = offers(hardware)["nvidia.com/gpu"]
    ids = [device.id for device in offer.devices]
    links = GpuLinks.of(hardware, hardware.gpus)
    for taken in (0, 0b1, 0b10010, 0b1010):
        free = links.every & ~taken
        best = choices(links, free, size)
        expected = tuple(ids[at] for at in ids_of(best[0].gpus)) if best else ()
        assert ask(offer, [ids[at] for at in ids_of(free)], size) == expected


def test_questions_without_an_answer_leave_the_choice_to_the_kubelet() -> None:
    offer = offers(machine_named("8gpu-server"))["nvidia.com/gpu"]
    assert ask(offer, ["GPU0"], 2) == ()
    assert ask(offer, ["GPU0", "GPU1"], 0) == ()
    assert ask(offer, ["GPU0", "GPU1"], 1, "GPU9") == ()
    assert ask(offer, ["GPU9", "GPU1"], 1) == ("GPU1",)
    assert ask(offer, [], 1, "GPU3") == ("GPU3",)


# --- our own configuration ------------------------------------------------------------------------


def own(text: str) -> tuple[ResourceRule, ...]:
    return agent_config(read_documents(f"agent: v1\nresources:\n{text}", "agent.yaml")).resources


def test_pci_functions(tmp_path: Path) -> None:
    group = tmp_path / "sys/bus/pci/devices/0000:81:00.0"
    group.mkdir(parents=True)
    (group / "iommu_group").symlink_to("../../../../kernel/iommu_groups/42")
    base = synthetic("2s 2n 4c")
    functions = (
        PciDevice("0000:17:00.0", 0x15B3, 0x101B, 0x020000, "nic", 0, driver="mlx5_core"),
        PciDevice("0000:17:00.1", 0x15B3, 0x101B, 0x020000, "nic", 0, driver="mlx5_core"),
        PciDevice("0000:81:00.0", 0x15B3, 0x101B, 0x020700, "nic", 1, driver="vfio-pci"),
        PciDevice("0000:82:00.0", 0x8086, 0x101B, 0x020000, "nic", -1),
    )
    hardware = replace(base, pci=functions)
    (nics,) = offers_of(own('- {name: x.y/nic, pci: {vendor: "15B3", class: "0200"}}'), hardware, NOWHERE)
    assert shown(nics) == "0000:17:00.0@0 0000:17:00.1@0"
    assert dict(edits(nics, ("0000:17:00.1",)).envs) == {"X_Y_NIC": "0000:17:00.1"}
    (taken,) = offers_of(
        own("- {name: x.y/vf, pci: {driver: vfio-pci}, answer: {nodes: true, cdi: x.y/vf}}"),
        hardware,
        tmp_path,
    )
    answer = edits(taken, ("0000:81:00.0",))
    assert [inside for inside, _ in answer.nodes] == ["/dev/vfio/vfio", "/dev/vfio/42"]
    assert answer.cdi == ("x.y/vf=0000:81:00.0",)
    assert not answer.envs
    (several,) = offers_of(own('- {name: x.y/n, pci: {device: ["101b", "1"]}}'), hardware, NOWHERE)
    assert shown(several).endswith("0000:82:00.0@-")
    assert "no NUMA node for 0000:82:00.0" in several.remarks[0]
    assert ask(several, [device.id for device in several.devices], 2) == ("0000:17:00.0", "0000:17:00.1")
    (none,) = offers_of(own("- {name: x.y/n, pci: {driver: nobody}}"), hardware, NOWHERE)
    assert none.remarks == ("x.y/n: nothing on this machine matches; it is offered without devices",)


def test_paths_that_would_have_one_id(tmp_path: Path) -> None:
    for name in ("a/b", "a-b", "a b"):
        place = tmp_path / "dev" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    (offer,) = offers_of(own('- {name: x.y/f, paths: ["/dev/a*", /dev/a/*]}'), Hardware(), tmp_path)
    assert len({device.id for device in offer.devices}) == 3
    assert {inside for device in offer.devices for inside, _ in device.files} == {
        "/dev/a/b",
        "/dev/a-b",
        "/dev/a b",
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")
def test_a_file_has_the_node_of_the_function_behind_it(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    try:
        os.mknod(tmp_path / "dev/x0", 0o20600, os.makedev(1, 3))
    except OSError:
        pytest.skip("device files may not be made here")
    chars = tmp_path / "sys/dev/char"
    chars.mkdir(parents=True)
    (chars / "1:3").symlink_to("../../devices/pci0000:80/0000:81:00.0/x/x0")
    hardware = replace(synthetic("2s 2n 4c"), pci=(PciDevice("0000:81:00.0", numa=1),))
    (offer,) = offers_of(own("- {name: x.y/f, paths: [/dev/x*]}"), hardware, tmp_path)
    assert shown(offer) == "x0@1"
    assert offer.devices[0].address == "0000:81:00.0"


def test_made_up_devices() -> None:
    devices = [FakeDevice("a.b/c", f"d{i}", (i // 2,), env="V") for i in range(4)]
    (offer,) = fake_offers(devices)
    assert ask(offer, ["d0", "d2", "d3"], 2) == ("d2", "d3")
    assert dict(edits(offer, ("d2", "d3")).envs) == {"V": "d2,d3"}

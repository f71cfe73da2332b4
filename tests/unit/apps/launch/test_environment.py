"""Variables for a job: GPUs by UUID or index, threads, network cards, and who wins over whom."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from numawise.apps.launch.environment import (
    gpu_index,
    hidden,
    job_environment,
    joined,
    own_threads,
    without_ours,
)
from numawise.errors import HostError
from numawise.machine.catalog import machine_named
from numawise.machine.hardware import AMD, GPU, INTEL, NVIDIA, Gpu, Hardware, PciDevice, Thread, gpu_maker
from numawise.machine.synthetic import synthetic
from numawise.results.placement import Grant, Nic, Placement
from numawise.sets import parse_ids

SERVER = synthetic("2s 2n 8c 2t 4gpu")  # cores 0,8 1,9 2,10 3,11 | 4,12 5,13 6,14 7,15
BARE = Hardware()


def card(at: int, vendor: int, uuid: str = "", *, device: int | None = None) -> tuple[Gpu, PciDevice]:
    """A GPU with number and maker: on bus ``at``, so the order of the list need not be that of the bus."""
    address = f"0000:{at:02x}:00.0"
    return Gpu(f"card{at}", uuid, address, maker=vendor), PciDevice(
        address, vendor=vendor, device=device, kind=GPU, class_code=0x030200
    )


def cards(*found: tuple[Gpu, PciDevice]) -> Hardware:
    return Hardware(gpus=tuple(gpu for gpu, _ in found), pci=tuple(device for _, device in found))


def variables(placement: Placement, hardware: Hardware = BARE, **options: object) -> dict[str, str]:
    found = job_environment(placement, "k3x9", "train", hardware, **options)  # type: ignore[arg-type]
    assert len(dict(found)) == len(found), "a variable twice"
    return dict(found)


def own(cpus: str, **rest: object) -> Placement:
    bits = parse_ids(cpus)
    return Placement(**{"grant": Grant(cpus=bits), "cpus": bits, "mems": 1, **rest})  # type: ignore[arg-type]


def pool(limit: int, cpus: str = "0-15") -> Placement:
    return Placement(Grant(cpu_limit=limit), cpus=parse_ids(cpus), mems=1)


# fmt: off
@pytest.mark.parametrize(("cpus", "threads", "places", "gomp"), [
    pytest.param("0-3,8-11", "4", "{0,8},{1,9},{2,10},{3,11}", "0-3,8-11", id="whole cores"),
    pytest.param("0-3",      "4", "{0},{1},{2},{3}",           "0-3",      id="a thread of each core"),
    pytest.param("3,5,11",   "2", "{3,11},{5}",                "3,5,11",   id="a core and a half"),
    pytest.param("15",       "1", "{15}",                      "15",       id="a second thread alone"),
    pytest.param("7,15,40",  "2", "{7,15},{40}",               "7,40,15",  id="a CPU nobody told of"),
])
def test_threads_of_own_cpus(cpus: str, threads: str, places: str, gomp: str) -> None:
    found = variables(own(cpus), SERVER)
    assert found["OMP_NUM_THREADS"] == threads
    assert found["OMP_PLACES"] == places
    assert found["OMP_PROC_BIND"] == "false"
    assert found["GOMP_CPU_AFFINITY"] == gomp
    assert found["NUMAWISE_CPUS"] == cpus
# fmt: on


def test_an_unknown_machine_has_a_core_per_cpu() -> None:
    assert variables(own("2-3"))["OMP_PLACES"] == "{2},{3}"


def test_threads_may_be_bound_when_asked_for() -> None:
    assert variables(own("0-1"), proc_bind="close")["OMP_PROC_BIND"] == "close"


@pytest.mark.parametrize(("limit", "threads"), [(500, "1"), (1000, "1"), (1500, "2"), (0, None)])
def test_the_shared_pool_has_no_places(limit: int, threads: str | None) -> None:
    found = variables(pool(limit), SERVER)
    assert found.get("OMP_NUM_THREADS") == threads
    assert not {"OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "NUMAWISE_CPUS"} & found.keys()
    assert found["NUMAWISE_MEMS"] == "0"


def test_what_numawise_says_of_itself() -> None:
    gpus = (Gpu("GPU2", "GPU-c"), Gpu("GPU5"), Gpu("GPU6", address="0000:9b:00.0"))
    found = variables(own("0-3", mems=0b101, gpus=gpus))
    assert {name: value for name, value in found.items() if name.startswith("NUMAWISE_")} == {
        "NUMAWISE_HOLD": "k3x9",
        "NUMAWISE_NAME": "train",
        "NUMAWISE_CPUS": "0-3",
        "NUMAWISE_MEMS": "0,2",
        "NUMAWISE_GPUS": "GPU-c,GPU5,0000:9b:00.0",
    }


def test_a_job_without_gpus_finds_theirs_as_it_was() -> None:
    assert not [name for name in variables(own("0-3"), SERVER) if "VISIBLE" in name or "CUDA" in name]


@pytest.mark.parametrize(
    ("vendor", "expected"),
    [
        (NVIDIA, {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}),
        (AMD, {"ROCR_VISIBLE_DEVICES": ""}),
    ],
)
def test_gpus_hidden_on_request(vendor: int, expected: dict[str, str]) -> None:
    machine = cards(card(1, vendor))
    assert dict(hidden(machine)) == expected
    assert expected.items() <= variables(own("0"), machine, hide_gpus=True).items()
    assert not dict(hidden(BARE))


def gpu_variables(machine: Hardware, *gpus: Gpu) -> dict[str, str]:
    found = variables(own("0", gpus=gpus), machine)
    return {name: value for name, value in found.items() if not name.startswith(("OMP", "GOMP", "NUMAWISE"))}


# fmt: off
@pytest.mark.parametrize(("maker", "uuids", "expected"), [
    pytest.param(NVIDIA, ["GPU-a", "GPU-b", "GPU-c"],
                 {"CUDA_VISIBLE_DEVICES": "GPU-c,GPU-a", "NVIDIA_VISIBLE_DEVICES": "GPU-c,GPU-a"},
                 id="by UUID, in the job's order"),
    pytest.param(NVIDIA, ["", "GPU-b", "GPU-c"],
                 {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,2", "NVIDIA_VISIBLE_DEVICES": "0,2"},
                 id="one without: all by index, along the bus"),
    pytest.param(AMD, ["GPU-1f", "GPU-2f", "GPU-3f"], {"ROCR_VISIBLE_DEVICES": "GPU-3f,GPU-1f"}, id="AMD by UUID"),
    pytest.param(AMD, ["0x1f", "", ""],               {"ROCR_VISIBLE_DEVICES": "0,2"},           id="AMD by index"),
    pytest.param(INTEL, ["", "", ""],                 {"ZE_AFFINITY_MASK": "0,2"},               id="Intel"),
])
def test_gpus_of_each_maker(maker: int, uuids: list[str], expected: dict[str, str]) -> None:
    # Listed as 0x30, 0x20, 0x10: along the bus the last comes first.
    last, middle, first = (card(at, maker, uuid) for at, uuid in zip((0x30, 0x20, 0x10), uuids, strict=True))
    machine = cards(last, middle, first)
    assert gpu_variables(machine, first[0], last[0]) == expected
# fmt: on


def test_intels_tiled_cards_are_counted_as_cards() -> None:
    machine = cards(card(1, INTEL, device=0x0BD5), card(2, INTEL, device=0x0BD5))
    assert gpu_variables(machine, machine.gpus[1]) == {
        "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE",
        "ZE_AFFINITY_MASK": "1",
    }


def test_an_index_counts_the_makers_own_gpus() -> None:
    machine = cards(card(1, AMD), card(2, NVIDIA), card(3, NVIDIA))
    assert [gpu_index(machine, gpu) for gpu in machine.gpus] == [0, 0, 1]


def test_an_index_without_addresses() -> None:
    machine = Hardware(gpus=(Gpu("GPU0"), Gpu("GPU0:0", parent="GPU0"), Gpu("GPU1")))
    assert [gpu_index(machine, gpu) for gpu in (Gpu("GPU1"), Gpu("GPU0"), Gpu("GPU7"))] == [1, 0, 7]


def test_pci_functions_alone_give_an_index() -> None:
    devices = tuple(card(at, NVIDIA)[1] for at in (9, 3, 5))
    assert gpu_index(Hardware(pci=devices), Gpu("x", address="0000:09:00.0", maker=NVIDIA)) == 2


def test_makers_are_known_by_model_where_pci_is_silent() -> None:
    machine = Hardware(gpus=(Gpu("GPU0", maker=gpu_maker("AMD Instinct MI300X")),))
    assert gpu_variables(machine, *machine.gpus) == {"ROCR_VISIBLE_DEVICES": "0"}


def test_mig_instances_go_by_uuid() -> None:
    parent, function = card(1, NVIDIA, "GPU-a")
    part = Gpu("GPU0:1", "MIG-1", parent.address, parent=parent.name, maker=NVIDIA)
    machine = Hardware(gpus=(parent, part), pci=(function,))
    assert gpu_variables(machine, part)["CUDA_VISIBLE_DEVICES"] == "MIG-1"
    for gpus in ((replace(part, uuid=""),), (part, replace(parent, uuid=""))):
        with pytest.raises(HostError, match=r"MIG instance GPU0:1 .*numawise doctor"):
            gpu_variables(machine, *gpus)


def test_network_cards() -> None:
    nics = (Nic("ib0", "mlx5_0"), Nic("eth1"), Nic("ib3", "mlx5_3"), Nic("ib0v", "mlx5_0"))
    found = variables(own("0", nics=nics))
    assert found["NCCL_IB_HCA"] == "=mlx5_0,mlx5_3"
    assert found["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_3:1"
    assert not {"NCCL_IB_HCA", "UCX_NET_DEVICES"} & variables(own("0", nics=(Nic("eth1"),))).keys()


# fmt: off
OURS = (("OMP_NUM_THREADS", "4"), ("OMP_PLACES", "{0},{1}"), ("OMP_PROC_BIND", "false"),
        ("GOMP_CPU_AFFINITY", "0-1"), ("NCCL_IB_HCA", "=mlx5_0"))


@pytest.mark.parametrize(("inherited", "expected"), [
    pytest.param({},                           dict(OURS),                                      id="ours"),
    pytest.param({"OMP_NUM_THREADS": "2"},     {**dict(OURS), "OMP_NUM_THREADS": "2"},          id="number of threads"),
    pytest.param({"NCCL_IB_HCA": "mlx5"},      {**dict(OURS), "NCCL_IB_HCA": "mlx5"},           id="network cards"),
    pytest.param({"OMP_PROC_BIND": "spread"},  {**dict(OURS), "OMP_PROC_BIND": "spread"},       id="binding in our places"),
    *(pytest.param({name: "x"}, {name: "x", "OMP_NUM_THREADS": "4", "NCCL_IB_HCA": "=mlx5_0"}, id=f"{name}: no place of ours")
      for name in ("OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")),
])
def test_what_the_user_has_set_stays(inherited: dict[str, str], expected: dict[str, str]) -> None:
    found = joined(inherited, OURS)
    assert without_ours(found.environment) == inherited
    assert {name: value for name, value in found.environment.items() if name != "NUMAWISE_SET"} == expected
    assert not found.remarks
# fmt: on


def test_ours_may_be_set_again_but_not_what_was_changed_since() -> None:
    first = dict(joined({"OMP_PROC_BIND": "spread"}, OURS).environment)
    first["OMP_NUM_THREADS"] = "2"
    again = joined(first, (("OMP_NUM_THREADS", "9"), ("OMP_PLACES", "{5}"), ("OMP_PROC_BIND", "false")))
    assert again.environment["OMP_NUM_THREADS"] == "2"
    assert again.environment["OMP_PLACES"] == "{5}"
    assert again.environment["OMP_PROC_BIND"] == "spread"
    assert "NCCL_IB_HCA" not in again.environment


def test_the_grant_decides_the_gpus_and_says_so() -> None:
    inherited = {"CUDA_VISIBLE_DEVICES": "0,1", "HOME": "/", "NVIDIA_VISIBLE_DEVICES": "all"}
    found = joined(inherited, (("CUDA_VISIBLE_DEVICES", "GPU-a"), ("NVIDIA_VISIBLE_DEVICES", "GPU-a")))
    assert found.environment == {
        **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"), "GPU-a"),
        "HOME": "/",
    }
    (remark,) = found.remarks
    assert remark.startswith("CUDA_VISIBLE_DEVICES was '0,1' and is 'GPU-a'")
    assert not joined({"CUDA_VISIBLE_DEVICES": "GPU-a"}, (("CUDA_VISIBLE_DEVICES", "GPU-a"),)).remarks


def test_indices_within_other_indices_are_not_passed_on() -> None:
    inherited = {"HIP_VISIBLE_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "3", "NUMAWISE_HOLD": "old"}
    found = joined(inherited, (("ROCR_VISIBLE_DEVICES", "GPU-1"), ("NUMAWISE_HOLD", "new")))
    assert found.environment == {"ROCR_VISIBLE_DEVICES": "GPU-1", "NUMAWISE_HOLD": "new"}
    assert [remark.split()[0] for remark in found.remarks] == ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"]


def test_a_known_server() -> None:
    machine = machine_named("dgx-h100")
    found = variables(own("0-3", gpus=machine.gpus[:1], nics=(Nic("ib0", "mlx5_0"),)), machine)
    assert found["OMP_NUM_THREADS"] == "4"
    assert found["CUDA_VISIBLE_DEVICES"] == machine.gpus[0].uuid or "0"


OPENMP = """
import ctypes, os
ctypes.CDLL("libgomp.so.1")
print(sorted(os.sched_getaffinity(0)))
"""


def _after_openmp(*ours: tuple[str, str]) -> str:
    environment = {name: value for name, value in os.environ.items() if "OMP" not in name} | dict(ours)
    done = subprocess.run(
        [sys.executable, "-c", OPENMP], env=environment, capture_output=True, text=True, check=False
    )
    if "cannot open shared object" in done.stderr:
        pytest.skip("GNU's OpenMP library is not installed")
    return done.stdout.strip()


def test_openmp_leaves_the_first_thread_alone() -> None:
    """The reason for OMP_PROC_BIND=false, on the real library: what it would do, and that it does not."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("needs two CPUs")
    hardware = Hardware(threads=tuple(Thread(cpu) for cpu in allowed))
    cpus = sum(1 << cpu for cpu in allowed)
    assert _after_openmp(*own_threads(hardware, cpus)) == str(allowed)
    assert _after_openmp(*own_threads(hardware, cpus, "close")) == str(allowed[:1])

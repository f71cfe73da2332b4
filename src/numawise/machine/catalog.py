"""Ready machines by name: what public documentation says about them, as data.

Rules kept here:

1. Every entry names its source.  What the source leaves open is filled in and told in ``assumed``, so that it
   appears among the remarks of the hardware.
2. Which devices share a switch or a NUMA node is as documented; PCIe addresses are made up, as no picture and
   no decision hangs on them.
3. Memory is counted as the kernel would show it on an otherwise ordinary system: the installed amount.

The words of ``devices``: ``0: GPU0+mlx5_0 eth0`` puts GPU0 and mlx5_0 below one switch of NUMA node 0, and
eth0 on a port of its own; ``mlx5_1/mlx5_2`` are ports of one card; ``-:`` stands for a NUMA node that the
firmware does not tell.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from numawise.errors import InputError
from numawise.machine.build import NOT_TOLD, Plan, Slot, build, with_distances
from numawise.machine.hardware import GPU, NIC, NVME, Hardware

MIB, GIB = 1 << 20, 1 << 30
SWITCHES = "which NIC shares a switch with which GPU"


@dataclass(frozen=True, slots=True)
class Entry:
    """One ready machine."""

    summary: str
    source: str
    plan: Plan
    finish: Callable[[Hardware], Hardware] | None = None
    """What a plan cannot say."""


def slots(text: str, model: str = "", memory: int | None = None) -> tuple[Slot, ...]:
    """Read devices: NUMA node, colon, devices; ``+`` joins what shares a switch, ``/`` ports of a card."""
    found: list[Slot] = []
    numa = NOT_TOLD
    for word in text.split():
        if word.endswith(":"):
            numa = NOT_TOLD if word == "-:" else int(word[:-1])
            continue
        for name in word.replace("/", "+").split("+"):
            kind = GPU if name.startswith("GPU") else NVME if name.startswith("nvme") else NIC
            slot = Slot(name, kind, numa, word if "+" in word else "", word if "/" in word else "")
            found.append(replace(slot, model=model, memory=memory) if kind == GPU else slot)
    return tuple(sorted(found, key=lambda slot: (slot.kind != GPU, slot.kind, _number(slot.name))))


def _number(name: str) -> int:
    digits = "".join(c for c in name.rpartition("_")[2] if c.isdigit())
    return int(digits or 0)


def _gpu_memory(hardware: Hardware, first: Mapping[int, int], sizes: Mapping[int, int]) -> Hardware:
    """GPU memory as NUMA nodes: which node is whose, and that most of them are empty."""
    nodes = tuple(
        replace(node, memory=sizes.get(node.id, 0), note="GPU") if not node.cpus else node
        for node in hardware.numa
    )
    gpus = tuple(replace(gpu, own_numa=first[i]) for i, gpu in enumerate(hardware.gpus))
    matrix = hardware.matrix
    if matrix:
        matrix = replace(matrix, gpu_numa_id={gpu: str(first[i]) for i, gpu in enumerate(matrix.gpus)})
    total = sum(node.memory or 0 for node in nodes)
    return replace(hardware, numa=nodes, gpus=gpus, matrix=matrix, memory_capacity=total)


def _gb200(hardware: Hardware) -> Hardware:
    """Nodes 2-33 are GPU memory, eight numbers for each GPU, the first of them in use."""
    found = _gpu_memory(hardware, {0: 2, 1: 10, 2: 18, 3: 26}, dict.fromkeys((2, 10, 18, 26), 188416 * MIB))

    def distance(one: int, other: int) -> int:
        if one == other:
            return 10
        low, high = min(one, other), max(one, other)
        if high < 2:
            return 40
        if low >= 2:
            return 11 if (low - 2) // 8 == (high - 2) // 8 else 40
        return 80 if (high - 2) // 16 == low else 120

    return with_distances(found, {i: {j: distance(i, j) for j in range(34)} for i in range(34)})


def _grace_hopper(hardware: Hardware) -> Hardware:
    found = _gpu_memory(hardware, {0: 1}, {1: 97280 * MIB})
    rows = {i: {j: 10 if i == j else 80 if 0 in (i, j) else 255 for j in range(9)} for i in range(9)}
    return with_distances(found, rows)


def _three_gpus(hardware: Hardware) -> Hardware:
    """The places of that server's GPUs and their ids, as its document prints them."""
    uuids = (
        "GPU-77a702db-e37f-3a74-d46d-c5713f66058c",
        "GPU-9b341c59-f96b-ba85-c137-78c3652fea65",
        "GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841",
    )
    gpus = tuple(replace(gpu, uuid=uuid) for gpu, uuid in zip(hardware.gpus, uuids, strict=True))
    return replace(hardware, gpus=gpus)


CATALOG: Mapping[str, Entry] = {
    "8gpu-server": Entry(
        summary="the 8-GPU PCIe server of the source documents: 2 x 32 cores, GPUs in pairs",
        source="nvidia-smi topo -m as printed in the source documents 000 and 001",
        plan=Plan(
            cores=64,
            sockets=2,
            numa=2,
            threads=2,
            memory=(512 * GIB,),
            slots=slots("0: GPU0+GPU1 GPU2+GPU3 1: GPU4+GPU5 GPU6+GPU7"),
            assumed=("memory (512 GiB per NUMA node) and distances are not in the document",),
        ),
    ),
    "3gpu-server": Entry(
        summary="the 3-GPU test server of the source documents: 2 x 14 cores without hyper-threading",
        source="nvidia-smi -L, lspci and nvidia-smi topo -mp as printed in source document 002",
        plan=Plan(
            cores=28,
            sockets=2,
            numa=2,
            memory=(64 * GIB,),
            slots=tuple(
                replace(slot, address=f"0000:{bus}:00.0")
                for slot, bus in zip(
                    slots("0: GPU0 1: GPU1 GPU2", "Tesla P100-PCIE-16GB", 16 * GIB),
                    ("3b", "86", "d8"),
                    strict=True,
                )
            ),
            assumed=("memory (64 GiB per NUMA node) and distances are not in the document",),
        ),
        finish=_three_gpus,
    ),
    "incident-server": Entry(
        summary="the storage server of the source documents' incident: 2 x 16 CPUs, 377 GiB, no GPUs",
        source="numactl --hardware as printed in source document 004",
        plan=Plan(
            cores=32,
            sockets=2,
            numa=2,
            memory=(192359 * MIB, 193493 * MIB),
            across=20,
            assumed=("sockets and cores: the print tells NUMA nodes alone",),
        ),
    ),
    "dgx-a100": Entry(
        summary="NVIDIA DGX A100: 2 x EPYC 7742 as 8 NUMA nodes, 8 A100 with NVLink, 12 NIC ports",
        source="NVIDIA DGX A100 User Guide (components); a public nvidia-smi topo -m print (places)",
        plan=Plan(
            cores=128,
            sockets=2,
            numa=8,
            threads=2,
            memory=(256 * GIB,),
            cores_per_l3=4,
            l3_size=16 * MIB,
            across=32,
            slots=slots(
                "1: GPU2+GPU3+mlx5_2+mlx5_3 2: mlx5_4/mlx5_5 3: GPU0+GPU1+mlx5_0+mlx5_1"
                " 5: GPU6+GPU7+mlx5_8+mlx5_9 6: mlx5_10/mlx5_11 7: GPU4+GPU5+mlx5_6+mlx5_7",
                "NVIDIA A100-SXM4-80GB",
                80 * GIB,
            ),
            gpu_link="NV12",
            switch_link="PXB",
            assumed=("NUMA nodes of the storage NICs mlx5_4, 5, 10, 11; distances are AMD's usual ones",),
        ),
    ),
    "dgx-h100": Entry(
        summary="NVIDIA DGX H100: 2 x Xeon 8480C, 2 TB, 8 H100 with NVLink, 12 NIC ports",
        source="NVIDIA DGX H100 User Guide (components, NICs by GPU); BasePOD reference architecture",
        plan=Plan(
            cores=112,
            sockets=2,
            numa=2,
            threads=2,
            memory=(1024 * GIB,),
            l3_size=105 * MIB,
            slots=slots(
                "0: GPU0+mlx5_0 GPU1+mlx5_3 GPU2+mlx5_4 GPU3+mlx5_5 mlx5_1/mlx5_2"
                " 1: GPU4+mlx5_6 GPU5+mlx5_9 GPU6+mlx5_10 GPU7+mlx5_11 mlx5_7/mlx5_8",
                "NVIDIA H100 80GB HBM3",
                80 * GIB,
            ),
            gpu_link="NV18",
            switch_link="PXB",
        ),
    ),
    "dgx-b200": Entry(
        summary="NVIDIA DGX B200: 2 x Xeon 8570, 2 TB, 8 B200 with NVLink, 8 NICs and 2 dual-port DPUs",
        source="NVIDIA DGX BasePOD reference architecture; a public nvidia-smi topo -m print (places)",
        plan=Plan(
            cores=112,
            sockets=2,
            numa=2,
            threads=2,
            memory=(1024 * GIB,),
            l3_size=300 * MIB,
            slots=slots(
                "0: GPU0+mlx5_4 GPU1+mlx5_7 GPU2+mlx5_8 GPU3+mlx5_9 mlx5_5/mlx5_6"
                " 1: GPU4+mlx5_10 GPU5+mlx5_13 GPU6+mlx5_14 GPU7+mlx5_15 mlx5_11/mlx5_12",
                "NVIDIA B200",
                180 * GIB,
            ),
            gpu_link="NV18",
            switch_link="PXB",
            assumed=("mlx5_0 to mlx5_3, which manage the NVLink switches, are left out",),
        ),
    ),
    "gb200": Entry(
        summary="NVIDIA GB200 NVL72 compute tray: 2 Grace CPUs, 4 GPUs whose memory is NUMA nodes, 34 in all",
        source="public numactl -H prints of GB200 trays (nodes, distances); MLPerf system descriptions",
        plan=Plan(
            cores=144,
            sockets=2,
            numa=2,
            memory_only=32,
            memory=(489935 * MIB, 489795 * MIB, 0),
            l3_size=114 * MIB,
            slots=slots("0: GPU0 GPU1 mlx5_0 mlx5_1 1: GPU2 GPU3 mlx5_2 mlx5_3", "NVIDIA GB200", 184 * GIB),
            gpu_link="NV18",
            nic_link="SYS",
            assumed=("NUMA nodes of the NICs",),
        ),
        finish=_gb200,
    ),
    "grace-hopper": Entry(
        summary="NVIDIA GH200: one Grace CPU with 72 cores, one GPU whose memory is a NUMA node, 9 in all",
        source="numactl --hardware of a GH200 in a public Linux mailing list thread; NVIDIA GH200 data sheet",
        plan=Plan(
            cores=72,
            memory_only=8,
            memory=(490037 * MIB, 0),
            l3_size=114 * MIB,
            slots=slots("0: GPU0 mlx5_0", "NVIDIA GH200 480GB", 95 * GIB),
            assumed=("the NIC",),
        ),
        finish=_grace_hopper,
    ),
    "mi300x": Entry(
        summary="AMD Instinct MI300X platform: 2 x EPYC 9654, 8 GPUs with xGMI between all, 8 NICs",
        source="AMD Instinct MI300X platform data sheet; public rocm-smi --showtoponuma prints (places)",
        plan=Plan(
            cores=192,
            sockets=2,
            numa=2,
            threads=2,
            memory=(1152 * GIB,),
            cores_per_l3=8,
            l3_size=32 * MIB,
            across=32,
            slots=slots(
                "0: GPU0+mlx5_0 GPU1+mlx5_1 GPU2+mlx5_2 GPU3+mlx5_3"
                " 1: GPU4+mlx5_4 GPU5+mlx5_5 GPU6+mlx5_6 GPU7+mlx5_7",
                "AMD Instinct MI300X",
                192 * GIB,
            ),
            gpu_link="XGMI",
            assumed=("memory (24 modules of 96 GiB)", SWITCHES),
        ),
    ),
    "l40s-8gpu": Entry(
        summary="8 x L40S PCIe server without NVLink: 2 x 32 cores, GPUs in pairs, 4 NICs",
        source="NVIDIA OVX L40S server description; public nvidia-smi topo -m prints of L40S servers",
        plan=Plan(
            cores=64,
            sockets=2,
            numa=2,
            threads=2,
            memory=(512 * GIB,),
            slots=slots(
                "0: GPU0+GPU1+mlx5_0 GPU2+GPU3+mlx5_1 1: GPU4+GPU5+mlx5_2 GPU6+GPU7+mlx5_3",
                "NVIDIA L40S",
                48 * GIB,
            ),
            assumed=("memory", SWITCHES),
        ),
    ),
    "epyc-nps1": Entry(
        summary="2 x AMD EPYC 7763, one NUMA node per socket, an L3 for every 8 cores",
        source="AMD EPYC 7003 processor data sheet; AMD HPC tuning guide for EPYC 7003 (NPS, distances)",
        plan=Plan(
            cores=128,
            sockets=2,
            numa=2,
            threads=2,
            memory=(512 * GIB,),
            cores_per_l3=8,
            l3_size=32 * MIB,
            across=32,
            slots=slots("0: mlx5_0"),
            assumed=("memory and NIC",),
        ),
    ),
    "epyc-nps4": Entry(
        summary="2 x AMD EPYC 7763, four NUMA nodes per socket, an L3 for every 8 cores",
        source="AMD EPYC 7003 processor data sheet; AMD HPC tuning guide for EPYC 7003 (NPS, distances)",
        plan=Plan(
            cores=128,
            sockets=2,
            numa=8,
            threads=2,
            memory=(128 * GIB,),
            cores_per_l3=8,
            l3_size=32 * MIB,
            across=32,
            slots=slots("0: mlx5_0"),
            assumed=("memory and NIC",),
        ),
    ),
    "sapphire-rapids-snc4": Entry(
        summary="2 x Xeon 8480+ with sub-NUMA clustering: four NUMA nodes share each socket's L3",
        source="Intel Xeon Platinum 8480+ specifications; public lscpu prints of such machines with SNC4",
        plan=Plan(
            cores=112,
            sockets=2,
            numa=8,
            threads=2,
            memory=(128 * GIB,),
            l3_size=105 * MIB,
            slots=slots("0: mlx5_0 4: mlx5_1"),
            assumed=("memory and NICs",),
        ),
    ),
    "xeon-2s": Entry(
        summary="plain two-socket server: 2 x Xeon Gold 6338 with 32 cores, no accelerators",
        source="Intel Xeon Gold 6338 specifications",
        plan=Plan(
            cores=64,
            sockets=2,
            numa=2,
            threads=2,
            memory=(256 * GIB,),
            l3_size=48 * MIB,
            across=20,
            slots=slots("0: eth0 nvme0 1: nvme1"),
            assumed=("memory, NIC and disks",),
        ),
    ),
    "small-vm": Entry(
        summary="virtual machine with 2 CPUs and 8 GiB, whose devices tell no NUMA node",
        source="AWS documentation of m5.large (2 vCPUs are two threads of one core)",
        plan=Plan(
            cores=1,
            threads=2,
            memory=(8 * GIB,),
            slots=slots("-: eth0 nvme0"),
        ),
    ),
}


def machine_named(name: str) -> Hardware:
    """A machine of the catalogue; raise ``InputError`` when there is none of that name."""
    entry = CATALOG.get(name)
    if entry is None:
        close = get_close_matches(name, CATALOG, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(
            f"there is no machine {name!r} in the catalogue", advice=f"{meant}known are {', '.join(CATALOG)}"
        )
    hardware = build(replace(entry.plan, name=name, source=f"catalogue: {entry.source}"))
    return entry.finish(hardware) if entry.finish else hardware

"""Homes of GPUs, whatever their firmware says, and the NICs near to them."""

from dataclasses import replace

import pytest

from numawise.machine.catalog import machine_named
from numawise.machine.hardware import GPU, NIC, Gpu, Hardware, Matrix, MemoryNode, PciDevice, Thread
from numawise.machine.nearest import chip_of, gpus_of, near_nics, nic_names, placed_gpus
from numawise.sets import bits_of, format_ids

PORT = "0000:16:01.0"


def nodes(text: str) -> tuple[MemoryNode, ...]:
    """``0:10,40 1:40,10 2-:80,120``: NUMA node and its distances; ``-``: no CPUs, ``!``: no memory."""
    found = []
    words = text.split()
    ids = [int(word.partition(":")[0].rstrip("-!")) for word in words]
    for word, number in zip(words, ids, strict=True):
        name, _, row = word.partition(":")
        far = tuple((other, int(d)) for other, d in zip(ids, row.split(","), strict=False) if d)
        cpus = 0 if "-" in name else 0xF << 4 * ids.index(number)
        found.append(MemoryNode(number, cpus, 0 if "!" in name else 1 << 30, distances=far))
    return tuple(found)


def machine(numa: str, *gpus: Gpu, pci: tuple[PciDevice, ...] = ()) -> Hardware:
    memory = nodes(numa)
    threads = tuple(Thread(cpu, numa=node.id) for node in memory for cpu in range(64) if node.cpus >> cpu & 1)
    return Hardware(threads=threads, numa=memory, gpus=gpus, pci=pci)


def function(bus: int, numa: int, local: int | None = None, parents: tuple[str, ...] = ()) -> PciDevice:
    return PciDevice(f"0000:{bus:02x}:00.0", kind=GPU, numa=numa, local_cpus=local, parents=parents)


def homes(hardware: Hardware) -> str:
    return " ".join(format_ids(place.numa) or "-" for place in placed_gpus(hardware))


GPU0 = Gpu("GPU0", address="0000:17:00.0")
BRIDGE = PciDevice(PORT, numa=1)
FAR_MEMORY = "0:10,40,80,120 1:40,10,120,80 2-:80,120,10,40 3-:120,80,40,10"

# fmt: off
ONE = [  # NUMA nodes, PCI functions, the GPU, its home, the sentence after its name
    pytest.param("0: 1:", (), replace(GPU0, numa=(1,)), "1", "", id="reported"),
    pytest.param("0: 1:", (function(0x17, 1),), GPU0, "1", "", id="by its PCI function"),
    pytest.param("0: 1:", (), replace(GPU0, cpus=0xF0), "1", "", id="by the CPUs near to it"),
    pytest.param("0: 1:", (function(0x17, 1),), replace(GPU0, numa=(0, 1)), "1", "",
                 id="of several, the one that PCI names"),
    pytest.param("0:", (function(0x17, -1),), GPU0, "0", "", id="one NUMA node: nothing to resolve"),
    pytest.param("", (), GPU0, "-", "", id="no NUMA nodes are known"),
    pytest.param(FAR_MEMORY, (), replace(GPU0, numa=(3,)), "1",
                 "it reports NUMA node 3, which has no CPUs; the nearest that has, at distance 80",
                 id="reported with its own memory"),
    pytest.param("0:10,40,80 1:40,10,120 2-:", (), replace(GPU0, numa=(2,)), "0",
                 "it reports NUMA node 2, which has no CPUs; the nearest that has, at distance 80",
                 id="distances told by the others alone"),
    pytest.param(FAR_MEMORY, (function(0x17, -1),), replace(GPU0, own_numa=3), "1",
                 "it reports no NUMA node with CPUs; its own memory is NUMA node 3,"
                 " the nearest with CPUs at distance 80", id="by its own memory"),
    pytest.param("0:10,80 1-:80,10", (), replace(GPU0, numa=(1,)), "0",
                 "it reports NUMA node 1, which has no CPUs; the nearest that has, at distance 80",
                 id="as on one Grace"),
    pytest.param("0:10,12,32 1!:12,10,32 2:32,32,10", (), replace(GPU0, numa=(1,)), "0",
                 "it reports NUMA node 1, which has no memory; the nearest that has, at distance 12",
                 id="CPUs but no memory"),
    pytest.param("0!: 1!:", (), replace(GPU0, numa=(1,)), "1", "", id="no memory is told anywhere"),
    pytest.param("8:10,40,80 9:40,10,80 255-:80,80,10", (), replace(GPU0, numa=(255,)), "8",
                 "it reports NUMA node 255, which has no CPUs; the nearest that has, at distance 80",
                 id="equally near: the lowest"),
    pytest.param("0: 1:", (function(0x17, -1, 0xF0),), GPU0, "1",
                 "it reports no NUMA node; by the CPUs 4-7 that PCI calls local", id="by local CPUs"),
    pytest.param("0: 1:", (function(0x17, -1, 0xFF, ("pci0000:16", PORT)), BRIDGE), GPU0, "1",
                 f"it reports no NUMA node; by the bridge {PORT} above it", id="by the bridge above"),
    pytest.param("0: 1:", (function(0x17, 7),), GPU0, "0",
                 "it reports NUMA node 7, and nothing else gives one", id="a NUMA node that is not there"),
    pytest.param("0: 1:", (function(0x17, -1, 0xFF),), GPU0, "0",
                 "it reports no NUMA node, and nothing else gives one", id="nothing tells"),
]
# fmt: on


@pytest.mark.parametrize(("numa", "pci", "gpu", "home", "told"), ONE)
def test_home(numa: str, pci: tuple[PciDevice, ...], gpu: Gpu, home: str, told: str) -> None:
    (place,) = placed_gpus(machine(numa, gpu, pci=pci))
    assert format_ids(place.numa) == home.strip("-")
    assert place.gpu == gpu
    shared = place.near.bit_count() > 1
    ending = f"; counted as NUMA node {home}{', shared out evenly' if shared else ''}"
    assert place.remark == (f"GPU0: {told}{ending}" if told else "")


# fmt: off
MANY = [  # NUMA nodes, those of each GPU as reported (- for none), homes
    ("0: 1:",       "0,1 0,1 0,1 0,1",     "0 0 1 1"),
    ("0: 1:",       "0,1 0,1 0,1",         "0 0 1"),
    ("0: 1:",       "- - - -",             "0 0 1 1"),
    ("0: 1:",       "0 0 - -",             "0 0 1 1"),   # the emptier one first
    ("0: 1:",       "0 - - -",             "0 0 1 1"),
    ("0: 1: 2: 3:", "0,1 0,1 2,3 2,3",     "0 1 2 3"),
    ("0: 1: 2: 3:", "- - - - - - - -",     "0 0 1 1 2 2 3 3"),
    ("0: 1:",       "1 1 1 0",             "1 1 1 0"),
    ("0: 1: 2-:",   "2 2 0 1",             "0 1 0 1"),   # no distances are known
]
# fmt: on


@pytest.mark.parametrize(("numa", "reported", "expected"), MANY)
def test_shared_out(numa: str, reported: str, expected: str) -> None:
    gpus = tuple(
        Gpu(f"GPU{i}", numa=None if word == "-" else tuple(map(int, word.split(","))))
        for i, word in enumerate(reported.split())
    )
    hardware = machine(numa, *gpus)
    assert homes(hardware) == expected
    alone = [format_ids(placed_gpus(hardware, (gpu,))[0].numa) for gpu in gpus]
    assert " ".join(alone) == expected  # whoever asks, and for whichever GPUs


def test_gpus_below_one_switch_stay_together() -> None:
    switches = ("a", "b", "a", "b")
    functions = tuple(
        function(0x17 + i, -1, parents=("pci0000:16", PORT, name)) for i, name in enumerate(switches)
    )
    gpus = tuple(Gpu(f"GPU{i}", address=device.address) for i, device in enumerate(functions))
    assert homes(machine("0: 1:", *gpus, pci=functions)) == "0 1 0 1"


def test_parts_of_a_gpu() -> None:
    """Instances stand for their GPU, and are where it is."""
    whole = Gpu("GPU0", "GPU-a", "0000:17:00.0")
    parts = tuple(Gpu(f"GPU0:{i}", f"MIG-{i}", "0000:17:00.0", parent="GPU0") for i in range(2))
    other = Gpu("GPU1", "GPU-b", numa=(0,))
    hardware = machine("0: 1:", whole, *parts, other, pci=(function(0x17, 1),))
    assert gpus_of(hardware) == (*parts, other)
    assert homes(hardware) == "1 1 0"
    assert [chip_of(gpu) for gpu in gpus_of(hardware)] == ["GPU0", "GPU0", "GPU1"]
    assert gpus_of(machine("0:", *parts)) == parts


def test_gpus_of_a_pci_list() -> None:
    gpu = PciDevice(
        "0000:17:00.0", 0x1002, class_code=0x038000, kind=GPU, numa=1, local_cpus=0xF0, model="MI210"
    )
    shy = replace(gpu, address="0000:18:00.0", numa=-1, local_cpus=0, model="")
    screen = PciDevice("0000:03:00.0", 0x1A03, class_code=0x030000)
    assert gpus_of(machine("0: 1:", pci=(screen, gpu, shy))) == (
        Gpu("GPU0", address="0000:17:00.0", model="MI210", cpus=0xF0, numa=(1,), maker=0x1002),
        Gpu("GPU1", address="0000:18:00.0", maker=0x1002),
    )
    assert gpus_of(machine("0: 1:", GPU0, pci=(gpu,))) == (GPU0,)  # whoever has names knows best


@pytest.mark.parametrize(("name", "expected"), [
    ("8gpu-server",  "0 0 0 0 1 1 1 1"),
    ("dgx-a100",     "3 3 1 1 7 7 5 5"),
    ("gb200",        "0 0 1 1"),
    ("grace-hopper", "0"),
    ("small-vm",     ""),
])  # fmt: skip
def test_catalogue(name: str, expected: str) -> None:
    hardware = machine_named(name)
    assert homes(hardware) == expected
    assert not any(place.remark for place in placed_gpus(hardware))


def test_homes_out_of_a_print_of_links() -> None:
    """Nothing tells of CPUs there."""
    hardware = Hardware(gpus=(Gpu("GPU0", numa=(1,)), Gpu("GPU1", numa=(3,))))
    assert homes(hardware) == "1 3"


@pytest.mark.parametrize(("names", "expected"), [
    ("eth0",                 ("eth0", "")),
    ("mlx5_0",               ("", "mlx5_0")),
    ("ens1f0np0 mlx5_0",     ("ens1f0np0", "mlx5_0")),
    ("ib0 mlx5_3",           ("ib0", "mlx5_3")),
    ("ibs20 mlx5_3",         ("ibs20", "mlx5_3")),
    ("ibp65s0 ibp65s0",      ("ibp65s0", "ibp65s0")),      # both are called so
    ("ibp65s0",              ("", "ibp65s0")),             # RDMA without an interface
    ("ib0 ibp65s0",          ("ib0", "ibp65s0")),
    ("eth0 eth1 bnxt_re0",   ("eth0", "bnxt_re0")),
    ("eno1 rocep1s0f0",      ("eno1", "rocep1s0f0")),
    ("rdmap16s27",           ("", "rdmap16s27")),
    ("eth0 irdma0",          ("eth0", "irdma0")),
])  # fmt: skip
def test_names(names: str, expected: tuple[str, str]) -> None:
    assert nic_names(names.split()) == expected


def switched() -> Hardware:
    """Two NUMA nodes, in each a switch with two GPUs and a NIC; another NIC on a port of its own."""
    pci = []
    for numa in range(2):
        root = (f"pci0000:{numa}0", f"0000:{numa}0:01.0", f"0000:{numa}1:00.0")
        for i, kind in enumerate((GPU, GPU, NIC)):
            names = (f"ens{numa}", f"mlx5_{numa}") if kind == NIC else ()
            place = (*root, f"down{i}")
            pci.append(
                PciDevice(f"0000:{numa}{i + 3}:00.0", kind=kind, numa=numa, parents=place, names=names)
            )
        own = (f"pci0000:{numa}0", f"0000:{numa}0:02.0")
        pci.append(PciDevice(f"0000:{numa}8:00.0", kind=NIC, numa=numa, parents=own, names=(f"eth{numa}",)))
    pci.append(PciDevice("0000:20:00.0", kind=NIC, numa=-1, names=("wlan0",)))
    pci.append(PciDevice("0000:21:00.0", kind=NIC, numa=0, names=()))
    pci.append(PciDevice("0000:22:00.0", kind=NIC, numa=0, names=("eth7",), driver="vfio-pci"))
    return machine("0: 1:", pci=tuple(pci))


# fmt: off
NEAR = [  # GPUs, NICs as name=link, with * for those that no other is nearer than for some GPU
    ((),               "ens0= eth0= ens1= eth1= wlan0="),
    (("GPU0",),        "ens0=PIX* eth0=PHB ens1=SYS eth1=SYS wlan0="),
    (("GPU2", "GPU3"), "ens1=PIX* eth1=PHB ens0=SYS eth0=SYS wlan0="),
    (("GPU0", "GPU2"), "ens0=PIX* ens1=PIX* eth0=PHB eth1=PHB wlan0="),
]
# fmt: on


@pytest.mark.parametrize(("gpus", "expected"), NEAR)
def test_nics(gpus: tuple[str, ...], expected: str) -> None:
    found = near_nics(switched(), gpus)
    assert " ".join(f"{nic.name}={nic.link}{'*' if nic.nearest else ''}" for nic in found) == expected
    values = [gpu for gpu in gpus_of(switched()) if gpu.name in gpus]
    assert near_nics(switched(), values) == found


def test_nic_is_told_in_full() -> None:
    first, *_ = near_nics(switched(), ("GPU2", "GPU3"))
    assert (first.net, first.hca, first.nearest) == ("ens1", "mlx5_1", ("GPU2", "GPU3"))
    assert first.device is not None
    assert first.device.address == "0000:15:00.0"


def test_nics_that_only_the_matrix_knows() -> None:
    matrix = Matrix(
        ("GPU0", "GPU1"),
        ("NIC0", "NIC1"),
        {"GPU0": {"NIC0": "NODE", "NIC1": "PXB"}, "GPU1": {"NIC0": "SYS", "NIC1": "SYS"}},
        nic_names={"NIC0": "mlx5_0", "NIC1": "mlx5_bond_0"},
    )
    hardware = Hardware(gpus=(Gpu("GPU0"), Gpu("GPU1")), matrix=matrix)
    found = near_nics(hardware, ("GPU0", "GPU1"))
    assert [(nic.hca, nic.link, nic.nearest, nic.device) for nic in found] == [
        ("mlx5_bond_0", "PXB", ("GPU0", "GPU1"), None),
        ("mlx5_0", "NODE", ("GPU1",), None),
    ]


def test_nic_of_a_part_and_of_a_gpu_without_a_link() -> None:
    """Where no tree tells, the NUMA nodes do."""
    parts = (Gpu("GPU0", numa=(1,)), Gpu("GPU0:0", parent="GPU0"))
    pci = tuple(PciDevice(f"0000:0{i}:00.0", kind=NIC, numa=i, names=(f"eth{i}",)) for i in range(2))
    found = near_nics(machine("0: 1:", *parts, pci=pci), ("GPU0:0",))
    assert [(nic.name, nic.link, nic.nearest) for nic in found] == [
        ("eth1", "NODE", ("GPU0:0",)),
        ("eth0", "SYS", ()),
    ]


def test_dgx_nics() -> None:
    found = near_nics(machine_named("dgx-h100"), ("GPU0", "GPU3"))
    assert [(nic.hca, nic.link) for nic in found[:3]] == [
        ("mlx5_0", "PXB"),
        ("mlx5_5", "PXB"),
        ("mlx5_3", "NODE"),
    ]
    assert [nic.nearest for nic in found[:3]] == [("GPU0",), ("GPU3",), ()]


def test_everything_is_a_part_of_the_usable_nodes() -> None:
    place = placed_gpus(machine(FAR_MEMORY, replace(GPU0, numa=(0, 2))))[0]
    assert (place.numa, place.near) == (bits_of([0]), bits_of([0]))

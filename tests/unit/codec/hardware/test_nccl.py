"""NCCL topologies: NUMA nodes, GPUs, NICs and the links between them."""

import pytest

from numawise.codec.hardware.nccl import read
from numawise.errors import InputError
from numawise.machine.hardware import ASSUMED, ODD, UNREADABLE, Gpu, Hardware, MemoryNode, Thread


def gpu(address: str, dev: int, *links: str) -> str:
    """A GPU; a link is ``target*count`` or ``target*count*class``."""
    inside = ""
    for link in links:
        target, count, kind = (*link.split("*"), "0x030200")[:3]
        inside += f'<nvlink target="{target}" count="{count}" tclass="{kind}"/>'
    return (
        f'<pci busid="{address}" class="0x030200" vendor="0x10de" device="0x2330">'
        f'<gpu dev="{dev}" sm="90" rank="{dev}" gdr="1">{inside}</gpu></pci>'
    )


def nic(address: str, name: str, dev: int) -> str:
    net = f'<net name="{name}" dev="{dev}" speed="400000" port="1" guid="0x0" maxconn="131072" gdr="1"/>'
    return f'<pci busid="{address}" class="0x020700" vendor="0x15b3" device="0x1021"><nic>{net}</nic></pci>'


def switch(address: str, *inside: str) -> str:
    return f'<pci busid="{address}" class="0x060400">{"".join(inside)}</pci>'


def system(*cpus: str) -> str:
    return f'<system version="1">{"".join(cpus)}</system>'


def cpu(numa: object, affinity: str, *inside: str, more: str = "") -> str:
    return f'<cpu{more} numaid="{numa}" affinity="{affinity}" arch="x86_64">{"".join(inside)}</cpu>'


TWO = system(
    cpu(
        0,
        "00000000,0000000f",
        switch(
            "0000:16:00.0",
            gpu("0000:18:00.0", 0, "0000:2a:00.0*4"),
            switch("0000:17:00.0", nic("0000:19:00.0", "mlx5_1", 1)),
            nic("0000:1a:00.0", "mlx5_0", 0),
        ),
        gpu("0000:2a:00.0", 1, "0000:18:00.0*4"),
    ),
    cpu(1, "00000001,00000000", gpu("0000:99:00.0", 2)),
)


def links(found: Hardware) -> dict[str, str]:
    assert found.matrix is not None
    return {row: " ".join(cells.values()) for row, cells in found.matrix.links.items()}


def test_nodes_and_cpus() -> None:
    found = read(TWO)
    assert found.numa == (MemoryNode(0, 0xF), MemoryNode(1, 1 << 32))
    assert found.threads == (*(Thread(i, numa=0) for i in range(4)), Thread(32, numa=1))
    assert found.sources == ("nccl",)


def test_devices() -> None:
    found = read(TWO)
    devices = {device.address: device for device in found.pci}
    assert devices["0000:19:00.0"].parents == ("0000:16:00.0", "0000:17:00.0")
    assert devices["0000:19:00.0"].names == ("mlx5_1",)
    assert (devices["0000:18:00.0"].kind, devices["0000:16:00.0"].kind) == ("gpu", "bridge")
    assert (devices["0000:99:00.0"].numa, devices["0000:99:00.0"].vendor) == (1, 0x10DE)
    assert found.gpus[0] == Gpu("GPU0", address="0000:18:00.0", cpus=0xF, numa=(0,), maker=0x10DE)


def test_links() -> None:
    found = read(TWO)
    # fmt: off
    assert links(found) == {
        "GPU0": "X NV4 SYS PIX PXB",
        "GPU1": "NV4 X SYS PHB PHB",
        "GPU2": "SYS SYS X SYS SYS",
        "NIC0": "PIX PHB SYS X PXB",
        "NIC1": "PXB PHB SYS PXB X",
    }
    # fmt: on
    assert found.matrix is not None
    assert found.matrix.nic_names == {"NIC0": "mlx5_0", "NIC1": "mlx5_1"}
    assert found.matrix.cpu_affinity == {"GPU0": "0-3", "GPU1": "0-3", "GPU2": "32"}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(["d0*5*0x068000", "d1*4*0x068000"], ["d0*5*0x068000", "d1*4*0x068000"], "NV9", id="all"),
        pytest.param(["fffffff:ffff:ff*18*0x068000"], ["fffffff:ffff:ff*12*0x068000"], "NV12", id="hidden"),
        pytest.param(["d0*6*0x068000"], [], "PHB", id="only one of them"),
        pytest.param(["d0*3*0x068001"], ["d0*3*0x068001"], "PHB", id="links to the CPU"),
        pytest.param(["0000:02:00.0*0"], [], "PHB", id="no link left"),
    ],
)
def test_links_through_switches(one: list[str], other: list[str], expected: str) -> None:
    found = read(system(cpu(0, "1", gpu("0000:01:00.0", 0, *one), gpu("0000:02:00.0", 1, *other))))
    assert links(found)["GPU0"] == f"X {expected}"


def test_xgmi() -> None:
    text = system(cpu(0, "1", gpu("0000:01:00.0", 0, "0000:02:00.0*1"), gpu("0000:02:00.0", 1)))
    assert links(read(text.replace("nvlink", "xgmi")))["GPU0"] == "X XGMI"


def test_gpus_without_numbers_go_by_address() -> None:
    bare = '<pci busid="{}" class="0x030200" link_speed="16 GT/s" link_width="16"/>'
    found = read(system(cpu(0, "f", bare.format("0003:00:00.0"), bare.format("0001:00:00.0"))))
    assert [(gpu.name, gpu.address) for gpu in found.gpus] == [
        ("GPU0", "0001:00:00.0"),
        ("GPU1", "0003:00:00.0"),
    ]
    assert [remark.kind for remark in found.remarks] == [ASSUMED]


def test_no_numa() -> None:
    found = read(system(cpu(-1, "", gpu("0000:01:00.0", 0))))
    assert (found.numa, found.threads, found.gpus[0].numa, found.pci[0].numa) == ((), (), None, -1)


def test_one_of_several_hosts() -> None:
    text = system(
        cpu(0, "1", gpu("0000:01:00.0", 0), more=' host_hash="0x1"'),
        cpu(0, "2", gpu("0000:01:00.0", 0), more=' host_hash="0x2"'),
    )
    found = read(text)
    assert (len(found.gpus), found.numa) == (1, (MemoryNode(0, 1),))
    assert [remark.kind for remark in found.remarks] == [ODD]


def test_an_affinity_that_is_no_mask() -> None:
    found = read(system(cpu("0x1", "0-23")))
    assert found.numa == (MemoryNode(1),)
    assert [remark.kind for remark in found.remarks] == [UNREADABLE]


@pytest.mark.parametrize("text", ["<topology/>", '<system version="1"/>', "<graphs/>"])
def test_refusals(text: str) -> None:
    with pytest.raises(InputError, match="is not an NCCL topology"):
        read(text, "topo.xml")

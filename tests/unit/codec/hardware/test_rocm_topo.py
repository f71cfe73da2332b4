import pytest

from numawise.codec.hardware.rocm_topo import read, tables
from numawise.errors import InputError

PRINT = """\
============================ ROCm System Management Interface ============================
================================ Weight between two GPUs =================================
       GPU0         GPU1
GPU0   0            15
GPU1   15           0
================================= Hops between two GPUs ==================================
       GPU0         GPU1
GPU0   0            1
GPU1   1            0
=============================== Link Type between two GPUs ===============================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
======================================= Numa Nodes =======================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 0
GPU[1]\t\t: (Topology) Numa Affinity: -1
================================== End of ROCm SMI Log ===================================
"""
LINKS = {"GPU0": {"GPU0": "X", "GPU1": "XGMI"}, "GPU1": {"GPU0": "XGMI", "GPU1": "X"}}


@pytest.mark.parametrize("text", [
    pytest.param(PRINT,                                                  id="as printed"),
    pytest.param(PRINT.replace("\n", "\r\n"),                            id="Windows"),
    pytest.param("".join(f"> {line}\n" for line in PRINT.splitlines()),  id="quoted"),
    pytest.param("\n".join(" ".join(line.split()) for line in PRINT.split("\n")), id="blanks squeezed"),
])  # fmt: skip
def test_print(text: str) -> None:
    found = read(text, "file")
    assert found.matrix is not None
    assert found.matrix.links == LINKS
    assert [gpu.numa for gpu in found.gpus] == [(0,), None]
    assert found.matrix.numa_affinity == {"GPU0": "0", "GPU1": "-1"}
    assert [(remark.kind, remark.place) for remark in found.remarks] == [("differs", "GPU1")]
    assert tables(text).squares["weight"]["GPU0"] == {"GPU0": "0", "GPU1": "15"}


@pytest.mark.parametrize(("old", "new", "links", "place"), [
    pytest.param("GPU0   0            XGMI", "GPU0   0",       {"GPU1": LINKS["GPU1"]},         "link_type GPU0", id="short row"),
    pytest.param("GPU0   0            XGMI", "GPU0   XGMI 0",  {"GPU1": LINKS["GPU1"]},         "link_type GPU0", id="not itself"),
    pytest.param("GPU0   0            XGMI", "GPU0   0   0",   {"GPU0": {"GPU0": "X"}, "GPU1": LINKS["GPU1"]}, "link_type GPU0", id="no kind"),
    pytest.param("Link Type between", "=",                     {},                              "link type",      id="no title"),
])  # fmt: skip
def test_damage(old: str, new: str, links: dict[str, dict[str, str]], place: str) -> None:
    found = read(PRINT.replace(old, new), "file")
    assert found.matrix is not None
    assert found.matrix.links == links
    assert place in [remark.place for remark in found.remarks]


@pytest.mark.parametrize("text", ["", "=== ROCm System Management Interface ===", "GPU0 X NV1"])
def test_refusal(text: str) -> None:
    with pytest.raises(InputError, match="neither links nor NUMA nodes"):
        read(text, "file")

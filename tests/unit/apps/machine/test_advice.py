"""Advice: what the source document teaches about its server, and what other machines ask for."""

import re
from dataclasses import replace

import pytest

from numawise.apps.machine.advice import advice, advice_text, best_pairs, fair_shares, gpu_groups, meaning
from numawise.engine.admit import Admitted, Rejected
from numawise.machine.catalog import CATALOG, machine_named
from numawise.machine.hardware import Gpu, Hardware
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.locality import guessed_cores
from numawise.machine.model import Machine
from numawise.machine.synthetic import synthetic
from numawise.sets import bits_of, format_ids, parse_ids
from tests.unit.build import STATIC, kubelet, pod


def told(hardware: Hardware, title: str) -> list[str]:
    """The lines below one heading."""
    found = {one.title: list(one.lines) for one in advice(hardware)}
    return found.get(title, [])


def test_the_server_of_the_document() -> None:
    server = machine_named("8gpu-server")
    assert told(server, "GPUs by NUMA node") == [
        "NUMA 0: GPU0-GPU3; cores 0-31, threads 64-95; 512 GiB",
        "NUMA 1: GPU4-GPU7; cores 32-63, threads 96-127; 512 GiB",
    ]
    assert told(server, "How many GPUs") == [
        "1 GPU: any; keep to the CPUs and the memory of its NUMA node",
        "2 GPUs: best GPU0+GPU1, GPU2+GPU3, GPU4+GPU5 or GPU6+GPU7 (PIX: through one PCIe switch: near)",
        "3 GPUs: fit one NUMA node: 3 of GPU0-GPU3 or 3 of GPU4-GPU7",
        "4 GPUs: fit one NUMA node: GPU0-GPU3 or GPU4-GPU7",
        "5 GPUs: cross NUMA nodes, 4 + 1: uneven, 4 or 8 would be better",
        "6 GPUs: cross NUMA nodes, 4 + 2: uneven, 4 or 8 would be better",
        "7 GPUs: cross NUMA nodes, 4 + 3: uneven, 4 or 8 would be better",
        "8 GPUs: cross NUMA nodes, 4 + 4: balanced",
    ]
    assert (
        told(server, "What crossing costs")[0]
        == "between the groups data goes over the CPU interconnect (SYS), the slowest path"
    )
    assert told(server, "CPUs for each GPU")[:2] == [
        "GPU0: cores 0-7, their hyper-threads 64-71",
        "GPU1: cores 8-15, their hyper-threads 72-79",
    ]
    assert told(server, "To run it")[:2] == [
        """docker run --gpus '"device=0"' --cpuset-cpus=0-7,64-71 --cpuset-mems=0 IMAGE""",
        """docker run --gpus '"device=0,1,2,3"' --cpuset-cpus=0-31,64-95 --cpuset-mems=0 IMAGE""",
    ]


def test_the_matrix_of_the_document_is_enough() -> None:
    whole = machine_named("8gpu-server")
    printed = Hardware(gpus=tuple(replace(gpu, address="") for gpu in whole.gpus), matrix=whole.matrix)
    for title in ("How many GPUs", "What crossing costs", "To run it"):
        assert told(printed, title) == told(whole, title)
    shares = told(printed, "CPUs for each GPU")
    assert shares[:-1] == told(whole, "CPUs for each GPU")
    assert "is guessed" in shares[-1]


@pytest.mark.parametrize(("cpus", "cores"), [
    ("0-3,8-11", "0,8 1,9 2,10 3,11"),
    ("0-3",      "0 1 2 3"),
    ("0-3,8-10", "0 1 2 3 8 9 10"),
    ("0,2,4",    "0 2 4"),
    ("",         ""),
])  # fmt: skip
def test_guessed_cores(cpus: str, cores: str) -> None:
    assert " ".join(map(format_ids, guessed_cores(parse_ids(cpus)))) == cores


@pytest.mark.parametrize(("words", "link", "pairs"), [
    pytest.param("2s 4c 4gpu",               "NODE", "0+1 2+3",               id="one NUMA node before two"),
    pytest.param("1s 4c 4gpu pairs",         "PIX",  "0+1 2+3",               id="a switch before a NUMA node"),
    pytest.param("2s 4c 4gpu pairs nvlink",  "NV18", "0+1 2+3",               id="of equal links those on one NUMA node"),
    pytest.param("4s 4c 4gpu",               "SYS",  "0+1 0+2 0+3 1+2 1+3 2+3", id="all far"),
    pytest.param("1s 4c 1gpu",               "",     "",                      id="no two"),
])  # fmt: skip
def test_best_pairs(words: str, link: str, pairs: str) -> None:
    found, best = best_pairs(synthetic(words))
    assert (found, " ".join(f"{one[3:]}+{other[3:]}" for one, other in best)) == (link, pairs)


def test_more_nvlinks_are_better() -> None:
    server = machine_named("8gpu-server")
    assert server.matrix
    links = {row: dict(columns) for row, columns in server.matrix.links.items()}
    for one, other, link in (("GPU1", "GPU6", "NV2"), ("GPU2", "GPU5", "NV4"), ("GPU0", "GPU3", "NV4")):
        links[one][other] = links[other][one] = link
    found = best_pairs(replace(server, matrix=replace(server.matrix, links=links)))
    assert found == ("NV4", (("GPU0", "GPU3"),))


@pytest.mark.parametrize("name", [name for name in CATALOG if machine_named(name).gpus])
def test_fair_shares_divide_a_numa_node(name: str) -> None:
    hardware = machine_named(name)
    for group in gpu_groups(hardware):
        shares = fair_shares(hardware, group)
        every = [
            cpu
            for cores in shares.values()
            for core in cores
            for cpu in range(core.bit_length())
            if core >> cpu & 1
        ]
        assert bits_of(every) == group.cpus
        assert len(every) == group.cpus.bit_count()
        sizes = {len(cores) for cores in shares.values()}
        assert max(sizes) - min(sizes) <= 1


def test_shares_keep_to_l3_groups_where_they_can() -> None:
    hardware = machine_named("mi300x")
    for group in gpu_groups(hardware):
        for cores in fair_shares(hardware, group).values():
            caches = {
                thread.l3.id
                for thread in hardware.threads
                if thread.l3 and any(c >> thread.cpu & 1 for c in cores)
            }
            assert len(caches) == 3


def test_fewer_cores_than_gpus() -> None:
    assert (
        told(synthetic("2s 4c 8gpu"), "CPUs for each GPU")[0]
        == "GPU0: cores 0-1, shared with the other GPUs there"
    )


def test_nearest_nics() -> None:
    lines = told(machine_named("dgx-h100"), "Nearest NICs")
    assert lines[:2] == ["GPU0: mlx5_0 (PXB)", "GPU1: mlx5_3 (PXB)"]
    assert told(machine_named("gb200"), "Nearest NICs")[2] == "GPU2: mlx5_2, mlx5_3 (SYS, on its NUMA node)"
    assert told(machine_named("8gpu-server"), "Nearest NICs") == []


def test_nvlink_crosses_well_and_host_memory_does_not() -> None:
    first = told(machine_named("dgx-h100"), "What crossing costs")[0]
    assert first == "GPUs still reach each other over NVLink; host memory and NICs are remote for some"
    assert "xGMI" in told(machine_named("mi300x"), "What crossing costs")[0]


def test_memory_of_its_own_is_allowed_too() -> None:
    assert told(machine_named("gb200"), "To run it")[0].endswith("--cpuset-cpus=0-35 --cpuset-mems=0,2 IMAGE")


def test_other_makers_have_other_flags() -> None:
    line = told(machine_named("mi300x"), "To run it")[0]
    assert line.startswith(
        "docker run --device=/dev/kfd --device=/dev/dri -e ROCR_VISIBLE_DEVICES=0 --cpuset-cpus=0-23,192-215"
    )


@pytest.mark.parametrize("name", CATALOG)
def test_commands_name_cpus_and_memory_that_exist(name: str) -> None:
    hardware = machine_named(name)
    online = bits_of(thread.cpu for thread in hardware.threads)
    nodes = {node.id: node.memory for node in hardware.numa}
    for line in told(hardware, "To run it"):
        cpus, mems = re.search(r"--cpuset-cpus=(\S+)", line), re.search(r"--cpuset-mems=(\S+)", line)
        assert cpus
        assert mems
        assert not parse_ids(cpus[1]) & ~online
        assert all(nodes[int(node)] for node in mems[1].split(","))


def test_without_gpus() -> None:
    assert told(machine_named("incident-server"), "What fits a NUMA node") == [
        "NUMA 0: CPUs 0-15; 187.9 GiB",
        "NUMA 1: CPUs 16-31; 189 GiB",
        "a job of up to 16 CPUs and 189 GiB can stay on one NUMA node; anything larger crosses",
    ]
    assert (
        told(machine_named("small-vm"), "What fits a NUMA node")[-1]
        == "there is one NUMA node with CPUs: nothing can cross"
    )
    assert told(Hardware(), "What fits a NUMA node") == ["NUMA nodes are not known"]


def test_what_is_not_told_is_said() -> None:
    lost = replace(synthetic("4c"), gpus=(Gpu("GPU0"), Gpu("GPU1")))
    assert told(lost, "GPUs by NUMA node") == [
        "GPU0, GPU1: no NUMA node is reported; the kubelet treats such devices as having no topology"
    ]
    assert told(lost, "How many GPUs") == ["2 GPUs: how they are linked is unknown"]
    assert told(lost, "To run it") == []


def test_two_gpus_apart() -> None:
    assert told(synthetic("2s 4c 2gpu"), "How many GPUs")[1].startswith(
        "2 GPUs: best GPU0+GPU1, on different NUMA nodes (SYS"
    )


def test_text_breaks_sentences_and_no_commands() -> None:
    server = machine_named("dgx-h100")
    lines = advice_text(advice(server), 80).splitlines()
    assert all(len(line) <= 80 for line in lines if "docker run" not in line)
    assert any(len(line) > 80 for line in lines)
    assert meaning("NV4").startswith("4 NVLinks")
    assert meaning("what") == "not explained"


@pytest.mark.parametrize(("policy", "ask", "expected"), [
    ("single-numa-node", "cpu=8 memory=1Gi nvidia.com/gpu=4",  Admitted),
    ("single-numa-node", "cpu=80 memory=1Gi nvidia.com/gpu=5", Rejected),
    ("restricted",       "cpu=8 memory=1Gi nvidia.com/gpu=5",  Rejected),
    ("restricted",       "cpu=80 memory=1Gi nvidia.com/gpu=5", Admitted),
    ("best-effort",      "cpu=8 memory=1Gi nvidia.com/gpu=5",  Admitted),
])  # fmt: skip
def test_the_kubelet_does_what_the_advice_says(policy: str, ask: str, expected: type) -> None:
    """A pod with 5 of 8 GPUs: rejected, unless all else it asks for needs both NUMA nodes too."""
    seen = kubelet_view(machine_named("8gpu-server"))
    assert isinstance(seen, Machine)
    node = kubelet(seen, **STATIC, topologyManagerPolicy=policy)
    assert isinstance(node.admit(pod("p", f"c {ask}")), expected)

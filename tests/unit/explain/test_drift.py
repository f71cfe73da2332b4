"""What a container has against what it was granted: one table a rule."""

import json
from pathlib import Path

import pytest

from numawise.codec.podresources import ListedContainer, PodResources
from numawise.engine.state import Block
from numawise.explain.drift import (
    Mending,
    judge_claims,
    judge_cpuset,
    judge_devices,
    judge_pages,
    judge_records,
    mending,
)
from numawise.explain.grants import GrantedDevice, RecordedGrant, granted, kubelet_records
from numawise.host.pod_groups import GroupCpuset, GroupPages
from numawise.machine.hardware import Gpu, Hardware, MemoryNode, Thread
from numawise.request.claims import ClaimedDevice, PodClaim
from numawise.results.finding import Finding, Severity
from numawise.sets import parse_ids

MIB, GIB = 1 << 20, 1 << 30
MACHINE = Hardware(
    threads=tuple(Thread(cpu, numa=cpu // 4) for cpu in range(8)),
    numa=tuple(MemoryNode(numa, 15 << numa * 4, memory=64 * GIB) for numa in range(2)),
)
RECORDED = Path(__file__).parents[2] / "recorded/watch"
FILES = ("cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint")


def grant(
    cpus: str = "2-3", mems: str = "", *, alone: bool = True, name: str = "c", **more: object
) -> RecordedGrant:
    return RecordedGrant(
        f"uid-{name}",
        "default",
        f"pod-{name}",
        name,
        parse_ids(cpus),
        alone,
        parse_ids(mems),
        **more,  # type: ignore[arg-type]
    )


def cpuset(
    cpus: str, mems: str = "0-1", written: str | None = None, written_mems: str | None = None
) -> GroupCpuset:
    """What counts, and what is written where that is something else."""
    texts = (cpus, mems, cpus if written is None else written, mems if written_mems is None else written_mems)
    return GroupCpuset(*map(parse_ids, texts))


def words(findings: object) -> list[str]:
    assert isinstance(findings, object)
    return [f"{one.code}: {one.message}" for one in list(findings) if one.severity is Severity.ERROR]  # type: ignore[call-overload]


@pytest.mark.parametrize(("has", "seen", "expected"), [
    pytest.param(grant("2-3"), cpuset("2-3"), [],                                             id="as granted"),
    pytest.param(grant("2-3"), cpuset("0-7"), ["container c may run outside CPUs 2-3"],       id="wider"),
    pytest.param(grant("2-3"), cpuset("4-5"), ["container c may run outside CPUs 2-3"],       id="elsewhere"),
    pytest.param(grant("2-3"), cpuset("2"),
                 ["container c may not run on CPU 3, and was granted CPUs 2-3"],              id="narrower"),
    pytest.param(grant("0-1", alone=False), cpuset("0-7"), ["container c may run outside CPUs 0-1"], id="pool, wider"),
    pytest.param(grant("0-1", alone=False), cpuset("0-1"), [],                                id="pool"),
    pytest.param(grant("2-3,9"), cpuset("2-3"), [],                                           id="CPU 9 is offline"),
    pytest.param(grant("", alone=False), cpuset("0-7"), [],                                   id="policy none keeps nobody"),
])  # fmt: skip
def test_cpus(has: RecordedGrant, seen: GroupCpuset, expected: list[str]) -> None:
    assert words(judge_cpuset(MACHINE, has, seen)) == [f"cpuset-changed: {one}" for one in expected]


@pytest.mark.parametrize(("has", "seen", "expected"), [
    pytest.param("0",   "0",   [],                                                                        id="as granted"),
    pytest.param("0",   "0-1", ["container c may use memory outside NUMA 0"],                             id="wider"),
    pytest.param("0-1", "0",   ["container c may not use memory of NUMA 1, and was granted NUMA 0-1"],    id="narrower"),
    pytest.param("",    "0-1", [],                                                                        id="not bound"),
])  # fmt: skip
def test_numa_nodes(has: str, seen: str, expected: list[str]) -> None:
    found = words(judge_cpuset(MACHINE, grant("2-3", has), cpuset("2-3", seen)))
    assert found == [f"mems-changed: {one}" for one in expected]


def only(findings: object) -> Finding:
    (finding,) = list(findings)  # type: ignore[call-overload]
    assert isinstance(finding, Finding)
    return finding


def test_why_a_cpuset_differs() -> None:
    other, sibling = grant("4-5", name="train"), grant("6-7", name="same")
    sibling = RecordedGrant("uid-c", "default", "pod-c", "same", sibling.cpus, alone=True)
    wide = only(judge_cpuset(MACHINE, grant("2-3"), cpuset("0-7", written=""), [other, sibling]))
    assert "its cpuset has CPUs 0-7" in wide.why
    assert "nothing is written in its cpuset any more" in wide.why
    assert "systemd" not in wide.why
    unit = only(judge_cpuset(MACHINE, grant("2-3"), cpuset("0-7"), by_systemd=True))
    assert "systemd writes what its unit has as AllowedCPUs=" in unit.why
    assert "it may run on CPUs 4-5, which pod-train/train has alone" in wide.why
    assert "6-7" not in wide.why
    above = only(judge_cpuset(MACHINE, grant("2-3"), cpuset("2", written="2-3")))
    assert "a control group above it has fewer" in above.why
    assert "--repair" in above.fix


def test_a_cpuset_that_cannot_be_read_is_said() -> None:
    finding = only(judge_cpuset(MACHINE, grant("2-3"), GroupCpuset(None, None)))
    assert (finding.code, finding.severity) == ("cpuset-unread", Severity.WARNING)


@pytest.mark.parametrize(("has", "seen", "expected"), [
    pytest.param(grant("2-3"),      cpuset("2-3"),                            Mending(),             id="nothing"),
    pytest.param(grant("2-3"),      cpuset("0-7"),                            Mending(12),           id="CPUs"),
    pytest.param(grant("2-3", "0"), cpuset("2-3", "0-1"),                     Mending(mems=1),       id="nodes"),
    pytest.param(grant("2-3", "0"), cpuset("0-7", "0-1", "", ""),             Mending(12, 1),        id="both reset"),
    pytest.param(grant("2-3"),      cpuset("2", written="2-3"),               Mending(),             id="a group above has fewer"),
    pytest.param(grant("2-3"),      cpuset("2-3", "0-1"),                     Mending(),             id="nodes never granted"),
    pytest.param(grant("", alone=False), cpuset("0-7"),                       Mending(),             id="nothing granted"),
    pytest.param(grant("2-3"),      GroupCpuset(255, 3),                      Mending(),             id="nothing can be written"),
])  # fmt: skip
def test_what_is_to_be_written(has: RecordedGrant, seen: GroupCpuset, expected: Mending) -> None:
    assert mending(MACHINE, has, seen) == expected
    assert bool(expected) is (expected != Mending())


def pages(own: str, file: str = "", huge: str = "") -> GroupPages:
    """``0=900 1=100``: MiB on each NUMA node."""

    def sizes(text: str) -> tuple[tuple[int, int], ...]:
        return tuple((int(word[0]), int(word[2:]) * MIB) for word in text.split())

    return GroupPages(sizes(own), sizes(file), sizes(huge))


@pytest.mark.parametrize(("has", "lies", "expected"), [
    pytest.param(grant(),            pages("0=1000"),          [],                                    id="all local"),
    pytest.param(grant(),            pages("0=985 1=15"),      [],                                    id="98.5 %"),
    pytest.param(grant(),            pages("0=900 1=100"),     ["10 % of 1000 MiB lies on NUMA 1"],   id="90 %"),
    pytest.param(grant(),            pages("0=9 1=1"),         [],                                    id="too little to be said"),
    pytest.param(grant("2-3", "1"),  pages("1=1000"),          [],                                    id="bound elsewhere on purpose"),
    pytest.param(grant("2-3", "0"),  pages("0=100", huge="1=100"), ["50 % of 200 MiB lies on NUMA 1"], id="huge pages"),
    pytest.param(grant(alone=False), pages("1=1000"),          [],                                    id="the pool belongs nowhere"),
    pytest.param(grant("0-1", "0", alone=False), pages("1=100"), ["100 % of 100 MiB lies on NUMA 1"], id="but bound memory does"),
    pytest.param(grant(),            pages("0=10", "1=500"),   [],                                    id="file pages are a note"),
])  # fmt: skip
def test_pages(has: RecordedGrant, lies: GroupPages, expected: list[str]) -> None:
    seen = cpuset("2-3", "0")
    found = words(judge_pages(MACHINE, has, seen, lies))
    assert found == [f"memory-remote: container c: {one}" for one in expected]


def test_file_pages_are_noted_and_unknown_ones_said() -> None:
    note = only(judge_pages(MACHINE, grant(), cpuset("2-3"), pages("0=10", "1=500")))
    assert (note.code, note.severity) == ("file-pages-remote", Severity.INFO)
    unknown = only(judge_pages(MACHINE, grant(), cpuset("2-3"), None))
    assert (unknown.code, unknown.severity) == ("memory-unread", Severity.WARNING)
    alone = Hardware(threads=MACHINE.threads, numa=MACHINE.numa[:1])
    assert list(judge_pages(alone, grant(), cpuset("2-3"), None)) == []


def test_why_pages_are_elsewhere() -> None:
    bound = only(judge_pages(MACHINE, grant("2-3", "0"), cpuset("2-3", "0"), pages("1=100")))
    assert bound.why == "made before its control group kept it on NUMA 0, or moved there later"
    loose = only(judge_pages(MACHINE, grant(), cpuset("2-3"), pages("1=100")))
    assert loose.why.startswith("nothing binds its memory")
    assert "memoryManagerPolicy Static" in loose.fix


def test_memory_of_a_gpu_is_local_to_who_has_it() -> None:
    machine = Hardware(
        threads=MACHINE.threads,
        numa=(*MACHINE.numa, MemoryNode(2, 0, memory=96 * GIB)),
        gpus=(Gpu("GPU0", numa=(0,), own_numa=2),),
    )
    lies = pages("0=100 2=100")
    has = grant(devices=(GrantedDevice("nvidia.com/gpu", "GPU-0", 1),))
    assert words(judge_pages(machine, has, cpuset("2-3"), lies)) == []
    assert words(judge_pages(machine, grant(), cpuset("2-3"), lies))


@pytest.mark.parametrize(("devices", "alone", "expected"), [
    pytest.param("a@0",         True,  [],                                                          id="near"),
    pytest.param("a@1 b@1 c@0", True,  ["x/gpu a, b is on NUMA 1 and container c on NUMA 0"],       id="two of three are far"),
    pytest.param("a@01",        True,  [],                                                          id="on both nodes"),
    pytest.param("a@",          True,  [],                                                          id="without topology"),
    pytest.param("a@1",         False, [],                                                          id="CPUs of the pool are nowhere"),
])  # fmt: skip
def test_devices(devices: str, alone: bool, expected: list[str]) -> None:  # noqa: FBT001
    some = tuple(
        GrantedDevice("x/gpu", name, sum(1 << int(numa) for numa in nodes))
        for name, _, nodes in (word.partition("@") for word in devices.split())
    )
    found = words(judge_devices(MACHINE, grant(devices=some, alone=alone)))
    assert found == [f"device-far: {one}" for one in expected]


def claim(*nodes: int | None) -> PodClaim:
    devices = tuple(
        ClaimedDevice("gpu", "gpu.example.com", "n1", f"gpu-{at}", numa) for at, numa in enumerate(nodes)
    )
    return PodClaim("gpu", "train-gpu", containers=("c",), known=True, devices=devices)


def test_claims() -> None:
    assert list(judge_claims(MACHINE, grant(claims=(claim(0),)))) == []
    far = only(judge_claims(MACHINE, grant(claims=(claim(0, 1),))))
    assert far.code == "claim-far"
    assert far.message == (
        "container c: claim gpu: gpu.example.com gpu-0 on NUMA 0, gpu.example.com gpu-1 on NUMA 1, but the CPUs "
        "beside are on NUMA 0: the Topology Manager does not look at claims"
    )
    unknown = only(judge_claims(MACHINE, grant(claims=(claim(None),))))
    assert (unknown.code, unknown.severity) == ("claim-unknown", Severity.WARNING)
    assert list(judge_claims(MACHINE, grant(alone=False, claims=(claim(1),)))) == []


def recorded() -> dict[str, str]:
    return {name: (RECORDED / name).read_text() for name in FILES}


UID, B_UID = "d8cef786c3e6fab90c6e83f71a6881b7", "4f51e75f3255e73c234a806b6c8ebc41"


def test_grants_of_a_real_kubelet() -> None:
    records = kubelet_records(recorded())
    assert not records.problems
    a = granted(records, (UID, "default", "a-n1", "c"))
    assert (a.cpus, a.alone, a.mems, a.devices) == (
        12,
        True,
        1,
        (GrantedDevice("example.com/gpu", "gpu0", 1),),
    )
    shared = granted(records, ("else", "kube-system", "d-n1", "c"))
    assert (shared.cpus, shared.alone, shared.mems) == (parse_ids("0-1,6-7"), False, 0)
    assert (a.name, shared.name) == ("a-n1/c", "kube-system/d-n1/c")
    answers = PodResources(held={("example.com/gpu", "gpu0"): (1,)})
    assert granted(records, (UID, "default", "a-n1", "c"), answers).devices[0].numa == 2


def test_records_that_cannot_be_believed_grant_nothing() -> None:
    texts = recorded()
    texts["cpu_manager_state"] = texts["cpu_manager_state"].replace('"4-5"', '"6-7"')
    texts["memory_manager_state"] = texts["memory_manager_state"][:100]
    records = kubelet_records(texts)
    assert records.cpu is None
    assert records.memory is None
    assert "cpu_manager_state: its checksum is wrong" in records.problems
    assert len(records.problems) == 2
    assert granted(records, (UID, "default", "a-n1", "c")).cpus == 0
    none = {"cpu_manager_state": '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'}
    assert (kubelet_records(none).cpu, kubelet_records(none).problems) == (None, ())


def listed(**changes: object) -> ListedContainer:
    values = {
        "cpus": 12,
        "devices": {"example.com/gpu": frozenset({"gpu0"})},
        "memory": (Block(1, "memory", 100 * MIB),),
    }
    return ListedContainer(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("answer", "expected"), [
    pytest.param(listed(), [], id="the same"),
    pytest.param(None, [], id="not listed"),
    pytest.param(listed(cpus=48), ["CPUs 2-3 in cpu_manager_state and CPUs 4-5 in PodResources"], id="CPUs"),
    pytest.param(listed(cpus=0), ["CPUs 2-3 in cpu_manager_state and no CPUs in PodResources"], id="no CPUs"),
    pytest.param(listed(memory=(Block(2, "memory", 100 * MIB),)),
                 ["100Mi on NUMA 0 in memory_manager_state and 100Mi on NUMA 1 in PodResources"], id="memory"),
    pytest.param(listed(devices={"example.com/gpu": frozenset({"gpu1"})}),
                 ["example.com/gpu gpu0 in kubelet_internal_checkpoint and gpu1 in PodResources"], id="devices"),
])  # fmt: skip
def test_records(answer: ListedContainer | None, expected: list[str]) -> None:
    records = kubelet_records(recorded())
    has = granted(records, (UID, "default", "a-n1", "c"))
    found = words(judge_records(has, records, answer))
    assert found == [f"records-differ: container c has {one}" for one in expected]


def test_the_recorded_node_has_not_drifted() -> None:
    """Every container of a real kubelet's node, by the cpusets that it really had."""
    texts = dict(line.split("=", 1) for line in (RECORDED / "cgroup-cpuset.txt").read_text().splitlines())
    records = kubelet_records(recorded())
    looked = 0
    for pod in json.loads((RECORDED / "pods.json").read_text())["items"]:
        for status in pod["status"].get("containerStatuses", ()):
            id_ = status.get("containerID", "").rpartition("/")[2]
            has = granted(
                records, (pod["metadata"]["uid"], "default", pod["metadata"]["name"], status["name"])
            )
            ids = {
                name: next((text for path, text in texts.items() if path.endswith(f"{id_}/{name}")), None)
                for name in ("cpuset.cpus.effective", "cpuset.mems.effective", "cpuset.cpus", "cpuset.mems")
            }
            if id_ and None not in ids.values():
                seen = GroupCpuset(*(parse_ids(text or "") for text in ids.values()))
                assert list(judge_cpuset(MACHINE, has, seen)) == []
                looked += 1
    assert looked == 3

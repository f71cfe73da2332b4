"""The first sentence about an admitted pod: what is not aligned, and why."""

from typing import Any

import pytest

from numawise.machine.description import NodeDescription
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot, simulate
from numawise.render.alignment import alignment_text, alignment_verdict, apart_text, noteworthy
from numawise.request.claims import ClaimedDevice, PodClaim
from numawise.request.model import PodRequest
from numawise.results.alignment import Alignment
from numawise.results.plain import plain
from numawise.values import replace
from tests.unit.build import GI, even, machine, pod
from tests.unit.explain.asking import node

GPU = "nvidia.com/gpu"
SERVER = machine(
    even(2, 2, 16), 64 * GI, hugepages={"1Gi": 4}, devices={GPU: "g0@0 g1@0 g2@1 g3@1", "x/nic": "n0 n1@0", "x/fab": "f0@0,1", "x/usb": "u0 u1"}
)  # fmt: skip
ONE = machine(even(1, 1, 16), 64 * GI, devices={GPU: "g0 g1"})
SINGLE, RESTRICTED, BEST = "single-numa-node", "restricted", "best-effort"
NO_MEMORY = {"memory": False}
NO_CPUS = {"cpuManagerPolicy": "none"}
POD_SCOPE = {"topologyManagerScope": "pod"}
MANAGED = {**POD_SCOPE, "featureGates": {"PodLevelResourceManagers": True}}
FLOATS = "so its CPUs come from the shared pool and its memory from any NUMA node"
SHARED = "so its CPUs come from the shared pool"
UNPINNED = "so its memory may come from any NUMA node"
LEVEL = "cpu=4..4 memory=4Gi..4Gi"


def aligned(hardware: Machine, policy: str, request: PodRequest, **more: Any) -> Alignment:
    """What of a pod is aligned that must be admitted."""
    description = more.pop("description", None)
    kubelet = node(hardware, policy, more.pop("running", ()), **more)
    kubelet.describe(description)
    (outcome,) = simulate(kubelet, [request])
    alignment = outcome.alignment
    assert alignment is not None, outcome.decision
    return alignment


def sentence(hardware: Machine, policy: str, *containers: str, **more: Any) -> str:
    request = pod("p", *containers, level=more.pop("level", None))
    return alignment_text(aligned(hardware, policy, request, **more))


@pytest.mark.parametrize(("policy", "containers", "more", "text"), [
    pytest.param(SINGLE, [f"c cpu=4 memory=1Gi {GPU}=1"], {},
                 f"Admitted: everything on NUMA 0: 4 CPUs (1-4), 1 GiB of memory, {GPU} g0", id="everything"),
    pytest.param(SINGLE, ["c cpu=4 memory=1Gi hugepages-1Gi=2Gi"], {},
                 "Admitted: everything on NUMA 0: 4 CPUs (1-4), 1 GiB of memory, 2 GiB of hugepages-1Gi", id="huge pages"),
    pytest.param(SINGLE, ["c cpu=4 memory=1Gi x/fab=1"], {},
                 "Admitted: everything on NUMA 0: 4 CPUs (1-4), 1 GiB of memory, x/fab f0", id="a device on both NUMA nodes"),
    pytest.param(SINGLE, [f"init i cpu=2 memory=1Gi {GPU}=1", f"c cpu=4 memory=2Gi {GPU}=1"], {},
                 f"Admitted: everything on NUMA 0: i 2 CPUs (1-2), 1 GiB of memory, {GPU} g0; c 4 CPUs (1-4), 2 GiB of memory, {GPU} g0", id="handed on"),
    # quality of service
    pytest.param(SINGLE, [f"c cpu=1..4 memory=1Gi {GPU}=1"], {},
                 f"Admitted, but only {GPU} is aligned: the pod is Burstable, {FLOATS}; on NUMA 0: {GPU} g0", id="Burstable"),
    pytest.param(SINGLE, ["c cpu=1..4 memory=1Gi"], {}, f"Admitted, but nothing is aligned: the pod is Burstable, {FLOATS}", id="Burstable without devices"),
    pytest.param(SINGLE, [f"c {GPU}=1"], {},
                 f"Admitted, but only {GPU} is aligned: the pod is BestEffort, {FLOATS}; on NUMA 0: {GPU} g0", id="a GPU alone"),
    pytest.param(SINGLE, ["c"], {}, f"Admitted, but nothing is aligned: the pod is BestEffort, {FLOATS}", id="BestEffort"),
    pytest.param(SINGLE, ["c cpu=4 memory=1Gi", "d cpu=1..2 memory=1Gi"], {},
                 f"Admitted, but nothing is aligned: the pod is Burstable, {FLOATS}", id="one container is enough"),
    pytest.param(BEST, [f"c cpu=1..2 {GPU}=3"], {},
                 f"Admitted, but only {GPU} is aligned, over NUMA 0-1, as few NUMA nodes as it needs: the pod is Burstable, {FLOATS}; {GPU} g0, g1, g2 on NUMA 0-1", id="Burstable on two NUMA nodes"),
    # fractions
    pytest.param(SINGLE, [f"c cpu=500m memory=1Gi {GPU}=1"], {},
                 f"Admitted, but CPUs are not aligned: 500m is not a whole number of CPUs, {SHARED}; on NUMA 0: 1 GiB of memory, {GPU} g0", id="a fraction"),
    pytest.param(SINGLE, ["init i cpu=100m memory=1Gi", "sidecar s cpu=200m memory=1Gi", "c cpu=4 memory=1Gi"], {},
                 "Admitted, but CPUs of init container i and sidecar s are not aligned: 100m and 200m are not a whole number of CPUs, so the CPUs of init container i "
                 "and sidecar s come from the shared pool; on NUMA 0: i 1 GiB of memory; s 1 GiB of memory; c 4 CPUs (1-4), 1 GiB of memory", id="init container and sidecar"),
    pytest.param(SINGLE, ["c cpu=6 memory=1Gi", "d cpu=7 memory=1Gi", "e cpu=1500m memory=1Gi"], {},
                 "Admitted, but CPUs of container e are not aligned, and the rest only container by container, on NUMA 0-1: 1500m is not a whole number of CPUs, so the CPUs of "
                 "container e come from the shared pool; c 6 CPUs (1-6) on NUMA 0, 1 GiB of memory on NUMA 0; d 7 CPUs (8-14) on NUMA 1, 1 GiB of memory on NUMA 1; "
                 "e 1 GiB of memory on NUMA 0", id="a fraction beside two"),
    # policies of the managers
    pytest.param(SINGLE, [f"c cpu=4 memory=1Gi {GPU}=1"], NO_MEMORY,
                 f"Admitted, but memory is not aligned: memoryManagerPolicy is not Static, {UNPINNED}; on NUMA 0: 4 CPUs (1-4), {GPU} g0", id="no Memory Manager"),
    pytest.param(SINGLE, [f"c cpu=4 memory=1Gi {GPU}=1"], NO_CPUS,
                 f"Admitted, but CPUs are not aligned: cpuManagerPolicy is not static, {SHARED}; on NUMA 0: 1 GiB of memory, {GPU} g0", id="no CPU Manager"),
    pytest.param(SINGLE, [f"c cpu=4 memory=1Gi {GPU}=1"], {**NO_CPUS, **NO_MEMORY},
                 f"Admitted, but only {GPU} is aligned: cpuManagerPolicy is not static and memoryManagerPolicy is not Static, {FLOATS}; on NUMA 0: {GPU} g0", id="neither"),
    pytest.param(SINGLE, [f"c cpu=1..4 {GPU}=1"], {**NO_CPUS, **NO_MEMORY},
                 f"Admitted, but only {GPU} is aligned: the pod is Burstable, cpuManagerPolicy is not static and memoryManagerPolicy is not Static, {FLOATS}; on NUMA 0: {GPU} g0", id="neither, and Burstable"),
    pytest.param("none", [f"c cpu=4 memory=1Gi {GPU}=1"], {},
                 f"Admitted: everything on NUMA 0, but by chance: topologyManagerPolicy none does not look at NUMA nodes; 4 CPUs (1-4), 1 GiB of memory, {GPU} g0", id="policy none, by chance"),
    pytest.param("none", [f"c cpu=9 memory=1Gi {GPU}=1"], {},
                 "Admitted, but nothing is aligned: topologyManagerPolicy none does not look at NUMA nodes; 1 CPU (1) on NUMA 0 and 8 CPUs (8-15) on NUMA 1, "
                 f"1 GiB of memory on NUMA 0, {GPU} g0 on NUMA 0", id="policy none"),
    pytest.param("none", [f"c cpu=4 memory=1Gi {GPU}=1"], NO_MEMORY,
                 "Admitted, but memory is not aligned, and the rest only by chance: memoryManagerPolicy is not Static, so its memory may come from any NUMA node; "
                 f"topologyManagerPolicy none does not look at NUMA nodes; on NUMA 0: 4 CPUs (1-4), {GPU} g0", id="policy none and no Memory Manager"),
    # several NUMA nodes
    pytest.param(RESTRICTED, [f"c cpu=10 memory=100Gi {GPU}=4"], {},
                 "Admitted: spread over NUMA 0-1, as few NUMA nodes as it needs; 2 CPUs (1-2) on NUMA 0 and 8 CPUs (8-15) on NUMA 1, 100 GiB of memory on NUMA 0-1, "
                 f"{GPU} g0, g1, g2, g3 on NUMA 0-1", id="as few as it needs"),
    pytest.param(BEST, ["c cpu=9 memory=1Gi"], {},
                 "Admitted, but nothing is aligned: no NUMA nodes suit all of it, and best-effort takes what it gets; 1 CPU (1) on NUMA 0 and 8 CPUs (8-15) on NUMA 1, "
                 "1 GiB of memory on NUMA 0-1", id="best-effort"),
    pytest.param(SINGLE, ["c cpu=7 memory=1Gi", "d cpu=8 memory=1Gi"], {},
                 "Admitted: each container on one NUMA node, the pod on NUMA 0-1, as topologyManagerScope container aligns each for itself; "
                 "c 7 CPUs (1-7) on NUMA 0, 1 GiB of memory on NUMA 0; d 8 CPUs (8-15) on NUMA 1, 1 GiB of memory on NUMA 1", id="container scope"),
    pytest.param(SINGLE, ["c cpu=3 memory=1Gi", "d cpu=4 memory=1Gi"], POD_SCOPE,
                 "Admitted: everything on NUMA 0: c 3 CPUs (1-3), 1 GiB of memory; d 4 CPUs (4-7), 1 GiB of memory", id="pod scope"),
    # devices
    pytest.param(SINGLE, ["c cpu=4 memory=1Gi x/usb=1"], {},
                 "Admitted, but whether x/usb is aligned is not known: no NUMA node is known for u0 of x/usb; on NUMA 0: 4 CPUs (1-4), 1 GiB of memory; on unknown NUMA nodes: x/usb u0",
                 id="a device without NUMA node"),
    pytest.param(SINGLE, ["c cpu=1..4 x/usb=1"], {},
                 f"Admitted, but nothing is aligned: no NUMA node is known for u0 of x/usb; the pod is Burstable, {FLOATS}; on unknown NUMA nodes: x/usb u0", id="and Burstable"),
    pytest.param("none", ["c cpu=4 memory=1Gi x/nic=1"], {},
                 "Admitted, but whether x/nic is aligned is not known, and the rest only by chance: no NUMA node is known for n0 of x/nic; topologyManagerPolicy none does not look at NUMA nodes; "
                 "on NUMA 0: 4 CPUs (1-4), 1 GiB of memory; on unknown NUMA nodes: x/nic n0", id="a device without NUMA node, policy none"),
    pytest.param(SINGLE, ["c cpu=4 memory=1Gi amd.com/gpu=1"], {},
                 f"Admitted, but without amd.com/gpu: no device plugin offers it on this machine, which has {GPU}, x/fab, x/nic and x/usb; a kubelet starts the container without it, "
                 "and a scheduler sends the pod elsewhere; on NUMA 0: 4 CPUs (1-4), 1 GiB of memory", id="not offered"),
    pytest.param(SINGLE, ["c cpu=1..4 a/b=1 a/c=2"], {},
                 f"Admitted, but without a/b and a/c, and nothing is aligned: no device plugin offers a/b and a/c on this machine, which has {GPU}, x/fab, x/nic and x/usb; a kubelet starts the "
                 f"container without them, and a scheduler sends the pod elsewhere; the pod is Burstable, {FLOATS}", id="not offered, and Burstable"),
    pytest.param(SINGLE, ["c cpu=4 memory=1Gi amd.com/gpu=0"], {}, "Admitted: everything on NUMA 0: 4 CPUs (1-4), 1 GiB of memory", id="none is asked for"),
    # resources of the pod
    pytest.param(SINGLE, ["c", "d cpu=2 memory=1Gi"], {"level": LEVEL},
                 f"Admitted, but nothing is aligned: the pod has resources of its own (spec.resources), {FLOATS}", id="pod-level resources"),
    pytest.param(SINGLE, ["c", f"d cpu=2 memory=1Gi {GPU}=1"], {"level": LEVEL, **MANAGED},
                 f"Admitted: everything on NUMA 0: c 2 CPUs (3-4), 3 GiB of memory; d 2 CPUs (1-2), 1 GiB of memory, {GPU} g0", id="pod-level managers"),
    pytest.param(SINGLE, ["c", f"d cpu=2 memory=1Gi {GPU}=1"], {"level": LEVEL, "featureGates": MANAGED["featureGates"]},
                 "Admitted, but CPUs and memory of container c are not aligned: the pod has resources of its own (spec.resources), so the CPUs of container c come from the shared pool "
                 f"and the memory of container c from any NUMA node; on NUMA 0: d 2 CPUs (1-2), 1 GiB of memory, {GPU} g0", id="pod-level managers in container scope"),
])  # fmt: skip
def test_sentence(policy: str, containers: list[str], more: dict[str, Any], text: str) -> None:
    assert sentence(SERVER, policy, *containers, **more) == text


@pytest.mark.parametrize(("containers", "text"), [
    pytest.param([f"c cpu=2 memory=1Gi {GPU}=2"],
                 f"Admitted: everything on NUMA 0, the only NUMA node that it can come from: 2 CPUs (1-2), 1 GiB of memory, {GPU} g0, g1", id="Guaranteed"),
    pytest.param(["c cpu=1..2"],
                 "Admitted: everything on NUMA 0, the only NUMA node that it can come from, with CPUs of the shared pool", id="Burstable"),
    pytest.param(["c cpu=2 memory=1Gi x/foo=2"],
                 f"Admitted, but without x/foo: no device plugin offers it on this machine, which has {GPU}; a kubelet starts the container without it, "
                 "and a scheduler sends the pod elsewhere; on NUMA 0: 2 CPUs (1-2), 1 GiB of memory", id="not offered"),
])  # fmt: skip
@pytest.mark.parametrize("policy", ["none", BEST, SINGLE])
def test_one_numa_node(policy: str, containers: list[str], text: str) -> None:
    assert sentence(ONE, policy, *containers) == text


def test_a_numa_node_without_cpus() -> None:
    """CPUs of the shared pool can only be on the NUMA node that has CPUs; memory can be on both."""
    hardware = machine(even(1, 1, 16), [64 * GI, 64 * GI], devices={GPU: "g0@0"})
    rows = aligned(hardware, SINGLE, pod("p", f"c cpu=1..2 {GPU}=1")).resources
    assert [(row.resource, row.aligned, list(row.numa)) for row in rows] == [
        ("cpu", True, [0]),
        ("memory", False, []),
        (GPU, True, [0]),
    ]
    far = machine(even(1, 1, 16), [64 * GI, 64 * GI], devices={GPU: "g0@1"})
    rows = aligned(far, SINGLE, pod("p", f"c cpu=1..2 {GPU}=1")).resources
    assert [(row.resource, row.aligned, row.reasons) for row in rows][::2] == [
        ("cpu", False, ("qos-class",)),
        (GPU, True, ()),
    ]


@pytest.mark.parametrize(("listed", "aligned_", "reason"), [
    ({"x/foo": 4}, None,  "devices-not-known"),
    ({},           False, "not-offered"),
])  # fmt: skip
def test_what_the_node_object_lists(listed: dict[str, int], aligned_: bool | None, reason: str) -> None:  # noqa: FBT001
    request = pod("p", "c cpu=2 memory=1Gi x/foo=2")
    found = aligned(SERVER, SINGLE, request, description=NodeDescription(allocatable=listed))
    row = found.resources[-1]
    assert (row.resource, row.aligned, row.reasons) == ("x/foo", aligned_, (reason,))
    assert found.missing == (() if listed else ("x/foo",))
    if listed:
        assert alignment_verdict(found) == (
            "Admitted, but whether x/foo is aligned is not known: the Node object lists x/foo, and nothing else "
            "is known of its devices"
        )


@pytest.mark.parametrize(("numas", "answer", "words"), [
    ((0,),     True,  "Admitted: everything on NUMA 0, but claim gpu by chance: the Topology Manager does not look at claims; 2 CPUs"),
    ((1,),     False, "Admitted, but claim gpu is not aligned: the Topology Manager does not look at claims; on NUMA 0: 2 CPUs"),
    ((0, 1),   False, "Admitted, but claim gpu is not aligned: "),
    ((None,),  None,  "Admitted, but whether claim gpu is aligned is not known: the Topology Manager does not look at claims; on NUMA 0: "),
    ((),       None,  "Admitted, but whether claim gpu is aligned is not known: "),
])  # fmt: skip
def test_claims(numas: tuple[int | None, ...], answer: bool | None, words: str) -> None:  # noqa: FBT001
    devices = tuple(
        ClaimedDevice("r", "gpu.example.com", "pool", f"g{at}", numa) for at, numa in enumerate(numas)
    )
    claim = PodClaim("gpu", containers=("c",), known=True, devices=devices)
    request = replace(pod("p", "c cpu=2 memory=1Gi"), claims=(claim,))
    found = aligned(SERVER, SINGLE, request)
    assert (found.resources[-1].resource, found.resources[-1].aligned) == ("claim gpu", answer)
    assert alignment_text(found).startswith(words)
    assert found.aligned is answer


def test_a_machine_without_devices() -> None:
    text = sentence(machine(even(2, 2, 16), 64 * GI), SINGLE, f"c cpu=2 memory=1Gi {GPU}=1")
    assert text.startswith(
        f"Admitted, but without {GPU}: no device plugin offers it on this machine, as far as it is described; "
    )


def test_the_cause_that_is_known_better_is_said() -> None:
    found = aligned(SERVER, BEST, pod("p", "c cpu=9 memory=1Gi"))
    assert alignment_verdict(found, "CPU needs two") == "Admitted, but nothing is aligned: CPU needs two"
    assert apart_text(found) == "CPUs on NUMA 0-1 and memory on NUMA 0-1"
    assert found.scattered
    assert noteworthy(found)
    together = aligned(SERVER, BEST, pod("p", "c cpu=2 memory=1Gi"))
    assert not together.scattered
    assert not noteworthy(together)
    assert "CPU needs" not in alignment_verdict(together, "CPU needs two")


def test_an_old_release_takes_devices_of_other_numa_nodes() -> None:
    """Up to 1.23 NUMA 0 counts as preferred although the GPUs need both; 1.20 has no Memory Manager."""
    config = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0", "topologyManagerPolicy": RESTRICTED}
    kubelet = boot(SERVER, config, Files(), version=(1, 20))
    assert isinstance(kubelet, SimulatedNode)
    kubelet.plugins_registered(SERVER.plugins)
    (outcome,) = simulate(kubelet, [pod("p", f"c cpu=3 memory=1Gi {GPU}=3")])
    assert outcome.alignment is not None
    assert alignment_text(outcome.alignment) == (
        f"Admitted, but only CPUs are aligned: this kubelet has no Memory Manager, {UNPINNED}; {GPU} came from other "
        f"NUMA nodes than were chosen; 3 CPUs (1-3) on NUMA 0, {GPU} g0, g1, g2 on NUMA 0-1"
    )
    assert apart_text(outcome.alignment) == f"{GPU} on NUMA 0-1"


def test_as_data() -> None:
    found = plain(aligned(SERVER, SINGLE, pod("p", f"c cpu=1..4 {GPU}=1 x/foo=1")))
    assert found == {
        "resources": [
            {"container": "c", "resource": "cpu", "requested": "1", "aligned": False, "numa": [], "reasons": ["qos-class"]},
            {"container": "c", "resource": "memory", "requested": None, "aligned": False, "numa": [], "reasons": ["qos-class"]},
            {"container": "c", "resource": GPU, "requested": "1", "aligned": True, "numa": [0], "reasons": []},
            {"container": "c", "resource": "x/foo", "requested": "1", "aligned": False, "numa": [], "reasons": ["not-offered"]},
        ],
        "aligned": False,
        "numa": [0],
        "everythingOn": None,
        "missing": ["x/foo"],
    }  # fmt: skip


def test_many_containers_are_counted() -> None:
    containers = [f"c{number} cpu=500m memory=1Gi" for number in range(6)]
    text = sentence(SERVER, SINGLE, *containers, "d cpu=1 memory=1Gi")
    assert text.startswith("Admitted, but CPUs of containers c0, c1, c2, c3 and 2 more are not aligned: ")
    assert text.endswith("; and 3 more containers")

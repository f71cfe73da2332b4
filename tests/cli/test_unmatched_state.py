"""State files beside a machine that calls its devices otherwise: UUIDs in the checkpoint, GPU0 on the machine.

No command says yes of such a node: each names the devices, and says what would match them.
"""

import json
from pathlib import Path

import pytest

import numawise as package
from numawise.apps.machine.node_map import node_map
from numawise.codec.checkpoint import DEVICE_FILE, encode_devices
from numawise.engine.state import DeviceFile, DeviceGrant
from numawise.errors import InputError
from numawise.inputs.spec import NodeSpec, read_node
from tests.cli.run import numawise
from tests.web.calls import Page

Capture = pytest.CaptureFixture[str]
GPU = "nvidia.com/gpu"
UUIDS = tuple(f"GPU-0000000{at}-aaaa-bbbb-cccc-00000000000{at}" for at in range(8))
LIST = "".join(f"GPU {at}: NVIDIA H100 80GB HBM3 (UUID: {uuid})\n" for at, uuid in enumerate(UUIDS))
KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0-1"
"""
POD = """apiVersion: v1
kind: Pod
metadata: {name: next}
spec:
  containers:
  - name: app
    resources: {limits: {cpu: 3, memory: 100Mi, nvidia.com/gpu: 1}}
"""
SENTENCE = "8 nvidia.com/gpu devices of the checkpoint are not on this machine (GPU-00000000-aaaa-"
ADVICE = "give nvidia-smi -L beside it (--machine), or --match-devices to map them by number"
SEED = Path(__file__).parents[1] / "recorded" / "state-files"
TOPO = """        GPU0    GPU1    GPU2    CPU Affinity    NUMA Affinity
GPU0     X      SYS     SYS     0-13    0
GPU1    SYS      X      NODE    14-27   1
GPU2    SYS     NODE     X      14-27   1
"""
"""What ``nvidia-smi topo -mp`` printed on the 28 CPUs and three GPUs of source document 002."""
CPUS = "# CPU,Core,Socket,Node\n" + "".join(f"{cpu},{cpu},{cpu // 14},{cpu // 14}\n" for cpu in range(28))
OWN_LIST = """GPU 0: Tesla P100-PCIE-16GB (UUID: GPU-77a702db-e37f-3a74-d46d-c5713f66058c)
GPU 1: Tesla P100-PCIE-16GB (UUID: GPU-9b341c59-f96b-ba85-c137-78c3652fea65)
GPU 2: Tesla P100-PCIE-16GB (UUID: GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841)
"""


def checkpoint(held: int = 8) -> str:
    """Eight GPUs by their UUIDs, the first of them held, four on each NUMA node."""
    grants = {
        f"uid-{at}": {"app": {GPU: DeviceGrant(((at // 4, (uuid,)),))}}
        for at, uuid in enumerate(UUIDS[:held])
    }
    return encode_devices(DeviceFile(grants, {GPU: frozenset(UUIDS)}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything but the machine."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / DEVICE_FILE).write_text(checkpoint())
    for name, text in (("kubelet.yaml", KUBELET), ("pod.yaml", POD), ("list.txt", LIST)):
        (tmp_path / name).write_text(text)
    (tmp_path / "nodes.yaml").write_text(
        "nodes: [{machine: dgx-h100, kubelet: kubelet.yaml, state: state}]\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


NODE = ("--machine", "dgx-h100", "--state", "state")
CONFIG = ("--kubelet-config", "kubelet.yaml")


@pytest.mark.parametrize("words", [
    pytest.param(("why", *NODE, *CONFIG, "pod.yaml"),                                id="why"),
    pytest.param(("why", *NODE, *CONFIG, "-o", "json", "pod.yaml"),                  id="why as JSON"),
    pytest.param(("simulate", *NODE, *CONFIG, "pod.yaml"),                           id="simulate"),
    pytest.param(("simulate", *NODE, *CONFIG, "--fill", "pod.yaml"),                 id="simulate --fill"),
    pytest.param(("simulate", "--nodes", "nodes.yaml", "-q", "pod.yaml"),            id="simulate --nodes"),
    pytest.param(("simulate", *NODE, *CONFIG, "--compare-kube", "1.34,1.36", "pod.yaml"), id="two releases"),
    pytest.param(("capacity", "--nodes", "nodes.yaml", "-q", "pod.yaml"),            id="capacity"),
    pytest.param(("plan", "pod", *NODE, *CONFIG, "--gpus", "1", "--image", "x"),                     id="plan pod"),
    pytest.param(("plan", "switch", *NODE, "kubelet.yaml", "kubelet.yaml"),          id="plan switch"),
])  # fmt: skip
def test_what_would_rest_on_them_is_not_answered(
    words: tuple[str, ...], folder: Path, capsys: Capture
) -> None:
    assert folder
    ran = numawise(capsys, *words)
    assert (ran.status, ran.out) == (2, "")
    said = ran.err.splitlines()[0]
    assert SENTENCE in said
    assert said.endswith(ADVICE)
    assert ran.err.count("not on this machine") == 1


@pytest.mark.parametrize("machine", ["dgx-h100", "2s 2n 64c 2t 8gpu"])
@pytest.mark.parametrize("command", [("check", "--state", "state"), ("state", "verify", "state")])
def test_linters_find_them(machine: str, command: tuple[str, ...], folder: Path, capsys: Capture) -> None:
    assert folder
    ran = numawise(capsys, *command, "--machine", machine, "-o", "json")
    assert ran.status == 1
    (finding,) = json.loads(ran.out)["findings"]
    assert (finding["code"], finding["severity"]) == ("NW320", "error")
    assert finding["message"].startswith(SENTENCE)
    assert finding["fix"] == ADVICE


def test_the_state_is_shown_with_them(folder: Path, capsys: Capture) -> None:
    assert folder
    ran = numawise(capsys, "state", "show", "state", "--machine", "dgx-h100")
    assert ran.status == 0
    assert SENTENCE in ran.err.splitlines()[0]
    assert all(f"│ GPU{at}: not known" in ran.out for at in range(8))  # none is drawn as free
    data = json.loads(numawise(capsys, "state", "show", "state", "--machine", "dgx-h100", "-o", "json").out)
    (entry,) = data["unmatched"]
    assert entry["names"] == list(UUIDS)
    assert (entry["kind"], entry["held"], entry["decides"]) == (GPU, 8, True)


def test_python_raises(folder: Path) -> None:
    with pytest.raises(InputError, match=r"8 nvidia\.com/gpu devices of the checkpoint"):
        package.Node("dgx-h100", folder / "kubelet.yaml", state=folder / "state")
    node = package.Node("dgx-h100", folder / "kubelet.yaml", state=folder / "state", match_devices=True)
    assert node.unmatched == ()
    assert not node.admit(folder / "pod.yaml").admitted


def test_the_map_does_not_draw_them_free(folder: Path) -> None:
    assert folder
    spec = NodeSpec(machine=("dgx-h100",), kubelet_config=("kubelet.yaml",), state=("state",))
    drawn = node_map(read_node(spec))
    assert drawn.notices[0].startswith(SENTENCE)
    assert "devices" in drawn.unknown
    matched = node_map(
        read_node(
            NodeSpec(
                **{
                    **{n: getattr(spec, n) for n in ("machine", "kubelet_config", "state")},
                    "match_devices": True,
                }
            )
        )
    )
    assert matched.unknown == ()
    assert {one for holder in matched.holders for one in holder.devices} == {f"GPU{at}" for at in range(8)}


def test_the_page_names_them_and_maps_them_when_asked(folder: Path) -> None:
    files = [{"name": DEVICE_FILE, "text": checkpoint(7)}]
    node = {"machine": "dgx-h100", "config": KUBELET, "files": files}
    page = Page()
    try:
        refused = page.post("/api/v1/why", {"node": node, "text": POD})
        assert refused.status == 422
        assert "8 nvidia.com/gpu devices of the checkpoint are not on this machine" in str(refused.data)
        assert "--" not in str(refused.data)
        answer = page.post("/api/v1/why", {"node": {**node, "matchDevices": True}, "text": POD}).data
        assert answer["explanation"]["verdict"] == "admitted"
        assert "on NUMA 1" in answer["explanation"]["answer"]  # the one that is left
        files.append({"name": "list.txt", "text": LIST})
        answer = page.post("/api/v1/why", {"node": node, "text": POD}).data
        assert UUIDS[7] in answer["explanation"]["answer"]
    finally:
        page.close()
    assert folder


# --- how they are matched ---------------------------------------------------------------------


@pytest.mark.parametrize("more", [("--machine", "list.txt"), ("--match-devices",)])
def test_matched_ones_are_held(more: tuple[str, ...], folder: Path, capsys: Capture) -> None:
    ran = numawise(capsys, "simulate", *NODE, *CONFIG, *more, "pod.yaml")
    assert (ran.status, "0 of 1 pods admitted" in ran.out) == (1, True)
    (folder / "state" / DEVICE_FILE).write_text(checkpoint(7))
    ran = numawise(capsys, "simulate", *NODE, *CONFIG, *more, "-o", "json", "pod.yaml")
    assert ran.status == 0
    (admitted,) = json.loads(ran.out)["pods"]
    assert admitted["containers"][0]["devices"] == {GPU: [UUIDS[7] if "list.txt" in more else "GPU7"]}


def test_what_was_assumed_is_said(folder: Path, capsys: Capture) -> None:
    assert folder
    said = numawise(capsys, "simulate", *NODE, *CONFIG, "--match-devices", "pod.yaml").err.splitlines()[0]
    assert "8 nvidia.com/gpu devices of the checkpoint are mapped by number" in said
    assert f"{UUIDS[0]} is GPU0" in said
    assert "which is which is assumed" in said


def test_a_wrong_checksum_keeps_devices_from_being_mapped(folder: Path, capsys: Capture) -> None:
    file = folder / "state" / DEVICE_FILE
    data = json.loads(file.read_text())
    file.write_text(json.dumps(data | {"Checksum": data["Checksum"] ^ 1}))
    ran = numawise(capsys, "simulate", *NODE, *CONFIG, "--match-devices", "pod.yaml")
    said = f"--match-devices: nothing is mapped, because the checksum of {DEVICE_FILE} is wrong"
    assert (ran.status, said in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(("machine", "why"), [
    ("2s 2n 64c 2t 4gpu",  "the checkpoint has 8 nvidia.com/gpu devices, the machine 4"),
    ("2s 2n 64c 2t 16gpu", "the checkpoint has 8 nvidia.com/gpu devices, the machine 16"),
    ("4s 4n 64c 2t 8gpu",  "the checkpoint has more nvidia.com/gpu devices on NUMA 0 than the machine"),
])  # fmt: skip
def test_another_machine_is_not_mapped(machine: str, why: str, folder: Path, capsys: Capture) -> None:
    assert folder
    ran = numawise(
        capsys, "simulate", "--machine", machine, *NODE[2:], *CONFIG, "--match-devices", "pod.yaml"
    )
    assert ran.status == 2
    assert f"--match-devices: {why}: they cannot be mapped by number" in ran.err


def test_a_list_of_gpus_beside_a_name_is_recognised(folder: Path, capsys: Capture) -> None:
    assert folder
    words = ("check", "--machine", "dgx-h100", "state/kubelet_internal_checkpoint")
    assert numawise(capsys, *words).status == 1
    ran = numawise(capsys, *words, "list.txt")
    assert (ran.status, ran.err) == (0, "")


def test_a_list_of_other_gpus_is_refused(folder: Path, capsys: Capture) -> None:
    (folder / "list.txt").write_text("".join(LIST.splitlines(keepends=True)[:4]))
    ran = numawise(capsys, "simulate", *NODE, "--machine", "list.txt", *CONFIG, "pod.yaml")
    assert ran.status == 2
    assert "list.txt: lists other GPUs than the 8 of dgx-h100: GPU4 is in one alone" in ran.err


def test_one_that_is_gone_is_named_and_the_kubelet_goes_on(folder: Path, capsys: Capture) -> None:
    """A card was replaced: the machine calls the others as the checkpoint does."""
    (folder / "list.txt").write_text(LIST.replace("GPU-00000007-aaaa", "GPU-00000009-aaaa"))
    ran = numawise(capsys, "simulate", *NODE, "--machine", "list.txt", *CONFIG, "-o", "json", "pod.yaml")
    assert ran.status == 0
    assert ran.err.splitlines()[0] == (
        f"numawise: 1 nvidia.com/gpu device of the checkpoint is not on this machine ({UUIDS[7]}); "
        "the kubelet goes on without it"
    )
    (entry,) = json.loads(ran.out)["unmatched"]
    assert entry["names"] == [UUIDS[7]]


def test_files_are_not_changed_by_a_mapping(folder: Path, capsys: Capture) -> None:
    ran = numawise(capsys, "state", "repair", "state", "--machine", "dgx-h100", "--match-devices", "--write")
    assert ran.status == 2
    assert (folder / "state" / DEVICE_FILE).read_text() == checkpoint()


# --- source document 002 ----------------------------------------------------------------------


@pytest.fixture
def node2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its print and its checkpoint, with one pod on each NUMA node."""
    (tmp_path / "state").mkdir()
    text = (SEED / "kubelet_internal_checkpoint--seed002-08.state").read_text()
    (tmp_path / "state" / DEVICE_FILE).write_text(text)
    kubelet = KUBELET.replace("single-numa-node", "best-effort").replace("0-1", "0")
    for name, body in (("topo.txt", TOPO), ("cpus.txt", CPUS), ("list.txt", OWN_LIST), ("pod.yaml", POD)):
        (tmp_path / name).write_text(body)
    (tmp_path / "kubelet.yaml").write_text(kubelet)
    monkeypatch.chdir(tmp_path)
    return tmp_path


PRINTS = ("--machine", "topo.txt", "--machine", "cpus.txt", "--state", "state", *CONFIG)


@pytest.mark.parametrize("command", ["why", "simulate"])
def test_a_document_with_its_own_print(command: str, node2: Path, capsys: Capture) -> None:
    assert node2
    ran = numawise(capsys, command, *PRINTS, "pod.yaml")
    assert (ran.status, ran.out) == (2, "")
    assert "3 nvidia.com/gpu devices of the checkpoint are not on this machine (GPU-77a702db-" in ran.err
    listed = numawise(capsys, command, *PRINTS, "--machine", "list.txt", "-o", "json", "pod.yaml")
    mapped = numawise(capsys, command, *PRINTS, "--match-devices", "-o", "json", "pod.yaml")
    verdicts = [json.loads(one.out)["pods"][0]["verdict"] for one in (listed, mapped)]
    assert verdicts == ["rejected", "rejected"]  # all three are held


# --- what else is recorded --------------------------------------------------------------------


def test_pods_and_claims_that_are_not_matched_are_named(folder: Path, capsys: Capture) -> None:
    data = json.dumps({"entries": {"uid-0": {"ContainerResources": {"app": {}}}}})
    (folder / "state" / "allocated_pods_state").write_text(json.dumps({"data": data, "checksum": 1}))
    claims = json.dumps({"ClaimInfoStateList": [{"ClaimName": "gpus", "Namespace": "team"}]})
    (folder / "state" / "dra_manager_state").write_text(json.dumps({"Data": claims, "Checksum": 1}))
    ran = numawise(capsys, "simulate", *NODE, "--machine", "list.txt", *CONFIG, "pod.yaml")
    claim, pods = ran.err.splitlines()[:2]
    assert claim.startswith("numawise: 1 claim of dra_manager_state is not matched (team/gpus); ")
    assert pods.startswith("numawise: 7 recorded pods no longer run (uid-1, uid-2 and 5 more); ")
    assert pods.endswith("what they hold counts as free")


def test_zones_of_another_machine_are_named(folder: Path, capsys: Capture) -> None:
    zones = "".join(
        f"- {{name: node-{numa}, type: Node, resources: "
        "[{name: cpu, capacity: 8, allocatable: 8, available: 2}]}\n"
        for numa in range(4)
    )
    (folder / "nrt.yaml").write_text(
        "apiVersion: topology.node.k8s.io/v1alpha2\nkind: NodeResourceTopology\nmetadata: {name: n}\n"
        f"topologyPolicies: [SingleNUMANodeContainerLevel]\nzones:\n{zones}"
    )
    ran = numawise(capsys, "simulate", "--machine", "dgx-h100", "--state", "nrt.yaml", *CONFIG, "pod.yaml")
    assert ran.status == 2
    assert "nrt.yaml: NUMA 2, NUMA 3 of the NodeResourceTopology are not on this machine" in ran.err


def test_what_a_socket_lists_counts_by_its_own_names(folder: Path, capsys: Capture) -> None:
    """Answers of the PodResources socket beside a machine with other names: 8 GPUs, not 16."""
    devices = [
        {"resource_name": GPU, "device_ids": [uuid], "topology": {"nodes": [{"ID": at // 4}]}}
        for at, uuid in enumerate(UUIDS)
    ]
    pods = [{"name": "a", "namespace": "x", "containers": [{"name": "app", "devices": devices}]}]
    answers = {"List": {"pod_resources": pods}, "Allocatable": {"devices": devices}}
    (folder / "answers.json").write_text(json.dumps(answers))
    words = ("simulate", "--machine", "dgx-h100", *CONFIG, "--pod-resources", "answers.json", "pod.yaml")
    assert numawise(capsys, *words).status == 1
    del answers["Allocatable"]
    (folder / "answers.json").write_text(json.dumps(answers))
    ran = numawise(capsys, *words)
    assert ran.status == 2
    assert "which PodResources lists, are not on this machine" in ran.err


@pytest.mark.parametrize("lists", [(), ("--machine", "list.txt")])
def test_one_that_a_socket_lists_and_the_machine_lacks_is_named(
    lists: tuple[str, ...], folder: Path, capsys: Capture
) -> None:
    """Beside others that the machine has: what holds it is not dropped."""
    names = (*UUIDS[:7], "GPU-00000009-aaaa-bbbb-cccc-000000000009")
    names = names if lists else ("GPU0", *names[1:])
    devices = [
        {"resource_name": GPU, "device_ids": [name], "topology": {"nodes": [{"ID": at // 4}]}}
        for at, name in enumerate(names)
    ]
    pods = [{"name": "a", "namespace": "x", "containers": [{"name": "app", "devices": devices}]}]
    (folder / "answers.json").write_text(json.dumps({"pod_resources": pods}))
    answers = (*CONFIG, "--pod-resources", "answers.json", "pod.yaml")
    ran = numawise(capsys, "why", "--machine", "dgx-h100", *lists, *answers)
    assert (ran.status, ran.out) == (2, "")
    lost = (
        f"{GPU} {names[7]}, which PodResources lists, is"
        if lists
        else "and 5 more, which PodResources lists, are"
    )
    assert f"{lost} not on this machine; give both answers of the same node" in ran.err


@pytest.mark.parametrize(("resource", "form"), [
    ("nvidia.com/gpu.shared",   "GPU-0000000{0}-aaaa-bbbb-cccc-00000000000{0}::0"),
    ("nvidia.com/mig-1g.10gb",  "MIG-0000000{0}-aaaa-bbbb-cccc-00000000000{0}"),
])  # fmt: skip
def test_parts_of_cards_that_the_machine_has_whole(
    resource: str, form: str, folder: Path, capsys: Capture
) -> None:
    """Slices and shares that are held: which card they are parts of is not known."""
    ids = [form.format(at) for at in range(7)]
    grants = {"uid-0": {"app": {resource: DeviceGrant(((0, tuple(ids[:2])),))}}}
    text = encode_devices(DeviceFile(grants, {resource: frozenset(ids), GPU: frozenset(UUIDS[1:])}))
    (folder / "state" / DEVICE_FILE).write_text(text)
    ran = numawise(capsys, "why", *NODE, *CONFIG, "pod.yaml")
    assert (ran.status, ran.out) == (2, "")
    assert f"7 {resource} devices of the checkpoint are not on this machine" in ran.err
    assert f"this machine has no {resource}, and its {GPU} may be what these are parts of" in ran.err
    devices = [{"resource_name": resource, "device_ids": ids[:2]}]
    pods = [{"name": "a", "namespace": "x", "containers": [{"name": "app", "devices": devices}]}]
    (folder / "answers.json").write_text(json.dumps({"pod_resources": pods}))
    ran = numawise(capsys, "why", *NODE[:2], *CONFIG, "--pod-resources", "answers.json", "pod.yaml")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"numawise: {resource} ")
    assert "which PodResources lists, are not on this machine" in ran.err
    card = "2s 2n 64c 2t 7gpu"  # the list has all whole cards that the checkpoint has
    words = ("--machine", card, "--machine", "list.txt", "--state", "state", *CONFIG, "pod.yaml")
    (folder / "list.txt").write_text(
        "".join(f"GPU {at}: NVIDIA H100 80GB HBM3 (UUID: {uuid})\n" for at, uuid in enumerate(UUIDS[1:]))
    )
    ran = numawise(capsys, "why", *words)
    assert ran.status == 0
    assert ran.err.splitlines()[0].endswith(f"this machine has no {resource}")


def test_others_that_are_registered_and_free_are_no_lost_ones(folder: Path, capsys: Capture) -> None:
    text = encode_devices(DeviceFile({}, {GPU: frozenset(UUIDS[:3])}))
    (folder / "state" / DEVICE_FILE).write_text(text)
    ran = numawise(capsys, "why", *NODE, *CONFIG, "pod.yaml")
    assert ran.status == 0
    assert ran.err.splitlines()[0].endswith("none of them held; the machine has 8 by other names")

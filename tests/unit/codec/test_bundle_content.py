"""What a bundle keeps of names, state files, pods, configurations and hardware."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.bundle.allowed import kubelet_sentence, version_text
from numawise.codec.bundle.config import reduced_config, reduced_flags, without_identity
from numawise.codec.bundle.manifest import ONCE, UUID, Names, key_of
from numawise.codec.bundle.pods import pods_of, reduced
from numawise.codec.bundle.state import renamed_state
from numawise.codec.checkpoint import (
    CPU_FILE,
    DEVICE_FILE,
    MEMORY_FILE,
    encode_cpu,
    encode_devices,
    encode_memory,
)
from numawise.codec.checkpoint.look import look
from numawise.codec.document import Document
from numawise.codec.kubelet.flags import read_flags
from numawise.codec.objects import kubelet_uid
from numawise.engine.state import (
    Block,
    CpuState,
    DeviceFile,
    DeviceGrant,
    MemoryState,
    MemoryTable,
    NumaMemory,
)
from numawise.errors import InputError
from numawise.machine.hardware import Gpu, Hardware, Matrix, PciDevice, Remark

KEY = key_of("0123456789abcdef0123456789abcdef")
NAMES = Names(KEY)
KEPT = Names(None)
FIRST, SECOND = "ffffffff-1111-2222-3333-444444444444", "11111111-1111-2222-3333-444444444444"

# --- names ----------------------------------------------------------------------------------


def test_a_name_is_always_the_same_word() -> None:
    assert NAMES.name("pod", "web-0") == Names(KEY).name("pod", "web-0")
    assert NAMES.name("pod", "web-0") != NAMES.name("container", "web-0").replace("container", "pod")
    assert NAMES.name("pod", "web-0") != Names(key_of("f123456789abcdef0123456789abcdef")).name(
        "pod", "web-0"
    )
    assert NAMES.name("pod", "web-0").startswith("pod-")
    assert NAMES.name("pod", "") == ""


@pytest.mark.parametrize(
    "machine_id", ["0123456789ABCDEF0123456789ABCDEF\n", "01234567-89ab-cdef-0123-456789abcdef"]
)
def test_a_machine_has_one_key_however_it_is_written(machine_id: str) -> None:
    assert key_of(machine_id) == KEY


@pytest.mark.parametrize(
    "machine_id",
    [
        "",
        "uninitialized",
        "0" * 32,
        "f" * 32,
        "00000000-0000-0000-0000-000000000000",
        "not an id",
        "abc123",
        "01" * 16,
    ],
)
def test_a_machine_without_id_has_a_key_for_once(machine_id: str) -> None:
    first, second = Names(key_of(machine_id)), Names(key_of(machine_id))
    assert first.name("pod", "web-0") != second.name("pod", "web-0")
    assert first.fingerprint.startswith(ONCE)
    assert not NAMES.fingerprint.startswith(ONCE)


@pytest.mark.parametrize(("uid", "form"), [
    pytest.param("d8cef786-c3e6-4ab9-8c6e-83f71a6881b7",     "8-4-4-4-12", id="a UUID"),
    pytest.param("d8cef786c3e6fab90c6e83f71a6881b7",         "32",         id="a static pod's hash"),
    pytest.param("0" * 64,                                   "64",         id="a container's id"),
    pytest.param("ns/pod",                                   "3-10",       id="anything"),
])  # fmt: skip
def test_uids_keep_their_form(uid: str, form: str) -> None:
    found = NAMES.uid(uid)
    assert found != uid
    assert "-".join(str(len(part)) for part in found.split("-")) == form


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_namespaces_that_everybody_has_stay(namespace: str) -> None:
    assert NAMES.name("namespace", namespace) == namespace


def test_devices_keep_their_order() -> None:
    names = NAMES.with_devices([[f"GPU-{FIRST}"], [f"MIG-{SECOND}"]])
    told = [names.device(f"GPU-{uuid}::1") for uuid in (SECOND, FIRST)]
    assert told == sorted(told)
    assert all(one.startswith("GPU-0000000") and one.endswith("::1") for one in told)
    assert FIRST not in names.device(f"GPU-{FIRST.upper()}").lower()
    assert names.device("gpu0") == "gpu0"
    assert UUID.fullmatch(names.device("99999999-1111-2222-3333-444444444444"))


def test_devices_of_no_usual_form_keep_their_order_too() -> None:
    ids = ["host7-fpga-b", "host7-fpga-a", "gpu0", "00:11:22:33:44:55"]
    names = NAMES.with_devices([ids, ["gpu1"]])
    stand_ins = [names.device(one) for one in sorted(ids)]
    assert stand_ins == sorted(stand_ins)
    assert all(one.startswith("device-0000000") for one in stand_ins)
    assert names.device("gpu1") == "gpu1"
    assert names.device("never seen") == Names(KEY).device("never seen") != "never seen"


@pytest.mark.parametrize(("path", "stays"), [
    ("/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/cpu_manager_state"),
    ("/etc/kubernetes/kubelet.yaml:12",    "/etc/kubernetes/kubelet.yaml:12"),
    ("unix:///run/containerd/containerd.sock", "unix:///run/containerd/containerd.sock"),
    ("/sys/devices/system/cpu/cpu12",      "/sys/devices/system/cpu/cpu12"),
    ("/opt/acme/kubelet.yaml",             "/opt/{acme}/kubelet.yaml"),
    ("/etc/acme secret.yaml",              "/etc/{acme secret}.yaml"),
    ("acme.slice",                         "{acme}.slice"),
    ("tcp://10.1.2.3:80",                  "{tcp:}//{10.1.2.3}:80"),
])  # fmt: skip
def test_paths(path: str, stays: str) -> None:
    expected = re.sub(r"\{(.*?)\}", lambda found: NAMES.name("path", found[1]), stays)
    assert NAMES.path(path) == expected
    assert KEPT.path(path) == path


def test_without_a_key_nothing_changes() -> None:
    assert KEPT.name("pod", "web-0") == "web-0"
    assert KEPT.uid("x") == "x"
    assert KEPT.with_devices([[FIRST]]).device(FIRST) == FIRST
    assert KEPT.fingerprint == ""


# --- state files ----------------------------------------------------------------------------

CPUS = CpuState(0b1111, {"uid-b": {"app": 0b110000}, "uid-a": {"app": 0b11000000}}, {"uid-a": 0b11000000})
MEMORY = MemoryState(
    {0: NumaMemory(1, {"memory": MemoryTable(10, 1, 9, 4, 5)}, 1)},
    {"uid-a": {"app": (Block(1, "memory", 4),)}},
    {"uid-a": (Block(1, "memory", 4),)},
)
DEVICES = DeviceFile(
    {"uid-a": {"app": {"nvidia.com/gpu": DeviceGrant(((0, (f"GPU-{FIRST}",)),), b"\x0a\x04/etc")}}},
    {"nvidia.com/gpu": frozenset({f"GPU-{FIRST}", f"GPU-{SECOND}"})},
)
FILES = {
    "cpu":                (CPU_FILE, encode_cpu("static", CPUS)),
    "cpu with pods":      (CPU_FILE, encode_cpu("static", CPUS, pods=True)),
    "cpu with data":      (CPU_FILE, encode_cpu("static", CPUS, data=True)),
    "memory":             (MEMORY_FILE, encode_memory("Static", MEMORY)),
    "memory with pods":   (MEMORY_FILE, encode_memory("Static", MEMORY, pods=True)),
    "memory with data":   (MEMORY_FILE, encode_memory("Static", MEMORY, data=True)),
    "devices":            (DEVICE_FILE, encode_devices(DEVICES)),
    "empty cpu":          (CPU_FILE, encode_cpu("none", CpuState())),
    "empty devices":      (DEVICE_FILE, encode_devices(DeviceFile())),
}  # fmt: skip


@pytest.mark.parametrize("which", FILES)
def test_checksums_stay_right(which: str) -> None:
    file, text = FILES[which]
    before, after = look(file, text), look(file, renamed_state(file, text, NAMES))
    assert before.fits
    assert after.fits, after
    assert (after.format, after.policy) == (before.format, before.policy)
    told = renamed_state(file, text, NAMES)
    assert not any(secret in told for secret in ("uid-a", "app", FIRST, "L2V0Yw"))


@pytest.mark.parametrize("which", FILES)
def test_without_names_to_replace_the_file_is_the_same(which: str) -> None:
    file, text = FILES[which]
    if file != DEVICE_FILE:  # whose answers of plugins are replaced in any case
        assert renamed_state(file, text, KEPT) == text


def test_what_is_held_stays() -> None:
    found = look(CPU_FILE, renamed_state(CPU_FILE, FILES["cpu with pods"][1], NAMES)).cpu
    assert found is not None
    assert found.shared == CPUS.shared
    assert found.assignments == {
        NAMES.uid(uid): {NAMES.name("container", "app"): cpus for cpus in own.values()}
        for uid, own in CPUS.assignments.items()
    }
    memory = look(MEMORY_FILE, renamed_state(MEMORY_FILE, FILES["memory"][1], NAMES)).memory
    assert memory is not None
    assert memory.numa == MEMORY.numa


@pytest.mark.parametrize("which", FILES)
def test_checksums_that_were_wrong_stay_wrong(which: str) -> None:
    file, text = FILES[which]
    for member in ("checksum", "Checksum", "dataChecksum"):
        start = text.rfind(f'"{member}":')
        if start < 0:
            continue
        end = min(i for i in (text.find(",", start), text.find("}", start)) if i > 0)
        broken = text[:start] + f'"{member}":12345' + text[end:]
        before, after = look(file, broken), look(file, renamed_state(file, broken, NAMES))
        assert [one.fits for one in after.sums] == [one.fits for one in before.sums]
        assert not after.fits


@pytest.mark.parametrize("text", [
    pytest.param("",                                                                         id="empty"),
    pytest.param("\0" * 512,                                                                 id="lost in a crash"),
    pytest.param('{"policyName":"static","defaultCpuSet":"0-3","entries":{"uid-a":{"app":"4', id="cut off"),
    pytest.param('{"policyName":"static","entries":["uid-a"],"checksum":1}',                 id="a list"),
    pytest.param('{"policyName":"static","entries":{"uid-a":{"app":7}},"checksum":1}',       id="a number"),
    pytest.param('{"policyName":"acme secret","defaultCpuSet":"0-3","checksum":1}',          id="no policy"),
    pytest.param("acme secret",                                                              id="no JSON"),
    pytest.param('{"entries":' + '{"uid-a":' * 960 + "1" + "}" * 961,                        id="deep"),
    pytest.param('{"data":"{\\"entries\\":{\\"uid-a\\"","policyName":"none","checksum":1}',  id="broken data"),
])  # fmt: skip
def test_damaged_files_keep_their_shape_and_no_names(text: str) -> None:
    found = renamed_state(CPU_FILE, text, NAMES)
    assert not any(word in found for word in ("uid-a", "app", "acme", "secret"))
    before, after = look(CPU_FILE, text), look(CPU_FILE, found)
    assert bool(before.problem) == bool(after.problem)
    assert before.fits == after.fits
    if text.startswith("{") or not text.strip("\0"):
        assert after.problem == before.problem or "uid-a" in before.problem


RECORDED = Path(__file__).parents[4] / "shared/data/kubelet-state"


@pytest.mark.skipif(not RECORDED.is_dir(), reason="recorded state files are not here")
def test_recorded_files() -> None:
    count = 0
    for path in sorted(RECORDED.glob("*.state")):
        file, text = path.name.partition("--")[0], path.read_text()
        found = renamed_state(file, text, NAMES)
        before, after = look(file, text), look(file, found)
        assert (before.fits, before.format, before.policy) == (after.fits, after.format, after.policy), (
            path.name
        )
        count += 1
        uids = set(json.loads(text).get("entries") or {}) if not before.problem else set()
        assert not any(f'"{uid}"' in found for uid in uids), path.name
    assert count


# --- pods -----------------------------------------------------------------------------------


def pod(**changes: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "app", "image": "acme.io/app:1", "resources": {"limits": {"cpu": 2}}}]}
    return {
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "acme", "uid": "u"},
        "spec": spec,
        **changes,
    }


def kept(value: dict[str, Any], names: Names = NAMES) -> dict[str, Any]:
    (part,) = pods_of([Document(value, "pods.json")])
    return reduced(part, names)


def test_names_of_a_pod() -> None:
    found = kept(pod())
    assert found["metadata"] == {
        "name": NAMES.name("pod", "web-0"),
        "namespace": NAMES.name("namespace", "acme"),
        "uid": NAMES.uid("u"),
    }
    (container,) = found["spec"]["containers"]
    assert container == {
        "name": NAMES.name("container", "app"),
        "image": NAMES.name("image", "acme.io/app:1"),
        "resources": {"limits": {"cpu": 2}},
    }
    assert kept(pod(), KEPT)["metadata"] == pod()["metadata"]


@pytest.mark.parametrize(("name", "value", "stays"), [
    pytest.param("CUDA_VISIBLE_DEVICES",   "0,1",                         True,  id="numbers"),
    pytest.param("CUDA_VISIBLE_DEVICES",   f"GPU-{FIRST}",                True,  id="UUID"),
    pytest.param("NVIDIA_VISIBLE_DEVICES", "all",                         True,  id="all"),
    pytest.param("GOMP_CPU_AFFINITY",      "0-15:2",                      True,  id="CPUs"),
    pytest.param("OMP_PLACES",             "{0:4}:4:4",                   True,  id="places"),
    pytest.param("KMP_AFFINITY",           "granularity=fine,compact,1,0", True, id="words"),
    pytest.param("OMP_NUM_THREADS",        "8",                           True,  id="threads"),
    pytest.param("OMP_NUM_THREADS",        "hunter2",                     False, id="a secret under a good name"),
    pytest.param("CUDA_VISIBLE_DEVICES",   "GPU-hunter2",                 False, id="a secret after a good word"),
    pytest.param("PASSWORD",               "8",                           False, id="another variable"),
    pytest.param("HUNTER_VISIBLE_DEVICES", "0",                           False, id="a name like a good one"),
    pytest.param("OMP_HUNTER",             "0",                           False, id="a name that begins well"),
    pytest.param("OMP_NUM_THREADS",        "10.1.2.3",                    False, id="an address"),
    pytest.param("OMP_PLACES",             "00:11:22:33:44:55",           False, id="a hardware address"),
    pytest.param("OMP_NUM_THREADS",        "5551234567",                  False, id="a long number"),
    pytest.param("OMP_NUM_THREADS",        "1-" * 300,                    False, id="too long"),
])  # fmt: skip
def test_variables(name: str, value: str, *, stays: bool) -> None:
    value_ = pod()
    value_["spec"]["containers"][0]["env"] = [{"name": name, "value": value}]
    (container,) = kept(value_)["spec"]["containers"]
    assert container.get("env") == ([{"name": name, "value": NAMES.uuids(value)}] if stays else None)


def test_what_bears_on_placement_stays() -> None:
    value = pod(
        status={
            "phase": "Failed",
            "reason": "TopologyAffinityError",
            "message": "Pod was rejected: Resources cannot be allocated with Topology locality",
            "qosClass": "Guaranteed",
            "extendedResourceClaimStatus": {
                "resourceClaimName": "acme-extended-resources-x",
                "requestMappings": [
                    {
                        "containerName": "main",
                        "resourceName": "nvidia.com/gpu",
                        "requestName": "container-0-request-0",
                    },
                    {"containerName": "main", "resourceName": "acme.com/hunter2", "requestName": "x"},
                ],
            },
        },
    )
    value["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    value["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "web", "controller": True}]
    value["spec"] |= {
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        "resources": {"limits": {"cpu": "4"}},
        "overhead": {"cpu": "250m"},
        "hostPID": True,
        "runtimeClassName": "nvidia",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "acme-gpu"}],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            {"name": "dev", "hostPath": {"path": "/dev/nvidia0"}},
            {"name": "data", "hostPath": {"path": "/home/acme"}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "acme"}},
            {"name": "raw", "hostPath": {"path": "/dev/acme/disk"}},
        ],
    }
    found = kept(value)
    backed = found["status"].pop("extendedResourceClaimStatus")
    assert backed["requestMappings"] == [
        {
            "containerName": NAMES.name("container", "main"),
            "resourceName": "nvidia.com/gpu",
            "requestName": NAMES.name("claim", "container-0-request-0"),
        }
    ]
    assert backed["resourceClaimName"] == NAMES.name("claim", "acme-extended-resources-x")
    del value["status"]["extendedResourceClaimStatus"]
    assert found["status"] == value["status"]
    assert found["metadata"]["ownerReferences"] == [
        {"kind": "StatefulSet", "name": NAMES.name("owner", "web")}
    ]
    spec = found["spec"]
    assert spec["initContainers"][0]["restartPolicy"] == "Always"
    assert spec["resources"] == {"limits": {"cpu": "4"}}
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["hostPID"] is True
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["resourceClaims"] == [
        {"name": NAMES.name("claim", "gpu"), "resourceClaimName": NAMES.name("claim", "acme-gpu")}
    ]
    assert [one.get("emptyDir") or one["hostPath"] for one in spec["volumes"]] == [
        {"medium": "Memory", "sizeLimit": "8Gi"},
        {"path": "/dev/nvidia0"},
        {"medium": "Memory"},
        {"path": f"/dev/{NAMES.name('device', 'acme/disk')}"},
    ]
    assert "acme" not in json.dumps(found)


def test_a_message_that_is_no_refusal_goes() -> None:
    status = {"phase": "Failed", "reason": "Error", "message": "could not mount acme-secret"}
    assert kept(pod(status=status))["status"] == {"phase": "Failed", "reason": "Error"}


def test_the_uid_that_a_kubelet_knows() -> None:
    annotations = {"kubernetes.io/config.mirror": "hash"}
    assert kubelet_uid({"metadata": {"uid": "api", "annotations": annotations}}) == "hash"
    assert kubelet_uid({"metadata": {"uid": "api"}}) == "api"
    assert kubelet_uid({}) == ""


def test_workloads_and_lists() -> None:
    template = {"metadata": {"labels": {"a": "acme"}}, "spec": pod()["spec"]}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "serviceName": "acme", "ordinals": {"start": 2}, "template": template},
    }
    items = [pod(), workload, {"kind": "Service", "metadata": {"name": "acme"}}]
    del items[0]["kind"]
    found = [
        reduced(part, NAMES)
        for part in pods_of(
            [
                Document({"kind": "PodList", "items": items[:1]}, "x"),
                Document({"kind": "List", "items": items[1:]}, "x"),
            ]
        )
    ]
    assert [one["kind"] for one in found] == ["Pod", "StatefulSet"]
    assert found[1]["spec"]["replicas"] == 3
    assert found[1]["spec"]["ordinals"] == {"start": 2}
    assert "acme" not in json.dumps(found)


LIMITS = {"containers": [{"name": "app", "resources": {"limits": {"cpu": "hunter2"}}}]}


@pytest.mark.parametrize("changes", [
    {"spec": {"containers": [7]}},
    {"spec": {"containers": 7}},
    {"spec": "hunter2"},
    {"spec": LIMITS},
    {"spec": {"containers": [{"name": "app", "resources": {"limits": {"hunter2 x": "1"}}}]}},
    {"spec": {"containers": [{"name": "app", "resources": {"limits": {"cpu": {"hunter2": 1}}}}]}},
    {"spec": {"containers": [{"name": "app", "env": {"hunter2": 1}}]}},
    {"spec": {"containers": [], "overhead": {"cpu": "hunter2"}}},
    {"spec": {"containers": [], "overhead": {"cpu": float("nan")}}},
    {"spec": {"containers": [], "volumes": ["hunter2"]}},
    {"metadata": ["hunter2"]},
    {"metadata": "hunter2"},
    {"metadata": {"annotations": ["hunter2"]}},
    {"metadata": {"annotations": "hunter2"}},
    {"metadata": {"ownerReferences": ["hunter2"]}},
    {"status": ["hunter2"]},
])  # fmt: skip
def test_no_pods(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"pods.json.*is not a Pod: [a-zA-Z. ]+$") as raised:
        kept(pod(**changes))
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(("message", "stays"), [
    ("Pod was rejected: Resources cannot be allocated with Topology locality", None),
    ("Pod Resources cannot be allocated with Topology locality", None),
    ("SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2", None),
    ("Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 7700, capacity: 7910", None),
    ("Allocate failed due to requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 0, which is unexpected", None),
    ("Allocate failed due to requested number of devices unavailable for acme.io/secret. Requested: 2, Available: 0, which is unexpected",
     "Allocate failed, which is unexpected"),
    ("Pod was rejected: Allocate failed due to rpc error: code = Unavailable desc = dial acme:80, which is unexpected",
     "Pod was rejected: Allocate failed due to rpc error: code = Unavailable, which is unexpected"),
    ("Allocate failed due to Resources cannot be found at http://10.0.0.1/?token=hunter2, which is unexpected",
     "Allocate failed, which is unexpected"),
    ("Pod was rejected: hunter2", ""),
    ("Node didn't have enough resource: hunter2, requested: 1, used: 1, capacity: 1", ""),
    ("Resources cannot be allocated with Topology locality\nhunter2", ""),
    ("Predicate TaintToleration failed: node(s) had taint {acme: secret}", ""),
])  # fmt: skip
def test_only_the_kubelets_own_sentences_stay(message: str, stays: str | None) -> None:
    spec = {"containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": "1"}}}]}
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
    expected = message if stays is None else stays
    assert kept(pod(spec=spec, status=status))["status"].get("message", "") == expected


RECORDED_MESSAGES = re.compile(
    rb'"message":"((?:[^"\\]|\\.)*)","reason":"(\w+)"|"reason":"(\w+)","message":"((?:[^"\\]|\\.)*)"'
)


def test_sentences_of_real_kubelets_stay() -> None:
    resources = {"nvidia.com/gpu", "example.com/fpga", "example.com/nic", "intel.com/qat", "amd.com/gpu"}
    messages = set()
    for path in (Path(__file__).parents[2] / "recorded").rglob("*.jsonl.gz"):
        with gzip.open(path) as lines:
            for line in lines:
                for first, _, _, second in RECORDED_MESSAGES.findall(line):
                    messages.add(json.loads(b'"' + (first or second) + b'"'))
    assert len(messages) > 10
    assert [one for one in messages if kubelet_sentence(one, resources) != one] == []


@pytest.mark.parametrize(("text", "stays"), [
    ("v1.36.4",                              None),
    ("v1.30.4-eks-a737599",                  None),
    ("v1.30.4-gke.1348000",                  None),
    ("v1.30.4+k3s1",                         None),
    ("v1.30.4-acme.7",                       "v1.30.4"),
    ("6.1.0-30-amd64",                       None),
    ("5.14.0-427.13.1.el9_4.x86_64",         None),
    ("6.8.0-acme-secret",                    "6.8.0"),
    ("Debian GNU/Linux 12 (bookworm)",       None),
    ("Ubuntu 22.04.4 LTS",                   None),
    ("Acme Secret Linux 7 (hunter2)",        "Linux 7"),
    ("containerd://1.7.20-k3s1",             None),
    ("cri-o://1.30.2",                       None),
    ("hunter2",                              ""),
])  # fmt: skip
def test_versions_without_names(text: str, stays: str | None) -> None:
    assert version_text(text) == (text if stays is None else stays)


# --- configuration --------------------------------------------------------------------------


def test_a_configuration_keeps_what_decides() -> None:
    value = {
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "featureGates": {"TopologyManagerPolicyOption": True, "Hunter2": True},
        "kubeReserved": {"memory": "1Gi", "cpu": "hunter2"},
        "kubeReservedCgroup": "/acme.slice/kube",
        "clusterDNS": ["10.0.0.1"],
        "authentication": {"x509": {"clientCAFile": "/home/acme/ca"}, "anonymous": {"enabled": False}},
        "staticPodURLHeader": {"Authorization": ["hunter2"]},
        "cpuMangerPolicy": "hunter2",
        "mySecrets": {"a": "hunter2"},
        "maxPods": 10,
    }
    found, gone = reduced_config(value, NAMES)
    assert found == {
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "featureGates": {"TopologyManagerPolicyOption": True, NAMES.name("key", "Hunter2"): True},
        "kubeReserved": {"memory": "1Gi", "cpu": "x"},
        "kubeReservedCgroup": NAMES.path("/acme.slice/kube"),
        "authentication": {"x509": {}, "anonymous": {"enabled": False}},
        "cpuMangerPolicy": "x",
        NAMES.name("field", "mySecrets"): {},
        "maxPods": 10,
    }
    assert gone == ("clusterDNS", "authentication.x509.clientCAFile", "staticPodURLHeader")
    found, gone = reduced_config(value, KEPT)
    assert found["clusterDNS"] == ["10.0.0.1"]
    assert gone == ("staticPodURLHeader",)


def test_flags_keep_what_decides() -> None:
    line = "--cpu-manager-policy=static --reserved-cpus 0-1 --node-ip=10.0.0.7 --hostname-override=acme --v=4"
    line += (
        " --config=/home/acme/k.yaml --node-labels=team=acme --kubelet-made-up=hunter2 --cluster-dns=10.0.0.1"
    )
    line += " --kubeconfig=/home/acme/kc --fail-swap-on"
    text, gone = reduced_flags(read_flags(line), NAMES)
    assert text.splitlines() == [
        "--cpu-manager-policy=static",
        "--reserved-cpus=0-1",
        "--v=4",
        f"--{NAMES.name('flag', 'kubelet-made-up')}=x",
        "--fail-swap-on",
    ]
    assert set(gone) >= {
        "--node-ip",
        "--hostname-override",
        "--config",
        "--node-labels",
        "--cluster-dns",
        "--kubeconfig",
    }
    assert read_flags(text)[1].value == "0-1"
    kept_text, _ = reduced_flags(read_flags(line), KEPT)
    assert "--config=/home/acme/k.yaml" in kept_text


# --- hardware -------------------------------------------------------------------------------


def test_hardware_without_identity() -> None:
    hardware = Hardware(
        name="acme7",
        pci=(
            PciDevice(
                "0000:17:00.0", names=("mlx5_0", "ens1f0np0", "enx001122334455", "acme-storage", "ethacme")
            ),
        ),
        gpus=(Gpu("GPU0", uuid=f"GPU-{FIRST}", address="0000:18:00.0"),),
        matrix=Matrix(("GPU0",), ("NIC0",), nic_names={"NIC0": "mlx5_bond_acme"}),
        remarks=(Remark("odd", "gpus", f"GPU-{FIRST} is odd"),),
    )
    names = NAMES.with_devices([[f"GPU-{FIRST}"]])
    found = without_identity(hardware, names)
    assert found.name == ""
    assert found.pci[0].names[:2] == ("mlx5_0", "ens1f0np0")
    assert not any(word in str(found) for word in ("acme", FIRST, "001122334455"))
    assert found.gpus[0].uuid == names.device(f"GPU-{FIRST}")
    assert found.gpus[0].uuid in found.remarks[0].text
    assert without_identity(hardware, KEPT) == hardware

"""A node full of marked words, wherever people or programs can write text: none of them is in its bundle.

A mark is ``zqmark`` with letters that tell the place; addresses, tokens and the like are listed in ``SECRETS``.
"""

import base64
import gzip
import io
import itertools
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from numawise.codec.kubelet.fields import ByName, Many, Shape, Struct, TextType, Truth, configuration_of
from numawise.rules.versions import NEWEST
from tests.cli.run import numawise
from tests.kube.server import State, kubeconfig, serving
from tests.nodetree import CONFIG, CPU_STATE, DEVICE_STATE, MACHINE_ID, MEMORY_STATE, UIDS, grow_node, pod
from tests.unit.host.trees import NODE, PCI

MARK = re.compile(rb"zq-?mark\w*", re.IGNORECASE)
SECRETS = (
    "10.23.45.67", "fd00:aa:bb::7", "52:54:00:12:34:56", "525400123456", "https://vault", "eyJhbGciOi", "hunter2",
    "s3cr3t", "3735928559", MACHINE_ID,
)  # fmt: skip
HELD = {letter: f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}" for letter, uid in UIDS.items()}

Capture = pytest.CaptureFixture[str]


def marks() -> Iterator[str]:
    """``zqmarkaa``, ``zqmarkab``, …: which place a word comes from is seen when it leaks."""
    for letters in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=3):
        yield "zqmark" + "".join(letters)


NEXT = marks()


def mark(form: str = "{}") -> str:
    return form.format(next(NEXT))


# --- the parts of the node ------------------------------------------------------------------------


def marked_config(shape: Shape) -> Any:
    """A value of a shape with a mark wherever text may stand."""
    if isinstance(shape, Struct):
        return {name: marked_config(field.shape) for name, field in shape.fields.items()} | {mark(): mark()}
    if isinstance(shape, Many):
        return [marked_config(shape.item), mark("/etc/{}"), mark("{}.slice")]
    if isinstance(shape, ByName):
        return {mark(): marked_config(shape.item), mark("acme.io/{}"): mark(), "cpu": mark()}
    return True if isinstance(shape, Truth) else mark() if isinstance(shape, TextType) else mark("1{}")


def config(**changes: Any) -> str:
    marked = marked_config(configuration_of(NEWEST)) | {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "staticPodPath": "/run/zqmark-manifests",
        "podLogsDir": "/var/log/zqmark",
        "readOnlyPort": 0,
        "providerID": "https://vault/s3cr3t",
        "clusterDNS": ["10.23.45.67"],
        "address": "fd00:aa:bb::7",
        mark("zqField{}"): {mark(): [mark()]},
    }
    return yaml.safe_dump(marked | changes)


def flags() -> list[str]:
    return [
        "/usr/bin/kubelet",
        mark("--config=/etc/zqmark-config/kubelet.yaml"),
        "--config-dir=/etc/zqmark drop ins",
        "--root-dir=/data/zqmark/kubelet",
        "--hostname-override=zqmark-node.example",
        mark("--node-labels=team={},zqmark.io/x=y"),
        "--node-ip=10.23.45.67",
        mark("--register-with-taints={}=s3cr3t:NoSchedule"),
        mark("--{}={}".replace("{}", "{0}")),
        mark("--{}"),
        mark("--feature-gates={}=true,CPUManager=true"),
        mark("--container-runtime-endpoint=unix:///run/{}.sock"),
        mark("--cgroup-root=/{}"),
        mark("--cloud-provider={}"),
        mark("--system-reserved={}=1,cpu=s3cr3t"),
        mark("--eviction-hard={}<1,memory.available<hunter2"),
        mark("--reserved-memory=0:{}=1Gi"),
        mark("--v={}"),
        mark("--runtime-cgroups=/{}/x"),
        mark("--kubeconfig=/root/{}"),
        mark("--cpu-manager-policy={}"),
        mark(),
    ]


def noisy_pod(letter: str, **status: Any) -> dict[str, Any]:
    """One of the node's pods with a mark in every place that is not decisive."""
    noisy = pod(letter)
    noisy["metadata"] |= {
        "name": mark("{}-0"),
        "namespace": mark(),
        "uid": HELD[letter],
        "generateName": mark(),
        "labels": {mark(): mark()},
        "annotations": {mark(): mark(), "k8s.v1.cni.cncf.io/networks": '[{"mac": "52:54:00:12:34:56"}]'},
        "ownerReferences": [{"kind": mark("{}Job"), "name": mark(), "uid": mark(), "apiVersion": mark()}],
        "creationTimestamp": mark(),
        "deletionTimestamp": "10.23.45.67",
        "managedFields": [{"manager": mark()}],
        "finalizers": [mark()],
        "selfLink": mark("/api/{}"),
    }
    container, claim = noisy["spec"]["containers"][0], mark()
    container |= {
        "name": "c",
        "image": mark("registry.{}.io/x:s3cr3t"),
        "command": [mark()],
        "args": [mark("--token={}"), "eyJhbGciOi"],
        "workingDir": mark("/{}"),
        "ports": [{"name": mark(), "containerPort": 80}],
        "env": [
            {"name": mark("{}_VISIBLE_DEVICES").upper(), "value": "0"},
            {"name": mark("OMP_{}").upper(), "value": "1"},
            {"name": "OMP_NUM_THREADS", "value": "3735928559"},
            {"name": "CUDA_VISIBLE_DEVICES", "value": mark("GPU-{}")},
            {"name": "OMP_PLACES", "value": "52:54:00:12:34:56"},
            {"name": "KMP_AFFINITY", "value": "10.23.45.67"},
            {"name": [mark()], "value": {mark(): 1}},
        ],
        "envFrom": [{"secretRef": {"name": mark()}}],
        "livenessProbe": {"httpGet": {"path": mark("/{}"), "host": "10.23.45.67"}},
        "lifecycle": {"preStop": {"exec": {"command": [mark()]}}},
        "securityContext": {"privileged": True, "seLinuxOptions": {"user": mark()}, "procMount": mark()},
        "volumeMounts": [
            {"name": mark(), "mountPath": "/dev/shm"},
            {"name": mark(), "mountPath": mark("/{}"), "subPath": mark()},
        ],
        "volumeDevices": [{"name": mark(), "devicePath": mark("/dev/{}")}],
        "restartPolicy": mark(),
        "resources": container["resources"] | {"claims": [{"name": claim, "request": mark()}]},
    }
    noisy["spec"] |= {
        "nodeName": mark(),
        "hostname": mark(),
        "subdomain": mark(),
        "hostAliases": [{"ip": "10.23.45.67", "hostnames": [mark()]}],
        "dnsConfig": {"nameservers": ["10.23.45.67"], "searches": [mark()]},
        "nodeSelector": {mark(): mark()},
        "tolerations": [{"key": mark(), "value": mark()}],
        "affinity": {"nodeAffinity": {mark(): mark()}},
        "topologySpreadConstraints": [{"topologyKey": mark()}],
        "schedulerName": mark(),
        "serviceAccountName": mark(),
        "imagePullSecrets": [{"name": mark()}],
        "priorityClassName": mark(),
        "runtimeClassName": mark("nvidia-{}"),
        "restartPolicy": mark(),
        "resourceClaims": [{"name": claim, "resourceClaimName": mark()}],
        "overhead": {"cpu": "250m"},
        "securityContext": {"sysctls": [{"name": mark(), "value": mark()}]},
        "ephemeralContainers": [{"name": mark(), "image": mark()}],
        "volumes": [
            {"name": mark(), "emptyDir": {"medium": "Memory", "sizeLimit": mark()}},
            {"name": mark(), "emptyDir": {"medium": mark()}},
            {"name": mark(), "hostPath": {"path": mark("/dev/{}"), "type": mark()}},
            {"name": mark(), "hostPath": {"path": mark("/dev/infiniband/{}")}},
            {"name": mark(), "hostPath": {"path": mark("/{}")}},
            {"name": mark(), "secret": {"secretName": mark()}},
            {"name": mark(), "csi": {"driver": mark(), "volumeAttributes": {mark(): "https://vault"}}},
        ],
        mark(): mark(),
    }
    noisy["status"] |= {
        "message": mark("{}"),
        "podIP": "10.23.45.67",
        "hostIP": "fd00:aa:bb::7",
        "startTime": mark("2026-{}"),
        "nominatedNodeName": mark(),
        "resourceClaimStatuses": [{"name": mark(), "resourceClaimName": mark()}],
        "extendedResourceClaimStatus": {
            "resourceClaimName": mark(),
            "requestMappings": [
                {"containerName": mark(), "resourceName": name, "requestName": mark()}
                for name in (*container["resources"].get("limits", {}), mark("{}.io/gpu"))
            ],
        },
        "conditions": [{"type": mark(), "message": mark(), "reason": mark()}],
        "containerStatuses": [
            {"name": mark(), "containerID": mark(), "state": {"waiting": {"message": mark()}}}
        ],
        **status,
    }
    return noisy


def static_pod() -> dict[str, Any]:
    manifest = noisy_pod("d") | {"kind": "Pod"}
    del manifest["metadata"]["uid"]
    return manifest


MESSAGES = (
    "Pod was rejected: {}",
    "{}",
    "Allocate failed due to rpc error: code = Unknown desc = dial tcp 10.23.45.67: {}, which is unexpected",
    "Allocate failed due to requested number of devices unavailable for {}.io/x. Requested: 1, Available: 0, which is unexpected",
    "Predicate TaintToleration failed: node(s) had untolerated taint {{{}: s3cr3t}}",
    "Node didn't have enough resource: {}, requested: 1, used: 1, capacity: 1",
    "Resources cannot be allocated with Topology locality {}",
    "Resources cannot be allocated with Topology locality\n{}",
    "Pod was rejected: Cannot enforce AppArmor: profile {} not found at https://vault?token=eyJhbGciOi",
    "SMT Alignment Error: requested 3735928559{} cpus not multiple cpus per core = 2",
)


def marked_pods() -> list[Any]:
    refusals = [
        noisy_pod("c", phase="Failed", reason=reason, message=mark(message)) | {"kind": "Pod"}
        for reason, message in itertools.product(
            ("UnexpectedAdmissionError", "AppArmor", "OutOfcpu"), MESSAGES
        )
    ]
    for number, one in enumerate(refusals):
        one["metadata"]["uid"] = f"{number:08x}-1111-2222-3333-444444444444"
    odd = {"kind": "Pod", "spec": {"containers": []}}
    limits = {"resources": {"limits": {mark("{} x"): "1"}}}
    return [
        noisy_pod("a"),
        noisy_pod("b", phase=mark(), qosClass=mark(), reason=mark()),
        noisy_pod("d", reason=mark("OutOf{}")),
        *refusals,
        odd | {"metadata": [mark()]},
        odd | {"metadata": mark()},
        odd | {"metadata": {"name": mark(), "annotations": [mark()]}},
        odd | {"metadata": {"name": mark(), "annotations": mark()}},
        odd | {"metadata": {"name": [mark()], "namespace": {mark(): 1}, "uid": [mark()]}},
        odd | {"metadata": {"name": mark()}, "spec": mark()},
        odd | {"metadata": {"name": mark()}, "spec": {"containers": [], "overhead": {mark(): "1"}}},
        odd | {"metadata": {"name": mark()}, "spec": {"containers": [], "overhead": {"cpu": mark()}}},
        odd | {"metadata": {"name": mark()}, "spec": {"containers": [{"name": mark(), **limits}]}},
        {
            "apiVersion": mark("{}/v1"),
            "kind": "StatefulSet",
            "metadata": {"name": mark(), "labels": {mark(): mark()}},
            "spec": {
                "replicas": 2,
                "serviceName": mark(),
                "ordinals": {"start": mark()},
                "template": {"metadata": {"labels": {mark(): mark()}}, "spec": pod("d")["spec"]},
            },
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": mark()}, "data": {mark(): mark()}},
    ]


def state_files(*, damaged: bool) -> dict[str, bytes]:
    devices = DEVICE_STATE % HELD
    for old, new in {"gpu0": "zqmark-host-a", "gpu1": "52:54:00:12:34:56"}.items():
        devices = devices.replace(old, new)
    answer = base64.b64encode(b"\n\x0c" + mark("/dev/{}").encode()).decode()
    files = {
        "cpu_manager_state": (CPU_STATE % HELD).replace('"c"', '"zqmark-c"'),
        "memory_manager_state": (MEMORY_STATE % HELD).replace('"c"', '"zqmark-c"'),
        "device-plugins/kubelet_internal_checkpoint": re.sub(
            r'"AllocResp":"[^"]*"', f'"AllocResp":"{answer}"', devices
        ),
    }
    if damaged:
        files = {
            name: text.replace("static", mark()).replace('"type":"memory"', f'"type":"{mark()}"')[:-20]
            + f'"{mark()}": 10.23.45.67, {mark()}, "acme.io/{mark()}", "https://vault/{mark()}"'
            for name, text in files.items()
        }
    return {f"data/zqmark/kubelet/{name}": text.encode() for name, text in files.items()}


def node(root: Path, *, damaged: bool = False) -> Path:
    nic = f"{PCI}/0000:17:00.0"
    extra: dict[str, str | bytes | None] = {
        "etc/machine-id": MACHINE_ID,
        "etc/hostname": mark("{}.example"),
        "etc/os-release": f'PRETTY_NAME="{mark()} Linux 7 ({mark()})"',
        "proc/version": f"Linux version 6.1.0-{mark()} ({mark()}@10.23.45.67)",
        "proc/cmdline": mark("isolcpus=1 {}=s3cr3t"),
        "proc/238/cmdline": b"\0".join(word.encode() for word in flags()) + b"\0",
        "proc/238/environ": mark("TOKEN={}").encode(),
        "proc/self/cgroup": mark("0::/{}.slice/s3cr3t"),
        "proc/self/mountinfo": "33 24 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        "etc/zqmark-config/kubelet.yaml": config() if not damaged else mark("{}: [\n  s3cr3t"),
        "etc/zqmark drop ins/10-zqmark.conf": config(),
        "etc/zqmark drop ins/20-zqmark.conf": mark("{0}: 1\n{0}: s3cr3t\nkind: Nothing"),
        "etc/zqmark drop ins/30-zqmark.conf": mark("{}: [s3cr3t"),
        "run/zqmark-manifests/zqmark-app.yaml": yaml.safe_dump(static_pod()),
        "run/zqmark-manifests/zqmark-bad.yaml": mark("{}: [s3cr3t"),
        "run/zqmark-manifests/zqmark-link.yaml": "-> /no/such/zqmark",
        "etc/kubernetes/manifests/zqmark-other.yaml": yaml.safe_dump(static_pod()),
        f"var/log/zqmark/zqmark-ns_zqmark-pod_{HELD['a']}": None,
        "data/zqmark/kubelet/allocated_pods_state": mark('{{"data": "{}"}}').encode(),
        f"{nic}/vendor": "0x15b3",
        f"{nic}/device": "0x1017",
        f"{nic}/class": "0x020000",
        f"{nic}/numa_node": mark(),
        f"{nic}/driver": mark("-> ../../../../bus/pci/drivers/{}"),
        f"{nic}/net/zqmark0": None,
        f"{nic}/net/enx525400123456": None,
        f"{NODE}/node0/distance": mark(),
        **state_files(damaged=damaged),
    }
    return grow_node(root, extra)


# --- looking for marks ----------------------------------------------------------------------------


def every_byte(path: Path) -> bytes:
    """The archive unpacked, with its headers, and what is encoded in it in clear."""
    raw = path.read_bytes()
    plain = gzip.decompress(raw)
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        members = {entry.name: archive.extractfile(entry) for entry in archive}
        texts = {name: stream.read() for name, stream in members.items() if stream}
    runs = re.findall(rb"[A-Za-z0-9+/]{16,}", plain)
    encoded = [base64.b64decode(run[: len(run) // 4 * 4]) for run in runs]
    return b"\n".join([raw[:64], plain, *(name.encode() for name in texts), *encoded])


def leaks(path: Path) -> list[str]:
    found = every_byte(path)
    return sorted(
        {one.decode() for one in MARK.findall(found)}
        | {secret for secret in SECRETS if secret.lower().encode() in found.lower()}
    )


@pytest.mark.parametrize("damaged", [False, True])
def test_nothing_marked_is_inside(tmp_path: Path, capsys: Capture, damaged: bool) -> None:  # noqa: FBT001 - a column
    root, out = node(tmp_path / "root", damaged=damaged), tmp_path / "node.tar.gz"
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump_all([{"kind": "List", "items": marked_pods()}]))
    (tmp_path / "configz.json").write_text(
        json.dumps({"kubeletconfig": yaml.safe_load(config())}, default=str)
    )
    more = [] if damaged else ["--configz", tmp_path / "configz.json"]
    ran = numawise(capsys, "bundle", "--root", root, "-o", out, "--pods", tmp_path / "pods.yaml", *more)
    assert ran.status == 0, ran.err
    assert leaks(out) == []
    shown = json.loads(numawise(capsys, "bundle", "show", out, "-o", "json").out)
    members = {"machine.yaml", "hardware.json", "pods.json"}
    if not damaged:
        members |= {f"kubelet/{name}" for name in ("config.yaml", "d/00.conf", "flags", "configz.json")}
    assert {member["name"] for member in shown["members"]} >= members
    assert "manifests of static pods (1)" in shown["sources"]["pods"]
    assert shown["pods"] >= 30
    assert len(shown["refused"]) >= 20
    assert set(shown["state"]) == {"cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint"}
    assert not any(state["checksum"] for state in shown["state"].values())  # the marks have broken them
    for words in (
        ["check", "--bundle", out],
        ["state", "show", out],
        ["why", "--bundle", out],
        ["show", out],
    ):
        assert numawise(capsys, *words).status in (0, 1, 2), words


def test_nothing_marked_comes_from_the_cluster(tmp_path: Path, capsys: Capture) -> None:
    info = {
        "kubeletVersion": mark("v1.36.4-{}"),
        "kernelVersion": mark("6.1.0-{}-amd64"),
        "osImage": mark("{} Linux"),
        "containerRuntimeVersion": mark("containerd://1.7-{}"),
        "machineID": MACHINE_ID,
    }
    name = "zqmark-node.example"
    state = State(
        pods=[noisy_pod(letter) | {"kind": "Pod"} for letter in "abcd"],
        nodes={name: {"metadata": {"name": name}, "status": {"nodeInfo": info}}},
        forbidden={"/proxy/"},
    )
    for each in state.pods:
        each["spec"]["nodeName"] = name
    root, out = node(tmp_path / "root"), tmp_path / "node.tar.gz"
    with serving(state) as server:
        kubeconfig(tmp_path / "config", server.address)
        ran = numawise(
            capsys, "bundle", "--root", root, "-o", out, "--kubeconfig", tmp_path / "config", "--node", name
        )
    assert ran.status == 0, ran.err
    assert "you may not get nodes/proxy of node zqmark-node.example (403)" in ran.err
    assert leaks(out) == []
    versions = json.loads(numawise(capsys, "bundle", "show", out, "-o", "json").out)["versions"]
    assert versions == {"kubelet": "v1.36.4", "kernel": "6.1.0", "os": "Linux", "runtime": "containerd://1.7"}


def test_with_names_kept_secrets_stay_out(tmp_path: Path, capsys: Capture) -> None:
    root, out = grow_node(tmp_path / "root"), tmp_path / "node.tar.gz"
    (tmp_path / "pods.json").write_text(
        json.dumps({"kind": "List", "items": [noisy_pod("a") | {"kind": "Pod"}]})
    )
    more = ("--pods", tmp_path / "pods.json", "--kube", "1.36", "--keep-names")
    assert numawise(capsys, "bundle", "--root", root, "-o", out, *more).status == 0
    found = every_byte(out)
    assert b"hunter2" in CONFIG.encode()
    assert not any(word in found for word in (b"hunter2", b"eyJhbGciOi", b"52:54:00:12:34:56", b"3735928559"))
    assert b"-0" in found
    assert MARK.search(found)


@pytest.mark.parametrize("machine_id", ["uninitialized", "0" * 32, ""])
def test_a_key_that_everybody_knows_is_not_used(tmp_path: Path, capsys: Capture, machine_id: str) -> None:
    nodes = []
    for number in range(2):
        root, out = (
            grow_node(tmp_path / f"root{number}", {"etc/machine-id": machine_id}),
            tmp_path / f"{number}.tgz",
        )
        assert numawise(capsys, "bundle", "--root", root, "-o", out, "--kube", "1.36").status == 0
        nodes.append(json.loads(numawise(capsys, "bundle", "show", out, "-o", "json").out))
    assert all(one["key"].startswith("once:") for one in nodes)
    assert nodes[0]["node"] != nodes[1]["node"]

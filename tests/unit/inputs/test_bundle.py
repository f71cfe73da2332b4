"""A node collected into a bundle, and opened again: the same machine, configuration, state and pods."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from numawise.apps.bundle.gather import gather
from numawise.apps.bundle.model import Collected
from numawise.apps.bundle.pack import Packed, packed, summary
from numawise.codec.bundle.archive import MANIFEST, is_bundle, pack
from numawise.codec.bundle.manifest import Names, key_of, manifest_text
from numawise.codec.checkpoint.look import look
from numawise.engine.admit import Rejected
from numawise.errors import ClusterError, InputError
from numawise.inputs.bundle import Bundle, open_bundle
from numawise.inputs.gathered import NodeSources
from numawise.node.node import Files, SimulatedNode, boot
from numawise.render.bundle import head_lines, member_rows
from numawise.request.defaults import defaulted
from tests.nodetree import CONFIG, CPU_STATE, MACHINE_ID, UIDS, grow_node, hardware_tree, pod, pod_list
from tests.unit.host.trees import grow

WHEN = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
NAMES = Names(key_of(MACHINE_ID))
SECRETS = ("acme", "hunter2", "somebody", "train-", "10.96.0.10", *UIDS.values(), MACHINE_ID)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return grow_node(tmp_path / "root")


def collected(root: Path, **wanted: Any) -> Collected:
    return gather(NodeSources(root=root, **wanted))


def make(root: Path, *, keep_names: bool = False, **wanted: Any) -> Packed:
    return packed(collected(root, **wanted), keep_names=keep_names, when=WHEN)


def opened(found: Packed, folder: Path) -> Bundle:
    path = folder / "node.tar.gz"
    path.write_bytes(found.data)
    return open_bundle(str(path))


def listed(folder: Path, letters: str = "dabc") -> tuple[str, ...]:
    path = folder / "pods.json"
    path.write_text(pod_list(letters))
    return (str(path),)


def missing(found: Packed) -> dict[str, str]:
    return {one.what: one.why for one in found.manifest.absent}


# --- there and back -------------------------------------------------------------------------


def test_the_kubelet_of_a_bundle_refuses_the_same_pod(root: Path, tmp_path: Path) -> None:
    bundle = opened(make(root, pods=listed(tmp_path), kube="1.36.4"), tmp_path)
    assert bundle.profile().version == (1, 36)
    machine, config = bundle.machine(), bundle.config_input().config((1, 36))
    node = boot(machine, config, Files(bundle.texts), version=(1, 36))
    assert isinstance(node, SimulatedNode), node
    node.plugins_registered(machine.plugins)
    (refused,) = bundle.refused()
    assert refused.name == NAMES.name("pod", "train-c-n1")
    decision = node.admit(defaulted(refused))
    assert isinstance(decision, Rejected)
    assert decision.reason == "TopologyAffinityError"
    held = node.state.cpu.assignments[NAMES.uid(UIDS["a"])]
    assert held == {NAMES.name("container", "c"): 0b1100}


def test_pods_and_state_files_fit_together(root: Path, tmp_path: Path) -> None:
    bundle = opened(make(root, pods=listed(tmp_path)), tmp_path)
    uids = {raw.uid for raw in bundle.pods()}
    recorded = look("cpu_manager_state", bundle.texts["cpu_manager_state"]).cpu
    assert recorded is not None
    assert set(recorded.assignments) < uids
    assert all(look(name, text).fits for name, text in bundle.texts.items())


def test_nothing_that_tells_whose_it_is(root: Path, tmp_path: Path) -> None:
    found = make(root, pods=listed(tmp_path))
    for name, content in found.members.items():
        leaks = [secret for secret in SECRETS if secret.encode() in content]
        assert not leaks, (name, leaks)


def test_the_same_node_gives_the_same_bytes(root: Path, tmp_path: Path) -> None:
    pods = listed(tmp_path)
    assert make(root, pods=pods).data == make(root, pods=pods).data
    (root / "etc/machine-id").write_text("0" * 32)
    assert make(root, pods=pods).manifest.node != NAMES.name("node", "n1")


def test_names_may_be_kept_but_no_secrets(root: Path, tmp_path: Path) -> None:
    found = make(root, pods=listed(tmp_path), keep_names=True)
    text = b"".join(found.members.values())
    assert b"hunter2" not in text
    assert b"somebody@acme.io" not in text
    bundle = opened(found, tmp_path)
    assert not bundle.manifest.anonymised
    assert {raw.name for raw in bundle.pods()} == {f"train-{letter}-n1" for letter in "abcd"}
    assert bundle.texts["cpu_manager_state"] == CPU_STATE % UIDS
    assert bundle.name == "n1"


def test_an_unpacked_bundle_is_one(root: Path, tmp_path: Path) -> None:
    for name, content in make(root).members.items():
        (tmp_path / "node" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "node" / name).write_bytes(content)
    (tmp_path / "node/kubelet.yaml").write_text(CONFIG.replace("single-numa-node", "restricted"))
    folder = str(tmp_path / "node")
    assert is_bundle(folder)
    assert open_bundle(folder).config_input().config((1, 36)).topology_manager_policy == "restricted"


# --- where things are found -----------------------------------------------------------------


def test_a_running_kubelet_names_its_files(root: Path, tmp_path: Path) -> None:
    bundle = opened(make(root), tmp_path)
    assert bundle.config_input().config((1, 36)).cpu_manager_policy == "static"
    layered = bundle.layered_config()
    assert layered is not None
    base, drop_ins, flags = layered.base, layered.drop_ins, layered.flags
    assert base is not None
    assert drop_ins == ()
    assert [flag.name for flag in flags] == ["v"]
    assert bundle.manifest.sources["flags"] == "command line of kubelet, process 238"
    assert bundle.manifest.node == NAMES.name("node", "n1")


def test_drop_ins_and_flags_are_laid_over_the_file(tmp_path: Path) -> None:
    words = ["kubelet", "--config=k.yaml", "--config-dir", "/etc/k.d", "--topology-manager-scope=pod"]
    kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    root = grow_node(
        tmp_path / "root",
        {
            "proc/238/cmdline": b"\0".join(word.encode() for word in words),
            "srv/k.yaml": CONFIG,
            "proc/238/cwd": f"-> {tmp_path / 'root/srv'}",
            "etc/k.d/20-later.conf": kind + "topologyManagerPolicy: best-effort\nmaxPods: 20",
            "etc/k.d/10-first.conf": kind + "topologyManagerPolicy: none\npodPidsLimit: 7\nmadeUp: hunter2",
            "etc/k.d/30-other.yaml": kind + "maxPods: 1",
        },
    )
    bundle = opened(make(root, kube="1.36"), tmp_path)
    config = bundle.config_input().config((1, 36))
    assert (config.topology_manager_policy, config.topology_manager_scope) == ("best-effort", "pod")
    whole = bundle.config_document().value
    assert (whole["maxPods"], whole["podPidsLimit"]) == (20, 7)
    assert "madeUp" not in whole
    layered = bundle.layered_config()
    assert layered is not None
    assert [document.file.rpartition("/")[2] for document in layered.drop_ins] == ["00.conf", "01.conf"]
    assert b"field-8405cfce64: x" in bundle.members["kubelet/d/00.conf"]


def test_without_a_kubelet_installers_are_asked(tmp_path: Path) -> None:
    root = grow_node(
        tmp_path / "root",
        {
            "etc/systemd/system/kubelet.service.d/10-kubeadm.conf": '[Service]\nEnvironment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS $KUBELET_EXTRA_ARGS',
            "etc/default/kubelet": 'KUBELET_EXTRA_ARGS="--topology-manager-policy=restricted"',
            "etc/kubernetes/kubelet.conf": "apiVersion: v1\nkind: Config\nusers: [{user: {token: hunter2}}]",
        },
        running=False,
    )
    bundle = opened(make(root), tmp_path)
    assert bundle.config_input().config((1, 36)).topology_manager_policy == "restricted"
    assert bundle.manifest.sources["configuration"] == "/var/lib/kubelet/config.yaml"
    assert b"hunter2" not in b"".join(bundle.members.values())


def test_configz_is_believed_and_differences_are_told(root: Path, tmp_path: Path) -> None:
    told = tmp_path / "configz.json"
    told.write_text(
        json.dumps(
            {
                "kubeletconfig": {
                    "topologyManagerPolicy": "restricted",
                    "clusterDNS": ["10.96.0.10"],
                    "fromTheFuture": 1,
                }
            }
        )
    )
    found = make(root, configz=str(told), kube="1.36")
    bundle = opened(found, tmp_path)
    assert bundle.config_input().config((1, 36)).topology_manager_policy == "restricted"
    assert any(
        remark.startswith("topologyManagerPolicy: the running kubelet") for remark in found.manifest.remarks
    )
    assert b"10.96.0.10" not in bundle.members["kubelet/configz.json"]


class Kubelet(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = {"/pods": pod_list("ab"), "/configz": '{"kubeletconfig":{"cpuManagerPolicy":"none"}}'}.get(
            self.path
        )
        self.send_response(200 if found else 403)
        self.end_headers()
        self.wfile.write((found or "no").encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def kubelet() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Kubelet) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_addresses(root: Path, tmp_path: Path, kubelet: str) -> None:
    bundle = opened(make(root, pods=(f"{kubelet}/pods",), configz=f"{kubelet}/configz"), tmp_path)
    assert len(bundle.pods()) == 2
    assert bundle.config_input().config((1, 36)).cpu_manager_policy == "none"
    with pytest.raises(ClusterError, match="answers 403"):
        make(root, configz=f"{kubelet}/other")
    with pytest.raises(ClusterError, match="cannot be reached"):
        make(root, configz="http://127.0.0.1:1/configz")


def test_state_files_elsewhere_and_not_at_all(tmp_path: Path) -> None:
    root = grow_node(tmp_path / "root")
    (root / "var/lib/kubelet").rename(root / "var/lib/other")
    found = make(root)
    assert "/var/lib/kubelet/cpu_manager_state does not exist" in missing(found)["cpu_manager_state"]
    found = make(root, kubelet_dir="/var/lib/other")
    assert len(opened(found, tmp_path).texts) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read(root: Path) -> None:
    (root / "var/lib/kubelet/cpu_manager_state").chmod(0)
    assert "run as root" in missing(make(root))["cpu_manager_state"]


@pytest.mark.parametrize(("text", "words"), [
    pytest.param("kind: [",                    ["/etc/kubelet.yaml:", "cannot be read as YAML"],  id="no YAML"),
    pytest.param("kind: Pod\napiVersion: v1",  ["is not a KubeletConfiguration"],               id="another kind"),
    pytest.param("root:x:0:0:hunter2",         ["is not a KubeletConfiguration"],               id="not a configuration at all"),
])  # fmt: skip
def test_configurations_that_are_none(tmp_path: Path, text: str, words: list[str]) -> None:
    root = grow_node(tmp_path / "root", {"etc/kubelet.yaml": text})
    found = make(root)
    assert all(word in missing(found)["configuration"] for word in words), missing(found)
    assert b"hunter2" not in b"".join(found.members.values())
    bundle = opened(found, tmp_path)
    with pytest.raises(InputError, match=r"node.tar.gz: has no kubelet.yaml: .*kubelet.yaml"):
        bundle.config_input().config((1, 36))
    assert bundle.layered_config() is None


def test_a_bare_host(tmp_path: Path) -> None:
    found = make(grow(tmp_path / "root", hardware_tree()))
    bundle = opened(found, tmp_path)
    assert len(bundle.machine().cpus) == 8
    assert {"configuration", "pods", "kubelet version", "cpu_manager_state"} <= set(missing(found))
    assert bundle.manifest.key.startswith("once:")
    with pytest.raises(
        InputError, match=r"has no kubelet.yaml: no kubelet is running here.*--kubelet-config"
    ):
        bundle.config_document()
    assert bundle.profile().remark
    with pytest.raises(InputError, match="lists no pods: no source of pods"):
        bundle.refused_or_error()


def test_a_folder_that_is_no_host(tmp_path: Path) -> None:
    bundle = opened(make(tmp_path), tmp_path)
    with pytest.raises(InputError, match=r"has no machine.yaml: no CPUs are known"):
        bundle.machine()
    with pytest.raises(InputError, match="is not a folder"):
        make(tmp_path / "nowhere")


# --- pods -----------------------------------------------------------------------------------


def test_static_pods_get_the_uid_of_their_logs(tmp_path: Path) -> None:
    manifest = pod("a")
    del manifest["metadata"]["uid"]
    manifest["metadata"]["name"] = "train-a"
    manifest |= {"kind": "Pod", "apiVersion": "v1"}
    root = grow_node(
        tmp_path / "root",
        {
            "run/manifests/a.yaml": json.dumps(manifest),
            "run/manifests/broken.yaml": "{",
            f"var/log/pods/acme_train-a-n1_{UIDS['a']}/c/0.log": "x",
        },
    )
    bundle = opened(make(root), tmp_path)
    (raw,) = bundle.pods()
    assert (raw.uid, raw.name) == (NAMES.uid(UIDS["a"]), NAMES.name("pod", "train-a-n1"))


def test_what_was_allotted_tells_of_pods_that_nobody_else_knows(tmp_path: Path) -> None:
    own = {"limits": {"cpu": "2", "memory": "100Mi"}, "requests": {"cpu": "2", "memory": "100Mi"}}
    entries = {UIDS[letter]: {"ContainerResources": {"c": own}} for letter in "ab"}
    root = grow_node(
        tmp_path / "root",
        {
            "var/lib/kubelet/allocated_pods_state": json.dumps(
                {"data": json.dumps({"entries": entries}), "checksum": 1}
            ),
            f"var/log/pods/acme_train-b-n1_{UIDS['b']}/c/0.log": "x",
        },
    )
    bundle = opened(make(root, pods=listed(tmp_path, "a")), tmp_path)
    names = {raw.uid: raw.name for raw in bundle.pods()}
    assert names == {
        NAMES.uid(UIDS["a"]): NAMES.name("pod", "train-a-n1"),
        NAMES.uid(UIDS["b"]): NAMES.name("pod", "train-b-n1"),
    }
    (other,) = (raw for raw in bundle.pods() if raw.uid == NAMES.uid(UIDS["b"]))
    assert defaulted(other).guaranteed


@pytest.mark.parametrize("text", ["", "{}", '{"data":7}', '{"data":"{\\"entries\\":[7]}"}'])
def test_a_damaged_record_of_what_was_allotted(tmp_path: Path, text: str) -> None:
    root = grow_node(tmp_path / "root", {"var/lib/kubelet/allocated_pods_state": text})
    assert "is damaged" in missing(make(root))["allocated_pods_state"]


def test_named_files_must_have_pods(root: Path, tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("kind: Service\napiVersion: v1\nmetadata: {name: x}")
    for name, words in (("none.yaml", "has no pods"), ("nowhere.yaml", "there is no such file")):
        with pytest.raises(InputError, match=words):
            make(root, pods=(str(tmp_path / name),))


# --- devices --------------------------------------------------------------------------------

GPUS = ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222")


def gpu_tree() -> Mapping[str, str | bytes | None]:
    """Two GPUs on two NUMA nodes, of which nobody holds any; the driver tells their UUIDs."""
    tree: dict[str, str | bytes | None] = {}
    for numa, uuid in enumerate(GPUS):
        address = f"0000:{numa + 1}7:00.0"
        place = f"sys/bus/pci/devices/{address}"
        tree |= {
            f"{place}/vendor": "0x10de",
            f"{place}/device": "0x2335",
            f"{place}/class": "0x030200",
            f"{place}/numa_node": str(numa),
            f"proc/driver/nvidia/gpus/{address}/information": f"Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-{uuid}",
        }
    ids = [f"GPU-{uuid}::{part}" for uuid in reversed(GPUS) for part in (0, 1)]
    record = {"Data": {"PodDeviceEntries": None, "RegisteredDevices": {"nvidia.com/gpu": ids}}, "Checksum": 1}
    return tree | {"var/lib/kubelet/device-plugins/kubelet_internal_checkpoint": json.dumps(record)}


def test_devices_nobody_holds_are_where_the_hardware_is(tmp_path: Path) -> None:
    found = make(grow_node(tmp_path / "root", gpu_tree()))
    (plugin,) = opened(found, tmp_path).machine().plugins
    assert plugin.resource == "nvidia.com/gpu"
    assert [device.numa for device in plugin.devices] == [(0,), (0,), (1,), (1,)]
    assert [device.id[:12] for device in plugin.devices] == ["GPU-00000000"] * 2 + ["GPU-00000001"] * 2
    assert not any(uuid.encode() in b"".join(found.members.values()) for uuid in GPUS)
    assert not any("is not known" in remark for remark in found.manifest.remarks)


def test_devices_that_nothing_tells_of(tmp_path: Path) -> None:
    record = {
        "Data": {"PodDeviceEntries": None, "RegisteredDevices": {"acme.io/fpga": ["f0"]}},
        "Checksum": 1,
    }
    path = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    found = make(grow_node(tmp_path / "root", {path: json.dumps(record)}))
    (plugin,) = opened(found, tmp_path).machine().plugins
    assert plugin.devices[0].numa is None
    assert any("acme.io/fpga: the NUMA node" in remark for remark in found.manifest.remarks)


# --- opening --------------------------------------------------------------------------------


def test_members_in_errors(root: Path, tmp_path: Path) -> None:
    found = make(root)
    members = {**found.members, "machine.yaml": b"cpus: []\nnuma: []\n"}
    members[MANIFEST] = manifest_text(found.manifest, members).encode()
    bundle = opened(replace(found, data=pack(members, 0)), tmp_path)
    with pytest.raises(InputError, match=r"node.tar.gz/machine.yaml:2: numa"):
        bundle.machine()


def test_what_is_told(root: Path, tmp_path: Path) -> None:
    bundle = opened(make(root, pods=listed(tmp_path), kube="1.36.4"), tmp_path)
    assert "names replaced" in head_lines(summary(bundle))[0]
    rows = {name: told for name, _, told in member_rows(summary(bundle))}
    assert rows["pods.json"] == "4 pods, 1 of them refused by the kubelet"
    assert rows["state/cpu_manager_state"] == "policy static, checksum right"
    found = summary(bundle)
    assert found.pods == 4
    assert list(found.refused) == [NAMES.name("pod", "train-c-n1")]
    assert json.loads(bundle.members[MANIFEST])["node"] == NAMES.name("node", "n1")
    readme = bundle.members["README.md"].decode()
    assert "## Replaced or taken out" in readme
    assert "clusterDNS" in readme

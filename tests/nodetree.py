"""A node as files: the host's /sys and /proc, its kubelet's process, configuration and state files, its pods.

It is the machine of a recorded run of kubelet v1.36.4: two sockets of two cores with two threads, two NUMA
nodes, a device plugin with gpu0 and gpu1.  Pods ``a`` and ``b`` hold 2 CPUs and a device each, ``d`` shares,
and ``c`` was refused.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.unit.host.trees import CPU, NODE, grow

MACHINE_ID = "3f1c9a7e5b2d4c60a1e8f7d6c5b4a392"
UIDS = {
    "a": "d8cef786c3e6fab90c6e83f71a6881b7",
    "b": "4f51e75f3255e73c234a806b6c8ebc41",
    "c": "c38f18edbd84dcd57433b5e0fae19eab",
    "d": "b2d1c5f442bd0ad836a7c13b5758164d",
}
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
clusterDNS: [10.96.0.10]
staticPodPath: /run/manifests
staticPodURLHeader: {Authorization: [Bearer hunter2]}
readOnlyPort: 0
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: 0,1
kubeReserved: {memory: 350Mi}
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
reservedMemory:
- {numaNode: 0, limits: {memory: 300Mi}}
- {numaNode: 1, limits: {memory: 100Mi}}
"""
ANSWERS = {"gpu0": "CgwKBEdQVVMSBGdwdTA=", "gpu1": "CgwKBEdQVVMSBGdwdTE="}
CPU_STATE = (
    '{"policyName":"static","defaultCpuSet":"0-1,6-7","entries":{"%(b)s":{"c":"4-5"},"%(a)s":{"c":"2-3"}},'
    '"checksum":151694320}'
)
EMPTY = '"hugepages-%s":{"total":0,"systemReserved":0,"allocatable":0,"reserved":0,"free":0}'
MEMORY_STATE = (
    '{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{'
    f"{EMPTY % '1Gi'},{EMPTY % '2Mi'},"
    '"memory":{"total":1008349184,"systemReserved":314572800,"allocatable":693776384,"reserved":104857600,'
    '"free":588918784}},"cells":[0]},"1":{"numberOfAssignments":1,"memoryMap":{'
    f"{EMPTY % '1Gi'},{EMPTY % '2Mi'},"
    '"memory":{"total":1055584256,"systemReserved":104857600,"allocatable":950726656,"reserved":104857600,'
    '"free":845869056}},"cells":[1]}},"entries":{"%(b)s":{"c":[{"numaAffinity":[1],"type":"memory",'
    '"size":104857600}]},"%(a)s":{"c":[{"numaAffinity":[0],"type":"memory","size":104857600}]}},'
    '"checksum":3291993290}'
)
DEVICE_STATE = (
    '{"Data":{"PodDeviceEntries":[{"PodUID":"%(b)s","ContainerName":"c","ResourceName":"example.com/gpu",'
    '"DeviceIDs":{"1":["gpu1"]},"AllocResp":"CgwKBEdQVVMSBGdwdTE="},{"PodUID":"%(a)s","ContainerName":"c",'
    '"ResourceName":"example.com/gpu","DeviceIDs":{"0":["gpu0"]},"AllocResp":"CgwKBEdQVVMSBGdwdTA="}],'
    '"RegisteredDevices":{"example.com/gpu":["gpu0","gpu1"]}},"Checksum":1212409498}'
)


def hardware_tree() -> dict[str, str | bytes | None]:
    """The files of the hardware."""
    tree: dict[str, str | bytes | None] = {f"{CPU}/online": "0-7", f"{NODE}/online": "0-1"}
    for numa, (cpus, memory) in enumerate((("0-3", 984716), ("4-7", 1030844))):
        tree |= {
            f"{NODE}/node{numa}/cpulist": cpus,
            f"{NODE}/node{numa}/meminfo": f"Node {numa} MemTotal: {memory} kB",
            f"{NODE}/node{numa}/distance": "10 20" if numa == 0 else "20 10",
            f"{NODE}/node{numa}/hugepages/hugepages-2048kB/nr_hugepages": "0",
            f"{NODE}/node{numa}/hugepages/hugepages-1048576kB/nr_hugepages": "0",
        }
    for cpu in range(8):
        first = cpu - cpu % 2
        tree |= {
            f"{CPU}/cpu{cpu}/topology/core_id": str(cpu // 2 % 2),
            f"{CPU}/cpu{cpu}/topology/physical_package_id": str(cpu // 4),
            f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{first}-{first + 1}",
        }
    return tree | {"proc/meminfo": "MemTotal: 2015560 kB", "proc/version": "Linux version 6.1.0-30-amd64 (x)"}


def pod(letter: str, **extra: Any) -> dict[str, Any]:
    """One of the pods, as the kubelet's read-only port shows it."""
    own = {"cpu": "2", "memory": "100Mi", "example.com/gpu": "1"}
    resources: dict[str, Any] = {"requests": own, "limits": own}
    if letter == "d":
        resources = {"requests": {"cpu": "500m", "memory": "50Mi"}}
    status: dict[str, Any] = {"phase": "Running", "qosClass": "Burstable" if letter == "d" else "Guaranteed"}
    if letter == "c":
        status |= {
            "phase": "Failed",
            "reason": "TopologyAffinityError",
            "message": "Pod was rejected: Resources cannot be allocated with Topology locality",
        }
    return {
        "metadata": {
            "name": f"train-{letter}-n1",
            "namespace": "acme",
            "uid": UIDS[letter],
            "annotations": {"kubernetes.io/config.hash": UIDS[letter], "acme.io/owner": "somebody@acme.io"},
            "labels": {"team": "acme-secret-team"},
            **extra,
        },
        "spec": {
            "nodeName": "n1",
            "serviceAccountName": "acme-robot",
            "containers": [
                {
                    "name": "c",
                    "image": "registry.acme.io/train:7",
                    "command": ["sh", "-c", "train --token hunter2"],
                    "env": [
                        {"name": "PASSWORD", "value": "hunter2"},
                        {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
                        {"name": "OMP_NUM_THREADS", "valueFrom": {"secretKeyRef": {"name": "hunter2"}}},
                    ],
                    "resources": resources,
                }
            ],
            "volumes": [{"name": "acme-data", "secret": {"secretName": "hunter2"}}],
        },
        "status": status,
    }


def pod_list(letters: str = "dabc") -> str:
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [pod(letter) for letter in letters]})


def node_tree(*, running: bool = True) -> dict[str, str | bytes | None]:
    """The whole node; ``running``: its kubelet runs, as process 238."""
    tree = hardware_tree() | {
        "etc/machine-id": MACHINE_ID,
        "etc/hostname": "N1.acme.io",
        "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"',
        "var/lib/kubelet/cpu_manager_state": (CPU_STATE % UIDS).encode(),
        "var/lib/kubelet/memory_manager_state": (MEMORY_STATE % UIDS).encode(),
        "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint": (DEVICE_STATE % UIDS).encode(),
    }
    if not running:
        return tree | {"var/lib/kubelet/config.yaml": CONFIG}
    words = ["/usr/bin/kubelet", "--config=/etc/kubelet.yaml", "--hostname-override=n1", "--v=5"]
    stat = f"238 (kubelet) S 1 238 238 {' '.join(['0'] * 15)} 500 0 0"
    return tree | {
        "etc/kubelet.yaml": CONFIG,
        "proc/238/stat": stat,
        "proc/238/cmdline": b"\0".join(word.encode() for word in words) + b"\0",
        "proc/238/status": "Uid:\t0\t0\t0\t0",
        "proc/238/exe": "-> /usr/bin/kubelet",
        "proc/238/cgroup": "0::/system.slice/kubelet.service",
        "proc/1/cgroup": "0::/init.scope",
        **{f"proc/{pid}/ns/{kind}": f"-> {kind}:[4026531836]" for pid in (1, 238) for kind in ("mnt", "pid")},
    }


def grow_node(root: Path, extra: Mapping[str, str | bytes | None] = {}, *, running: bool = True) -> Path:
    return grow(root, node_tree(running=running) | dict(extra))

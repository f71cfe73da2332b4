"""Good inputs to start from: the tests' own data, and those beside the repository."""

import gzip
import io
import json
import os
import re
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import click
import yaml

from numawise.codec.publication import NAMES_ATTRIBUTE, NODE_ATTRIBUTE, STATE_ATTRIBUTE, attributes_of
from numawise.codec.published.envelope import hash_of, unsealed
from numawise.codec.published.envelope import sealed as sealed_part
from numawise.node.publication import publication_of
from numawise.values import replace
from tests.fuzz.case import FOLDER, LINK, PIPE, Case
from tests.fuzz.mutate import WORDS, mutated

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples"
SHARED = TESTS.parent.parent / "shared"
LARGEST, MOST = 40_000, 60
COMMAND = "command"
"""A file with the command of a case, which is not damaged."""
Files = Mapping[str, bytes]


def found(patterns: Sequence[str], *, shared: bool) -> list[bytes]:
    """The contents of small files below ``tests`` or ``../shared``."""
    contents = []
    for pattern in patterns:
        beside = pattern.startswith("../shared/")
        if beside and not shared:
            continue
        root = SHARED if beside else TESTS
        paths = sorted(
            root.glob(pattern.removeprefix("../shared/")), key=lambda path: (path.stat().st_size, path)
        )
        contents += [path.read_bytes() for path in paths if path.stat().st_size <= LARGEST][:MOST]
    return contents


def _lines(name: str, most: int) -> list[bytes]:
    """Short lines of a packed file below ``tests``."""
    with gzip.open(TESTS / name) as file:
        return sorted((line for line in file if len(line) < LARGEST), key=len)[:most]


def _tree(tree: Mapping[str, str | bytes | None]) -> dict[str, bytes]:
    """Files of the small trees of other tests."""
    files = {}
    for path, content in tree.items():
        if content is None:
            files[path] = FOLDER
        elif isinstance(content, bytes):
            files[path] = content
        else:
            files[path] = (
                LINK + content[3:].encode() if content.startswith("-> ") else f"{content}\n".encode()
            )
    return files


def _below(folder: str, files: Files) -> dict[str, bytes]:
    return {f"{folder}/{path}": content for path, content in files.items()}


@cache
def small_node() -> Files:
    """A machine, a configuration and pods of a small node."""
    from tests.cli.smallnode import KUBELET, MACHINE  # noqa: PLC0415

    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "uid": "u1"},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "resources": {
                        "limits": {"cpu": "1", "memory": "1Gi", "x/gpu": "1"},
                        "requests": {"cpu": "1", "memory": "1Gi", "x/gpu": "1"},
                    },
                }
            ]
        },
    }
    pods = yaml.safe_dump(pod, sort_keys=False).encode()
    machine = MACHINE.encode()
    return {"machine": machine, "machine.yaml": machine, "kubelet.yaml": KUBELET.encode(), "pods.yaml": pods}


# --- machines -------------------------------------------------------------------------------


def machine_files() -> list[bytes]:
    examples = [path.read_bytes() for path in sorted(EXAMPLES.glob("*/machine.yaml"))]
    machine = json.loads(_lines("recorded/v1.36.4/doc-cases.jsonl.gz", 1)[0])["scenario"]["machine"]
    return [small_node()["machine"], *examples, json.dumps(machine).encode()]


def hardware_files() -> list[bytes]:
    from numawise.codec.hardware.encode import hardware_data  # noqa: PLC0415
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
    from numawise.inputs.machine import read_machine  # noqa: PLC0415

    machines = [
        hardware_data(read_machine(words).hardware) for words in ("2s 4c 2t 2gpu 8g", "1s 2n 4c", "mi300x")
    ]
    return [to_json(machines[0]).encode(), to_yaml(machines[1]).encode(), to_json(machines[2]).encode()]


def topologies() -> list[bytes]:
    zones = [
        {
            "name": f"node-{numa}",
            "type": "Node",
            "costs": [
                {"name": "node-0", "value": 10 + 10 * numa},
                {"name": "node-1", "value": 20 - 10 * numa},
            ],
            "resources": [
                {"name": name, "capacity": size, "allocatable": size, "available": size}
                for name, size in (
                    ("cpu", "4"),
                    ("memory", "8Gi"),
                    ("nvidia.com/gpu", "2"),
                    ("hugepages-1Gi", "1"),
                )
            ],
        }
        for numa in (0, 1)
    ]
    attributes = [
        {"name": "topologyManagerPolicy", "value": "restricted"},
        {"name": "topologyManagerScope", "value": "pod"},
    ]
    head = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    one = {**head, "metadata": {"name": "n1"}, "attributes": attributes, "zones": zones}
    two = {"apiVersion": "v1", "kind": "List", "items": [one, {**one, "metadata": {"name": "n2"}}]}
    return [yaml.safe_dump(one).encode(), json.dumps(two).encode()]


def published(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    """NodeResourceTopologies as a whole node, with the older form of the policy as well."""
    one, two = topologies()
    older = yaml.safe_load(one)
    older |= {"apiVersion": "topology.node.k8s.io/v1alpha1", "topologyPolicies": ["SingleNUMANodePodLevel"]}
    older.pop("attributes")
    pods = small_node()["pods.yaml"].replace(b"x/gpu", b"nvidia.com/gpu")
    nodes = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}}}
    node = yaml.safe_dump({"apiVersion": "v1", "kind": "Node", **nodes}).encode()
    texts = (one, two, yaml.safe_dump(older).encode())
    return [{**small_node(), "nrt.yaml": text, "pods.yaml": pods, "node.yaml": node} for text in texts]


def exact_nodes(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    """All parts of an exact state as the JSON that is inside, of nodes with pods that came and went."""
    from tests.unit.published import busy_nodes  # noqa: PLC0415

    inputs: list[Files] = []
    for node in busy_nodes():
        names = {uid: ("lab", f"train-{number}") for number, uid in enumerate(node.state.active)}
        attributes = attributes_of(replace(publication_of(node, "n1"), names=names or {"gone": ("lab", "x")}))
        machine, state, told = (unsealed(name, text)[0] for name, text in attributes.items())
        pods = small_node()["pods.yaml"].replace(b"x/gpu", b"nvidia.com/gpu")
        files = {
            **small_node(),
            "pods.yaml": pods,
            "machine.json": machine,
            "state.json": state,
            "names.json": told,
        }
        inputs.append(with_exact(files))
    return inputs


def with_exact(files: Files) -> Files:
    """The object of the parts, sealed as if the damage in them were meant."""
    machine = files["machine.json"]
    state = re.sub(
        rb'^\{"machine":"[0-9a-f]{16}"', b'{"machine":"%s"' % hash_of(machine).encode(), files["state.json"]
    )
    value = yaml.safe_load(topologies()[0])
    value["attributes"] += [
        {"name": NODE_ATTRIBUTE, "value": sealed_part(machine)},
        {"name": STATE_ATTRIBUTE, "value": sealed_part(state)},
        {"name": NAMES_ATTRIBUTE, "value": sealed_part(files["names.json"])},
    ]
    return {**files, "nrt.yaml": yaml.safe_dump(value).encode()}


def printed_pods(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    """What kubectl prints for people."""
    from tests.unit.codec.test_kubectl import DESCRIBED, LISTED  # noqa: PLC0415

    refused = DESCRIBED.replace("OutOfcpu", "TopologyAffinityError")
    pasted = "".join(f"> {line}\n" for line in refused.splitlines())
    texts = (DESCRIBED, LISTED, f"{refused}\n\n{DESCRIBED}", f"$ kubectl describe pod x\n{pasted}")
    return [{**small_node(), "pods.yaml": text.encode()} for text in texts]


def cadvisor() -> list[bytes]:
    cores = [
        {
            "core_id": core,
            "thread_ids": [core, core + 4],
            "caches": [{"id": 0, "size": 32768, "type": "Data", "level": 1}],
            "uncore_caches": [{"id": core // 2, "size": 8388608, "type": "Unified", "level": 3}],
            "socket_id": core // 2,
        }
        for core in range(4)
    ]
    nodes = [
        {
            "node_id": numa,
            "memory": 8 << 30,
            "hugepages": [{"page_size": 2048, "num_pages": 4}],
            "cores": cores[2 * numa : 2 * numa + 2],
            "caches": None,
            "distances": [10, 20],
        }
        for numa in (0, 1)
    ]
    info = {"num_cores": 8, "num_sockets": 2, "memory_capacity": 16 << 30, "hugepages": [], "topology": nodes}
    return [json.dumps(info).encode(), json.dumps(info, indent=1).encode()]


def pci_lists() -> list[bytes]:
    one = """\
17:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330] (rev a1)
\tSubsystem: NVIDIA Corporation Device [10de:16c1]
\tPhysical Slot: 17
\tControl: I/O- Mem+ BusMaster+
\tNUMA node: 0
\tKernel driver in use: nvidia
\tKernel modules: nvidia

0000:ca:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]
\tNUMA node: 1
\tIOMMU group: 44
"""
    two = """\
Slot:\t0000:41:00.0
Class:\t3D controller [0302]
Vendor:\tNVIDIA Corporation [10de]
Device:\tGA100 [20b2]
NUMANode:\t0
IOMMUGroup:\t23
"""
    return [one.encode(), two.encode()]


def nccl() -> list[bytes]:
    one = """\
<system version="1">
  <cpu numaid="0" affinity="00000000,0000000f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:16:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:17:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:18:00.0" count="12" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="00000000,000000f0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:18:00.0" class="0x030200" link_speed="" link_width="0"><gpu dev="1" sm="80" rank="1" gdr="1"/></pci>
  </cpu>
</system>
"""
    return [one.encode(), *found(("../shared/data/nccl-topo/*.xml",), shared=True)]


def together(shared: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    texts = [
        found((f"machines/data/texts/{name}/*.txt", f"../shared/data/{name}/*.txt"), shared=shared)[:20]
        for name in ("lscpu", "numactl", "nvidia-topo", "rocm-topo")
    ]
    texts += [nccl()[:1], pci_lists(), hardware_files()[:1], topologies()[:1]]
    return [
        {"a": first, "b": second}
        for at, one in enumerate(texts)
        for other in texts[at + 1 :]
        for first, second in list(zip(one, other, strict=False))[:6]
    ]


def trees(shared: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from tests.nodetree import hardware_tree  # noqa: PLC0415
    from tests.unit.host.trees import PCI, two_cpus  # noqa: PLC0415

    device = "sys/devices/pci0000:00/0000:00:01.0/0000:17:00.0"
    gpu = {
        f"{PCI}/0000:17:00.0": f"-> ../../../../{device}",
        f"{device}/class": "0x030200",
        f"{device}/vendor": "0x10de",
        f"{device}/device": "0x2330",
        f"{device}/numa_node": "0",
        f"{device}/local_cpulist": "0-1",
        "proc/driver/nvidia/gpus/0000:17:00.0/information": "GPU UUID: GPU-1b122d05-8c93-e80c-c42d-a43b421ae510\nDevice Minor: 0",
        "sys/class/kfd/kfd/topology/nodes/1/properties": "domain 0\nlocation_id 5888",
        "proc/self/cgroup": "0::/user.slice\n4:cpuset:/docker",
        "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset",
        "proc/self/status": "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0",
        "proc/cmdline": "root=/dev/sda isolcpus=managed_irq,domain,1 nohz_full=1",
        "sys/devices/system/cpu/isolated": "1",
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory",
        "sys/fs/cgroup/user.slice/cpuset.cpus.effective": "0-1",
        "sys/fs/cgroup/user.slice/cpuset.mems.effective": "0",
        "sys/fs/cgroup/user.slice/memory.max": "max",
        "etc/os-release": 'PRETTY_NAME="Debian"',
        "proc/sys/kernel/numa_balancing": "1",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    }
    special = {
        "sys/devices/system/cpu/offline": PIPE,
        "proc/meminfo": LINK + b"meminfo",
        "sys/devices/system/node/has_cpu": FOLDER,
    }
    own = [_tree(tree) for tree in (two_cpus(), hardware_tree(), {**two_cpus(), **gpu})]
    own += [{**own[2], **special}, *_archived(TESTS / "machines/data/sysfs", 700)]
    if shared:
        own += _archived(SHARED / "data/sysfs", 500)
    return [_below("root", tree) for tree in own]


def _archived(folder: Path, most: int) -> list[dict[str, bytes]]:
    """Small packed trees of real machines."""
    unpacked = []
    for path in sorted(folder.glob("*/tree.tar.*"), key=lambda path: (path.stat().st_size, path))[:12]:
        with tarfile.open(path) as archive:
            members = [one for one in archive if one.isfile() or one.issym()]
            if len(members) > most:
                continue
            top = json.loads((path.parent / "golden.json").read_text()).get("tree", {}).get("root", "")
            tree = {}
            for one in members:
                name = one.name.removeprefix("./").removeprefix(f"{top.removeprefix('./')}/" if top else "")
                content = LINK + one.linkname.encode() if one.issym() else archive.extractfile(one).read()  # type: ignore[union-attr]
                tree[name] = content[:4096]
        unpacked.append(tree)
    return unpacked


# --- nodes ----------------------------------------------------------------------------------


def configs(shared: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from tests.check.examples import examples  # noqa: PLC0415

    texts = [path.read_bytes() for path in sorted(EXAMPLES.glob("*/kubelet*.yaml"))]
    texts += [path.read_bytes() for path in sorted((EXAMPLES / "platforms").iterdir())]
    texts += found(
        ("../shared/data/kubelet-config/*.yaml", "../shared/data/kubelet-config/*.json"), shared=shared
    )
    texts += sorted(
        {body.encode() for one in examples() for name, body in one.files.items() if "kubelet" in name}
    )
    first = yaml.safe_load(texts[0])
    texts.append(json.dumps({"kubeletconfig": first}).encode())
    fields = {name: value for name, value in first.items() if name not in ("kind", "apiVersion")}
    texts.append(yaml.safe_dump({"kind": "KubeletConfig", "spec": {"kubeletConfig": fields}}).encode())
    return [{**small_node(), "kubelet.yaml": text} for text in texts]


def drop_ins(shared: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    texts = [files["kubelet.yaml"] for files in configs(shared)]
    return [
        {**small_node(), "conf.d/10.conf": one, "conf.d/20.conf": other, "conf.d/sub/30.conf": one}
        for one, other in pairwise(texts)
    ]


def flags(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    texts = (
        "--cpu-manager-policy=static --topology-manager-policy restricted --reserved-cpus=0,1 --v=5",
        "/usr/bin/kubelet --config=/etc/k.yaml --kube-reserved=cpu=1,memory=1Gi --system-reserved='cpu=500m' --eviction-hard=memory.available<5% --feature-gates=A=true,TopologyManager=false",
        'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/x.sock --reserved-memory 0:memory=1Gi;1:memory=1Gi"\n',
        '[Service]\nEnvironment="KUBELET_EXTRA_ARGS=--memory-manager-policy=Static"\nEnvironmentFile=-/etc/default/kubelet\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_EXTRA_ARGS \\\n  --max-pods=110 \\\n  --cpu-manager-policy-options=full-pcpus-only=true\n',
        "kubelet\0--cpu-manager-policy\0static\0--reserved-cpus\0000-1\0",
    )
    return [{**small_node(), "flags": text.encode()} for text in texts]


def states(shared: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from tests.nodetree import CONFIG, CPU_STATE, DEVICE_STATE, MEMORY_STATE, UIDS, pod_list  # noqa: PLC0415

    names = ("cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint")
    whole = {
        f"state/{name}": (text % UIDS).encode()
        for name, text in zip(names, (CPU_STATE, MEMORY_STATE, DEVICE_STATE), strict=True)
    }
    machine = yaml.safe_dump({
        "cpus": [{"cpu": cpu, "core": cpu // 2 % 2, "socket": cpu // 4, "numa": cpu // 4} for cpu in range(8)],
        "numa": [{"id": 0, "memory": "1008349184"}, {"id": 1, "memory": "1055584256"}],
        "devices": {"example.com/gpu": {"devices": [{"id": f"gpu{numa}", "numa": [numa]} for numa in (0, 1)]}},
    }).encode()  # fmt: skip
    node = {"machine": machine, "kubelet.yaml": CONFIG.encode(), "pods.yaml": pod_list().encode()}
    seeds: list[Files] = [{**node, **whole}]
    patterns = ["recorded/state-files/{}*.state", "../shared/data/kubelet-state/{}*.state"]
    for name in names:
        contents = found([pattern.format(name) for pattern in patterns], shared=shared)
        seeds += [{**node, **whole, f"state/{name}": content} for content in contents]
    scenario = json.loads(_lines("recorded/v1.36.4/doc-cases.jsonl.gz", 1)[0])
    texts = _checkpoints(scenario)
    return [*seeds, *({**node, f"state/{name}": text.encode()} for name, text in texts)]


def _checkpoints(value: Any) -> list[tuple[str, str]]:
    """State files inside a recording."""
    if isinstance(value, Mapping):
        own = [
            (name, text)
            for name, text in value.items()
            if name.endswith(("_state", "_checkpoint")) and isinstance(text, str)
        ]
        return own + [pair for inner in value.values() for pair in _checkpoints(inner)]
    return [pair for inner in value for pair in _checkpoints(inner)] if isinstance(value, list) else []


def with_checksums(files: Files) -> Files:
    """State files whose checksums fit again, as far as they can be read."""
    from numawise.codec.checkpoint.look import encoded, look  # noqa: PLC0415

    changed = dict(files)
    for path, content in files.items():
        if path.startswith("state/"):
            try:
                seen = look(path.removeprefix("state/"), content.decode("utf-8", errors="replace"))
                changed[path] = encoded(seen).encode() if seen.readable else content
            except Exception:  # noqa: BLE001 - found when the file is read, not here
                continue
    return changed


def pods(shared: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from tests.nodetree import pod, pod_list  # noqa: PLC0415

    texts = [path.read_bytes() for path in sorted(EXAMPLES.glob("*/pods/*.yaml"))]
    texts += [pod_list().encode(), json.dumps(pod("a")).encode(), small_node()["pods.yaml"]]
    texts.append(b"---\n".join(path.read_bytes() for path in sorted(EXAMPLES.glob("claims/*.yaml"))))
    node = {**small_node(), "machine": small_node()["machine"].replace(b"x/gpu", b"nvidia.com/gpu")}
    texts += found(("../shared/data/gpu-pods/*.yaml",), shared=shared)
    rich = yaml.safe_load(small_node()["pods.yaml"])
    rich["spec"] |= {
        "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
        "overhead": {"cpu": "10m"},
        "resources": {"limits": {"cpu": "2", "memory": "2Gi"}},
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}, {"name": "h", "emptyDir": {"medium": "HugePages"}}],
        "hostPID": True,
        "runtimeClassName": "nvidia",
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
    }  # fmt: skip
    rich["spec"]["containers"][0] |= {
        "env": [{"name": "OMP_NUM_THREADS", "value": "8"}, {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        "command": ["sh", "-c", "numactl --cpunodebind=0 python x.py"],
        "args": ["--tp", "8"],
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
        "securityContext": {"privileged": True},
    }  # fmt: skip
    return [
        {**(node if b"nvidia" in text else small_node()), "pods.yaml": text}
        for text in [*texts, yaml.safe_dump(rich).encode()]
    ]


def workloads(shared: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    spec = yaml.safe_load(small_node()["pods.yaml"])["spec"]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    worker = {"replicas": 2, "template": template}
    bodies: dict[str, Any] = {
        "apps/v1 Deployment": {"replicas": 2, "template": template},
        "apps/v1 StatefulSet": {"replicas": 2, "template": template, "volumeClaimTemplates": []},
        "apps/v1 DaemonSet": {"template": template},
        "apps/v1 ReplicaSet": {"replicas": 1, "template": template},
        "batch/v1 Job": {"parallelism": 2, "completions": 4, "template": template},
        "batch/v1 CronJob": {"schedule": "* * * * *", "jobTemplate": {"spec": {"parallelism": 2, "template": template}}},
        "kubeflow.org/v1 PyTorchJob": {"pytorchReplicaSpecs": {"Master": {**worker, "replicas": 1}, "Worker": worker}},
        "kubeflow.org/v2beta1 MPIJob": {"slotsPerWorker": 2, "mpiReplicaSpecs": {"Launcher": worker, "Worker": worker}},
        "trainer.kubeflow.org/v1alpha1 TrainJob": {"runtimeRef": {"name": "r"}, "trainer": {"numNodes": 2, "resourcesPerNode": {"limits": {"cpu": 1}}}},
        "ray.io/v1 RayCluster": {"headGroupSpec": {"template": template}, "workerGroupSpecs": [{"groupName": "g", **worker, "numOfHosts": 2}]},
        "ray.io/v1 RayJob": {"rayClusterSpec": {"headGroupSpec": {"template": template}, "workerGroupSpecs": [worker]}},
        "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "leaderTemplate": template, "workerTemplate": template}},
        "jobset.x-k8s.io/v1alpha2 JobSet": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": template}}}]},
        "batch.volcano.sh/v1alpha1 Job": {"minAvailable": 2, "tasks": [{"name": "t", **worker}]},
        "serving.knative.dev/v1 Service": {"template": template},
        "serving.kserve.io/v1beta1 InferenceService": {"predictor": {"minReplicas": 1, **spec}},
        "nvidia.com/v1alpha1 DynamoGraphDeployment": {"services": {"a": {"replicas": 2, "resources": {"limits": {"gpu": "1"}}, "extraPodSpec": {"mainContainer": {"image": "i"}}}}},
        "example.com/v1 Unknown": {"deep": {"er": [{"template": template}]}},
    }  # fmt: skip
    objects = []
    for name, body in bodies.items():
        version, kind = name.split()
        objects.append({"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": body})
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": {"name": "r"},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": template}}}]}}},
    }  # fmt: skip
    objects.append({"apiVersion": "v1", "kind": "List", "items": [objects[8], runtime, objects[0]]})
    texts = [yaml.safe_dump(one).encode() for one in objects]
    texts.append(yaml.safe_dump_all(objects[:3]).encode())
    texts += found(("../shared/data/gpu-pods/*.yaml",), shared=shared)
    return [{**small_node(), "pods.yaml": text} for text in texts]


def check_examples(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from tests.check.examples import examples  # noqa: PLC0415

    cases = []
    for one in examples():
        files = {name: body.encode() for name, body in one.files.items() if not body.startswith("= ")}
        files |= {name: small_node()["machine"] for name, body in one.files.items() if body.startswith("= ")}
        if files:
            cases.append({**files, COMMAND: one.command.encode()})
    return cases


def node_objects(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    place = EXAMPLES / "8gpu-server"
    node = yaml.safe_load((place / "node-object.yaml").read_bytes())
    pods = {"pods.yaml": (place / "constraints.yaml").read_bytes()}
    texts = [yaml.safe_dump(node), json.dumps(node), json.dumps({"kind": "List", "items": [node]})]
    return [{**small_node(), **pods, "node.yaml": text.encode()} for text in texts]


def arrivals(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    pod = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}
    rows: list[dict[str, object]] = [
        {"at": 0, "seconds": 60, "name": "a", "gpus": 1, "cpu": "1", "memory": "1Gi"},
        {"at": "1m", "seconds": "5m", "pod": {"kind": "Pod", "metadata": {"name": "b"}, **pod}},
        {"at": 3.5, "seconds": 7, "resources": {"cpu": "2", "x/gpu": 1}},
        {"at": 4, "seconds": 7, "file": "pods.yaml"},
    ]
    texts = ["".join(json.dumps(row) + "\n" for row in rows), json.dumps(rows), yaml.safe_dump_all(rows)]
    return [{**small_node(), "day.jsonl": text.encode()} for text in texts]


def scenarios(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    steps = [
        {"add": "pods.yaml", "at": "1m"}, "reconcile", {"start": "train", "after": "5s"}, {"remove": "train"},
        {"restart": {"config": "kubelet.yaml", "delete": ["cpu_manager_state"], "plugins": "after-pods"}},
        {"devices": {"x/gpu": {"gone": ["a"], "unhealthy": "all"}}},
        {"node": {"kind": "Node", "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}}, {"fill": "pods.yaml"}, {"restart": None},
    ]  # fmt: skip
    day = (EXAMPLES / "8gpu-server/day.yaml").read_bytes()
    place = EXAMPLES / "8gpu-server"
    large = {f"pods/{path.name}": path.read_bytes() for path in sorted((place / "pods").glob("*.yaml"))}
    large |= {path.name: path.read_bytes() for path in sorted(place.glob("*.yaml"))}
    texts = [yaml.safe_dump(steps).encode(), json.dumps({"steps": steps}).encode()]
    small: list[Files] = [{**small_node(), "steps.yaml": text} for text in texts]
    return [*small, {**large, "machine": large["machine.yaml"], "steps.yaml": day}]


def logs(shared: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    texts = found(("recorded/kubelet-logs/*.log", "../shared/data/kubelet-logs/*.log"), shared=shared)
    texts += [text[: 1 << 12] for text in texts]
    return [{**small_node(), "log": text} for text in texts]


def hints(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    texts = (
        "0! 1! 0-1", "cpu: 10! 01! 11\nx/gpu: 01! 11", "map[cpu:[{01 true} {10 true} {11 false}]]",
        'hints={"cpu":[{"NUMANodeAffinity":1,"Preferred":true}]}', "*", "[{1 true}]",
    )  # fmt: skip
    return [{"hints": text.encode()} for text in (*texts, "cpu=0! 1! 0-1", "memory=*\ncpu=1!")]


def traces(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    lines = []
    for name in ("doc-cases", "bad-config", "quirks", "returning-pods", "corner-cases", "traces-dev"):
        for line in _lines(f"recorded/v1.36.4/{name}.jsonl.gz", 6):
            value = json.loads(line)
            lines.append(json.dumps({"scenario": value["scenario"]}).encode())
    return [{"trace.jsonl": line, "stdin": line} for line in lines]


# --- bundles --------------------------------------------------------------------------------


@cache
def _node_bundle() -> dict[str, bytes]:
    """The members of a bundle of the small node."""
    import contextlib  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    from numawise.cli.main import main  # noqa: PLC0415
    from numawise.codec.bundle.archive import read_members  # noqa: PLC0415
    from tests.nodetree import grow_node, pod_list  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as name:
        root, out, listed = (Path(name) / part for part in ("root", "b.tgz", "pods.json"))
        grow_node(root)
        listed.write_text(pod_list())
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main(["bundle", "--root", str(root), "-o", str(out), "--pods", str(listed), "--kube", "1.36"])
        return dict(read_members(str(out)))


def bundles(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    return [{**_below("members", _node_bundle()), "pods.yaml": small_node()["pods.yaml"]}]


def sealed(files: Files) -> Files:
    """A bundle whose manifest lists its members with the right checksums."""
    from numawise.codec.bundle.manifest import sha256  # noqa: PLC0415

    name = "members/manifest.json"
    try:
        manifest = json.loads(files[name])
        manifest["members"] = [
            {"name": path.removeprefix("members/"), "size": len(content), "sha256": sha256(content)}
            for path, content in files.items()
            if path.startswith("members/") and path != name
        ]
    except (ValueError, TypeError, KeyError):
        return files
    return {**files, name: json.dumps(manifest).encode()}


def archives(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from numawise.codec.bundle.archive import pack  # noqa: PLC0415

    packed = pack(_node_bundle(), 0)
    hostile = io.BytesIO()
    with tarfile.open(fileobj=hostile, mode="w") as archive:
        for name, kind in (("bundle/manifest.json", tarfile.REGTYPE), ("bundle/../x", tarfile.REGTYPE), ("/etc/x", tarfile.REGTYPE),
                           ("bundle/l", tarfile.SYMTYPE), ("bundle/h", tarfile.LNKTYPE), ("bundle/c", tarfile.CHRTYPE),
                           ("bundle/f", tarfile.FIFOTYPE), ("bundle/d", tarfile.DIRTYPE), ("bundle/" + "n" * 150, tarfile.REGTYPE)):  # fmt: skip
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size = kind, "/etc/passwd", 3 if kind == tarfile.REGTYPE else 0
            archive.addfile(entry, io.BytesIO(b"{}\n"))
    bomb = gzip.compress(bytes(64 << 20), 9)
    plain = gzip.decompress(packed)
    return [
        {"b.tgz": data}
        for data in (packed, plain, hostile.getvalue(), gzip.compress(hostile.getvalue()), bomb)
    ]


def nodes(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from tests.nodetree import node_tree, pod_list  # noqa: PLC0415

    return [
        {**_below("root", _tree(node_tree(running=running))), "pods.json": pod_list().encode()}
        for running in (True, False)
    ]


def watched_nodes(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    """A node with the control groups of its pods, and the pods as an API server lists them."""
    from tests.nodetree import node_tree  # noqa: PLC0415
    from tests.watched import RECORDED, numa_stat  # noqa: PLC0415

    groups: Files = {"root/sys/fs/cgroup/cgroup.controllers": b"cpuset memory\n"}
    for line in (RECORDED / "cgroup-cpuset.txt").read_text().splitlines():
        path, _, text = line.partition("=")
        groups[f"root/sys/fs/cgroup/{path}"] = f"{text}\n".encode()
        if path.endswith("cpuset.cpus"):
            stat = path.replace("cpuset.cpus", "memory.numa_stat")
            groups[f"root/sys/fs/cgroup/{stat}"] = numa_stat("N0=100 N1=7").encode()
    device = {"resourceName": "example.com/gpu", "deviceIds": ["gpu0"], "topology": {"nodes": [{"ID": 1}]}}
    claimed = {"driverName": "gpu.x", "poolName": "n1", "deviceName": "gpu-0"}
    claim = {"claimName": "gpu", "claimNamespace": "default", "claimResources": [claimed]}
    container = {"name": "c", "cpuIds": ["2", "3"], "devices": [device], "dynamicResources": [claim]}
    answers = {
        "List": {"podResources": [{"name": "a-n1", "namespace": "default", "containers": [container]}]}
    }
    slices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.x",
            "pool": {"name": "n1", "generation": 1},
            "devices": [
                {"name": "gpu-0", "attributes": {"resource.kubernetes.io/numaNode": {"int": 1}}},
            ],
        },
    }
    return [
        {
            **_below("root", _tree(node_tree())),
            **groups,
            "pods.json": (RECORDED / "pods.json").read_bytes(),
            "answers.json": json.dumps(answers).encode(),
            "slices.json": json.dumps(slices).encode(),
        }
    ]


# --- this host and its clusters -------------------------------------------------------------


def agents(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    """Configurations of the agent, our own and NVIDIA's, with made-up devices and some files to offer."""
    root = Path(__file__).parents[2] / "examples"
    fakes = (root / "agent/fake.yaml").read_bytes()
    configs = [
        path.read_bytes()
        for path in (root / "agent/agent.yaml", *sorted((root / "device-plugin").glob("[cs]*.yaml")))
    ]
    every = b"""agent: v1
resources:
- {name: a.b/x, paths: ["/dev/x*"], replicas: 2, answer: {env: X, cdi: a.b/x, nodes: [/dev/y]}}
- {name: a.b/y, pci: {vendor: "10de", device: ["1"], class: "03", driver: nvidia}, answer: {nodes: true}}
- {name: a.b/z, nvidia: {flags: {failOnInitError: false, plugin: {passDeviceSpecs: true}}}}
health: {ignoredXids: [13]}
"""
    files = {"fake.yaml": fakes, "dev/x0": b"", "dev/x1": b""}
    return [{"agent.yaml": config, **files} for config in (*configs, every)]


def settings(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    system = b'reserved-cpus = "0-1"\npolicy = "restricted"\nledger = "/var/lib/x"\n'
    user = b'policy = "best-effort"\n[a]\nb = [1, 2.5, 1979-05-27T07:32:00Z, """x""", {c = true}]\n'
    box = b'ledger = "/var/lib/numawise"\ngroup = "gpu-users"\nfence-gpus = true\n'
    return [
        {
            "root/etc/numawise/box.toml": box,
            "root/etc/numawise/config.toml": system,
            "home/.config/numawise/config.toml": user,
        }
    ]


def kubeconfigs(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from tests.unit.codec.test_kubeconfig import FIRST, SECOND  # noqa: PLC0415

    users: tuple[dict[str, Any], ...] = (
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "issuer", "args": ["a"], "env": [{"name": "A", "value": "b"}]}},
        {"client-certificate-data": "QUJD", "client-key-data": "QUJD"},
        {"username": "u", "password": "p"},
        {"tokenFile": "token"},
    )  # fmt: skip
    texts = [FIRST.encode(), SECOND.encode()]
    for user in users:
        cluster = {
            "server": "https://127.0.0.1:1",
            "insecure-skip-tls-verify": True,
            "proxy-url": "http://127.0.0.1:2",
            "tls-server-name": "x",
        }
        value = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
        }  # fmt: skip
        texts.append(yaml.safe_dump(value).encode())
    return [{"config": text, "token": b"secret"} for text in texts]


def api_answers(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from tests.nodetree import CONFIG, pod, pod_list  # noqa: PLC0415
    from tests.unit.codec.test_kubeconfig import FIRST  # noqa: PLC0415

    event = {
        "metadata": {"name": "e", "namespace": "acme"}, "involvedObject": {"kind": "Pod", "name": "train-c-n1"},
        "reason": "TopologyAffinityError", "message": "Resources cannot be allocated with Topology locality",
        "lastTimestamp": "2026-11-15T02:20:45Z", "source": {"component": "kubelet", "host": "n1"},
    }  # fmt: skip
    answers: dict[str, Any] = {
        "train-c-n1": pod("c"),
        "configz": {"kubeletconfig": yaml.safe_load(CONFIG)},
        "events": {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [event]},
        "n1": {"metadata": {"name": "n1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.4", "machineID": "x"}, "capacity": {"cpu": "8"}}},
        "pods": json.loads(pod_list()),
    }  # fmt: skip
    answers["pods"]["metadata"] = {"continue": ""}
    good = {f"answers/{name}": b"200\n" + json.dumps(value).encode() for name, value in answers.items()}
    gone = {
        **good,
        "answers/train-c-n1": b'404\n{"kind":"Status","status":"Failure","message":"gone","code":404}',
    }
    return [{**files, "config": FIRST.encode()} for files in (good, good, gone)]


def cluster_dumps(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    """What kubectl prints of a small cluster, and its disruption budgets."""
    from tests.unit.cluster.live_objects import api_node, api_pod, published  # noqa: PLC0415
    from tests.unit.cluster.nodes import GPU, kubelet  # noqa: PLC0415

    pods = [api_pod("a", 4, "n1"), api_pod("b", 2, "n1"), api_pod("waits", 4), api_pod("huge", 8)]
    for one in pods[:2]:
        one["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
    pods[2]["spec"]["schedulingGates"] = [{"name": "numawise.dev/hold"}]
    pods[0]["status"] = {
        "phase": "Running", "qosClass": "Guaranteed", "startTime": "2026-11-16T10:00:02Z",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-16T10:00:01Z"}],
        "containerStatuses": [{"name": "c", "state": {"running": {}}, "allocatedResources": {"cpu": "1"}}],
    }  # fmt: skip
    pods[1]["status"] = {
        "phase": "Failed",
        "reason": "TopologyAffinityError",
        "message": "Resources cannot be allocated",
    }
    pods[3]["status"] = {
        "phase": "Pending", "nominatedNodeName": "n1",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available"}],
    }  # fmt: skip
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pods[3]["spec"] |= {
        "affinity": {"nodeAffinity": required},
        "nodeSelector": {"zone": "a"},
        "os": {"name": "linux"},
    }
    nodes = [api_node(name) for name in ("n1", "n2")]
    nodes[0]["metadata"]["labels"] |= {"pool": "gpu", "zone": "a"}
    nodes[0]["metadata"]["annotations"] = {"node.alpha.kubernetes.io/ttl": "0"}
    nodes[0]["status"]["conditions"] += [
        {"type": "DiskPressure", "status": "False", "message": "kubelet has no disk pressure"}
    ]
    nodes[0]["status"]["nodeInfo"] |= {"kernelVersion": "6.1.0", "machineID": "x", "operatingSystem": "linux"}
    nodes[1]["status"]["allocatable"] = {"cpu": "8", "memory": "16Gi", GPU: "4"}
    nodes[1]["spec"] = {"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}
    items = [{"kind": "Pod", **one} for one in pods] + [{"kind": "Node", **one} for one in nodes]
    zones = yaml.safe_load(topologies()[0])
    zones["metadata"] = {"name": "n2"}
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}},
        "status": {"disruptionsAllowed": 1},
    }
    whole = {"kind": "List", "items": [*items, published(kubelet(), "n1"), zones]}
    files = {"budgets.json": json.dumps([budget]).encode(), "selector": b"pool=gpu,zone notin (a,b),!x"}
    return [{**files, "dump.json": json.dumps(whole).encode()}]


def engines(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    container = {
        "Id": "a" * 64, "Name": "/job", "State": {"Status": "running", "Pid": 4711}, "HostConfig": {"RestartPolicy": {"Name": "always"}},
        "Config": {"Labels": {"numawise.hold": "bcd2"}},
    }  # fmt: skip
    text = json.dumps([container, {**container, "Id": "b" * 64}])
    return [{"inspect": text.encode()}, {"inspect": f"{text}\n----\nError: No such container: b".encode()}]


def refused_pods(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from numawise.apps.heal.hold_list import ListedHold  # noqa: PLC0415
    from tests.unit.apps.heal.pods import held, pod, refused  # noqa: PLC0415

    owner = refused().owner
    assert owner is not None
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    waiting = held()
    waiting["spec"]["affinity"] = {"nodeAffinity": required}
    waiting["metadata"]["annotations"] = {"numawise.dev/steered": "n1,n2"}
    rest = {
        "owner": {
            "metadata": {"uid": "u-web", "labels": {}},
            "spec": {"replicas": 1},
            "status": {"conditions": []},
        },
        "holds": {owner.of.key: ListedHold(owner, 1e9, 1e9, 1, 2, ("n1",)).text},
        "lease": {
            "metadata": {"resourceVersion": "1"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 1},
        },
    }
    return [
        {"seen.json": json.dumps({"pod": one, **rest}).encode()}
        for one in (pod(), waiting, pod(owner=("Job", "j"), containerStatuses=[{"name": "c", "state": {}}]))
    ]


def cdi(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    value = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "0", "containerEdits": {}}, {"name": "all"}],
    }
    files = {
        "etc/cdi/gpu.yaml": yaml.safe_dump(value).encode(),
        "var/run/cdi/gpu.json": json.dumps(value).encode(),
    }
    return [files, {**files, "etc/cdi/pipe.yaml": PIPE, "etc/cdi/loop.json": LINK + b"loop.json"}]


def processes(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from tests.nodetree import node_tree  # noqa: PLC0415
    from tests.unit.host.test_placed import process  # noqa: PLC0415

    recorded = TESTS / "host/recorded/cuda-job"
    job = {
        f"proc/422/{name}": (recorded / name).read_bytes() for name in ("maps", "numa_maps", "stat", "status")
    }
    job |= {f"proc/422/task/422/{name}": job[f"proc/422/{name}"] for name in ("stat", "status")}
    extra = {
        "proc/422/cgroup": b"0::/user.slice/numawise-bcd2.scope\n4:cpuset:/docker/" + b"a" * 64 + b"\n",
        "proc/422/environ": b"NUMAWISE_HOLD=bcd2\0PATH=/bin\0",
        "proc/422/cmdline": b"python\0x.py\0",
        "proc/422/fd/3": LINK + b"/dev/nvidia0",
        "proc/stat": b"cpu 1 2 3\nbtime 1700000000\n",
        "proc/sys/kernel/random/boot_id": b"3f1c9a7e-5b2d-4c60-a1e8-f7d6c5b4a392\n",
        "proc/driver/nvidia/gpus/0000:17:00.0/information": b"Device Minor: 0\n",
        "sys/devices/system/node/node0/meminfo":
            b"Node 0 MemTotal: 900 kB\nNode 0 MemFree: 100 kB\nNode 0 Active(file): 9 kB\nNode 0 KReclaimable: 7 kB\n",
        "proc/zoneinfo": b"Node 0, zone   Normal\n  pages free     5\n        low      2\n        high     3\n"
            b"        managed  99\n        protection: (0, 4, 4)\n  pagesets\n    cpu: 0\n",
        "proc/vmstat": b"oom_kill 5\n",
        "sys/fs/cgroup/numawise/bcd2/memory.numa_stat": b"anon N0=4096 N1=0\nshmem N0=1 N1=2\n",
        "sys/fs/cgroup/numawise/bcd2/memory.events": b"max 1\noom 1\noom_kill 1\n",
        "sys/fs/cgroup/numawise/bcd2-v1/memory.numa_stat": b"total=9 N0=9\nanon=5 N0=5\n",
        "sys/fs/cgroup/numawise/bcd2-v1/memory.oom_control": b"under_oom 0\noom_kill 1\n",
        "sys/fs/cgroup/numawise/bcd2-v1/memory.failcnt": b"3\n",
    }  # fmt: skip
    whole = _tree({**node_tree(), **process(500), **process(501, parent=500, name="a) b")})
    return [_below("root", {**whole, **job, **extra}), _below("root", {**job, **extra})]


def maps(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    recorded = TESTS / "host/recorded/cuda-job"
    return [{name: (recorded / name).read_bytes() for name in ("maps", "numa_maps")}]


def nvml(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    calls: list[tuple[Any, ...]] = [("nvmlDeviceGetCount", 2)]
    for at in range(2):
        gpu = f"g{at}"
        calls += [
            ("nvmlDeviceGetHandleByIndex", at, {"handle": gpu}), ("nvmlDeviceGetUUID", gpu, f"GPU-{at}"),
            ("nvmlDeviceGetPciInfo", gpu, {"struct": {"busId": f"00000000:{at + 16:02X}:00.0"}}),
            ("nvmlDeviceGetName", gpu, "NVIDIA H100"), ("nvmlDeviceGetMemoryInfo", gpu, {"struct": {"total": 1 << 36}}),
            ("nvmlDeviceGetCpuAffinityWithinScope", gpu, 32, 0, {"list": [255, 0]}),
            ("nvmlDeviceGetMemoryAffinity", gpu, 16, 0, {"list": [1]}), ("nvmlDeviceGetNumaNodeId", gpu, 0),
            ("nvmlDeviceGetMigMode", gpu, {"list": [1, 1]}), ("nvmlDeviceGetMaxMigDeviceCount", gpu, 1),
            ("nvmlDeviceGetMigDeviceHandleByIndex", gpu, 0, {"handle": f"{gpu}m"}), ("nvmlDeviceGetUUID", f"{gpu}m", f"MIG-{at}"),
            ("nvmlDeviceGetNvLinkState", gpu, 0, 1), ("nvmlDeviceGetNvLinkRemoteDeviceType", gpu, 0, 2),
            ("nvmlDeviceGetTopologyCommonAncestor", gpu, f"g{1 - at}", 50),
        ]  # fmt: skip
    rows = [{"call": call[0], "arguments": list(call[1:-1]), "answer": call[-1]} for call in calls]
    recorded = (TESTS / "host/recorded/nvml-h200.json").read_bytes()
    return [{"recording": recorded}, {"recording": json.dumps({"calls": rows}).encode()}]


def ranks(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    texts = (
        "LOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nRANK=1\nWORLD_SIZE=2\n",
        "OMPI_COMM_WORLD_LOCAL_RANK=0\nOMPI_COMM_WORLD_LOCAL_SIZE=2\nCUDA_VISIBLE_DEVICES=0,1\n",
        "SLURM_LOCALID=1\nSLURM_STEP_TASKS_PER_NODE=2(x3),1\nSLURM_NODEID=1\nSLURM_NTASKS=4\nSLURM_JOB_GPUS=0-3\n",
        "PALS_LOCAL_RANKID=1\nPMI_LOCAL_SIZE=2\nROCR_VISIBLE_DEVICES=GPU-1\nHIP_VISIBLE_DEVICES=0\n",
        "NUMAWISE_HOLD=bcd2\nNUMAWISE_CPUS=0-3\nNUMAWISE_POLICY=restricted\nNUMAWISE_RESERVED_CPUS=0\nOMP_NUM_THREADS=4\n",
        "CUDA_VISIBLE_DEVICES=GPU-1b122d05-8c93-e80c-c42d-a43b421ae510,MIG-x\nNVIDIA_VISIBLE_DEVICES=all\nNCCL_IB_HCA=mlx5_0\n",
        "RAY_JOB_ID=01\nRAY_NODE_ID=2\nHOROVOD_LOCAL_RANK=0\nMV2_COMM_WORLD_LOCAL_RANK=0\nMPI_LOCALRANKID=0\nMPI_LOCALNRANKS=2\n",
    )  # fmt: skip
    return [{"environment": text.encode()} for text in texts]


def ledgers(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    from numawise.ledger.place import boot_id, machine_id  # noqa: PLC0415

    hold = {
        "id": "bcd23", "name": "train", "kind": "run", "boot": boot_id(), "pid": 4000000, "start": 7, "namespace": 0, "cpus": "0-1",
        "mems": "0", "memory": [{"numa": "0", "bytes": 1 << 30}], "devices": {"nvidia.com/gpu": ["GPU-1"]}, "mode": "cgroup v2",
        "cgroup": "/numawise/bcd23", "policy": "restricted", "command": ["python", "train.py"], "labels": {"a": "b"}, "since": 1.7e9,
    }  # fmt: skip
    other = {
        **hold,
        "id": "fgh45",
        "name": "serve",
        "kind": "container",
        "pid": 0,
        "engine": "docker",
        "container": "a" * 64,
        "cpus": "2",
    }
    shared = {
        "id": "jkm67",
        "name": "",
        "kind": "python",
        "boot": boot_id(),
        "pid": 4000001,
        "start": 8,
        "namespace": 7,
        "near": "0",
        "cpuLimit": 500,
        "labels": {"within": "cpus 0-1; mems 0; gpus 0000:18:00.0"},
    }
    waiter = {
        "id": "npq89",
        "boot": boot_id(),
        "pid": 4000002,
        "start": 9,
        "namespace": 0,
        "request": "2 CPUs",
        "since": 1.7e9,
    }
    head = {"apiVersion": "numawise.dev/v1", "kind": "Ledger", "machine": machine_id(), "host": "n1"}
    value = {**head, "holds": [hold, {**other, "mode": "", "cgroup": ""}, shared], "waiters": [waiter]}
    own = {f"ledger/numawise-{os.geteuid()}.json": json.dumps(value).encode()}
    strange = {
        "ledger/numawise-65534.json": json.dumps(value).encode(),
        "ledger/numawise-7.json": PIPE,
        "ledger/numawise-8.json": LINK + b"/dev/zero",
    }
    return [
        {**files, "environment": b"NUMAWISE_LEDGER={case}/ledger\n"}
        for files in (own, {**own, **strange}, strange)
    ]


def words(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    texts = (
        "1Gi", "100m", "0-3,8", "1.5", "2h30m", "1.36.4", "00000001,0000000f", "managed_irq,domain,1-3", "10m", "2024-08-15 22:24:53",
        "bind:0-1", "prefer (many):0", "NV18", "0000:17:00.0", "5%", "64G", "0! 1! 0-1", "422 (python3) S 1 422 1 0",
        "7f0000000000 default file=/x anon=1 N0=1 kernelpagesize_kB=4", 'I0815 22:24:53.1 1 x.go:1] "m" pod="a/b"',
        "Aug 15 22:24:53 n1 kubelet[1]: I0815 22:24:53.1 1 x.go:1] m", '{"ts":1.5,"msg":"m","v":4}',
    )  # fmt: skip
    return [{"words": text.encode()} for text in texts]


def descriptions(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    texts = (
        "2s 4n 64c 2t 8gpu nvlink 512g",
        "1s 2c",
        "2s-4n-64c-2t-8gpu",
        "dgx-h100",
        "mi300x",
        "4s 8n 96c 2t 4gpu 2nic 1t cxl",
        "2s 8c 1gpu/numa 64g",
    )
    return [{"words": text.encode()} for text in texts]


# --- command lines --------------------------------------------------------------------------

PLACES = {
    "--machine": ("{case}/machine", "2s 4c 2t 2gpu 8g", "dgx-h100", "{case}/root", "{case}/lscpu"),
    "--kubelet-config": ("{case}/kubelet.yaml",),
    "--config-dir": ("{case}/conf.d",),
    "--kubelet-flags": ("{case}/flags", "--cpu-manager-policy=static"),
    "--state": ("{case}/state",),
    "--bundle": ("{case}/b.tgz", "{case}/members"),
    "--root": ("{case}/root",),
    "--pods": ("{case}/pods.yaml", "{case}/pods.json"),
    "--steps": ("{case}/steps.yaml",),
    "--fill": ("{case}/pods.yaml",),
    "--compare": ("{case}/kubelet.yaml",),
    "--nodes": ("{case}:2", "{case}/machine:1", "2s 4c:3"),
    "--log": ("{case}/log",),
    "--hints": ("0! 1! 0-1", "{case}/hints"),
    "--out": ("{work}/out", "-", "{case}"),
    "--script": ("{work}/script",),
    "--kube": ("1.36", "1.20", "v1.37.0"),
    "--compare-kube": ("1.30,1.36",),
    "--upgrade": ("1.34:1.37",),
    "--to": ("1.37", "1.20"),
    "--kubeconfig": ("{case}/config",),
    "--kubelet-dir": ("{case}/root/var/lib/kubelet",),
    "--from": ("{case}/lscpu", "{case}/machine"),
    "--cpus": ("2", "1500m", "0-1"),
    "--memory": ("1Gi", "64G"),
    "--select": ("NW1", "NW301,NW4"),
    "--ignore": ("NW1", "NW301,NW4"),
    "--explain": ("NW301", "all"),
    "--wait": ("0", "10s"),
    "pods": ("{case}/pods.yaml", "{case}/pods.json", "-", "pod/train", "acme/train-a-n1"),
    "files": ("{case}/machine", "{case}/lscpu", "{case}/trace.jsonl", "{case}/pods.yaml", "-"),
    "machine": ("{case}/machine", "{case}/root", "2s 4c", "this"),
    "state": ("{case}/state",),
    "file": ("{case}/b.tgz",),
    "old": ("{case}/kubelet.yaml",),
    "new": ("{case}/kubelet.yaml",),
    "words": ("2s", "4c", "8gpu"),
    "name": ("dgx-h100",),
    "kind": ("Simulation", "Hardware"),
    "subject": ("1", "self"),
    "holds": ("bcd2",),
}
SAFE = {
    "run": "--dry-run",
    "bind": "--dry-run",
    "docker": "--print",
    "podman": "--print",
    "nerdctl": "--print",
}
"""What keeps a command from starting a job."""


def whole_nodes(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
    node = {**small_node(), **states(False)[0], **flags(False)[1], **nodes(False)[1], **archives(False)[0]}
    node |= {
        **bundles(False)[0],
        **scenarios(False)[0],
        **logs(False)[0],
        **hints(False)[0],
        **kubeconfigs(False)[0],
    }
    node |= {
        "conf.d/10.conf": b"maxPods: 3\n",
        "trace.jsonl": traces(False)[0]["trace.jsonl"],
        "stdin": small_node()["pods.yaml"],
    }
    return [{**node, "lscpu": found(("machines/data/texts/lscpu/*.txt",), shared=False)[0]}]


@cache
def commands() -> tuple[tuple[tuple[str, ...], tuple[click.Parameter, ...]], ...]:
    """Every command of the tree with its parameters."""
    from numawise.cli.main import group  # noqa: PLC0415

    leaves: list[tuple[tuple[str, ...], tuple[click.Parameter, ...]]] = []

    def walk(command: click.Command, path: tuple[str, ...], context: click.Context) -> None:
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                walk(inner, (*path, name), context)
        if path:
            leaves.append((path, tuple(command.params)))

    walk(group, (), click.Context(group))
    return tuple(leaves)


def command_line(random: Random, files: Files) -> Case:
    """A command with some of its options, good and bad values mixed; sometimes damaged as a whole."""
    path, parameters = random.choice(commands())
    odd = random.choice((0.0, 0.1, 0.4))
    options: list[str] = []
    arguments: list[str] = []
    for parameter in parameters:
        positional = isinstance(parameter, click.Argument)
        if random.random() > (0.8 if positional or parameter.required else 0.2):
            continue
        for _ in range(random.choice((1, 1, 2)) if parameter.multiple or parameter.nargs == -1 else 1):
            value = _value(parameter, random, odd)
            if positional:
                arguments.append(value)
            elif getattr(parameter, "is_flag", False):
                options.append(random.choice(parameter.opts))
            else:
                name = random.choice(parameter.opts)
                options += (
                    [f"{name}={value}"] if random.random() < 0.3 and name.startswith("--") else [name, value]
                )
    options += [SAFE[path[0]]] if path[0] in SAFE else []
    rest = [
        "--",
        *random.choice((["true"], ["run", "debian"], ["run", "--gpus", "all", "x"], [random.choice(WORDS)])),
    ]
    words = [*path, *options, *arguments, *(rest if path[0] in SAFE else [])]
    if random.random() < odd / 2:
        at = random.randrange(len(path), len(words) + 1)
        words[at:at] = [_odd(random)]
    if random.random() < 0.05:
        words = shlex.split(_clean(mutated(shlex.join(words).encode("utf-8", "surrogatepass"), random))) or [
            "-h"
        ]
        words += (
            [SAFE[words[0]]]
            if words[0] in SAFE
            and SAFE[words[0]] not in words[: words.index("--") if "--" in words else None]
            else []
        )
    return Case(tuple(word.replace("\0", "") for word in words), files)


def _clean(raw: bytes) -> str:
    """What a shell can split."""
    text = raw.decode("utf-8", "surrogateescape")
    try:
        shlex.split(text)
    except ValueError:
        return text.replace("'", "").replace('"', "").replace("\\", "")
    return text


def _odd(random: Random) -> str:
    """A word of nonsense, as the system would hand it to a program."""
    if random.random() < 0.1:
        return b"\xff\xfe".decode("utf-8", "surrogateescape")
    return random.choice(WORDS).encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")


def _value(parameter: click.Parameter, random: Random, odd: float) -> str:
    if random.random() < odd:
        return _odd(random)
    if isinstance(parameter.type, click.Choice):
        return str(random.choice(list(parameter.type.choices)))
    names: list[str] = [name for name in (*parameter.opts, parameter.name or "") if name in PLACES]
    if names:
        return random.choice(PLACES[names[0]])
    if parameter.type.name.startswith(("integer", "float")):
        return random.choice(("0", "1", "2", "3", "8", "100"))
    return random.choice(("x", "train", "n1", "1", "0-1", "1Gi", "{case}/machine"))

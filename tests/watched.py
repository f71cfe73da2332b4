"""A node to be watched: state files of a kubelet, pods as an API server lists them, and control groups.

The groups are folders with plain files, or real ones: ``Groups`` says where they are and how they are written.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from numawise.apps.agent.sight_values import KubeletSight
from numawise.codec.checkpoint import CPU_FILE, MEMORY_FILE, encode_cpu, encode_memory
from numawise.codec.podresources import PodResources
from numawise.engine.state import Block, CpuState, MemoryState, MemoryTable, NumaMemory
from numawise.host.pod_groups import group_trees
from numawise.machine.hardware import Hardware, MemoryNode, Thread
from numawise.sets import parse_ids
from tests.nodetree import grow_node
from tests.waiting import until

GIB = 1 << 30
MACHINE = Hardware(
    threads=tuple(Thread(cpu, numa=cpu // 4) for cpu in range(8)),
    numa=tuple(MemoryNode(numa, 15 << numa * 4, memory=64 * GIB) for numa in range(2)),
)


RECORDED = Path(__file__).parent / "recorded/watch"


def recorded_node(root: Path, **own: str) -> Path:
    """The node of a real kubelet below a root: its state files, cpusets and links to logs; ``own``: pages of its
    pods a-n1, b-n1 and d-n1, as ``a="N0=100 N1=0"`` in MiB."""
    grow_node(root)
    top = root / "sys/fs/cgroup"
    lines = ["cgroup.controllers=cpuset memory", *(RECORDED / "cgroup-cpuset.txt").read_text().splitlines()]
    for line in lines:
        path, _, text = line.partition("=")
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(f"{text}\n")
    links = root / "var/log/containers"
    links.mkdir(parents=True)
    for pod in json.loads((RECORDED / "pods.json").read_text())["items"]:
        name, pod_uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        for status in pod["status"].get("containerStatuses", ()):
            id_ = status["containerID"].rpartition("/")[2]
            link = links / f"{name}_default_c-{id_}.log"
            link.symlink_to(f"/var/log/pods/default_{name}_{pod_uid}/c/0.log")
            if name[0] in own:
                (place,) = top.glob(f"kubepods/**/{id_}")
                (place / "memory.numa_stat").write_text(numa_stat(own[name[0]]))
    return root


def numa_stat(own: str) -> str:
    """``N0=100 N1=5`` in MiB, as a kernel writes it."""
    words = (word.partition("=") for word in own.split())
    return f"anon {' '.join(f'{name}={int(size) << 20}' for name, _, size in words)}\nfile N0=0 N1=0\n"


def uid(name: str) -> str:
    return f"{name.encode().hex():0>8.8}-0000-4000-8000-000000000000"


def container_id(name: str) -> str:
    return name.encode().hex().ljust(64, "0")[:64]


@dataclass
class WatchedNode:
    """What a kubelet granted, and what its containers have; tests change both."""

    root: Path
    hardware: Hardware = MACHINE
    pool: str = "0-1"
    cpus: dict[str, str] = field(default_factory=dict)
    """Pod → CPUs of its own; every pod has one container, ``c``."""
    mems: dict[str, str] = field(default_factory=dict)
    pods: list[dict[str, Any]] = field(default_factory=list)
    answers: PodResources | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kubelet_dir.mkdir(parents=True, exist_ok=True)

    @property
    def kubelet_dir(self) -> Path:
        return self.root / "var/lib/kubelet"

    @property
    def last(self) -> KubeletSight:
        """As whoever has the kubelet in sight has it."""
        return KubeletSight(
            hardware=self.hardware,
            texts=self.texts(),
            answers=self.answers,
            pods=tuple(self.pods),
            configuration=self.configuration,
            name="n1",
        )

    def texts(self) -> dict[str, str]:
        cpu = CpuState(
            parse_ids(self.pool), {uid(pod): {"c": parse_ids(cpus)} for pod, cpus in self.cpus.items()}
        )
        tables = {}
        for numa in range(2):
            users = sum(parse_ids(mems) == 1 << numa for mems in self.mems.values())
            table = MemoryTable(64 * GIB, 0, 64 * GIB, users * GIB, (64 - users) * GIB)
            tables[numa] = NumaMemory(users, {"memory": table}, 1 << numa)
        memory = MemoryState(
            tables,
            {uid(pod): {"c": (Block(parse_ids(mems), "memory", GIB),)} for pod, mems in self.mems.items()},
        )
        return {CPU_FILE: encode_cpu("static", cpu), MEMORY_FILE: encode_memory("Static", memory)}

    def save(self) -> None:
        """Write the state files, as the kubelet does after an admission."""
        for name, text in self.texts().items():
            (self.kubelet_dir / name).write_text(text)

    def add(self, pod: str, cpus: str = "", mems: str = "") -> None:
        """A pod that runs; without CPUs it is in the shared pool."""
        if cpus:
            self.cpus[pod] = cpus
        if mems:
            self.mems[pod] = mems
        status = {
            "name": "c",
            "containerID": f"containerd://{container_id(pod)}",
            "state": {"running": {}},
        }
        self.pods.append(
            {
                "metadata": {"name": pod, "namespace": "ml", "uid": uid(pod)},
                "status": {"phase": "Running", "containerStatuses": [status]},
            }
        )
        self.save()


class Folders:
    """Control groups version 2 as plain folders: what is written counts at once."""

    def __init__(self, root: Path) -> None:
        self.top = root / "sys/fs/cgroup"
        self.top.mkdir(parents=True)
        (self.top / "cgroup.controllers").write_text("cpuset memory\n")

    def place(self, pod: str) -> Path:
        return self.top / f"kubepods/pod{uid(pod)}" / container_id(pod)

    def put(self, pod: str, cpus: str, mems: str = "0-1", *, written: str | None = None) -> None:
        """What a container may use; ``written``: where that is something else."""
        place = self.place(pod)
        place.mkdir(parents=True, exist_ok=True)
        (place / "cpuset.cpus.effective").write_text(f"{cpus}\n")
        (place / "cpuset.mems.effective").write_text(f"{mems}\n")
        (place / "cpuset.cpus").write_text(f"{cpus if written is None else written}\n")
        (place / "cpuset.mems").write_text(f"{mems}\n")

    def pages(self, pod: str, own: str) -> None:
        """``N0=100 N1=5``, in MiB."""
        (self.place(pod) / "memory.numa_stat").write_text(numa_stat(own))


class RealGroups:
    """Control groups of this kernel: ``NAME/kubepods/pod<uid>/<id>`` in the trees of cpuset and memory."""

    def __init__(self, name: str) -> None:
        trees = group_trees()
        assert trees is not None
        self.trees, self.name = trees, name
        self.made: list[Path] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        top = Path("/", self.trees.cpuset)
        if self.trees.version == 2 and "cpuset" not in (top / "cgroup.subtree_control").read_text().split():
            (top / "cgroup.subtree_control").write_text("+cpuset +memory")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()
        for folder in reversed(self.made):
            until(partial(self._removed, folder), f"{folder} is empty")

    @staticmethod
    def _removed(folder: Path) -> bool:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def place(self, pod: str, tree: str = "") -> Path:
        return Path(
            "/", tree or self.trees.cpuset, self.name, "kubepods", f"pod{uid(pod)}", container_id(pod)
        )

    def file(self, pod: str, what: str) -> Path:
        """``cpus`` or ``mems`` of a container."""
        return self.place(pod) / f"{self.trees.prefix}{what}"

    def put(self, pod: str, cpus: str, mems: str) -> None:
        """The group of a container, with what it may use written into it."""
        for tree in dict.fromkeys((self.trees.cpuset, self.trees.memory)):
            folder = Path("/", tree)
            for part in self.place(pod, tree).relative_to(folder).parts:
                above, folder = folder, folder / part
                if not folder.is_dir():
                    folder.mkdir()
                    self.made.append(folder)
                    if self.trees.version == 1 and tree == self.trees.cpuset:
                        for name in self.trees.written:
                            (folder / name).write_text((above / name).read_text())
                if self.trees.version == 2 and folder.name != container_id(pod):
                    (folder / "cgroup.subtree_control").write_text("+cpuset +memory")
        self.file(pod, "cpus").write_text(cpus)
        self.file(pod, "mems").write_text(mems)

    def run(self, pod: str, *argv: str) -> "subprocess.Popen[bytes]":
        """A process in a container's groups from its beginning; it is ready when it has written a line."""
        places = [self.place(pod, tree) for tree in dict.fromkeys((self.trees.cpuset, self.trees.memory))]
        enter = " && ".join(f"echo 0 > {place}/cgroup.procs" for place in places)
        command = ["sh", "-c", f'{enter} && exec "$@"', "sh", *argv]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline(), "the process did not get so far"
        return process

"""What this host allows a placement tool to do: cgroups, rights, drivers, and a kubelet beside it."""

import os
from pathlib import Path

from numawise.errors import HostError
from numawise.host.files import Tree
from numawise.values import dataclass

ROOT = Path("/")
KUBELET_STATE = ("cpu_manager_state", "memory_manager_state")


@dataclass(frozen=True, slots=True)
class Readiness:
    """Facts about rights and software on one host."""

    root: bool = False
    """We run as root."""
    systemd: bool = False
    controllers: frozenset[str] | None = None
    """Controllers of our cgroup (version 2); None: not known."""
    cgroup_writable: bool = False
    """We may make cgroups below our own."""
    nvml_problem: str = ""
    """Why NVML cannot be used; '' when it can."""
    nvml_advice: str = ""
    """What to do about it."""
    nvidia_driver: bool = False
    """The kernel has NVIDIA's driver."""
    kubelet: tuple[str, ...] = ()
    """Traces of a kubelet: its state files."""
    docker: bool = False


def read_readiness(root: Path = ROOT, *, ask_nvml: bool = True) -> Readiness:
    """Look at the host; nothing is changed."""
    tree = Tree(root)
    group = _own_group(tree)
    controllers = tree.text(f"sys/fs/cgroup{group}/cgroup.controllers")
    state = root / "var/lib/kubelet"
    problem, advice = _nvml_problem() if ask_nvml else ("not asked", "")
    return Readiness(
        root=os.geteuid() == 0,
        systemd=(root / "run/systemd/system").is_dir(),
        controllers=None if controllers is None else frozenset(controllers.split()),
        cgroup_writable=os.access(root / f"sys/fs/cgroup{group}", os.W_OK),
        nvml_problem=problem,
        nvml_advice=advice,
        nvidia_driver=(root / "proc/driver/nvidia").exists() or (root / "sys/module/nvidia").exists(),
        kubelet=tuple(str(state / name) for name in KUBELET_STATE if (state / name).exists()),
        docker=(root / "var/run/docker.sock").exists() or (root / "run/docker.sock").exists(),
    )


def _own_group(tree: Tree) -> str:
    for line in (tree.text("proc/self/cgroup") or "").splitlines():
        if line.startswith("0::"):
            return line[3:].rstrip("/")
    return ""


def _nvml_problem() -> tuple[str, str]:
    from numawise.host.nvml_library import load  # noqa: PLC0415 - loads ctypes

    try:
        load()
    except HostError as error:
        return error.message, error.advice
    return "", ""

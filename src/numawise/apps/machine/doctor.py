"""What on a host stands in the way of jobs whose CPUs, memory and GPUs belong together, and what to do."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from numawise.host.readiness import Readiness
from numawise.machine.hardware import GPU, NIC, NVIDIA, Hardware, PciDevice
from numawise.sets import bits_of, format_ids

KUBELET_NUMA_LIMIT = 8


class Grade(Enum):
    """How much a finding matters."""

    GOOD = "ok"
    MIND = "mind"
    """Works, but not as well as it could."""
    BAD = "bad"
    """Stands in the way."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    grade: Grade
    subject: str
    found: str
    fix: str = ""


def examine(hardware: Hardware, ready: Readiness) -> tuple[Finding, ...]:
    """Everything that was looked at, in the order a person would check it."""
    return (
        *_numa(hardware),
        *_cpus(hardware),
        *_balancing(hardware),
        *_cgroups(hardware, ready),
        *_gpus(hardware, ready),
        *_devices(hardware),
        *_kubelet(ready),
    )


def _numa(hardware: Hardware) -> Iterator[Finding]:
    count = len(hardware.numa)
    if count == 0:
        fix = (
            "nothing to align by NUMA node; check that the kernel has CONFIG_NUMA and the firmware offers it"
        )
        yield Finding(Grade.MIND, "NUMA nodes", "the kernel shows none", fix)
        return
    if count == 1:
        fix = "in a virtual machine, ask for a NUMA topology; on hardware, check NPS or SNC in the firmware"
        yield Finding(Grade.MIND, "NUMA nodes", "only one, so everything is on it", fix)
        return
    yield Finding(Grade.GOOD, "NUMA nodes", f"{count}: {', '.join(str(node.id) for node in hardware.numa)}")
    if count > KUBELET_NUMA_LIMIT:
        fix = f'set max-allowable-numa-nodes: "{count}", and prefer single-numa-node: others may never finish'
        yield Finding(
            Grade.MIND, "NUMA limit", f"a kubelet refuses more than {KUBELET_NUMA_LIMIT} nodes", fix
        )
    empty = [node.id for node in hardware.numa if node.memory == 0]
    if empty:
        told = ", ".join(map(str, empty))
        fix = "put DIMMs into every socket's slots; jobs there have only remote memory"
        yield Finding(Grade.MIND, "NUMA memory", f"no memory on {told}", fix)


def _cpus(hardware: Hardware) -> Iterator[Finding]:
    online = bits_of(thread.cpu for thread in hardware.threads)
    if hardware.offline:
        fix = "switch SMT off or on altogether; with some threads offline a kubelet may hand out CPUs twice"
        yield Finding(Grade.MIND, "offline CPUs", format_ids(hardware.offline), fix)
    host = hardware.host
    if host is None:
        return
    if host.cpuset is not None and online & ~host.cpuset:
        fix = "run from a shell outside the container or slice that limits it"
        yield Finding(
            Grade.MIND,
            "own cpuset",
            f"this process may use {format_ids(host.cpuset) or 'none'} of {format_ids(online)}",
            fix,
        )
    if host.isolated:
        fix = "jobs must be pinned there one CPU each; remove isolcpus= unless that is what you want"
        yield Finding(Grade.MIND, "isolated CPUs", format_ids(host.isolated), fix)


def _balancing(hardware: Hardware) -> Iterator[Finding]:
    if hardware.host is None or hardware.host.numa_balancing is None or len(hardware.numa) < 2:
        return
    if hardware.host.numa_balancing:
        fix = "sysctl kernel.numa_balancing=0: bound jobs gain nothing from page scanning and pay for it"
        yield Finding(Grade.MIND, "NUMA balancing", "on", fix)
    else:
        yield Finding(Grade.GOOD, "NUMA balancing", "off")


def _cgroups(hardware: Hardware, ready: Readiness) -> Iterator[Finding]:
    version = hardware.host.cgroup if hardware.host else ""
    if version == "v2":
        yield Finding(Grade.GOOD, "cgroups", "version 2")
    elif version:
        fix = "boot with systemd.unified_cgroup_hierarchy=1; a kubelet from 1.35 on refuses version 1"
        yield Finding(Grade.MIND, "cgroups", f"version {version.removeprefix('v')}", fix)
    else:
        fix = "mount cgroup2 on /sys/fs/cgroup; without it jobs are bound by affinity alone"
        yield Finding(Grade.BAD, "cgroups", "none found", fix)
    missing = ready.controllers is not None and "cpuset" not in ready.controllers
    if version == "v2" and missing and not ready.root:
        fix = "systemctl set-property user.slice Delegate='cpuset cpu memory', or run as root"
        yield Finding(Grade.MIND, "cgroup delegation", "the cpuset controller is not delegated to us", fix)
    elif ready.root or ready.cgroup_writable:
        yield Finding(Grade.GOOD, "rights", "root" if ready.root else "cgroups may be made here")
    elif ready.systemd:
        yield Finding(Grade.GOOD, "rights", "no root; systemd scopes can be used")
    else:
        fix = "run as root, or use CPU affinity and memory policy alone"
        yield Finding(Grade.MIND, "rights", "no root, no delegated cgroup, no systemd", fix)


def _gpus(hardware: Hardware, ready: Readiness) -> Iterator[Finding]:
    nvidia = [d for d in hardware.pci if d.kind == GPU and d.vendor == NVIDIA]
    if not nvidia and not hardware.gpus:
        yield Finding(Grade.GOOD, "GPUs", "none")
        return
    known = len([gpu for gpu in hardware.gpus if not gpu.parent]) or len(nvidia)
    if not ready.nvml_problem:
        yield Finding(Grade.GOOD, "NVML", "1 GPU" if known == 1 else f"{known} GPUs")
    elif not nvidia:
        yield Finding(Grade.GOOD, "GPUs", f"{known}, by PCIe")
    elif not ready.nvidia_driver:
        fix = "install the NVIDIA driver"
        yield Finding(Grade.BAD, "NVIDIA driver", f"{len(nvidia)} GPUs on PCIe, and no driver", fix)
    else:
        fix = "pip install 'numawise[nvidia]'; until then links are guessed from PCIe, and NVLink is not seen"
        yield Finding(Grade.MIND, "NVML", ready.nvml_problem, fix)


def _devices(hardware: Hardware) -> Iterator[Finding]:
    if len(hardware.numa) < 2:
        return
    lost = [d for d in hardware.pci if d.kind in (GPU, NIC) and (d.numa is None or d.numa < 0)]
    if lost:
        fix = (
            "switch on ACPI NUMA locality (_PXM) in the firmware, or echo the node into its numa_node file; "
            "until then local CPUs decide"
        )
        told = ", ".join(_name(device) for device in lost[:4]) + (" …" if len(lost) > 4 else "")
        yield Finding(Grade.BAD, "device NUMA", f"numa_node is -1 for {told}", fix)


def _name(device: PciDevice) -> str:
    return f"{device.address} ({device.names[0]})" if device.names else device.address


def _kubelet(ready: Readiness) -> Iterator[Finding]:
    if ready.kubelet:
        fix = "let the kubelet place jobs here, or reserve CPUs for others with reservedSystemCPUs"
        yield Finding(Grade.MIND, "kubelet", f"this host is a Kubernetes node ({ready.kubelet[0]})", fix)

"""What on a host stands in the way of jobs whose CPUs, memory and GPUs belong together, and what to do."""

from collections.abc import Iterable, Iterator

from numawise.host.readiness import Readiness
from numawise.machine.hardware import GPU, GPUS_GUESSED, NIC, NVIDIA, Hardware, PciDevice
from numawise.results.finding import Finding, Severity
from numawise.sets import bits_of, format_ids

KUBELET_NUMA_LIMIT = 8


def good(subject: str, state: str) -> Finding:
    """Something that is as it should be."""
    return Finding(_code(subject), Severity.INFO, state, field=subject)


def mind(subject: str, state: str, fix: str) -> Finding:
    """Works, but not as well as it could."""
    return Finding(_code(subject), Severity.WARNING, state, field=subject, fix=fix)


def _bad(subject: str, state: str, fix: str) -> Finding:
    """Stands in the way."""
    return Finding(_code(subject), Severity.ERROR, state, field=subject, fix=fix)


def _code(subject: str) -> str:
    return subject.lower().replace(" ", "-")


def examine(hardware: Hardware, ready: Readiness, sharing: Iterable[Finding] = ()) -> tuple[Finding, ...]:
    """Everything that was looked at, in the order a person would check it; ``sharing``: of host and users."""
    return (
        *_numa(hardware),
        *_cpus(hardware),
        *_balancing(hardware),
        *_cgroups(hardware, ready),
        *_gpus(hardware, ready),
        *_devices(hardware),
        *_kubelet(ready),
        *sharing,
    )


def _numa(hardware: Hardware) -> Iterator[Finding]:
    count = len(hardware.numa)
    if count == 0:
        fix = (
            "nothing to align by NUMA node; check that the kernel has CONFIG_NUMA and the firmware offers it"
        )
        yield mind("NUMA nodes", "the kernel shows none", fix)
        return
    if count == 1:
        fix = "in a virtual machine, ask for a NUMA topology; on hardware, check NPS or SNC in the firmware"
        yield mind("NUMA nodes", "only one, so everything is on it", fix)
        return
    yield good("NUMA nodes", f"{count}: {', '.join(str(node.id) for node in hardware.numa)}")
    if count > KUBELET_NUMA_LIMIT:
        fix = f'set max-allowable-numa-nodes: "{count}", and prefer single-numa-node: others may never finish'
        yield mind("NUMA limit", f"a kubelet refuses more than {KUBELET_NUMA_LIMIT} nodes", fix)
    empty = [node.id for node in hardware.numa if node.memory == 0]
    if empty:
        told = ", ".join(map(str, empty))
        fix = "put DIMMs into every socket's slots; jobs there have only remote memory"
        yield mind("NUMA memory", f"no memory on {told}", fix)


def _cpus(hardware: Hardware) -> Iterator[Finding]:
    online = bits_of(thread.cpu for thread in hardware.threads)
    if hardware.offline:
        fix = "switch SMT off or on altogether; with some threads offline a kubelet may hand out CPUs twice"
        yield mind("offline CPUs", format_ids(hardware.offline), fix)
    host = hardware.host
    if host is None:
        return
    if host.cpuset is not None and online & ~host.cpuset:
        fix = "run from a shell outside the container or slice that limits it"
        yield mind(
            "own cpuset",
            f"this process may use {format_ids(host.cpuset) or 'none'} of {format_ids(online)}",
            fix,
        )
    if host.isolated:
        fix = "jobs must be pinned there one CPU each; remove isolcpus= unless that is what you want"
        yield mind("isolated CPUs", format_ids(host.isolated), fix)


def _balancing(hardware: Hardware) -> Iterator[Finding]:
    if hardware.host is None or hardware.host.numa_balancing is None or len(hardware.numa) < 2:
        return
    if hardware.host.numa_balancing:
        fix = "sysctl kernel.numa_balancing=0: bound jobs gain nothing from page scanning and pay for it"
        yield mind("NUMA balancing", "on", fix)
    else:
        yield good("NUMA balancing", "off")


def _cgroups(hardware: Hardware, ready: Readiness) -> Iterator[Finding]:
    version = hardware.host.cgroup if hardware.host else ""
    if version == "v2":
        yield good("cgroups", "version 2")
    elif version:
        fix = "boot with systemd.unified_cgroup_hierarchy=1; a kubelet from 1.35 on refuses version 1"
        yield mind("cgroups", f"version {version.removeprefix('v')}", fix)
    else:
        fix = "mount cgroup2 on /sys/fs/cgroup; without it jobs are bound by affinity alone"
        yield _bad("cgroups", "none found", fix)
    missing = ready.controllers is not None and "cpuset" not in ready.controllers
    if version == "v2" and missing and not ready.root:
        fix = "let an administrator run 'numawise setup' and log in again, or run as root"
        yield mind("cgroup delegation", "the cpuset controller is not delegated to us", fix)
    elif ready.root or ready.cgroup_writable:
        yield good("rights", "root" if ready.root else "cgroups may be made here")
    elif ready.systemd:
        yield good("rights", "no root; systemd scopes can be used")
    else:
        fix = "run as root, or use CPU affinity and memory policy alone"
        yield mind("rights", "no root, no delegated cgroup, no systemd", fix)


def _gpus(hardware: Hardware, ready: Readiness) -> Iterator[Finding]:
    nvidia = [d for d in hardware.pci if d.kind == GPU and d.vendor == NVIDIA]
    if not nvidia and not hardware.gpus:
        yield good("GPUs", "none")
        return
    known = len([gpu for gpu in hardware.gpus if not gpu.parent]) or len(nvidia)
    if not ready.nvml_problem:
        yield good("NVML", "1 GPU" if known == 1 else f"{known} GPUs")
    elif not nvidia:
        yield good("GPUs", f"{known}, by PCIe")
    elif not ready.nvidia_driver:
        fix = "install the NVIDIA driver"
        yield _bad("NVIDIA driver", f"{len(nvidia)} GPUs on PCIe, and no driver", fix)
    else:
        yield mind(
            "NVML",
            ready.nvml_problem,
            "; ".join(filter(None, (ready.nvml_advice, f"until then {GPUS_GUESSED}"))),
        )


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
        yield _bad("device NUMA", f"numa_node is -1 for {told}", fix)


def _name(device: PciDevice) -> str:
    return f"{device.address} ({device.names[0]})" if device.names else device.address


def _kubelet(ready: Readiness) -> Iterator[Finding]:
    if ready.kubelet:
        fix = "let the kubelet place jobs here, or reserve CPUs for others with reservedSystemCPUs"
        yield mind("kubelet", f"this host is a Kubernetes node ({ready.kubelet[0]})", fix)

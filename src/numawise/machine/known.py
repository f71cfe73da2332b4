"""What a machine file tells about the hardware: enough for a picture, and no more.

A ``Machine`` is what the kubelet is told.  It knows no links, no PCIe tree and no models, so neither does the
hardware made from it; a resource whose name speaks of GPUs gives GPUs, of networks NICs, any other
one accelerators.
"""

import re

from numawise.machine.hardware import ACCELERATOR, NIC, Cache, Gpu, Hardware, MemoryNode, PciDevice, Thread
from numawise.machine.model import Device, Machine
from numawise.sets import ids_of

GPU_RESOURCE = re.compile(r"gpu|/mig-|\bmig\b", re.ASCII | re.IGNORECASE)
NIC_RESOURCE = re.compile(r"sriov|rdma|hca|nic|net(?!es)|roce|infiniband|ethernet", re.ASCII | re.IGNORECASE)


def hardware_of(machine: Machine, name: str = "") -> Hardware:
    """The hardware that a machine file describes."""
    layout = machine.layout
    core_of = {cpu: bits for bits in layout.cores.values() for cpu in ids_of(bits)}
    l3 = {number: Cache(bits, id=number) for number, bits in layout.uncores.items()}
    threads = tuple(
        Thread(
            cpu=cpu.cpu,
            core=cpu.core,
            socket=cpu.socket,
            numa=cpu.numa,
            siblings=core_of[cpu.cpu],
            l3=None if cpu.uncore_cache is None else l3[cpu.uncore_cache],
        )
        for cpu in sorted(machine.cpus, key=lambda cpu: cpu.cpu)
    )
    ids = [numa.id for numa in machine.numa]
    nodes = tuple(
        MemoryNode(
            id=numa.id,
            cpus=layout.numas.get(numa.id, 0),
            memory=numa.memory,
            hugepages=numa.hugepages,
            distances=tuple(zip(ids, numa.distances, strict=False)),
        )
        for numa in machine.numa
    )
    gpus: list[Gpu] = []
    others: list[PciDevice] = []
    for plugin in machine.plugins:
        for device in plugin.devices:
            if GPU_RESOURCE.search(plugin.resource):
                gpus.append(_gpu(machine, device))
            else:
                others.append(_other(plugin.resource, device))
    return Hardware(
        threads=threads,
        numa=nodes,
        pci=tuple(others),
        gpus=tuple(gpus),
        memory_capacity=machine.memory_capacity,
        name=name,
        sources=("machine file",),
    )


def _gpu(machine: Machine, device: Device) -> Gpu:
    cpus = 0
    for numa in device.numa or ():
        cpus |= machine.layout.numas.get(numa, 0)
    return Gpu(name=device.id, cpus=cpus or None, numa=device.numa or None)


def _other(resource: str, device: Device) -> PciDevice:
    return PciDevice(
        address="",
        kind=NIC if NIC_RESOURCE.search(resource) else ACCELERATOR,
        numa=device.numa[0] if device.numa and len(device.numa) == 1 else -1,
        names=(device.id,),
        model=resource,
    )

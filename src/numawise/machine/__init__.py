"""What exists: CPUs, NUMA nodes, memory and devices of one machine."""

from numawise.machine.model import Cpu, CpuLayout, Device, DevicePlugin, Machine, Numa

__all__ = ["Cpu", "CpuLayout", "Device", "DevicePlugin", "Machine", "Numa"]

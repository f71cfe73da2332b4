"""GPUs that are in use without a hold: told, and passed over as long as there are others."""

from dataclasses import replace

from numawise.apps.launch.capacity import Site
from numawise.apps.launch.request import Wish
from numawise.errors import HostError
from numawise.host.gpuuse import GpuUse, kfd_users, nvml_users
from numawise.machine.kubelet_view import NVIDIA_GPU
from numawise.machine.places import short_address


def with_strangers(site: Site, wish: Wish) -> Site:
    """The site with the processes on its GPUs, for a wish that asks for some."""
    if not site.gpus or not (wish.gpus or wish.gpu_ids):
        return site
    users = (*_nvidia(site), *kfd_users())
    found: dict[int, tuple[int, ...]] = {}
    for position, gpu in enumerate(site.gpus):
        own = short_address(gpu.address) if gpu.address else ""
        pids = tuple(sorted({use.pid for use in users if own and use.address == own}))
        if pids:
            found[position] = pids
    return replace(site, users=found)


def _nvidia(site: Site) -> tuple[GpuUse, ...]:
    if NVIDIA_GPU not in site.gpu_resources:
        return ()
    from numawise.host.nvml import load  # noqa: PLC0415 - an extra

    try:
        return nvml_users(load())
    except HostError:
        return ()

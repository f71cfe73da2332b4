"""Which GPUs a process will see, in its own order, by the variables that hide and reorder them.

Rules kept here:

1. NVIDIA: ``CUDA_VISIBLE_DEVICES`` lists indices, UUIDs or beginnings of UUIDs, and MIG instances; the list
   ends at the first entry that is none of the machine's.  An empty list shows no GPU.
2. AMD: ``ROCR_VISIBLE_DEVICES`` lists indices or UUIDs; ``HIP_VISIBLE_DEVICES``, or ``CUDA_VISIBLE_DEVICES``,
   counts within what that leaves.  Intel: ``ZE_AFFINITY_MASK`` lists cards, with or without a tile.
3. Without these a hold's ``NUMAWISE_GPUS`` counts, and without that all GPUs of the machine.
4. A UUID that nobody knows is no guess: without the driver's library the GPU cannot be found, and that is an
   error.  An index is counted along the PCI bus; where that may be wrong, a remark says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numawise.apps.launch.environment import CUDA, CUDA_ORDER, GPUS, LEVEL_ZERO, ROCR, gpu_index, maker
from numawise.errors import HostError
from numawise.machine.hardware import Gpu, Hardware
from numawise.machine.near import gpus_of
from numawise.machine.pci import AMD, INTEL, NVIDIA
from numawise.machine.places import short_address, whole_gpus

HIP = "HIP_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Visible:
    """GPUs in the order a process sees them."""

    gpus: tuple[Gpu, ...]
    told_by: str = ""
    """Variable that chose them; '': they are all of the machine's."""
    remarks: tuple[str, ...] = ()


def visible_gpus(hardware: Hardware, environment: Mapping[str, str]) -> Visible:
    """The GPUs that a process with this environment will see."""
    every = gpus_of(hardware)
    makers = [maker(hardware, gpu) for gpu in every]
    who = next((one for one in (NVIDIA, AMD, INTEL) if one in makers), 0)
    variables = {NVIDIA: (CUDA,), AMD: (ROCR, HIP, CUDA), INTEL: (LEVEL_ZERO,)}.get(who, ())
    seen = next((name for name in variables if name in environment), "")
    if not seen:
        if who and environment.get(GPUS):
            return _listed(hardware, every, GPUS, environment[GPUS])
        named = next((name for name in (CUDA, ROCR, LEVEL_ZERO, GPUS) if environment.get(name)), "")
        remark = (
            f"{named}={environment[named]} names GPUs, but none is known here" if named and not who else ""
        )
        return Visible(every, remarks=(remark,) if remark else ())
    alike = tuple(gpu for gpu, one in zip(every, makers, strict=True) if one == who)
    if who == NVIDIA:
        found = _listed(hardware, alike, CUDA, environment[CUDA])
        return Visible(found.gpus, CUDA, found.remarks + _order(hardware, environment))
    if who == AMD:
        return _amd(hardware, alike, environment)
    cards = [entry.partition(".")[0] for entry in environment[LEVEL_ZERO].split(",")]
    return _listed(hardware, alike, LEVEL_ZERO, ",".join(dict.fromkeys(cards)))


def _amd(hardware: Hardware, alike: Sequence[Gpu], environment: Mapping[str, str]) -> Visible:
    first = Visible(tuple(alike))
    if ROCR in environment:
        first = _listed(hardware, alike, ROCR, environment[ROCR])
    inner = next((name for name in (HIP, CUDA) if name in environment), "")
    if not inner:
        return first
    gpus = []
    for entry in environment[inner].split(","):
        if not entry.strip().isdecimal() or int(entry) >= len(first.gpus):
            break
        gpus.append(first.gpus[int(entry)])
    return Visible(tuple(gpus), inner, first.remarks)


def _listed(hardware: Hardware, gpus: Sequence[Gpu], name: str, text: str) -> Visible:
    found: list[Gpu] = []
    remarks = []
    for entry in (part.strip() for part in text.split(",")):
        gpu = _one(hardware, gpus, entry)
        if gpu is None:
            if entry.startswith(("GPU-", "MIG-")) and not any(one.uuid for one in gpus):
                raise HostError(
                    f"{name} names {entry}, and the UUIDs of this machine's GPUs are not known",
                    advice="let NVML tell them: install numawise[nvidia]",
                )
            if entry and entry not in ("-1", "NoDevFiles"):
                remarks.append(f"{name}: {entry!r} is no GPU here; it and what follows is not seen")
            break
        found.append(gpu)
    return Visible(tuple(found), name, tuple(remarks))


def _one(hardware: Hardware, gpus: Sequence[Gpu], entry: str) -> Gpu | None:
    whole = [gpu for gpu in whole_gpus(hardware) or gpus if not gpu.parent]
    every = [*gpus, *(gpu for gpu in whole if gpu not in gpus)]
    if entry.isascii() and entry.isdecimal():
        alike = [gpu for gpu in whole if gpus and maker(hardware, gpu) == maker(hardware, gpus[0])]
        return next((gpu for gpu in alike if gpu_index(hardware, gpu) == int(entry)), None)
    if entry.startswith("MIG-GPU-"):  # MIG-<UUID of the GPU>/<GPU instance>/<compute instance>
        entry = entry.removeprefix("MIG-").partition("/")[0]
    if entry.startswith(("GPU-", "MIG-")):
        fits = [gpu for gpu in every if gpu.uuid.startswith(entry)]
        return fits[0] if len(fits) == 1 or any(gpu.uuid == entry for gpu in fits) else None
    same = [gpu for gpu in every if entry == gpu.name]
    same += [
        gpu for gpu in every if entry and gpu.address and short_address(gpu.address) == short_address(entry)
    ]
    return same[0] if same else None


def _order(hardware: Hardware, environment: Mapping[str, str]) -> tuple[str, ...]:
    """A doubt where CUDA may count otherwise than along the bus."""
    by_index = any(entry.strip().isdecimal() for entry in environment[CUDA].split(","))
    models = {gpu.model for gpu in whole_gpus(hardware) if maker(hardware, gpu) == NVIDIA}
    if by_index and len(models) > 1 and environment.get(CUDA_ORDER) != "PCI_BUS_ID":
        doubt = f"{CUDA} counts the fastest GPU first on a machine with different ones"
        return (f"{doubt}; set {CUDA_ORDER}=PCI_BUS_ID to count along the bus, as is done here",)
    return ()

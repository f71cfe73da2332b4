"""The command that starts a container on its placement: the user's own, with what was granted put in.

Rules kept here:

1. What numawise adds stands right after ``run`` or ``create``; the user's words follow as they were typed.
2. GPUs go by UUID where all of them have one, else by index.  NVIDIA: ``--gpus "device=…"``, with podman and
   on request by CDI; AMD and Intel: the render node of each GPU, and the groups it belongs to.
3. Inside, the GPUs are numbered again from 0.  So variables that choose GPUs are passed on only by UUID,
   which keeps the order and holds in a privileged container too; indices would mean other GPUs there.
   ``NVIDIA_VISIBLE_DEVICES`` is the engine's to set.
4. Variables that the user gives win over the placement's.  Where they fight the grant, a remark says so.
5. Memory is kept to its NUMA nodes by ``--cpuset-mems`` where it is bound.  Where it may spill none is set:
   the kernel's default takes pages near to the CPU, which is on its nodes, then from others.
6. Without a hold (``--print``) nothing is said of one: no label, no file for the id, no ``NUMAWISE_…``.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping

from numawise.apps.launch.containers.command import ContainerCommand
from numawise.apps.launch.environment import (
    BOUND_BY,
    CUDA,
    CUDA_ORDER,
    GOMP,
    LEVEL_ZERO,
    NVIDIA_TOOLKIT,
    PLACES,
    PROC_BIND,
    ROCR,
    gpu_index,
)
from numawise.errors import HostError
from numawise.host.containers import LABEL
from numawise.machine.hardware import AMD, INTEL, NVIDIA, Gpu, Hardware
from numawise.machine.locality import memory_near, numa_of, pci_by_address, short_address
from numawise.results.placement import BOUND, INTERLEAVED, PODMAN, Placement
from numawise.sets import format_ids
from numawise.values import dataclass, field

Lines = tuple[tuple[str, ...], ...]
"""Options, each with its value."""

KINDS = {NVIDIA: "nvidia.com/gpu", AMD: "amd.com/gpu", INTEL: "intel.com/gpu"}
"""What the makers call their GPUs in CDI."""
RENDER = re.compile(r"renderD[0-9]+", re.ASCII)
UUIDS = re.compile(r"(?:(?:GPU|MIG)-[^,]+)(?:,(?:GPU|MIG)-[^,]+)*", re.ASCII)
NUMBERS = re.compile(r"[0-9]+(?:,[0-9]+)*", re.ASCII)
SUFFIXES = ((30, "g"), (20, "m"), (10, "k"))


@dataclass(frozen=True, slots=True)
class Shell:
    """A command in lines, as one would type it."""

    lines: Lines
    remarks: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """All words."""
        return tuple(word for line in self.lines for word in line)

    def __str__(self) -> str:
        return " \\\n  ".join(shlex.join(line) for line in self.lines)


@dataclass(frozen=True, slots=True)
class ContainerGpuSetup:
    """How this host hands GPUs to containers."""

    cdi: bool = False
    """Name GPUs by CDI."""
    cdi_devices: Mapping[str, Collection[str]] = field(default_factory=dict)
    """CDI kind → names of the devices that its files describe; empty: not known."""
    groups: Callable[[str], str] = lambda _: ""
    """Group that a device file belongs to, as a number; '' when the file is not on this host."""


def compose(
    given: ContainerCommand,
    placement: Placement,
    hardware: Hardware,
    *,
    gpu_setup: ContainerGpuSetup | None = None,
    hold: str = "",
    cidfile: str = "",
    inherited: Mapping[str, str] = {},
    file_variables: Collection[str] = (),
    variables: bool = True,
) -> Shell:
    """The command to run.

    ``hold`` is the id of the hold, ``cidfile`` a file for the container's id, ``file_variables`` the names in
    the user's ``--env-file``.
    """
    gpu_setup = gpu_setup or ContainerGpuSetup()
    own = given.environment(inherited)
    added: list[tuple[str, ...]] = [*gpu_lines(given.engine, placement.gpus, hardware, gpu_setup)]
    if placement.cpus:
        added.append((f"--cpuset-cpus={format_ids(placement.cpus)}",))
    if placement.mems and placement.grant.memory_policy == BOUND:
        added.append((f"--cpuset-mems={format_ids(placement.mems)}",))
    if placement.memory and not given.value("memory"):
        added.append((f"--memory={size(placement.memory)}",))
    if placement.grant.cpu_limit and not placement.grant.cpus:
        added.append((f"--cpus={placement.grant.cpu_limit / 1000:g}",))
    if variables:
        for name, value in _passed_on(placement, {*own, *file_variables}, hold):
            added.append(("-e", f"{name}={value}"))
    if hold:
        added.append((f"--label={LABEL}={hold}",))
    if cidfile and not given.value("cidfile"):
        added.append((f"--cidfile={cidfile}",))
    before = tuple(word for option in given.before for word in option.words)
    lines = (
        (given.engine, *before, *given.verb),
        *added,
        *(option.words for option in given.options if option.words),
        (*given.ends, given.image),
        *((given.command,) if given.command else ()),
    )
    remarks = (*_remarks(given, placement, own, gpu_setup), *_about_memory(placement, hardware))
    return Shell(lines, remarks)


def size(amount: int) -> str:
    """Bytes as the engines take them: ``32g``."""
    for power, suffix in SUFFIXES:
        if amount % (1 << power) == 0:
            return f"{amount >> power}{suffix}"
    return f"{amount}b"


def gpu_lines(engine: str, gpus: tuple[Gpu, ...], hardware: Hardware, gpu_setup: ContainerGpuSetup) -> Lines:
    """The options that give these GPUs to a container (rule 2)."""
    by_maker: dict[int | None, list[Gpu]] = {}
    for gpu in gpus:
        by_maker.setdefault(gpu.maker, []).append(gpu)
    found: list[tuple[str, ...]] = []
    for who, some in by_maker.items():
        if who not in KINDS:
            raise HostError(
                f"the maker of {some[0].name} is unknown, so it cannot be given to a container",
                advice="name it in the machine file: nvidia.com/gpu, amd.com/gpu or gpu.intel.com/i915",
            )
        if gpu_setup.cdi or (who == NVIDIA and engine == PODMAN):
            found += [
                ("--device", f"{KINDS[who]}={name}") for name in _cdi_names(who, some, hardware, gpu_setup)
            ]
        elif who == NVIDIA:
            found.append(("--gpus", f'"device={",".join(_ids(some, hardware))}"'))
        else:
            found += _device_files(who, some, hardware, gpu_setup)
    return tuple(found)


def _ids(gpus: list[Gpu], hardware: Hardware) -> list[str]:
    if all(gpu.uuid for gpu in gpus):
        return [gpu.uuid for gpu in gpus]
    return [_number(gpu, hardware) for gpu in gpus]


def _number(gpu: Gpu, hardware: Hardware) -> str:
    """``0``; of a MIG instance ``0:1``, as NVIDIA's tools count them."""
    if not gpu.parent:
        return str(gpu_index(hardware, gpu))
    whole = next(
        (one for one in hardware.gpus if one.name == gpu.parent), Gpu(gpu.parent, address=gpu.address)
    )
    return f"{gpu_index(hardware, whole)}:{gpu.name.rpartition(':')[2]}"


def _cdi_names(who: int, gpus: list[Gpu], hardware: Hardware, gpu_setup: ContainerGpuSetup) -> list[str]:
    """CDI files name GPUs by UUID, by index, or both; take what is there, else UUIDs."""
    kind = KINDS[who]
    known = gpu_setup.cdi_devices.get(kind, ())
    choices = [[gpu.uuid or _number(gpu, hardware) for gpu in gpus], [_number(gpu, hardware) for gpu in gpus]]
    if not gpu_setup.cdi_devices:
        return choices[0]
    for names in choices:
        if set(names) <= set(known):
            return names
    tool = "amd-ctk cdi generate" if who == AMD else "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    raise HostError(
        f"no CDI file of this host describes {kind}={choices[0][0]}",
        advice=f"write the files again with '{tool}'" if who != INTEL else "write a CDI file for it",
    )


def _device_files(
    who: int, gpus: list[Gpu], hardware: Hardware, gpu_setup: ContainerGpuSetup
) -> Iterator[tuple[str, ...]]:
    """Render nodes, and for AMD the compute interface that all of its GPUs share."""
    functions = pci_by_address(hardware)
    nodes = []
    for gpu in gpus:
        function = functions.get(short_address(gpu.address)) if gpu.address else None
        names = function.names if function is not None else ()
        node = next((name for name in names if RENDER.fullmatch(name)), "")
        if not node:
            raise HostError(
                f"{gpu.name} has no render node in /dev/dri, so it cannot be given to a container",
                advice=f"load its driver ({'amdgpu' if who == AMD else 'i915 or xe'})",
            )
        nodes.append(f"/dev/dri/{node}")
    files = ["/dev/kfd", *nodes] if who == AMD else nodes
    yield from (("--device", file) for file in files)
    groups = dict.fromkeys(gpu_setup.groups(file) for file in files)
    if "" in groups:
        groups = dict.fromkeys(("video", "render"))
    yield from (("--group-add", group) for group in groups if group != "0")


def _passed_on(placement: Placement, own: Collection[str], hold: str) -> Iterator[tuple[str, str]]:
    """Variables of the placement that hold inside a container (rules 3, 4 and 6)."""
    threads_placed = any(name in own for name in BOUND_BY)
    for name, value in placement.environment:
        if name in own or (threads_placed and name in (PLACES, GOMP, PROC_BIND)):
            continue
        if name.startswith("NUMAWISE_") and not hold:
            continue
        if name in (CUDA, ROCR) and value and not UUIDS.fullmatch(value):
            continue
        if name in (CUDA_ORDER, LEVEL_ZERO) or (name == NVIDIA_TOOLKIT and value != "void"):
            continue
        yield name, value


def _remarks(
    given: ContainerCommand, placement: Placement, own: Mapping[str, str], gpu_setup: ContainerGpuSetup
) -> Iterator[str]:
    """What the user should know about the command."""
    gpus = placement.gpus
    for name in (CUDA, ROCR, "HIP_VISIBLE_DEVICES"):
        if name in own and gpus:
            yield from _fights(name, own[name], gpus)
        elif own.get(name):
            yield f"{name}={own[name]} is set, but no GPUs were asked for: give numawise --gpus or --gpu-ids"
    if gpus and given.switched("privileged"):
        yield "--privileged shows all GPUs of this machine to the container, not only those it was granted"
    by_cdi = gpu_setup.cdi or given.engine == PODMAN
    if by_cdi and not gpu_setup.cdi_devices and any(gpu.maker == NVIDIA for gpu in gpus):
        yield "no CDI files were found in /etc/cdi or /var/run/cdi; the names of the GPUs there are a guess"
    for option in given.all("device"):
        if not gpus and (option.value or "").startswith("/dev/dri"):
            yield f"the GPUs of --device {option.value} are not recorded; others may be granted them"


def _about_memory(placement: Placement, hardware: Hardware) -> Iterator[str]:
    """What becomes of a memory policy that only a process inside the container could set (rule 5)."""
    mems, policy = format_ids(placement.mems), placement.grant.memory_policy
    near = memory_near(hardware, numa_of(hardware, placement.cpus))
    if not placement.mems or policy == BOUND or (policy != INTERLEAVED and placement.mems == near):
        return
    what, option = (
        ("interleaved over", f"numactl --interleave={mems}")
        if policy == INTERLEAVED
        else ("preferred on", f"numactl --preferred-many={mems}")
    )
    yield (
        f"memory is not {what} NUMA {mems}: nobody outside of a container can set its memory policy; pages "
        f"come from the NUMA node of the CPU that touches them first; start the command in it with {option}"
    )


def _fights(name: str, value: str, gpus: tuple[Gpu, ...]) -> Iterator[str]:
    count = len(gpus)
    numbers = "0" if count == 1 else f"0-{count - 1}"
    if NUMBERS.fullmatch(value):
        chosen = {int(part) for part in value.split(",")}
        beyond = sorted(number for number in chosen if number >= count)
        if beyond:
            yield (
                f"{name}={value} names GPU {beyond[0]}, but inside the container the granted GPUs are "
                f"{numbers}: write {','.join(map(str, range(count)))} or leave it out"
            )
        elif len(chosen) < count:
            yield f"{name}={value} uses {len(chosen)} of the {count} GPUs granted"
    elif UUIDS.fullmatch(value):
        strange = [part for part in value.split(",") if not any(gpu.uuid.startswith(part) for gpu in gpus)]
        if strange:
            yield f"{name}={value} names {strange[0]}, which is not among the GPUs granted: leave it out"
    else:
        yield f"{name}={value or repr('')} hides GPUs that were granted: leave it out"

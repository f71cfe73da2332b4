"""A placement as text for elsewhere: what numactl, containers, Compose, systemd, Slurm and Kubernetes take.

Rules kept here:

1. Each text is what its program really accepts, quoted for a shell where it is a command; ``COMMAND`` and
   ``IMAGE`` stand for the user's words.
2. What a program has no option for is said in a remark, never left out silently.
3. Slurm binds to given CPUs only where the whole host is allocated, so there are two texts: a request of the
   same size, and the very same CPUs on an exclusive host.  ``--hint`` and ``--cpu-bind`` exclude each other.
4. Kubernetes is asked for amounts: requests equal limits, whole CPUs where they are to be alone, so that the
   pod is Guaranteed and the kubelet decides as it was decided here.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.containers.command import read_command
from numawise.apps.launch.containers.compose_file import SERVICE, compose_file
from numawise.apps.launch.containers.setup import ContainerGpuSetup, Shell, compose
from numawise.apps.launch.decide import place
from numawise.apps.launch.environment import cores_of, job_environment
from numawise.apps.launch.held import placement_of
from numawise.apps.launch.memory import with_memory_now
from numawise.apps.launch.outer import within_outer
from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.run import capacity_here, open_holdings
from numawise.codec.output import scalar
from numawise.errors import HostError, one_line
from numawise.host import containers as engines
from numawise.host.settings import HostSettings
from numawise.machine.hardware import Hardware
from numawise.machine.locality import threads_per_core
from numawise.render.holds import placement_data
from numawise.results.placement import (
    BOUND,
    DOCKER,
    INTERLEAVED,
    PODMAN,
    PREFERRED,
    Capacity,
    Hold,
    NoRoom,
    Placement,
)
from numawise.results.plain import API_VERSION
from numawise.sets import format_ids
from numawise.values import dataclass, field, replace

COMMAND, IMAGE = "COMMAND", "IMAGE"
OWN = "numawise/"
MIG = re.compile(r"\b([0-9]+g\.[0-9]+gb)", re.ASCII)
SIZES = ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))
LISTS = ("AllowedCPUs", "AllowedMemoryNodes", "CPUAffinity", "NUMAMask")
MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A placement with what belongs to it."""

    placement: Placement
    hardware: Hardware
    environment: tuple[tuple[str, str], ...] = ()
    """Variables for the job; none of a hold's where there is none."""
    gpu_setup: ContainerGpuSetup = field(default_factory=ContainerGpuSetup)
    service: str = SERVICE
    """What a Compose file calls it."""


@dataclass(frozen=True, slots=True)
class Text:
    """A placement in one program's words."""

    lines: tuple[str, ...]
    argv: tuple[str, ...] = ()
    """The same as words, where it is one command."""
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "".join(line + "\n" for line in self.lines)


def placed_job(
    placement: Placement,
    hardware: Hardware,
    hold: Hold | None = None,
    gpu_setup: ContainerGpuSetup | None = None,
) -> PlacedJob:
    """A placement with the variables of a job, those of its hold if it has one."""
    every = job_environment(placement, hold.id if hold else "", hold.name if hold else "", hardware)
    variables = tuple((name, value) for name, value in every if hold or not name.startswith("NUMAWISE_"))
    return PlacedJob(
        replace(placement, environment=variables), hardware, variables, gpu_setup or ContainerGpuSetup()
    )


def numactl(asked: PlacedJob) -> Text:
    """``numactl``: CPUs by the system's numbers, memory by its policy."""
    placement = asked.placement
    words = ["numactl", f"--physcpubind={format_ids(placement.cpus)}"]
    if placement.mems:
        words.append(f"{_numactl_option(placement)}={format_ids(placement.mems)}")
    return _command((*words, COMMAND), _left_out(placement, "memory", "gpus", "share"))


def _numactl_option(placement: Placement) -> str:
    match placement.grant.memory_policy:
        case "bind":
            return "--membind"
        case "interleave":
            return "--interleave"
        case _:
            return "--preferred" if placement.mems.bit_count() == 1 else "--preferred-many"


def taskset(asked: PlacedJob) -> Text:
    """``taskset``: CPUs alone."""
    placement = asked.placement
    words = ("taskset", "--cpu-list", format_ids(placement.cpus), COMMAND)
    return _command(words, _left_out(placement, "mems", "memory", "gpus", "share"))


def docker(asked: PlacedJob) -> Text:
    """``docker run``."""
    return _container(DOCKER, asked)


def podman(asked: PlacedJob) -> Text:
    """``podman run``."""
    return _container(PODMAN, asked)


def _container(engine: str, asked: PlacedJob) -> Text:
    found = _run(engine, asked)
    return Text(tuple(str(found).splitlines()), found.argv, found.remarks)


def _run(engine: str, asked: PlacedJob) -> Shell:
    given = read_command(engine, ("run", IMAGE))
    return compose(given, asked.placement, asked.hardware, gpu_setup=asked.gpu_setup)


def compose_service(asked: PlacedJob) -> Text:
    """A file that is laid over the one of ``docker compose``."""
    found = _run(DOCKER, asked)
    written = compose_file(asked.service, found.lines[1:-1])
    return Text(written.lines, remarks=(*written.remarks, *found.remarks))


def systemd(asked: PlacedJob) -> Text:
    """A drop-in for a service, and the same for a command in a scope."""
    placement = asked.placement
    cpus, mems = format_ids(placement.cpus), format_ids(placement.mems)
    group = [f"AllowedCPUs={cpus}"]
    if mems and placement.grant.memory_policy == BOUND:
        group.append(f"AllowedMemoryNodes={mems}")
    if placement.memory:
        group.append(f"MemoryMax={placement.memory}")
    if _share(placement):
        group.append(f"CPUQuota={_share(placement) / 10:g}%")
    process = [f"CPUAffinity={cpus}", *(_unit_policy(placement) if mems else ())]
    lines = [
        "# /etc/systemd/system/NAME.service.d/numawise.conf, then: systemctl daemon-reload",
        "[Service]",
        *(line for setting in (*group, *process) for line in _set_anew(setting)),
        *(f"Environment={_unit_text(f'{name}={value}')}" for name, value in asked.environment),
        "",
        "# or, for one command:",
    ]
    words = ["systemd-run", "--scope", *(f"--property={line}" for line in group)]
    words += [f"--setenv={name}={value}" for name, value in asked.environment]
    return Text((*lines, *_wrapped((*words, "--", COMMAND))))


def _unit_policy(placement: Placement) -> tuple[str, ...]:
    """One NUMA node can be preferred in a unit; where there are several, each CPU its own."""
    policy = placement.grant.memory_policy
    if policy == PREFERRED and placement.mems.bit_count() > 1:
        return ("NUMAPolicy=local",)
    return f"NUMAPolicy={policy}", f"NUMAMask={format_ids(placement.mems)}"


def slurm(asked: PlacedJob) -> Text:
    """A request of the same size, and the same CPUs on a host of one's own (rule 3)."""
    placement = asked.placement
    own = placement.grant.cpus
    cpus = own.bit_count() if own else max(1, -(-placement.grant.cpu_limit // 1000))
    request = ["--nodes=1", "--ntasks=1", f"--cpus-per-task={cpus}"]
    if placement.memory:
        request.append(f"--mem={_slurm_size(placement.memory)}")
    if placement.gpus:
        request += [f"--gres=gpu:{len(placement.gpus)}", "--gres-flags=enforce-binding"]
    lines = [
        "# a request of this size; Slurm chooses the CPUs, near to the GPUs where it knows their place:",
        *(f"#SBATCH {word}" for word in (*request, *_hint(asked))),
    ]
    remarks = list(_left_out(placement, "share"))
    if any(gpu.parent for gpu in placement.gpus):
        remarks.append("MIG instances have types of the cluster's own in gres.conf: --gres=gpu:TYPE:N")
    if own:
        words = ["srun", "--exclusive", *(word for word in request if not word.startswith("--gres-flags"))]
        words.append(f"--cpu-bind=mask_cpu:{own:#x}")
        policy = placement.grant.memory_policy
        if placement.mems and policy == INTERLEAVED:
            remarks.append("Slurm cannot interleave memory: start the command with numactl --interleave")
        elif placement.mems:
            prefer = "prefer," if policy == PREFERRED else ""
            words.append(f"--mem-bind={prefer}mask_mem:{placement.mems:#x}")
        lines += ["", "# exactly these CPUs; Slurm allows that where the job has the whole host:"]
        return Text((*lines, *_wrapped((*words, COMMAND))), remarks=tuple(remarks))
    return Text(tuple(lines), remarks=tuple(remarks))


def _hint(asked: PlacedJob) -> Sequence[str]:
    """Where the job has one thread of each core on a machine with several."""
    own = asked.placement.grant.cpus
    several = threads_per_core(asked.hardware) > 1
    if own and several and len(cores_of(asked.hardware, own)) == own.bit_count():
        return ("--hint=nomultithread",)
    return ()


def kubernetes(asked: PlacedJob) -> Text:
    """Resources of a container (rule 4)."""
    placement = asked.placement
    amounts, remarks = _amounts(asked)
    lines = ["resources:"]
    for word in ("requests", "limits"):
        lines.append(f"  {word}:")
        lines += [f'    {scalar(name)}: "{amount}"' for name, amount in amounts.items()]
    missing = [name for name in ("cpu", "memory") if name not in amounts]
    if missing:
        remarks.insert(
            0, f"without {' and '.join(missing)} the pod is not Guaranteed, and nothing is aligned for it"
        )
    managers = "cpuManagerPolicy: static" + (", memoryManagerPolicy: Static" if placement.memory else "")
    lines.append(
        f"# the kubelet needs {managers}, topologyManagerPolicy: {placement.policy or 'best-effort'}"
    )
    return Text(tuple(lines), remarks=tuple(remarks))


def _amounts(asked: PlacedJob) -> tuple[dict[str, str], list[str]]:
    placement = asked.placement
    found: dict[str, str] = {}
    remarks: list[str] = []
    if placement.grant.cpus:
        found["cpu"] = str(placement.grant.cpus.bit_count())
    elif placement.grant.cpu_limit:
        found["cpu"] = f"{placement.grant.cpu_limit}m"
        remarks.append("a fraction of a CPU runs in the kubelet's shared pool, on all CPUs that are left")
    if placement.memory:
        found["memory"] = _quantity(placement.memory)
    counts: dict[str, int] = {}
    for gpu in placement.gpus:
        kind = MIG.search(gpu.model) if gpu.parent else None
        name = f"nvidia.com/mig-{kind[1]}" if kind else gpu.resource_name
        if name:
            counts[name] = counts.get(name, 0) + 1
    if any(name.startswith("nvidia.com/mig-") for name in counts):
        remarks.append("MIG instances go by their size under the device plugin's strategy 'mixed'")
    for resource, ids in placement.grant.devices:
        if resource.startswith(OWN):
            remarks.append(f"{', '.join(ids)}: ask for it by the name of the cluster's device plugin")
        elif all(gpu.resource_name != resource for gpu in placement.gpus):
            counts[resource] = len(ids)
    return found | {name: str(count) for name, count in counts.items()}, remarks


def variables(asked: PlacedJob) -> Text:
    """Variables for a shell."""
    lines = tuple(f"export {name}={shlex.quote(value)}" for name, value in asked.environment)
    return Text(lines or ("# no variables are needed",))


FORMATS: Mapping[str, Callable[[PlacedJob], Text]] = {
    "numactl": numactl,
    "taskset": taskset,
    "docker": docker,
    "podman": podman,
    "compose": compose_service,
    "systemd": systemd,
    "slurm": slurm,
    "kubernetes": kubernetes,
    "env": variables,
}


def texts(asked: PlacedJob, formats: Sequence[str]) -> dict[str, Text]:
    """The placement in several programs' words; one that has no words for it gets a remark only."""
    found = {}
    for name in formats:
        try:
            found[name] = FORMATS[name](asked)
        except HostError as problem:
            if len(formats) == 1:
                raise
            found[name] = Text((f"# {problem}",), remarks=(str(problem),))
    return found


def _left_out(placement: Placement, *what: str) -> tuple[str, ...]:
    """Remarks on what a program does not take."""
    found = {
        "mems": f"memory is not bound to NUMA node {format_ids(placement.mems)}" if placement.mems else "",
        "memory": f"the limit of {_quantity(placement.memory)} of memory is not kept"
        if placement.memory
        else "",
        "gpus": "the GPUs are chosen by variables: --format env" if placement.gpus else "",
        "share": "the shared pool changes as others come and go" if not placement.grant.cpus else "",
    }
    return tuple(found[name] for name in what if found[name])


def _share(placement: Placement) -> int:
    """Thousandths of a CPU to keep to, in the shared pool."""
    return 0 if placement.grant.cpus else placement.grant.cpu_limit


def _command(words: Sequence[str], remarks: tuple[str, ...] = ()) -> Text:
    return Text((shlex.join(words),), tuple(words), remarks)


def _wrapped(words: Sequence[str]) -> Iterator[str]:
    """A long command, an option a line."""
    for at, word in enumerate(words):
        last = at + 1 == len(words)
        yield f"{'' if at == 0 else '  '}{shlex.quote(word)}{'' if last else ' ' + chr(92)}"


def _set_anew(setting: str) -> Iterator[str]:
    """A setting in a drop-in: lists add to what the unit has, so they are emptied first."""
    name, _, _ = setting.partition("=")
    if name in LISTS:
        yield f"{name}="
    yield setting


def _unit_text(text: str) -> str:
    """A value in a unit file: quoted, with specifiers, quotes, line ends and the like escaped."""
    return '"' + one_line(text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")) + '"'


def _slurm_size(size: int) -> str:
    """Slurm counts in MiB; what is left over counts as one."""
    return f"{size // GIB}G" if size % GIB == 0 else f"{-(-size // MIB)}M"


def _quantity(size: int) -> str:
    for power, suffix in SIZES:
        if size % (1 << power) == 0:
            return f"{size >> power}{suffix}"
    return str(size)


# --------------------------------------------------------------------------------------------------
# Which placement ``flags`` shows: that of a hold, or where a job would go, here or on another machine.


def found_placement(
    request: JobRequest,
    hold: str,
    machine: tuple[str, ...],
    settings: HostSettings,
    environment: Mapping[str, str],
) -> tuple[Capacity, PlacedJob | NoRoom]:
    """The placement that is asked about: of a hold, or where a job would go, here or on another machine."""
    if machine:
        from numawise.inputs.machine import read_machine  # noqa: PLC0415 - reads every form of machine file

        capacity = capacity_of(read_machine(machine).hardware, settings.reserved_cpus)
        found = place(capacity, (), request, "flags")
        return capacity, found if isinstance(found, NoRoom) else placed_job(found, capacity.hardware)
    capacity = capacity_here(settings)
    with open_holdings(capacity, environment, settings) as holdings:
        holds = holdings.live()
        if hold:
            one = holdings.find(hold)
            return capacity, placed_job(
                placement_of(capacity, holds, one), capacity.hardware, one, gpu_setup_here()
            )
    capacity, request = within_outer(capacity, request, environment)
    found = place(with_memory_now(capacity, holds, holdings.root), holds, request, "flags")
    if isinstance(found, NoRoom):
        return capacity, found
    return capacity, placed_job(found, capacity.hardware, gpu_setup=gpu_setup_here())


def gpu_setup_here() -> ContainerGpuSetup:
    """How this very host gives GPUs to containers."""
    return ContainerGpuSetup(cdi_devices=engines.cdi_devices(), groups=engines.group_of_file)


def flags_data(asked: PlacedJob, written: Mapping[str, Text]) -> dict[str, object]:
    """All texts as JSON."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Flags",
        "placement": placement_data(asked.placement),
        "environment": dict(asked.environment),
        "formats": {
            name: {"text": str(text), "argv": list(text.argv) or None, "remarks": list(text.remarks)}
            for name, text in written.items()
        },
    }

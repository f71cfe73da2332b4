"""Start a container on CPUs, memory and GPUs that belong together, and keep its hold as long as it lives.

Rules kept here:

1. The engine's client is forked first and waits; the hold names it.  When the container's id is known, the
   hold names the container, too; when the client has ended, the container alone.
2. The client has terminal, standard streams and signals; its exit status is ours.
3. When it has ended, the engine is asked: a container that has ended for good gives its hold back at once,
   one that goes on (detached, or starting again) keeps it.  While the engine is silent, the hold stays.
4. ``--print`` holds nothing and starts nothing.
5. The engine's own ``--memory`` counts as an amount asked for, and its ``--name`` as the hold's name.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from numawise.apps.launch.capacity import with_gpu_users
from numawise.apps.launch.containers.command import ContainerCommand, refuse_conflicts
from numawise.apps.launch.containers.life import engine_labels, made_only, move_container, owned_by
from numawise.apps.launch.containers.setup import ContainerGpuSetup, Shell, compose
from numawise.apps.launch.decide import place
from numawise.apps.launch.environment import job_environment
from numawise.apps.launch.holds import Holdings, Taken
from numawise.apps.launch.outer import within_outer
from numawise.apps.launch.request import LEAST_MEMORY, NAME, JobRequest
from numawise.apps.launch.run import Job, OnStarted, OnWaiting, Ready, Report, capacity_here, launch
from numawise.errors import HostError, InputError, NumawiseError
from numawise.host import containers as engines
from numawise.host.child import CannotStart, WaitingChild, find_command
from numawise.host.containers import Container, Engine, Silent, inspect, keeps_hold, labelled
from numawise.host.oom import machine_oom_kills
from numawise.host.plan import Itself
from numawise.host.processes import allowed_of
from numawise.host.settings import HostSettings
from numawise.machine.hardware import Hardware
from numawise.quantity import parse_size
from numawise.results.allotment import shared_cpus
from numawise.results.placement import (
    CONTAINER,
    DOCKER,
    NEVER_STARTED,
    PODMAN,
    Capacity,
    Hold,
    NoRoom,
    Placement,
    pool_of,
)
from numawise.sets import format_ids
from numawise.values import dataclass, field, replace

LOOK_FOR_ID = 0.25
"""Seconds between two looks at the file for the container's id."""
NOTHING_MADE = 125
"""The exit status of a client whose engine made no container, or could not start it."""
SHORTEST_ID = 12


@dataclass(frozen=True, slots=True)
class ContainerJob:
    """What to start, and how."""

    given: ContainerCommand
    request: JobRequest
    wait: float = 0.0
    cdi: bool = False
    variables: bool = True
    """Pass the placement's variables on."""
    environment: Mapping[str, str] = field(default_factory=dict)


def container_request(
    given: ContainerCommand, request: JobRequest, inherited: Mapping[str, str]
) -> JobRequest:
    """The request with what the engine's own options add to it (rule 5); refuse what contradicts it."""
    gpus = bool(request.gpus or request.gpu_ids or request.exclusive)
    refuse_conflicts(given, memory=bool(request.memory), gpus=gpus, inherited=inherited)
    field_name = f"{given.engine} {given.verb[-1]} --memory"
    typed = given.value("memory")
    sized = bool(typed.strip("0"))  # 0: no limit
    memory = parse_size(typed, field_name, LEAST_MEMORY) if sized else request.memory
    named = given.value("name")
    name = request.name or (named if NAME.fullmatch(named) else "")
    return replace(request, memory=memory, name=name)


@dataclass(frozen=True, slots=True)
class Printed:
    """A command that was not run, and where it would run."""

    shell: Shell
    placement: Placement

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the user should know."""
        return (*self.placement.remarks, *self.shell.remarks)


def printed(job: ContainerJob, capacity: Capacity, holds: Sequence[Hold], *, here: bool) -> Printed | NoRoom:
    """The command that would be run; ``here``: on this very machine, so that its files can be looked at."""
    if here:
        capacity, request = within_outer(capacity, job.request, job.environment)
        job = replace(job, request=request)
    found = place(with_gpu_users(capacity, job.request) if here else capacity, holds, job.request, "preview")
    if isinstance(found, NoRoom):
        return found
    gpu_setup = gpu_setup_of(job) if here else ContainerGpuSetup(cdi=job.cdi)
    return Printed(_composed(job, found, capacity.hardware, gpu_setup), found)


def gpu_setup_of(job: ContainerJob) -> ContainerGpuSetup:
    """How this host gives GPUs to containers; CDI files are looked at only where they matter."""
    cdi = job.cdi or _podman_in_disguise(job)
    described = engines.cdi_devices() if cdi or job.given.engine == PODMAN else {}
    return ContainerGpuSetup(cdi=cdi, cdi_devices=described, groups=engines.group_of_file)


def _podman_in_disguise(job: ContainerJob) -> bool:
    if job.given.engine != DOCKER:
        return False
    try:
        return engines.is_podman(find_command(DOCKER, job.environment.get("PATH")))
    except CannotStart:
        return False  # nothing is run then, only printed


def _composed(
    job: ContainerJob,
    placement: Placement,
    hardware: Hardware,
    gpu_setup: ContainerGpuSetup,
    hold: Hold | None = None,
    cidfile: str = "",
) -> Shell:
    environment = job_environment(placement, hold.id if hold else "", hold.name if hold else "", hardware)
    names = [
        name for option in job.given.all("env-file") for name in engines.variables_in(option.value or "")
    ]
    return compose(
        job.given,
        replace(placement, environment=environment),
        hardware,
        gpu_setup=gpu_setup,
        hold=hold.id if hold else "",
        cidfile=cidfile,
        inherited=job.environment,
        file_variables=names,
        variables=job.variables,
    )


def engine_for(job: ContainerJob) -> Engine:
    """The engine that a command speaks to; podman may answer to the name of docker."""
    options = {option.name: option.value or "" for option in job.given.before}
    words = tuple(word for option in job.given.before for word in option.words)
    kind = PODMAN if _podman_in_disguise(job) else job.given.engine
    return replace(engines.locate(kind, options, words, job.environment), name=job.given.engine)


def run_container(
    job: ContainerJob, settings: HostSettings, on_started: OnStarted, on_waiting: OnWaiting, report: Report
) -> int | NoRoom:
    """Start a container, and wait for the client to end; its exit code, or why there is no room."""
    path = find_command(job.given.engine, job.environment.get("PATH"))
    engine = engine_for(job)
    capacity, request = within_outer(capacity_here(settings), job.request, job.environment)
    job = replace(job, request=request)
    with _file_for_id(job) as cidfile:
        start = ContainerStart(job, engine, gpu_setup_of(job), cidfile, report)
        return launch(start, path, settings, on_started, on_waiting, report, capacity)


def become_client(given: ContainerCommand, words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Become the engine's client, for its help; never return."""
    path = find_command(given.engine, environment.get("PATH"))
    os.execve(path, [given.engine, *words], dict(environment))  # noqa: S606 - what the user typed


@contextmanager
def _file_for_id(job: ContainerJob) -> Iterator[Path]:
    """Where the engine writes the container's id: the user's own file, or one that nobody else can make."""
    own = job.given.value("cidfile")
    if own:
        if Path(own).exists():
            raise InputError(
                f"{own} exists already",
                field=f"{job.given.engine} {job.given.verb[-1]} --cidfile",
                advice="remove it; the engine writes the id of the new container there",
            )
        yield Path(own)
        return
    base = job.environment.get("XDG_RUNTIME_DIR") or job.environment.get("TMPDIR") or "/tmp"  # noqa: S108 - mkdir
    folder = Path(base) / f"numawise-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        folder.mkdir(0o700)  # fails on what is there already, even a link
    except OSError as problem:
        raise HostError(
            f"{folder} cannot be made: {problem.strerror}", "set TMPDIR to a folder of yours"
        ) from None
    try:
        yield folder / "cid"
    finally:
        with suppress(OSError):
            (folder / "cid").unlink(missing_ok=True)
            folder.rmdir()


class ContainerStart:
    """What ``launch`` needs to know of a container; it follows the container from its start to its end."""

    def __init__(
        self,
        container: ContainerJob,
        engine: Engine,
        gpu_setup: ContainerGpuSetup,
        cidfile: Path,
        report: Report,
    ) -> None:
        given = container.given
        name = given.value("name") or image_name(given.image)
        self.job = Job(
            container.request, (name,), container.wait, environment=container.environment, kind=CONTAINER
        )
        self.container_job = container
        self.engine = engine
        self.gpu_setup = gpu_setup
        self.cidfile = cidfile
        self.report = report
        self.oom_kills = machine_oom_kills()

    def planned(self, hold: Hold, placement: Placement, pid: int) -> Hold:  # noqa: ARG002 - the engine binds
        """The hold with its engine."""
        given = self.container_job.given
        # The engine's options may carry secrets (-e), and others read the ledger.
        words = (given.engine, *given.verb, given.image, *given.command)
        owner = replace(hold.owner, engine=given.engine)
        labels = (*hold.labels, *engine_labels(self.engine, given.verb[-1]))
        return replace(hold, owner=owner, command=words, labels=labels)

    def ready(self, holdings: Holdings, taken: Taken, child: WaitingChild) -> Ready:  # noqa: ARG002
        """The engine's command, with the grant put in."""
        self.holdings, self.hold, self.placement = holdings, taken.hold, taken.placement
        hardware = holdings.capacity.hardware
        job = self.container_job
        shell = _composed(job, taken.placement, hardware, self.gpu_setup, taken.hold, str(self.cidfile))
        named = replace(taken.hold, mode=job.given.engine)
        return Ready(named, Itself(), job.environment, shell.argv, (*shell.remarks, *holdings.silent))

    def meanwhile(self, holdings: Holdings, hold: Hold) -> tuple[Callable[[], None] | None, float]:  # noqa: ARG002
        """Look for the container's id; a client that only makes the container ends soon."""
        return (None if self.container_job.given.detached else self.look), LOOK_FOR_ID

    def look(self) -> None:
        """While the client runs: record the container as soon as its id is known and it runs."""
        if self.hold.owner.container:
            return
        container = self._container(self._id())
        if isinstance(container, Container) and container.pid:
            with suppress(NumawiseError):  # the client counts for the hold meanwhile
                self._record(container, client=True)

    def finish(self, holdings: Holdings, hold: Hold, code: int) -> None:  # noqa: ARG002 - known from ``ready``
        """After the client's end: the container keeps the hold, or it is given back."""
        found = self._id()
        if not found and code == NOTHING_MADE and not self.hold.owner.container:
            self.holdings.end(self.hold, even_alive=True, how=NEVER_STARTED, status=code)
            return
        container = self._container(found)
        if isinstance(container, Silent):
            self.report(
                f"{self.engine.name} does not answer, so {self.hold.name} stays held: {container.reason}"
            )
            if found:
                self._record(Container(found), client=False)
        elif keeps_hold(container, made_only=made_only(self.hold)):
            assert container is not None
            self._record(container, client=False)
            if self.container_job.given.detached:
                self._check(container)
        else:
            if code:
                self._report_oom(container, code)
            self.holdings.end(self.hold, even_alive=True, status=code)

    def _report_oom(self, container: Container | None, code: int) -> None:
        from numawise.apps.launch.oom import container_oom_text  # noqa: PLC0415 - most containers end well

        text = container_oom_text(self.hold, code, container, self.oom_kills)
        if text:
            self.report(text)

    def _id(self) -> str:
        """The container's id, out of the file; '' as long as that says nothing."""
        try:
            text = self.cidfile.read_text().strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return text if len(text) >= SHORTEST_ID and text.isalnum() else ""

    def _container(self, container: str) -> Container | Silent | None:
        """The container as its engine reports it, by id or else by label; None: there is none."""
        found = inspect(self.engine, (container,)) if container else labelled(self.engine)
        if isinstance(found, Silent):
            return found
        return next((one for one in found.values() if one.hold == self.hold.id), None)

    def _record(self, container: Container, *, client: bool) -> None:
        """Let the hold name the container, and give it the shared pool as that is by then."""
        hold = owned_by(self.hold, container, client=client)
        if hold == self.hold:
            return
        self.holdings.rebind(hold)
        self.hold = hold
        if hold.grant.cpus:
            return
        holds, capacity = self.holdings.ledger.holds(), self.holdings.capacity
        cpus = shared_cpus(capacity, pool_of(capacity, holds), hold)
        if cpus != self.placement.cpus:
            problem = move_container(hold, cpus, hold.owner.uid)
            if problem:
                self.report(problem)

    def _check(self, container: Container) -> None:
        """Report so when the container runs on other CPUs than it was granted."""
        allowed = allowed_of(container.pid) if container.pid else None
        if allowed is not None and self.hold.grant.cpus and allowed[0] != self.placement.cpus:
            self.report(
                f"container {container.id[:12]} runs on CPUs {format_ids(allowed[0])}, not on "
                f"{format_ids(self.placement.cpus)}, as it was granted"
            )


def image_name(image: str) -> str:
    """``registry:5000/team/trainer:latest`` → ``trainer``."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0] or "container"

"""Start a container on CPUs, memory and GPUs that belong together, and keep its hold as long as it lives.

Rules kept here:

1. The engine's client is born first and waits; the hold names it.  When the container's id is known, the hold
   names the container, too; when the client has ended, the container alone.
2. The client has terminal, standard streams and signals; its exit status is ours.
3. When it has ended, the engine is asked: a container that has ended for good gives its hold back at once,
   one that goes on (detached, or starting again) keeps it.  While the engine is silent, the hold stays.
4. ``--print`` holds nothing and starts nothing.
5. The engine's own ``--memory`` counts as an amount asked for, and its ``--name`` as the hold's name.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from numawise.apps.launch.capacity import Site, pool_cpus, pool_of, with_strangers
from numawise.apps.launch.containers.command import Given, refuse_conflicts
from numawise.apps.launch.containers.life import engine_labels, made_only, move_container, owned_by
from numawise.apps.launch.containers.options import DOCKER, PODMAN
from numawise.apps.launch.containers.setup import Gear, Shell, compose
from numawise.apps.launch.decide import Placement, place
from numawise.apps.launch.environment import job_environment
from numawise.apps.launch.holds import Holdings, Taken
from numawise.apps.launch.no_room import NoRoom
from numawise.apps.launch.request import NAME, Wish
from numawise.apps.launch.run import Job, Started, Tell, TellWaiting, open_holdings, take_patiently, this_site
from numawise.errors import HostError, InputError, NumawiseError
from numawise.host import containers as engines
from numawise.host.child import CannotStart, bear, find_command, leave_as, wait_for
from numawise.host.containers import Container, Engine, Silent, inspect, keeps_hold, labelled
from numawise.host.plan import Itself
from numawise.host.processes import allowed_of
from numawise.host.settings import HostSettings
from numawise.machine.hardware import Hardware
from numawise.quantity import parse_size
from numawise.results.hold import CONTAINER, Hold
from numawise.sets import format_ids

LOOK_FOR_ID = 0.25
"""Seconds between two looks at the file for the container's id."""
NOTHING_MADE = 125
"""The exit status of a client whose engine made no container, or could not start it."""
SHORTEST_ID = 12

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ContainerJob:
    """What to start, and how."""

    given: Given
    wish: Wish
    wait: float = 0.0
    cdi: bool = False
    variables: bool = True
    """Pass the placement's variables on."""
    environment: Mapping[str, str] = field(default_factory=dict)


def container_wish(given: Given, wish: Wish, inherited: Mapping[str, str]) -> Wish:
    """The wish with what the engine's own options add to it (rule 5); refuse what contradicts it."""
    gpus = bool(wish.gpus or wish.gpu_ids)
    refuse_conflicts(given, memory=bool(wish.memory), gpus=gpus, inherited=inherited)
    field_name = f"{given.engine} {given.verb[-1]} --memory"
    typed = given.value("memory")
    memory = parse_size(typed, field_name) if typed.strip("0") else wish.memory  # 0: no limit
    named = given.value("name")
    name = wish.name or (named if NAME.fullmatch(named) else "")
    return replace(wish, memory=memory, name=name)


@dataclass(frozen=True, slots=True)
class Printed:
    """A command that was not run, and where it would run."""

    shell: Shell
    placement: Placement

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the user should know."""
        return (*self.placement.remarks, *self.shell.remarks)


def printed(job: ContainerJob, site: Site, holds: Sequence[Hold], *, here: bool) -> Printed | NoRoom:
    """The command that would be run; ``here``: on this very machine, so that its files can be looked at."""
    found = place(site, holds, job.wish, "preview")
    if isinstance(found, NoRoom):
        return found
    gear = gear_of(job) if here else Gear(cdi=job.cdi)
    return Printed(_composed(job, found, site.hardware, gear), found)


def gear_of(job: ContainerJob) -> Gear:
    """How this host gives GPUs to containers; CDI files are looked at only where they matter."""
    cdi = job.cdi or _podman_in_disguise(job)
    described = engines.cdi_devices() if cdi or job.given.engine == PODMAN else {}
    return Gear(cdi=cdi, cdi_devices=described, groups=engines.group_of_file)


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
    gear: Gear,
    hold: Hold | None = None,
    cidfile: str = "",
) -> Shell:
    told = job_environment(placement, hold.id if hold else "", hold.name if hold else "", hardware)
    names = [
        name for option in job.given.all("env-file") for name in engines.variables_in(option.value or "")
    ]
    return compose(
        job.given,
        replace(placement, environment=told),
        hardware,
        gear=gear,
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
    job: ContainerJob, settings: HostSettings, tell: Tell, waiting: TellWaiting, say: Say
) -> int | NoRoom:
    """Start a container, and wait for the client to end; its exit code, or why there is no room."""
    path = find_command(job.given.engine, job.environment.get("PATH"))
    engine = engine_for(job)
    gear = gear_of(job)
    site = with_strangers(this_site(settings), job.wish)
    with _file_for_id(job) as cidfile, ExitStack() as closing:
        child = bear(path, (job.given.engine,))
        try:
            holdings = closing.enter_context(open_holdings(site, job.environment, settings.ledger))
            taken = _take(holdings, job, engine, child.pid, waiting)
            if isinstance(taken, NoRoom):
                child.give_up()
                return taken
        except BaseException:
            child.give_up()
            raise
        hold, placement = taken.hold, taken.placement
        try:
            shell = _composed(job, placement, site.hardware, gear, hold, str(cidfile))
            remarks = (*placement.remarks, *shell.remarks, *holdings.silent)
            tell(Started(replace(hold, mode=job.given.engine), placement, remarks))
            child.let_go(Itself(), job.environment, shell.argv)
        except BaseException:
            child.give_up()
            holdings.end(hold, even_alive=True)
            raise
        start = _Start(holdings, engine, hold, placement, cidfile, say)
        status = wait_for(child, None if job.given.detached else start.look, LOOK_FOR_ID)
        try:
            start.finish(os.waitstatus_to_exitcode(status), detached=job.given.detached)
        except NumawiseError:
            if os.waitstatus_to_exitcode(status) == 0:
                raise  # all went well but the books; the next call reaps, but somebody should know
    return leave_as(status)


def _take(
    holdings: Holdings, job: ContainerJob, engine: Engine, pid: int, waiting: TellWaiting
) -> Taken | NoRoom:
    """Make the hold for the client that waits."""
    given = job.given
    # The engine's options may carry secrets (-e), and others read the ledger.
    words = (given.engine, *given.verb, given.image, *given.command)

    def drawn(hold: Hold, _: Placement) -> Hold:
        owner = replace(hold.owner, engine=given.engine)
        return replace(hold, owner=owner, command=words, labels=engine_labels(engine, given.verb[-1]))

    name = given.value("name") or image_name(given.image)
    launched = Job(job.wish, (name,), job.wait, environment=job.environment)
    return take_patiently(holdings, launched, pid, waiting, CONTAINER, drawn)


def become_client(given: Given, words: Sequence[str], environment: Mapping[str, str]) -> None:
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


class _Start:
    """A container between the client's start and its end."""

    def __init__(
        self, holdings: Holdings, engine: Engine, hold: Hold, placement: Placement, cidfile: Path, say: Say
    ) -> None:
        self.holdings = holdings
        self.engine = engine
        self.hold = hold
        self.placement = placement
        self.cidfile = cidfile
        self.say = say

    def look(self) -> None:
        """While the client runs: record the container as soon as its id is known and it runs."""
        if self.hold.owner.container:
            return
        container = self._container(self._id())
        if isinstance(container, Container) and container.pid:
            with suppress(NumawiseError):  # the client counts for the hold meanwhile
                self._record(container, client=True)

    def finish(self, code: int, *, detached: bool) -> None:
        """After the client's end: the container keeps the hold, or it is given back."""
        found = self._id()
        if not found and code == NOTHING_MADE and not self.hold.owner.container:
            self.holdings.end(self.hold, even_alive=True)
            return
        container = self._container(found)
        if isinstance(container, Silent):
            self.say(
                f"{self.engine.name} does not answer, so {self.hold.name} stays held: {container.reason}"
            )
            if found:
                self._record(Container(found), client=False)
        elif keeps_hold(container, made_only=made_only(self.hold)):
            assert container is not None
            self._record(container, client=False)
            if detached:
                self._check(container)
        else:
            self.holdings.end(self.hold, even_alive=True)

    def _id(self) -> str:
        """The container's id, out of the file; '' as long as that says nothing."""
        try:
            text = self.cidfile.read_text().strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return text if len(text) >= SHORTEST_ID and text.isalnum() else ""

    def _container(self, container: str) -> Container | Silent | None:
        """The container as its engine tells of it, by id or else by label; None: there is none."""
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
        holds, site = self.holdings.ledger.holds(), self.holdings.site
        cpus = pool_cpus(site, pool_of(site, holds), hold.grant.near)
        if cpus != self.placement.cpus:
            problem = move_container(hold, cpus)
            if problem:
                self.say(problem)

    def _check(self, container: Container) -> None:
        """Say so when the container runs on other CPUs than it was granted."""
        allowed = allowed_of(container.pid) if container.pid else None
        if allowed is not None and self.hold.grant.cpus and allowed[0] != self.placement.cpus:
            self.say(
                f"container {container.id[:12]} runs on CPUs {format_ids(allowed[0])}, not on "
                f"{format_ids(self.placement.cpus)}, as it was granted"
            )


def image_name(image: str) -> str:
    """``registry:5000/team/trainer:latest`` → ``trainer``."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0] or "container"

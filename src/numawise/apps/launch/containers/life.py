"""Holds whose owner is a container: which of them go on, and how the shared pool follows.

Rules kept here:

1. A hold names its engine and how that is asked, so that a later call asks the same one.  The words are those
   of its author, so they are used by its author, or by root with the author's rights.  Anybody else may ask
   the docker daemon of the system, with words of our own, and changes nothing.
2. It lives while the client that makes the container does, while the container's first process does, or while
   the engine says that the container keeps it (``host.containers.keeps_hold``).  The engine is asked last,
   once for all of its holds: the first two cost nothing.
3. While the id is not recorded yet, the container is known by its label; so a numawise that was killed on the
   way leaves nothing unaccounted for.
4. An engine that does not answer frees nothing, and that is reported.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from numawise.errors import HostError
from numawise.host import processes
from numawise.host.containers import (
    SYSTEM_SOCKET,
    Container,
    Engine,
    Silent,
    change_cpus,
    keeps_hold,
    labelled,
    stop,
)
from numawise.host.placed import in_container, read_groups
from numawise.results.placement import DOCKER, Hold
from numawise.values import replace

OPTIONS, VERB, FIRST = "engine-options", "verb", "first-process"
SYSTEM_DOCKER = Engine(DOCKER, ("--host", SYSTEM_SOCKET))
CREATE = "create"
ROOT_USER = 0
ROOT = Path("/")


def engine_labels(engine: Engine, verb: str) -> tuple[tuple[str, str], ...]:
    """What a hold remembers of its engine (rule 1)."""
    return ((OPTIONS, shlex.join(engine.options)), (VERB, verb))


def engine_of(hold: Hold, uid: int, *, to_change: bool = False) -> Engine | Silent:
    """The engine of a hold's container, as the user ``uid`` may ask it (rule 1)."""
    name, owner = hold.owner.engine, hold.owner.uid
    try:
        options = tuple(shlex.split(dict(hold.labels).get(OPTIONS, "")))
    except ValueError:
        return Silent("its options make no sense")
    if name == DOCKER and options in ((), SYSTEM_DOCKER.options) and not to_change:
        return SYSTEM_DOCKER
    if uid not in (ROOT_USER, owner):
        return Silent(f"only {hold.owner.user} or root can ask it")
    return Engine(name, options, owner)


def made_only(hold: Hold) -> bool:
    """Whether the container was made to be started later."""
    return dict(hold.labels).get(VERB) == CREATE


def owned_by(hold: Hold, container: Container, *, client: bool = False) -> Hold:
    """The hold with a container as its owner; ``client``: the process that made it still counts, too."""
    labels = dict(hold.labels)
    labels[FIRST] = _first_process(container)
    owner = replace(hold.owner, container=container.id)
    if not client:
        owner = replace(owner, pid=0, start=0)
    return replace(hold, owner=owner, mode=hold.owner.engine, labels=tuple(labels.items()))


def _first_process(container: Container) -> str:
    """Number and start time of a container's first process; '' when it has another number here."""
    here = container.pid and in_container(read_groups(ROOT, container.pid), container.id)
    start = processes.start_time(container.pid) if here else None
    return "" if start is None else f"{container.pid}:{start}"


def ended(holds: Sequence[Hold], uid: int) -> tuple[tuple[Hold, ...], tuple[str, ...]]:
    """Those holds that their container no longer keeps, and a sentence for each engine that is silent."""
    boot, namespace = processes.boot_id(), processes.pid_namespace()
    doubtful: dict[Engine | Silent, list[Hold]] = {}
    for hold in holds:
        if not _process_lives(hold, boot, namespace):
            doubtful.setdefault(engine_of(hold, uid), []).append(hold)
    gone: list[Hold] = []
    silent: list[str] = []
    waited_for: set[int | None] = set()
    for engine, some in doubtful.items():
        if isinstance(engine, Engine) and engine.uid in waited_for and engine.uid != uid:
            engine = Silent("other engines of this user did not answer")
        found = engine if isinstance(engine, Silent) else labelled(engine)
        if isinstance(found, Silent) and isinstance(engine, Engine):
            waited_for.add(engine.uid)
        if isinstance(found, Silent):
            names = ", ".join(hold.name or hold.id for hold in some)
            name = some[0].owner.engine
            silent.append(f"{name} does not answer, so these stay held: {names} ({found.reason})")
        else:
            gone += _given_up(some, found, namespace)
    return tuple(gone), tuple(silent)


def _given_up(holds: Iterable[Hold], found: Mapping[str, Container], namespace: int) -> Iterable[Hold]:
    by_hold = {container.hold: container for container in found.values()}
    for hold in holds:
        owner = hold.owner
        container = found.get(owner.container) if owner.container else by_hold.get(hold.id)
        if container is None and not owner.container and _elsewhere(hold, namespace):
            continue  # its client may still be at work, where we cannot see it
        if not keeps_hold(container, made_only=made_only(hold)):
            yield hold


def _process_lives(hold: Hold, boot: str, namespace: int) -> bool:
    """Whether the client or the container's first process lives (rule 2)."""
    owner = hold.owner
    if owner.boot != boot or _elsewhere(hold, namespace):
        return False
    if owner.pid and processes.alive(owner.pid, owner.start):
        return True
    pid, start = first_process(hold)
    return bool(pid) and processes.alive(pid, start)


def _elsewhere(hold: Hold, namespace: int) -> bool:
    """Whether its process numbers count in another pid namespace than ours."""
    return bool(namespace and hold.owner.namespace and namespace != hold.owner.namespace)


def first_process(hold: Hold) -> tuple[int, int]:
    """Number and start time of the container's first process as it was when recorded; zeros: not known."""
    pid, _, start = dict(hold.labels).get(FIRST, "").partition(":")
    return (int(pid), int(start)) if pid.isdigit() and start.isdigit() else (0, 0)


def unheld(engine: Engine, holds: Iterable[Hold]) -> tuple[Container, ...] | Silent:
    """Containers that run on what they were granted once, their hold being gone: started again by hand."""
    known = {hold.id for hold in holds}
    found = labelled(engine)
    if isinstance(found, Silent):
        return found
    return tuple(one for one in found.values() if one.pid and one.hold not in known)


def stop_container(hold: Hold, seconds: float, uid: int) -> str:
    """Ask a container to end, then have its engine kill it; '' or a sentence on why that failed."""
    if not hold.owner.container:
        return f"{hold.name} is a container that is being made: try again in a moment"
    engine = engine_of(hold, uid, to_change=True)
    if isinstance(engine, Silent):
        return f"{hold.name} is a container that cannot be stopped: {engine.reason}"
    try:
        stop(engine, hold.owner.container, seconds)
    except HostError as refused:
        return f"{refused}; {hold.name} stays held"
    return ""


def move_container(hold: Hold, cpus: int, uid: int) -> str:
    """Give a container in the shared pool other CPUs; '' or a sentence on why that failed."""
    pid, start = first_process(hold)
    if pid and processes.alive(pid, start):
        allowed = processes.allowed_of(pid)
        if allowed is not None and allowed[0] == cpus:
            return ""
    engine = engine_of(hold, uid, to_change=True)
    problem = engine.reason if isinstance(engine, Silent) else ""
    if isinstance(engine, Engine):
        try:
            change_cpus(engine, hold.owner.container, cpus)
        except HostError as refused:
            problem = str(refused)
    stays = f"{hold.name or hold.id} stays on its CPUs, though the shared pool has changed"
    return f"{stays}: {problem}" if problem else ""

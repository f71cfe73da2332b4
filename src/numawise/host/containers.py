"""Container engines of this host, asked through their own clients.

Rules kept here:

1. Every question ends: a client gets ``PATIENCE`` seconds.  An engine that does not answer is ``Silent``, and
   that says nothing about its containers: unknown is not dead.
2. Containers are found by their label, in one question for all of them; only those are looked at further.
3. podman and nerdctl keep their records per user, so only that user is asked; root asks as that user.
4. What the engine will start again by itself keeps its hold (see ``keeps_hold``).
"""

import json
import math
import os
import pwd
import re
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from numawise.errors import HostError, InputError
from numawise.host.placed import in_container, in_group, read_groups
from numawise.host.processes import processes
from numawise.host.rights import environment_of, plain_environment
from numawise.results.placement import DOCKER, NERDCTL, PODMAN
from numawise.sets import format_ids
from numawise.values import dataclass

LABEL = "numawise.hold"
PATIENCE = 10.0
"""Seconds that a client is given for an answer."""
NERDCTL_RESTART = "containerd.io/restart.policy"
ENDED = frozenset({"exited", "stopped", "dead"})
READY = frozenset({"created", "configured"})
COMES_BACK = "always"
GONE = re.compile(r"no such (?:container|object)", re.IGNORECASE)
LONGEST_ERROR = 4000
LARGEST_ANSWER, PIECE = 64 << 20, 1 << 20


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine, and how to ask it."""

    name: str
    """``docker``, ``podman`` or ``nerdctl``: the client."""
    options: tuple[str, ...] = ()
    """Words before the client's command, such as ``--host unix:///var/run/docker.sock``."""
    uid: int | None = None
    """The only user whose client sees the same containers; None: anybody's does."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container as its engine reports it."""

    id: str
    hold: str = ""
    """Value of its label."""
    name: str = ""
    state: str = ""
    """In the engine's words: ``created``, ``running``, ``paused``, ``exited`` …"""
    pid: int = 0
    """Its first process; 0 when none runs."""
    restart: str = ""
    """``no``, ``always``, ``on-failure`` or ``unless-stopped``."""
    oom_killed: bool = False
    """The OOM killer ended a process of it at its memory limit, as the engine saw it."""


@dataclass(frozen=True, slots=True)
class Silent:
    """The engine does not answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Said:
    """What a client said."""

    code: int
    out: str
    error: str
    """In one line."""


def keeps_hold(container: Container | None, *, made_only: bool) -> bool:
    """Whether a container keeps the hold on what it was granted.

    A running, paused or restarting one does, and so does one in a state that is not known here.  A stopped
    one does not, unless its engine will start it again by itself (``--restart always``).  One that was never
    started does only if it was made by ``create`` (``made_only``), since ``run`` leaves such a one behind
    when it fails.
    """
    if container is None:
        return False
    if container.state in READY:
        return made_only
    return container.state not in ENDED or container.restart == COMES_BACK


# --- questions --------------------------------------------------------------------------------


def labelled(engine: Engine) -> Mapping[str, Container] | Silent:
    """All containers with our label, by id, stopped ones included (rule 2)."""
    found = ask(engine, "ps", "--all", "--no-trunc", "--quiet", "--filter", f"label={LABEL}")
    if isinstance(found, Silent):
        return found
    if found.code:
        return Silent(found.error or f"{engine.name} ps ended with {found.code}")
    ids = tuple(dict.fromkeys(found.out.split()))
    return inspect(engine, ids) if ids else {}


def inspect(engine: Engine, ids: tuple[str, ...]) -> Mapping[str, Container] | Silent:
    """These containers, by full id; one that is gone is left out.

    A client prints a list, empty if need be, even when it reaches no engine.  So what is missing in it is
    gone only if the client says so, as often as something is missing.
    """
    said = ask(engine, "container", "inspect", *ids)
    if isinstance(said, Silent):
        return said
    try:
        found = {container.id: container for container in map(_container, _array(said.out))}
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as problem:
        return Silent(f"{engine.name} did not answer with a list of containers ({problem})")
    if len(found) + len(GONE.findall(said.error)) < len(set(ids)):
        return Silent(said.error or f"{engine.name} left out containers it had named before")
    return found


def _array(text: str) -> list[object]:
    """A JSON array; an engine that finds nothing may print nothing at all."""
    found = json.loads(text) if text.strip() else []
    if not isinstance(found, list):
        raise TypeError("no array")
    return found


def _container(data: object) -> Container:
    if not isinstance(data, dict):
        raise TypeError("no object")
    state, config = data.get("State") or {}, data.get("Config") or {}
    labels = config.get("Labels") or {}
    restart = ((data.get("HostConfig") or {}).get("RestartPolicy") or {}).get("Name") or ""
    return Container(
        id=str(data["Id"]),
        hold=str(labels.get(LABEL, "")),
        name=str(data.get("Name") or "").removeprefix("/"),
        state=str(state.get("Status") or "").lower(),
        pid=int(state.get("Pid") or 0),
        oom_killed=state.get("OOMKilled") is True,
        restart=str(restart or labels.get(NERDCTL_RESTART, "")).partition(":")[0],
    )


def container_pids(engine: Engine, container: str, root: Path = Path("/")) -> tuple[int, ...]:
    """All processes of a container, ascending, as this host numbers them."""
    found = inspect(engine, (container,))
    if isinstance(found, Silent):
        raise HostError(f"{engine.name} does not answer: {found.reason}")
    first = next(
        (one for one in found.values() if one.id.startswith(container) or one.name == container), None
    )
    if first is None or not first.pid:
        return ()
    own = max(read_groups(root, first.pid), key=len, default="")
    return tuple(
        process.pid
        for process in processes(root)
        if process.pid == first.pid
        or in_container(groups := read_groups(root, process.pid), first.id)
        or (own not in ("", "/") and in_group(groups, own))
    )


def change_cpus(engine: Engine, container: str, cpus: int) -> None:
    """Let a container run on other CPUs."""
    found = ask(engine, "update", f"--cpuset-cpus={format_ids(cpus)}", container)
    if isinstance(found, Silent) or found.code:
        reason = found.reason if isinstance(found, Silent) else found.error
        raise HostError(f"{engine.name} did not change the CPUs of container {container[:12]}: {reason}")


def stop(engine: Engine, container: str, seconds: float) -> None:
    """Ask a container to end, and have the engine kill it after so many seconds."""
    words = ("stop", "-t", str(math.ceil(seconds)), container)
    found = ask(engine, *words, patience=math.ceil(seconds) + PATIENCE)
    if isinstance(found, Silent) or found.code:
        reason = found.reason if isinstance(found, Silent) else found.error
        raise HostError(f"{engine.name} did not stop container {container[:12]}: {reason}")


def ask(engine: Engine, *words: str, patience: float = PATIENCE) -> Said | Silent:
    """Run a client to its end."""
    owner = _owner(engine)
    if isinstance(owner, Silent):
        return owner
    argv = (engine.name, *engine.options, *words)
    environment = _environment(engine, owner)
    try:
        process = subprocess.Popen(  # noqa: S603 - the words are ours, or what the user gave the engine before
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=None if owner is None else "/",
            user=None if owner is None else owner.pw_uid,
            group=None if owner is None else owner.pw_gid,
            extra_groups=None if owner is None else os.getgrouplist(owner.pw_name, owner.pw_gid),
            start_new_session=owner is not None,  # what acts as another user has no terminal of ours
        )
    except OSError as error:
        return Silent(f"{engine.name}: {error.strerror}")
    with process:
        try:
            said = _read_all(process, patience)
        except BaseException:
            process.kill()
            raise
        if isinstance(said, str):
            process.kill()
            return Silent(f"{engine.name} {said}")
    out, errors = (data.decode(errors="replace") for data in said)
    return Said(process.returncode, out, " ".join(errors.split())[:LONGEST_ERROR])


def _read_all(process: "subprocess.Popen[bytes]", patience: float) -> list[bytes] | str:
    """What a client writes to its output and its errors until it ends; or why nobody waits any longer."""
    until = time.monotonic() + patience
    data = {pipe: b"" for pipe in (process.stdout, process.stderr) if pipe}
    with selectors.DefaultSelector() as waiting:
        for pipe in data:
            waiting.register(pipe, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(until - time.monotonic())
            if time.monotonic() >= until:
                return f"gave no answer within {patience:.0f} s"
            for key, _ in ready:
                pipe = next(pipe for pipe in data if pipe is key.fileobj)
                piece = os.read(pipe.fileno(), PIECE)
                data[pipe] += piece
                if not piece:
                    waiting.unregister(pipe)
            if sum(map(len, data.values())) > LARGEST_ANSWER:
                return f"wrote more than {LARGEST_ANSWER >> 20} MiB"
    try:
        process.wait(max(until - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return f"gave no answer within {patience:.0f} s"
    return list(data.values())


def _owner(engine: Engine) -> pwd.struct_passwd | Silent | None:
    """The user to ask as (rule 3); None: oneself."""
    if engine.uid is None or engine.uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        return Silent(f"containers of {engine.name} can be seen by the user who made them and by root alone")
    try:
        return pwd.getpwuid(engine.uid)
    except KeyError:
        return Silent(f"there is no user {engine.uid} any more")


def _environment(engine: Engine, owner: pwd.struct_passwd | None) -> dict[str, str]:
    if owner is not None:
        return environment_of(owner.pw_uid)
    chosen = ("DOCKER_HOST", "DOCKER_CONTEXT") if engine.options else ()
    return {name: value for name, value in plain_environment().items() if name not in chosen}


# --------------------------------------------------------------------------------------------------
# Which engine a command line speaks to, and what this host has for containers.
#
# Rules kept here:
#
# 1. The same client may mean several engines: by option, by environment, by context.  docker is asked at the
#    socket that the container was made through, by anybody who may use it; podman and nerdctl keep their
#    records per user.
# 2. An engine on another machine, or in a virtual machine, has other CPUs: it is refused.
# 3. CDI files are read as the engines do: from ``/etc/cdi`` and ``/var/run/cdi``, broken ones passed over.


SYSTEM_SOCKET = "unix:///var/run/docker.sock"
DESKTOP = re.compile(r"/\.docker/(?:desktop|run)/")
HERE = re.compile(r"(?:tcp|http|https)://(?:127\.[0-9.]+|localhost|\[::1\])(?::[0-9]+)?/?", re.ASCII)
CDI_FOLDERS = ("etc/cdi", "var/run/cdi")
CDI_FILES = (".yaml", ".yml", ".json")


def is_podman(path: str) -> bool:
    """Whether a client called docker is podman in disguise: a link to it, or the script of podman-docker."""
    try:
        if Path(path).resolve().name.startswith(PODMAN):
            return True
        with Path(path).open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return head.startswith(b"#!") and b"podman" in head


def locate(
    name: str,
    options: Mapping[str, str],
    words: tuple[str, ...],
    environment: Mapping[str, str],
    uid: int | None = None,
) -> Engine:
    """The engine that a command line speaks to.

    ``options`` are its global options by name, ``words`` the same as typed.
    """
    uid = os.geteuid() if uid is None else uid
    if name == PODMAN:
        return _podman(options, words, environment, uid)
    if name == NERDCTL:
        for option, variable in (("host", "CONTAINERD_ADDRESS"), ("namespace", "CONTAINERD_NAMESPACE")):
            if option not in options and environment.get(variable):
                words += ("--address" if option == "host" else "--namespace", environment[variable])
        return Engine(name, words, uid)
    host, context = options.get("host", ""), options.get("context", "")
    if not host and not context:
        host, context = environment.get("DOCKER_HOST", ""), environment.get("DOCKER_CONTEXT", "")
    if not host and not context:
        folder = options.get("config") or environment.get("DOCKER_CONFIG")
        context = _current_context(folder or f"{environment.get('HOME', '')}/.docker")
    if not host and context and context != "default":
        host = _context_host(context, options)
    host = host or SYSTEM_SOCKET
    _refuse_elsewhere(name, host)
    if host.startswith("unix://"):
        return Engine(name, ("--host", host))
    return Engine(name, words or ("--host", host), uid)


def _podman(
    options: Mapping[str, str], words: tuple[str, ...], environment: Mapping[str, str], uid: int
) -> Engine:
    connection = options.get("connection") or environment.get("CONTAINER_CONNECTION", "")
    if connection:
        raise InputError(
            f"podman's connection {connection} leads to another machine or a virtual one",
            field=PODMAN,
            advice="run numawise there",
        )
    host = options.get("host", "")
    if not host and environment.get("CONTAINER_HOST"):
        host = environment["CONTAINER_HOST"]
        words = ("--url", host, *words)
    if host:
        _refuse_elsewhere(PODMAN, host)
    return Engine(PODMAN, words, uid)


def _current_context(folder: str) -> str:
    try:
        data = json.loads((Path(folder) / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    found = data.get("currentContext", "") if isinstance(data, dict) else ""
    return found if isinstance(found, str) else ""


def _context_host(context: str, options: Mapping[str, str]) -> str:
    words = ("--config", options["config"]) if "config" in options else ()
    question = ("context", "inspect", "--format", "{{.Endpoints.docker.Host}}", context)
    found = ask(Engine(DOCKER, words), *question)
    reason = found.reason if isinstance(found, Silent) else found.error if found.code else ""
    if isinstance(found, Silent) or found.code:
        raise InputError(f"docker's context {context} is not known ({reason})", field=DOCKER)
    return found.out.strip()


def _refuse_elsewhere(name: str, host: str) -> None:
    if DESKTOP.search(host):
        raise InputError(
            f"{host} is Docker Desktop, whose containers run in a virtual machine with CPUs of its own",
            field=name,
            advice="use the docker daemon of this machine: --context default",
        )
    if not host.startswith("unix://") and not HERE.fullmatch(host):
        raise InputError(
            f"{host} is not on this machine, so its containers have other CPUs",
            field=name,
            advice="run numawise there, or speak to the engine of this machine",
        )


def cdi_devices(root: Path = Path("/")) -> dict[str, frozenset[str]]:
    """CDI kind, such as ``nvidia.com/gpu`` → names of the devices that files describe."""
    found: dict[str, frozenset[str]] = {}
    for file in _cdi_files(root):
        from numawise.codec.document import read_file  # noqa: PLC0415 - costs time, and few hosts have CDI files

        try:
            documents = read_file(str(file))
        except InputError:
            continue  # the engine passes over a file that it cannot read, too
        for document in documents:
            data = document.value
            if isinstance(data, Mapping) and isinstance(data.get("devices"), list | tuple):
                names = {str(one.get("name", "")) for one in data["devices"] if isinstance(one, Mapping)}
                kind = str(data.get("kind", ""))
                found[kind] = found.get(kind, frozenset()) | names
    return found


def _cdi_files(root: Path) -> Iterator[Path]:
    for folder in CDI_FOLDERS:
        try:
            named = (path for path in (root / folder).iterdir() if path.suffix in CDI_FILES)
            yield from sorted(path for path in named if path.is_file())  # a pipe would be waited for
        except OSError:
            continue


def group_of_file(path: str) -> str:
    """The number of the group that a device file belongs to; '' when there is no such file."""
    try:
        return str(Path(path).stat().st_gid)
    except OSError:
        return ""


def variables_in(path: str) -> tuple[str, ...]:
    """Names that a file for ``--env-file`` sets; none where it cannot be read (the engine reports that)."""
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return ()
    lines = (line.lstrip() for line in text.splitlines())
    return tuple(line.partition("=")[0] for line in lines if line and not line.startswith("#"))

"""Container engines of this host, asked through their own clients.

Rules kept here:

1. Every question ends: a client gets ``PATIENCE`` seconds.  An engine that does not answer is ``Silent``, and
   that says nothing about its containers: unknown is not dead.
2. Containers are found by their label, in one question for all of them; only those are looked at further.
3. podman and nerdctl keep their books per user, so only that user is asked; root asks as that user.
4. What the engine will start again by itself keeps its hold (see ``keeps_hold``).
"""

import json
import os
import pwd
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from numawise.errors import HostError
from numawise.host.placed import in_container, in_group, read_groups
from numawise.host.processes import processes
from numawise.sets import format_ids

DOCKER, PODMAN, NERDCTL = "docker", "podman", "nerdctl"
LABEL = "numawise.hold"
PATIENCE = 10.0
"""Seconds that a client is given for an answer."""
NERDCTL_RESTART = "containerd.io/restart.policy"
ENDED = frozenset({"exited", "stopped", "dead"})
READY = frozenset({"created", "configured"})
COMES_BACK = "always"
GONE = re.compile(r"no such (?:container|object)", re.IGNORECASE)
LONGEST_ERROR = 4000


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
    """A container as its engine tells of it."""

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
    except (ValueError, TypeError, KeyError) as problem:
        return Silent(f"{engine.name} answered what is no list of containers ({problem})")
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


def ask(engine: Engine, *words: str) -> Said | Silent:
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
        )
    except OSError as error:
        return Silent(f"{engine.name}: {error.strerror}")
    with process:
        try:
            out, errors = process.communicate(timeout=PATIENCE)
        except BaseException as problem:
            process.kill()
            if isinstance(problem, subprocess.TimeoutExpired):
                return Silent(f"{engine.name} gave no answer within {PATIENCE:.0f} s")
            raise
    told = " ".join(errors.decode(errors="replace").split())
    return Said(process.returncode, out.decode(errors="replace"), told[:LONGEST_ERROR])


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
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "HOME": owner.pw_dir,
            "USER": owner.pw_name,
            "XDG_RUNTIME_DIR": f"/run/user/{owner.pw_uid}",
        }
    chosen = ("DOCKER_HOST", "DOCKER_CONTEXT") if engine.options else ()
    return {name: value for name, value in os.environ.items() if name not in chosen} | {"LC_ALL": "C"}

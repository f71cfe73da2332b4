"""Which engine a command line speaks to, and what this host has for containers.

Rules kept here:

1. The same client may mean several engines: by option, by environment, by context.  docker is asked at the
   socket that the container was made through, by anybody who may use it; podman and nerdctl keep their books
   per user.
2. An engine on another machine, or in a virtual machine, has other CPUs: it is refused.
3. CDI files are read as the engines do: from ``/etc/cdi`` and ``/var/run/cdi``, broken ones passed over.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from numawise.errors import InputError
from numawise.host.containers import DOCKER, NERDCTL, PODMAN, Engine, Silent, ask

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
    except (OSError, ValueError):
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
            yield from sorted(path for path in (root / folder).iterdir() if path.suffix in CDI_FILES)
        except OSError:
            continue


def group_of_file(path: str) -> str:
    """The number of the group that a device file belongs to; '' when there is no such file."""
    try:
        return str(Path(path).stat().st_gid)
    except OSError:
        return ""


def variables_in(path: str) -> tuple[str, ...]:
    """Names that a file for ``--env-file`` sets; none where it cannot be read, which the engine will tell."""
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return ()
    lines = (line.lstrip() for line in text.splitlines())
    return tuple(line.partition("=")[0] for line in lines if line and not line.startswith("#"))

"""A service of a Compose file: what ``docker run`` would be given, in the words of the Compose specification.

Rules kept here:

1. The options are those of the ``docker run`` line, so the two texts cannot differ.
2. It is meant to be laid over the user's own file (``compose.override.yaml``), and wins there.  Compose adds
   the lists of both files up, so the GPUs are ``!override`` and the other way to name some is ``!reset``; it
   refuses two different limits, so a limit stands in both of its places.
3. Compose has no word for memory nodes: a remark names the command that binds them.
4. Compose replaces ``$NAME`` in values, so a dollar sign is written twice.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from numawise.codec.output import scalar
from numawise.errors import InputError, quoted
from numawise.values import dataclass

SERVICE = "SERVICE"
SERVICE_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ComposeFile:
    """The lines of a file with one service."""

    lines: tuple[str, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Options:
    """What the ``docker run`` line has."""

    cpuset: str = ""
    mems: str = ""
    memory: str = ""
    cpus: str = ""
    gpus: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


def checked_service(name: str) -> str:
    """A name that Compose takes for a service."""
    if not SERVICE_NAME.fullmatch(name):
        raise InputError(
            f"{quoted(name)} is not the name of a service",
            field="--service",
            advice="use letters, digits and . _ - alone, as in the Compose file",
        )
    return name


def compose_file(service: str, options: Iterable[Sequence[str]]) -> ComposeFile:
    """The service that is started as a ``docker run`` with these options would be."""
    given = _read(options)
    lines = [
        "# compose.override.yaml, beside the compose.yaml that has the service; then: docker compose up",
        "services:",
        f"  {scalar(service)}:",
        *(f"    {line}" for line in _service(given)),
    ]
    if len(lines) == 3:
        lines[-1] += " {}"
    remarks = []
    if given.mems:
        remarks.append(
            f"Compose cannot bind memory to NUMA node {given.mems}: after 'up', "
            f"docker update --cpuset-mems={given.mems} $(docker compose ps -q {service})"
        )
    return ComposeFile(tuple(lines), tuple(remarks))


def _service(given: _Options) -> Iterator[str]:
    if given.cpuset:
        yield f'cpuset: "{given.cpuset}"'
    if given.cpus:
        yield f"cpus: {given.cpus}"
    if given.memory:
        yield f"mem_limit: {given.memory}"
    if given.devices:
        yield "devices:"
        yield from (f'  - "{file}:{file}"' for file in given.devices)
    if given.groups:
        yield "group_add:"
        yield from (f'  - "{group}"' for group in given.groups)
    if given.variables:
        yield "environment:"
        for variable in given.variables:
            name, _, value = variable.partition("=")
            yield f"  {scalar(name)}: {scalar(value.replace('$', '$$'))}"
    if given.gpus:
        yield "gpus: !reset null"
    if given.gpus or given.memory or given.cpus:
        yield "deploy:"
        yield "  resources:"
    if given.memory or given.cpus:
        yield "    limits:"
    if given.cpus:
        yield f'      cpus: "{given.cpus}"'
    if given.memory:
        yield f"      memory: {given.memory}"
    if given.gpus:
        yield "    reservations:"
        yield "      devices: !override"
        yield "        - driver: nvidia"
        yield f"          device_ids: [{', '.join(f'{chr(34)}{gpu}{chr(34)}' for gpu in given.gpus)}]"
        yield "          capabilities: [gpu]"


def _read(options: Iterable[Sequence[str]]) -> _Options:
    """The options of a ``docker run`` line, each with its value."""
    found: dict[str, list[str]] = {}
    for first, *rest in options:
        name, equals, value = first.partition("=")
        found.setdefault(name, []).append(value if equals else rest[0])
    gpus = found.pop("--gpus", [""])[0].strip('"').removeprefix("device=")
    read = _Options(
        cpuset=found.pop("--cpuset-cpus", [""])[0],
        mems=found.pop("--cpuset-mems", [""])[0],
        memory=found.pop("--memory", [""])[0],
        cpus=found.pop("--cpus", [""])[0],
        gpus=tuple(gpus.split(",")) if gpus else (),
        devices=tuple(found.pop("--device", ())),
        groups=tuple(found.pop("--group-add", ())),
        variables=tuple(found.pop("-e", ())),
    )
    if found:
        raise AssertionError(f"no word of Compose for {', '.join(found)}")
    return read

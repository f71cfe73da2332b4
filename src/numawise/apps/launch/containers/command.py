"""A command line for docker, podman or nerdctl, as its user wrote it, taken apart.

Rules kept here:

1. Nothing of it is changed: every word belongs to exactly one part, and the parts in order are the line
   again.
2. Only ``run`` and ``create`` (also after ``container``) start containers that can be placed; for the rest
   the refusal says what to do instead.
3. Where an option is given twice, the last one counts, as it does for the engines.
4. What numawise decides (CPUs, memory nodes, GPUs, the hold's label) may not be given to the engine as well.
"""

import re
from collections.abc import Mapping

from numawise.apps.launch.containers.options import GLOBAL, RUN, SAME, EngineOptions
from numawise.errors import InputError
from numawise.host.containers import LABEL
from numawise.values import dataclass, replace

VERBS = ("run", "create")
GROUP = "container"
INSTEAD = {
    "compose": "give each service its cpuset and device_ids, which 'numawise flags' prints",
    "exec": "what exec starts runs on its container's CPUs already",
    "start": "a container keeps the CPUs it was made with; make it by 'run' or 'create'",
    "restart": "a container keeps the CPUs it was made with; make it by 'run' or 'create'",
    "build": "only 'run' and 'create' can be placed",
    "update": "'numawise flags' prints the values for it",
    "stack": "only 'run' and 'create' can be placed",
    "service": "a service is placed by Swarm; only 'run' and 'create' can be placed",
    "pod": "give the CPUs to the containers of the pod; only 'run' and 'create' can be placed",
    "kube": "only 'run' and 'create' can be placed",
}
TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
GPU_DEVICE = re.compile(r"/dev/(?:nvidia[0-9]+|kfd|dri)(?:[/:].*)?|[\w.-]+/gpu=.*", re.ASCII)


@dataclass(frozen=True, slots=True)
class CommandOption:
    """One option."""

    name: str
    """Its long name."""
    value: str | None
    """None: it has none."""
    typed: str
    """How it was written, without the value: ``-m``."""
    words: tuple[str, ...]
    """The words of the command line; empty for all but the first of a cluster such as ``-dit``."""

    @property
    def on(self) -> bool:
        """Whether an option without a value is set."""
        return self.value is None or self.value in TRUE


@dataclass(frozen=True, slots=True)
class ContainerCommand:
    """What the user wrote."""

    engine: str
    before: tuple[CommandOption, ...]
    """Global options."""
    verb: tuple[str, ...]
    """``run``, or ``container run``."""
    options: tuple[CommandOption, ...]
    ends: tuple[str, ...]
    """``--``, if it stands before the image."""
    image: str
    command: tuple[str, ...]

    @property
    def creates(self) -> bool:
        """Whether the container is made only, to be started later."""
        return self.verb[-1] == "create"

    @property
    def detached(self) -> bool:
        """Whether the client ends before the container does."""
        return self.creates or self.switched("detach")

    @property
    def helps(self) -> bool:
        """Whether it asks for the engine's help only."""
        return self.switched("help")

    def all(self, name: str) -> tuple[CommandOption, ...]:
        """All options of that long name, in order."""
        return tuple(option for option in (*self.before, *self.options) if option.name == name)

    def value(self, name: str) -> str:
        """The value of the last option of that name; '' when it is not there."""
        found = self.all(name)
        return (found[-1].value or "") if found else ""

    def switched(self, name: str) -> bool:
        """Whether an option without a value is set."""
        found = self.all(name)
        return bool(found) and found[-1].on

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Variables given by ``-e``; a name alone takes the value that the client itself has."""
        found: dict[str, str] = {}
        for option in self.all("env"):
            name, equals, value = (option.value or "").partition("=")
            if equals:
                found[name] = value
            elif name in inherited:
                found[name] = inherited[name]
        return found


def read_command(engine: str, words: tuple[str, ...]) -> ContainerCommand:
    """Take a command line apart, without the engine's own name."""
    if words[:1] == (engine,):
        words = words[1:]
    at, before = _options(engine, words, 0, GLOBAL[engine], f"before {' or '.join(VERBS)}")
    if at < len(words) and words[at] == "--":
        at += 1
    begin = at
    if words[at : at + 1] == (GROUP,):
        at += 1
    if at == len(words):
        if before and any(option.name in ("help", "version") for option in before):
            raise InputError(
                f"{words[0]} is {engine}'s own",
                field=engine,
                advice=f"run '{engine} {words[0]}' without numawise",
            )
        raise InputError(
            f"no {engine} command is given", field=engine, advice=f"write: numawise {engine} … -- run … IMAGE"
        )
    verb = words[at]
    if verb not in VERBS:
        advice = INSTEAD.get(verb, f"write: numawise {engine} … -- run … IMAGE")
        raise InputError(f"{engine} {verb} cannot be placed", field=engine, advice=advice)
    at, options = _options(engine, words, at + 1, RUN[engine], "")
    ends: tuple[str, ...] = ()
    if at < len(words) and words[at] == "--":
        ends, at = ("--",), at + 1
    verbs = words[begin : words.index(verb, begin) + 1]
    given = ContainerCommand(
        engine, before, verbs, options, ends, "".join(words[at : at + 1]), words[at + 1 :]
    )
    if not given.image and not given.helps:
        raise InputError(
            f"{engine} {verb} names no image", field=engine, advice="put the image after the engine's options"
        )
    return given


def _options(
    engine: str, words: tuple[str, ...], at: int, known: EngineOptions, where: str
) -> tuple[int, tuple[CommandOption, ...]]:
    """Options from a place on, and the place of the first word that is none."""
    found: list[CommandOption] = []
    while at < len(words):
        word = words[at]
        if word in ("-", "--") or not word.startswith("-"):
            break
        if word.startswith("--"):
            option = _long(engine, words, at, known, where)
            found.append(option)
        else:
            cluster = _short(engine, words, at, known, where)
            found += cluster
            option = cluster[0]
        at += len(option.words)
    return at, tuple(found)


def _long(engine: str, words: tuple[str, ...], at: int, known: EngineOptions, where: str) -> CommandOption:
    typed, equals, value = words[at].partition("=")
    name = SAME.get(typed[2:], typed[2:])
    if equals:
        if typed[2:] in known.plain:
            _boolean(engine, typed, value)
        return CommandOption(name, value, typed, words[at : at + 1])
    if typed[2:] in known.plain:
        return CommandOption(name, None, typed, words[at : at + 1])
    if typed[2:] in known.valued:
        return CommandOption(name, _next(engine, words, at, typed), typed, words[at : at + 2])
    place = f" {where}" if where else ""
    raise InputError(
        f"{typed} is not an option of {engine} that numawise knows{place}, so it cannot find the image",
        field=engine,
        advice=f"write {typed}=VALUE, or {typed}=true if it takes none",
    )


def _short(
    engine: str, words: tuple[str, ...], at: int, known: EngineOptions, where: str
) -> tuple[CommandOption, ...]:
    """The options of a cluster such as ``-dit`` or ``-p8080:80``; the first one has the words."""
    found: list[CommandOption] = []
    rest, size = words[at][1:], 1
    while rest:
        letter, rest = rest[0], rest[1:]
        if letter not in known.short:
            place = f" {where}" if where else ""
            raise InputError(
                f"-{letter} in {words[at]} is not an option of {engine} that numawise knows{place}, "
                "so it cannot find the image",
                field=engine,
                advice="write its long name, with = before the value",
            )
        long, typed = known.short[letter], f"-{letter}"
        value: str | None = None
        if long in known.valued and not rest:
            value, size = _next(engine, words, at, typed), 2
        elif long in known.valued or rest.startswith("="):
            value, rest = rest.removeprefix("="), ""
            if long in known.plain:
                _boolean(engine, typed, value)
        found.append(CommandOption(SAME.get(long, long), value, typed, ()))
    return (replace(found[0], words=words[at : at + size]), *found[1:])


def _next(engine: str, words: tuple[str, ...], at: int, typed: str) -> str:
    if at + 1 >= len(words):
        raise InputError(f"{typed} needs a value", field=engine)
    return words[at + 1]


def _boolean(engine: str, typed: str, value: str) -> None:
    if value not in TRUE | FALSE:
        raise InputError(f"{typed}={value} is neither true nor false", field=engine)


def refuse_conflicts(
    given: ContainerCommand, *, memory: bool, gpus: bool, inherited: Mapping[str, str]
) -> None:
    """Refuse what the user gave to the engine though numawise decides it.

    ``memory``: an amount was given to numawise; ``gpus``: GPUs were.
    """
    before = "to numawise, before --"
    advice = {
        "cpuset-cpus": f"leave it out; numawise chooses the CPUs: give --cpus {before}",
        "cpuset-mems": "leave it out; numawise takes the memory nodes of the CPUs and GPUs it chooses",
        "gpus": f"leave it out; give --gpus N or --gpu-ids LIST {before}",
        "cpus": f"give --cpus {before}; a fraction runs in the shared pool with that limit",
        "cpu-quota": f"give --cpus {before}; a fraction runs in the shared pool with that limit",
        "cpu-count": f"give --cpus {before}",
    }
    for option in given.options:
        value = option.value or ""
        if option.name in advice:
            raise _conflict(given, option, advice[option.name])
        if option.name == "memory" and memory:
            raise _conflict(given, option, "give the amount once, to numawise or to the engine")
        if option.name == "cgroup-conf" and "cpuset." in value:
            raise _conflict(given, option, "leave it out; numawise chooses CPUs and memory nodes")
        if option.name == "label" and value.partition("=")[0] == LABEL:
            raise _conflict(given, option, "leave it out; numawise sets it by itself")
        if (
            option.name == "device"
            and GPU_DEVICE.fullmatch(value)
            and (gpus or not value.startswith("/dev/dri"))
        ):
            raise _conflict(given, option, f"leave it out; give --gpus N or --gpu-ids LIST {before}")
    shown = given.environment(inherited).get("NVIDIA_VISIBLE_DEVICES", "void")
    if shown not in ("", "void", "none"):
        raise InputError(
            f"-e NVIDIA_VISIBLE_DEVICES={shown} chooses GPUs without numawise",
            field=given.engine,
            advice=f"leave it out; give --gpus N or --gpu-ids LIST {before}",
        )


def _conflict(given: ContainerCommand, option: CommandOption, advice: str) -> InputError:
    shown = option.typed if option.value is None else f"{option.typed} {option.value}"
    return InputError(
        f"{shown} is for numawise to decide", field=f"{given.engine} {given.verb[-1]}", advice=advice
    )

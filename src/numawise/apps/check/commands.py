"""Commands of a container that bind it: which programs they run, and which of those only look.

Rules kept here:

1. A container's words are one command; a word with blanks or line ends in it is a script, and so is what
   stands in ``$(…)`` or backquotes.  A script is cut into commands at ``;``, ``&``, ``|`` and line ends.
2. A program counts where its arguments bind by number: ``numactl --hardware``, ``taskset -p PID``,
   ``hwloc-bind --get``, and its bare name (``apt-get install numactl``) do not.
3. Numbers out of a variable are not known, and those relative to what is allowed (``+0``, ``all``) are right.
4. Launchers that bind to cores or sockets without numbers choose among the CPUs that are allowed.  Where
   these are the container's own that is right; in the shared pool every such container chooses the same.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from numawise.values import dataclass

INNER = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
EXPANDED = "$inner"
SCRIPT = re.compile(r"[\s;&|]")
SEPARATORS = ";&|\n"
BY_NUMBER = re.compile(r"^[!^]?(0x)?[0-9a-fA-F]+([,:-][!^]?[0-9a-fA-F]+)*$")
NUMACTL = {
    "-C": "--physcpubind", "-N": "--cpunodebind", "-c": "--cpubind", "-m": "--membind", "-p": "--preferred",
    "-P": "--preferred-many", "-i": "--interleave", "-w": "--weighted-interleave",
}  # fmt: skip
INTERLEAVING = ("--interleave", "--weighted-interleave")
TASKSET_OPTIONS = {"--all-tasks": "a", "--cpu-list": "c", "--pid": "p", "--help": "h", "--version": "V"}
NUMBERED = (
    "--cpunodebind",
    "--physcpubind",
    "--membind",
    "--cpu-list",
    "--cpu-set",
    "--numa-node",
    "--numa-nodes",
)
SLURM = re.compile(r"(map|mask)_(cpu|ldom):")
RELATIVE = ("--bind-to", "-bind-to", "--map-by", "-map-by")
UNITS = frozenset({
    "core", "socket", "package", "numa", "hwthread", "l1cache", "l2cache", "l3cache", "board", "node", "slot",
    "none", "seq", "dist",
})  # fmt: skip
FREE = frozenset({"none", "slot", "node", "board", "seq"})
"""Units that leave a process where it is, or that a container has one of."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A command that binds."""

    text: str
    """The program with the options that bind, or the launcher's option."""
    relative: bool = False
    """Among the CPUs that are allowed (rule 4)."""
    launcher: bool = False
    """It is an option of another program."""


def bindings(words: Sequence[str]) -> Iterator[Binding]:
    """The commands of a container that bind by number, or among what is allowed."""
    for command in _commands(words):
        for at, word in enumerate(command):
            program = word.rpartition("/")[2]
            reader = PROGRAMS.get(program)
            if reader is None:
                continue
            options = reader(command[at + 1 :])
            if options:
                yield Binding(" ".join([program, *options]))
        yield from _launched(command)


def _commands(words: Sequence[str]) -> Iterator[list[str]]:
    """Simple commands (rule 1)."""
    scripts = [word for word in words if SCRIPT.search(word.strip())]
    if len(scripts) < len(words):
        yield [word for word in words if word not in scripts]
    waiting = list(reversed(scripts))
    while waiting:
        script = waiting.pop()
        waiting += [first or second for first, second in INNER.findall(script)]
        yield from _cut(INNER.sub(EXPANDED, script).replace("\\\n", " "))


def _cut(script: str) -> Iterator[list[str]]:
    for line in script.split("\n"):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=SEPARATORS)
        lexer.whitespace_split = True
        try:
            tokens = list(lexer)
        except ValueError:  # a quotation that ends on another line
            tokens = re.findall(r"[;&|]+|[^\s;&|]+", line)
        command: list[str] = []
        for token in [*tokens, ";"]:
            if token and not token.strip(SEPARATORS):
                if command:
                    yield command
                command = []
            else:
                command.append(token)


# --- programs -------------------------------------------------------------------------------


def _numactl(arguments: Sequence[str]) -> list[str]:
    """Options of numactl that bind by number, or interleave."""
    binding = []
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            break
        name, equals, value = word.partition("=")
        if not word.startswith("--"):
            name, value = word[:2], word[2:]
        long = NUMACTL.get(name, name)
        if long not in NUMACTL.values():
            continue
        apart = not equals and not value
        value = value or next(words, "")
        if BY_NUMBER.match(value) or (long in INTERLEAVING and "$" not in value):
            binding.append(f"{name} {value}" if apart else word)
    return binding


def _taskset(arguments: Sequence[str]) -> list[str]:
    """The mask or list that taskset sets; it reads where it has a process alone."""
    flags, others, shown = "", [], []
    for at, word in enumerate(arguments):
        if word.startswith("-") and len(word) > 1:
            flags += TASKSET_OPTIONS.get(word, "" if word.startswith("--") else word[1:])
            shown.append(word)
        else:
            others = list(arguments[at:])
            break
    needed = 2  # a mask, and a command or a process
    if set(flags) & set("hV") or len(others) < needed or not BY_NUMBER.match(others[0]):
        return []
    return [*shown, others[0]]


def _hwloc_bind(arguments: Sequence[str]) -> list[str]:
    options = [word for word in arguments if word.startswith("-")]
    locations = [word for word in arguments[:4] if re.match(r"[A-Za-z0-9]+:\d|0x[0-9a-f]", word)]
    return locations[:1] if not any(word.startswith("--get") for word in options) else []


def _cset(arguments: Sequence[str]) -> list[str]:
    binds = {"-c", "--cpu", "-e", "--exec", "-m", "--move"}
    return list(arguments[:3]) if any(word.partition("=")[0] in binds for word in arguments[1:]) else []


def _likwid_pin(arguments: Sequence[str]) -> list[str]:
    for at, word in enumerate(arguments):
        value = word[2:] or next(iter(arguments[at + 1 : at + 2]), "")
        if word.startswith("-c") and BY_NUMBER.match(value):
            return ["-c", value]
    return []


PROGRAMS = {
    "numactl": _numactl,
    "taskset": _taskset,
    "hwloc-bind": _hwloc_bind,
    "cset": _cset,
    "likwid-pin": _likwid_pin,
}


def _launched(command: Sequence[str]) -> Iterator[Binding]:
    """Options of launchers and servers (rules 3 and 4)."""
    if any(word.rpartition("/")[2] in PROGRAMS for word in command):
        return
    for at, word in enumerate(command):
        name, equals, value = word.partition("=")
        value = value if equals else next(iter(command[at + 1 : at + 2]), "")
        name = name.replace("_", "-")
        numbered = name in NUMBERED and BY_NUMBER.match(value)
        if numbered or (name == "--cpu-bind" and SLURM.search(value)):
            yield Binding(f"{name} {value}", launcher=True)
        elif name in RELATIVE:
            units = set(re.split(r"[:;,]", value.lower())) & UNITS
            if units - FREE:
                yield Binding(f"{name} {value}", relative=True, launcher=True)

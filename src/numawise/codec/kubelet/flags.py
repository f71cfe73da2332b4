"""The kubelet's command line: the flags of each release, how people write them, what they set.

The table is ``data/flags.txt``.  Kinds:

``text`` · ``truth`` (needs no value) · ``int32`` · ``int64`` · ``duration`` · ``list`` (a,b) ·
``pairs`` (k=v,k=v) · ``pair`` (one k=v each time) · ``angles`` (k<v) · ``gates`` (k=true) ·
``memory`` (0:memory=1Gi) · ``other`` (a value that is taken as it is).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from numawise.datafile import data_lines
from numawise.quantity import Quantity
from numawise.request.model import HUGEPAGES, MEMORY
from numawise.rules.eviction import Duration
from numawise.rules.versions import NEWEST, OLDEST, REFERENCE, Version
from numawise.strconv import HUGE, parse_bool, parse_int, quote
from numawise.values import dataclass, field


@dataclass(frozen=True, slots=True)
class FlagKind:
    """A flag as one release knows it."""

    name: str
    kind: str
    field: tuple[str, ...]
    """The field it sets, step by step; none: it is not part of the configuration."""


@cache
def known_flags(version: Version) -> dict[str, FlagKind]:
    """The flags of a release, by name."""
    return {flag.name: flag for flag, since, until in _rows() if since <= version <= until}


def flag_span(name: str) -> tuple[Version, Version] | None:
    """The first and the last release that has a flag; None when no known one has."""
    spans = [(since, until) for flag, since, until in _rows() if flag.name == name]
    if not spans:
        return None
    return min(since for since, _ in spans), min(NEWEST, max(until for _, until in spans))


@cache
def _rows() -> tuple[tuple[FlagKind, Version, Version], ...]:
    rows = []
    for line in data_lines(__file__, "flags.txt"):
        name, kind, field, *span = line.split()
        since, until = (*map(int, span), *(OLDEST[1], NEWEST[1])[len(span) :])
        steps = () if field == "-" else tuple(field.split("."))
        rows.append((FlagKind(name, kind, steps), (1, since), (1, until)))
    return tuple(rows)


# --------------------------------------------------------------------------------------------------
# The kubelet's command line: flags out of what people have, and what they set in the configuration.
#
# Rules kept here:
#
# 1. Flags are found in a command line as it is typed or as ``ps`` and ``/proc/PID/cmdline`` show it, in a
#    file of environment variables, and in a systemd unit; each keeps its line.  References to variables are
#    passed over.  In a text, whatever stands before the kubelet's program belongs to what starts it; the
#    program is the last word of that name before the first flag of a kubelet, and never a flag's value.
# 2. A name may be written with underscores.  A flag that takes no value has it after ``=`` only; any other
#    takes the next word.  Words that belong to no flag stop the kubelet.
# 3. The first time a flag with a map or a list is set, what the file says is dropped; after that it adds.
#    Feature gates of the file stay where no flag names them.
# 4. The first flag that is unknown or cannot be read stops the kubelet; here all of them are reported.


FAILED = "failed to parse kubelet flag: "
ASSIGNED = re.compile(r"[A-Z_][A-Z0-9_]*=")
SECTION = re.compile(r"^(\[[A-Z]\w*\]\s*$|\s*(Environment|ExecStart)=)", re.MULTILINE)
UNIT = re.compile(r"(Environment|ExecStart)=")
PROGRAM = re.compile(r"(?!-)(.*/)?(hyper)?kubelet")
WHOLE = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|[0-9]+)", re.ASCII)
FIELD_GATES = ("featureGates",)
SHORT = {"-v": "v", "-h": "help"}

Steps = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command line."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as it is written; '' for a word that belongs to none."""

    name: str
    value: str | None = None
    """None: it has none."""
    line: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the kubelet does not take a flag, in its words."""

    flag: Flag
    message: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What a command line results in."""

    values: Mapping[Steps, object] = field(default_factory=dict)
    """Field of the configuration → value, as it would stand in a file."""
    flags: Mapping[Steps, Flag] = field(default_factory=dict)
    """Field of the configuration → the flag that set it last."""
    own: Mapping[str, Flag] = field(default_factory=dict)
    """Flags that are not part of the configuration, by name."""
    problems: tuple[Problem, ...] = ()


# --- finding the flags ----------------------------------------------------------------------


def read_flags(text: str) -> tuple[Flag, ...]:
    """The flags in a command line, an environment file or a systemd unit (rules 1 and 2)."""
    return read_words(_of_kubelet(text.replace("\0", " ")))


def read_words(words: Iterable[Word]) -> tuple[Flag, ...]:
    """The flags among the words of a command line."""
    return tuple(_flags(list(words)))


def flags_in(arguments: Sequence[str]) -> tuple[Flag, ...]:
    """The flags in the arguments of a kubelet that runs, word by word as it has them."""
    return tuple(_flags([Word(text, 1) for text in arguments]))


def is_flags(text: str) -> bool:
    """True for text that has a flag in it."""
    return re.search(r"(^|[\s\"'=])--?[a-z]", text) is not None


def flags_of(pairs: Iterable[tuple[str, object]], line: Callable[[str], int | None]) -> tuple[Flag, ...]:
    """Flags that stand as names and values in another file."""
    found = []
    for name, value in pairs:
        text = str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
        found.append(Flag(name.lstrip("-").replace("_", "-"), text, line(name) or 1))
    return tuple(found)


def words_of(text: str, line: int) -> Iterator[Word]:
    """The words of a text as a shell sees them, comments left out."""
    word: list[str] = []
    began, quoted, started, i = line, "", False, 0
    while i < len(text):
        c = text[i]
        if c == "\\" and quoted != "'" and i + 1 < len(text):
            i += 1
            if text[i] == "\n":
                word.append("\n" if quoted else "")
            else:
                word.append(text[i])
                began, started = began if started else line, True
        elif quoted:
            quoted = "" if c == quoted else quoted
            word += [] if not quoted else [c]
        elif c in "\"'":
            quoted, began, started = c, began if started else line, True
        elif c.isspace():
            if started:
                yield Word("".join(word), began)
            word, started = [], False
        elif c == "#" and not started:
            end = text.find("\n", i)
            i = len(text) if end < 0 else end - 1
        else:
            began, started = began if started else line, True
            word.append(c)
        line += i < len(text) and text[i] == "\n"
        i += 1
    if started:
        yield Word("".join(word), began)


def _of_kubelet(text: str) -> Iterator[Word]:
    """The words that are arguments of a kubelet; values of variables are split again."""
    bare: list[Word] = []
    assigned: list[Word] = []
    unquoted = 0  # the line of a variable whose value goes on without quotes, as systemd reads it
    for word in words_of(_unit_lines(text) if SECTION.search(text) else text, 1):
        found = ASSIGNED.match(word.text)
        if found is None and word.line == unquoted and not PROGRAM.fullmatch(word.text):
            assigned.append(word)
            continue
        unquoted = 0
        if bare and bare[-1].text == "-c" and not _is_flag(word):  # a shell's script
            bare += words_of(word.text, word.line)
            continue
        if found is None or (bare and _is_flag(bare[-1]) and "=" not in bare[-1].text):
            bare.append(word)
            continue
        inside = list(words_of(word.text[found.end() :], word.line))
        if any(one.text.startswith("--") for one in inside):
            assigned += inside
            unquoted = word.line
    program = _program(bare)
    if program is not None:
        bare = bare[program + 1 :]
    elif assigned:
        bare = []
    words = (*assigned, *bare)
    for before, word in zip((Word("", 0), *words), words, strict=False):
        nothing = word.text in ("", "-", "--") and not (word.text == "" and _takes_next(before))
        if not nothing and not word.text.startswith("$"):
            yield word


def _program(words: list[Word]) -> int | None:
    """Where the kubelet's program stands (rule 1); None: it is not named."""
    program = None
    for at, word in enumerate(words):
        name = word.text.partition("=")[0]
        if name.startswith("--") and name[2:].replace("_", "-") in _every():
            if program is not None or _is_flag(words[0]):
                break
        elif PROGRAM.fullmatch(word.text) and not (at and _takes_next(words[at - 1])):
            program = at
    return program


def _takes_next(word: Word) -> bool:
    """Whether the next word is a flag's value, as far as that can be seen."""
    name = word.text
    if not name.startswith("--") or "=" in name or name == "--":
        return False
    kind = _every().get(name[2:].replace("_", "-"))
    return kind is None or kind.kind != "truth"


def _unit_lines(text: str) -> str:
    """Of a systemd unit what sets variables and what runs; other lines are left blank."""
    kept = []
    running = False
    for line in text.split("\n"):
        running = running or UNIT.match(line.strip()) is not None
        kept.append(UNIT.sub("", line.strip(), count=1) if running else "")
        running = running and line.endswith("\\")
    return "\n".join(kept)


def _flags(words: list[Word]) -> Iterator[Flag]:
    takes_none = {flag.name for flag in _every().values() if flag.kind == "truth"}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        head, equals, value = word.text.partition("=")
        name = SHORT.get(head) or (head[2:].replace("_", "-") if head.startswith("--") else "")
        if not name:
            yield Flag("", word.text, word.line)
        elif equals:
            yield Flag(name, value, word.line)
        elif name in takes_none or at == len(words) or (name not in _every() and _is_flag(words[at])):
            yield Flag(name, None, word.line)
        else:
            yield Flag(name, words[at].text, word.line)
            at += 1


def _is_flag(word: Word) -> bool:
    return word.text.startswith("-")


@cache
def _every() -> Mapping[str, FlagKind]:
    """Flags of all releases."""
    found: dict[str, FlagKind] = {}
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        found |= known_flags((1, minor))
    return found


# --- what they set --------------------------------------------------------------------------


def settle(flags: Iterable[Flag], version: Version = REFERENCE) -> Settled:
    """What flags set, in the order they are given (rules 3 and 4)."""
    known = known_flags(version)
    values: dict[Steps, object] = {}
    last: dict[Steps, Flag] = {}
    own: dict[str, Flag] = {}
    problems: list[Problem] = []
    for flag in flags:
        kind = known.get(flag.name)
        if not flag.name:
            problems.append(Problem(flag, f"unknown command {flag.value}"))
        elif kind is None:
            problems.append(Problem(flag, f"{FAILED}unknown flag: --{flag.name}"))
        elif flag.value is None and kind.kind != "truth":
            problems.append(Problem(flag, f"{FAILED}flag needs an argument: --{flag.name}"))
        else:
            text = "true" if flag.value is None else flag.value
            try:
                value = _value(kind.kind, text, values.get(kind.field))
            except ValueError as problem:
                what = f'invalid argument {quote(text)} for "--{flag.name}" flag'
                problems.append(Problem(flag, f"{FAILED}{what}: {problem}"))
                continue
            if kind.field:
                values[kind.field], last[kind.field] = value, flag
            else:
                own[flag.name] = flag
    return Settled(values, last, own, tuple(problems))


def overlaid(config: Mapping[str, object], settled: Settled) -> dict[str, object]:
    """A configuration with what the flags set over it."""
    merged = dict(config)
    for steps, value in settled.values.items():
        if steps == FIELD_GATES and isinstance(merged.get(steps[0]), Mapping):
            value = {**merged[steps[0]], **value}  # type: ignore[dict-item]
        inner = merged
        for step in steps[:-1]:
            below = inner.get(step)
            inner[step] = dict(below) if isinstance(below, Mapping) else {}
            inner = inner[step]  # type: ignore[assignment]
        inner[steps[-1]] = value
    return merged


def _value(kind: str, text: str, before: object) -> object:
    """The value of a flag; raise ``ValueError`` in the kubelet's words."""
    match kind:
        case "truth":
            return parse_bool(text)
        case "int32" | "int64":
            return _integer(text, 31 if kind == "int32" else 63)
        case "duration":
            Duration.parse(text)
            return text
        case "list":
            return [*(before if isinstance(before, list) else []), *(text.split(",") if text else [])]
        case "pairs" | "pair" | "angles" | "gates":
            return {**(before if isinstance(before, dict) else {}), **_pairs(kind, text)}
        case "memory":
            return [*(before if isinstance(before, list) else []), *_reserved_memory(text)]
    return text


def _integer(text: str, bits: int) -> int:
    if not WHOLE.fullmatch(text):
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdecimal()
    size = int(digits, 8 if octal else 0) if len(digits.lstrip("0")) < 100 else HUGE
    number = -size if text[0] == "-" else size
    if not -(2**bits) <= number < 2**bits:
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return number


def _pairs(kind: str, text: str) -> dict[str, object]:
    sign, wanted = ("<", "string<string") if kind == "angles" else ("=", "string=string")
    found: dict[str, object] = {}
    for part in [text] if kind == "pair" else filter(None, text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition(sign))
        if not equals:
            raise ValueError(f"malformed pair, expect {'string=bool' if kind == 'gates' else wanted}")
        if kind != "gates":
            found[name] = value
            continue
        try:
            found[name] = parse_bool(value)
        except ValueError as problem:
            raise ValueError(f"invalid value of {name}: {value}, err: {problem}") from None
    return found


def _reserved_memory(text: str) -> Iterator[dict[str, object]]:
    form = "expected numaNodeID:type=quantity[,type=quantity...]"
    for part in text.split(";") if text else ():
        numa, colon, limits = part.partition(":")
        if not colon or ":" in limits:
            raise ValueError(f"the reserved memory has incorrect format, {form}, got {part}")
        try:
            node = parse_int(numa)
        except ValueError:
            raise ValueError(f"failed to convert the NUMA node ID, expected integer, got {numa}") from None
        found: dict[str, object] = {}
        for limit in limits.split(","):
            name, equals, amount = limit.partition("=")
            if not equals or "=" in amount:
                raise ValueError(
                    f"the reserved limit has incorrect value, expected type=quantity, got {limit}"
                )
            if name != MEMORY and not name.startswith(HUGEPAGES):
                raise ValueError(f"memory type conversion error, unknown type: {quote(name)}")
            try:
                Quantity.parse(amount)
            except ValueError:
                raise ValueError(f"failed to parse the quantity: {amount}") from None
            found[name] = amount
        yield {"numaNode": node, "limits": found}


# --- the way back -----------------------------------------------------------------------------


def flags_for(fields: Mapping[str, Any], version: Version = REFERENCE) -> tuple[tuple[str, str], ...]:
    """Flags that set these fields of the configuration: name and value, as often as needed."""
    by_field = {kind.field[0]: kind for kind in known_flags(version).values() if len(kind.field) == 1}
    return tuple(
        (kind.name, text)
        for name, value in fields.items()
        if (kind := by_field.get(name)) is not None
        for text in _texts(kind.kind, value)
    )


def _texts(kind: str, value: Any) -> Iterator[str]:  # noqa: ANN401 - as a configuration has it
    match kind:
        case "pair":
            yield from (f"{name}={one}" for name, one in value.items())
        case "pairs":
            yield ",".join(f"{name}={one}" for name, one in value.items())
        case "angles":
            yield ",".join(f"{name}<{one}" for name, one in value.items())
        case "gates":
            yield ",".join(f"{name}={str(one).lower()}" for name, one in value.items())
        case "memory":
            yield ";".join(
                f"{one['numaNode']}:" + ",".join(f"{name}={size}" for name, size in one["limits"].items())
                for one in value
            )
        case "list":
            yield ",".join(map(str, value))
        case _:
            yield str(value).lower() if isinstance(value, bool) else str(value)

"""Damage to an input: of its bytes, of its tokens, and of the tree that it stands for.

Rules kept here:

1. The same random numbers make the same damage; nothing else decides.
2. A tree is JSON, YAML or XML; what cannot be read as one of them is damaged by bytes and tokens alone.
3. Inputs stay small (``LARGEST``), apart from the rare one that repeats a part of itself many times.
"""

import copy
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

import yaml

LARGEST = 1 << 17
REPEATED = 300_000
"""Bytes of the rare input that repeats itself."""
MANY, CROWDED = 500, 100
"""Members of an object or a list that are made, and how long the text of one may be."""
TOKEN = re.compile(rb"[A-Za-z_]+|[0-9]+|\s+|[^\sA-Za-z0-9_]")
STATUS_LINE = re.compile(rb"(?:[0-9]{3}\n)?")
"""What stands before the body in a file of an answer."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

WORDS = (
    "", "0", "1", "-1", "00", "-0", "2", "7", "64", "255", "4096", "65536", "4294967296", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "18446744073709551616", "1" * 400, "9" * 5000, "1e3", "1e400", "1e-400",
    "1.5", "0.0000000001", ".5", "5.", "NaN", "Infinity", "-Infinity", "0x10", "0o17", "1_000", "+1", "٣", "²", "⅓",
    "0-4000000000", "0,9000000000", "0-1023", "3-1", "0-", "-", ",", "0-3,8", "0-7:2/4", "0,0,0", "all", "none", "this",
    "1Gi", "1.5Gi", "0.1m", "100m", "1E", "1Ei", "999999Ei", "1Ki", "1k", "5%", "101%", "-1Gi", "64G", "64g", "1 Gi",
    "true", "True", "false", "null", "~", "yes", "on", "\0", "\x1b[31m", "\x9b", "\u202e", "\u2028", "é", "𝟘", "\ufeff",
    "a" * 300, "B" * 5000, "../../etc/passwd", "/dev/zero", "/", ".", "..", "{{x}}", "${X}", "$X", "<x>", "<<", "&a", "*a",
    "!!binary x", "!!python/object:x", "!x y", "%s%n", "a[b]", "a.b", "'", '"', "\\", "#", ":", "- ", "? ", "|", ">", "{", "[",
    "static", "Static", "restricted", "single-numa-node", "best-effort", "pod", "container", "cpu", "memory", "hugepages-1Gi",
    "hugepages-3Mi", "nvidia.com/gpu", "kubernetes.io/x", "Pod", "List", "Deployment", "KubeletConfiguration", "v1", "1.20",
    "1.99", "v1.36.4-rc.0", "x/y/z", "-" * 70, "2026-13-45T99:99:99Z", "12h30m", "1d", "99999999999h", "-5s", "0s",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 63, 64, 4095, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308,
    float("nan"), float("inf"), "", [], {}, [[]], [None], {"": None}, {"a[b]": 1}, {"name": "x"}, ["x", "x"], [{}], {"x": {}},
    {"0": []}, [0, 1], "\x1b]0;x\x07", "\ud800",
)  # fmt: skip
CHANGED = (
    0x00,
    0x09,
    0x0A,
    0x0D,
    0x1B,
    0x20,
    0x22,
    0x2D,
    0x30,
    0x39,
    0x3A,
    0x5C,
    0x7F,
    0x80,
    0xC0,
    0xFE,
    0xFF,
)


def mutated(data: bytes, random: Random, others: Sequence[bytes] = ()) -> bytes:
    """The input with some damage; ``others``: inputs of the same kind, to take parts from."""
    kind = random.random()
    result = None
    if kind < 0.45:
        result = tree(data, random)
    if result is None and kind < 0.8:
        result = tokens(data, random, others)
    if result is None:
        result = octets(data, random, others)
    if random.random() < 0.002:
        result = repeated(result, random)
    return result[: LARGEST if len(result) < REPEATED else REPEATED]


# --- bytes ----------------------------------------------------------------------------------


def octets(data: bytes, random: Random, others: Sequence[bytes] = ()) -> bytes:
    """Change, remove, repeat and insert a few bytes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        at = random.randrange(len(changed) + 1)
        size = random.choice((1, 1, 2, 4, 16, 64, 512))
        action = random.randrange(7)
        if action == 0 and at < len(changed):
            changed[at] ^= 1 << random.randrange(8)
        elif action == 1 and at < len(changed):
            changed[at] = random.choice(CHANGED)
        elif action == 2:
            del changed[at : at + size]
        elif action == 3:
            changed[at:at] = changed[at : at + size] * random.choice((1, 2, 5))
        elif action == 4:
            changed[at:at] = bytes(random.choice(CHANGED) for _ in range(min(size, 16)))
        elif action == 5 and others:
            other = random.choice(others)
            begin = random.randrange(len(other) + 1)
            changed[at : at + size] = other[begin : begin + random.choice((16, 256, 4096))]
        elif random.random() < 0.2:
            del changed[at:]
    return bytes(changed)


def repeated(data: bytes, random: Random) -> bytes:
    """A part of the input many times."""
    begin = random.randrange(len(data) + 1)
    part = data[begin : begin + random.choice((1, 8, 40, 200, 2000))] or b"x"
    return data[:begin] + part * (REPEATED // len(part)) + data[begin:]


# --- tokens ---------------------------------------------------------------------------------


def tokens(data: bytes, random: Random, others: Sequence[bytes] = ()) -> bytes:
    """Exchange words and numbers, or move whole lines about."""
    if random.random() < 0.3:
        return _lines(data, random)
    spans = [found.span() for found in TOKEN.finditer(data[:LARGEST])]
    if not spans:
        return random.choice(WORDS).encode("utf-8", "surrogatepass")
    for begin, end in sorted(
        (random.choice(spans) for _ in range(random.choice((1, 1, 1, 2, 3, 6)))), reverse=True
    ):
        kind = random.random()
        if kind < 0.55:
            new = random.choice(WORDS).encode("utf-8", "surrogatepass")
        elif kind < 0.75:
            pool = random.choice([data, *others[:20]])
            found = TOKEN.search(pool, random.randrange(len(pool) + 1))
            new = found[0] if found else b""
        elif kind < 0.85:
            new = b""
        elif kind < 0.95:
            new = _number(data[begin:end], random)
        else:
            new = data[begin:end] * random.choice((2, 3, 40))
        data = data[:begin] + new + data[end:]
    return data


def _number(token: bytes, random: Random) -> bytes:
    if not token.isdigit() or len(token) > 18:
        return token + b"0"
    changes = (-1, 1, int(token), -2 * int(token), 1000)
    return str(int(token) + random.choice(changes)).encode()


def _lines(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    for _ in range(random.choice((1, 1, 2, 4))):
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        action = random.randrange(5)
        if action == 0 and len(lines) > 1:
            del lines[at]
        elif action == 1:
            lines.insert(other % (len(lines) + 1), lines[at])
        elif action == 2:
            other %= len(lines)
            lines[at], lines[other] = lines[other], lines[at]
        elif action == 3:
            cut = random.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:cut]
        else:
            lines[at] = random.choice((b" ", b"\t", b"  ", b"> ", b"\xe2\x80\xa8")) + lines[at]
        at = min(at, len(lines) - 1)
    return b"".join(lines)


# --- trees ----------------------------------------------------------------------------------


def tree(data: bytes, random: Random) -> bytes | None:
    """Change values, names and the shape of what the input stands for; None when it is no tree."""
    status = STATUS_LINE.match(data)[0]  # type: ignore[index]
    read = _read(data[len(status) :])
    if read is None:
        return None
    kind, value = read
    if kind == "xml":
        return _xml(copy.deepcopy(value), random)
    value = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        value = _changed(value, random)
    writer = _yaml if kind == "yaml" and random.random() < 0.5 else _json
    return status + writer(value)


@lru_cache(maxsize=512)
def _read(data: bytes) -> tuple[str, Any] | None:
    text = data.decode("utf-8", errors="replace")
    body = text.lstrip("\ufeff \t\r\n")
    try:
        if body.startswith("<"):
            return "xml", ET.fromstring(text)
        if body.startswith(("{", "[")):
            return "json", json.loads(text)
        if re.match(r"(---|#|[\w\"'./-]+:|- )", body):
            documents = list(yaml.load_all(text, LOADER))
            value = documents[0] if len(documents) == 1 else documents
            return ("yaml", value) if isinstance(value, dict | list) else None
    except (ValueError, ET.ParseError, yaml.YAMLError, RecursionError):
        return None
    return None


def _places(value: Any, found: list[tuple[Any, Any]]) -> None:
    """Every (container, key) of a tree."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in list(entries):
        found.append((value, key))
        _places(inner, found)


def _changed(value: Any, random: Random) -> Any:
    places: list[tuple[Any, Any]] = []
    _places(value, places)
    if not places or random.random() < 0.01:
        return copy.deepcopy(random.choice(VALUES))
    parent, key = random.choice(places)
    if random.random() < 0.12:
        return _reshaped(value, places, random)
    action = random.random()
    if action < 0.35:
        parent[key] = copy.deepcopy(random.choice(VALUES))
    elif action < 0.55:
        parent[key] = random.choice(WORDS)
    elif action < 0.65:
        del parent[key]
    elif action < 0.75:
        other, name = random.choice(places)
        parent[key] = copy.deepcopy(other[name])
    elif action < 0.82 and isinstance(parent, dict):
        parent[random.choice([*WORDS[:40], *map(str, parent)])] = parent.pop(key)
    elif action < 0.9 and isinstance(parent, list):
        parent += [copy.deepcopy(parent[key]) for _ in range(random.choice((1, 2, 30)))]
    elif action < 0.92:
        parent[key] = _nested(parent[key], random)
    elif isinstance(parent[key], str):
        parent[key] = tokens(parent[key].encode("utf-8", "surrogatepass"), random).decode(errors="replace")
    elif isinstance(parent[key], int):
        parent[key] += random.choice((-1, 1, parent[key], -2 * parent[key], 1 << 40))
    else:
        parent[key] = [parent[key]]
    return value


def _reshaped(value: Any, places: list[tuple[Any, Any]], random: Random) -> Any:
    """An object or a list in the place of a text, or an object or a list with very many members."""
    texts = [(parent, key) for parent, key in places if isinstance(parent[key], str)]
    holders = [
        (parent, key) for parent, key in places if isinstance(parent[key], dict | list) and parent[key]
    ]
    if texts and (random.random() < 0.7 or not holders):
        parent, key = random.choice(texts)
        parent[key] = random.choice(({}, [], {parent[key]: parent[key]}, [parent[key]], {"name": {}}, [[{}]]))
    elif holders:
        parent, key = random.choice(holders)
        whole = parent[key]
        members = list(whole.values()) if isinstance(whole, dict) else whole
        member = random.choice([one for one in members if len(str(one)) < CROWDED] or [{}])
        many = random.choice((20, MANY))
        if isinstance(whole, dict):
            whole |= {
                f"{random.choice(list(whole))}{number}": copy.deepcopy(member) for number in range(many)
            }
        else:
            whole += [copy.deepcopy(member) for _ in range(many)]
    return value


def grown(data: bytes, times: int) -> bytes:
    """The input with its longest list so many times, or where it is no tree, its lines."""
    read = _read(data)
    if read is None or read[0] == "xml":
        return data * times
    value = copy.deepcopy(read[1])
    places: list[tuple[Any, Any]] = []
    _places([value], places)
    rows = max(
        (parent[key] for parent, key in places if isinstance(parent[key], list)), key=len, default=None
    )
    if rows is None:
        return data * times
    rows[:] = [copy.deepcopy(row) for _ in range(times) for row in rows]
    return _json(value)


def _nested(value: Any, random: Random) -> Any:
    for _ in range(random.choice((2, 20, 150))):
        value = [value] if random.random() < 0.5 else {"x": value}
    return value


def _json(value: Any) -> bytes:
    text = json.dumps(value, default=str, skipkeys=True)
    return text.encode("utf-8", "surrogatepass")


def _yaml(value: Any) -> bytes:
    try:
        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, RecursionError):
        return _json(value)


def _xml(root: ET.Element, random: Random) -> bytes:
    parents = [(parent, child) for parent in root.iter() for child in parent]
    elements = list(root.iter())
    for _ in range(random.choice((1, 1, 2, 4))):
        element = random.choice(elements)
        names = list(element.attrib)
        action = random.randrange(6)
        if action < 3 and names:
            word = random.choice([*WORDS, *(other.get(names[0]) or "" for other in elements[:50])])
            element.set(random.choice(names), re.sub(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]", "?", word))
        elif action == 3 and names:
            del element.attrib[random.choice(names)]
        elif action == 4 and parents:
            parent, child = random.choice(parents)
            if child in parent:
                parent.remove(child)
        elif parents:
            parent, child = random.choice(parents)
            if sum(1 for _ in child.iter()) < 200:  # a copy, so that no element contains itself
                for _ in range(random.choice((1, 2, 8))):
                    random.choice((parent, random.choice(elements))).append(copy.deepcopy(child))
    try:
        return ET.tostring(root)
    except (RecursionError, ValueError, TypeError):
        return b"<topology/>"

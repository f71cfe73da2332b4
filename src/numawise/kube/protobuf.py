"""Messages of protobuf by tables of their fields: read and written, with nothing to generate or install.

Rules kept here:

1. A message is a plain mapping in protobuf's JSON form, under the names that its table gives; numbers are
   numbers.  Fields that no table has are passed over when reading, as protobuf asks for.
2. Reading gives every list and every map, empty ones too, and no other field that was not sent.  Writing
   leaves out what is empty, zero or false, but not the members of a list.
3. Whatever is read is bounded by its own length: a damaged message is a ``ValueError``, never more than that.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from numawise.values import dataclass, field

Json = dict[str, Any]
TEXT, TEXTS, NUMBER, NUMBERS, TRUTH, MAP = "text", "texts", "number", "numbers", "truth", "map"
LISTS = (TEXTS, NUMBERS)
DAMAGED, CUT = "what it sends is not such a message", "what it sends is cut off"
MOST = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Message:
    """The fields of a message by number: name, and kind or message; a message inside repeats."""

    fields: Mapping[int, tuple[str, "Message | Single | str"]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Single:
    """A message inside another that does not repeat."""

    message: Message


# --- reading --------------------------------------------------------------------------------------


def decoded(raw: bytes, message: Message, known: dict[bytes, Json] | None = None) -> Json:
    """A message as a mapping (rule 2); ``ValueError``: it is damaged.

    ``known``: messages inside this one that were read before, and are now; they stay the same mappings.
    """
    values: Json = {}
    seen: dict[bytes, Json] = {}
    for name, kind in message.fields.values():
        if isinstance(kind, Message) or kind in LISTS:
            values[name] = []
        elif kind == MAP:
            values[name] = {}
    for number, value in _wire(raw):
        name, kind = message.fields.get(number, ("", TEXT))
        if not name:
            continue
        if isinstance(kind, Single):
            values[name] = decoded(_bytes(value), kind.message)
        elif isinstance(kind, Message) and known is not None:
            inner = _bytes(value)
            seen[inner] = known.get(inner) or decoded(inner, kind)
            values[name].append(seen[inner])
        elif isinstance(kind, Message):
            values[name].append(decoded(_bytes(value), kind))
        elif kind == TEXT:
            values[name] = _text(value)
        elif kind == TEXTS:
            values[name].append(_text(value))
        elif kind == NUMBER:
            values[name] = _signed(value) if isinstance(value, int) else 0
        elif kind == TRUTH:
            values[name] = bool(value) if isinstance(value, int) else False
        elif kind == MAP:
            entry = decoded(_bytes(value), ENTRY)
            values[name][entry.get("key", "")] = entry.get("value", "")
        else:
            values[name] += [value] if isinstance(value, int) else list(_packed(value))
    if known is not None:
        known.clear()
        known.update(seen)
    return values


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError(DAMAGED)  # noqa: TRY004 - bad bytes
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode(errors="replace")


def _signed(value: int) -> int:
    """A number of 64 bits, below zero where the highest is set."""
    return value - 2**64 if value >> 63 else value


def _wire(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(raw, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(raw, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(DAMAGED)
        if size > len(raw) - at:
            raise ValueError(CUT)
        yield key >> 3, raw[at : at + size]
        at += size


def _packed(raw: bytes) -> Iterator[int]:
    at = 0
    while at < len(raw):
        value, at = _varint(raw, at)
        yield value


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            break
        value |= (raw[at] & 127) << shift
        at += 1
        if raw[at - 1] < 128:
            return value & MOST, at
    raise ValueError(CUT)


# --- writing --------------------------------------------------------------------------------------


def encoded(values: Mapping[str, Any], message: Message) -> bytes:
    """A mapping as a message (rule 2); names that the table does not have are an error of the caller's."""
    names = {name for name, _ in message.fields.values()}
    if unknown := values.keys() - names:
        raise KeyError(f"no such field: {', '.join(sorted(unknown))}")
    out = bytearray()
    for number, (name, kind) in message.fields.items():
        value = values.get(name)
        if value is None:
            continue
        if isinstance(kind, Single):
            out += _sized(number, encoded(value, kind.message))
        elif isinstance(kind, Message):
            for item in value:
                out += _sized(number, encoded(item, kind))
        elif kind == TEXTS:
            for item in value:
                out += _sized(number, _utf8(item))
        elif kind == MAP:
            for key, item in sorted(value.items()):
                out += _sized(number, _sized(1, _utf8(key)) + _sized(2, _utf8(item)))
        elif kind == NUMBERS:
            if value:
                out += _sized(number, b"".join(map(_number, value)))
        elif value:
            out += _sized(number, _utf8(value)) if kind == TEXT else _number(number << 3) + _number(value)
    return bytes(out)


def _sized(number: int, raw: bytes) -> bytes:
    return _number(number << 3 | 2) + _number(len(raw)) + raw


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")


def _number(value: int) -> bytes:
    value = int(value) & MOST
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


ENTRY = Message({1: ("key", TEXT), 2: ("value", TEXT)})
"""One entry of a map of texts."""

"""Which machine a person means: a name, a description, a file, or the one we run on.

Rules kept here:

1. A name of the catalogue is that machine; write ``./name`` for a file of the same name.
2. A file is saved hardware when it says so, and a machine file when it has ``cpus`` and ``numa``; a bundle
   has the hardware of its node; anything else is for ``discover`` to recognise.
3. What begins with a number and a letter describes a machine, in one word or in several.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from numawise.codec.document import Document, read_documents
from numawise.codec.hardware.encode import hardware_from, is_hardware
from numawise.codec.machine import decode_machine
from numawise.errors import InputError
from numawise.inputs.bundle import is_bundle, open_bundle
from numawise.inputs.discover import discover
from numawise.machine.catalog import CATALOG, machine_named
from numawise.machine.hardware import Hardware, hardware_of
from numawise.machine.synthetic import EXAMPLE, is_synthetic, synthetic

STDIN, LARGEST = "<stdin>", 64 << 20
MACHINE_FILE = re.compile(rb'^cpus[ \t]*:|"cpus"[ \t]*:', re.MULTILINE)


def hardware_meant(words: Sequence[str], sources: Sequence[str] = (), root: Path | None = None) -> Hardware:
    """Find the machine that the words mean; ``sources`` are prints of it, ``root`` is a copy of its files."""
    if sources:
        return _named(discover(root, (*sources, *words)), "" if sources[0] == "-" else Path(sources[0]).stem)
    if root is not None:
        if words:
            raise InputError(f"{words[0]!r} and --root name two machines", advice="give one of them")
        return _named(discover(root), root.resolve().name)
    if not words:
        return _named(discover(), "this machine")
    if len(words) == 1:
        return _one(words[0])
    if is_synthetic(words[0]) and not Path(words[0]).is_file():
        return synthetic(" ".join(words))
    return _named(discover(None, words), Path(words[0]).stem)


def machine_meant(text: str) -> Hardware:
    """A machine of the catalogue, or one described in words."""
    return synthetic(text) if is_synthetic(text) and text not in CATALOG else machine_named(text)


def _one(word: str) -> Hardware:
    if word in CATALOG:
        return machine_named(word)
    if is_bundle(word):
        found = open_bundle(word)
        return _named(found.hardware(), found.name)
    if word == "-" or Path(word).is_file():
        return _file(word)
    if is_synthetic(word):
        return synthetic(word)
    close = get_close_matches(word, CATALOG, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    advice = f"{meant}give a file, a name from 'numawise machine list', or words like {EXAMPLE!r}"
    raise InputError(f"{word!r} is neither a file nor a machine", advice=advice)


def _file(path: str) -> Hardware:
    raw = _raw(path)
    name = STDIN if path == "-" else path
    if MACHINE_FILE.search(raw):
        documents = read_documents(raw, name)
        if len(documents) == 1 and is_hardware(documents[0].value):
            return _named(hardware_from(documents[0].value, name), _title(path))
        if len(documents) == 1 and _is_machine(documents[0]):
            return hardware_of(decode_machine(documents[0], devices_anywhere=True), _title(path))
    if path != "-":
        return _named(discover(None, (path,)), _title(path))
    from numawise.codec.hardware.combine import combine  # noqa: PLC0415 - standard input is read by now
    from numawise.codec.hardware.recognise import READERS, split  # noqa: PLC0415

    parts = [READERS[kind](part, name) for kind, part in split(raw.decode("utf-8-sig", errors="replace"))]
    if not parts:
        raise InputError("is nothing that tells about hardware", file=name)
    return combine(parts)


def _named(found: Hardware, name: str) -> Hardware:
    return found if found.name else replace(found, name=name)


def _is_machine(document: Document) -> bool:
    value = document.value
    return isinstance(value, Mapping) and {"cpus", "numa"} <= set(value)


def _title(path: str) -> str:
    """What to call the machine of a file: the file, or its folder where the file is just called machine."""
    file = Path(path)
    return "" if path == "-" else file.resolve().parent.name if file.stem == "machine" else file.stem


def _raw(path: str) -> bytes:
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with Path(path).open("rb") as stream:
                raw = stream.read(LARGEST + 1)
    except (OSError, ValueError, AttributeError) as problem:  # standard input may be closed, thus None
        reason = getattr(problem, "strerror", None) or str(problem)
        raise InputError(f"cannot be read: {reason}", file=path, advice="check the path") from None
    if len(raw) > LARGEST:
        raise InputError(f"is larger than {LARGEST >> 20} MiB", file=path)
    return raw

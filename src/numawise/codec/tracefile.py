"""Recorded traces: one JSON object a line, plain or gzipped."""

import gzip
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from numawise.codec.outfile import check_place, write_whole
from numawise.errors import STEERING, InputError

STDIN = "-"
EXAMPLE = 'a line looks like {"scenario": {"id": …, "machine": …, "kubelet": …, "steps": […]}}'


def read_lines(path: str) -> Iterator[tuple[str, bytes]]:
    """Walk the non-empty lines of a file as (place, text)."""
    name = "<stdin>" if path == STDIN else path
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{name}:{number}", line
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", file=name) from error


def _opened(path: str) -> IO[bytes]:
    if path == STDIN:
        return sys.stdin.buffer
    if path.endswith(".gz"):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return Path(path).open("rb")


def scenario_of(place: str, line: bytes) -> dict[str, Any]:
    """The scenario of one line; a line may also be a scenario itself."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not JSON ({error})", file=place, advice=EXAMPLE) from None
    scenario = value.get("scenario", value) if isinstance(value, dict) else None
    if (
        not isinstance(scenario, dict)
        or not isinstance(scenario.get("machine"), dict)
        or "id" not in scenario
    ):
        raise InputError("has no scenario with an id and a machine", file=place, advice=EXAMPLE)
    return scenario


def encode_line(value: object) -> str:
    """One line of results."""
    text = msgspec.json.encode(value).decode()
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


@contextmanager
def written(path: str | None) -> Iterator[Callable[[str], object]]:
    """A function that writes to the file, which appears when all is done, or to standard output."""
    if path is None:
        yield sys.stdout.write
        return
    check_place(path)
    text = io.StringIO()
    yield text.write
    write_whole(path, text.getvalue())

"""Twice the input takes at most three times the work, whatever grows in it.

Work is counted, never timed: the lines of Python that a command runs, the same in every run.  What C does over long
texts and lists is not seen here; ``python -m benchmarks.growth`` compares CPU times of the same inputs.
"""

import gc
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import reduce
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from numawise.errors import NumawiseError
from tests.cli.run import program
from tests.fuzz.drivers import DRIVERS
from tests.fuzz.mutate import grown
from tests.fuzz.readers import READERS, Reader
from tests.property.growth import INPUTS, Input
from tests.property.strategies import TIMES

MOST = 3.0
"""How many times as much work the second half of an input may add as the first one."""
NOISE = 2000
"""Lines that caches and the like may add."""


def laid(made: Input, folder: Path) -> tuple[str, ...]:
    """The command line over the files of an input, in a folder."""
    files, words = made
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    places = (("{case}", str(folder)), ("{work}", str(folder.parent / "work")))
    return tuple(reduce(lambda text, place: text.replace(*place), places, word) for word in words)


@contextmanager
def counted() -> Iterator[list[int]]:
    """The lines of Python that run inside."""
    lines = [0]

    def line(_frame: FrameType, _event: str, _value: Any) -> Callable[..., Any]:
        lines[0] += 1
        return line

    before, gathers = sys.gettrace(), gc.isenabled()
    gc.disable()  # what is collected now and then would be counted wherever that happens
    sys.settrace(line)
    try:
        yield lines
    finally:
        sys.settrace(before)
        if gathers:
            gc.enable()


def work_of(made: Input, folder: Path) -> int:
    """How much a command does; it is run once before, so that everything is imported and known."""
    words = laid(made, folder)
    with counted() as lines:
        ended(words, folder)
    return lines[0]


def ended(words: tuple[str, ...], folder: Path) -> None:
    """Run a command, or a function of the fuzzer in its place."""
    name = words[0].removeprefix("@")
    if name != words[0]:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(NumawiseError):
            DRIVERS[name](list(words[1:]), folder)
        return
    ran = program(*words)
    assert ran.status in (0, 1, 2, 3, 5), (ran.status, ran.err)
    assert "internal error" not in ran.err


def is_lawful(made: Callable[[int], Input], folder: Path, *sizes: int) -> tuple[bool, tuple[int, ...]]:
    """Whether the law holds from one size to the next; and how much work each was."""
    for name in ("case", "work"):
        (folder / name).mkdir()
    ended(laid(made(sizes[0]), folder / "case"), folder / "case")
    small, middle, large = (work_of(made(size), folder / "case") for size in sizes)
    lawful = middle <= MOST * small + NOISE and large - middle <= MOST * max(middle - small, 0) + NOISE
    return lawful, (small, middle, large)


@pytest.mark.parametrize("name", INPUTS)
def test_twice_the_input_takes_at_most_three_times_the_work(name: str, tmp_path: Path) -> None:
    made, first = INPUTS[name]
    size = round(first * max(1.0, TIMES))
    lawful, work = is_lawful(made, tmp_path, size, 2 * size, 4 * size)
    assert lawful, work


GROWN = [name for name, reader in READERS.items() if reader.made is None and not reader.acts]


def of_a_reader(reader: Reader, words: tuple[str, ...]) -> Callable[[int], Input]:
    """A good input of a reader, of which the largest damaged file has so many times its members and lines."""
    (files, *_) = reader.inputs(False)
    names = [name for name in files if name.startswith(reader.damaged or "") and "\0" not in name]
    name = max(names, key=lambda one: len(files[one]))
    return lambda times: (
        {**files, **dict(reader.finished({**files, name: grown(files[name], times)}))},
        words,
    )


@pytest.mark.parametrize("name", GROWN)
def test_what_every_reader_takes_twice_of(name: str, tmp_path: Path) -> None:
    for number, words in enumerate(READERS[name].commands[: max(1, round(TIMES))]):
        folder = tmp_path / str(number)
        folder.mkdir()
        lawful, work = is_lawful(of_a_reader(READERS[name], words), folder, 8, 16, 32)
        assert lawful, (words, work)

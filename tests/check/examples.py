"""An example of every code: files, a command that finds it, and the files after the fix.

A file of ``examples/`` begins with the command after ``$``.  ``--- NAME`` begins a file; ``--- NAME = WORDS`` is a
machine that ``numawise machine new WORDS`` makes; ``--- fixed NAME`` replaces a file, empty: removes it.
"""

import contextlib
import io
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from numawise.cli.check import command
from numawise.codec.output import to_yaml
from numawise.inputs.machine import machine_data
from numawise.machine.synthetic import synthetic

FOLDER = Path(__file__).parent / "examples"
MACHINE = "numawise machine new"


@dataclass(frozen=True, slots=True)
class Example:
    """An example of one code."""

    code: str
    command: str
    files: Mapping[str, str]
    """Name → text; a machine: its words, after ``=``."""
    fixed: Mapping[str, str]


def example(code: str) -> Example:
    """Read the example of a code."""
    text = (FOLDER / f"{code}.txt").read_text()
    first, *rest = text.split("\n")
    files: dict[str, list[str]] = {}
    for line in rest:
        if line.startswith("--- "):
            name, equals, words = line[4:].partition(" = ")
            files[name] = [f"= {words}"] if equals else []
        elif files:
            files[next(reversed(files))].append(line)
    texts = {name: "\n".join(lines) for name, lines in files.items()}
    fixed = {name.removeprefix("fixed "): body for name, body in texts.items() if name.startswith("fixed ")}
    plain = {name: body for name, body in texts.items() if not name.startswith("fixed ")}
    return Example(code, first.removeprefix("$ "), plain, fixed)


def examples() -> list[Example]:
    """All examples, by code."""
    return [example(path.stem) for path in sorted(FOLDER.glob("NW*.txt"))]


def write(files: Mapping[str, str], folder: Path) -> None:
    """Write the files of an example."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not text.strip():
            path.unlink(missing_ok=True)
        elif text.startswith("= "):
            path.write_text(to_yaml(machine_data(synthetic(text[2:].strip()))))
        else:
            state = path.parent.name == "state"
            path.write_text(text.rstrip("\n") if state else text.rstrip("\n") + "\n")


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def output(line: str, folder: Path) -> tuple[int, str]:
    """Exit status and output of a ``numawise check`` in a folder."""
    words = shlex.split(line)
    assert words[:2] == ["numawise", "check"]
    told = io.StringIO()
    with inside(folder), contextlib.redirect_stdout(told):
        context = click.Context(command, info_name="check", color=False)
        status = command.main(words[2:], standalone_mode=False, parent=context)
    return int(status), told.getvalue()

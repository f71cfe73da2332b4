"""The recipes of docs/how-to/recipes.md: the commands and files of each, as they stand there."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/how-to/recipes.md"
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([^`\s]+)`:\s*$")
"""The last words before a block that is a file: its name."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What stands under one heading."""

    title: str
    commands: tuple[str, ...]
    files: dict[str, str]
    others: tuple[tuple[str, str], ...]
    """Blocks that are neither: their language and text."""


def recipes() -> dict[str, Recipe]:
    """All of the page, by title, in its order."""
    parts = SECTION.split(PAGE.read_text())
    return {title: _recipe(title, text) for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def _recipe(title: str, text: str) -> Recipe:
    commands: list[str] = []
    files: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        name = NAMED.search(text[: block.start()].rstrip())
        if language == "console":
            commands += [line.removeprefix("$ ") for line in body.splitlines()]
        elif name:
            files[name[1]] = body
        else:
            others.append((language, body))
    return Recipe(title, tuple(commands), files, tuple(others))


def numawise_calls(command: str) -> Iterator[list[str]]:
    """What numawise is called with in a command, in the commands it starts, and in a shell's text."""
    words = shlex.split(command)
    for at, word in enumerate(words):
        if Path(word).name == "numawise":
            rest = words[at + 1 :]
            ends = [i for i, other in enumerate(rest) if other in ("&&", ";", "|", ">")]
            yield rest[: ends[0]] if ends else rest
        elif word == "-c" and at + 1 < len(words) and Path(words[at - 1]).name == "sh":
            yield from numawise_calls(words[at + 1])

"""One run's input: files in a folder and a command line over them; and how it is kept as a regression.

Rules kept here:

1. ``{case}`` in a word is the folder with the files, ``{work}`` an empty one for what is written.
2. A file that begins with one of ``SPECIAL`` is no regular file: a link, a named pipe, a folder.
3. Two files have a meaning of their own: ``stdin`` is standard input, ``environment`` holds lines of
   variables that are set for the run.
4. Of two cases in a row only the files that differ are written.
"""

import base64
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LINK, PIPE, FOLDER = SPECIAL = (b"\0link ", b"\0pipe", b"\0folder")
STDIN, ENVIRONMENT = "stdin", "environment"


@dataclass(frozen=True, slots=True)
class Case:
    """Files by path, and the words of a command; a word with ``@`` in front is a function of ``drivers``."""

    words: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)

    def line(self, case: Path, work: Path) -> list[str]:
        """The command line, its folders filled in."""
        return [word.replace("{case}", str(case)).replace("{work}", str(work)) for word in self.words]

    def variables(self) -> dict[str, str]:
        """What is set in the environment."""
        text = self.files.get(ENVIRONMENT, b"").decode("utf-8", "surrogateescape").replace("\0", "")
        pairs = (line.partition("=") for line in text.splitlines())
        return {name: value for name, equals, value in pairs if name and equals}


class Folder:
    """Where cases are laid out, one after the other (rule 4)."""

    def __init__(self, root: Path) -> None:
        self.case, self.work = root / "case", root / "work"
        self.laid: dict[str, bytes] = {}
        self.clear()

    def clear(self) -> None:
        """Begin with nothing."""
        for folder in (self.case, self.work):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.laid = {}

    def lay(self, case: Case) -> None:
        """Make the folder hold the files of a case."""
        if any(self.work.iterdir()):
            shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir(exist_ok=True)
        try:
            self._lay(case)
        except OSError:  # a run has changed the folder, or a folder takes the place of a file
            self.clear()
            self._lay(case)

    def _lay(self, case: Case) -> None:
        for path in [path for path in self.laid if path not in case.files]:
            self._remove(path)
        for path, content in case.files.items():
            if self.laid.get(path) == content:
                continue
            if path in self.laid:
                self._remove(path)
            self._write(self.case / path, content)
            self.laid[path] = content

    def _remove(self, path: str) -> None:
        place = self.case / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
        del self.laid[path]

    @staticmethod
    def _write(place: Path, content: bytes) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith(LINK):
            target = content.removeprefix(LINK).partition(b"\0")[0][:4000]
            os.symlink(target or b"nowhere", place)  # noqa: PTH211 - bytes
        elif content.startswith(PIPE):
            os.mkfifo(place)
        elif content.startswith(FOLDER):
            place.mkdir(exist_ok=True)
        else:
            place.write_bytes(content)


# --- as a file ------------------------------------------------------------------------------


def _plain(content: bytes) -> Any:
    text = content.decode("utf-8", errors="replace")
    if text.encode() != content:
        return {"base64": base64.b64encode(content).decode()}
    lines = text.splitlines(keepends=True)
    return lines if len(lines) > 1 and len("".join(lines)) > 80 else text


def save(case: Case, reader: str, finding: str, place: Path) -> None:
    """Write a case, with what was found by it."""
    files = {path: _plain(content) for path, content in case.files.items()}
    value = {"reader": reader, "found": finding, "words": case.words, "files": files}
    place.write_text(json.dumps(value, indent=1, ensure_ascii=True) + "\n")


def load(place: Path) -> tuple[str, Case]:
    """The reader and the case of a file."""
    value = json.loads(place.read_text())
    files = {}
    for path, content in value["files"].items():
        if isinstance(content, dict):
            files[path] = base64.b64decode(content["base64"])
        else:
            files[path] = ("".join(content) if isinstance(content, list) else content).encode()
    return value["reader"], Case(tuple(value["words"]), files)

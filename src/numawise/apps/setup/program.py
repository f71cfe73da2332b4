"""Whether a timer of root may run a program: nobody else can change it, nor what it imports at its start.

Rules kept here:

1. A path is walked as the kernel does it, name by name: each folder, each link on the way, and what it leads
   to belongs to root, and nobody else may write it.  Where a folder has the sticky bit, others can make files
   in it, but not replace those of root.
2. A Python program imports out of folders: its own, the standard library's, the packages' of its interpreter
   and environment, and what ``.pth`` files and editable installations add.  All that lies in them counts, and
   the sticky bit is no help: what others make there is imported as well.
3. Nothing of it is run to find that out.  What a shell script runs cannot be known: its author sees to it.
"""

import os
import pwd
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from numawise.errors import quoted
from numawise.host.box import PLAIN

MOST_LINKS, MOST_ENTRIES, HEAD = 40, 1_000_000, 4096
IMPORTED = (".py", ".pyc", ".so", ".pth", ".zip")
SITES = frozenset({"site-packages", "dist-packages"})
EXEC = re.compile(rb"'''exec' \"?(/[^\s\"]+)")
"""What pip writes below ``#!/bin/sh`` where the interpreter's path is too long for the first line."""
VERSION = re.compile(r"3\.[0-9]+", re.ASCII)
WRITTEN = re.compile(r"['\"](/[^'\"\n]+)['\"]")
"""An absolute path in what an editable installation runs at each start."""
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a unit of systemd finds what ``env`` is asked for."""


def program_problem(program: str, trusted: Collection[int], package: Iterable[str] = ()) -> str:
    """Why a timer of root should not run a program, as a clause; '' when it may."""
    if not program:
        return "where numawise is installed is not known"
    if not PLAIN.fullmatch(program):
        return f"{quoted(program)} is not a plain absolute path"
    path = Path(program)
    if not os.access(path, os.X_OK) or not path.is_file():
        return f"{program} cannot be run"
    if problem := changeable(program, trusted):
        return problem
    folders: dict[str, None] = {}
    seen: set[str] = set()
    for interpreter in (*_interpreters(path),):
        if problem := changeable(interpreter, trusted):
            return problem
        if os.path.basename(interpreter).startswith(("python", "pypy")):  # noqa: PTH119 - a path as text
            beside = dict.fromkeys((os.path.dirname(interpreter), _above(interpreter)))  # noqa: PTH120 - links stay
            for folder in (*beside, os.path.dirname(os.path.realpath(path))):  # noqa: PTH120
                if problem := _shallow(folder, trusted):
                    return problem
            folders |= dict.fromkeys(_folders(interpreter))
    folders |= dict.fromkeys(
        str(found)
        for above in dict.fromkeys((_above(program), _above(os.path.realpath(program))))
        for found in sorted(Path(above).glob("lib*/python3*/site-packages"))
    )
    queue = [*folders, *package]
    for folder in queue:
        if problem := changeable(folder, trusted) or _imported(folder, trusted, seen, queue):
            return problem
    return ""


def changeable(path: str, trusted: Collection[int]) -> str:
    """Why somebody else can change what a path leads to (rule 1), as a clause; '' when nobody can."""
    left, at, links = _parts(path), "/", 0
    try:
        problem = _loose("/", os.lstat("/"), trusted)
        while left and not problem:
            name = left.pop()
            if name == "..":
                at = os.path.dirname(at)  # noqa: PTH120 - it has no links
                continue
            here = os.path.join(at, name)  # noqa: PTH118 - as above
            status = os.lstat(here)
            problem = _loose(here, status, trusted)
            if not stat.S_ISLNK(status.st_mode):
                at = here
                continue
            links += 1
            target = os.readlink(here)  # noqa: PTH115 - as above
            if links > MOST_LINKS:
                return f"{path} leads through too many links"
            left += _parts(target)
            at = "/" if target.startswith("/") else at
    except OSError as error:
        return f"{error.filename} cannot be looked at ({error.strerror})"
    return problem


def _parts(path: str) -> list[str]:
    """The names of a path, the last first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _loose(place: str, status: os.stat_result, trusted: Collection[int], *, imported: bool = False) -> str:
    """Why others can change a file, folder or link itself."""
    if status.st_uid not in trusted:
        return f"{place} belongs to uid {status.st_uid}, who could change what root runs"
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return ""
    if not imported and stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return ""
    return f"others than root may write {place}, and could change what root runs"


# --- what is imported ---------------------------------------------------------------------------


def _interpreters(path: Path) -> Iterator[str]:
    """What the first lines of a script name."""
    with path.open("rb") as file:
        first, second = file.readline(HEAD), file.readline(HEAD)
    if not first.startswith(b"#!"):
        return
    words = [os.fsdecode(word) for word in first[2:].split()]
    if words and words[0].startswith("/"):
        yield words[0]
        name = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
        if words[0].endswith("/env") and name:
            yield shutil.which(name, path=SEARCH) or f"/usr/bin/{name}"
    if match := EXEC.match(second):
        yield os.fsdecode(match[1])


def _folders(interpreter: str) -> Iterator[str]:
    """The folders out of which an interpreter imports, as far as they are there."""
    real = os.path.realpath(interpreter)
    own = _above(interpreter)
    settings = next(
        (
            path
            for path in (Path(own, "pyvenv.cfg"), Path(interpreter).with_name("pyvenv.cfg"))
            if path.is_file()
        ),
        None,
    )
    version = VERSION.search(os.path.basename(real))  # noqa: PTH119 - a path as text
    number = version[0] if version else "3*"
    system, bases = True, {_above(real): None}
    if settings is not None:
        yield str(settings)
        said = dict(
            re.findall(r"^\s*([\w-]+)\s*=\s*(.*?)\s*$", settings.read_text(errors="replace"), re.MULTILINE)
        )
        system = said.get("include-system-site-packages", "false").lower() == "true"
        yield from _sites(str(settings.parent), number)
        if said.get("home", "").startswith("/"):
            bases[os.path.dirname(os.path.realpath(said["home"]))] = None  # noqa: PTH120 - a path as text
    for base in bases:
        yield from map(str, sorted(Path(base).glob(f"lib*/python{number}")))
        yield from map(str, sorted(Path(base).glob("lib/libpython3*.so*")))
        if system:
            yield from _sites(base, number)
            yield from _sites(f"{base}/local", number)
    if system:
        yield from _sites(f"{pwd.getpwuid(0).pw_dir}/.local", number)


def _sites(prefix: str, number: str) -> Iterator[str]:
    for pattern in (f"lib*/python{number}", "lib*/python3"):
        for library in sorted(Path(prefix).glob(pattern)):
            yield from (str(library / name) for name in sorted(SITES) if (library / name).is_dir())


def _above(path: str) -> str:
    """The folder above that of a file, by name."""
    return os.path.dirname(os.path.dirname(path))  # noqa: PTH120 - links stay


def _shallow(folder: str, trusted: Collection[int]) -> str:
    """Why others can put something beside a program, or change what it would import from there."""
    try:
        if problem := _loose(folder, Path(folder).stat(), trusted, imported=True):
            return problem
        with os.scandir(folder) as entries:
            names = sorted(entry.path for entry in entries if entry.name.endswith(IMPORTED))
    except OSError as error:
        return f"{folder} cannot be looked at ({error.strerror})"
    return next((problem for name in names if (problem := changeable(name, trusted))), "")


def _imported(folder: str, trusted: Collection[int], seen: set[str], queue: list[str]) -> str:
    """Why others can change what is imported from a folder (rule 2); what it adds goes to the queue."""
    top = os.path.realpath(folder)
    site = os.path.basename(top) in SITES  # noqa: PTH119 - a path as text
    left = [top]
    while left:
        at = left.pop()
        if at in seen:
            continue
        seen.add(at)
        if len(seen) > MOST_ENTRIES:
            return f"{folder} has more files than can be looked at"
        try:
            status = os.lstat(at)
            if problem := _loose(at, status, trusted, imported=True):
                return problem
            if stat.S_ISLNK(status.st_mode):
                if os.path.exists(at):  # noqa: PTH110 - as above
                    if problem := changeable(at, trusted):
                        return problem
                    left.append(os.path.realpath(at))
            elif stat.S_ISDIR(status.st_mode):
                names = sorted(os.listdir(at), reverse=True)  # noqa: PTH208 - thousands of files
                left += [f"{at}/{name}" for name in names if site or name not in SITES]
            elif at.endswith((".pth", ".egg-link")) or os.path.basename(at).startswith("__editable__"):  # noqa: PTH119
                queue += _added(Path(at))
        except OSError as error:
            return f"{at} cannot be looked at ({error.strerror})"
    return ""


def _added(file: Path) -> Iterator[str]:
    """The folders that a file of an installation adds to those that are imported from."""
    text = file.read_text(errors="replace")
    lines = [line.strip() for line in text.splitlines()]
    written = WRITTEN.findall(text)
    if file.suffix != ".py":
        written += [
            str(file.parent / line) for line in lines if line and not line.startswith(("#", "import "))
        ]
    yield from (path for path in written if os.path.exists(path))  # noqa: PTH110 - a path as text

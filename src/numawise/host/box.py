"""A box that ``numawise setup`` prepared: what it is made of, what is recorded of it, and what is there.

Rules kept here:

1. What setup makes is recorded before it is made: a file by check sums of all that setup ever wrote there, a
   folder by its path.  So whatever ends setup, what it left is known to be its own.  A group is recorded once
   it exists: of two mistakes, to remove somebody else's group is the worse one.
2. Something is setup's own only as it is recorded.  A file that was changed since, or was there before, is
   somebody else's: it is neither written nor removed, and named.
3. The record counts only where root alone could have written it.
4. Paths are those of the system that is set up; ``root`` is where that system lies.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from numawise.errors import HostError, InputError
from numawise.host.settings import ADMINISTRATORS, HostSettings, box_settings, not_the_administrators
from numawise.values import dataclass, field, replace

API_VERSION, KIND = "numawise.dev/v1", "BoxSetup"
RECORD = "/etc/numawise/setup.json"
SETTINGS = "/etc/numawise/box.toml"
LEDGER = "/var/lib/numawise"
TMPFILES = "/etc/tmpfiles.d/numawise.conf"
DELEGATION = "/etc/systemd/system/user@.service.d/numawise.conf"
REAP_SERVICE = "/etc/systemd/system/numawise-reap.service"
REAP_TIMER = "/etc/systemd/system/numawise-reap.timer"
TIMER_LINK = "/etc/systemd/system/timers.target.wants/numawise-reap.timer"
COMPLETION = {
    "bash": "/usr/local/share/bash-completion/completions/numawise",
    "zsh": "/usr/local/share/zsh/site-functions/_numawise",
    "fish": "/etc/fish/completions/numawise.fish",
}
PURPOSES = {
    SETTINGS: "settings",
    TMPFILES: "ledger's upkeep",
    DELEGATION: "delegation",
    REAP_SERVICE: "reaper",
    REAP_TIMER: "reaper",
    TIMER_LINK: "reaper",
    **{path: f"{shell} completion" for shell, path in COMPLETION.items()},
}
"""What each file is for, as ``doctor`` calls it."""
PLAIN = re.compile(r"/[A-Za-z0-9._+@=/-]*", re.ASCII)
"""Paths that mean themselves in a unit, in tmpfiles.d and in TOML."""
LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class BoxRecord:
    """What setup made."""

    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Path → check sums of what setup wrote there, the newest last."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Path → where it leads."""
    folders: tuple[str, ...] = ()
    """In the order in which they were made."""
    group: str = ""
    """A group that setup added; '' when it added none."""

    def __bool__(self) -> bool:
        return bool(self.files or self.links or self.folders or self.group)

    def with_file(self, path: str, text: str) -> "BoxRecord":
        """The same with one more content of a file."""
        known = tuple(known for known in self.files.get(path, ()) if known != check_sum(text.encode()))
        return replace(self, files={**self.files, path: (*known, check_sum(text.encode()))})

    def with_folders(self, paths: Iterable[str]) -> "BoxRecord":
        """The same with more folders."""
        return replace(self, folders=tuple(dict.fromkeys((*self.folders, *paths))))


def check_sum(data: bytes) -> str:
    """By what a content is known."""
    return hashlib.sha256(data).hexdigest()


def below(root: Path, path: str) -> Path:
    """Where a path of the system lies."""
    return root / path.lstrip("/")


# --- the record -------------------------------------------------------------------------------


def read_record(root: Path, trusted: Collection[int] = ADMINISTRATORS) -> BoxRecord:
    """What setup made here; raise ``HostError`` where that cannot be known (rule 3)."""
    file = below(root, RECORD)
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return BoxRecord()
    except OSError as problem:
        raise _no_record(file, problem.strerror or "it cannot be read") from None
    try:
        if why := not_the_administrators(file, os.fstat(handle), trusted):
            raise _no_record(file, why)
        return _parsed(json.loads(os.read(handle, LARGEST)))
    except (ValueError, RecursionError):
        raise _no_record(file, "it is damaged") from None
    except OSError as problem:
        raise _no_record(file, problem.strerror or "it cannot be read") from None
    finally:
        os.close(handle)


def _no_record(file: Path, why: str) -> HostError:
    return HostError(
        f"the record of what setup made, {file}, is not used: {why}",
        "restore it, or move it away: then nothing that is there counts as made by setup",
    )


def _parsed(data: Any) -> BoxRecord:  # noqa: ANN401 - what JSON says
    if not isinstance(data, dict) or (data.get("apiVersion"), data.get("kind")) != (API_VERSION, KIND):
        raise ValueError("it is no such record")
    files, links, folders = data.get("files", {}), data.get("links", {}), data.get("folders", [])
    group = data.get("group", "")
    if not (isinstance(files, dict) and isinstance(links, dict) and isinstance(folders, list)):
        raise ValueError("a field is of another kind")  # noqa: TRY004 - one kind of error for all of it
    if not all(isinstance(texts, list) for texts in files.values()):
        raise ValueError("check sums are a list")
    paths = (*files, *links, *folders)
    sums = [text for texts in files.values() for text in texts]
    if not all(isinstance(text, str) for text in (*paths, *sums, *links.values(), group)):
        raise ValueError("a field is not text")
    if not all(PLAIN.fullmatch(path) and ".." not in path.split("/") for path in paths):
        raise ValueError("a path is not plain")
    return BoxRecord({path: tuple(texts) for path, texts in files.items()}, links, tuple(folders), group)


def record_text(record: BoxRecord) -> str:
    """The record as it is written."""
    data = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "files": {path: list(sums) for path, sums in record.files.items()},
        "links": dict(record.links),
        "folders": list(record.folders),
        "group": record.group,
    }
    return json.dumps(data, indent=2) + "\n"


# --- what is there ----------------------------------------------------------------------------

MISSING, AS_RECORDED, FOREIGN = "missing", "as recorded", "foreign"


@dataclass(frozen=True, slots=True)
class BoxState:
    """What lies at one path."""

    state: str
    """``missing``, ``as recorded`` or ``foreign``."""
    why: str = ""
    """Why it is somebody else's, as a clause."""
    text: str = ""
    """What stands in a file that is there."""


def file_state(root: Path, path: str, record: BoxRecord) -> BoxState:
    """Whether a file is there, and whether it is as setup wrote it (rule 2)."""
    place = below(root, path)
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return BoxState(MISSING)
    except OSError as problem:
        link = place.is_symlink()
        return BoxState(FOREIGN, "it is a link" if link else f"it cannot be read ({problem.strerror})")
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return BoxState(FOREIGN, "it is not a plain file")
        data = os.read(handle, LARGEST)
    except OSError as problem:
        return BoxState(FOREIGN, f"it cannot be read ({problem.strerror})")
    finally:
        os.close(handle)
    text = data.decode(errors="replace")
    if check_sum(data) in record.files.get(path, ()):
        return BoxState(AS_RECORDED, text=text)
    made = path in record.files
    return BoxState(FOREIGN, "it was changed since" if made else "setup did not make it", text)


def link_state(root: Path, path: str, record: BoxRecord) -> BoxState:
    """Likewise for a link, whose text is where it leads."""
    place = below(root, path)
    try:
        target = str(place.readlink())
    except (FileNotFoundError, NotADirectoryError):
        return BoxState(MISSING)
    except OSError:
        return BoxState(FOREIGN, "it is not a link")
    if record.links.get(path) == target:
        return BoxState(AS_RECORDED, text=target)
    return BoxState(FOREIGN, "it leads elsewhere", target)


def box_parts(root: Path, record: BoxRecord) -> tuple[tuple[str, str, BoxState], ...]:
    """Purpose, path and state of everything that setup wrote."""
    files = ((path, file_state(root, path, record)) for path in record.files)
    links = ((path, link_state(root, path, record)) for path in record.links)
    return tuple((PURPOSES.get(path, path), path, state) for path, state in (*files, *links))


def written_settings(root: Path) -> HostSettings:
    """What the file that setup writes says now, whoever wrote it; nothing where it cannot be understood."""
    text = file_state(root, SETTINGS, BoxRecord()).text
    try:
        return box_settings(below(root, SETTINGS), text)
    except InputError:
        return HostSettings()


def group_entry(root: Path, name: str) -> tuple[int, tuple[str, ...]] | None:
    """Number and members of a group; None when there is none of that name."""
    if root == Path("/"):
        import grp  # noqa: PLC0415 - asks the system's directory as well

        try:
            found = grp.getgrnam(name)
        except KeyError:
            return None
        return found.gr_gid, tuple(found.gr_mem)
    try:
        lines = (root / "etc/group").read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split(":")
        if len(words) == 4 and words[0] == name and words[2].isdecimal():
            return int(words[2]), tuple(filter(None, words[3].split(",")))
    return None

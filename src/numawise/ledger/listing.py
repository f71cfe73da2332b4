"""Which files of a ledger's folder are whose: by the owners that the kernel names, not by part of a listing.

Rules kept here:

1. Every name is looked at, and costs one question to the kernel; opened are only regular files that are named
   after their owner.  Everything else is litter: it holds nothing, and one sentence is about all of it.
2. Of one owner come the usual name first, then what has the mode of a ledger, the newest first; past
   ``MOST_TRIED`` the rest is litter of that owner: what else a user has, and somebody else gave such names,
   pushes no ledger out.  Several names of one file count once: anybody may have linked to somebody else's
   file.  No ledger is empty; what was replaced and has another name is emptied (``file``).
3. Of one user's subordinate ids (``/etc/subuid``: a user may be 65,536 more) ``MOST_SUBORDINATE`` count,
   where there are many owners; a user whom the system knows by name is nobody's.  Past ``MOST_OWNERS`` in
   all, ``too_many`` says that not everybody was read.
4. In a user namespace an owner whose number outside is not known is told from others by the name alone; what
   is past a bound there may be anybody's, and is ``too_many``.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from numawise.values import dataclass, field

FILE = 0o1644
"""The mode of a ledger and of a history."""
MOST_TRIED, MOST_SUBORDINATE, FEW_OWNERS, MOST_OWNERS = 64, 4, 16, 4096
SUBORDINATE = Path("/etc/subuid")


@dataclass(frozen=True, slots=True)
class OwnedFile:
    """A file with a name of the ledger's form."""

    name: str
    uid: int
    """To whom it belongs, as the kernel says."""
    usual: bool
    """It has the name that a user's file has where nobody else has taken that."""
    inode: int
    changed: int
    """Nanoseconds since 1970."""
    size: int
    links: int = 1
    """How many names it has."""
    mode: int = FILE


@dataclass(slots=True)
class Litter:
    """What lies in a folder under names of the ledger's form and is none of it."""

    first: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Owner → the first name, and why."""
    counts: dict[int, int] = field(default_factory=dict)
    squatted: dict[int, tuple[str, int]] = field(default_factory=dict)
    """User → the file with that user's usual name, and whose it is."""

    def add(self, file: OwnedFile, why: str) -> None:
        self.counts[file.uid] = self.counts.get(file.uid, 0) + 1
        known = self.first.get(file.uid)
        if known is None or file.name < known[0]:
            self.first[file.uid] = (file.name, why)

    def sentence(self, folder: Path, number: int | None) -> str:
        """One sentence about all of it; ``number``: ours, for what lies under our own name."""
        if not self.counts:
            return ""
        owner = min(self.counts)
        name, why = self.first[owner]
        if number in self.squatted:
            name, owner = self.squatted[number]
            why = "it lies under the name of another user, yours; your holds are recorded under another name"
        more = sum(self.counts.values()) - 1
        others = sorted(self.counts, key=lambda uid: (-self.counts[uid], uid))
        whose = ", ".join(f"uid {uid}" for uid in others[:3]) + (" and others" if len(others) > 3 else "")
        also = (
            f"; so are {more} more such files (of {whose}), which their owners or root can remove"
            if more
            else ""
        )
        return f"{folder / name} (uid {owner}) is ignored: {why}{also}"


@dataclass(frozen=True, slots=True)
class FolderListing:
    """What lies in a folder under names of one form."""

    owners: tuple[tuple[OwnedFile, ...], ...]
    """For each owner, the files to read in their order (rule 2)."""
    litter: Litter
    too_many: bool = False
    """There are more owners than were listed."""

    @property
    def every(self) -> Iterator[OwnedFile]:
        return (file for files in self.owners for file in files)

    def of(self, uid: int) -> Iterator[OwnedFile]:
        """The files of one user."""
        return (file for file in self.every if file.uid == uid)


def owned_files(folder: int, pattern: re.Pattern[str]) -> FolderListing:
    """The files of an open folder whose names have a form: the user's number is its first group."""
    owners: dict[tuple[int, int], list[OwnedFile]] = {}
    litter = Litter()
    ranges = id_map()
    outside: dict[int, int | None] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            match = pattern.fullmatch(entry.name)
            if match is None:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it has gone
            uid, number = status.st_uid, int(match[1])
            usual = match.lastindex == 1
            file = OwnedFile(
                *(entry.name, uid, usual, status.st_ino, status.st_mtime_ns, status.st_size),
                *(status.st_nlink, stat.S_IMODE(status.st_mode)),
            )
            if uid not in outside:
                outside[uid] = named_number(uid, ranges)
            foreign = number != uid and outside[uid] not in (number, None)
            if foreign and usual:
                litter.squatted[number] = (entry.name, uid)
            if not stat.S_ISREG(status.st_mode):
                litter.add(
                    file, "it is a link" if stat.S_ISLNK(status.st_mode) else "it is not a regular file"
                )
            elif foreign:
                litter.add(file, "it lies under the name of another user")
            elif not status.st_size:
                litter.add(file, "it is empty")
            else:
                owners.setdefault((uid, uid if outside[uid] is not None else number), []).append(file)
    chosen = _without_excess(owners, litter)
    strange = any(outside[key[0]] is None and len(owners[key]) > MOST_TRIED for key in chosen)
    listed = tuple(_in_order(owners[key], litter) for key in chosen[:MOST_OWNERS])
    return FolderListing(listed, litter, strange or len(chosen) > MOST_OWNERS)


def _in_order(files: list[OwnedFile], litter: Litter) -> tuple[OwnedFile, ...]:
    """The files of one owner as they are read (rule 2)."""
    files.sort(key=lambda file: (not file.usual, file.mode != FILE, -file.changed, file.name))
    known: dict[int, OwnedFile] = {}
    for file in files:
        known.setdefault(file.inode, file)
    several = tuple(known.values())
    for file in several[MOST_TRIED:]:
        litter.add(file, "it is one too many")
    return several[:MOST_TRIED]


def _without_excess(
    owners: dict[tuple[int, int], list[OwnedFile]], litter: Litter
) -> Sequence[tuple[int, int]]:
    """The owners, the lowest first, without those who are one user under too many names (rule 3)."""
    every = sorted(owners)
    if len(every) <= FEW_OWNERS:
        return every
    ranges = _subordinate_ranges()
    counts: dict[str, int] = {}
    chosen = []
    for key in every:
        user = next((name for first, last, name in ranges if first <= key[0] < last), None)
        if user is not None:
            counts[user] = counts.get(user, 0) + 1
            if counts[user] > MOST_SUBORDINATE and not _has_name(key[0]):
                for file in owners[key]:
                    litter.add(file, f"it is one too many of the subordinate ids of {user}")
                continue
        chosen.append(key)
    return chosen


def _has_name(uid: int) -> bool:
    """Whether it is a user of the system, such as one of a directory whose numbers a range overlaps."""
    import pwd  # noqa: PLC0415 - seldom needed

    try:
        pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return False
    return True


def _subordinate_ranges() -> list[tuple[int, int, str]]:
    """Which numbers a user may take on beside the own one."""
    ranges = []
    try:
        lines = SUBORDINATE.read_text(errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        user, _, rest = line.partition(":")
        first, _, count = rest.partition(":")
        if first.isdecimal() and count.isdecimal() and user.isprintable():
            ranges.append((int(first), int(first) + int(count), user))
    return ranges


IdMap = tuple[tuple[int, int, int], ...]


def id_map() -> IdMap:
    """Ranges of user numbers in our user namespace: the first inside, the first outside, how many."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
        return tuple((int(inner), int(outer), int(size)) for inner, outer, size in map(str.split, lines))
    except (OSError, ValueError):
        return ((0, 0, 1 << 32),)


def named_number(uid: int, ranges: IdMap | None = None) -> int | None:
    """The number of a user outside of our user namespace, after which its file is named; None: not known.

    Inside (``unshare -r``, a build as fake root) it differs, and the name of a file is read outside, too.
    """
    known = id_map() if ranges is None else ranges
    return next((outer + uid - inner for inner, outer, size in known if 0 <= uid - inner < size), None)

"""Where the ledger of this machine lies, and by what the machine and its boot are known.

Rules kept here:

1. A user may name the folder (``NUMAWISE_LEDGER``).  Otherwise all users of a machine share one truth without
   an administrator: each has a file in ``/var/tmp``, where the sticky bit keeps everybody's from the others.
2. An administrator may make ``/var/lib/numawise`` or name another folder (``numawise setup``): whoever may
   write there does so instead, and everybody reads both.  One that not everybody may read is not used: what
   is recorded there would be granted again.  What the administrator set is never changed.
3. A lock that all users of a ledger meet at must not be on a network file system: there ``/dev/shm`` takes
   the place of ``/var/tmp``, and a folder that was asked for by name is refused.
4. Where no such place can be had, a user has a ledger alone, in ``$XDG_STATE_HOME/numawise/<machine>/``
   (``~/.local/state``).
5. A place that others do not see, as far as that can be known (``sharing``), comes with a sentence that says
   why and what to do.
6. Environment, user and root are arguments.  Nothing is made here.
"""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from numawise.errors import InputError, LedgerError, quoted
from numawise.ledger.file import unsafe
from numawise.ledger.refusals import may_write
from numawise.ledger.sharing import Sight, sight_of, unescaped
from numawise.values import dataclass

VARIABLE = "NUMAWISE_LEDGER"
ROOT = Path("/")
SYSTEM = "var/lib/numawise"
COMMON = ("var/tmp", "dev/shm")
"""Folders in which everybody may make files and nobody may remove those of others; the first that will do."""
EARLIER = "ledger.db"
"""What numawise 0.1 called its ledger."""
ADMINISTRATORS = frozenset({0})
NETWORK = frozenset((
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre"),
    *("mmfs", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"),
))  # fmt: skip
"""Types of file systems that other machines may write, too."""
LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.mergerfs", "fuse.bindfs", "fuse.ext4"})
"""Everything else that FUSE mounts counts as remote: sshfs, s3fs, glusterfs, juicefs and their like."""
MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
HEXADECIMAL = re.compile(r"[0-9a-f]{32}", re.ASCII)
PREPARE = "let an administrator run 'numawise setup'"


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Where a ledger lies."""

    folders: tuple[Path, ...]
    """The first is where this user's holds are recorded; all are read."""
    shared: bool | None = False
    """All users of the machine see it; None: not known."""
    alone: str = ""
    """Why it is not shared, and what to do: a sentence."""
    unsure: str = ""
    """Why it is not known whether it is shared, as a clause."""
    chosen: bool = False
    """The user asked for this place by name."""
    remarks: tuple[str, ...] = ()
    """What else the user should know, a sentence each."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be said even to those who want to hear nothing: they did not choose to be alone."""
        return () if self.chosen or not self.alone else (self.alone,)


def find_ledger(
    environ: Mapping[str, str],
    uid: int,
    *,
    system: str = "",
    origin: str = VARIABLE,
    root: Path = ROOT,
    trusted: Collection[int] = ADMINISTRATORS,
    writable: Callable[[Path], bool] = may_write,
) -> LedgerPlace:
    """Where this user's ledger lies; folders for all must belong to one of the users ``trusted``.

    ``system`` is the folder that the administrator named, '' for the usual one; ``origin`` is what the user's
    own wish (``NUMAWISE_LEDGER`` in ``environ``) comes from.
    """
    remarks: list[str] = []
    asked = environ.get(VARIABLE, "")
    folders = [*_system(root, system, trusted, remarks), *_common(root, trusted)]
    usable = [folder for folder in folders if writable(folder)]
    if asked and not _is_usual(_named(asked, origin, root), usable):
        return _chosen(Path(asked), origin)
    if usable:
        first = usable[0]
        if _reached(earlier := root / SYSTEM / EARLIER):
            remarks.append(
                f"jobs that an earlier numawise recorded in {earlier} are not seen here; "
                "remove it when they have ended"
            )
        others = tuple(folder for folder in folders if folder != first)
        sights = {folder: sight_of(_below(folder, root), root) for folder in folders}
        remarks += [
            f"jobs that others recorded in {folder} are not seen here: {sights[folder].why}"
            for folder in others
            if sights[folder].by_all is False
        ]
        sight = sights[first]
        return LedgerPlace(
            (first, *others),
            sight.by_all,
            _unshared(first, sight),
            sight.why if sight.by_all is None else "",
            remarks=tuple(remarks),
        )
    own = _own(environ, uid, root, writable)
    alone = (
        f"the ledger is not shared: user {uid} may write in no folder for all and has one alone ({own}), so "
        f"jobs of other users are not respected, nor yours by them; {PREPARE}"
    )
    return LedgerPlace((own, *folders), alone=alone, remarks=tuple(remarks))


def _unshared(folder: Path, sight: Sight) -> str:
    """The sentence about a folder that others do not see."""
    if sight.by_all is not False:
        return ""
    return (
        f"the ledger in {folder} is not shared with the rest of the machine ({sight.why}): jobs outside are "
        f"not respected, nor yours by them; start this outside, or {PREPARE} and share that folder, and "
        "/etc/machine-id, with this place"
    )


def _system(root: Path, named: str, trusted: Collection[int], remarks: list[str]) -> Iterator[Path]:
    """The administrator's folder, where there is one that can be read."""
    folder = root / (named or SYSTEM).lstrip("/")
    try:
        status = folder.lstat()
    except OSError as error:
        if named:
            remarks.append(
                f"the ledger's folder {folder} is not used: {error.strerror}; let an administrator run "
                "'numawise setup' again"
            )
        return
    if stat.S_ISDIR(status.st_mode) and status.st_mode & 0o005 != 0o005:
        problem = "not everybody may read it (chmod o+rx)"
        if not os.access(folder, os.W_OK, effective_ids=True):
            return  # nobody records anything there, and it is not this user's to change
    else:
        problem = _not_for_all(status, trusted) or unsafe(status)
    if not problem and (kind := network_file_system(folder, root)):
        problem = f"it is on {kind}"
    if problem:
        remarks.append(f"the ledger's folder {folder} is not used: {problem}")
    else:
        yield folder


def _common(root: Path, trusted: Collection[int]) -> Iterator[Path]:
    """The folder in which everybody may have a file."""
    for name in COMMON:
        folder = root / name
        try:
            status = folder.stat()
        except OSError:
            continue
        open_to_all = status.st_mode & 0o1007 == 0o1007
        if open_to_all and not _not_for_all(status, trusted) and not network_file_system(folder, root):
            yield folder
            return


def _not_for_all(status: os.stat_result, trusted: Collection[int]) -> str:
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    return "" if status.st_uid in trusted else f"it belongs to uid {status.st_uid}, not to root"


def machine_id(root: Path = ROOT) -> str:
    """By what this machine is known: ``/etc/machine-id``, or else its name as ``host-NAME``."""
    for name in MACHINE_IDS:
        text = _text(root / name).lower()
        if HEXADECIMAL.fullmatch(text):
            return text
    host = _text(root / "proc/sys/kernel/hostname")
    if not host:
        raise LedgerError(
            f"this machine cannot be identified: {root / MACHINE_IDS[0]} has no id, and it has no host name",
            "make one with 'systemd-machine-id-setup'",
        )
    return "host-" + re.sub(r"[^A-Za-z0-9.-]", "_", host)


def boot_id(root: Path = ROOT) -> str:
    """By what this boot of the kernel is known."""
    path = root / "proc/sys/kernel/random/boot_id"
    text = _text(path)
    if not text:
        raise LedgerError(
            f"{path} does not identify the current boot, so running jobs cannot be "
            "distinguished from ended ones",
            "mount /proc",
        )
    return text


def network_file_system(path: Path, root: Path = ROOT) -> str:
    """The type of the network file system on which a path would lie; '' when it is a local one."""
    there = _nearest(path, root)
    mounts = _text(root / "proc/self/mounts") or _text(root / "proc/mounts")
    kind = file_system(_below(there, root), mounts)
    fuse = kind == "fuse" or (kind.startswith("fuse.") and kind not in LOCAL_FUSE)
    return kind if kind in NETWORK or fuse else ""


def file_system(path: str, mounts: str) -> str:
    """The type of the file system at an absolute path, by the text of ``/proc/mounts``; '' when not known."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = unescaped(words[1]).rstrip("/")
        inside = path == point or path.startswith(point + "/")
        if inside and len(point) >= best:  # of two at one place the later hides the earlier
            best, kind = len(point), words[2]
    return kind


def _named(text: str, origin: str, root: Path) -> Path:
    """The folder that the user asked for."""
    path = Path(text)
    if not path.is_absolute() or "\0" in text:
        raise InputError(
            f"{quoted(text)} is not an absolute path",
            field=origin,
            advice="write one, such as /srv/numawise",
        )
    kind = network_file_system(path, root)
    if kind:
        raise LedgerError(
            f"the ledger {path} would be on a network file system ({kind}), where its lock is not safe",
            f"set {VARIABLE} to a folder on a local disk",
        )
    return path


def _is_usual(path: Path, usable: Sequence[Path]) -> bool:
    """Whether the user asked for what would be taken anyway."""
    return bool(usable) and os.path.realpath(path) == os.path.realpath(usable[0])


def _chosen(path: Path, origin: str) -> LedgerPlace:
    """A ledger beside the machine's; who else uses it nobody can say."""
    try:
        open_to_others = bool(path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    except OSError:
        open_to_others = False  # it will be made for its owner alone
    who = "only users who name it too share it" if open_to_others else "nobody else can record anything there"
    undo = f"unset {origin}" if origin == VARIABLE else f"take 'ledger' out of {origin}"
    alone = (
        f"the ledger {path} is not the machine's: {origin} names it, and {who}, so jobs of others may not be "
        f"respected, nor yours by them; {undo} to share with all"
    )
    return LedgerPlace((path,), None if open_to_others else False, alone, chosen=True)


def _own(environ: Mapping[str, str], uid: int, root: Path, writable: Callable[[Path], bool]) -> Path:
    """A folder for this user alone; homes are often shared by machines, so each machine has its own."""
    state = _state_folder(environ, uid)
    folder = (state or root / "run/user" / str(uid)) / "numawise" / machine_id(root)
    nearest = _nearest(folder, root)
    kind = network_file_system(folder, root)
    if kind or not writable(nearest):
        why = f"{nearest} is on {kind}" if kind else f"user {uid} may not write {nearest}"
        raise LedgerError(
            f"there is no folder for a ledger: {' and '.join(f'/{name}' for name in COMMON)} cannot be used "
            f"by everybody, and {why}",
            f"set {VARIABLE} to a folder on a local file system",
        )
    return folder


def _state_folder(environ: Mapping[str, str], uid: int) -> Path | None:
    """Where the user's programs keep what they must not forget."""
    state_home = environ.get("XDG_STATE_HOME", "")
    if state_home.startswith("/"):
        return Path(state_home)
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        import pwd  # noqa: PLC0415 - seldom needed

        try:
            home = pwd.getpwuid(uid).pw_dir
        except KeyError:
            return None
    return Path(home) / ".local/state" if home.startswith("/") else None


def _below(path: Path, root: Path) -> str:
    """The path as the root sees it."""
    real, top = os.path.realpath(path), os.path.realpath(root)
    return "/" + os.path.relpath(real, top) if real.startswith(top.rstrip("/") + "/") else real


def _nearest(path: Path, root: Path) -> Path:
    """The path itself or, as far as it does not exist, the folder in which it would be made."""
    return next((place for place in (path, *path.parents) if _reached(place)), root)


def _reached(path: Path) -> bool:
    """Whether it exists; to ask also makes the automounter mount it."""
    return os.access(path, os.F_OK)


def _text(path: Path) -> str:
    """A small file of the system; '' when it cannot be read."""
    try:
        return path.read_bytes().decode(errors="replace").strip("\0 \t\n")
    except OSError:
        return ""

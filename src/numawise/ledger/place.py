"""Where the ledger of this machine lies, for whom, and by what the machine and its boot are known.

Rules kept here:

1. ``NUMAWISE_LEDGER`` names the file.  Otherwise root uses the system's, ``/var/lib/numawise/ledger.db``, and
   so does everybody who may write it: the members of the group ``numawise``, where there is one.
2. Everybody else has a ledger of their own, in ``$XDG_STATE_HOME/numawise/<machine>/`` (``~/.local/state``):
   homes are often shared by many machines, so each machine has its folder.
3. A write-ahead log needs memory shared by its users, so a ledger never lies on a network file system.  The
   system's then lies in ``/run/numawise``, a user's in ``/var/tmp/numawise-<uid>``; a file that was asked for
   by name is refused.
4. Environment, user and root are arguments.  Nothing is made here.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from numawise.errors import InputError, LedgerError
from numawise.ledger.file import AS_ITS_FOLDER, Access
from numawise.ledger.refusals import may_write
from numawise.values import dataclass, replace

VARIABLE = "NUMAWISE_LEDGER"
GROUP = "numawise"
NAME = "ledger.db"
ROOT = Path("/")
SYSTEM, SYSTEM_LOCAL, USER_LOCAL = "var/lib/numawise", "run/numawise", "var/tmp/numawise-{uid}"
NETWORK = frozenset((
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre"),
    *("mmfs", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"),
))  # fmt: skip
"""Types of file systems that other machines may write, too."""
LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.mergerfs", "fuse.bindfs", "fuse.ext4"})
"""Everything else that FUSE mounts counts as remote: sshfs, s3fs, glusterfs, juicefs and their like."""
MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
HEXADECIMAL = re.compile(r"[0-9a-f]{32}", re.ASCII)
ESCAPE = re.compile(r"\\([0-7]{3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Where a ledger lies."""

    path: Path
    access: Access = AS_ITS_FOLDER
    """For whom it is made, when it is not there yet."""
    shared: bool = False
    """It is the system's ledger, not one of this user alone."""
    remarks: tuple[str, ...] = ()
    """What the user should know, a sentence each."""


def find_ledger(
    environ: Mapping[str, str],
    uid: int,
    *,
    root: Path = ROOT,
    gid: int | None = None,
    writable: Callable[[Path], bool] = may_write,
) -> LedgerPlace:
    """Where this user's ledger lies; ``gid`` is the group that shares the system's (see ``shared_group``)."""
    asked = environ.get(VARIABLE, "")
    if asked:
        return _named(asked, root)
    system = system_ledger(root)
    if uid == 0:
        return LedgerPlace(system.path, Access(gid=gid), shared=True, remarks=system.remarks)
    own = _own(environ, uid, root, writable)
    folder = system.path.parent
    if not _reached(folder):
        return own
    if writable(folder) and (writable(system.path) or not _reached(system.path)):
        return _joined(system, own.path)
    unseen = (
        f"jobs of root and of the group '{GROUP}' are recorded in {system.path}, which user {uid} may not "
        "write: what they hold is not visible here; ask to be added to that group"
    )
    return replace(own, remarks=(unseen, *own.remarks))


def system_ledger(root: Path = ROOT) -> LedgerPlace:
    """The ledger of root and the group, whether or not it exists."""
    path = root / SYSTEM / NAME
    kind = network_file_system(path, root)
    if not kind:
        return LedgerPlace(path, shared=True)
    local = root / SYSTEM_LOCAL / NAME
    return LedgerPlace(
        local, shared=True, remarks=(f"the ledger is {local}, because {path.parent} is on {kind}",)
    )


def shared_group() -> int | None:
    """The group that shares the system's ledger; None where there is no such group."""
    import grp  # noqa: PLC0415 - asked by root alone

    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError:
        return None


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
        point = ESCAPE.sub(lambda found: chr(int(found[1], 8)), words[1]).rstrip("/")
        inside = path == point or path.startswith(point + "/")
        if inside and len(point) >= best:  # of two at one place the later hides the earlier
            best, kind = len(point), words[2]
    return kind


def _named(text: str, root: Path) -> LedgerPlace:
    path = Path(text)
    if not path.is_absolute() or "\0" in text:
        raise InputError(
            f"{text!r} is not an absolute path",
            field=VARIABLE,
            advice="write one, such as /srv/numawise/ledger.db",
        )
    kind = network_file_system(path, root)
    if kind:
        raise LedgerError(
            f"the ledger {path} would be on a network file system ({kind}), where its log is not safe",
            f"set {VARIABLE} to a file on a local disk",
        )
    return LedgerPlace(path)


def _joined(system: LedgerPlace, own: Path) -> LedgerPlace:
    if not _reached(own):
        return system
    left = (
        f"jobs started before the ledger {system.path} could be used are in {own}; see them with "
        f"'{VARIABLE}={own} numawise ps', and remove the file when none is left"
    )
    return replace(system, remarks=(*system.remarks, left))


def _own(environ: Mapping[str, str], uid: int, root: Path, writable: Callable[[Path], bool]) -> LedgerPlace:
    machine = machine_id(root)
    state = _state_folder(environ, uid)
    if state is None:
        why = f"user {uid} has no home"
    else:
        path = state / "numawise" / machine / NAME
        there = _nearest(path, root)
        kind = network_file_system(path, root)
        if not kind and writable(there):
            return LedgerPlace(path)
        why = f"{there} is on {kind}" if kind else f"user {uid} may not write {there}"
    local = root / USER_LOCAL.format(uid=uid) / machine / NAME
    return LedgerPlace(local, Access(guarded=True), remarks=(f"the ledger is {local}, because {why}",))


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

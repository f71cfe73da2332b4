"""Whether all users of a machine see the same folder under its name: what can be known of that, no more.

Rules kept here:

1. A folder is seen by all where this process and the first process of the machine have the same thing mounted
   there.  A service with a ``/var/tmp`` of its own, a session of ``pam_namespace`` and a container that has
   the machine's processes have another.
2. In a container the first process is the container's.  What lies on the container's own root is its own; who
   else has a folder that was mounted into it, nobody inside can say.
3. Where the system does not say, the answer is None: not known.
"""

import os
import re
from pathlib import Path

from numawise.values import dataclass

FIRST_NAMESPACE = "pid:[4026531836]"
"""The pid namespace of the machine itself has the same number on every Linux."""
PRIVATE_TMP = re.compile(r"/systemd-private-|\.inst$|/tmp-inst/")
"""In the root of a mount: made for a service or a session alone (PrivateTmp, pam_namespace)."""
ESCAPE = re.compile(r"\\([0-7]{3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Sight:
    """Who sees a folder."""

    by_all: bool | None
    """None: not known."""
    why: str = ""
    """Why not, or why it is not known, as a clause."""


def sight_of(path: str, root: Path) -> Sight:
    """Who sees what lies at an absolute path without links, as the root sees it."""
    ours, theirs = _text(root / "proc/self/mountinfo"), _text(root / "proc/1/mountinfo")
    contained = _is_contained(root)
    if ours and ours == theirs and not contained:
        return Sight(by_all=True)
    mount = _mount_at(path, ours)
    if mount is None:
        return Sight(None, "/proc does not say what is mounted there")
    if contained:
        if mount.point == "/":
            return Sight(by_all=False, why="this runs in a container, and the folder is the container's own")
        return Sight(None, "this runs in a container, and who else has that folder is not known inside")
    if PRIVATE_TMP.search(mount.root):
        return Sight(by_all=False, why="it is private to this service or session")
    other = _mount_at(path, theirs)
    if other is None:
        return Sight(None, "the first process of the machine cannot be looked at")
    if mount.what(path) == other.what(path):
        return Sight(by_all=True)
    return Sight(by_all=False, why="the rest of the machine has something else mounted there")


@dataclass(frozen=True, slots=True)
class MountPoint:
    """A line of ``mountinfo``."""

    device: str
    root: str
    """What of the file system is mounted."""
    point: str

    def what(self, path: str) -> tuple[str, str]:
        """What of which file system a path below the mount point is."""
        return self.device, self.root.rstrip("/") + path[len(self.point.rstrip("/")) :]


def _mount_at(path: str, mounts: str) -> MountPoint | None:
    best: MountPoint | None = None
    for line in mounts.splitlines():
        words = line.split(" ", 5)
        if len(words) < 5:
            continue
        point = unescaped(words[4])
        under = point.rstrip("/")
        inside = path == under or path.startswith(under + "/")
        if inside and (best is None or len(point) >= len(best.point)):  # the later hides the earlier
            best = MountPoint(words[2], unescaped(words[3]), point)
    return best


def unescaped(text: str) -> str:
    r"""A name as the kernel writes it into its tables of mounts, with blanks as ``\040``."""
    return ESCAPE.sub(lambda match: chr(int(match[1], 8)), text) if "\\" in text else text


def _is_contained(root: Path) -> bool:
    try:
        return os.readlink(root / "proc/self/ns/pid") != FIRST_NAMESPACE  # noqa: PTH115 - not a path
    except OSError:
        return False


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""

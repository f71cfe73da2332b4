"""Changes in folders, as the kernel reports them (inotify): nobody has to look again and again.

Rules kept here:

1. A file counts as changed when it was written and closed, or moved into its place; a socket when it was made
   or removed.  Which it was does not matter: whoever waits looks for himself.
2. A folder that is not there yet, or goes and comes back, is taken up when ``refresh`` is called next.
3. Where the kernel does not do it (none left for this user, another system), ``HostError`` says why.
"""

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from numawise.errors import HostError

CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF = 8, 64, 128, 256, 512, 1024, 2048
WANTED = CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
OVERFLOW, IGNORED = 0x4000, 0x8000
ONLY_FOLDERS = 0x01000000
HEAD = struct.Struct("iIII")
LARGEST = 1 << 16


class FileEvents:
    """What happens in some folders, one descriptor for all of them."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self.folders = tuple(folders)
        self._watched: dict[int, Path] = {}
        try:
            self._library = ctypes.CDLL(None, use_errno=True)
            self.descriptor = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError) as problem:
            raise HostError(f"this system does not report changes of files: {problem}") from None
        if self.descriptor < 0:
            reason = os.strerror(ctypes.get_errno())
            advice = "raise fs.inotify.max_user_instances"
            raise HostError(f"the kernel does not report changes of files: {reason}", advice)
        self.refresh()

    def refresh(self) -> bool:
        """Watch the folders that are there and not watched; whether all are now (rule 2)."""
        watched = set(self._watched.values())
        for folder in self.folders:
            if folder not in watched:
                number = self._library.inotify_add_watch(
                    self.descriptor, os.fsencode(folder), WANTED | ONLY_FOLDERS
                )
                if number >= 0:
                    self._watched[number] = folder
        return len(self._watched) == len(self.folders)

    def changed(self) -> frozenset[Path]:
        """What has changed since the last call; a folder of its own where anything in it may have."""
        paths: set[Path] = set()
        while raw := self._read():
            at = 0
            while at + HEAD.size <= len(raw):
                number, mask, _, size = HEAD.unpack_from(raw, at)
                name = raw[at + HEAD.size : at + HEAD.size + size].split(b"\0", 1)[0]
                at += HEAD.size + size
                if mask & OVERFLOW:
                    paths.update(self.folders)
                elif (folder := self._watched.get(number)) is not None:
                    paths.add(folder / os.fsdecode(name) if name else folder)
                    if mask & (IGNORED | MOVE_SELF | DELETE_SELF):
                        self._forget(number, removed=bool(mask & (IGNORED | DELETE_SELF)))
        return frozenset(paths)

    def close(self) -> None:
        """No more events."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _forget(self, number: int, *, removed: bool) -> None:
        self._watched.pop(number, None)
        if not removed:
            self._library.inotify_rm_watch(self.descriptor, number)

    def _read(self) -> bytes:
        try:
            return os.read(self.descriptor, LARGEST)
        except (BlockingIOError, InterruptedError):
            return b""

"""What is watched, so that pages are told of changes: this host's ledger, and the files of the served node.

Rules kept here:

1. One look in ``LOOK_SECONDS`` serves all pages: names, times and sizes are compared, contents are not read.
2. What cannot be looked at has not changed.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from numawise.codec.checkpoint import PLACES
from numawise.errors import NumawiseError
from numawise.inputs.gathered import NodeSources, Notes
from numawise.inputs.kubelet import kubelet_parts
from numawise.inputs.spec import NodeSpec
from numawise.web.desk import BOX, MAP, Desk

LOOK_SECONDS = 1.0
MOST_MEMBERS = 200
"""Files of a folder that are looked at."""
KUBELET_LOOKS = 30
"""So often are files looked at before it is asked again where the kubelet has them."""
FileState = tuple[str, int, int, int]


class ServedWatch:
    """Compares what is there with what was there; for one thread."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._looks = 0
        self._places: tuple[Path, ...] = ()
        self._files = self._look_at_files()
        self._box = self._look_at_box()

    def look(self) -> tuple[str, ...]:
        """What has changed since the last look; the pages are told."""
        self._looks += 1
        changed: dict[str, None] = {}
        files, box = self._look_at_files(), self._look_at_box()
        if files != self._files:
            changed[MAP] = None
        if box != self._box:
            changed |= {MAP: None, BOX: None}
        self._files, self._box = files, box
        if changed:
            self.desk.changed(*changed)
        return tuple(changed)

    def _look_at_box(self) -> object:
        if not self.desk.served.host:
            return None
        try:
            return self.desk.box.version()
        except (NumawiseError, OSError) as problem:
            return str(problem)

    def _look_at_files(self) -> tuple[FileState, ...]:
        if self._looks % KUBELET_LOOKS == 0:
            self._places = tuple(_places(self.desk))
        return tuple(state for place in self._places for state in _states(place))


def _places(desk: Desk) -> Iterator[Path]:
    served = desk.served
    if served.kubelet is not None:
        with suppress(NumawiseError, OSError):
            yield from _kubelet_places(served.kubelet)
    elif served.spec is not None:
        yield from _spec_places(served.spec)


def _kubelet_places(sources: NodeSources) -> Iterator[Path]:
    parts = kubelet_parts(sources, Notes())
    folder = sources.top / parts.directory.lstrip("/")
    yield from (folder / place for places in PLACES.values() for place in places)
    for document in (parts.base, *parts.drop_ins):
        if document is not None and document.file.startswith("/"):
            yield sources.top / document.file.lstrip("/")


def _spec_places(spec: NodeSpec) -> Iterator[Path]:
    words = (*spec.words, *spec.state, spec.config_dir, spec.bundle)
    yield from (Path(word) for word in words if word and "\0" not in word and "\n" not in word)


def _states(place: Path) -> Iterator[FileState]:
    """The state of a file, or of the files in a folder (rule 2)."""
    with suppress(OSError, ValueError):
        status = place.stat()
        yield str(place), status.st_ino, status.st_mtime_ns, status.st_size
        if place.is_dir():
            with os.scandir(place) as members:
                for member in sorted(islice(members, MOST_MEMBERS), key=lambda one: one.name):
                    inner = member.stat(follow_symlinks=False)
                    yield member.name, inner.st_ino, inner.st_mtime_ns, inner.st_size

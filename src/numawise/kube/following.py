"""Objects of an API server, kept up to date in a thread: the pods of a node, and the node itself.

Rules kept here:

1. The list is read, then followed.  When that ends, it is followed on from the last version; after an error
   it is read again, and only when that fails, too, something is wrong.
2. A server that is gone is asked again after a wait that doubles up to ``LONGEST_WAIT``, with some chance in
   it, so that the agents of a cluster do not come all at once.  What was known stays; ``synced`` says that it
   may be old.
3. A server that refuses is asked again after ``REFUSED_WAIT``.  The sentence is in ``problem``.
4. ``changed`` is called when something happened that matters, from the thread.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Mapping

from numawise.codec.document import mapping
from numawise.errors import NumawiseError
from numawise.kube.calls import followed, listed
from numawise.kube.client import ApiRefused, Cluster, Object

FIRST_WAIT, LONGEST_WAIT, REFUSED_WAIT, SHORTEST = 0.25, 4.0, 60.0, 1.0
GONE, BOOKMARK, ERROR = "DELETED", "BOOKMARK", "ERROR"
Matters = Callable[[Object | None, Object | None], bool]
"""Whether a change from one form of an object to another is news; None: it is not there."""


def back_off(failures: int) -> float:
    """Seconds to wait after so many failures in a row (rule 2)."""
    longest = min(FIRST_WAIT * 2.0 ** min(failures, 10), LONGEST_WAIT)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret


def always(_: Object | None, __: Object | None) -> bool:
    """Every change matters."""
    return True


class FollowedObjects:
    """The objects that a selector chooses."""

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        what: str,
        params: Mapping[str, str],
        changed: Callable[[], None],
        matters: Matters = always,
    ) -> None:
        self.cluster, self.path, self.what, self.params = cluster, path, what, dict(params)
        self.problem = ""
        self.synced = False
        self._objects: dict[str, Object] | None = None
        self._changed, self._matters = changed, matters
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"follow {path}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wait(self, longest: float) -> None:
        """Wait until the server has answered or failed for the first time, at most so long."""
        self._answered.wait(longest)

    def stop(self) -> None:
        """End soon; the thread is not waited for, because it may wait for a server."""
        self._ending.set()

    @property
    def objects(self) -> tuple[Object, ...] | None:
        """The objects as they were last known; None: they were never read."""
        with self._lock:
            return None if self._objects is None else tuple(self._objects.values())

    def _follow(self) -> None:
        failures = 0
        while not self._ending.is_set():
            try:
                version = self._read()
            except NumawiseError as problem:
                known, self.problem = self.problem, str(problem)
                if self.synced or known != self.problem:
                    self.synced = False
                    self._changed()
                self._answered.set()
                failures += 1
                refused = isinstance(problem, ApiRefused)
                self._ending.wait(REFUSED_WAIT if refused else back_off(failures))
                continue
            failures = 0
            with contextlib.suppress(NumawiseError):  # it is read again, which says what is wrong
                while not self._ending.is_set():
                    begin = time.monotonic()
                    version = self._go_on(version)
                    if time.monotonic() - begin < SHORTEST:
                        self._ending.wait(back_off(2))  # somebody between us does not let lists be followed
            self._ending.wait(back_off(0))

    def _read(self) -> str:
        objects, version = listed(self.cluster, self.path, self.what, self.params)
        fresh = {_uid(one): one for one in objects}
        with self._lock:
            before, self._objects = self._objects, fresh
        keys = {*fresh, *(before or {})}
        news = any(self._matters((before or {}).get(key), fresh.get(key)) for key in keys)
        was_synced, self.synced, self.problem = self.synced, True, ""
        self._answered.set()
        if news or not was_synced or before is None:
            self._changed()
        return version

    def _go_on(self, version: str) -> str:
        for kind, value in followed(self.cluster, self.path, self.what, self.params, version):
            if self._ending.is_set():
                break
            if kind == ERROR:
                raise StaleVersion(f"{self.cluster.access.server} no longer has version {version}")
            version = str(mapping(value.get("metadata")).get("resourceVersion") or version)
            if kind != BOOKMARK:
                self._take(kind, value)
        return version

    def _take(self, kind: str, value: Object) -> None:
        key = _uid(value)
        after = None if kind == GONE else value
        with self._lock:
            assert self._objects is not None
            objects = dict(self._objects)
            before = objects.pop(key, None)
            if after is not None:
                objects[key] = after
            self._objects = objects
        if self._matters(before, after):
            self._changed()


class StaleVersion(NumawiseError):
    """The list has to be read again."""


def _uid(value: Object) -> str:
    metadata = mapping(value.get("metadata"))
    return str(metadata.get("uid") or f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")

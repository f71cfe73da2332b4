"""Objects of an API server, kept up to date in a thread: the pods of a node, and the node itself.

Rules kept here:

1. The list is read, then followed.  When that ends, it is followed on from the last version; after an error
   it is read again, and only when that fails, too, something is wrong.
2. A server that is gone is asked again after a wait that doubles up to ``LONGEST_WAIT``, with some chance in
   it, so that the agents of a cluster do not come all at once.  What was known stays; ``synced`` says that it
   may be old.
3. A server that refuses is asked again after ``REFUSED_WAIT``.  The sentence is in ``problem``.
4. ``changed`` is called when something happened that matters, from the thread.  ``took`` is told each
   change as it was and as it is, in order, and many at once when a list was read: nothing is copied.
5. Of each object only that is told which ``slim`` leaves, and only that is kept which ``remembered`` leaves
   of it.  One with the version that is known is no change.
6. A list may be served in several versions: ``paths`` are tried in turn until one is served.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from numawise.codec.document import mapping
from numawise.codec.objects import object_uid
from numawise.errors import NumawiseError
from numawise.kube.calls import NotServed, as_it_is, followed, listed
from numawise.kube.client import ApiRefused, Cluster, Object

FIRST_WAIT, LONGEST_WAIT, REFUSED_WAIT, SHORTEST = 0.25, 4.0, 60.0, 1.0
GONE, BOOKMARK, ERROR = "DELETED", "BOOKMARK", "ERROR"
Matters = Callable[[Object | None, Object | None], bool]
"""Whether a change from one form of an object to another is news; None: it is not there."""
Change = tuple[Object | None, Object | None]
Took = Callable[[Sequence[Change]], None]


def back_off(failures: int) -> float:
    """Seconds to wait after so many failures in a row (rule 2)."""
    longest = min(FIRST_WAIT * 2.0 ** min(failures, 10), LONGEST_WAIT)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret


def nobody(_: Sequence[Change]) -> None:
    """Nobody is told."""


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
        *,
        took: Took = nobody,
        slim: Callable[[Object], Object] = as_it_is,
        remembered: Callable[[Object], Object] = as_it_is,
    ) -> None:
        self.cluster, self.path, self.what, self.params = cluster, path, what, dict(params)
        self.paths: tuple[str, ...] = (path,)
        """Where else the list may be served, in order."""
        self.problem = ""
        self.served = True
        """False: the server has no such list, as far as it was asked."""
        self._took, self._slim, self._remembered = took, slim, remembered
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
                self.served = not isinstance(problem, NotServed)
                if self.synced or known != self.problem:
                    self.synced = False
                    self._changed()
                self._answered.set()
                failures += 1
                refused = isinstance(problem, ApiRefused | NotServed)
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
        objects, version = self._listed()
        fresh = {_key(one): one for one in objects}
        with self._lock:
            first, before = self._objects is None, self._objects or {}
            self._objects = {key: self._remembered(one) for key, one in fresh.items()}
        changes: list[Change] = [(before.get(key), one) for key, one in fresh.items()]
        changes = [(old, new) for old, new in changes if old is None or not _same_version(old, new)]
        changes += [(one, None) for key, one in before.items() if key not in fresh]
        news = any(self._matters(old, new) for old, new in changes)
        if changes:
            self._took(changes)
        was_synced, self.synced, self.problem, self.served = self.synced, True, "", True
        self._answered.set()
        if news or not was_synced or first:
            self._changed()
        return version

    def _listed(self) -> tuple[list[Object], str]:
        """The list, from the first place that serves it (rule 6)."""
        for place in self.paths:
            try:
                answer = listed(self.cluster, place, self.what, self.params, self._slim)
            except NotServed as problem:
                unserved = problem
            else:
                self.path = place
                return answer
        raise unserved

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
        key = _key(value)
        after = None if kind == GONE else self._slim(value)
        with self._lock:
            assert self._objects is not None
            before = self._objects.pop(key, None)
            if after is not None:
                self._objects[key] = self._remembered(after)
        if kind == GONE:
            self._took(((self._slim(value), None),))  # as it was in the end
        else:
            self._took(((before, after),))
        if self._matters(before, after):
            self._changed()


class StaleVersion(NumawiseError):
    """The list has to be read again."""


def _key(value: Object) -> str:
    metadata = mapping(value.get("metadata"))
    return object_uid(value) or f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _same_version(old: Object, new: Object | None) -> bool:
    version = mapping(old.get("metadata")).get("resourceVersion")
    return bool(version) and version == mapping(mapping(new).get("metadata")).get("resourceVersion")

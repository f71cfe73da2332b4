"""Objects of the API server as they change, handed over where the program's loop runs, in the server's order.

Rules kept here:

1. The whole list comes first, at once; what happens then comes change by change.
2. Changes that come together are handed over in the order of their versions: in that order the server took
   them, also after a list had to be read again.
3. At most ``AT_ONCE`` changes are handed over in one turn of the loop, so that heartbeats go on.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from numawise.codec.document import mapping
from numawise.kube.client import Cluster, Object
from numawise.kube.following import Change, FollowedObjects

AT_ONCE = 50


class ChangeFeed:
    """One list that is followed."""

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        what: str,
        params: Mapping[str, str],
        take: Callable[[Object | None, Object | None], None],
        slim: Callable[[Object], Object],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._followed = FollowedObjects(
            cluster, path, what, params, self._settled, lambda *_: False, took=self._took, slim=slim
        )
        self._take = take
        self._new: deque[Change] = deque()
        self._sorted: deque[Change] = deque()
        self._open = False
        self._first = asyncio.Event()

    async def start(self) -> list[Object]:
        """Read the list, however long the server takes; what changes from then on is handed over (rule 1)."""
        self._followed.start()
        await self._first.wait()
        self._open = True
        every = [after for _, after in self._in_order() if after is not None]
        self._sorted.clear()
        return every

    def stop(self) -> None:
        """End."""
        self._followed.stop()

    @property
    def objects(self) -> tuple[Object, ...]:
        """The objects as they are now."""
        return self._followed.objects or ()

    @property
    def problem(self) -> str:
        """Why what is known may be old; '': it is not."""
        return "" if self._followed.synced else self._followed.problem or "was not read yet"

    # --- in the follower's thread -------------------------------------------------------------

    def _took(self, changes: Sequence[Change]) -> None:
        self._new.extend(changes)
        self._wake(self._hand_over)

    def _settled(self) -> None:
        if self._followed.synced:
            self._wake(self._first.set)

    def _wake(self, act: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(act)

    # --- in the loop --------------------------------------------------------------------------

    def _in_order(self) -> deque[Change]:
        """Rule 2."""
        batch = []
        while self._new:
            batch.append(self._new.popleft())
        self._sorted.extend(sorted(batch, key=_version))
        return self._sorted

    def _hand_over(self) -> None:
        if not self._open:
            return
        waiting = self._in_order()
        try:
            for _ in range(min(AT_ONCE, len(waiting))):
                self._take(*waiting.popleft())
        finally:  # what is wrong with one is said by the loop; the others do not wait for it
            if waiting:
                self._loop.call_soon(self._hand_over)


def _version(change: Change) -> int:
    value = change[1] or change[0] or {}
    text = str(mapping(value.get("metadata")).get("resourceVersion") or "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 20 else 0

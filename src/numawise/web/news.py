"""What has changed, told to every page that listens: server-sent events.

Rules kept here:

1. An event says what has changed and its new version, never the content: the page asks again.
2. Whoever is slow misses versions in between and gets the last one; nothing is queued for anybody.
3. A line of comment every ``BEAT`` seconds keeps connections open, and finds those that are gone.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable

BEAT = 15.0
MOST_LISTENERS = 1000
RETRY_MILLISECONDS = 2000
Wake = Callable[[], None]


class News:
    """Versions of what the page shows."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self._lock = threading.Lock()
        self._listeners: set[Wake] = set()
        self._ended = False

    def __len__(self) -> int:
        return len(self._listeners)

    def changed(self, *what: str) -> None:
        """Something has changed; any thread may say so."""
        with self._lock:
            for name in what:
                self.versions[name] = self.versions.get(name, 0) + 1
            listeners = tuple(self._listeners)
        for wake in listeners:
            with contextlib.suppress(RuntimeError):  # its loop has just ended
                wake()

    def end(self) -> None:
        """There will be no more news: every listener is let go, so that the server can stop at once."""
        self._ended = True
        self.changed()

    async def follow(self, beat: float = BEAT) -> AsyncIterator[bytes]:
        """Events for one listener: what there is now, then every change."""
        woken = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(woken.set)

        with self._lock:
            self._listeners.add(wake)
        try:
            seen = dict(self.versions)
            yield f"retry: {RETRY_MILLISECONDS}\n".encode()
            yield b"".join(_event("hello", name, version) for name, version in seen.items()) or b": hello\n\n"
            while not self._ended:
                try:
                    async with asyncio.timeout(beat):
                        await woken.wait()
                except TimeoutError:
                    yield b": beat\n\n"
                    continue
                woken.clear()
                now = dict(self.versions)
                news = {name: version for name, version in now.items() if seen.get(name) != version}
                seen = now
                if news:
                    yield b"".join(_event("changed", name, version) for name, version in news.items())
        finally:
            with self._lock:
                self._listeners.discard(wake)


def _event(kind: str, what: str, version: int) -> bytes:
    data = json.dumps({"what": what, "version": version})
    return f"event: {kind}\ndata: {data}\n\n".encode()

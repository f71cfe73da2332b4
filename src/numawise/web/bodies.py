"""Bodies of requests while they come and are worked on: bounded each, for each person, and for all.

Rules kept here:

1. A body has at most ``LARGEST_BODY`` bytes and comes within ``PATIENCE`` seconds.
2. The bodies of one person have at most ``LARGEST_OWN`` bytes together, and those of all ``LARGEST_ALL``,
   from their first byte to the answer; a further one is told to come again.  Small ones are not counted: the
   server's connections bound them.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.requests import Request

from numawise.host.peers import End
from numawise.values import dataclass
from numawise.web.problems import WebProblem

LARGEST_BODY, PATIENCE = 16 << 20, 30.0
SMALL, LARGEST_OWN, LARGEST_ALL = 64 << 10, 3 * LARGEST_BODY, 8 * LARGEST_BODY


@dataclass(frozen=True, slots=True)
class Body:
    """A body that has come."""

    content: bytes = b""
    who: str = ""
    """Whose it is, where that was asked for or it is large."""


class BodyRoom:
    """The room that all bodies share."""

    def __init__(self, who: Callable[[End | None, End | None], str]) -> None:
        self._who = who
        self._held: Counter[str] = Counter()

    @asynccontextmanager
    async def of(self, request: Request, *, whose: bool) -> AsyncIterator[Body]:
        """The body of a request; it counts until the end of what is done with it."""
        if request.method != "POST":
            yield Body()
            return
        announced = request.headers.get("content-length", "")
        number = announced if announced.isascii() and announced.isdecimal() else "0"
        if len(number) > 18 or int(number) > LARGEST_BODY:
            raise _too_large()
        who, parts, size, counted = "", list[bytes](), 0, 0
        if whose:
            who = await self._whose(request)
        try:
            async with asyncio.timeout(PATIENCE):
                async for part in request.stream():
                    size += len(part)
                    if size > LARGEST_BODY:
                        raise _too_large()
                    if size > SMALL:
                        who = who or await self._whose(request)
                        self._take(who, size - counted)
                        counted = size
                    parts.append(part)
            yield Body(b"".join(parts), who)
        except TimeoutError:
            raise WebProblem(408, f"the body did not come within {PATIENCE:.0f} seconds") from None
        finally:
            self._held[who] -= counted
            self._held = +self._held

    async def _whose(self, request: Request) -> str:
        ends = (request.scope.get("client"), request.scope.get("server"))
        return await asyncio.to_thread(self._who, *ends)

    def _take(self, who: str, size: int) -> None:
        """Rule 2."""
        if self._held[who] + size > LARGEST_OWN or self._held.total() + size > LARGEST_ALL:
            raise WebProblem(429, "too many large bodies are on their way already", "come again in a second")
        self._held[who] += size


def _too_large() -> WebProblem:
    return WebProblem(413, f"the body is larger than {LARGEST_BODY >> 20} MiB", "drop less")

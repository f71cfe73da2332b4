"""Who is answered: by host name, origin, token and size; and the headers that every answer carries.

Rules kept here:

1. A request must call the server by a name that is its own, or by the address at which it came in: a page of
   another host that was given this address by its name server (DNS rebinding) does neither.
2. A request that another page sends is refused: by its ``Origin``, or by what the browser says of its site.
3. Where a token is needed, every call needs it as ``Authorization: Bearer``, or the session that
   ``POST /api/v1/session`` answers for it.  The page keeps that session in the storage of its origin:
   cookies are of a host name, so a browser would send them to other users' servers on other ports as well,
   and none is read here.  The page itself and the description of the calls have no data, and need neither.
4. Without a token, whoever changes anything must be the user who runs the server, or root: everybody on this
   machine reaches its own addresses.  The kernel says whose connection it is.
5. Every answer forbids scripts, styles, frames and connections from anywhere else.
"""

import hmac
import ipaddress
import os
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from numawise.host.peers import End, uid_of_peer
from numawise.service.own_address import is_own_address, named_host
from numawise.values import dataclass, field
from numawise.web.problems import WebProblem

API = "/api/"
ROOT = "/api/v1"
"""Where all calls are."""
SESSION = f"{ROOT}/session"
DOCUMENT = f"{ROOT}/openapi.json"
OPEN = (SESSION, DOCUMENT)
"""Calls that need no token (rule 3)."""
ROOT_USER = 0
ONCE = ("host", "origin", "authorization", "content-type", "content-length")
"""Headers of which two readers may take different ones."""
SAFE_SITES = ("same-origin", "none")
"""What a browser says of a request that is our page's own, or was typed."""
SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("content-security-policy", SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=(), usb=()"),
)


@dataclass(frozen=True, slots=True)
class Guards:
    """What a server asks of whoever calls."""

    names: frozenset[str] = frozenset()
    """Names of this server beside those of every machine itself."""
    token: str = ""
    """'': everybody who reaches it is answered."""
    peer: Callable[[End, End], int | None] = uid_of_peer
    """Whose connection it is, by its two ends; None: not known."""
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    """What the sessions of this server are made with."""

    def check(self, path: str, headers: Any, address: str = "") -> None:  # noqa: ANN401 - starlette's
        """Raise ``WebProblem`` for who is not answered; ``address``: where the request came in."""
        for name in ONCE:
            if len(headers.getlist(name)) > 1:
                raise WebProblem(400, f"{name} is given more than once")
        host = headers.get("host", "")
        if not self.is_own_name(host) and not _is_address(named_host(host), address):
            raise WebProblem(421, "this server does not go by that name", "name it with --host")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise WebProblem(403, "pages of other hosts are not answered")
        site = headers.get("sec-fetch-site")
        if site is not None and site not in SAFE_SITES and path.startswith(API):
            raise WebProblem(403, "pages of other hosts are not answered")
        if self.token and path.startswith(API) and path not in OPEN and not self.is_known(headers):
            raise WebProblem(
                401, "a token is needed", "send it as Authorization: Bearer, or sign in on the page"
            )

    def check_change(self, peer: End | None, own: End | None) -> None:
        """Raise ``WebProblem`` for who may change nothing (rule 4)."""
        if self.token:
            return
        uid = self.peer(peer, own) if peer and own else None
        if uid not in (ROOT_USER, os.geteuid()):
            raise WebProblem(
                403,
                "only the user who runs this server may change anything here",
                "start it with --token-file for others",
            )

    def who(self, peer: End | None, own: End | None) -> str:
        """Who asks, for bounds that are each person's: a user of this machine, or an address elsewhere."""
        if peer is None or own is None:
            return ""
        uid = self.peer(peer, own)
        return peer[0] if uid is None else f"user {uid}"

    def is_own_name(self, host: str) -> bool:
        """Rule 1."""
        name = named_host(host).lower()
        return name in self.names or is_own_address(name)

    def is_known(self, headers: Any) -> bool:  # noqa: ANN401
        """Rule 3."""
        return _is_bearer(headers, self.token) or _is_bearer(headers, self.session())

    def has_token(self, headers: Any) -> bool:  # noqa: ANN401
        """Whether a request carries the token itself."""
        return _is_bearer(headers, self.token)

    def session(self) -> str:
        """What stands for the token until this server ends."""
        return hmac.new(self.key, self.token.encode(), "sha256").hexdigest()


def _is_bearer(headers: Any, secret: str) -> bool:  # noqa: ANN401
    scheme, _, given = headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(given.strip().encode(), secret.encode())
    return scheme.lower() == "bearer" and bool(secret) and same


def _is_address(name: str, address: str) -> bool:
    """Whether a name is the very address at which a request came in, however it is written."""
    try:
        return bool(address) and ipaddress.ip_address(name) == ipaddress.ip_address(address)
    except ValueError:
        return False


def secured(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers with those of rule 5."""
    given = list(headers)
    names = {name.lower() for name, _ in given}
    return given + [(n.encode(), v.encode()) for n, v in HEADERS if n.encode() not in names]

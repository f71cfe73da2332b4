"""Which addresses and names are this machine's own: where encryption is not needed, who is answered there.

Rules kept here:

1. Own is ``localhost`` and every loopback address.  Other names point wherever their owners want.
2. A request is of a page of a browser when it has an ``Origin``, or when it calls this machine by a name that
   is not its own: a page whose name was pointed here does that.
"""

import ipaddress
import re
from collections.abc import Iterable

HOST = re.compile(r"(?:\[(?P<inside>[^\[\]@/\s]+)\]|(?P<name>[^\[\]:@/\s]+))(?::[0-9]*)?")


def is_own_address(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def named_host(header: str) -> str:
    """The name or address in a ``Host`` header, without port and brackets; '': it is none."""
    found = HOST.fullmatch(header)
    return (found["inside"] or found["name"] or "") if found else ""


def is_own_caller(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request comes from no page of a browser (rule 2); without a ``Host`` it is HTTP/1.0."""
    given = dict(headers)
    if b"origin" in given:
        return False
    host = given.get(b"host", b"").decode("latin-1")
    return not host or is_own_address(named_host(host))

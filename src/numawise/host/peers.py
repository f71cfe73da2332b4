"""Whose process is at the other end of a connection within this host, as the kernel says.

Rules kept here:

1. Only a connection that is established counts: of one that is being closed the kernel no longer knows whose
   it was, and says root.
2. Addresses are compared as such; an IPv4 address that is written as IPv6 is the same.
"""

import ipaddress
from pathlib import Path

from numawise.strconv import whole_number

ROOT = Path("/")
TABLES = ("proc/net/tcp", "proc/net/tcp6")
ESTABLISHED = "01"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
End = tuple[str, int]


def uid_of_peer(peer: End, own: End, root: Path = ROOT) -> int | None:
    """The user whose socket has the address ``peer`` and is connected to ``own``; None: nobody's here."""
    try:
        wanted = (_address(peer[0]), peer[1], _address(own[0]), own[1])
    except ValueError:
        return None
    for name in TABLES:
        try:
            lines = (root / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if len(words) > 7 and words[3] == ESTABLISHED and words[7].isdecimal():
                try:
                    ends = (*_end(words[1]), *_end(words[2]))
                except ValueError:
                    continue
                if ends == wanted:
                    return whole_number(words[7])
    return None


def _end(text: str) -> tuple[Address, int]:
    """``0100007F:1F90``: the address in words of four bytes, each backwards, and the port."""
    digits, _, port = text.partition(":")
    data = bytes.fromhex(digits)
    forwards = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    return _address(str(ipaddress.ip_address(forwards))), int(port, 16)


def _address(text: str) -> Address:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address

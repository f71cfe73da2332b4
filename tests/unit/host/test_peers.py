"""Whose connection it is."""

import os
import socket
from pathlib import Path

import pytest

from numawise.host.peers import uid_of_peer
from tests import needs

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: {} {} {} 00000000:00000000 00:00000000 00000000  {}        0 4711 1 0 20 4 30 10 -1\n"


def table(root: Path, name: str, *rows: tuple[str, str, str, int]) -> None:
    folder = root / "proc/net"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(HEAD + "".join(ROW.format(*row) for row in rows))


@needs.PROC
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_connection_of_our_own(family: int, host: str) -> None:
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"this host has no {host}")
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]) as line:
            ends = (line.getsockname()[:2], line.getpeername()[:2])
            known = uid_of_peer(*ends)
            if known is None:
                pytest.skip("the kernel here does not list connections")
            assert known == os.geteuid()
            assert uid_of_peer((ends[0][0], ends[0][1] ^ 1), ends[1]) is None


def test_the_other_end_is_meant(tmp_path: Path) -> None:
    here, there = "0100007F:2649", "0100007F:C000"
    table(tmp_path, "tcp", (here, there, "01", 0), (there, here, "01", 1001))
    assert uid_of_peer(("127.0.0.1", 0xC000), ("127.0.0.1", 0x2649), tmp_path) == 1001


@pytest.mark.parametrize("state", ["06", "04", "05", "08", "0A", "02"])
def test_what_is_not_established_is_nobodys(tmp_path: Path, state: str) -> None:
    """The kernel lists what is being closed as root's."""
    table(tmp_path, "tcp", ("0100007F:C000", "0100007F:2649", state, 0))
    assert uid_of_peer(("127.0.0.1", 0xC000), ("127.0.0.1", 0x2649), tmp_path) is None


def test_addresses_of_both_kinds(tmp_path: Path) -> None:
    mapped = "0000000000000000FFFF00000100007F"
    table(tmp_path, "tcp6", (f"{mapped}:C000", f"{mapped}:2649", "01", 1001))
    assert uid_of_peer(("127.0.0.1", 0xC000), ("::ffff:127.0.0.1", 0x2649), tmp_path) == 1001
    loopback = "00000000000000000000000001000000"
    table(tmp_path, "tcp6", (f"{loopback}:C000", f"{loopback}:2649", "01", 1002))
    assert uid_of_peer(("::1", 0xC000), ("::1", 0x2649), tmp_path) == 1002


@pytest.mark.parametrize(
    "row", [("", "", "01", 5), ("zz:1", "0100007F:2649", "01", 5), ("0100007F", "0100007F", "01", 5)]
)
def test_lines_that_make_no_sense(tmp_path: Path, row: tuple[str, str, str, int]) -> None:
    table(tmp_path, "tcp", row)
    assert uid_of_peer(("127.0.0.1", 0xC000), ("127.0.0.1", 0x2649), tmp_path) is None
    assert uid_of_peer(("nowhere", 1), ("127.0.0.1", 0x2649), tmp_path) is None

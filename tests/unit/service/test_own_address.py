import pytest

from numawise.service.own_address import is_own_address, is_own_caller, named_host


@pytest.mark.parametrize(("header", "name", "own"), [
    ("localhost",           "localhost",       True),
    ("localhost:8080",      "localhost",       True),
    ("127.0.0.1:9443",      "127.0.0.1",       True),
    ("127.8.9.10",          "127.8.9.10",      True),
    ("[::1]:9443",          "::1",             True),
    ("[::1]",               "::1",             True),
    ("0.0.0.0",             "0.0.0.0",         False),
    ("[::]:80",             "::",              False),
    ("[fe80::1]",           "fe80::1",         False),
    ("10.0.0.1:9443",       "10.0.0.1",        False),
    ("localhost.evil.test", "localhost.evil.test", False),
    ("127.0.0.1.evil.test", "127.0.0.1.evil.test", False),
    ("\xff\xfe",            "\xff\xfe",        False),
    ("",                    "",                False),
])  # fmt: skip
def test_own_names(header: str, name: str, own: bool) -> None:  # noqa: FBT001 - a column
    assert named_host(header) == name
    assert is_own_address(name) is own


@pytest.mark.parametrize(("headers", "own"), [
    ([],                                                          True),  # HTTP/1.0
    ([(b"host", b"localhost:1")],                                 True),
    ([(b"host", b"[::1]:1")],                                     True),
    ([(b"host", b"\xff\xfe")],                                    False),
    ([(b"host", b"[fe80::1]")],                                   False),
    ([(b"host", b"rebound.example.com")],                         False),
    ([(b"host", b"localhost"), (b"origin", b"null")],             False),
])  # fmt: skip
def test_callers_that_are_no_pages(headers: list[tuple[bytes, bytes]], own: bool) -> None:  # noqa: FBT001
    assert is_own_caller(headers) is own

"""Amounts: grammar, derived integers, exactness and canonical text."""

import pytest

from numawise.errors import InputError
from numawise.quantity import BINARY, DECIMAL, SCIENTIFIC, Quantity, parse_size
from tests.unit.build import exactly

OVERFLOW = None
FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX = "unable to parse quantity's suffix"


@pytest.mark.parametrize(("text", "value", "milli", "exact", "canonical"), [
    # the table of the specification
    ("1.5Gi",   1610612736,          1610612736000,      False, "1536Mi"),
    ("1536Mi",  1610612736,          1610612736000,      True,  "1536Mi"),
    ("100m",    1,                   100,                False, "100m"),
    ("2000m",   2,                   2000,               False, "2"),
    ("1e3",     1000,                1000000,            True,  "1e3"),
    ("1Ki",     1024,                1024000,            True,  "1Ki"),
    ("5E",      5000000000000000000, OVERFLOW,           True,  "5E"),
    ("10Ti",    10995116277760,      10995116277760000,  True,  "10Ti"),
    ("100Ti",   109951162777600,     109951162777600000, False, "100Ti"),
    ("3u",      1,                   1,                  False, "3u"),
    ("+5",      5,                   5000,               True,  "5"),
    # values that are rounded away from zero
    ("1.5",     2,                   1500,               False, "1500m"),
    ("1n",      1,                   1,                  False, "1n"),
    ("-1.5",    -2,                  -1500,              False, "-1500m"),
    ("-1n",     -1,                  -1,                 False, "-1n"),
    ("0.1n",    1,                   1,                  False, "1n"),
    # either side of the point may be empty
    ("1.",      1,                   1000,               True,  "1"),
    (".5",      1,                   500,                False, "500m"),
    (".",       0,                   0,                  True,  "0"),   # the kubelet's parser takes these for 0
    ("Gi",      0,                   0,                  True,  "0"),
    # canonical texts
    ("1024Gi",  1 << 40,             1000 << 40,         True,  "1Ti"),
    ("1000M",   10**9,               10**12,             True,  "1G"),
    ("12e6",    12 * 10**6,          12 * 10**9,         True,  "12e6"),
    ("1.5e3",   1500,                1500000,            True,  "1500"),
    ("1E-1",    1,                   100,                False, "100e-3"),
    ("0",       0,                   0,                  True,  "0"),
    ("0Gi",     0,                   0,                  True,  "0"),
    ("-0",      0,                   0,                  True,  "0"),
    ("0.5Ki",   512,                 512000,             False, "512"),
    ("1.5Ki",   1536,                1536000,            False, "1536"),
    ("1023",    1023,                1023000,            True,  "1023"),
    # exactness: decimal
    ("1G",      10**9,               10**12,             True,  "1G"),
    ("1024",    1024,                1024000,            True,  "1024"),
    ("1.0",     1,                   1000,               False, "1"),
    ("1e-3",    1,                   1,                  False, "1e-3"),
    # exactness: binary
    ("10000Gi", 10000 << 30,         10000000 << 30,     True,  "10000Gi"),
    ("2.0Gi",   2 << 30,             2000 << 30,         False, "2Gi"),
    ("100000Gi", 100000 << 30,       100000000 << 30,    False, "100000Gi"),
    ("1Pi",     1 << 50,             1000 << 50,         False, "1Pi"),
    ("00001Ti", 1 << 40,             1000 << 40,         True,  "1Ti"),
    ("99999999999Ki", 99999999999 << 10, OVERFLOW,       True,  "99999999999Ki"),
    ("999999999999Ki", 999999999999 << 10, OVERFLOW,     False, "999999999999Ki"),
    ("99999999Mi", 99999999 << 20,   OVERFLOW,           True,  "99999999Mi"),
    ("100000000Mi", 100000000 << 20, OVERFLOW,           False, "100000000Mi"),
    # capped at 64 bits
    ("16Ei",    2**63 - 1,           OVERFLOW,           False, "9223372036854775807"),
])  # fmt: skip
def test_quantity(*, text: str, value: int, milli: int | None, exact: bool, canonical: str) -> None:
    found = Quantity.parse(text)
    assert found.value == value
    assert milli is OVERFLOW or found.milli == milli
    assert found.exact is exact
    assert str(found) == canonical


@pytest.mark.parametrize(("text", "complaint"), [
    ("",       FORM),
    ("1 Gi",   FORM),
    ("0x10",   FORM),
    ("1_000",  FORM),
    ("1e3k",   FORM),
    (" 1",     FORM),
    ("1K",     SUFFIX),
    ("1KI",    FORM),
    ("1mi",    SUFFIX),
    ("1i",     SUFFIX),
    ("1e",     SUFFIX),
    ("1ee3",   SUFFIX),
    ("1Mi1",   SUFFIX),
    ("1.2.3",  FORM),
])  # fmt: skip
def test_what_is_no_quantity(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=exactly(complaint)):
        Quantity.parse(text)


@pytest.mark.parametrize(("text", "style"), [
    ("1",     DECIMAL),
    ("1k",    DECIMAL),
    ("1E",    DECIMAL),     # exa
    ("1E3",   SCIENTIFIC),  # an exponent
    ("1e3",   SCIENTIFIC),
    ("1Ki",   BINARY),
])  # fmt: skip
def test_style(text: str, style: str) -> None:
    assert Quantity.parse(text).style == style


@pytest.mark.parametrize(("one", "other", "total"), [
    ("1Gi",  "100Mi", "1124Mi"),
    ("0",    "2G",    "2G"),
    ("2G",   "100Mi", "2104857600"),  # the first one's style
    ("1G",   "1Gi",   "2073741824"),
    ("500m", "500m",  "1"),
    ("1",    "-1",    "0"),
])  # fmt: skip
def test_sum(one: str, other: str, total: str) -> None:
    assert str(Quantity.parse(one) + Quantity.parse(other)) == total


@pytest.mark.parametrize(("text", "whole"), [
    ("2",      True),
    ("2.0",    True),
    ("2000m",  True),
    ("1500m",  False),
    ("0",      True),
    ("999.5m", True),   # rounded up both times
])  # fmt: skip
def test_whole(*, text: str, whole: bool) -> None:
    assert Quantity.parse(text).whole is whole


@pytest.mark.parametrize(("text", "canonical"), [
    ("999.5m", "1"),
    ("1u",     "1m"),
    ("-1u",    "-1m"),
    ("1500m",  "1500m"),
    ("1.5Gi",  "1536Mi"),
])  # fmt: skip
def test_the_api_server_rounds_up_to_thousandths(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text).ceil_milli()) == canonical


def test_canonical_text_repairs_exactness() -> None:
    found = Quantity.parse("1.5Gi")
    assert not found.exact
    assert found.canonical() == Quantity.parse("1536Mi")
    assert found.canonical().exact


def test_of() -> None:
    assert str(Quantity.of(2 << 20)) == "2Mi"
    assert str(Quantity.of(2048, DECIMAL)) == "2048"
    assert Quantity.of(5).value == 5


@pytest.mark.parametrize(("text", "size"), [
    ("64g", 64 << 30), ("64G", 64 << 30), ("64Gi", 64 << 30), ("64GiB", 64 << 30), ("64GB", 64 << 30),
    ("512m", 512 << 20), ("1.5g", 3 << 29), ("1024", 1024), ("1024b", 1024), ("2k", 2048), ("1t", 1 << 40),
    ("0.1g", 107374182), ("64 Gi", 64 << 30), ("5", 5),
])  # fmt: skip
def test_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1g", "g", "1x", "1 000", "1e9", "99999999p", "64Gig", "٣g", "1.2.3g", ".5g", "1.0.", "x"])  # fmt: skip
def test_no_size(text: str) -> None:
    with pytest.raises(InputError, match=r"^--memory: "):
        parse_size(text)

import pytest

from numawise.codec.stamps import micro_stamp, second_stamp, stamp_seconds


def test_stamps_are_written() -> None:
    assert second_stamp(1_000_000_000.75) == "2001-09-09T01:46:40Z"
    assert micro_stamp(1_000_000_000.75) == "2001-09-09T01:46:40.750000Z"
    assert stamp_seconds(micro_stamp(1_000_000_000.75)) == 1_000_000_000.75


@pytest.mark.parametrize(("text", "seconds"), [
    ("1970-01-01T00:01:00Z",                     60.0),
    ("1970-01-01T01:00:00+01:00",                0.0),
    ("1970-01-01T00:00:00.5Z",                   0.5),
    ("",                                         None),
    ("yesterday",                                None),
    ("2026-13-01T00:00:00Z",                     None),
    ("1970-01-01T00:00:00Z" + " " * 100,         None),
    (60,                                         None),
    (None,                                       None),
])  # fmt: skip
def test_stamps_are_read(text: object, seconds: float | None) -> None:
    assert stamp_seconds(text) == seconds

import pytest

from numawise.rules.eviction import Duration


# fmt: off
@pytest.mark.parametrize(("text", "nanos", "printed"), [
    ("0",         0,                       "0s"),
    ("0s",        0,                       "0s"),
    ("5s",        5 * 10**9,               "5s"),
    ("+5s",       5 * 10**9,               "5s"),
    ("-1.5s",     -1_500_000_000,          "-1.5s"),
    ("100ms",     100 * 10**6,             "100ms"),
    ("1us",       1000,                    "1µs"),
    ("1µs",       1000,                    "1µs"),
    ("12ns",      12,                      "12ns"),
    ("1m30s",     90 * 10**9,              "1m30s"),
    ("90m",       5400 * 10**9,            "1h30m0s"),
    ("1h0.25s",   3600_250_000_000,        "1h0m0.25s"),
    (".5h",       1800 * 10**9,            "30m0s"),
    ("1.000001s", 1_000_001_000,           "1.000001s"),
])
def test_read_and_print(text: str, nanos: int, printed: str) -> None:
    assert Duration.parse(text) == nanos
    assert str(Duration.parse(text)) == printed


@pytest.mark.parametrize(("text", "message"), [
    ("",                     'time: invalid duration ""'),
    ("x",                    'time: invalid duration "x"'),
    ("-",                    'time: invalid duration "-"'),
    (".s",                   'time: invalid duration ".s"'),
    ("5",                    'time: missing unit in duration "5"'),
    ("1h5",                  'time: missing unit in duration "1h5"'),
    ("5x",                   'time: unknown unit "x" in duration "5x"'),
    ("1d",                   'time: unknown unit "d" in duration "1d"'),
    ('1"',                   'time: unknown unit "\\"" in duration "1\\""'),
    ("1é",                   'time: unknown unit "\\xc3\\xa9" in duration "1\\xc3\\xa9"'),
    ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
])
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as problem:  # noqa: PT011 - the whole message is compared
        Duration.parse(text)
    assert str(problem.value) == message
# fmt: on


def test_the_longest() -> None:
    assert Duration.parse("9223372036854775807ns") == 2**63 - 1
    assert Duration.parse("-9223372036854775808ns") == -(2**63)
    assert Duration.parse("1500ms").seconds == 1.5

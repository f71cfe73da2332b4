import pytest

from numawise.rules.versions import (
    NEWEST,
    OLDEST,
    REFERENCE,
    Behaviour,
    Dated,
    Manners,
    at,
    behaviour_of,
    check_known,
    known_version,
    manners_of,
    parse_version,
)


# fmt: off
@pytest.mark.parametrize(("text", "version"), [
    ("1.36",         (1, 36)),
    ("v1.27.16",     (1, 27)),
    ("v1.37.0-rc.1", (1, 37)),
    ("1.31.14+k3s1", (1, 31)),
])
def test_a_version_is_read(text: str, version: tuple[int, int]) -> None:
    assert known_version(text) == version


@pytest.mark.parametrize(("text", "message"), [
    ("latest",   "'latest' is no Kubernetes version such as 1.36"),
    ("1",        "'1' is no Kubernetes version such as 1.36"),
    ("1.19.4",   "Kubernetes 1.19 is not known; known are 1.20 to 1.37"),
    ("v1.38.0",  "Kubernetes 1.38 is not known; known are 1.20 to 1.37"),
    ("2.0",      "Kubernetes 2.0 is not known; known are 1.20 to 1.37"),
])
def test_others_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        known_version(text)
# fmt: on


def test_any_version_can_be_read_that_behaviours_are_asked_for() -> None:
    assert parse_version("1.10") == (1, 10)
    assert behaviour_of((1, 10)).cpu_file_tries_oldest_first


def test_the_bounds_are_known() -> None:
    for version in (OLDEST, REFERENCE, NEWEST):
        check_known(version)


def test_rows_hold_from_one_release_to_another() -> None:
    rows = (
        Dated("always"),
        Dated("old", until=(1, 23)),
        Dated("middle", (1, 24), (1, 25)),
        Dated("new", (1, 26)),
    )
    assert list(at((1, 23), rows)) == ["always", "old"]
    assert list(at((1, 24), rows)) == ["always", "middle"]
    assert list(at((1, 25), rows)) == ["always", "middle"]
    assert list(at((1, 37), rows)) == ["always", "new"]


def test_defaults_are_those_of_the_reference() -> None:
    assert behaviour_of(REFERENCE) == Behaviour()
    assert manners_of(REFERENCE) == Manners()
    assert manners_of((1, 27)).none_reads_topology_options
    assert not manners_of((1, 28)).none_reads_topology_options

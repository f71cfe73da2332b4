"""Versions as people write them, and the tables of named behaviours."""

import pytest

from numawise.rules.behaviour import WAYS, Behaviour, behaviour_of
from numawise.rules.versions import (
    CONFIGURATION_WAYS,
    NEWEST,
    OLDEST,
    REFERENCE,
    Dated,
    Manners,
    Profile,
    Way,
    at,
    check_known,
    manners_of,
    parse_version,
    profile_of,
)


@pytest.mark.parametrize(("text", "version"), [
    ("1.36",         (1, 36)),
    ("v1.34.2",      (1, 34)),
    ("v1.27.16",     (1, 27)),
    ("v1.37.0-rc.1", (1, 37)),
    ("1.31.14+k3s1", (1, 31)),
    ("v1.30.4-gke.1282000", (1, 30)),
])  # fmt: skip
def test_a_version_is_read(text: str, version: tuple[int, int]) -> None:
    assert profile_of(text) == Profile(version)


@pytest.mark.parametrize(("text", "told"), [("v1.38.0", "1.38"), ("1.99", "1.99"), ("2.0", "2.0")])
def test_a_newer_one_is_taken_for_the_newest(text: str, told: str) -> None:
    remark = f"Kubernetes {told} is newer than any known release; it is treated as 1.37"
    assert profile_of(text) == Profile(NEWEST, remark)


@pytest.mark.parametrize(("text", "message"), [
    ("latest",   "'latest' is not a Kubernetes version such as 1.36"),
    ("1",        "'1' is not a Kubernetes version such as 1.36"),
    ("1.36\n",   r"'1.36\\n' is not a Kubernetes version such as 1.36"),
    ("1.19.4",   "Kubernetes 1.19 is not known; known are 1.20 to 1.37"),
    ("0.9",      "Kubernetes 0.9 is not known; known are 1.20 to 1.37"),
])  # fmt: skip
def test_others_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        profile_of(text)


def test_any_version_can_be_read_that_behaviours_are_asked_for() -> None:
    assert parse_version("1.10") == (1, 10)
    assert behaviour_of((1, 10)).cpu_file_tries_oldest_first


def test_the_bounds_are_known() -> None:
    for version in (OLDEST, REFERENCE, NEWEST):
        check_known(version)
    for version in ((1, 19), (1, 38)):
        with pytest.raises(ValueError, match="is not known"):
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


@pytest.mark.parametrize(("way", "span"), [
    (Way("a", "."),                               "always"),
    (Way("a", ".", since=(1, 24)),                "since 1.24"),
    (Way("a", ".", until=(1, 36)),                "until 1.36"),
    (Way("a", ".", since=(1, 22), until=(1, 31)), "1.22 to 1.31"),
])  # fmt: skip
def test_spans(way: Way, span: str) -> None:
    assert way.span == span


def test_defaults_are_those_of_the_reference() -> None:
    assert behaviour_of(REFERENCE) == Behaviour()
    assert manners_of(REFERENCE) == Manners()
    assert manners_of((1, 27)).none_reads_topology_options
    assert not manners_of((1, 28)).none_reads_topology_options


def test_names_are_unique() -> None:
    names = [way.name for way in (*WAYS, *CONFIGURATION_WAYS)]
    assert len(set(names)) == len(names)

"""Sets of ids: the kernel's list format in and out, and set algebra."""

import pytest

from numawise.sets import LARGEST_ID, CpuSet, NumaSet, bits_of, format_ids, ids_of, parse_ids
from tests.unit.build import exactly


@pytest.mark.parametrize(("text", "ids"), [
    ("",            []),
    ("0",           [0]),
    ("3-3",         [3]),
    ("1-2",         [1, 2]),
    ("0-3,8",       [0, 1, 2, 3, 8]),
    ("0,2-3,5",     [0, 2, 3, 5]),
    ("63-65,128",   [63, 64, 65, 128]),
])  # fmt: skip
def test_list_format(text: str, ids: list[int]) -> None:
    assert list(ids_of(parse_ids(text))) == ids
    assert format_ids(bits_of(ids)) == text.replace("3-3", "3")


@pytest.mark.parametrize(("text", "canonical"), [
    ("3,1,2",    "1-3"),
    ("1-3,2-5",  "1-5"),
    ("7,7",      "7"),
    ("+1",       "1"),
    ("007",      "7"),
])  # fmt: skip
def test_lists_in_other_spellings(text: str, canonical: str) -> None:
    assert format_ids(parse_ids(text)) == canonical


@pytest.mark.parametrize(("text", "words"), [
    ("7-3",     'invalid range "7-3" (7 > 3)'),
    ("x",       'strconv.Atoi: parsing "x": invalid syntax'),
    ("-1",      'strconv.Atoi: parsing "": invalid syntax'),
    ("0, 1",    'strconv.Atoi: parsing " 1": invalid syntax'),
    ("1,",      'strconv.Atoi: parsing "": invalid syntax'),
    ("1-2-3",   'strconv.Atoi: parsing "2-3": invalid syntax'),
    ("1.2",     'strconv.Atoi: parsing "1.2": invalid syntax'),
    ("9" * 30,  f'strconv.Atoi: parsing "{"9" * 30}": value out of range'),
    ("0-9999999999", "id 9999999999 is out of range (0 to 65536)"),
])  # fmt: skip
def test_what_is_no_list_is_refused_in_the_kubelets_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=exactly(words)):
        parse_ids(text)


def test_the_largest_id() -> None:
    assert parse_ids(str(LARGEST_ID)).bit_length() == LARGEST_ID + 1


def test_algebra() -> None:
    one, other = CpuSet.parse("0-3"), CpuSet.of(2, 5)
    assert str(one & other) == "2"
    assert str(one | other) == "0-3,5"
    assert str(one - other) == "0-1,3"
    assert one & other <= one
    assert not one <= other
    assert len(one) == 4
    assert list(other) == [2, 5]
    assert 5 in other
    assert 3 not in other
    assert -1 not in other
    assert not CpuSet()


def test_kinds_of_sets_stay_apart() -> None:
    assert type(CpuSet.of(1) | CpuSet.of(2)) is CpuSet
    assert type(NumaSet.parse("0") & NumaSet.parse("0")) is NumaSet
    assert CpuSet.of(1) == CpuSet.parse("1")
    assert CpuSet.of(1) != NumaSet.of(1)

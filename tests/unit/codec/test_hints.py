"""Hints as people write them and as the kubelet logs them."""

import pytest

from numawise.codec.hints import parse_hints
from tests.unit.build import exactly, shown

FORMS = "write 1! 0-1 (! for preferred), any, none, or paste what the kubelet logs"


@pytest.mark.parametrize(("text", "hints"), [
    pytest.param("1! 0-1",                                                   "1! 0-1",    id="short"),
    pytest.param(" 0,2!  ",                                                  "0,2!",      id="a list"),
    pytest.param("any",                                                      None,        id="no preference"),
    pytest.param("*",                                                        None,        id="star"),
    pytest.param("*!",                                                       None,        id="star, preferred"),
    pytest.param("none",                                                     "",          id="impossible"),
    pytest.param("[]",                                                       "",          id="empty list"),
    pytest.param("",                                                         "",          id="nothing"),
    pytest.param("{01 true} {10 true} {11 false}",                           "0! 1! 0-1", id="old log"),
    pytest.param("[{01 true} {11 false}]",                                   "0! 0-1",    id="old log, a list"),
    pytest.param("{0000000000000000000000000000000000000000000000000000000000000010 true}", "1!", id="old log, all digits"),
    pytest.param("{<nil> true}",                                             None,        id="old log, any"),
    pytest.param("{nil false}",                                              "",          id="old log, impossible"),
    pytest.param('[{"NUMANodeAffinity":2,"Preferred":true},{"NUMANodeAffinity":3,"Preferred":false}]', "1! 0-1", id="log"),
    pytest.param('{"NUMANodeAffinity":1,"Preferred":true}',                  "0!",        id="log, one hint"),
    pytest.param('[{"NUMANodeAffinity":null,"Preferred":false}]',            "",          id="log, impossible"),
])  # fmt: skip
def test_parse(text: str, hints: str | None) -> None:
    assert shown(parse_hints(text)) == hints


@pytest.mark.parametrize(("text", "words"), [
    ("x!",      f"'x!' is not a hint (strconv.Atoi: parsing \"x\": invalid syntax); {FORMS}"),
    ("3-1",     f"'3-1' is not a hint (invalid range \"3-1\" (3 > 1)); {FORMS}"),
    ("64!",     "'64!' names NUMA 64; the kubelet knows 0 to 63"),
    ("{00 true}", f"'{{00 true}}' names no NUMA node; {FORMS}"),
    ("* 0!",    "a hint for any NUMA node cannot be combined with others"),
    ('[{"a":1}]', f'{{"a": 1}} is not a hint; {FORMS}'),
    ('[{"NUMANodeAffinity":true,"Preferred":1}]', f'{{"NUMANodeAffinity": true, "Preferred": 1}} is not a hint; {FORMS}'),
    ('["x"',    f"'[\"x\"' is not JSON as the kubelet logs it; {FORMS}"),
])  # fmt: skip
def test_bad(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=exactly(words)):
        parse_hints(text)

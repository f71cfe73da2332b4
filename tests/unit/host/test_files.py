from pathlib import Path

import pytest

from numawise.host.files import Tree, parse_mask
from numawise.machine.hardware import UNREADABLE, Remark
from numawise.sets import format_ids
from tests.unit.host.trees import grow, pipe


@pytest.mark.parametrize(("content", "expected", "text"), [
    ("12",              12,   ""),
    ("-1",              -1,   ""),
    ("0x10de",          4318, ""),
    (b"5",              5,    ""),
    (b"5\n\0",          5,    ""),
    ("",                None, "is empty, not a number"),
    ("twelve",          None, "is not a number: 'twelve'"),
    ("1_000",           None, "is not a number: '1_000'"),
    ("١٢",              None, "is not a number: '١٢'"),
    ("9" * 60,          None, f"is not a number: '{'9' * 40}…'"),
    (b"\x80\xff\x00\7", None, "is not text"),
    (b"1\0002",         None, "is not text"),
    (None,              None, "cannot be read: Is a directory"),
    ("-> number",       None, "cannot be read: Too many levels of symbolic links"),
    ("-> nowhere",      None, "is a link that leads nowhere"),
])  # fmt: skip
def test_number(tmp_path: Path, content: str | bytes | None, expected: int | None, text: str) -> None:
    tree = Tree(grow(tmp_path, {"a/number": content}))
    assert tree.number("a/number") == expected
    assert tree.remarks == ([Remark(UNREADABLE, "/a/number", text)] if text else [])


@pytest.mark.parametrize(("content", "expected"), [
    ("0-3,8",     "0-3,8"),
    ("0",         "0"),
    ("",          ""),
    ("0-3,8-",    None),
    ("0-3,,8",    None),
    ("3-0",       None),
    ("0-9999999", None),
    ("(null)",    None),
])  # fmt: skip
def test_ids(tmp_path: Path, content: str, expected: str | None) -> None:
    tree = Tree(grow(tmp_path, {"list": content}))
    for _ in range(2):  # the second time from memory
        found = tree.ids("list")
        assert (None if found is None else format_ids(found)) == expected
    assert len(tree.remarks) == (2 if expected is None else 0)


@pytest.mark.parametrize(("text", "expected"), [
    ("f",                          "0-3"),
    ("00000001,0000000f",          "0-3,32"),
    ("1,00000000",                 "32"),
    ("00000000,00000000",          ""),
    ("ffffffffffffffff",           "0-63"),
    ("FF",                         "0-7"),
    ("1,",                         None),
    ("0000000001,00000000",        None),
    ("0x3",                        None),
    ("-1",                         None),
    ("",                           None),
    ("f" * 30000,                  None),
])  # fmt: skip
def test_mask(text: str, expected: str | None) -> None:
    found = parse_mask(text)
    assert (None if found is None else format_ids(found)) == expected


def test_what_is_not_there_is_no_remark(tmp_path: Path) -> None:
    tree = Tree(grow(tmp_path, {"file": "x"}))
    assert tree.text("absent") is None
    assert tree.text("file/below") is None
    assert tree.names("absent") == []
    assert tree.names("file") == []
    assert tree.link("file") is None
    assert tree.number("no\0name") is None
    assert [remark.place for remark in tree.remarks] == ["/no\0name"]


def test_a_pipe_does_not_wait(tmp_path: Path) -> None:
    pipe(tmp_path, "pipe")
    tree = Tree(tmp_path)
    assert tree.number("pipe") is None
    assert len(tree.remarks) == 1


def test_numbered(tmp_path: Path) -> None:
    names = ("cpu0", "cpu10", "cpu2", "cpu01", "cpu", "cpufreq", "cpu1x", "cpu99999999", "node1")
    assert Tree(grow(tmp_path, dict.fromkeys(names))).numbered("", "cpu") == [0, 2, 10]


def test_a_folder_that_is_a_loop(tmp_path: Path) -> None:
    tree = Tree(grow(tmp_path, {"loop": "-> loop"}))
    assert tree.names("loop") == []
    assert [remark.place for remark in tree.remarks] == ["/loop"]

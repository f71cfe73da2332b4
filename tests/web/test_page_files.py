"""The page as files: small, of this server alone, and without scripts or styles inside markup."""

import re

import pytest

from numawise.web.page_files import as_sent, page_files

FILES = page_files()
TEXTS = {name: file.content.decode() for name, file in FILES.items()}
NAMESPACES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml")


def test_all_files_together_are_small() -> None:
    assert sum(len(file.content) for file in FILES.values()) <= 300_000


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_no_file_names_another_host(name: str) -> None:
    addresses = re.findall(
        r"\b(?:https?|wss?|ftp)://[^\s\"'`<>)]*|(?<![:\w])//\w[\w-]*\.\w[^\s\"'`]*", TEXTS[name]
    )
    assert [one for one in addresses if one not in NAMESPACES] == []


@pytest.mark.parametrize("name", sorted(name for name in TEXTS if name.endswith(".js")))
def test_no_script_makes_markup_of_text(name: str) -> None:
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|\beval\(|new Function|srcdoc"
    assert re.findall(ways, TEXTS[name]) == []


def test_the_first_file_has_no_script_and_no_style_inside() -> None:
    first = TEXTS["index.html"]
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", first) == []
    assert re.findall(r"<script(?![^>]*\ssrc=)", first) == []


def test_every_file_that_another_names_is_there() -> None:
    named = set(re.findall(r"(?:src|href)=\"([\w./-]+)\"", TEXTS["index.html"]))
    for name, text in TEXTS.items():
        if name.endswith(".js"):
            folder = name.rpartition("/")[0]
            for path in re.findall(r"(?:from|import\(?)\s*\"(\.[\w./-]+)\"", text):
                parts = f"{folder}/{path}".replace("/./", "/").split("/")
                while ".." in parts:
                    at = parts.index("..")
                    parts[at - 1 : at + 1] = []
                named.add("/".join(parts))
    assert {name for name in named if name not in FILES} == set()
    assert "core/dom.js" in named


def test_comments_on_lines_of_their_own_and_indentation_are_not_sent() -> None:
    script = (
        b"// one\n  /** two\n   * more */\n  const a = 1; // stays\nconst b = '/* stays */';\n  // three\n"
    )
    assert as_sent("x.js", script) == b"\n\n\nconst a = 1; // stays\nconst b = '/* stays */';\n\n"
    text = b"  const a = `one\n    two`;\n"
    assert as_sent("x.js", text) == text
    assert as_sent("x.css", b"/* one */\na {\n  b: c\n}\n") == b"\na {\nb: c\n}\n"
    assert as_sent("x.svg", b"<!-- a -->") == b"<!-- a -->"

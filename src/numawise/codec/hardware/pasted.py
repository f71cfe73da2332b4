"""Printed text as people hand it on, made plain again: terminals, mail, Markdown, chats, logs.

Rules kept here:

1. Only dress is taken off (colours, quote marks, code fences, typographic dashes, HTML entities); no word
   and no blank inside a line is added or removed, because blanks separate columns.
2. Every line of the result stands for one line of the text, so a remark can say which.
"""

import html
import re

ESCAPE = r"(?:\x1b|\u241b|\ufffd|\^\[|\\x1[bB]|\\0?33|\\e|\\u001[bB]|\\ufffd)"
ESCAPES = re.compile(
    rf"{ESCAPE}\[[0-9;?]*[A-Za-z]"  # colours and cursor, with the escape character or its written forms
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # window titles
    r"|\x1b[()][A-Z0-9]"
    r"|\x1b[=>78cDEHM]"
    r"|\[[0-9]{1,2}(?:;[0-9]{1,3})*m(?!\])"  # what is left when a web page swallows the escape character
)
ESCAPE_STARTS = ("\x1b", "\u241b", "\ufffd", "^[", "\\x1", "\\033", "\\33", "\\e", "\\u001", "\\ufffd")
BARE_COLOUR = re.compile(r"\[[0-9]")
"""Each escape begins with one of these: most texts have none, and looking for one is quick."""
ENTITY = re.compile(r"&(?:nbsp|lt|gt|amp|quot|#39|#9|#10|#13|#160|#x9|#xa0);", re.IGNORECASE)
TAGS = re.compile(r"</?(?:pre|code|span|p|div|details|summary|b|strong|font)\b[^<>\n]*>", re.IGNORECASE)
BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
ASCII_ENDS = "\r\x0b\x0c\x1c\x1d\x1e"
SPACES = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
NOTHING = "\x00\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff0d"
BARS = "\u2502\u2503\u2551\u00a6\uff5c"
PLAIN = str.maketrans({
    **dict.fromkeys(SPACES, " "),
    **dict.fromkeys(NOTHING, ""),
    **dict.fromkeys(DASHES, "-"),
    **dict.fromkeys(BARS, "|"),
    "\uff1a": ":",
    "\uff0c": ",",
    "\uff08": "(",
    "\uff09": ")",
})  # fmt: skip
QUOTED = re.compile(r"[ \t]*(?:(?:[>#]|//)[ \t]?)+/?(?=[ \t]*[^\s>#/])")
ONLY_MARKS = re.compile(r"[ \t]*(?:>|#|/)[>#/ \t]*")
FENCE = re.compile(r"[ \t]*(?:```|~~~)[ \t]*[\w.+-]*[ \t]*")
STRING = re.compile(r"""[ \t]*(["'])(.*)\1,?[ \t]*""")


LONGEST = 1 << 14
"""Characters of a line that are looked at; a list of 2,048 single CPUs has 10,000."""


def plain(text: str) -> str:
    """Take off what terminals, web pages and word processors put on."""
    if "\\n" in text and text.count("\n") <= text.count("\\n"):  # a JSON or Python string
        text = text.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    elif text.count("\\t") > 3 and "\t" not in text:  # a list of such strings
        text = text.replace("\\t", "\t")
    if not text.isascii() or any(end in text for end in ASCII_ENDS):
        text = LINE_ENDS.sub("\n", text)
    if "[" in text and (BARE_COLOUR.search(text) or any(start in text for start in ESCAPE_STARTS)):
        text = ESCAPES.sub("", text)
    if "<" in text:
        text = TAGS.sub("", BREAK.sub("\n", text))
    if "&" in text:
        text = ENTITY.sub(lambda found: html.unescape(found[0]), text)
    return text if text.isascii() and "\x00" not in text else text.translate(PLAIN)


def lines(text: str) -> list[str]:
    """The plain lines of a text, without quote and comment marks; fences become empty lines."""
    return [unquoted(line[:LONGEST]) for line in plain(text).split("\n")]


def unquoted(line: str) -> str:
    """A line without ``> ``, ``# ``, ``// `` or the quotes of a string literal around it."""
    if FENCE.fullmatch(line) or ONLY_MARKS.fullmatch(line):
        return ""
    found = STRING.fullmatch(line)
    if found:
        line = found[2]
    found = QUOTED.match(line)
    return line[found.end() :] if found else line


def expanded(line: str, width: int = 8) -> tuple[str, list[int]]:
    """A line with its tabs written out, and for each character where it came to stand."""
    if "\t" not in line:
        return line, list(range(len(line) + 1))
    columns: list[int] = []
    column = 0
    for cell in line.split("\t"):
        columns.extend(range(column, column + len(cell) + 1))  # the cell, and the tab behind it
        column = (column + len(cell)) // width * width + width
    return line.expandtabs(width), columns

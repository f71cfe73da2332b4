"""The files of the page: read once, known by name, with an entity tag.

Rules kept here:

1. What is asked for is looked up among these names; no path of the file system is made from a request.
2. Neither comments that have lines of their own nor indentation are sent; the lines stay, so that their
   numbers in messages are right.  A script with a text over several lines keeps its indentation.
"""

import hashlib
import re
from importlib import resources
from importlib.resources.abc import Traversable

from numawise.render.picture.svg import page_stylesheet
from numawise.values import dataclass

MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
FIRST, PICTURE = "index.html", "picture.css"
COMMENTS = {
    ".js": re.compile(rb"^[ ]*(?://[^\n]*|/\*(?:(?!\*/).)*\*/)$", re.MULTILINE | re.DOTALL),
    ".css": re.compile(rb"^[ ]*/\*(?:(?!\*/).)*\*/$", re.MULTILINE | re.DOTALL),
}
INDENTED = re.compile(rb"^[ ]+", re.MULTILINE)
TEXT = b"`"
"""Rule 2."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file as it is sent."""

    content: bytes
    media: str
    tag: str


def page_files() -> dict[str, PageFile]:
    """Path below the server's root → file."""
    files = dict(_below(resources.files("numawise.web") / "page", ""))
    files[PICTURE] = page_stylesheet().encode()
    return {name: page_file(name, content) for name, content in sorted(files.items())}


def _below(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    files: list[tuple[str, bytes]] = []
    for member in folder.iterdir():
        name = prefix + member.name
        if member.is_dir():
            files += _below(member, f"{name}/")
        elif _suffix(name) in MEDIA:
            files.append((name, as_sent(name, member.read_bytes())))
    return files


def as_sent(name: str, content: bytes) -> bytes:
    """A file as it is sent (rule 2)."""
    comments = COMMENTS.get(_suffix(name))
    if comments is None:
        return content
    short = comments.sub(lambda found: b"\n" * found[0].count(b"\n"), content)
    if any(line.count(TEXT) % 2 for line in short.split(b"\n")):
        return short
    return INDENTED.sub(b"", short)


def page_file(name: str, content: bytes) -> PageFile:
    """A file of that name."""
    return PageFile(content, MEDIA[_suffix(name)], tag_of(content))


def _suffix(name: str) -> str:
    return "." + name.rpartition(".")[2]


def tag_of(content: bytes) -> str:
    """The entity tag of an answer."""
    return f'"{hashlib.sha256(content).hexdigest()[:24]}"'

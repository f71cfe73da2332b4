"""Calls of the API as values: what is asked, what is answered, and who answers.

Rules kept here:

1. Every call of the page is an ``Operation``; the routes and the OpenAPI document are made from them.
2. A handler is plain code that may block: it runs in a worker thread, gets what was asked as values, and
   returns a document (a dataclass or plain data) or raises one of the project's errors.
3. A call that changes anything says so (``changes``); it is refused unless the server was told to allow it.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from numawise.codec.web.drawn import NARROWEST, WIDEST
from numawise.errors import InputError, quoted
from numawise.strconv import whole_number
from numawise.values import dataclass, field

if TYPE_CHECKING:
    from numawise.web.desk import Desk

GET, POST = "GET", "POST"
LONGEST_QUERY = 4000
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class QueryField:
    """One parameter in the address of a call."""

    name: str
    words: str
    kind: str = "string"
    """``string`` or ``integer``."""
    least: int = 0
    most: int = 1_000_000
    repeated: bool = False
    """It may come several times; its value is then a tuple."""

    def read(self, texts: list[str]) -> object:
        """Its value; None, or an empty tuple, where it was not given."""
        if self.repeated:
            return tuple(self._value(text) for text in texts)
        return self._value(texts[-1]) if texts else None

    def _value(self, text: str) -> object:
        if len(text) > LONGEST_QUERY:
            raise InputError("is too long", field=self.name, advice="shorten it")
        if self.kind != "integer":
            return text
        number = whole_number(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
        if not self.least <= number <= self.most:
            advice = f"give a whole number from {self.least} to {self.most}"
            raise InputError(f"{quoted(text)} is not possible", field=self.name, advice=advice)
        return number


WIDTH = QueryField("width", "Pixels that the map may be wide.", "integer", NARROWEST, WIDEST)


@dataclass(frozen=True, slots=True)
class Asked:
    """One call, read."""

    path: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that have names."""
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    """A value of the operation's form."""
    who: str = ""
    """Who asks, where the operation keeps what it is given."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is no document: a file, a picture."""

    content: bytes
    media: str
    name: str = ""
    """What a browser saves it as; '' where it shows it."""


Handler = Callable[["Desk", Asked], object]


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of the API."""

    method: str
    path: str
    """Below ``/api/v1``; ``{name}`` stands for one part."""
    name: str
    summary: str
    handler: Handler
    answer: object = None
    """A kind of document that ``results.schema`` knows, a class with a form, or None: see ``media``."""
    query: tuple[QueryField, ...] = ()
    body: type | None = None
    """The form of its body, of ``codec.web``."""
    media: str = JSON
    depends: tuple[str, ...] | None = None
    """What its answer depends on of what the news tell of (``map``, ``box``, ``cluster``); it is kept until
    one of these changes.  Empty: it never changes.  None: it is not kept."""
    fresh: float = 0.0
    """Seconds after which a kept answer is worked out anew all the same; 0: never."""
    changes: bool = False
    keeps: bool = False
    """What it is given is kept for later calls, so it matters whose it is."""
    part: str = ""
    """The part of the page that it belongs to."""

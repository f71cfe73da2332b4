"""Values of declared forms, out of JSON or plain data.

Rules kept here:

1. msgspec works out a form when it is first used, and a thread that uses it meanwhile ends the process
   (msgspec 0.22: a table that is not filled yet).  So one thread at a time works out forms, and nobody
   reads by one that is not ready.
"""

from threading import Lock
from typing import Any, TypeVar

import msgspec

Form = TypeVar("Form")
_READY: dict[type, msgspec.json.Decoder[Any]] = {}
_WORKING_OUT = Lock()


def decoded(raw: bytes, form: type[Form]) -> Form:
    """The value that a JSON text has; msgspec's errors."""
    value: Form = _decoder(form).decode(raw)
    return value


def converted(data: object, form: type[Form]) -> Form:
    """The value that plain data have; msgspec's errors."""
    _decoder(form)
    return msgspec.convert(data, form)


def _decoder(form: type) -> msgspec.json.Decoder[Any]:
    """Rule 1."""
    known = _READY.get(form)
    if known is None:
        with _WORKING_OUT:
            known = _READY.setdefault(form, msgspec.json.Decoder(form))
    return known


def most_values_in(text: bytes) -> int:
    """As many values as JSON may have, counted before any is made: each follows an opening or a comma."""
    return sum(map(text.count, (b"{", b"[", b",")))

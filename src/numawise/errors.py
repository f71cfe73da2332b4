"""The exceptions that say no answer could be had, and the exit code of each.

A *no* is an answer (``Rejected``, ``Refusal``) and never an exception::

    NumawiseError            .advice: what to do next
    ├─ InputError       2    bad flag, YAML, machine file; knows file, line, field
    │  ├─ KubeletRefused     a kubelet that would not start with what it is given; knows the stage
    │  └─ SearchEnded        a search that would take too many steps
    ├─ HostError        3    /sys, cgroup, NVML or permission
    ├─ LedgerError      4    locked, damaged, of another boot
    └─ ClusterError     5    API server, kubelet socket
       └─ MissingExtra  2    a library that comes with an extra is not installed
"""

import re
from collections.abc import Collection


class NumawiseError(Exception):
    """No answer could be had; ``advice`` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = cut(message, LONGEST_MESSAGE)
        self.advice = cut(advice, LONGEST_MESSAGE)

    def __str__(self) -> str:
        return f"{self.message}; {self.advice}" if self.advice else self.message


class InputError(NumawiseError):
    """What the user gave cannot be read or makes no sense."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        line: int | None = None,
        field: str = "",
        advice: str = "",
    ) -> None:
        super().__init__(message, advice)
        self.file = file
        self.line = line
        self.field = field

    def __str__(self) -> str:
        place = cut(self.file, LONGEST_PLACE)
        if place and self.line is not None:
            place = f"{place}:{self.line}"
        parts = [part for part in (place, cut(self.field, LONGEST_PLACE)) if part]
        return ": ".join([*parts, super().__str__()])


class KubeletRefused(InputError):
    """A kubelet would not start with this configuration, machine and state; ``reason``: its own words."""

    def __init__(self, stage: str, reason: str, *, file: str = "", field: str = "", advice: str = "") -> None:
        message = f"the kubelet would not start ({stage}): {reason}"
        super().__init__(message, file=file, field=field, advice=advice)
        self.stage = stage
        self.reason = reason


class SearchEnded(InputError):
    """No answer was found within the steps that a search may take; a wrong one is never given."""


class HostError(NumawiseError):
    """This host does not allow or does not have what is needed."""

    exit_code = 3


class LedgerError(NumawiseError):
    """The record of holds cannot be used."""

    exit_code = 4


class ClusterError(NumawiseError):
    """The cluster or the kubelet's socket cannot be reached or answered badly."""

    exit_code = 5


class MissingExtra(ClusterError):
    """A library that comes with an extra is not installed: nobody can be asked, now and later."""

    exit_code = 2


# --------------------------------------------------------------------------------------------------
# Values in messages: short, on one line, and unable to steer the terminal on which they are read.


LONGEST_VALUE, LONGEST_PLACE, LONGEST_MESSAGE = 120, 300, 1500
STEERING = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters but for the newline, marks of direction, and halves of characters."""
SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(text: str) -> str:
    r"""Text with an escape such as ``\x1b`` in the place of everything that could steer a terminal."""
    return STEERING.sub(lambda found: _escape(found[0]), text)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as Python keeps those of arguments
        code -= 0xDC00
    long = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return SHORT.get(char) or (f"\\x{code:02x}" if code < 0x100 else long)


def one_line(text: str) -> str:
    """Text on one line, with an escape in the place of everything that cannot be seen."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def cut(text: str, longest: int = LONGEST_VALUE) -> str:
    """Text without its middle where it is longer than that; how long it is, is said."""
    return text if len(text) <= longest else f"{_shortened(text, longest)} ({len(text)} characters)"


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest * 3 // 4]}…{text[-(longest // 8) :]}"


def quoted(value: object, mark: str = "'") -> str:
    """A value for a message: in quotes where it is text, cut where it is long, always on one line."""
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    if not isinstance(value, str):
        return one_line(cut(repr(value)))
    text = one_line(_shortened(value, LONGEST_VALUE))
    if mark in text:
        mark, text = ('"', text) if '"' not in text else (mark, text.replace(mark, f"\\{mark}"))
    return f"{mark}{text}{mark}" + (f" ({len(value)} characters)" if len(value) > LONGEST_VALUE else "")


# --------------------------------------------------------------------------------------------------
# The word that somebody meant: advice for names that are not known.


MOST_KNOWN = 24
"""More names than these are no advice."""


def meant(word: str, known: Collection[str], likeness: float = 0.7) -> str:
    """The known word that an unknown one resembles, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes alone

    near = {name.lower(): name for name in sorted(known)}
    close = get_close_matches(word[:80].lower(), near, n=1, cutoff=likeness)
    return near[close[0]] if close else ""


def suggestion(word: str, known: Collection[str]) -> str:
    """Advice for a word that is not known: the one meant, or all there are, or '' when those are too many."""
    near = meant(word, known)
    every = f"known are {', '.join(sorted(known))}" if len(known) <= MOST_KNOWN else ""
    return f'did you mean "{near}"?' if near else every

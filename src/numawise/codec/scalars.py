"""What a word of YAML means that has neither quotes nor a tag, as sigs.k8s.io/yaml reads it.

Rules kept here:

1. ``yes``, ``on`` and ``y`` are booleans, ``~`` and nothing are null.
2. ``010`` is 8, ``1_000`` is 1000; ``1:30`` and ``2026-01-01`` are text.
3. What JSON has no form for, such as ``.inf``, is an error.
"""

import math
import re
from collections.abc import Mapping

LARGEST_INT = 2**63 - 1
SPECIAL_START = frozenset("0123456789+-.yYnNtTfFoO~")
INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)")
DOTTED = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][+-]?[0-9]+(?:_[0-9]+)*)?")
DECIMAL = re.compile(r"[+-]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][+-]?[0-9]+)?")
NOT_JSON = re.compile(r"[+-]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
FIXED: Mapping[str, bool | None] = {"": None, "~": None} | {
    spelling: meaning
    for words, meaning in (("y yes true on", True), ("n no false off", False), ("null", None))
    for word in words.split()
    for spelling in (word, word.capitalize(), word.upper())
}


def plain_scalar(text: str) -> object:
    """What a text without quotes and tag means; ``ValueError``: it has no form in JSON."""
    if text and text[0] not in SPECIAL_START:
        return text
    if text in FIXED:
        return FIXED[text]
    if NOT_JSON.fullmatch(text):
        raise ValueError(f"{text} has no JSON form")
    return _number(text) if text[0] in "0123456789+-." else text


def _number(text: str) -> object:
    """A number when the text is one in Go's eyes, else the text."""
    plain = text.replace("_", "") if text[0] != "." or DOTTED.fullmatch(text) else text
    if len(plain) < 70 and INTEGER.fullmatch(plain):
        sign, digits = ("", plain) if plain[0] not in "+-" else (plain[0], plain[1:])
        value = int(digits, 8 if digits.isdecimal() and digits[0] == "0" else 0) * (-1 if sign == "-" else 1)
        if -LARGEST_INT - 1 <= value <= (LARGEST_INT if sign else 2 * LARGEST_INT + 1):
            return value
    if DECIMAL.fullmatch(plain):
        number = float(plain)
        if math.isfinite(number):
            return number
    return text

"""Numbers and booleans in text, read and refused as Go's ``strconv`` does it.

The kubelet passes these messages on to its users, so they are part of its answer.
"""

import re

INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
LARGEST = 2**63 - 1
MOST_DIGITS, HUGE = 30, 10**30
TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def parse_int(text: str) -> int:
    """Read a decimal integer of 64 bits; raise ``ValueError`` in Go's words."""
    if not INTEGER.fullmatch(text):
        raise ValueError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    value = int(text) if len(text) < 40 else LARGEST + 1
    if not -LARGEST - 1 <= value <= LARGEST:
        raise ValueError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return value


def whole_number(text: str) -> int:
    """A decimal number of any length; one of more than 30 digits is taken for ``HUGE``, above every bound.

    Python refuses to convert thousands of digits, and takes long for them.
    """
    if len(text) <= MOST_DIGITS:
        return int(text)
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").lstrip("0") or "0"
    return sign * (int(digits) if len(digits) <= MOST_DIGITS else HUGE)


def parse_bool(text: str) -> bool:
    """Read one of Go's spellings of true and false; raise ``ValueError`` in Go's words."""
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def quote(text: str) -> str:
    """Text as Go's ``%q`` prints it (for what occurs in configurations)."""
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char in "\a\b\f\n\r\t\v":
            out.append(
                {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}[
                    char
                ]
            )
        elif char.isprintable():
            out.append(char)
        elif ord(char) < 0x80:
            out.append(f"\\x{ord(char):02x}")
        elif ord(char) < 0x10000:
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(f"\\U{ord(char):08x}")
    return '"' + "".join(out) + '"'

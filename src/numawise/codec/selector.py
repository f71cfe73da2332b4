"""Label selectors: as kubectl takes them (``pool=gpu,zone!=a``), and as objects carry them.

Rules kept here:

1. Text: ``key=value``, ``key==value``, ``key!=value``, ``key in (a,b)``, ``key notin (a,b)``, ``key`` and
   ``!key``, separated by commas; all must hold.  ``!=`` and ``notin`` hold where the key is absent.
2. An object's selector that is not understood matches everything: whoever asks is careful then.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from numawise.codec.document import mapping
from numawise.errors import InputError, quoted

Labels = Mapping[str, Any]
Matches = Callable[[Labels], bool]
KEY, VALUE = r"([A-Za-z0-9](?:[A-Za-z0-9_./-]{0,314}[A-Za-z0-9])?)", r"([A-Za-z0-9_.-]{0,63})"
EQUALS = re.compile(rf"{KEY}\s*(==|=|!=)\s*{VALUE}", re.ASCII)
AMONG = re.compile(rf"{KEY}\s+(in|notin)\s*\(([A-Za-z0-9_.,\s-]*)\)", re.ASCII)
THERE = re.compile(rf"(!?)\s*{KEY}", re.ASCII)
BETWEEN = re.compile(r",(?![^(]*\))")
WRITE_SO = "write it as pool=gpu, zone!=a, pool in (a,b), pool or !pool, with commas between them"


def read_selector(text: str, field: str = "--selector") -> Matches:
    """What a selector of a command line matches; an empty one matches everything (rule 1)."""
    terms = [_term(part.strip(), field) for part in BETWEEN.split(text)] if text.strip() else []
    return lambda labels: all(term(labels) for term in terms)


def _term(text: str, field: str) -> Matches:
    if found := EQUALS.fullmatch(text):
        key, sign, value = found.groups()
        if sign == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := AMONG.fullmatch(text):
        key, word, listed = found.groups()
        values = {one.strip() for one in listed.split(",")}
        if word == "notin":
            return lambda labels: labels.get(key) not in values
        return lambda labels: key in labels and labels[key] in values
    if found := THERE.fullmatch(text):
        absent, key = found.groups()
        return lambda labels: (key in labels) != bool(absent)
    raise InputError(f"{quoted(text)} is not a label selector", field=field, advice=WRITE_SO)


def object_selector(selector: object) -> Matches:
    """What the ``selector`` of an object matches; an absent one nothing, an empty one everything (rule 2)."""
    if selector is None:
        return lambda _: False
    if not isinstance(selector, Mapping):
        return lambda _: True
    wanted = mapping(selector.get("matchLabels"))
    rows = selector.get("matchExpressions")
    expressions = [mapping(one) for one in rows] if isinstance(rows, list) else []

    def matches(labels: Labels) -> bool:
        return all(labels.get(key) == value for key, value in wanted.items()) and all(
            _holds(one, labels) for one in expressions
        )

    return matches


def _holds(expression: Mapping[str, Any], labels: Labels) -> bool:
    key, values = str(expression.get("key")), expression.get("values")
    listed = values if isinstance(values, list) else []
    match expression.get("operator"):
        case "In":
            return key in labels and labels[key] in listed
        case "NotIn":
            return labels.get(key) not in listed
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return True

"""Bodies of requests: JSON, read into a value of a known form, and the form as a JSON Schema.

Rules kept here:

1. A body has the members that its form names and no others; what is wrong is said with the path of the
   member, as ``$.node.files[0].name``.
2. Texts and lists are bounded where they are declared, and the values of a body together before it is read;
   nothing recurses over a body.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from numawise.codec.forms import decoded, most_values_in
from numawise.errors import InputError

Form = TypeVar("Form")
PLACE = re.compile(r" - at `(?P<path>[^`]*)`$")
TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
MOST_VALUES = 200_000
"""Of a body, what is in its texts apart."""
WHOLE = "$"
COMPONENTS = "#/components/schemas/{name}"


class WebBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a request's body; forms are made from it."""


def members_of(form: type) -> dict[str, str]:
    """The members of a form: their names here, and in a body."""
    return {each.name: each.encode_name for each in msgspec.structs.fields(form)}


def read_body(raw: bytes, form: type[Form]) -> Form:
    """The value of a body; ``InputError`` with the path of what is wrong."""
    if most_values_in(raw) > MOST_VALUES and most_values_in(TEXT.sub(b"", raw)) > MOST_VALUES:
        raise InputError(f"the body has more than {MOST_VALUES:,} values", field=WHOLE, advice="send less")
    try:
        return decoded(raw, form)
    except msgspec.ValidationError as problem:
        raise _wrong(str(problem)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise InputError(f"the body is not JSON: {problem}", field=WHOLE, advice="send JSON") from None


def to_bytes(value: object) -> bytes:
    """Plain data as JSON; bytes of a name that are no text become question marks."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode("utf-8", "replace")


def body_schemas(forms: Iterable[type]) -> tuple[list[Mapping[str, Any]], dict[str, Any]]:
    """The schemas of forms, in their order, and those that they refer to, by name."""
    schemas, components = msgspec.json.schema_components(tuple(forms), ref_template=COMPONENTS)
    return list(schemas), dict(components)


def _wrong(problem: str) -> InputError:
    place = PLACE.search(problem)
    words = problem[: place.start()] if place else problem
    what = words[:1].lower() + words[1:]
    advice = "the form is in /api/v1/openapi.json"
    return InputError(what.replace("`", ""), field=place["path"] if place else WHOLE, advice=advice)

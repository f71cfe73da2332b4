"""What the OpenAPI document promises, held against what is answered."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jsonschema
from jsonschema.validators import Draft202012Validator

from numawise.codec.web.body import to_bytes
from numawise.web.application import ROOT
from numawise.web.catalogue import OPERATIONS
from numawise.web.openapi import openapi

ANYWHERE = ("405",)
"""Of every path, whether there is a call or not."""


@cache
def document() -> dict[str, Any]:
    """The document, as it is served."""
    data: dict[str, Any] = json.loads(to_bytes(openapi(OPERATIONS)))
    return data


def promised(method: str, path: str) -> Mapping[str, Any] | None:
    """The responses of a call; None where there is none."""
    for template, methods in document()["paths"].items():
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(ROOT + template))
        if re.fullmatch(pattern, path):
            call = methods.get("get" if method == "HEAD" else method.lower())
            return None if call is None else call["responses"]
    return None


def check(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Fail where an answer is none that was promised."""
    if status == 204 or method == "HEAD" or not path.startswith(ROOT):
        return
    responses = promised(method, path)
    if responses is None:
        assert status in (401, 403, 404, 405, 421), f"{method} {path} is not in the document: {status}"
        schema: Any = {"$ref": "#/components/schemas/Problem"}
        assert headers["content-type"] == "application/problem+json"
    else:
        assert str(status) in (*responses, *ANYWHERE), f"{method} {path} answers {status}: not promised"
        if status == 304:
            assert body == b""
            return
        response = responses.get(str(status), responses["422"])
        media = headers["content-type"].partition(";")[0]
        assert media in response["content"], f"{method} {path}: {media} is not promised for {status}"
        schema = response["content"][media]["schema"]
        if not media.endswith("json"):
            return
    errors = sorted(
        _validator(json.dumps(schema)).iter_errors(json.loads(body)), key=lambda one: list(one.path)
    )
    assert not errors, f"{method} {path}: {_words(errors)}"


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({**json.loads(schema), "components": document()["components"]})


def _words(errors: Sequence[jsonschema.ValidationError]) -> str:
    return "; ".join(f"{one.json_path}: {one.message[:300]}" for one in errors[:3])

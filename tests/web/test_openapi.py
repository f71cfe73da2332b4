"""The OpenAPI document: sound by itself, complete, and served as it is."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema.validators import Draft202012Validator

from numawise.web.catalogue import OPERATIONS
from tests.web.calls import Page
from tests.web.contract import document


def every(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in it."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from every(inner)


def calls() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, call in methods.items():
            yield method, path, call


def test_it_is_served_as_it_is() -> None:
    page = Page()
    answer = page.get("openapi.json")
    assert (answer.status, answer.data) == (200, document())
    assert page.get("openapi.json", if_none_match=answer.headers["etag"]).status == 304
    page.close()


def test_a_validator_finds_nothing() -> None:
    """The fuzz environment (``make fuzz-api``) has one; here the document is held against the rest below."""
    validator = pytest.importorskip("openapi_spec_validator", reason="make fuzz-api brings it")
    validator.validate(document())


def test_every_reference_leads_somewhere() -> None:
    schemas = document()["components"]["schemas"]
    references = {one["$ref"] for one in every(document()) if isinstance(one.get("$ref"), str)}
    assert {reference.removeprefix("#/components/schemas/") for reference in references} <= set(schemas)
    assert "#/components/schemas/Problem" in references


@pytest.mark.parametrize("name", document()["components"]["schemas"])
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(document()["components"]["schemas"][name])


def test_every_operation_is_there_once() -> None:
    names = [call["operationId"] for _, _, call in calls()]
    assert len(names) == len(set(names))
    assert {operation.name for operation in OPERATIONS} | {"events", "session", "openapi"} == set(names)


@pytest.mark.parametrize(
    ("method", "path", "call"), list(calls()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_every_call_says_what_it_takes_and_answers(method: str, path: str, call: dict[str, Any]) -> None:
    assert call["summary"].endswith(".")
    responses = call["responses"]
    assert {"200", "204"} & set(responses)
    for status in ("400", "401", "403", "421", "422", "429"):
        assert "application/problem+json" in responses[status]["content"]
    named = {one["name"] for one in call.get("parameters", ()) if one["in"] == "path"}
    assert {f"{{{name}}}" for name in named} == {part for part in path.split("/") if part.startswith("{")}
    if method == "post" and call["operationId"] != "session":
        assert "application/json" in call["requestBody"]["content"]


def test_texts_and_lists_of_bodies_are_bounded() -> None:
    """What a client sends has a largest size wherever it is a list; the body as a whole has one, too."""
    unbounded = []
    for method, path, call in calls():
        schema = json.dumps(call.get("requestBody", {}))
        for name in document()["components"]["schemas"]:
            if f'"#/components/schemas/{name}"' not in schema:
                continue
            for inner in every(document()["components"]["schemas"][name]):
                if inner.get("type") == "array" and "maxItems" not in inner and "prefixItems" not in inner:
                    unbounded.append(f"{method} {path}: {name}")
    assert unbounded == []

"""The OpenAPI document, made of the operations: bodies by their forms, answers by the forms of documents."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from numawise.codec.web.body import body_schemas
from numawise.results.schema import definition, schema
from numawise.version import __version__
from numawise.web.guards import ROOT
from numawise.web.operations import JSON, Operation, QueryField
from numawise.web.problems import MEDIA, ProblemForm

Data = dict[str, Any]
IN_PATH = re.compile(r"\{(\w+)\}")
PROBLEMS = (400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429)
REFERENCE, OWN = "#/$defs/", "#/components/schemas/"


def openapi(operations: Sequence[Operation]) -> Data:
    """The document, in OpenAPI 3.1."""
    components: Data = {}
    forms = list(dict.fromkeys(one.body for one in operations if one.body is not None))
    schemas, parts = body_schemas(forms)
    components |= parts
    bodies = dict(zip(forms, schemas, strict=True))
    paths: Data = {
        "/events": {"get": _events()},
        "/session": {"post": _session()},
        "/openapi.json": {"get": _own()},
    }
    for operation in operations:
        place = paths.setdefault(operation.path, {})
        place[operation.method.lower()] = _call(operation, bodies, components)
    _answer_schema(ProblemForm, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "numawise",
            "version": __version__,
            "summary": "Machines, decisions and what would change them.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": ROOT}],
        "security": [{}, {"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _call(operation: Operation, bodies: Mapping[type, Any], components: Data) -> Data:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in IN_PATH.findall(operation.path)
    ]
    parameters += [_query(one) for one in operation.query]
    answer: Data = {"description": "The answer."}
    if operation.answer is not None:
        answer["content"] = {operation.media: {"schema": _answer_schema(operation.answer, components)}}
    else:
        answer["content"] = {operation.media: {"schema": {"type": "string"}}}
    call: Data = {
        "operationId": operation.name,
        "summary": operation.summary,
        **({"tags": [operation.part]} if operation.part else {}),
        **({"parameters": parameters} if parameters else {}),
        "responses": {"200": answer, **_problems()},
    }
    if operation.method == "GET":
        call["responses"]["304"] = {"description": "It is as the entity tag says."}
    if operation.body is not None:
        call["requestBody"] = {"required": True, "content": {JSON: {"schema": bodies[operation.body]}}}
    return call


def _query(one: QueryField) -> Data:
    form: Data = {"type": one.kind}
    if one.kind == "integer":
        form |= {"minimum": one.least, "maximum": one.most}
    if one.repeated:
        form = {"type": "array", "items": form}
    return {"name": one.name, "in": "query", "description": one.words, "schema": form}


def _answer_schema(answer: object, components: Data) -> Data:
    """A reference to the schema of an answer, which is put among the components."""
    if isinstance(answer, str):  # a document has a head, which its form has not where it is a part of others
        name, whole = f"{answer}Document", schema(answer)
    else:
        name, whole = definition(answer)
    parts = whole.pop("$defs", {})
    for key in ("$schema", "$id"):
        whole.pop(key, None)
    for part, form in {**parts, name: whole}.items():
        if components.setdefault(part, moved := _moved(form)) != moved:
            raise ValueError(f"two forms of the API are called {part}")
    return {"$ref": f"{OWN}{name}"}


def _moved(value: Any) -> Any:  # noqa: ANN401 - JSON can be anything
    """A schema whose references lead to the components."""
    match value:
        case dict():
            return {
                key: inner.replace(REFERENCE, OWN) if key == "$ref" else _moved(inner)
                for key, inner in value.items()
            }
        case list():
            return [_moved(inner) for inner in value]
    return value


def _problems() -> Data:
    content = {MEDIA: {"schema": {"$ref": f"{OWN}Problem"}}}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": content} for status in PROBLEMS
    }


def _events() -> Data:
    text = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "operationId": "events",
        "summary": "What changes, as server-sent events: what, and its version.",
        "responses": {"200": {"description": "Events, for ever.", "content": text}, **_problems()},
    }


def _session() -> Data:
    form = {"type": "object", "properties": {"session": {"type": "string"}}, "required": ["session"]}
    return {
        "operationId": "session",
        "summary": "A session for whoever sends the token, until the server ends.",
        "security": [{"token": []}],
        "responses": {
            "200": {"description": "The session.", "content": {JSON: {"schema": form}}},
            **_problems(),
        },
    }


def _own() -> Data:
    return {
        "operationId": "openapi",
        "summary": "This document.",
        "responses": {
            "200": {"description": "The document.", "content": {JSON: {"schema": {"type": "object"}}}},
            "304": {"description": "It is as the entity tag says."},
            **_problems(),
        },
    }

"""JSON Schemas of every document, made from the types of its members.

Rules kept here:

1. A document that is a dataclass has the members that ``plain`` writes; one that is built as plain data has
   its form in ``forms``.  Texts below members are their descriptions.
2. Objects are closed: a member that a schema does not name is not there.
3. Every class is described once, under ``$defs``.
"""

import ast
import dataclasses
import importlib
import inspect
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints

from numawise.errors import InputError, meant, quoted
from numawise.quantity import Quantity
from numawise.results.plain import ALWAYS, API_VERSION, Data, computed, members
from numawise.sets import CpuSet, NumaSet

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOCUMENTS = {
    "Bundle": "bundle:BundleSummary",
    "Capacity": "cluster:PlacesReport",
    "Check": "finding:CheckReport",
    "ClusterSimulation": "cluster:ClusterRun",
    "Comparison": "forms:ComparisonForm",
    "ConfigComparison": "forms:ConfigComparisonForm",
    "ContainerCommand": "forms_launch:ContainerCommandForm",
    "Examination": "forms_node:ExaminationForm",
    "Explanation": "forms_why:ExplanationsForm",
    "Filled": "forms:FilledForm",
    "FindingCode": "finding:FindingCode",
    "Flags": "forms_launch:FlagsForm",
    "FleetSimulation": "forms:FleetSimulationForm",
    "Hardware": "forms_node:HardwareForm",
    "HoldHistory": "forms_launch:HoldHistoryForm",
    "HoldList": "forms_launch:HoldListForm",
    "HoldUses": "forms_launch:HoldUsesForm",
    "KubeletLog": "forms_why:KubeletLogForm",
    "KubeletPlan": "forms:KubeletPlanForm",
    "KubeletState": "state:KubeletState",
    "KubeletStateChange": "state:KubeletStateChange",
    "KubeletStateReport": "state:KubeletStateReport",
    "Machine": "forms_node:MachineForm",
    "Map": "machine_map:MapForm",
    "Nodes": "node_room:NodesReport",
    "Placement": "forms_launch:PlacementForm",
    "PodDecision": "decision:PodDecision",
    "PodPlan": "forms:PodPlanForm",
    "Ranks": "forms_launch:RanksForm",
    "Simulation": "forms:SimulationForm",
    "SwitchPlan": "forms:SwitchPlanForm",
    "Verification": "forms_node:VerificationForm",
}
"""Kind → module and class of its form, below ``numawise.results``."""
WITHOUT_KIND = ("Machine",)
"""Files with neither ``apiVersion`` nor ``kind``."""
SCALARS: Mapping[object, Data] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    object: {},
    Any: {},
    CpuSet: {"type": "string", "description": "CPUs, as the kernel writes lists: 0-3,8"},
    NumaSet: {"type": "array", "items": {"type": "integer"}, "description": "NUMA nodes"},
    Quantity: {"type": "string"},
}


def schema(kind: str) -> Data:
    """The schema of a document."""
    if kind not in DOCUMENTS:
        near = meant(kind, tuple(DOCUMENTS), 0.5)
        advice = f"did you mean {near}?" if near else f"known: {', '.join(DOCUMENTS)}"
        raise InputError(f"unknown kind of document {quoted(kind)}", advice=advice)
    module, name = DOCUMENTS[kind].split(":")
    form = getattr(importlib.import_module(f"numawise.results.{module}"), name)
    definitions: dict[str, Data] = {}
    whole = _object(form, definitions)
    if kind not in WITHOUT_KIND:
        head = {"apiVersion": {"const": API_VERSION}, "kind": {"const": kind}}
        whole["properties"] = head | whole["properties"]
        whole["required"] = [*head, *whole["required"]]
    identity = f"https://numawise.dev/schemas/v1/{kind}.json"
    found = {"$schema": DIALECT, "$id": identity, "title": kind, **whole}
    return found | ({"$defs": dict(sorted(definitions.items()))} if definitions else {})


def definition(form: Any) -> tuple[str, Data]:  # noqa: ANN401 - any class
    """The name and the schema of any form, for documents of other kinds."""
    definitions: dict[str, Data] = {}
    whole = _object(form, definitions)
    return form.__name__.removesuffix("Form"), whole | ({"$defs": definitions} if definitions else {})


def _object(form: Any, definitions: dict[str, Data]) -> Data:  # noqa: ANN401 - any class
    """A class as an object."""
    hints = get_type_hints(form, include_extras=True)
    texts = _texts(form)
    properties: Data = {}
    required: list[str] = []
    for name, key, always in _members(form, hints):
        member = _type(_hint(form, name, hints), definitions)
        if name in texts:
            member = {**member, "description": texts[name]}
        properties[key] = member
        required += [key] if always else []
    return {
        "description": inspect.cleandoc(form.__doc__ or ""),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _members(form: Any, hints: Mapping[str, Any]) -> list[tuple[str, str, bool]]:  # noqa: ANN401
    """Attribute, key, and whether it is always there."""
    if dataclasses.is_dataclass(form) and isinstance(form, type):
        return [(name, key, default is ALWAYS) for name, key, default in members(form)]
    return [(name, name.rstrip("_"), get_origin(hint) is not NotRequired) for name, hint in hints.items()]


def _hint(form: Any, name: str, hints: Mapping[str, Any]) -> Any:  # noqa: ANN401
    value = inspect.getattr_static(form, name, None)
    if isinstance(value, computed):
        return get_type_hints(value.function)["return"]
    hint = hints[name]
    return get_args(hint)[0] if get_origin(hint) is NotRequired else hint


def _type(hint: Any, definitions: dict[str, Data]) -> Data:  # noqa: ANN401
    """A type as a schema."""
    if isinstance(hint, typing.Hashable) and hint in SCALARS:
        return dict(SCALARS[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type(each, definitions) for each in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (list, tuple):
        inner = [each for each in arguments if each is not Ellipsis]
        if len(inner) == 1:
            return {"type": "array", "items": _type(inner[0], definitions)}
        return {"type": "array", "prefixItems": [_type(each, definitions) for each in inner], "items": False}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _type(arguments[1], definitions)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if isinstance(hint, type) and issubclass(hint, PurePath):
        return {"type": "string"}
    name = hint.__name__.removesuffix("Form")
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = _object(hint, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _texts(form: Any) -> dict[str, str]:  # noqa: ANN401
    """Member → the text below it, of a class and those it is made from; of a computed one, its docstring."""
    texts: dict[str, str] = {}
    for base in (*getattr(form, "__orig_bases__", ()), *reversed(form.__mro__)):
        if isinstance(base, type) and base.__module__.startswith("numawise."):
            texts |= _module_texts(base.__module__).get(base.__name__, {})
            computed_ones = {name: value for name, value in vars(base).items() if isinstance(value, computed)}
            texts |= {name: inspect.cleandoc(value.__doc__ or "") for name, value in computed_ones.items()}
    return texts


@cache
def _module_texts(name: str) -> Mapping[str, Mapping[str, str]]:
    """Class → member → the text below it."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(importlib.import_module(name))).body:
        if isinstance(node, ast.ClassDef):
            texts: dict[str, str] = {}
            for base in node.bases:  # Python 3.11 forgets what a TypedDict was made from
                texts |= found.get(base.id, {}) if isinstance(base, ast.Name) else {}
            found[node.name] = texts
            for before, after in zip(node.body, node.body[1:], strict=False):
                named = isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
                if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    texts[before.target.id] = " ".join(str(after.value.value).split())  # type: ignore[attr-defined]
    return found

"""One encoder: every value that numawise answers with, as plain data for JSON and YAML.

A document is a dataclass, and its fields are the form that programs read; nobody writes the form by hand.

Rules kept here:

1. A field is a member under its own name in camel case (``exclusive_cpus``: ``exclusiveCpus``), in the order
   of the class; an underscore at the end is left away (``from_``: ``from``).  ``computed`` values follow.
2. A member is always there: None is ``null``, an empty tuple ``[]``, an empty text ``""``.  Only what is
   declared ``optional`` is left out, namely when it has its default; ``hidden`` fields never appear.
3. CPUs are a list as the kernel writes it (``"0-3,8"``), NUMA nodes are a list of ids (``[0, 1]``).
   Quantities are Kubernetes' text, enumerations their value, paths text, sets sorted lists.
4. The keys of mappings are data, and stay as they are.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, Generic, TypeVar, cast

from numawise.quantity import Quantity
from numawise.sets import IdSet, NumaSet
from numawise.values import field

API_VERSION = "numawise.dev/v1"
"""The version of every document that numawise writes."""
READ_VERSIONS = frozenset({API_VERSION, "numawise.dev/v1alpha1"})
"""Versions of documents that are still read."""
HEAD = ("apiVersion", "kind")
OPTIONAL, HIDDEN = "optional", "hidden"

Data = dict[str, Any]
Member = tuple[str, str, object]
"""Name of the attribute, key, and the default that is left out."""
ALWAYS = object()
"""Stands for the default of a member that is never left out."""
FORMS: dict[type, tuple[Member, ...]] = {}
"""The members of classes that were encoded before."""
Value = TypeVar("Value")


def optional(default: Value) -> Value:
    """The default of a field that is left out of the document when it has this default."""
    return field(default=default, metadata={OPTIONAL: True})


def hidden(default: Value) -> Value:
    """The default of a field that is not part of the document."""
    return field(default=default, metadata={HIDDEN: True})


class computed(Generic[Value]):  # noqa: N801 - used as ``property`` is
    """A property that is part of the document."""

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: object, owner: type | None = None) -> Value:
        """The value; asked of the class itself, the descriptor."""
        return self.function(instance) if instance is not None else cast("Value", self)


def document(kind: str, value: object) -> Data:
    """A whole document: the value with ``apiVersion`` and ``kind`` in front."""
    return {"apiVersion": API_VERSION, "kind": kind, **plain(value)}


def without_head(data: Mapping[str, Any]) -> Data:
    """A document as a part of another one."""
    return {name: value for name, value in data.items() if name not in HEAD}


def plain(value: object) -> Any:  # noqa: ANN401 - JSON can be anything
    """A value as plain data."""
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case NumaSet():
            return list(value)
        case IdSet() | Quantity() | PurePath():
            return str(value)
        case Mapping():
            return {str(key): plain(member) for key, member in value.items()}
        case AbstractSet():
            return [plain(member) for member in sorted(value)]
        case tuple() | list():
            return [plain(member) for member in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _members(value)
    raise TypeError(f"{type(value).__name__} has no plain form")


def _members(value: object) -> Data:
    data = {}
    form: type[Any] = type(value)
    if form not in FORMS:
        FORMS[form] = members(form)
    for name, key, default in FORMS[form]:
        member = getattr(value, name)
        if member != default or default is ALWAYS:
            data[key] = plain(member)
    return data


def members(form: type[Any]) -> tuple[Member, ...]:
    """The members of a document."""
    own = [
        (each.name, camel(each.name), each.default if each.metadata.get(OPTIONAL) else ALWAYS)
        for each in fields(form)
        if not each.metadata.get(HIDDEN)
    ]
    return (*own, *((name, camel(name), ALWAYS) for name in _computed(form)))


def _computed(form: type) -> Iterable[str]:
    names = (name for base in reversed(form.__mro__) for name in vars(base))
    return dict.fromkeys(name for name in names if isinstance(getattr(form, name, None), computed))


def camel(name: str) -> str:
    """``exclusive_cpus`` as ``exclusiveCpus``."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(map(str.capitalize, rest))

"""Value classes that cost little to define: what ``dataclasses.dataclass`` makes, made when it is first used.

A launcher defines about a hundred value classes before its job starts, and makes objects of thirty.  The
standard library compiles six methods for each class at once; that was half of the start.

Rules kept here:

1. A class made here behaves as one of ``dataclass`` with the same arguments: construction, equality, hash,
   order, repr, matching, copying and pickling, and ``fields``, ``replace``, ``asdict`` and ``astuple`` of the
   standard library work on it.
2. ``__init__`` is compiled at the first construction, so objects are made as quickly as ever from then on.
   Threads may be the first at the same time.
3. To type checkers it is ``dataclasses`` itself.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_origin

__all__ = ["dataclass", "field", "replace"]
T = TypeVar("T")
MISSING: Any = object()
OWN = "__value_fields__"
setter = object.__setattr__


class Field:
    """How one field of a value class is made."""

    __slots__ = ("compare", "default", "factory", "init", "kw_only", "metadata", "name", "repr", "type")

    def __init__(
        self,
        default: object = MISSING,
        factory: Callable[[], object] | None = None,
        *,
        init: bool = True,
        shown: bool = True,
        compare: bool = True,
        metadata: Mapping[Any, Any] | None = None,
    ) -> None:
        self.default, self.factory, self.metadata = default, factory, metadata
        self.init, self.repr, self.compare, self.kw_only = init, shown, compare, False
        self.name, self.type = "", MISSING


if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:

    def field(
        *,
        default: object = MISSING,
        default_factory: Callable[[], object] | None = None,
        init: bool = True,
        repr: bool = True,  # noqa: A002 - as in dataclasses
        compare: bool = True,
        metadata: Mapping[Any, Any] | None = None,
    ) -> object:
        """A field whose default is made for each object, or that takes no part in something."""
        return Field(default, default_factory, init=init, shown=repr, compare=compare, metadata=metadata)

    def dataclass(
        *,
        frozen: bool = False,
        slots: bool = False,
        order: bool = False,
        eq: bool = True,
        kw_only: bool = False,
    ) -> Callable[[type[T]], type[T]]:
        """Make a value class, as ``dataclasses.dataclass`` does."""

        def decorate(cls: type[T]) -> type[T]:
            return _made(cls, frozen=frozen, slots=slots, order=order, eq=eq, kw_only=kw_only)

        return decorate

    def replace(value: T, /, **changes: Any) -> T:  # noqa: ANN401 - any field's
        """The same value with other fields."""
        own = getattr(type(value), OWN, None)
        if own is None:
            from dataclasses import replace as standard  # noqa: PLC0415 - a class of the standard library's

            return standard(value, **changes)
        given = {one.name: getattr(value, one.name) for one in own.values() if one.init}
        return type(value)(**{**given, **changes})


def _made(cls: type[T], *, frozen: bool, slots: bool, order: bool, eq: bool, kw_only: bool) -> type[T]:
    inherited: dict[str, Field] = {}
    for base in cls.__mro__[:0:-1]:
        inherited.update(base.__dict__.get(OWN, {}))
    own = dict(cls.__dict__)
    fields = {**inherited, **_declared(own, kw_only=kw_only)}
    own[OWN] = fields
    own["__dataclass_fields__"] = _StandardFields()
    own.setdefault("__match_args__", tuple(f.name for f in fields.values() if f.init and not f.kw_only))
    own.setdefault("__repr__", _repr)
    if "__init__" not in own:
        own["__init__"] = _first_init()
    if eq:
        own.setdefault("__eq__", _eq)
        if own.get("__hash__") is None:
            own["__hash__"] = _hash if frozen else None
    if order:
        own |= {"__lt__": _lt, "__le__": _le, "__gt__": _gt, "__ge__": _ge}
    own["__value_key__"] = _key([f.name for f in fields.values() if f.compare])
    own["__value_frozen__"] = frozen
    if frozen:
        own |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if not slots:
        for name, value in own.items():
            if isinstance(value, Field):
                delattr(cls, name) if value.default is MISSING else setattr(cls, name, value.default)
            elif cls.__dict__.get(name, MISSING) is not value:
                setattr(cls, name, value)
        return cls
    for name in (*fields, "__dict__", "__weakref__"):
        own.pop(name, None)
    own["__slots__"] = tuple(name for name in fields if name not in inherited)
    own["__qualname__"] = cls.__qualname__
    if frozen:
        own.setdefault("__getstate__", _state)
        own.setdefault("__setstate__", _set_state)
    make: Any = type(cls)
    made: type[T] = make(cls.__name__, cls.__bases__, own)
    return made


def _declared(own: Mapping[str, Any], *, kw_only: bool) -> dict[str, Field]:
    found: dict[str, Field] = {}
    for name, kind in own.get("__annotations__", {}).items():
        if kind is ClassVar or get_origin(kind) is ClassVar:
            continue
        given = own.get(name, MISSING)
        one = given if isinstance(given, Field) else Field(given)
        one.name, one.type, one.kw_only = name, kind, kw_only
        found[name] = one
    return found


def _key(names: list[str]) -> Callable[[Any], Any]:
    if not names:
        return staticmethod(lambda _: ())
    return staticmethod(attrgetter(*names))


def _first_init() -> Callable[..., None]:
    """An ``__init__`` that compiles the real one of its class (rule 2), then uses it."""
    compiled: list[Callable[..., None]] = []

    def first_init(self: Any, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        for base in type(self).__mro__:  # none has it any more where another thread was quicker
            if base.__dict__.get("__init__") is first_init:
                made = _init_of(base)
                compiled.append(made)
                base.__init__ = made  # type: ignore[misc]
                break
        compiled[0](self, *arguments, **named)

    return first_init


def _init_of(cls: Any) -> Callable[..., None]:  # noqa: ANN401
    fields: dict[str, Field] = getattr(cls, OWN)
    space: dict[str, Any] = {"_set": setter, "_missing": MISSING}
    positional: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    for one in fields.values():
        value, default = one.name, ""
        if one.factory is not None:
            space[f"_make_{one.name}"] = one.factory
            value, default = f"_make_{one.name}()", "=_missing"
            if one.init:
                value += f" if {one.name} is _missing else {one.name}"
        elif one.default is not MISSING:
            space[f"_default_{one.name}"] = one.default
            default = f"=_default_{one.name}"
            value = one.name if one.init else default[1:]
        if one.init:
            (named if one.kw_only else positional).append(one.name + default)
        elif not default:
            continue
        frozen = cls.__value_frozen__
        lines.append(f" _set(self, {one.name!r}, {value})" if frozen else f" self.{one.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    head = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    exec(f"def __init__({head}):\n" + ("\n".join(lines) or " pass"), space)  # noqa: S102 - names of fields only
    made: Callable[..., None] = space["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _eq(self: Any, other: Any) -> Any:  # noqa: ANN401
    if other.__class__ is not self.__class__:
        return NotImplemented
    key = self.__value_key__
    return key(self) == key(other)


def _hash(self: Any) -> int:  # noqa: ANN401
    return hash(self.__value_key__(self))


def _compared(self: Any, other: Any) -> tuple[Any, Any] | None:  # noqa: ANN401
    if other.__class__ is not self.__class__:
        return None
    key = self.__value_key__
    return key(self), key(other)


def _lt(self: Any, other: object) -> Any:  # noqa: ANN401
    pair = _compared(self, other)
    return NotImplemented if pair is None else pair[0] < pair[1]


def _le(self: Any, other: object) -> Any:  # noqa: ANN401
    pair = _compared(self, other)
    return NotImplemented if pair is None else pair[0] <= pair[1]


def _gt(self: Any, other: object) -> Any:  # noqa: ANN401
    pair = _compared(self, other)
    return NotImplemented if pair is None else pair[0] > pair[1]


def _ge(self: Any, other: object) -> Any:  # noqa: ANN401
    pair = _compared(self, other)
    return NotImplemented if pair is None else pair[0] >= pair[1]


def _repr(self: Any) -> str:  # noqa: ANN401
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in getattr(type(self), OWN).values() if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_set(self: Any, name: str, value: object) -> None:  # noqa: ANN401, ARG001
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - for mistakes alone

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:  # noqa: ANN401, ARG001
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - for mistakes alone

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:  # noqa: ANN401
    return [getattr(self, name) for name in getattr(type(self), OWN)]


def _set_state(self: Any, state: list[Any]) -> None:  # noqa: ANN401
    for name, value in zip(getattr(type(self), OWN), state, strict=True):
        setter(self, name, value)


class _StandardFields:
    """The fields as the standard library keeps them, made for those who ask (rule 1)."""

    def __get__(self, instance: object, owner: Any) -> dict[str, Any]:  # noqa: ANN401
        import dataclasses  # noqa: PLC0415 - few ask

        found = {}
        for one in getattr(owner, OWN).values():
            made: Any = dataclasses.field(
                **({} if one.default is MISSING else {"default": one.default}),
                **({} if one.factory is None else {"default_factory": one.factory}),
                init=one.init,
                repr=one.repr,
                compare=one.compare,
                kw_only=one.kw_only,
                metadata=one.metadata,
            )
            made.name, made.type = one.name, one.type
            made._field_type = dataclasses._FIELD  # type: ignore[attr-defined]  # noqa: SLF001
            found[one.name] = made
        owner.__dataclass_fields__ = found
        return found

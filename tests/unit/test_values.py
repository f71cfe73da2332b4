"""Value classes behave as those of the standard library, whatever is asked of them."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import pytest

from numawise import values

Make = Callable[..., Any]


def family(made_by: ModuleType) -> dict[str, Any]:
    """The same classes, made by one module."""
    module: Any = made_by

    @module.dataclass(frozen=True, slots=True, order=True)
    class Point:
        x: int
        y: int = 2
        tags: tuple[str, ...] = ()
        kind: ClassVar[str] = "point"

        def doubled(self) -> int:
            return self.x * 2

    @module.dataclass(frozen=True, slots=True, kw_only=True)
    class Named(Point):
        name: str
        extra: dict[str, int] = module.field(default_factory=dict, compare=False, repr=False)

    @module.dataclass(slots=True)
    class Box:
        items: list[int] = module.field(default_factory=list)
        count: int = module.field(init=False, default=0)

        def __post_init__(self) -> None:
            self.count = len(self.items)

    @module.dataclass()
    class Loose:
        a: int = 1
        b: list[int] = module.field(default_factory=list, metadata={"odd": True})

    return {"Point": Point, "Named": Named, "Box": Box, "Loose": Loose}


OURS, THEIRS = family(values), family(dataclasses)


def outcome(work: Callable[[dict[str, Any]], object], made: dict[str, Any]) -> object:
    try:
        return repr(work(made)).replace("family.<locals>.", "")
    except Exception as problem:  # noqa: BLE001 - which one is compared
        return type(problem)


@pytest.mark.parametrize("work", [
    lambda c: c["Point"](1),
    lambda c: c["Point"](1, y=5, tags=("a",)),
    lambda c: c["Point"](),
    lambda c: c["Point"](1, z=3),
    lambda c: (c["Point"](1) == c["Point"](1, 2), c["Point"](1) == c["Point"](2), c["Point"](1) == 1),
    lambda c: hash(c["Point"](1)) == hash(c["Point"](1, 2)),
    lambda c: sorted([c["Point"](2), c["Point"](1, 9), c["Point"](1)]),
    lambda c: c["Point"](1) < 3,
    lambda c: setattr(c["Point"](1), "x", 3),
    lambda c: delattr(c["Point"](1), "x"),
    lambda c: c["Point"].__slots__,
    lambda c: c["Point"].__match_args__,
    lambda c: (c["Point"].kind, c["Point"](4).doubled()),
    lambda c: c["Named"](1, name="n"),
    lambda c: c["Named"](1, 2, (), "n"),
    lambda c: c["Named"](1, name="n", extra={"a": 1}) == c["Named"](1, name="n"),
    lambda c: c["Named"](1, name="n") == c["Point"](1),
    lambda c: (c["Named"].__slots__, c["Named"].__match_args__),
    lambda c: c["Named"](1, name="n").extra is c["Named"](1, name="n").extra,
    lambda c: c["Box"]([1, 2]),
    lambda c: c["Box"]([1], 2),
    lambda c: hash(c["Box"]()),
    lambda c: c["Box"]().items is c["Box"]().items,
    lambda c: (c["Loose"](), c["Loose"].a, hasattr(c["Loose"], "b"), vars(c["Loose"](3))),
    lambda c: dataclasses.replace(c["Named"](1, name="n"), x=7),
    lambda c: values.replace(c["Point"](1), y=7) if c is OURS else dataclasses.replace(c["Point"](1), y=7),
    lambda c: dataclasses.asdict(c["Named"](1, name="n", extra={"k": 1})),
    lambda c: dataclasses.astuple(c["Point"](1)),
    lambda c: [(f.name, f.init, f.repr, f.compare, f.kw_only, dict(f.metadata)) for k in c.values() for f in dataclasses.fields(k)],
    lambda c: [(f.name, f.type, f.default is dataclasses.MISSING) for f in dataclasses.fields(c["Named"])],
    lambda c: (dataclasses.is_dataclass(c["Point"]), dataclasses.is_dataclass(c["Box"]())),
    lambda c: copy.copy(c["Point"](1)) == c["Point"](1),
    lambda c: copy.deepcopy(c["Named"](1, name="n", extra={"a": 1})).extra,
])  # fmt: skip
def test_as_the_standard_library_does(work: Callable[[dict[str, Any]], object]) -> None:
    assert outcome(work, OURS) == outcome(work, THEIRS)


@values.dataclass(frozen=True, slots=True)
class Kept:
    """A class that pickle can find."""

    a: int
    b: tuple[int, ...] = (1,)


def test_values_survive_pickling() -> None:
    assert pickle.loads(pickle.dumps(Kept(4, (5,)))) == Kept(4, (5,))


def test_threads_that_make_the_first_object_together_all_get_one() -> None:
    """Who is late has found the ``__init__`` that compiles, and the class has the compiled one already."""
    made = family(values)
    point, named = made["Point"], made["Named"]
    late = named.__init__
    named(1, name="first")
    second = named.__new__(named)
    late(second, 3, name="second")
    assert second == named(3, name="second")
    late = point.__init__
    point(1)
    third = point.__new__(point)
    late(third, 5)
    assert third == point(5)

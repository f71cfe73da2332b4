"""The one encoder: how values become JSON."""

import json
from enum import Enum
from pathlib import Path

import pytest

from numawise.quantity import Quantity
from numawise.results.plain import (
    API_VERSION,
    camel,
    computed,
    document,
    hidden,
    optional,
    plain,
)
from numawise.sets import CpuSet, NumaSet
from numawise.values import dataclass


class Colour(Enum):
    RED = "red"


class Level(int, Enum):
    HIGH = 3


@dataclass(frozen=True, slots=True)
class Part:
    cpus: CpuSet
    numa: NumaSet | None = None
    from_: str = ""
    note: str = optional("")
    count: int = optional(0)
    labels: tuple[str, ...] = optional(())
    secret: str = hidden("x")

    @computed
    def whole_cores(self) -> int:
        return len(self.cpus) // 2


@pytest.mark.parametrize(("value", "expected"), [
    (None, None), (True, True), (3, 3), (0.5, 0.5), ("x", "x"),
    (Colour.RED, "red"), (Level.HIGH, 3),
    (CpuSet.parse("0-3,8"), "0-3,8"), (NumaSet.of(0, 2), [0, 2]), (NumaSet(), []), (CpuSet(), ""),
    (Quantity.parse("8Gi"), "8Gi"), (Path("/etc/x"), "/etc/x"),
    ((1, 2), [1, 2]), ([], []), (frozenset({"b", "a"}), ["a", "b"]),
    ({"snake_key": (1,), 2: None}, {"snake_key": [1], "2": None}),
])  # fmt: skip
def test_values(value: object, expected: object) -> None:
    assert plain(value) == expected
    assert json.loads(json.dumps(plain(value))) == expected


def test_members_are_always_there_unless_optional() -> None:
    assert plain(Part(CpuSet.of(0, 1))) == {"cpus": "0-1", "numa": None, "from": "", "wholeCores": 1}
    full = Part(CpuSet(), NumaSet.of(1), note="n", count=2, labels={"a_b": "c"})
    assert list(plain(full)) == ["cpus", "numa", "from", "note", "count", "labels", "wholeCores"]
    assert plain(full)["labels"] == {"a_b": "c"}


def test_a_document_says_what_it_is() -> None:
    assert list(document("Part", Part(CpuSet()))) == [
        "apiVersion",
        "kind",
        "cpus",
        "numa",
        "from",
        "wholeCores",
    ]
    assert document("Part", {})["apiVersion"] == API_VERSION == "numawise.dev/v1"


def test_what_has_no_plain_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no plain form"):
        plain({"a": object()})
    with pytest.raises(TypeError, match="type has no plain form"):
        plain(Part)


def test_names() -> None:
    assert [camel(name) for name in ("cpus", "exclusive_cpus", "from_", "a_b_c")] == [
        "cpus",
        "exclusiveCpus",
        "from",
        "aBC",
    ]

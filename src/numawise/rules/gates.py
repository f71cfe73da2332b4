"""The feature gates of a release: which there are, and what a configuration may do to them.

Rules kept here:

1. A gate that the release does not have stops the kubelet, and so does one set against its lock.
2. ``AllAlpha`` and ``AllBeta`` set every gate of their stage that is not named itself.
3. After that, a gate that is on must find everything it depends on switched on too (from 1.35 on).
4. Where several gates are wrong the kubelet complains in the chance order of a Go map; here
   gates are looked at by name.  An unknown one ends the search.

What became of each gate from release to release stands in ``data/gates.txt``, what they need in
``data/gate_needs.txt``.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from numawise.datafile import data_lines
from numawise.rules.versions import REFERENCE, Version, manners_of
from numawise.values import dataclass

ALPHA, BETA, STABLE, DEPRECATED = "ALPHA", "BETA", "", "DEPRECATED"
WHOLE_STAGE = {"AllAlpha": ALPHA, "AllBeta": BETA}


@dataclass(frozen=True, slots=True)
class Gate:
    """One feature gate: how mature it is, and whether it is on when nobody says anything."""

    stage: str
    default: bool
    locked: bool = False
    """It cannot be set to anything but its default."""


STEPS: Mapping[str, Gate | None] = {
    "x": None,
    **{
        f"{letter}{sign}{lock}": Gate(stage, default=sign == "+", locked=bool(lock))
        for letter, stage in {"a": ALPHA, "b": BETA, "s": STABLE, "d": DEPRECATED}.items()
        for sign in "+-"
        for lock in ("", "!")
    },
}


@cache
def gates_of(version: Version = REFERENCE) -> Mapping[str, Gate]:
    """The gates that a release has."""
    found: dict[str, Gate] = {}
    for line in data_lines(__file__, "gates.txt"):
        name, *steps = line.split()
        gate = None
        for step in steps:
            if (1, int(step[:2])) <= version:
                gate = STEPS[step[2:]]
        if gate is not None:
            found[name] = gate
    return MappingProxyType(found)


@cache
def needs_of(version: Version = REFERENCE) -> Mapping[str, tuple[str, ...]]:
    """Gate → the gates it depends on, in a release."""
    found: dict[str, tuple[str, ...]] = {}
    known = gates_of(version) if manners_of(version).gates_have_needs else {}
    for line in data_lines(__file__, "gate_needs.txt"):
        name, *others = line.split()
        pairs = (other.partition("@") for other in others)
        needed = tuple(
            other for other, _, since in pairs if other in known and version >= (1, int(since or 0))
        )
        if name in known and needed:
            found[name] = needed
    return MappingProxyType(found)


GATES, NEEDS = gates_of(), needs_of()
"""Those of the reference release."""


def resolve_gates(given: Mapping[str, bool], version: Version = REFERENCE) -> Mapping[str, bool] | str:
    """Whether each known gate is on, or the kubelet's complaint about ``given``."""
    gates = gates_of(version)
    problems: list[str] = []
    for name, value in sorted(given.items()):
        gate = gates.get(name)
        if gate is None:
            problems.append(f"unrecognized feature gate: {name}")
            break
        if gate.locked and value != gate.default:
            wanted, lock = str(value).lower(), str(gate.default).lower()
            problems.append(f"cannot set feature gate {name} to {wanted}, feature is locked to {lock}")
    if problems:
        return listed(problems if manners_of(version).lists_every_locked_gate else problems[:1])

    settled = {name: _value(name, gate, given) for name, gate in gates.items()}
    for name, needed in sorted(needs_of(version).items()):
        missing = [other for other in needed if not settled[other]]
        if settled[name] and missing:
            problems.append(
                f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
            )
    return listed(problems) if problems else settled


def listed(problems: Iterable[str]) -> str:
    """Problems as the kubelet prints a collection of them: the only one, or ``[one, other]``."""
    different = tuple(dict.fromkeys(problems))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]"


def _value(name: str, gate: Gate, given: Mapping[str, bool]) -> bool:
    if name in given:
        return given[name]
    if name not in WHOLE_STAGE:
        for switch, stage in WHOLE_STAGE.items():
            if switch in given and gate.stage == stage:
                return given[switch]
    return gate.default

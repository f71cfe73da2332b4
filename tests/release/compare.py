"""Compare what a release's managers did with what numawise says, scenario by scenario.

Rules kept here:

1. Both results are cut to what both tell: the names of rounds, states between admission and start, and how a device
   choice came about are numawise's alone.
2. What differs is run again by the managers; where they do not agree with themselves, or once agree with numawise,
   the difference is *chance*: the kubelet walks Go maps.
3. A difference is named by its first aspect (verdict, message, hints, …) and the step that it was found in.
"""

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.recorded.compare import ASPECTS, Difference, differences

Data = dict[str, Any]
Managers = Callable[[Data], Data]

AGAIN = 40
"""So often the managers repeat a scenario that differs."""

OURS_ALONE = ("allocate_failed", "device_choices", "state_after_admit")
THEIRS_ALONE = "allocated_pods_state"
"""A file that numawise does not write."""
EXTRA = ("resizes", "preempted")
"""What the steps of a whole admission have besides what recordings have."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one scenario: same, chance, or the differences by aspect."""

    scenario: Data
    found: tuple[Difference, ...] = ()
    chance: bool = False

    @property
    def kind(self) -> str:
        """The aspect that differs first, with the step."""
        if not self.found:
            return "same"
        if self.chance:
            return "chance"
        first = self.found[0]
        return f"{first.aspect} in {_step_named(self.scenario, first.path)}"


@dataclass
class Tally:
    """The outcomes so far, and the first few scenarios of each kind."""

    keep: int = 3
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Outcome]] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        self.kinds[outcome.kind] += 1
        if outcome.found and not outcome.chance:
            kept = self.examples.setdefault(outcome.kind, [])
            if len(kept) < self.keep:
                kept.append(outcome)

    @property
    def differing(self) -> int:
        return sum(count for kind, count in self.kinds.items() if kind not in {"same", "chance"})


def compared(scenario: Data, managers: Managers, ours: Data) -> Outcome:
    """What came of one scenario."""
    wanted = cut(managers(scenario))
    said = cut(ours)
    found = unlike(wanted, said)
    if not found:
        return Outcome(scenario)
    for _ in range(AGAIN):
        again = cut(managers(scenario))
        if not unlike(again, said) or unlike(wanted, again):
            return Outcome(scenario, tuple(found), chance=True)
    return Outcome(scenario, tuple(found))


def unlike(wanted: Data, said: Data) -> list[Difference]:
    """The differences between two results, most telling first."""
    found = differences(wanted, said)
    killed: set[str] = set()
    for at, (one, other) in enumerate(zip(_steps(wanted), _steps(said), strict=False)):
        for name in EXTRA:
            if (one.get(name) or []) != (other.get(name) or []):
                found.append(Difference(name, f"steps[{at}].{name}", one.get(name), other.get(name)))
        killed |= set(one.get("preempted") or ())  # what a killed pod had is dropped some time later
        theirs, mine = (_allocated(step, killed) for step in (one, other))
        if theirs != mine:
            found.append(Difference("allocated", f"steps[{at}].state.allocated", theirs, mine))
    order = (*ASPECTS, *EXTRA, "allocated")
    return sorted(found, key=lambda one: (_step_number(one.path), order.index(one.aspect)))


def cut(result: Data) -> Data:
    """A result without what one side alone tells."""
    result = copy.deepcopy(result)
    steps = _steps(result)
    if steps and any("panic" in one for one in (steps[-1], *(steps[-1].get("readmitted") or ()))):
        steps[-1] = {
            "op": steps[-1].get("op"),
            "panic": "panic",
        }  # what was told up to then is told by one side alone
    for step in steps:
        for one in (step, *(step.get("readmitted") or ())):
            _join_states(one)
            ((one.get("state") or {}).get("checkpoints") or {}).pop(THEIRS_ALONE, None)
            for name in OURS_ALONE:
                one.pop(name, None)
            for asked in one.get("hint_rounds") or ():
                asked.pop("container", None)
                asked.pop("pod", None)
            if not one.get("affinity"):
                one.pop("affinity", None)
            for started in one.get("runtime") or ():
                _drop_empty(started)
            if one.get("runtime") in ([], None):
                one.pop("runtime", None)
            if one.get("readmitted") == []:
                del one["readmitted"]
        if "runtime_updates" in step:
            step["runtime_updates"] = [_drop_empty(dict(push)) for push in step["runtime_updates"]]
    start = result.get("start") or {}
    ((start.get("state") or {}).get("checkpoints") or {}).pop(THEIRS_ALONE, None)
    if not start.get("allocatable_cpus"):
        start.pop("allocatable_cpus", None)
    return result


def _join_states(step: Data) -> None:
    """Files shown between admission and start count as shown after the step."""
    between, after = step.get("state_after_admit"), step.get("state")
    if between and after:
        after["checkpoints"] = {**(between.get("checkpoints") or {}), **(after.get("checkpoints") or {})}


def _drop_empty(value: Data) -> Data:
    for name in [name for name, inner in value.items() if inner in ("", None)]:
        del value[name]
    return value


def _allocated(step: Data, killed: set[str]) -> Data:
    allocated = (step.get("state") or {}).get("allocated") or {}
    return {uid: sizes for uid, sizes in allocated.items() if uid not in killed}


def _steps(result: Mapping[str, Any]) -> list[Data]:
    return result.get("steps") or []


def _step_number(path: str) -> int:
    _, found, rest = path.partition("steps[")
    return int(rest.partition("]")[0]) if found else -1


def _step_named(scenario: Data, path: str) -> str:
    at = _step_number(path)
    steps = scenario.get("steps") or []
    return next(iter(steps[at])) if 0 <= at < len(steps) else "start"


def report(tally: Tally, release: str) -> str:
    """What differs, by kind, with the first scenarios of each."""
    total = sum(tally.kinds.values())
    lines = [
        f"{release}: {total} scenarios, {tally.kinds['same']} the same, {tally.kinds['chance']} left to chance, {tally.differing} differ"
    ]
    for kind, count in sorted(tally.kinds.items(), key=lambda item: (-item[1], item[0])):
        if kind in {"same", "chance"}:
            continue
        lines.append(f"  {count:6} {kind}")
        for outcome in tally.examples.get(kind, ()):
            lines.append(
                f"         {outcome.scenario['id']}: {outcome.found[0]}".replace("\n", "\n         ")
            )
    return "\n".join(lines)


def plain(value: object) -> Any:
    """A value as it is after a way through JSON."""
    return json.loads(json.dumps(value))


def kinds_of(outcomes: Iterable[Outcome]) -> Counter[str]:
    """How often each kind came."""
    return Counter(outcome.kind for outcome in outcomes)

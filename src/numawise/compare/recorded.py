"""A recorded scenario under two releases: whether its results differ, where first, and why.

What is compared is everything that a recording says but the text of the state files: hints, merges, verdicts
and their words, who holds what, what containers are created with.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numawise.compare.attribution import Pair, Search
from numawise.compare.releases import reason_of
from numawise.node.replay import replay
from numawise.results.comparison import Reason
from numawise.rules.versions import Version
from numawise.values import dataclass

Data = Mapping[str, Any]
ASPECTS = (
    "error",
    "panic",
    "admitted",
    "reason",
    "message",
    "hint_rounds",
    "allocate_failed",
    "affinity",
    "runtime",
    "runtime_updates",
    "state",
    "state_after_admit",
)
START = ("reserved_cpus", "allocatable_cpus", "node_allocatable_reservation")


@dataclass(frozen=True, slots=True)
class RecordedDifference:
    """The first thing that is otherwise in a scenario."""

    step: int
    """-1: at the start."""
    uid: str
    aspect: str
    before: object
    after: object
    reasons: tuple[Reason, ...] = ()


def compare_scenario(
    old: Data, new: Data, releases: tuple[Version, Version], *, explain: bool = True
) -> RecordedDifference | None:
    """The first difference between the results of a scenario in two releases; None: they are the same.

    ``old``, ``new``: the scenario as each release gets it; one and the same, or with other feature gates.
    """
    before, after = replay(old, releases[0]), replay(new, releases[1])
    found = first_difference(before, after)
    if found is None or not explain:
        return found
    pair = _pair(old, new, releases)
    search: Search[Data] = Search(pair, lambda blend: replay(new, releases[1], blend))
    switches = search.explain(lambda outcome: _at(outcome, found) == found.before)
    reasons = tuple(reason_of(switch, pair) for switch in switches)
    return RecordedDifference(found.step, found.uid, found.aspect, found.before, found.after, reasons)


def _pair(old: Data, new: Data, releases: tuple[Version, Version]) -> Pair:
    restarts = [
        (after["restart"]["kubelet"], before["restart"]["kubelet"])
        for before, after in zip(old.get("steps") or (), new.get("steps") or (), strict=False)
        if "kubelet" in (after.get("restart") or {}) and "kubelet" in (before.get("restart") or {})
    ]
    return Pair(*releases, old.get("kubelet") or {}, new.get("kubelet") or {}, tuple(restarts))


def first_difference(before: Data, after: Data) -> RecordedDifference | None:
    """Where two results of one scenario part."""
    facts = dict(_facts(before))
    others = dict(_facts(after))
    for place in dict.fromkeys((*facts, *others)):
        if facts.get(place) != others.get(place):
            return RecordedDifference(*place, facts.get(place), others.get(place))
    return None


def _at(result: Data, found: RecordedDifference) -> object:
    return dict(_facts(result)).get((found.step, found.uid, found.aspect))


def _facts(result: Data) -> Iterator[tuple[tuple[int, str, str], object]]:
    """Everything that counts, in the order it happened: (step, pod, aspect) and the value."""
    if "error" in result:
        yield (-1, "", "error"), result["error"]
        return
    start = result["start"]
    for aspect in START:
        yield (-1, "", aspect), start.get(aspect)
    yield (-1, "", "state"), _state(start.get("state"))
    for number, step in enumerate(result["steps"]):
        yield from _step_facts(number, step)
        for again in step.get("readmitted") or ():
            yield from _step_facts(number, again)


def _step_facts(number: int, step: Data) -> Iterator[tuple[tuple[int, str, str], object]]:
    uid = step.get("uid", "")
    for aspect in ASPECTS:
        value = step.get(aspect)
        if aspect == "hint_rounds":
            value = _rounds(value)
        yield (number, uid, aspect), _state(value) if aspect.startswith("state") else value


def _rounds(rounds: Iterable[Data] | None) -> object:
    """Rounds of hints; a manager that is not there says as much as one that has no preference."""
    if rounds is None:
        return None
    return [
        {**one, "hints": {name: found for name, found in one["hints"].items() if found is not None}}
        for one in rounds
    ]


def _state(state: Data | None) -> object:
    return None if state is None else {name: value for name, value in state.items() if name != "checkpoints"}

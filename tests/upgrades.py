"""Does the comparison of releases find what really differs? ``python -m tests.upgrades FOLDER [OLD NEW]``.

In the folder are recordings of the same scenarios by several releases (``traces-1.34-dev.jsonl.gz`` …).  For each
pair of neighbours, or the pair named, every scenario that both have is run in both; those whose results
differ must be exactly those whose recordings differ.  Exit status: 0 they are, 1 not, 2 nothing to compare.
"""

import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from numawise.compare.recorded import compare_scenario
from numawise.rules.versions import Version, parse_version, shown
from tests.fidelity import trace_lines
from tests.recorded.compare import differences

NAME = re.compile(r"traces-(\d+\.\d+)-(\w+)\.jsonl(?:\.gz)?")
FILE_ASPECTS = frozenset({"files", "checksums"})
"""Differences in the text of files alone do not count."""


@cache
def recordings(folder: Path, release: str) -> dict[str, Any]:
    """Scenario id → what one release made of it."""
    found = {}
    for path in sorted(folder.iterdir()):
        named = NAME.fullmatch(path.name)
        if named and named[1] == release:
            for line in trace_lines(path):
                recorded = json.loads(line)
                found[recorded["scenario"]["id"]] = recorded
    return found


def releases_in(folder: Path) -> list[str]:
    """The releases that have recordings, oldest first."""
    names = {found[1] for path in folder.iterdir() if (found := NAME.fullmatch(path.name))}
    return sorted(names, key=parse_version)


def same_input(one: Any, other: Any) -> bool:
    """True when two scenarios are the same but for the release and its feature gates."""

    def bare(scenario: Any) -> str:
        text = json.dumps({k: v for k, v in scenario.items() if k != "kubernetes"}, sort_keys=True)
        return re.sub(r'"featureGates": \{[^}]*\},? ?', "", text)

    return bare(one).replace(", }", "}") == bare(other).replace(", }", "}")


def bare_hints(result: Any) -> Any:
    """A result in which a manager that is not there says as much as one that has no wish."""
    result = json.loads(json.dumps(result))
    for step in result.get("steps", ()):
        for admission in (step, *step.get("readmitted", ())):
            for told in admission.get("hint_rounds", ()):
                told["hints"].setdefault("memory", None)
    return result


def recorded_differ(old: Any, new: Any) -> bool:
    """True when two recordings tell different results, both ways of looking at what is left to chance."""
    results = bare_hints(old["result"]), bare_hints(new["result"])
    return all(
        any(one.aspect not in FILE_ASPECTS for one in differences(*pair)) for pair in (results, results[::-1])
    )


def compared(folder: Path, old: str, new: str) -> Iterator[tuple[str, bool, bool]]:
    """(id, recordings differ, ours differ) of each scenario that two releases share."""
    before, after = recordings(folder, old), recordings(folder, new)
    releases: tuple[Version, Version] = (parse_version(old), parse_version(new))
    for name in sorted(before.keys() & after.keys()):
        if same_input(before[name]["scenario"], after[name]["scenario"]):
            scenarios = before[name]["scenario"], after[name]["scenario"]
            found = compare_scenario(*scenarios, releases, explain=False)
            free = min(
                one["result"].get("device_choice_free_from_step", 10**6)
                for one in (before[name], after[name])
            )
            ours = found is not None and found.step < free  # from there on chance decides
            yield name, recorded_differ(before[name], after[name]), ours


def report(folder: Path, old: str, new: str) -> bool:
    """Compare two releases and print what came of it; True when the same scenarios are named."""
    counts: Counter[tuple[bool, bool]] = Counter()
    wrong = []
    for name, recorded, ours in compared(folder, old, new):
        counts[recorded, ours] += 1
        if recorded != ours:
            wrong.append(f"  {name}: {'missed' if recorded else 'named without need'}")
    total, differ = sum(counts.values()), counts[True, True] + counts[True, False]
    sys.stdout.write(f"{old} → {new}: {total} shared, {differ} differ, {counts[True, True]} of these named, ")
    sys.stdout.write(f"{counts[False, True]} others named\n")
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    return not wrong


def main(arguments: Sequence[str]) -> int:
    """Compare all neighbours, or the pair named."""
    folder = Path(arguments[0]) if arguments else Path("nothing")
    known = releases_in(folder) if folder.is_dir() else []
    pairs = [tuple(arguments[1:])] if len(arguments) == 3 else list(itertools.pairwise(known))
    if not pairs or not {name for pair in pairs for name in pair} <= set(known):
        sys.stderr.write(
            f"no recordings of two releases in {folder} (there are {', '.join(known) or 'none'})\n"
        )
        return 2
    alike = [report(folder, *map(shown, map(parse_version, pair))) for pair in pairs]
    return 0 if all(alike) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Does the check find what the kubelet finds? ``python -m tests.check FILE|DIR…`` looks at recorded starts.

Every start and restart in recorded scenarios is checked: where the kubelet refused, the first error must be at the
same stage with the same message; where it started, there must be no error.  The first pod of a scenario meets an
empty node: it must be told that it can never run exactly where the kubelet refuses it.

Exit status: 0 all agree, 1 some do not, 2 nothing to look at.
"""

import json
import multiprocessing
import os
import sys
from collections import Counter
from pathlib import Path

from tests.check.traces import difference, first_pod, pod_difference, starts
from tests.fidelity import over, trace_lines

SHOWN = 5


def look(line: bytes) -> tuple[Counter[str], list[str]]:
    """What there is to compare in the scenario of one line, and the differences."""
    recorded = json.loads(line)
    scenario, result = recorded["scenario"], recorded["result"]
    every = list(starts(scenario, result))
    counts = Counter(starts=len(every), refused=sum(start.error is not None for start in every))
    judged = first_pod(scenario, result)
    if judged is not None:
        counts.update(pods=1, never=judged[0] != "fine")
    differences = [*map(difference, every), pod_difference(scenario, result)]
    return counts, [told for told in differences if told]


def report(path: Path) -> bool:
    """Look at one file, and print what came of it; True when all agree."""
    counts: Counter[str] = Counter()
    differences: list[str] = []
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        for some, found in pool.imap(look, trace_lines(path), chunksize=8):
            counts.update(some)
            differences += found
    _print(
        f"{path}: {counts['starts']} starts ({counts['refused']} refused), {counts['pods']} first pods "
        f"({counts['never']} never admitted): {len(differences)} differences"
    )
    for text in differences[:SHOWN]:
        _print(f"  {text}")
    return not differences


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(over(sys.argv[1:], report))

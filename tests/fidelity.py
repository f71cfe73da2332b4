"""How faithful are we? ``python -m tests.fidelity FILE|DIR…`` replays recorded scenarios and counts.

Prints, for each file and aspect, how many scenarios agree with the recording, and the first differences.
Exit status: 0 all agree, 1 some do not, 2 nothing to compare.
"""

import gzip
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from numawise.node.replay import replay
from tests.recorded.compare import ASPECTS, Difference, differences

SHOWN = 5
"""So many scenarios that differ are shown of each file."""
ENDINGS = (".jsonl", ".jsonl.gz")


def trace_files(paths: Iterable[str | Path]) -> list[Path]:
    """The files named, and those lying directly in the folders named."""
    found: list[Path] = []
    for path in map(Path, paths):
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found += [one for one in inside if one == path or one.name.endswith(ENDINGS)]
    return found


def trace_lines(path: Path) -> Iterator[bytes]:
    """The non-empty lines of a trace file."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield from (line for line in file if line.strip())


def compare_line(line: bytes) -> tuple[str, list[Difference]]:
    """Replay the scenario of one line; what differs from the result beside it."""
    recorded = json.loads(line)
    ours = json.loads(json.dumps(replay(recorded["scenario"])))
    return recorded["scenario"]["id"], differences(recorded["result"], ours)


def report(path: Path) -> bool:
    """Compare one file and print what came of it; True when all agree."""
    total, agree, shown = 0, Counter(dict.fromkeys((*ASPECTS, "all"), 0)), []
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        for name, found in pool.imap(compare_line, trace_lines(path), chunksize=8):
            total += 1
            unlike = {one.aspect for one in found}
            agree.update(aspect for aspect in ASPECTS if aspect not in unlike)
            agree["all"] += not found
            if found and len(shown) < SHOWN:
                shown.append("\n".join(f"  {name}: {one}" for one in found))
    _print(f"{path}")
    for aspect, count in agree.items():
        _print(f"  {aspect:9} {count:6} of {total}")
    for text in shown:
        _print(text)
    return agree["all"] == total


def over(arguments: Sequence[str], report: Callable[[Path], bool]) -> int:
    """Look at all files; the exit status."""
    files = trace_files(arguments)
    missing = [str(path) for path in files if not path.is_file()]
    if missing or not files:
        sys.stderr.write(f"no recorded scenarios in {', '.join(missing or arguments) or 'nothing given'}\n")
        return 2
    alike = [report(path) for path in files]
    return 0 if all(alike) else 1


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(over(sys.argv[1:], report))

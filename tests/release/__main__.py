"""Hold numawise against the managers of a Kubernetes release: ``python -m tests.release v1.37.1``.

Builds the release's managers from its Go module, runs random scenarios through them and through numawise, and prints
what differs, by kind; then what the release's gates, options and fields say that the tables do not.  The first
scenarios of each kind are written to the folder of ``--out``.  Needs Go and the release's modules.

Exit status: 0 nothing differs, 1 something does, 2 it could not be run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from numawise.errors import InputError
from numawise.node.replay import replay
from numawise.rules.versions import profile_of
from tests.release.build import CannotBuild, built
from tests.release.compare import Data, Outcome, Tally, compared, plain, report
from tests.release.scenarios import KINDS, scenario
from tests.release.tables import table_differences


class Managers:
    """The program with a release's managers, asked one scenario after the other."""

    def __init__(self, program: Path) -> None:
        self.running = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, scenario: Data) -> Data:
        assert self.running.stdin is not None
        assert self.running.stdout is not None
        self.running.stdin.write(json.dumps({**scenario, "files": True, "hints": True}).encode() + b"\n")
        self.running.stdin.flush()
        line = self.running.stdout.readline()
        if not line:
            raise CannotBuild(f"the program with the managers ended in scenario {scenario['id']}")
        result: Data = json.loads(line)["result"]
        return result

    def close(self) -> None:
        assert self.running.stdin is not None
        self.running.stdin.close()
        self.running.wait()


def described(program: Path) -> Data:
    """What the release says of its gates, options and fields."""
    told: Data = json.loads(
        subprocess.run([str(program), "-describe"], capture_output=True, check=True).stdout
    )
    return told


def run(program: Path, release: str, first: int, count: int, kinds: Sequence[str]) -> Tally:
    """Compare so many scenarios, from a number on, of each kind in turn."""
    managers, tally = Managers(program), Tally()
    for number in range(first, first + count):
        made = scenario(number, kinds[number % len(kinds)], release)
        tally.add(compared(made, managers, plain(replay(made))))
    managers.close()
    return tally


def write_examples(tally: Tally, out: Path) -> list[Path]:
    """The first scenarios of each kind, each with its differences."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for outcome in (outcome for kept in tally.examples.values() for outcome in kept):
        path = out / f"{outcome.scenario['id']}.json"
        path.write_text(
            json.dumps({"scenario": outcome.scenario, "differences": _lines(outcome)}, indent=1) + "\n"
        )
        written.append(path)
    return written


def _lines(outcome: Outcome) -> list[str]:
    return [str(difference) for difference in outcome.found]


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.release", description="Hold numawise against a release's own managers."
    )
    parser.add_argument("release", help="a version of the Go module k8s.io/kubernetes, such as v1.37.1")
    parser.add_argument("--scenarios", type=int, default=400, help="how many random scenarios (400)")
    parser.add_argument(
        "--first",
        type=int,
        default=0,
        help="number of the first scenario (0); the same number is the same scenario",
    )
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=KINDS, help="what the scenarios are about (all)"
    )
    parser.add_argument(
        "--scratch", type=Path, help="folder to build in, kept for the next time (a temporary one)"
    )
    parser.add_argument("--program", type=Path, help="a program built before, instead of building")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("release-differences"),
        help="folder for scenarios that differ (%(default)s)",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Build, compare, report."""
    given = _arguments(arguments)
    try:
        profile = profile_of(given.release)
        with tempfile.TemporaryDirectory() as temporary:
            program = given.program or built(given.release, given.scratch or Path(temporary))
            if profile.remark:
                sys.stdout.write(f"{profile.remark}\n")
            tally = run(program, given.release, given.first, given.scenarios, given.kinds)
            lines = table_differences(described(program), profile.version)
    except (CannotBuild, InputError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(report(tally, given.release) + "\n")
    for path in write_examples(tally, given.out) if tally.examples else ():
        sys.stdout.write(f"  written: {path}\n")
    sys.stdout.write(f"tables: {len(lines)} differences\n")
    sys.stdout.writelines(f"  {line}\n" for line in lines)
    return 1 if tally.differing or lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

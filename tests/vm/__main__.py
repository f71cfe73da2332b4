# ruff: noqa: T201 - it prints a table
"""Boot each machine once, run the suite in it, and print a table."""

import argparse
import compileall
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ROOT.parent / "shared/tools/numa-vm"
# fmt: off
MACHINES = {
    "2s":         ("v2",      ["--preset", "2s"]),
    "2s4n":       ("v2",      ["--preset", "2s4n"]),
    "cxl":        ("v2",      ["--preset", "cxl"]),
    "memless":    ("v2",      ["--preset", "memless"]),
    "gpu":        ("v2",      ["--preset", "gpu"]),
    "2s-v1":      ("v1",      ["--preset", "2s", "--cgroup", "v1"]),
    "2s-systemd": ("systemd", ["--preset", "2s"]),
}
# fmt: on
SIGNS = {"ok": "ok", "skip": "-", "failed": "FAILED"}
Outcome = tuple[str, str, str, float]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description=__doc__)
    parser.add_argument(
        "machines", nargs="*", metavar="MACHINE", help=f"of {', '.join(MACHINES)} (default: all)"
    )
    parser.add_argument(
        "--vm", default=os.environ.get("NUMAWISE_VM") or str(DEFAULT), help="the program numa-vm"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="checks with this in their name"
    )
    parser.add_argument("--verbose", action="store_true", help="say what each check saw")
    parser.add_argument("--timeout", default="600", help="seconds for a machine (600)")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.machines if name not in MACHINES]
    if unknown:
        parser.error(f"no machine {unknown[0]!r}; there are {', '.join(MACHINES)}")
    if shutil.which(chosen.vm) is None:
        parser.error(f"{chosen.vm} cannot be run; say where numa-vm is with --vm or NUMAWISE_VM")
    return chosen


def boot(vm: str, name: str, only: list[str], timeout: str) -> tuple[list[Outcome], str]:
    """The outcomes on one machine, and what went wrong with the machine itself."""
    kind, options = MACHINES[name]
    suite = [sys.executable, "-m", "tests.vm.suite", kind, *only]
    command = [vm, *options, "--timeout", timeout, "--", *suite]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    outcomes: list[Outcome] = []
    for line in done.stdout.splitlines():
        try:
            outcomes.append(tuple(json.loads(line)))
        except ValueError:
            continue
    broken = done.returncode not in {0, 1} or not outcomes
    return outcomes, done.stderr.strip()[-2000:] or "it said nothing" if broken else ""


def main() -> int:
    chosen = arguments()
    for folder in ("src", "tests"):
        compileall.compile_dir(str(ROOT / folder), quiet=2)
    machines = chosen.machines or list(MACHINES)
    found: dict[str, dict[str, Outcome]] = {}
    problems = []
    for name in machines:
        start = time.monotonic()
        outcomes, problem = boot(chosen.vm, name, chosen.only, chosen.timeout)
        found[name] = {outcome[0]: outcome for outcome in outcomes}
        problems += [f"{name}: {problem}"] if problem else []
        print(
            f"{name}: {len(outcomes)} checks in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True
        )
    print(table(found))
    for name, outcomes in found.items():
        for check, outcome, said, took in outcomes.values():
            if outcome == "failed" or chosen.verbose:
                print(f"\n{name}: {check}: {outcome} ({took} s)\n{said.strip()}")
    print(*problems, sep="\n")
    failed = problems or any(each[1] == "failed" for outcomes in found.values() for each in outcomes.values())
    return int(bool(failed))


def table(found: dict[str, dict[str, Outcome]]) -> str:
    checks = list(dict.fromkeys(check for outcomes in found.values() for check in outcomes))
    width = max(map(len, checks), default=0)
    lines = [" ".join(["".ljust(width), *(name.rjust(10) for name in found)])]
    for check in checks:
        cells = (SIGNS[outcomes[check][1]] if check in outcomes else "" for outcomes in found.values())
        lines.append(" ".join([check.ljust(width), *(cell.rjust(10) for cell in cells)]))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

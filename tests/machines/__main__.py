"""``python -m tests.machines DIR``: check all recorded machines below a folder."""

import sys
from pathlib import Path

from tests.machines import sets

SHOWN_CASES, SHOWN_DIFFERENCES = 5, 3
USAGE = "usage: python -m tests.machines DIR    (a folder with sysfs/, nvidia-topo/, …)"


def main(arguments: list[str]) -> int:
    """Print, per set, how many cases agree and the first differences; 0 when all do."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        sys.stderr.write(USAGE + "\n")
        return 2
    folder = Path(arguments[0])
    present = {name: checks for name, checks in sets().items() if (folder / name).is_dir()}
    if not present:
        sys.stderr.write(f"{folder}: none of {', '.join(sets())} here\n")
        return 2
    all_agree = True
    for name, checks in present.items():
        results = list(checks.cases(folder / name))
        wrong = [(case, differences) for case, differences in results if differences]
        _print(f"{name}: {len(results) - len(wrong)} of {len(results)} cases agree")
        for case, differences in wrong[:SHOWN_CASES]:
            _print(f"  {case}: {len(differences)} differences")
            for difference in differences[:SHOWN_DIFFERENCES]:
                _print(f"    {difference}")
        all_agree = all_agree and bool(results) and not wrong
    return 0 if all_agree else 1


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

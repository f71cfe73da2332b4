"""Print a constraint file for pip: every dependency of pyproject.toml, extras included, at its lower end."""

import re
import sys
import tomllib
from pathlib import Path

RANGE = re.compile(r"([A-Za-z0-9._-]+)>=([0-9.]+),<([0-9.]+)")


def ranges(text: str) -> dict[str, tuple[str, str]]:
    """Dependency → the first version that is good, and the first that is not known to be."""
    project = tomllib.loads(text)["project"]
    listed = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        listed += extra
    found = [(word, RANGE.fullmatch(word)) for word in listed]
    loose = [word for word, match in found if match is None]
    if loose:
        sys.exit(f"pyproject.toml: {loose[0]} has not the form NAME>=LOWEST,<UPPER")
    return {match[1]: (match[2], match[3]) for _, match in found if match}


if __name__ == "__main__":
    lines = [f"{name}=={low}\n" for name, (low, _) in ranges(Path("pyproject.toml").read_text()).items()]
    sys.stdout.writelines(lines)

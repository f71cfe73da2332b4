"""Every recipe of the page, played: its ranks are bound, apart from each other, and near to their GPUs.

Only with ``-m recipes`` (``make recipes``), in the environment that ``scripts/recipes`` has made.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.recipes.page import recipes
from tests.recipes.plays import NOT_PLAYED, PLAYS
from tests.recipes.stage import PATIENCE, stage_here

ROOT = Path(__file__).parents[2]
VM = os.environ.get("RECIPES_VM") or str(ROOT.parent / "shared/tools/numa-vm")
GUEST = [name for name, play in PLAYS.items() if play.guest]


def installed(name: str) -> None:
    if not shutil.which(PLAYS[name].program):
        pytest.skip(f"{PLAYS[name].program} is not installed")


def test_every_recipe_is_played_or_it_is_said_why_not() -> None:
    assert set(recipes()) == {play.title for play in PLAYS.values()} | set(NOT_PLAYED)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: Ray's sockets lie below it, and their names must not be long."""
    with tempfile.TemporaryDirectory(prefix="nw-", dir="/tmp", ignore_cleanup_errors=True) as place:
        yield Path(place)


@needs.MOUNTS
@needs.SYS
@pytest.mark.parametrize("name", PLAYS)
def test_here(name: str, folder: Path) -> None:
    installed(name)
    sys.stdout.write(PLAYS[name].played(folder, stage_here()))


@pytest.fixture(scope="session")
def guest() -> dict[str, tuple[str, str]]:
    """What came of all recipes on a machine with two NUMA nodes."""
    if not shutil.which(VM):
        pytest.skip(f"{VM} cannot be run: say where numa-vm is with RECIPES_VM")
    names = [name for name in GUEST if shutil.which(PLAYS[name].program)]
    shape = ["--sockets", "2", "--cores", "4", "--threads", "2", "--nodes", "2", "--node-mem", "2500M"]
    command = [VM, *shape, "--timeout", str(len(names) * int(PATIENCE))]
    command += [
        "--env",
        f"PATH={os.environ['PATH']}",
        "--",
        sys.executable,
        "-m",
        "tests.recipes.stage",
        "/tmp/recipes",
    ]
    done = subprocess.run([*command, *names], cwd=ROOT, capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("["):
            name, result, text = json.loads(line)
            found[name] = (result, text)
    assert found, done.stdout + done.stderr
    return found


@pytest.mark.parametrize("name", GUEST)
def test_on_two_numa_nodes(name: str, guest: dict[str, tuple[str, str]]) -> None:
    installed(name)
    assert name in guest, f"the machine ended before it: {sorted(guest)} were played"
    result, text = guest[name]
    assert result == "ok", text
    sys.stdout.write(text)

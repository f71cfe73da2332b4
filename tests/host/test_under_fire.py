"""Many runs at once, and runs that are killed: in short; ``python -m tests.host.under_fire`` does it at length."""

import shutil
import tempfile
from pathlib import Path

import pytest
from tests import needs
from tests.host.under_fire import crash, line, parallel

pytestmark = [needs.PROC, pytest.mark.skipif(not shutil.which("flock"), reason="needs flock of util-linux")]


def test_two_hundred_at_once_from_twenty_processes(tmp_path: Path) -> None:
    assert parallel(tmp_path, processes=20, times=10) == []


@pytest.mark.parametrize("mode", ["", "affinity"])
def test_killed_at_random_points(tmp_path: Path, mode: str) -> None:
    assert crash(tmp_path, times=40, seed=1, mode=mode) == []


def test_two_users_in_line_and_kills_among_them() -> None:
    with tempfile.TemporaryDirectory() as name:  # the tests' own folder is for its owner alone
        assert line(Path(name), starts=8, kills=6, seed=1) == []

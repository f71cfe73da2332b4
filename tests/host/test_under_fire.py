"""Many runs at once, and runs that are killed: in short; ``python -m tests.host.under_fire`` does it at length."""

import shutil
from pathlib import Path

import pytest
from tests import needs
from tests.host.under_fire import crash, parallel

pytestmark = [needs.PROC, pytest.mark.skipif(not shutil.which("flock"), reason="needs flock of util-linux")]


def test_two_hundred_at_once_from_twenty_processes(tmp_path: Path) -> None:
    assert parallel(tmp_path, processes=20, times=10) == []


@pytest.mark.parametrize("mode", ["", "affinity"])
def test_killed_at_random_points(tmp_path: Path, mode: str) -> None:
    assert crash(tmp_path, times=40, seed=1, mode=mode) == []

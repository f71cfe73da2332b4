"""The ledger beside kills, crowds and full disks, in processes of their own on the real kernel.

Longer: ``python -m tests.ledger.crash --times 500``, ``python -m tests.ledger.parallel --processes 50``.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.waiting import PATIENCE

pytestmark = needs.PROC
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("arguments", "words"), [
    ("crash --times 60",  "60 kills"),
    ("parallel",          "20 processes, 10 changes each: all recorded once"),
    ("full_disk tmpfs",   "none by halves"),
    ("full_disk limit",   "none by halves"),
])  # fmt: skip
def test_under_fire(arguments: str, words: str) -> None:
    module, *rest = arguments.split()
    done = subprocess.run(
        [sys.executable, "-m", f"tests.ledger.{module}", *rest],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert (done.returncode, done.stderr) == (0, "")
    assert words in done.stdout

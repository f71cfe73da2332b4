"""An answer is the same, to the byte, whoever asks at the same time and whatever the interpreter hashes by."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest


def answers(threads: int, seed: int) -> Any:
    command = [sys.executable, "-m", "tests.web.together", str(threads), str(seed)]
    surroundings = {**os.environ, "PYTHONHASHSEED": str(seed)}
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=surroundings).stdout)


@pytest.mark.parametrize("seed", range(2, 5))
def test_answers_are_those_of_one_caller(seed: int) -> None:
    alone, together = answers(1, 1), answers(6, seed)
    assert [call for call, answer in alone if answer is None or answer[0] != 200] == []
    assert [call for (call, one), (_, other) in zip(alone, together, strict=True) if one != other] == []

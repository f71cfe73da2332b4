"""Ranks with the variables that real launchers gave to theirs: each is bound as the rank it is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import needs

from numawise.apps.launch.bind import start
from numawise.apps.launch.frame import BindOptions, Prepared, prepare
from numawise.host.discover import read_live
from numawise.machine.locality import whole_gpus
from numawise.sets import format_ids

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "tests" / "recipes"
RECORDED: dict[str, Any] = json.loads((RECIPES / "recorded" / "launchers.json").read_text())
PLAIN = ("PATH", "HOME", "LANG")


def test_all_launchers_of_the_page_are_recorded() -> None:
    assert set(RECORDED) == {"torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec.hydra", "ray"}
    assert all(len(launcher["ranks"]) == 2 for launcher in RECORDED.values())


@pytest.mark.parametrize("launcher", RECORDED)
def test_ranks_on_a_machine_with_two_gpus(launcher: str) -> None:
    """A GPU on each NUMA node: each rank is on the node of its own, with all of its cores."""
    options = BindOptions(machine=("2s 2n 8c 2t 2gpu",))
    found = []
    for number, variables in enumerate(RECORDED[launcher]["ranks"]):
        prepared = prepare(options, variables, all_ranks=False)
        assert isinstance(prepared, Prepared)
        assert (prepared.rank, prepared.size) == (number, 2)
        bound = start(prepared, options, variables)
        found.append((format_ids(bound.share.cpus), format_ids(bound.share.mems)))
        assert bound.environment["OMP_NUM_THREADS"] == "4"
        assert bound.environment.get("CUDA_VISIBLE_DEVICES") == variables.get("CUDA_VISIBLE_DEVICES")
    assert found == [("0-3,8-11", "0"), ("4-7,12-15", "1")]


@needs.PROC
@needs.SYS
@pytest.mark.parametrize("launcher", [name for name in RECORDED if name != "ray"])  # Ray's workers go by GPUs
def test_ranks_here(launcher: str, tmp_path: Path) -> None:
    """The real kernel: the ranks run on CPUs of their own where the machine has two cores."""
    if whole_gpus(read_live()):
        pytest.skip("this machine has GPUs, and the ranks' CPUs depend on them")
    for variables in RECORDED[launcher]["ranks"]:
        plain = {name: os.environ[name] for name in PLAIN if name in os.environ}
        done = subprocess.run(
            [sys.executable, "-m", "numawise", "bind", "--", sys.executable, RECIPES / "train.py"],
            env={**plain, **variables, "REPORTS": str(tmp_path), "NUMAWISE_LEDGER": str(tmp_path / "ledger")},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    first, second = (json.loads(file.read_text()) for file in sorted(tmp_path.glob("*.json")))
    allowed = os.sched_getaffinity(0)
    assert set(first["cpus"]) <= allowed
    assert set(second["cpus"]) <= allowed
    if "OMP_PLACES" in first["environment"]:  # it has its CPUs alone
        assert not set(first["cpus"]) & set(second["cpus"])
    else:
        assert first["cpus"] == second["cpus"]

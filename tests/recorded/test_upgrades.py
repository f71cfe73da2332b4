"""Recordings of the same scenarios by several releases: those said to differ are those that differ, and why."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from numawise.compare.recorded import compare_scenario
from numawise.rules.versions import parse_version
from tests.upgrades import compared, recordings, releases_in

ROOT = Path(__file__).parents[2]
HERE = ROOT / "tests" / "recorded" / "versions"
PAIRS = list(itertools.pairwise(releases_in(HERE)))
DIFFER = {
    ("1.20", "1.27"): 25,
    ("1.27", "1.31"): 8,
    ("1.31", "1.34"): 12,
    ("1.34", "1.35"): 0,
    ("1.35", "1.37"): 25,
}


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_exactly_those_that_differ_are_named(pair: tuple[str, str]) -> None:
    rows = list(compared(HERE, *pair))
    assert {name for name, recorded, _ in rows if recorded} == {name for name, _, ours in rows if ours}
    assert sum(ours for _, _, ours in rows) == DIFFER[pair]


@pytest.mark.parametrize(("pair", "name", "step", "aspect", "reasons"), [
    (("1.20", "1.27"), "quirk-offline-thread",          0, "runtime",         ["cpus_in_settled_order"]),
    (("1.20", "1.27"), "doc-28cpu-restricted-3c3g",     0, "admitted",        ["preferred_needs_equal_masks"]),
    (("1.27", "1.31"), "quirk-rejected-leftovers-none", 0, "message",         ["says_how_many_cpus"]),
    (("1.31", "1.34"), "quirk-cross-node-memory",       5, "admitted",        ["memory_keeps_groups"]),
    (("1.35", "1.37"), "quirk-device-nodes-only",       0, "hint_rounds",     ["device_hints_over_hosting_nodes"]),
    (("1.35", "1.37"), "quirk-restart-full-pcpus",      1, "admitted",        ["smt_check_before_record"]),
])  # fmt: skip
def test_reasons(pair: tuple[str, str], name: str, step: int, aspect: str, reasons: list[str]) -> None:
    old, new = (recordings(HERE, release)[name]["scenario"] for release in pair)
    found = compare_scenario(old, new, (parse_version(pair[0]), parse_version(pair[1])))
    assert found is not None
    assert (found.step, found.aspect, [reason.name for reason in found.reasons]) == (step, aspect, reasons)


def upgrades(*arguments: object) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "tests.upgrades", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def test_the_program_says_so() -> None:
    status, told, _ = upgrades(HERE, "1.34", "1.35")
    assert status == 0
    assert told == "1.34 → 1.35: 172 shared, 0 differ, 0 of these named, 0 others named\n"


def test_the_program_wants_recordings(tmp_path: Path) -> None:
    for arguments in ([tmp_path], [tmp_path / "none"], [], [HERE, "1.34", "1.36"]):
        status, _, complaint = upgrades(*arguments)
        assert status == 2
        assert complaint.startswith("no recordings of two releases in ")

"""What control groups and the machine say about the OOM killer."""

from pathlib import Path

import pytest

from numawise.host.oom import OomKills, machine_oom_kills, read_oom_kills

V2 = "low 0\nhigh 0\nmax {max}\noom {oom}\noom_kill {kills}\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"


@pytest.mark.parametrize(("files", "expected"), [
    pytest.param({"memory.events": V2.format(max=9, oom=2, kills=1)}, OomKills(1, at_limit=True), id="at the limit"),
    pytest.param({"memory.events": V2.format(max=0, oom=0, kills=1)}, OomKills(1, at_limit=False), id="elsewhere"),
    pytest.param({"memory.events": V2.format(max=9, oom=0, kills=0)}, OomKills(0, at_limit=False), id="not at all"),
    pytest.param({"memory.oom_control": V1.format(kills=2), "memory.failcnt": "7"}, OomKills(2, at_limit=True), id="version 1"),
    pytest.param({"memory.oom_control": V1.format(kills=1), "memory.failcnt": "0", "memory.memsw.failcnt": "3"},
                 OomKills(1, at_limit=True), id="version 1, with swap"),
    pytest.param({"memory.oom_control": V1.format(kills=1), "memory.failcnt": "0", "memory.max_usage_in_bytes": "62914560",
                  "memory.limit_in_bytes": "62914560"}, OomKills(1, at_limit=True), id="version 1 that counts no failures"),
    pytest.param({"memory.oom_control": V1.format(kills=1), "memory.failcnt": "0", "memory.max_usage_in_bytes": "62914560",
                  "memory.limit_in_bytes": "9223372036854771712"}, OomKills(1, at_limit=False), id="version 1, no limit"),
    pytest.param({"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"}, None, id="an old kernel"),
    pytest.param({}, None, id="no group"),
])  # fmt: skip
def test_what_a_group_says(tmp_path: Path, files: dict[str, str], expected: OomKills | None) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert read_oom_kills([f"{tmp_path}/other", str(tmp_path)]) == expected


def test_the_machine(tmp_path: Path) -> None:
    assert machine_oom_kills(tmp_path) == 0
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/vmstat").write_text("pgfault 7\noom_kill 5\ndrop_pagecache 0\n")
    assert machine_oom_kills(tmp_path) == 5

"""Settings of the host: whose word counts."""

import os
from pathlib import Path

import pytest

from numawise.errors import InputError
from numawise.host.settings import read_settings


def written(root: Path, text: str) -> Path:
    file = root / "etc/numawise/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return root


@pytest.mark.parametrize(("uid", "system", "variable", "kept", "remarks"), [
    (1001, 'reserved-cpus = "0-1"', "none", "0-1",  1),
    (1001, 'reserved-cpus = "0-1"', "0-1",  "0-1",  0),
    (1001, 'reserved-cpus = "0-1"', "",     "0-1",  0),
    (1001, "",                      "none", "none", 0),
    (0,    'reserved-cpus = "0-1"', "none", "none", 0),
])  # fmt: skip
def test_what_the_administrator_keeps_is_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    uid: int,
    system: str,
    variable: str,
    kept: str,
    remarks: int,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    found = read_settings({"NUMAWISE_RESERVED_CPUS": variable}, written(tmp_path, system))
    assert (found.reserved_cpus, len(found.remarks)) == (kept, remarks)
    assert all("is not used: reserved-cpus is 0-1 for all users" in text for text in found.remarks)


def test_a_users_file_keeps_no_cpus(tmp_path: Path) -> None:
    (tmp_path / "numawise").mkdir()
    (tmp_path / "numawise/config.toml").write_text('reserved-cpus = "none"')
    with pytest.raises(InputError, match=r"unknown setting 'reserved-cpus'.*for the whole machine"):
        read_settings({"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path)

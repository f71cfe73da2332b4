"""Settings of the host: whose word counts."""

import os
import re
from pathlib import Path

import pytest

from numawise.errors import InputError
from numawise.host.settings import BOX_FILE, SYSTEM_FILE, HostSettings, read_settings
from tests import needs

US = {os.geteuid()}


def written(root: Path, text: str, name: str = SYSTEM_FILE) -> Path:
    file = root / name
    file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    file.parent.chmod(0o755)
    file.write_text(text)
    file.chmod(0o644)
    return root


def settings(root: Path, **environment: str) -> HostSettings:
    return read_settings(environment, root, US)


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
    found = settings(written(tmp_path, system), NUMAWISE_RESERVED_CPUS=variable)
    assert (found.reserved_cpus, len(found.remarks)) == (kept, remarks)
    assert all("is not used: reserved-cpus is 0-1 for all users" in text for text in found.remarks)


def test_a_users_file_keeps_no_cpus(tmp_path: Path) -> None:
    (tmp_path / "numawise").mkdir()
    (tmp_path / "numawise/config.toml").write_text('reserved-cpus = "none"')
    with pytest.raises(InputError, match=r"unknown setting 'reserved-cpus'.*for the whole machine"):
        read_settings({"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path)


@pytest.mark.parametrize(("box", "system", "fenced", "group"), [
    ("fence-gpus = true",                     None,                 True,  ""),
    ("fence-gpus = false",                    None,                 False, ""),
    ("",                                      None,                 False, ""),
    (None,                                    "fence-gpus = true",  True,  ""),
    ('fence-gpus = true\ngroup = "gpu-users"', "fence-gpus = false", False, "gpu-users"),
])  # fmt: skip
def test_what_the_box_was_set_up_with(
    tmp_path: Path, *, box: str | None, system: str | None, fenced: bool, group: str
) -> None:
    """The administrator's own file wins over the one that setup wrote."""
    for name, text in ((BOX_FILE, box), (SYSTEM_FILE, system)):
        if text is not None:
            written(tmp_path, text, name)
    found = settings(tmp_path)
    assert (found.fence_gpus, found.group, found.remarks) == (fenced, group, ())


@pytest.mark.parametrize("key", ["fence-gpus = false", 'group = "mine"'])
def test_a_user_unfences_nothing(tmp_path: Path, key: str) -> None:
    (tmp_path / "numawise").mkdir()
    (tmp_path / "numawise/config.toml").write_text(key)
    with pytest.raises(InputError, match=r"unknown setting.*for the whole machine"):
        settings(tmp_path, XDG_CONFIG_HOME=str(tmp_path))


@pytest.mark.parametrize(("text", "message"), [
    ('fence-gpus = "yes"', "'yes' is not true or false"),
    ("fence-gpus = 1",     "1 is not true or false"),
    ("ledger = true",      "True is not text"),
    ("fence = true",       "unknown setting 'fence'"),
    ("fence-gpus",         "is not valid TOML"),
    ("#" * 70_000,         "is larger than 65536 bytes"),
    ("\0",                 "is not valid TOML"),
])  # fmt: skip
def test_a_setting_that_cannot_be_understood(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        settings(written(tmp_path, text, BOX_FILE))
    assert "box.toml" in str(caught.value)


@pytest.mark.parametrize(("what", "message"), [
    ("file of all",    "others than root may write .*box.toml"),
    ("file of group",  "others than root may write .*box.toml"),
    ("folder of all",  "others than root may write .*etc/numawise "),
    ("FIFO",           "it is not a plain file"),
    ("folder",         "it is not a plain file"),
])  # fmt: skip
def test_settings_that_others_could_have_written_are_named_and_not_used(
    tmp_path: Path, what: str, message: str
) -> None:
    file = written(tmp_path, "fence-gpus = true", BOX_FILE) / BOX_FILE
    if what == "file of all":
        file.chmod(0o646)
    elif what == "file of group":
        file.chmod(0o664)
    elif what == "folder of all":
        file.parent.chmod(0o757)
    else:
        file.unlink()
        os.mkfifo(file) if what == "FIFO" else file.mkdir()
    found = settings(tmp_path)
    assert not found.fence_gpus
    (remark,) = found.remarks
    assert re.search(f"the settings in .*box.toml are not used: {message}", remark)


@needs.ROOT
@pytest.mark.parametrize("name", [BOX_FILE, "etc/numawise"])
def test_settings_of_another_user_are_not_used(tmp_path: Path, name: str) -> None:
    os.chown(written(tmp_path, "fence-gpus = true", BOX_FILE) / name, 51001, 51001)
    found = read_settings({}, tmp_path)
    assert not found.fence_gpus
    assert "belongs to uid 51001, not to root" in found.remarks[0]

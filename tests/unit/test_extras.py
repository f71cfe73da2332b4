"""How an extra is installed: from what this installation was made of, and never from an index by a name."""

import importlib.metadata
import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from numawise import extras
from numawise.errors import MissingExtra
from numawise.extras import how_to_install, needed

ROOT = Path(__file__).parents[2]
ELSEWHERE = "in the folder of numawise's sources: pip install '.[kube]'; in that of its wheel: "


class Installed:
    """A package as an installer has left it."""

    def __init__(self, record: str | None, folder: Path) -> None:
        self.record, self.folder = record, folder

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.record

    def locate_file(self, name: str) -> Path:
        return self.folder / name


def said(monkeypatch: pytest.MonkeyPatch, folder: Path, record: object) -> str:
    text = record if isinstance(record, str | None) else json.dumps(record)
    monkeypatch.setattr(extras, "distribution", lambda _: Installed(text, folder))
    monkeypatch.setattr(sys, "executable", "/opt/my venv/bin/python")
    return how_to_install("kube")


def test_from_the_folder_or_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, wheel = tmp_path / "my sources", tmp_path / "numawise-1-py3-none-any.whl"
    folder.mkdir()
    wheel.touch()
    of_folder = {"url": folder.as_uri(), "dir_info": {}}
    pip = "install it: '/opt/my venv/bin/python' -m pip install "
    assert said(monkeypatch, tmp_path, of_folder) == f"{pip}'{folder}[kube]'"
    of_folder["dir_info"] = {"editable": True}
    assert said(monkeypatch, tmp_path, of_folder) == f"{pip}--editable '{folder}[kube]'"
    assert said(monkeypatch, tmp_path, {"url": wheel.as_uri(), "archive_info": {}}) == f"{pip}'{wheel}[kube]'"


@pytest.mark.parametrize(
    "record",
    [
        None,
        "",
        "{",
        "[]",
        "7",
        {},
        {"url": 7},
        {"url": "https://example.com/numawise.git", "vcs_info": {}},
        {"url": "https://user:word@example.com/numawise-1-py3-none-any.whl"},
        {"url": "file://example.com/tmp"},
        {"url": "file:relative"},
        {"url": "file:///none/there"},
        {"url": "file:///tmp%00"},
        {"url": "file:///tmp", "dir_info": []},
    ],
)
def test_what_is_not_there(record: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = said(monkeypatch, tmp_path, record)
    assert text.startswith(ELSEWHERE)
    assert "word@" not in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_what_a_stranger_has_put_there_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "numawise-1-py3-none-any.whl"
    wheel.touch()
    os.chown(wheel, 4711, 4711)
    assert said(monkeypatch, tmp_path, {"url": wheel.as_uri()}).startswith(ELSEWHERE)
    own = tmp_path / "own"
    own.mkdir()
    os.chown(own, 4711, 4711)
    assert str(wheel) in said(monkeypatch, own, {"url": wheel.as_uri()}), "the owner of the installation"


def test_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: str) -> None:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(extras, "distribution", none)
    assert how_to_install("kube").startswith(ELSEWHERE)


def test_all_is_every_extra_that_is_run() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert sorted(listed["all"]) == sorted(
        {word for name in ("agent", "cluster", "kube", "web") for word in listed[name]}
    )


def test_what_a_library_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needed("kube", "json", "re")
    monkeypatch.setitem(sys.modules, "colorsys", None)
    with pytest.raises(MissingExtra, match=r"^colorsys is not installed, which comes with the extra kube; "):
        needed("kube", "json", "colorsys")

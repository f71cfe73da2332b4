"""A program for root's timer: whatever others can change of it, or of what it imports, is found and named."""

import os
from pathlib import Path

import pytest

from numawise.apps.setup.program import changeable, program_problem
from tests import needs

TRUSTED = {0, os.geteuid()}


class Installation:
    """An environment below a folder, as ``python -m venv`` makes it, with a link to its program."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.site = root / "opt/env/lib/python3.12/site-packages"
        self.library = root / "usr/lib/python3.12"
        for name, text in (
            ("opt/env/bin/numawise", f"#!{root}/opt/env/bin/python\n"),
            ("opt/env/pyvenv.cfg", f"home = {root}/usr/bin\ninclude-system-site-packages = false\n"),
            ("opt/env/lib/python3.12/site-packages/numawise/__init__.py", ""),
            ("opt/env/lib/python3.12/site-packages/numawise/data/codes.toml", ""),
            ("opt/env/lib/python3.12/site-packages/click/core.py", ""),
            ("opt/env/lib/python3.12/site-packages/more.pth", f"# more\n../plain\nimport sys; sys.path.append('{root}/srv/said')\n"),
            ("opt/env/lib/python3.12/site-packages/__editable___x_finder.py", f"MAPPING = {{'x': '{root}/srv/x'}}\n"),
            ("opt/env/lib/python3.12/plain/plain.py", ""),
            ("srv/said/said.py", ""),
            ("srv/x/__init__.py", ""),
            ("srv/linked.py", ""),
            ("usr/bin/python3.12", ""),
            ("usr/lib/python3.12/os.py", ""),
            ("usr/lib/python3.12/lib-dynload/_ssl.so", ""),
            ("usr/lib/python3.12/site-packages/other.py", ""),
            ("usr/lib/libpython3.12.so.1", ""),
            ("usr/local/links/aside", ""),
        ):  # fmt: skip
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for folder in (root, *root.rglob("*")):
            folder.chmod(0o755)
        (root / "opt/env/bin/python").symlink_to("python3")
        (root / "opt/env/bin/python3").symlink_to(root / "usr/bin/python3.12")
        (self.site / "linked.py").symlink_to(root / "srv/linked.py")
        (root / "usr/local/bin").mkdir(mode=0o755)
        self.program = root / "usr/local/bin/numawise"
        self.program.symlink_to("../links/numawise")
        (root / "usr/local/links/numawise").symlink_to("../../../opt/env/bin/numawise")

    def problem(self) -> str:
        return program_problem(str(self.program), TRUSTED)


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "system")


def test_what_only_root_can_change_is_run(installation: Installation) -> None:
    assert installation.problem() == ""


@pytest.mark.parametrize("name", [
    "usr/local/bin",
    "usr/local/links",
    "opt/env",
    "opt/env/bin/numawise",
    "opt/env/bin",
    "opt/env/pyvenv.cfg",
    "opt/env/lib/python3.12/site-packages",
    "opt/env/lib/python3.12/site-packages/numawise/data/codes.toml",
    "opt/env/lib/python3.12/site-packages/click",
    "opt/env/lib/python3.12/site-packages/click/core.py",
    "opt/env/lib/python3.12/site-packages/more.pth",
    "opt/env/lib/python3.12/plain/plain.py",
    "srv/said",
    "srv/said/said.py",
    "srv/x/__init__.py",
    "srv/linked.py",
    "usr/bin/python3.12",
    "usr/lib/python3.12/os.py",
    "usr/lib/python3.12/lib-dynload",
    "usr/lib/libpython3.12.so.1",
])  # fmt: skip
@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_what_others_may_write_is_named(installation: Installation, name: str, bits: int) -> None:
    place = installation.root / name
    place.chmod(0o755 | bits)
    assert installation.problem() == f"others than root may write {place}, and could change what root runs"


@needs.ROOT
@pytest.mark.parametrize("name", [
    "usr/local/links/numawise", "opt/env/bin/python3", "opt/env/lib/python3.12/site-packages/linked.py",
    "opt/env/lib/python3.12/site-packages/click/core.py", "usr/lib/python3.12/os.py", "srv/x",
])  # fmt: skip
def test_what_belongs_to_somebody_is_named(installation: Installation, name: str) -> None:
    os.chown(installation.root / name, 51001, 51001, follow_symlinks=False)
    assert (
        installation.problem()
        == f"{installation.root / name} belongs to uid 51001, who could change what root runs"
    )


@pytest.mark.parametrize(("name", "loose"), [
    ("usr/local/links",                       False),
    ("opt/env/bin",                           True),
    ("opt/env/lib/python3.12/site-packages",  True),
    ("srv/said",                              True),
    ("srv",                                   False),
])  # fmt: skip
def test_the_sticky_bit_keeps_what_is_there_and_keeps_out_nothing_new(
    installation: Installation,
    name: str,
    loose: bool,  # noqa: FBT001 - a column
) -> None:
    (installation.root / name).chmod(0o1777)
    assert bool(installation.problem()) == loose


@pytest.mark.parametrize("system", [False, True])
def test_packages_of_the_system_count_where_they_are_imported(
    installation: Installation, *, system: bool
) -> None:
    (installation.library / "site-packages/other.py").chmod(0o777)
    settings = installation.root / "opt/env/pyvenv.cfg"
    settings.write_text(settings.read_text().replace("false", str(system).lower()))
    assert ("other.py" in installation.problem()) == system


def test_an_interpreter_in_the_second_line(installation: Installation) -> None:
    """As pip writes it where the interpreter's path is long."""
    text = f"#!/bin/sh\n'''exec' {installation.root}/opt/env/bin/python \"$0\" \"$@\"\n"
    (installation.root / "opt/env/bin/numawise").write_text(text)
    assert installation.problem() == ""
    (installation.library / "os.py").chmod(0o777)
    assert "os.py" in installation.problem()


def test_links_that_go_round(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert changeable(str(tmp_path / "a"), TRUSTED) == f"{tmp_path}/a leads through too many links"
    assert (
        changeable(str(tmp_path / "gone/x"), TRUSTED)
        == f"{tmp_path}/gone cannot be looked at (No such file or directory)"
    )


def test_folders_that_lead_to_themselves(installation: Installation) -> None:
    (installation.site / "click/again").symlink_to("..")
    assert installation.problem() == ""

"""``setup``: what it writes into a system, what it leaves alone, and what it takes back."""

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from numawise.apps.setup.design import BoxFacts, BoxWish, design
from numawise.host.settings import read_settings
from tests import needs
from tests.cli.run import Ran, program

UNITS = "etc/systemd/system"
RECORD = "etc/numawise/setup.json"
SETTINGS = "etc/numawise/box.toml"
LEDGER = "var/lib/numawise"
WRITTEN = {
    SETTINGS,
    "etc/tmpfiles.d/numawise.conf",
    f"{UNITS}/user@.service.d/numawise.conf",
    f"{UNITS}/numawise-reap.service",
    f"{UNITS}/numawise-reap.timer",
    f"{UNITS}/timers.target.wants/numawise-reap.timer",
    "usr/local/share/bash-completion/completions/numawise",
    "usr/local/share/zsh/site-functions/_numawise",
    "etc/fish/completions/numawise.fish",
}


class System:
    """A small system below a folder, with systemd installed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("usr/lib/systemd/system", "etc", "var/lib", "opt/bin"):
            (root / folder).mkdir(parents=True)
        for folder in (root, *root.rglob("*")):
            folder.chmod(0o755)
        (root / "etc/group").write_text("root:x:0:\nold:x:77:ada\n")
        self.program = root / "opt/bin/numawise"
        self.program.write_text("#!/bin/sh\n")
        self.program.chmod(0o755)

    def setup(self, *words: str) -> Ran:
        named = () if "--undo" in words or "--program" in words else ("--program", str(self.program))
        return program("setup", "--root", str(self.root), *named, *words)

    def tree(self) -> dict[str, str]:
        """Everything that lies there, links and folders included."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if path.is_symlink():
                found[name] = f"-> {path.readlink()}"
            elif path.is_dir():
                found[name] = f"folder {stat.S_IMODE(path.stat().st_mode):o}"
            elif path.is_file():
                found[name] = path.read_text()
            else:
                found[name] = "something else"
        return found

    def files(self) -> set[str]:
        return {name for name, text in self.tree().items() if not text.startswith("folder")}


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path / "system")


def test_what_it_writes(system: System) -> None:
    before = system.files()
    ran = system.setup("--fence-gpus")
    assert (ran.status, "done" in ran.err) == (0, True)
    assert system.files() - before == WRITTEN | {RECORD}
    assert system.tree()[LEDGER] == "folder 1777"
    settings = read_settings({}, system.root, {os.geteuid()})
    assert (settings.box_ledger, settings.fence_gpus, settings.remarks) == ("/var/lib/numawise", True, ())
    service = system.tree()[f"{UNITS}/numawise-reap.service"]
    assert f"ExecStart={system.program} reap\n" in service
    assert system.tree()[f"{UNITS}/timers.target.wants/numawise-reap.timer"] == "-> ../numawise-reap.timer"
    assert system.tree()["usr/local/share/zsh/site-functions/_numawise"].startswith("#compdef numawise\n")
    for name in WRITTEN - {f"{UNITS}/timers.target.wants/numawise-reap.timer"}:
        assert stat.S_IMODE((system.root / name).stat().st_mode) == 0o644, name


def test_all_can_read_it_whatever_the_mask_of_root(system: System) -> None:
    mask = os.umask(0o077)
    try:
        assert system.setup().status == 0
    finally:
        os.umask(mask)
    for name in (SETTINGS, RECORD):
        assert (system.root / name).stat().st_mode & 0o777 == 0o644
    assert (system.root / "etc/numawise").stat().st_mode & 0o777 == 0o755


def test_a_dry_run_shows_exactly_what_is_written(system: System) -> None:
    before = system.tree()
    shown = system.setup("--dry-run", "--fence-gpus")
    assert (shown.status, system.tree()) == (0, before)
    system.setup("--fence-gpus")
    for name in WRITTEN:
        text = system.tree()[name]
        if text.startswith("-> "):
            assert f"ln -s {text[3:]} {system.root / name}\n" in shown.out
        else:
            lines = "".join(f"  {line}\n" for line in text.splitlines())
            assert f"write {system.root / name}\n{lines}" in shown.out
    assert f"install -d -m 1777 -o root -g root {system.root / LEDGER}\n" in shown.out


def test_again_changes_nothing(system: System) -> None:
    system.setup("--fence-gpus")
    before = system.tree()
    ran = system.setup()
    assert (ran.status, "there is nothing to do" in ran.err) == (0, True)
    assert system.tree() == before, "options that are not given stay as they were"
    assert ran.out.count("as it should be: ") == len(WRITTEN) + 1
    system.setup("--no-fence-gpus")
    assert "fence-gpus = false\n" in system.tree()[SETTINGS]


def test_undo_takes_back_all_of_it_and_nothing_else(system: System) -> None:
    before = system.tree()
    system.setup("--fence-gpus")
    system.setup("--no-fence-gpus")
    shown = system.setup("--undo", "--dry-run")
    assert f"rm {system.root / SETTINGS}\n" in shown.out
    assert RECORD in system.files()
    assert system.setup("--undo").status == 0
    assert system.tree() == before
    ran = system.setup("--undo")
    assert (ran.status, ran.out) == (0, "")
    assert "nothing to take back" in ran.err


@pytest.mark.parametrize("name", sorted(WRITTEN))
@pytest.mark.parametrize("what", ["file", "link", "folder", "FIFO"])
def test_what_is_in_the_way_is_named_and_left_alone(system: System, name: str, what: str) -> None:
    place = system.root / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if what == "file":
        place.write_text("theirs\n")
    elif what == "link":
        place.symlink_to("/nonexistent")
    elif what == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    before = system.tree()
    ran = system.setup()
    assert ran.status == 1
    assert f"{place} is left alone: " in ran.err
    assert {key: system.tree()[key] for key in before} == before
    assert system.files() >= WRITTEN - {name}, "the rest is done"
    assert system.setup("--undo").status == 0
    assert system.tree() == before


def test_what_was_changed_since_stays(system: System) -> None:
    system.setup()
    place = system.root / f"{UNITS}/numawise-reap.timer"
    place.write_text("[Timer]\nOnCalendar=hourly\n")
    ran = system.setup()
    assert (ran.status, f"{place} is left alone: it was changed since" in ran.err) == (1, True)
    undone = system.setup("--undo")
    assert (undone.status, f"{place} is kept: it was changed since" in undone.err) == (1, True)
    assert place.read_text() == "[Timer]\nOnCalendar=hourly\n"
    assert not (system.root / SETTINGS).exists()
    assert system.setup("--undo").status == 0


@pytest.mark.parametrize("ends", range(1, 24, 2))
def test_a_setup_that_was_ended_half_way_is_finished(
    system: System, monkeypatch: pytest.MonkeyPatch, ends: int
) -> None:
    """Killed before the n-th change of a name, whichever that is; and undo leaves nothing of it."""
    whole = System(system.root.parent / "whole")
    whole.setup()
    before = system.tree()
    for then in ((), ("--undo",)):
        with monkeypatch.context() as patch:
            _end_at(patch, ends)
            with pytest.raises(Killed):
                system.setup()
        if then:
            assert system.setup(*then).status == 0
            assert system.tree() == before
        else:
            assert system.setup().status == 0
            assert system.files() == whole.files()
            assert system.setup("--undo").status == 0
            assert system.tree() == before


class Killed(BaseException):
    """Stands for ``kill -9``: nothing catches it."""


def _end_at(patch: pytest.MonkeyPatch, count: int) -> None:
    left = [count]
    for name in ("rename", "replace", "mkdir", "symlink", "link"):
        real = getattr(os, name)

        def counted(*words: object, real: object = real, **more: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return real(*words, **more)  # type: ignore[operator]

        patch.setattr(os, name, counted)


@pytest.mark.parametrize(("folder", "settings_stay"), [("/var/lib/numawise", False), ("/srv/jobs", True)])
def test_a_ledger_in_use_is_kept(system: System, folder: str, *, settings_stay: bool) -> None:
    """And with it what names it, where it is not the usual one: what is held must not be given away again."""
    system.setup("--ledger", folder)
    hold = system.root / folder.lstrip("/") / "numawise-1001.json"
    hold.write_text("{}")
    ran = system.setup("--undo")
    assert ran.status == 1
    assert f"{hold.parent} is kept: 'numawise-1001.json' is in it" in ran.err
    assert hold.read_text() == "{}"
    assert (system.root / SETTINGS).exists() is settings_stay
    assert not (system.root / f"{UNITS}/numawise-reap.timer").exists()
    hold.unlink()
    assert system.setup("--undo").status == 0
    assert not hold.parent.exists()
    assert not (system.root / "etc/numawise").exists()


def test_what_has_ended_goes_with_the_ledger(system: System) -> None:
    system.setup()
    history = system.root / "var/lib/numawise/numawise-1001.history.jsonl"
    history.write_text("{}\n")
    assert f"rm {history}" in system.setup("--undo", "--dry-run").out
    assert system.setup("--undo").status == 0
    assert not history.parent.exists()


@pytest.mark.parametrize(("mode", "status"), [(0o1777, 0), (0o755, 1), (0o777, 1), (0o1770, 1)])
def test_a_folder_that_the_administrator_made(system: System, mode: int, status: int) -> None:
    folder = system.root / LEDGER
    folder.mkdir()
    folder.chmod(mode)
    ran = system.setup()
    assert (ran.status, f"{folder} is left alone: setup did not make it" in ran.err) == (status, bool(status))
    system.setup("--undo")
    assert stat.S_IMODE(folder.stat().st_mode) == mode, "neither changed nor removed"


def test_without_systemd(system: System) -> None:
    shutil.rmtree(system.root / "usr/lib")
    ran = system.setup()
    assert ran.status == 0
    assert not (system.root / UNITS).exists()
    assert "there is no systemd here to delegate control groups" in ran.err
    assert f"*/5 * * * * root {system.program} reap" in ran.err


def test_with_control_groups_of_version_1(system: System) -> None:
    (system.root / "sys/fs/cgroup/cpuset").mkdir(parents=True)
    ran = system.setup()
    assert "control groups are of version 1, which cannot be delegated to users" in ran.err
    assert not (system.root / UNITS / "user@.service.d").exists()
    assert (system.root / f"{UNITS}/numawise-reap.timer").exists()


@pytest.mark.parametrize("what", ["program", "folder", "interpreter", "modules", "missing", "odd name"])
def test_root_runs_nothing_that_others_can_change(system: System, what: str) -> None:
    file = system.program
    words: tuple[str, ...] = ()
    if what == "program":
        file.chmod(0o757)
    elif what == "folder":
        file.parent.chmod(0o777)
    elif what == "interpreter":
        (system.root / "python").write_text("")
        (system.root / "python").chmod(0o777)
        file.write_text(f"#!{system.root}/python\n")
    elif what == "modules":
        modules = system.root / "opt/lib/python3.12/site-packages/numawise"
        modules.mkdir(parents=True)
        modules.chmod(0o777)
    elif what == "missing":
        words = ("--program", str(system.root / "gone"))
    else:
        file.rename(file.with_name("numa wise%n"))
        words = ("--program", str(file.with_name("numa wise%n")))
    before = system.tree()
    ran = system.setup(*words)
    assert (ran.status, "--program: a timer of root cannot run it: " in ran.err) == (2, True)
    assert system.tree() == before


def test_without_a_program_that_root_may_run_there_is_no_timer() -> None:
    """Where nobody named the program, the rest is set up, and a sentence says what to do."""
    made = design(BoxWish(program="/home/ada/numawise"), BoxFacts(systemd=True, program_problem="it is hers"))
    assert not {path for path, _ in made.files} & {"/" + name for name in WRITTEN if "reap" in name}
    assert made.links == ()
    assert "no timer that frees what ended jobs held is made: it is hers; install" in " ".join(made.remarks)


@pytest.mark.parametrize(("words", "message"), [
    (("--group", ""),                     "--group: is empty"),
    (("--group", "Bad Group"),            "--group: 'Bad Group' is not the name of a group"),
    (("--group", "-rf"),                  "--group: '-rf' is not the name of a group"),
    (("--ledger", "relative"),            "--ledger: 'relative' cannot be the ledger's folder"),
    (("--ledger", "/"),                   "--ledger: '/' cannot be the ledger's folder"),
    (("--ledger", "/var"),                "--ledger: '/var' cannot be the ledger's folder"),
    (("--ledger", "/srv/../etc/passwd"),  "cannot be the ledger's folder"),
    (("--ledger", '/srv/a"b'),            "cannot be the ledger's folder"),
    (("--undo", "--group", "x"),          "--undo takes back all that setup made"),
])  # fmt: skip
def test_what_cannot_be_meant(system: System, words: tuple[str, ...], message: str) -> None:
    before = system.tree()
    ran = system.setup(*words)
    assert (ran.status, message in ran.err) == (2, True), ran.err
    assert system.tree() == before


def test_a_system_that_is_not_there(tmp_path: Path) -> None:
    ran = program("setup", "--root", str(tmp_path / "gone"))
    assert (ran.status, "is not a folder" in ran.err) == (2, True)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "BoxSetup"}', "traversal", "kinds"])
def test_a_damaged_record_stops_everything(system: System, text: str) -> None:
    system.setup()
    head = {"apiVersion": "numawise.dev/v1", "kind": "BoxSetup"}
    if text == "traversal":
        text = json.dumps(head | {"files": {"/etc/../../victim": ["0"]}})
    elif text == "kinds":
        text = json.dumps(head | {"files": [1], "links": 3})
    (system.root / RECORD).write_text(text)
    before = system.tree()
    for words in ((), ("--undo",)):
        ran = system.setup(*words)
        assert (ran.status, "setup.json, is not used: it is damaged" in ran.err) == (3, True)
    assert system.tree() == before


def test_a_record_that_others_could_have_written_is_not_followed(system: System) -> None:
    system.setup()
    (system.root / RECORD).chmod(0o666)
    ran = system.setup("--undo")
    assert (ran.status, "others than root may write" in ran.err) == (3, True)
    assert system.files() >= WRITTEN


def test_doctor_confirms_each_part(system: System) -> None:
    (system.root / "etc/machine-id").write_text("3d1219c7c4c5404aaa1f6d2a48adfda4\n")
    system.setup("--fence-gpus")
    found = _doctor(system)
    assert all(severity == "info" for name, severity, _ in found if name in SUBJECTS), found
    assert {name for name, _, _ in found} >= SUBJECTS
    (system.root / SETTINGS).write_text("fence-gpus = false\n")
    (system.root / f"{UNITS}/numawise-reap.timer").unlink()
    (system.root / LEDGER).chmod(0o777)
    said = {(name, text) for name, severity, text in _doctor(system) if severity == "warning"}
    assert ("settings", "/etc/numawise/box.toml: it was changed since") in said
    assert ("reaper", "/etc/systemd/system/numawise-reap.timer is missing") in said
    assert any(name == "ledger" and "everybody may write it" in text for name, text in said)
    assert ("GPU fencing", "info", "off") in _doctor(system)


SUBJECTS = {"GPU fencing", "settings", "ledger's upkeep", "delegation", "reaper", "bash completion"}


def _doctor(system: System) -> list[tuple[str, str, str]]:
    ran = program("doctor", "--root", str(system.root), "-o", "json")
    findings = json.loads(ran.out)["findings"]
    return [(each["field"], each["severity"], each["message"]) for each in findings]


def test_the_system_itself_is_roots_affair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    ran = program("setup")
    assert (ran.status, "which only root may do" in ran.err, "sudo" in ran.err) == (3, True, True)


@needs.ROOT
@pytest.mark.skipif(not shutil.which("groupadd"), reason="there is no groupadd")
def test_a_group(system: System) -> None:
    before = system.tree()["etc/group"]
    assert system.setup("--group", "gpu-users").status == 0
    (line,) = re.findall(r"gpu-users:x:(\d+):", system.tree()["etc/group"])
    status = (system.root / LEDGER).stat()
    assert (status.st_gid, stat.S_IMODE(status.st_mode)) == (int(line), 0o1775)
    assert 'group = "gpu-users"' in system.tree()[SETTINGS]
    assert "d /var/lib/numawise 1775 root gpu-users -\n" in system.tree()["etc/tmpfiles.d/numawise.conf"]
    assert "nothing to do" in system.setup().err
    assert system.setup("--undo").status == 0
    assert system.tree()["etc/group"] == before


@needs.ROOT
def test_a_group_of_somebody_else_stays(system: System) -> None:
    before = system.tree()["etc/group"]
    assert system.setup("--group", "old").status == 0
    assert (system.root / LEDGER).stat().st_gid == 77
    assert system.setup("--undo").status == 0
    assert system.tree()["etc/group"] == before


@needs.ROOT
@pytest.mark.skipif(not shutil.which("groupadd"), reason="there is no groupadd")
def test_a_group_that_got_members_stays(system: System) -> None:
    system.setup("--group", "gpu-users")
    file = system.root / "etc/group"
    file.write_text(re.sub(r"(gpu-users:x:\d+:)", r"\1ada", file.read_text()))
    ran = system.setup("--undo")
    assert (ran.status, "group gpu-users is kept: ada is in it" in ran.err) == (1, True)
    assert "gpu-users" in file.read_text()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_understands_the_units(system: System) -> None:
    system.setup()
    units = [system.root / UNITS / f"numawise-reap.{kind}" for kind in ("service", "timer")]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert "numawise-reap" not in done.stderr, done.stderr

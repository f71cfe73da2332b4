"""Acting for another user, and asking programs."""

import os
import signal
import time
from pathlib import Path

import pytest

from numawise.errors import HostError
from numawise.host import containers, rights
from numawise.host.containers import Engine, Said, Silent, ask
from numawise.host.plan import answer_of
from numawise.host.rights import as_user
from tests import needs

BOB = 51002


def test_as_oneself_nothing_is_forked() -> None:
    assert as_user(os.geteuid(), lambda: str(os.getpid())) == str(os.getpid())


@needs.ROOT
@needs.PROC
def test_root_becomes_the_user_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of root")

    def look() -> str:
        status = Path("/proc/self/status").read_text()
        lines = [
            line.split()
            for line in status.splitlines()
            if line.startswith(("Uid", "Gid", "Groups", "CapEff"))
        ]
        return f"{lines} {os.environ.get('SECRET')} {os.getsid(0) == os.getpid()}"

    found = as_user(BOB, look)
    assert found.count(str(BOB)) == 8
    assert "['Groups:']" in found
    assert "['CapEff:', '0000000000000000']" in found
    assert found.endswith("None True")


@needs.ROOT
def test_the_kernel_refuses_what_is_not_the_users() -> None:
    def attack() -> str:
        os.kill(os.getppid(), signal.SIGKILL)
        return "done"

    with pytest.raises(HostError, match="Operation not permitted"):
        as_user(BOB, attack)


@needs.ROOT
def test_errors_come_back_and_silence_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise HostError("no such group", "run reap")

    with pytest.raises(HostError, match="no such group; run reap"):
        as_user(BOB, refuse)
    monkeypatch.setattr(rights, "PATIENCE", 0.05)
    with pytest.raises(HostError, match="did not end"):
        as_user(BOB, lambda: time.sleep(3600) or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may")
def test_others_may_not() -> None:
    with pytest.raises(HostError, match="or root can do that"):
        as_user(os.geteuid() + 1, lambda: "")


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.mark.parametrize("path", [".", "", ".::", "bin:."])
def test_nothing_is_run_out_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    for name in ("systemctl-of-the-test", "docker"):
        program(tmp_path, name, f"touch {tmp_path}/was-run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    answer_of(("systemctl-of-the-test",))
    ask(Engine("docker"), "ps")
    assert not (tmp_path / "was-run").exists()


def test_an_engine_that_writes_on_and_on_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(containers, "LARGEST_ANSWER", 1 << 20)
    program(tmp_path, "docker", "exec cat /dev/zero")
    assert ask(Engine("docker"), "ps") == Silent("docker wrote more than 1 MiB")
    program(tmp_path, "docker", "echo out; echo error >&2; exit 3")
    assert ask(Engine("docker"), "ps") == Said(3, "out\n", "error")


def test_an_engine_that_does_not_answer_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(containers, "PATIENCE", 0.2)
    program(tmp_path, "docker", "exec sleep 3600")
    found = ask(Engine("docker"), "ps")
    assert isinstance(found, Silent)
    assert "gave no answer" in found.reason

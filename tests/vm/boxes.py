"""``numawise setup`` on a machine where a real systemd is in charge."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.vm.guest import CGROUP, USER, Guest
from tests.vm.scopes import PATIENCE, control

LEDGER = Path("/srv/numawise")
TIMER, SERVICE = "numawise-reap.timer", "numawise-reap.service"
BARE = ("numawise-reap.timer.d", "numawise-reap.service.d")


def numawise(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "numawise", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


def state(*words: str) -> str:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def set_up(_: Guest) -> str:
    """The timer runs the reaper, users get their controllers, doctor confirms both; and undo leaves nothing."""
    os.environ.pop("NUMAWISE_LEDGER", None)
    LEDGER.parent.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(LEDGER.parent)], check=True)
    for name in BARE:  # the guest has no other units that these could wait for
        folder = Path("/run/systemd/system", name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "bare.conf").write_text("[Unit]\nDefaultDependencies=no\n")
    program = LEDGER.parent / "numawise-program"
    program.write_text(f'#!/bin/sh\ncd {Path.cwd()} && exec {sys.executable} -m numawise "$@"\n')
    program.chmod(0o755)
    try:
        done = numawise("setup", "--ledger", str(LEDGER), "--program", str(program), "--fence-gpus")
        assert "systemctl start numawise-reap.timer" in done, done
        assert state("is-active", TIMER) == "active"
        control("start", SERVICE)
        assert control("show", "-p", "Result", "--value", SERVICE) == "success"
        controllers = _controllers()
        assert {"cpu", "cpuset", "memory"} <= controllers, controllers
        again = numawise("setup", "--program", str(program))
        assert "there is nothing to do" in again, again
        findings = json.loads(numawise("doctor", "-o", "json"))["findings"]
        said = {(each["field"], each["message"], each["severity"]) for each in findings}
        assert ("reaper", f"{TIMER} is active", "info") in said, said
        assert ("GPU fencing", "on", "info") in said, said
    finally:
        undone = numawise("setup", "--undo")
    assert state("is-active", TIMER) in ("inactive", "unknown")
    assert state("show", "-p", "LoadState", "--value", SERVICE) == "not-found", undone
    assert not LEDGER.exists()
    assert not Path("/etc/numawise").exists()
    return f"users have {' '.join(sorted(controllers))}"


def _controllers() -> set[str]:
    """What a user's own manager has to give out, once it was started again."""
    control("restart", f"user@{USER}.service")
    end = time.monotonic() + PATIENCE
    group = control("show", "-p", "ControlGroup", "--value", f"user@{USER}.service")
    file = CGROUP / group.strip("/") / "cgroup.controllers"
    while not (file.exists() and "cpuset" in file.read_text()) and time.monotonic() < end:
        time.sleep(0.1)
    return set(file.read_text().split())

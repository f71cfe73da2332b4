"""Running ``numawise`` for real: a ledger of the test's own, real processes, the real kernel.

A process begins warm (``tests.warm``), unless a test says more about how it is to begin than its words and environment.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import warm
from tests.cli.run import program
from tests.waiting import PATIENCE, until

Started = warm.Program | subprocess.Popen[str]


class Host:
    """This host, with a ledger below a folder of the test."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.ledger = folder / "ledger.db"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMAWISE")}
        self.environment = {**kept, "NUMAWISE_LEDGER": str(self.ledger), **environment}
        self.started: list[Started] = []

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "numawise", *words]

    def run(self, *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        """Run numawise to its end."""
        environment = {**self.environment, **settings.pop("environment", {})}
        if settings.keys() <= {"input"}:
            return warm.run(*words, given=settings.get("input"), env=environment)
        return subprocess.run(
            self.argv(*words),
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=PATIENCE,
            **settings,
        )

    def start(self, *words: str, **settings: Any) -> "Started":
        """Start numawise, and end it with the test."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        common = {"env": self.environment, "text": True, **pipes, **settings}
        started = (
            subprocess.Popen(self.argv(*words), **common) if settings else warm.Program(*words, **common)
        )
        self.started.append(started)
        return started

    def holds(self) -> list[dict[str, Any]]:
        """What ``ps`` tells, asked in this process: who waits for something asks again and again."""
        found: list[dict[str, Any]] = json.loads(program("ps", "-o", "json", **self.environment).out)["holds"]
        return found

    def hold(self, name: str) -> dict[str, Any]:
        """One hold, once it is there and bound."""

        def there() -> bool:
            if any(one["name"] == name for one in self.holds()):
                return True
            last = self.started[-1] if self.started else None
            assert last is None or last.poll() is None, f"it ended: {last.communicate()}"
            return False

        self.until(there, f"no hold {name}")
        hold = next(one for one in self.holds() if one["name"] == name)
        self.until(lambda: begun(hold["pid"]), f"the job of {name} never begins")
        return hold

    def until(self, true: Callable[[], bool], otherwise: str) -> None:
        """Wait for something."""
        until(true, otherwise)

    def end(self) -> None:
        """End all that was started, jobs included."""
        if self.ledger.exists():
            for one in self.holds():
                if one["pid"] and one["pid"] != os.getpid():
                    try:
                        os.kill(one["pid"], signal.SIGKILL)
                    except ProcessLookupError:
                        continue
        for started in self.started:
            if started.poll() is None:
                started.kill()
            started.communicate()
        if self.ledger.exists():
            self.run("reap")


def begun(pid: int) -> bool:
    """Whether a job has become its command, which it does once it is bound: until then it looks as who forked it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        parent = next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:"))
        return Path(f"/proc/{pid}/cmdline").read_bytes() != Path(f"/proc/{parent}/cmdline").read_bytes()
    except OSError:  # it has ended, or its parent has
        return True


def allowed(pid: int) -> str:
    """CPUs that a process may run on."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return line.split()[1]
    return ""

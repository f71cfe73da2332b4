"""Forks a process for each command line that stands on standard input, with nothing but numawise and what it has.

It is run by interpreters that have no test tools.  Modules that are to be hidden are not found.
"""

import importlib
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

PATIENCE = 900.0


class Hidden:
    """Finds nothing of certain modules, first of all finders."""

    def __init__(self, names: list[str]) -> None:
        self.names = frozenset(names)

    def find_spec(self, name: str, *_: object) -> None:
        top = name.partition(".")[0]
        if top in self.names:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)


def import_all() -> None:
    """Whatever can be imported of numawise: the processes that are forked need not do it again."""
    import numawise  # noqa: PLC0415 - after the finder

    top = Path(numawise.__path__[0])
    for file in sorted(top.rglob("*.py")):
        parts = file.relative_to(top.parent).with_suffix("").parts
        if parts[-1] not in ("__init__", "__main__"):
            with suppress(ImportError):
                importlib.import_module(".".join(parts))


def child(words: list[str], folder: Path) -> NoReturn:
    """Be the command."""
    status = 99
    try:
        for number, name in enumerate((os.devnull, folder / "out", folder / "err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, encoding="utf-8") for number, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        from numawise.cli.main import main  # noqa: PLC0415 - after the finder

        status = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def run(words: list[str], until: str, folder: Path) -> dict[str, Any]:
    """What became of a command; one that goes on gets a signal when it has said so."""
    for name in ("out", "err"):
        (folder / name).unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        child(words, folder)
    end, asked = time.monotonic() + PATIENCE, False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        elif until and not asked and (folder / "err").exists() and until in (folder / "err").read_text():
            asked = True
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.01)
    out, err = ((folder / name).read_text("utf-8", "replace") for name in ("out", "err"))
    return {"status": os.waitstatus_to_exitcode(status), "out": out, "err": err}


def main() -> None:
    request = json.load(sys.stdin)
    sys.meta_path.insert(0, Hidden(request["hidden"]))  # type: ignore[arg-type]
    import_all()
    folder = Path(request["folder"])
    answers = [run(case["words"], case["until"], folder) for case in request["cases"]]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()

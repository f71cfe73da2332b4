# ruff: noqa: T201, B023 - it is a program; what a loop makes is called at once
"""What a stranger can leave in the ledger's folder: ``python -m tests.ledger.litter [--count 10000]``, as root.

Root and Anne hold something, Anne and Bea wait, and something of Anne's has ended.  Then a stranger makes so many of
each kind of litter.  What the others hold, wait for and have ended is the same before and after, for root, for Anne
and for somebody new; and a line for each kind says what ``ps`` costs.
"""

import argparse
import json
import os
import pwd  # noqa: F401 - nothing can be imported as another user
import random
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numawise.ledger.history  # noqa: F401 - as above
from numawise.host.processes import boot_id, pid_namespace, start_time
from numawise.ledger.place import machine_id
from numawise.ledger.store import Ledger
from numawise.results.placement import EndedHold, Grant, Hold, Owner, Waiter
from tests.jobs import fork

ROOT, ANNE, BEA, CAROL, STRANGER = 0, 51001, 51002, 51003, 65534
Row = dict[str, Any]


def by(uid: int, work: Callable[[], object]) -> Any:
    """What comes of it when a user does it, in a process of that user's own."""
    ours, theirs = socket.socketpair()
    pid = fork()
    if not pid:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            theirs.sendall(json.dumps(work()).encode())
        except BaseException:  # noqa: BLE001 - shown by the one who asked
            theirs.sendall(json.dumps({"failed": traceback.format_exc()}).encode())
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        data = b""
        while piece := ours.recv(1 << 16):
            data += piece
    os.waitpid(pid, 0)
    value = json.loads(data)
    assert not (isinstance(value, dict) and "failed" in value), value["failed"]
    return value


def owner(uid: int) -> Owner:
    pid = os.getpid()
    return Owner(uid, "", boot_id(), pid, start_time(pid) or 0, namespace=pid_namespace())


def opened(folder: Path, uid: int | None = None) -> Ledger:
    return Ledger.open(folder, machine_id(), uid=uid)


def furnish(folder: Path) -> None:
    """Root and Anne hold something, Anne and Bea wait, and something of Anne's has ended."""
    ended = Hold("old", "old", owner(ANNE), Grant(), since=3.0)
    with opened(folder) as ledger:
        with ledger.change() as change:
            change.add(Hold("roots", "roots", owner(ROOT), Grant(cpus=1), mode="affinity", since=4.0))
            change.add(
                Hold("annes", "annes", owner(ANNE), Grant(devices=(("made/up", ("g1", "g2")),)), since=5.0)
            )
            change.add(ended)
            change.wait_in_line(Waiter("wa", owner(ANNE), "9 CPUs", 6.0, '{"cpus": 9000}'))
            change.wait_in_line(Waiter("wb", owner(BEA), "1 CPU", 7.0, '{"cpus": 1000}'))
        with ledger.change() as change:
            change.remove(ended, EndedHold(ended, 9.0))


def seen(folder: Path) -> dict[str, Any]:
    """What one who asks is told of everybody but the stranger, and about the rest."""
    with opened(folder) as ledger:
        rows = {
            "holds": [
                (hold.owner.uid, hold.id, hold.grant.cpus, hold.grant.devices) for hold in ledger.holds()
            ],
            "waiters": [(waiter.owner.uid, waiter.id, waiter.asks) for waiter in ledger.waiters()],
            "history": [(ended.hold.owner.uid, ended.hold.id, ended.how) for ended in ledger.history()],
        }
        others = {name: [row for row in every if row[0] != STRANGER] for name, every in rows.items()}
        return {"others": others, "problems": ledger.problems, "unknown": [uid for uid, _ in ledger.unknown]}


# --- kinds of litter ------------------------------------------------------------------------------


def made(path: Path, text: str = "", mode: int = 0o644, size: int = 0) -> None:
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    os.write(handle, text.encode())
    if size:
        os.truncate(handle, size)
    os.close(handle)


def document(**rows: list[Row]) -> str:
    return json.dumps({"apiVersion": "numawise.dev/v1", "kind": "Ledger", "machine": machine_id(), **rows})


def claim(id_: str, uid: int = STRANGER, **more: Any) -> Row:
    who = owner(uid)
    return {
        "id": id_,
        "name": id_,
        "kind": "run",
        "boot": who.boot,
        "pid": who.pid,
        "start": who.start,
        "since": 1.0,
        **more,
    }


def sockets(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def own(folder: Path, number: int, ending: str = "json") -> Path:
    """A name that is the stranger's to give."""
    return folder / f"numawise-{STRANGER}{f'-{number:08x}' if number else ''}.{ending}"


def foreign(folder: Path, number: int) -> Path:
    """A name of somebody who may have no file yet, such as Carol."""
    return folder / f"numawise-{CAROL + number}.json"


CLAIMS = [claim(name, cpus="0") for name in ("roots", "annes", "wa")]
IN_LINE = [
    {"id": f"w{n}", "boot": "", "pid": 2, "request": "1 CPU", "since": 8.0 + n, "asks": {"cpus": 1000 + n}} for n in range(1024)
]  # fmt: skip

KINDS: dict[str, Callable[[Path, int], object]] = {
    "empty files": lambda f, n: made(f / f"numawise-1-{n:08x}.json"),
    "random names": lambda f, n: made(f / f"numawise-{random.Random(n).getrandbits(31)}-{n:08x}.json", "x"),
    "names of others": lambda f, n: made(foreign(f, n), document(holds=CLAIMS)),
    "second names of Anne's ledger": lambda f, n: os.link(f / f"numawise-{ANNE}.json", f / f"numawise-{ANNE}-{n:08x}.json"),
    "links": lambda f, n: (f / f"numawise-{BEA}-{n:08x}.json").symlink_to(f / f"numawise-{ANNE}.json"),
    "FIFOs": lambda f, n: os.mkfifo(own(f, n)),
    "folders": lambda f, n: own(f, n).mkdir(),
    "sockets": lambda f, n: sockets(own(f, n)),
    "giant files": lambda f, n: made(own(f, n), size=1 << 34),
    "giant ledgers": lambda f, n: made(own(f, n), document(), size=1 << 34),
    "damaged JSON": lambda f, n: made(own(f, n), document(holds=CLAIMS)[:-9]),
    "claims under the ids of others": lambda f, n: made(own(f, n), document(holds=CLAIMS)),
    "a thousand claims a file": lambda f, n: made(own(f, n), document(holds=[claim(f"k{i}") for i in range(1024)]) if n < 9 else "{}"),
    "a thousand in line a file": lambda f, n: made(own(f, n), document(waiters=IN_LINE) if n < 9 else "{}"),
    "histories": lambda f, n: made(own(f, n, "history.jsonl"), "{}\n"),
    "histories of others": lambda f, n: made(f / f"numawise-{ANNE}-{n:08x}.history.jsonl", "{}\n"),
    "names of Anne's half-written files": lambda f, n: made(f / f".numawise-{ANNE}.{n:08x}.new"),
    "files that cannot be read": lambda f, n: made(own(f, n), document(), mode=0),
}  # fmt: skip
BY_ROOT = ("second names of Anne's ledger",)
"""Where links to files of others are not allowed (``fs.protected_hardlinks``), root stands for a kernel that allows it."""


def strew(folder: Path, kind: str, count: int) -> None:
    def work() -> None:
        for number in range(count):
            KINDS[kind](folder, number)

    by(ROOT if kind in BY_ROOT else STRANGER, work)


# --- at full size -----------------------------------------------------------------------------------


def cost(folder: Path) -> tuple[float, int]:
    """Seconds of CPU that ``ps`` takes, and lines that it says besides."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "numawise", "ps"], capture_output=True, text=True, check=True,
        env={**os.environ, "NUMAWISE_LEDGER": str(folder)},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        len(done.stderr.splitlines()),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Leave litter in a ledger's folder; the others stay as they were."
    )
    parser.add_argument("--count", type=int, default=10_000, metavar="N", help="of each kind")
    arguments = parser.parse_args()
    for kind in KINDS:
        folder = Path(tempfile.mkdtemp())
        folder.chmod(0o1777)
        try:
            furnish(folder)
            before, (seconds, lines) = by(CAROL, lambda: seen(folder)), cost(folder)
            strew(folder, kind, arguments.count)
            same = all(
                by(uid, lambda: seen(folder))["others"] == before["others"] for uid in (ROOT, ANNE, CAROL)
            )
            after, more = cost(folder)
            print(
                f"{arguments.count} {kind}: {'the others stay as they were' if same else 'LOST'}; "
                f"ps {seconds:.2f} s before, {after:.2f} s after, {more - lines} lines more", flush=True,
            )  # fmt: skip
            if not same:
                return 1
        finally:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Many processes change a ledger at once: ``python -m tests.ledger.parallel [--processes 20] [--changes 10]``.

All begin together, before there is a ledger, as root as two users, and each adds holds one by one, every time
the lowest free CPU.
At the end all are recorded exactly once and the CPUs are granted without a gap.  Exit status: 0 when that is so.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from numawise.results.placement import Grant, Hold, Owner
from numawise.sets import bits_of
from tests.ledger.jobs import become, make_place, opened


def add(path: Path, who: int, changes: int) -> None:
    for count in range(changes):
        with opened(path) as ledger, ledger.change() as change:
            held = sum(one.grant.cpus for one in change.holds)
            lowest = ~held & (held + 1)
            grant = Grant(cpus=lowest, devices=(("made/up", (f"{who}-{count}",)),))
            owner = Owner(os.getuid(), "", "", os.getpid())
            change.add(Hold(change.new_id(), f"{who}-{count}", owner, grant))


def parallel(path: Path, processes: int, changes: int) -> None:
    ready, go = os.pipe()
    children = []
    for who in range(processes):
        pid = os.fork()
        if not pid:
            os.close(go)
            os.read(ready, 1)  # ends when the parent closes its side
            try:
                become(who)
                add(path, who, changes)
            except BaseException as error:  # noqa: BLE001 - told by the exit status
                os.write(2, f"{error}\n".encode())
                os._exit(1)
            os._exit(0)
        children.append(pid)
    os.close(ready)
    os.close(go)
    failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
    assert not failed, f"{len(failed)} processes failed"
    with opened(path) as ledger:
        holds = ledger.holds()
    expected = sorted(f"{who}-{count}" for who in range(processes) for count in range(changes))
    assert sorted(one.name for one in holds) == expected
    assert sum(one.grant.cpus for one in holds) == bits_of(range(processes * changes))


def main() -> int:
    parser = argparse.ArgumentParser(description="Many processes change a ledger at once.")
    parser.add_argument("--processes", type=int, default=20, metavar="N")
    parser.add_argument("--changes", type=int, default=10, metavar="N", help="by each process")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        begin = time.monotonic()
        Path(name).chmod(0o755)
        make_place(Path(name) / "state")
        parallel(Path(name) / "state", told.processes, told.changes)
        seconds = time.monotonic() - begin
    sys.stdout.write(
        f"{told.processes} processes, {told.changes} changes each: all recorded once, in {seconds:.1f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

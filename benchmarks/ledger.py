"""Measure the ledger on a real disk: ``python -m benchmarks.ledger [FOLDER]``.

A commit waits for the disk, so these are times on the wall clock: the middle of many, and the slowest of
twenty.  FOLDER is where the ledger is made: by default in the working folder, since ``/tmp`` may be memory.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from numawise.ledger.store import Ledger
from numawise.results.placement import Grant, Hold, MemoryPart, Owner

MACHINE = "0123456789abcdef0123456789abcdef"
GOAL = 10.0
"""Milliseconds for the commit of a hold."""
ROUNDS = 60
IMPORTS = """
import time
import numawise.sets, pathlib
begin = time.process_time()
import numawise.ledger.place, numawise.ledger.reap, numawise.ledger.store
print(1000 * (time.process_time() - begin))
"""


def hold(count: int) -> Hold:
    """Eight CPUs, a GPU and some memory, as a job would have them."""
    grant = Grant(
        cpus=0xFF << 8 * count,
        mems=1,
        memory=(MemoryPart(1, 64 << 30),),
        devices=(("nvidia.com/gpu", (f"GPU-{count:08x}-0000-0000-0000-000000000000",)),),
    )
    owner = Owner(os.getuid(), "somebody", "05bbaee5-56f8-4706-b138-eba5a97d08f7", os.getpid(), 1)
    command = ("python", "-m", "torch.distributed.run", "train.py")
    return Hold(f"k{count}", "train", owner, grant, command=command, since=time.time())


def wall_ms(work: Callable[[int], object], rounds: int = ROUNDS) -> tuple[float, float]:
    """Milliseconds of a call: the middle, and what 19 of 20 stay below."""
    times = []
    for count in range(rounds):
        begin = time.perf_counter()
        work(count)
        times.append(1000 * (time.perf_counter() - begin))
    times.sort()
    return times[rounds // 2], times[rounds * 19 // 20]


def measure(folder: Path) -> Iterator[tuple[str, float, float, float | None]]:
    """What, its middle and slow milliseconds, and the goal."""
    path = folder / "ledger"

    def make(count: int) -> None:
        Ledger.open(folder / str(count), MACHINE).close()

    yield "open a ledger", *wall_ms(make, 20), None
    with Ledger.open(path, MACHINE) as ledger:

        def add(count: int) -> None:
            with ledger.change() as change:
                change.add(hold(count))

        def remove(count: int) -> None:
            with ledger.change() as change:
                change.remove(hold(count))

        def alone(count: int) -> None:
            with Ledger.open(path, MACHINE) as own, own.change() as change:
                change.add(hold(count))

        yield "commit a hold, up to 60 others", *wall_ms(add), GOAL
        yield "read 60 holds", *wall_ms(lambda _: ledger.holds()), None
        yield "look whether somebody changed something", *wall_ms(lambda _: ledger.version()), None
        yield (
            "open and close, others have it open",
            *wall_ms(lambda _: Ledger.open(path, MACHINE).close()),
            None,
        )
        yield "commit the end of a hold", *wall_ms(remove), GOAL
    yield "open, commit a hold, close; nobody else there", *wall_ms(alone), GOAL
    done = [
        float(subprocess.run([sys.executable, "-c", IMPORTS], check=True, capture_output=True).stdout)
        for _ in range(5)
    ]
    yield "import, CPU time", min(done), max(done), None


def main() -> int:
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    missed = 0
    print(f"{'one call':50} {'middle':>9} {'slow':>9} {'goal':>7}")
    with tempfile.TemporaryDirectory(dir=where) as folder:
        for what, middle, slow, goal in measure(Path(folder)):
            print(f"{what:50} {middle:6.2f} ms {slow:6.2f} ms {'' if goal is None else f'≤ {goal:g}':>7}")
            missed += goal is not None and middle > goal
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

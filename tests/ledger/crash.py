"""Kill the users of a ledger at random points: ``python -m tests.ledger.crash [--times 500] [--seed N]``.

Several processes hold and release CPUs and GPUs as fast as they can, as root those of two users, each passing
over what the dead left.  They are killed one by one (``SIGKILL``), now and then all at once, and now and then
the ledger itself is taken away.  After that the ledger must open, be sound, and hold nothing for the dead; and
at no time may anything have been granted twice.  Exit status: 0 when all that is so.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from numawise.ledger.reap import dead
from tests.ledger.jobs import BOOT, alive, become, make_place, opened, work

WORKERS = 6


def start(path: Path, locks: Path, seed: int) -> int:
    """Fork a worker; it ends only by being killed or by finding something wrong."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.umask(0)
        become(seed)
        work(path, locks, random.Random(seed))
    except BaseException:  # noqa: BLE001 - told, and by the exit status
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def end(pid: int) -> bool:
    """Kill a worker; False when it had found something wrong before."""
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def check(path: Path) -> int:
    """Open the ledger as the next call would; the number of holds that the dead had left."""
    with opened(path) as ledger:
        with ledger.change() as change:
            left = len(change.reap(dead(change.holds, BOOT, alive), everybodys=True))
        assert ledger.holds() == (), "something stays held by the dead"
    files = [file.name for file in path.iterdir()]
    assert not [name for name in files if name.endswith(".json")], "a file without a hold is left"
    return left


def crash(folder: Path, times: int, seed: int) -> tuple[int, int, int]:
    """Kill so often; holds used, holds that dead workers had left, and how often the ledger was made anew."""
    chance = random.Random(seed)
    path, locks = folder / "state", folder / "locks"
    folder.chmod(0o755)
    locks.mkdir()
    locks.chmod(0o777)
    make_place(path)
    workers = [start(path, locks, chance.getrandbits(64)) for _ in range(WORKERS)]
    left = made = 0
    kills = 0
    try:
        while kills < times:
            time.sleep(chance.uniform(0, 0.015))
            everyone = chance.random() < 0.1
            victims = list(workers) if everyone else [chance.choice(workers)]
            for pid in victims:
                workers.remove(pid)
                assert end(pid), "a worker found something wrong"
                kills += 1
            if everyone:
                left += check(path)
                if chance.random() < 0.5:
                    shutil.rmtree(path)
                    make_place(path)
                    made += 1
            while len(workers) < WORKERS:
                workers.append(start(path, locks, chance.getrandbits(64)))
    finally:
        sound = [end(pid) for pid in workers]
    assert all(sound), "a worker found something wrong"
    return (locks / "used").stat().st_size, left + check(path), made


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the users of a ledger at random points.")
    parser.add_argument("--times", type=int, default=500, metavar="N", help="so many kills (default: 500)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, metavar="N")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        begin = time.monotonic()
        used, left, made = crash(Path(name), told.times, told.seed)
        seconds = time.monotonic() - begin
    sys.stdout.write(
        f"seed {told.seed}: {told.times} kills in {seconds:.1f} s, {used} holds used, the ledger made anew {made} times; "
        f"{left} holds of the dead found at checks, all reaped; nothing granted twice\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

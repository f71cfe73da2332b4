"""``run`` under fire: many at once, and killed at random points.  Nothing is granted twice, nothing stays held.

``python -m tests.host.under_fire parallel --processes 20 --times 10`` and
``python -m tests.host.under_fire crash --times 500`` run it at length; as root
``python -m tests.host.under_fire line --starts 200 --kills 500`` does it with two users and looks at the head of the line.

A job takes a lock named after its CPUs and one after its GPU, which nobody else may have at that time; so a
thing granted twice is seen by the jobs themselves, whatever the ledger says.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.host.as_user import LIBC, PR_SET_DUMPABLE, import_all
from tests.waiting import PATIENCE

from numawise.apps.launch.asked import request_in
from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.decide import place
from numawise.apps.launch.holds import Holdings
from numawise.apps.launch.request import JobRequest
from numawise.apps.launch.run import Job, capacity_here, open_holdings, run
from numawise.host import confine
from numawise.host.settings import HostSettings
from numawise.machine.hardware import Gpu
from numawise.results.placement import Capacity, Placement

GPUS = 3
USERS = (51001, 51002)
TAKE = """
for what in $(echo "$NUMAWISE_CPUS" | tr , ' ') $NUMAWISE_GPUS; do
  exec 9>"$LOCKS/$what.$$" 8>"$LOCKS/$what"
  flock -n 8 || echo "$what" >> "$LOCKS/twice"
  rm -f "$LOCKS/$what.$$"
  eval "exec $((20 + (n += 1)))>&8"
done
echo "$NUMAWISE_HOLD" >> "$LOCKS/ran"
sleep 0.0$((RANDOM % 3))
"""


def capacity_with_gpus(reserved: str = "none") -> Capacity:
    """This machine, with GPUs that nobody has: only their names are held."""
    here = capacity_here(HostSettings(reserved_cpus="none"))
    gpus = tuple(Gpu(f"GPU{n}", uuid=f"GPU-{n:08d}", numa=(0,)) for n in range(GPUS))
    return capacity_of(replace(here.hardware, gpus=gpus), reserved)


def job(folder: Path, request: JobRequest, mode: str) -> Job:
    environment = {**os.environ, "LOCKS": str(folder), "NUMAWISE_LEDGER": str(folder / "ledger.db")}
    return Job(request, ("bash", "-c", TAKE), float("inf"), mode, "", environment)


def forked(work: Callable[[], int]) -> int:
    """A child that does some work; its process number."""
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        status = work()
    except BaseException as problem:  # noqa: BLE001 - told, and the child ends here
        sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
    finally:
        os._exit(status)


def request_of(rng: random.Random, cpus: int) -> JobRequest:
    return JobRequest(
        cpus=rng.choice([1000, 1000, min(2, cpus) * 1000, 0]), gpus=rng.choice([0, 1, 1, 2]), name=""
    )


def parallel(folder: Path, processes: int, times: int, mode: str = "") -> list[str]:
    """So many processes each run so many jobs, one after another; what went wrong."""
    capacity = capacity_with_gpus()
    cpus = capacity.machine.layout.all.bit_count()

    def work(seed: int) -> int:
        rng = random.Random(seed)
        for _ in range(times):
            found = run(
                job(folder, request_of(rng, cpus), mode),
                HostSettings(reserved_cpus="none"),
                _quiet,
                _quiet,
                _quiet,
                capacity,
            )
            if found != 0:
                sys.stderr.write(f"a job ended with {found}\n")
                return 1
        return 0

    children = [forked(lambda seed=seed: work(seed)) for seed in range(processes)]
    problems = [
        f"process {pid} failed" for pid in children if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    ]
    ran = _lines(folder / "ran")
    if len(ran) != processes * times or len(set(ran)) != len(ran):
        problems.append(f"{len(ran)} jobs ran under {len(set(ran))} holds, of {processes * times}")
    return problems + settled(folder, capacity)


def crash(folder: Path, times: int, seed: int = 0, mode: str = "") -> list[str]:
    """Kill numawise, or the job, so many times at random points, four runs at a time; what went wrong."""
    rng = random.Random(seed)
    capacity = capacity_with_gpus()
    cpus = capacity.machine.layout.all.bit_count()
    settings = HostSettings(reserved_cpus="none")
    running: dict[int, float] = {}
    killed = 0
    until = time.monotonic() + PATIENCE + times
    while killed < times and time.monotonic() < until:
        while len(running) < 4:
            request = request_of(rng, cpus)
            pid = forked(
                lambda request=request: int(
                    run(job(folder, request, mode), settings, _quiet, _quiet, _quiet, capacity) != 0
                )
            )
            running[pid] = time.monotonic() + rng.random() * rng.choice([0.005, 0.03, 0.1])
        for pid, when in list(running.items()):
            if time.monotonic() >= when:
                victim = pid if rng.random() < 0.5 else _job_of(pid)
                if victim:
                    try:
                        os.kill(victim, signal.SIGKILL)
                        killed += 1
                    except ProcessLookupError:
                        pass
                running[pid] = time.monotonic() + 0.1
            if os.waitpid(pid, os.WNOHANG)[0]:
                del running[pid]
        time.sleep(0.001)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    problems = [] if killed >= times else [f"only {killed} of {times} were killed in time"]
    return problems + settled(folder, capacity)


def line(folder: Path, starts: int, kills: int, seed: int = 0, at_once: int = 24) -> list[str]:
    """So many starts by two users, all waiting for room, and so many kills among them; what went wrong.

    Looked at all the while is the head of the line: with the jobs left out that were served after it had become the
    head, would it fit where it does not fit now?
    """
    rng = random.Random(seed)
    every = sorted(os.sched_getaffinity(0))
    # Who waits for CPUs is passed by those who share the one that is kept for the system.
    capacity = capacity_with_gpus(str(every[0]) if len(every) > 1 else "none")
    cpus = max(len(every) - 1, 1)
    settings = HostSettings(reserved_cpus="none")
    import_all()  # other users may not reach the interpreter
    (folder / "ledger.db").mkdir()
    folder.chmod(0o777)
    (folder / "ledger.db").chmod(0o1777)

    def work(request: JobRequest, user: int) -> int:
        if not os.geteuid():
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            LIBC.prctl(PR_SET_DUMPABLE, 1)  # as after exec: /proc shows it as this user's
        os.umask(0)  # either user takes the locks of the other's jobs
        begun = time.monotonic()
        status = run(job(folder, request, "affinity"), settings, _quiet, _quiet, _quiet, capacity)
        with (folder / f"waited-{user}").open("a") as stream:
            stream.write(f"{time.monotonic() - begun:.3f}\n")
        return int(status != 0)

    running: dict[int, bool] = {}
    problems: list[str] = []
    started = killed = passed = looks = 0
    head, head_since, seen = "", 0.0, set[str]()
    with open_holdings(capacity, {"NUMAWISE_LEDGER": str(folder / "ledger.db")}, settings) as holdings:
        while started < starts or killed < kills or running:
            while (started < starts or killed < kills) and len(running) < at_once:
                request, user = request_of(rng, cpus), rng.choice(USERS)
                running[forked(lambda request=request, user=user: work(request, user))] = False
                started += 1
            if killed < kills and rng.random() < 0.5:
                victim = rng.choice(list(running))
                victim = victim if rng.random() < 0.5 else _job_of(victim)
                if victim:
                    owner = next((pid for pid in running if pid == victim or _job_of(pid) == victim), 0)
                    os.kill(victim, signal.SIGKILL)
                    killed += 1
                    running[owner or victim] = True
                    starts += 1  # in the place of the one that was killed
            for pid in list(running):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended and not running.pop(pid) and os.waitstatus_to_exitcode(status):
                    problems.append(f"process {pid} failed")
            waiters, holds = holdings.ledger.waiters(), holdings.live()
            first = next(iter(holdings.waiting(holds)), None)
            if first is not None and any(first.waiter.id == waiter.id for waiter in waiters):
                if first.waiter.id != head:
                    head, head_since = first.waiter.id, time.time()
                asked = request_in(first.waiter.asks)
                later = [hold for hold in holds if hold.since > head_since]
                passed += len({hold.id for hold in later} - seen)
                seen |= {hold.id for hold in later}
                earlier = [hold for hold in holds if hold not in later]
                looks += 1
                if (
                    asked
                    and isinstance(place(capacity, earlier, asked, "w"), Placement)
                    and not isinstance(place(capacity, holds, asked, "w"), Placement)
                ):
                    names = ", ".join(hold.name for hold in later)
                    problems.append(
                        f"{head}, first in line for {first.waiter.request}, is held up by {names}"
                    )
    waited = sorted(
        float(text) for user in (*USERS, os.geteuid()) for text in _lines(folder / f"waited-{user}")
    )
    longest = f"{waited[-1]:.1f}" if waited else "-"
    sys.stdout.write(
        f"{started} starts, {killed} kills, {passed} passed a waiting head, {looks} looks at the head, "
        f"{len(waited)} ran to their end, the longest took {longest} s\n"
    )
    return problems + settled(folder, capacity)


def settled(folder: Path, capacity: Capacity) -> list[str]:
    """What is wrong once everything has ended."""
    twice = Counter(_lines(folder / "twice"))
    problems = [f"{what} was granted twice, {count} times" for what, count in twice.items()]
    environment = {"NUMAWISE_LEDGER": str(folder / "ledger.db")}
    with open_holdings(capacity, environment) as holdings:
        until = time.monotonic() + PATIENCE
        while _left(holdings) and time.monotonic() < until:
            time.sleep(0.05)
        problems += [
            f"hold {hold.id} of process {hold.owner.pid} is still there" for hold in holdings.ledger.holds()
        ]
        problems += [f"{waiter.id} still waits" for waiter in holdings.ledger.waiters()]
        groups = [
            group
            for group in confine.stale((), float("inf"))
            if Path(group).name in set(_lines(folder / "ran"))
        ]
        problems += [f"control group {group} is still there" for group in groups]
    return problems


def _left(holdings: Holdings) -> bool:
    holdings.reap()
    return bool(holdings.ledger.holds())


def _job_of(pid: int) -> int:
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return int(found[0]) if found else 0


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def _quiet(_: object) -> None:
    return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["parallel", "crash", "line"])
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=24, help="fewer where a decision takes seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", choices=["", "cgroup", "affinity", "systemd"], default="")
    given = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        if given.what == "parallel":
            problems = parallel(Path(folder), given.processes, given.times, given.mode)
        elif given.what == "line":
            problems = line(Path(folder), given.starts, given.kills, given.seed, given.at_once)
        else:
            problems = crash(Path(folder), given.times, given.seed, given.mode)
    outcome = "\n".join(problems) or "nothing granted twice, nothing left"
    sys.stdout.write(f"{outcome} ({time.monotonic() - begun:.1f} s)\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

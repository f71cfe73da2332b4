"""Processes that hold CPUs of a made-up machine, and a second opinion on who holds what.

The second opinion is the kernel's: who is granted a CPU locks a file of that number, and the kernel takes the
lock away when the process dies.  A lock that is not to be had means that the CPU was granted twice.
"""

import fcntl
import os
import random
import time
from pathlib import Path

from numawise.ledger.place import boot_id
from numawise.ledger.reap import dead
from numawise.ledger.store import Ledger
from numawise.results.placement import Grant, Hold, Owner
from numawise.sets import bits_of, ids_of

MACHINE = "0123456789abcdef0123456789abcdef"
CPUS, GPUS = 64, 8
GPU = "nvidia.com/gpu"
BOOT = boot_id()


class GrantedTwice(Exception):
    """What the ledger exists to prevent."""


def start_of(pid: int) -> int:
    """The start time of a process that runs; 0 when it does not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def alive(hold: Hold) -> bool:
    return start_of(hold.owner.pid) == hold.owner.start


USERS = (51001, 51002)


def become(user: int) -> None:
    """Act as one of two users, where we are root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(USERS[user % 2], USERS[user % 2], USERS[user % 2])
        os.setresuid(USERS[user % 2], USERS[user % 2], USERS[user % 2])


def make_place(path: Path) -> None:
    """A folder for the ledgers of all, as ``/var/tmp`` is."""
    path.mkdir()
    path.chmod(0o1777)


def opened(path: Path) -> Ledger:
    return Ledger.open(path, MACHINE, patience=60.0)


def ask(ledger: Ledger, chance: random.Random) -> Hold | None:
    """Reap the dead, choose among what is free, and record it; None when there is too little."""
    with ledger.change() as change:
        change.reap(dead(change.holds, BOOT, alive))
        cpus = [cpu for cpu in range(CPUS) if not any(one.grant.cpus >> cpu & 1 for one in change.holds)]
        held = {device for one in change.holds for _, devices in one.grant.devices for device in devices}
        gpus = [gpu for gpu in map(str, range(GPUS)) if gpu not in held]
        if len(cpus) < 12 or not gpus:
            return None
        grant = Grant(
            bits_of(chance.sample(cpus, chance.randint(1, 12))), devices=((GPU, (chance.choice(gpus),)),)
        )
        pid = os.getpid()
        owner = Owner(os.getuid(), "", BOOT, pid, start_of(pid))
        hold = Hold(change.new_id(), "job", owner, grant, since=time.time())
        change.add(hold)
    return hold


def use(hold: Hold, locks: Path, seconds: float) -> None:
    """Lock what was granted for a while."""
    names = [f"cpu{cpu}" for cpu in ids_of(hold.grant.cpus)]
    names += [f"gpu{gpu}" for _, gpus in hold.grant.devices for gpu in gpus]
    handles = []
    try:
        for name in names:
            handles.append(os.open(locks / name, os.O_RDWR | os.O_CREAT, 0o666))
            try:
                fcntl.flock(handles[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise GrantedTwice(f"{name} of hold {hold.id}") from error
        time.sleep(seconds)
        handles.append(os.open(locks / "used", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666))
        os.write(handles[-1], b".")
    finally:
        for handle in handles:
            os.close(handle)


def work(path: Path, locks: Path, chance: random.Random) -> None:
    """Hold and release until killed."""
    while True:
        with opened(path) as ledger:
            for _ in range(chance.randint(1, 4)):
                hold = ask(ledger, chance)
                if hold is None:
                    time.sleep(0.002)
                    continue
                use(hold, locks, chance.uniform(0, 0.004))
                with ledger.change() as change:
                    if not change.remove(hold):
                        raise GrantedTwice(f"hold {hold.id} of a living process was reaped")

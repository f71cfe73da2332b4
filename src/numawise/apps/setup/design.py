"""What a box needs so that several people can share it: files, folders and a group, for this very system.

Rules kept here:

1. A timer of root runs the program only if nobody but root can change it, or what it imports (``program``).
2. What this system cannot have (no systemd, control groups of version 1) is a sentence that says what to do
   instead, not an error.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from numawise.apps.setup.program import program_problem
from numawise.errors import InputError, quoted
from numawise.host.box import (
    COMPLETION,
    DELEGATION,
    LEDGER,
    PLAIN,
    REAP_SERVICE,
    REAP_TIMER,
    SETTINGS,
    TIMER_LINK,
    TMPFILES,
)
from numawise.values import dataclass

HEADER = "# Written by 'numawise setup'; 'numawise setup --undo' removes it as long as it is unchanged.\n"
GROUP_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}", re.ASCII)
FOR_ALL, FOR_GROUP = 0o1777, 0o1775
"""Modes of the ledger's folder: the sticky bit keeps everybody's file from the others."""
TIMER = "numawise-reap.timer"


@dataclass(frozen=True, slots=True)
class BoxWish:
    """What the administrator wants."""

    ledger: str = LEDGER
    group: str = ""
    fence_gpus: bool = False
    program: str = ""
    """What the reaper runs; '': none could be found."""
    program_named: bool = False
    """It was asked for by name."""
    completion: Mapping[str, str] | None = None
    """Shell → what it loads."""


@dataclass(frozen=True, slots=True)
class BoxFacts:
    """What the system is."""

    systemd: bool = False
    """It is installed."""
    running: bool = False
    """It is in charge now, and this is its system."""
    cgroup: str = ""
    """``v2``, ``v1``, or '' where that cannot be seen."""
    program_problem: str = ""
    """Why a timer of root should not run the program, as a clause."""


@dataclass(frozen=True, slots=True)
class BoxDesign:
    """What shall be there."""

    ledger: str
    mode: int
    group: str
    files: tuple[tuple[str, str], ...]
    """Path and content."""
    links: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]
    """What cannot be had here, a sentence each."""


def read_facts(root: Path, program: str, trusted: Collection[int], package: Iterable[str] = ()) -> BoxFacts:
    """Look at the system; ``package``: where the modules of the program lie, as far as that is known."""
    controllers = root / "sys/fs/cgroup"
    cgroup = ""
    if (controllers / "cgroup.controllers").exists():
        cgroup = "v2"
    elif any((controllers / name).exists() for name in ("cpuset", "memory", "cpu")):
        cgroup = "v1"
    units = ("usr/lib/systemd/system", "lib/systemd/system")
    running = root == Path("/") and Path("/run/systemd/system").is_dir()
    return BoxFacts(
        systemd=running or any((root / folder).is_dir() for folder in units),
        running=running,
        cgroup=cgroup,
        program_problem=program_problem(program, trusted, package),
    )


def design(wish: BoxWish, facts: BoxFacts) -> BoxDesign:
    """Decide what shall be there; raise ``InputError`` for what cannot be meant."""
    _check(wish)
    if wish.program_named and facts.program_problem:
        raise InputError(
            f"a timer of root cannot run it: {facts.program_problem}",
            field="--program",
            advice="name an installation that only root can change, such as /opt/numawise/bin/numawise",
        )
    mode = FOR_GROUP if wish.group else FOR_ALL
    files = [(SETTINGS, _settings(wish))]
    links: list[tuple[str, str]] = []
    remarks: list[str] = []
    owner = wish.group or "root"
    keep = f"d {wish.ledger} {mode:o} root {owner} -\nx /var/tmp/numawise-*.json\n"
    if facts.systemd:
        files.append((TMPFILES, HEADER + keep))
    if facts.systemd and facts.cgroup != "v1":
        files.append((DELEGATION, f"{HEADER}[Service]\nDelegate=cpu cpuset io memory pids\n"))
    elif facts.cgroup == "v1":
        remarks.append(
            "control groups are of version 1, which cannot be delegated to users: their jobs are kept by CPU "
            "mask and memory policy, root's by groups; boot with systemd.unified_cgroup_hierarchy=1 for more"
        )
    else:
        remarks.append(
            "there is no systemd here to delegate control groups to users: their jobs are kept by CPU mask "
            "and memory policy"
        )
    if facts.systemd and not facts.program_problem:
        files += [(REAP_SERVICE, _service(wish.program)), (REAP_TIMER, _timer())]
        links.append((TIMER_LINK, f"../{TIMER}"))
    elif facts.systemd:
        remarks.append(
            f"no timer that frees what ended jobs held is made: {facts.program_problem}; install numawise "
            "for all users, such as in /opt/numawise, and run 'numawise setup' of that, or with --program"
        )
    else:
        remarks.append(
            "there is no systemd here for a timer that frees what ended jobs held; every command frees what "
            f"it sees, and cron can do it: */5 * * * * root {wish.program or 'numawise'} reap"
        )
    completion = wish.completion or {}
    files += [(COMPLETION[shell], text) for shell, text in completion.items()]
    return BoxDesign(wish.ledger, mode, wish.group, tuple(files), tuple(links), tuple(remarks))


def _check(wish: BoxWish) -> None:
    ledger = wish.ledger
    parts = ledger.split("/")
    if not PLAIN.fullmatch(ledger) or ".." in parts or ledger.rstrip("/").count("/") < 2:
        raise InputError(
            f"{quoted(ledger)} cannot be the ledger's folder",
            field="--ledger",
            advice=f"write an absolute path of letters, digits and . _ + @ = -, such as {LEDGER}",
        )
    if wish.group and not GROUP_NAME.fullmatch(wish.group):
        raise InputError(
            f"{quoted(wish.group)} is not the name of a group",
            field="--group",
            advice="use small letters, digits, - and _, at most 31, such as gpu-users",
        )


def _settings(wish: BoxWish) -> str:
    lines = [f'ledger = "{wish.ledger}"']
    if wish.group:
        lines.append(f'group = "{wish.group}"')
    lines.append(f"fence-gpus = {'true' if wish.fence_gpus else 'false'}")
    note = "# Settings of your own belong into config.toml beside it, which wins.\n"
    return HEADER + note + "\n".join(lines) + "\n"


def _service(program: str) -> str:
    return (
        f"{HEADER}[Unit]\nDescription=Free what ended jobs held (numawise)\n\n"
        f"[Service]\nType=oneshot\nExecStart={program} reap\nNice=10\nTimeoutStartSec=5min\n"
    )


def _timer() -> str:
    return (
        f"{HEADER}[Unit]\nDescription=Free what ended jobs held (numawise), every five minutes\n\n"
        "[Timer]\nOnBootSec=2min\nOnUnitActiveSec=5min\nAccuracySec=30s\n\n[Install]\nWantedBy=timers.target\n"
    )

"""Whether several people can share a host: its ledger, its settings, and what ``setup`` made of it."""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from numawise.apps.machine.doctor import good, mind
from numawise.errors import NumawiseError
from numawise.host.box import AS_RECORDED, MISSING, REAP_TIMER, BoxRecord, box_parts, group_entry, read_record
from numawise.host.files import Tree
from numawise.host.plan import answer_of
from numawise.host.settings import ADMINISTRATORS, HostSettings, read_settings
from numawise.inputs.ledger import ledger_place
from numawise.ledger.place import machine_id
from numawise.ledger.store import Ledger
from numawise.results.finding import Finding

HERE = Path("/")
AGAIN = "run 'numawise setup' again, as root"


def examine_sharing(root: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    """What was found; nothing where the folder is not the root of a system."""
    if not (root / "etc").is_dir():
        return
    trusted = ADMINISTRATORS if root == HERE else ADMINISTRATORS | {os.geteuid()}
    here = environment if root == HERE else {}
    try:
        settings = read_settings(here, root, trusted)
    except NumawiseError as problem:
        yield mind("settings", problem.message, problem.advice)
        settings = HostSettings()
    for remark in settings.remarks:
        yield mind("settings", remark, "chown root, chmod go-w, or remove it")
    yield from _ledger(root, here, settings, trusted)
    if Tree(root).text("proc/sys/fs/protected_hardlinks") == "0":
        yield mind(
            "hard links",
            "anybody may link files of others, and a ledger's file of several names is ignored",
            "sysctl fs.protected_hardlinks=1",
        )
    try:
        record = read_record(root, trusted)
    except NumawiseError as problem:
        yield mind("setup", problem.message, problem.advice)
        return
    if record or settings.fence_gpus:
        yield good("GPU fencing", "on" if settings.fence_gpus else "off")
    if settings.group and group_entry(root, settings.group) is None:
        yield mind("group", f"there is no group {settings.group}", AGAIN)
    elif settings.group:
        yield good("group", settings.group)
    yield from _parts(root, record)


def _ledger(
    root: Path, environment: Mapping[str, str], settings: HostSettings, trusted: Collection[int]
) -> Iterator[Finding]:
    try:
        place = ledger_place(environment, settings, root, trusted)
        with Ledger.open(place.folders, machine_id(root)) as ledger:
            ledger.holds()
            problems = ledger.problems
    except NumawiseError as problem:
        yield mind("ledger", problem.message, problem.advice)
        return
    folder = place.folders[0]
    if place.alone:
        said, _, fix = place.alone.rpartition("; ")
        yield mind("ledger", said, fix)
    elif place.unsure:
        yield mind("ledger", f"{folder}; whether all users see it is not known: {place.unsure}", "")
    else:
        yield good("ledger", f"{folder}, shared by all users")
    for remark in place.remarks:
        yield mind("ledger", remark, AGAIN)
    for sentence in problems:
        yield mind("ledger's files", sentence, "its owner or root can move it to another folder")


def _parts(root: Path, record: BoxRecord) -> Iterator[Finding]:
    for purpose, path, found in box_parts(root, record):
        if found.state == AS_RECORDED:
            yield good(purpose, path)
        elif found.state == MISSING:
            yield mind(purpose, f"{path} is missing", AGAIN)
        else:
            fix = "if that is not meant, remove it and run 'numawise setup' again, as root"
            yield mind(purpose, f"{path}: {found.why}", fix)
    if REAP_TIMER in record.files and root == HERE and Path("/run/systemd/system").is_dir():
        timer = REAP_TIMER.rpartition("/")[2]
        if answer_of(("systemctl", "is-active", "--quiet", timer))[0]:
            yield mind("reaper", f"{timer} is not active", AGAIN)
        else:
            yield good("reaper", f"{timer} is active")

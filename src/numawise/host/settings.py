"""Settings of this host and this user: what a launcher does when nobody says otherwise.

Rules kept here:

1. The environment (``NUMAWISE_…``) wins over the user's file, and that over the system's.  But CPUs that the
   administrator keeps for the system stay kept: of a user's variable only root's would count against that.
2. A file is TOML; a key that is not known, or a value of the wrong kind, is refused with its file and key.
3. What is the machine's affair (CPUs kept for the system, fenced GPUs, the group) a user's file may not set.
4. The system has two files: the one that ``numawise setup`` writes, and the administrator's own, which wins.
   Both count only where root alone could have written them; otherwise they are not read, as a remark says.
"""

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from numawise.errors import InputError, quoted
from numawise.values import dataclass

BOX_FILE = "etc/numawise/box.toml"
"""What ``numawise setup`` writes."""
SYSTEM_FILE = "etc/numawise/config.toml"
USER_FILE = "numawise/config.toml"
RESERVED, POLICY, LEDGER, GROUP, FENCE = "reserved-cpus", "policy", "ledger", "group", "fence-gpus"
BOX_LEDGER = "ledger for all"
"""The same key in a file of the system: a user may choose another, which is then not the machine's."""
KINDS: dict[str, type] = {RESERVED: str, POLICY: str, LEDGER: str, GROUP: str, FENCE: bool}
VARIABLES = {RESERVED: "NUMAWISE_RESERVED_CPUS", POLICY: "NUMAWISE_POLICY", LEDGER: "NUMAWISE_LEDGER"}
SYSTEM_ONLY = (RESERVED, GROUP, FENCE)
ADMINISTRATORS = frozenset({0})
LARGEST = 1 << 16
"""Bytes of a settings file."""


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What was set; '' where nothing was."""

    reserved_cpus: str = ""
    """A CPU list, or ``none``; '': the rule of the house."""
    policy: str = ""
    ledger: str = ""
    """The folder that the user asked for."""
    box_ledger: str = ""
    """The folder for all users that the administrator named."""
    group: str = ""
    """Whose members record their holds in the ledger that the administrator made."""
    fence_gpus: bool = False
    """A job without GPUs sees none, and one with GPUs no others."""
    origins: tuple[tuple[str, str], ...] = ()
    """Setting → the file or variable it comes from."""
    remarks: tuple[str, ...] = ()
    """What was passed over, a sentence each."""

    def origin(self, key: str) -> str:
        """The file or variable that a setting comes from; '' where it is not set."""
        return dict(self.origins).get(key, "")


def read_settings(
    environment: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
    trusted: Collection[int] = ADMINISTRATORS,
) -> HostSettings:
    """Gather the settings (rule 1); files of the system must belong to one of the users ``trusted``."""
    values: dict[str, str | bool] = {}
    origins: dict[str, str] = {}
    remarks: list[str] = []
    user_file = _user_file(environment)
    read = [(root / name, _system(root / name, trusted, remarks)) for name in (BOX_FILE, SYSTEM_FILE)]
    read += [(user_file, _users(user_file))] if user_file else []
    for file, settings in read:
        for key, value in settings.items():
            name = BOX_LEDGER if key == LEDGER and file != user_file else key
            values[name], origins[name] = value, str(file)
    for key, variable in VARIABLES.items():
        asked = environment.get(variable)
        if asked and key in SYSTEM_ONLY and key in values and os.geteuid() != 0:
            if asked != values[key]:
                remarks.append(
                    f"{variable} is not used: {key} is {values[key]} for all users by {origins[key]}"
                )
        elif asked:
            values[key], origins[key] = asked, variable
    return HostSettings(
        str(values.get(RESERVED, "")),
        str(values.get(POLICY, "")),
        str(values.get(LEDGER, "")),
        str(values.get(BOX_LEDGER, "")),
        str(values.get(GROUP, "")),
        values.get(FENCE) is True,
        tuple(sorted(origins.items())),
        tuple(remarks),
    )


def _system(file: Path, trusted: Collection[int], remarks: list[str]) -> Mapping[str, str | bool]:
    """One of the system's files (rule 4)."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as problem:
        if not isinstance(problem, FileNotFoundError | NotADirectoryError):
            remarks.append(f"the settings in {file} are not used: it cannot be read ({problem.strerror})")
        return {}
    try:
        if why := not_the_administrators(file, os.fstat(handle), trusted):
            remarks.append(f"the settings in {file} are not used: {why}")
            return {}
        return _parsed(file, _content(file, handle), tuple(KINDS))
    finally:
        os.close(handle)


def not_the_administrators(file: Path, status: os.stat_result, trusted: Collection[int]) -> str:
    """Why somebody else than root could have written a file, as a clause; '' when nobody could."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a plain file"
    for place, facts in ((file, status), (file.parent, file.parent.stat())):
        if facts.st_uid not in trusted:
            return f"{place} belongs to uid {facts.st_uid}, not to root"
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others than root may write {place} (chmod go-w {place})"
    return ""


def _content(file: Path, handle: int) -> str:
    try:
        data = os.read(handle, LARGEST + 1)
        if len(data) > LARGEST:
            raise InputError(f"is larger than {LARGEST} bytes", file=str(file), advice="fix or remove it")
        return data.decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise _unreadable(file, problem) from None


def _user_file(environment: Mapping[str, str]) -> Path | None:
    folder = environment.get("XDG_CONFIG_HOME") or (
        f"{environment['HOME']}/.config" if environment.get("HOME") else ""
    )
    return Path(folder) / USER_FILE if folder else None


def box_settings(file: Path, text: str) -> HostSettings:
    """What one file of the system says, whoever wrote it."""
    values = _parsed(file, text, tuple(KINDS))
    return HostSettings(
        box_ledger=str(values.get(LEDGER, "")),
        group=str(values.get(GROUP, "")),
        fence_gpus=values.get(FENCE) is True,
    )


def _users(file: Path) -> Mapping[str, str | bool]:
    """The user's own file."""
    try:
        text = file.read_text()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # a file that we may not read is somebody else's: HOME after a change of user
    except (OSError, UnicodeDecodeError) as problem:
        raise _unreadable(file, problem) from None
    return _parsed(file, text, tuple(key for key in KINDS if key not in SYSTEM_ONLY))


def _unreadable(file: Path, problem: OSError | UnicodeDecodeError) -> InputError:
    reason = getattr(problem, "strerror", None) or "it is not text"
    return InputError(f"cannot be read: {reason}", file=str(file), advice="fix or remove it")


def _parsed(file: Path, text: str, keys: tuple[str, ...]) -> Mapping[str, str | bool]:
    import tomllib  # noqa: PLC0415 - most hosts have no such file

    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as problem:
        raise InputError(f"is not valid TOML: {problem}", file=str(file), advice="fix or remove it") from None
    for key, value in data.items():
        if key not in keys:
            advice = f"known here are {', '.join(keys)}"
            if key in SYSTEM_ONLY:
                advice = f"set it in /{SYSTEM_FILE}, for the whole machine"
            raise InputError(f"unknown setting {quoted(key)}", file=str(file), field=key, advice=advice)
        if type(value) is not KINDS[key]:
            what, advice = (
                ("text", "put it in quotes") if KINDS[key] is str else ("true or false", "write one")
            )
            raise InputError(f"{quoted(value)} is not {what}", file=str(file), field=key, advice=advice)
    return data

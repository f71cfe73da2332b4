"""Settings of this host and this user: what a launcher does when nobody says otherwise.

Rules kept here:

1. The environment (``NUMAWISE_…``) wins over the user's file, and that over the system's.  But CPUs that the
   administrator keeps for the system stay kept: of a user's variable only root's would count against that.
2. A file is TOML; a key that is not known, or a value of the wrong kind, is refused with its file and key.
3. CPUs kept for the system are the machine's affair, so a user's file may not set them.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from numawise.errors import InputError, quoted
from numawise.values import dataclass

SYSTEM_FILE = "etc/numawise/config.toml"
USER_FILE = "numawise/config.toml"
RESERVED, POLICY, LEDGER = "reserved-cpus", "policy", "ledger"
VARIABLES = {RESERVED: "NUMAWISE_RESERVED_CPUS", POLICY: "NUMAWISE_POLICY", LEDGER: "NUMAWISE_LEDGER"}
SYSTEM_ONLY = (RESERVED,)


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What was set; '' where nothing was."""

    reserved_cpus: str = ""
    """A CPU list, or ``none``; '': the rule of the house."""
    policy: str = ""
    ledger: str = ""
    origins: tuple[tuple[str, str], ...] = ()
    """Setting → the file or variable it comes from."""
    remarks: tuple[str, ...] = ()
    """What was passed over, a sentence each."""


def read_settings(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> HostSettings:
    """Gather the settings (rule 1)."""
    found: dict[str, str] = {}
    origins: dict[str, str] = {}
    system = root / SYSTEM_FILE
    for file, keys in ((system, tuple(VARIABLES)), (_user_file(environment), _user_keys())):
        for key, value in (_read(file, keys) if file else {}).items():
            found[key], origins[key] = value, str(file)
    remarks = []
    for key, variable in VARIABLES.items():
        asked = environment.get(variable)
        if asked and key in SYSTEM_ONLY and key in found and os.geteuid() != 0:
            if asked != found[key]:
                remarks.append(
                    f"{variable} is not used: {key} is {found[key]} for all users by {origins[key]}"
                )
        elif asked:
            found[key], origins[key] = asked, variable
    return HostSettings(
        found.get(RESERVED, ""),
        found.get(POLICY, ""),
        found.get(LEDGER, ""),
        tuple(sorted(origins.items())),
        tuple(remarks),
    )


def _user_keys() -> tuple[str, ...]:
    return tuple(key for key in VARIABLES if key not in SYSTEM_ONLY)


def _user_file(environment: Mapping[str, str]) -> Path | None:
    folder = environment.get("XDG_CONFIG_HOME") or (
        f"{environment['HOME']}/.config" if environment.get("HOME") else ""
    )
    return Path(folder) / USER_FILE if folder else None


def _read(file: Path, keys: tuple[str, ...]) -> dict[str, str]:
    try:
        text = file.read_text()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}  # a file that we may not read is somebody else's: HOME after a change of user
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text"
        raise InputError(f"cannot be read: {reason}", file=str(file), advice="fix or remove it") from None
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
        if not isinstance(value, str):
            raise InputError(
                f"{quoted(value)} is not text", file=str(file), field=key, advice="put it in quotes"
            )
    return {key: str(value) for key, value in data.items()}

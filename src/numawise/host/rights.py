"""Acting for another user with that user's rights and no others.

Rules kept here:

1. Whatever a user wrote down may be a lie: a process that is not theirs, a control group that is somebody
   else's.  So root does to it only what that user could do, in a process that has become that user for good:
   then the kernel refuses what is not theirs.
2. That process has no terminal, none of root's environment, and an end: after ``PATIENCE`` seconds it is
   killed.
"""

import json
import os
import pwd
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NoReturn

from numawise.errors import HostError

PATIENCE = 20.0
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LARGEST = 1 << 20


def as_user(uid: int, work: Callable[[], str]) -> str:
    """Do something with the rights of a user, and return its answer; raise ``HostError`` as it does."""
    if uid == os.geteuid():
        return work()
    if os.geteuid() != 0:
        raise HostError(f"only user {uid} or root can do that")
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _do_as(uid, work, theirs)
    os.close(theirs)
    try:
        data = _read(ours, time.monotonic() + PATIENCE)
    finally:
        os.close(ours)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # it has answered, or has had its time
        os.waitpid(pid, 0)
    try:
        done, answer, advice = json.loads(data)
    except ValueError:
        raise HostError(f"what was to be done as user {uid} did not end") from None
    if not done:
        raise HostError(answer, advice)
    return str(answer)


def environment_of(uid: int) -> dict[str, str]:
    """What a program needs to know to act as a user; nothing of ours is in it."""
    found = {"PATH": SAFE_PATH, "LC_ALL": "C", "XDG_RUNTIME_DIR": f"/run/user/{uid}", "HOME": "/"}
    with suppress(KeyError):
        user = pwd.getpwuid(uid)
        found |= {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
    return found


def plain_environment() -> dict[str, str]:
    """Our own environment for a program that is asked something.

    It is looked for in absolute folders alone: what lies in the working folder is anybody's.
    """
    path = os.environ.get("PATH", os.defpath).split(":")
    absolute = ":".join(folder for folder in path if folder.startswith("/"))
    return {**os.environ, "PATH": absolute or SAFE_PATH, "LC_ALL": "C"}


def groups_of(uid: int) -> tuple[int, list[int]]:
    """A user's group and all groups; those of a user that the system does not know are none."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return uid, []
    return user.pw_gid, os.getgrouplist(user.pw_name, user.pw_gid)


def _do_as(uid: int, work: Callable[[], str], answer: int) -> NoReturn:
    """In the new process: become the user, work, report, and end without what the parent does at its end."""
    try:
        try:
            os.setsid()
            _become(uid, environment_of(uid))
            said = (True, work(), "")
        except HostError as problem:
            said = (False, problem.message, problem.advice)
        except OSError as problem:
            said = (False, problem.strerror or "it failed", "")
        os.write(answer, json.dumps(said).encode()[:LARGEST])
    finally:
        os._exit(0)


def _become(uid: int, environment: Mapping[str, str]) -> None:
    group, groups = groups_of(uid)
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(uid, uid, uid)
    os.environ.clear()
    os.environ.update(environment)


def _read(handle: int, until: float) -> bytes:
    data = b""
    while (left := until - time.monotonic()) > 0 and len(data) < LARGEST:
        if not select.select([handle], [], [], left)[0]:
            break
        piece = os.read(handle, LARGEST)
        if not piece:
            break
        data += piece
    return data

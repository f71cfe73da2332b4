"""What some tests need of the machine, as marks that skip where it is missing and say what is."""

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest


def _terminals() -> bool:
    try:
        ours, theirs = pty.openpty()
    except OSError:
        return False
    os.close(ours)
    os.close(theirs)
    return True


TERMINALS = pytest.mark.skipif(
    not _terminals(), reason="there are no pseudo terminals: /dev/pts is not mounted"
)
PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc is not mounted")
SYS = pytest.mark.skipif(not Path("/sys/devices/system/cpu").exists(), reason="/sys is not mounted")
CONTROL_GROUPS = pytest.mark.skipif(
    not any(Path("/sys/fs/cgroup").glob("*")), reason="control groups are not mounted at /sys/fs/cgroup"
)
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as several users")
MOUNTS = pytest.mark.skipif(
    os.geteuid() != 0
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="mount namespaces are not allowed here",
)
OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")

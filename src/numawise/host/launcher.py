"""Who launched a rank, and on which CPUs.

The launcher is the nearest parent that does not carry the rank's variable; shells and wrappers in between do.
Its CPUs are those it had to share out, whatever it bound each rank to.
"""

import os
from pathlib import Path

from numawise.host.processes import allowed_of, carries, read_process

ROOT = Path("/")
MOST_PARENTS = 64


def launcher_cpus(mark: str, pid: int = 0, root: Path = ROOT) -> int | None:
    """CPUs of the process that started the ranks; None when it cannot be told.

    The mark is the rank's variable with its value, ``LOCAL_RANK=3``.
    """
    at = pid or os.getpid()
    for _ in range(MOST_PARENTS):
        process = read_process(at, root)
        if process is None or process.parent <= 0:
            return None
        at = process.parent
        if not carries(at, mark, root):
            allowed = allowed_of(at, root=root)
            return allowed[0] if allowed else None
    return None

"""From a node to a file."""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from numawise.apps.bundle.gather import gather
from numawise.apps.bundle.model import Wanted
from numawise.apps.bundle.pack import Packed, packed
from numawise.errors import InputError


def collect(wanted: Wanted) -> Packed:
    """Gather what is wanted, and pack it."""
    return packed(gather(wanted), keep_names=wanted.keep_names, when=datetime.now(UTC).replace(microsecond=0))


def written(bundle: Packed, out: str | None) -> str:
    """Write a bundle whole or not at all, for its owner's eyes; returns where."""
    stamp = bundle.manifest.collected.replace("-", "").replace(":", "").replace("T", "-").rstrip("Z")
    path = Path(out or f"numawise-bundle-{stamp}.tar.gz")
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(bundle.data)
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InputError(f"cannot be written: {reason}", file=str(path), advice="check the folder") from None
    return str(path)

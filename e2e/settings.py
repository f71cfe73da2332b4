"""What a trial is played with."""

from dataclasses import dataclass
from pathlib import Path

from e2e.build import RELEASE


@dataclass(frozen=True)
class Settings:
    """Programs, places and sizes."""

    programs: Path
    cache: Path
    scratch: Path
    out: Path
    matching: Path | None = None
    release: str = RELEASE
    seed: int = 1
    nodes: int = 200
    pods: int = 1000
    trace: Path | None = None
    factor: float = 120.0
    sizes: tuple[int, ...] = (500, 5000)
    only: tuple[str, ...] = ()
    """Runs of a trial, by name; none: all."""

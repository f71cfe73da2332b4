"""Real and synthetic machines, each beside the answer a reader should give.

A *set* is a folder of recorded machines and a module here that knows how to check it.  The module has

* ``NAME``: the folder's name, such as ``sysfs``;
* ``cases(folder)``: an iterator of (case name, list of differences); an empty list means agreement.

``python -m tests.machines DIR`` checks every set in DIR that has a module.  To add a set, add a module.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast


class Checks(Protocol):
    """What a module must have to check a set."""

    NAME: str

    def cases(self, folder: Path, /) -> Iterator[tuple[str, list[str]]]: ...


def sets() -> dict[str, Checks]:
    """Folder name → module that checks it."""
    found: dict[str, Checks] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith(("_", "test_")):
            module = importlib.import_module(f"{__name__}.{info.name}")
            if hasattr(module, "NAME") and hasattr(module, "cases"):
                checks = cast("Checks", module)
                found[checks.NAME] = checks
    return dict(sorted(found.items()))

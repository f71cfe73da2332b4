"""NUMA-aware placement of jobs and pods.

From Python: ``numawise.hold`` holds CPUs, memory and GPUs that belong together for the length of a block,
``numawise.place`` says where a job would go, ``numawise.bind`` binds a rank of a job near to its GPU::

    with numawise.hold(cpus=8, gpus=2) as held:
        train(held.gpus)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numawise.apps.launch.bind import bind
    from numawise.apps.launch.python import NoRoomError, hold, place
    from numawise.results.placement import Held, JobPlacement, NoRoom, RankBinding

__version__ = "0.1.0"
__all__ = [
    "Held",
    "JobPlacement",
    "NoRoom",
    "NoRoomError",
    "RankBinding",
    "__version__",
    "bind",
    "hold",
    "place",
]
_HOME = {
    "bind": "apps.launch.bind",
    **dict.fromkeys(("NoRoomError", "hold", "place"), "apps.launch.python"),
    **dict.fromkeys(("Held", "JobPlacement", "NoRoom", "RankBinding"), "results.placement"),
}


def __getattr__(name: str) -> object:
    """Import what holds need only when it is used."""
    if name not in _HOME:
        raise AttributeError(f"module 'numawise' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - costs time

    return getattr(import_module(f"numawise.{_HOME[name]}"), name)

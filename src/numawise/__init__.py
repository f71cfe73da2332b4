"""numawise: decide, explain and carry out NUMA placement as the kubelet does.

On one host, from Python::

    import numawise

    with numawise.hold(cpus=8, gpus=2) as held:
        ...  # this process is bound to held.cpus and held.mems, and CUDA sees held.gpus
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numawise.apps.launch.python import NoRoomError, hold
    from numawise.results.placement import Held

__version__ = "0.1.0"
__all__ = ["Held", "NoRoomError", "__version__", "hold"]


def __getattr__(name: str) -> object:
    """Import what holds need only when it is used."""
    if name in ("Held", "NoRoomError", "hold"):
        from numawise.apps.launch import python as pyhold  # noqa: PLC0415 - costs time

        return getattr(pyhold, name)
    raise AttributeError(f"module 'numawise' has no attribute {name!r}")

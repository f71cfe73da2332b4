"""NUMA-aware placement of jobs and pods: decide as the kubelet does, explain, and carry it out.

What this module exports is promised; everything below it may change::

    import numawise as nw

    node = nw.Node("dgx-h100", "kubelet.yaml", release="1.36")
    decision = node.admit("pod.yaml")   # .admitted .reason .containers["train"].cpus
    why = node.explain("pod.yaml")      # .answer .suggestions[0].patch

    nw.bind()                           # a rank of torchrun, mpirun, srun or Ray, near its GPU
    with nw.hold(cpus=8, gpus=2) as held:
        train(held.gpus)
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from numawise.version import __version__

if TYPE_CHECKING:
    from numawise.api import Node, check, kubelet_config, machine, simulate, to_json
    from numawise.apps.launch.bind import bind
    from numawise.apps.launch.python import NoRoomError, hold, place
    from numawise.errors import (
        ClusterError,
        HostError,
        InputError,
        KubeletRefused,
        LedgerError,
        NumawiseError,
    )
    from numawise.results.decision import ContainerGrant, PodDecision, PodResize
    from numawise.results.explanation import Explanation, Suggestion
    from numawise.results.finding import CheckReport, Finding
    from numawise.results.placement import Held, JobPlacement, NoRoom, RankBinding
    from numawise.results.simulation import Filled


__all__ = [
    "CheckReport",
    "ClusterError",
    "ContainerGrant",
    "Explanation",
    "Filled",
    "Finding",
    "Held",
    "HostError",
    "InputError",
    "JobPlacement",
    "KubeletRefused",
    "LedgerError",
    "NoRoom",
    "NoRoomError",
    "Node",
    "NumawiseError",
    "PodDecision",
    "PodResize",
    "RankBinding",
    "Suggestion",
    "__version__",
    "bind",
    "check",
    "hold",
    "kubelet_config",
    "machine",
    "place",
    "simulate",
    "to_json",
]
_HOME = {
    "api": "Node check kubelet_config machine simulate to_json",
    "apps.launch.bind": "bind",
    "apps.launch.python": "NoRoomError hold place",
    "errors": "ClusterError HostError InputError KubeletRefused LedgerError NumawiseError",
    "results.decision": "ContainerGrant PodDecision PodResize",
    "results.explanation": "Explanation Suggestion",
    "results.finding": "CheckReport Finding",
    "results.placement": "Held JobPlacement NoRoom RankBinding",
    "results.simulation": "Filled",
}
"""Module → what it is the home of."""


def __getattr__(name: str) -> object:
    """Import what is exported only when it is used."""
    home = next((module for module, names in _HOME.items() if name in names.split()), "")
    if not home:
        raise AttributeError(f"module 'numawise' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - costs time

    return getattr(import_module(f"numawise.{home}"), name)


class _Package(ModuleType):
    """This module, in which ``machine`` stays what it exports although a package below has the name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name == "machine" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

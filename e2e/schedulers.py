"""The schedulers that are compared, each as a KubeSchedulerConfiguration.

Rules kept here:

1. All four ask for all nodes (``percentageOfNodesToScore: 100``): below that a scheduler sees a sample, and what it
   then finds hangs on the sample.
2. ``numawise`` is the stock scheduler with the extender that ``apps/scheduler/configuration.py`` writes; nothing else of
   it is changed.
3. ``plugins`` is scheduler-plugins' NodeResourceTopologyMatch with its cache, read again every second: its page
   recommends 5 s or more, but in compressed time that would be minutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numawise.apps.scheduler.configuration import ExtenderWish, scheduler_configuration

LEAST, MOST, OURS, PLUGINS = "least-allocated", "most-allocated", "numawise", "plugins"
SCHEDULERS = (LEAST, MOST, OURS, PLUGINS)
QPS = 1000
PORT = 9443


@dataclass(frozen=True)
class Back:
    """How long a scheduler leaves a pod that it found no node for, in seconds."""

    first: int = 1
    longest: int = 10


USUAL = Back()


def configuration(
    kind: str,
    kubeconfig: str,
    *,
    back: Back = USUAL,
    name: str = "default-scheduler",
    url: str = "",
    trusted: str = "",
) -> dict[str, Any]:
    """A scheduler's file; it is JSON, which YAML readers take."""
    profile: dict[str, Any] = {"schedulerName": name}
    if kind == MOST:
        profile["pluginConfig"] = [_fit("MostAllocated")]
    if kind == PLUGINS:
        profile["plugins"] = {"multiPoint": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}}
        profile["pluginConfig"] = [_matching()]
    found: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": kubeconfig, "qps": QPS, "burst": QPS},
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": back.first,
        "podMaxBackoffSeconds": back.longest,
        "profiles": [profile],
    }
    if kind == OURS:
        wish = ExtenderWish(address=url or f"https://127.0.0.1:{PORT}", ca_file=trusted)
        found["extenders"] = scheduler_configuration(wish)["extenders"]
    return found


def _fit(strategy: str) -> Mapping[str, Any]:
    resources = [{"name": name, "weight": 1} for name in ("cpu", "memory")]
    return _plugin(
        "NodeResourcesFit",
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "NodeResourcesFitArgs",
            "scoringStrategy": {"type": strategy, "resources": resources},
        },
    )


def _matching() -> Mapping[str, Any]:
    return _plugin(
        "NodeResourceTopologyMatch",
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "NodeResourceTopologyMatchArgs",
            "scoringStrategy": {"type": "MostAllocated"},
            "cacheResyncPeriodSeconds": 1,
        },
    )


def _plugin(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": name, "args": arguments}

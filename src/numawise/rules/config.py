"""The part of a KubeletConfiguration that decisions hang on, as written and defaulted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numawise.quantity import Quantity


@dataclass(frozen=True, slots=True)
class ReservedMemory:
    """One entry of ``reservedMemory``."""

    numa: int
    limits: tuple[tuple[str, Quantity], ...]


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """Fields of ``KubeletConfiguration`` (``kubelet.config.k8s.io/v1beta1``), after defaulting."""

    cpu_manager_policy: str = "none"
    cpu_manager_policy_options: Mapping[str, str] = field(default_factory=dict)
    memory_manager_policy: str = "None"
    reserved_memory: tuple[ReservedMemory, ...] = ()
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    reserved_system_cpus: str = ""
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    eviction_hard: Mapping[str, str] = field(default_factory=dict)
    """With the defaults filled in, or merged when ``mergeDefaultEvictionSettings`` says so."""
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    other: Mapping[str, Any] = field(default_factory=dict)
    """What only the kubelet's validation looks at, by JSON name, as far as it is set."""
    given: frozenset[str] = field(default=frozenset(), compare=False)
    """The names of the fields that were written, by JSON name."""

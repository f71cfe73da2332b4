"""A kubelet's configuration as written and defaulted, and the rules that it resolves to."""

from collections.abc import Mapping
from typing import Any

from numawise.quantity import Quantity
from numawise.rules.behaviour import Behaviour
from numawise.rules.sysctls import SafeSysctl
from numawise.values import dataclass, field


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


# --------------------------------------------------------------------------------------------------
# Rules: configuration, version and gates, resolved to what the algorithms ask for.


NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
CPU_POLICIES, MEMORY_POLICIES = ("none", "static"), ("None", "Static")
"""The policies of the CPU and the Memory Manager; the first of each gives nothing."""


@dataclass(frozen=True, slots=True)
class CpuOptions:
    """Options of the static CPU policy."""

    full_cores: bool = False
    """``full-pcpus-only``"""
    across_numa: bool = False
    """``distribute-cpus-across-numa``"""
    by_socket: bool = False
    """``align-by-socket``"""
    across_cores: bool = False
    """``distribute-cpus-across-cores``"""
    strict_reservation: bool = False
    """``strict-cpu-reservation``"""
    by_uncore: bool = False
    """``prefer-align-cpus-by-uncorecache``"""


@dataclass(frozen=True, slots=True)
class ResizeRules:
    """Which resizes of running pods a kubelet carries out."""

    enabled: bool = True
    """Gate InPlacePodVerticalScaling; without it, a changed pod simply counts as changed."""
    exclusive_cpus: bool = False
    """Gate InPlacePodVerticalScalingExclusiveCPUs."""
    exclusive_memory: bool = False
    """Gate InPlacePodVerticalScalingExclusiveMemory; in releases before it, that of the CPUs."""
    init_containers: bool = False
    """Gate InPlacePodVerticalScalingInitContainers."""
    pod_level: bool = False
    """Gate InPlacePodLevelResourcesVerticalScaling."""
    spares_others: bool = False
    """Gate InPlacePodVerticalScalingSchedulerPreemption: a critical pod makes no room for its resize."""
    limited_swap: bool = False
    """Burstable containers may swap (``memorySwap.swapBehavior: LimitedSwap``)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How one kubelet decides."""

    cpu_static: bool = False
    cpu_options: CpuOptions = field(default_factory=CpuOptions)
    reserved_cpus: int = 0
    """CPUs that are never given exclusively, packed."""
    reserved_cores: int = 0
    """All CPUs of the cores that have a reserved one, packed."""
    memory_static: bool = False
    reserved_memory: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """NUMA node → memory type → bytes kept for the system."""
    topology_policy: str = NONE
    pod_scope: bool = False
    prefer_closest: bool = False
    cpu_manager: bool = True
    """There is a CPU Manager; without, there are no hints of it and no file."""
    memory_manager: bool = True
    """There is a Memory Manager."""
    device_manager: bool = True
    """There is a Device Manager that listens to plugins."""
    sidecars: bool = True
    """Gate SidecarContainers; without it, such a container is an ordinary init container."""
    pod_level_resources: bool = True
    """Gate PodLevelResources."""
    pod_level_managers: bool = False
    """Gate PodLevelResourceManagers."""
    numeric_tolerations: bool = False
    """Gate TaintTolerationComparisonOperators."""
    safe_sysctls: tuple[SafeSysctl, ...] = ()
    unsafe_sysctls: tuple[str, ...] = ()
    """``allowedUnsafeSysctls``."""
    claims_back_resources: bool = True
    """Gate DRAExtendedResource: extended resources may come from a claim."""
    resize: ResizeRules = field(default_factory=ResizeRules)
    behaviour: Behaviour = field(default_factory=Behaviour)

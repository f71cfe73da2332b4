from typing import Any

import pytest

from numawise.quantity import Quantity
from numawise.rules.check import Refusal, Settings, check
from numawise.rules.eviction import DEFAULTS, Duration
from numawise.rules.model import KubeletConfig, ReservedMemory
from numawise.sets import CpuSet

GI = 2**30
ONLINE = CpuSet.parse("0-27")


def start(config: KubeletConfig, capacity: int = 128 * GI) -> Settings | Refusal:
    return check(config, ONLINE, capacity)


def message(config: KubeletConfig) -> tuple[str, str]:
    refusal = start(config)
    assert isinstance(refusal, Refusal)
    return refusal.stage, refusal.message


def reserved(text: str) -> dict[str, str]:
    """``cpu=1 memory=1Gi``"""
    return dict(word.split("=") for word in text.split())


def memory(text: str) -> tuple[ReservedMemory, ...]:
    """``0:memory=1Gi,cpu=1 1:memory=2Gi``"""
    found = []
    for word in text.split():
        numa, _, limits = word.partition(":")
        pairs = (limit.split("=") for limit in limits.split(","))
        found.append(ReservedMemory(int(numa), tuple((name, Quantity.parse(size)) for name, size in pairs)))
    return tuple(found)


# fmt: off
@pytest.mark.parametrize(("system", "kube", "eviction", "reservation"), [
    pytest.param("",               "",                 "",                        "",                          id="nothing"),
    pytest.param("",               "cpu=1",            "",                        "cpu=1",                     id="one list"),
    pytest.param("cpu=500m",       "cpu=1500m",        "",                        "cpu=2",                     id="both add up"),
    pytest.param("cpu=0",          "cpu=0",            "",                        "",                          id="zero is dropped"),
    pytest.param("memory=1Gi",     "memory=1G",        "",                        "memory=2073741824",         id="the style of the first"),
    pytest.param("memory=1G",      "memory=1Gi",       "",                        "memory=2073741824",         id="also the other way"),
    pytest.param("memory=0",       "memory=1000000Ki", "",                        "memory=1000000Ki",          id="zero has no style"),
    pytest.param("memory=1e9",     "memory=1000M",     "",                        "memory=2e9",                id="exponent style"),
    pytest.param("memory=1Gi",     "memory=1Gi",       "memory.available=100Mi",  "memory=2148Mi",             id="with eviction"),
    pytest.param("",               "",                 "memory.available=1.5Gi",  "memory=1536Mi",             id="fraction"),
    pytest.param("",               "",                 "memory.available=5%",     "memory=6871947776",         id="single precision"),
    pytest.param("",               "",                 "memory.available=1%",     "memory=1374389504",         id="one percent"),
    pytest.param("",               "",                 "memory.available=0%",     "",                          id="0% is none"),
    pytest.param("",               "",                 "memory.available=100%",   "",                          id="100% is none"),
    pytest.param("",               "",                 "memory.available=100.0%", "memory=128Gi",              id="100.0% is one"),
    pytest.param("memory=1Gi",     "",                 "nodefs.available=10%",    "memory=1Gi",                id="other signals reserve nothing here"),
    pytest.param("",               "ephemeral-storage=1Gi pid=100", "",           "",                          id="only cpu and memory count"),
])
def test_reservation(system: str, kube: str, eviction: str, reservation: str) -> None:
    found = start(KubeletConfig(
        system_reserved=reserved(system), kube_reserved=reserved(kube), eviction_hard=reserved(eviction),
    ))
    assert isinstance(found, Settings)
    assert {name: str(amount) for name, amount in found.reservation.items()} == reserved(reservation)


@pytest.mark.parametrize(("cpus", "system", "kube", "reservation"), [
    pytest.param("0-1",  "cpu=3",            "cpu=9",                 "cpu=2",            id="the list beats both numbers"),
    pytest.param("0,27", "",                 "memory=1Gi",            "cpu=2 memory=1Gi", id="memory stays"),
    pytest.param("5",    "",                 "cpu=nonsense",          "cpu=1",            id="what is replaced is not even read"),
    pytest.param("0-27", "cpu=-1",           "",                      "cpu=28",           id="all of them"),
])
def test_reserved_cpus_replace_numbers(cpus: str, system: str, kube: str, reservation: str) -> None:
    found = start(KubeletConfig(
        reserved_system_cpus=cpus, system_reserved=reserved(system), kube_reserved=reserved(kube),
    ))
    assert isinstance(found, Settings)
    assert found.reserved_cpus == CpuSet.parse(cpus)
    assert {name: str(amount) for name, amount in found.reservation.items()} == reserved(reservation)


FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
FAILED = "--{}-reserved value failed to parse: "


@pytest.mark.parametrize(("list_of", "text", "problem"), [
    ("kube",   "cpu=one",             f'failed to parse quantity "one" for "cpu" resource: {FORM}'),
    ("kube",   "cpu=1x",              f'failed to parse quantity "1x" for "cpu" resource: {FORM}'),
    ("system", "memory=1K",           'failed to parse quantity "1K" for "memory" resource: unable to parse quantity\'s suffix'),
    ("system", "memory=-1Gi",         'resource quantity for "memory" cannot be negative: -1Gi'),
    ("kube",   "cpu=-1",              'resource quantity for "cpu" cannot be negative: -1'),
    ("kube",   "hugepages-1Gi=1Gi",   'cannot reserve "hugepages-1Gi" resource'),
    ("kube",   "nvidia.com/gpu=1 cpu=1", 'cannot reserve "nvidia.com/gpu" resource'),
    ("system", "storage=1",           'cannot reserve "storage" resource'),
])
def test_reserved_lists_refused(list_of: str, text: str, problem: str) -> None:
    config = KubeletConfig(**{f"{list_of}_reserved": reserved(text)})
    assert message(config) == (f"{list_of}-reserved", FAILED.format(list_of) + problem)


@pytest.mark.parametrize(("text", "problem"), [
    ("memory.free=100Mi",          "unsupported eviction signal memory.free"),
    ("memory.available=lots",      FORM),
    ("memory.available=0",         "eviction threshold memory.available must be positive: 0"),
    ("nodefs.available=-1Gi",      "eviction threshold nodefs.available must be positive: -1Gi"),
    ("memory.available=150%",      "eviction percentage threshold memory.available must be <= 100%: 150%"),
    ("pid.available=-1%",          "eviction percentage threshold pid.available must be >= 0%: -1%"),
    ("imagefs.available=inf%",     "eviction percentage threshold imagefs.available must be <= 100%: inf%"),
    ("imagefs.available=ten%",     'strconv.ParseFloat: parsing "ten": invalid syntax'),
    ("nodefs.inodesFree=%",        'strconv.ParseFloat: parsing "": invalid syntax'),
    ("memory.available=1e40%",     'strconv.ParseFloat: parsing "1e40": value out of range'),
    ("memory.available=x imagefs.available=ten%", 'strconv.ParseFloat: parsing "ten": invalid syntax'),
])
def test_eviction_refused(text: str, problem: str) -> None:
    assert message(KubeletConfig(eviction_hard=reserved(text))) == ("eviction-hard", problem)


@pytest.mark.parametrize(("cpus", "stage", "problem"), [
    ("0,28",       "reserved-cpus",   "reserved-cpus: 0,28 is not a subset of online-cpus: 0-27"),
    ("0-40",       "reserved-cpus",   "reserved-cpus: 0-40 is not a subset of online-cpus: 0-27"),
    ("9999999999", "reserved-cpus",   "reserved-cpus: 9999999999 is not a subset of online-cpus: 0-27"),
    ("0-",         "validate-config", 'strconv.Atoi: parsing "": invalid syntax'),
    ("-1",         "validate-config", 'strconv.Atoi: parsing "": invalid syntax'),
    ("0-x",        "validate-config", 'strconv.Atoi: parsing "x": invalid syntax'),
    ("0-99999,x",  "validate-config", 'strconv.Atoi: parsing "x": invalid syntax'),
    ("1, 2",       "validate-config", 'strconv.Atoi: parsing " 2": invalid syntax'),
    ("5-3",        "validate-config", 'invalid range "5-3" (5 > 3)'),
])
def test_reserved_cpus_refused(cpus: str, stage: str, problem: str) -> None:
    if stage == "validate-config":
        problem = f"invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) {cpus}, error: {problem}"
    assert message(KubeletConfig(reserved_system_cpus=cpus)) == (stage, problem)


ENFORCE = "enforceNodeAllocatable (--enforce-node-allocatable)"
ALONE = "the limit type {} for NUMA node 0 is not supported, only [memory hugepages-<HugePageSize>] is accepted"
SYSTEM_CGROUP = (
    'systemReservedCgroup (--system-reserved-cgroup) must be specified when "system-reserved"'
    f' or "system-reserved-compressible" included in {ENFORCE}'
)


@pytest.mark.parametrize(("fields", "problems"), [
    pytest.param({"topology_manager_policy": "strict"},
                 ['topologyManagerPolicy (--topology-manager-policy) "strict" must be one of: ["none" "best-effort" "restricted" "single-numa-node"]'],
                 id="topology policy"),
    pytest.param({"topology_manager_scope": "node"},
                 ['topologyManagerScope (--topology-manager-scope) "node" must be one of: "container", or "pod"'],
                 id="topology scope"),
    pytest.param({"reserved_system_cpus": "0", "kube_reserved_cgroup": "/kube"},
                 ["can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)"],
                 id="reserved CPUs and a cgroup"),
    pytest.param({"reserved_memory": memory("0:cpu=1,memory=1Gi")},           [ALONE.format('"cpu"')],              id="reserved memory of another type"),
    pytest.param({"reserved_memory": memory("0:memory=0")},
                 ['reserved memory may not be zero for NUMA node 0 and resource "memory"'],                         id="reserved memory of zero"),
    pytest.param({"reserved_memory": memory("1:hugepages-1Gi=1Gi 1:hugepages-1Gi=1Gi")},
                 ['the reserved memory has a duplicate value for NUMA node 1 and resource "hugepages-1Gi"'],        id="reserved memory twice"),
    pytest.param({"reserved_memory": memory("0:cpu=0 0:cpu=1")},
                 [ALONE.format('"cpu"'), 'reserved memory may not be zero for NUMA node 0 and resource "cpu"',
                  'the reserved memory has a duplicate value for NUMA node 0 and resource "cpu"'],                  id="the same words only once"),
    pytest.param({"enforce_node_allocatable": ("pods", "x")},
                 [f'option "x" specified for {ENFORCE}. Valid options are "pods", "system-reserved", "system-reserved-compressible", "kube-reserved", "kube-reserved-compressible" or "none"'],
                 id="enforcement"),
    pytest.param({"enforce_node_allocatable": ("pods", "pods")},              [f'duplicated enforcements "pods" in {ENFORCE}'], id="enforcement twice"),
    pytest.param({"enforce_node_allocatable": ("none", "pods")},
                 [f'{ENFORCE} may not contain additional enforcements when "none" is specified'],                   id="none and more"),
    pytest.param({"enforce_node_allocatable": ("system-reserved",)},          [SYSTEM_CGROUP],                      id="enforced without its cgroup"),
    pytest.param({"enforce_node_allocatable": ("system-reserved", "system-reserved-compressible")},
                 [f'both "system-reserved" and "system-reserved-compressible" cannot be specified together in {ENFORCE}', SYSTEM_CGROUP],
                 id="both kinds"),
    pytest.param({"other": {"cgroupsPerQOS": False}},
                 [f'cgroupsPerQOS (--cgroups-per-qos) must be set to true when "pods" contained in {ENFORCE}'],     id="no QoS cgroups"),
    pytest.param({"topology_manager_policy": "a", "topology_manager_scope": "b", "other": {"maxPods": -1}},
                 ["maxPods (--max-pods) -1 must not be a negative number",
                  'topologyManagerPolicy (--topology-manager-policy) "a" must be one of: ["none" "best-effort" "restricted" "single-numa-node"]',
                  'topologyManagerScope (--topology-manager-scope) "b" must be one of: "container", or "pod"'],     id="all of them, in order"),
])
def test_validation(fields: dict[str, Any], problems: list[str]) -> None:
    texts = [f"invalid configuration: {problem}" for problem in problems]
    assert message(KubeletConfig(**fields)) == ("validate-config", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


@pytest.mark.parametrize(("other", "problem"), [
    ({"nodeLeaseDurationSeconds": -1},         "invalid configuration: nodeLeaseDurationSeconds must be greater than 0"),
    ({"port": 65536},                          "invalid configuration: port (--port) 65536 must be between 1 and 65535, inclusive"),
    ({"healthzPort": -1},                      "invalid configuration: healthzPort (--healthz-port) -1 must be between 1 and 65535, inclusive"),
    ({"oomScoreAdj": 1001},                    "invalid configuration: oomScoreAdj (--oom-score-adj) 1001 must be between -1000 and 1000, inclusive"),
    ({"nodeStatusMaxImages": -2},              "invalid configuration: nodeStatusMaxImages (--node-status-max-images) -2 must be -1 or greater"),
    ({"imageGCHighThresholdPercent": 80},      "invalid configuration: imageGCLowThresholdPercent (--image-gc-low-threshold) 80 must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) 80"),
    ({"cpuCFSQuotaPeriod": Duration(2 * 10**9)}, "invalid configuration: cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {2s} must be between 1ms and 1sec, inclusive"),
    ({"imageMaximumGCAge": Duration(10**9)},   "invalid configuration: imageMaximumGCAge 1s must be greater than imageMinimumGCAge 2m0s"),
    ({"maxParallelImagePulls": 2, "serializeImagePulls": True}, "invalid configuration: maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set to false"),
    ({"runOnce": True},                        "invalid configuration: runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set"),
    ({"registerWithTaints": ({"key": "a b"},)}, "invalid taint: {a b   <nil>}"),
    ({"shutdownGracePeriod": Duration(10**6)}, "invalid configuration: shutdownGracePeriod {1ms} must be either zero or otherwise >= 1 sec"),
    ({"memorySwap": {"swapBehavior": "All"}},  'invalid configuration: memorySwap.swapBehavior "All" must be one of: "", "LimitedSwap" or "NoSwap"'),
    ({"crashLoopBackOff": {"maxContainerRestartPeriod": Duration.parse("400h")}}, "invalid configuration: CrashLoopBackOff.MaxContainerRestartPeriod (got: 1.44e+06 seconds) must be set between 1s and 300s"),
    ({"hairpinMode": "x"},                     'invalid configuration: option "x" specified for hairpinMode (--hairpin-mode). Valid options are "none", "hairpin-veth" or "promiscuous-bridge"'),
    ({"userNamespaces": {"idsPerPod": 65537}}, "invalid configuration: userNamespaces.idsPerPod must be a multiple of 65536"),
    ({"showHiddenMetricsForVersion": "1.34"},  "invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: Invalid value: \"1.34\": must be omitted or have the value '1.35'; only the previous minor version is allowed"),
    ({"logging": {"format": "xml"}},           'logging.format: Invalid value: "xml": Unsupported log format'),
    ({"logging": {"flushFrequency": Duration(-10**9)}}, 'logging.flushFrequency: Invalid value: "-1s": Must be greater than zero'),
    ({"logging": {"flushFrequency": -1}},      "logging.flushFrequency: Invalid value: -1: Must be greater than zero"),
    ({"tracing": {"endpoint": "http://x"}},    'tracing.endpoint: Invalid value: "http://x": unsupported scheme: http.  Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md'),
    ({"memoryThrottlingFactor": 1.5},          "invalid configuration: memoryThrottlingFactor 1.5 must be greater than 0 and less than or equal to 1.0"),
    ({"memoryReservationPolicy": "x"},         'invalid configuration: option "x" specified for memoryReservationPolicy. Valid options are "None" or "TieredReservation"'),
    ({"containerLogMaxFiles": 1},              "invalid configuration: containerLogMaxFiles must be greater than 1"),
    ({"podLogsDir": "/var//log"},              'invalid configuration: pod logs path "/var//log" must be normalized'),
])
def test_validation_of_the_rest(other: dict[str, Any], problem: str) -> None:
    assert message(KubeletConfig(other=other)) == ("validate-config", problem)


@pytest.mark.parametrize(("gates", "other", "problem"), [
    ({"CustomCPUCFSQuotaPeriod": False}, {"cpuCFSQuotaPeriod": Duration(10**9)},
     "invalid configuration: cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {1s} requires feature gate CustomCPUCFSQuotaPeriod"),
    ({"KubeletCrashLoopBackOffMax": False}, {"crashLoopBackOff": {"maxContainerRestartPeriod": Duration(10**9)}},
     "invalid configuration: FeatureGate KubeletCrashLoopBackOffMax not enabled, CrashLoopBackOff.MaxContainerRestartPeriod must not be set"),
    ({"KubeletEnsureSecretPulledImages": False}, {"imagePullCredentialsVerificationPolicy": "AlwaysVerify"},
     "invalid configuration: `imagePullCredentialsVerificationPolicy` must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled"),
    ({"RotateKubeletServerCertificate": False}, {"serverTLSBootstrap": True},
     "invalid configuration: serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate"),
])
def test_validation_under_gates(gates: dict[str, bool], other: dict[str, Any], problem: str) -> None:
    assert message(KubeletConfig(feature_gates=gates, other=other)) == ("validate-config", problem)


@pytest.mark.parametrize(("fields", "stage"), [
    pytest.param({"feature_gates": {"Magic": True}},                  "decode-config-panic", id="gates"),
    pytest.param({"topology_manager_scope": "node"},                  "validate-config",     id="validation"),
    pytest.param({"reserved_system_cpus": "99"},                      "reserved-cpus",       id="reserved CPUs"),
    pytest.param({"kube_reserved": {"gpu": "1"}},                     "kube-reserved",       id="kube"),
    pytest.param({"system_reserved": {"gpu": "1"}},                   "system-reserved",     id="system"),
    pytest.param({"eviction_hard": {"memory.free": "1"}},             "eviction-hard",       id="eviction"),
])
def test_stages_come_in_order(fields: dict[str, Any], stage: str) -> None:
    """Everything that a later stage would refuse is wrong as well."""
    later = {
        "decode-config-panic": {}, "validate-config": {"topology_manager_scope": "node"},
        "reserved-cpus": {"reserved_system_cpus": "99"}, "kube-reserved": {"kube_reserved": {"gpu": "1"}},
        "system-reserved": {"system_reserved": {"gpu": "1"}}, "eviction-hard": {"eviction_hard": {"memory.free": "1"}},
    }
    for name in list(later)[list(later).index(stage):]:
        fields = {**fields, **later[name]}
    assert message(KubeletConfig(**fields))[0] == stage
# fmt: on


INVALID = "invalid configuration: "
POLICIES = '["none" "best-effort" "restricted" "single-numa-node"]'
OLD_VALUES = 'Valid options are "pods", "system-reserved", "kube-reserved", or "none"'
SHUTDOWN = {"shutdownGracePeriod": Duration(10**6)}


# fmt: off
@pytest.mark.parametrize(("first", "last", "fields", "problem"), [
    (20, 23, {"topology_manager_policy": "strict"}, INVALID + "topologyManagerPolicy non-allowable value: strict"),
    (24, 37, {"topology_manager_policy": "strict"}, INVALID + f'topologyManagerPolicy (--topology-manager-policy) "strict" must be one of: {POLICIES}'),
    (20, 23, {"topology_manager_scope": "node"},    INVALID + "topologyManagerScope non-allowable value: node"),
    (24, 37, {"topology_manager_scope": "node"},    INVALID + 'topologyManagerScope (--topology-manager-scope) "node" must be one of: "container", or "pod"'),
    (20, 26, {"topology_manager_policy": "restricted", "feature_gates": {"TopologyManager": False}},
             INVALID + "topologyManagerPolicy restricted requires feature gate TopologyManager"),
    (20, 26, {"topology_manager_scope": "pod", "feature_gates": {"TopologyManager": False}},
             INVALID + "topologyManagerScope pod requires feature gate TopologyManager"),
    (20, 23, {"reserved_system_cpus": "0-"},  'unable to parse reservedSystemCPUs (--reserved-cpus), error: strconv.Atoi: parsing "": invalid syntax'),
    (24, 37, {"reserved_system_cpus": "0-"},  INVALID + 'unable to parse reservedSystemCPUs (--reserved-cpus) 0-, error: strconv.Atoi: parsing "": invalid syntax'),
    (20, 21, {"reserved_system_cpus": "5-3"}, ""),
    (20, 21, {"reserved_system_cpus": "1-2-3"}, ""),
    (22, 23, {"reserved_system_cpus": "5-3"}, 'unable to parse reservedSystemCPUs (--reserved-cpus), error: invalid range "5-3" (5 >= 3)'),
    (24, 26, {"reserved_system_cpus": "5-3"}, INVALID + 'unable to parse reservedSystemCPUs (--reserved-cpus) 5-3, error: invalid range "5-3" (5 >= 3)'),
    (27, 37, {"reserved_system_cpus": "5-3"}, INVALID + 'unable to parse reservedSystemCPUs (--reserved-cpus) 5-3, error: invalid range "5-3" (5 > 3)'),
    (21, 23, {"reserved_memory": memory("0:memory=0")}, 'reserved memory may not be zero for NUMA node 0 and resource "memory"'),
    (24, 37, {"reserved_memory": memory("0:memory=0")}, INVALID + 'reserved memory may not be zero for NUMA node 0 and resource "memory"'),
    (20, 30, {"other": {"cgroupsPerQOS": False}},
             INVALID + f"{ENFORCE} is not supported unless cgroupsPerQOS (--cgroups-per-qos) is set to true"),
    (31, 37, {"other": {"cgroupsPerQOS": False}},
             INVALID + f'cgroupsPerQOS (--cgroups-per-qos) must be set to true when "pods" contained in {ENFORCE}'),
    (20, 31, {"enforce_node_allocatable": ("x",)}, INVALID + f'option "x" specified for {ENFORCE}. {OLD_VALUES}'),
    (20, 23, {"enforce_node_allocatable": ("system-reserved",)},
             INVALID + f"systemReservedCgroup (--system-reserved-cgroup) must be specified when 'system-reserved' contained in {ENFORCE}"),
    (24, 31, {"enforce_node_allocatable": ("system-reserved",)},
             INVALID + f'systemReservedCgroup (--system-reserved-cgroup) must be specified when "system-reserved" contained in {ENFORCE}'),
    (32, 37, {"enforce_node_allocatable": ("system-reserved",)}, INVALID + SYSTEM_CGROUP),
    (20, 30, {"enforce_node_allocatable": ("pods", "pods")}, ""),
    (20, 31, {"other": {"runOnce": True}},          ""),
    (20, 20, {"other": SHUTDOWN}, INVALID + "Specifying ShutdownGracePeriod or ShutdownGracePeriodCriticalPods requires feature gate GracefulNodeShutdown"),
    (21, 23, {"other": SHUTDOWN}, INVALID + "ShutdownGracePeriod {1ms} must be either zero or otherwise >= 1 sec"),
    (24, 37, {"other": SHUTDOWN}, INVALID + "shutdownGracePeriod {1ms} must be either zero or otherwise >= 1 sec"),
    (22, 23, {"other": {"memorySwap": {"swapBehavior": "LimitedSwap"}}}, INVALID + "MemorySwap.SwapBehavior cannot be set when NodeSwap feature flag is disabled"),
    (24, 27, {"other": {"memorySwap": {"swapBehavior": "LimitedSwap"}}}, INVALID + "memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled"),
    (30, 37, {"other": {"memorySwap": {"swapBehavior": "UnlimitedSwap"}}},
             INVALID + 'memorySwap.swapBehavior "UnlimitedSwap" must be one of: "", "LimitedSwap" or "NoSwap"'),
    (32, 34, {"other": {"crashLoopBackOff": {"maxContainerRestartPeriod": Duration(10**9)}}},
             INVALID + "FeatureGate KubeletCrashLoopBackOffMax not enabled, CrashLoopBackOff.MaxContainerRestartPeriod must not be set"),
    (20, 21, {"other": {"logging": {"format": "xml"}}}, "unsupported log format: xml"),
    (22, 37, {"other": {"logging": {"format": "xml"}}}, 'logging.format: Invalid value: "xml": Unsupported log format'),
    (23, 33, {"other": {"logging": {"verbosity": 2**31}}}, "logging.verbosity: Invalid value: 0x80000000: Must be <= 2147483647"),
    (34, 37, {"other": {"logging": {"verbosity": 2**31}}}, "logging.verbosity: Invalid value: 2147483648: Must be <= 2147483647"),
    (25, 26, {"other": {"tracing": {}}}, INVALID + "tracing should not be configured if KubeletTracing feature flag is disabled."),
    (27, 27, {"other": {"showHiddenMetricsForVersion": "1.25"}},
             "--show-hidden-metrics-for-version must be omitted or have the value '1.26'. Only the previous minor version is allowed"),
    (37, 37, {"other": {"memoryThrottlingFactor": 0.5}, "feature_gates": {"MemoryQoS": False}}, INVALID + "memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled"),
    (37, 37, {"other": {"defaultPodSysctls": {"kernel.sem": "1"}}}, INVALID + "DefaultPodSysctls feature gate is required for Kubelet configuration option defaultPodSysctls"),
    (37, 37, {"other": {"defaultPodSysctls": {"vm/swappiness": "1"}}, "feature_gates": {"DefaultPodSysctls": True}},
             INVALID + '"vm/swappiness" is not known to be namespaced for defaultPodSysctls'),
])
def test_validation_by_release(first: int, last: int, fields: dict[str, Any], problem: str) -> None:
    for number in range(first, last + 1):
        found = check(KubeletConfig(**fields), ONLINE, 128 * GI, (1, number))
        expected = ("validate-config", problem) if problem else ("", "")
        assert ((found.stage, found.message) if isinstance(found, Refusal) else ("", "")) == expected, number


@pytest.mark.parametrize(("version", "fields", "stage", "problem"), [
    ((1, 31), {"feature_gates": {"Magic": True}},     "feature-gates",       "failed to set feature gates from initial flags-based config: unrecognized feature gate: Magic"),
    ((1, 32), {"feature_gates": {"Magic": True}},     "decode-config-panic", "failed to merge global and in-flight KubeletConfiguration while setting defaults, error: unrecognized feature gate: Magic"),
    ((1, 28), {"eviction_hard": {"containerfs.available": "5%"}}, "eviction-hard", "unsupported eviction signal containerfs.available"),
    ((1, 21), {"eviction_hard": {"memory.available": "150%"}},    "eviction-hard", "eviction percentage threshold memory.available must be <= 100%: 150%"),
    ((1, 20), {"eviction_hard": {"memory.available": "20000%"}},  "eviction-hard", "eviction percentage threshold memory.available must be <= 100%: 20000%"),
    ((1, 27), {"topology_manager_policy_options": {"prefer-closest-numa-nodes": "true"}}, "policy-options",
     'topology manager policy options map[prefer-closest-numa-nodes:true] require feature gates "TopologyManagerPolicyOptions" enabled'),
    ((1, 22), {"reserved_system_cpus": "0,28"}, "reserved-cpus", "reserved-cpus: 0,28 is not a subset of online-cpus: 0-27"),
])
def test_other_stages_by_release(version: tuple[int, int], fields: dict[str, Any], stage: str, problem: str) -> None:
    found = check(KubeletConfig(**fields), ONLINE, 128 * GI, version)
    assert found == Refusal(stage, problem)


@pytest.mark.parametrize(("cpus", "kept", "count"), [
    ("0,28",      "0,28", "2"),
    ("5-3",       "",     "1"),
    ("5-3,7",     "7",    "1"),
    ("1-2-3,4-5", "4-5",  "2"),
])
def test_reserved_cpus_were_taken_as_they_came(cpus: str, kept: str, count: str) -> None:
    found = check(KubeletConfig(reserved_system_cpus=cpus, kube_reserved={"cpu": "1"}), ONLINE, GI, (1, 21))
    assert isinstance(found, Settings)
    assert found.reserved_cpus == (CpuSet.parse(kept) if kept else None)
    assert str(found.reservation["cpu"]) == count
# fmt: on


def test_gates_are_refused_with_the_words_of_defaulting() -> None:
    stage, text = message(KubeletConfig(feature_gates={"TopologyManagerPolicyOptions": False}))
    assert stage == "decode-config-panic"
    assert text == (
        "failed to merge global and in-flight KubeletConfiguration while setting defaults, error: "
        "cannot set feature gate TopologyManagerPolicyOptions to false, feature is locked to true"
    )


def test_default_settings() -> None:
    found = start(KubeletConfig(eviction_hard=DEFAULTS))
    assert isinstance(found, Settings)
    assert found.reserved_cpus is None
    assert found.gates["CPUManagerPolicyBetaOptions"]
    assert {name: str(amount) for name, amount in found.reservation.items()} == {"memory": "100Mi"}


@pytest.mark.parametrize("policy", ["bogus", "static", ""])
def test_manager_policies_are_left_to_the_managers(policy: str) -> None:
    config = KubeletConfig(cpu_manager_policy=policy, memory_manager_policy=policy)
    assert isinstance(start(config), Settings)

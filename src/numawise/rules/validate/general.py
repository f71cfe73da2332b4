"""Limits on the kubelet's switches at large: ports, rates, image collection, taints.

Nothing here has to do with NUMA nodes, but a kubelet that refuses to start for one of these
decides nothing else either.  A range is a row in a table; the order is the kubelet's.  A check
that came, went or was reworded between releases is a dated row.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from numawise.rules.eviction import Duration
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import Dated
from numawise.strconv import quote
from numawise.values import dataclass

Gates = Mapping[str, bool]
Check = Callable[[KubeletConfig, Gates], Iterator[str]]

INVALID = "invalid configuration: "
NOT_NEGATIVE = "must not be a negative number"
LARGEST = 2**63 - 1
MICROSECOND, MILLISECOND, SECOND, MINUTE = 10**3, 10**6, 10**9, 60 * 10**9
EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
LONGEST_LABEL, LONGEST_DOMAIN, LONGEST_SYSCTL = 63, 253, 253
SYSCTL = re.compile(
    r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?",
    re.ASCII,
)
SWAPPED = str.maketrans("./", "/.")
NAMESPACED = frozenset({
    "kernel.domainname", "kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni",
    "kernel.shm_rmid_forced", "kernel.shm", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg",
})  # fmt: skip
NAMESPACED_UNDER = ("net.", "fs.mqueue.", "user.")


@dataclass(frozen=True, slots=True)
class Range:
    """The bounds of one number, and the words for it."""

    name: str
    flag: str
    default: int
    lowest: int = 0
    highest: int = LARGEST
    demand: str = NOT_NEGATIVE
    told: bool = True
    """The words give the number."""

    def __call__(self, config: KubeletConfig, _: Gates) -> Iterator[str]:
        value = config.other.get(self.name, self.default)
        if not self.lowest <= value <= self.highest:
            number = f" {value}" if self.told else ""
            yield f"{INVALID}{self.name} ({self.flag}){number} {self.demand}"


@dataclass(frozen=True, slots=True)
class QuotaPeriod:
    """The bounds of the CPU quota period."""

    shortest: int = MILLISECOND
    shown: str = "1ms"
    flag: str = " (--cpu-cfs-quota-period)"
    """Only for the words about the gate."""

    def __call__(self, config: KubeletConfig, gates: Gates) -> Iterator[str]:
        period = Duration(config.other.get("cpuCFSQuotaPeriod", 100 * MILLISECOND))
        if not gates["CustomCPUCFSQuotaPeriod"]:
            if period != 100 * MILLISECOND:
                needs = "requires feature gate CustomCPUCFSQuotaPeriod"
                yield f"{INVALID}cpuCFSQuotaPeriod{self.flag} {{{period}}} {needs}"
        elif not self.shortest <= period <= SECOND:
            bounds = f"must be between {self.shown} and 1sec, inclusive"
            yield f"{INVALID}cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {{{period}}} {bounds}"


def _between(lowest: int, highest: int) -> str:
    return f"must be between {lowest} and {highest}, inclusive"


def _lease(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.other.get("nodeLeaseDurationSeconds", 40) <= 0:
        yield f"{INVALID}nodeLeaseDurationSeconds must be greater than 0"


def _enforced_without_cgroups(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.enforce_node_allocatable and not config.other.get("cgroupsPerQOS", True):
        yield (
            f"{INVALID}enforceNodeAllocatable (--enforce-node-allocatable) is not supported"
            " unless cgroupsPerQOS (--cgroups-per-qos) is set to true"
        )


def _system_cgroups(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.other.get("systemCgroups") and not config.other.get("cgroupRoot"):
        yield (
            f"{INVALID}systemCgroups (--system-cgroups) was specified"
            " and cgroupRoot (--cgroup-root) was not specified"
        )


def _image_thresholds(config: KubeletConfig, _: Gates) -> Iterator[str]:
    low = config.other.get("imageGCLowThresholdPercent", 80)
    high = config.other.get("imageGCHighThresholdPercent", 85)
    if low >= high:
        yield (
            f"{INVALID}imageGCLowThresholdPercent (--image-gc-low-threshold) {low} must be less than"
            f" imageGCHighThresholdPercent (--image-gc-high-threshold) {high}"
        )


def _image_age_gate(name: str, config: KubeletConfig, gates: Gates) -> Iterator[str]:
    if config.other.get("imageMaximumGCAge", 0) and not gates["ImageMaximumGCAge"]:
        needs = "feature gate is required for Kubelet configuration option"
        yield f"{INVALID}ImageMaximumGCAge {needs} {name}"


def _pod_sysctls(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    given = config.other.get("defaultPodSysctls", {})
    if given and not gates["DefaultPodSysctls"]:
        needs = "feature gate is required for Kubelet configuration option"
        yield f"{INVALID}DefaultPodSysctls {needs} defaultPodSysctls"
        return
    seen: set[str] = set()
    for name in sorted(given):
        if len(name) > LONGEST_SYSCTL or not SYSCTL.fullmatch(name):
            yield f"{INVALID}{quote(name)} is not a valid sysctl name for defaultPodSysctls"
            continue
        slashed = re.search("[./]", name)
        dotted = name.translate(SWAPPED) if slashed and slashed[0] == "/" else name
        if dotted not in NAMESPACED and not dotted.startswith(NAMESPACED_UNDER):
            yield f"{INVALID}{quote(name)} is not known to be namespaced for defaultPodSysctls"
        if dotted in seen:
            yield f"{INVALID}duplicate sysctl {quote(dotted)} found in defaultPodSysctls"
        seen.add(dotted)


def _youngest_image(config: KubeletConfig, _: Gates) -> Iterator[str]:
    youngest = Duration(config.other.get("imageMinimumGCAge", 2 * MINUTE))
    if youngest < 0:
        yield f"{INVALID}imageMinimumGCAge {youngest} must not be negative"


def _oldest_image(config: KubeletConfig, _: Gates) -> Iterator[str]:
    youngest = Duration(config.other.get("imageMinimumGCAge", 2 * MINUTE))
    oldest = Duration(config.other.get("imageMaximumGCAge", 0))
    if oldest < 0:
        yield f"{INVALID}imageMaximumGCAge {oldest} must not be negative"
    if 0 < oldest <= youngest:
        yield f"{INVALID}imageMaximumGCAge {oldest} must be greater than imageMinimumGCAge {youngest}"


def _parallel_pulls(config: KubeletConfig, _: Gates) -> Iterator[str]:
    most = config.other.get("maxParallelImagePulls")
    if most is None:
        return
    if most < 1:
        yield f"{INVALID}maxParallelImagePulls {most} must be a positive number"
    if most > 1 and config.other.get("serializeImagePulls", False):
        yield (
            f"{INVALID}maxParallelImagePulls cannot be larger than 1 unless"
            " SerializeImagePulls (--serialize-image-pulls) is set to false"
        )


def _server_certificate(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    if config.other.get("serverTLSBootstrap") and not gates["RotateKubeletServerCertificate"]:
        yield f"{INVALID}serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate"


def _run_once(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.other.get("runOnce"):
        yield f"{INVALID}runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set"


def _taints(added_words: str, config: KubeletConfig, _: Gates) -> Iterator[str]:
    for taint in config.other.get("registerWithTaints", ()):
        key, value, effect = (taint.get(name, "") for name in ("key", "value", "effect"))
        added = taint.get("timeAdded")
        if not (_is_label_key(key) and (not value or _is_label(value)) and effect in EFFECTS):
            yield f"invalid taint: {{{key} {value} {effect} {'<nil>' if added is None else added}}}"
        if added is not None:
            yield added_words


def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    in_domain = len(prefix) <= LONGEST_DOMAIN and DOMAIN.fullmatch(prefix) is not None
    return _is_label(name) and (in_domain or not slash)


def _is_label(text: str) -> bool:
    return len(text) <= LONGEST_LABEL and LABEL.fullmatch(text) is not None


MOST_IMAGES = Range("nodeStatusMaxImages", "--node-status-max-images", 50, -1, demand="must be -1 or greater")
UNTOLD_MOST_IMAGES = Range(MOST_IMAGES.name, MOST_IMAGES.flag, 50, -1, demand=MOST_IMAGES.demand, told=False)

CHECKS: tuple[Dated[Check], ...] = (
    Dated(_lease),
    Dated(_enforced_without_cgroups, until=(1, 30)),
    Dated(_system_cgroups),
    Dated(Range("eventBurst", "--event-burst", 100)),
    Dated(Range("eventRecordQPS", "--event-qps", 50)),
    Dated(Range("healthzPort", "--healthz-port", 10248, 0, 65535, _between(1, 65535))),
    Dated(QuotaPeriod(MICROSECOND, "1usec", ""), until=(1, 23)),
    Dated(QuotaPeriod(MICROSECOND, "1usec"), (1, 24), (1, 25)),
    Dated(QuotaPeriod(), (1, 26)),
    Dated(Range("imageGCHighThresholdPercent", "--image-gc-high-threshold", 85, 0, 100, _between(0, 100))),
    Dated(Range("imageGCLowThresholdPercent", "--image-gc-low-threshold", 80, 0, 100, _between(0, 100))),
    Dated(_image_thresholds),
    Dated(partial(_image_age_gate, "ImageMaximumGCAge"), (1, 29), (1, 29)),
    Dated(partial(_image_age_gate, "imageMaximumGCAge"), (1, 30)),
    Dated(_pod_sysctls, (1, 37)),
    Dated(_youngest_image, (1, 36)),
    Dated(_oldest_image, (1, 29)),
    Dated(Range("iptablesDropBit", "--iptables-drop-bit", 15, 0, 31, _between(0, 31))),
    Dated(Range("iptablesMasqueradeBit", "--iptables-masquerade-bit", 14, 0, 31, _between(0, 31))),
    Dated(Range("kubeAPIBurst", "--kube-api-burst", 100)),
    Dated(Range("kubeAPIQPS", "--kube-api-qps", 50)),
    Dated(UNTOLD_MOST_IMAGES, until=(1, 23)),
    Dated(MOST_IMAGES, (1, 24)),
    Dated(Range("maxOpenFiles", "--max-open-files", 1000000)),
    Dated(Range("maxPods", "--max-pods", 110)),
    Dated(Range("oomScoreAdj", "--oom-score-adj", -999, -1000, 1000, _between(-1000, 1000))),
    Dated(Range("podsPerCore", "--pods-per-core", 0)),
    Dated(Range("port", "--port", 10250, 1, 65535, _between(1, 65535))),
    Dated(Range("readOnlyPort", "--read-only-port", 0, 0, 65535, _between(0, 65535))),
    Dated(Range("registryBurst", "--registry-burst", 10)),
    Dated(Range("registryPullQPS", "--registry-qps", 5)),
    Dated(_parallel_pulls, (1, 27)),
    Dated(_server_certificate),
    Dated(_run_once, (1, 32)),
)
TAINTS: tuple[Dated[Check], ...] = (
    Dated(partial(_taints, "taint TimeAdded is not nil"), (1, 23), (1, 23)),
    Dated(partial(_taints, f"{INVALID}taint.TimeAdded is not nil"), (1, 24)),
)
LOOKED_AT = frozenset(dated.row.name for dated in CHECKS if isinstance(dated.row, Range)) | {
    "nodeLeaseDurationSeconds", "systemCgroups", "cgroupRoot", "cpuCFSQuotaPeriod", "imageMinimumGCAge",
    "imageMaximumGCAge", "defaultPodSysctls", "maxParallelImagePulls", "serializeImagePulls",
    "serverTLSBootstrap", "runOnce", "registerWithTaints",
}  # fmt: skip

"""Limits on the kubelet's switches at large: ports, rates, image collection, taints.

Nothing here has to do with NUMA nodes, but a kubelet that refuses to start for one of these
decides nothing else either.  A range is a row in a table; the order is the kubelet's.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from numawise.rules.duration import Duration

Values = Mapping[str, Any]
Gates = Mapping[str, bool]
INVALID = "invalid configuration: "
NOT_NEGATIVE = "must not be a negative number"
LARGEST = 2**63 - 1
MILLISECOND, SECOND, MINUTE = 10**6, 10**9, 60 * 10**9
EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
LONGEST_LABEL, LONGEST_DOMAIN = 63, 253


@dataclass(frozen=True, slots=True)
class Range:
    """The bounds of one number, and the words for it."""

    name: str
    flag: str
    default: int
    lowest: int = 0
    highest: int = LARGEST
    demand: str = NOT_NEGATIVE

    def __call__(self, values: Values, _: Gates) -> Iterator[str]:
        value = values.get(self.name, self.default)
        if not self.lowest <= value <= self.highest:
            yield f"{INVALID}{self.name} ({self.flag}) {value} {self.demand}"


def _between(lowest: int, highest: int) -> str:
    return f"must be between {lowest} and {highest}, inclusive"


def problems(values: Values, gates: Gates) -> Iterator[str]:
    """Everything wrong with these fields, in the kubelet's order and words."""
    for check in CHECKS:
        yield from check(values, gates)


def _lease(values: Values, _: Gates) -> Iterator[str]:
    if values.get("nodeLeaseDurationSeconds", 40) <= 0:
        yield f"{INVALID}nodeLeaseDurationSeconds must be greater than 0"


def _system_cgroups(values: Values, _: Gates) -> Iterator[str]:
    if values.get("systemCgroups") and not values.get("cgroupRoot"):
        yield (
            f"{INVALID}systemCgroups (--system-cgroups) was specified"
            " and cgroupRoot (--cgroup-root) was not specified"
        )


def _quota_period(values: Values, gates: Gates) -> Iterator[str]:
    period = Duration(values.get("cpuCFSQuotaPeriod", 100 * MILLISECOND))
    name = "cpuCFSQuotaPeriod (--cpu-cfs-quota-period)"
    if not gates["CustomCPUCFSQuotaPeriod"]:
        if period != 100 * MILLISECOND:
            yield f"{INVALID}{name} {{{period}}} requires feature gate CustomCPUCFSQuotaPeriod"
    elif not MILLISECOND <= period <= SECOND:
        yield f"{INVALID}{name} {{{period}}} must be between 1ms and 1sec, inclusive"


def _image_thresholds(values: Values, _: Gates) -> Iterator[str]:
    low, high = values.get("imageGCLowThresholdPercent", 80), values.get("imageGCHighThresholdPercent", 85)
    if low >= high:
        yield (
            f"{INVALID}imageGCLowThresholdPercent (--image-gc-low-threshold) {low} must be less than"
            f" imageGCHighThresholdPercent (--image-gc-high-threshold) {high}"
        )


def _image_age(values: Values, _: Gates) -> Iterator[str]:
    youngest = Duration(values.get("imageMinimumGCAge", 2 * MINUTE))
    oldest = Duration(values.get("imageMaximumGCAge", 0))
    if youngest < 0:
        yield f"{INVALID}imageMinimumGCAge {youngest} must not be negative"
    if oldest < 0:
        yield f"{INVALID}imageMaximumGCAge {oldest} must not be negative"
    if 0 < oldest <= youngest:
        yield f"{INVALID}imageMaximumGCAge {oldest} must be greater than imageMinimumGCAge {youngest}"


def _parallel_pulls(values: Values, _: Gates) -> Iterator[str]:
    most = values.get("maxParallelImagePulls")
    if most is None:
        return
    if most < 1:
        yield f"{INVALID}maxParallelImagePulls {most} must be a positive number"
    if most > 1 and values.get("serializeImagePulls", False):
        yield (
            f"{INVALID}maxParallelImagePulls cannot be larger than 1 unless"
            " SerializeImagePulls (--serialize-image-pulls) is set to false"
        )


def _server_certificate(values: Values, gates: Gates) -> Iterator[str]:
    if values.get("serverTLSBootstrap") and not gates["RotateKubeletServerCertificate"]:
        yield f"{INVALID}serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate"


def _run_once(values: Values, _: Gates) -> Iterator[str]:
    if values.get("runOnce"):
        yield f"{INVALID}runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set"


def _taints(values: Values, _: Gates) -> Iterator[str]:
    for taint in values.get("registerWithTaints", ()):
        key, value, effect = (taint.get(name, "") for name in ("key", "value", "effect"))
        added = taint.get("timeAdded")
        if not (_is_label_key(key) and (not value or _is_label(value)) and effect in EFFECTS):
            yield f"invalid taint: {{{key} {value} {effect} {'<nil>' if added is None else added}}}"
        if added is not None:
            yield f"{INVALID}taint.TimeAdded is not nil"


def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    in_domain = len(prefix) <= LONGEST_DOMAIN and DOMAIN.fullmatch(prefix) is not None
    return _is_label(name) and (in_domain or not slash)


def _is_label(text: str) -> bool:
    return len(text) <= LONGEST_LABEL and LABEL.fullmatch(text) is not None


CHECKS: tuple[Callable[[Values, Gates], Iterator[str]], ...] = (
    _lease,
    _system_cgroups,
    Range("eventBurst", "--event-burst", 100),
    Range("eventRecordQPS", "--event-qps", 50),
    Range("healthzPort", "--healthz-port", 10248, 0, 65535, _between(1, 65535)),
    _quota_period,
    Range("imageGCHighThresholdPercent", "--image-gc-high-threshold", 85, 0, 100, _between(0, 100)),
    Range("imageGCLowThresholdPercent", "--image-gc-low-threshold", 80, 0, 100, _between(0, 100)),
    _image_thresholds,
    _image_age,
    Range("iptablesDropBit", "--iptables-drop-bit", 15, 0, 31, _between(0, 31)),
    Range("iptablesMasqueradeBit", "--iptables-masquerade-bit", 14, 0, 31, _between(0, 31)),
    Range("kubeAPIBurst", "--kube-api-burst", 100),
    Range("kubeAPIQPS", "--kube-api-qps", 50),
    Range("nodeStatusMaxImages", "--node-status-max-images", 50, -1, demand="must be -1 or greater"),
    Range("maxOpenFiles", "--max-open-files", 1000000),
    Range("maxPods", "--max-pods", 110),
    Range("oomScoreAdj", "--oom-score-adj", -999, -1000, 1000, _between(-1000, 1000)),
    Range("podsPerCore", "--pods-per-core", 0),
    Range("port", "--port", 10250, 1, 65535, _between(1, 65535)),
    Range("readOnlyPort", "--read-only-port", 0, 0, 65535, _between(0, 65535)),
    Range("registryBurst", "--registry-burst", 10),
    Range("registryPullQPS", "--registry-qps", 5),
    _parallel_pulls,
    _server_certificate,
    _run_once,
    _taints,
)
LOOKED_AT = frozenset(check.name for check in CHECKS if isinstance(check, Range)) | {
    "nodeLeaseDurationSeconds", "systemCgroups", "cgroupRoot", "cpuCFSQuotaPeriod", "imageMinimumGCAge",
    "imageMaximumGCAge", "maxParallelImagePulls", "serializeImagePulls", "serverTLSBootstrap", "runOnce",
    "registerWithTaints",
}  # fmt: skip

"""Platforms with names of their own for the kubelet's fields, translated into a KubeletConfiguration.

Rules kept here:

1. What comes out is a document with the kubelet's fields, each on the line of the setting that it came from.
2. A setting that the platform does not know is an error with its place and the nearest name; one that is not
   the kubelet's configuration is passed over.
3. A value is not judged here: the kubelet's own checks see it under the kubelet's name.
4. A PerformanceProfile is what its operator makes of it, with the operator's own defaults.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from numawise.codec.document import Document, Part, shown
from numawise.codec.kubelet.config import API_VERSION, KIND
from numawise.codec.lines import LineOf, Steps, line_index
from numawise.datafile import data_lines
from numawise.errors import InputError
from numawise.quantity import Quantity
from numawise.rules.model import RESTRICTED, SINGLE
from numawise.sets import format_ids, parse_ids
from numawise.strconv import whole_number

Fields = dict[str, Any]
SNIPPET = "kubeletconfig.experimental"
"""The annotation of a PerformanceProfile with fields of the kubelet, as JSON."""
PROFILE_EVICTION = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "imagefs.available": "15%",
    "nodefs.inodesFree": "5%",
}
PROFILE_MEMORY = "500Mi"
"""What the operator keeps for the kubelet, and as much for the system."""
FULL_CORES = "full-pcpus-only"
GKE_NAMES = {"cpuCfsQuota": "cpuCFSQuota", "cpuCfsQuotaPeriod": "cpuCFSQuotaPeriod"}
GKE_MANAGERS = {"memoryManager": "memoryManager", "topologyManager": "topologyManager"}
GKE_GC = {
    "imageGcLowThresholdPercent": "imageGCLowThresholdPercent",
    "imageGcHighThresholdPercent": "imageGCHighThresholdPercent",
    "imageMinimumGcAge": "imageMinimumGCAge",
    "imageMaximumGcAge": "imageMaximumGCAge",
}
GKE_OTHERS = frozenset({"insecureKubeletReadonlyPortEnabled"})
AKS_NAMES = {
    "cpuCfsQuota": "cpuCFSQuota",
    "cpuCfsQuotaPeriod": "cpuCFSQuotaPeriod",
    "imageGcHighThreshold": "imageGCHighThresholdPercent",
    "imageGcLowThreshold": "imageGCLowThresholdPercent",
    "podMaxPids": "podPidsLimit",
    "containerLogMaxFiles": "containerLogMaxFiles",
    "cpuManagerPolicy": "cpuManagerPolicy",
    "topologyManagerPolicy": "topologyManagerPolicy",
    "allowedUnsafeSysctls": "allowedUnsafeSysctls",
    "failSwapOn": "failSwapOn",
    "seccompDefault": "seccompDefault",
}
AKS_LOG_SIZE = ("containerLogMaxSizeMB", "containerLogMaxSizeMb")
AKS_OWN = frozenset({*(name for name, field in AKS_NAMES.items() if name != field), *AKS_LOG_SIZE})
"""Names that nobody else has."""
KUBESPRAY = {
    "kubelet_cpu_manager_policy": "cpuManagerPolicy",
    "kubelet_cpu_manager_policy_options": "cpuManagerPolicyOptions",
    "kubelet_topology_manager_policy": "topologyManagerPolicy",
    "kubelet_topology_manager_scope": "topologyManagerScope",
    "reserved_system_cpus": "reservedSystemCPUs",
    "kubelet_max_pods": "maxPods",
    "kubelet_pod_pids_limit": "podPidsLimit",
}
KUBESPRAY_EXTRA = ("kubelet_config_extra_args", "kubelet_node_config_extra_args")


def rebuilt(value: Mapping[str, object], file: str, line_of: LineOf) -> Document:
    """A document of these fields; ``line_of``: where each stands in the file (rule 1)."""
    named = {"apiVersion": API_VERSION, "kind": KIND, **value}
    return Document(named, file, 0, cache(lambda: line_index(named, line_of)))


def as_document(part: Part) -> Document:
    """A mapping inside a file as a configuration of its own."""
    fields = {name: value for name, value in part.mapping().items() if name not in ("apiVersion", "kind")}
    return rebuilt(fields, part.document.file, lambda steps: part.document.line((*part.steps, *steps)))


def _translated(part: Part, fields: Mapping[str, object], origin: Mapping[str, Steps]) -> Document:
    """The fields with their lines; ``origin``: field → the setting that it came from."""

    def line_of(steps: Steps) -> int | None:
        own = origin.get(str(steps[0])) if steps else ()
        return part.document.line((*part.steps, *(own or ()), *steps[1:]))

    return rebuilt(fields, part.document.file, line_of)


# --- Bottlerocket -----------------------------------------------------------------------------


@cache
def bottlerocket_settings() -> Mapping[str, tuple[str, str]]:
    """Setting → the kubelet's field ('-': none), and how the value is written."""
    rows = (line.split() for line in data_lines(__file__, "bottlerocket.txt"))
    return {name: (field, way) for name, field, way in rows}


def bottlerocket(part: Part) -> Document:
    """The settings below ``settings.kubernetes``."""
    known = bottlerocket_settings()
    fields: Fields = {}
    origin: dict[str, Steps] = {}
    for name, value in part.mapping(known, "a table").items():
        field, way = known[name]
        if field != "-":
            fields[field] = _setting(part.at(name), value, way)
            origin[field] = (name,)
    if "memoryManagerPolicy" in fields and not fields.get("reservedMemory"):
        del fields["memoryManagerPolicy"]  # Bottlerocket passes it on only beside reserved memory
    return _translated(part, fields, origin)


def _setting(part: Part, value: Any, way: str) -> object:  # noqa: ANN401 - as the file has it
    match way:
        case "texts":
            return {name: _text(one) for name, one in part.mapping().items()}
        case "set":
            return {one.text(): "true" for one in part.items("a list of names")}
        case "number":
            return whole_number(value) if isinstance(value, str) and value.isdecimal() else value
        case "list":
            return value if isinstance(value, list) else [value]
        case "numa":
            return list(_reserved_memory(part))
    return value


def _reserved_memory(part: Part) -> Iterator[Fields]:
    for name in part.mapping():
        if not name.isascii() or not name.isdecimal():
            raise part.at(name).error(f"must be the number of a NUMA node, not {shown(name)}")
        inner = part.at(name)
        limits = inner.mapping(("enabled", "memory", "hugepages-1Gi", "hugepages-2Mi"), "a table")
        if limits.get("enabled"):
            kept = {kind: _text(size) for kind, size in limits.items() if kind != "enabled"}
            yield {"numaNode": whole_number(name), "limits": kept}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- GKE, AKS, kubespray ----------------------------------------------------------------------


def gke(part: Part) -> Document:
    """``kubeletConfig`` of a node system configuration."""
    fields: Fields = {}
    origin: dict[str, Steps] = {}
    for name, value in part.mapping().items():
        if name in GKE_MANAGERS:
            inner = part.at(name)
            for key, one in inner.mapping(("policy", "scope"), "a mapping").items():
                field = f"{name}{key.capitalize()}"
                fields[field], origin[field] = one, (name, key)
        elif name not in GKE_OTHERS:
            field = GKE_NAMES.get(name) or GKE_GC.get(name) or name
            number = name == "podPidsLimit" and isinstance(value, str) and value.isdecimal()
            fields[field], origin[field] = whole_number(value) if number else value, (name,)  # type: ignore[arg-type]
    return _translated(part, fields, origin)


def aks(part: Part) -> Document:
    """The custom kubelet configuration of a node pool."""
    fields: Fields = {}
    origin: dict[str, Steps] = {}
    for name, value in part.mapping((*AKS_NAMES, *AKS_LOG_SIZE), "a mapping").items():
        if value is None:  # ``az aks nodepool show`` lists what is not set
            continue
        field = AKS_NAMES.get(name, "containerLogMaxSize")
        fields[field] = f"{value}Mi" if name in AKS_LOG_SIZE else value
        origin[field] = (name,)
    return _translated(part, fields, origin)


def kubespray(part: Part) -> Document:
    """Variables of an inventory; ``kubelet_config_extra_args`` has fields under their own names."""
    fields: Fields = {}
    origin: dict[str, Steps] = {}
    for name, value in part.mapping().items():
        if name in KUBESPRAY:
            fields[KUBESPRAY[name]], origin[KUBESPRAY[name]] = value, (name,)
    for name in KUBESPRAY_EXTRA:
        for field, value in part.at(name).mapping().items():
            fields[field], origin[field] = value, (name, field)
    return _translated(part, fields, origin)


def kops(part: Part) -> Document:
    """``spec.kubelet`` of a cluster or an instance group: fields of the kubelet among flags of its own."""
    from numawise.codec.kubelet.fields import configuration_of  # noqa: PLC0415 - few ask for it
    from numawise.rules.versions import NEWEST  # noqa: PLC0415 - likewise

    known = configuration_of(NEWEST).fields
    fields: Fields = {}
    for name, value in part.mapping().items():
        if name == "evictionHard" and isinstance(value, str):
            value = dict(one.split("<", 1) for one in value.split(",") if "<" in one)
        elif name == "featureGates" and isinstance(value, Mapping):
            value = {
                gate: {"true": True, "false": False}.get(str(on).lower(), on) for gate, on in value.items()
            }
        if name in known:
            fields[name] = value
    return _translated(part, fields, {name: (name,) for name in fields})


# --- PerformanceProfile -----------------------------------------------------------------------


def performance_profile(part: Part) -> Document:
    """What the operator makes of a profile (rule 4)."""
    spec, snippet = part.at("spec"), part.at("metadata", "annotations", SNIPPET)
    fields: Fields = _snippet(snippet)
    origin: dict[str, Steps] = dict.fromkeys(fields, snippet.steps)
    cpu, policy = spec.at("cpu"), spec.at("numa", "topologyPolicy")
    fields["cpuManagerPolicy"], fields["cpuManagerReconcilePeriod"] = "static", "5s"
    fields["topologyManagerPolicy"] = policy.value or "best-effort"
    origin |= {"cpuManagerPolicy": cpu.steps, "topologyManagerPolicy": policy.steps}
    for name, defaults in (
        ("evictionHard", PROFILE_EVICTION),
        ("kubeReserved", {"memory": PROFILE_MEMORY}),
        ("systemReserved", {"memory": PROFILE_MEMORY}),
    ):
        own = fields.get(name)
        fields[name] = {**defaults, **own} if isinstance(own, Mapping) else dict(defaults)
    if cpu.at("reserved").value is not None:
        fields["reservedSystemCPUs"] = _profile_cpus(spec)
        origin["reservedSystemCPUs"] = cpu.at("reserved").steps
    if fields["topologyManagerPolicy"] in (RESTRICTED, SINGLE):
        fields["memoryManagerPolicy"] = "Static"
        origin["memoryManagerPolicy"] = policy.steps
        if not fields.get("reservedMemory"):
            fields["reservedMemory"] = [{"numaNode": 0, "limits": {"memory": _kept(part, fields)}}]
            origin["reservedMemory"] = policy.steps
        if fields["topologyManagerPolicy"] == SINGLE:
            fields["cpuManagerPolicyOptions"] = {
                FULL_CORES: "true",
                **(fields.get("cpuManagerPolicyOptions") or {}),
            }
            origin.setdefault("cpuManagerPolicyOptions", policy.steps)

    def line_of(steps: Steps) -> int | None:
        return part.document.line(origin.get(str(steps[0]), spec.steps) if steps else spec.steps)

    return rebuilt(fields, part.document.file, line_of)


def _snippet(part: Part) -> Fields:
    if part.value is None:
        return {}
    try:
        value = json.loads(part.text())
    except ValueError as problem:
        raise part.error(
            f"is not JSON: {problem}", "write fields of a KubeletConfiguration as JSON"
        ) from None
    if not isinstance(value, dict):
        raise part.error(
            f"must be a JSON object, not {shown(value)}", 'such as {"topologyManagerScope":"pod"}'
        )
    return {name: one for name, one in value.items() if name not in ("apiVersion", "kind")}


def _profile_cpus(spec: Part) -> str:
    """The reserved CPUs; those for OVS-DPDK, and shared ones where these are on, count among them."""
    cpu = spec.at("cpu")
    isolated, reserved = _cpus(cpu.at("isolated")), _cpus(cpu.at("reserved"))
    if isolated & reserved:
        both = format_ids(isolated & reserved)
        raise cpu.at("reserved").error(f"CPUs {both} are isolated, too", "let every CPU be one of them")
    mixed = spec.at("workloadHints", "mixedCpus").value is True
    names = ("ovsDpdk", *(("shared",) if mixed else ()))
    for name in names:
        reserved |= _cpus(cpu.at(name))
    return format_ids(reserved)


def _cpus(part: Part) -> int:
    if part.value is None:
        return 0
    text = str(part.value) if isinstance(part.value, int) else part.text()
    try:
        return parse_ids(text)
    except ValueError as problem:
        raise part.error(f"must be a list of CPUs such as 0-3,8: {problem}") from None


def _kept(part: Part, fields: Fields) -> str:
    total = Quantity()
    amounts = (
        fields["kubeReserved"]["memory"],
        fields["systemReserved"]["memory"],
        fields["evictionHard"]["memory.available"],
    )
    try:
        for amount in amounts:
            total += Quantity.parse(str(amount))
    except (ValueError, InputError) as problem:
        raise part.at("metadata", "annotations", SNIPPET).error(str(problem)) from None
    return str(total)

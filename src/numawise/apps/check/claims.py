"""Devices that come by claim, where the kubelet aligns CPUs, memory and devices of plugins.

Rules kept here:

1. A claim is worth a finding where the kubelet has a static manager or a topology policy and the machine,
   where it is known, has several NUMA nodes.  It is graver where a container that uses it has CPUs or devices
   of its own.
2. An extended resource that a DeviceClass of the given files backs comes from a device plugin where the node
   has one for it, and by claim elsewhere: the scheduler decides by what the node has allocatable.
3. Both show the claim that keeps the devices together; what that leaves open is said with it.
"""

from collections.abc import Iterator

from numawise.apps.check.context import Context
from numawise.codec.claim_manifest import UNKNOWN_CLASS, aligned_claim, aligning_attribute, aligning_claim
from numawise.codec.claims import ClaimObjects
from numawise.engine.start import CLAIMS_GATE
from numawise.inputs.pods import PodSource
from numawise.request.claims import PCIE_ROOT, DeviceRequest, PodClaim
from numawise.request.model import PodRequest
from numawise.results.finding import Finding, Severity, found
from numawise.rules.gates import gates_of
from numawise.rules.versions import DEFAULT


def claim_findings(
    source: PodSource, pod: PodRequest, context: Context | None, objects: ClaimObjects
) -> Iterator[Finding]:
    """What the claims of a pod leave unaligned."""
    if context is not None and context.known and len(context.machine.numa) < 2:
        return
    managed = context is None or context.static_cpus or context.static_memory or context.aligning
    if managed:
        for number, claim in enumerate(one for one in pod.claims if one.name):
            yield _claim(source, pod, claim, number, context)
    yield from _backed(source, pod, context, objects)


def _claim(
    source: PodSource, pod: PodRequest, claim: PodClaim, number: int, context: Context | None
) -> Finding:
    version = context.version if context is not None else DEFAULT
    users = [one for one in pod.containers if one.name in claim.containers] or pod.containers
    pinned = any((pod.guaranteed and one.whole_cpus) or one.devices for one in users)
    attribute = aligning_attribute(claim, version)
    cpus = max((one.whole_cpus for one in users if pod.guaranteed), default=0)
    kind = f"ResourceClaimTemplate {claim.template}" if claim.template else f"ResourceClaim {claim.claim}"
    if claim.together:
        kept = f"its devices are kept together by {claim.together}, apart from CPUs and memory"
        fix = "Claim the CPUs by the same claim where a driver offers them, or use a device plugin."
        manifest = ""
    else:
        kept = _apart(claim)
        manifest, problem = aligned_claim(claim, version, cpus)
        fix = _fix(attribute, problem)
    severity = None if context is not None and pinned else Severity.INFO
    message = f"claim {claim.name} ({kind}) gives the kubelet no hints: {kept}"
    place = source.place(source.spec, "resourceClaims", number)
    return found("NW433", place, message, fix=fix, severity=severity, manifest=manifest)


def _apart(claim: PodClaim) -> str:
    """What is known of where the devices are."""
    if claim.placed:
        places = ", ".join(f"{one.name} on NUMA {one.numa}" for one in claim.devices[:8])
        return f"{places}, whatever the CPUs and memory of its containers"
    if claim.known and claim.count > 1:
        return f"its {claim.count} devices may be on several NUMA nodes, and apart from CPUs and memory"
    return "its devices may be on another NUMA node than CPUs and memory"


def _fix(attribute: str, problem: str) -> str:
    what = "below one PCIe root complex" if attribute == PCIE_ROOT else "on one NUMA node"
    shown = f" (not shown as {problem})" if problem else ", as below"
    return (
        f"Keep its devices {what} with matchAttribute {attribute}{shown}; with CPUs and memory they are "
        "aligned only when these are claimed too, or when a device plugin offers the devices."
    )


def _backed(
    source: PodSource, pod: PodRequest, context: Context | None, objects: ClaimObjects
) -> Iterator[Finding]:
    """Extended resources that a claim backs, or a DeviceClass may (rule 2)."""
    version = context.version if context is not None else DEFAULT
    node = context.start.node if context is not None else None
    gate = gates_of(version).get(CLAIMS_GATE)
    on = node.rules.claims_back_resources if node is not None else gate is not None and gate.default
    if not on:
        return
    plugins = {one.resource for one in context.machine.plugins} if context and context.known else None
    for request, (_, part) in zip(pod.containers, source.parts, strict=True):
        for resource, count in request.devices:
            device_class = objects.class_of(resource)
            if not count or not (device_class or resource in request.claimed):
                continue
            place = source.place(part, "resources", "limits", resource)
            asks = f"container {request.name} asks for {resource}, which"
            if resource not in request.claimed and plugins is not None and resource in plugins:
                message = (
                    f"{asks} DeviceClass {device_class} backs, too; here a device plugin gives it, aligned"
                )
                fix = "Keep the device plugin on this node."
                yield found("NW437", place, message, fix=fix, severity=Severity.INFO)
                continue
            message = f"{asks} a claim backs: the kubelet does not align it"
            if resource not in request.claimed:
                message = (
                    f"{asks} DeviceClass {device_class} backs: without a device plugin it is not aligned"
                )
            devices = DeviceRequest("devices", device_class or UNKNOWN_CLASS, count)
            cpus = request.whole_cpus if pod.guaranteed else 0
            name = f"{source.name or 'pod'}-{request.name}"
            manifest = aligning_claim(name, devices, aligning_attribute(None, version), version, cpus)
            yield found("NW437", place, message, manifest=manifest)

"""Claims to paste: devices that the scheduler takes from one NUMA node.

Rules kept here:

1. A constraint ``matchAttribute`` holds for the devices of its claim: the scheduler allocates only devices
   that agree on the attribute.  CPUs and memory that the kubelet gives are outside; they belong to it only
   where a driver offers them by claim, too.
2. The attribute is what the drivers of the devices publish, where ResourceSlices were given; else
   ``resource.kubernetes.io/numaNode`` from the release that names it, and ``resource.kubernetes.io/pcieRoot``
   before: devices below one root complex of PCIe, which is narrower than a NUMA node.
3. A claim that somebody wrote stays what it is, with the constraint more (``codec.own_claim``); where that is
   not to be had, there is no claim, and the reason is said.  A new one has the newest API version that the
   release serves.
"""

import json
import re

from numawise.codec.claims import CLAIM, GROUP, TEMPLATE
from numawise.codec.own_claim import ATTRIBUTE
from numawise.request.claims import NUMA_NODE, PCIE_ROOT, DeviceRequest, PodClaim
from numawise.rules.versions import Version

NUMA_NODE_SINCE, CAPACITY_SINCE = (1, 37), (1, 36)
V1_SINCE, V1BETA2_SINCE = (1, 34), (1, 33)
UNKNOWN_CLASS = "DEVICE-CLASS"
WORD = re.compile(r"[A-Za-z][-A-Za-z0-9._/]*")


def aligning_attribute(claim: PodClaim | None, version: Version) -> str:
    """The attribute by which devices are kept on one NUMA node (rule 2)."""
    if claim is not None and claim.numa_attribute:
        return claim.numa_attribute
    return NUMA_NODE if version >= NUMA_NODE_SINCE else PCIE_ROOT


def aligned_claim(claim: PodClaim, version: Version, cpus: int = 0) -> tuple[str, str]:
    """A pod's claim with the constraint that keeps its devices on one NUMA node; else '' and why not.

    ``cpus``: that the pod wants beside.
    """
    attribute = aligning_attribute(claim, version)
    kind, name = (TEMPLATE, claim.template) if claim.template else (CLAIM, claim.claim)
    problem = claim.contradicts(attribute) or claim.unconstrained
    if not problem and not claim.constrained:
        known = "is not known" if not claim.known else "was made of a template that is not known"
        shown = f"kubectl get {kind.lower()} {name} -o yaml" if name else f"its {kind}"
        problem = f"the claim {known}; give what it says beside the pod: {shown}"
    if problem:
        return "", problem
    flat = f"{GROUP}/v1beta1" in claim.constrained
    lines = _comments(attribute)
    lines.append("# The spec of a claim cannot be changed: delete it, and create it like this.")
    if cpus:
        lines.append("# With a driver for CPUs, and cpuManagerPolicy none, it can request the CPUs, too:")
        lines.append(f"# - {_cpus(cpus, version, flat=flat)}")
    text = claim.constrained.replace(json.dumps(ATTRIBUTE), json.dumps(attribute, ensure_ascii=False))
    return "\n".join((*lines, text.replace(ATTRIBUTE, _word(attribute)))), ""


def aligning_claim(name: str, request: DeviceRequest, attribute: str, version: Version, cpus: int = 0) -> str:
    """A ResourceClaimTemplate whose devices come from one NUMA node; ``cpus``: that a pod wants beside."""
    flat = version < V1BETA2_SINCE
    served = "v1" if version >= V1_SINCE else "v1beta1" if flat else "v1beta2"
    pad = " " * (8 if flat else 10)
    lines = [
        *_comments(attribute),
        f"apiVersion: {GROUP}/{served}",
        "kind: ResourceClaimTemplate",
        f"metadata: {{name: {_word(name)}}}",
        "spec:",
        "  spec:",
        "    devices:",
        "      requests:",
        f"      - name: {_word(request.name)}",
        *([] if flat else ["        exactly:"]),
        f"{pad}deviceClassName: {_word(request.device_class)}",
        *([f"{pad}count: {request.count}"] if request.count != 1 else []),
    ]
    if cpus:
        lines += [
            "      # With a driver for CPUs, and cpuManagerPolicy none, the CPUs can be part of it:",
            f"      # - {_cpus(cpus, version, flat=flat)}",
        ]
    lines += ["      constraints:", f"      - matchAttribute: {_word(attribute)}"]
    return "\n".join(lines) + "\n"


def _comments(attribute: str) -> list[str]:
    return [
        "# The scheduler takes all devices of this claim from one "
        + ("PCIe root complex, so from one NUMA node." if attribute == PCIE_ROOT else "NUMA node."),
        "# CPUs and memory that the kubelet gives are not part of it, and may be on another NUMA node.",
    ]


def _cpus(cpus: int, version: Version, *, flat: bool) -> str:
    """A request for CPUs."""
    asked = f"count: {cpus}"
    if version >= CAPACITY_SINCE:
        asked = f'capacity: {{requests: {{dra.cpu/cpu: "{cpus}"}}}}'
    exact = f"deviceClassName: dra.cpu, {asked}"
    return f"{{name: cpus, {exact}}}" if flat else f"{{name: cpus, exactly: {{{exact}}}}}"


def _word(text: str) -> str:
    """A name as YAML reads it back."""
    return text if WORD.fullmatch(text) else json.dumps(text, ensure_ascii=False)

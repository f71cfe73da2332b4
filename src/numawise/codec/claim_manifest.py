"""Claims to paste: devices that the scheduler takes from one NUMA node.

Rules kept here:

1. A constraint ``matchAttribute`` holds for the devices of its claim: the scheduler allocates only devices
   that agree on the attribute.  CPUs and memory that the kubelet gives are outside; they belong to it only
   where a driver offers them by claim, too.
2. The attribute is what the drivers of the devices publish, where ResourceSlices were given; else
   ``resource.kubernetes.io/numaNode`` from the release that names it, and ``resource.kubernetes.io/pcieRoot``
   before: devices below one root complex of PCIe, which is narrower than a NUMA node.
3. The API version is the newest that the release serves.
"""

import json
import re
from collections.abc import Sequence

from numawise.codec.claims import GROUP
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


def aligning_claim(
    name: str, requests: Sequence[DeviceRequest], attribute: str, version: Version, cpus: int = 0
) -> str:
    """A ResourceClaimTemplate whose devices come from one NUMA node; ``cpus``: that a pod wants beside."""
    flat = version < V1BETA2_SINCE
    served = "v1" if version >= V1_SINCE else "v1beta1" if flat else "v1beta2"
    lines = [
        "# The scheduler takes all devices of this claim from one "
        + ("PCIe root complex, so from one NUMA node." if attribute == PCIE_ROOT else "NUMA node."),
        "# CPUs and memory that the kubelet gives are not part of it, and may be on another NUMA node.",
        f"apiVersion: {GROUP}/{served}",
        "kind: ResourceClaimTemplate",
        f"metadata: {{name: {_word(name)}}}",
        "spec:",
        "  spec:",
        "    devices:",
        "      requests:",
    ]
    for request in requests:
        lines += _request(request, flat=flat)
    if cpus:
        asked = f"count: {cpus}"
        if version >= CAPACITY_SINCE:
            asked = f'capacity: {{requests: {{dra.cpu/cpu: "{cpus}"}}}}'
        exact = f"deviceClassName: dra.cpu, {asked}"
        lines += [
            "      # With a driver for CPUs, and cpuManagerPolicy none, the CPUs can be part of it:",
            f"      # - {{name: cpus, {exact}}}"
            if flat
            else f"      # - {{name: cpus, exactly: {{{exact}}}}}",
        ]
    lines += ["      constraints:", f"      - matchAttribute: {_word(attribute)}"]
    return "\n".join(lines) + "\n"


def _request(request: DeviceRequest, *, flat: bool) -> list[str]:
    name = request.name.partition("/")[0]
    pad = " " * (8 if flat else 10)
    lines = [f"      - name: {_word(name)}"]
    if not flat:
        lines.append("        exactly:")
    lines.append(f"{pad}deviceClassName: {_word(request.device_class)}")
    if request.every:
        lines.append(f"{pad}allocationMode: All")
    elif request.count != 1:
        lines.append(f"{pad}count: {request.count}")
    if request.selectors:
        lines.append(f"{pad}selectors:")
        for expression in request.selectors:
            lines += [f"{pad}- cel:", f"{pad}    expression: {json.dumps(expression, ensure_ascii=False)}"]
    return lines


def _word(text: str) -> str:
    """A name as YAML reads it back."""
    return text if WORD.fullmatch(text) else json.dumps(text, ensure_ascii=False)

"""A NodeResourceTopology object as an exporter sends it.

Rules kept here:

1. A zone ``node-N`` of type ``Node`` for each NUMA node, its costs the distances of the machine.
2. Attributes have the names of the kubelet's options and their values to the letter; an option of a policy is
   written ``topologyManagerOptionPreferClosestNumaNodes``.  The deprecated list of policies says the same.
3. Everything is in a fixed order: an unchanged node gives the same object.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from numawise.codec.hardware.nrt import (
    GROUP,
    KIND,
    OPTION,
    POLICIES,
    POLICY_ATTRIBUTE,
    SCOPE_ATTRIBUTE,
    SCOPES,
)
from numawise.machine.model import Machine
from numawise.rules.model import NONE, KubeletConfig
from numawise.values import dataclass

API_VERSION = f"{GROUP}/v1alpha2"
CPU_POLICY, CPU_OPTION, MEMORY_POLICY = "cpuManagerPolicy", "cpuManagerPolicyOption", "memoryManagerPolicy"
FINGERPRINT, FINGERPRINT_METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"


@dataclass(frozen=True, slots=True)
class ZoneAmount:
    """How much of one resource a NUMA node has, in whole units."""

    capacity: int
    allocatable: int
    """What pods may get of it."""
    available: int
    """What of that nobody has."""


ZoneAmounts = Mapping[int, Mapping[str, ZoneAmount]]
"""NUMA node → resource → amounts."""


def topology_document(
    node: str, machine: Machine, amounts: ZoneAmounts, attributes: Mapping[str, str], policies: Iterable[str]
) -> dict[str, Any]:
    """The object."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": node},
        "topologyPolicies": list(policies),
        "zones": _zones(machine, amounts),
        "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
    }


def _zones(machine: Machine, amounts: ZoneAmounts) -> list[dict[str, Any]]:
    """A zone for each NUMA node (rule 1)."""
    names = [f"node-{numa.id}" for numa in machine.numa]
    zones: list[dict[str, Any]] = []
    for name, numa in zip(names, machine.numa, strict=True):
        zone: dict[str, Any] = {"name": name, "type": "Node"}
        if len(numa.distances) == len(names):
            costs = zip(names, numa.distances, strict=True)
            zone["costs"] = [{"name": other, "value": distance} for other, distance in costs]
        zone["resources"] = [
            {
                "name": resource,
                "capacity": str(one.capacity),
                "allocatable": str(one.allocatable),
                "available": str(one.available),
            }
            for resource, one in amounts.get(numa.id, {}).items()
        ]
        zones.append(zone)
    return zones


def option_attributes(config: KubeletConfig) -> dict[str, str]:
    """What the managers of a kubelet are set to (rule 2)."""
    attributes = {
        POLICY_ATTRIBUTE: config.topology_manager_policy,
        SCOPE_ATTRIBUTE: config.topology_manager_scope,
    }
    attributes |= _options(OPTION, config.topology_manager_policy_options)
    attributes[CPU_POLICY] = config.cpu_manager_policy
    attributes |= _options(CPU_OPTION, config.cpu_manager_policy_options)
    attributes[MEMORY_POLICY] = config.memory_manager_policy
    return attributes


def _options(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    return {
        prefix + "".join(word.capitalize() for word in name.split("-")): value
        for name, value in sorted(options.items())
    }


def listed_policies(config: KubeletConfig) -> list[str]:
    """The deprecated list."""
    words = {own: word for word, own in POLICIES.items()}
    levels = {own: level for level, own in SCOPES.items() if level}
    policy = config.topology_manager_policy
    if policy not in words:
        return []
    return [words[policy] + ("" if policy == NONE else levels.get(config.topology_manager_scope, ""))]

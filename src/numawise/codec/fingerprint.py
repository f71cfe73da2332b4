"""The fingerprint of a node's pods, by which a scheduler knows whether an object speaks of the same ones.

Rules kept here:

1. A pod is its namespace and name.  Its number is XXH64 of the name with that of the namespace as the seed;
   the fingerprint is XXH64 of all numbers, ascending, eight bytes each, the lowest first.
2. ``all`` counts every pod, ``with-exclusive-resources`` those that have CPUs, devices or memory of their
   own.
3. Counterpart: module k8stopologyawareschedwg/podfingerprint, version v001, which resource-topology-exporter
   and the scheduler plugins use.
"""

from collections.abc import Iterable

from numawise.codec.podresources import ListedPod
from numawise.extras import needed

PREFIX, VERSION = "pfp0", "v001"
ALL, EXCLUSIVE = "all", "with-exclusive-resources"
METHODS = (ALL, EXCLUSIVE)


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of pods by namespace and name (rule 1)."""
    needed("agent", "xxhash")
    from xxhash import xxh64, xxh64_intdigest  # noqa: PLC0415 - an extra

    numbers = sorted(
        xxh64_intdigest(name.encode(), seed=xxh64_intdigest(namespace.encode())) for namespace, name in pods
    )
    whole = xxh64()
    for number in numbers:
        whole.update(number.to_bytes(8, "little"))
    return f"{PREFIX}{VERSION}{whole.hexdigest()}"


def listed_fingerprint(pods: Iterable[ListedPod], method: str = ALL) -> str:
    """The fingerprint of the pods that a kubelet lists (rule 2)."""
    return fingerprint((pod.namespace, pod.name) for pod in pods if method == ALL or _is_exclusive(pod))


def _is_exclusive(pod: ListedPod) -> bool:
    return any(own.cpus or own.devices or own.memory for own in pod.containers.values())

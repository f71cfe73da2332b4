"""What differs between kubelet releases, as named behaviours.

The algorithms ask for a behaviour by name and never for a version number.  The defaults are
those of the reference release; ``SINCE`` says from which release on a behaviour holds.
"""

import re
from dataclasses import dataclass, fields

REFERENCE = (1, 36)
VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?(?:[-+].*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Answers that changed between releases; the defaults are those of 1.36."""

    preferred_needs_equal_masks: bool = True
    """A merged hint is preferred only when all masks agree, and width is judged by the neediest."""
    device_hints_over_hosting_nodes: bool = True
    """Device hints range over the NUMA nodes that have such devices, not over all."""
    sidecars_keep_their_share: bool = True
    """What a sidecar received is not handed on to later containers."""
    counts_free_cores: bool = True
    """``full-pcpus-only`` also refuses when too few whole cores are free."""
    says_how_many_cpus: bool = True
    """The refusal for want of CPUs gives the numbers."""
    memory_keeps_groups: bool = True
    """The Memory Manager refuses a mask that breaks how its nodes are grouped."""
    memory_compares_groups: bool = True
    """The start-up check compares memory by group of nodes, not by node."""
    checks_recorded_devices: bool = True
    """Devices already recorded are checked for health again at re-admission."""
    pod_level_excluded: bool = True
    """Pods with pod-level resources get no exclusive CPUs or memory unless the gate is on."""
    smt_check_before_record: bool = True
    """``full-pcpus-only`` is checked before looking whether the container has its CPUs already."""
    skips_memoryless_containers: bool = False
    """Containers without memory of their own are passed over by the Memory Manager (pod level)."""
    cpu_file_tries_oldest_first: bool = False
    """``cpu_manager_state`` is read as the oldest format first; the complaint is about the newest."""
    memory_file_may_lack_checksum: bool = True
    """``memory_manager_state`` is accepted without a checksum."""
    reads_flat_device_lists: bool = False
    """The device file of 1.19 and before can be read."""
    tells_missing_cores: bool = True
    """The SMT refusal says that it is for want of free cores even when there is none at all."""
    last_pod_outlives_reconcile: bool = False
    """The reconcile pass takes the pod the CPU Manager saw last for alive."""
    distribution_minds_sockets: bool = False
    """``distribute-cpus-across-numa`` prefers NUMA nodes of one socket under ``align-by-socket``."""
    files_carry_data: bool = False
    """CPU and memory files hold their content twice: in the old form, and as text with pod entries."""


SINCE: dict[str, tuple[int, int]] = {
    "preferred_needs_equal_masks": (1, 24),
    "device_hints_over_hosting_nodes": (1, 36),
    "sidecars_keep_their_share": (1, 29),
    "counts_free_cores": (1, 27),
    "says_how_many_cpus": (1, 29),
    "memory_keeps_groups": (1, 32),
    "memory_compares_groups": (1, 32),
    "checks_recorded_devices": (1, 25),  # the last patches of 1.25 to 1.27, and all of 1.28
    "pod_level_excluded": (1, 34),
    "skips_memoryless_containers": (1, 37),
    "memory_file_may_lack_checksum": (1, 36),
    "reads_flat_device_lists": (1, 23),
    "tells_missing_cores": (1, 32),
    "last_pod_outlives_reconcile": (1, 23),
    "distribution_minds_sockets": (1, 37),
    "files_carry_data": (1, 37),
}
UNTIL: dict[str, tuple[int, int]] = {
    "smt_check_before_record": (1, 36),
    "cpu_file_tries_oldest_first": (1, 35),
    "reads_flat_device_lists": (1, 30),
    "last_pod_outlives_reconcile": (1, 31),
}


def behaviour_of(version: tuple[int, int] = REFERENCE) -> Behaviour:
    """The behaviours of one release."""
    held = {}
    for name in (f.name for f in fields(Behaviour)):
        held[name] = SINCE.get(name, (0, 0)) <= version <= UNTIL.get(name, (99, 0))
    return Behaviour(**held)


def parse_version(text: str) -> tuple[int, int]:
    """Read ``1.36``, ``v1.36.4`` or ``v1.37.0-rc.1``; raise ``ValueError`` for anything else."""
    found = VERSION.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no Kubernetes version such as 1.36")
    return int(found[1]), int(found[2])

"""What differs between kubelet releases, as named behaviours.

The algorithms ask for a behaviour by name and never for a version number.  The defaults are
those of the reference release; ``SINCE`` says from which release on a behaviour holds, ``UNTIL``
which one is the last.  ``Behaviour`` is about decisions, ``Manners`` about configurations; tables
whose rows come and go with releases are made of ``Dated`` rows.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

Version = tuple[int, int]

OLDEST, REFERENCE, NEWEST = (1, 20), (1, 36), (1, 37)
"""The releases that configurations are known of, and the one everything is measured by."""
ENDLESS = (99, 0)
VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?(?:[-+].*)?", re.ASCII)

Row = TypeVar("Row")
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Dated(Generic[Row]):
    """A row that holds from one release to another, both included."""

    row: Row
    since: Version = OLDEST
    until: Version = ENDLESS


def at(version: Version, rows: Iterable[Dated[Row]]) -> Iterator[Row]:
    """The rows that hold in one release, in order."""
    return (dated.row for dated in rows if dated.since <= version <= dated.until)


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


@dataclass(frozen=True, slots=True)
class Manners:
    """How a release reads its configuration and words a refusal; the defaults are those of 1.36."""

    gates_settled_while_decoding: bool = True
    """Wrong feature gates stop the decoding; before, they were looked at after it."""
    lists_every_locked_gate: bool = True
    """All gates set against their lock are named, not only the first."""
    options_have_levels: bool = True
    """An option is alpha, beta or stable; before, one gate was for all of them."""
    topology_gate_told_twice: bool = False
    """Where topology options want for their gate, ``TopologyManager`` is named too."""
    none_reads_topology_options: bool = False
    """Topology options are looked at under policy ``none`` too."""
    capital_topology_levels: bool = False
    """``Topology Manager Policy Alpha-level Options`` in a refusal, not in small letters."""
    best_effort_memory_named: bool = True
    """Memory policy ``BestEffort`` is known, though for Windows only."""
    reserved_cpus_must_be_online: bool = True
    """The list of reserved CPUs is compared with those that are online."""
    shares_end_at_all: bool = True
    """An eviction threshold above 100% is refused; before, only one above 10000%."""


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
    "gates_settled_while_decoding": (1, 32),
    "lists_every_locked_gate": (1, 31),
    "options_have_levels": (1, 23),
    "best_effort_memory_named": (1, 32),
    "reserved_cpus_must_be_online": (1, 22),
    "shares_end_at_all": (1, 21),
}
UNTIL: dict[str, tuple[int, int]] = {
    "smt_check_before_record": (1, 36),
    "cpu_file_tries_oldest_first": (1, 35),
    "reads_flat_device_lists": (1, 30),
    "last_pod_outlives_reconcile": (1, 31),
    "topology_gate_told_twice": (1, 26),
    "none_reads_topology_options": (1, 27),
    "capital_topology_levels": (1, 32),
}


def behaviour_of(version: Version = REFERENCE) -> Behaviour:
    """The behaviours of one release."""
    return _held(Behaviour, version)


def manners_of(version: Version = REFERENCE) -> Manners:
    """How one release treats a configuration."""
    return _held(Manners, version)


def _held(kind: type[Kind], version: Version) -> Kind:
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: SINCE.get(name, (0, 0)) <= version <= UNTIL.get(name, ENDLESS) for name in names})


def parse_version(text: str) -> Version:
    """Read ``1.36``, ``v1.36.4`` or ``v1.37.0-rc.1``; raise ``ValueError`` for anything else."""
    found = VERSION.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no Kubernetes version such as 1.36")
    return int(found[1]), int(found[2])


def known_version(text: str) -> Version:
    """Read a version whose configurations are known; raise ``ValueError`` for any other."""
    version = parse_version(text)
    check_known(version)
    return version


def check_known(version: Version) -> None:
    """Raise ``ValueError`` for a release whose configurations are not known."""
    if not OLDEST <= version <= NEWEST:
        first, last = (".".join(map(str, one)) for one in (OLDEST, NEWEST))
        told = ".".join(map(str, version))
        raise ValueError(f"Kubernetes {told} is not known; known are {first} to {last}")

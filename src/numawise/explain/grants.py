"""What the kubelet granted each container, out of its records: CPUs, NUMA nodes for memory, devices.

Rules kept here:

1. A container with CPUs of its own is kept to them; every other one is kept to the shared pool.  Only the
   static CPU Manager keeps containers anywhere; under ``none`` no cpuset is the kubelet's doing.
2. The Memory Manager binds memory of containers for which it recorded blocks, and of no others.
3. The NUMA nodes of a device are what PodResources says, else what was recorded when it was handed out.
   A device without topology is nowhere, and nothing is said of it.
4. A record that cannot be read, or whose checksum is wrong, grants nothing, and says so: ``problems``.
"""

from collections.abc import Mapping

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.checkpoint.look import look
from numawise.codec.podresources import PodResources
from numawise.engine.state import Block, CpuState, DeviceFile, MemoryState
from numawise.request.claims import PodClaim
from numawise.sets import bits_of
from numawise.values import dataclass

STATIC_CPUS, STATIC_MEMORY = "static", "Static"


@dataclass(frozen=True, slots=True)
class KubeletRecords:
    """What the state files say; None: that manager keeps nobody anywhere, or its file is not known."""

    cpu: CpuState | None = None
    memory: MemoryState | None = None
    devices: DeviceFile = DeviceFile()
    problems: tuple[str, ...] = ()

    def assigned(self, uid: str, container: str) -> int:
        """CPUs that a container was assigned; 0: none of its own."""
        return self.cpu.assignments.get(uid, {}).get(container, 0) if self.cpu is not None else 0

    def blocks(self, uid: str, container: str) -> tuple[Block, ...]:
        """Memory that a container was assigned."""
        return tuple(self.memory.assignments.get(uid, {}).get(container, ())) if self.memory else ()

    def held(self, uid: str, container: str) -> Mapping[str, frozenset[str]]:
        """Resource → ids of devices that a container was given."""
        grants = self.devices.grants.get(uid, {}).get(container, {})
        return {resource: grant.ids for resource, grant in grants.items() if grant.ids}


@dataclass(frozen=True, slots=True)
class GrantedDevice:
    """A device that a container has."""

    resource: str
    id: str
    numa: int = 0
    """Its NUMA nodes, packed; 0: not known, or it has none."""


@dataclass(frozen=True, slots=True)
class RecordedGrant:
    """What one container was granted."""

    uid: str
    namespace: str
    pod: str
    container: str
    cpus: int = 0
    """CPUs it is kept to; 0: the kubelet keeps it nowhere."""
    alone: bool = False
    """They are its own, not the shared pool."""
    mems: int = 0
    """NUMA nodes its memory is bound to; 0: to none."""
    devices: tuple[GrantedDevice, ...] = ()
    claims: tuple[PodClaim, ...] = ()

    @property
    def name(self) -> str:
        """``namespace/pod/container``, without the default namespace."""
        pod = self.pod if self.namespace == "default" else f"{self.namespace}/{self.pod}"
        return f"{pod}/{self.container}"


def kubelet_records(texts: Mapping[str, str]) -> KubeletRecords:
    """The records in state files, by the names of the files (rule 4)."""
    looks = {name: look(name, texts[name]) for name in (CPU_FILE, MEMORY_FILE, DEVICE_FILE) if name in texts}
    problems = [
        f"{name}: {one.problem or 'its checksum is wrong'}"
        for name, one in looks.items()
        if one.problem or not one.fits
    ]
    looks = {name: one for name, one in looks.items() if not one.problem and one.fits}
    cpu, memory, devices = (looks.get(name) for name in (CPU_FILE, MEMORY_FILE, DEVICE_FILE))
    return KubeletRecords(
        cpu=cpu.cpu if cpu is not None and cpu.policy == STATIC_CPUS else None,
        memory=memory.memory if memory is not None and memory.policy == STATIC_MEMORY else None,
        devices=(devices.devices if devices is not None else None) or DeviceFile(),
        problems=tuple(problems),
    )


def granted(
    records: KubeletRecords,
    who: tuple[str, str, str, str],
    answers: PodResources | None = None,
    claims: tuple[PodClaim, ...] = (),
) -> RecordedGrant:
    """What a container was granted; ``who``: uid, namespace, pod and container."""
    uid, namespace, pod, container = who
    own = records.assigned(uid, container)
    mems = 0
    for block in records.blocks(uid, container):
        mems |= block.numa
    devices = []
    for resource, grant in sorted(records.devices.grants.get(uid, {}).get(container, {}).items()):
        for name in sorted(grant.ids):
            recorded = bits_of(numa for numa, ids in grant.per_numa if name in ids and numa >= 0)
            devices.append(GrantedDevice(resource, name, _nodes(answers, resource, name) or recorded))
    cpus = own or (records.cpu.shared if records.cpu is not None else 0)
    return RecordedGrant(uid, namespace, pod, container, cpus, bool(own), mems, tuple(devices), claims)


def _nodes(answers: PodResources | None, resource: str, device: str) -> int:
    if answers is None:
        return 0
    is_known, nodes = answers.numa(resource, device)
    return bits_of(numa for numa in nodes or () if numa >= 0) if is_known else 0

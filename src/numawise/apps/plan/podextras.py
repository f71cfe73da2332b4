"""What surrounds the amounts of a pod: variables, shared memory, probes.

Rules kept here:

1. Variables that fight the pinning go: inside a container devices are numbered from 0, and its CPUs are not
   known before it runs.
2. Shared memory is a volume in memory with a limit: it counts against the memory of the container.
3. A service gets probes where it has a port and none are written.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from numawise.apps.plan.manifest import CPU, MEMORY, SHM, Object, amount, gpus, shm_volume, text_of
from numawise.codec.pod import quantity
from numawise.errors import InputError
from numawise.quantity import Quantity

GIBI = 1 << 30
SHM_PER_GPU = 8 * GIBI
PINNING = {
    "CUDA_VISIBLE_DEVICES": "the device plugin shows the container its GPUs alone, numbered from 0",
    "NVIDIA_VISIBLE_DEVICES": "the device plugin sets it to the GPUs that were allocated",
    "HIP_VISIBLE_DEVICES": "the device plugin shows the container its GPUs alone, numbered from 0",
    "ROCR_VISIBLE_DEVICES": "the device plugin shows the container its GPUs alone, numbered from 0",
    "GOMP_CPU_AFFINITY": "which CPUs the container gets is decided when it is admitted",
    "KMP_AFFINITY": "which CPUs the container gets is decided when it is admitted",
    "OMP_PLACES": "which CPUs the container gets is decided when it is admitted",
}
NAMED_PLACES = ("threads", "cores", "sockets", "numa_domains", "ll_caches")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
STARTUP_TRIES = 60


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was changed."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class PodWish:
    """What is wanted of a pod beside what its manifest says."""

    cpus: int | None = None
    memory: int | None = None
    gpus: int | None = None
    resource: str = "nvidia.com/gpu"
    shm: int | None = None
    """Bytes; 0: none."""
    service: bool = False
    port: int | None = None
    health: str = ""
    by_request: bool = False
    """Memory is what was requested, not what it was limited to."""


def environment(container: Object) -> Iterator[Change]:
    """Take out what fights the pinning (rule 1)."""
    kept = []
    for entry in container.get("env") or ():
        name, value = str(entry.get("name", "")), str(entry.get("value", ""))
        if name in PINNING and not (name == "OMP_PLACES" and value.partition("(")[0] in NAMED_PLACES):
            yield Change(container["name"], f"{name}={value} removed: {PINNING[name]}")
            continue
        kept.append(entry)
        cpus = amount(container, "limits", CPU)
        if name in THREADS and value.isdecimal() and cpus and gpus(container) and int(value) > cpus.value:
            yield Change(container["name"], f"{name}={cpus.value} instead of {value}: there are no more CPUs")
            entry["value"] = str(cpus.value)
    if "env" in container:
        container["env"] = kept
        if not kept:
            del container["env"]


def shared_memory(spec: Object, container: Object, wish: PodWish) -> Iterator[Change]:
    """Give a container shared memory that is enough and has a limit (rule 2)."""
    name, count = container["name"], gpus(container)
    memory = (amount(container, "limits", MEMORY) or Quantity()).value
    volume = shm_volume(spec, container)
    size = wish.shm
    if size is not None and size >= memory > 0:
        raise InputError(
            f"shared memory of {text_of(size, MEMORY)} leaves nothing of {text_of(memory, MEMORY)}",
            field="--shm",
            advice="it counts against the memory of the container",
        )
    if volume is None:
        if size == 0 or (size is None and (not count or wish.service)):
            return
        size = size or max(GIBI // 4, min(SHM_PER_GPU * count, memory // 4))
        _add_volume(spec, container, size)
        yield Change(
            name,
            f"{SHM}: {_shm(size, memory)}; the default of 64Mi is too little for data loaders and NCCL",
        )
        return
    empty = volume.get("emptyDir")
    if not isinstance(empty, dict):
        return
    if empty.get("medium") != "Memory":
        empty["medium"] = "Memory"
        yield Change(name, f"{SHM}: in memory, not on the disk")
    limit = empty.get("sizeLimit")
    now = quantity(limit).value if limit is not None else 0
    if size is None:
        size = now if 0 < now < memory else max(GIBI // 4, memory // 2)
    if size != now:
        empty["sizeLimit"] = text_of(size, MEMORY)
        before = f"instead of {limit}" if limit is not None else "because without a limit it could take all"
        yield Change(name, f"{SHM}: {_shm(size, memory)}, {before}")


def _add_volume(spec: Object, container: Object, size: int) -> None:
    volumes = spec.setdefault("volumes", [])
    names = {volume.get("name") for volume in volumes}
    name = next(each for each in ("shm", *(f"shm-{n}" for n in range(2, 100))) if each not in names)
    volumes.append({"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": text_of(size, MEMORY)}})
    container.setdefault("volumeMounts", []).append({"name": name, "mountPath": SHM})


def probes(container: Object, wish: PodWish) -> Iterator[Change]:
    """Let the cluster see whether a service is up (rule 3)."""
    ports = [one.get("containerPort") for one in container.get("ports") or ()]
    port = wish.port or next((one for one in ports if isinstance(one, int)), None)
    if port is None:
        return
    check: Object = {"tcpSocket": {"port": port}}
    if wish.health:
        check = {"httpGet": {"path": wish.health, "port": port}}
    added = []
    for name, more in (
        ("startupProbe", {"periodSeconds": 10, "failureThreshold": STARTUP_TRIES}),
        ("readinessProbe", {"periodSeconds": 5}),
        ("livenessProbe", {"periodSeconds": 10, "failureThreshold": 6}),
    ):
        if name == "startupProbe" and "initialDelaySeconds" in (container.get("livenessProbe") or {}):
            continue
        if not container.get(name):
            container[name] = {**_fresh(check), **more}
            added.append(name)
    if added:
        how = f"GET {wish.health}" if wish.health else "a connection"
        yield Change(container["name"], f"{', '.join(added)} added: {how} on port {port}")


def _shm(size: int, memory: int) -> str:
    left = f", of the {text_of(memory, MEMORY)} of memory" if memory else ""
    return f"{text_of(size, MEMORY)} in memory{left}"


def _fresh(check: Object) -> Object:
    return {kind: dict(inner) for kind, inner in check.items()}

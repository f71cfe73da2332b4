"""A pod's manifest as plain values, and turned into one that will be aligned."""

from collections.abc import Iterator
from copy import deepcopy

from numawise.codec.allocated import quantity
from numawise.codec.document import Document
from numawise.codec.workload import objects_in, runtimes_of, templates_of
from numawise.errors import InputError
from numawise.explain.guaranteed import (
    ASKED,
    LITTLE,
    GuaranteedAmount,
    RequestAndLimit,
    WantedAmount,
    main_containers,
    own_cpus,
    own_memory,
    shared_amount,
)
from numawise.machine.hardware import GPU_RESOURCE
from numawise.quantity import BINARY, DECIMAL, Quantity
from numawise.results.plan import Manifest, ManifestChange
from numawise.strconv import whole_number
from numawise.values import dataclass, field

CPU, MEMORY = "cpu", "memory"
SHM = "/dev/shm"  # noqa: S108 - a mount point, nothing is written there
SERVICES = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod spec inside an object, both to be changed in place."""

    found: Manifest
    """The object."""
    spec: Manifest
    kind: str
    name: str


def pod_templates(document: Manifest, file: str) -> Iterator[PodTemplate]:
    """The pod specs of a document, lists opened."""
    root = Document(document, file).root
    objects = list(objects_in(root))
    runtimes = runtimes_of(objects)
    for one in objects:
        found = one.part.value
        if not isinstance(found, dict) or one.kind == "TrainJob":
            continue
        found.setdefault("kind", one.kind)
        steps = [(*one.part.steps, "spec")]
        names = [one.name or "pod"]
        if one.kind != "Pod":
            templates = templates_of(one, runtimes)
            if not all(template.written for template in templates):
                what = f"the pods of a {one.kind} cannot be changed in place"
                raise InputError(what, file=file, advice="use check, and change its templates by hand")
            steps = [template.spec.steps for template in templates]
            names = [one.name if len(templates) == 1 else template.name for template in templates]
        for way, name in zip(steps, names, strict=True):
            spec = root.at(*way).value
            if not isinstance(spec, dict):
                raise InputError(f"{one.kind} has no spec", file=file, advice="give a whole manifest")
            yield PodTemplate(found, spec, one.kind, name)


def containers(spec: Manifest) -> list[Manifest]:
    """All containers, init containers first."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def amount(container: Manifest, side: str, name: str) -> Quantity | None:
    """What a container asks for, in requests or limits; None when it does not say."""
    value = ((container.get("resources") or {}).get(side) or {}).get(name)
    return None if value is None else quantity(value)


def sizes_of(container: Manifest, name: str) -> RequestAndLimit:
    """Request and limit of a container for one resource."""
    return RequestAndLimit(amount(container, "requests", name), amount(container, "limits", name))


def devices(container: Manifest) -> dict[str, int]:
    """The devices of a container, by resource."""
    found: dict[str, int] = {}
    for side in ("requests", "limits"):
        for name in (container.get("resources") or {}).get(side) or {}:
            if "/" in name:
                asked = amount(container, side, name)
                found[name] = asked.value if asked else 0
    return {name: count for name, count in found.items() if count}


def gpus(container: Manifest) -> int:
    """How many GPUs a container asks for, whole or in parts."""
    return sum(count for name, count in devices(container).items() if GPU_RESOURCE.search(name))


def set_both(container: Manifest, name: str, value: object) -> None:
    """Let request and limit of a resource be the same."""
    resources = container.get("resources")
    if not isinstance(resources, dict):
        resources = container["resources"] = {}
    for side in ("requests", "limits"):
        if not isinstance(resources.get(side), dict):
            resources[side] = {}
        resources[side][name] = value


def shm_volume(spec: Manifest, container: Manifest) -> Manifest | None:
    """The volume that a container has as its shared memory."""
    for mount in container.get("volumeMounts") or ():
        if str(mount.get("mountPath", "")).rstrip("/") == SHM:
            for volume in spec.get("volumes") or ():
                if volume.get("name") == mount.get("name"):
                    return volume  # type: ignore[no-any-return]
    return None


def text_of(value: int, name: str) -> str:
    """An amount as one writes it."""
    return str(Quantity.of(value, DECIMAL if name == CPU else BINARY))


def copied(value: Manifest) -> Manifest:
    """A copy that shares nothing, so that nothing is written as an alias."""
    return deepcopy(value)


# --------------------------------------------------------------------------------------------------
# What surrounds the amounts of a pod: variables, shared memory, probes.
#
# Rules kept here:
#
# 1. Variables that fight the pinning go: inside a container devices are numbered from 0, and its CPUs are not
#    known before it runs.
# 2. Shared memory is a volume in memory with a limit: it counts against the memory of the container.
# 3. A service gets probes where it has a port and none are written.


GIBI = 1 << 30
SHM_PER_GPU = 8 * GIBI
DEFAULT_SHM = GIBI // 16
"""What a container has without a volume for it."""
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
class PodAmounts:
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


def environment(container: Manifest) -> Iterator[ManifestChange]:
    """Take out what fights the pinning (rule 1)."""
    kept = []
    for entry in container.get("env") or ():
        name, value = str(entry.get("name", "")), str(entry.get("value", ""))
        if name in PINNING and not (name == "OMP_PLACES" and value.partition("(")[0] in NAMED_PLACES):
            yield ManifestChange(container["name"], f"{name}={value} removed: {PINNING[name]}")
            continue
        kept.append(entry)
        cpus = amount(container, "limits", CPU)
        if (
            name in THREADS
            and value.isdecimal()
            and cpus
            and gpus(container)
            and whole_number(value) > cpus.value
        ):
            yield ManifestChange(
                container["name"], f"{name}={cpus.value} instead of {value}: there are no more CPUs"
            )
            entry["value"] = str(cpus.value)
    if "env" in container:
        container["env"] = kept
        if not kept:
            del container["env"]


def shared_memory(spec: Manifest, container: Manifest, amounts: PodAmounts) -> Iterator[ManifestChange]:
    """Give a container shared memory that is enough and has a limit (rule 2)."""
    name, count = container["name"], gpus(container)
    memory = (amount(container, "limits", MEMORY) or Quantity()).value
    volume = shm_volume(spec, container)
    size = amounts.shm
    if size is not None and size >= memory > 0:
        raise InputError(
            f"shared memory of {text_of(size, MEMORY)} leaves nothing of {text_of(memory, MEMORY)}",
            field="--shm",
            advice="it counts against the memory of the container",
        )
    if volume is None:
        if size == 0 or (size is None and (not count or amounts.service)):
            return
        if size is None:
            size = _at_most_half(max(GIBI // 4, min(SHM_PER_GPU * count, memory // 4)), memory)
            if size <= DEFAULT_SHM:
                return
        _add_volume(spec, container, size)
        yield ManifestChange(
            name,
            f"{SHM}: {_shm(size, memory)}; the default of 64Mi is too little for data loaders and NCCL",
        )
        return
    empty = volume.get("emptyDir")
    if not isinstance(empty, dict):
        return
    if empty.get("medium") != "Memory":
        empty["medium"] = "Memory"
        yield ManifestChange(name, f"{SHM}: in memory, not on the disk")
    limit = empty.get("sizeLimit")
    now = quantity(limit).value if limit is not None else 0
    if size is None:
        size = now if 0 < now < memory else _at_most_half(max(GIBI // 4, memory // 2), memory)
    if size != now:
        empty["sizeLimit"] = text_of(size, MEMORY)
        before = f"instead of {limit}" if limit is not None else "because without a limit it could take all"
        yield ManifestChange(name, f"{SHM}: {_shm(size, memory)}, {before}")


def _at_most_half(size: int, memory: int) -> int:
    """Shared memory counts against the memory of the container, which needs some for itself."""
    return min(size, memory // 2) if memory else size


def _add_volume(spec: Manifest, container: Manifest, size: int) -> None:
    volumes = spec.setdefault("volumes", [])
    names = {volume.get("name") for volume in volumes}
    name = next(each for each in ("shm", *(f"shm-{n}" for n in range(2, 100))) if each not in names)
    volumes.append({"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": text_of(size, MEMORY)}})
    container.setdefault("volumeMounts", []).append({"name": name, "mountPath": SHM})


def probes(container: Manifest, amounts: PodAmounts) -> Iterator[ManifestChange]:
    """Let the cluster see whether a service is up (rule 3)."""
    ports = [one.get("containerPort") for one in container.get("ports") or ()]
    port = amounts.port or next((one for one in ports if isinstance(one, int)), None)
    if port is None:
        return
    check: Manifest = {"tcpSocket": {"port": port}}
    if amounts.health:
        check = {"httpGet": {"path": amounts.health, "port": port}}
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
        how = f"GET {amounts.health}" if amounts.health else "a connection"
        yield ManifestChange(container["name"], f"{', '.join(added)} added: {how} on port {port}")


def _shm(size: int, memory: int) -> str:
    left = f", of the {text_of(memory, MEMORY)} of memory" if memory else ""
    return f"{text_of(size, MEMORY)} in memory{left}"


def _fresh(check: Manifest) -> Manifest:
    return {kind: dict(inner) for kind, inner in check.items()}


# --------------------------------------------------------------------------------------------------
# Turn a pod into one that will be aligned, and say what was changed and why.
#
# Rules kept here:
#
# 1. CPUs of its own, pinned memory and hints for both are for pods of the class Guaranteed alone: every
#    container, init containers too, has CPU and memory with request equal to limit, as much as
#    ``explain.guaranteed`` says.
# 2. Nothing else is touched, but for what surrounds the amounts (above).


@dataclass(frozen=True, slots=True)
class Share:
    """What a GPU's share of the machine is; None: not known."""

    cpus: int | None = None
    memory: int | None = None
    threads: int = 1
    """CPUs come in multiples of this."""


@dataclass(slots=True)
class _Fix:
    spec: Manifest
    amounts: PodAmounts
    share: Share
    changes: list[ManifestChange] = field(default_factory=list)

    def say(self, where: str, text: str) -> None:
        self.changes.append(ManifestChange(where, text))

    def run(self) -> None:
        if self.spec.pop("resources", None) is not None:
            self.say(
                "spec.resources",
                "removed: with resources for the whole pod, no container gets CPUs of its own",
            )
        main = self.main()
        if self.amounts.gpus is not None and main:
            self.set_gpus(main[0])
        for container in containers(self.spec):
            if any(container is one for one in main):
                self.cpus(container)
                self.memory(container)
                self.same_devices(container)
            else:
                self.helper(container)
            self.changes += environment(container)
        for container in main:
            self.changes += shared_memory(self.spec, container, self.amounts)
        if self.amounts.service:
            for container in self.spec.get("containers") or ():
                self.changes += probes(container, self.amounts)

    def main(self) -> list[Manifest]:
        """The containers that the pod is about."""
        every = containers(self.spec)
        apps = len(self.spec.get("containers") or ())
        chosen = main_containers(
            [bool(devices(one)) for one in every],
            [at >= len(every) - apps for at in range(len(every))],
            [sizes_of(one, CPU) for one in every],
        )
        return [every[at] for at in chosen]

    def set_gpus(self, container: Manifest) -> None:
        name = next(iter(devices(container)), self.amounts.resource)
        if devices(container).get(name) != self.amounts.gpus:
            set_both(container, name, self.amounts.gpus)
            self.say(container["name"], f"{name}: {self.amounts.gpus}, as asked for")

    # --- amounts --------------------------------------------------------------------------

    def cpus(self, container: Manifest) -> None:
        sizes = sizes_of(container, CPU)
        new = own_cpus(sizes, self.wanted(container, CPU), self.share.threads)
        if new is None:
            raise InputError(
                f"container {container['name']} does not say how many CPUs it needs",
                field="--cpus",
                advice="give --cpus, or --machine to have its share worked out",
            )
        self.set(container, CPU, new, silent=new.why == ASKED and sizes.most is None)

    def memory(self, container: Manifest) -> None:
        sizes = sizes_of(container, MEMORY)
        wanted = self.wanted(container, MEMORY)
        new = own_memory(sizes, wanted, by_request=self.amounts.by_request)
        if new is None:
            raise InputError(
                f"container {container['name']} does not say how much memory it needs",
                field="--memory",
                advice="give --memory, or --machine to have its share worked out",
            )
        self.set(container, MEMORY, new, silent=new.why == ASKED and sizes.most is None)

    def wanted(self, container: Manifest, resource: str) -> WantedAmount:
        """What the user or the machine says about the container."""
        many = max(1, gpus(container))
        asked, share = (
            (self.amounts.cpus, self.share.cpus)
            if resource == CPU
            else (self.amounts.memory, self.share.memory)
        )
        return WantedAmount(
            asked if container in self.main()[:1] else None,
            None if share is None else share * many,
            f"{many} GPU{'' if many == 1 else 's'}",
        )

    def set(self, container: Manifest, resource: str, new: GuaranteedAmount, *, silent: bool = False) -> None:
        if new.same:
            return
        set_both(container, resource, str(new.value))
        if not silent:
            why = f", {new.why}" if new.why else ""
            self.say(container["name"], f"{resource}: {new.value}{why}")

    def same_devices(self, container: Manifest) -> None:
        for resource, count in devices(container).items():
            asked, limit = (amount(container, side, resource) for side in ("requests", "limits"))
            if asked is None or limit is None:
                set_both(container, resource, count)
            if limit is None:
                self.say(
                    container["name"], f"{resource}: {count}, as a limit too: devices are never shared out"
                )

    def helper(self, container: Manifest) -> None:
        """A container beside the main ones."""
        for resource in LITTLE:
            self.set(container, resource, shared_amount(resource, sizes_of(container, resource)))


def fixed(spec: Manifest, amounts: PodAmounts, share: Share) -> tuple[ManifestChange, ...]:
    """ManifestChange a pod spec in place, and say what was changed."""
    work = _Fix(spec, amounts, share)
    work.run()
    return tuple(work.changes)


def claims(spec: Manifest) -> Iterator[str]:
    """Names of resource claims: their devices take no part in the alignment."""
    for claim in spec.get("resourceClaims") or ():
        yield str(claim.get("name", ""))

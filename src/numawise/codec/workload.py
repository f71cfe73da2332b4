"""Objects that make pods: where each kind keeps its pod templates, and how many pods it makes of them.

Rules kept here:

1. Kinds of Kubernetes and of job systems (``codec.job_systems``) are read as their controllers read them;
   pods are numbered from 0.  An object without kind that has ``spec.containers`` is a pod.  Lists are opened.
2. Any other kind is searched for pod templates (mappings with a list of containers); ``replicas`` beside a
   template counts.  Objects of Kubernetes that make no pods give none; any other kind without a template is
   refused, and so is one whose name looks misspelt.
3. A TrainJob takes its templates from the training runtime that it names, which must be among the objects; a
   runtime that no TrainJob names is read by itself.
4. More than ``MOST_OBJECTS`` objects in a document, or ``MOST_PODS`` pods, are refused before they are made.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from numawise.codec.claims import claim_objects, resolved
from numawise.codec.document import Document, Done, Part, Twice, read_documents, shown
from numawise.codec.job_systems import (
    MOST_REPLICAS,
    READERS,
    RUNTIMES,
    Template,
    count_of,
    jobs_of,
    reader_of,
    runtime_pods,
)
from numawise.codec.pod import (
    TOP_FIELDS,
    TOP_READ,
    check_names,
    misspelt,
    object_names,
    pod_in,
    pod_object,
    words,
)
from numawise.errors import InputError, meant
from numawise.request.constraints import DAEMONS_TOLERATE, PodConstraints
from numawise.request.defaults import RawPod
from numawise.values import dataclass, replace

MOST_PODS = MOST_OBJECTS = MOST_REPLICAS
PRINTED = (b"Namespace:", b"SEEN", b"Warning", b"Normal")
"""One of these is in everything that kubectl prints about pods and events."""
FEWER = "split it into smaller files, or ask for fewer replicas"
OWN_GROUPS = frozenset({"apps", "batch", "autoscaling", "policy", "extensions"})
PODLESS = words("""
    Binding ConfigMap ControllerRevision DeviceClass Endpoints Event HorizontalPodAutoscaler Ingress
    LimitRange Namespace Node PersistentVolume PersistentVolumeClaim PodDisruptionBudget PodSecurityPolicy
    ResourceClaim ResourceClaimTemplate ResourceQuota ResourceSlice Secret Service ServiceAccount
""")
OWNER_READ = words("replicas parallelism completions template jobTemplate ordinals")
OWNER_FIELDS = OWNER_READ | words("""
    activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode concurrencyPolicy
    failedJobsHistoryLimit failedPodsLimit managedBy manualSelector maxFailedIndexes metadata minReadySeconds
    paused persistentVolumeClaimRetentionPolicy podFailurePolicy podManagementPolicy podReplacementPolicy
    progressDeadlineSeconds revisionHistoryLimit schedule selector serviceName spec startingDeadlineSeconds
    strategy successPolicy successfulJobsHistoryLimit suspend timeZone ttlSecondsAfterFinished updateStrategy
    volumeClaimTemplates
""")
NATIVE: Mapping[str, tuple[tuple[str, ...], str]] = {
    # kind → where its template is, and what counts the pods
    "Deployment":            (("spec",), "replicas"),
    "StatefulSet":           (("spec",), "replicas"),
    "ReplicaSet":            (("spec",), "replicas"),
    "ReplicationController": (("spec",), "replicas"),
    "DaemonSet":             (("spec",), ""),
    "Job":                   (("spec",), "parallelism"),
    "CronJob":               (("spec", "jobTemplate", "spec"), "parallelism"),
    "PodTemplate":           ((), ""),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Object:
    """One object out of a document."""

    part: Part
    kind: str
    listed: bool = False
    """It stands in a list."""

    @property
    def name(self) -> str:
        """Its name, as far as it has one."""
        for key in ("name", "generateName"):
            name = self.part.at("metadata", key).value
            if isinstance(name, str) and name:
                return name
        return ""

    @property
    def group(self) -> str:
        """The API group; '' for the core of Kubernetes, or when nothing is said."""
        version = self.part.at("apiVersion").value
        return version.rpartition("/")[0] if isinstance(version, str) else ""

    @property
    def native(self) -> bool:
        """Whether it says that it is one of Kubernetes itself."""
        return isinstance(self.part.at("apiVersion").value, str) and self.group in ("", *OWN_GROUPS)

    @property
    def foreign(self) -> bool:
        """Whether its group is not one of Kubernetes itself."""
        return bool(self.group) and self.group not in OWN_GROUPS


Runtimes = Mapping[tuple[str, str], Part]
"""Training runtimes by kind and name."""


def objects_in(part: Part, kind: str = "") -> Iterator[Object]:
    """The objects of a document or a part of one, lists opened; ``kind``: where it does not say."""
    waiting: list[tuple[Part, str, bool]] = [(part, kind, False)]
    while waiting:
        if len(waiting) > MOST_OBJECTS:
            raise part.error(f"lists more than {MOST_OBJECTS:,} objects", FEWER)
        part, inherited, listed = waiting.pop()
        value = part.mapping(what="a Kubernetes object")
        kind = part.at("kind").text() if value.get("kind") is not None else inherited
        if not kind and isinstance(part.at("spec", "containers").value, list):
            kind = "Pod"
        if kind.endswith("List") and ("items" in value or kind == "List"):
            items = part.at("items").items("a list of objects")
            waiting.extend((item, kind.removesuffix("List"), True) for item in reversed(items))
        else:
            yield Object(part, kind, listed)


def pod_documents(
    raw: bytes, file: str, twice: Twice | None = None, done: Done | None = None
) -> tuple[Document, ...]:
    """The documents of a file with pods: YAML, JSON, or what ``kubectl describe`` and its like print.

    ``twice``, ``done``: as of ``read_documents``.
    """
    if is_printed(raw):
        from numawise.codec.kubectl import kubectl_documents  # noqa: PLC0415 - few are

        return kubectl_documents(raw, file)
    return read_documents(raw, file, twice, done)


def is_printed(raw: bytes) -> bool:
    """Whether a file is what ``kubectl describe`` and its like print for people."""
    if not any(mark in raw for mark in PRINTED):
        return False
    from numawise.codec.kubectl import is_kubectl_text  # noqa: PLC0415 - few are

    return is_kubectl_text(raw)


def decode_pods(document: Document) -> tuple[RawPod, ...]:
    """Read the pods of an object, or of a list of objects."""
    return pods_in(document.root)


def pods_in(part: Part, kind: str = "") -> tuple[RawPod, ...]:
    """Likewise of a part of a document; ``kind``: what it is where it does not say."""
    objects = list(objects_in(part, kind))
    return resolved(pods_of_all(objects), claim_objects(objects))


def pods_of_all(objects: Sequence[Object], most: int = MOST_PODS) -> list[RawPod]:
    """The pods of several objects, at most so many (rule 4)."""
    runtimes = runtimes_of(objects)
    pods: list[RawPod] = []
    for one in objects:
        pods += pods_of(one, runtimes, most - len(pods))
    return pods


def runtimes_of(objects: Sequence[Object]) -> Runtimes:
    """The training runtimes that TrainJobs among the objects name (rule 3)."""
    wanted = {_runtime_of(one.part) for one in objects if one.kind == "TrainJob"}
    return {
        (one.kind, one.name): one.part
        for one in objects
        if one.kind in RUNTIMES and (one.kind, one.name) in wanted
    }


def pods_of(one: Object, runtimes: Runtimes | None = None, most: int = MOST_PODS) -> list[RawPod]:
    """The pods that an object makes, at most so many (rule 4)."""
    if one.kind == "Pod":
        _check_count(one, 1, most)
        return [pod_object(one.part)]
    if (one.kind, one.name) in (runtimes or {}):
        return []
    found: list[RawPod] = []
    namespace = one.part.at("metadata", "namespace").value
    namespace = namespace if isinstance(namespace, str) and namespace else "default"
    for template in templates_of(one, runtimes or {}):
        owner = f"{one.kind} {one.name}".strip()
        pod = pod_in(template.spec, template.name, owner, namespace, template.metadata)
        if one.kind == "DaemonSet":
            pod = replace(pod, constraints=_daemon(pod.constraints))
        _check_count(one, len(found) + template.count, most)
        numbers = range(template.first, template.first + template.count)
        names = [f"{template.name}-{i}" for i in numbers]
        found += [replace(pod, uid=f"{namespace}/{name}", name=name) for name in names]
    return found


def _daemon(constraints: PodConstraints) -> PodConstraints:
    """What the controller of a DaemonSet adds."""
    return replace(constraints, tolerations=(*constraints.tolerations, *DAEMONS_TOLERATE))


def _check_count(one: Object, count: int, most: int) -> None:
    if count > most:
        raise one.part.error(f"{count:,} pods of it make more than {MOST_PODS:,} in all", FEWER)


def templates_of(one: Object, runtimes: Runtimes) -> tuple[Template, ...]:
    """The pod templates of an object that is no pod (rules 1 to 3)."""
    part, kind, group = one.part, one.kind, one.group
    if kind in NATIVE and not one.foreign and not _has_tasks(one):
        return (_native(part, kind),)
    check_names(part.at("metadata"))
    reader = reader_of(kind, group)
    if kind == "TrainJob":
        return _train_job(one, runtimes)
    templates = tuple(reader(part, one.name or kind.lower())) if reader is not None else ()
    if templates:
        return templates
    if podless(one):
        return ()
    specs = tuple(searched(part))
    if not specs or one.native or (reader is None and not one.foreign and _misspelt_kind(kind)):
        raise unsupported(kind, part.at("kind"))
    base = one.name or kind.lower() or "pod"
    several = len(specs) > 1
    return tuple(
        Template(
            spec, f"{base}-{i}" if several else base, _beside(part, spec), metadata=metadata_of(part, spec)
        )
        for i, spec in enumerate(specs)
    )


def _has_tasks(one: Object) -> bool:
    """A Job of Volcano that does not say its group."""
    return (
        one.kind == "Job"
        and one.part.at("apiVersion").value is None
        and one.part.at("spec", "template").value is None
        and isinstance(one.part.at("spec", "tasks").value, list)
    )


def podless(one: Object) -> bool:
    """An object of Kubernetes itself that makes no pods."""
    return one.group.endswith(".k8s.io") or (one.kind in PODLESS and not one.foreign)


def unsupported(kind: str, part: Part) -> InputError:
    """What to say about an object without pods."""
    if not kind:
        return part.error("is missing", f"give a Kubernetes object; {SUPPORTED_WORDS}")
    near = _misspelt_kind(kind)
    if near:
        what = f"objects of kind {shown(kind)} are not known"
        return part.error(what, f'did you mean "{near}"? {SUPPORTED_WORDS}')
    return part.error(f"objects of kind {shown(kind)} have no pod template", SUPPORTED_WORDS)


def _misspelt_kind(kind: str) -> str:
    """The kind that was meant, where one looks misspelt."""
    near = "" if kind in PODLESS else meant(kind, SUPPORTED, 0.8)
    return near if near != kind else ""


def searched(part: Part) -> Iterator[Part]:
    """Pod specs anywhere inside (rule 2)."""
    waiting = deque([part])
    while waiting:
        one = waiting.popleft()
        if is_spec(one):
            yield one
        elif isinstance(one.value, Mapping):
            waiting += [one.at(key) for key in one.value if isinstance(key, str)]
        elif isinstance(one.value, list):
            waiting += [one.at(i) for i in range(len(one.value))]


def is_spec(part: Part) -> bool:
    """Whether a part is a pod spec."""
    containers = part.value.get("containers") if isinstance(part.value, Mapping) else None
    return isinstance(containers, list) and any(
        isinstance(one, Mapping) and "name" in one and ("image" in one or "resources" in one)
        for one in containers
    )


def metadata_of(part: Part, spec: Part) -> Part | None:
    """The metadata next to a pod spec."""
    if not spec.steps or spec.steps[-1] != "spec":
        return None
    return part.document.root.at(*spec.steps[:-1], "metadata")


# --- kinds ----------------------------------------------------------------------------------


def _native(part: Part, kind: str) -> Template:
    misspelt(part, TOP_FIELDS, TOP_READ)
    steps, counted = NATIVE[kind]
    owner = part.at(*steps)
    for i in range(1, len(steps) + 1):
        misspelt(part.at(*steps[:i]), OWNER_FIELDS, OWNER_READ)
    _, name, _ = object_names(part)
    owner.at("ordinals").mapping()
    count = jobs_of(owner) if counted == "parallelism" else count_of(owner.at(counted)) if counted else 1
    first = count_of(owner.at("ordinals", "start"), 0) if kind == "StatefulSet" else 0
    template = owner.at("template")
    if template.value is None:
        raise template.error("Required value", "give the workload a pod template")
    misspelt(template, TOP_FIELDS, TOP_READ)
    return Template(template.at("spec"), name, count, first, template.at("metadata"))


def _beside(part: Part, spec: Part) -> int:
    """``replicas`` beside a template, in a kind that is not known."""
    owner = part.document.root.at(*spec.steps[:-2]) if spec.steps[-2:] == ("template", "spec") else None
    value = owner.at("replicas").value if owner is not None else None
    return value if isinstance(value, int) and 0 <= value <= MOST_REPLICAS else 1


def _runtime_of(part: Part) -> tuple[str, str]:
    """Kind and name of the runtime that a TrainJob names."""
    kind = part.at("spec", "runtimeRef", "kind").value
    return str(kind or RUNTIMES[0]), str(part.at("spec", "runtimeRef", "name").value or "")


def _train_job(one: Object, runtimes: Runtimes) -> tuple[Template, ...]:
    kind, called = _runtime_of(one.part)
    runtime = runtimes.get((kind, called))
    if runtime is None:
        what = f"its pods are described by {kind} {called or '(no name)'}, which is not among the files"
        raise one.part.at("spec", "runtimeRef").error(what, f"give the {kind}, too")
    trainer = one.part.at("spec", "trainer")
    nodes = trainer.at("numNodes")
    count = count_of(nodes if nodes.value is not None else runtime.at("spec", "mlPolicy", "numNodes"))
    return tuple(runtime_pods(runtime, one.name, count, trainer.at("resourcesPerNode")))


SUPPORTED_WORDS = "supported are Pod, Deployment, StatefulSet, Job, List, and any object with pod templates"
SUPPORTED = ("Pod", *NATIVE, *(kind for kind in READERS if kind not in NATIVE), "TrainJob", "List")

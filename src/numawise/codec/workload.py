"""Objects that make pods: where each kind keeps its pod templates, and how many pods it makes of them.

Rules kept here:

1. Kinds of Kubernetes and of the job systems in ``READERS`` are read as their controllers read them; pods are
   numbered from 0.  An object without a kind that has ``spec.containers`` is a pod.  Lists are opened.
2. Any other kind is searched for pod templates (mappings with a list of containers); ``replicas`` beside a
   template counts.  Objects of Kubernetes that make no pods give none; any other kind without a template is
   refused, and so is one whose name looks misspelt.
3. A TrainJob takes its templates from the training runtime that it names, which must be among the objects; a
   runtime that no TrainJob names is read by itself.
4. More than ``MOST_OBJECTS`` objects in a document, or ``MOST_PODS`` pods, are refused before they are made.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from numawise.codec.claims import claim_objects, resolved
from numawise.codec.document import Document, Part, shown
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

MOST_REPLICAS = MOST_PODS = MOST_OBJECTS = 100_000
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
KUBEFLOW = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
}
RAY = {"RayCluster": (), "RayJob": ("rayClusterSpec",), "RayService": ("rayClusterConfig",)}
RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
STEP_LABEL, TRAINER, TRAINER_CONTAINER = "trainer.kubeflow.org/trainjob-ancestor-step", "trainer", "node"
SERVERS = words("sklearn xgboost tensorflow pytorch triton onnx huggingface pmml lightgbm paddle model")
COMPONENT_FIELDS = words("""
    minReplicas maxReplicas scaleTarget scaleMetric scaleMetricType containerConcurrency timeout
    canaryTrafficPercent logger batcher labels annotations deploymentStrategy autoScaling workerSpec
""")


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template, and the pods that are made of it."""

    spec: Part
    name: str
    """What the names of its pods begin with."""
    count: int = 1
    first: int = 0
    """The number of the first one."""
    metadata: Part | None = None


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
    if kind in NATIVE and (not group or group in OWN_GROUPS):
        return (_native(part, kind),)
    check_names(part.at("metadata"))
    reader = READERS.get(kind)
    if kind == "TrainJob":
        return _train_job(one, runtimes)
    templates = tuple(reader(part, one.name or kind.lower())) if reader is not None else ()
    if templates:
        return templates
    if podless(one):
        return ()
    specs = tuple(searched(part))
    if not specs or one.native or (reader is None and _misspelt_kind(kind)):
        raise unsupported(kind, part.at("kind"))
    base = one.name or kind.lower() or "pod"
    several = len(specs) > 1
    return tuple(
        Template(
            spec, f"{base}-{i}" if several else base, _beside(part, spec), metadata=metadata_of(part, spec)
        )
        for i, spec in enumerate(specs)
    )


def podless(one: Object) -> bool:
    """An object of Kubernetes itself that makes no pods."""
    group = one.group
    return group.endswith(".k8s.io") or (one.kind in PODLESS and (not group or group in OWN_GROUPS))


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
    count = _jobs(owner) if counted == "parallelism" else _count(owner.at(counted)) if counted else 1
    first = _count(owner.at("ordinals", "start"), 0) if kind == "StatefulSet" else 0
    template = owner.at("template")
    if template.value is None:
        raise template.error("Required value", "give the workload a pod template")
    misspelt(template, TOP_FIELDS, TOP_READ)
    return Template(template.at("spec"), name, count, first, template.at("metadata"))


def _count(part: Part, default: int = 1) -> int:
    return default if part.value is None else part.integer(0, MOST_REPLICAS)


def _jobs(spec: Part) -> int:
    """Pods of a Job that run at one time."""
    count = _count(spec.at("parallelism"))
    return min(count, _count(spec.at("completions"), count))


def _beside(part: Part, spec: Part) -> int:
    """``replicas`` beside a template, in a kind that is not known."""
    owner = part.document.root.at(*spec.steps[:-2]) if spec.steps[-2:] == ("template", "spec") else None
    value = owner.at("replicas").value if owner is not None else None
    return value if isinstance(value, int) and 0 <= value <= MOST_REPLICAS else 1


def _template(template: Part, name: str, count: int) -> Iterator[Template]:
    if template.value is not None:
        yield Template(template.at("spec"), name, count, metadata=template.at("metadata"))


def _rollout(part: Part, name: str) -> Iterator[Template]:
    yield from _template(part.at("spec", "template"), name, _count(part.at("spec", "replicas")))


def _kubeflow(part: Part, name: str) -> Iterator[Template]:
    specs = part.at("spec", KUBEFLOW[str(part.at("kind").value)])
    for role in specs.mapping(what="a mapping from roles to their pods"):
        own = specs.at(role)
        yield from _template(own.at("template"), f"{name}-{role.lower()}", _count(own.at("replicas")))


def _ray(part: Part, name: str) -> Iterator[Template]:
    spec = part.at("spec", *RAY[str(part.at("kind").value)])
    yield from _template(spec.at("headGroupSpec", "template"), f"{name}-head", 1)
    for group in spec.at("workerGroupSpecs").items("a list of worker groups"):
        least = _count(group.at("minReplicas"), 0)
        most = (
            _count(group.at("maxReplicas"), MOST_REPLICAS)
            if _small(group.at("maxReplicas"))
            else MOST_REPLICAS
        )
        count = (
            0 if group.at("suspend").value is True else min(most, max(least, _count(group.at("replicas"), 0)))
        )
        called = group.at("groupName").value
        count *= _count(group.at("numOfHosts"))
        yield from _template(group.at("template"), f"{name}-{called or 'worker'}", count)
    if part.at("kind").value == "RayJob":
        yield from _template(part.at("spec", "submitterPodTemplate"), f"{name}-submitter", 1)


def _small(part: Part) -> bool:
    """Not the largest number there is, which stands for no bound."""
    return not isinstance(part.value, int) or part.value <= MOST_REPLICAS


def _job_set(part: Part, name: str) -> Iterator[Template]:
    for jobs in part.at("spec", "replicatedJobs").items("a list of jobs"):
        inner = jobs.at("template", "spec")
        count = _count(jobs.at("replicas")) * _jobs(inner)
        yield from _template(inner.at("template"), f"{name}-{jobs.at('name').value or 'job'}", count)


def _leader_workers(part: Part, name: str) -> Iterator[Template]:
    groups = _count(part.at("spec", "replicas"))
    template = part.at("spec", "leaderWorkerTemplate")
    size = _count(template.at("size"))
    worker, leader = template.at("workerTemplate"), template.at("leaderTemplate")
    yield from _template(leader if leader.value is not None else worker, f"{name}-leader", groups)
    if size > 1:
        yield from _template(worker, f"{name}-worker", groups * (size - 1))


def _volcano(part: Part, name: str) -> Iterator[Template]:
    for number, task in enumerate(part.at("spec", "tasks").items("a list of tasks")):
        called = task.at("name").value or f"task{number}"
        yield from _template(task.at("template"), f"{name}-{called}", _count(task.at("replicas")))


def _kserve(part: Part, name: str) -> Iterator[Template]:
    """Each component is a pod spec itself, with a model server in place of a container."""
    for component in ("predictor", "transformer", "explainer"):
        own = part.at("spec", component)
        value = own.mapping(what="a mapping with containers or a model")
        if not value:
            continue
        containers = value.get("containers") or []
        served: list[object] = list(containers) if isinstance(containers, list) else []
        for key in value:
            model = value[key]
            if key in SERVERS and isinstance(model, Mapping):
                served.append({"name": "kserve-container", "resources": model.get("resources") or {}})
        spec = Part(own.document, own.steps, {**pod_fields(value), "containers": served})
        yield Template(spec, f"{name}-{component}", _count(own.at("minReplicas")))


def pod_fields(component: Mapping[str, object]) -> dict[str, object]:
    """The fields of a KServe component that belong to a pod spec; all of them of any other spec."""
    return {key: item for key, item in component.items() if key not in COMPONENT_FIELDS | SERVERS}


def _runtime(part: Part, name: str) -> Iterator[Template]:
    yield from _runtime_pods(part, name, _count(part.at("spec", "mlPolicy", "numNodes")), None)


def _runtime_pods(part: Part, name: str, nodes: int, resources: Part | None) -> Iterator[Template]:
    for jobs in part.at("spec", "template", "spec", "replicatedJobs").items("a list of jobs"):
        job = jobs.at("template")
        inner = job.at("spec")
        trains = job.at("metadata", "labels", STEP_LABEL).value == TRAINER
        count = _count(jobs.at("replicas")) * (nodes if trains else _jobs(inner))
        called = f"{name}-{jobs.at('name').value or 'job'}"
        for template in _template(inner.at("template"), called, count):
            if trains and resources is not None and resources.value is not None:
                yield replace(template, spec=_with_resources(template.spec, resources))
            else:
                yield template


def _with_resources(spec: Part, resources: Part) -> Part:
    """A runtime's pod spec with what a TrainJob asks for on each node."""
    value = spec.mapping()
    containers = value.get("containers")
    changed = [
        {**one, "resources": resources.value} if one.get("name") == TRAINER_CONTAINER else one
        for one in (containers if isinstance(containers, list) else [])
        if isinstance(one, Mapping)
    ]
    return Part(spec.document, spec.steps, {**value, "containers": changed})


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
    count = _count(nodes if nodes.value is not None else runtime.at("spec", "mlPolicy", "numNodes"))
    return tuple(_runtime_pods(runtime, one.name, count, trainer.at("resourcesPerNode")))


READERS: Mapping[str, Callable[[Part, str], Iterator[Template]]] = {
    **dict.fromkeys(KUBEFLOW, _kubeflow),
    **dict.fromkeys(RAY, _ray),
    **dict.fromkeys(RUNTIMES, _runtime),
    "Job": _volcano,
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_workers,
    "Rollout": _rollout,
    "InferenceService": _kserve,
}
"""Kinds of other groups; a Job of another group than Kubernetes' own is Volcano's."""
SUPPORTED_WORDS = "supported are Pod, Deployment, StatefulSet, Job, List, and any object with pod templates"
SUPPORTED = ("Pod", *NATIVE, *(kind for kind in READERS if kind not in NATIVE), "TrainJob", "List")

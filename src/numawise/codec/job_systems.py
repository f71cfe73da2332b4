"""Pod templates of job systems and operators: where each kind keeps them, and how many pods it makes.

Rules kept here:

1. A kind is read as its controller reads it; what describes its pods elsewhere (``workloadRef`` of a Rollout,
   ``clusterSelector`` of a RayJob) gives no template.
2. A template that is put together out of an object's fields, such as a step of a Workflow, is not
   ``written``: nobody can change it in place.
"""

from collections.abc import Callable, Iterator, Mapping

from numawise.codec.document import Part
from numawise.codec.pod import CONTAINER_FIELDS, SPEC_FIELDS, words
from numawise.strconv import whole_number
from numawise.values import dataclass, replace

MOST_REPLICAS = 100_000
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

WORKFLOWS = ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow")
STEP_FIELDS = words("source dependencies mirrorVolumeMounts")
USER_CONTAINER, SCALE = "user-container", "autoscaling.knative.dev/min-scale"


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
    written: bool = True
    """The spec stands in the object as it is (rule 2)."""


def count_of(part: Part, default: int = 1) -> int:
    """A number of pods."""
    return default if part.value is None else part.integer(0, MOST_REPLICAS)


def jobs_of(spec: Part) -> int:
    """Pods of a Job that run at one time."""
    count = count_of(spec.at("parallelism"))
    return min(count, count_of(spec.at("completions"), count))


def _template(template: Part, name: str, count: int) -> Iterator[Template]:
    if template.value is not None:
        yield Template(template.at("spec"), name, count, metadata=template.at("metadata"))


def _rollout(part: Part, name: str) -> Iterator[Template]:
    yield from _template(part.at("spec", "template"), name, count_of(part.at("spec", "replicas")))


def _kubeflow(part: Part, name: str) -> Iterator[Template]:
    specs = part.at("spec", KUBEFLOW[str(part.at("kind").value)])
    for role in specs.mapping(what="a mapping from roles to their pods"):
        own = specs.at(role)
        yield from _template(own.at("template"), f"{name}-{role.lower()}", count_of(own.at("replicas")))


def _ray(part: Part, name: str) -> Iterator[Template]:
    spec = part.at("spec", *RAY[str(part.at("kind").value)])
    yield from _template(spec.at("headGroupSpec", "template"), f"{name}-head", 1)
    for group in spec.at("workerGroupSpecs").items("a list of worker groups"):
        least = count_of(group.at("minReplicas"), 0)
        most = (
            count_of(group.at("maxReplicas"), MOST_REPLICAS)
            if _small(group.at("maxReplicas"))
            else MOST_REPLICAS
        )
        count = (
            0
            if group.at("suspend").value is True
            else min(most, max(least, count_of(group.at("replicas"), 0)))
        )
        called = group.at("groupName").value
        count *= count_of(group.at("numOfHosts"))
        yield from _template(group.at("template"), f"{name}-{called or 'worker'}", count)
    if part.at("kind").value == "RayJob":
        yield from _template(part.at("spec", "submitterPodTemplate"), f"{name}-submitter", 1)


def _small(part: Part) -> bool:
    """Not the largest number there is, which stands for no bound."""
    return not isinstance(part.value, int) or part.value <= MOST_REPLICAS


def _job_set(part: Part, name: str) -> Iterator[Template]:
    for jobs in part.at("spec", "replicatedJobs").items("a list of jobs"):
        inner = jobs.at("template", "spec")
        count = count_of(jobs.at("replicas")) * jobs_of(inner)
        yield from _template(inner.at("template"), f"{name}-{jobs.at('name').value or 'job'}", count)


def _leader_workers(part: Part, name: str) -> Iterator[Template]:
    groups = count_of(part.at("spec", "replicas"))
    template = part.at("spec", "leaderWorkerTemplate")
    size = count_of(template.at("size"))
    worker, leader = template.at("workerTemplate"), template.at("leaderTemplate")
    yield from _template(leader if leader.value is not None else worker, f"{name}-leader", groups)
    if size > 1:
        yield from _template(worker, f"{name}-worker", groups * (size - 1))


def _volcano(part: Part, name: str) -> Iterator[Template]:
    for number, task in enumerate(part.at("spec", "tasks").items("a list of tasks")):
        called = task.at("name").value or f"task{number}"
        yield from _template(task.at("template"), f"{name}-{called}", count_of(task.at("replicas")))


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
        yield Template(spec, f"{name}-{component}", count_of(own.at("minReplicas")))


def pod_fields(component: Mapping[str, object]) -> dict[str, object]:
    """The fields of a KServe component that belong to a pod spec; all of them of any other spec."""
    return {key: item for key, item in component.items() if key not in COMPONENT_FIELDS | SERVERS}


def _runtime(part: Part, name: str) -> Iterator[Template]:
    yield from runtime_pods(part, name, count_of(part.at("spec", "mlPolicy", "numNodes")), None)


def runtime_pods(part: Part, name: str, nodes: int, resources: Part | None) -> Iterator[Template]:
    """The pods of a training runtime; ``resources``: what a TrainJob asks for on each node."""
    for jobs in part.at("spec", "template", "spec", "replicatedJobs").items("a list of jobs"):
        job = jobs.at("template")
        inner = job.at("spec")
        trains = job.at("metadata", "labels", STEP_LABEL).value == TRAINER
        count = count_of(jobs.at("replicas")) * (nodes if trains else jobs_of(inner))
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


def _workflow(part: Part, name: str) -> Iterator[Template]:
    """Every template of an Argo Workflow that runs containers is a pod."""
    spec = part.at("spec", "workflowSpec") if part.at("kind").value == "CronWorkflow" else part.at("spec")
    for number, own in enumerate(spec.at("templates").items("a list of templates")):
        value = own.mapping(what="a template")
        program = own.at("container") if value.get("container") is not None else own.at("script")
        main = [{"name": "main", **program.mapping(what="a container")}] if program.value is not None else []
        several = own.at("containerSet", "containers").items("a list of containers")
        if not main and not several:
            continue
        main += [dict(one.mapping(what="a container")) for one in several]
        main += [
            dict(one.mapping(what="a container")) for one in own.at("sidecars").items("a list of containers")
        ]
        pod = {key: item for key, item in value.items() if key in SPEC_FIELDS}
        if value.get("initContainers") is not None:
            inits = own.at("initContainers").items("a list of containers")
            pod["initContainers"] = [_plain(one.value) for one in inits]
        pod["containers"] = list(map(_plain, main))
        called = f"{name}-{value.get('name') or number}"
        yield Template(Part(own.document, own.steps, pod), called, metadata=own.at("metadata"), written=False)


def _plain(container: object) -> object:
    """A container of a Workflow without the fields that its controller reads."""
    if not isinstance(container, Mapping):
        return container
    return {key: item for key, item in container.items() if key not in STEP_FIELDS}


def _knative(part: Part, name: str) -> Iterator[Template]:
    """Containers of Knative need no name."""
    owner = part if part.at("kind").value == "Revision" else part.at("spec", "template")
    spec = owner.at("spec")
    containers = spec.at("containers").items("a list of containers")
    if not containers:
        return
    named = []
    for number, one in enumerate(containers):
        value = one.mapping(what="a container")
        called = USER_CONTAINER if len(containers) == 1 else f"{USER_CONTAINER}-{number}"
        named.append(value if value.get("name") else {"name": called, **value})
    pod = {key: item for key, item in spec.mapping().items() if key in SPEC_FIELDS} | {"containers": named}
    least = owner.at("metadata", "annotations", SCALE).value
    count = whole_number(least) if isinstance(least, str) and least.isdecimal() else 1
    metadata = owner.at("metadata")
    yield Template(
        Part(spec.document, spec.steps, pod), name, min(max(count, 1), MOST_REPLICAS), metadata=metadata
    )


READERS: Mapping[str, Callable[[Part, str], Iterator[Template]]] = {
    **dict.fromkeys(KUBEFLOW, _kubeflow),
    **dict.fromkeys(RAY, _ray),
    **dict.fromkeys(RUNTIMES, _runtime),
    "Job": _volcano,
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_workers,
    "Rollout": _rollout,
    "InferenceService": _kserve,
    **dict.fromkeys(WORKFLOWS, _workflow),
}
"""Kinds of other groups; a Job of another group than Kubernetes' own is Volcano's."""
KNATIVE = ("Service", "Configuration", "Revision")


def reader_of(kind: str, group: str) -> Callable[[Part, str], Iterator[Template]] | None:
    """Who reads a kind; None: nobody knows it."""
    if kind in KNATIVE:
        return _knative if group == "serving.knative.dev" else None
    return READERS.get(kind)


def only_known(spec: Part) -> Part:
    """A pod spec without the fields that pods do not have, its own and those of its containers."""
    value = {key: item for key, item in spec.mapping().items() if key in SPEC_FIELDS}
    for key in ("initContainers", "containers"):
        listed = value.get(key)
        if isinstance(listed, list):
            value[key] = [
                {name: item for name, item in one.items() if name in CONTAINER_FIELDS}
                if isinstance(one, Mapping)
                else one
                for one in listed
            ]
    return Part(spec.document, spec.steps, value)

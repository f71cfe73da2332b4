"""Pods that will be aligned, out of amounts or of manifests; each proved on a simulated node.

Rules kept here:

1. A manifest keeps all that does not stand in the way; objects that make no pods pass unchanged.
2. Memory is tried as it was limited; where that does not stay together and the request does, the request is
   taken.
3. Without a machine nothing is proved, and without a configuration, named or shown by a NodeResourceTopology,
   the one that ``plan kubelet`` writes is used.
4. What ``kubectl describe pod`` prints is a pod as well, without node, owner and status; a remark says that
   it is not all of the pod.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from numawise.apps.plan.kubelet import plan_kubelet
from numawise.apps.plan.manifest import (
    SERVICES,
    PodAmounts,
    PodTemplate,
    Share,
    claims,
    copied,
    fixed,
    pod_templates,
)
from numawise.apps.plan.proof import ProofStage, prove, share_of
from numawise.codec.document import Document
from numawise.codec.infile import read_raw
from numawise.codec.job_systems import pod_fields
from numawise.codec.pod import pod_in
from numawise.codec.workload import is_printed, objects_in, pod_documents, pods_of_all
from numawise.errors import InputError
from numawise.inputs.pods import PODLESS_ADVICE, manifests
from numawise.inputs.spec import NodeInput
from numawise.machine.hardware import GPU_RESOURCE, GPU_RESOURCES, NVIDIA
from numawise.machine.model import Machine
from numawise.quantity import parse_size
from numawise.results.plan import (
    INFERENCE,
    TRAINING,
    Manifest,
    ManifestChange,
    PlanGoal,
    PlannedPod,
    PodPlan,
    Proof,
)
from numawise.rules.versions import Version, shown
from numawise.values import dataclass, replace

IN_PART = (
    "kubectl describe prints only part of a pod, without security contexts and affinities among others: take "
    "over the amounts into its own manifest."
)
BROKEN = (TypeError, AttributeError, KeyError, ValueError)


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod out of nothing but flags."""

    name: str
    image: str
    goal: str
    amounts: PodAmounts
    command: tuple[str, ...] = ()
    namespace: str = ""
    replicas: int = 1


def stage_for(
    machine: Machine,
    version: Version,
    config: Mapping[str, object] | None,
    goal: str,
    texts: Mapping[str, str],
) -> ProofStage:
    """The node to try pods on (rule 3)."""
    if config is None:
        plan = plan_kubelet(machine, PlanGoal(goal, version))
        node = f"the node as plan kubelet --goal {goal} has it ({shown(version)})"
        return ProofStage(machine, plan.config, version, texts, node)
    return ProofStage(machine, config, version, texts, f"the node ({shown(version)})")


def new_manifest(new: NewPod, resource: str) -> Manifest:
    """The object that the flags describe; amounts are filled in later."""
    container: Manifest = {"name": "main", "image": new.image}
    if new.command:
        container["command"] = list(new.command)
    if new.amounts.port is not None:
        container["ports"] = [{"containerPort": new.amounts.port}]
    container["resources"] = {}
    if new.amounts.gpus:
        container["resources"] = {side: {resource: new.amounts.gpus} for side in ("requests", "limits")}
    labels = {"app": new.name}
    metadata: Manifest = {"name": new.name, **({"namespace": new.namespace} if new.namespace else {})}
    if new.goal != INFERENCE:
        spec = {"restartPolicy": "Never", "containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": new.replicas,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": {"containers": [container]}},
        },
    }


def plan_pods(
    values: Sequence[tuple[object, str]],
    amounts: PodAmounts,
    stage: ProofStage | None,
    goal: str | None = None,
) -> PodPlan:
    """Make the pods of all documents ready; ``values``: each with the file it is from."""
    share = share_of(stage) if stage is not None else Share()
    documents: list[Manifest] = []
    planned: list[PlannedPod] = []
    check_objects([Document(value, file) for value, file in values])
    for value, file in values:
        assert isinstance(value, dict)
        document = copied(value)
        documents.append(document)
        for found in pod_templates(document, file):
            planned.append(_planned(found, amounts, share, stage, goal, file))
    if not planned:
        file = values[0][1] if values else ""
        raise InputError("has no pods", file=file, advice="give a Pod, Deployment, StatefulSet, Job or List")
    return PodPlan(tuple(documents), tuple(planned))


def check_objects(documents: Sequence[Document]) -> None:
    """Refuse what the API server would refuse, in its words, and objects without pods."""
    objects = [one for document in documents for one in objects_in(document.root)]
    pods_of_all(objects)


def _planned(
    found: PodTemplate,
    amounts: PodAmounts,
    share: Share,
    stage: ProofStage | None,
    goal: str | None,
    file: str,
) -> PlannedPod:
    amounts = replace(amounts, service=goal == INFERENCE if goal else found.kind in SERVICES)
    before = copied(found.spec)
    changes = _fixed(found.spec, amounts, share, file)
    proof = _proved(found.spec, found.name, stage, file)
    if proof is not None and not (proof.admitted and proof.aligned) and amounts.memory is None:
        other = copied(before)
        others = _fixed(other, replace(amounts, by_request=True), share, file)
        if other != found.spec:
            second = _proved(other, found.name, stage, file)
            if second is not None and second.admitted and second.aligned:
                found.spec.clear()
                found.spec.update(other)
                changes, proof = others, second
    return PlannedPod(found.name, found.kind, changes, proof, tuple(_remarks(found.spec, stage)))


def _fixed(spec: Manifest, amounts: PodAmounts, share: Share, file: str) -> tuple[ManifestChange, ...]:
    try:
        return fixed(spec, amounts, share)
    except BROKEN as problem:
        message = f"is not a manifest that can be changed: {type(problem).__name__}: {problem}"
        raise InputError(message, file=file) from None


def _proved(spec: Manifest, name: str, stage: ProofStage | None, file: str) -> Proof | None:
    return prove(pod_in(Document(pod_fields(spec), file).root, name), stage) if stage is not None else None


def _remarks(spec: Manifest, stage: ProofStage | None) -> list[str]:
    remarks = []
    names = list(claims(spec))
    if names:
        remarks.append(f"Devices of resource claims ({', '.join(names)}) take no part in the alignment.")
    if stage is None:
        remarks.append("Not tried: give --machine, and --kubelet-config if the node has one.")
    return remarks


def goal_of(goal: str | None, kind: str) -> str:
    """What a pod is for, where it is not given."""
    return goal or (INFERENCE if kind in SERVICES else TRAINING)


# --------------------------------------------------------------------------------------------------
# Planned pods out of flags and files.


@dataclass(frozen=True, slots=True)
class PodFlags:
    """The flags of a pod, as given."""

    name: str | None = None
    image: str | None = None
    command: str | None = None
    namespace: str = ""
    replicas: int = 1
    cpus: int | None = None
    memory: str | None = None
    gpus: int | None = None
    resource: str | None = None
    shm: str | None = None
    port: int | None = None
    health: str = ""
    goal: str | None = None

    @property
    def of_new_pod(self) -> dict[str, object]:
        """Flags that only a new pod has."""
        given = {"--name": self.name, "--image": self.image, "--command": self.command}
        return {name: value for name, value in given.items() if value is not None}


def load_pod_plan(flags: PodFlags, files: Sequence[str], node: NodeInput) -> PodPlan:
    """Read all there is, and make the pods ready."""
    printed: list[str] = []
    documents = [document for path in manifests(files) for document in _documents(path, printed)]
    check_objects(documents)  # these know their lines
    values = [(document.value, document.file) for document in documents]
    kind = next((str(value.get("kind")) for value, _ in values if isinstance(value, dict)), "")
    goal = goal_of(flags.goal, kind)
    stage = _stage(node, goal)
    amounts = _amounts(flags, stage)
    if not values:
        values = [(new_manifest(_new(flags, amounts, goal), amounts.resource), "")]
    elif flags.of_new_pod:
        flag = next(iter(flags.of_new_pod))
        raise InputError(
            f"{flag} is for a new pod, and {files[0]} is an existing one", advice="leave out one of them"
        )
    plan = plan_pods(values, amounts, stage, goal if not files else flags.goal)
    if not printed:
        return plan
    remark = f"{', '.join(printed)}: {IN_PART}"
    return replace(plan, pods=tuple(replace(one, remarks=(*one.remarks, remark)) for one in plan.pods))


def _documents(path: str, printed: list[str]) -> tuple[Document, ...]:
    """The objects of a file; of what was printed for people the pods alone, as manifests (rule 4)."""
    raw, name = read_raw(path)
    documents = pod_documents(raw, name)
    if not is_printed(raw):
        return documents
    pods = []
    for document in documents:
        value: Any = document.value
        if value["kind"] == "Pod":
            spec = {key: part for key, part in value["spec"].items() if key != "nodeName"}
            metadata = {key: part for key, part in value["metadata"].items() if key != "ownerReferences"}
            head = {"apiVersion": value["apiVersion"], "kind": value["kind"]}
            pods.append(Document({**head, "metadata": metadata, "spec": spec}, name))
    if not pods:
        raise InputError("has no pods", file=name, advice=PODLESS_ADVICE["Event"])
    printed.append(name)
    return tuple(pods)


def _stage(node: NodeInput, goal: str) -> ProofStage | None:
    if node.machine_input is None:
        if node.config_input is not None or node.state is not None:
            given = "--kubelet-config" if node.config_input is not None else "--state"
            raise InputError("needs --machine", field=given, advice="give the machine, too")
        return None
    raw = None
    if node.has_config:
        _ = node.config  # what the kubelet would refuse is refused here
        raw = node.configuration.raw(node.version)
    return stage_for(node.machine, node.version, raw, goal, node.texts)


def _amounts(flags: PodFlags, stage: ProofStage | None) -> PodAmounts:
    resource = flags.resource
    if resource is None and stage is not None:
        offered = [plugin.resource for plugin in stage.machine.plugins]
        resource = next((name for name in offered if GPU_RESOURCE.search(name)), None)
    shm = None
    if flags.shm is not None:
        shm = 0 if flags.shm.strip() == "0" else parse_size(flags.shm, "--shm")
    return PodAmounts(
        cpus=flags.cpus,
        memory=None if flags.memory is None else parse_size(flags.memory, "--memory"),
        gpus=flags.gpus,
        resource=resource or GPU_RESOURCES[NVIDIA],
        shm=shm,
        port=flags.port,
        health=flags.health,
    )


def _new(flags: PodFlags, amounts: PodAmounts, goal: str) -> NewPod:
    if flags.image is None:
        raise InputError(
            "is missing", field="--image", advice="name the image, or give a manifest to start from"
        )
    try:
        command = tuple(shlex.split(flags.command or ""))
    except ValueError as problem:
        raise InputError(f"cannot be read: {problem}", field="--command", advice="check its quotes") from None
    name = flags.name or goal
    return NewPod(name, flags.image, goal or TRAINING, amounts, command, flags.namespace, flags.replicas)

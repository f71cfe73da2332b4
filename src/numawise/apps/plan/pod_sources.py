"""Planned pods out of flags and files."""

import shlex
from collections.abc import Sequence

from numawise.apps.plan.manifest import PodAmounts
from numawise.apps.plan.pod import NewPod, check_objects, goal_of, new_manifest, plan_pods, stage_for
from numawise.apps.plan.proof import Stage
from numawise.codec.document import read_file
from numawise.errors import InputError
from numawise.inputs.pods import manifests
from numawise.inputs.spec import NodeInput
from numawise.machine.hardware import GPU_RESOURCE, GPU_RESOURCES, NVIDIA
from numawise.quantity import parse_size
from numawise.results.plan import TRAINING, PodPlan
from numawise.values import dataclass


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
    documents = [document for path in manifests(files) for document in read_file(path)]
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
        raise InputError(f"{flag} is for a new pod, and {files[0]} is one", advice="leave out one of them")
    return plan_pods(values, amounts, stage, goal if not files else flags.goal)


def _stage(node: NodeInput, goal: str) -> Stage | None:
    if node.machine_input is None:
        if node.config_input is not None or node.state is not None:
            given = "--kubelet-config" if node.config_input is not None else "--state"
            raise InputError("needs --machine", field=given, advice="give the machine, too")
        return None
    raw = None
    if node.config_input is not None:
        _ = node.config  # what the kubelet would refuse is refused here
        raw = node.configuration.raw(node.version)
    return stage_for(node.machine, node.version, raw, goal, node.texts)


def _amounts(flags: PodFlags, stage: Stage | None) -> PodAmounts:
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

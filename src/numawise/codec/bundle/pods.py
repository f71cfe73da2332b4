"""Pods without what is nobody's business: resources, roles and class stay, names are replaced, the rest goes.

Rules kept here:

1. What is kept is listed; whatever else a pod may hold, now or in later releases, is left out: labels,
   annotations, commands, probes, volumes, environment, service accounts, node selectors.
2. Of the environment those variables stay that choose GPUs, CPUs or numbers of threads, when their value has
   nothing but numbers, device ids and the words that such variables take.
3. A static pod goes by the uid that its kubelet knows it by, not by that of its mirror at the API server.
4. What the kubelet said when it refused a pod stays, to the letter except for names.
5. Workloads keep what makes pods: their number and the template.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numawise.codec.bundle.manifest import UUID, Names
from numawise.codec.document import Document, Part
from numawise.codec.workload import NATIVE
from numawise.errors import InputError

Data = dict[str, Any]

MIRROR, HASH, SOURCE = (f"kubernetes.io/config.{word}" for word in ("mirror", "hash", "source"))
COUNTS = ("replicas", "parallelism", "completions")
RESOURCES = ("requests", "limits")
VARIABLES = re.compile(
    r"[A-Z_]*VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK|[A-Z_]*_NUM_THREADS|VECLIB_MAXIMUM_THREADS"
    r"|GOMAXPROCS|[A-Z]+_CPU_AFFINITY|KMP_AFFINITY|OMP_[A-Z_]+|I_MPI_PIN[A-Z_]*|MV2_CPU_MAPPING|SLURM_CPU_BIND"
    r"|VLLM_CPU_OMP_THREADS_BIND|CUDA_DEVICE_ORDER",
    re.ASCII,
)
MEANT = frozenset(
    re.findall(
        r"\S+",
        """
        GPU MIG all none void nobind auto true false close spread master primary cores threads sockets
        numa_domains ll_caches granularity fine core thread compact scatter balanced explicit proclist verbose
        noverbose map_cpu mask_cpu PCI_BUS_ID FASTEST_FIRST NoDevFiles
        """,
    )
)
"""Words that the values of these variables are made of."""
WORD, SIGNS = re.compile(r"[A-Za-z_][A-Za-z_0-9]*"), re.compile(r"[\w\s,:;{}()\[\]=+*./-]*", re.ASCII)
NVIDIA_RUNTIME = re.compile(r"nvidia(-[a-z]+)*")
LONGEST_VALUE = 400
REFUSALS = frozenset({
    "TopologyAffinityError", "UnexpectedAdmissionError", "SMTAlignmentError", "InvalidNodeInfo", "Admission",
    "NodeAffinity", "NodeName", "NodePorts", "TaintToleration", "PodFeatureUnsupported", "AppArmor",
    "SysctlForbidden", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch",
})  # fmt: skip
"""Reasons that the kubelet gives for a refusal; ``OutOf…`` of other resources count as well."""
DEVICES = re.compile(r"/dev(/[a-zA-Z0-9_/-]*)?", re.ASCII)
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a place in a container
OUT_OF = "OutOf"


def pods_of(documents: Iterable[Document]) -> Iterator[Part]:
    """The pods and workloads in documents, lists taken apart; objects without pods are passed over."""
    waiting = [document.root for document in documents]
    while waiting:
        part = waiting.pop(0)
        if not isinstance(part.value, Mapping):
            continue
        kind = part.value.get("kind")
        items = part.at("items")
        if isinstance(items.value, list) and (kind is None or str(kind).endswith("List")):
            inner = str(kind or "")[: -len("List")]
            waiting[:0] = [_with_kind(one, inner) for one in items.items()]
        elif kind in ("Pod", *NATIVE) or (kind is None and part.at("spec", "containers").value is not None):
            yield part


def _with_kind(part: Part, kind: str) -> Part:
    """A member of a list, which need not repeat what it is."""
    if kind and isinstance(part.value, Mapping) and "kind" not in part.value:
        return Part(part.document, part.steps, {"kind": kind, **part.value})
    return part


def reduced(part: Part, names: Names) -> Data:
    """A pod or a workload with what is kept of it; raise ``InputError`` where it is none."""
    value = part.value
    assert isinstance(value, Mapping)
    kind = str(value.get("kind") or "Pod")
    try:
        return _pod(value, names) if kind == "Pod" else _workload(kind, value, names)
    except (TypeError, AttributeError, KeyError, ValueError) as problem:
        raise InputError(
            f"is not a {kind}: {problem}", file=part.document.file, line=part.document.line(part.steps)
        ) from None


def kubelet_uid(pod: Mapping[str, Any]) -> str:
    """The uid by which the kubelet knows a pod (rule 3)."""
    metadata = pod.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    return str(annotations.get(MIRROR) or metadata.get("uid") or "")


def is_refusal(reason: str) -> bool:
    """Whether the kubelet gives this reason when it does not let a pod in."""
    return reason in REFUSALS or reason.startswith(OUT_OF)


def _pod(value: Mapping[str, Any], names: Names) -> Data:
    found: Data = {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(value, names)}
    found["spec"] = _spec(value.get("spec") or {}, names)
    if status := _status(value.get("status") or {}, names):
        found["status"] = status
    return found


def _workload(kind: str, value: Mapping[str, Any], names: Names) -> Data:
    steps, _ = NATIVE[kind]
    found: Data = {"apiVersion": value.get("apiVersion", "apps/v1"), "kind": kind}
    found["metadata"] = _metadata(value, names)
    inner: Mapping[str, Any] = value
    below = found
    for step in steps:
        inner = inner.get(step) or {}
        below[step] = {}
        below = below[step]
    for count in COUNTS:
        if isinstance(inner.get(count), int):
            below[count] = inner[count]
    if isinstance(inner.get("ordinals"), Mapping):
        below["ordinals"] = {"start": int(inner["ordinals"].get("start", 0))}
    below["template"] = {"spec": _spec((inner.get("template") or {}).get("spec") or {}, names)}
    return found


def _metadata(value: Mapping[str, Any], names: Names) -> Data:
    metadata = value.get("metadata") or {}
    found: Data = {}
    if metadata.get("name"):
        found["name"] = names.name("pod", str(metadata["name"]))
    elif metadata.get("generateName"):
        found["generateName"] = names.name("pod", str(metadata["generateName"])) + "-"
    if metadata.get("namespace"):
        found["namespace"] = names.name("namespace", str(metadata["namespace"]))
    if uid := kubelet_uid(value):
        found["uid"] = names.uid(uid)
    for field in ("creationTimestamp", "deletionTimestamp"):
        if _is_time(metadata.get(field)):
            found[field] = metadata[field]
    annotations = metadata.get("annotations") or {}
    if annotations.get(HASH):
        found["annotations"] = {HASH: names.uid(str(annotations[HASH]))}
    owners = [one for one in metadata.get("ownerReferences") or () if isinstance(one, Mapping)]
    if owners:
        found["ownerReferences"] = [
            {"kind": _word(one.get("kind")), "name": names.name("owner", str(one.get("name", "")))}
            for one in owners
        ]
    return found


def _spec(spec: Mapping[str, Any], names: Names) -> Data:
    found: Data = {}
    for group in ("initContainers", "containers"):
        if spec.get(group):
            found[group] = [_container(one, names) for one in spec[group]]
    if isinstance(spec.get("resources"), Mapping):
        found["resources"] = _resources(spec["resources"], names)
    if isinstance(spec.get("overhead"), Mapping):
        found["overhead"] = dict(spec["overhead"])
    if spec.get("nodeName"):
        found["nodeName"] = names.name("node", str(spec["nodeName"]))
    for field in ("hostPID", "hostNetwork"):
        if spec.get(field) is True:
            found[field] = True
    if spec.get("restartPolicy") in ("Always", "Never", "OnFailure"):
        found["restartPolicy"] = spec["restartPolicy"]
    if NVIDIA_RUNTIME.fullmatch(str(spec.get("runtimeClassName") or "")):
        found["runtimeClassName"] = spec["runtimeClassName"]
    if isinstance(spec.get("priority"), int):
        found["priority"] = spec["priority"]
    if spec.get("resourceClaims"):
        found["resourceClaims"] = [
            {"name": names.name("claim", str(one["name"]))} for one in spec["resourceClaims"]
        ]
    if volumes := [volume for one in spec.get("volumes") or () if (volume := _volume(one, names))]:
        found["volumes"] = volumes
    return found


def _container(container: Mapping[str, Any], names: Names) -> Data:
    found: Data = {"name": names.name("container", str(container["name"]))}
    if container.get("image"):
        found["image"] = names.name("image", str(container["image"]))
    if isinstance(container.get("resources"), Mapping):
        found["resources"] = _resources(container["resources"], names)
    if container.get("restartPolicy") == "Always":
        found["restartPolicy"] = "Always"
    security = container.get("securityContext")
    if isinstance(security, Mapping) and security.get("privileged") is True:
        found["securityContext"] = {"privileged": True}
    if environment := [one for each in container.get("env") or () if (one := _variable(each, names))]:
        found["env"] = environment
    mounts = [
        {"name": names.name("volume", str(one.get("name", ""))), "mountPath": SHARED_MEMORY}
        for one in container.get("volumeMounts") or ()
        if one.get("mountPath") == SHARED_MEMORY
    ]
    if mounts:
        found["volumeMounts"] = mounts
    return found


def _resources(resources: Mapping[str, Any], names: Names) -> Data:
    found: Data = {}
    for side in RESOURCES:
        if resources.get(side):
            found[side] = {str(name): amount for name, amount in resources[side].items()}
    if resources.get("claims"):
        found["claims"] = [{"name": names.name("claim", str(one["name"]))} for one in resources["claims"]]
    return found


def _variable(variable: Mapping[str, Any], names: Names) -> Data | None:
    """A variable that affects placement (rule 2); None for any other."""
    name, value = variable.get("name"), variable.get("value", "")
    if not isinstance(name, str) or not VARIABLES.fullmatch(name) or "valueFrom" in variable:
        return None
    if not isinstance(value, str) or len(value) > LONGEST_VALUE or not SIGNS.fullmatch(value):
        return None
    if not MEANT.issuperset(WORD.findall(UUID.sub("", value))):
        return None
    return {"name": name, "value": names.device(value)}


def _volume(volume: Mapping[str, Any], names: Names) -> Data | None:
    """Memory shared between processes, and device files of the host; None for any other volume."""
    name = names.name("volume", str(volume.get("name", "")))
    empty, host = volume.get("emptyDir"), volume.get("hostPath")
    if isinstance(empty, Mapping) and empty.get("medium") == "Memory":
        kept = {field: empty[field] for field in ("medium", "sizeLimit") if field in empty}
        return {"name": name, "emptyDir": kept}
    if isinstance(host, Mapping) and DEVICES.fullmatch(str(host.get("path", ""))):
        return {"name": name, "hostPath": {"path": host["path"]}}
    return None


def _status(status: Mapping[str, Any], names: Names) -> Data:
    found: Data = {}
    for field in ("phase", "qosClass"):
        if isinstance(status.get(field), str):
            found[field] = _word(status[field])
    if _is_time(status.get("startTime")):
        found["startTime"] = status["startTime"]
    reason = str(status.get("reason") or "")
    if reason:
        found["reason"] = _word(reason)
    if is_refusal(reason) and status.get("message"):
        found["message"] = names.cleaned(str(status["message"]))
    return found


def _word(value: object) -> str:
    """A word of Kubernetes itself; anything else is left out."""
    text = str(value or "")
    return text if re.fullmatch(r"[A-Za-z][A-Za-z0-9./-]{0,80}", text, re.ASCII) else ""


def _is_time(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9T:.+Z-]{5,40}", value, re.ASCII) is not None

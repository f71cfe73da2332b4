"""Pods without what is nobody's business: resources, roles and class stay, names are replaced, the rest goes.

Rules kept here:

1. What is kept is listed; whatever else a pod may hold, now or in later releases, is left out: labels,
   annotations, commands, probes, volumes, environment, service accounts, node selectors.
2. What is kept is checked as well: an amount is an amount, a time a time, a word one that is listed.  A pod
   with another amount is left out as a whole, because without it another pod would remain.
3. Of the environment those variables stay that choose GPUs, CPUs or numbers of threads, when their value has
   nothing but numbers, device ids and the words that such variables take.
4. A static pod goes by the uid that its kubelet knows it by, not by that of its mirror at the API server.
5. What the kubelet said when it refused a pod stays when it is one of its own sentences; else it goes.
6. Workloads keep what makes pods: their number and the template.
7. Of the containers' status stays what is allocated, where the spec asks for something else, and whether they
   run, where the pod has ended or is deleted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numawise.codec.allocated import RESIZE_PENDING, sizes_differ
from numawise.codec.bundle.allowed import (
    is_amount,
    is_device_file,
    is_resource,
    is_time,
    is_value,
    kubelet_sentence,
    words,
)
from numawise.codec.bundle.manifest import UUID, Names
from numawise.codec.document import Document, Part, mapping
from numawise.codec.kubeletlog.hints import OUT_OF
from numawise.codec.objects import ENDED, kubelet_uid
from numawise.codec.pod_phase import CONTAINER_STATUSES, is_refusal
from numawise.codec.workload import NATIVE
from numawise.errors import InputError
from numawise.request.model import CPU, MEMORY

Data = dict[str, Any]

HASH, SOURCE = (f"kubernetes.io/config.{word}" for word in ("hash", "source"))
COUNTS = ("replicas", "parallelism", "completions")
RESOURCES = ("requests", "limits")
DEVICES = re.compile(r"/dev(/[^/]+)*/?")
GROUPS = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1", "PodTemplate": "v1"}
"""Versions of the API; of any other workload ``apps/v1``."""
PHASES, CLASSES = (
    ("Pending", "Running", "Succeeded", "Failed", "Unknown"),
    ("Guaranteed", "Burstable", "BestEffort"),
)
STATES, WAITS = ("running", "waiting", "terminated"), ("Deferred", "Infeasible")
RESTARTS = ("Always", "Never", "OnFailure")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a place in a container


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
    except _NotAPod as problem:
        raise InputError(
            f"is not a {kind}: {problem}", file=part.document.file, line=part.document.line(part.steps)
        ) from None


class _NotAPod(Exception):
    """What should be a pod is none; says why, in words of ours."""


def _fields(value: object, name: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise _NotAPod(f"{name} is not a mapping")
    return mapping(value)


def _members(value: object, name: str) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise _NotAPod(f"{name} is not a list of mappings")
    return value


def _pod(value: Mapping[str, Any], names: Names) -> Data:
    spec = _fields(value.get("spec"), "spec")
    found: Data = {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(value, names)}
    found["spec"] = _spec(spec, names)
    given, resources = _fields(value.get("status"), "status"), _asked(found["spec"])
    status = _status(given, resources) | _containers(value, names)
    if backed := _backed(given, resources, names):
        status["extendedResourceClaimStatus"] = backed
    if status:
        found["status"] = status
    return found


def _asked(spec: Data) -> frozenset[str]:
    """The resources that a reduced pod names."""
    owners = (spec, *spec.get("initContainers", ()), *spec.get("containers", ()))
    sides = [one.get("resources", {}).get(side, {}) for one in owners for side in RESOURCES]
    return frozenset(name for side in sides for name in side)


def _workload(kind: str, value: Mapping[str, Any], names: Names) -> Data:
    steps, _ = NATIVE[kind]
    found: Data = {"apiVersion": GROUPS.get(kind, "apps/v1"), "kind": kind}
    found["metadata"] = _metadata(value, names)
    inner: Mapping[str, Any] = value
    below = found
    for step in steps:
        inner = _fields(inner.get(step), step)
        below[step] = {}
        below = below[step]
    for count in COUNTS:
        if isinstance(inner.get(count), int):
            below[count] = inner[count]
    start = mapping(inner.get("ordinals")).get("start", 0)
    if "ordinals" in inner and isinstance(start, int):
        below["ordinals"] = {"start": start}
    template = _fields(inner.get("template"), "template")
    below["template"] = {"spec": _spec(_fields(template.get("spec"), "spec"), names)}
    return found


def _metadata(value: Mapping[str, Any], names: Names) -> Data:
    metadata = _fields(value.get("metadata"), "metadata")
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
        if is_time(metadata.get(field)):
            found[field] = metadata[field]
    annotations = _fields(metadata.get("annotations"), "metadata.annotations")
    if annotations.get(HASH):
        found["annotations"] = {HASH: names.uid(str(annotations[HASH]))}
    owners = _members(metadata.get("ownerReferences"), "metadata.ownerReferences")
    if owners:
        found["ownerReferences"] = [
            {"kind": _listed("owner", one.get("kind")), "name": names.name("owner", str(one.get("name", "")))}
            for one in owners
        ]
    return found


def _spec(spec: Mapping[str, Any], names: Names) -> Data:
    found: Data = {}
    for group in ("initContainers", "containers"):
        if containers := _members(spec.get(group), group):
            found[group] = [_container(one, names) for one in containers]
    if resources := _fields(spec.get("resources"), "resources"):
        found["resources"] = _resources(resources, names)
    if overhead := _amounts(spec.get("overhead"), "overhead"):
        found["overhead"] = overhead
    if spec.get("nodeName"):
        found["nodeName"] = names.name("node", str(spec["nodeName"]))
    for field in ("hostPID", "hostNetwork"):
        if spec.get(field) is True:
            found[field] = True
    if spec.get("restartPolicy") in RESTARTS:
        found["restartPolicy"] = spec["restartPolicy"]
    runtime = str(spec.get("runtimeClassName") or "").split("-")
    if runtime[0] == "nvidia" and words("runtime").issuperset(runtime):
        found["runtimeClassName"] = spec["runtimeClassName"]
    if isinstance(spec.get("priority"), int):
        found["priority"] = spec["priority"]
    if claims := _members(spec.get("resourceClaims"), "resourceClaims"):
        found["resourceClaims"] = [{**_claim(one, names), **_claimed(one, names)} for one in claims]
    volumes = (_volume(one, names) for one in _members(spec.get("volumes"), "volumes"))
    if kept := [volume for volume in volumes if volume]:
        found["volumes"] = kept
    return found


def _container(container: Mapping[str, Any], names: Names) -> Data:
    found: Data = {"name": names.name("container", str(container.get("name") or ""))}
    if container.get("image"):
        found["image"] = names.name("image", str(container["image"]))
    if resources := _fields(container.get("resources"), "resources"):
        found["resources"] = _resources(resources, names)
    if container.get("restartPolicy") == "Always":
        found["restartPolicy"] = "Always"
    if mapping(container.get("securityContext")).get("privileged") is True:
        found["securityContext"] = {"privileged": True}
    variables = (_variable(one, names) for one in _members(container.get("env"), "env"))
    if environment := [variable for variable in variables if variable]:
        found["env"] = environment
    mounts = [
        {"name": names.name("volume", str(one.get("name", ""))), "mountPath": SHARED_MEMORY}
        for one in _members(container.get("volumeMounts"), "volumeMounts")
        if one.get("mountPath") == SHARED_MEMORY
    ]
    if mounts:
        found["volumeMounts"] = mounts
    return found


def _resources(resources: Mapping[str, Any], names: Names) -> Data:
    found: Data = {side: amounts for side in RESOURCES if (amounts := _amounts(resources.get(side), side))}
    if claims := _members(resources.get("claims"), "claims"):
        found["claims"] = [_claim(one, names) for one in claims]
    return found


def _amounts(value: object, name: str) -> Data:
    """Amounts by resource (rule 2)."""
    amounts = _fields(value, name)
    for resource, amount in amounts.items():
        if not is_resource(resource):
            raise _NotAPod(f"{name} has a key that is not the name of a resource")
        if not is_amount(amount):
            raise _NotAPod(f"{name} has a value that is not an amount")
    return dict(amounts)


def _claim(claim: Mapping[str, Any], names: Names) -> Data:
    return {"name": names.name("claim", str(claim.get("name") or ""))}


def _claimed(claim: Mapping[str, Any], names: Names) -> Data:
    """The claim that is meant, or the template that it is made of."""
    source = claim if "source" not in claim else mapping(claim["source"])
    fields = ("resourceClaimName", "resourceClaimTemplateName")
    return {field: names.name("claim", str(source[field])) for field in fields if source.get(field)}


def _backed(status: Mapping[str, Any], resources: frozenset[str], names: Names) -> Data:
    """Which extended resources a claim backs."""
    backing = mapping(status.get("extendedResourceClaimStatus"))
    rows = [
        {
            "containerName": names.name("container", str(one.get("containerName") or "")),
            "resourceName": one["resourceName"],
            "requestName": names.name("claim", str(one.get("requestName") or "")),
        }
        for one in _members(backing.get("requestMappings"), "requestMappings")
        if one.get("resourceName") in resources
    ]
    name = names.name("claim", str(backing.get("resourceClaimName") or ""))
    return {"resourceClaimName": name, "requestMappings": rows} if rows else {}


def _variable(variable: Mapping[str, Any], names: Names) -> Data | None:
    """A variable that affects placement (rule 3); None for any other."""
    name, value = variable.get("name"), variable.get("value", "")
    if not isinstance(name, str) or not isinstance(value, str) or "valueFrom" in variable:
        return None
    if name not in words("variable"):
        return None
    return {"name": name, "value": names.uuids(value)} if is_value(UUID.sub("0", value)) else None


def _volume(volume: Mapping[str, Any], names: Names) -> Data | None:
    """Memory shared between processes, and device files of the host; None for any other volume."""
    name = names.name("volume", str(volume.get("name", "")))
    empty, path = mapping(volume.get("emptyDir")), mapping(volume.get("hostPath")).get("path")
    if empty.get("medium") == "Memory":
        limit = {"sizeLimit": empty["sizeLimit"]} if is_amount(empty.get("sizeLimit")) else {}
        return {"name": name, "emptyDir": {"medium": "Memory", **limit}}
    if isinstance(path, str) and DEVICES.fullmatch(path):
        shown = path if is_device_file(path) else f"/dev/{names.name('device', path.removeprefix('/dev/'))}"
        return {"name": name, "hostPath": {"path": shown}}
    return None


def _status(status: Mapping[str, Any], resources: frozenset[str]) -> Data:
    found: Data = {}
    for field, known in (("phase", PHASES), ("qosClass", CLASSES)):
        if status.get(field) in known:
            found[field] = status[field]
    if is_time(status.get("startTime")):
        found["startTime"] = status["startTime"]
    reason = str(status.get("reason") or "")
    if is_refusal(reason) if not reason.startswith(OUT_OF) else is_resource(reason.removeprefix(OUT_OF)):
        found["reason"] = reason
        if message := kubelet_sentence(str(status.get("message") or ""), resources):
            found["message"] = message
    elif reason := _listed("reason", reason):
        found["reason"] = reason
    return found


def _containers(pod: Mapping[str, Any], names: Names) -> Data:
    """What is allocated, where the spec asks for something else; and what runs, where it decides (rule 7)."""
    status, metadata = mapping(pod.get("status")), mapping(pod.get("metadata"))
    differs = sizes_differ(mapping(pod.get("spec")), status)
    ends = status.get("phase") in ENDED or bool(metadata.get("deletionTimestamp"))
    found = _sizes(status) if differs else {}
    for name in CONTAINER_STATUSES:
        listed = status.get(name)
        rows = []
        for row in map(mapping, listed if isinstance(listed, list) else ()):
            kept = _sizes(row) if differs else {}
            state = next((word for word in STATES if word in mapping(row.get("state"))), "")
            kept |= {"state": {state: {}} if state else {}} if ends else {}
            if kept:
                rows.append({"name": names.name("container", str(row.get("name") or "")), **kept})
        found |= {name: rows} if rows else {}
    if differs:
        conditions = status.get("conditions")
        waits = [
            {"type": RESIZE_PENDING, "status": "True", **({"reason": reason} if reason in WAITS else {})}
            for row in map(mapping, conditions if isinstance(conditions, list) else ())
            if row.get("type") == RESIZE_PENDING and row.get("status") == "True"
            for reason in [row.get("reason")]
        ]
        found |= {"conditions": waits} if waits else {}
    return found


def _sizes(status: Mapping[str, Any]) -> Data:
    """What a status says is allocated and in effect."""
    actual = mapping(status.get("resources"))
    sides = {side: _standard(mapping(actual.get(side))) for side in RESOURCES}
    resources = {side: amounts for side, amounts in sides.items() if amounts}
    sizes = {
        "allocatedResources": _standard(mapping(status.get("allocatedResources"))),
        "resources": resources,
    }
    return {key: amounts for key, amounts in sizes.items() if amounts}


def _standard(amounts: Mapping[str, Any]) -> Data:
    """Amounts of what can be resized."""
    return {name: amounts[name] for name in (CPU, MEMORY) if is_amount(amounts.get(name))}


def _listed(kind: str, value: object) -> str:
    """A word that is listed; '' for any other."""
    return str(value) if isinstance(value, str) and value in words(kind) else ""

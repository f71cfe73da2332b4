"""Structured messages of 1.21 and later: which event each is."""

import json
import re
from collections.abc import Callable, Mapping

from numawise.codec.kubeletlog.fields import UID, Fields, PrintedField, pods_of
from numawise.codec.kubeletlog.framing import Headed
from numawise.codec.kubeletlog.hints import (
    LoggedHints,
    hint_in,
    logged_hints,
    logged_list,
    patched_status,
    reason_in,
    reason_of,
    rejection_in,
)
from numawise.engine.start import CPU_STAGE, CPU_START, MEMORY_STAGE, MEMORY_START
from numawise.request.model import CPU
from numawise.results.log import (
    ADMIT_STARTED,
    AFFINITY,
    ALLOCATING,
    ANY_RELEASE,
    BEST,
    CAME,
    CPUS,
    CPUS_WANTED,
    DENIED,
    DEVICES,
    FAILED,
    HINTS,
    IMPOSSIBLE,
    LAST_WORDS,
    MACHINE,
    MERGED,
    NO_PREFERENCE,
    POLICY,
    PROVIDER_HINTS,
    RECREATED,
    RELEASE,
    RESULT,
    RUNNING,
    SHORT,
    START_FAILED,
    STATUS,
    WANTED,
    Event,
    PodRef,
)
from numawise.results.log import EVENT_REJECTED as REJECTED
from numawise.rules.versions import ENDLESS, Version
from numawise.strconv import whole_number
from numawise.values import replace

Reading = Callable[[Headed, Fields], Event | None]

NUMA_NODE = re.compile(r"NUMANodeID\"?: ?(\d{1,2})(?!\d)")
SCOPES = ("container", "pod", "none")
MANAGERS = {"cpu_manager.go": "cpu", "memory_manager.go": "memory", "manager.go": "device"}


def structured_event(line: Headed) -> Event | None:
    """The event of a structured message; None when it is not about admissions."""
    reading = READINGS.get(line.message)
    if reading is None or line.fields is None:
        return None
    event = reading(line, line.fields)
    if event is None:
        return None
    resize = line.fields.text("operation") == "resize"
    if resize or (line.fields.cut and not event.cut):
        event = replace(event, cut=event.cut or line.fields.cut, resize=resize)
    return event


def _container(fields: Fields) -> str | None:
    return fields.text("containerName") or None


def _between(since: Version, until: Version = ENDLESS) -> tuple[Version, Version]:
    return since, until


def _simple(kind: str, releases: tuple[Version, Version] = ANY_RELEASE) -> Reading:
    def reading(_line: Headed, fields: Fields) -> Event:
        return Event(kind, pod=fields.pod(), container=_container(fields), releases=releases)

    return reading


# --- the Topology Manager -------------------------------------------------------------------


def _handler(_line: Headed, fields: Fields) -> Event:
    named = "podUID" in fields
    releases = _between((1, 25), (1, 30)) if named else _between((1, 21), (1, 24))
    return Event(ADMIT_STARTED, pod=fields.pod(), releases=releases)


def _hints(_line: Headed, fields: Fields) -> Event:
    releases = _between((1, 37)) if "operation" in fields else _form(fields, "hints")
    return _hints_event(HINTS, fields, logged_hints(fields, "hints"), releases)


def _cpu_hints(_line: Headed, fields: Fields) -> Event:
    releases = _between((1, 35)) if "podUID" in fields else _form(fields, "cpuHints")
    logged = logged_list(fields, "cpuHints", CPU)
    return replace(_hints_event(PROVIDER_HINTS, fields, logged, releases), provider=CPU)


def _form(fields: Fields, key: str) -> tuple[Version, Version]:
    """Go's print until 1.27, JSON since; klog's own JSON format says nothing."""
    raw = fields.values.get(key)
    if not isinstance(raw, PrintedField):
        return ANY_RELEASE
    return _between((1, 21), (1, 27)) if raw.text.startswith(("map[", "[{N")) else _between((1, 28))


def _hints_event(kind: str, fields: Fields, logged: LoggedHints, releases: tuple[Version, Version]) -> Event:
    return Event(
        kind,
        pod=fields.pod(),
        container=_container(fields),
        hints=logged.hints,
        unsure=logged.unsure,
        cut=logged.cut,
        releases=releases,
    )


def _no_preference(_line: Headed, fields: Fields) -> Event:
    return Event(NO_PREFERENCE, resource=fields.text("resource", "resourceName"))


def _impossible(_line: Headed, fields: Fields) -> Event:
    return Event(IMPOSSIBLE, resource=fields.text("resource", "resourceName"))


def _short(_line: Headed, fields: Fields) -> Event:
    return Event(
        SHORT,
        pod=fields.pod(),
        container=_container(fields),
        resource=fields.text("resource", "resourceName"),
        asked=fields.number("request"),
        available=fields.number("available"),
    )


def _held(_line: Headed, fields: Fields) -> Event:
    """Something else is held than is asked for, so that there are no hints."""
    return Event(
        SHORT,
        pod=fields.pod(),
        container=_container(fields),
        resource=fields.text("resource", "resourceName") or CPU,
        asked=fields.number("requestedSize", "request", "requestedByContainer"),
        available=fields.number("allocatedSize", "allocated"),
        text="held",
    )


def _merged(line: Headed, fields: Fields) -> Event:
    pod = fields.pod()
    return Event(
        MERGED,
        pod=pod,
        container=_container(fields),
        hint=hint_in(fields, "bestHint"),
        scope="pod" if line.message.startswith("Pod") else "container",
        releases=_between((1, 33)) if pod else _between((1, 21), (1, 32)),
    )


def _best(_line: Headed, fields: Fields) -> Event:
    return Event(BEST, pod=fields.pod(), container=_container(fields), hint=hint_in(fields, "bestHint"))


def _affinity(_line: Headed, fields: Fields) -> Event:
    kind, key = (AFFINITY, "bestHint") if "bestHint" in fields else (ALLOCATING, "affinity")
    return Event(kind, pod=fields.pod(), container=_container(fields), hint=hint_in(fields, key))


def _result(_line: Headed, fields: Fields) -> Event:
    message = fields.text("Message", "message")
    return Event(
        RESULT, pod=fields.pod(), message=message, reason=reason_in(message), releases=_between((1, 33))
    )


# --- the verdict ----------------------------------------------------------------------------


def _denied(_line: Headed, fields: Fields) -> Event:
    return Event(
        DENIED,
        pod=fields.pod(),
        reason=fields.text("reason"),
        message=fields.text("message"),
        releases=_between((1, 36)) if "operation" in fields else _between((1, 31)),
    )


def _occurred(_line: Headed, fields: Fields) -> Event | None:
    reason = reason_of(fields.text("reason"))
    if not reason or fields.text("kind") not in ("", "Pod") or fields.text("type") not in ("", "Warning"):
        return None
    return Event(REJECTED, pod=fields.pod("object"), reason=reason, message=fields.text("message", "note"))


def _status(line: Headed, fields: Fields) -> Event | None:
    if line.message.startswith("Patch"):
        status = patched_status(fields.text("patch", "patchBytes"))
    else:
        status = fields.value("status")
    found = rejection_in(status)
    if found is None:
        return None
    return Event(STATUS, pod=fields.pod(), reason=found[0], message=found[1], text=line.message)


def _predicate(line: Headed, fields: Fields) -> Event:
    message = fields.text("message", "err")
    return Event(STATUS, pod=fields.pod(), reason=reason_in(message), message=message, text=line.message)


# --- allocation -----------------------------------------------------------------------------


def _failed(line: Headed, fields: Fields) -> Event | None:
    error = fields.text("err", "error")
    if not error:
        return None
    provider = MANAGERS.get(line.file, "cpu" if "CPU" in line.message else "")
    return Event(FAILED, pod=fields.pod(), container=_container(fields), provider=provider, message=error)


def _policy_error(line: Headed, fields: Fields) -> Event | None:
    return _failed(line, fields) if line.file == "cpu_manager.go" else None


def _allocate_cpus(_line: Headed, fields: Fields) -> Event | None:
    asked = fields.number("numCPUs")
    if asked is None:
        return None
    return Event(CPUS_WANTED, pod=fields.pod(), container=_container(fields), resource=CPU, asked=asked)


def _cpus(_line: Headed, fields: Fields) -> Event:
    cpus = fields.text("cpuSet", "CPUSet")
    return Event(CPUS, pod=fields.pod(), container=_container(fields), text=cpus)


def _wanted(_line: Headed, fields: Fields) -> Event | None:
    asked = fields.number("needed")
    resource = fields.text("resourceName")
    if asked is None or not resource:
        return None
    return Event(WANTED, pod=fields.pod(), container=_container(fields), resource=resource, asked=asked)


def _devices(_line: Headed, fields: Fields) -> Event:
    value = fields.value("devices")
    names = value if isinstance(value, list) else fields.text("devices").strip("[] ").split()
    return Event(
        DEVICES,
        pod=fields.pod(),
        container=_container(fields),
        resource=fields.text("resourceName"),
        text=",".join(str(name) for name in names),
    )


# --- the kubelet itself ---------------------------------------------------------------------


def _policy(_line: Headed, fields: Fields) -> Event:
    policy = fields.text("topologyPolicyName", "policy")
    scope = fields.text("topologyScopeName", "scope")
    options = fields.value("topologyPolicyOptions")
    text = options.text if isinstance(options, PrintedField) else json.dumps(options or {})
    closest = '"PreferClosestNUMA": true' in text or "PreferClosestNUMA:true" in text
    return Event(
        POLICY, text=policy, scope=scope if scope in SCOPES else "", message="closest" if closest else ""
    )


def _no_policy(_line: Headed, _fields: Fields) -> Event:
    return Event(POLICY, text="none", scope="none", releases=_between((1, 28)))


def _release(_line: Headed, fields: Fields) -> Event | None:
    value = fields.value("kubeletVersion")
    text = str(value.get("gitVersion") or "") if isinstance(value, Mapping) else fields.text("kubeletVersion")
    return Event(RELEASE, text=text) if text else None


def _machine(_line: Headed, fields: Fields) -> Event | None:
    numas = numas_in(fields.text("topology"))
    return Event(MACHINE, numas=numas) if numas else None


def numas_in(text: str) -> int:
    """The NUMA nodes that a print of the CPU topology names, packed."""
    found = 0
    for numa in NUMA_NODE.findall(text):
        found |= 1 << whole_number(numa) if whole_number(numa) < 64 else 0
    return found


def _came(_line: Headed, fields: Fields) -> Event:
    return Event(CAME, pods=(fields.pod(),) if "pod" in fields else pods_of(fields))


def _recreated(_line: Headed, fields: Fields) -> Event:
    pod = fields.pod()
    return Event(RECREATED, pod=pod, pods=(PodRef(pod.name, pod.namespace, fields.text("oldPodUID")),))


def _container_runs(_line: Headed, fields: Fields) -> Event | None:
    """A container of the pod was seen; "No sandbox" is no such sign, as it is said of refused pods, too."""
    event = fields.text("event")
    if "ContainerStarted" not in event:
        return None
    uid = UID.search(event)
    return Event(RUNNING, pod=fields.pod().with_(PodRef(uid=uid[0] if uid else "")))


# --- a kubelet that does not start ----------------------------------------------------------


KUBELETS_OWN = re.compile(r"kubelet|feature gate", re.IGNORECASE)
STARTED = {"cpu_manager.go": CPU_START, "memory_manager.go": MEMORY_START}


def _command_failed(_line: Headed, fields: Fields) -> Event | None:
    """The last line since 1.26; every program of Kubernetes ends with such a line."""
    error = fields.text("err")
    if not KUBELETS_OWN.search(error):
        return None
    return Event(START_FAILED, message=error, text=LAST_WORDS)


def _ended(stage: str = "") -> Reading:
    """The last line before 1.23, or of a kubelet that has come as far as its managers."""

    def reading(_line: Headed, fields: Fields) -> Event:
        return Event(START_FAILED, message=fields.text("err"), provider=stage, text=LAST_WORDS)

    return reading


def _not_built(stage: str) -> Reading:
    def reading(_line: Headed, fields: Fields) -> Event:
        return Event(START_FAILED, message=fields.text("err"), provider=stage)

    return reading


def _not_restored(line: Headed, fields: Fields) -> Event | None:
    """A manager cannot go on from its state file."""
    stage = STARTED.get(line.file)
    return Event(START_FAILED, message=fields.text("err"), provider=stage) if stage else None


READINGS: dict[str, Reading] = {
    "Topology Admit Handler": _handler,
    "Topology manager admission check": _simple(ADMIT_STARTED, ((1, 33), ENDLESS)),
    "TopologyHints": _hints,
    "TopologyHints generated": _cpu_hints,
    "Hint Provider has no preference for NUMA affinity with any resource": _no_preference,
    "Hint Provider has no preference for NUMA affinity with resource": _no_preference,
    "Hint Provider has no possible NUMA affinities for resource": _impossible,
    "Unable to generate topology hints: requested number of devices unavailable": _short,
    "CPUs already allocated to container with different number than request": _held,
    "Resource already allocated to pod with different number than request": _held,
    "ContainerTopologyHint": _merged,
    "PodTopologyHint": _merged,
    "Best TopologyHint": _best,
    "Topology Affinity": _affinity,
    "Pod Admit Result": _result,
    "Pod admission denied": _denied,
    "Event occurred": _occurred,
    "Patch status for pod": _status,
    "Status for pod updated successfully": _status,
    "Failed to admit pod": _predicate,
    "Predicate failed on Pod": _predicate,
    "Static policy: Allocate": _simple(ALLOCATING),
    "Allocate start": _simple(ALLOCATING),
    "Allocate": _simple(ALLOCATING),
    "AllocatePod called for pod-level managed pod": _simple(ALLOCATING),
    "AllocateCPUs": _allocate_cpus,
    "Unable to allocate CPUs": _failed,
    "Unable to allocate CPUs for pod": _failed,
    "Allocate error": _failed,
    "AllocatePod error": _failed,
    "Pod-level allocation failed": _failed,
    "policy error": _policy_error,
    "Updated desired CPUSet": _cpus,
    "Looking for needed resources": _wanted,
    "Making allocation request for device plugin": _devices,
    "Creating topology manager with policy per scope": _policy,
    "Creating topology manager with none policy": _no_policy,
    "Initializing Topology Manager": _policy,
    "Kubelet version": _release,
    "Detected CPU topology": _machine,
    "Receiving a new pod": _came,
    "SyncLoop ADD": _came,
    "Pod was deleted and then recreated, skipping status update": _recreated,
    "SyncLoop (PLEG): event for pod": _container_runs,
    "Observed pod startup duration": _simple(RUNNING),
    "command failed": _command_failed,
    "Failed to run kubelet": _ended(),
    "Failed to start ContainerManager": _ended(),
    "Failed to initialize internal modules": _ended(),
    "Failed to start cAdvisor": _ended(),
    "Kubelet failed to get node info": _ended(),
    "Failed to parse kubelet flag": _ended(),
    "Failed to validate kubelet flags": _ended(),
    "Failed to construct kubelet dependencies": _ended(),
    "Failed to precedence kubeletConfigFlag": _ended(),
    "Failed to create a new kubelet configuration": _ended(),
    "Failed to load kubelet config file": _ended("decode-config"),
    "Failed to validate kubelet configuration": _ended("validate-config"),
    "Failed to set feature gates from initial flags-based config": _ended("feature-gates"),
    "Failed to initialize cpu manager": _not_built(CPU_STAGE),
    "Failed to initialize memory manager": _not_built(MEMORY_STAGE),
    "Could not initialize checkpoint manager, please drain node and remove policy state file": _not_restored,
    "Policy start error": _not_restored,
}
"""What each message says, by its text."""

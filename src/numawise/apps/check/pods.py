"""Pods for themselves: their class, what they leave out, and what that costs them on a node with managers."""

from collections.abc import Iterator, Mapping, Sequence

from numawise.apps.check.claims import claim_findings
from numawise.apps.check.context import Context
from numawise.apps.check.corrections import field_set, topology_ways
from numawise.apps.check.pod_corrections import amount_set, guaranteed, selected_by_name, shared_memory
from numawise.apps.check.resizing import resize_findings
from numawise.apps.check.returning import returning_findings
from numawise.codec.claims import ClaimObjects
from numawise.codec.document import Part
from numawise.codec.job_systems import KNATIVE, WORKFLOWS
from numawise.explain.guaranteed import ASSUMED, GUARANTEED, SAME, GuaranteedAmount, guaranteed_amounts
from numawise.inputs.pods import PodSource, gpus_of, has_accelerators, has_devices, is_accelerator
from numawise.quantity import Quantity
from numawise.request.defaults import RawContainer, defaulted
from numawise.request.model import CPU, MEMORY, ContainerRequest, PodRequest, Role
from numawise.results.finding import Finding, found
from numawise.rules.versions import DEFAULT, shown

NOTHING = Quantity()
POD_LEVEL_SINCE = (1, 34)
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the path inside a container that is looked for
INJECTED = {
    "sidecar.istio.io/inject": ("true",),
    "linkerd.io/inject": ("enabled", "ingress"),
    "dapr.io/enabled": ("true",),
}
ADDED = {
    **dict.fromkeys(
        WORKFLOWS, ("init and wait", "executor.resources of the workflow controller's ConfigMap")
    ),
    **dict.fromkeys(KNATIVE, ("queue-proxy", "queue-sidecar-cpu-limit and its like in config-deployment")),
}
"""Kind → containers that its controller adds to every pod, and where their amounts are set."""
Row = tuple[RawContainer, ContainerRequest, Part]


def pod_findings(
    source: PodSource, context: Context | None, claims: ClaimObjects | None = None
) -> Iterator[Finding]:
    """What can be said about a pod from its manifest alone, for the kubelet it is meant for.

    ``claims``: the objects of claims that were given beside it.
    """
    yield from _spec(source)
    if source.raw is None:
        return
    pod = requested(source, context)
    raws = [raw for raw, _ in source.parts if raw is not None]
    parts = [part for _, part in source.parts]
    if len(raws) != len(pod.containers):
        return
    rows = list(zip(raws, pod.containers, parts, strict=True))
    if context is None or context.static_cpus or context.static_memory:
        yield from _class(source, context, pod, rows)
        yield from _fractions(source, pod, rows)
        yield from _injected(source, pod, rows)
        yield from _init(source, pod, rows)
    yield from claim_findings(source, pod, context, claims or ClaimObjects())
    yield from _gpus_alone(source, rows)
    yield from _shared_memory(source, rows)
    if context is not None:
        yield from _scope(source, context, pod, rows)
        yield from _policy(source, context, rows)
        yield from returning_findings(source, pod, context)
        yield from resize_findings(source, pod, context)


def requested(source: PodSource, context: Context | None) -> PodRequest:
    """What reaches the kubelet."""
    assert source.raw is not None
    node = context.start.node if context is not None else None
    if node is None:
        return defaulted(source.raw)
    return defaulted(source.raw, pod_level=node.rules.pod_level_resources, sidecars=node.rules.sidecars)


# --- the class ------------------------------------------------------------------------------


def _class(
    source: PodSource, context: Context | None, pod: PodRequest, rows: Sequence[Row]
) -> Iterator[Finding]:
    if pod.pod_level:
        yield from _pod_level(source, context, pod)
        return
    if pod.guaranteed:
        return
    needy = [row for row in rows if has_devices(row[0])]
    loose = [row for row in rows if not row[1].fixed]
    amounts = guaranteed_amounts([raw for raw, _, _ in rows], _threads(context))
    if needy and all(row[1].fixed for row in needy):
        for raw, request, part in loose:
            role = {Role.INIT: "init container", Role.SIDECAR: "sidecar"}.get(raw.role, "container")
            message = f"{role} {raw.name} {_lacking(request)}: the pod is {pod.qos}"
            yield _loose("NW411", source, part, message, raw.name, amounts[raw.name])
        return
    for raw, request, part in needy:
        bare = has_accelerators(raw) and (CPU not in request.requests or MEMORY not in request.requests)
        if not request.fixed and not bare:
            message = f"container {raw.name} {_lacking(request)}: the pod is {pod.qos}"
            yield _loose("NW410", source, part, message, raw.name, amounts[raw.name])
    if not needy:
        for raw, request, part in loose:
            if request.whole_cpus >= 2 and raw.role is Role.APP:
                message = f"container {raw.name} asks for {request.whole_cpus} CPUs, {_lacking(request)}"
                yield _loose("NW415", source, part, message, raw.name, amounts[raw.name])


def _loose(
    code: str,
    source: PodSource,
    part: Part,
    message: str,
    name: str,
    amounts: Mapping[str, GuaranteedAmount | None],
) -> Finding:
    """A container that keeps its pod from being Guaranteed."""
    ways = [guaranteed(part, name, amounts)]
    place = source.place(part, "resources")
    return found(code, place, message, fix=_complete(name, amounts), corrections=ways)


def _threads(context: Context | None) -> int:
    """In which multiples CPUs come."""
    node = context.start.node if context is not None and context.known else None
    return (
        node.machine.layout.threads_per_core if node is not None and node.rules.cpu_options.full_cores else 1
    )


def _lacking(request: ContainerRequest) -> str:
    """What keeps a container from counting as Guaranteed."""
    parts = []
    for name in (CPU, MEMORY):
        wanted, limit = request.requests.get(name), request.limits.get(name)
        if limit is None or not limit.nano:
            parts.append(f"has no {name} limit")
        elif wanted is None or wanted.nano != limit.nano:
            parts.append(f"requests {wanted or 0} {name} and is limited to {limit}")
    return " and ".join(parts) or "is Guaranteed for itself"


def _complete(name: str, amounts: Mapping[str, GuaranteedAmount | None]) -> str:
    """Requests and limits that would make a container Guaranteed, as ``plan pod`` writes them."""
    cpu, memory = amounts[CPU], amounts[MEMORY]
    written = f'cpu: "{cpu.value}"' if cpu is not None else "cpu: <n>"
    written += f", memory: {memory.value if memory is not None else '<m>'}"
    said = {resource: new.why for resource, new in amounts.items() if new is not None and not new.same}
    reasons = [
        f"; {resource}: {why}" for resource, why in said.items() if why not in ("", SAME, GUARANTEED, ASSUMED)
    ]
    if ASSUMED in said.values():
        reasons.append("; what it does not say is assumed")
    return f"requests and limits of {name}: {{{written}}}{''.join(reasons)}"


def _pod_level(source: PodSource, context: Context | None, pod: PodRequest) -> Iterator[Finding]:
    version = context.version if context is not None else DEFAULT
    node = context.start.node if context is not None else None
    managed = node is not None and node.rules.pod_level_managers
    if pod.guaranteed and version >= POD_LEVEL_SINCE and not managed:
        message = f"spec.resources: {shown(version)} gives such a pod no CPUs of its own"
        yield found("NW413", source.place(source.spec, "resources"), message)


def _fractions(source: PodSource, pod: PodRequest, rows: Sequence[Row]) -> Iterator[Finding]:
    """Fractions of a CPU in a Guaranteed pod, where whole ones seem to be meant."""
    if not pod.guaranteed or pod.pod_level:
        return
    for raw, request, part in rows:
        cpu = request.requests.get(CPU, NOTHING)
        meant = has_devices(raw) or (cpu.milli > 1000 and raw.role is Role.APP)
        if cpu.nano and not request.whole_cpus and meant:
            whole = -(-cpu.milli // 1000)
            message = f"container {raw.name} asks for {cpu} CPUs: it shares them with others"
            place = source.place(part, "resources", "limits" if CPU in raw.limits else "requests", CPU)
            ways = [amount_set(part, CPU, str(whole))]
            yield found("NW412", place, message, fix=f'cpu: "{whole}" in {raw.name}', corrections=ways)


def _injected(source: PodSource, pod: PodRequest, rows: Sequence[Row]) -> Iterator[Finding]:
    if (
        source.metadata is None
        or not pod.guaranteed
        or not any(r.whole_cpus or has_devices(w) for w, r, _ in rows)
    ):
        return
    added, settings = ADDED.get(source.kind, ("", ""))
    if added:
        why = "The pod is Guaranteed only when these have requests equal to limits, too."
        message = f"the controller of a {source.kind} adds {added} to the pod"
        yield found("NW414", source.place(source.spec), message, why=why, fix=f"Set {settings}.")
    for where in ("annotations", "labels"):
        for name, values in INJECTED.items():
            part = source.metadata.at(where, name)
            if isinstance(part.value, str) and part.value in values:
                yield found(
                    "NW414", source.place(part), f'{name}: "{part.value}" adds a container to the pod'
                )


def _init(source: PodSource, pod: PodRequest, rows: Sequence[Row]) -> Iterator[Finding]:
    if not pod.guaranteed or pod.pod_level:
        return
    apps = sum(request.whole_cpus for _, request, _ in rows if request.role is not Role.INIT)
    for raw, request, part in rows:
        if request.role is Role.INIT and request.whole_cpus > apps:
            message = f"init container {raw.name} asks for {request.whole_cpus} CPUs, the others for {apps}"
            ways = [amount_set(part, CPU, str(apps), certain=False)] if apps else []
            yield found("NW424", source.place(part, "resources"), message, corrections=ways)


# --- GPUs -----------------------------------------------------------------------------------


def _gpus_alone(source: PodSource, rows: Sequence[Row]) -> Iterator[Finding]:
    for raw, request, part in rows:
        if not has_accelerators(raw) or source.spec.at("resources").value:
            continue
        place = source.place(part, "resources")
        device = next(name for name, amount in raw.limits.items() if amount.nano and is_accelerator(name))
        for resource, code in ((CPU, "NW430"), (MEMORY, "NW431")):
            if resource not in request.requests:
                yield found(code, place, f"container {raw.name} asks for {device} and no {resource}")


def _shared_memory(source: PodSource, rows: Sequence[Row]) -> Iterator[Finding]:
    if source.spec.at("hostIPC").value is True:
        return
    for raw, _, part in rows:
        mounts = part.at("volumeMounts").value
        paths = (
            [one.get("mountPath") for one in mounts if isinstance(one, dict)]
            if isinstance(mounts, list)
            else []
        )
        if gpus_of(raw) > 1 and not any(str(path).rstrip("/") == SHARED_MEMORY for path in paths):
            message = f"container {raw.name} has {gpus_of(raw)} GPUs and nothing mounted at {SHARED_MEMORY}"
            ways = [shared_memory(source.spec, part)]
            yield found("NW435", source.place(part), message, corrections=ways)


# --- with a kubelet in mind -----------------------------------------------------------------


def _scope(source: PodSource, context: Context, pod: PodRequest, rows: Sequence[Row]) -> Iterator[Finding]:
    if not context.aligning or pod.pod_level or (context.known and len(context.machine.numa) < 2):
        return
    pinned = [row for row in rows if row[1].role is not Role.INIT and _pinned(pod, row)]
    if context.config.topology_manager_scope == "pod":
        for raw, request, part in pinned:
            if request.role is Role.SIDECAR and request.whole_cpus:
                message = f"sidecar {raw.name} adds {request.whole_cpus} CPUs to what one NUMA node must hold"
                yield found("NW425", source.place(part, "resources"), message)
    elif len(pinned) > 1:
        names = ", ".join(raw.name for raw, _, _ in pinned)
        ways = [field_set(context, ("topologyManagerScope",), "pod", certain=False)]
        message = f"containers {names} are aligned each for itself"
        yield found("NW423", source.place(pinned[0][2]), message, corrections=ways)


def _pinned(pod: PodRequest, row: Row) -> bool:
    return (pod.guaranteed and row[1].whole_cpus > 0) or has_devices(row[0])


def _policy(source: PodSource, context: Context, rows: Sequence[Row]) -> Iterator[Finding]:
    several = not context.known or len(context.machine.numa) > 1
    accelerated = [row for row in rows if has_accelerators(row[0])]
    if accelerated and not context.aligning and several and not context.configuration.partial:
        raw, _, part = accelerated[0]
        message = (
            f"container {raw.name} asks for GPUs; {context.configuration.name} has topologyManagerPolicy none"
        )
        yield found("NW432", source.place(part, "resources"), message, corrections=topology_ways(context))
    options = context.config.cpu_manager_policy_options
    if (
        context.known
        or not context.static_cpus
        or options.get("full-pcpus-only") not in ("true", "1", "True")
    ):
        return
    pod = requested(source, context)
    for raw, request, part in rows:
        if pod.guaranteed and request.whole_cpus % 2:
            message = f"container {raw.name} asks for {request.whole_cpus} CPUs, and full-pcpus-only is on"
            ways = [amount_set(part, CPU, str(request.whole_cpus + 1), certain=False)]
            yield found("NW426", source.place(part, "resources"), message, corrections=ways)


def _spec(source: PodSource) -> Iterator[Finding]:
    """Fields of the pod that go past the managers."""
    node = source.spec.at("nodeName")
    if node.value and not source.uid:
        ways = [selected_by_name(source.spec, str(node.value))]
        yield found("NW434", source.place(node), f"nodeName is {node.value}", corrections=ways)

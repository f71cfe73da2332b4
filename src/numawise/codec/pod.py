"""Pods out of manifests: who asks for what, or why the API server would not take it.

Rules kept here:

1. ``pod_object`` reads what a person wrote; objects that make pods are opened by ``codec.workload``.
2. Fields that decide nothing are ignored.  A field that Kubernetes does not know is refused
   where it may be a misspelt one that decides.
3. What the API server refuses is refused in its words, judged after its defaulting: names,
   amounts, requests against limits, containers against the pod.
4. ``pod_from`` reads what a program wrote, such as a recorded step, and checks the shape alone.
5. A pod without a uid gets its namespace and name as one; ``unique_uids`` numbers repeats.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from numawise.codec.allocated import allocated_by_status, plain_amounts, quantity
from numawise.codec.claims import pod_claims, with_claim_status, with_plain_status
from numawise.codec.constraints import constraints_from, read_constraints
from numawise.codec.document import Document, Part, shown
from numawise.codec.objects import MIRROR
from numawise.errors import InputError, meant, suggestion
from numawise.quantity import Quantity
from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import (
    BEST_EFFORT,
    BURSTABLE,
    CPU,
    EPHEMERAL,
    GUARANTEED,
    HUGEPAGES,
    MEMORY,
    Amounts,
    ContainerRequest,
    PodRequest,
    Role,
    most_at_once,
)
from numawise.request.resize import ResizeRequest, SizeChange
from numawise.strconv import quote
from numawise.values import replace


def words(text: str) -> frozenset[str]:
    """A table of names, written as text."""
    return frozenset(text.split())


TOP_READ = words("kind metadata spec status template")
TOP_FIELDS = TOP_READ | {"apiVersion"}
METADATA_READ = words("name generateName namespace uid")
METADATA_FIELDS = METADATA_READ | words("""
    annotations clusterName creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers
    generation labels managedFields ownerReferences resourceVersion selfLink
""")
SPEC_FIELDS = words("""
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy
    enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname
    hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy
    priority priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName
    schedulerName schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName
    setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations
    topologySpreadConstraints volumes workloadRef
""")
CONTAINER_FIELDS = words("""
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe
    resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce
    terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir
""")
RESOURCE_FIELDS = ("requests", "limits", "claims")
FOR_QUOTAS = words("""
    configmaps limits.cpu limits.ephemeral-storage limits.memory persistentvolumeclaims pods
    replicationcontrollers requests.cpu requests.ephemeral-storage requests.memory requests.storage
    resourcequotas secrets services services.loadbalancers services.nodeports storage
""")
DEVICE_NAMES, LONGEST_DOMAIN, LONGEST_LABEL = "name devices like nvidia.com/gpu", 253, 63
NOTHING = Quantity()
RESTART_POLICIES = ("Always", "Never", "OnFailure")
RESTART = "RestartContainer"
STANDARD = (CPU, MEMORY, EPHEMERAL)

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(rf"{LABEL.pattern}(\.{LABEL.pattern})*")
NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
ENDS = "and must start and end with an alphanumeric character (e.g."
NAME_RULE = (
    f"must consist of alphanumeric characters, '-', '_' or '.', {ENDS} 'MyName',  or 'my.name',  or "
    f"'123-abc', regex used for validation is '{NAME.pattern}')"
)
LABEL_RULE = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {ENDS} "
    f"'my-name',  or '123-abc', regex used for validation is '{LABEL.pattern}')"
)
SUBDOMAIN_RULE = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {ENDS} "
    f"'example.com', regex used for validation is '{SUBDOMAIN.pattern}')"
)
WITH_PREFIX = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


def pod_in(
    spec: Part, name: str, owner: str = "", namespace: str = "default", metadata: Part | None = None
) -> RawPod:
    """Read a pod out of a pod spec, wherever that stands; ``metadata``: the template's own."""
    pod = RawPod(f"{namespace}/{name}", name, (), namespace=namespace, owner=owner)
    return _filled(pod, spec, metadata or Part(spec.document, spec.steps, None))


def unique_uids(pods: Iterable[RawPod], known: dict[str, int] | None = None) -> tuple[RawPod, ...]:
    """The same pods with a number after each uid that came before (rule 5); ``known``: what came earlier."""
    seen = {} if known is None else known
    found: list[RawPod] = []
    for pod in pods:
        uid = pod.uid
        while uid in seen:
            seen[pod.uid] += 1
            uid = f"{pod.uid}#{seen[pod.uid]}"
        seen[uid] = 1
        found.append(pod if uid == pod.uid else replace(pod, uid=uid))
    return tuple(found)


def pod_from(value: Mapping[str, Any]) -> RawPod:
    """Read a pod out of plain values that are known to be good (rule 4)."""
    try:
        metadata = value["metadata"]
        spec = value["spec"]
        containers = [_plain_container(c, Role.APP) for c in spec["containers"]]
        if init := spec.get("initContainers"):
            containers[:0] = [
                _plain_container(c, Role.INIT if c.get("restartPolicy") != "Always" else Role.SIDECAR)
                for c in init
            ]
        requests = limits = None
        if (resources := spec.get("resources")) is not None:
            requests = plain_amounts(resources.get("requests"))
            limits = plain_amounts(resources.get("limits"))
        name, namespace = metadata["name"], metadata.get("namespace") or "default"
        status = value.get("status") or {}
        pod = RawPod(
            uid=metadata.get("uid") or f"{namespace}/{name}",
            name=name,
            containers=tuple(containers),
            requests=requests,
            limits=limits,
            namespace=namespace,
            overhead=plain_amounts(spec.get("overhead")),
            qos=status.get("qosClass") or "",
            constraints=constraints_from(value),
        )
        if spec.get("resourceClaims") or status.get("extendedResourceClaimStatus"):
            pod = with_plain_status(pod, spec, status)
        texts = (pod.uid, pod.name, pod.namespace, pod.qos, *(container.name for container in containers))
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a name is not text")  # noqa: TRY301 - as those of the readers above
        pod = allocated_by_status(pod, spec, status)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        pod_object(Document(value).root)  # mostly finds the better words
        raise InputError(f"is not a pod: {type(problem).__name__}: {problem}") from None
    return pod


def _plain_container(value: Mapping[str, Any], role: Role) -> RawContainer:
    resources = value.get("resources") or {}
    requests, limits = plain_amounts(resources.get("requests")), plain_amounts(resources.get("limits"))
    return RawContainer(value["name"], role, requests, limits, _restarts_for(value.get("resizePolicy")))


def _restarts_for(policies: object) -> frozenset[str]:
    """The resources whose change restarts a container."""
    rows = [row for row in policies if isinstance(row, Mapping)] if isinstance(policies, list) else []
    return frozenset(str(row.get("resourceName")) for row in rows if row.get("restartPolicy") == RESTART)


def resize_from(value: Mapping[str, Any]) -> ResizeRequest:
    """Read a new size out of plain values that are known to be good (rule 4)."""
    containers = {name: _plain_size(size) for name, size in (value.get("containers") or {}).items()}
    own = value.get("resources")
    return ResizeRequest(containers, None if own is None else _plain_size(own))


def _plain_size(value: Mapping[str, Any]) -> SizeChange:
    return SizeChange(plain_amounts(value.get("requests")), plain_amounts(value.get("limits")))


# --- objects ------------------------------------------------------------------------------


def pod_object(part: Part) -> RawPod:
    """Read an object of kind Pod."""
    misspelt(part, TOP_FIELDS, TOP_READ)
    namespace, name, uid = object_names(part, "" if "kind" in part.mapping() else "pod")
    part.at("status").mapping(what="the pod's status")
    qos = part.at("status", "qosClass")
    if qos.value not in (None, "", GUARANTEED, BURSTABLE, BEST_EFFORT):
        raise qos.error(f"must be {GUARANTEED}, {BURSTABLE} or {BEST_EFFORT}, not {shown(qos.value)}")
    owner = part.at("metadata", "ownerReferences", 0)
    parts = [owner.at(key).value for key in ("kind", "name")]
    told = " ".join(one for one in parts if isinstance(one, str))
    mirrored = part.at("metadata", "annotations", MIRROR).value
    uid = mirrored if isinstance(mirrored, str) and mirrored else uid
    pod = RawPod(uid, name, (), namespace=namespace, qos=qos.text() if qos.value else "", owner=told)
    filled = _filled(pod, part.at("spec"), part.at("metadata"))
    filled = allocated_by_status(filled, part.at("spec").mapping(), part.at("status").mapping())
    return with_claim_status(filled, part.at("status"))


def object_names(part: Part, fallback: str = "") -> tuple[str, str, str]:
    """Namespace, name and uid of an object."""
    metadata = part.at("metadata")
    metadata.mapping(what="the object's metadata")
    misspelt(metadata, METADATA_FIELDS, METADATA_READ)
    parts = {key: metadata.at(key) for key in METADATA_READ}
    given = {key: "" if found.value is None else found.text() for key, found in parts.items()}
    check_names(metadata)
    name = given["name"] or (f"{given['generateName']}0" if given["generateName"] else fallback)
    if not name:
        what = "Required value: name or generateName is required"
        raise metadata.at("name").error(what, "give the object a name")
    namespace = given["namespace"] or "default"
    return namespace, name, given["uid"] or f"{namespace}/{name}"


def check_names(metadata: Part) -> None:
    """Refuse a name or namespace that the API server would not take (rule 3)."""
    for key, longest, form, rule in (
        ("name", LONGEST_DOMAIN, SUBDOMAIN, SUBDOMAIN_RULE),
        ("generateName", LONGEST_DOMAIN, SUBDOMAIN, SUBDOMAIN_RULE),
        ("namespace", LONGEST_LABEL, LABEL, LABEL_RULE),
    ):
        part = metadata.at(key)
        text = part.value
        if not isinstance(text, str) or not text:
            continue
        if len(text) > longest:
            _invalid(part, text, f"must be no more than {longest} bytes", "shorten it")
        whole = f"{text[:-1]}a" if key == "generateName" and text[-1] == "-" else text  # more is added to it
        if not form.fullmatch(whole):
            _invalid(part, text, rule, "use lower-case letters, digits and '-'")


def misspelt(part: Part, known: frozenset[str], read: frozenset[str]) -> None:
    """Refuse a key that is not known but looks like one that is read here (rule 2)."""
    for key in part.mapping():
        if key not in known and meant(key, read):
            raise part.at(key).error(f"unknown field {shown(key)}", suggestion(key, read))


# --- containers ---------------------------------------------------------------------------


def _filled(pod: RawPod, spec: Part, metadata: Part) -> RawPod:
    """The pod with what its spec asks for, checked as the API server does it (rule 3)."""
    spec.mapping(SPEC_FIELDS, "a pod spec: a mapping with containers")
    names: set[str] = set()
    app = spec.at("containers").items("a list of containers")
    if not app:
        raise spec.at("containers").error("Required value", "give the pod at least one container")
    apps = [_container(part, Role.APP, names) for part in app]
    init = spec.at("initContainers").items("a list of containers")
    inits = [_container(part, Role.INIT, names) for part in init]
    requests = limits = None
    if spec.at("resources").value is not None:
        requests, limits = _resources(spec.at("resources"))
    overhead = _amounts(spec.at("overhead"))
    claims = pod_claims(spec, [*init, *app])
    pod = replace(
        pod,
        containers=(*inits, *apps),
        requests=requests,
        limits=limits,
        overhead=overhead,
        constraints=read_constraints(spec, metadata),
        claims=claims,
    )
    _check(defaulted(pod), spec, [*init, *app])
    return pod


def _container(part: Part, role: Role, names: set[str]) -> RawContainer:
    value = part.mapping(what="a container: a mapping with name and resources")
    for key in value:
        if key in RESOURCE_FIELDS[:2]:
            raise part.at(key).error(f"unknown field {shown(key)}", f"move {key} into resources")
    part.mapping(CONTAINER_FIELDS)
    name = part.at("name")
    if name.value is None or name.value == "":
        raise name.error("Required value", "give the container a name")
    text = name.text()
    if not LABEL.fullmatch(text) or len(text) > LONGEST_LABEL:
        rule = LABEL_RULE
        if SUBDOMAIN.fullmatch(text):
            rule = "must be no more than 63 characters" if "." not in text else "must not contain dots"
        _invalid(name, text, rule, "rename the container")
    if text in names:
        raise name.error(f"Duplicate value: {shown(text)}", "rename one of the containers")
    names.add(text)
    policy = part.at("restartPolicy")
    if policy.value is not None and policy.value not in RESTART_POLICIES:
        supported = ", ".join(map(quote, RESTART_POLICIES))
        raise policy.error(f"Unsupported value: {shown(policy.value)}: supported values: {supported}")
    if role is Role.INIT and policy.value == "Always":
        role = Role.SIDECAR
    requests, limits = _resources(part.at("resources"))
    return RawContainer(text, role, requests, limits, _restarts_for(part.at("resizePolicy").value))


def _resources(part: Part) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    value = part.mapping(what="a mapping with requests and limits")
    for name in value:
        if name not in RESOURCE_FIELDS and (name in STANDARD or "/" in name or name.startswith(HUGEPAGES)):
            what, advice = f"unknown field {shown(name)}", "move it into requests or limits"
            raise part.at(name).error(what, advice)
    part.mapping(RESOURCE_FIELDS)
    return _amounts(part.at("requests")), _amounts(part.at("limits"))


def _amounts(part: Part) -> dict[str, Quantity]:
    names = part.mapping(what="a mapping from resources to quantities")
    return {name: amount_of(part.at(name)) for name in names}


def amount_of(part: Part) -> Quantity:
    """A quantity out of a document."""
    try:
        return quantity(part.value)
    except ValueError as problem:
        what = f"{shown(part.value)} is not a quantity: {problem}"
        raise part.error(what, "write it like 500m, 2 or 8Gi") from None


# --- what the API server demands ----------------------------------------------------------


def _check(pod: PodRequest, spec: Part, parts: list[Part]) -> None:
    """Check every container, then the pod's own resources."""
    for container, part in zip(pod.containers, parts, strict=True):
        _check_resources(container.requests, container.limits, part.at("resources"), _check_name)
    if pod.requests is None or pod.limits is None:
        return
    resources = spec.at("resources")
    _check_resources(pod.requests, pod.limits, resources, _check_pod_level_name)
    for name, amount in pod.requests.items():
        total = _total(pod.containers, name)
        if total.nano > amount.nano:
            rule = f"must be greater than or equal to aggregate container requests of {total}"
            _invalid(resources.at("requests", name), amount, rule, "raise it or lower the containers'")
    for name, amount in pod.limits.items():
        for container, part in zip(pod.containers, parts, strict=True):
            limit = container.limits.get(name)
            if container.role is Role.APP and limit is not None and limit.nano > amount.nano:
                rule = f"must be less than or equal to pod limits of {amount}"
                _invalid(part.at("resources", "limits", name), limit, rule, "lower it or raise the pod's")


def _total(containers: Iterable[ContainerRequest], name: str) -> Quantity:
    """What the containers ask for at one time."""
    style = next((c.requests[name].style for c in containers if c.requests.get(name, NOTHING).nano), "")
    return Quantity(most_at_once(containers, lambda c: c.requests.get(name, NOTHING).nano), style)


def _check_resources(
    requests: Amounts, limits: Amounts, part: Part, check_name: Callable[[str, Part], None]
) -> None:
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where = part.at(side, name)
            check_name(name, where)
            if amount.nano < 0:
                _invalid(where, amount, "must be greater than or equal to 0", "give a positive amount")
            if _extended(name) and amount.milli % 1000:
                _invalid(where, amount, "must be an integer", "devices come whole")
            if name.startswith(HUGEPAGES) and not _whole_pages(name, amount):
                rule = f"{amount} is not positive integer multiple of {name}"
                _invalid(where, amount, rule, "ask for whole pages")
    for name, amount in requests.items():
        where = part.at("requests", name)
        fixed = name.startswith(HUGEPAGES) or not _native(name)
        limit = limits.get(name)
        if limit is None and fixed:
            advice = f"set the limit of {name} to {amount} too"
            raise where.error("Required value: Limit must be set for non overcommitable resources", advice)
        if limit is not None and fixed and amount.nano != limit.nano:
            _invalid(where, amount, f"must be equal to {name} limit of {limit}", "make them equal")
        if limit is not None and amount.nano > limit.nano:
            rule = f"must be less than or equal to {name} limit of {limit}"
            _invalid(where, amount, rule, "lower the request or raise the limit")
    named = {*requests, *limits}
    if not named & {CPU, MEMORY} and any(name.startswith(HUGEPAGES) for name in named):
        raise part.error("Forbidden: HugePages require cpu or memory", "ask for cpu or memory too")


def _native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _extended(name: str) -> bool:
    prefix = name.partition("/")[0]
    for_quota = len(f"requests.{prefix}") <= LONGEST_DOMAIN
    return not _native(name) and not name.startswith("requests.") and for_quota


def _whole_pages(name: str, amount: Quantity) -> bool:
    try:
        size = Quantity.parse(name.removeprefix(HUGEPAGES))
    except ValueError:
        return False
    return size.nano > 0 and size.milli % 1000 == 0 and size.value != 0 and amount.value % size.value == 0


def _check_qualified(name: str, part: Part) -> None:
    prefix, slash, own = name.partition("/")
    rule = ""
    if "/" in own:
        rule = f"a valid label key {NAME_RULE} {WITH_PREFIX}"
    elif slash and not prefix:
        rule = "prefix part must be non-empty"
    elif slash and not SUBDOMAIN.fullmatch(prefix):
        rule = f"prefix part {SUBDOMAIN_RULE}"
    elif len(prefix) > LONGEST_DOMAIN:
        rule = f"prefix part must be no more than {LONGEST_DOMAIN} bytes"
    elif not (own if slash else prefix):
        rule = "name part must be non-empty"
    elif len(own if slash else prefix) > 63:
        rule = "name part must be no more than 63 bytes"
    elif not NAME.fullmatch(own if slash else prefix):
        rule = f"name part {NAME_RULE}"
    if rule:
        _invalid(part, name, rule, DEVICE_NAMES)


def _check_name(name: str, part: Part) -> None:
    _check_qualified(name, part)
    if name in FOR_QUOTAS:
        _invalid(part, name, "must be a standard resource for containers", DEVICE_NAMES)
    if "/" not in name and name not in STANDARD and not name.startswith(HUGEPAGES):
        known = (*STANDARD, f"{HUGEPAGES}2Mi", f"{HUGEPAGES}1Gi")
        advice = suggestion(name, known) if meant(name, known) else DEVICE_NAMES
        _invalid(part, name, "must be a standard resource type or fully qualified", advice)
    if not _native(name) and not _extended(name):
        _invalid(part, name, "doesn't follow extended resource name standard", DEVICE_NAMES)


def _check_pod_level_name(name: str, part: Part) -> None:
    _check_qualified(name, part)
    if name not in (CPU, MEMORY) and not name.startswith(HUGEPAGES):
        supported = ", ".join(map(quote, sorted((CPU, HUGEPAGES, MEMORY))))
        what = f"Unsupported value: {shown(name)}: supported values: {supported}"
        raise part.error(what, "ask for it in a container")


def _invalid(part: Part, value: object, rule: str, advice: str) -> NoReturn:
    raise part.error(f"Invalid value: {shown(str(value))}: {rule}", advice)

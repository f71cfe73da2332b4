"""Claims: what pods say of them, and the objects of ``resource.k8s.io`` that say which devices they hold.

Rules kept here:

1. ResourceClaim, ResourceClaimTemplate, DeviceClass and ResourceSlice are read as ``v1``, ``v1beta2`` and
   ``v1beta1`` write them.  In ``v1beta1`` a request has its class in itself and a device its attributes under
   ``basic``; since ``v1beta2`` the former is under ``exactly``, the latter directly below the device.
   Members of a list may leave their version to the list; the shape says which it is.
2. An attribute without a domain is the driver's own: its name is ``DRIVER/NAME``.
3. A pod says which ResourceClaim a template became (``status.resourceClaimStatuses``) and which of its
   extended resources a claim backs (``status.extendedResourceClaimStatus``).
4. Where several slices describe a device, the one of the highest generation of its pool counts.
5. What the API server refuses about the claims of a pod is refused in its words.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numawise.codec.document import Part, shown
from numawise.codec.scalars import LARGEST_INT
from numawise.errors import suggestion
from numawise.request.claims import (
    CLASS_RESOURCE,
    NUMA_NODE,
    PCIE_ROOT,
    ClaimedDevice,
    DeviceRequest,
    MatchConstraint,
    PodClaim,
    is_numa,
)
from numawise.request.defaults import RawPod
from numawise.values import dataclass, field, replace

if TYPE_CHECKING:
    from numawise.codec.workload import Object

GROUP = "resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")
CLAIM, TEMPLATE, CLASS, SLICE = "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"
KINDS = (CLAIM, TEMPLATE, CLASS, SLICE)
CONSTRAINTS = ("devices", "constraints")
CLAIM_FIELDS = ("name", "resourceClaimName", "resourceClaimTemplateName", "source")
USE_FIELDS = ("name", "request")
EITHER = "`resourceClaimName`, `resourceClaimTemplateName`"
HIGHEST_NUMA = 1023
MOST_DEVICES = 1_000_000


# --- what a pod says ------------------------------------------------------------------------


def pod_claims(spec: Part, containers: Sequence[Part]) -> tuple[PodClaim, ...]:
    """The claims of a pod spec, each with the containers that use it (rule 5)."""
    claims: dict[str, PodClaim] = {}
    for part in spec.at("resourceClaims").items("a list of claims"):
        claim = _pod_claim(part)
        if claim.name in claims:
            raise part.at("name").error(f"Duplicate value: {shown(claim.name)}", "rename one of the claims")
        claims[claim.name] = claim
    for container in containers:
        called = str(container.at("name").value)
        for use in container.at("resources", "claims").items("a list of claims"):
            use.mapping(USE_FIELDS, "a mapping with name")
            name = _required(use.at("name"), "name a claim of spec.resourceClaims")
            if name not in claims:
                advice = suggestion(name, claims) if claims else "list it in spec.resourceClaims"
                raise use.error(f"Not found: {shown(name)}", advice)
            users = claims[name].containers
            if called not in users:
                claims[name] = replace(claims[name], containers=(*users, called))
    return tuple(claims.values())


def _pod_claim(part: Part) -> PodClaim:
    part.mapping(CLAIM_FIELDS, "a mapping with name and the claim or its template")
    name = _required(part.at("name"), "give the claim a name")
    holder = part.at("source") if part.at("source").value is not None else part  # up to 1.30
    claim, template = (holder.at(key) for key in ("resourceClaimName", "resourceClaimTemplateName"))
    if claim.value is not None and template.value is not None:
        what = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        raise part.error(f"Invalid value: {what}", "remove one of them")
    if claim.value is None and template.value is None:
        raise part.error(f"Invalid value: must specify one of: {EITHER}", "name the claim or its template")
    return PodClaim(
        name=name,
        claim=claim.text() if claim.value is not None else "",
        template=template.text() if template.value is not None else "",
    )


def _required(part: Part, advice: str) -> str:
    if part.value is None or part.value == "":
        raise part.error("Required value", advice)
    return part.text()


def with_claim_status(pod: RawPod, status: Part) -> RawPod:
    """A pod with what its status says about its claims (rule 3)."""
    named: dict[str, str] = {}
    for part in status.at("resourceClaimStatuses").items("a list of claims"):
        part.mapping(what="a mapping with name and resourceClaimName")
        made = part.at("resourceClaimName")
        named[_required(part.at("name"), "name the claim")] = made.text() if made.value is not None else ""
    claims = [replace(one, claim=one.claim or named.get(one.name, "")) for one in pod.claims]
    backing = status.at("extendedResourceClaimStatus")
    backing.mapping(what="a mapping with requestMappings and resourceClaimName")
    mapped: dict[str, dict[str, None]] = {}
    for part in backing.at("requestMappings").items("a list of mappings"):
        part.mapping(what="a mapping with containerName, resourceName and requestName")
        container = _required(part.at("containerName"), "name the container")
        resource = _required(part.at("resourceName"), "name the extended resource")
        mapped.setdefault(container, {})[resource] = None
    claim = str(backing.at("resourceClaimName").value or "")
    return _mapped(replace(pod, claims=tuple(claims)), mapped, claim)


def _mapped(pod: RawPod, mapped: Mapping[str, Iterable[str]], claim: str) -> RawPod:
    """A pod some of whose extended resources come with a claim."""
    if not mapped:
        return pod
    backed = PodClaim(
        name="",
        claim=claim,
        containers=tuple(one.name for one in pod.containers if one.name in mapped),
        resources=tuple(dict.fromkeys(name for resources in mapped.values() for name in resources)),
    )
    containers = tuple(
        replace(one, claimed=frozenset(mapped[one.name])) if one.name in mapped else one
        for one in pod.containers
    )
    return replace(pod, containers=containers, claims=(*pod.claims, backed))


def with_plain_status(pod: RawPod, spec: Mapping[str, Any], status: Mapping[str, Any]) -> RawPod:
    """The same out of plain values that are known to be good."""
    uses: dict[str, list[str]] = {}
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for use in (container.get("resources") or {}).get("claims") or ():
            uses.setdefault(use["name"], []).append(container["name"])
    named = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    claims = tuple(
        PodClaim(
            name=one["name"],
            claim=one.get("resourceClaimName") or named.get(one["name"]) or "",
            template=one.get("resourceClaimTemplateName") or "",
            containers=tuple(dict.fromkeys(uses.get(one["name"], ()))),
        )
        for one in spec.get("resourceClaims") or ()
    )
    backing = status.get("extendedResourceClaimStatus") or {}
    mapped: dict[str, dict[str, None]] = {}
    for one in backing.get("requestMappings") or ():
        mapped.setdefault(one["containerName"], {})[one["resourceName"]] = None
    return _mapped(replace(pod, claims=claims), mapped, backing.get("resourceClaimName") or "")


# --- objects beside the pod -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClaimObject:
    """A ResourceClaim, or what a template makes."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[MatchConstraint, ...] = ()
    devices: tuple[ClaimedDevice, ...] = ()
    apart: tuple[str, ...] = ()
    part: Part | None = None
    """Where it stands."""
    way: tuple[str, ...] = ()
    """To its constraints."""


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """A device as its driver publishes it."""

    driver: str
    name: str
    generation: int = 0
    numa: int | None = None
    pcie_root: str = ""
    attributes: frozenset[str] = frozenset()
    """The full names of its attributes (rule 2)."""


DeviceKey = tuple[str, str, str]
"""Driver, pool and name."""


@dataclass(slots=True)
class ClaimObjects:
    """The objects of ``resource.k8s.io`` that were given."""

    claims: dict[tuple[str, str], ClaimObject] = field(default_factory=dict)
    """By namespace and name."""
    templates: dict[tuple[str, str], ClaimObject] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    """DeviceClass → the extended resource it stands for; '' when none is named."""
    devices: dict[DeviceKey, SliceDevice] = field(default_factory=dict)
    _constrained: dict[int, tuple[str, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.claims or self.templates or self.classes or self.devices)

    def add(self, one: "Object") -> None:
        """Read one of the four kinds (rule 1)."""
        version = one.part.at("apiVersion")
        if version.value is not None and version.text().rpartition("/")[2] not in VERSIONS:
            what = f"{shown(version.value)} of a {one.kind} is not read"
            raise version.error(what, f"give it as {GROUP}/{VERSIONS[0]}, {', '.join(VERSIONS[1:])}")
        spec = one.part.at("spec")
        spec.mapping(what=f"the spec of a {one.kind}")
        if one.kind == CLASS:
            resource = spec.at("extendedResourceName")
            self.classes[one.name] = resource.text() if resource.value is not None else ""
        elif one.kind == SLICE:
            self._slice(spec)
        elif one.kind == CLAIM:
            self.claims[_key(one)] = replace(
                _claim(spec, one.part.at("status")), part=one.part, way=("spec", *CONSTRAINTS)
            )
        else:
            inner = spec.at("spec")
            inner.mapping(what="the spec of the claims that are made of it")
            self.templates[_key(one)] = replace(
                _claim(inner, inner.at("status")), part=one.part, way=("spec", "spec", *CONSTRAINTS)
            )

    def constrained(self, claim: ClaimObject) -> tuple[str, str]:
        """The object with a constraint more, or why there is none."""
        known = self._constrained.get(id(claim))
        if known is None and claim.part is not None:
            from numawise.codec.own_claim import with_constraint  # noqa: PLC0415 - few pods have claims

            known = self._constrained[id(claim)] = with_constraint(claim.part, claim.way)
        return known or ("", "")

    def _slice(self, spec: Part) -> None:
        driver, pool = spec.at("driver").text(), spec.at("pool")
        name = pool.at("name").text()
        generation = pool.at("generation")
        number = generation.integer(0, LARGEST_INT) if generation.value is not None else 0
        for part in spec.at("devices").items("a list of devices"):
            part.mapping(what="a mapping with name and attributes")
            holder = part.at("basic") if part.at("basic").value is not None else part
            device = _device(part, holder.at("attributes"), driver, number)
            key = driver, name, device.name
            before = self.devices.get(key)
            if before is None or before.generation <= number:  # rule 4
                self.devices[key] = device
            if len(self.devices) > MOST_DEVICES:
                what = f"there are more than {MOST_DEVICES:,} devices"
                raise part.error(what, "give the slices of one node")

    def class_of(self, resource: str) -> str:
        """The DeviceClass that backs an extended resource; '' when none of those given does."""
        if resource.startswith(CLASS_RESOURCE):
            name = resource.removeprefix(CLASS_RESOURCE)
            return name if name in self.classes else ""
        return min((name for name, backed in self.classes.items() if backed == resource), default="")

    def numa_attribute(self, drivers: Iterable[str] = ()) -> str:
        """The attribute for NUMA nodes that all devices, or those of some drivers, have; '' for none."""
        wanted = set(drivers)
        devices = [one for one in self.devices.values() if not wanted or one.driver in wanted]
        shared = set.intersection(*(set(one.attributes) for one in devices)) if devices else set()
        named = sorted(filter(is_numa, shared))
        return NUMA_NODE if NUMA_NODE in named else named[0] if named else ""


def is_claim_object(one: "Object") -> bool:
    """True for an object that says something about claims."""
    return one.kind in KINDS and one.group in (GROUP, "")


def claim_objects(objects: Iterable["Object"]) -> ClaimObjects:
    """What the objects say about claims."""
    found = ClaimObjects()
    for one in objects:
        if is_claim_object(one):
            found.add(one)
    return found


def _key(one: "Object") -> tuple[str, str]:
    namespace = one.part.at("metadata", "namespace").value
    return (namespace if isinstance(namespace, str) and namespace else "default"), one.name


def _claim(spec: Part, status: Part) -> ClaimObject:
    devices = spec.at("devices")
    devices.mapping(what="a mapping with requests")
    requests = [
        request for part in devices.at("requests").items("a list of requests") for request in _requests(part)
    ]
    constraints, apart = [], []
    for part in devices.at("constraints").items("a list of constraints"):
        part.mapping(what="a mapping with matchAttribute")
        attribute = part.at("matchAttribute")
        if attribute.value is not None:
            names = tuple(one.text() for one in part.at("requests").items("a list of requests"))
            constraints.append(MatchConstraint(attribute.text(), names))
        distinct = part.at("distinctAttribute")
        apart += [distinct.text()] if distinct.value is not None else []
    results = status.at("allocation", "devices", "results").items("a list of devices")
    allocated = tuple(map(_allocated, results))
    return ClaimObject(tuple(requests), tuple(constraints), allocated, tuple(apart))


def _requests(part: Part) -> list[DeviceRequest]:
    """A request, or its alternatives under their full names."""
    part.mapping(what="a mapping with name and what is requested")
    name = _required(part.at("name"), "give the request a name")
    choices = part.at("firstAvailable").items("a list of requests")
    if choices:
        return [_request(one, f"{name}/{_required(one.at('name'), 'name the request')}") for one in choices]
    exactly = part.at("exactly")
    return [_request(exactly if exactly.value is not None else part, name)]


def _request(part: Part, name: str) -> DeviceRequest:
    part.mapping(what="a mapping with deviceClassName")
    count = part.at("count")
    return DeviceRequest(
        name=name,
        device_class=_required(part.at("deviceClassName"), "name a DeviceClass"),
        count=count.integer(0, LARGEST_INT) if count.value is not None else 1,
        every=part.at("allocationMode").value == "All",
    )


def _allocated(part: Part) -> ClaimedDevice:
    part.mapping(what="a mapping with driver, pool and device")
    request, driver, pool, device = (part.at(key) for key in ("request", "driver", "pool", "device"))
    return ClaimedDevice(
        request.text() if request.value is not None else "", driver.text(), pool.text(), device.text()
    )


def _device(part: Part, attributes: Part, driver: str, generation: int) -> SliceDevice:
    names: dict[str, Part] = {}
    for name in attributes.mapping(what="a mapping from attributes to values"):
        names[name if "/" in name else f"{driver}/{name}"] = attributes.at(name)
    order = sorted(names, key=lambda name: (name != NUMA_NODE, name.partition("/")[0] != driver, name))
    numas = [_number(names[name]) for name in order if is_numa(name)]
    root = names[PCIE_ROOT].at("string").value if PCIE_ROOT in names else None
    return SliceDevice(
        driver=driver,
        name=_required(part.at("name"), "give the device a name"),
        generation=generation,
        numa=next((numa for numa in numas if numa is not None), None),
        pcie_root=root if isinstance(root, str) else "",
        attributes=frozenset(names),
    )


def _number(attribute: Part) -> int | None:
    """The NUMA node that an attribute names; of a list the first.  None: it is not one."""
    attribute.mapping(what="a mapping with one value, such as int")
    listed = attribute.at("ints", 0).value
    value = attribute.at("int").value if listed is None else listed
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= HIGHEST_NUMA
    return value if good else None  # type: ignore[return-value]


# --- both together --------------------------------------------------------------------------


def resolved(pods: Iterable[RawPod], objects: ClaimObjects) -> tuple[RawPod, ...]:
    """The pods, each claim with what the objects say of it."""
    if not objects:
        return tuple(pods)
    return tuple(_resolved_pod(pod, objects) for pod in pods)


def _resolved_pod(pod: RawPod, objects: ClaimObjects) -> RawPod:
    if pod.claims:
        pod = replace(pod, claims=tuple(_resolved(pod, one, objects) for one in pod.claims))
    backed = [frozenset(name for name in one.limits if objects.class_of(name)) for one in pod.containers]
    if not any(backed):
        return pod
    pairs = zip(pod.containers, backed, strict=True)
    return replace(pod, containers=tuple(replace(one, backed=names) for one, names in pairs))


def _resolved(pod: RawPod, claim: PodClaim, objects: ClaimObjects) -> PodClaim:
    made = objects.claims.get((pod.namespace, claim.claim)) if claim.claim else None
    template = objects.templates.get((pod.namespace, claim.template)) if claim.template else None
    found = made or template
    if found is None:
        return claim
    own = template if claim.template else made
    constrained, problem = objects.constrained(own) if own is not None else ("", "")
    devices = []
    for device in found.devices:
        known = objects.devices.get((device.driver, device.pool, device.name))
        devices.append(
            replace(device, numa=known.numa, pcie_root=known.pcie_root) if known is not None else device
        )
    return replace(
        claim,
        known=True,
        requests=found.requests,
        constraints=found.constraints,
        apart=found.apart,
        constrained=constrained,
        unconstrained=problem,
        devices=tuple(devices),
        numa_attribute=objects.numa_attribute({one.driver for one in devices}),
    )

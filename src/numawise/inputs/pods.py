"""Pods as they are written: every pod template in a file, with its place, read as far as it can be.

Rules kept here:

1. Kinds that Kubernetes itself makes pods of are read as they are; lists are opened.
2. In any other kind pod templates are looked for: mappings with a list of containers.
3. What the API server would refuse becomes a finding, and the rest of the file is read on.  A placeholder of
   a template language is told as such.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from numawise.codec.document import Document, Part
from numawise.codec.kubelet.forms import kubelet_configurations
from numawise.codec.pod import SUPPORTED, TEMPLATES, pod_in, pods_in
from numawise.errors import InputError
from numawise.request.defaults import RawContainer, RawPod
from numawise.request.model import HUGEPAGES
from numawise.results.finding import Finding, Place, found

PLACEHOLDER = re.compile(r"\$\{?[A-Za-z_]\w*\}?|\{\{.*\}\}|\{%.*%\}|<[A-Za-z_-]+>")
MISTYPED = re.compile(r"is not a quantity|must be an integer")
KUBELET = ("KubeletConfiguration", "KubeletConfig")


@dataclass(frozen=True, slots=True)
class PodSource:
    """One pod template and where it stands."""

    spec: Part
    kind: str
    name: str
    raw: RawPod | None = None
    """What it asks for; None when that could not be read."""
    uid: str = ""
    """Of a pod that lives."""
    metadata: Part | None = None
    replicas: int = 1

    @property
    def parts(self) -> tuple[tuple[RawContainer | None, Part], ...]:
        """The containers with their places, in the kubelet's order."""
        inits, apps = (_items(self.spec.at(name)) for name in ("initContainers", "containers"))
        parts = [*inits, *apps]
        if self.raw is not None and len(self.raw.containers) == len(parts):
            return tuple(zip(self.raw.containers, parts, strict=True))
        return tuple((None, part) for part in parts)

    def place(self, part: Part, *steps: str | int) -> Place:
        """Where a part of the pod stands."""
        inner = part.at(*steps)
        error = inner.error("")
        return Place(error.file, error.line, error.field)

    @property
    def title(self) -> str:
        """``Deployment web``."""
        return f"{self.kind} {self.name}".strip()


def read_manifest(document: Document) -> Iterator[PodSource | Finding]:
    """The pods of one document, and what is wrong with it (rules 1 to 3)."""
    waiting: list[tuple[Part, str]] = [(document.root, "")]
    while waiting:
        part, inherited = waiting.pop(0)
        if not isinstance(part.value, Mapping):
            yield found("NW002", _place(part), "is not a Kubernetes object")
            continue
        kind = part.value.get("kind") or inherited
        kind = kind if isinstance(kind, str) else ""
        if kind.endswith("List") and isinstance(part.value.get("items"), list):
            inner = kind.removesuffix("List")
            waiting[:0] = [(part.at("items", i), inner) for i in range(len(part.value["items"]))]
        elif not kind and _is_spec(part.at("spec")):
            yield from _known(part, "Pod")
        elif kind == "Pod" or kind in TEMPLATES:
            yield from _known(part, kind)
        elif kind in KUBELET or (not kind and kubelet_configurations(document)):
            message = f"is a kubelet configuration{f' ({kind})' if kind else ''}, not a pod"
            yield found("NW002", _place(part), message, fix="pass it with --kubelet-config")
        else:
            yield from _other(part, kind)


def _place(part: Part) -> Place:
    error = part.error("")
    return Place(error.file, error.line or 1, error.field)


def _known(part: Part, kind: str) -> Iterator[PodSource | Finding]:
    steps, _ = TEMPLATES.get(kind, ((), ""))
    template = part if kind == "Pod" else part.at(*steps, "template")
    uid = part.at("metadata", "uid").value if kind == "Pod" else None
    source = PodSource(
        spec=template.at("spec"),
        kind=kind,
        name=_name(part),
        uid=uid if isinstance(uid, str) else "",
        metadata=template.at("metadata"),
    )
    try:
        pods = pods_in(part, kind)
    except InputError as problem:
        yield _refused(part, problem)
        yield source
        return
    if pods:
        yield replace(
            source, raw=pods[0], replicas=len(pods), name=pods[0].name if kind == "Pod" else source.name
        )


def _name(part: Part) -> str:
    for key in ("name", "generateName"):
        name = part.at("metadata", key).value
        if isinstance(name, str) and name:
            return name
    return ""


def _refused(part: Part, problem: InputError) -> Finding:
    """What the API server has against it (rule 3)."""
    place = Place(problem.file, problem.line, problem.field)
    if MISTYPED.search(problem.message) and PLACEHOLDER.search(problem.message):
        return found("NW402", place, problem.message)
    value = part.at("kind").value
    kind = value if isinstance(value, str) else ""
    message = f"{problem.field}: {problem.message}" if problem.field else problem.message
    fix = problem.advice or (f"supported are {', '.join(SUPPORTED)}" if not kind else "")
    return found("NW401", place, message, fix=fix)


def _other(part: Part, kind: str) -> Iterator[PodSource | Finding]:
    """Pod templates inside an object of any other kind (rule 2)."""
    specs = list(_specs(part))
    if not specs and not _podless(part, kind):
        told = f"a {kind}" if kind else "an object without kind"
        yield found("NW403", _place(part), f"{told}: no pod template inside")
    for number, spec in enumerate(specs):
        name = f"{_name(part) or kind.lower() or 'pod'}{f'-{number}' if len(specs) > 1 else ''}"
        source = PodSource(spec, kind, name, metadata=_beside(part, spec))
        try:
            yield replace(source, raw=pod_in(spec, name, f"{kind} {_name(part)}".strip()))
        except InputError as problem:
            yield _refused(part, problem)
            yield source


def _podless(part: Part, kind: str) -> bool:
    """An object of Kubernetes itself, known to make no pods."""
    try:
        return not pods_in(part, kind)
    except InputError:
        return False


def _specs(part: Part) -> Iterator[Part]:
    waiting = [part]
    while waiting:
        one = waiting.pop(0)
        if _is_spec(one):
            yield one
        elif isinstance(one.value, Mapping):
            waiting += [one.at(key) for key in one.value]
        elif isinstance(one.value, list):
            waiting += [one.at(i) for i in range(len(one.value))]


def _is_spec(part: Part) -> bool:
    containers = part.value.get("containers") if isinstance(part.value, Mapping) else None
    return isinstance(containers, list) and any(
        isinstance(one, Mapping) and "name" in one and ("image" in one or "resources" in one)
        for one in containers
    )


def _beside(part: Part, spec: Part) -> Part | None:
    """The metadata next to a pod spec."""
    if not spec.steps or spec.steps[-1] != "spec":
        return None
    return Part(part.document, (), part.document.value).at(*spec.steps[:-1], "metadata")


def _items(part: Part) -> list[Part]:
    value = part.value
    return [part.at(i) for i in range(len(value))] if isinstance(value, list) else []


# --- what kinds of things are asked for -----------------------------------------------------

ACCELERATOR = re.compile(r"gpu|\bmig\b|mig-|tpu|npu|gaudi|neuron|ascend|\bdcu\b|\bmlu\b|xpu", re.IGNORECASE)
COUNTED = re.compile(r"/(gpu|i915|xe|mig-[\w.-]+|gpu\.shared|tpu|gaudi|neuron(core|device)?)$", re.IGNORECASE)


def is_accelerator(resource: str) -> bool:
    """A resource that is a GPU or the like, or a part of one."""
    return "/" in resource and ACCELERATOR.search(resource) is not None


def gpus_of(container: RawContainer) -> int:
    """Whole GPUs that a container asks for."""
    return sum(
        amount.value for name, amount in container.limits.items() if name.endswith(("/gpu", "/i915", "/xe"))
    )


def has_devices(container: RawContainer) -> bool:
    """True when a container asks for any device, or huge pages."""
    names = {**container.limits, **container.requests}
    return any(amount.nano for name, amount in names.items() if "/" in name or name.startswith(HUGEPAGES))


def has_accelerators(container: RawContainer) -> bool:
    """True when a container asks for a GPU or the like."""
    return any(amount.nano for name, amount in container.limits.items() if is_accelerator(name))

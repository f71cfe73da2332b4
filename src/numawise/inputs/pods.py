"""Pods: every form that any command takes, read by one function.

Rules kept here:

1. Words are files, folders (all YAML and JSON below), ``-`` for standard input, or, beside a bundle, names of
   its pods.  Which kinds make pods, and how many, is for ``codec.workload`` to say.
2. Pods that have ended hold nothing, and are left out; one that is all that was named is asked about as if it
   came again.  In a list that a cluster printed, pods of other nodes are left out where the node's name is
   known; those that the node has come first, then those that no node has yet, then those that were refused,
   where these are asked about.  What was left out is said.
3. ``read_manifest`` reads for ``check``: what the API server would refuse becomes a finding, and the rest of
   the file is read on.  A placeholder of a template language is reported as such.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from numawise.codec.claims import ClaimObjects, is_claim_object, resolved
from numawise.codec.document import Document, Part
from numawise.codec.infile import is_file, is_folder, is_there, read_raw, reading
from numawise.codec.job_systems import only_known
from numawise.codec.objects import kubelet_uid
from numawise.codec.pod import pod_in, unique_uids
from numawise.codec.pod_phase import has_ended, refusal_of
from numawise.codec.workload import (
    MOST_PODS,
    NATIVE,
    SUPPORTED_WORDS,
    Object,
    metadata_of,
    objects_in,
    pod_documents,
    pods_of,
    runtimes_of,
    searched,
    templates_of,
)
from numawise.errors import InputError
from numawise.request.defaults import RawContainer, RawPod
from numawise.request.model import HUGEPAGES, PodRequest
from numawise.results.finding import Finding, Place, Severity, found
from numawise.values import dataclass, field, replace

if TYPE_CHECKING:
    from numawise.inputs.bundle import Bundle
    from numawise.node.state.folder import Live, LivePod

ENDINGS = (".yaml", ".yml", ".json")
MOST_FILES = 20_000
PLACEHOLDER = re.compile(r"\$\{?[A-Za-z_]\w*\}?|\{\{.*\}\}|\{%.*%\}|<[A-Za-z_-]+>")
MISTYPED = re.compile(r"is not a quantity|must be an integer")
KUBELET = (
    "KubeletConfiguration",
    "KubeletConfig",
    "PerformanceProfile",
    "MachineConfig",
    "EC2NodeClass",
    "NodeConfig",
    "ClusterConfig",
    "KubeadmConfigTemplate",
    "KubeadmControlPlane",
    "KubeadmConfig",
)
PODLESS_ADVICE = {
    "Event": "'numawise why FILE', without --machine, says which events are refusals and what they mean",
    "NodeResourceTopology": "it is a machine (--machine), and what is free on it (--state)",
}
"""What objects without pods are for."""
RECOGNISED = (
    "recognised are objects that make pods, kubelet configurations and flags, state files, machines, "
    "NodeResourceTopologies, Node objects, answers of the PodResources socket, configurations of NVIDIA's "
    "device plugin, and bundles"
)
GIVE_PODS = "give files or folders with Pods, Deployments, Jobs, or any object with pod templates"


@dataclass(frozen=True, slots=True)
class PodsInput:
    """Pods that the user named."""

    pods: tuple[RawPod, ...]
    remarks: tuple[str, ...] = ()
    """What was left out or assumed."""
    refusals: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Uid of pods that a kubelet refused, as their status says → reason, message; they stand last."""
    gone: frozenset[str] = frozenset()
    """Uids of pods that hold nothing any more, also where state files still have them."""


@dataclass(frozen=True, slots=True)
class Holders:
    """The pods of a node, as far as they are known."""

    running: tuple[RawPod, ...] = ()
    """Pods whose requests are known, in the order they are listed."""
    gone: frozenset[str] = frozenset()
    """Uids that are recorded and hold nothing."""
    remarks: tuple[str, ...] = ()


PodNamed = str | Path | Mapping[str, object] | RawPod
"""What a pod may be named by: words as on a command line, a manifest, or a pod that was read already."""


def read_pods(
    named: Sequence[PodNamed], *, node: str = "", bundle: "Bundle | None" = None, refused: bool = False
) -> PodsInput:
    """The pods that are meant; ``refused``: also those that a kubelet refused."""
    arriving: list[tuple[int, RawPod, tuple[str, str] | None]] = []
    sorting = Sorting(node, refused=refused)
    claims = ClaimObjects()
    for word in named:
        if isinstance(word, RawPod):
            arriving.append((HOLDS, word, None))
            continue
        own = bundle.pods_named(word) if bundle is not None and _is_name(word) else ()
        if own:
            arriving += [(HOLDS, pod, None) for pod in own]
            continue
        for documents in _documents(word):
            objects = [one for document in documents for one in objects_in(document.root)]
            before, runtimes = len(arriving), runtimes_of(objects)
            for one in objects:
                place = sorting.place(one)
                if place is None:
                    continue
                refusal = refusal_of(one.part.value) if place == REFUSED else None
                pods = pods_of(one, runtimes, MOST_PODS - len(arriving))
                arriving += [(place, pod, refusal) for pod in pods]
            about_claims = [one for one in objects if is_claim_object(one)]
            for one in about_claims:
                claims.add(one)
            if len(arriving) == before and not sorting.left and not about_claims:
                podless = next(
                    (PODLESS_ADVICE[one.kind] for one in objects if one.kind in PODLESS_ADVICE), ""
                )
                raise InputError("has no pods", file=documents[0].file, advice=podless or GIVE_PODS)
    living = [row for row in arriving if row[0] != ENDED]
    if living:
        sorting.left["ended"] += len(arriving) - len(living)
        arriving = sorted(living, key=lambda row: row[0])
    if named and not arriving:
        what = f"no pod is left: {sorting.said}" if sorting.left else "has claims and no pods"
        raise InputError(what, file=str(named[0]), advice=GIVE_PODS)
    every = unique_uids(resolved([pod for _, pod, _ in arriving], claims))
    refusals = {pod.uid: row[2] for pod, row in zip(every, arriving, strict=True) if row[2] is not None}
    here = {pod.uid for pod in every if pod.uid not in refusals}
    return PodsInput(every, sorting.remarks, refusals, frozenset(sorting.gone - here))


def _is_name(word: PodNamed) -> TypeGuard[str]:
    return isinstance(word, str) and not is_path(word)


def _documents(word: str | Path | Mapping[str, object]) -> Iterator[tuple[Document, ...]]:
    """The documents of every file that a word means."""
    if isinstance(word, Mapping):
        yield (Document(word, "pod"),)
        return
    for path in manifests((str(word),)):
        yield pod_documents(*read_raw(path))


def is_path(word: str) -> bool:
    """Whether a word is a file or a folder that is there, or standard input."""
    return word == "-" or is_there(word)


def manifests(words: Iterable[str]) -> Iterator[str]:
    """Files with pods; a folder stands for all YAML and JSON below it."""
    for word in words:
        if word == "-" or not is_folder(word):
            yield word
            continue
        with reading(word):
            below = list(islice(Path(word).rglob("*"), MOST_FILES + 1))
        if len(below) > MOST_FILES:
            what = f"has more than {MOST_FILES} files"
            raise InputError(what, file=word, advice="give a folder with pods alone")
        inside = sorted(one for one in below if one.suffix in ENDINGS and is_file(one))
        if not inside:
            what = f"no file in it ends in {', '.join(ENDINGS)}"
            raise InputError(what, file=word, advice="give files or folders with pods")
        yield from map(str, inside)


def names_of(pod: RawPod | PodRequest) -> set[str]:
    """What a person may call a pod."""
    return {pod.name, f"{pod.namespace}/{pod.name}", pod.uid}


HOLDS, WAITS, REFUSED, ENDED = range(4)
"""What becomes of pods of a list, in the order they come."""


class Sorting:
    """Which pods of a list are kept, and what is said about the others (rule 2)."""

    def __init__(self, node: str, *, refused: bool = False) -> None:
        self.node = node
        self.refused = refused
        self.left: Counter[str] = Counter()
        self.nodes: dict[str, None] = {}
        self.gone: set[str] = set()
        """Uids of pods that hold nothing any more."""

    def kept(self, one: Object) -> bool:
        """Whether an object counts."""
        return self.place(one) is not None

    def place(self, one: Object) -> int | None:
        """When an object comes; ``ENDED``: a pod outside of lists that has ended; None: it does not count."""
        if one.kind != "Pod":
            return HOLDS
        value: Any = one.part.value
        node = one.part.at("spec", "nodeName").value
        if one.listed and node and self.node and node != self.node:
            self.left["other"] += 1
            return None
        if not has_ended(value):
            if not one.listed:
                return HOLDS
            if isinstance(node, str) and node:
                self.nodes[node] = None
            return WAITS if not node and one.part.at("status").value else HOLDS
        self.gone.add(kubelet_uid(value))
        if self.refused and refusal_of(value) is not None:
            return REFUSED
        if not one.listed:
            return ENDED
        self.left["ended"] += 1
        return None

    @property
    def said(self) -> str:
        """``3 that have ended and 40 of other nodes are left out``."""
        ended, other = self.left["ended"], self.left["other"]
        parts = [f"{ended} that {'has' if ended == 1 else 'have'} ended"] if ended else []
        parts += [f"{other} of other nodes than {self.node}"] if other else []
        return f"{' and '.join(parts)} {'is' if ended + other == 1 else 'are'} left out"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to say about it."""
        said = [f"pods: {self.said}"] if self.left.total() else []
        if len(self.nodes) > 1:
            names = ", ".join(list(self.nodes)[:3]) + (", …" if len(self.nodes) > 3 else "")
            said.append(
                f"pods: they are of {len(self.nodes)} nodes ({names}), and all of them are taken; "
                "--node-name names one"
            )
        return tuple(said)


# --- pods that live -------------------------------------------------------------------------


def read_live(words: Sequence[str], node: str = "") -> "tuple[Live, tuple[str, ...]]":
    """The pods of a node by the uids that its kubelet knows, without those that ended; and remarks."""
    from numawise.node.state.folder import live_pod  # noqa: PLC0415 - few ask for it

    live: dict[str, LivePod] = {}
    sorting = Sorting(node)
    for path in manifests(words):
        known = False
        for document in pod_documents(*read_raw(path)):
            for one in objects_in(document.root):
                if one.kind != "Pod":
                    continue
                (raw,) = pods_of(one)
                pod = live_pod(one.part.mapping(), raw)
                known = known or bool(pod.uids)
                if sorting.kept(replace(one, listed=True)):
                    live.update(dict.fromkeys(pod.uids, pod))
        if not known:
            raise InputError(
                "its pods have no metadata.uid, by which the kubelet knows them",
                file=path,
                advice="give what the cluster says: kubectl get pods -A -o json",
            )
    return live, sorting.remarks


# --- for check ------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class Podless:
    """An object in which no pods were found."""

    kind: str
    place: Place
    strange: bool = False
    """Its kind is not one of Kubernetes itself: it may make pods all the same."""
    reason: str = ""
    """Where its pods are, as far as that is known."""


ManifestPart = PodSource | Podless | Finding


def read_manifest(
    document: Document, sorting: Sorting | None = None, claims: ClaimObjects | None = None
) -> Iterator[ManifestPart]:
    """The pods of one document, objects without pods, and what is wrong with it (rule 3).

    ``sorting``: which of a list count; ``claims``: where objects about claims are kept.
    """
    from numawise.codec.kubelet.forms import kubelet_configurations  # noqa: PLC0415 - check alone asks

    try:
        objects = list(objects_in(document.root))
    except InputError as problem:
        place = Place(problem.file, problem.line or 1, problem.field)
        yield found("NW002", place, "is not a Kubernetes object", fix=RECOGNISED)
        return
    runtimes = runtimes_of(objects)
    for one in objects:
        if sorting is not None and not sorting.kept(one):
            continue
        if one.kind in KUBELET or (not one.kind and kubelet_configurations(document)):
            message = f"is a kubelet configuration{f' ({one.kind})' if one.kind else ''}, not a pod"
            yield found(
                "NW002",
                _place(one.part),
                message,
                fix="pass it with --kubelet-config, or as a file of its own",
            )
        elif one.kind == "Pod":
            yield from _pod(one)
        elif (one.kind, one.name) in runtimes:
            continue
        elif is_claim_object(one):
            try:
                (claims if claims is not None else ClaimObjects()).add(one)
            except InputError as problem:
                yield _refused(one.part, problem)
        else:
            yield from _workload(one, runtimes)


def _place(part: Part) -> Place:
    error = part.error("")
    return Place(error.file, error.line or 1, error.field)


def _pod(one: Object) -> Iterator[PodSource | Finding]:
    uid = one.part.at("metadata", "uid").value
    source = PodSource(
        spec=one.part.at("spec"),
        kind="Pod",
        name=one.name,
        uid=uid if isinstance(uid, str) else "",
        metadata=one.part.at("metadata"),
    )
    try:
        (raw,) = pods_of(one)
    except InputError as problem:
        yield _refused(one.part, problem)
        yield source
        return
    yield replace(source, raw=raw, name=raw.name)


def _workload(one: Object, runtimes: Mapping[tuple[str, str], Part]) -> Iterator[ManifestPart]:
    try:
        templates = templates_of(one, runtimes)
    except InputError as problem:
        specs = list(searched(one.part))
        if not specs and (one.kind not in NATIVE or one.foreign):
            reason = problem.message if one.kind == "TrainJob" else ""
            yield Podless(one.kind, _place(one.part), strange=True, reason=reason)
            return
        yield _refused(one.part, problem)
        for spec in specs:
            yield PodSource(spec, one.kind, one.name, metadata=metadata_of(one.part, spec))
        return
    if not templates:
        yield Podless(one.kind, _place(one.part), reason=PODLESS_ADVICE.get(one.kind, ""))
    for template in templates:
        name = one.name if len(templates) == 1 else template.name
        source = PodSource(template.spec, one.kind, name, metadata=template.metadata, replicas=template.count)
        owner = f"{one.kind} {one.name}".strip()
        try:
            pod = pod_in(template.spec, template.name, owner)
        except InputError as problem:
            pod = None
            if one.foreign:
                with suppress(InputError):
                    pod = pod_in(only_known(template.spec), template.name, owner)
            yield _refused(one.part, problem, passed=pod is not None)
        yield source if pod is None else replace(source, raw=pod)


def _refused(part: Part, problem: InputError, *, passed: bool = False) -> Finding:
    """What the API server has against it (rule 3); ``passed``: a field that another schema may know."""
    place = Place(problem.file, problem.line, problem.field)
    if MISTYPED.search(problem.message) and PLACEHOLDER.search(problem.message):
        return found("NW402", place, problem.message)
    value = part.at("kind").value
    kind = value if isinstance(value, str) else ""
    message = f"{problem.field}: {problem.message}" if problem.field else problem.message
    fix = problem.advice or (SUPPORTED_WORDS if not kind else "")
    if passed:
        why = f"The pods have no such field: the schema of {kind} refuses it or drops it."
        return found("NW401", place, message, why=why, fix=fix, severity=Severity.WARNING)
    return found("NW401", place, message, fix=fix)


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

"""What is checked: everything that was named of a node, read, with all that is wrong about it as findings.

Rules kept here:

1. A file that cannot be opened is an error of the caller; a file with nonsense in it is a finding.
2. Every configuration file is a kubelet of its own; drop-ins and flags are laid over each of them.
3. A bundle has everything at once; its members are called by their place in it.
4. Objects without pods are mentioned where a file that was named has nothing else, and where their kind is
   not one of Kubernetes itself: it may make pods in a way that is not known.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, TypeVar

from numawise.codec.claims import ClaimObjects, resolved
from numawise.codec.document import Document
from numawise.codec.hardware.nrt import NodeTopology, is_topology, topologies_of
from numawise.codec.hardware.nrt_config import moved
from numawise.codec.infile import read_raw
from numawise.codec.kubelet.effective import Configuration, directory_finding
from numawise.codec.workload import FEWER, MOST_OBJECTS, pod_documents
from numawise.errors import InputError
from numawise.inputs.bundle import Bundle, open_bundle
from numawise.inputs.config import ConfigInput, read_config, read_configs, repeated_key
from numawise.inputs.machine import (
    TELL_MORE,
    MachineInput,
    read_machine,
    topology_document,
    topology_machine,
)
from numawise.inputs.pods import (
    RECOGNISED,
    Podless,
    PodSource,
    Sorting,
    is_path,
    manifests,
    names_of,
    read_manifest,
)
from numawise.inputs.recognise import marks_plugin
from numawise.inputs.spec import NodeSpec, description_of
from numawise.inputs.state import read_state
from numawise.machine.description import NodeDescription
from numawise.machine.hardware import Hardware
from numawise.machine.model import Machine
from numawise.render.progress import progress_bar
from numawise.render.words import both, bytes_text
from numawise.results.finding import Finding, Place, Severity, found
from numawise.rules.versions import DEFAULT, Version
from numawise.values import dataclass, field, replace

if TYPE_CHECKING:
    from numawise.apps.check.plugin import CheckedPlugin
    from numawise.codec.podresources import PodResources
    from numawise.inputs.plugin import PluginNamed

UNREAD = "NW002"
LOG = re.compile(rb"^(?:.{0,200}\bkubelet\[\d+\]: )?[IWEF]\d{4} \d\d:\d\d:\d\d", re.MULTILINE)
BEGINNING = 1 << 14
LOG_ADVICE = "a kubelet's log is read by 'numawise why --log FILE'"
OBJECT = re.compile(rb"^\s*[\"']?(?:kind|apiVersion)[\"']?\s*:", re.MULTILINE)
T = TypeVar("T")


@dataclass(slots=True)
class Sources:
    """What was read."""

    version: Version = DEFAULT
    configurations: list[Configuration] = field(default_factory=list)
    machine: Machine | None = None
    hardware: Hardware | None = None
    machine_file: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    """The claims that the kubelet prepared."""
    pods: list[PodSource] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """File → text, of those that may have comments."""
    claims: ClaimObjects = field(default_factory=ClaimObjects)
    """Claims, device classes and slices beside the pods."""
    findings: list[Finding] = field(default_factory=list)
    known_pods: frozenset[str] = frozenset()
    """Uids of all pods of the node, when a list of them was given."""
    remarks: list[str] = field(default_factory=list)
    terminal: IO[str] | None = None
    description: NodeDescription | None = None
    """What the Node object says."""
    plugin: "CheckedPlugin | None" = None
    """The configuration of NVIDIA's device plugin."""
    topologies: list[Document] = field(default_factory=list)
    """NodeResourceTopologies, or lists of them."""
    published: NodeTopology | None = None
    """The one that is the machine."""
    exact: Configuration | None = None
    """The configuration of a node whose exact state is published; it is not judged, but pods are by it."""


def sources(
    spec: NodeSpec, pods: tuple[str, ...] = (), version: Version = DEFAULT, terminal: IO[str] | None = None
) -> Sources:
    """Read everything that was named; ``terminal``: where to show how far that is."""
    read = Sources(version, terminal=terminal)
    bundle = open_bundle(spec.bundle) if spec.bundle else None
    if bundle is not None:
        read.texts |= bundle.all_texts
    if spec.has_config:
        named, over = spec.kubelet_config, (spec.config_dir, spec.kubelet_flags)
        configs, unread = (
            read_configs(named, *over) if isinstance(named, tuple) else ((read_config(named, *over),), ())
        )
        read.findings += [*unread, *directory_finding(spec.config_dir, version)]
        for config in configs:
            _configuration(config, read)
    elif bundle is not None:
        layered = _member(bundle.layered_config, read)
        if layered is not None:
            _configuration(layered, read)
        elif not bundle.has_config:
            _member(bundle.config_document, read)
    read.description = description_of(spec)
    if spec.device_plugin_config:
        _plugin(spec.device_plugin_config, read)
    node = spec.node_name or (bundle.node if bundle is not None else "")
    _pods(pods, bundle, node, frozenset(spec.words), read)
    if read.plugin is not None:
        read.findings += read.plugin.findings()
    published = topology_document(spec.machine)
    if published is not None:
        read.topologies.insert(0, published)
    well = not read.topologies or _published(read)
    if spec.machine and published is None:
        _machine(read_machine(spec.machine, node=spec.node_name), read)
    elif read.topologies:
        if well:
            _published_machine(spec, read)
    elif bundle is not None:
        machine = _member(bundle.machine_input, read)
        if machine is not None:
            _machine(machine, read)
    _state(spec, bundle, read)
    return read


def _answers(spec: NodeSpec, bundle: Bundle | None) -> "PodResources | None":
    """What the kubelet says of its devices (as of every other command)."""
    if spec.pod_resources:
        from numawise.codec.podresources import read_pod_resources  # noqa: PLC0415 - few ask for it

        return read_pod_resources(spec.pod_resources)
    return bundle.pod_resources() if bundle is not None and not spec.machine and not spec.state else None


def _plugin(named: "PluginNamed", read: Sources) -> None:
    """The device plugin's configuration that was named."""
    from numawise.apps.check.plugin import CheckedPlugin  # noqa: PLC0415 - few ask for it
    from numawise.inputs.plugin import OFF, plugin_input  # noqa: PLC0415

    if named == OFF or not isinstance(named, str | Mapping):
        return
    try:
        given = plugin_input(named)
    except InputError as problem:
        place = Place(problem.file, problem.line or 1, problem.field)
        read.findings.append(found("NW002", place, problem.message, fix=problem.advice))
        return
    read.texts[given.source.place.file] = given.text
    read.plugin = CheckedPlugin(given.source, given.name, read.description)


def _configuration(config: ConfigInput, read: Sources) -> None:
    read.texts |= config.texts
    read.findings += config.findings
    read.configurations.append(config.configuration(read.version))


def _machine(given: MachineInput, read: Sources) -> None:
    """The machine; what is missing to use it is reported."""
    read.machine_file = given.name
    read.hardware = given.hardware
    if read.plugin is not None:
        given, findings = read.plugin.on(given)
        read.findings += findings
    if given.missing:
        message = f"what depends on the machine is not checked: {given.missing}"
        place = Place(read.machine_file)
        read.findings.append(found("NW003", place, message, fix=TELL_MORE, severity=Severity.WARNING))
        return
    read.machine, read.published = given.machine, given.published


def _published(read: Sources) -> bool:
    """What is wrong with NodeResourceTopologies; whether there are no errors among it."""
    from numawise.apps.check.published import topology_findings  # noqa: PLC0415 - few ask for it

    findings = list(topology_findings(read.topologies, read.description, read.configurations))
    read.findings += findings
    return all(one.severity is not Severity.ERROR for one in findings)


def _published_machine(spec: NodeSpec, read: Sources) -> None:
    """The NodeResourceTopology that is meant as the machine: the only one, or that of the node."""
    node = spec.node_name or (read.description.name if read.description is not None else "")
    objects = [root for document in read.topologies for root in topologies_of(document.root)]
    meant = [root for root in objects if root.at("metadata", "name").value == node] or objects
    if len(meant) == 1:
        given = topology_machine(meant[0])
        _machine(given, read)
        if given.publication is not None:
            from numawise.inputs.published import published_config, published_release  # noqa: PLC0415 - few have it

            if not spec.kube and not read.configurations:
                read.version = published_release(given.publication, given.name).version
            read.exact = published_config(given.publication, given.name).configuration(read.version)
        if given.published is not None:
            remarks = [moved(one.name, one.raw, given.published) for one in read.configurations]
            read.remarks += filter(None, (*given.remarks[:1], *remarks))
        return
    message = f"what depends on the machine is not checked: {len(meant)} nodes are published"
    place = Place(meant[0].document.file)
    read.findings.append(found("NW003", place, message, fix="name one with --node-name"))


def _state(spec: NodeSpec, bundle: Bundle | None, read: Sources) -> None:
    """State files, and devices where the kubelet says they are."""
    state = read_state(spec.state) if spec.state else None
    if state is None and bundle is not None and bundle.texts:
        state = bundle.state()
    answers = _answers(spec, bundle) if read.machine is not None else None
    if read.machine is not None and answers is not None:
        from numawise.inputs.podresources import located  # noqa: PLC0415 - few have answers

        read.machine = located(read.machine, answers, state)
    if state is None:
        return
    if spec.match_devices and read.machine is not None:
        from numawise.node.state.matching import mapped  # noqa: PLC0415 - few ask for it

        state, remarks = mapped(state, read.machine)
        read.remarks += remarks
    read.remarks += state.remarks
    read.files, read.prepared = state.texts, state.claims
    read.paths = {file.name: str(file.path) for file in state.files}


def _pods(
    words: tuple[str, ...], bundle: Bundle | None, node: str, others: frozenset[str], read: Sources
) -> None:
    """Pods of the files; ``others``: those of which a part is something else, which is read elsewhere."""
    listed = bundle is not None and not words
    sorting = Sorting(node)
    document = bundle.pod_document() if bundle is not None else None
    named = {word for word in words if bundle is not None and not is_path(word) and bundle.pods_named(word)}
    if document is not None and (named or not words):
        for one in read_manifest(document):
            if isinstance(one, Finding):
                read.findings.append(one)
            elif isinstance(one, PodSource) and (not words or (one.raw and named & names_of(one.raw))):
                read.pods.append(one)
    for path in manifests(word for word in words if word not in named):
        before, podless = len(read.pods), list[Podless]()
        for document in _without_plugin(_documents(path, read), read):
            value = document.value
            if is_topology(value):
                read.topologies.append(document)
                continue
            listed = listed or (isinstance(value, Mapping) and str(value.get("kind", "")).endswith("List"))
            for one in read_manifest(document, sorting, read.claims):
                if isinstance(one, Finding):
                    if path not in others or one.code != UNREAD:
                        read.findings.append(one)
                elif isinstance(one, Podless):
                    podless.append(one)
                else:
                    read.pods.append(one)
            if len(read.pods) + len(read.findings) > MOST_OBJECTS:
                raise InputError(f"more than {MOST_OBJECTS:,} objects are too many", file=path, advice=FEWER)
        if path in others:
            continue
        alone = path in words and len(read.pods) == before
        if alone and podless and not any(one.kind for one in podless):
            what = "is not recognised: it has no kind"
            read.findings.append(found(UNREAD, podless[0].place, what, fix=RECOGNISED))
            continue
        read.findings += _without_pods([one for one in podless if alone or (one.strange and one.kind)])
    for at, source in enumerate(read.pods):
        if source.raw is not None and source.raw.claims:
            (raw,) = resolved((source.raw,), read.claims)
            read.pods[at] = replace(source, raw=raw)
    read.remarks += sorting.remarks
    if listed:
        read.known_pods = frozenset(pod.uid for pod in read.pods if pod.uid)


def _without_pods(podless: Sequence[Podless]) -> Iterator[Finding]:
    """What is said of objects without pods, once for a file (rule 4)."""
    reasons = {(one.kind, one.reason): one for one in reversed(podless) if one.reason}
    for one in reversed(reasons.values()):
        yield found("NW403", one.place, f"kind {one.kind}: {one.reason}")
    others = [one for one in podless if not one.reason]
    if others:
        kinds = Counter(f"kind {one.kind}" if one.kind else "an object without kind" for one in others)
        names = both([f"{kind} ({count})" if count > 1 else kind for kind, count in kinds.items()])
        yield found("NW403", others[0].place, f"{names}: no pod template inside")


def _without_plugin(documents: tuple[Document, ...], read: Sources) -> tuple[Document, ...]:
    """The documents but for configurations of the device plugin, which are kept apart."""
    if not any(marks_plugin(document.value) for document in documents):
        return documents
    from numawise.apps.check.plugin import CheckedPlugin  # noqa: PLC0415 - few ask for it
    from numawise.codec.nvidia_forms import joined, plugin_source  # noqa: PLC0415

    others: list[Document] = []
    for document in documents:
        source = plugin_source((document,))
        if source is None:
            others.append(document)
        elif read.plugin is None:
            read.plugin = CheckedPlugin(source, "", read.description)
        else:
            read.plugin = replace(read.plugin, source=joined((read.plugin.source, source)))
    return tuple(others)


def _documents(path: str, read: Sources) -> tuple[Document, ...]:
    """The documents of a file with pods (rule 1)."""
    raw, name = read_raw(path)
    commented = b"numawise:" in raw.lower()
    read.texts[name] = raw.decode("utf-8-sig", errors="surrogateescape") if commented else ""
    if LOG.search(raw[:BEGINNING]) and not OBJECT.search(raw[:BEGINNING]):
        what = "is a log, of which nothing is checked"
        read.findings.append(found(UNREAD, Place(name, 1), what, fix=LOG_ADVICE))
        return ()
    twice: list[InputError] = []
    try:
        with progress_bar(
            read.terminal, "reading", len(raw), amount=lambda size: bytes_text(int(size))
        ) as done:
            documents = pod_documents(raw, name, twice.append, done)
    except InputError as problem:
        place = Place(name, problem.line or 1, problem.field)
        if b"{{" in raw:
            read.findings.append(found("NW402", place, "is a template, and not YAML before it is filled in"))
        else:
            fix = problem.advice or ("" if OBJECT.search(raw) else RECOGNISED)
            read.findings.append(found(UNREAD, place, problem.message, fix=fix))
        return ()
    read.findings += [repeated_key(one, documents[0]) for one in twice]
    return documents


def _member(reader: Callable[[], T], read: Sources) -> T | None:
    """What a member of a bundle holds; that it has none is reported."""
    try:
        return reader()
    except InputError as problem:
        place = Place(problem.file, problem.line, problem.field)
        read.findings.append(found("NW003", place, problem.message, fix=problem.advice))
        return None

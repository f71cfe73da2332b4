"""What the files are that a person names without saying so: ``numawise check FILE…``.

Rules kept here:

1. A file is what the one loader of its kind takes it for: a bundle, state files, a machine, a Node object,
   answers of the PodResources socket, a kubelet configuration in any form, its flags, a node as it publishes
   itself.  Everything else is read as objects that make pods, and so is standard input.  A file of several
   documents may be several.
2. An option that names a part of the node wins over files of that part; configurations add up, for each is a
   kubelet of its own.  What is passed over, or cannot be taken because there are several, is said.
3. In a folder all YAML and JSON is looked at, and state files of the kubelet; a folder with ``sys`` or
   ``proc`` is a machine.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from numawise.codec.bundle.archive import is_bundle
from numawise.codec.checkpoint import PLACES
from numawise.codec.checkpoint.look import kind_of_state
from numawise.codec.checkpoint.pasted import pasted
from numawise.codec.document import Document
from numawise.codec.hardware.nrt import is_topology
from numawise.codec.infile import is_file, is_folder, is_there, read_raw
from numawise.codec.kubelet.flags import read_flags
from numawise.codec.kubelet.forms import configurations_in_text, kubelet_configurations
from numawise.codec.node import KINDS as NODE_KINDS
from numawise.codec.workload import NATIVE, pod_documents
from numawise.errors import InputError
from numawise.inputs.machine import (
    THIS,
    MachineInput,
    is_gpu_list,
    is_machine_document,
    is_machine_print,
    is_name,
    read_machine,
    with_gpu_lists,
)
from numawise.inputs.pods import manifests
from numawise.inputs.spec import NodeSpec
from numawise.values import dataclass, field, replace

BUNDLE, STATE, MACHINE, PRINT, NODE, ANSWERS, CONFIG, FLAGS, RECORD, PUBLISHED, PODS = range(11)
TITLES = {
    BUNDLE: ("a bundle", "--bundle"),
    STATE: ("a state file", "--state"),
    MACHINE: ("a machine", "--machine"),
    PRINT: ("about a machine", "--machine"),
    NODE: ("a Node object", "--node-object"),
    ANSWERS: ("answers of the PodResources socket", "--pod-resources"),
    FLAGS: ("flags of a kubelet", "--kubelet-flags"),
}
ONLY_ONE = {
    BUNDLE: "bundles",
    MACHINE: "machines",
    NODE: "files with Node objects",
    ANSWERS: "answers of a PodResources socket",
    FLAGS: "files of flags",
}
LISTED = frozenset({"podResources", "pod_resources"})
"""Where the answer of a PodResources socket has its pods."""
KIND = re.compile(rb"""kind(?:(?<=[\s{,"']kind)|(?<=^kind))["']?\s*:\s*["']?(\w+)""")
"""Begins with a word, which is looked for quickly, and then looks at what stands before it."""
POD_KINDS = frozenset({"Pod", "PodList", *NATIVE})
POD_KINDS_RAW = frozenset(kind.encode() for kind in POD_KINDS)
KUBEADM = "kubeadm.k8s.io/"
"""Its files have objects beside those that configure kubelets; alone they are read like any other."""
PLUGIN_KINDS = ("ConfigMap", "ClusterPolicy", "HelmRelease", "Application")
FLAG_FILE = re.compile(
    r"(?:\s*(?:[#;][^\n]*)?\n)*+\s*"
    r"(?:\[(?:Unit|Service)\]|(?:export\s+)?[A-Z_]*KUBE[A-Z_]*=|(?:\S*/)?kubelet\s+-|--[a-z][a-z-]+[= ])"
)
"""How a file of variables, a systemd unit or a command line of a kubelet begins."""
RECORDS = ("allocated_pods_state", "actuated_pods_state")
"""Files beside the state files that say nothing that is judged."""


@dataclass(frozen=True, slots=True)
class Recognised:
    """A node and pods, sorted out of files."""

    spec: NodeSpec
    objects: tuple[str, ...]
    """Files whose objects are looked at one by one: pods, and nodes as they publish themselves."""
    published: tuple[str, ...] = ()
    """Those of them that hold NodeResourceTopologies and nothing else."""
    remarks: tuple[str, ...] = ()
    """Files that were passed over, and why (rule 2)."""
    unclear: tuple[str, ...] = ()
    """Those of which there are several, where a node has one."""

    @property
    def pods(self) -> tuple[str, ...]:
        """Files that make pods."""
        return tuple(file for file in self.objects if file not in self.published)

    @property
    def node(self) -> NodeSpec:
        """The node alone: what it publishes of itself is its machine, and says more than another one.

        It also says how much is in use, where no state files say who has it.
        """
        if not self.published:
            return self.spec
        state = self.spec.state
        if not state and not self.spec.bundle and len(self.published) == 1:
            state = self.published
        return replace(self.spec, machine=self.published, state=state)


@dataclass(slots=True)
class _Sorted:
    files: dict[int, list[str]] = field(default_factory=dict)
    order: dict[str, None] = field(default_factory=dict)

    def add(self, kind: int, word: str) -> None:
        self.order[word] = None
        words = self.files.setdefault(kind, [])
        if word not in words:
            words.append(word)

    def of(self, kind: int) -> tuple[str, ...]:
        return tuple(self.files.get(kind, ()))

    @property
    def objects(self) -> tuple[str, ...]:
        both = {*self.of(PUBLISHED), *self.of(PODS)}
        return tuple(word for word in self.order if word in both)


def recognised(spec: NodeSpec, words: Iterable[str]) -> Recognised:
    """Every file in the place of its option (rules 1 and 2)."""
    found = _Sorted()
    for word in words:
        for kind, file in _word(word):
            found.add(kind, file)
    remarks: list[str] = []
    unclear: list[str] = []
    named = {
        BUNDLE: bool(spec.bundle),
        STATE: bool(spec.state),
        MACHINE: not isinstance(spec.machine, tuple | list) or bool(spec.machine),
        NODE: bool(spec.node_object),
        ANSWERS: bool(spec.pod_resources),
        FLAGS: bool(spec.kubelet_flags),
    }
    named[PRINT] = named[MACHINE]
    spec = _with_gpu_lists(spec, found)
    for kind, (title, option) in TITLES.items():
        files = found.of(kind)
        if files and named[kind]:
            remarks += [f"{file}: {title}, passed over, as {option} names another" for file in files]
            del found.files[kind]
        elif kind in ONLY_ONE and len(files) > 1:
            several = f"{files[0]} and {files[1]}" + (", …" if len(files) > 2 else "")
            unclear.append(f"{several} are {len(files)} {ONLY_ONE[kind]}")
            remarks.append(f"{unclear[-1]}: none is taken; {option} names one")
            del found.files[kind]
    remarks += [f"{file}: a record of the kubelet's in which nothing is judged" for file in found.of(RECORD)]
    configs = found.of(CONFIG)
    if configs and isinstance(spec.kubelet_config, tuple):
        spec = replace(spec, kubelet_config=tuple(dict.fromkeys((*spec.kubelet_config, *configs))))
    elif configs:
        remarks += [f"{file}: a configuration was given already, which is taken" for file in configs]
    machines = (*found.of(MACHINE), *found.of(PRINT))
    spec = replace(
        spec,
        bundle=spec.bundle or next(iter(found.of(BUNDLE)), ""),
        state=spec.state or found.of(STATE),
        node_object=spec.node_object or next(iter(found.of(NODE)), ""),
        pod_resources=spec.pod_resources or next(iter(found.of(ANSWERS)), ""),
        kubelet_flags=spec.kubelet_flags or next(iter(found.of(FLAGS)), ""),
        machine=machines or spec.machine,
    )
    return Recognised(spec, found.objects, found.of(PUBLISHED), tuple(remarks), tuple(unclear))


def _with_gpu_lists(spec: NodeSpec, found: _Sorted) -> NodeSpec:
    """The machine of a name or a description with the lists of its GPUs, which take nothing's place."""
    machine = spec.machine
    is_known = isinstance(machine, MachineInput) and machine.exact is None
    if not is_known and not (isinstance(machine, tuple) and len(machine) == 1 and is_name(str(machine[0]))):
        return spec
    lists = [file for file in found.of(PRINT) if is_gpu_list(file)]
    if not lists or machine == (THIS,):
        return spec
    found.files[PRINT] = [file for file in found.of(PRINT) if file not in lists]
    return replace(spec, machine=with_gpu_lists(read_machine(machine), lists))


def _word(word: str) -> Iterator[tuple[int, str]]:
    """What a word stands for; a folder: what is in it (rule 3)."""
    if word == "-" or not is_there(word):
        yield PODS, word
    elif is_bundle(word):
        yield BUNDLE, word
    elif is_file(word):
        yield from ((kind, word) for kind in _file(word))
    elif is_folder(word):
        yield from _folder(word)
    else:
        yield PODS, word


def _folder(word: str) -> Iterator[tuple[int, str]]:
    folder = Path(word)
    if is_folder(folder / "sys") or is_folder(folder / "proc"):
        yield MACHINE, word
        return
    has_state = any(is_file(folder / place) for places in PLACES.values() for place in places)
    if has_state:
        yield STATE, word
    try:
        files = list(manifests((word,)))
    except InputError:
        if not has_state:
            raise
        return
    for file in files:
        for kind in _file(file):
            if not (has_state and kind == STATE):
                yield kind, file


def _file(path: str) -> tuple[int, ...]:
    """What a file is; several where its documents differ."""
    try:
        raw, name = read_raw(path)
    except InputError:
        return (PODS,)  # where it is read, it is said why it cannot be
    file = Path(path).name
    if file.startswith((*PLACES, *RECORDS)):
        return (STATE,) if not file.startswith(RECORDS) else (RECORD,)
    kinds = set(KIND.findall(raw))
    if kinds and kinds <= POD_KINDS_RAW:
        return (PODS,)
    text = raw.decode(
        "utf-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig", errors="replace"
    )
    if b"checksum" in raw.lower() and (kind_of_state(text) or any(map(kind_of_state, pasted(text)))):
        return (STATE,)
    try:
        if configurations_in_text(text, name):
            return (CONFIG,)
        documents = pod_documents(raw, name)
    except InputError:
        documents = ()
    found = {kind for document in documents for kind in _document(document)}
    if found > {PUBLISHED}:  # beside others it is one of their objects
        found = found - {PUBLISHED} | {PODS}
    if found - {PODS} or kinds:
        return tuple(sorted(found)) or (PODS,)
    if is_machine_print(text, name):
        return (PRINT,)
    if FLAG_FILE.match(text) and read_flags(text):
        return (FLAGS,)
    return (PODS,)


def _document(document: Document) -> Iterator[int]:
    value: Any = document.value
    if not isinstance(value, Mapping):
        yield PODS
        return
    kind = value.get("kind")
    kind = kind if isinstance(kind, str | None) else ""
    if is_topology(value):
        yield PUBLISHED
    elif is_machine_document(value):
        yield MACHINE
    elif kind in NODE_KINDS and _has_nodes(value):
        yield NODE
        if not all(_is_node(item) for item in value.get("items") or ()):
            yield PODS
    elif kind is None and any(
        LISTED & set(part) for part in (value, *value.values()) if isinstance(part, Mapping)
    ):
        yield ANSWERS
    elif kind in POD_KINDS or _is_plugin(document):
        yield PODS
    elif _has_configuration(document):
        yield CONFIG
    elif not str(value.get("apiVersion")).startswith(KUBEADM):
        yield PODS


def _has_nodes(value: Mapping[str, Any]) -> bool:
    items = value.get("items")
    if value["kind"] == "Node":
        return True
    return isinstance(items, list) and (value["kind"] == "NodeList" or any(map(_is_node, items)))


def _is_node(item: object) -> bool:
    return isinstance(item, Mapping) and item.get("kind") == "Node"


def _has_configuration(document: Document) -> bool:
    try:
        return bool(kubelet_configurations(document))
    except InputError:  # it is one, with something wrong inside
        return True


def _is_plugin(document: Document) -> bool:
    if not marks_plugin(document.value):
        return False
    from numawise.codec.nvidia_forms import plugin_source  # noqa: PLC0415 - few are

    return plugin_source((document,)) is not None


def marks_plugin(value: object) -> bool:
    """Whether a document may be about NVIDIA's device plugin: a quick look."""
    if not isinstance(value, Mapping):
        return False
    return "kind" not in value or value.get("kind") in PLUGIN_KINDS

"""Which machine a person names: every form that any command takes, read by one function.

Rules kept here:

1. ``this`` is the machine we run on, a name of the catalogue that machine; write ``./name`` for a file of
   the same name.  Then comes what exists: a bundle, a folder with the machine's ``/sys`` or with a machine
   file, a file; then a description such as ``2s 4n 64c 8gpu``, in one word or in several.
2. A file is known by its content: a machine file, saved hardware, a NodeResourceTopology, or any print that
   ``discover`` reads.  A machine file alone is taken to the letter; several files become one machine.  Lists
   of GPUs (``nvidia-smi -L``) stand beside a name or a description, too, and give its GPUs their UUIDs.
3. ``-`` is standard input, with anything that a file may hold.
4. What the kubelet would see of the machine is worked out when it is asked for; what is missing for that is
   an error then, not before.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from numawise.codec.bundle.archive import is_bundle
from numawise.codec.document import Document, Part, read_documents
from numawise.codec.infile import is_file, is_folder, is_there, name_of, read_raw
from numawise.codec.machine import decode_machine, encode_machine
from numawise.errors import InputError, meant, quoted
from numawise.machine.hardware import ASSUMED, Hardware, MemoryNode, Remark, hardware_of
from numawise.machine.model import Machine
from numawise.values import dataclass, replace

if TYPE_CHECKING:
    from numawise.codec.hardware.nrt import NodeTopology
    from numawise.gpus.nvidia_plugin import PluginConfig
    from numawise.results.publication import Publication

THIS = "this"
LIVE = Path("/")
TOPOLOGY = "NodeResourceTopology"
SUFFIXES = (".yaml", ".yml", ".json")
MACHINE_FILES = ("machine.yaml", "machine.yml", "machine.json")
SNIFFED = 1 << 16
XML_ROOT = re.compile(r"<(topology|root|system)[\s>/]")
OWN_KIND = re.compile(r"apiVersion:\s*numawise|kind:\s*Hardware")
DOCUMENT = re.compile(
    r'"topology"\s*:\s*\[|^kind:\s*Hardware|"kind"\s*:\s*"Hardware"|^numa:|"numa"\s*:\s*\[|^cpus:|'
    r"NodeResourceTopology",
    re.MULTILINE,
)
WORDS = ("topology", "Hardware", "numa", "cpus", "NodeResourceTopology")
"""One of them is in every text that the pattern finds."""
FORMS = (
    "give a file, a folder, a bundle, a name from 'numawise machine list', 'this', or a description like "
    "'2s 4n 64c 2t 8gpu nvlink 512g'"
)
OWN_ATTRIBUTES = frozenset({"numawise.dev/node", "numawise.dev/state"})
"""Of a NodeResourceTopology that has the exact state of its node."""
PRINTS = "give the output of lscpu, numactl -H, nvidia-smi topo -m, lstopo --of xml or numawise discover"
TELL_MORE = "add a reading that says more, such as lscpu -e or lstopo --of xml"


@dataclass(frozen=True, slots=True)
class MachineInput:
    """A machine that the user named."""

    hardware: Hardware
    """All that is known about it."""
    name: str = ""
    """What to call it in messages: a file, or the words."""
    exact: Machine | None = None
    """What a machine file says, to the letter."""
    node: str = ""
    """The node's name in a cluster, where that is known."""
    plugin: "PluginConfig | None" = None
    """The configuration of NVIDIA's device plugin; None: its defaults, or what a machine file says."""
    published: "NodeTopology | None" = None
    """The NodeResourceTopology that it was read from, where that has no CPU ids."""
    publication: "Publication | None" = None
    """The exact state of the node, where that object has it."""

    @property
    def missing(self) -> str:
        """What would have to be known for a kubelet to see this machine; '' when nothing is missing."""
        seen = self._seen()
        return "" if isinstance(seen, Machine) else "; ".join(remark.text for remark in seen)

    @property
    def machine(self) -> Machine:
        """What the kubelet would see."""
        seen = self._seen()
        if isinstance(seen, Machine):
            return seen
        missing = "; ".join(remark.text for remark in seen)
        advice = f"{TELL_MORE}; numawise discover --machine --assume fills in what it can"
        raise InputError(f"the CPU topology is not known: {missing}", file=self.name, advice=advice)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed about it because its form cannot say it."""
        doubts = (remark for remark in self.hardware.remarks if remark.kind == ASSUMED)
        return tuple(f"{self.name}: {remark.text}" for remark in doubts if remark.place == TOPOLOGY)

    def _seen(self) -> Machine | tuple[Remark, ...]:
        if self.exact is not None and self.plugin is None:
            return self.exact
        from numawise.gpus.nvidia_plugin import with_plugin  # noqa: PLC0415 - machine files do without
        from numawise.machine.kubelet_view import kubelet_view  # noqa: PLC0415

        if self.exact is not None:
            return with_plugin(self.exact, None, self.plugin)
        seen = kubelet_view(self.hardware)
        return with_plugin(seen, self.hardware, self.plugin) if isinstance(seen, Machine) else seen


Named = str | Path | Sequence[str | Path] | Machine | Hardware | Mapping[str, object] | MachineInput
"""What ``read_machine`` takes: words as on a command line, or a value that is made already."""


def read_machine(named: Named, *, node: str = "") -> MachineInput:
    """The machine that is meant; ``node``: which one, where a file lists several."""
    match named:
        case MachineInput():
            return named
        case Machine():
            return MachineInput(hardware_of(named), exact=named)
        case Hardware():
            return MachineInput(named, named.name)
        case Mapping():
            return _value(Document(named, "machine"), "machine", "", node)
        case str() | Path():
            return _words((str(named),), node)
    return _words(tuple(map(str, named)), node)


def topology_document(named: Named) -> Document | None:
    """The document of a file with NodeResourceTopologies; None: the machine is something else."""
    words = (named,) if isinstance(named, str | Path) else named
    if (
        not isinstance(words, Sequence)
        or len(words) != 1
        or not is_file(words[0])
        or is_bundle(str(words[0]))
    ):
        return None
    text, name = _text(str(words[0]))
    documents = _documents(text, name)
    return documents[0] if len(documents) == 1 and _is_topology(documents[0].value) else None


def topology_machine(root: Part, node: str = "", name: str = "") -> MachineInput:
    """The machine of an object, or of that of ``node`` in a list; ``name``: what to call it in messages."""
    from numawise.codec.hardware.nrt import read_topology  # noqa: PLC0415 - machine files do without

    topology = read_topology(root, node)
    name = name or root.document.file
    if OWN_ATTRIBUTES.intersection(topology.attributes):
        from numawise.inputs.published import publication_in, published_hardware  # noqa: PLC0415 - few have it

        exact = publication_in(topology, name)
        if exact is not None:
            hardware = published_hardware(exact, topology.node)
            return MachineInput(hardware, name, exact.machine, topology.node, publication=exact)
    return MachineInput(topology.hardware, name, topology.machine, topology.node, published=topology)


def is_name(word: str) -> bool:
    """Whether a word means a machine by itself, whatever files there are."""
    return word == THIS or _in_catalogue(word) or _is_described(word)


def _in_catalogue(word: str) -> bool:
    if "/" in word or word.endswith(SUFFIXES):  # no name is like this
        return False
    from numawise.machine.catalog import CATALOG  # noqa: PLC0415 - files do without

    return word in CATALOG


def _is_described(word: str) -> bool:
    from numawise.machine.synthetic import is_synthetic  # noqa: PLC0415 - files do without

    return is_synthetic(word)


def _described(text: str) -> MachineInput:
    from numawise.machine.synthetic import synthetic  # noqa: PLC0415 - files do without

    return MachineInput(synthetic(text), text)


def discover(root: Path | None = None, files: Sequence[str] = (), *, assume: bool = False) -> Hardware:
    """Read this machine, a copy of its files below ``root``, or the given prints; several become one."""
    from numawise.codec.hardware.combine import combine  # noqa: PLC0415 - machine files do without

    parts: list[Hardware] = []
    if root is not None or not files:
        parts.append(_host(root or LIVE))
    for file in files:
        parts += _readings(*_text(file))
    return combine(parts, assume=assume)


def machine_data(hardware: Hardware) -> dict[str, object]:
    """The machine file that ``--machine`` takes: what the kubelet would see."""
    return encode_machine(MachineInput(hardware).machine)


# --- words ----------------------------------------------------------------------------------


def _words(words: tuple[str, ...], node: str) -> MachineInput:
    if not words or words == (THIS,):
        return _titled(discover(), "this machine", THIS)
    if len(words) == 1:
        return _one(words[0], node)
    named = [word for word in words if is_name(word) and word != THIS and not is_there(word)]
    lists = [word for word in words if word not in named]
    if len(named) == 1 and all(is_file(word) and not is_bundle(word) for word in lists):
        return with_gpu_lists(_one(named[0], node), lists)
    if _is_described(words[0]) and not is_there(words[0]):
        return _described(" ".join(words))
    folders = [word for word in words if word != "-" and is_folder(word) and not is_bundle(word)]
    files = [word for word in words if word == "-" or (is_file(word) and not is_bundle(word))]
    for word in words:
        if _in_catalogue(word) or (word not in files and word not in folders):
            if not _in_catalogue(word) and word != THIS and not is_bundle(word):
                raise _unknown(word)
            other = next((one for one in words if one != word), word)
            raise InputError(
                f"{quoted(word)} and {quoted(other)} name two machines", advice="give one of them"
            )
    if len(folders) > 1:
        raise InputError(
            f"{quoted(folders[0])} and {quoted(folders[1])} name two machines", advice="give one of them"
        )
    first = words[0]
    title = _title(first) if first in files else Path(first).resolve().name
    return _titled(discover(Path(folders[0]) if folders else None, files), title, name_of(first))


def is_gpu_list(file: str) -> bool:
    """Whether a file has nothing but lists of GPUs."""
    try:
        parts = list(_readings(*_text(file)))
    except InputError:
        return False
    return all(map(_only_gpus, parts)) and bool(parts)


def _only_gpus(part: Hardware) -> bool:
    return bool(part.gpus) and part == Hardware(gpus=part.gpus, sources=part.sources, remarks=part.remarks)


def with_gpu_lists(machine: MachineInput, files: Sequence[str]) -> MachineInput:
    """A known machine whose GPUs are listed in files, with their UUIDs (rule 2)."""
    from numawise.codec.hardware.combine import combine  # noqa: PLC0415 - machine files do without

    gpus = {gpu.name for gpu in machine.hardware.gpus}
    parts = [machine.hardware]
    for file in files:
        for part in _readings(*_text(file)):
            if not _only_gpus(part):
                what = f"{quoted(machine.name)} and {quoted(file)} name two machines"
                advice = "give one of them; beside a name, only what nvidia-smi -L prints"
                raise InputError(what, advice=advice)
            if more := {gpu.name for gpu in part.gpus if not gpu.parent} ^ gpus:
                what = f"lists other GPUs than the {len(gpus)} of {machine.name}: {min(more)} is in one alone"
                raise InputError(what, file=file, advice="give the list of the same machine")
            parts.append(part)
    return replace(machine, hardware=replace(combine(parts), name=machine.hardware.name))


def _one(word: str, node: str) -> MachineInput:
    """The machine of one word (rule 1)."""
    if _in_catalogue(word):
        from numawise.machine.catalog import machine_named  # noqa: PLC0415 - files do without

        return MachineInput(machine_named(word), word)
    if is_bundle(word):
        from numawise.inputs.bundle import open_bundle  # noqa: PLC0415 - few ask for it

        return open_bundle(word).machine_input()
    if word == "-":
        return _file(word, node)
    if is_folder(word):
        path = Path(word)
        for name in MACHINE_FILES:
            if is_file(path / name) and not is_folder(path / "sys"):
                return _file(str(path / name), node)
        if not is_folder(path / "sys") and not is_folder(path / "proc"):
            advice = "give a copy of a machine's /sys and /proc, or a folder with machine.yaml"
            raise InputError("has neither sys nor proc nor machine.yaml", file=word, advice=advice)
        return _titled(discover(path), path.resolve().name, word)
    if is_there(word):
        return _file(word, node)
    if _is_described(word):
        return _described(word)
    raise _unknown(word)


def _unknown(word: str) -> InputError:
    from numawise.machine.catalog import CATALOG  # noqa: PLC0415 - files do without

    close = meant(word, CATALOG)
    question = f"did you mean {quoted(close)}? " if close else ""
    what = f"{quoted(word)} is neither a file, a folder nor a machine of the catalogue"
    return InputError(what, field="--machine", advice=f"{question}{FORMS}")


def _titled(hardware: Hardware, title: str, name: str) -> MachineInput:
    return MachineInput(hardware if hardware.name else replace(hardware, name=title), name)


def _title(path: str) -> str:
    """What to call the machine of a file: the file, or its folder where the file is just called machine."""
    file = Path(path)
    return "" if path == "-" else file.resolve().parent.name if file.stem == "machine" else file.stem


def _host(root: Path) -> Hardware:
    from numawise.host.discover import read_live  # noqa: PLC0415 - only this needs it

    if not is_folder(root):
        what = "is not a folder" if is_there(root) else "does not exist"
        raise InputError(what, file=str(root), advice="give the folder that stands for /")
    return read_live(None if root == LIVE else root)


# --- files ----------------------------------------------------------------------------------


def _text(file: str) -> tuple[str, str]:
    raw, name = read_raw(file)
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):  # what PowerShell redirects
        return raw.decode("utf-16", errors="replace"), name
    return raw.decode("utf-8-sig", errors="replace"), name


def _file(path: str, node: str) -> MachineInput:
    """The machine of one file (rule 2)."""
    text, name = _text(path)
    documents = _documents(text, name)
    if documents and _is_one(documents[0].value):
        if len(documents) > 1:
            message = f"holds {len(documents)} documents; expected one machine"
            raise InputError(message, file=name, line=documents[1].line(()))
        return _value(documents[0], name, _title(path), node)
    from numawise.codec.hardware.combine import combine  # noqa: PLC0415 - machine files do without

    try:
        return _titled(combine(list(_readings(text, name))), _title(path), name)
    except InputError:
        if path.endswith(SUFFIXES):
            return _value(read_documents(read_raw(path)[0], name)[0], name, _title(path), node)
        raise


def _is_one(value: object) -> bool:
    """A document with a machine of its own form, or what is meant as one."""
    if _is_hardware(value) or _is_topology(value):
        return True
    return isinstance(value, Mapping) and ("cpus" in value or "numa" in value) and "topology" not in value


def is_machine_document(value: object) -> bool:
    """Whether a document is a machine in a form of ours, or a NodeResourceTopology."""
    if _is_hardware(value) or _is_topology(value):
        return True
    return isinstance(value, Mapping) and {"cpus", "numa"} <= set(value)


def is_machine_print(text: str, name: str) -> bool:
    """Whether a text is what a tool says of a machine."""
    try:
        return bool(list(_readings(text, name)))
    except InputError:
        return False


def _is_hardware(value: object) -> bool:
    if not isinstance(value, Mapping) or "kind" not in value:
        return False
    from numawise.codec.hardware.encode import is_hardware  # noqa: PLC0415 - machine files do without

    return is_hardware(value)


def _is_topology(value: object) -> bool:
    if not isinstance(value, Mapping) or "kind" not in value:
        return False
    from numawise.codec.hardware.nrt import is_topology  # noqa: PLC0415 - machine files do without

    return is_topology(value)


def _value(document: Document, name: str, title: str, node: str) -> MachineInput:
    value = document.value
    if _is_hardware(value):
        from numawise.codec.hardware.encode import hardware_from  # noqa: PLC0415 - machine files do without

        return _titled(hardware_from(document), title, name)
    if _is_topology(value):
        return topology_machine(document.root, node, name)
    machine = decode_machine(document)
    return MachineInput(hardware_of(machine, title), name, machine)


def _readings(text: str, name: str) -> Iterator[Hardware]:
    """Everything that a text says: one in a format of its own, one print, or several in a row."""
    structured = _structured(text, name)
    if structured is not None:
        yield structured
        return
    from numawise.codec.hardware.recognise import READERS, split  # noqa: PLC0415 - many readers

    known = False
    for kind, part in split(text):
        reading = READERS[kind](part, name) if kind in READERS else _structured(part, name)
        if reading is not None:
            known = True
            yield reading
    if not text.strip():
        raise InputError("is empty", file=name, advice=PRINTS)
    if not known:
        raise InputError("contains nothing about hardware", file=name, advice=PRINTS)


def _documents(text: str, name: str) -> tuple[Document, ...]:
    """The documents of a text that looks like YAML or JSON about a machine; none for prints."""
    body = text.lstrip("\ufeff \t\r\n")
    if body.startswith("<") or not any(word in body for word in WORDS) or not DOCUMENT.search(body):
        return ()
    try:
        return read_documents(text, name)
    except InputError:
        if body.startswith("{") or OWN_KIND.match(body) or re.search(r"^(cpus|numa):", body, re.MULTILINE):
            raise
        return ()


def _structured(text: str, name: str) -> Hardware | None:
    """What a text in a format of its own says; None for prints."""
    body = text.lstrip("\ufeff \t\r\n")
    if body.startswith("<"):
        from numawise.codec.hardware import hwloc, nccl  # noqa: PLC0415 - few ask for it

        root = XML_ROOT.search(body[:SNIFFED])
        reader = {"topology": hwloc.read, "root": hwloc.read, "system": nccl.read}.get(
            root[1] if root else ""
        )
        return reader(text, name) if reader else None
    documents = _documents(text, name)
    if not documents:
        return None
    value = documents[0].value
    if _is_hardware(value) or _is_topology(value):
        given = _value(documents[0], name, "", "")
        exact = _is_hardware(value) or given.publication is not None
        return given.hardware if exact else _without_ids(given.hardware)
    if not isinstance(value, Mapping):
        return None
    if {"cpus", "numa"} <= set(value):
        return hardware_of(decode_machine(documents[0], devices_anywhere=True))
    if "topology" in value:
        from numawise.codec.hardware import cadvisor  # noqa: PLC0415 - few ask for it

        return cadvisor.read(text, name)
    return None


def _without_ids(hardware: Hardware) -> Hardware:
    """What a NodeResourceTopology says beside other readings, which know the CPUs."""
    nodes = tuple(
        MemoryNode(node.id, memory=node.memory, hugepages=node.hugepages, distances=node.distances)
        for node in hardware.numa
    )
    return Hardware(numa=nodes, name=hardware.name, sources=hardware.sources)

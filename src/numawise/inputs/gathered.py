"""Where the parts of a node are looked for, a kubelet's settings in their parts, and notes on the looking."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numawise.codec.bundle.manifest import Names
from numawise.codec.document import Document
from numawise.codec.kubelet.effective import by_files
from numawise.codec.kubelet.flags import Flag
from numawise.host.kubelet import Running
from numawise.rules.versions import Version
from numawise.values import dataclass, field

MACHINE, CONFIG, STATE, PODS, VERSION = "machine", "configuration", "state files", "pods", "kubelet version"
POD_RESOURCES, NODE = "PodResources", "Node object"


@dataclass(frozen=True, slots=True)
class NodeSources:
    """Where to look."""

    root: Path | None = None
    """A copy of the host's files, or where the host's root is mounted; None: this host."""
    kubelet_dir: str = ""
    kubelet_config: str = ""
    pods: tuple[str, ...] = ()
    """Files or addresses."""
    configz: str = ""
    pod_resources: str = ""
    """A file with what the kubelet's PodResources socket answers, in place of the socket."""
    node_object: str = ""
    """A file with the Node object, in place of the API server."""
    kubeconfig: str = ""
    context: str = ""
    node: str = ""
    kube: str = ""
    keep_names: bool = False

    @property
    def top(self) -> Path:
        """The root of the host."""
        return self.root or Path("/")

    @property
    def asks_cluster(self) -> bool:
        """True when the API server is to be asked."""
        return bool(self.kubeconfig or self.context)


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about the gathering: what may stand in a bundle, and what whoever gathers may see."""

    text: str
    """Words of ours, without anything that was read."""
    path: str = ""
    """What it is about, to stand before it."""
    detail: str = ""
    """The whole sentence with everything in it, where that says more."""

    def packed(self, names: Names) -> str:
        """For a bundle."""
        return f"{names.path(self.path)} {self.text}".strip()

    @property
    def said(self) -> str:
        """For the terminal of whoever gathers."""
        return self.detail or f"{self.path} {self.text}".strip()


@dataclass(slots=True)
class Notes:
    """What is known about the gathering itself."""

    sources: dict[str, list[Note]] = field(default_factory=dict)
    absent: list[tuple[str, Note]] = field(default_factory=list)
    remarks: list[Note] = field(default_factory=list)

    def missing(self, what: str, why: str, path: str = "", detail: str = "") -> None:
        """Something could not be had."""
        self.absent.append((what, Note(why, path, detail)))

    def found(self, what: str, where: str = "", path: str = "") -> None:
        """Something was read somewhere."""
        self.sources.setdefault(what, []).append(Note(where, path))

    def remark(self, text: str, path: str = "", detail: str = "") -> None:
        """Something to know."""
        self.remarks.append(Note(text, path, detail))


@dataclass(frozen=True, slots=True)
class KubeletParts:
    """A kubelet's configuration in its parts, and where it keeps its state."""

    base: Document | None = None
    drop_ins: tuple[Document, ...] = ()
    flags: tuple[Flag, ...] = ()
    running: Running | None = None
    directory: str = "/var/lib/kubelet"
    broken: bool = False
    """Its file is missing or unreadable, so that the other parts do not show what it runs with."""

    def together(self, version: Version) -> dict[str, Any] | None:
        """What the parts result in; None when there are none, or the file is missing."""
        return None if self.broken else by_files(self.base, self.drop_ins, self.flags, version)

    @property
    def flag(self) -> Mapping[str, str]:
        """Flag → its last value."""
        return {flag.name: flag.value for flag in self.flags if flag.value is not None}

"""What is wanted of a node, and what was found there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numawise.codec.document import Document, Part
from numawise.codec.kubelet.effective import by_files
from numawise.codec.kubelet.flags import Flag
from numawise.host.kubelet import Running
from numawise.machine.hardware import Hardware
from numawise.machine.model import Machine
from numawise.results.bundle import AbsentPart
from numawise.rules.versions import Version
from numawise.values import dataclass, field

MACHINE, CONFIG, STATE, PODS, VERSION = "machine", "configuration", "state files", "pods", "kubelet version"


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """Where to look."""

    root: Path | None = None
    """A copy of the host's files, or where the host's root is mounted; None: this host."""
    kubelet_dir: str = ""
    kubelet_config: str = ""
    pods: tuple[str, ...] = ()
    """Files or addresses."""
    configz: str = ""
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


@dataclass(slots=True)
class Notes:
    """What is known about the gathering itself."""

    sources: dict[str, str] = field(default_factory=dict)
    absent: list[AbsentPart] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def missing(self, what: str, why: str) -> None:
        """Something could not be had."""
        self.absent.append(AbsentPart(what, why))

    def found(self, what: str, where: str) -> None:
        """Something was read somewhere; several places of one thing are joined."""
        before = self.sources.get(what)
        self.sources[what] = f"{before}, {where}" if before else where


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


@dataclass(frozen=True, slots=True)
class Collected:
    """Everything about a node, names and all."""

    hardware: Hardware
    machine: Machine | None
    parts: KubeletParts
    configz: Mapping[str, Any] | None
    state: Mapping[str, str]
    """State file → text."""
    pods: tuple[Part, ...]
    node: str
    machine_id: str
    versions: Mapping[str, str]
    notes: Notes

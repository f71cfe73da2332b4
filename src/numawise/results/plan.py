"""Plans as values: a kubelet configuration with its reasons, pods made ready, a switch of configurations."""

from collections.abc import Mapping, Sequence
from typing import Any, Union

from numawise.machine.model import Machine
from numawise.results.alignment import Alignment
from numawise.rules.versions import DEFAULT, Version
from numawise.values import dataclass, field

TRAINING, INFERENCE, LATENCY = "training", "inference", "latency"
GOALS = (TRAINING, INFERENCE, LATENCY)
KUBELET_DIRECTORY = "/var/lib/kubelet"
Manifest = dict[str, Any]
"""A Kubernetes object as plain values."""


# --- kubelet configurations -------------------------------------------------------------------

Value = Union[str, int, bool, "tuple[Entry, ...]", "tuple[tuple[Entry, ...], ...]"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A field, its value, and why it is there."""

    name: str
    value: Value
    """A scalar, the fields of a mapping, or a list of such."""
    why: str = ""


def plain(entries: Sequence[Entry]) -> dict[str, object]:
    """The fields without their reasons."""
    return {entry.name: _plain(entry.value) for entry in entries}


def _plain(value: Value) -> object:
    if not isinstance(value, tuple):
        return value
    if not value or isinstance(value[0], Entry):
        return {entry.name: _plain(entry.value) for entry in value if isinstance(entry, Entry)}
    return [plain(member) for member in value if isinstance(member, tuple)]


@dataclass(frozen=True, slots=True)
class PlanGoal:
    """What a node is for, and what is to be kept for its system."""

    goal: str = TRAINING
    version: Version = DEFAULT
    cpus: int | None = None
    """CPUs to reserve; None: as many as seem right."""
    memory: int | None = None
    """Bytes to reserve, eviction included."""
    alpha: bool = False
    """Options may be used that are alpha in the release."""
    hugepages: tuple[tuple[str, int], ...] = ()
    """Pages to have on every NUMA node with CPUs: size and number."""


@dataclass(frozen=True, slots=True)
class NumaCapacity:
    """What one NUMA node can give to pods."""

    numa: int
    cpus: int
    """How many, reserved ones left out."""
    memory: int
    """Bytes; of all that is there when memory is not pinned."""
    devices: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class KubeletPlan:
    """A configuration, and why it is as it is."""

    goal: PlanGoal
    machine: Machine
    entries: tuple[Entry, ...]
    capacities: tuple[NumaCapacity, ...]
    trial: str
    """What was tried on it, and what came of it."""
    remarks: tuple[str, ...] = ()
    kept: Mapping[str, object] = field(default_factory=dict)
    """Fields of the node's own configuration that are not the managers'."""

    @property
    def config(self) -> dict[str, object]:
        """The configuration as plain values."""
        return {**plain(self.entries), **self.kept}


# --- pods -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """One thing that was changed in a manifest."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of a pod that was tried."""

    admitted: bool
    aligned: bool
    text: str
    alignment: Alignment | None = None
    """Of an admitted one: what is aligned, and why the rest is not."""
    fits: int = 0
    """How many such pods the node takes, this one included."""
    crosses: str = ""
    """Why it does not fit one NUMA node."""
    instead: tuple[str, ...] = ()
    """What would be aligned, tried."""


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """One object with its pod made ready."""

    name: str
    kind: str
    changes: tuple[ManifestChange, ...]
    proof: Proof | None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodPlan:
    """All objects of all files, and what was done to those that make pods."""

    manifests: tuple[Manifest, ...]
    pods: tuple[PlannedPod, ...]

    @property
    def good(self) -> bool:
        """True when every pod that was tried is admitted and aligned."""
        return all(pod.proof is None or (pod.proof.admitted and pod.proof.aligned) for pod in self.pods)


# --- switches ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of the configuration that changes; None: it is not set."""

    name: str
    old: object
    new: object


@dataclass(frozen=True, slots=True)
class StateFileVerdict:
    """What happens to one state file."""

    name: str
    remove: bool
    why: str
    """For a file that goes, what the kubelet would say."""


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """What becomes of a pod."""

    name: str
    restart: str
    """When the kubelet just restarts; '' when that is not known, or not what happens."""
    created_again: str
    """When it is created again on the empty node; '' when that is not known."""
    words: str = ""
    """The kubelet's reason when it is refused."""

    @property
    def refused(self) -> bool:
        """True when it will not run after the switch, or not again once it ends."""
        return any(verdict not in ("", "admitted") for verdict in (self.restart, self.created_again))


@dataclass(frozen=True, slots=True)
class KubeletPlace:
    """Where a kubelet's files are, and what runs it."""

    node: str = ""
    """Name of the node; '' when it is to be asked of the host."""
    directory: str = KUBELET_DIRECTORY
    config: str = f"{KUBELET_DIRECTORY}/config.yaml"
    service: str = "kubelet"
    drain_timeout: str = "15m"


@dataclass(frozen=True, slots=True)
class SwitchStep:
    """One step of a switch."""

    title: str
    commands: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class PlatformPlan:
    """A switch as the node's platform has it done."""

    name: str
    title: str
    found: str
    """What showed that it is this platform."""
    regenerates: str
    """What becomes of a file that is edited on the node."""
    file: str
    """What to call the file with the platform's object."""
    text: str
    refused: tuple[tuple[str, str], ...] = ()
    """Fields that cannot be set there, and why."""
    steps: tuple[SwitchStep, ...] = ()
    """None: the steps on the node itself."""
    in_place: bool = False
    """The nodes stay, with their state files; else the platform replaces them, or removes the files."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """The way from one configuration to another."""

    version: Version
    fields: tuple[FieldChange, ...]
    files: tuple[StateFileVerdict, ...] = ()
    drain: str = ""
    """Why the node is drained; '' when it need not be."""
    pods: tuple[PodVerdict, ...] = ()
    policies: tuple[tuple[str, str], ...] = ()
    """State file → the policy that it names after the switch."""
    old_policies: tuple[tuple[str, str], ...] = ()
    refusal: str = ""
    """Why the kubelet does not start with the new configuration at all."""
    remarks: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Fields of the old configuration that the new one does not have, and that stay."""
    platform: PlatformPlan | None = None
    """Where the platform writes the configuration: how it is changed there."""

    @property
    def removed(self) -> tuple[str, ...]:
        """The state files that go."""
        return tuple(file.name for file in self.files if file.remove)

"""A finding about state files, and what they are compared with."""

from dataclasses import dataclass

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.machine.model import Machine
from numawise.node.state.folder import Live
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Version
from numawise.sets import format_ids

GATE = "PodLevelResourceManagers"
ERROR, WARNING, NOTE = "error", "warning", "note"
DRAIN = "drain the node first"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the state files."""

    kind: str
    severity: str
    file: str
    """The state file it is about; '' when about several."""
    text: str
    fix: str = ""
    message: str = ""
    """What the kubelet says when it starts."""


@dataclass(frozen=True, slots=True)
class Against:
    """What the files are compared with; None: not known."""

    machine: Machine | None = None
    config: KubeletConfig | None = None
    live: Live | None = None
    version: Version = DEFAULT
    gate: bool = False
    """Gate ``PodLevelResourceManagers``, where no configuration tells."""

    @property
    def pod_level(self) -> bool:
        """Whether pods get their share as a whole."""
        if self.config is None:
            return self.gate
        return bool(self.config.feature_gates.get(GATE))


def short_name(name: str) -> str:
    """What a command calls a file: ``cpu``, ``memory`` or ``devices``."""
    return {CPU_FILE: "cpu", MEMORY_FILE: "memory", DEVICE_FILE: "devices"}[name]


def cpus_word(cpus: int) -> str:
    """``CPU 7`` or ``CPUs 2-3``."""
    return f"CPU{'' if cpus.bit_count() == 1 else 's'} {format_ids(cpus)}"

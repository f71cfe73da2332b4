"""What the checks of one kubelet have before them."""

from collections.abc import Mapping

from numawise.apps.check.refusals import Start
from numawise.codec.kubelet.effective import Configuration
from numawise.codec.kubelet.platforms import Platform, platform_of_node
from numawise.machine.description import NodeDescription
from numawise.machine.hardware import Hardware
from numawise.machine.model import Machine
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import Version
from numawise.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Context:
    """One kubelet: its configuration on a machine, with state files, in a release."""

    configuration: Configuration
    version: Version
    machine: Machine
    """The one that was given, or one made up."""
    start: Start
    known: bool = False
    """The machine was given."""
    machine_file: str = ""
    hardware: Hardware | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """State files, by name."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Where they lie."""
    description: NodeDescription | None = None
    """What the Node object says."""

    @property
    def config(self) -> KubeletConfig:
        """The configuration as it is written."""
        return self.start.written or KubeletConfig()

    @property
    def platform(self) -> Platform | None:
        """The platform that writes the configuration, by its form or by the node; None: not known."""
        if self.configuration.platform is not None:
            return self.configuration.platform
        labels = self.description.labels if self.description is not None else ()
        return platform_of_node(self.configuration.raw, labels)

    @property
    def static_cpus(self) -> bool:
        """True when containers can have CPUs of their own."""
        return self.config.cpu_manager_policy == "static"

    @property
    def static_memory(self) -> bool:
        """True when containers can have memory of a NUMA node."""
        return self.config.memory_manager_policy == "Static"

    @property
    def aligning(self) -> bool:
        """True when there is a topology policy."""
        return self.config.topology_manager_policy != "none"

"""The node that a plan is for: named part by part, or out of a bundle."""

from collections.abc import Sequence
from dataclasses import dataclass

from numawise.codec.bundle import manifest as parts
from numawise.errors import InputError
from numawise.inputs.bundle import Bundle, open_bundle
from numawise.inputs.files import (
    ConfigFile,
    config_of,
    load_config_file,
    load_pods,
    load_profile,
    refuse_unknown,
)
from numawise.inputs.machine import MachineInput, read_machine
from numawise.inputs.state import folder_of, live_of
from numawise.node.state.folder import StateFolder, load_folder
from numawise.request.defaults import RawPod
from numawise.rules.versions import DEFAULT, Profile


@dataclass(frozen=True, slots=True)
class NodeNamed:
    """What was named of a node, each where it is."""

    machine: str | None = None
    kubelet_config: str | None = None
    state: str | None = None
    kube: str | None = None
    bundle: str | None = None

    def opened(self) -> "NodeGiven":
        """The node, its bundle opened."""
        return NodeGiven(self, open_bundle(self.bundle) if self.bundle is not None else None)


@dataclass(frozen=True, slots=True)
class NodeGiven:
    """A node; what is named beside a bundle takes the place of its part."""

    named: NodeNamed
    bundle: Bundle | None = None

    @property
    def profile(self) -> Profile:
        """The kubelet's release."""
        if self.named.kube is not None:
            return load_profile(self.named.kube)
        return self.bundle.profile() if self.bundle is not None else Profile(DEFAULT)

    @property
    def name(self) -> str:
        """The node's name, where the bundle kept it."""
        kept = self.bundle is not None and not self.bundle.manifest.key
        return self.bundle.manifest.node if self.bundle is not None and kept else ""

    def machine(self) -> MachineInput | None:
        """The machine, if it is known."""
        if self.named.machine is not None:
            return read_machine(self.named.machine)
        if self.bundle is not None and parts.MACHINE in self.bundle.members:
            return self.bundle.machine_input()
        return None

    def the_machine(self) -> MachineInput:
        """The machine, which must be known."""
        found = self.machine()
        if found is None:
            advice = "give a machine file, a name or words as show takes them, 'this', or --bundle"
            raise InputError("is missing", field="--machine", advice=advice)
        return found

    def config(self) -> ConfigFile | None:
        """The kubelet's configuration, if it is known."""
        version = self.profile.version
        if self.named.kubelet_config is not None:
            file = load_config_file(self.named.kubelet_config)
            refuse_unknown(file, (version,))
        elif self.bundle is not None and parts.CONFIG in self.bundle.members:
            file = self.bundle.config_file()
        else:
            return None
        config_of(file, version)
        return file

    def state(self) -> StateFolder | None:
        """The state files, if there are some."""
        if self.named.state is not None:
            return load_folder(self.named.state)
        return folder_of(self.bundle) if self.bundle is not None and self.bundle.texts else None

    def pods(self, files: Sequence[str]) -> tuple[RawPod, ...]:
        """The pods of the files, else those of the bundle that run."""
        if files:
            return load_pods(files)
        return tuple(pod.raw for pod in live_of(self.bundle).values()) if self.bundle is not None else ()

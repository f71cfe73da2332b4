"""NVIDIA's device plugin: its configuration by itself, on the machine, beside the kubelet, and the pods."""

from collections.abc import Iterator, Sequence

from numawise.apps.check.context import Context
from numawise.codec.document import field_name
from numawise.codec.nvidia_forms import CHART, LABEL, OPERATOR, POLICY, PluginSource
from numawise.codec.nvidia_plugin import PluginReading
from numawise.errors import InputError
from numawise.gpus.nvidia_plugin import MPS, NONE, PluginConfig, is_own, unmatched
from numawise.inputs.machine import MachineInput
from numawise.inputs.pods import PodSource
from numawise.machine.description import NodeDescription
from numawise.results.finding import Finding, Place, Severity, found
from numawise.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class CheckedPlugin:
    """The configuration of a node's plugin, as far as it is known."""

    source: PluginSource
    name: str = ""
    """Which of several configurations counts, where that was said."""
    description: NodeDescription | None = None

    @property
    def label(self) -> str:
        """The name that the node's label gives, or that was given in its place."""
        return self.name or (self.description.labels.get(LABEL, "") if self.description is not None else "")

    def reading(self) -> PluginReading | None:
        """The configuration that counts; None where there is none, or where it is not known."""
        try:
            return self.source.selected(self.label)[1]
        except InputError:
            return None

    @property
    def config(self) -> PluginConfig | None:
        """Its values; None where it is not known or refused."""
        reading = self.reading()
        if reading is None or reading.refusals:
            return None
        return self.source.config(reading)

    def findings(self) -> Iterator[Finding]:
        """What is wrong with the configurations by themselves, and with the choice among them."""
        yield from self.source.every_finding
        certain = self.label or self.source.default or self.source.inside == CHART
        if not certain or not self.source.entries:
            return
        try:
            self.source.selected(self.label)
        except InputError as problem:
            yield found("NW707", self.source.place, problem.message, fix=problem.advice)

    def on(self, machine: MachineInput) -> tuple[MachineInput, tuple[Finding, ...]]:
        """The machine with what the plugin offers there, and what is wrong with that."""
        reading, config = self.reading(), self.config
        if reading is None or config is None or machine.missing:
            return machine, ()
        place = _place(reading, "flags")
        cut = any(gpu.parent for gpu in machine.hardware.gpus)
        if config.sharing == MPS and cut and config.mig_strategy != NONE:
            message = "sharing using MPS is not supported for MIG devices"
            return machine, (found("NW706", _place(reading, "sharing"), message),)
        made = replace(machine, plugin=config)
        try:
            offered = [plugin.resource for plugin in made.machine.plugins]
            before = [
                plugin.resource
                for plugin in replace(machine, plugin=replace(config, replicas=())).machine.plugins
            ]
        except InputError as problem:
            return machine, (found("NW706", place, problem.message),)
        missing = unmatched(config, before) if any(map(is_own, offered)) else ()
        return made, tuple(
            found(
                "NW703",
                _place(reading, "sharing"),
                f"on this machine the plugin offers no {resource}, so nothing is shared by that name",
                fix=f"it offers {', '.join(name for name in before if is_own(name))}",
            )
            for resource in missing
            if not any(resource in finding.message for finding in reading.findings)
        )

    def beside(self, contexts: Sequence[Context]) -> Iterator[Finding]:
        """What comes of it beside a kubelet that changes the CPUs of containers."""
        if not any(context.static_cpus for context in contexts) or self.source.inside in (OPERATOR, POLICY):
            return
        only = self.reading()
        for reading in [only] if only is not None else self.source.entries.values():
            config = self.source.config(reading)
            if not reading.refusals and not config.keeps_access:
                message = "passDeviceSpecs is off, and the kubelet's cpuManagerPolicy is static"
                yield found("NW704", _place(reading, "flags", "plugin", "passDeviceSpecs"), message)

    def under(self, pods: Sequence[PodSource]) -> Iterator[Finding]:
        """Pods that ask for several shares."""
        config = self.config
        shared = {one.offered_as: one for one in config.replicas} if config is not None else {}
        for source in pods if config is not None and shared else ():
            for raw, part in source.parts:
                for name, amount in raw.limits.items() if raw is not None else ():
                    if name not in shared or amount.value < 2 or raw is None:
                        continue
                    assert config is not None
                    what = f"container {raw.name} asks for {amount.value} of {name}, "
                    what += f"of which every GPU has {shared[name].count}"
                    place = source.place(part, "resources", "limits", name)
                    refused = "; the plugin refuses it" if config.refuses_several else ""
                    severity = None if config.refuses_several else Severity.WARNING
                    yield found("NW705", place, what + refused, severity=severity)


def _place(reading: PluginReading, *steps: str) -> Place:
    part = reading.part.at(*steps)
    return Place(part.document.file, part.document.line(part.steps), field_name(part.steps))

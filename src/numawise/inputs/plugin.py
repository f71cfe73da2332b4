"""Which configuration of NVIDIA's device plugin a person names.

Rules kept here:

1. A file is a configuration of the plugin, or has some inside: a ConfigMap, Helm values, a ClusterPolicy with
   its ConfigMap.  Of several, ``FILE:NAME`` names one; else the label of the Node object does, or a default.
2. ``off`` is a plugin that states no preference, so that the kubelet's choice stays free.
3. What the plugin would refuse is an error with file and line.
"""

from collections.abc import Mapping

from numawise.codec.document import Document, read_documents
from numawise.codec.infile import is_there, read_raw
from numawise.codec.nvidia_forms import LABEL, PluginSource, plugin_source
from numawise.errors import InputError
from numawise.gpus.nvidia_plugin import PluginConfig
from numawise.machine.description import NodeDescription
from numawise.values import dataclass

OFF = "off"
NOT_ONE = "has no configuration of NVIDIA's device plugin in it"
ADVICE = "give its config.yaml, a ConfigMap that has it, Helm values or a ClusterPolicy"

PluginNamed = str | Mapping[str, object] | PluginConfig
"""A file, ``off``, the configuration itself as a mapping, or one that was read already."""


@dataclass(frozen=True, slots=True)
class PluginInput:
    """A configuration of the plugin that the user named."""

    source: PluginSource
    name: str = ""
    """Which of several, where that was said."""
    text: str = ""
    """The file's text."""

    def config(self, description: NodeDescription | None) -> PluginConfig:
        """The values for a node; raise ``InputError`` for what the plugin would refuse (rule 3)."""
        label = self.name or (description.labels.get(LABEL, "") if description is not None else "")
        _, reading = self.source.selected(label)
        refused = (*self.source.findings, *(reading.findings if reading is not None else ()))
        sentences = {
            "NW701": "NVIDIA's device plugin would not start: {}",
            "NW702": "{}, which NVIDIA's device plugin ignores",
        }
        for code, sentence in sentences.items():
            for finding in refused:
                if finding.code == code:
                    raise InputError(
                        sentence.format(finding.message),
                        file=finding.file,
                        line=finding.line,
                        field=finding.field,
                        advice=finding.fix,
                    )
        return self.source.config(reading)


def read_plugin(named: PluginNamed, description: NodeDescription | None = None) -> PluginConfig | None:
    """The configuration that is meant; None when none is named."""
    if isinstance(named, PluginConfig):
        return named
    if not named:
        return None
    if named == OFF:
        return PluginConfig(prefers=False)
    return plugin_input(named).config(description)


def plugin_input(named: str | Mapping[str, object]) -> PluginInput:
    """The configurations of a file, all of them."""
    if not isinstance(named, str):
        return PluginInput(_required(plugin_source((Document(named, "device plugin"),), certain=True), ""))
    path, name = named, ""
    if named != "-" and not is_there(named):
        file, colon, after = named.rpartition(":")
        path, name = (file, after) if colon and is_there(file) else (named, "")
    raw, title = read_raw(path)
    source = plugin_source(read_documents(raw, title), certain=True)
    return PluginInput(_required(source, title), name, raw.decode("utf-8-sig", errors="replace"))


def _required(source: PluginSource | None, file: str) -> PluginSource:
    if source is None:
        raise InputError(NOT_ONE, file=file, advice=ADVICE)
    return source

"""Where configurations of NVIDIA's device plugin are found: ConfigMaps, Helm values, the GPU operator.

Rules kept here:

1. A file of the plugin has ``version: v1`` and one of its sections.  A ConfigMap has one such text for each
   name; so have ``config.map`` in the values of the plugin's chart, and ``devicePlugin.config.data`` in those
   of the GPU operator's, plain or inside of a Flux HelmRelease or an Argo CD Application.
2. Which of several a node uses, its label ``nvidia.com/device-plugin.config`` says; without it, the default
   that is named beside them; then the one called ``default``, or the only one.  The GPU operator goes on
   without any then; the plugin's own chart does not start.
3. Values of a chart become variables of the plugin, and these go before what is in the file.  So does
   ``mig.strategy`` of the GPU operator, which passes device nodes always.
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.codec.document import Document, Part, field_name, shown
from numawise.codec.edits import renamed
from numawise.codec.nvidia_plugin import (
    CHOICES,
    DEVICE_LISTS,
    GONE,
    SECTIONS,
    PluginReading,
    one_of,
)
from numawise.errors import InputError, meant, quoted
from numawise.gpus.nvidia_plugin import PluginConfig
from numawise.results.finding import Finding, Place, found
from numawise.values import dataclass, field, replace

LABEL = "nvidia.com/device-plugin.config"
DEFAULT_NAME = "default"
CONFIG_MAP, CHART, OPERATOR, POLICY = "ConfigMap", "Helm values", "GPU operator values", "ClusterPolicy"
CHART_FLAGS = (
    "migStrategy", "failOnInitError", "deviceListStrategy", "deviceIDStrategy", "nvidiaDriverRoot",
    "gdrcopyEnabled", "gdsEnabled", "mofedEnabled", "deviceDiscoveryStrategy", "compatWithCPUManager",
)  # fmt: skip
CHART_KEYS = (
    *CHART_FLAGS, "config", "nameOverride", "fullnameOverride", "namespaceOverride", "selectorLabelsOverride",
    "allowDefaultNamespace", "imagePullSecrets", "image", "updateStrategy", "podAnnotations", "extraArgs",
    "podSecurityContext", "securityContext", "resources", "nodeSelector", "affinity", "tolerations",
    "priorityClassName", "runtimeClassName", "devicePlugin", "gfd", "nfd", "mps", "cdi", "global",
    "serviceAccount", "extraEnv", "podLabels",
)  # fmt: skip
CHART_CONFIG = ("name", "map", "default", "fallbackStrategies")
OPERATOR_CONFIG = ("create", "name", "default", "data")
FALLBACKS = ("named", "single", "empty")


@dataclass(frozen=True, slots=True)
class PluginSource:
    """What some documents say about the plugin."""

    entries: Mapping[str, PluginReading] = field(default_factory=dict)
    """Configurations by name; '' for a file that is one."""
    inside: str = ""
    """What they were found in; '' for a file that is one."""
    default: str = ""
    fallbacks: tuple[str, ...] = ("named", "single")
    over: Mapping[str, object] = field(default_factory=dict)
    """Flags that go before those of the configuration (rule 3)."""
    findings: tuple[Finding, ...] = ()
    place: Place = field(default_factory=Place)

    @property
    def every_finding(self) -> tuple[Finding, ...]:
        """What there is to say about all of it."""
        return (
            *self.findings,
            *(one for reading in self.entries.values() for one in reading.findings),
            *(one for reading in self.entries.values() for one in self._overridden(reading)),
        )

    def _overridden(self, reading: PluginReading) -> Iterator[Finding]:
        """Values of a configuration that others go before."""
        for name, value in self.over.items():
            if name in reading.flags and reading.flags[name] != value:
                part = next(one for one in _ways(reading.part, name))
                place = Place(part.document.file, part.document.line(part.steps), field_name(part.steps))
                message = f"{name} is {shown(_plain(value))} by the {self.inside}, which goes before this"
                yield found("NW703", place, message, fix="set it in one place")

    def selected(self, label: str = "") -> tuple[str, PluginReading | None]:
        """The configuration of a node with this label, and its name (rule 2); None: the plugin's defaults."""
        names = ", ".join(name for name in self.entries if name)
        if label:
            if label in self.entries:
                return label, self.entries[label]
            raise self._refused(
                f"the node's label {LABEL} is {quoted(label)}, and there is no such configuration",
                f"known are {names}",
            )
        if self.default:
            if self.default in self.entries:
                return self.default, self.entries[self.default]
            raise self._refused(
                f"the default is {quoted(self.default)}, and there is none", f"known are {names}"
            )
        if not self.entries:
            return "", None
        for fallback in self.fallbacks:
            if fallback == "named" and DEFAULT_NAME in self.entries:
                return DEFAULT_NAME, self.entries[DEFAULT_NAME]
            if fallback == "single" and len(self.entries) == 1:
                return next(iter(self.entries.items()))
            if fallback == "empty":
                return "", None
        raise self._refused(
            f"there are {len(self.entries)} configurations ({names}); nothing says which one the node uses",
            f"name one (FILE:NAME), or give the Node object with its label {LABEL}",
        )

    def _refused(self, message: str, advice: str) -> InputError:
        return InputError(message, file=self.place.file, line=self.place.line, advice=advice)

    def config(self, reading: PluginReading | None) -> PluginConfig:
        """The values of a configuration, with what goes before it."""
        config = reading.config if reading is not None else PluginConfig()
        values = {
            "migStrategy": "mig_strategy",
            "passDeviceSpecs": "pass_device_specs",
            "deviceListStrategy": "strategies",
        }
        given = {values[name]: value for name, value in self.over.items() if name in values}
        return replace(config, **given)  # type: ignore[arg-type]


def plugin_source(documents: Sequence[Document], *, certain: bool = False) -> PluginSource | None:
    """What the documents say about the plugin; None: nothing.

    ``certain``: they were named as the plugin's, so one that could be anything is taken for it.
    """
    sources = [_source(document, certain=certain) for document in documents]
    present = [source for source in sources if source is not None]
    return joined(present) if present else None


def joined(sources: Sequence[PluginSource]) -> PluginSource:
    """What several documents say together."""
    merged = sources[0]
    for other in sources[1:]:  # a ClusterPolicy and the ConfigMap it names
        inside = max(merged.inside, other.inside, key=(CONFIG_MAP, "", CHART, OPERATOR, POLICY).index)
        head = merged if inside == merged.inside else other
        merged = replace(
            head,
            entries={**merged.entries, **other.entries},
            default=head.default or merged.default or other.default,
            over={**merged.over, **other.over},
            findings=(*merged.findings, *other.findings),
            place=merged.place,
        )
    return merged


def _source(document: Document, *, certain: bool) -> PluginSource | None:
    root = document.root
    value = document.value
    place = Place(document.file, document.line(()))
    if not isinstance(value, Mapping):
        if certain and value is None:
            return PluginSource({"": PluginReading(root)}, place=place)
        return None
    kind = value.get("kind")
    if kind == "ConfigMap":
        return _config_map(root, place, certain=certain)
    if kind == "ClusterPolicy":
        spec = root.at("spec")
        return _operator(spec, POLICY, place) if isinstance(spec.at("devicePlugin").value, Mapping) else None
    if kind == "HelmRelease":
        return _values(root.at("spec", "values"), place)
    if kind == "Application":
        return _values(root.at("spec", "source", "helm", "valuesObject"), place)
    if kind is not None:
        return None
    if looks_like_config(value):
        return PluginSource({"": PluginReading(root)}, place=place)
    source = _values(root, place)
    if source is None and certain:
        return PluginSource({"": PluginReading(root)}, place=place)
    return source


def looks_like_config(value: object) -> bool:
    """Whether a mapping is a configuration of the plugin, misspelt or not (rule 1)."""
    if not isinstance(value, Mapping) or "kind" in value or "apiVersion" in value:
        return False
    sections = [key for key in value if key != "version" and meant(key.lower(), SECTIONS[1:])]
    inner = [value[key] for key in sections if isinstance(value[key], Mapping)]
    telling = any(
        meant(key, ("migStrategy", "failOnInitError", "plugin", "timeSlicing", "mps"))
        for one in inner
        for key in one
        if isinstance(key, str)
    )
    return telling or bool(sections and "version" in value and len(value) == len(sections) + 1)


def _config_map(root: Part, place: Place, *, certain: bool) -> PluginSource | None:
    findings: list[Finding] = []
    entries = dict(_entries(root.at("data"), findings, certain=certain))
    if not entries and not findings:
        return None
    return PluginSource(entries, CONFIG_MAP, findings=tuple(findings), place=place)


def _entries(data: Part, findings: list[Finding], *, certain: bool) -> Iterator[tuple[str, PluginReading]]:
    """Configurations by name; in ``certain`` places every text is one."""
    for name, text in data.value.items() if isinstance(data.value, Mapping) else ():
        part = data.at(name)
        if isinstance(text, Mapping) and certain:
            message = "must be text: the configuration, indented under |"
            findings.append(found("NW701", _place(part), message, fix=f"write {name}: |-"))
        if not isinstance(text, str):
            continue
        if not text.strip():
            if certain:
                yield name, PluginReading(Document(None, part.document.file).root)
            continue
        try:
            documents = part.inside()
        except InputError as problem:
            if certain or "sharing:" in text or "migStrategy" in text:
                where = Place(problem.file, problem.line, field_name(part.steps))
                findings.append(found("NW701", where, problem.message, fix=problem.advice))
            continue
        if len(documents) == 1 and (certain or looks_like_config(documents[0].value)):
            yield name, PluginReading(documents[0].root)


def _values(values: Part, place: Place) -> PluginSource | None:
    """Values of the plugin's chart, or of the GPU operator's."""
    if not isinstance(values.value, Mapping):
        return None
    if isinstance(values.at("devicePlugin", "config").value, Mapping):
        return _operator(values, OPERATOR, place)
    config = values.at("config")
    named = isinstance(config.at("map").value, Mapping) or (
        isinstance(config.at("name").value, str) and bool(set(CHART_FLAGS) & set(values.value))
    )
    if not named and not {"migStrategy", "deviceListStrategy", "compatWithCPUManager"} & set(values.value):
        return None
    findings: list[Finding] = []
    entries = dict(_entries(config.at("map"), findings, certain=True))
    over = dict(_flags(values, findings))
    findings += _misspelt(values, CHART_KEYS, near_only=True)
    findings += _misspelt(config, CHART_CONFIG)
    if config.at("name").value and config.at("map").value:
        message = "config.name and config.map are both set, and the chart takes one of them"
        findings.append(found("NW701", _place(config.at("name")), message))
    fallbacks = config.at("fallbackStrategies").value
    chosen = tuple(map(str, fallbacks)) if isinstance(fallbacks, list) else ("named", "single")
    for word in chosen:
        if word not in FALLBACKS:
            part = config.at("fallbackStrategies")
            message = f"unknown fallback strategy {shown(word)}"
            findings.append(found("NW701", _place(part), message, fix=one_of(word, FALLBACKS)))
    return PluginSource(
        entries,
        CHART,
        str(config.at("default").value or ""),
        chosen,
        over,
        tuple(findings),
        place,
    )


def _operator(values: Part, inside: str, place: Place) -> PluginSource:
    """What the GPU operator's values, or its ClusterPolicy, say."""
    findings: list[Finding] = []
    config = values.at("devicePlugin", "config")
    entries = dict(_entries(config.at("data"), findings, certain=True))
    findings += _misspelt(config, OPERATOR_CONFIG)
    over: dict[str, object] = {"passDeviceSpecs": True}
    strategy = values.at("mig", "strategy")
    if strategy.value is not None:
        if strategy.value in CHOICES["migStrategy"]:
            over["migStrategy"] = strategy.value
        else:
            fix = one_of(str(strategy.value), CHOICES["migStrategy"])
            findings.append(
                found("NW701", _place(strategy), f"unknown value {shown(strategy.value)}", fix=fix)
            )
    default = str(config.at("default").value or "")
    return PluginSource(entries, inside, default, ("empty",), over, tuple(findings), place)


def _flags(values: Part, findings: list[Finding]) -> Iterator[tuple[str, object]]:
    """Flags among the values of the plugin's chart."""
    for name in CHART_FLAGS:
        part = values.at(name)
        value: object = part.value
        if value is None:
            continue
        if name == "compatWithCPUManager":
            if value is True:
                yield "passDeviceSpecs", True
            continue
        if name == "deviceListStrategy":
            words = value if isinstance(value, list) else str(value).split(",")
            value = tuple(str(word).strip() for word in words)
            known: tuple[str, ...] = DEVICE_LISTS
        else:
            known = CHOICES.get(name, ())
        for word in value if isinstance(value, tuple) else (value,):
            if known and word not in known:
                message = f"unknown value {shown(word)}"
                findings.append(found("NW701", _place(part), message, fix=one_of(str(word), known)))
                break
        else:
            yield name, value


def _misspelt(part: Part, known: Sequence[str], *, near_only: bool = False) -> Iterator[Finding]:
    """Unknown keys; ``near_only``: of those only the ones that look like a known one."""
    for key in part.value if isinstance(part.value, Mapping) else ():
        near = meant(key, known) if key not in known else ""
        if key in known or (near_only and not near):
            continue
        fix = GONE.get(key) or (f"did you mean {quoted(near)}?" if near else "")
        ways = [renamed(part.at(key), near)] if near and key not in GONE else []
        yield found("NW702", _place(part.at(key)), f"unknown field {quoted(key)}", fix=fix, corrections=ways)


def _place(part: Part) -> Place:
    return Place(part.document.file, part.document.line(part.steps), field_name(part.steps))


def _ways(part: Part, name: str) -> Iterator[Part]:
    """Where a flag stands in a configuration."""
    flags = part.at("flags")
    for section in (flags, flags.at("plugin"), flags.at("gfd")):
        for key in section.value if isinstance(section.value, Mapping) else ():
            if key.lower() == name.lower():
                yield section.at(key)
    yield part


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value

"""What a kubelet's configuration amounts to: the file, its drop-ins and its flags, each part with its place.

Rules kept here (the kubelet's):

1. The file comes first, with the default eviction thresholds where it names none; then the drop-ins in the
   order of their names, merged as JSON: maps key by key, lists replaced, null removes; then the flags.
2. Unknown fields are passed over; a field that stands twice counts the last time.  In a drop-in names match
   in any case, unknown ones are passed over without a word, and a repeated one stops the kubelet.
3. Without a file the default eviction thresholds are not set (since 1.26); nor are they where the running
   kubelet answers (``configz``) without them.
4. What the running kubelet says is believed before the files, which may have changed since.  Where they
   differ in what decides, that is told field by field.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from numawise.codec.document import Document, Part, field_name
from numawise.codec.edits import correction, insert_lines, remove, rename_key
from numawise.codec.kubelet.config import API_VERSION, KIND, decode_kubelet_config, unknown_fields
from numawise.codec.kubelet.fields import configuration_of, field_since
from numawise.codec.kubelet.flags import Flag, Settled, flag_span, overlaid, settle
from numawise.codec.kubelet.forms import Found
from numawise.codec.kubelet.platforms import Platform, platforms
from numawise.codec.lines import Steps
from numawise.errors import InputError, meant, suggestion
from numawise.request.model import CPU
from numawise.results.correction import Correction
from numawise.results.finding import Finding, Place, Severity, found
from numawise.rules import eviction
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Version, profile_of, shown
from numawise.strconv import whole_number
from numawise.values import dataclass, field, replace

Raw = Mapping[str, Any]
DROP_INS_SINCE, VARIABLE_UNTIL, DEFAULTS_BY_FILE_SINCE = (1, 28), (1, 29), (1, 26)
EVICTION, MERGING = "evictionHard", "mergeDefaultEvictionSettings"
CONFIGZ = "kubeletconfig"
COMPLETE = frozenset({"", CONFIGZ})
"""Forms that hold the whole configuration; any other is laid over one that is not known."""
SHOWN = 60


@dataclass(frozen=True, slots=True)
class Layer:
    """One part of a configuration, and where its fields stand."""

    part: Part
    drop_in: bool = False


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a kubelet is told, all taken together."""

    name: str
    """The file it is called by."""
    raw: Raw
    layers: tuple[Layer, ...] = ()
    settled: Settled = field(default_factory=Settled)
    flags_file: str = ""
    partial: bool = False
    """It is laid over another configuration that is not known here."""
    inside: str = ""
    findings: tuple[Finding, ...] = ()
    platform: Platform | None = None
    """The platform whose form it is; what it adds by itself is not in ``raw``."""

    def place(self, *steps: str | int) -> Place:
        """Where a field, or what is nearest around it, was set last; the first line when nowhere."""
        if not steps:
            return Place(self.name, self._top())
        for taken in range(len(steps), 0, -1):
            for own, flag in self.settled.flags.items():
                if own == steps[:taken]:
                    return Place(self.flags_file, flag.line, field_name(steps))
            for layer in reversed(self.layers):
                if _has(layer.part.value, steps[:taken]):
                    document = layer.part.document
                    line = document.line((*layer.part.steps, *steps[:taken]))
                    return Place(document.file, line, field_name(steps))
        return Place(self.name, self._top(), field_name(steps))

    def writer(self, *steps: str | int) -> Part | None:
        """The part of a file that sets a field last; None: a flag does, nobody, or not by this name."""
        if self._flagged(steps):
            return None
        for layer in reversed(self.layers):
            if _has(layer.part.value, steps):
                own = layer.part.document.root.at(*layer.part.steps).value
                return layer.part if _has(own, steps) else None
        return None

    def room(self, *steps: str | int) -> Part | None:
        """The part of a file that a field is to be added to: beside those of its mapping, or the first."""
        if self._flagged(steps):
            return None
        for taken in range(len(steps), 0, -1):
            if any(_has(layer.part.value, steps[:taken]) for layer in self.layers):
                return self.writer(*steps[:taken])
        return self.layers[0].part if self.layers else None

    def _flagged(self, steps: Steps) -> bool:
        return any(own[: len(steps)] == steps[: len(own)] for own in self.settled.flags)

    @property
    def reserved_by(self) -> Platform | None:
        """The platform that reserves CPUs and memory which are not in ``raw``; None: nobody is known to."""
        platform = self.platform
        if platform is None or not self.partial or not platform.reserves_cpus:
            return None
        return platform if platform.unless not in self.raw else None

    def _top(self) -> int | None:
        for layer in self.layers:
            return layer.part.document.line(layer.part.steps) or 1
        return None

    def written(self, *steps: str | int) -> bool:
        """True when somebody wrote the field."""
        return _has(self.raw, steps)


def configured(
    base: Found | None,
    drop_ins: Sequence[Document],
    flags: Sequence[Flag],
    flags_file: str,
    version: Version,
    texts: Mapping[str, str] | None = None,
) -> Configuration:
    """A configuration out of its parts (rule 1); ``texts``: of the files, for the kubelet's words."""
    findings: list[Finding] = []
    raw: Raw = {}
    layers: list[Layer] = []
    if base is not None and base.part is not None:
        raw, told = _base(base, version, texts or {})
        if base.inside == CONFIGZ:
            raw = {EVICTION: {}, **raw}
        findings += told
        layers.append(Layer(base.part))
    drop_ins = (*(base.over if base is not None else ()), *drop_ins)
    if drop_ins:
        if EVICTION not in raw and base is not None:
            raw = {**raw, EVICTION: dict(eviction.defaults(version))}
        elif raw.get(MERGING) is True:
            raw = {**raw, EVICTION: {**eviction.defaults(version), **raw[EVICTION]}}
        for document in drop_ins:
            value, told = _drop_in(document, version, texts or {})
            findings += told
            raw = merged(raw, value)
            layers.append(Layer(Part(document, (), value), drop_in=True))
        raw = {key: value for key, value in raw.items() if key != MERGING}
    settled = settle(flags, version)
    findings += _flag_findings(settled, raw, flags_file, version)
    raw = overlaid(raw, settled)
    alone = base is None or base.part is None
    elsewhere = alone and ("config" in settled.own or (base is not None and bool(base.inside)))
    if alone and not elsewhere and version >= DEFAULTS_BY_FILE_SINCE:
        raw = {EVICTION: {}, **raw}
    inside = base.inside if base is not None else "flags" if elsewhere else ""
    name = layers[0].part.document.file if layers else flags_file
    return Configuration(
        name=name,
        raw={**raw, "apiVersion": API_VERSION, "kind": KIND},
        layers=tuple(layers),
        settled=settled,
        flags_file=flags_file,
        partial=elsewhere or inside not in COMPLETE or (base is not None and base.fragment),
        inside=inside,
        findings=tuple(findings),
        platform=platforms().get(base.platform) if base is not None and base.platform else None,
    )


def merged(base: Raw, patch: Raw) -> dict[str, Any]:
    """JSON merge patch (RFC 7396)."""
    result = dict(base)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            below = result.get(key)
            result[key] = merged(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def _has(value: object, steps: Steps) -> bool:
    for step in steps:
        if isinstance(step, int):
            if not isinstance(value, list | tuple) or step >= len(value):
                return False
            value = value[step]
        else:
            if not isinstance(value, Mapping) or step not in value:
                return False
            value = value[step]
    return True


# --- the file -------------------------------------------------------------------------------


def _base(base: Found, version: Version, texts: Mapping[str, str]) -> tuple[Raw, list[Finding]]:
    part = base.part
    assert part is not None
    value = part.mapping()
    findings: list[Finding] = []
    if base.fragment:
        fields = configuration_of(version).fields
        return {key: item for key, item in value.items() if key in fields}, findings
    if base.misplaced:
        message = f"the fields of a {base.inside} belong under {base.misplaced}; here they are ignored"
        fix = f"move them under {base.misplaced}"
        findings.append(found("NW102", _at(part, ()), message, fix=fix))
    elif not base.inside:
        findings += _kind(part, value, texts)
    own = {key: item for key, item in value.items() if key not in ("apiVersion", "kind", "metadata")}
    findings += [_unknown(part, name, version) for name in _unknown_names(own, version)]
    return own, findings


def _kind(part: Part, value: Raw, texts: Mapping[str, str]) -> Iterator[Finding]:
    missing = next((name for name in ("kind", "apiVersion") if not value.get(name)), "")
    if missing:
        word = "Kind" if missing == "kind" else missing
        message = f"failed to decode: Object '{word}' is missing in {_excerpt(part.document.file, texts)}"
        yield found(
            "NW102", _at(part, ()), message, stage="decode-config", corrections=[_headed(part, value)]
        )


def _headed(part: Part, value: Raw) -> Correction | None:
    """What a configuration has to say of itself, put before it."""
    lines = {
        name: text for name, text in (("apiVersion", API_VERSION), ("kind", KIND)) if not value.get(name)
    }
    if any(name in value for name in lines):
        return None
    written = [f"{name}: {text}" for name, text in lines.items()]
    return correction(f"add {' and '.join(written)}", insert_lines(part, written))


def _excerpt(file: str, texts: Mapping[str, str]) -> str:
    """The beginning of a file, where the kubelet prints all of it."""
    text = " ".join(texts.get(file, "").split())
    return f"'{text}'" if len(text) <= SHOWN else f"'{text[:SHOWN]}...'"


def _unknown_names(value: Raw, version: Version) -> list[str]:
    return [told.removeprefix('unknown field "')[:-1] for told in unknown_fields(value, version)]


def _unknown(part: Part, name: str, version: Version) -> Finding:
    steps = tuple(_steps(name))
    place = _at(part, steps)
    top = str(steps[0])
    since = field_since(top)
    if since is not None and len(steps) == 1 and since > version:
        why = f"{shown(since)} is the first release that has it; {shown(version)} ignores it"
        out = [correction(f"remove {name}", remove(part, steps), certain=False)]
        return found(
            "NW103", place, f'unknown field "{name}"', why=why, fix="upgrade, or remove it", corrections=out
        )
    fields = tuple(configuration_of(version).fields) if len(steps) == 1 else ()
    near = meant(top, fields)
    ways = [correction(f"rename {name} to {near}", rename_key(part, steps, near))] if near else []
    ways.append(correction(f"remove {name}", remove(part, steps), certain=False))
    fix = suggestion(top, fields) if fields else ""
    return found("NW103", place, f'unknown field "{name}"', fix=fix, corrections=ways)


def _steps(name: str) -> Iterator[str | int]:
    for piece in name.split("."):
        head, *inside = piece.replace("]", "").split("[")
        yield head
        for step in inside:  # a position, or part of a key that has brackets of its own
            yield whole_number(step) if step.isascii() and step.isdecimal() else step


def _at(part: Part, steps: Steps) -> Place:
    return Place(part.document.file, part.document.line((*part.steps, *steps)) or 1, field_name(steps))


# --- drop-ins -------------------------------------------------------------------------------


def drop_in_refusal(
    file: str, problem: InputError | None, message: str, better: Correction | None = None
) -> Finding:
    """A drop-in that the kubelet does not load; ``better``: what helps."""
    told = f"failed to load kubelet dropin file, path: {file}, {message}"
    line = problem.line if problem else 1
    return found("NW106", Place(file, line), told, stage="drop-ins", corrections=[better])


def directory_finding(directory: str, version: Version) -> Iterator[Finding]:
    """What a release has against a drop-in directory as such."""
    place = Place(directory)
    if not directory:
        return
    if version < DROP_INS_SINCE:
        message = "failed to parse kubelet flag: unknown flag: --config-dir"
        fix = f"upgrade to {shown(DROP_INS_SINCE)} or later, or put everything into the file"
        yield found("NW106", place, message, fix=fix, stage="flags")
    elif version <= VARIABLE_UNTIL:
        message = (
            f"flag {directory} specified but environment variable KUBELET_CONFIG_DROPIN_DIR_ALPHA not set,"
            " cannot start kubelet"
        )
        why = "these releases want the variable in the kubelet's environment"
        yield found("NW106", place, message, why=why, fix="set it", severity=Severity.WARNING)


def _drop_in(document: Document, version: Version, texts: Mapping[str, str]) -> tuple[Raw, list[Finding]]:
    """The fields of a drop-in, with their names as the kubelet spells them (rule 2)."""
    value = document.root.mapping()
    kind, own = value.get("kind"), value.get("apiVersion")
    if not kind:
        message = f"error: Object 'Kind' is missing in {_excerpt(document.file, texts)}"
        headed = _headed(document.root, value) if own in (None, API_VERSION) else None
        return {}, [drop_in_refusal(document.file, None, message, headed)]
    if (own, kind) != (API_VERSION, KIND):
        group, _, release = str(own or "").rpartition("/")
        message = f"unknown apiVersion/kind: {group}/{release}, Kind={kind}"
        return {}, [drop_in_refusal(document.file, None, message)]
    fields = {name.lower(): name for name in configuration_of(version).fields}
    found_fields: dict[str, Any] = {}
    findings: list[Finding] = []
    for key, item in value.items():
        if key in ("apiVersion", "kind"):
            continue
        name = fields.get(key.lower())
        if name is None:
            findings.append(_unknown(document.root, key, version))
        else:
            found_fields[name] = item
    return found_fields, findings


# --- flags ----------------------------------------------------------------------------------


def _flag_findings(settled: Settled, raw: Raw, file: str, version: Version) -> Iterator[Finding]:
    for problem in settled.problems:
        place = Place(file, problem.flag.line, f"--{problem.flag.name}" if problem.flag.name else "")
        span = flag_span(problem.flag.name)
        fix = ""
        if "unknown flag" in problem.message and span:
            first, last = map(shown, span)
            only = f"{first} is the first" if span[0] > version else f"{last} is the last"
            fix = f"remove it; {only} release that has it"
        yield found("NW108", place, problem.message, fix=fix, stage="flags")
    for steps, flag in settled.flags.items():
        below: object = raw
        for step in steps:
            below = below.get(step) if isinstance(below, Mapping) else None
        value = settled.values[steps]
        if below is not None and below != value and steps != ("featureGates",):
            place = Place(file, flag.line, f"--{flag.name}")
            message = f"{_told(value)} overrides {field_name(steps)}: {_told(below)} of the file"
            yield found("NW109", place, message)


def _told(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_told(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_told, value)) + "]"
    return str(value)


# --- the running kubelet --------------------------------------------------------------------

COMPARED = tuple(
    one.name
    for one in fields(KubeletConfig)
    if one.name not in ("other", "given", "eviction_hard", "feature_gates")
)


def version_of(text: str) -> Version:
    """The release that a version such as ``v1.36.4`` is of; the newest one when it is not known."""
    try:
        return profile_of(text).version if text else DEFAULT
    except ValueError:
        return DEFAULT


def by_files(
    base: Document | None, drop_ins: Sequence[Document], flags: Sequence[Flag], version: Version
) -> dict[str, Any] | None:
    """What file, drop-ins and flags amount to; None when there are none."""
    if base is None and not drop_ins and not flags:
        return None
    part = Found(base.root) if base is not None else None
    return known_fields(configured(part, drop_ins, flags, "flags", version).raw, version)


def by_kubelet(configz: Mapping[str, Any] | None, version: Version) -> dict[str, Any] | None:
    """What the running kubelet told; None when it was not asked."""
    if configz is None:
        return None
    return known_fields({EVICTION: {}, **configz, "apiVersion": API_VERSION, "kind": KIND}, version)


def configz_of(document: Document) -> Mapping[str, Any] | None:
    """The configuration inside the answer of ``configz``; None when it is something else."""
    value = document.value
    if not isinstance(value, Mapping):
        return None
    inner = value.get("kubeletconfig", value if value.get("kind") == KIND else None)
    return inner if isinstance(inner, Mapping) else None


def known_fields(raw: Mapping[str, Any], version: Version) -> dict[str, Any]:
    """A configuration without what the release passes over (rule 2)."""
    known = configuration_of(version).fields
    found: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    found |= {name: value for name, value in raw.items() if name in known and name not in found}
    for told in unknown_fields(found, version):
        top = told.removeprefix('unknown field "').split(".")[0].split("[")[0].rstrip('"')
        if top not in ("apiVersion", "kind"):
            found.pop(top, None)
    return found


def differences(told: Mapping[str, Any], written: Mapping[str, Any], version: Version) -> list[str]:
    """Fields in which the running kubelet is not what its files say (rule 4)."""
    now, then = decode_kubelet_config(told, version), decode_kubelet_config(written, version)
    if isinstance(now, Refusal) or isinstance(then, Refusal):
        return []
    now, then = _as_it_runs(now), _as_it_runs(then)
    return [camel_field(name) for name in COMPARED if getattr(now, name) != getattr(then, name)]


def _as_it_runs(config: KubeletConfig) -> KubeletConfig:
    """A configuration without the CPUs that a kubelet itself writes into its reservations when it starts.

    Where ``reservedSystemCPUs`` names them, ``systemReserved`` has as many then, and ``kubeReserved`` none.
    """
    if not config.reserved_system_cpus:
        return config
    system, kube = (
        {name: size for name, size in (reserved or {}).items() if name != CPU}
        for reserved in (config.system_reserved, config.kube_reserved)
    )
    return replace(config, system_reserved=system, kube_reserved=kube)


def camel_field(name: str) -> str:
    """A field of ``KubeletConfig`` as it stands in the file."""
    first, *rest = name.split("_")
    return first + "".join({"cpus": "CPUs"}.get(word, word.capitalize()) for word in rest)

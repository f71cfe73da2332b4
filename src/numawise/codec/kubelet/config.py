"""A ``KubeletConfiguration`` file to the value that decisions depend on, read as the kubelet reads it.

Rules kept here:

1. What is read is a parsed mapping, as it comes from YAML: keys are taken in order, ``1.0``
   is the number 1.  ``apiVersion`` and ``kind`` may be left out.
2. A value of a wrong type is noted and reading goes on; the first one is reported.  A bad
   duration, quantity or time ends the reading at once, and is what is reported then.
3. ``null`` leaves a field as if it were absent, except for plain durations, where it is an error.
4. Fields that do not exist are passed over, with a warning, by the kubelet too.
   ``unknown_fields`` lists them for those who want to be stricter.
5. An empty policy name is the default policy.  Naming any hard eviction threshold drops all
   default ones, unless ``mergeDefaultEvictionSettings`` is on.

Messages are Go's own, with the kubelet's ``failed to decode: `` before them.
"""

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from numawise.codec.document import number_text
from numawise.codec.kubelet.fields import (
    INT64,
    ByName,
    ConfigField,
    Many,
    Real,
    Shape,
    Special,
    Struct,
    TextType,
    Truth,
    Whole,
    configuration_of,
)
from numawise.quantity import Quantity
from numawise.rules import eviction
from numawise.rules.check import Refusal
from numawise.rules.eviction import Duration
from numawise.rules.model import KubeletConfig, ReservedMemory
from numawise.rules.validate import managers as validate
from numawise.rules.versions import REFERENCE, Dated, Version, at
from numawise.strconv import quote, whole_number
from numawise.values import replace

STAGE = "decode-config"
GROUP = "kubelet.config.k8s.io"
API_VERSION, KIND = f"{GROUP}/v1beta1", "KubeletConfiguration"
SCHEMES = (
    Dated("pkg/kubelet/apis/config/scheme/scheme.go:32", until=(1, 25)),
    Dated("pkg/kubelet/apis/config/scheme/scheme.go:33", (1, 26)),
)
OTHER_KINDS = (
    Dated((API_VERSION, "SerializedNodeConfigSource")),
    Dated((API_VERSION, "CredentialProviderConfig"), (1, 24)),
    Dated((f"{GROUP}/v1", "CredentialProviderConfig"), (1, 26)),
    Dated((API_VERSION, "ImagePullIntent"), (1, 35)),
    Dated((API_VERSION, "ImagePulledRecord"), (1, 35)),
)
INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"


def decode_kubelet_config(
    value: Mapping[str, object], version: Version = REFERENCE
) -> KubeletConfig | Refusal:
    """Read and default a configuration, or say in Go's words why it cannot be read."""
    wrong = _wrong_kind(value, version)
    if wrong:
        return Refusal(STAGE, wrong if wrong.startswith("failed to cast") else f"failed to decode: {wrong}")
    reading = _Reading()
    try:
        found = reading.struct(configuration_of(version), value, "")
    except _Stop as stop:
        return Refusal(STAGE, f"failed to decode: {stop.message}")
    if reading.first_problem:
        return Refusal(STAGE, f"failed to decode: {reading.first_problem}")
    config = _config(found, eviction.defaults(version))
    return replace(config, given=frozenset(value))


def unknown_fields(value: Mapping[str, object], version: Version = REFERENCE) -> tuple[str, ...]:
    """What the kubelet warns about and passes over: ``unknown field "cpuManagerPolicyy"``."""
    return tuple(f"unknown field {quote(path)}" for path in _unknown(configuration_of(version), value, ""))


def _config(found: Mapping[str, Any], defaults: Mapping[str, str]) -> KubeletConfig:
    thresholds = found.get("evictionHard")
    if thresholds is None:
        thresholds = defaults
    elif found.get("mergeDefaultEvictionSettings"):
        thresholds = {**defaults, **thresholds}
    return KubeletConfig(
        cpu_manager_policy=found.get("cpuManagerPolicy", "none"),
        cpu_manager_policy_options=found.get("cpuManagerPolicyOptions", {}),
        memory_manager_policy=found.get("memoryManagerPolicy", "None"),
        reserved_memory=tuple(
            ReservedMemory(entry.get("numaNode", 0), tuple(entry.get("limits", {}).items()))
            for entry in found.get("reservedMemory", ())
        ),
        topology_manager_policy=found.get("topologyManagerPolicy", "none"),
        topology_manager_scope=found.get("topologyManagerScope", "container"),
        topology_manager_policy_options=found.get("topologyManagerPolicyOptions", {}),
        system_reserved=found.get("systemReserved", {}),
        kube_reserved=found.get("kubeReserved", {}),
        reserved_system_cpus=found.get("reservedSystemCPUs", ""),
        system_reserved_cgroup=found.get("systemReservedCgroup", ""),
        kube_reserved_cgroup=found.get("kubeReservedCgroup", ""),
        eviction_hard=dict(thresholds),
        enforce_node_allocatable=found.get("enforceNodeAllocatable", ("pods",)),
        feature_gates=found.get("featureGates", {}),
        other={name: found[name] for name in sorted(validate.LOOKED_AT & found.keys())},
    )


def _wrong_kind(value: Mapping[str, object], release: Version) -> str | None:
    """What is wrong with apiVersion and kind; their names may be in any case here."""
    given = {"apiversion": "", "kind": ""}
    for key, word in sorted(value.items()):
        if key.lower() in given and word is not None:
            if not isinstance(word, str):
                field = "kind" if key.lower() == "kind" else "apiVersion"
                problem = _mismatch(word, f".{field}", "string")
                return f"couldn't get version/kind; json parse error: {problem}"
            given[key.lower()] = word
    version, kind = given["apiversion"] or API_VERSION, given["kind"] or KIND
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    if (version, kind) in at(release, OTHER_KINDS):
        return f"failed to cast object to KubeletConfiguration, unexpected type: {version}, Kind={kind}"
    if (version, kind) != (API_VERSION, KIND):
        (scheme,) = at(release, SCHEMES)
        return f"no kind {quote(kind)} is registered for version {quote(version)} in scheme {quote(scheme)}"
    return None


def _unknown(shape: Shape, value: object, path: str) -> Iterator[str]:
    if isinstance(shape, Struct) and isinstance(value, Mapping):
        for key, item in sorted(value.items()):
            inside = f"{path}.{key}" if path else key
            if key in shape.fields:
                yield from _unknown(shape.fields[key].shape, item, inside)
            else:
                yield inside
    elif isinstance(shape, Many) and isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _unknown(shape.item, item, f"{path}[{i}]")


class _Stop(Exception):
    """Reading cannot go on."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class _Reading:
    """One walk over a value along its shape, which remembers the first type that did not fit."""

    def __init__(self) -> None:
        self.first_problem: str | None = None

    def struct(self, shape: Struct, value: Mapping[str, object], path: str) -> dict[str, object]:
        """Fields that are set; one that does not distinguish zero from absent is not set when zero."""
        found: dict[str, object] = {}
        for key, item in sorted(value.items()):
            field = shape.fields.get(key)
            if field is None:
                continue
            steps = (path, shape.inlined, key)
            inside = ".".join(step for step in steps if step)
            read = self.field(field, item, f"{shape.name}.{inside}", inside)
            if read is not None:
                found[key] = read
        return found

    def field(self, field: ConfigField, value: object, place: str, path: str) -> object:
        """A member of a struct; None when it is not set."""
        if value is None and (field.optional or field.shape != Special("duration")):
            return None
        read = self.value(field.shape, value, place, path)
        keeps_zero = field.optional or isinstance(field.shape, Many | ByName)
        return read if keeps_zero else read or None

    def value(self, shape: Shape, value: object, place: str, path: str) -> object:
        """Any value, by its shape."""
        if isinstance(shape, Special):
            return _special(shape.kind, value, place)
        if value is None:
            return _zero(shape)
        match shape, value:
            case (TextType(), str()) | (Truth(), bool()):
                return value
            case (Whole() | Real(), int() | float()) if not isinstance(value, bool):
                return self.number(shape, value, place)
            case (Many(), list() | tuple()):
                return tuple(self.value(shape.item, item, place, path) for item in value)
            case (ByName(), Mapping()):
                return {key: self.value(shape.item, item, place, path) for key, item in sorted(value.items())}
            case (Struct(), Mapping()):
                return self.struct(shape, value, path)
        return self.note(_mismatch(value, place, shape.go), shape)

    def number(self, shape: Whole | Real, value: float, place: str) -> object:
        """A number, within its bounds."""
        text = _number_text(value)
        if isinstance(shape, Real) and abs(value) <= sys.float_info.max:
            return float(value)
        if isinstance(shape, Whole) and _is_whole(text, shape.lowest, shape.highest):
            return int(text)
        return self.note(_mismatch(value, place, shape.go, text), shape)

    def note(self, problem: str, shape: Shape) -> object:
        """Keep a problem, if it is the first; go on with a zero value."""
        self.first_problem = self.first_problem or problem
        return _zero(shape)


def _zero(shape: Shape) -> object:
    match shape:
        case TextType():
            return ""
        case Truth():
            return False
        case Many():
            return ()
        case ByName() | Struct():
            return {}
    return 0


def _special(kind: str, value: object, place: str) -> object:
    try:
        if kind == "quantity":
            return _quantity(value)
        if kind == "loose duration" and not isinstance(value, str):
            return _loose_duration(value)
        if not isinstance(value, str | None):
            raise _Stop(_mismatch(value, place, "string"))
        return _time(value or "") if kind == "time" else Duration.parse(value or "")
    except ValueError as problem:
        raise _Stop(str(problem)) from None


def _quantity(value: object) -> Quantity:
    if value is None:
        return Quantity()
    if isinstance(value, str):
        return Quantity.parse(json.dumps(value, ensure_ascii=False)[1:-1].strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Quantity.parse(_number_text(value))
    return Quantity.parse("{}")  # never a quantity, whatever is inside


def _loose_duration(value: object) -> int:
    """A duration that may also be a number of nanoseconds."""
    if value is None:
        return 0
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = _number_text(value)
        what = f"number {text}"
        if _is_whole(text, INT64.lowest, INT64.highest):
            return int(text)
    else:
        text = json.dumps(value, separators=(",", ":"), sort_keys=True)
        what = _word(value)
    problem = f"json: cannot unmarshal {what} into Go value of type time.Duration"
    raise ValueError(f"invalid duration {quote(text)}: {problem}")


def _time(text: str) -> str:
    """A moment, as Go prints it."""
    try:
        moment = datetime.fromisoformat(text) if TIME.fullmatch(text) else None
    except ValueError:
        moment = None
    if moment is None:
        text = quote(text)
        raise ValueError(f'parsing time {text} as "{TIME_LAYOUT}": cannot parse {text} as "2006"')
    moment = moment.astimezone(UTC)
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def _mismatch(value: object, place: str, go: str, number: str = "") -> str:
    what = f"{_word(value)} {number}" if number else _word(value)
    return f"json: cannot unmarshal {what} into Go struct field {place} of type {go}"


def _word(value: object) -> str:
    """What Go calls a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list | tuple) else "object"


def _is_whole(text: str, lowest: int, highest: int) -> bool:
    return INTEGER.fullmatch(text) is not None and lowest <= whole_number(text) <= highest


def _number_text(value: float) -> str:
    """A number as it stands in the JSON that Go makes of YAML."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        sign = "-" if value < 0 else "+"
        raise _Stop(f"json: unsupported value: {'NaN' if math.isnan(value) else sign + 'Inf'}")
    return number_text(value)

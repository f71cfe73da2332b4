"""The last of the kubelet's demands: user namespaces, logging, tracing, memory QoS, log files.

The machine is taken to be one with cgroup v2, which the kubelet wants by default.  A tracing
endpoint that is no URL at all is not recognised here.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from numawise.rules.duration import Duration
from numawise.strconv import quote

Values = Mapping[str, Any]
Gates = Mapping[str, bool]
LOOKED_AT = frozenset({
    "userNamespaces", "showHiddenMetricsForVersion", "logging", "tracing", "memoryThrottlingFactor",
    "memoryReservationPolicy", "enableSystemLogQuery", "enableSystemLogHandler", "containerLogMaxWorkers",
    "containerLogMonitorInterval", "containerLogMaxFiles", "podLogsDir",
})  # fmt: skip

INVALID = "invalid configuration: "
PREVIOUS_VERSION = "1.35"
IDS_UNIT = 65536
LARGEST_VERBOSITY = 2**31 - 1
MOST_SAMPLES = 1_000_000
SCHEME = re.compile(r"([A-Za-z][-+.A-Za-z0-9]*):", re.ASCII)
TRACING_SCHEMES = ("dns", "unix", "unix-abstract")
RESERVATION_POLICIES = ("None", "TieredReservation")
SHORTEST_INTERVAL = 3 * 10**9


def problems(values: Values, gates: Gates) -> Iterator[str]:
    """Everything wrong with these fields, in the kubelet's order and words."""
    yield from _user_namespaces(values.get("userNamespaces", {}).get("idsPerPod"))
    hidden = values.get("showHiddenMetricsForVersion", "")
    if hidden not in ("", PREVIOUS_VERSION):
        yield (
            "invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: Invalid value:"
            f" {quote(hidden)}: must be omitted or have the value '{PREVIOUS_VERSION}';"
            " only the previous minor version is allowed"
        )
    yield from _logging(values.get("logging", {}), gates)
    yield from _tracing(values.get("tracing", {}))
    yield from _memory_qos(values, gates)
    yield from _log_files(values)


def shown(number: float) -> str:
    """A number with a fraction as Go's ``%v`` prints it."""
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    if not number or not isinstance(exponent, int):
        return "0"
    size = len(digits) + exponent - 1
    if -4 <= size < 6:
        text = f"{Decimal((0, digits, exponent)):f}"
    else:
        mantissa = "".join(map(str, digits))
        point = f"{mantissa[0]}.{mantissa[1:]}" if len(mantissa) > 1 else mantissa
        text = f"{point}e{'-' if size < 0 else '+'}{abs(size):02d}"
    return f"-{text}" if sign else text


def _user_namespaces(ids: int | None) -> Iterator[str]:
    if ids is None:
        return
    field = f"{INVALID}userNamespaces.idsPerPod must"
    if ids < IDS_UNIT:
        yield f"{field} not be less than {IDS_UNIT}"
    elif ids % IDS_UNIT:
        yield f"{field} be a multiple of {IDS_UNIT}"
    elif ids > 2**32 - 1:
        yield f"{field} not be more than {2**32 - 1}"


def _logging(logging: Values, gates: Gates) -> Iterator[str]:
    pause = logging.get("flushFrequency", 1)
    if pause <= 0:
        printed = quote(str(pause)) if isinstance(pause, Duration) else str(pause)
        yield f"logging.flushFrequency: Invalid value: {printed}: Must be greater than zero"
    form = logging.get("format", "text")
    if form not in ("text", "json"):
        yield f"logging.format: Invalid value: {quote(form)}: Unsupported log format"
    yield from _verbosity("logging.verbosity", logging)
    modules = logging.get("vmodule", ())
    if modules and form != "text":
        yield "logging.vmodule: Forbidden: Only supported for text log format"
    for i, item in enumerate(modules):
        pattern, field = item.get("filePattern", ""), f"logging.vmodule[{i}]"
        if not pattern:
            yield f"{field}: Required value: File pattern must not be empty"
        if "=" in pattern or "," in pattern:
            wrong = "File pattern must not contain equal sign or comma"
            yield f"{field}: Invalid value: {quote(pattern)}: {wrong}"
        yield from _verbosity(field, item)
    if gates["LoggingAlphaOptions"]:
        return
    for form in ("text", "json"):
        options = logging.get("options", {}).get(form, {})
        size = options.get("infoBufferSize")
        for name, is_set in (
            ("splitStream", options.get("splitStream", False)),
            ("infoBufferSize", size is not None and size.value != 0),
        ):
            if is_set:
                yield f"logging.options.{form}.{name}: Forbidden: Feature LoggingAlphaOptions is disabled"


def _verbosity(field: str, values: Values) -> Iterator[str]:
    verbosity = values.get("verbosity", 0)
    if verbosity > LARGEST_VERBOSITY:
        yield f"{field}: Invalid value: {verbosity}: Must be <= {LARGEST_VERBOSITY}"


def _tracing(tracing: Values) -> Iterator[str]:
    rate, endpoint = tracing.get("samplingRatePerMillion", 0), tracing.get("endpoint")
    field = f"tracing.samplingRatePerMillion: Invalid value: {rate}:"
    if rate < 0:
        yield f"{field} sampling rate must be positive"
    if rate > MOST_SAMPLES:
        yield f"{field} sampling rate per million must be less than or equal to one million"
    if endpoint is None:
        return
    address = endpoint if "//" in endpoint else f"dns://{endpoint}"
    found = SCHEME.match(address)
    scheme = found[1].lower() if found else ""
    if scheme not in TRACING_SCHEMES:
        yield (
            f"tracing.endpoint: Invalid value: {quote(address)}: unsupported scheme: {scheme}."
            "  Options are none, dns, unix, or unix-abstract."
            "  See https://github.com/grpc/grpc/blob/master/doc/naming.md"
        )


def _memory_qos(values: Values, gates: Gates) -> Iterator[str]:
    factor = values.get("memoryThrottlingFactor", 0.9)
    if not 0 < factor <= 1:
        bounds = "must be greater than 0 and less than or equal to 1.0"
        yield f"{INVALID}memoryThrottlingFactor {shown(factor)} {bounds}"
    policy = values.get("memoryReservationPolicy", "None")
    if policy == "TieredReservation" and not gates["MemoryQoS"]:
        needs = "requires MemoryQoS feature gate to be enabled"
        yield f"{INVALID}memoryReservationPolicy {quote(policy)} {needs}"
    if policy not in RESERVATION_POLICIES:
        one, other = map(quote, RESERVATION_POLICIES)
        yield (
            f"{INVALID}option {quote(policy)} specified for memoryReservationPolicy."
            f" Valid options are {one} or {other}"
        )


def _log_files(values: Values) -> Iterator[str]:
    if values.get("enableSystemLogQuery") and not values.get("enableSystemLogHandler", True):
        yield f"{INVALID}enableSystemLogHandler is required for enableSystemLogQuery"
    if values.get("containerLogMaxWorkers", 1) < 1:
        yield f"{INVALID}containerLogMaxWorkers must be greater than or equal to 1"
    if values.get("containerLogMonitorInterval", SHORTEST_INTERVAL) < SHORTEST_INTERVAL:
        yield (
            f"{INVALID}containerLogMonitorInterval must be a positive time duration"
            " greater than or equal to 3s"
        )
    if values.get("containerLogMaxFiles", 5) <= 1:
        yield f"{INVALID}containerLogMaxFiles must be greater than 1"
    folder = values.get("podLogsDir", "/")
    if folder.startswith("/") and "/" + posixpath.normpath(folder).lstrip("/") != folder:
        yield f"{INVALID}pod logs path {quote(folder)} must be normalized"
    if not folder.isascii():
        yield f"{INVALID}pod logs path {quote(folder)} mut contains ASCII characters only"

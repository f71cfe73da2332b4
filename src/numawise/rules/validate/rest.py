"""The last of the kubelet's demands: user namespaces, logging, tracing, memory QoS, log files.

The machine is taken to be one with cgroup v2, which the kubelet wants by default.  A tracing
endpoint that is not a URL at all is not recognised here.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from numawise.rules.eviction import Duration
from numawise.rules.model import KubeletConfig
from numawise.rules.validate.general import INVALID, Check, Gates
from numawise.rules.versions import NEWEST, OLDEST, Dated
from numawise.strconv import quote

Values = Mapping[str, Any]
LOOKED_AT = frozenset({
    "userNamespaces", "showHiddenMetricsForVersion", "logging", "tracing", "memoryThrottlingFactor",
    "memoryReservationPolicy", "enableSystemLogQuery", "enableSystemLogHandler", "containerLogMaxWorkers",
    "containerLogMonitorInterval", "containerLogMaxFiles", "podLogsDir",
})  # fmt: skip

IDS_UNIT = 65536
LARGEST_VERBOSITY = 2**31 - 1
MOST_SAMPLES = 1_000_000
SCHEME = re.compile(r"([A-Za-z][-+.A-Za-z0-9]*):", re.ASCII)
TRACING_SCHEMES = ("dns", "unix", "unix-abstract")
RESERVATION_POLICIES = ("None", "TieredReservation")
ONCE_DEFAULT_FACTOR = 0.9
SHORTEST_INTERVAL = 3 * 10**9


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


def _user_namespaces(config: KubeletConfig, _: Gates) -> Iterator[str]:
    ids = config.other.get("userNamespaces", {}).get("idsPerPod")
    if ids is None:
        return
    field = f"{INVALID}userNamespaces.idsPerPod must"
    if ids < IDS_UNIT:
        yield f"{field} not be less than {IDS_UNIT}"
    elif ids % IDS_UNIT:
        yield f"{field} be a multiple of {IDS_UNIT}"
    elif ids > 2**32 - 1:
        yield f"{field} not be more than {2**32 - 1}"


# --- metrics and logging --------------------------------------------------------------------


def _hidden_metrics(words: str, minor: int, config: KubeletConfig, _: Gates) -> Iterator[str]:
    wanted, previous = config.other.get("showHiddenMetricsForVersion", ""), f"1.{minor - 1}"
    if wanted not in ("", previous):
        yield words.format(wanted=quote(wanted), previous=previous)


FLAG_WORDS = (
    "--show-hidden-metrics-for-version must be omitted or have the value '{previous}'."
    " Only the previous minor version is allowed"
)
FIELD_WORDS = (
    "invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: Invalid value: {wanted}:"
    " must be omitted or have the value '{previous}'; only the previous minor version is allowed"
)
HIDDEN_METRICS: tuple[Dated[Check], ...] = tuple(
    Dated(partial(_hidden_metrics, FLAG_WORDS if minor < 36 else FIELD_WORDS, minor), (1, minor), (1, minor))
    for minor in range(OLDEST[1], NEWEST[1] + 1)
)


def _flush(config: KubeletConfig, _: Gates) -> Iterator[str]:
    pause = _logging(config).get("flushFrequency", 1)
    if pause <= 0:
        printed = quote(str(pause)) if isinstance(pause, Duration) else str(pause)
        yield f"logging.flushFrequency: Invalid value: {printed}: Must be greater than zero"


def _log_format(words: str, config: KubeletConfig, _: Gates) -> Iterator[str]:
    form = _logging(config).get("format", "text")
    if form not in ("text", "json"):
        yield words.format(quote(form), form)


def _json_gate(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    if _logging(config).get("format") == "json" and not gates["LoggingBetaOptions"]:
        yield "logging.format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"


def _log_levels(form: str, config: KubeletConfig, _: Gates) -> Iterator[str]:
    logging = _logging(config)
    yield from _verbosity("logging.verbosity", logging, form)
    modules = logging.get("vmodule", ())
    if modules and logging.get("format", "text") != "text":
        yield "logging.vmodule: Forbidden: Only supported for text log format"
    for i, item in enumerate(modules):
        pattern, field = item.get("filePattern", ""), f"logging.vmodule[{i}]"
        if not pattern:
            yield f"{field}: Required value: File pattern must not be empty"
        if "=" in pattern or "," in pattern:
            wrong = "File pattern must not contain equal sign or comma"
            yield f"{field}: Invalid value: {quote(pattern)}: {wrong}"
        yield from _verbosity(field, item, form)


def _log_options(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    if gates["LoggingAlphaOptions"]:
        return
    for form in ("text", "json"):
        options = _logging(config).get("options", {}).get(form, {})
        size = options.get("infoBufferSize")
        for name, is_set in (
            ("splitStream", options.get("splitStream", False)),
            ("infoBufferSize", size is not None and size.value != 0),
        ):
            if is_set:
                yield f"logging.options.{form}.{name}: Forbidden: Feature LoggingAlphaOptions is disabled"


def _logging(config: KubeletConfig) -> Values:
    found: Values = config.other.get("logging", {})
    return found


def _verbosity(field: str, values: Values, form: str) -> Iterator[str]:
    verbosity = values.get("verbosity", 0)
    if verbosity > LARGEST_VERBOSITY:
        yield f"{field}: Invalid value: {verbosity:{form}}: Must be <= {LARGEST_VERBOSITY}"


# --- tracing, memory QoS, log files ---------------------------------------------------------


def _gated_tracing(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    if gates["KubeletTracing"]:
        yield from _tracing(config, gates)
    elif "tracing" in config.other:
        yield f"{INVALID}tracing should not be configured if KubeletTracing feature flag is disabled."


def _tracing(config: KubeletConfig, _: Gates) -> Iterator[str]:
    tracing = config.other.get("tracing", {})
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


def _throttling_gate(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    factor = config.other.get("memoryThrottlingFactor", ONCE_DEFAULT_FACTOR)
    if factor != ONCE_DEFAULT_FACTOR and not gates["MemoryQoS"]:
        yield f"{INVALID}memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled"


def _throttling(config: KubeletConfig, _: Gates) -> Iterator[str]:
    factor = config.other.get("memoryThrottlingFactor", ONCE_DEFAULT_FACTOR)
    if not 0 < factor <= 1:
        bounds = "must be greater than 0 and less than or equal to 1.0"
        yield f"{INVALID}memoryThrottlingFactor {shown(factor)} {bounds}"


def _reservation_policy(config: KubeletConfig, gates: Gates) -> Iterator[str]:
    policy = config.other.get("memoryReservationPolicy", "None")
    if policy == "TieredReservation" and not gates["MemoryQoS"]:
        needs = "requires MemoryQoS feature gate to be enabled"
        yield f"{INVALID}memoryReservationPolicy {quote(policy)} {needs}"
    if policy not in RESERVATION_POLICIES:
        one, other = map(quote, RESERVATION_POLICIES)
        yield (
            f"{INVALID}option {quote(policy)} specified for memoryReservationPolicy."
            f" Valid options are {one} or {other}"
        )


def _log_query_gate(field: str, config: KubeletConfig, gates: Gates) -> Iterator[str]:
    if config.other.get("enableSystemLogQuery") and not gates["NodeLogQuery"]:
        yield f"{INVALID}NodeLogQuery feature gate is required for {field}"


def _log_query(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.other.get("enableSystemLogQuery") and not config.other.get("enableSystemLogHandler", True):
        yield f"{INVALID}enableSystemLogHandler is required for enableSystemLogQuery"


def _log_workers(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.other.get("containerLogMaxWorkers", 1) < 1:
        yield f"{INVALID}containerLogMaxWorkers must be greater than or equal to 1"
    if config.other.get("containerLogMonitorInterval", SHORTEST_INTERVAL) < SHORTEST_INTERVAL:
        yield (
            f"{INVALID}containerLogMonitorInterval must be a positive time duration"
            " greater than or equal to 3s"
        )


def _log_files(config: KubeletConfig, _: Gates) -> Iterator[str]:
    if config.other.get("containerLogMaxFiles", 5) <= 1:
        yield f"{INVALID}containerLogMaxFiles must be greater than 1"


def _log_folder(config: KubeletConfig, _: Gates) -> Iterator[str]:
    folder = config.other.get("podLogsDir", "/")
    clean = posixpath.normpath(folder)
    if not folder.startswith("/"):
        yield f"{INVALID}pod logs path {quote(folder)} must be absolute path"
    else:
        clean = "/" + clean.lstrip("/")
    if clean != folder:
        yield f"{INVALID}pod logs path {quote(folder)} must be normalized"
    if not folder.isascii():
        yield f"{INVALID}pod logs path {quote(folder)} mut contains ASCII characters only"


CHECKS: tuple[Dated[Check], ...] = (
    Dated(_user_namespaces, (1, 33)),
    *HIDDEN_METRICS,
    Dated(_flush, (1, 35)),
    Dated(partial(_log_format, "unsupported log format: {1}"), until=(1, 21)),
    Dated(partial(_log_format, "logging.format: Invalid value: {0}: Unsupported log format"), (1, 22)),
    Dated(_json_gate, (1, 25)),
    Dated(partial(_log_levels, "#x"), (1, 23), (1, 33)),
    Dated(partial(_log_levels, "d"), (1, 34)),
    Dated(_log_options, (1, 25)),
    Dated(_gated_tracing, (1, 25), (1, 33)),
    Dated(_tracing, (1, 34)),
    Dated(_throttling_gate, (1, 37)),
    Dated(_throttling, (1, 22)),
    Dated(_reservation_policy, (1, 36)),
    Dated(partial(_log_query_gate, "enableSystemLogHandler"), (1, 27), (1, 34)),
    Dated(partial(_log_query_gate, "enableSystemLogQuery"), (1, 35)),
    Dated(_log_query, (1, 27)),
    Dated(_log_workers, (1, 30)),
    Dated(_log_files, (1, 33)),
    Dated(_log_folder, (1, 30)),
)

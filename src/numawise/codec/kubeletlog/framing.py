"""What others put around a kubelet's line: journals, syslog, container runtimes, collectors, node names.

Rules kept here:

1. The klog head is looked for anywhere in a line; what stands before it is the frame.  Of a frame the node's
   name and the year are kept; an unknown frame is taken for the name of a node, without numbers and times.
2. JSON objects are journal entries (``MESSAGE``), lines of a container (``log``), entries of a collector
   (``message``, ``textPayload``, ``jsonPayload``), or klog's own JSON (``ts`` and ``msg``).
3. A runtime breaks long lines; such a part says so, and the reader joins them.
4. A kubelet that ends before it logs writes ``Error: …`` (1.23 to 1.25) or Go's ``panic: …``, without a head;
   process and time of such a line are those of its frame.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from numawise.codec.kubeletlog.fields import Fields, parse_message
from numawise.results.log import MONTHS, NOWHERE_TOLD, YEARLESS, Origin
from numawise.strconv import whole_number
from numawise.values import dataclass, field, replace

HEAD = re.compile(
    r"([IWEF])(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9}) +(\d+) ([^ :\]]+):(\d+)\] ?", re.ASCII
)
KLOG_JSON = re.compile(r'\{"(?:ts|logger|caller|level)":', re.ASCII)
RUNTIME = re.compile(r"(?P<iso>\d{4}-\d\d-\d\dT[\d:.]+\S*) (?:stdout|stderr) (?P<tag>[FP])\S* $", re.ASCII)
PROGRAM = re.compile(r"(?:(?P<host>\S+) )?(?P<name>[^\s\[\]:]+)(?:\[(?P<pid>\d+)\])?: $", re.ASCII)
YEAR = re.compile(r"(?<!\d)(\d{4})-\d\d-\d\d[T ]\d\d:\d\d", re.ASCII)
TIME = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d{4}-\d\d-\d\d|\[ *\d+\.\d+\]|\d+\.\d+",
    re.ASCII,
)
ZONE = re.compile(r"(?:[A-Z]{2,5}|[+-]\d\d(?::?\d\d)?)", re.ASCII)
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
KNOWN = ("MESSAGE", "message", "log", "textPayload", "msg")
OBJECTS = ('{"', "{ ")
BARE = re.compile(r"(?:Error|panic): (?=failed to )")
KUBELETS_ERROR = re.compile(
    r"failed to (?:merge global and in-flight|(?:run|load|validate|construct|parse) [Kk]ubelet)"
)
ISO_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)", re.ASCII)
SYSLOG_TIME = re.compile(r"()([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Framed:
    """A line without its frame."""

    body: str = ""
    """From the klog head on; '' for klog's JSON."""
    data: Mapping[str, object] = field(default_factory=dict)
    """Klog's JSON."""
    host: str = ""
    year: int | None = None
    part: bool = False
    """More of the line follows in the next."""
    bare: bool = False
    """The body has no head: it is what a kubelet without a log says at its end (rule 4)."""
    pid: int = 0
    time: datetime | None = None
    """Of the frame; only of what is bare."""


def unframe(text: str) -> Framed | None:
    """What a kubelet wrote in a line; None when this is not a klog line."""
    text = text.rstrip("\r\n\0")
    if "\x1b" in text:
        text = COLOUR.sub("", text)
    lead = text.lstrip(" \t\x1e").removeprefix("data: ")
    if lead.startswith(OBJECTS):
        found = _object(lead)
        if found is not None:
            return found
    head = HEAD.search(text)
    if head is not None:
        return _from_text(text, head.start())
    klog = KLOG_JSON.search(text)
    if klog is None:
        return _bare(text)
    found = _object(text[klog.start() :])
    if found is None:
        return None
    outer = _frame(text[: klog.start()])
    return Framed(found.body, found.data, outer.host, outer.year, outer.part)


def _bare(text: str) -> Framed | None:
    """A line without a head (rule 4); None when this is none."""
    found = BARE.search(text)
    if found is None:
        return None
    prefix, body = text[: found.start()], text[found.end() :]
    program, runtime = PROGRAM.search(prefix), RUNTIME.search(prefix)
    if prefix.strip() and program is None and runtime is None and not KUBELETS_ERROR.match(body):
        return None
    if prefix.endswith('"'):
        body, prefix = _json_text(body), ""
    frame = _frame(prefix)
    pid = program["pid"] if program is not None else None
    return Framed(
        body,
        host=frame.host,
        year=frame.year,
        part=frame.part,
        bare=True,
        pid=int(pid) if pid and len(pid) < 12 else 0,
        time=_frame_time(prefix),
    )


def _frame_time(prefix: str) -> datetime | None:
    found = ISO_TIME.search(prefix) or SYSLOG_TIME.search(prefix)
    if found is None:
        return None
    year, month, *rest = found.groups()
    try:
        number = MONTHS.index(month) + 1 if month in MONTHS else int(month)
        return datetime(int(year or YEARLESS), number, *map(int, rest))  # type: ignore[arg-type]  # noqa: DTZ001 - no zone
    except ValueError:
        return None


def continuation(text: str) -> Framed:
    """The rest of a line that a runtime broke, or of a value over several lines."""
    text = text.rstrip("\r\n\0")
    if text.startswith("{"):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return Framed(text)
        log = str(data.get("log") or data.get("MESSAGE") or "") if isinstance(data, dict) else ""
        return Framed(log.rstrip("\n"), part=not log.endswith("\n"))
    found = re.match(r"\d{4}-\d\d-\d\dT[\d:.]+\S* (?:stdout|stderr) ([FP])\S* ?", text)
    if found:
        return Framed(text[found.end() :], part=found[1] == "P")
    tab = text.find(": \t")
    return Framed(text[tab + 2 :] if 0 <= tab < 200 else text)


# --- text -----------------------------------------------------------------------------------


def _from_text(text: str, at: int) -> Framed:
    prefix, body = text[:at], text[at:]
    if prefix.endswith('"'):  # inside JSON that is spread over lines, or cut off
        body = _json_text(body)
        prefix = ""
    frame = _frame(prefix)
    return Framed(body, host=frame.host, year=frame.year, part=frame.part)


def _frame(prefix: str) -> Framed:
    """What a prefix says (rule 1)."""
    if not prefix:
        return Framed()
    year = YEAR.search(prefix)
    year_number = whole_number(year[1]) if year else None
    runtime = RUNTIME.search(prefix)
    if runtime:
        return Framed(host=_label(prefix[: runtime.start()]), year=year_number, part=runtime["tag"] == "P")
    program = PROGRAM.search(prefix)
    if program and (program["pid"] or program["host"]):
        host = program["host"] or ""
        if TIME.fullmatch(host) or (host.isdecimal() and len(host) < 3) or ZONE.fullmatch(host):
            host = ""
        return Framed(host=host or _label(prefix[: program.start()]), year=year_number)
    return Framed(host=_label(prefix), year=year_number)


def _label(prefix: str) -> str:
    """The words of an unknown prefix that may name a node."""
    words = []
    for word in re.split(r"[\s|]+", TIME.sub(" ", prefix)):
        word = re.sub(r"^<\d+>", "", word).strip("[](){}<>:,;\"'=")
        name, colon, number = word.rpartition(":")
        word = name if colon and number.isdecimal() else word
        if word and not word.isdecimal() and word not in ("MESSAGE", "data") and not _is_date(word):
            words.append(word)
    return " ".join(words)


def _is_date(word: str) -> bool:
    return word in DATES or word in ("UTC", "CST", "CET", "CEST", "EST", "EDT", "PST", "PDT", "GMT", "JST")


DATES = frozenset(
    "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec Mon Tue Wed Thu Fri Sat Sun".split()  # noqa: SIM905 - shorter
)


def _json_text(text: str) -> str:
    """The rest of a JSON string, up to its quote where there is one."""
    found = re.match(r'[^"\\]*+(?:\\.[^"\\]*+)*+', text, re.DOTALL)
    inner = found[0] if found else text
    try:
        return str(json.loads(f'"{inner}"'))
    except ValueError:
        return inner.replace('\\"', '"').replace("\\\\", "\\")


# --- objects --------------------------------------------------------------------------------


def _object(text: str) -> Framed | None:
    """A JSON object (rule 2); None when it is not JSON, or none that holds a line."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    if "msg" in data and ("ts" in data or "caller" in data):
        return Framed(data=data)
    inner = data.get("jsonPayload")
    outer = data
    if isinstance(inner, dict):
        data = inner
    for key in KNOWN:
        if key in data:
            line = _text(data[key])
            break
    else:
        return None
    found = unframe(line)
    if found is None:
        return None
    part = key == "log" and not line.endswith("\n") and "stream" in data
    host, year = found.host or _host(data, outer), found.year or _year(data, outer)
    if not found.bare:
        return Framed(found.body, found.data, host, year, part)
    pid = str(data.get("_PID") or "")
    return Framed(
        found.body,
        host=host,
        year=year,
        part=part,
        bare=True,
        pid=found.pid or (int(pid) if pid.isascii() and pid.isdecimal() and len(pid) < 12 else 0),
        time=found.time or _entry_time(data, outer),
    )


def _text(value: object) -> str:
    """A journal gives a message that is not text as a list of bytes."""
    if isinstance(value, list):
        try:
            return bytes(value).decode(errors="replace")
        except (TypeError, ValueError):
            return ""
    return value if isinstance(value, str) else ""


def _host(data: Mapping[str, object], outer: Mapping[str, object]) -> str:
    for where in (data, outer):
        for key in ("_HOSTNAME", "hostname", "host", "node", "node_name"):
            value = where.get(key)
            if isinstance(value, dict):
                value = value.get("name")
            if isinstance(value, str) and value:
                return value
        inside = where.get("kubernetes")
        if isinstance(inside, dict):
            named = inside.get("host") or inside.get("node_name")
            if isinstance(named, str):
                return named
    return ""


def _entry_time(data: Mapping[str, object], outer: Mapping[str, object]) -> datetime | None:
    """When a journal or a collector took an entry down."""
    micro = data.get("__REALTIME_TIMESTAMP") or data.get("_SOURCE_REALTIME_TIMESTAMP")
    if isinstance(micro, str) and micro.isascii() and micro.isdecimal() and len(micro) < 18:
        return datetime.fromtimestamp(whole_number(micro) / 1e6, UTC).replace(tzinfo=None)
    for where in (data, outer):
        for key in ("time", "@timestamp", "timestamp"):
            found = _frame_time(str(where.get(key, "")))
            if found is not None:
                return found
    return None


def _year(data: Mapping[str, object], outer: Mapping[str, object]) -> int | None:
    micro = data.get("__REALTIME_TIMESTAMP") or data.get("_SOURCE_REALTIME_TIMESTAMP")
    if isinstance(micro, str) and micro.isascii() and micro.isdecimal() and len(micro) < 18:
        return datetime.fromtimestamp(whole_number(micro) / 1e6, UTC).year
    for where in (data, outer):
        for key in ("time", "@timestamp", "timestamp"):
            found = YEAR.search(str(where.get(key, "")))
            if found:
                return whole_number(found[1])
    return None


def export_entry(record: bytes) -> Framed | None:
    """An entry of ``journalctl -o export``: a field a line; one with line breaks has its length first."""
    fields: dict[bytes, bytes] = {}
    at, size = 0, len(record)
    while at < size:
        end = record.find(b"\n", at)
        end = size if end < 0 else end
        name, equals, value = record[at:end].partition(b"=")
        if equals:
            fields[name] = value
            at = end + 1
            continue
        length = int.from_bytes(record[end + 1 : end + 9], "little")
        fields[name] = record[end + 9 : end + 9 + length]
        at = end + 9 + length + 1
    message = fields.get(b"MESSAGE")
    found = unframe(message.decode(errors="replace")) if message else None
    if found is None:
        return None
    texts = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in fields.items()}
    return replace(found, host=found.host or _host(texts, {}), year=found.year or _year(texts, {}))


# --------------------------------------------------------------------------------------------------
# The head of a klog line: severity, time, process, source file.


HEADS_OWN = frozenset({"ts", "caller", "msg", "v", "level", "severity", "logger"})


@dataclass(frozen=True, slots=True)
class Headed:
    """A line with its head read."""

    message: str
    origin: Origin = NOWHERE_TOLD
    time: datetime | None = None
    file: str = ""
    """The name of the source file, without its folder."""
    fields: Fields | None = None
    """None: a plain message."""
    error: bool = False


def headed(framed: Framed) -> Headed | None:
    """Read the head; None when there is none."""
    if framed.data:
        return _json(framed.data, framed.host)
    if framed.bare:
        origin, error = Origin(framed.host, framed.pid), Fields({"err": framed.body})
        return Headed("command failed", origin, framed.time, fields=error, error=True)
    head = HEAD.match(framed.body)
    if head is None:
        return None
    rest = framed.body[head.end() :]
    origin = Origin(framed.host, int(head[8]) if len(head[8]) < 12 else 0)
    parsed = parse_message(rest)
    message, fields = parsed if parsed is not None else (rest, None)
    return Headed(message, origin, _time(head.groups(), framed.year), head[9], fields, head[1] in "EF")


def _time(groups: tuple[str, ...], year: int | None) -> datetime | None:
    _, month, day, hour, minute, second, fraction, *_ = groups
    micro = int(f"{fraction:0<6}"[:6])
    try:
        return datetime(  # noqa: DTZ001 - a log has the time of its node, and no zone
            year or YEARLESS, int(month), int(day), int(hour), int(minute), int(second), micro
        )
    except ValueError:
        return None


def _json(data: Mapping[str, object], host: str) -> Headed:
    """Klog's JSON: ``ts`` in milliseconds (seconds, where a collector made it so)."""
    stamp = data.get("ts")
    time = None
    if isinstance(stamp, int | float) and not isinstance(stamp, bool) and 0 < stamp < 1e16:
        try:
            time = datetime.fromtimestamp(stamp / 1000 if stamp > 1e11 else stamp, UTC).replace(tzinfo=None)
        except (OverflowError, ValueError, OSError):
            time = None
    file, _, _ = str(data.get("caller") or "").rpartition(":")
    fields = Fields({key: value for key, value in data.items() if key not in HEADS_OWN})
    message = str(data.get("msg") or "")
    return Headed(message.rstrip("\n"), Origin(host), time, file.rpartition("/")[2], fields, "v" not in data)

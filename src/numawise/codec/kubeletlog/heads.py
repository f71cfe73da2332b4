"""The head of a klog line: severity, time, process, source file."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from numawise.codec.kubeletlog.fields import Fields, parse_message
from numawise.codec.kubeletlog.framing import HEAD, Framed
from numawise.codec.kubeletlog.values import NOWHERE_TOLD, YEARLESS, Origin

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
    head = HEAD.match(framed.body)
    if head is None:
        return None
    rest = framed.body[head.end() :]
    origin = Origin(framed.host, int(head[8]) if len(head[8]) < 12 else 0)
    told = parse_message(rest)
    message, fields = told if told is not None else (rest, None)
    return Headed(message, origin, _time(head.groups(), framed.year), head[9], fields, head[1] in "EF")


def _time(groups: tuple[str, ...], year: int | None) -> datetime | None:
    _, month, day, hour, minute, second, fraction, *_ = groups
    micro = int(f"{fraction:0<6}"[:6])
    try:
        return datetime(  # noqa: DTZ001 - a log tells the time of its node, and no zone
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

"""``--since``: from when on a log is of interest."""

import re
from datetime import datetime, timedelta

from numawise.codec.kubeletlog.values import YEARLESS
from numawise.errors import InputError

AGO = re.compile(r"-?(\d{1,6})\s*(s|m|h|d|w)", re.ASCII)
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d")
YEARLESS_FORMS = ("%m-%d %H:%M:%S", "%m-%d %H:%M", "%m-%d", "%b %d %H:%M:%S", "%b %d %H:%M", "%b %d")
TODAY = ("%H:%M:%S", "%H:%M")
ADVICE = (
    "write 10m or 2h (ago, by this machine's clock), or a time of the log: 08-15 22:24, 2024-08-15 22:24:53"
)


def parse_since(text: str, now: datetime) -> datetime:
    """A length of time before ``now``, or a time as the log has it."""
    text = text.strip().replace("T", " ").removesuffix("Z")
    ago = AGO.fullmatch(text)
    if ago:
        return now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    for form in FORMS:
        found = _parsed(text, form)
        if found is not None:
            return found
    for form in YEARLESS_FORMS:
        found = _parsed(f"{YEARLESS} {text}", f"%Y {form}")
        if found is not None:
            return found
    for form in TODAY:
        found = _parsed(text, form)
        if found is not None:
            return now.replace(hour=found.hour, minute=found.minute, second=found.second, microsecond=0)
    raise InputError(f"{text!r} is no time", field="--since", advice=ADVICE)


def _parsed(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)  # noqa: DTZ007 - a log tells no zone
    except ValueError:
        return None

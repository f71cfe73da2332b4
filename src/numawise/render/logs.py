"""What a kubelet's log says, for the terminal; and how far the reading is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import IO

from numawise.render.picture.text import plain
from numawise.render.progress import progress_bar
from numawise.render.terminal import BOLD, DIM, styled
from numawise.render.why import NARROWEST, why_text
from numawise.render.words import bytes_text, clean, columns, counted, times_text, wrap
from numawise.results.log import ExplainedAdmission, ExplainedStart, Kubelet, LogReport, stamp_text

"""Seconds after which a bar appears."""
MOST_SHOWN = 20
"""Findings in full; of the rest only the number is shown."""


def log_text(report: LogReport, width: int, *, color: bool = False, ascii_only: bool = False) -> str:
    """All findings, then what was read."""
    width = max(NARROWEST, width)
    parts = []
    for start in report.starts[:MOST_SHOWN]:
        head = _paint(_lines(_start_place(start), width), DIM, color=color)
        parts.append(head + why_text([start.explanation], width, color=color))
    for finding in report.findings[:MOST_SHOWN]:
        place = _lines(_place(finding), width).splitlines(keepends=True)
        head = "".join(_paint(line, DIM, color=color) for line in place)
        parts.append(head + why_text([finding.explanation], width, color=color))
    rest = len(report.findings) - MOST_SHOWN
    if rest > 0:
        parts.append(
            _lines(f"{counted(rest, 'more pod')} not shown; name one with --pod, or see -o json.", width)
        )
    more = len(report.starts) - MOST_SHOWN
    if more > 0:
        parts.append(_lines(f"{counted(more, 'more failure')} to start not shown; see -o json.", width))
    summary = _lines(_summary(report), width)
    first, newline, others = summary.partition("\n")
    parts.append(_paint(first, BOLD, color=color) + newline + others)
    drawn = "\n".join(parts)
    return plain(drawn) if ascii_only else drawn


def _paint(text: str, style: str, *, color: bool) -> str:
    if not color:
        return text
    body = text.rstrip("\n")
    return styled(body, style) + text[len(body) :]


def _lines(text: str, width: int) -> str:
    return "".join(line + "\n" for part in text.splitlines() for line in wrap(clean(part), width, columns))


def _place(finding: ExplainedAdmission) -> str:
    one = finding.admission
    return _where(one.start, one.origin.host, one.first_line, one.last_line)


def _start_place(start: ExplainedStart) -> str:
    one = start.failure
    return _where(one.last, one.origin.host, one.first_line, one.last_line)


def _where(time: datetime | None, host: str, first: int, last: int) -> str:
    """Where and when: ``Aug 15 22:24:53, node1, lines 3 to 27``."""
    parts = [stamp_text(time)] if time is not None else []
    if host:
        parts.append(clean(host))
    parts.append(f"lines {first} to {last}" if last > first else f"line {first}")
    return ", ".join(parts)


def _summary(report: LogReport) -> str:
    reading = report.reading
    verdicts = []
    if report.starts:
        failed = report.starts_left_out + sum(one.failure.count for one in report.starts)
        verdicts.append(f"kubelet not started {times_text(failed)}")
    verdicts += [f"{report.rejected:,} rejected", f"{report.admitted:,} admitted"]
    if report.resizes:
        verdicts.append(f"{counted(report.resizes, 'resize')} refused")
    if report.unfinished:
        verdicts.append(f"{report.unfinished:,} not decided in this log")
    if report.left_out:
        verdicts.append(f"{report.left_out:,} of other owners not listed separately")
    text = ", ".join(verdicts)
    lines = [f"{text[:1].upper()}{text[1:]}."]
    if not report.starts and not report.rejected + report.admitted + report.unfinished + report.resizes:
        lines = [_nothing(report)]
    kubelet = f"{reading.known:,} of a kubelet"
    others = "other" if reading.skipped == 1 else "others"
    skipped = f", {reading.skipped:,} {others} skipped" if reading.skipped else ""
    cut = f", {reading.cut:,} cut off" if reading.cut else ""
    read = f"{counted_lines(reading.lines)} read: {kubelet}{skipped}{cut}"
    if reading.first is not None and reading.last is not None:
        read += f"; {stamp_text(reading.first)} to {stamp_text(reading.last)}"
    lines.append(f"{read}.")
    lines += [text for one in report.kubelets[-3:] if (text := _kubelet(one))]
    return "\n".join(lines)


def counted_lines(count: int) -> str:
    """``1 line``, ``2,000 lines``."""
    return "1 line" if count == 1 else f"{count:,} lines"


def _nothing(report: LogReport) -> str:
    if report.others:
        return f"No such admission; the log has those of {', '.join(clean(one) for one in report.others)}."
    if report.early:
        return f"No admission since then; {counted(report.early, 'admission')} before."
    if any(one.policy == "none" for one in report.kubelets):
        return "No admission with hints: the policy is none, under which the kubelet asks for none."
    return "This log contains no admissions."


def _kubelet(one: Kubelet) -> str:
    parts = []
    if one.release:
        parts.append(clean(one.release))
    elif one.releases_text:
        parts.append(f"{one.releases_text} by the form of its lines")
    if one.policy:
        parts.append(f"policy {one.policy}" + ("" if one.policy_stated else " by its answers"))
    if one.scope and one.scope != "none":
        parts.append(f"scope {one.scope}")
    who = f"Kubelet on {clean(one.origin.host)}" if one.origin.host else "Kubelet"
    return f"{who}: {', '.join(parts)}." if parts else ""


@contextmanager
def reading(file: IO[str], total: int | None, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar with rate and time left while a long log is read; nothing when it is not ``shown``."""
    with progress_bar(file, "reading", total, shown=shown, amount=lambda size: bytes_text(int(size))) as done:
        yield done

"""Findings for people: by file, each with its reason and its fix, and one line that sums up.

Rules kept here:

1. Nothing is wider than the terminal; in a pipe lines are not broken.
2. Colour only where the caller says so; what it shows is also there as a word.
3. Text from files cannot steer the terminal.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from numawise.codec.findings import Row
from numawise.render.picture.text import columns
from numawise.render.words import clean, counted, wrap

BOLD, DIM, RED, YELLOW, CYAN, GREEN = "1", "2", "31", "33", "36", "32"
STYLES = {"error": RED, "warning": YELLOW, "info": CYAN}
INDENT = 2
LABELS = 4
"""Width of ``why`` and ``fix`` with the blank behind."""
NARROWEST, LONGEST_FIELD = 50, 44
Paint = Callable[[str, str], str]


def findings_text(rows: Sequence[Row], ignored: int = 0, *, width: int = 0, color: bool = False) -> str:
    """All findings and the summary; ``width`` 0: lines are not broken."""
    paint = _painted if color else _plain
    numbers = max((len(str(row.line)) for row in rows if row.line), default=1)
    words = max((len(row.severity) for row in rows), default=0)
    lines: list[str] = []
    for file, group in groupby(rows, key=lambda row: row.file):
        lines += [*([""] if lines else []), paint(clean(file) or "(no file)", BOLD)]
        for row in group:
            lines += _finding(row, numbers, words, width, paint)
    lines += [*([""] if lines else []), summary(rows, ignored, paint)]
    return "\n".join(lines) + "\n"


def _finding(row: Row, numbers: int, words: int, width: int, paint: Paint) -> Iterable[str]:
    line = str(row.line or "")
    head = f"{'':{INDENT}}{line:>{numbers}}  "
    severity = f"{row.severity:<{words}}"
    label = f"{row.code}  "
    start = len(head) + words + 1 + len(label)
    field = f"{clean(row.field)}: " if _tells(row) else ""
    first, *rest = _broken(f"{field}{clean(row.message)}", start, width)
    yield f"{paint(head, DIM)}{paint(severity, STYLES[row.severity])} {paint(label, BOLD)}{first}"
    yield from (f"{'':{start}}{part}" for part in rest)
    for name, text in (("why", row.why), ("fix", row.fix)):
        if text:
            parts = _broken(clean(text), start + LABELS, width)
            yield f"{'':{start}}{paint(f'{name} ', DIM)}{parts[0]}"
            yield from (f"{'':{start + LABELS}}{part}" for part in parts[1:])


def _tells(row: Row) -> bool:
    """Whether the field says more than the message; of pods and where long, the line number is enough."""
    last = re.split(r"[.\[\]]", row.field.rstrip("]"))[-1]
    in_pod = row.field.startswith(("spec", "items", "metadata"))
    return bool(row.field) and not in_pod and len(row.field) <= LONGEST_FIELD and last not in row.message


def _broken(text: str, start: int, width: int) -> list[str]:
    return wrap(text, max(width - start, NARROWEST), columns) if width else [text]


def summary(rows: Sequence[Row], ignored: int = 0, paint: Paint | None = None) -> str:
    """``2 errors, 1 warning, 3 notes``; or that nothing was found."""
    paint = paint or _plain
    left_out = f" ({ignored} left out)" if ignored else ""
    counts = [
        paint(counted(number, word), STYLES[severity])
        for severity, word in (("error", "error"), ("warning", "warning"), ("info", "note"))
        if (number := sum(row.severity == severity for row in rows))
    ]
    return (", ".join(counts) or paint("nothing found", GREEN)) + left_out


def _plain(text: str, _: str) -> str:
    return text


def _painted(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m"

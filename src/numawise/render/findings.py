"""Findings as text for people, one to a line, as SARIF 2.1.0, and as commands of GitHub workflows.

Rules kept here:

1. Nothing is wider than the terminal; in a pipe lines are not broken.
2. Colour only where the caller says so; what it shows is also there as a word.
3. Text from files cannot steer the terminal.
4. SARIF: one run; every rule that occurs is described once, results point to it by index; a result without
   a line has a file alone; paths are URIs relative to where the check ran, absolute ones with ``file://``.
5. GitHub: ``%``, line ends and, in properties, ``:`` and ``,`` are escaped.
"""

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import PurePosixPath
from typing import IO
from urllib.parse import quote

from numawise.errors import InputError, meant, quoted
from numawise.render.table import colors_wanted, terminal_width
from numawise.render.terminal import BOLD, CYAN, DIM, GREEN, RED, YELLOW, styled
from numawise.render.words import both, clean, columns, counted, manifest_lines, wrap
from numawise.results.correction import Correction
from numawise.results.finding import Finding, FindingCode, LookedAt, Severity, codes
from numawise.results.plain import Data

STYLES = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.INFO: CYAN}
INDENT = 2
LABELS = 4
"""Width of ``why`` and ``fix`` with the blank behind."""
NARROWEST, LONGEST_FIELD = 50, 44
Paint = Callable[[str, str], str]


def findings_text(
    findings: Sequence[Finding],
    ignored: int = 0,
    *,
    width: int = 0,
    color: bool = False,
    looked_at: LookedAt | None = None,
) -> str:
    """All findings and the summary; ``width`` 0: lines are not broken."""
    paint = styled if color else _plain
    numbers = max((len(str(finding.line)) for finding in findings if finding.line), default=1)
    words = max((len(finding.severity.value) for finding in findings), default=0)
    lines: list[str] = []
    for file, group in groupby(findings, key=lambda finding: finding.file):
        lines += [*([""] if lines else []), paint(clean(file) or "(no file)", BOLD)]
        for finding in group:
            lines += _finding(finding, numbers, words, width, paint)
    lines += [*([""] if lines else []), summary(findings, ignored, paint, looked_at)]
    return "\n".join(lines) + "\n"


def terminal_text(
    findings: Sequence[Finding],
    file: IO[str],
    *,
    color: bool | None,
    ignored: int = 0,
    looked_at: LookedAt | None = None,
) -> tuple[str, bool]:
    """The same for a terminal or a pipe, and whether it is coloured; ``color`` None: on a terminal."""
    terminal = file.isatty()
    colored = terminal and colors_wanted() if color is None else color
    width = terminal_width(file) if terminal else 0
    text = findings_text(findings, ignored, width=width, color=colored, looked_at=looked_at)
    return text, colored


def brief_text(findings: Iterable[Finding]) -> str:
    """A line for each finding, as compilers write them: ``file:line: error NW221 sentence``."""
    return "".join(f"{_where(finding)}{_brief(finding)}\n" for finding in findings)


def _where(finding: Finding) -> str:
    place = clean(finding.file) or "-"
    return f"{place}:{finding.line}: " if finding.line else f"{place}: "


def _brief(finding: Finding) -> str:
    return f"{finding.severity.value} {finding.code} {_sentence(finding)}"


def _sentence(finding: Finding) -> str:
    """What is wrong, with the field where that says more."""
    field = f"{clean(finding.field)}: " if _adds(finding) else ""
    return f"{field}{clean(finding.message)}"


def _finding(finding: Finding, numbers: int, words: int, width: int, paint: Paint) -> Iterable[str]:
    line = str(finding.line or "")
    head = f"{'':{INDENT}}{line:>{numbers}}  "
    severity = f"{finding.severity.value:<{words}}"
    label = f"{finding.code}  "
    start = len(head) + words + 1 + len(label)
    first = ""
    if width and width - start < NARROWEST:
        start = 2 * INDENT  # the sentence begins on a line of its own
        rest = _broken(_sentence(finding), start, width)
    else:
        first, *rest = _broken(_sentence(finding), start, width)
    row = f"{paint(head, DIM)}{paint(severity, STYLES[finding.severity])} {paint(label, BOLD)}{first}"
    yield row if first else row.rstrip()
    yield from (f"{'':{start}}{part}" for part in rest)
    if finding.kubelet:
        yield from (
            f"{'':{start}}{part}"
            for part in _broken(f"the kubelet would say: {clean(finding.kubelet)}", start, width)
        )
    for name, text in (("why", finding.why), ("fix", finding.fix)):
        if text:
            parts = _broken(clean(text), start + LABELS, width)
            yield f"{'':{start}}{paint(f'{name} ', DIM)}{parts[0]}"
            yield from (f"{'':{start + LABELS}}{part}" for part in parts[1:])
    yield from (f"{'':{start + LABELS}}{paint(line, DIM)}" for line in manifest_lines(finding.manifest))


def _adds(finding: Finding) -> bool:
    """Whether the field says more than the message; of pods and where long, the line number is enough."""
    last = re.split(r"[.\[\]]", finding.field.rstrip("]"))[-1]
    in_pod = finding.field.startswith(("spec", "items", "metadata"))
    return (
        bool(finding.field)
        and not in_pod
        and len(finding.field) <= LONGEST_FIELD
        and last not in finding.message
    )


def _broken(text: str, start: int, width: int) -> list[str]:
    return wrap(text, max(width - start, 1), columns) if width else [text]


def summary(
    findings: Sequence[Finding],
    ignored: int = 0,
    paint: Paint | None = None,
    looked_at: LookedAt | None = None,
) -> str:
    """``2 errors, 1 warning, 3 notes``; or that nothing was found, and in what."""
    paint = paint or _plain
    left_out = f" ({ignored} left out)" if ignored else ""
    counts = [
        paint(counted(number, word), STYLES[severity])
        for severity, word in (
            (Severity.ERROR, "error"),
            (Severity.WARNING, "warning"),
            (Severity.INFO, "note"),
        )
        if (number := sum(finding.severity is severity for finding in findings))
    ]
    if counts:
        sure = sum(finding.certain is not None for finding in findings)
        mended = f"; --fix mends {sure}" if sure else ""
        return ", ".join(counts) + left_out + mended
    if looked_at is not None and looked_at.nothing:
        return "nothing was checked"
    return paint("nothing found", GREEN) + _inside(looked_at) + left_out


def _inside(looked_at: LookedAt | None) -> str:
    """`` in 1 kubelet configuration and 3 pods``."""
    if looked_at is None:
        return ""
    parts = (
        (looked_at.kubelets, "kubelet configuration"),
        (looked_at.machines, "machine"),
        (looked_at.state_files, "state file"),
        (looked_at.pods, "pod"),
        (looked_at.device_plugins, "device plugin configuration"),
    )
    words = [counted(count, word) for count, word in parts if count]
    return f" in {both(words)}" if words else ""


def _plain(text: str, _: str) -> str:
    return text


# --- codes ---------------------------------------------------------------------------------

PAGE_WIDTH = 90


def explained(code: str) -> FindingCode:
    """What a code stands for; ``InputError`` when there is none of the name."""
    name = code.upper()
    registry = codes()
    if name not in registry:
        near = meant(name, tuple(registry))
        known = f"{min(registry)} to {max(registry)}"
        advice = f"did you mean {near}?" if near else f"there are codes from {known}"
        raise InputError(f"there is no code {quoted(code)}", field="--explain", advice=advice)
    known_code = registry[name]
    return FindingCode(
        name, known_code.title, known_code.severity, known_code.why, known_code.fix, known_code.about.strip()
    )


def code_page(code: FindingCode) -> str:
    """Title, severity and paragraphs."""
    parts = [f"{code.code} {code.title} ({code.severity.value})"]
    for label, text in (("", code.about), ("Why it matters: ", code.why), ("What to do: ", code.fix)):
        parts.append(textwrap.fill(f"{label}{text.replace('`', '')}", PAGE_WIDTH))
    return "\n\n".join(parts) + "\n"


# --- SARIF and GitHub -----------------------------------------------------------------------

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
TOOL = "numawise"


def sarif(findings: Sequence[Finding], version: str) -> Data:
    """A SARIF log with one run (rule 4)."""
    names = sorted({finding.code for finding in findings})
    driver = {"name": TOOL, "version": version, "rules": [_rule(name) for name in names]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, names.index(finding.code)) for finding in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str) -> Data:
    code = codes()[name]
    return {
        "id": name,
        "shortDescription": {"text": f"{code.title}."},
        "fullDescription": {"text": code.about},
        "help": {"text": code.fix},
        "defaultConfiguration": {"level": LEVELS[code.severity]},
    }


def _result(finding: Finding, index: int) -> Data:
    result: Data = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": "\n".join(_sentences(finding, "Why: "))},
    }
    if finding.file:
        place: Data = {"artifactLocation": {"uri": _uri(finding.file)}}
        if finding.line:
            place["region"] = {"startLine": finding.line}
        location: Data = {"physicalLocation": place}
        if finding.field:
            location["logicalLocations"] = [{"fullyQualifiedName": finding.field}]
        result["locations"] = [location]
    if finding.corrections:
        result["fixes"] = [_sarif_fix(one) for one in finding.corrections]
    return result


def _sarif_fix(correction: Correction) -> Data:
    """A change that a viewer can apply; its regions are those of the text that was checked."""
    files: dict[str, list[Data]] = {}
    for one in correction.edits:
        region = {
            "startLine": one.start_line, "startColumn": one.start_column,
            "endLine": one.end_line, "endColumn": one.end_column,
        }  # fmt: skip
        files.setdefault(one.file, []).append(
            {"deletedRegion": region, "insertedContent": {"text": one.text}}
        )
    changes = [
        {"artifactLocation": {"uri": _uri(file)}, "replacements": replacements}
        for file, replacements in files.items()
    ]
    return {"description": {"text": correction.title}, "artifactChanges": changes}


def _sentences(finding: Finding, why: str = "") -> Iterable[str]:
    yield finding.message
    if finding.kubelet:
        yield f"The kubelet would say: {finding.kubelet}"
    if finding.why:
        yield f"{why}{finding.why}"
    if finding.fix:
        yield f"Fix: {finding.fix}"
    if finding.manifest:
        yield finding.manifest.rstrip()


def _uri(file: str) -> str:
    path = PurePosixPath(file)
    text = quote(str(path), safe="/~!$&'()*+,;=:@-._")
    if path.is_absolute():
        return f"file://{text}"
    return f"./{text}" if ":" in text.partition("/")[0] else text


def github(findings: Iterable[Finding]) -> str:
    """A workflow command for each finding (rule 5)."""
    lines = []
    for finding in findings:
        line = str(finding.line) if finding.line and finding.file else ""
        properties = (("file", finding.file), ("line", line), ("title", f"{finding.code} {finding.title}"))
        written = ",".join(f"{name}={_property(value)}" for name, value in properties if value)
        text = _escaped("\n".join(_sentences(finding)))
        lines.append(f"::{COMMANDS[finding.severity]} {written}::{text}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")

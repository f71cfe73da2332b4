"""Findings as plain data, as SARIF 2.1.0, and as commands of GitHub workflows.

Rules kept here:

1. SARIF: one run; every rule that occurs is described once, results point to it by index; a result without
   a line has a file alone; paths are URIs relative to where the check ran, absolute ones with ``file://``.
2. GitHub: ``%``, line ends and, in properties, ``:`` and ``,`` are escaped; what has no file is told without.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol
from urllib.parse import quote

Data = dict[str, Any]
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "info": "note"}
COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
TOOL = "numawise"


@dataclass(frozen=True, slots=True)
class Row:
    """A finding, ready to be written down."""

    code: str
    severity: str
    title: str
    file: str
    line: int | None
    field: str
    message: str
    why: str
    fix: str
    stage: str


class RuleText(Protocol):
    """What is known about a code."""

    @property
    def title(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def fix(self) -> str: ...


def row_data(row: Row) -> Data:
    """A finding as JSON has it; what it does not have is left out."""
    data: Data = {"code": row.code, "severity": row.severity, "title": row.title}
    for name, value in (("file", row.file), ("line", row.line), ("field", row.field), ("stage", row.stage)):
        if value:
            data[name] = value
    return data | {"message": row.message, "why": row.why, "fix": row.fix}


# --- SARIF ----------------------------------------------------------------------------------


def sarif(rows: Sequence[Row], rules: Mapping[str, RuleText], version: str) -> Data:
    """A SARIF log with one run (rule 1)."""
    codes = sorted({row.code for row in rows})
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": TOOL,
                        "version": version,
                        "rules": [_rule(code, rules[code]) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(row, codes.index(row.code)) for row in rows],
            }
        ],
    }


def _rule(code: str, rule: RuleText) -> Data:
    return {
        "id": code,
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": rule.about},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _result(row: Row, index: int) -> Data:
    told = [row.message, f"Why: {row.why}" if row.why else "", f"Fix: {row.fix}" if row.fix else ""]
    result: Data = {
        "ruleId": row.code,
        "ruleIndex": index,
        "level": LEVELS[row.severity],
        "message": {"text": "\n".join(filter(None, told))},
    }
    if row.file:
        place: Data = {"artifactLocation": {"uri": _uri(row.file)}}
        if row.line:
            place["region"] = {"startLine": row.line}
        location: Data = {"physicalLocation": place}
        if row.field:
            location["logicalLocations"] = [{"fullyQualifiedName": row.field}]
        result["locations"] = [location]
    return result


def _uri(file: str) -> str:
    path = PurePosixPath(file)
    text = quote(str(path), safe="/~!$&'()*+,;=:@-._")
    if path.is_absolute():
        return f"file://{text}"
    return f"./{text}" if ":" in text.partition("/")[0] else text


# --- GitHub ---------------------------------------------------------------------------------


def github(rows: Iterable[Row]) -> str:
    """A workflow command for each finding (rule 2)."""
    lines = []
    for row in rows:
        properties = [("file", row.file), ("line", str(row.line) if row.line and row.file else "")]
        properties.append(("title", f"{row.code} {row.title}"))
        told = ",".join(f"{name}={_property(value)}" for name, value in properties if value)
        parts = [row.message, row.why, f"Fix: {row.fix}" if row.fix else ""]
        lines.append(f"::{COMMANDS[row.severity]} {told}::{_escaped(chr(10).join(filter(None, parts)))}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")

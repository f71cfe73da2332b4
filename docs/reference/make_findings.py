"""Write docs/reference/findings/ from the registry: ``python docs/reference/make_findings.py``."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "reference" / "findings"
SUBJECTS = {
    "NW0": "The check itself",
    "NW1": "Configuration",
    "NW2": "Reservations and machine",
    "NW3": "State files",
    "NW4": "Pods",
    "NW5": "A pod's environment",
    "NW6": "Upgrades",
    "NW7": "Device plugins",
    "NW8": "Published topologies",
}
LANGUAGE = {".yaml": "yaml", ".env": "sh", ".conf": "yaml"}
INTRO = """# Findings

Made from the registry by `python docs/reference/make_findings.py`.
[How to check a node](../../how-to/check-a-node.md) tells how to use them; `numawise check --explain NW221`
prints one.

Errors: the kubelet does not start, or the pod never runs. Warnings: it works, and will hurt. Notes (`info`):
good to know.
"""


def correction(findings: list[dict[str, Any]]) -> list[str]:
    """What can be done without a person's hand, as the example shows it."""
    ways = [way for finding in findings for way in finding.get("corrections", ())]
    if any(way["certain"] for way in ways):
        return ["**Correction.** `numawise check --fix` makes it where only one change can be meant.\n"]
    return ["**Correction.** One to choose: in `-o json`, `-o sarif` and on the page.\n"] if ways else []


def pages() -> dict[str, str]:
    """Name → text of every page."""
    sys.path.insert(0, str(ROOT))
    from tests.check.examples import example, output, write  # noqa: PLC0415 - needs the path above

    from numawise.results.finding import codes  # noqa: PLC0415 - only when run

    found = {}
    registry = codes()
    for name, code in registry.items():
        shown = example(name)
        with tempfile.TemporaryDirectory() as folder:
            write(shown.files, Path(folder))
            line = f"{shown.command} --select {name}"
            _, told = output(line, Path(folder))
            found_codes = json.loads(output(f"{line} -o json", Path(folder))[1])["findings"]
        parts = [f"# {name}: {code.title}\n", f"Severity: {code.severity.value}\n", f"{code.about}\n"]
        parts += [f"**Why it matters.** {code.why}\n", f"**What to do.** {code.fix}\n"]
        parts += [*correction(found_codes), "## Example\n"]
        made = []
        for file, text in shown.files.items():
            if text.startswith("= "):
                made.append(f"$ numawise machine new {text[2:].strip()} > {file}\n")
            else:
                language = LANGUAGE.get(Path(file).suffix, "json")
                parts.append(f"`{file}`\n\n```{language}\n{text.rstrip()}\n```\n")
        parts.append(f"```console\n{''.join(made)}$ {line}\n{told}```\n")
        found[f"{name}.md"] = "\n".join(parts)
    rows = []
    for start, subject in SUBJECTS.items():
        rows += [f"\n## {subject}\n", "| Code | Severity | What |", "|---|---|---|"]
        rows += [
            f"| [{name}]({name}.md) | {code.severity.value} | {code.title} |"
            for name, code in registry.items()
            if name.startswith(start)
        ]
    found["README.md"] = INTRO + "\n".join(rows) + "\n"
    return found


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for page, text in pages().items():
        (FOLDER / page).write_text(text, encoding="utf-8")

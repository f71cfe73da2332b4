"""Write the table of calls in docs/reference/api.md: ``python docs/reference/make_api.py``."""

from collections import defaultdict
from pathlib import Path

from numawise.web.catalogue import OPERATIONS
from numawise.web.operations import Operation

PAGE = Path(__file__).parent / "api.md"
BEGIN, END = "<!-- calls: begin -->\n", "<!-- calls: end -->\n"
OTHERS = (
    ("GET", "/openapi.json", "This document of all calls, with the forms of bodies and answers."),
    ("GET", "/events", "What changes, as server-sent events."),
    ("POST", "/session", "A session for whoever sends the token, until the server ends."),
)


def calls() -> str:
    """A table for each part of the page."""
    parts: dict[str, list[Operation]] = defaultdict(list)
    for operation in OPERATIONS:
        parts[operation.part].append(operation)
    lines = ["| Call | Does |", "|---|---|"]
    lines += [f"| `{method} {path}` | {words} |" for method, path, words in OTHERS]
    for part in sorted(parts):
        for operation in parts[part]:
            query = ", ".join(f"`{field.name}`" for field in operation.query)
            more = f" Parameters: {query}." if query else ""
            more += " Needs `--allow-changes`." if operation.changes else ""
            lines.append(f"| `{operation.method} {operation.path}` | {operation.summary}{more} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with the table as it is now."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{calls()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

"""What a code is about, as a page of text."""

import textwrap

from numawise.errors import InputError, meant
from numawise.results.finding import Code, codes

WIDTH = 90


def explained(code: str) -> str:
    """The page of one code."""
    name = code.upper()
    registry = codes()
    if name not in registry:
        near = meant(name, tuple(registry))
        known = f"{min(registry)} to {max(registry)}"
        advice = f"did you mean {near}?" if near else f"there are codes from {known}"
        raise InputError(f"there is no code {code!r}", field="--explain", advice=advice)
    return page(name, registry[name])


def page(name: str, code: Code) -> str:
    """Title, severity and paragraphs."""
    parts = [f"{name} {code.title} ({code.severity.value})"]
    for label, text in (("", code.about), ("Why it matters: ", code.why), ("What to do: ", code.fix)):
        parts.append(textwrap.fill(f"{label}{text.replace('`', '')}", WIDTH))
    return "\n\n".join(parts) + "\n"

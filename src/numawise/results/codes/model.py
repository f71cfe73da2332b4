"""The form of an entry in the registry of codes."""

from dataclasses import dataclass

ERROR, WARNING, INFO = "error", "warning", "info"


@dataclass(frozen=True, slots=True)
class Code:
    """What a code stands for: the page about it, as data."""

    title: str
    severity: str
    why: str
    """One sentence: what comes of it."""
    fix: str
    """One sentence: what to do."""
    about: str
    """One paragraph: how it comes about, and what is behind it."""

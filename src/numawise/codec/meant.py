"""The word that somebody meant: advice for names that are not known."""

from collections.abc import Collection
from difflib import get_close_matches

MOST_KNOWN = 24
"""More names than these are no advice."""


def meant(word: str, known: Collection[str], likeness: float = 0.7) -> str:
    """The known word that an unknown one resembles, or nothing."""
    near = {name.lower(): name for name in sorted(known)}
    close = get_close_matches(word[:80].lower(), near, n=1, cutoff=likeness)
    return near[close[0]] if close else ""


def suggestion(word: str, known: Collection[str]) -> str:
    """Advice for a word that is not known: the one meant, or all there are, or '' when those are too many."""
    near = meant(word, known)
    every = f"known are {', '.join(sorted(known))}" if len(known) <= MOST_KNOWN else ""
    return f'did you mean "{near}"?' if near else every

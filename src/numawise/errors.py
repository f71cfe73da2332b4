"""The exceptions that say no answer could be had, and the exit code of each.

A *no* is an answer (``Rejected``, ``Refusal``) and never an exception::

    NumawiseError            .advice: what to do next
    ├─ InputError       2    bad flag, YAML, machine file; knows file, line, field
    │  └─ KubeletRefused     a kubelet that would not start with what it is given; knows the stage
    ├─ HostError        3    /sys, cgroup, NVML or permission
    ├─ LedgerError      4    locked, damaged, of another boot
    └─ ClusterError     5    API server, kubelet socket
"""

from collections.abc import Collection


class NumawiseError(Exception):
    """No answer could be had; ``advice`` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}; {self.advice}" if self.advice else self.message


class InputError(NumawiseError):
    """What the user gave cannot be read or makes no sense."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        line: int | None = None,
        field: str = "",
        advice: str = "",
    ) -> None:
        super().__init__(message, advice)
        self.file = file
        self.line = line
        self.field = field

    def __str__(self) -> str:
        place = self.file
        if place and self.line is not None:
            place = f"{place}:{self.line}"
        parts = [part for part in (place, self.field) if part]
        return ": ".join([*parts, super().__str__()])


class KubeletRefused(InputError):
    """A kubelet would not start with this configuration, machine and state; ``reason``: its own words."""

    def __init__(self, stage: str, reason: str, *, file: str = "", field: str = "", advice: str = "") -> None:
        message = f"the kubelet would not start ({stage}): {reason}"
        super().__init__(message, file=file, field=field, advice=advice)
        self.stage = stage
        self.reason = reason


class HostError(NumawiseError):
    """This host does not allow or does not have what is needed."""

    exit_code = 3


class LedgerError(NumawiseError):
    """The record of holds cannot be used."""

    exit_code = 4


class ClusterError(NumawiseError):
    """The cluster or the kubelet's socket cannot be reached or answered badly."""

    exit_code = 5


# --------------------------------------------------------------------------------------------------
# The word that somebody meant: advice for names that are not known.


MOST_KNOWN = 24
"""More names than these are no advice."""


def meant(word: str, known: Collection[str], likeness: float = 0.7) -> str:
    """The known word that an unknown one resembles, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes alone

    near = {name.lower(): name for name in sorted(known)}
    close = get_close_matches(word[:80].lower(), near, n=1, cutoff=likeness)
    return near[close[0]] if close else ""


def suggestion(word: str, known: Collection[str]) -> str:
    """Advice for a word that is not known: the one meant, or all there are, or '' when those are too many."""
    near = meant(word, known)
    every = f"known are {', '.join(sorted(known))}" if len(known) <= MOST_KNOWN else ""
    return f'did you mean "{near}"?' if near else every

"""The words for what is not where it should be, the same for jobs and for containers of pods.

``verify`` and the agent's watcher both judge by what is here.

Rules kept here:

1. At least ``ENOUGH`` of a job's own pages must be local.
2. A message is a clause that can stand in a sentence; who is meant stands before it, or is known.
3. The worst finding makes the verdict.
"""

from collections.abc import Iterable

from numawise.render.words import bytes_text, percent
from numawise.results.finding import Finding, Severity
from numawise.results.verification import ALIGNED, NOT_ALIGNED, NOT_KNOWN, SPILLED, Amounts, JobGrade
from numawise.sets import format_ids

ENOUGH = 0.98
"""Share of a job's own pages that must be local."""
NOTED_FILES = 16 << 20
"""Bytes of the page cache elsewhere that are worth a note."""
MEMORY_REMOTE, MEMORY_SPILLED, FILE_PAGES_REMOTE = "memory-remote", "memory-spilled", "file-pages-remote"


def job_finding(
    code: str, severity: Severity, message: str, why: Iterable[str] = (), advice: str = ""
) -> Finding:
    """A finding about a job: a word to look for, a clause that can stand in the first sentence, and causes.

    An error: the job is not where it should be.  A warning: something that decides could not be read.
    """
    return Finding(code, severity, message, why="; ".join(why), fix=advice)


def grade_of(findings: Iterable[Finding]) -> JobGrade:
    """What findings come to (rule 3)."""
    codes: dict[Severity, set[str]] = {}
    for finding in findings:
        codes.setdefault(finding.severity, set()).add(finding.code)
    errors = codes.get(Severity.ERROR, set())
    if errors:
        return SPILLED if errors == {MEMORY_SPILLED} else NOT_ALIGNED
    return NOT_KNOWN if Severity.WARNING in codes else ALIGNED


def cpu_list(cpus: int) -> str:
    """``CPU 3``, ``CPUs 2-9``."""
    return f"{'CPU' if cpus.bit_count() == 1 else 'CPUs'} {format_ids(cpus)}"


def union_of(sets: Iterable[int]) -> int:
    """All of some packed sets."""
    bits = 0
    for one in sets:
        bits |= one
    return bits


def may_run_outside(who: str, cpus: int) -> str:
    """Somebody is not kept to CPUs."""
    return f"{who} may run outside {cpu_list(cpus)}"


def may_run_on_another(who: str, cpus: int, holder: str) -> str:
    """Somebody is not kept off CPUs that another has alone."""
    return f"{who} may run on {cpu_list(cpus)}, which {holder} has alone"


def is_far(name: str, near: int, home: int, who: str = "the job") -> str:
    """A device is on other NUMA nodes than what uses it."""
    return f"{name} is on NUMA {format_ids(near)} and {who} on NUMA {format_ids(home)}"


def remote_memory(amounts: Amounts, places: int) -> str:
    """Too few of its own pages are local (rule 1)."""
    share = percent(1 - amounts.share, up=True)
    return f"{share} of {bytes_text(amounts.own)} lies on NUMA {format_ids(places)}"


def spilled_memory(amounts: Amounts, near: int, places: int) -> str:
    """Too few of its own pages are where they were granted, and its policy allows that (rule 1)."""
    share = f"{percent(amounts.share)} of {bytes_text(amounts.own)} lies on NUMA {format_ids(near)}"
    return f"{share}, the rest on NUMA {format_ids(places)}, as its policy allows"


def remote_files(size: int, places: int) -> str:
    """Pages of files lie elsewhere."""
    return f"{bytes_text(size)} of file pages lie on NUMA {format_ids(places)}"


def made_before(numa: str) -> str:
    """Why pages lie elsewhere although a control group binds memory; ``numa``: ``on NUMA 0``."""
    return f"made before its control group kept it {numa}, or moved there later"


NOTHING_BINDS = (
    "nothing binds its memory: the thread that first touched it ran elsewhere, memory was short, "
    "or the pages were moved later"
)


def files_matter(size: int, whole: int) -> bool:
    """Whether so many bytes of file pages elsewhere, of so many in all, are worth a note."""
    return size >= NOTED_FILES and size > (1 - ENOUGH) * whole

"""Verdicts as data for programs, and as rows and lines for people."""

from collections.abc import Iterator, Sequence
from typing import Any

from numawise.render.words import bytes_text, clean, percent
from numawise.results.finding import Finding, Severity
from numawise.results.plain import plain
from numawise.results.verification import (
    ALIGNED,
    NOT_ALIGNED,
    PAGE_KINDS,
    WORST_FIRST,
    CheckedJob,
    JobGrade,
    Verdict,
)
from numawise.sets import format_ids, ids_of

CONTAINER_COLUMNS = ("CONTAINER", "VERDICT", "PROCESSES", "CPUS", "GRANTED", "LOCAL", "MEMORY")
HOLD_COLUMNS = ("HOLD", "NAME", "VERDICT", "PROCESSES", "THREADS", "CPUS", "LOCAL", "MEMORY", "GPUS")


def together(checks: Sequence[CheckedJob], overlaps: Sequence[str]) -> JobGrade:
    """One verdict for all: the worst."""
    grades = {check.verdict.grade for check in checks} | ({NOT_ALIGNED} if overlaps else set())
    return next((grade for grade in WORST_FIRST if grade in grades), ALIGNED)


def job_data(check: CheckedJob) -> dict[str, Any]:
    """A job and its verdict as plain data; sizes are bytes."""
    verdict, amounts = check.verdict, check.verdict.amounts
    found: dict[str, Any] = {"label": clean(check.label)}
    if check.hold is not None:
        hold = check.hold
        found |= {"hold": hold.id, "name": hold.name, "mode": hold.mode, "fence": hold.fence or None}
    if check.pid:
        found["pid"] = check.pid
    if check.wanted is not None:
        found["granted"] = {
            "cpus": format_ids(check.wanted.cpus),
            "exclusive": check.wanted.alone,
            "mems": format_ids(check.wanted.mems),
            "memoryPolicy": check.wanted.memory_policy,
            "gpus": sorted(check.wanted.gpus),
        }
    return found | {
        "aligned": verdict.aligned,
        "verdict": verdict.grade,
        "sentence": clean(verdict.sentence),
        "processes": verdict.processes,
        "threads": verdict.threads,
        "cpus": format_ids(verdict.cpus),
        "ran": format_ids(verdict.ran),
        "numa": format_ids(verdict.numa),
        "mems": format_ids(verdict.mems),
        "memory": {
            "own": amounts.own,
            "local": amounts.local,
            "share": round(amounts.share, 6),
            "swapped": verdict.swapped,
            "numa": {str(numa): dict(kinds) for numa, kinds in amounts.table},
        },
        "gpus": [
            {
                "name": gpu.name,
                "address": gpu.address,
                "numa": list(ids_of(gpu.near)),
                "how": gpu.how,
                "used": gpu.used,
                "pids": list(gpu.pids),
                "memory": gpu.memory,
            }
            for gpu in verdict.gpus
        ],
        "findings": [plain(finding) for finding in verdict.findings],
    }


def numa_table(verdict: Verdict) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Pages by NUMA node and kind: columns, and a row for each node with pages or that should have them."""
    table = dict(verdict.amounts.table)
    there = [kind for kind in PAGE_KINDS if any(kind in dict(kinds) for kinds in table.values())]
    rows = []
    for numa in sorted({*table, *ids_of(verdict.mems)}):
        kinds = dict(table.get(numa, ()))
        cells = [bytes_text(kinds[kind]) if kinds.get(kind) else "-" for kind in there]
        total = sum(kinds.values())
        near = "local" if verdict.mems >> numa & 1 else "remote"
        rows.append((str(numa), *cells, bytes_text(total) if total else "-", near))
    return ("NUMA", *(kind.upper() for kind in there), "TOTAL", ""), rows


def hold_row(check: CheckedJob) -> tuple[str, ...]:
    """A hold in one row."""
    verdict = check.verdict
    assert check.hold
    return (
        check.hold.id,
        clean(check.hold.name) or "-",
        verdict.grade,
        str(verdict.processes),
        str(verdict.threads),
        format_ids(verdict.cpus) or "-",
        percent(verdict.amounts.share) if verdict.amounts.own else "-",
        bytes_text(verdict.amounts.own) if verdict.amounts.own else "-",
        " ".join(gpu.name for gpu in verdict.gpus if gpu.used) or "-",
    )


def container_row(check: CheckedJob) -> tuple[str, ...]:
    """A container of a pod in one row."""
    verdict, wanted = check.verdict, check.wanted
    assert wanted
    granted = format_ids(wanted.cpus) or "-"
    return (
        clean(check.label),
        verdict.grade,
        str(verdict.processes),
        format_ids(verdict.cpus) or "-",
        granted if wanted.alone or not wanted.cpus else f"{granted} (shared)",
        percent(verdict.amounts.share) if verdict.amounts.own and verdict.mems else "-",
        bytes_text(verdict.amounts.own) if verdict.amounts.own else "-",
    )


def finding_lines(findings: Sequence[Finding]) -> Iterator[tuple[Severity | None, str]]:
    """Findings in lines: the first of each with its severity, the rest of it without."""
    for finding in findings:
        yield finding.severity, clean(finding.message)
        if finding.why:
            yield None, clean(finding.why)
        if finding.fix:
            yield None, f"to do: {finding.fix}"

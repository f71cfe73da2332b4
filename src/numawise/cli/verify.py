"""``numawise verify``: whether jobs are where they should be."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from numawise.cli.options import output_option, say_remarks
from numawise.errors import InputError, quoted
from numawise.render.terminal import DIM, GREEN, RED, YELLOW, styled
from numawise.strconv import whole_number

if TYPE_CHECKING:
    from numawise.apps.verify.look import JobHost
    from numawise.apps.verify.measure import Measured
    from numawise.machine.hardware import Hardware
    from numawise.results.verification import CheckedJob

STATUS = {"aligned": 0, "spilled": 1, "not aligned": 1, "not known": 3}
STYLES = {"aligned": GREEN, "spilled": RED, "not aligned": RED, "not known": YELLOW}
INDENT = 9


@click.command(
    epilog="""\b
Examples:
  numawise verify                     # every hold of this host
  numawise verify train-0             # a hold, by name or id
  numawise verify 4711                # a process and its descendants
  numawise verify train-0 --measure   # also time memory and host-to-GPU copies
  numawise verify --pods              # containers of this node, against what the kubelet granted
  numawise verify --pods ml/train-0   # those of one pod
  numawise verify -o json | jq '.jobs[] | select(.aligned != true)'

\b
Exit status: 0 aligned, 1 spilled or not aligned, 2 no such hold or process, 3 could not be read."""
)
@click.option(
    "--measure",
    "measuring",
    is_flag=True,
    help="Time memory from its CPUs, and copies to its GPUs (about 5 s).",
)
@click.option(
    "--pods", is_flag=True, help="Check containers of this node's pods against what their kubelet granted."
)
@click.option(
    "--kubelet-dir",
    default="/var/lib/kubelet",
    show_default=True,
    metavar="DIR",
    help="The kubelet's directory, for --pods.",
)
@click.option("--root", metavar="DIR", default="/", help="With --pods: the host's root is DIR.")
@output_option("text", "json")
@click.argument("subject", required=False, metavar="[HOLD|PID|POD]")
@click.pass_context
def command(
    context: click.Context,
    subject: str | None,
    measuring: bool,
    pods: bool,
    kubelet_dir: str,
    root: str,
    output: str,
) -> int:
    """Read every thread's CPUs, the pages per NUMA node and the GPUs in use, and grade them.

    Aligned: all threads keep to the granted CPUs, at least 98 % of the job's own pages lie on the granted
    NUMA nodes, and its GPUs are its own and near.  Spilled: less than 98 % lie there, as the memory policy of
    the hold allows (preferred, interleave).  A process without a hold is compared with itself: its
    memory and GPUs with the NUMA nodes that its threads are bound to.
    """
    from numawise.apps.verify.look import JobHost, twice_granted  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.verify.measure import measured_data  # noqa: PLC0415
    from numawise.apps.verify.sources import load_nvml, read_ledger  # noqa: PLC0415
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.host.discover import read_live  # noqa: PLC0415
    from numawise.host.processes import pid_namespace  # noqa: PLC0415
    from numawise.host.settings import read_settings  # noqa: PLC0415
    from numawise.render.verify import job_data, together  # noqa: PLC0415
    from numawise.results.plain import API_VERSION  # noqa: PLC0415
    from numawise.results.verification import is_aligned  # noqa: PLC0415

    if measuring and (subject is None or pods):
        raise InputError("measures one job", field="--measure", advice="name a hold or a process")
    if pods:
        return _pods(context, subject or "", kubelet_dir, root, output)
    hardware = read_live()
    holds, remarks = read_ledger(os.environ, read_settings(), needed=not (subject or "").isdecimal())
    if output == "text":  # first: what cannot be read may be the hold that is asked for
        say_remarks(remarks)
    host = JobHost(hardware, holds, nvml=load_nvml(hardware), namespace=pid_namespace())
    checks = _checks(host, subject)
    overlaps = twice_granted(holds) if subject is None else ()
    grade = together(checks, overlaps)
    measured = _measure(host, checks[0]) if measuring else None
    if output == "json":
        found = {
            "apiVersion": API_VERSION,
            "kind": "Verification",
            "aligned": is_aligned(grade),
            "verdict": grade,
            "jobs": [
                job_data(check) | ({"measured": measured_data(measured)} if measured else {})
                for check in checks
            ],
            "overlaps": list(overlaps),
            "remarks": list(remarks),
        }
        click.echo(to_json(found), nl=False)
    elif subject is None:
        _show_all(checks, overlaps, context)
    else:
        _show(hardware, checks[0], context)
        if measured:
            _figures(measured, context)
    return STATUS[grade]


def _pods(context: click.Context, subject: str, kubelet_dir: str, root: str, output: str) -> int:
    from pathlib import Path  # noqa: PLC0415

    from numawise.apps.verify.pods import check_pods  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.host.discover import read_live  # noqa: PLC0415
    from numawise.render.verify import job_data, together  # noqa: PLC0415
    from numawise.results.plain import API_VERSION  # noqa: PLC0415
    from numawise.results.verification import is_aligned  # noqa: PLC0415

    hardware = read_live(None if root == "/" else Path(root))
    checks, remarks = check_pods(hardware, kubelet_dir, subject, Path(root))
    grade = together(checks, ())
    if output == "json":
        data = {
            "apiVersion": API_VERSION,
            "kind": "Verification",
            "aligned": is_aligned(grade),
            "verdict": grade,
            "jobs": [job_data(check) for check in checks],
            "overlaps": [],
            "remarks": list(remarks),
        }
        click.echo(to_json(data), nl=False)
    else:
        _show_pods(checks, context)
        say_remarks(remarks)
    return STATUS[grade]


def _show_pods(checks: "Sequence[CheckedJob]", context: click.Context) -> None:
    from numawise.render.table import table  # noqa: PLC0415
    from numawise.render.verify import CONTAINER_COLUMNS, container_row  # noqa: PLC0415
    from numawise.render.words import clean  # noqa: PLC0415

    if not checks:
        click.echo("no container of a pod runs here")
        return
    rows: list[list[tuple[str, str] | str]] = []
    for check in checks:
        row = container_row(check)
        rows.append([(cell, STYLES.get(cell, DIM)) if cell in (*STYLES, "-") else cell for cell in row])
    table(CONTAINER_COLUMNS, rows, sys.stdout, color=context.color)
    for check in checks:
        if check.verdict.findings:
            click.echo(f"\n{clean(check.label)}")
            _findings(check, blank=False)


def _checks(host: "JobHost", subject: str | None) -> "list[CheckedJob]":
    if subject is None:
        return [host.check_hold(hold) for hold in host.holds]
    hold = host.find(subject)
    if hold is not None:
        return [host.check_hold(hold)]
    if subject.isascii() and subject.isdecimal():
        return [host.check_pid(whole_number(subject))]
    known = ", ".join(f"{hold.id} ({hold.name})" for hold in host.holds) or "none at all"
    raise InputError(f"{quoted(subject)} is neither a hold nor a process number", advice=f"there are {known}")


def _measure(host: "JobHost", check: "CheckedJob") -> "Measured | None":
    from numawise.apps.verify.measure import measure  # noqa: PLC0415
    from numawise.host.nodememory import read_free  # noqa: PLC0415

    if not check.verdict.cpus:
        return None
    return measure(host.hardware, check, read_free((node.id for node in host.hardware.numa), host.root))


def _figures(measured: "Measured", context: click.Context) -> None:
    from numawise.apps.verify.measure import COPY_COLUMNS, MEMORY_COLUMNS, copy_rows, memory_rows  # noqa: PLC0415
    from numawise.render.table import table  # noqa: PLC0415

    for title, columns, rows in (
        ("memory, by one core", MEMORY_COLUMNS, memory_rows(measured)),
        ("copies of pinned memory", COPY_COLUMNS, copy_rows(measured)),
    ):
        if rows:
            click.echo(f"\n{title}")
            table(columns, rows, sys.stdout, color=context.color)
    for remark in measured.remarks:
        click.echo(f"\n{remark}")


def _show(hardware: "Hardware", check: "CheckedJob", context: click.Context) -> None:
    from numawise.render.table import table  # noqa: PLC0415
    from numawise.render.verify import numa_table  # noqa: PLC0415

    verdict = check.verdict
    click.echo(styled(verdict.sentence, STYLES[verdict.grade]))
    columns, rows = numa_table(verdict)
    if rows and len(hardware.numa) > 1:
        click.echo()
        cells = [
            [(cell, RED if cell == "remote" else DIM) if cell in ("-", "remote") else cell for cell in row]
            for row in rows
        ]
        table(columns, cells, sys.stdout, color=context.color)
    _findings(check)


def _show_all(checks: "Sequence[CheckedJob]", overlaps: Sequence[str], context: click.Context) -> None:
    from numawise.render.table import table  # noqa: PLC0415
    from numawise.render.verify import HOLD_COLUMNS, hold_row  # noqa: PLC0415

    if not checks:
        click.echo("nothing is held on this host")
        return
    rows: list[list[tuple[str, str] | str]] = []
    for check in checks:
        row = hold_row(check)
        rows.append([(cell, STYLES.get(cell, DIM)) if cell in (*STYLES, "-") else cell for cell in row])
    table(HOLD_COLUMNS, rows, sys.stdout, color=context.color)
    for overlap in overlaps:
        click.echo(f"\n{styled('error', RED)}    {overlap}")
    for check in checks:
        if check.verdict.findings:
            click.echo(f"\n{check.label}")
            _findings(check, blank=False)


def _findings(check: "CheckedJob", *, blank: bool = True) -> None:
    from numawise.render.findings import STYLES  # noqa: PLC0415
    from numawise.render.verify import finding_lines  # noqa: PLC0415

    if check.verdict.findings and blank:
        click.echo()
    for severity, text in finding_lines(check.verdict.findings):
        head = styled(f"{severity.value:<{INDENT}}", STYLES[severity]) if severity else " " * INDENT
        click.echo(f"{head}{text}")

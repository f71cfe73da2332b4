"""``numawise bind``: one rank of a job on the CPUs and memory near to its GPU, then exec."""

import os
import sys
from typing import TYPE_CHECKING

import click

from numawise.cli.options import (
    BeforeDashes,
    command_of,
    machine_option,
    output_option,
    required_command,
    say,
)
from numawise.errors import InputError

if TYPE_CHECKING:
    from numawise.apps.launch.frame import Prepared

COLUMNS = ("RANK", "GPU", "NUMA", "CPUS", "CORES", "MEMORY", "THREADS", "NICS")


@click.command(
    cls=BeforeDashes,
    options_metavar="[OPTIONS] -- COMMAND [ARG]...",
    epilog="""\b
Examples:
  torchrun --nproc-per-node 8 --no-python numawise bind -- python train.py
  mpirun -np 8 --bind-to none numawise bind --by node -- ./solver
  srun --ntasks-per-node 8 --cpu-bind=none numawise bind -- ./solver
  numawise run --gpus 4 --cpus 32 -- torchrun --nproc-per-node 4 --no-python numawise bind -- python train.py
  numawise bind --dry-run --local-size 8 --machine dgx-h100

\b
Exit status: that of COMMAND; 127 not found, 126 not executable, 1 no place for it, 2 bad input, 3 host.""",
)
@click.option(
    "--by",
    type=click.Choice(["node", "socket", "exclusive", "core-complex"]),
    default=None,
    help="CPUs of the GPU's NUMA node, of its socket, a part of the node's cores for each rank alone, or one "
    "L3 of it.  [default: exclusive where every rank gets a core, else node]",
)
@click.option(
    "--memory",
    type=click.Choice(["bind", "preferred", "off"]),
    default=None,
    help="Memory from the NUMA nodes of the CPUs only, from there first, or as before.  [default: bind]",
)
@click.option(
    "--gpu",
    type=click.Choice(["all", "one"]),
    default="all",
    show_default=True,
    help="Let the rank see all GPUs and count within them, or its own alone.",
)
@click.option("--threads", type=click.IntRange(1, 65536), metavar="N", help="Set OMP_NUM_THREADS to N.")
@click.option("--cpus", metavar="LIST", help="Divide these CPUs only, such as 0-31.")
@click.option("--local-rank", type=click.IntRange(0, 65535), metavar="N", help="The rank on this host.")
@click.option("--local-size", type=click.IntRange(1, 65535), metavar="N", help="Ranks on this host.")
@click.option("--rank-variable", metavar="NAME", default="", help="Variable that has the rank on this host.")
@click.option("--strict", is_flag=True, help="Do not start on a GPU that another job holds.")
@click.option(
    "--ignore-holds", is_flag=True, help="Use CPUs that other jobs hold alone, and do not ask whose GPUs are."
)
@click.option(
    "--ignore-affinity", is_flag=True, help="Use CPUs and memory beyond those that this was started with."
)
@click.option("--dry-run", is_flag=True, help="Show what each rank would get, and start nothing.")
@machine_option("With --dry-run: a machine other than this one.")
@output_option("text", "json", words="Output format of --dry-run.")
@click.option("-v", "--verbose", is_flag=True, help="Report on standard error what this rank got.")
@click.pass_context
def command(
    context: click.Context,
    *,
    by: str | None,
    memory: str | None,
    gpu: str,
    threads: int | None,
    cpus: str | None,
    local_rank: int | None,
    local_size: int | None,
    rank_variable: str,
    strict: bool,
    ignore_holds: bool,
    ignore_affinity: bool,
    dry_run: bool,
    machine: tuple[str, ...],
    output: str,
    verbose: bool,
) -> int:
    """Run COMMAND as one rank, on its GPU's part of this machine.

    Which rank it is comes from the launcher: torchrun, mpirun, srun and others.  Within numawise run the
    hold's CPUs are divided, otherwise those that this process may use and no other job holds alone.
    """
    from numawise.apps.launch.bind import apply, become, rank_line, start  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.launch.frame import BindOptions, prepare  # noqa: PLC0415
    from numawise.apps.launch.ranks import RankRefused  # noqa: PLC0415
    from numawise.host.child import find_command  # noqa: PLC0415

    environment = {} if machine else dict(os.environ)
    words = command_of(context) if dry_run else required_command(context)
    if machine and not dry_run:
        raise InputError("needs --dry-run", field="--machine", advice="ranks are bound on this machine only")
    if not dry_run:
        find_command(words[0], environment.get("PATH"))
    asked = BindOptions(
        by=by or "",
        threads=threads or 0,
        one_gpu=gpu == "one",
        cpus=cpus,
        rank=local_rank,
        size=local_size,
        variable=rank_variable,
        machine=machine,
        ignore_holds=ignore_holds,
        ignore_affinity=ignore_affinity,
        memory=memory or "",
        strict=strict,
    )
    found = prepare(asked, environment, all_ranks=dry_run)
    if isinstance(found, RankRefused):
        say(f"{found.message}; {found.advice}")
        return 1
    if dry_run:
        _show(context, found, memory or "bind", output)
        return 0
    bound = start(found, asked, environment)
    refused = apply(bound.share, memory or "")
    if verbose:
        say(rank_line(bound.share, found.size))
    if verbose or found.own or found.rank == 0:
        for clash in found.clashes:
            say(clash)
    if verbose or found.rank == 0:
        for remark in (*bound.remarks, *refused):
            say(remark)
    return become(words, bound.environment)


def _show(context: click.Context, found: "Prepared", memory: str, output: str) -> None:
    from numawise.apps.launch.bind import shares_data  # noqa: PLC0415
    from numawise.codec.output import to_json  # noqa: PLC0415 - a rank that starts needs none of these
    from numawise.render.table import table  # noqa: PLC0415
    from numawise.render.terminal import DIM  # noqa: PLC0415
    from numawise.results.plain import API_VERSION  # noqa: PLC0415

    rows = shares_data(found.hardware, found.shares)
    if output == "json":
        data = {
            "apiVersion": API_VERSION,
            "kind": "Ranks",
            "by": found.shares.by,
            "memory": memory,
            "ranks": rows,
            "remarks": [*found.clashes, *found.shares.remarks],
        }
        click.echo(to_json(data), nl=False)
        return
    cells: list[list[tuple[str, str] | str]] = []
    for row in rows:
        cpus = row["cpus"] if row["alone"] else (f"{row['cpus']} (shared)", DIM)
        nics = ",".join(row["nics"]) or "-"
        numa = ",".join(map(str, row["numa"])) or "-"
        numbers = (str(row["cores"]), f"NUMA {row['mems']}" if row["mems"] else "any", str(row["threads"]))
        cells.append([str(row["rank"]), row["gpu"] or "-", numa, cpus, *numbers, nics])
    table(COLUMNS, cells, sys.stdout, color=context.color)
    for remark in (*found.clashes, *found.shares.remarks):
        say(remark)

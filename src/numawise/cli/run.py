"""``numawise run``: a job on CPUs, memory and GPUs that belong together."""

import json
import os
from typing import Any

import click

from numawise.cli.options import BeforeDashes, Teller, machine_option, required_command, say, show_preview
from numawise.cli.placing import duration, placement_options, request_of, seconds, wait_option
from numawise.errors import InputError, quoted

EXAMPLES = """\b
Examples:
  numawise run --cpus 8 --memory 64g --gpus 2 -- python train.py
  numawise run --gpu-ids 0 -- python serve.py       # shared CPUs near to GPU 0
  numawise run --cpus 16 --full-cores --policy single-numa-node -- ./solver
  numawise run --cpus 0.5 -- ./watcher              # in the shared pool
  numawise run --numa 1 --gpus all -- python train.py
  numawise run --exclusive --gpus 2 -- python train.py   # a whole NUMA node
  numawise run --cpus 8 --gpus 1 --wait=600 -- make test
  numawise run --gpus 1 --time 2h -- python train.py
  numawise run --fence --cpus 4 -- ./preprocess     # it sees no GPU
  numawise run --cpus 8 --gpus 2 --dry-run -- python train.py

\b
Exit status: that of the job; 1 no room, 2 bad input or more than the machine has, 3 host, 4 ledger,
124 its time was over (--time), 125 the job could not be started, 126 not executable, 127 not found.
"""


@click.command("run", cls=BeforeDashes, epilog=EXAMPLES, options_metavar="[OPTIONS] -- COMMAND...")
@placement_options
@wait_option
@click.option(
    "--time", metavar="LIMIT", help="End the job after this long, such as 90m, 1h30m or 45 (seconds)."
)
@click.option("--isolate", is_flag=True, help="Keep all other processes off the CPUs (root, cgroup v2).")
@click.option(
    "--mode",
    type=click.Choice(["systemd", "cgroup", "affinity"]),
    help="How the job is confined to its grant.  [default: the best that this host allows]",
)
@click.option(
    "--fence",
    is_flag=False,
    flag_value="best",
    type=click.Choice(["best", "rules", "variables"]),
    metavar="[rules|variables]",
    help="Let the job see no GPUs but its own: by device rules where this host allows it, else by variables.",
)
@click.option("--no-fence", is_flag=True, help="Do not, where the machine's settings fence GPUs (root).")
@click.option(
    "--outside", is_flag=True, help="Inside a job: start beside its hold instead of taking a part of that."
)
@click.option("--dry-run", is_flag=True, help="Show what would be done; hold nothing.")
@machine_option("With --dry-run: a machine other than this one.")
@click.option("-q", "--quiet", is_flag=True, help="Do not say what the job got.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="For --dry-run.")
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:  # noqa: ANN401 - click's
    """Run a COMMAND on CPUs, memory and GPUs that belong together.

    The job is bound before it starts: in a control group where this host allows it, otherwise by CPU mask and
    memory policy.  Its CPUs are its own until it ends; who holds what is in the ledger ('numawise ps').
    """
    from numawise.apps.launch import run as launch  # noqa: PLC0415 - keeps --help quick
    from numawise.host.settings import read_settings  # noqa: PLC0415

    settings = read_settings()
    quiet = options["quiet"]
    job = launch.Job(
        request=request_of(options, settings),
        command=required_command(context),
        wait=seconds(options["wait"]),
        mode=options["mode"] or "",
        isolate="root" if options["isolate"] else "",
        environment=dict(os.environ),
        fence=_fence(options, settings),
        outside=options["outside"],
        time_limit=_time_limit(options["time"]),
    )
    if options["dry_run"]:
        return _show(job, settings, options)
    if options["machine"]:
        raise click.UsageError("--machine is for --dry-run: a job cannot run on another machine")

    teller = Teller(quiet=quiet)
    return teller.ended(launch.run(job, settings, teller.started, teller.waiting, say))


def _fence(options: dict[str, Any], settings: Any) -> str:  # noqa: ANN401 - values of apps
    from numawise.apps.launch.fence import NO, fence_wanted  # noqa: PLC0415 - keeps --help quick

    if options["fence"] and options["no_fence"]:
        raise click.UsageError("--fence and --no-fence cannot be used together")
    return fence_wanted(NO if options["no_fence"] else options["fence"] or "", settings, os.geteuid())


def _time_limit(text: str | None) -> float:
    if text is None:
        return 0.0
    advice = "write 90m, 1h30m or 45 (seconds); leave it out for no limit"
    found = duration(text, "--time", advice)
    if not found:
        raise InputError(f"{quoted(text)} leaves the job no time", field="--time", advice=advice)
    return found


def _show(job: Any, settings: Any, options: dict[str, Any]) -> int:  # noqa: ANN401 - values of apps
    from numawise.apps.launch import run as launch  # noqa: PLC0415
    from numawise.render import holds as words  # noqa: PLC0415
    from numawise.results.placement import NoRoom  # noqa: PLC0415

    inside = None
    if job.environment.get("NUMAWISE_HOLD") and not (job.outside or options["machine"]):
        from numawise.apps.launch.nested import preview_inside  # noqa: PLC0415

        inside = preview_inside(job, settings)
    if inside is not None:
        found, capacity = inside
    else:
        capacity, holds, here = launch.imagined(options["machine"], settings, job.environment)
        found = launch.preview(job, capacity, holds, here=here)
    if isinstance(found, NoRoom):
        return Teller(quiet=False).ended(found, capacity)
    if options["output"] == "json":
        click.echo(json.dumps(words.preview_data(found, job.command), indent=2))
        return 0
    show_preview(found)
    return 0

"""``numawise docker``, ``podman``, ``nerdctl``: a container on CPUs, memory and GPUs that belong together."""

import json
import os
from typing import Any

import click

from numawise.cli.options import BeforeDashes, Teller, machine_option, required_command, say
from numawise.cli.placing import placement_options, request_of, seconds, wait_option

EXAMPLES = """\b
Examples:
  numawise ENGINE --gpu-ids 0 -- run -d --name train --shm-size=16g trainer:latest python train.py
  numawise ENGINE --cpus 16 --memory 32g --gpus 1 -- run -d --name serve -p 8080:8080 server:latest
  numawise ENGINE --cpus 8 --gpus 2 --wait -- run --rm -it trainer:latest bash
  numawise ENGINE --gpus 4 --print -- run -d trainer:latest torchrun --nproc_per_node=4 train.py
  numawise ENGINE --cpus 4 -- create --name later server:latest

\b
Exit status: that of ENGINE (125 it failed, 126 and 127 the container's command); 1 no room, 2 bad
input or more than the machine has, 3 host, 4 ledger.
"""
HELP = """Start a container on CPUs, memory and GPUs that belong together.

After -- comes the ENGINE command, run or create with all their options.  The CPUs, memory nodes, GPUs and
variables that were granted are put in.  The hold lives as long as the container, detached or not.
"""


def container_command(engine: str) -> click.Command:
    """The command for one engine."""
    help_text, examples = (text.replace("ENGINE", engine) for text in (HELP, EXAMPLES))

    usage = f"[OPTIONS] -- run [{engine.upper()}_OPTIONS] IMAGE [COMMAND]..."

    @click.command(engine, cls=BeforeDashes, help=help_text, epilog=examples, options_metavar=usage)
    @placement_options
    @wait_option
    @click.option("--cdi", is_flag=True, help="Name GPUs by CDI; podman always does for NVIDIA's.")
    @click.option(
        "--no-env", is_flag=True, help="Add no variables (OMP_…, CUDA_VISIBLE_DEVICES, NUMAWISE_…)."
    )
    @click.option(
        "--print", "--dry-run", "dry", is_flag=True, help="Print the command; run nothing and hold nothing."
    )
    @machine_option("With --print: a machine other than this one.")
    @click.option("-q", "--quiet", is_flag=True, help="Do not say what the container got.")
    @click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="For --print.")
    @click.pass_context
    def command(context: click.Context, /, **options: Any) -> int:  # noqa: ANN401 - click's
        return _start(engine, required_command(context), options)

    made: click.Command = command
    return made


def _start(engine: str, words: tuple[str, ...], options: dict[str, Any]) -> int:
    from numawise.apps.launch.containers import run as containerrun  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.launch.containers.command import read_command  # noqa: PLC0415
    from numawise.host.settings import read_settings  # noqa: PLC0415

    settings = read_settings()
    quiet, environment = options["quiet"], dict(os.environ)
    given = read_command(engine, words)
    if given.helps:
        containerrun.become_client(given, words, environment)
    request = containerrun.container_request(given, request_of(options, settings), environment)
    job = containerrun.ContainerJob(
        given, request, seconds(options["wait"]), options["cdi"], not options["no_env"], environment
    )
    if options["dry"]:
        return _print(job, settings, options)
    if options["machine"]:
        raise click.UsageError("--machine is for --print: a container cannot run on another machine")

    teller = Teller(quiet=quiet)
    return teller.ended(containerrun.run_container(job, settings, teller.started, teller.waiting, say))


def _print(job: Any, settings: Any, options: dict[str, Any]) -> int:  # noqa: ANN401 - values of apps
    from numawise.apps.launch import run as launch  # noqa: PLC0415
    from numawise.apps.launch.containers import run as containerrun  # noqa: PLC0415
    from numawise.render import holds as words  # noqa: PLC0415
    from numawise.results.placement import NoRoom  # noqa: PLC0415
    from numawise.results.plain import API_VERSION  # noqa: PLC0415

    capacity, holds, here = launch.imagined(options["machine"], settings, job.environment)
    found = containerrun.printed(job, capacity, holds, here=here)
    if isinstance(found, NoRoom):
        return Teller(quiet=False).ended(found, capacity)
    if options["output"] == "json":
        data = {
            "apiVersion": API_VERSION,
            "kind": "ContainerCommand",
            **words.placement_data(found.placement),
            "remarks": list(found.remarks),
            "command": list(found.shell.argv),
        }
        click.echo(json.dumps(data, indent=2))
        return 0
    click.echo(str(found.shell))
    for remark in found.remarks if not options["quiet"] else ():
        say(remark)
    return 0


command = container_command("docker")

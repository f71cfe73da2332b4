"""``numawise flags``: a placement as text for numactl, containers, Compose, systemd, Slurm and Kubernetes."""

import os
from typing import Any

import click

from numawise.cli.options import machine_option, output_option, say
from numawise.cli.placing import placement_options, request_of

FORMATS = ("numactl", "taskset", "docker", "podman", "compose", "systemd", "slurm", "kubernetes", "env")


@click.command(
    epilog="""\b
Examples:
  numawise flags --cpus 16 --memory 64g --gpus 2
  numawise flags --cpus 8 --full-cores --format numactl
  numawise flags --hold train --format systemd
  numawise flags --cpus 8 --gpus 2 --format compose --service train > compose.override.yaml
  numawise flags --cpus 8 --memory 32g --gpus 1 --format kubernetes --machine dgx-h100
  eval "$(numawise flags --gpus 2 --format env)"

\b
Exit status: 0; 1 no room, 2 bad input or more than the machine has, 3 host, 4 ledger."""
)
@placement_options
@click.option("--hold", metavar="HOLD", default="", help="The placement of a hold, by id or name.")
@click.option(
    "--format",
    "formats",
    type=click.Choice([*FORMATS, "all"]),
    multiple=True,
    default=("all",),
    show_default="all",
    help="For which program; may be given several times.",
)
@click.option("--service", metavar="NAME", help="The service of the Compose file; with --format compose.")
@machine_option("A machine other than this one; nothing runs on it.")
@output_option("text", "json")
def command(
    hold: str,
    formats: tuple[str, ...],
    service: str | None,
    machine: tuple[str, ...],
    output: str,
    **options: Any,  # noqa: ANN401 - click's
) -> int:
    """Print where a job would go, or a hold is, in the words of other programs.

    Nothing is held by this: what runs with these flags is not in the ledger, and others may get the same.
    """
    from numawise.apps.launch.containers.compose_file import checked_service  # noqa: PLC0415
    from numawise.apps.launch.flags import (  # noqa: PLC0415
        flags_data,
        found_placement,
        texts,
    )
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.errors import InputError  # noqa: PLC0415
    from numawise.host.settings import read_settings  # noqa: PLC0415
    from numawise.render import holds as words  # noqa: PLC0415 - keeps --help quick
    from numawise.results.placement import NoRoom  # noqa: PLC0415
    from numawise.values import replace  # noqa: PLC0415

    if hold and machine:
        raise InputError("cannot be used together", field="--hold and --machine", advice="give one of them")
    given = [name for name, value in options.items() if value]
    if hold and given:
        flag = "--" + given[0].removesuffix("s" if given[0] == "devices" else "").replace("_", "-")
        raise InputError("cannot be used together", field=f"--hold and {flag}", advice="give one of them")
    if service is not None and not {"compose", "all"} & set(formats):
        raise InputError("is for Compose alone", field="--service", advice="add --format compose")
    if service is not None:
        checked_service(service)
    settings = read_settings()
    request = request_of(options, settings)
    capacity, found = found_placement(request, hold, machine, settings, os.environ)
    if isinstance(found, NoRoom):
        for line in words.no_room_lines(found, capacity):
            say(line)
        return 1
    chosen = FORMATS if "all" in formats else tuple(dict.fromkeys(formats))
    written = texts(replace(found, service=service) if service else found, chosen)
    if output == "json":
        click.echo(to_json(flags_data(found, written)), nl=False)
        return 0
    for at, (name, text) in enumerate(written.items()):
        if len(written) > 1:
            click.echo(f"{chr(10) if at else ''}# {name}")
        click.echo(str(text), nl=False)
        for remark in text.remarks:
            say(f"{name}: {remark}")
    for remark in found.placement.remarks:
        say(remark)
    return 0

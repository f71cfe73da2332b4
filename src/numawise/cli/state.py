"""``numawise state``: the kubelet's state files shown, verified, repaired and converted."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from numawise.cli.options import NODE_OPTIONS, machine_option, node_options, node_spec, say, say_remarks

if TYPE_CHECKING:
    from numawise.inputs.matching import StateInput
    from numawise.node.state.change import Change
    from numawise.node.state.folder import Against, StateFolder
    from numawise.results.finding import Finding

Command = TypeVar("Command", bound=Callable[..., Any])
DIRECTORY = "/var/lib/kubelet"
RESETS = ("cpu", "memory", "devices", "all")


def _sources(function: Command) -> Command:
    """The options that say what the files are compared with."""
    made: Command = NODE_OPTIONS["match_devices"](_beside(function))
    return made


def _beside(function: Command) -> Command:
    """The same where files are changed: what they say of devices is left as it is."""
    pods = click.option(
        "--pods",
        multiple=True,
        metavar="FILE",
        help="The pods of the node, as kubectl get pods -A -o json prints them; - is standard input.",
    )
    made: Command = node_options("state", "node_object", "match_devices")(pods(function))
    return made


def _output(*forms: str) -> Callable[[Command], Command]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(forms),
        default="text",
        show_default=True,
        help="Output format.",
    )


DIR = click.argument("state", nargs=-1, metavar="[DIR|FILE]...")


@click.group()
def command() -> None:
    """Inspect the files in which a kubelet remembers who has which CPUs, memory and devices.

    They are cpu_manager_state, memory_manager_state and device-plugins/kubelet_internal_checkpoint.
    """


@command.command(
    "show",
    epilog="""\b
Examples:
  numawise state show
  numawise state show /var/lib/kubelet --machine this
  kubectl get pods -A -o json | numawise state show node7/ --machine node7.yaml --pods -
  numawise state show cpu_manager_state -o json
  numawise state show node7/ --machine node7.yaml -o svg > node7.svg

\b
Exit status: 0; 2 bad input.""",
)
@_sources
@_output("text", "table", "json", "yaml", "svg", "html")
@click.option(
    "--width",
    type=click.IntRange(40, 400),
    metavar="COLUMNS",
    help="Width of the map.  [default: the terminal's; 100 where there is none]",
)
@DIR
@click.pass_context
def show(
    context: click.Context,
    /,
    output: str,
    width: int | None,
    **given: Any,  # noqa: ANN401 - the options of _sources
) -> int:
    """Show who holds what: the files, a table, and a map of the machine.

    DIR is the kubelet's directory, /var/lib/kubelet if not given, a copy of it, its files, or a bundle.
    """
    from numawise.apps.state.summary import summarized  # noqa: PLC0415 - keeps --help quick
    from numawise.render import state as words  # noqa: PLC0415
    from numawise.render.picture.layout import picture  # noqa: PLC0415

    loaded = _read(given)
    say_remarks(one.sentence for one in loaded.unmatched)
    folder, against = loaded.folder, loaded.against
    if output in ("json", "yaml"):
        _data("KubeletState", summarized(folder, against, loaded.unmatched), output)
        return 0
    hardware = words.map_hardware(folder, loaded.hardware, against.live, loaded.unmatched)
    drawn = picture(hardware, words.map_holds(folder, against.live))
    if output == "svg":
        from numawise.render.picture.svg import svg  # noqa: PLC0415

        click.echo(svg(drawn), nl=False)
    elif output == "html":
        from numawise.render.picture.html import html  # noqa: PLC0415

        click.echo(html(drawn, []), nl=False)
    else:
        _tables(folder, against, context.color)
        if output == "text" and hardware.threads:
            from numawise.cli.show import default_width, speaks_unicode, wants_color  # noqa: PLC0415
            from numawise.render.picture.text import text  # noqa: PLC0415

            color = wants_color(context.color)
            drawing = text(drawn, width or default_width(), ascii_only=not speaks_unicode(), color=color)
            click.echo("\n" + drawing, nl=False, color=color)
    return 0


@command.command(
    "verify",
    epilog="""\b
Examples:
  numawise state verify --machine this --kubelet-config /var/lib/kubelet/config.yaml
  numawise state verify node7/ --machine node7.yaml --kubelet-config config.yaml --kube 1.31
  kubectl get pods -A -o json --field-selector spec.nodeName=node7 | numawise state verify node7/ --pods -

\b
Exit status: 0 nothing is wrong (there may be warnings), 1 something is, 2 bad input.""",
)
@_sources
@_output("text", "json", "yaml")
@DIR
@click.pass_context
def verify_files(
    context: click.Context,
    /,
    output: str,
    **given: Any,  # noqa: ANN401 - the options of _sources
) -> int:
    """Check checksums, overlaps, policies, pods that are gone, and drift against the machine.

    What a kubelet would say when it starts on these files is reported in its own words.
    """
    from numawise.apps.state.summary import reported  # noqa: PLC0415 - keeps --help quick
    from numawise.node.state.lint import verify  # noqa: PLC0415
    from numawise.render.table import sentences  # noqa: PLC0415

    loaded = _read(given)
    folder, against = loaded.folder, loaded.against
    say_remarks(one.sentence for one in loaded.unmatched if one.kind == "pod")
    report = reported(folder, against, verify(folder, against), loaded.unmatched)
    if output == "text":
        _files(folder, context.color)
        click.echo()
        _findings(report.findings, context.color)
        sentences(_compared(against), sys.stdout)
    else:
        _data("KubeletStateReport", report, output)
    return 1 if report.errors else 0


@command.command(
    "repair",
    epilog="""\b
Examples:
  numawise state repair node7/ --drop-pod 39b37746
  numawise state repair --adapt-memory --machine this --write
  kubectl get pods -A -o json | numawise state repair node7/ --remove-stale --pods - --write
  numawise state repair --reset memory --write

\b
Exit status: 0 done (or it can be done), 1 something asked for is not possible or still wrong,
2 bad input, 3 the files cannot be written (also: a kubelet runs on them).""",
)
@click.option(
    "--drop-pod", "drop", multiple=True, metavar="UID", help="Forget a pod; its uid or the beginning of it."
)
@click.option("--remove-stale", is_flag=True, help="Forget every pod that is not among --pods.")
@click.option(
    "--recompute-checksum", is_flag=True, help="Give every file the right checksum for its content."
)
@click.option(
    "--recompute-tables", is_flag=True, help="Count the memory tables again from what containers have."
)
@click.option(
    "--adapt-memory", is_flag=True, help="Let the memory tables follow the machine, as after a reboot."
)
@click.option("--adapt-cpus", is_flag=True, help="Let the shared pool follow the CPUs that are online.")
@click.option(
    "--reset",
    multiple=True,
    type=click.Choice(RESETS),
    help="Remove a file, so that the kubelet starts without it.",
)
@click.option("--write", is_flag=True, help="Make the change; otherwise it is only shown.")
@click.option("--even-if-running", is_flag=True, help="Write even if a kubelet is using the directory.")
@_beside
@_output("text", "json", "yaml")
@DIR
def repair_files(
    drop: Sequence[str],
    remove_stale: bool,
    recompute_checksum: bool,
    recompute_tables: bool,
    adapt_memory: bool,
    adapt_cpus: bool,
    reset: Sequence[str],
    write: bool,
    even_if_running: bool,
    output: str,
    **given: Any,  # noqa: ANN401 - the options of _sources
) -> int:
    """Repair what is named, and nothing else; shown first, done with --write.

    The old files are kept in a folder beside the new ones, which are written whole or not at all, with the
    same mode and owner.  What comes out is read as the kubelet would read it.
    """
    from numawise.node.state.repair import repair, reset_names  # noqa: PLC0415
    from numawise.node.state.repair_request import RepairRequest  # noqa: PLC0415

    loaded = _read(given)
    folder, against = loaded.folder, loaded.against
    asked = RepairRequest(
        drop=tuple(drop),
        remove_stale=remove_stale,
        recompute_checksum=recompute_checksum,
        recompute_tables=recompute_tables,
        adapt_memory=adapt_memory,
        adapt_cpus=adapt_cpus,
        reset=reset_names(reset),
    )
    change = repair(folder, asked, against)
    return _changed(folder, change, against, output, write=write, even_if_running=even_if_running)


@command.command(
    "convert",
    epilog="""\b
Examples:
  numawise state convert node7/ --to 1.31
  numawise state convert node7/ --to 1.37 --out upgraded/
  numawise state convert --to 1.35 --write

\b
Exit status: 0 done (or it can be done), 1 something cannot be converted, 2 bad input,
3 the files cannot be written.""",
)
@click.option(
    "--to", "release", required=True, metavar="VERSION", help="The release that is to read the files."
)
@click.option(
    "--pod-level-managers", is_flag=True, help="That release runs with the gate PodLevelResourceManagers."
)
@machine_option("Gives the NUMA nodes of devices that have none recorded.")
@click.option(
    "--pods", multiple=True, metavar="FILE", help="Pods, to look up containers that are known by id alone."
)
@click.option("--out", metavar="DIR", help="Write the converted files there, and leave the others alone.")
@click.option("--write", is_flag=True, help="Convert in place; otherwise it is only shown.")
@click.option("--even-if-running", is_flag=True, help="Write even if a kubelet is using the directory.")
@_output("text", "json", "yaml")
@DIR
def convert_files(
    release: str,
    pod_level_managers: bool,
    out: str | None,
    write: bool,
    even_if_running: bool,
    output: str,
    **given: Any,  # noqa: ANN401 - machine, pods and state files
) -> int:
    """Bring the files into the form of another release; what that cannot hold is reported as lost."""
    from numawise.apps.state.change import write_copies  # noqa: PLC0415 - keeps --help quick
    from numawise.errors import InputError  # noqa: PLC0415
    from numawise.node.state.convert import convert  # noqa: PLC0415

    if out is not None and write:
        raise InputError("--out and --write exclude each other", advice="give one of them")
    loaded = _read({**given, "kube": release}, "--to")
    folder, against = loaded.folder, loaded.against
    change = convert(folder, against, gate=pod_level_managers)
    if out is not None:
        for path in write_copies(folder, change, Path(out)):
            say(f"{path} written")
    return _changed(
        folder, change, against, output, write=write, even_if_running=even_if_running, quiet=bool(out)
    )


# --- what the commands share -----------------------------------------------------------------


def _read(given: dict[str, Any], field: str = "--kube") -> "StateInput":
    from numawise.inputs.matching import read_state_of  # noqa: PLC0415 - keeps --help quick

    pods = given.pop("pods")
    given["state"] = given["state"] or (DIRECTORY,)
    loaded = read_state_of(node_spec(given, *pods), pods, field)
    say_remarks(loaded.remarks)
    return loaded


def _tables(folder: "StateFolder", against: "Against", color: bool | None) -> None:
    from numawise.render import state as words  # noqa: PLC0415
    from numawise.render.table import sentences, table  # noqa: PLC0415

    _files(folder, color)
    rows = words.holder_rows(folder, against.live)
    if rows:
        click.echo()
        table(words.HOLDER_COLUMNS, rows, sys.stdout, color=color)
    rows = words.memory_rows(folder)
    if rows:
        click.echo()
        table(words.MEMORY_COLUMNS, rows, sys.stdout, color=color)
    pool = words.pool_text(folder)
    if pool:
        sentences(f"\n{pool}", sys.stdout)


def _files(folder: "StateFolder", color: bool | None) -> None:
    """The files; what is wrong about one stands out."""
    from numawise.render import state as words  # noqa: PLC0415
    from numawise.render.table import table  # noqa: PLC0415
    from numawise.render.terminal import GREEN, RED  # noqa: PLC0415

    rows: list[list[tuple[str, str] | str]] = []
    for file, row in zip(folder.files, words.file_rows(folder), strict=True):
        name, form, policy, checksum, readers = row
        rows.append([name, form, policy, (checksum, GREEN if file.look.fits else RED), readers])
    table(words.FILE_COLUMNS, rows, sys.stdout, color=color)


def _findings(findings: "Sequence[Finding]", color: bool | None = None) -> None:
    from numawise.render.findings import terminal_text  # noqa: PLC0415

    text, color = terminal_text(findings, sys.stdout, color=color)
    click.echo(text, nl=False, color=color)


def _compared(against: "Against") -> str:
    from numawise.rules.versions import shown  # noqa: PLC0415

    given = (
        ("--machine", against.machine),
        ("--kubelet-config", against.config),
        ("--pods", against.live),
    )
    missing = [name for name, value in given if value is None]
    left_out = f"; not compared: {', '.join(missing)} not given" if missing else ""
    return f"for Kubernetes {shown(against.version)}{left_out}"


def _changed(
    folder: "StateFolder",
    change: "Change",
    against: "Against",
    output: str,
    *,
    write: bool,
    even_if_running: bool,
    quiet: bool = False,
) -> int:
    from numawise.apps.state.change import carry_out  # noqa: PLC0415
    from numawise.apps.state.summary import changed  # noqa: PLC0415
    from numawise.errors import InputError  # noqa: PLC0415
    from numawise.render.state import change_lines  # noqa: PLC0415

    backup = None
    if write and not folder.directory.is_dir():
        raise InputError("cannot be changed in place", file=str(folder.directory), advice="unpack it first")
    if write and change.changes:
        backup = carry_out(folder, change.files, even_if_running=even_if_running)
    document = changed(folder, change, against, str(backup) if backup else None, written=write)
    if output != "text":
        _data("KubeletStateChange", document, output)
        return 1 if change.refused or change.left else 0
    for line in change_lines(document):
        click.echo(line)
    if not change.changes:
        click.echo("nothing to change")
    elif write:
        click.echo(f"written; the old files are in {backup}")
    elif not quiet:
        click.echo("nothing was written; use --write to do so")
    if change.left:
        click.echo("\nstill wrong afterwards:" if change.changes else "\nwrong:")
        _findings(change.left)
    return 1 if change.refused or change.left else 0


def _data(kind: str, value: object, output: str) -> None:
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
    from numawise.results.plain import document  # noqa: PLC0415

    data = document(kind, value)
    click.echo(to_json(data) if output == "json" else to_yaml(data), nl=False)

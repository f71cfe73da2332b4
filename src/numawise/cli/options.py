"""Options that several commands share, and what launchers print on standard error."""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from numawise.errors import LONGEST_MESSAGE, InputError, cut, quoted

if TYPE_CHECKING:
    from numawise.inputs.spec import NodeSpec
    from numawise.results.placement import Capacity, JobStarted, NoRoom, Preview


def output_option(*forms: str, words: str = "Output format.") -> Callable[[Any], Any]:
    """``-o`` with these forms, the first unless another is asked for."""
    return click.option(
        "-o", "--output", type=click.Choice(forms), default=forms[0], show_default=True, help=words
    )


# --------------------------------------------------------------------------------------------------
# Which node is meant: the same options with the same forms in every command (docs/reference/inputs.md).


def machine_option(words: str = "") -> Callable[[Any], Any]:
    """``--machine``, in every form; ``words``: what is special about it in a command."""
    forms = (
        "The machine: a machine file, saved hardware, a NodeResourceTopology, output of lscpu, nvidia-smi "
        "and others (several become one), a folder with its /sys, a bundle, a name from "
        "'numawise machine list', a description like '2s 4n 64c 8gpu', or 'this'."
    )
    return click.option(
        "--machine", multiple=True, metavar="MACHINE", help=f"{words} {forms}" if words else forms
    )


def _config_option(words: str) -> Callable[[Any], Any]:
    return click.option(
        "--kubelet-config",
        multiple=True,
        metavar="FILE",
        help="A KubeletConfiguration, part of one, what /configz answers, a bundle, or an object that has "
        "one inside (OpenShift, Karpenter, EKS, GKE, AKS, Bottlerocket, Cluster API, kubeadm, k3s, Talos, "
        f"…).{words}",
    )


NODE_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "machine": machine_option(),
    "kubelet_config": _config_option(""),
    "config_dir": click.option(
        "--config-dir", default="", metavar="DIR", help="The kubelet's drop-in directory: *.conf, by name."
    ),
    "kubelet_flags": click.option(
        "--kubelet-flags",
        default="",
        metavar="TEXT|FILE",
        help="The kubelet's command line, a file of variables with it, or its systemd unit.",
    ),
    "state": click.option(
        "--state",
        multiple=True,
        metavar="DIR|FILE",
        help="State files of the kubelet: its directory, as /var/lib/kubelet, or the files themselves.",
    ),
    "bundle": click.option(
        "--bundle",
        default="",
        metavar="FILE",
        help="A node as 'numawise bundle' collected it: machine, configuration, state, pods and release.",
    ),
    "kube": click.option(
        "--kube",
        default="",
        metavar="VERSION",
        help="The Kubernetes release of the kubelet, such as 1.31 or v1.34.2.  "
        "[default: the bundle's, or the newest known]",
    ),
    "node_object": click.option(
        "--node-object",
        default="",
        metavar="FILE",
        help="The Node object, as 'kubectl get node NAME -o yaml' prints it: labels, taints, conditions and "
        "what is allocatable.  Without it they are not judged.",
    ),
    "pod_resources": click.option(
        "--pod-resources",
        default="",
        metavar="FILE",
        help="What the kubelet's PodResources socket answers to List and GetAllocatableResources, as JSON: "
        "where devices are, and which pods still hold what state files record.  [default: the bundle's]",
    ),
    "device_plugin_config": click.option(
        "--device-plugin-config",
        default="",
        metavar="FILE[:NAME]",
        help="The configuration of NVIDIA's device plugin: its file, a ConfigMap (NAME: which entry), Helm "
        "values or a ClusterPolicy; or 'off' for a plugin that prefers no devices.",
    ),
    "match_devices": click.option(
        "--match-devices",
        is_flag=True,
        help="Map devices of the state files that the machine names otherwise (UUIDs beside GPU0) by number: "
        "those that are held on their recorded NUMA nodes, the rest in order.  Without it no answer rests on "
        "them.",
    ),
    "node_name": click.option(
        "--node-name",
        default="",
        metavar="NAME",
        help="The node's name in the cluster: pods of other nodes are left out of a list of pods.",
    ),
}
several_configs = _config_option("  Several are several kubelets.")


def node_options(*without: str) -> Callable[[Any], Any]:
    """All options that name a node, but for these; ``node_spec`` takes them out of a command's arguments."""

    def decorate(command: Any) -> Any:  # noqa: ANN401 - click's
        for name in reversed([name for name in NODE_OPTIONS if name not in without]):
            command = NODE_OPTIONS[name](command)
        return command

    return decorate


def node_spec(arguments: dict[str, Any], *others: str | None, **instead: Any) -> "NodeSpec":  # noqa: ANN401 - click's
    """Take what was named of a node out of a command's arguments; ``others`` may be standard input, too."""
    from numawise.inputs.spec import NodeSpec, check_stdin  # noqa: PLC0415 - keeps --help quick

    given = {name: arguments.pop(name) for name in NODE_OPTIONS if name in arguments}
    spec = NodeSpec(**{**given, **instead})
    check_stdin(*spec.words, *others)
    return spec


def say_remarks(remarks: Iterable[str]) -> None:
    """What a person should know, on standard error."""
    for remark in remarks:
        say(remark)


pods_argument = click.argument("pods", nargs=-1, metavar="[PODS]...")


# --------------------------------------------------------------------------------------------------
# Commands that run another: what stands after ``--`` is that one's, all before it is ours.


COMMAND = "numawise.command"


class BeforeDashes(click.Command):
    """A command whose last part, after ``--``, is left as it is; ``command_of`` gives it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Cut off what stands after the first ``--``."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[COMMAND] = tuple(args[at + 1 :])
        ctx.allow_extra_args, ctx.allow_interspersed_args = True, False
        rest = super().parse_args(ctx, args[:at])
        words = ctx.args
        if words and not ctx.resilient_parsing:
            named = "".join(f"{word} " for word in _arguments(ctx))
            meant = " ".join([*words, *(["--", *args[at + 1 :]] if at < len(args) else [])])
            raise InputError(
                f"{quoted(words[0])} is given where an option is expected",
                advice=f"write -- before the command: {ctx.command_path} [OPTIONS] {named}-- {meant}",
            )
        return rest


def _arguments(context: click.Context) -> list[str]:
    """The words before ``--`` that are no options, such as the hold of ``exec``."""
    return [
        str(context.params.get(each.name or "") or each.make_metavar(context))
        for each in context.command.params
        if isinstance(each, click.Argument)
    ]


def command_of(context: click.Context) -> tuple[str, ...]:
    """The words after ``--``."""
    found: tuple[str, ...] = context.meta.get(COMMAND, ())
    return found


def required_command(context: click.Context) -> tuple[str, ...]:
    """The words after ``--``; refused when there are none."""
    found = command_of(context)
    if not found:
        raise InputError(
            "no command is given",
            advice=f"write it after --: {' '.join((context.command_path, *_arguments(context)))} -- COMMAND",
        )
    return found


# --------------------------------------------------------------------------------------------------
# What is said on standard error, beside a job's own words.


def say(text: str) -> None:
    """One line on standard error, at once."""
    print("numawise:", cut(text.replace("\n", " "), 2 * LONGEST_MESSAGE), file=sys.stderr, flush=True)  # noqa: T201 - quicker than click.echo


class Teller:
    """Tells a user how it goes with a job, unless that is not wanted."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def started(self, started: "JobStarted") -> None:
        """What the job got."""
        from numawise.render.holds import started_line  # noqa: PLC0415 - keeps --help quick

        if not self.quiet:
            say(started_line(started))
            for remark in started.remarks:
                say(f"  {remark}")

    def waiting(self, found: "NoRoom") -> None:
        """Why it does not start yet."""
        if not self.quiet:
            say(f"waiting: {found.reason}")

    def ended(self, ended: "int | NoRoom", capacity: "Capacity | None" = None) -> int:
        """The exit status of a job, or of a lack of room, which is reported with who holds what."""
        if isinstance(ended, int):
            return ended
        if ended.dropped:
            say(ended.reason)
            return 1
        from numawise.apps.launch.run import capacity_here  # noqa: PLC0415 - keeps --help quick
        from numawise.host.settings import read_settings  # noqa: PLC0415
        from numawise.render.holds import no_room_lines  # noqa: PLC0415

        for line in no_room_lines(ended, capacity or capacity_here(read_settings())):
            say(line)
        return 1


def show_preview(preview: "Preview") -> None:
    """What a launcher would do, for people: the placement, remarks, steps, and variables."""
    from numawise.apps.launch.environment import SET  # noqa: PLC0415 - keeps --help quick
    from numawise.render.holds import kept_text, placement_text  # noqa: PLC0415

    kept = f", {kept_text(preview.mode, preview.fence)}" if preview.mode else ""
    click.echo(placement_text(preview.placement) + kept)
    # What is for other commands of ours is of no interest to people.
    variables = (f"{name}={value}" for name, value in preview.environment if name != SET)
    for line in (*preview.remarks, *preview.steps, *variables):
        click.echo(f"  {line}")

"""``numawise simulate``: what kubelets would do with these pods on these machines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.options import node_options, node_spec, output_option, pods_argument
from numawise.errors import InputError, quoted

if TYPE_CHECKING:
    from numawise.inputs.spec import NodeSpec

DRAWINGS = ("svg", "html")


@click.command(
    epilog="""\b
Examples:
  numawise simulate --machine examples/8gpu-server/machine.yaml \\
      --kubelet-config examples/8gpu-server/kubelet.yaml examples/8gpu-server/pods/*.yaml
  kubectl get pod train-0 -o yaml | numawise simulate --machine m.yaml --kubelet-config k.yaml -
  numawise simulate --machine m.yaml --kubelet-config k.yaml --state /var/lib/kubelet -o json pod.yaml
  numawise simulate --machine m.yaml --kubelet-config k.yaml --steps day.yaml --map
  numawise simulate --bundle node7.tar.gz --fill inference.yaml
  numawise simulate --bundle node7.tar.gz --resize pod=train-0,cpu=16,memory=64Gi
  numawise simulate --machine m.yaml --kubelet-config k.yaml --compare new.yaml pods/*.yaml
  numawise simulate --machine m.yaml --kubelet-config k.yaml --compare-kube 1.34,1.36 pods/*.yaml
  numawise simulate --nodes dgx-h100:40 --kubelet-config k.yaml --choose spread queue.yaml
  numawise simulate --nodes dgx-h100:20 --kubelet-config k.yaml --cluster day.jsonl --out day.svg -o svg

\b
Exit status: 0 all admitted (with --compare, --compare-kube: nothing changes; with --cluster: all started), 1
some not (something changes; a pod asks for a device resource that the machine does not offer; not even one
copy of --fill; a resize not carried out), 2 bad input (also: the kubelet would not start), 130
interrupted."""
)
@node_options()
@click.option(
    "--steps",
    metavar="FILE",
    help="What happens after the pods have arrived: a scenario of further pods, removals, restarts.",
)
@click.option(
    "--resize",
    "resizes",
    multiple=True,
    metavar="pod=NAME,…",
    help="Then resize a running pod in place: pod=train,container=main,cpu=8,memory=16Gi.",
)
@click.option(
    "--fill",
    "fills",
    multiple=True,
    metavar="FILE",
    help="At the end, admit copies of this pod until one is refused: how many more fit?",
)
@click.option(
    "--most",
    type=click.IntRange(1, 100_000),
    default=10_000,
    show_default=True,
    metavar="N",
    help="With --fill: stop at this many copies.",
)
@click.option(
    "--compare",
    "other",
    metavar="FILE",
    help="Run it under this KubeletConfiguration as well, and mark the differences.",
)
@click.option(
    "--compare-kube",
    metavar="OLD,NEW",
    help="Run the pods in both releases, and show what changes from the one to the other, and why.",
)
@click.option(
    "--nodes",
    multiple=True,
    metavar="FILE|DIR|MACHINE:COUNT",
    help="Many nodes instead of one: a list of them, NodeResourceTopologies, a folder of nodes, bundles, or "
    "several equal machines.",
)
@click.option(
    "--choose",
    type=click.Choice(["first", "spread", "sums"]),
    default="first",
    show_default=True,
    help="With --nodes, where a pod goes: the first that admits it, the emptiest that does, or the emptiest "
    "by sums, as a scheduler sees it.",
)
@click.option(
    "--cluster",
    "trace",
    metavar="TRACE",
    help="With --nodes: let the pods of this trace arrive, run and end, once for each way to choose a node, "
    "and compare who waits and whom kubelets refuse.",
)
@click.option(
    "--choices",
    default="all",
    show_default=True,
    metavar="NAME,…",
    help="With --cluster: least-allocated, most-allocated, asked, numawise, pool.",
)
@click.option(
    "--retry",
    default="30s",
    show_default=True,
    metavar="TIME",
    help="With --cluster: after this long a refused pod is made anew.",
)
@click.option(
    "--patience",
    default="5m",
    show_default=True,
    metavar="TIME",
    help="With --cluster: after this long a place is kept for a pod that waits (numawise).",
)
@click.option("--map", "drawn", is_flag=True, help="Draw the machine as it is at the end: who has what.")
@output_option(
    "text",
    "json",
    "yaml",
    *DRAWINGS,
    words="Output format; svg and html are the map, with --cluster svg is the plot.",
)
@click.option("--out", metavar="FILE", help="Write to this file, atomically, instead of printing.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@pods_argument
@click.pass_context
def command(
    context: click.Context,
    /,
    steps: str | None,
    resizes: Sequence[str],
    fills: Sequence[str],
    most: int,
    other: str | None,
    compare_kube: str | None,
    nodes: Sequence[str],
    choose: str,
    trace: str | None,
    choices: str,
    retry: str,
    patience: str,
    drawn: bool,
    output: str,
    out: str | None,
    quiet: bool,
    pods: Sequence[str],
    **node: Any,  # noqa: ANN401 - the options of a node
) -> int:
    """Admit the pods in order, exactly as the kubelet's managers would, and show who gets what.

    PODS are files or folders with Pods, Deployments, Jobs, Lists or any object with pod templates, such as
    those of Ray, Kubeflow and Volcano, or names of pods of the bundle; - reads standard input.
    """
    from numawise.cli import simulating as ways  # noqa: PLC0415

    named = node_spec(node, steps, other, trace, *fills, *pods)
    if trace is not None:
        beside = {
            "--steps": steps is not None,
            "--resize": bool(resizes),
            "--fill": bool(fills),
            "--compare": other is not None,
            "--compare-kube": compare_kube is not None,
            "--choose": _typed(context, "choose"),
            "--map": drawn,
            "-o html": output == "html",
        }
        _check_trace(nodes, pods, [name for name, given in beside.items() if given])
        from numawise.cli.simulating_cluster import simulate_cluster  # noqa: PLC0415 - few ask for it

        asked = ways.SimulateOptions(context, named, (), None, (), (), most, output, out, quiet, drawn)
        return simulate_cluster(asked, trace, nodes, choices, (retry, patience))
    for name in ("choices", "retry", "patience"):
        if _typed(context, name):
            raise InputError(f"--{name} needs --cluster", advice="give a trace of pods: --cluster TRACE")
    _check(named, nodes)
    wanted = {
        "--nodes": bool(nodes),
        "--compare": other is not None,
        "--compare-kube": compare_kube is not None,
    }
    modes = [name for name, given in wanted.items() if given]
    if len(modes) > 1:
        raise InputError(f"{modes[0]} and {modes[1]} exclude each other", advice="give one of them")
    beside = {
        "--steps": steps is not None,
        "--resize": bool(resizes),
        "--fill": bool(fills),
        "--map": drawn,
        f"-o {output}": output in DRAWINGS,
    }
    excluded = {
        "--nodes": tuple(beside),
        "--compare": ("--map", f"-o {output}"),
        "--compare-kube": tuple(beside),
    }
    for name in excluded[modes[0]] if modes else ():
        if beside[name]:
            advice = "give one of them; a map and steps are of one node"
            raise InputError(f"{modes[0]} and {name} exclude each other", advice=advice)
    if not pods and (nodes or compare_kube is not None or (steps is None and not fills and not resizes)):
        raise click.UsageError("Missing argument 'PODS...'.", context)
    asked = ways.SimulateOptions(
        context, named, tuple(pods), steps, tuple(resizes), tuple(fills), most, output, out, quiet, drawn
    )
    if nodes:
        return ways.simulate_nodes(asked, nodes, choose)
    if compare_kube is not None:
        return ways.compare_releases(asked, compare_kube)
    if other is not None:
        return ways.compare_configs(asked, other)
    return ways.simulate_one(asked)


def _typed(context: click.Context, name: str) -> bool:
    """True when an option was given, not left at its default."""
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _check_trace(nodes: Sequence[str], pods: Sequence[str], others: Sequence[str]) -> None:
    if not nodes:
        raise InputError("--cluster needs --nodes", advice="such as --nodes dgx-h100:20")
    if pods:
        advice = "the pods of a trace stand in it; its rows may name manifests"
        raise InputError(f"--cluster takes no further pods, and {quoted(pods[0])} is given", advice=advice)
    if others:
        raise InputError(f"--cluster and {others[0]} exclude each other", advice="give one of them")


def _check(named: "NodeSpec", nodes: Sequence[str]) -> None:
    if named.bundle or nodes:
        return
    if not named.machine and not named.state:  # state that is published has its machine with it
        raise click.UsageError("Missing option '--machine'.")

"""``numawise capacity``: how many more pods of a shape the nodes would let in now."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from numawise.cli.options import node_options, node_spec, output_option, pods_argument, say, say_remarks
from numawise.errors import InputError


@click.command(
    epilog="""\b
Examples:
  numawise capacity --nodes dgx-h100:20 --kubelet-config k.yaml runner-1gpu.yaml runner-4gpu.yaml
  kubectl get noderesourcetopologies -o json > nodes.json; numawise capacity --nodes nodes.json pod.yaml
  numawise capacity --nodes bundles/ -o json

\b
Exit status: 0 of every shape at least one more is let in, 1 of some none, 2 bad input."""
)
@node_options("machine")
@click.option(
    "--nodes",
    multiple=True,
    required=True,
    metavar="FILE|DIR|MACHINE:COUNT",
    help="The nodes, as for simulate: NodeResourceTopologies, bundles, folders, a list, or equal machines.",
)
@click.option(
    "--most",
    type=click.IntRange(1, 10_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Stop counting on a node at this many.",
)
@output_option("text", "json", "yaml")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@pods_argument
@click.pass_context
def command(
    context: click.Context,
    /,
    nodes: Sequence[str],
    most: int,
    output: str,
    quiet: bool,
    pods: Sequence[str],
    **node: Any,  # noqa: ANN401 - the options of a node
) -> int:
    """Count how many more pods of each shape the kubelets would let in now, by node and in all.

    PODS are files or folders with the shapes, one pod or workload each; without them the shapes of the pods
    that run on the nodes are counted. Each shape is counted as if no other came.
    """
    from numawise.cluster.asking import members_of  # noqa: PLC0415
    from numawise.cluster.places import count_places  # noqa: PLC0415
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
    from numawise.inputs.node_groups import groups_of  # noqa: PLC0415 - keeps --help quick
    from numawise.inputs.pods import read_pods  # noqa: PLC0415
    from numawise.render import cluster as words  # noqa: PLC0415
    from numawise.render.progress import progress_bar  # noqa: PLC0415
    from numawise.render.table import sentences, table  # noqa: PLC0415

    named = node_spec(node, *pods)
    members = members_of(groups_of(nodes, named, lambda text: say(text) if text else None))
    read = read_pods(pods) if pods else None
    if read is not None:
        say_remarks(read.remarks)
    with progress_bar(sys.stderr, "counts", None, shown=not quiet) as progress:
        report = count_places(members, read.pods if read is not None else (), most, progress)
    if not report.shapes:
        raise InputError("no pod that runs on these nodes has CPUs or devices of its own", advice="give PODS")
    if output != "text":
        data = words.places_data(report)
        click.echo(to_yaml(data) if output == "yaml" else to_json(data), nl=False)
    else:
        table(words.PLACES_COLUMNS, words.places_rows(report), sys.stdout, color=context.color)
        sentences("", sys.stdout)
        sentences(words.places_summary(report, len(members)), sys.stdout)
    return 0 if all(shape.total for shape in report.shapes) else 1

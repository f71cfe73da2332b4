"""``numawise capacity``: how many more pods of a shape the nodes would let in now."""

import sys
from collections.abc import Sequence
from itertools import count as counting
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.options import node_options, node_spec, output_option, pods_argument, say, say_remarks
from numawise.cli.reaching import ClusterOptions, files_only, reached
from numawise.cli.serving import cluster_options
from numawise.errors import InputError

if TYPE_CHECKING:
    from numawise.inputs.cluster import VisibleCluster
    from numawise.inputs.spec import NodeSpec
    from numawise.request.defaults import RawPod
    from numawise.results.cluster import PlacesReport


@click.command(
    epilog="""\b
Examples:
  numawise capacity --nodes dgx-h100:20 --kubelet-config k.yaml runner-1gpu.yaml runner-4gpu.yaml
  kubectl get noderesourcetopologies -o json > nodes.json; numawise capacity --nodes nodes.json pod.yaml
  numawise capacity --nodes bundles/ -o json
  kubectl numawise capacity
  kubectl numawise capacity runner-4gpu.yaml

\b
Exit status: 0 of every shape at least one more is let in, 1 of some none, 2 bad input, 5 the cluster
cannot be asked."""
)
@node_options("machine")
@click.option(
    "--nodes",
    multiple=True,
    metavar="FILE|DIR|MACHINE:COUNT",
    help="The nodes, as for simulate: NodeResourceTopologies, bundles, folders, a list, or equal machines.  "
    "[default: those of the cluster]",
)
@cluster_options
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
    kubeconfig: str | None,
    cluster: str | None,
    most: int,
    output: str,
    quiet: bool,
    pods: Sequence[str],
    **node: Any,  # noqa: ANN401 - the options of a node
) -> int:
    """Count how many more pods of each shape the kubelets would let in now, by node and in all.

    PODS are files or folders with the shapes, one pod or workload each; without them the shapes of the pods
    that run on the nodes are counted, in a cluster those seen most often. Each shape is counted as if no
    other came. Without --nodes the cluster is asked.
    """
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
    from numawise.inputs.dump import dumped_cluster  # noqa: PLC0415
    from numawise.inputs.pods import read_pods  # noqa: PLC0415
    from numawise.inputs.spec import NodeSpec  # noqa: PLC0415
    from numawise.render import cluster as words  # noqa: PLC0415
    from numawise.render.table import sentences, table  # noqa: PLC0415

    named = node_spec(node, *pods)
    access = ClusterOptions(kubeconfig, cluster)
    if nodes and access.given:
        what = "--kubeconfig and --context are for a cluster, and --nodes for files"
        raise InputError(what, advice="leave one out")
    read = read_pods(pods) if pods else None
    if read is not None:
        say_remarks(read.remarks)
    wanted = read.pods if read is not None else ()
    dump = dumped_cluster(nodes) if nodes and named == NodeSpec() else None
    say_remarks(dump.remarks if dump is not None else ())
    if dump is not None and not dump.published_alone:
        report, count = _counted(dump, wanted, most, quiet=quiet)
    elif nodes:
        report, count = _of_files(nodes, named, wanted, most, quiet=quiet)
    else:
        files_only(named)
        report, count = _of_cluster(access, wanted, most, quiet=quiet)
    if not report.shapes:
        raise InputError("no pod that runs on these nodes has CPUs or devices of its own", advice="give PODS")
    if output != "text":
        data = words.places_data(report)
        click.echo(to_yaml(data) if output == "yaml" else to_json(data), nl=False)
    else:
        table(words.PLACES_COLUMNS, words.places_rows(report), sys.stdout, color=context.color)
        sentences("", sys.stdout)
        sentences(words.places_summary(report, count), sys.stdout)
    return 0 if all(shape.total for shape in report.shapes) else 1


def _of_files(
    nodes: Sequence[str], named: "NodeSpec", pods: "Sequence[RawPod]", most: int, *, quiet: bool
) -> "tuple[PlacesReport, int]":
    """Counted on nodes of files, and how many these are."""
    from numawise.cluster.asking import members_of  # noqa: PLC0415 - keeps --help quick
    from numawise.cluster.places import count_places  # noqa: PLC0415
    from numawise.inputs.node_groups import groups_of  # noqa: PLC0415
    from numawise.render.progress import progress_bar  # noqa: PLC0415

    members = members_of(groups_of(nodes, named, lambda text: say(text) if text else None))
    with progress_bar(sys.stderr, "counts", None, shown=not quiet) as progress:
        return count_places(members, pods, most, progress), len(members)


def _of_cluster(
    access: ClusterOptions, pods: "Sequence[RawPod]", most: int, *, quiet: bool
) -> "tuple[PlacesReport, int]":
    """Counted on the nodes of a cluster, and how many these are."""
    from numawise.inputs.cluster import visible_cluster  # noqa: PLC0415 - keeps --help quick

    with reached(access) as cluster:
        seen = visible_cluster(cluster)
    say_remarks(seen.remarks)
    return _counted(seen, pods, most, quiet=quiet)


def _counted(
    seen: "VisibleCluster", pods: "Sequence[RawPod]", most: int, *, quiet: bool
) -> "tuple[PlacesReport, int]":
    from numawise.cluster.live_places import LivePlaces  # noqa: PLC0415 - keeps --help quick
    from numawise.render.progress import progress_bar  # noqa: PLC0415

    turns = counting(1)
    with progress_bar(sys.stderr, "looks", None, shown=not quiet) as progress:
        report = LivePlaces(seen.view).report(
            [(pod.name, pod) for pod in pods], most, lambda: seen.now, lambda: progress(next(turns))
        )
    return report, len(seen.view.names)

"""``numawise nodes``: what is free on every node of a cluster, by NUMA node, and what of it is of use."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.options import node_options, node_spec, output_option, say
from numawise.cli.reaching import ClusterOptions, files_only, reached
from numawise.cli.serving import cluster_options
from numawise.errors import InputError, meant, quoted

if TYPE_CHECKING:
    from numawise.inputs.cluster import VisibleCluster
    from numawise.inputs.spec import NodeSpec
    from numawise.results.node_room import NodesReport


@click.command(
    epilog="""\b
Examples:
  kubectl numawise nodes
  kubectl numawise nodes -l pool=gpu -o wide
  kubectl numawise nodes gpu-07 gpu-12 -o json
  kubectl get nodes,pods,noderesourcetopologies -A -o json > dump.json; numawise nodes --nodes dump.json
  numawise nodes --nodes bundles/

\b
Exit status: 0 shown, 2 bad input (also: no such node), 5 the cluster cannot be asked."""
)
@click.argument("names", nargs=-1, metavar="[NAMES]...")
@click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Nodes with these labels: pool=gpu,zone!=a."
)
@click.option(
    "--nodes",
    multiple=True,
    metavar="FILE|DIR|MACHINE:COUNT",
    help="Nodes of files instead of a cluster: a dump of NodeResourceTopologies, with Nodes and Pods or "
    "without; or, as for simulate, bundles and folders.",
)
@cluster_options
@node_options("machine", "bundle", "node_name", "node_object", "pod_resources")
@output_option("text", "wide", "json", "yaml")
@click.pass_context
def command(
    context: click.Context,
    /,
    names: Sequence[str],
    selector: str,
    nodes: Sequence[str],
    kubeconfig: str | None,
    cluster: str | None,
    output: str,
    **node: Any,  # noqa: ANN401 - the options of a node
) -> int:
    """Show what is free on every node, by NUMA node, and which pods it would let in.

    For each node: its policy, free CPUs, memory and devices by NUMA node, holes (what is free and of no use
    to the largest shape of pods that the node takes when idle), the largest shape that its kubelet would let
    in now, and how that is known: from the exact state that its agent publishes, from what another exporter
    publishes, or not at all.  The shapes are those of pods that run or wait.

    NAMES are nodes; without them all are shown.
    """
    spec = node_spec(node)
    access = ClusterOptions(kubeconfig, cluster)
    if nodes:
        if access.given:
            what = "--kubeconfig or --context is for a cluster, and --nodes for files"
            raise InputError(what, advice="leave one out")
        report = _of_dump(nodes, spec, selector) or _of_files(nodes, spec, selector)
    else:
        files_only(spec)
        report = _of_cluster(access, selector)
    show(_chosen(report, names), output, context)
    return 0


def _of_dump(nodes: Sequence[str], spec: "NodeSpec", selector: str) -> "NodesReport | None":
    """Nodes as kubectl dumped them; None: the files are something else."""
    from numawise.inputs.dump import dumped_cluster  # noqa: PLC0415 - keeps --help quick
    from numawise.inputs.spec import NodeSpec  # noqa: PLC0415

    seen = dumped_cluster(nodes) if spec == NodeSpec() else None
    return _seen(seen, selector) if seen is not None else None


def _of_files(nodes: Sequence[str], spec: "NodeSpec", selector: str) -> "NodesReport":
    from numawise.cluster.asking import members_of  # noqa: PLC0415
    from numawise.cluster.node_rooms import rooms_of  # noqa: PLC0415
    from numawise.cluster.places import running_pods  # noqa: PLC0415
    from numawise.inputs.node_groups import groups_of  # noqa: PLC0415 - keeps --help quick

    if selector:
        what = "--selector is for nodes of a cluster, or of a dump with their Node objects"
        raise InputError(what, advice="leave it out, or name the nodes")
    members = members_of(groups_of(nodes, spec, lambda text: say(text) if text else None))
    return rooms_of(members, [pod for _, pod in running_pods(members)])


def _of_cluster(access: "ClusterOptions", selector: str) -> "NodesReport":
    from numawise.inputs.cluster import visible_cluster  # noqa: PLC0415 - keeps --help quick

    with reached(access) as cluster:
        seen = visible_cluster(cluster)
    return _seen(seen, selector)


def _seen(seen: "VisibleCluster", selector: str) -> "NodesReport":
    """The nodes with these labels."""
    from numawise.cluster.node_rooms import live_rooms  # noqa: PLC0415 - keeps --help quick
    from numawise.inputs.cluster import chosen_nodes  # noqa: PLC0415
    from numawise.values import replace  # noqa: PLC0415

    return replace(live_rooms(seen.view, chosen_nodes(seen.view, selector), seen.now), remarks=seen.remarks)


def _chosen(report: "NodesReport", names: Sequence[str]) -> "NodesReport":
    """The nodes that were named; all without names."""
    from numawise.values import replace  # noqa: PLC0415

    known = {node.name: node for node in report.nodes}
    for name in names:
        if name not in known:
            near = meant(name, tuple(known), 0.8)
            advice = f"did you mean {near}?" if near else "see all with 'numawise nodes'"
            raise InputError(f"there is no node {quoted(name)}", advice=advice)
    return replace(report, nodes=tuple(known[name] for name in dict.fromkeys(names))) if names else report


def show(report: "NodesReport", output: str, context: click.Context) -> None:
    """Print the nodes."""
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415 - keeps --help quick
    from numawise.render import nodes as words  # noqa: PLC0415
    from numawise.render.table import sentences, table  # noqa: PLC0415

    if output in ("json", "yaml"):
        data = words.nodes_data(report)
        click.echo(to_yaml(data) if output == "yaml" else to_json(data), nl=False)
        return
    for remark in report.remarks:
        say(remark)
    if not report.nodes:
        click.echo("There are no nodes.")
        return
    wide = output == "wide"
    columns, rows = words.node_columns(report, wide=wide), words.node_rows(report, wide=wide)
    table(columns, rows, sys.stdout, color=context.color)
    sentences("", sys.stdout)
    sentences(words.nodes_summary(report), sys.stdout)
    for line in (*(() if wide else words.nodes_notes(report)), *words.nodes_legend(report)):
        sentences(line, sys.stdout)

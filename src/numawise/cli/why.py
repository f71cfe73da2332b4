"""``numawise why``: why a pod was refused, and the smallest changes that would let it in."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.options import node_options, node_spec, output_option, pods_argument, say, say_remarks
from numawise.cli.reaching import ClusterOptions
from numawise.errors import InputError, quoted

if TYPE_CHECKING:
    from numawise.apps.why.nodes import Explained
    from numawise.apps.why.target import Target
    from numawise.inputs.spec import NodeInput, NodeSpec

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


@click.command(
    epilog="""\b
Examples:
  numawise why --machine examples/incident-server/machine.yaml \\
      --kubelet-config examples/incident-server/kubelet.yaml examples/incident-server/pods/*.yaml
  kubectl get pod train-0 -o yaml | numawise why --machine m.yaml --kubelet-config k.yaml --state DIR -
  numawise why --machine m.yaml --kubelet-config k.yaml --node node8/ --node node9/ pod.yaml
  numawise why --policy single-numa-node --hints cpu='1! 0-1' --hints memory='0!'
  journalctl -u kubelet --since -1h | numawise why --log -
  numawise why --log kubelet.log.1.gz --log kubelet.log --pod vmstorage-common-15
  numawise why --bundle node7.tar.gz
  kubectl describe pod train-0 | numawise why -
  kubectl numawise why pod/train-0 -n team-a --bundle node7.tar.gz
  kubectl numawise why deployment/web -n team-a --machine node7.yaml
  kubectl numawise why statefulset/waits -n team-a

\b
Exit status: 0 admitted, 1 rejected (also: admitted without a device resource that the machine does not
offer; the kubelet would not start), 2 bad input (also: no log), 5 the cluster cannot be asked."""
)
@node_options()
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="FILE|DIR",
    help="Another node it could go to: a bundle, or a folder with machine.yaml, kubelet.yaml, state files.",
)
@click.option("--kubeconfig", metavar="FILE", help="With KIND/NAME: how to reach the cluster.")
@click.option("--context", "cluster", metavar="NAME", help="With KIND/NAME: the context of the kubeconfig.")
@click.option("-n", "--namespace", metavar="NAME", help="With KIND/NAME: its namespace.")
@click.option(
    "--hints",
    multiple=True,
    metavar="RESOURCE=HINTS",
    help="Hints alone: the NUMA nodes of each, ! when preferred; or as the kubelet logs them.",
)
@click.option("--policy", type=click.Choice(POLICIES), help="With --hints or --log: the topology policy.")
@click.option("--numa", type=click.IntRange(1, 64), metavar="N", help="With --hints: how many NUMA nodes.")
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="FILE",
    help="A kubelet's log or journal (- for standard input): explain failed starts and rejections in it.",
)
@click.option(
    "--pod", metavar="NAME", help="With --log: only this pod; NAMESPACE/NAME, an owner's name or web-*."
)
@click.option(
    "--since", metavar="TIME", help="With --log: from then on; 10m (ago), or 08-15 22:24 in the log."
)
@click.option("--all", "everything", is_flag=True, help="With --log: also pods that were admitted.")
@click.option("--steps", is_flag=True, help="Also the whole decision step by step, of admitted pods too.")
@output_option("text", "json", "yaml")
@click.option(
    "--width",
    type=click.IntRange(40, 400),
    metavar="COLUMNS",
    help="Width of the text.  [default: the terminal's; 100 where there is none]",
)
@pods_argument
@click.pass_context
def command(
    context: click.Context,
    /,
    nodes: Sequence[str],
    kubeconfig: str | None,
    cluster: str | None,
    namespace: str | None,
    hints: Sequence[str],
    policy: str | None,
    numa: int | None,
    logs: Sequence[str],
    pod: str | None,
    since: str | None,
    everything: bool,
    steps: bool,
    output: str,
    width: int | None,
    pods: Sequence[str],
    **node: Any,  # noqa: ANN401 - the options of a node
) -> int:
    """Explain why a pod is rejected: which resource decided, on which NUMA node, by how much.

    Then the hints of every resource, how they were merged, what the policy demands, and the smallest changes
    after which the pod is admitted, each tried by simulation.  Pods are admitted in order, and each that is
    rejected is explained; with --bundle and without pods, those are explained that its kubelet refused.
    pod/NAME is a pod of a cluster, deployment/NAME (statefulset, job and so on) its refused pods, or one that
    waits; without the node's state files, what it held is rebuilt from its other pods, and that is said.  A
    pod that waits for a node is asked of all nodes, and the smallest restart that lets it in is looked for.

    PODS are files or folders with Pods, Deployments, Jobs, Lists or any object with pod templates, such as
    those of Ray, Kubeflow and Volcano, what 'kubectl describe pod' prints, or names of pods of the bundle; -
    reads standard input.  Without a machine, what 'kubectl describe pod' and 'kubectl get events' print is
    explained by itself.
    """
    spec = node_spec(node, *logs, *pods)
    if logs:
        if hints or nodes:
            raise InputError("--log goes with neither --hints nor --node", advice="leave these out")
        if steps:
            raise InputError("--steps goes with a node, not with --log", advice="leave it out")
        from numawise.cli.why_log import LogFlags, explain_log  # noqa: PLC0415 - keeps --help quick

        flags = LogFlags(logs, pod, since, everything, spec, pods, policy, numa)
        return explain_log(context, flags, output, width)
    if pod is not None or since is not None or everything:
        raise InputError("--pod, --since and --all go with --log", advice="name the log with --log FILE")
    if hints:
        _only_hints(spec, *nodes, *pods)
        from numawise.apps.why.nodes import Explained, explain_pasted  # noqa: PLC0415
        from numawise.inputs.spec import read_release  # noqa: PLC0415

        if policy is None:
            raise InputError("is missing", field="--policy", advice=f"one of {', '.join(POLICIES)}")
        profile = read_release(spec.kube)
        say_remarks([profile.remark] if profile.remark else [])
        pasted = Explained((explain_pasted(policy, hints, numa, profile.version),))
        return _told(pasted, output, width, context, steps=steps)
    if policy is not None or numa is not None:
        advice = "the policy is in --kubelet-config"
        raise InputError("--policy and --numa go with --hints", advice=advice)
    explained = _explained(spec, pods, nodes, ClusterOptions(kubeconfig, cluster, namespace))
    return _told(explained, output, width, context, steps=steps)


def _explained(
    spec: "NodeSpec", pods: Sequence[str], nodes: Sequence[str], access: ClusterOptions
) -> "Explained":
    """Explain pods of a cluster, or on the node that was named."""
    from numawise.apps.why.nodes import explain_on  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.why.target import targets_of  # noqa: PLC0415
    from numawise.inputs.spec import read_node  # noqa: PLC0415

    node = read_node(spec) if spec.bundle else None
    bundle = node.bundle if node is not None else None
    asked = access.given
    targets, files = targets_of(
        pods, is_known=lambda word: bundle is not None and (not asked or bool(bundle.pods_named(word)))
    )
    if targets and files:
        raise InputError(
            f"{targets[0]} is of a cluster, and {files[0]} is a file", advice="ask for one kind at a time"
        )
    if not targets and asked:
        raise InputError(
            "--kubeconfig, --context and --namespace go with a pod or an owner of a cluster",
            advice="write it as pod/NAME or deployment/NAME",
        )
    if targets:
        return _live(node or read_node(spec), targets, access)
    if files and not spec.bundle and not spec.machine and not spec.state:
        from numawise.apps.why.pasted import explain_pasted_objects  # noqa: PLC0415

        printed = explain_pasted_objects(files, read_node(spec))
        if printed is not None:
            return printed
    if not spec.bundle:
        given = {"--machine": spec.machine, "PODS": pods}
        missing = next((name for name, value in given.items() if not value), "")
        if missing:
            advice = "give --machine, --kubelet-config and pods, or --bundle, or --policy and --hints"
            raise InputError("is missing", field=missing, advice=advice)
    node = node or read_node(spec)
    _ = node.configuration  # that there is none is said first
    say_remarks(node.remarks_of_start)
    return explain_on(node, pods, nodes, sys.stderr)


def _live(node: "NodeInput", targets: "Sequence[Target]", access: ClusterOptions) -> "Explained":
    from numawise.apps.why.live_explained import explain_live  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.why.lookup import Lookup  # noqa: PLC0415
    from numawise.apps.why.nodes import Explained  # noqa: PLC0415
    from numawise.apps.why.pending import explain_waiting  # noqa: PLC0415
    from numawise.kube.client import Cluster, NoCluster, access_to  # noqa: PLC0415

    say_remarks(node.remarks)
    try:
        reached = access_to(access.kubeconfig or "", access.context or "")
    except NoCluster:
        bare = next((target for target in targets if not target.kind), None)
        if bare is None:
            raise
        raise InputError(
            f"there is no file {quoted(bare.name)}, and no cluster is known here to look for it",
            advice="check the path; or give --kubeconfig FILE, or set KUBECONFIG",
        ) from None
    with Cluster(reached) as cluster:
        lookup = Lookup(cluster, access.namespace or cluster.namespace, node.spec.node_name)
        lives = [live for target in targets for live in lookup.found(target)]
        pending = explain_waiting(cluster, node)
        return Explained(tuple(pending(live) or explain_live(live, node) for live in lives))


def _told(done: "Explained", output: str, width: int | None, context: click.Context, *, steps: bool) -> int:
    say_remarks(done.remarks)
    for warning in done.warnings:
        say(f"warning: {warning}")
    _show(done, output, width, context.color, steps=steps)
    return 0 if done.admitted else 1


def _only_hints(spec: "NodeSpec", *others: str) -> None:
    if others or spec.machine or spec.has_config or spec.state or spec.bundle:
        raise InputError(
            "--hints are explained without a machine", advice="leave out the machine and the pods"
        )


def _show(done: "Explained", output: str, width: int | None, color: bool | None, *, steps: bool) -> None:
    from numawise.cli.show import default_width, speaks_unicode, wants_color  # noqa: PLC0415

    if output == "text":
        from numawise.render.why import why_text  # noqa: PLC0415

        colored = wants_color(color)
        columns = width or default_width()
        drawn = why_text(done.found, columns, color=colored, ascii_only=not speaks_unicode(), steps=steps)
        click.echo(drawn, nl=False, color=colored)
        return
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
    from numawise.results.explanation import explanations_data  # noqa: PLC0415
    from numawise.results.state import unmatched_data  # noqa: PLC0415

    found = {**explanations_data(done.found), **unmatched_data(done.unmatched)}
    click.echo(to_json(found) if output == "json" else to_yaml(found), nl=False)

"""``numawise why``: why a pod was refused, and the smallest changes that would let it in."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from numawise.cli.options import bundle_option, output_option
from numawise.errors import InputError

if TYPE_CHECKING:
    from numawise.apps.why.files import Explained

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
  kubectl numawise why pod/train-0 -n team-a --bundle node7.tar.gz

\b
Exit status: 0 admitted, 1 rejected (also: the kubelet would not start), 2 bad input (also: no log),
5 the cluster cannot be asked."""
)
@click.option("--machine", metavar="FILE", help="The machine: CPUs, NUMA nodes, devices (YAML or JSON).")
@click.option("--kubelet-config", metavar="FILE", help="A KubeletConfiguration (YAML or JSON).")
@click.option("--state", metavar="DIR", help="State files of the kubelet; their pods are taken as running.")
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="FILE|DIR",
    help="Another node it could go to: a bundle, or a folder with machine.yaml, kubelet.yaml, state files.",
)
@bundle_option
@click.option("--kubeconfig", metavar="FILE", help="With pod/NAME: how to reach the cluster.")
@click.option("--context", "cluster", metavar="NAME", help="With pod/NAME: the context of the kubeconfig.")
@click.option("-n", "--namespace", metavar="NAME", help="With pod/NAME: its namespace.")
@click.option("--kube", metavar="VERSION", help="The Kubernetes release of the kubelet, such as 1.31.")
@click.option(
    "--hints",
    multiple=True,
    metavar="RESOURCE=HINTS",
    help="Hints alone: the NUMA nodes of each, ! when preferred; or as the kubelet logs them.",
)
@click.option("--policy", type=click.Choice(POLICIES), help="With --hints: the topology policy.")
@click.option("--numa", type=click.IntRange(1, 64), metavar="N", help="With --hints: how many NUMA nodes.")
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="FILE",
    help="A kubelet's log or journal (- for standard input): explain the rejections in it.",
)
@click.option(
    "--pod", metavar="NAME", help="With --log: only this pod; NAMESPACE/NAME, an owner's name or web-*."
)
@click.option(
    "--since", metavar="TIME", help="With --log: from then on; 10m (ago), or 08-15 22:24 in the log."
)
@click.option("--all", "everything", is_flag=True, help="With --log: also pods that were admitted.")
@output_option("text", "json", "yaml")
@click.option(
    "--width",
    type=click.IntRange(40, 400),
    metavar="COLUMNS",
    help="Width of the text.  [default: the terminal's; 100 where there is none]",
)
@click.argument("pods", nargs=-1, metavar="[PODS]...")
@click.pass_context
def command(
    context: click.Context,
    machine: str | None,
    kubelet_config: str | None,
    state: str | None,
    nodes: Sequence[str],
    bundle: str | None,
    kubeconfig: str | None,
    cluster: str | None,
    namespace: str | None,
    kube: str | None,
    hints: Sequence[str],
    policy: str | None,
    numa: int | None,
    logs: Sequence[str],
    pod: str | None,
    since: str | None,
    everything: bool,
    output: str,
    width: int | None,
    pods: Sequence[str],
) -> int:
    """Explain why a pod is rejected: which resource decided, on which NUMA node, by how much.

    Then the hints of every resource, how they were merged, what the policy demands, and the smallest changes
    after which the pod is admitted, each tried by simulation.  PODS are files as simulate takes them; they
    are admitted in order, and each that is rejected is explained.  With --bundle they may be names of its
    pods; without any, those are explained that its kubelet refused.  pod/NAME is a pod of a cluster.
    """
    from numawise.apps.why.files import Explained, NodeFiles, explain_files  # noqa: PLC0415
    from numawise.inputs.files import load_profile  # noqa: PLC0415 - keeps --help quick
    from numawise.rules.versions import DEFAULT, Profile  # noqa: PLC0415

    profile = load_profile(kube) if kube is not None else Profile(DEFAULT)
    if profile.remark:
        click.echo(f"numawise: {profile.remark}", err=True)
    from numawise.cli.why_node import NodeFlags, explain_node, release_in, wants_cluster  # noqa: PLC0415

    beside_node = (machine, kubelet_config, state, nodes, kube, pods)
    flags = NodeFlags(bundle, kubeconfig, cluster, namespace, *beside_node)
    if not logs and not hints and (wants_cluster(flags) or bundle is not None):
        return _told(explain_node(flags), output, width, context.color)
    if logs:
        from numawise.cli.why_log import LogFlags, explain_log  # noqa: PLC0415

        if hints or nodes:
            raise InputError("--log goes with neither --hints nor --node", advice="leave these out")
        kube = kube or (release_in(bundle) if bundle else None)
        beside = (machine or bundle, kubelet_config or bundle, state or bundle, pods, policy, numa, kube)
        return explain_log(context, LogFlags(logs, pod, since, everything, *beside), output, width)
    if pod is not None or since is not None or everything:
        raise InputError("--pod, --since and --all go with --log", advice="name the log with --log FILE")
    if hints:
        _only_hints(machine, kubelet_config, state, bundle, *nodes, *pods)
        from numawise.apps.why.pasted import explain_pasted  # noqa: PLC0415

        if policy is None:
            raise InputError("is missing", field="--policy", advice=f"one of {', '.join(POLICIES)}")
        done = Explained((explain_pasted(policy, hints, numa, profile.version),))
    else:
        if policy is not None or numa is not None:
            advice = "the policy is in --kubelet-config"
            raise InputError("--policy and --numa go with --hints", advice=advice)
        if machine is None or kubelet_config is None or not pods:
            given = {"--machine": machine, "--kubelet-config": kubelet_config, "PODS": pods}
            missing = next(name for name, value in given.items() if not value)
            advice = "give --machine, --kubelet-config and pods, or --bundle, or --policy and --hints"
            raise InputError("is missing", field=missing, advice=advice)
        if sum(path == "-" for path in (machine, kubelet_config, *pods)) > 1:
            raise InputError("standard input (-) can be read only once", advice="save one of them to a file")
        source = NodeFiles(machine, kubelet_config, state)
        done = explain_files(source, pods, nodes, profile.version)
    return _told(done, output, width, context.color)


def _told(done: "Explained", output: str, width: int | None, color: bool | None) -> int:
    for warning in done.warnings:
        click.echo(f"numawise: warning: {warning}", err=True)
    _show(done, output, width, color)
    return 0 if done.admitted else 1


def _only_hints(*others: str | None) -> None:
    if any(others):
        raise InputError("--hints are explained by themselves", advice="leave out the machine and the pods")


def _show(done: "Explained", output: str, width: int | None, color: bool | None) -> None:
    from numawise.cli.show import default_width, speaks_unicode, wants_color  # noqa: PLC0415

    if output == "text":
        from numawise.render.why import why_text  # noqa: PLC0415

        colored = wants_color(color)
        drawn = why_text(done.found, width or default_width(), color=colored, ascii_only=not speaks_unicode())
        click.echo(drawn, nl=False, color=colored)
        return
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
    from numawise.results.explanation import explanations_data  # noqa: PLC0415

    found = explanations_data(done.found)
    click.echo(to_json(found) if output == "json" else to_yaml(found), nl=False)

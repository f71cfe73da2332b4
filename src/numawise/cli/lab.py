"""``numawise lab``: virtual nodes that admit pods exactly as kubelets do."""

import re
import time
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.options import node_options, node_spec, say
from numawise.cli.serving import cluster_options, listen_address, listen_option, log_option, service_log
from numawise.errors import InputError, quoted

if TYPE_CHECKING:
    from numawise.machine.description import Taint

LISTEN = "127.0.0.1:9799"
LAB = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", re.ASCII)
TAINT = re.compile(r"([^=:\s]+)(?:=([^=:\s]*))?:(NoSchedule|NoExecute|PreferNoSchedule)")
LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_./]{0,316})=([-A-Za-z0-9_.]{0,63})", re.ASCII)


@click.command(
    epilog="""\b
Examples:
  numawise lab --nodes 8gpu-server:20 --kubelet-config kubelet.yaml
  numawise lab --nodes nodes.yaml --publish-delay 5 --publish-loss 0.1
  numawise lab --nodes dgx-h100:1000 --kubelet-config k.yaml --publish none --time-factor 60
  kubectl annotate node 8gpu-server-3 numawise.dev/restart=1 --overwrite
  numawise lab --remove

\b
Exit status: 0 ended by SIGTERM or SIGINT, or removed; 2 bad input, 5 cluster."""
)
@click.option(
    "--nodes",
    multiple=True,
    metavar="FILE|DIR|MACHINE:COUNT",
    help="The nodes, as for simulate: equal machines, folders, bundles, NodeResourceTopologies, or a list.",
)
@node_options("machine", "node_name")
@cluster_options
@click.option(
    "--lab",
    "lab_name",
    default="lab",
    show_default=True,
    metavar="NAME",
    help="The name of the lab, by which its nodes are known as its own.",
)
@click.option(
    "--publish",
    type=click.Choice(["ours", "foreign", "none"]),
    default="ours",
    show_default=True,
    help="What is published of the nodes: what the agent would, zones alone as other exporters, or nothing.",
)
@click.option(
    "--publish-delay",
    type=click.FloatRange(0, 3600),
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="How long after a change it is published.",
)
@click.option(
    "--publish-loss",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="The share of publications that are lost, by chance.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Of that chance.")
@click.option(
    "--time-factor",
    type=click.FloatRange(0.001, 1_000_000),
    default=1.0,
    show_default=True,
    metavar="F",
    help="Pods run, start and stop so many times faster than their annotations say.",
)
@click.option(
    "--heartbeat",
    type=click.FloatRange(1, 30),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How often each node renews its Lease.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of all nodes.")
@click.option("--taint", "taints", multiple=True, metavar="KEY[=VALUE]:EFFECT", help="A taint of all nodes.")
@listen_option(LISTEN)
@log_option
@click.option(
    "--remove",
    is_flag=True,
    help="Delete the nodes that this lab made (with --nodes: these of them), and end.",
)
def command(
    nodes: tuple[str, ...],
    kubeconfig: str,
    cluster: str,
    lab_name: str,
    publish: str,
    publish_delay: float,
    publish_loss: float,
    seed: int,
    time_factor: float,
    heartbeat: float,
    labels: tuple[str, ...],
    taints: tuple[str, ...],
    listen: str,
    log_form: str,
    remove: bool,
    **node: Any,  # noqa: ANN401 - the options of a node
) -> int:
    """Be virtual nodes of a cluster, which admit pods exactly as kubelets do.

    Each has a Node object and heartbeats. Pods bound to it are decided on by the engine: they run, or fail
    with the kubelet's reason and message. No container is started. Any scheduler can be tried on them.

    The annotation numawise.dev/run-seconds of a pod says how long it runs.
    """
    from numawise.apps.lab.node_object import NodeLook  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.lab.plan import LabPlan, PublishPlan, check_names  # noqa: PLC0415
    from numawise.apps.lab.run import remove as remove_nodes  # noqa: PLC0415
    from numawise.apps.lab.run import run  # noqa: PLC0415
    from numawise.extras import needed  # noqa: PLC0415
    from numawise.inputs.node_groups import groups_of  # noqa: PLC0415
    from numawise.kube.client import access_to  # noqa: PLC0415

    if not LAB.fullmatch(lab_name):
        raise InputError(
            f"{quoted(lab_name)} cannot be the name of a lab",
            field="--lab",
            advice="use lower-case letters, digits, '-' and '.'",
        )
    if not nodes and not remove:
        raise InputError(
            "is missing", field="--nodes", advice="give the nodes, such as --nodes 8gpu-server:20"
        )
    needed("cluster", "lightkube", "xxhash")
    listen_at = listen_address(listen, LISTEN)
    look = NodeLook(lab_name, dict(map(_label, labels)), tuple(map(_taint, taints)), node["kube"])
    groups = groups_of(nodes, node_spec(node), lambda text: say(text) if text else None)
    made = {name: kubelet for names, kubelet in groups for name in names}
    check_names(list(made))
    access = access_to(kubeconfig, cluster)
    if remove:
        count = remove_nodes(access, lab_name, tuple(made), time.time, say)
        say(f"{count} {'node is' if count == 1 else 'nodes are'} deleted")
        return 0
    plan = LabPlan(
        access,
        made,
        look,
        PublishPlan(publish, publish_delay, publish_loss, seed),
        time_factor,
        heartbeat,
        listen_at,
    )
    return run(plan, service_log(log_form))


def _label(text: str) -> tuple[str, str]:
    found = LABEL.fullmatch(text)
    if not found:
        raise InputError(f"{quoted(text)} is not a label", field="--label", advice="write it like pool=gpu")
    return found[1], found[2]


def _taint(text: str) -> "Taint":
    from numawise.machine.description import Taint  # noqa: PLC0415 - keeps --help quick

    found = TAINT.fullmatch(text)
    if not found:
        raise InputError(
            f"{quoted(text)} is not a taint",
            field="--taint",
            advice="write it like example.com/lab=yes:NoSchedule",
        )
    return Taint(found[1], found[3], found[2] or "")

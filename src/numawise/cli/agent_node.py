"""Options of ``numawise agent`` that say which node it is, and what is published of it."""

import os
import re
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.options import say
from numawise.cli.serving import CLUSTER_OPTIONS
from numawise.errors import ClusterError, InputError, quoted

if TYPE_CHECKING:
    from numawise.apps.agent.export import ExportPlan
    from numawise.codec.kubeconfig import ClusterAccess
    from numawise.inputs.gathered import NodeSources

NODE_VARIABLE, POD_VARIABLE = "NODE_NAME", "POD_NAME"
TAINT_KEY = re.compile(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
METHODS = ("all", "with-exclusive-resources")
OPTIONS = (
    click.option(
        "--node",
        default="",
        metavar="NAME",
        help=f"The node's name in the cluster.  [default: ${NODE_VARIABLE}, else the host's name]",
    ),
    *CLUSTER_OPTIONS,
    click.option(
        "--kubelet-config",
        default="",
        metavar="FILE",
        help="The kubelet's configuration, where it is not found by itself.",
    ),
    click.option(
        "--kube", default="", metavar="VERSION", help="The kubelet's release, where no Node object says it."
    ),
    click.option(
        "--configz",
        is_flag=True,
        help="Ask the kubelet for its configuration through the API server (get nodes/proxy).",
    ),
    click.option(
        "--startup-taint",
        default="",
        metavar="KEY",
        help="With --export: remove the taints of KEY from the node after the first complete publication.",
    ),
    click.option(
        "--fingerprint",
        type=click.Choice(METHODS),
        default=METHODS[0],
        show_default=True,
        help="With --export: the pods that the published fingerprint is made of.",
    ),
    click.option(
        "--force-ownership",
        is_flag=True,
        help="With --export: take the node's object over from another program that publishes it.",
    ),
    click.option(
        "--definition",
        is_flag=True,
        help="Print the definition of NodeResourceTopology objects for a cluster that has none, and end.",
    ),
)
Given = Mapping[str, Any]
"""The values of these options, by name."""


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def node_name(given: Given, environment: Mapping[str, str] = os.environ) -> str:
    """The node's name in the cluster: as named, as a pod is told it, else the host's in lower case."""
    name = str(given["node"] or environment.get(NODE_VARIABLE, "") or socket.gethostname().lower())
    if not NODE_NAME.fullmatch(name):
        raise InputError(
            f"{quoted(name)} is not the name of a node", field="--node", advice="give --node NAME"
        )
    return name


def node_sources(given: Given, kubelet_dir: str, root: str) -> "NodeSources":
    """Where the kubelet is looked at."""
    from numawise.inputs.gathered import NodeSources  # noqa: PLC0415 - keeps --help quick

    return NodeSources(
        root=None if root == "/" else Path(root),
        kubelet_dir=kubelet_dir,
        kubelet_config=given["kubelet_config"],
        node=node_name(given),
        kube=given["kube"],
    )


def cluster_access(given: Given, *, must_be: bool) -> "ClusterAccess | None":
    """The API server; None: none is known, which is an error where there must be one."""
    from numawise.kube.client import NoCluster, access_to  # noqa: PLC0415 - keeps --help quick

    try:
        return access_to(given["kubeconfig"], given["cluster"])
    except NoCluster:
        if must_be:
            raise
        return None


def instance_name(environment: Mapping[str, str] = os.environ) -> str:
    """Which agent this is: its pod or host, and a word of its own."""
    host = environment.get(POD_VARIABLE) or socket.gethostname().lower()
    return f"{host}-{secrets.token_hex(4)}"


def export_plan(given: Given, *, export: bool) -> "ExportPlan | None":
    """What is to be published; None: nothing."""
    taint = given["startup_taint"]
    if not export:
        for name, value in (("--startup-taint", taint), ("--force-ownership", given["force_ownership"])):
            if value:
                raise InputError("says how --export publishes", field=name, advice="add --export")
        return None
    if taint and not TAINT_KEY.fullmatch(taint):
        raise InputError(
            f"{quoted(taint)} is not the key of a taint",
            field="--startup-taint",
            advice="write the key alone, like example.com/starting",
        )
    from numawise.apps.agent.export import ExportPlan  # noqa: PLC0415 - keeps --help quick

    return ExportPlan(node_name(given), given["fingerprint"], taint, force=given["force_ownership"])


def show_definition() -> None:
    """Print the definition."""
    from numawise.codec.hardware.nrt_definition import topology_definition  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.output import to_yaml  # noqa: PLC0415

    click.echo(to_yaml(topology_definition()), nl=False)


def show_published(given: Given, sources: "NodeSources", output: str) -> None:
    """Print what would be published of the node, from what can be read; nothing is sent."""
    from numawise.apps.agent.published_object import published_object  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.agent.run import LIBRARIES  # noqa: PLC0415
    from numawise.apps.agent.sight_reading import SightReader  # noqa: PLC0415
    from numawise.apps.agent.sight_values import ApiView  # noqa: PLC0415
    from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
    from numawise.extras import needed  # noqa: PLC0415
    from numawise.kube.client import Cluster, NoCluster  # noqa: PLC0415

    needed("agent", *LIBRARIES)
    view, configz = ApiView(), None
    try:
        access = cluster_access(given, must_be=True)
        assert access is not None
        with Cluster(access) as cluster:
            view = ApiView(cluster.node(sources.node), cluster.pods_on(sources.node), synced=True)
            if given["configz"]:
                configz = (cluster.configz(sources.node) or {}).get("kubeletconfig")
    except NoCluster:
        say("no cluster is known here; only the node itself is looked at")
    except ClusterError as problem:
        say(f"the API server is left out: {problem}")
    sight = SightReader(sources, sources.node, configz=lambda: configz).read(view)
    for text in sight.problems:
        say(text)
    value = published_object(sight, given["fingerprint"])
    if value is None:
        raise ClusterError("nothing is known that could be published", "see what is missing above")
    sys.stdout.write(to_json(value) if output == "json" else to_yaml(value))

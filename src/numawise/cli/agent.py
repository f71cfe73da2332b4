"""``numawise agent``: what a Kubernetes node offers to its kubelet."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numawise.cli.agent_manifest import show_manifest
from numawise.cli.agent_node import (
    cluster_access,
    export_plan,
    instance_name,
    node_options,
    node_sources,
    show_definition,
    show_published,
)
from numawise.cli.options import say
from numawise.cli.serving import listen_address, listen_option, log_option, service_log
from numawise.errors import InputError

if TYPE_CHECKING:
    from numawise.apps.agent.offer_plan import OfferPlan

LISTEN = "127.0.0.1:9797"
COLUMNS = ("RESOURCE", "DEVICE", "NUMA", "CONTAINER IS TOLD")


@click.command(
    epilog="""\b
Examples:
  numawise agent --device-plugin --dry-run
  numawise agent --device-plugin --config nvidia-device-plugin.yaml
  numawise agent --device-plugin --fake devices.yaml --kubelet-dir /var/lib/kubelet
  numawise agent --export --dry-run
  numawise agent --export --node n1 --startup-taint example.com/starting
  numawise agent --watch
  numawise agent --watch --repair
  numawise agent --device-plugin --manifest --image registry.example.com/numawise:1

\b
Exit status: 0 ended by SIGTERM or SIGINT, 2 bad configuration or an extra is
missing, 3 host, 5 cluster."""
)
@click.option("--device-plugin", is_flag=True, help="Offer devices, with their NUMA nodes, to the kubelet.")
@click.option("--export", is_flag=True, help="Publish the node's exact state as a NodeResourceTopology.")
@click.option("--watch", is_flag=True, help="Report containers that no longer have what they were granted.")
@click.option("--repair", is_flag=True, help="With --watch: write cpusets back that somebody changed.")
@click.option(
    "--config",
    default="",
    metavar="FILE[:NAME]",
    help="What is offered: a configuration of the agent, or that of NVIDIA's device plugin (its file, a "
    "ConfigMap, Helm values, a ClusterPolicy).  [default: nvidia.com/gpu]",
)
@click.option("--fake", default="", metavar="FILE", help="Offer the made-up devices of FILE, for labs.")
@click.option(
    "--kubelet-dir",
    default="/var/lib/kubelet",
    show_default=True,
    metavar="DIR",
    help="The kubelet's directory; its socket is in device-plugins below it.",
)
@listen_option(LISTEN)
@click.option(
    "--root", metavar="DIR", default="/", help="Look for devices in the /sys, /proc and /dev below DIR."
)
@log_option
@click.option("--dry-run", is_flag=True, help="Print what would be offered or published, and end.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of --dry-run."
)
@click.option(
    "--manifest",
    is_flag=True,
    help="Print the objects that run this agent on all nodes of a cluster, with no more rights than it "
    "needs, and end.",
)
@click.option("--image", default="", metavar="NAME", help="The container image for --manifest.")
@click.option(
    "--namespace",
    default="numawise",
    show_default=True,
    metavar="NAME",
    help="The namespace for --manifest.",
)
@node_options
@click.pass_context
def command(
    context: click.Context,
    /,
    device_plugin: bool,
    export: bool,
    watch: bool,
    repair: bool,
    config: str,
    fake: str,
    kubelet_dir: str,
    listen: str,
    root: str,
    log_form: str,
    dry_run: bool,
    output: str,
    manifest: bool,
    image: str,
    namespace: str,
    **given: str | bool,
) -> int:
    """Be a Kubernetes node's agent: offer devices, publish what is free, watch that containers keep theirs.

    It runs until SIGTERM or SIGINT.  A kubelet that is restarted is registered at again.
    """
    from numawise.apps.agent.offer_plan import offer_plan  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.agent.run import AgentPlan, run  # noqa: PLC0415
    from numawise.apps.agent.watching import WatchPlan  # noqa: PLC0415

    if given["definition"]:
        show_definition()
        return 0
    if not (device_plugin or export or watch):
        raise InputError("there is nothing to do", advice="add --device-plugin, --export or --watch")
    if repair and not watch:
        raise InputError("repairs what --watch finds", field="--repair", advice="add --watch")
    publishing = export_plan(given, export=export)
    listen_at = listen_address(listen, LISTEN)
    if manifest:
        show_manifest(context, image, namespace)
        return 0
    offer = offer_plan(config, fake, kubelet_dir, Path(root)) if device_plugin else None
    sources = node_sources(given, kubelet_dir, root) if export or watch else None
    if dry_run:
        if offer is None and not export:
            raise InputError(
                "shows what --device-plugin would offer and --export would publish",
                field="--dry-run",
                advice="for one look at containers without an agent: numawise verify --pods",
            )
        if sources is not None and export:
            show_published(given, sources, output)
        if offer is not None:
            _show(offer, output, context.color)
        return 0
    plan = AgentPlan(
        offer,
        listen_at,
        sources,
        cluster_access(given, must_be=export) if sources is not None else None,
        bool(given["configz"]),
        publishing,
        WatchPlan(kubelet_dir, Path(root), repair) if watch else None,
        instance_name(),
    )
    return run(plan, service_log(log_form))


def _show(plan: "OfferPlan", output: str, color: bool | None) -> None:
    from numawise.apps.agent.answers import edits  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.render.table import table  # noqa: PLC0415

    if output == "json":
        from numawise.apps.agent.described import plan_data  # noqa: PLC0415

        click.echo(to_json(plan_data(plan)), nl=False)
        return
    rows = []
    for offer in plan.offers:
        for device in offer.devices:
            given = edits(offer, (device.id,))
            words = [f"{name}={value}" for name, value in given.envs.items()]
            words += [*given.cdi, *(inside for inside, _ in given.nodes)]
            numa = ",".join(map(str, device.numa)) or "-"
            rows.append([offer.resource, device.id, numa, " ".join(words) or "-"])
        if not offer.devices:
            rows.append([offer.resource, "-", "-", "-"])
    table(COLUMNS, rows, sys.stdout, color=color)
    for remark in plan.remarks:
        say(remark)

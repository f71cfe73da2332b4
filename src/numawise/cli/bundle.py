"""``numawise bundle``: a node in one small file that says nothing about its owner."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from numawise.cli.options import output_option, say
from numawise.errors import InputError

STDOUT = "-"


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  sudo numawise bundle
  sudo numawise bundle -o node7.tar.gz --kubeconfig ~/.kube/config --node node7
  ssh node7 sudo numawise bundle -o - > node7.tar.gz
  kubectl get pods -A --field-selector spec.nodeName=node7 -o json > pods.json
  sudo numawise bundle --pods pods.json --configz http://127.0.0.1:8001/api/v1/nodes/node7/proxy/configz
  numawise bundle show node7.tar.gz

\b
Exit status: 0, also where something could not be read (it is listed); 2 bad input, 5 cluster.""",
)
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    help="Write to this file; - is standard output.  [default: numawise-bundle-TIME.tar.gz]",
)
@click.option(
    "--root", metavar="DIR", help="Where the host's root is, when it is not /; or a copy of its files."
)
@click.option(
    "--kubelet-dir", metavar="DIR", help="The kubelet's folder.  [default: its --root-dir, /var/lib/kubelet]"
)
@click.option("--kubelet-config", metavar="FILE", help="Its configuration, where no kubelet is running.")
@click.option(
    "--pods", multiple=True, metavar="FILE|URL", help="The node's pods: a list of them, or several files."
)
@click.option("--configz", metavar="URL|FILE", help="What the kubelet answers to /configz.")
@click.option(
    "--pod-resources",
    metavar="FILE",
    help="What the kubelet's PodResources socket answers, as JSON.  [default: the socket is asked]",
)
@click.option(
    "--node-object", metavar="FILE", help="The Node object, as 'kubectl get node NAME -o json' prints it."
)
@click.option("--kubeconfig", metavar="FILE", help="Ask the API server for node, pods and configz.")
@click.option("--context", "cluster", metavar="NAME", help="Likewise, with this context of the kubeconfig.")
@click.option("--node", metavar="NAME", help="The node's name, when it is not the host's.")
@click.option("--kube", metavar="VERSION", help="The kubelet's version, when it cannot be asked.")
@click.option("--keep-names", is_flag=True, help="Leave names, uids and addresses as they are.")
@click.pass_context
def command(
    context: click.Context,
    out: str | None,
    root: str | None,
    kubelet_dir: str | None,
    kubelet_config: str | None,
    pods: Sequence[str],
    configz: str | None,
    pod_resources: str | None,
    node_object: str | None,
    kubeconfig: str | None,
    cluster: str | None,
    node: str | None,
    kube: str | None,
    keep_names: bool,
) -> int | None:
    """Collect machine, kubelet configuration, state files, versions and pods of a node into one archive.

    Names of pods, namespaces, images and hosts are replaced, always by the same words, so that the parts
    still fit together; secrets are left out.  Every other command takes the archive with --bundle.
    """
    if context.invoked_subcommand is not None:
        return None
    if out == STDOUT and sys.stdout.isatty():
        raise InputError("a bundle is not for a terminal", advice="redirect it to a file")
    from numawise.apps.bundle.gather import collect, written  # noqa: PLC0415
    from numawise.codec.outfile import check_place  # noqa: PLC0415
    from numawise.inputs.gathered import NodeSources  # noqa: PLC0415 - keeps --help quick
    from numawise.render.bundle import notes_lines  # noqa: PLC0415
    from numawise.render.terminal import Printer  # noqa: PLC0415

    below = Path(root) if root is not None and Path(root) != Path("/") else None
    wanted = NodeSources(
        root=below,
        kubelet_dir=str(Path(kubelet_dir).absolute()) if kubelet_dir and below is None else kubelet_dir or "",
        kubelet_config=kubelet_config or "",
        pods=tuple(pods),
        configz=configz or "",
        pod_resources=pod_resources or "",
        node_object=node_object or "",
        kubeconfig=kubeconfig or "",
        context=cluster or "",
        node=node or "",
        kube=kube or "",
        keep_names=keep_names,
    )
    if out is not None and out != STDOUT:
        check_place(out)
    packed = collect(wanted)
    if out == STDOUT:
        assert isinstance(sys.stdout, Printer)
        sys.stdout.write_bytes(packed.data)
    else:
        path = written(packed, out)
        click.echo(f"{path}: {len(packed.data) / 1024:.0f} KiB, {len(packed.members)} files", err=True)
    for line in notes_lines(packed.absent, packed.remarks):
        say(line)
    return 0


@command.command(
    "show",
    epilog="""\b
Examples:
  numawise bundle show node7.tar.gz
  numawise bundle show node7.tar.gz -o json

\b
Exit status: 0; 2 it is not a bundle, or was tampered with.""",
)
@output_option("text", "json")
@click.argument("file")
@click.pass_context
def show(context: click.Context, output: str, file: str) -> int:
    """List what is in a bundle, and what is not."""
    from numawise.apps.bundle.pack import summary  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.inputs.bundle import open_bundle  # noqa: PLC0415
    from numawise.render.bundle import MEMBERS, head_lines, member_rows, notes_lines  # noqa: PLC0415
    from numawise.render.table import table  # noqa: PLC0415
    from numawise.results.plain import document  # noqa: PLC0415

    bundle = summary(open_bundle(file))
    if output == "json":
        click.echo(to_json(document("Bundle", bundle)), nl=False)
        return 0
    for line in head_lines(bundle):
        click.echo(line)
    click.echo()
    table(MEMBERS, member_rows(bundle), sys.stdout, color=context.color)
    notes = notes_lines(bundle.absent, bundle.remarks)
    if notes:
        click.echo()
    for line in notes:
        click.echo(line)
    return 0

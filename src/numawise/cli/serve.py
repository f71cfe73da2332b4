"""``numawise serve``: a page that shows the machine, why, and what if; and its API."""

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.options import node_options, node_spec, say
from numawise.cli.serving import (
    cluster_options,
    listen_address,
    log_option,
    needed_address,
    pages_option,
    service_log,
)
from numawise.errors import InputError, quoted
from numawise.service.own_address import named_host

if TYPE_CHECKING:
    from numawise.apps.overview.sources import SourceCluster
    from numawise.codec.kubeconfig import ClusterAccess
    from numawise.inputs.spec import NodeSpec
    from numawise.web.serving import PagePlan

LISTEN, PAGES = "127.0.0.1:9801", "off"
SHORTEST_TOKEN = 16


@click.command(
    epilog="""\b
Examples:
  numawise serve
  numawise serve --machine dgx-h100 --kubelet-config kubelet.yaml
  numawise serve --bundle node7.tar.gz
  numawise serve --cluster
  kubectl get nodes,pods,noderesourcetopologies -A -o json > dump.json; numawise serve --nodes dump.json
  numawise serve --listen 0.0.0.0:9801 --host gpu7.example --token-file /etc/numawise/token
  numawise serve --allow-changes

\b
Exit status: 0 ended by SIGTERM or SIGINT, 2 bad options or an extra is missing, 3 host."""
)
@click.option(
    "--listen",
    default=LISTEN,
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where the page is; any other address than this machine's own needs --token-file.",
)
@click.option(
    "--host", "names", multiple=True, metavar="NAME", help="A further name by which browsers call it."
)
@click.option(
    "--token-file",
    default="",
    metavar="FILE",
    help="Answer only those who send the token in this file; the page asks for it.",
)
@click.option("--allow-changes", is_flag=True, help="Let the page release and cancel the user's own jobs.")
@pages_option(PAGES)
@click.option(
    "--nodes",
    multiple=True,
    metavar="FILE|DIR|MACHINE:COUNT",
    help="Show these nodes as the cluster: a dump of NodeResourceTopologies, with Nodes and Pods or without; "
    "or, as for simulate, bundles and folders.",
)
@click.option("--cluster", "follow", is_flag=True, help="Follow the cluster that kubectl would ask.")
@cluster_options
@click.option("--no-host", is_flag=True, help="Show nothing of this host, neither its machine nor its jobs.")
@click.option("--root", default="", metavar="DIR", help="Where the root of the host is, if not at /.")
@node_options()
@log_option
@click.option("--dry-run", is_flag=True, help="Print what would be done, and end.")
def command(**given: Any) -> int:  # noqa: ANN401 - the options
    """Serve a page: see the machine and who holds what, see why, try what if.

    It shows this host, or the node that is named by its parts or its bundle; and the nodes of a cluster, with
    --nodes or --cluster.  It changes nothing unless --allow-changes is given, answers this machine alone
    unless a token is given, and needs no network.
    """
    plan = _plan(given)
    plan.check()
    if given["dry_run"]:
        click.echo(_shown(plan), nl=False)
        return 0
    from numawise.web.serving import run  # noqa: PLC0415 - keeps --help quick

    return run(plan, service_log(given["log_form"]))


def _plan(given: dict[str, Any]) -> "PagePlan":
    from numawise.extras import needed  # noqa: PLC0415 - keeps --help quick
    from numawise.service.web_server import LIBRARIES  # noqa: PLC0415

    follow = given["follow"] or given["kubeconfig"] or given["cluster"]
    if follow:
        needed("web,kube", *LIBRARIES, "starlette", "lightkube")
    needed("web", *LIBRARIES, "starlette")  # before anything that needs it is imported
    from numawise.inputs.spec import NodeSpec  # noqa: PLC0415
    from numawise.values import replace  # noqa: PLC0415
    from numawise.web.served import served_by  # noqa: PLC0415 - keeps --help quick
    from numawise.web.serving import PagePlan  # noqa: PLC0415

    address = needed_address(given["listen"], LISTEN)
    spec = node_spec(given)
    nodes, access = _cluster(given, spec, follow=follow)
    if nodes is not None and not spec.machine and not spec.bundle:
        spec = NodeSpec()  # what is said of a kubelet is said of these nodes
    served = served_by(spec, given["root"], host=not given["no_host"])
    return PagePlan(
        replace(served, cluster=bool(nodes or access)),
        *address,
        names=_names(given["names"]),
        token=_token(given["token_file"]),
        allow_changes=given["allow_changes"],
        pages=listen_address(given["pages"], "127.0.0.1:9802", "--pages"),
        nodes=nodes,
        access=access,
    )


def _cluster(
    given: dict[str, Any], spec: "NodeSpec", *, follow: bool
) -> "tuple[SourceCluster | None, ClusterAccess | None]":
    """The nodes of files, or how to reach the cluster that is followed; neither was asked for."""
    from numawise.apps.overview.sources import cluster_of_files  # noqa: PLC0415 - keeps --help quick
    from numawise.kube.client import access_to  # noqa: PLC0415
    from numawise.values import replace  # noqa: PLC0415

    if given["nodes"] and follow:
        what = "--cluster, --kubeconfig and --context are for a cluster, and --nodes for files"
        raise InputError(what, advice="leave one out")
    if follow:
        return None, access_to(given["kubeconfig"], given["cluster"])
    if not given["nodes"]:
        return None, None
    beside = replace(spec, machine=(), bundle="", state=(), node_name="", node_object="", pod_resources="")
    name = ", ".join(Path(one).name for one in given["nodes"])
    return cluster_of_files(given["nodes"], beside, name, say=say), None


def _token(file: str) -> str:
    if not file:
        return ""
    from numawise.codec.infile import read_raw  # noqa: PLC0415 - few ask for it

    raw, name = read_raw(Path(file), 4096)
    token = raw.decode("utf-8", "replace").strip()
    advice = "write one with: openssl rand -hex 32"
    if len(token) < SHORTEST_TOKEN:
        what = f"the token has {len(token)} characters; at least {SHORTEST_TOKEN} are needed"
        raise InputError(what, file=name, advice=advice)
    if not token.isascii() or not token.isprintable():
        raise InputError("the token must be one line of printable ASCII", file=name, advice=advice)
    if Path(file).stat().st_mode & stat.S_IROTH:
        say(f"{name}: everybody on this machine can read the token; chmod 600 keeps it to its owner")
    return token


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Further names of the server; one that no browser can send would let in what names nobody."""
    for name in given:
        if not name or named_host(name) != name:
            raise InputError(
                f"{quoted(name)} is not a name", field="--host", advice="write it like gpu7.example"
            )
    return tuple(given)


def _shown(plan: "PagePlan") -> str:
    from numawise.render.words import counted  # noqa: PLC0415 - few ask for it

    who = "whoever has the token" if plan.token else "everybody on this machine"
    node = plan.served.spec
    shown = "nothing of this host"
    if node is not None:
        shown = "this host" if plan.served.host else "the node that was named"
    lines = [
        f"Would serve a page at http://{plan.host}:{plan.port}/ to {who}.",
        f"Would show {shown}.",
        "Would let it release and cancel jobs." if plan.allow_changes else "Would change nothing.",
    ]
    if plan.access is not None:
        lines.append(f"Would follow the cluster at {plan.access.server}.")
    if plan.nodes is not None:
        lines.append(f"Would show {counted(len(plan.nodes.view.names), 'node')} as a cluster.")
    if plan.names:
        lines.append(f"Would also answer to {', '.join(map(quoted, plan.names))}.")
    return "".join(f"{line}\n" for line in lines)

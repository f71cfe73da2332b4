"""``numawise manifest``: the objects that run numawise in a cluster, for ``kubectl apply`` and ``delete``."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.agent_manifest import check_image, check_namespace
from numawise.cli.serving import check_waiting, waiting_options
from numawise.errors import InputError, quoted

if TYPE_CHECKING:
    from numawise.host.certificates import MadeCertificates

DEFAULT = "agent,scheduler,heal"
MADE, MANAGER, GIVEN = "made", "cert-manager", "given"
RELEASE = re.compile(r"v?(1\.\d{1,3}\.\d{1,3}(?:[-+][\w.-]{1,60})?)", re.ASCII)
POLICIES_SINCE = 36
STOCK_IMAGE = "registry.k8s.io/kube-scheduler:v{release}"
ADDRESS = re.compile(r"https://[\w.\[\]:-]{1,253}", re.ASCII)
HEAD = (
    "numawise in a cluster: {parts}.",
    "How: docs/how-to/install-in-a-cluster.md. Rights, and why: docs/reference/rights.md.",
)
CONTROL_PLANE = (
    "For the control plane's own kube-scheduler: --config with this file, mounted into its pod.",
    "Into {folder} on its host, mounted likewise: ca.crt, tls.crt and tls.key of the Secret {secret}.",
    "The address is the Service's: the control plane does not know names of the cluster.",
)
FILES = ("ca.crt", "server.crt", "server.key", "client.crt", "client.key")


@click.command(
    epilog="""\b
Examples:
  numawise manifest --image registry.example.com/numawise:1 --kubernetes 1.36.4 --definition
  numawise manifest --image registry.example.com/numawise:1 --kubernetes 1.36.4 | kubectl delete -f -
  numawise manifest --for scheduler --tls cert-manager --image registry.example.com/numawise:1
  numawise manifest --for heal --heal-applies --image registry.example.com/numawise:1
  numawise manifest --for agent,page --image registry.example.com/numawise:1
  numawise manifest --control-plane https://10.96.0.40:9443
  numawise manifest --certificates certificates

\b
Exit status: 0 printed, 2 bad input, 3 no certificates could be made."""
)
@click.option("--image", default="", metavar="NAME", help="The container image of numawise.")
@click.option(
    "--for",
    "parts",
    default=DEFAULT,
    show_default=True,
    metavar="PART,…",
    help="What shall run: the agent (it publishes the state of nodes), the scheduler extender, the "
    "healer; the page, for who may forward ports to it.",
)
@click.option(
    "--namespace", default="numawise", show_default=True, metavar="NAME", help="Where they shall run."
)
@click.option(
    "--definition",
    is_flag=True,
    help="Also the definition of NodeResourceTopology objects, for clusters without one. Leave it out when "
    "you remove: with the definition go the objects of all exporters.",
)
@click.option(
    "--kubernetes",
    default="",
    metavar="RELEASE",
    help="The cluster's release, as 1.36.4: adds a second kube-scheduler of that release that asks the "
    "extender, for pods with 'schedulerName: numawise'.",
)
@click.option(
    "--kube-scheduler-image",
    default="",
    metavar="NAME",
    help="The image of the second kube-scheduler, instead of the release's own.",
)
@click.option(
    "--tls",
    type=click.Choice([MADE, MANAGER, GIVEN]),
    default=MADE,
    show_default=True,
    help="Certificates of the extender: made now and part of what is printed, made by cert-manager, or "
    "Secrets that are there already.",
)
@click.option(
    "--unpublished",
    type=click.Choice(["pass", "hold"]),
    default="pass",
    show_default=True,
    help="What the extender says of nodes that publish nothing.",
)
@click.option(
    "--extender-from",
    multiple=True,
    metavar="NETWORK",
    help="A network that may connect to the extender, as 10.0.0.0/24, beside the second kube-scheduler: that "
    "of the control plane's hosts, where its scheduler asks; may be given several times.  [default: all, "
    "with --kubernetes none]",
)
@waiting_options
@click.option("--heal-applies", is_flag=True, help="The healer acts; without, it says what it would do.")
@click.option(
    "--heal-in",
    multiple=True,
    metavar="NAMESPACE",
    help="The healer looks after pods of this namespace alone, and can change nothing in others; may be "
    "given several times.  [default: all]",
)
@click.option(
    "--control-plane",
    default="",
    metavar="URL",
    help="Print instead a configuration for the control plane's own kube-scheduler, which reaches the "
    "extender at URL.",
)
@click.option(
    "--certificates",
    default="",
    metavar="DIR",
    help="Write new certificates into files below DIR, for 'kubectl apply -k', and end.",
)
def command(
    *,
    image: str,
    parts: str,
    namespace: str,
    definition: bool,
    kubernetes: str,
    kube_scheduler_image: str,
    tls: str,
    unpublished: str,
    extender_from: tuple[str, ...],
    heal_applies: bool,
    heal_in: tuple[str, ...],
    control_plane: str,
    certificates: str,
    **waits: Any,  # noqa: ANN401 - the options of waiting_options
) -> int:
    """Print the objects that run numawise in a cluster, with no more rights than each part needs."""
    from numawise.cli.cluster_objects import SCHEDULER, ClusterWish, cluster_objects  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.output import comment_lines, manifest_yaml  # noqa: PLC0415

    check_namespace(namespace)
    check_waiting(waits)
    if control_plane:
        _show_control_plane(namespace, control_plane)
        return 0
    if certificates:
        _write_certificates(namespace, certificates)
        return 0
    check_image(image)
    for chosen in heal_in:
        check_namespace(chosen, "--heal-in")
    wish = ClusterWish(
        image,
        _parts(parts),
        namespace,
        definition,
        _stock_image(kubernetes, kube_scheduler_image),
        unpublished,
        tuple(map(_network, extender_from)),
        _waits(waits),
        heal_applies,
        _knows_policies(kubernetes),
        tuple(dict.fromkeys(heal_in)),
        managed=tls == MANAGER,
    )
    if wish.stock_image and SCHEDULER not in wish.parts:
        raise InputError("asks the extender", field="--kubernetes", advice="add scheduler to --for")
    made = _new_certificates(namespace) if tls == MADE and SCHEDULER in wish.parts else None
    head = [HEAD[0].format(parts=", ".join(wish.parts)), HEAD[1]]
    texts = map(manifest_yaml, cluster_objects(wish, made))
    click.echo(comment_lines(head) + "---\n".join(texts), nl=False)
    return 0


def _waits(given: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The extender's options about pods that wait, in the order in which the manifest has them."""
    from numawise.apps.scheduler.manifest import WAITS  # noqa: PLC0415

    names = [option for option, _ in WAITS]
    return tuple((name, f"{given[name[2:].replace('-', '_')]:.10g}") for name in names)


def _parts(text: str) -> tuple[str, ...]:
    from numawise.cli.cluster_objects import PARTS  # noqa: PLC0415

    named = [part.strip() for part in text.split(",")]
    for part in named:
        if part not in PARTS:
            raise InputError(
                f"--for {quoted(part)} is no part of numawise", advice=f"there are {', '.join(PARTS)}"
            )
    return tuple(part for part in PARTS if part in named)


def _network(text: str) -> str:
    import ipaddress  # noqa: PLC0415 - keeps --help quick

    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise InputError(
            f"--extender-from {quoted(text)} is not a network",
            advice="write it like 10.0.0.0/24, or 10.0.0.7 for one address",
        ) from None


def _stock_image(release: str, image: str) -> str:
    if image:
        check_image(image, "--kube-scheduler-image")
        return image
    if not release:
        return ""
    match = RELEASE.fullmatch(release)
    if match is None:
        raise InputError(f"--kubernetes {quoted(release)} is not a release", advice="write it like 1.36.4")
    return STOCK_IMAGE.format(release=match[1].partition("+")[0])


def _knows_policies(release: str) -> bool:
    """Whether the cluster knows MutatingAdmissionPolicies; one of an unknown release is taken to."""
    match = RELEASE.fullmatch(release)
    return match is None or int(match[1].split(".")[1]) >= POLICIES_SINCE


def _new_certificates(namespace: str) -> "MadeCertificates":
    from numawise.apps.scheduler.certificate_objects import CLIENT  # noqa: PLC0415
    from numawise.apps.scheduler.manifest import server_names  # noqa: PLC0415
    from numawise.host.certificates import make_certificates  # noqa: PLC0415

    return make_certificates(server_names(namespace), CLIENT)


def _show_control_plane(namespace: str, url: str) -> None:
    from numawise.apps.scheduler.configuration import CERTIFICATES  # noqa: PLC0415
    from numawise.apps.scheduler.manifest import CLIENT_SECRET, control_plane_configuration  # noqa: PLC0415
    from numawise.codec.output import comment_lines, manifest_yaml  # noqa: PLC0415

    if not ADDRESS.fullmatch(url):
        raise InputError(
            f"--control-plane {quoted(url)} is not an address",
            advice="write it like https://10.96.0.40:9443, with the Service's cluster address",
        )
    head = [line.format(folder=CERTIFICATES, secret=CLIENT_SECRET) for line in CONTROL_PLANE]
    click.echo(comment_lines(head) + manifest_yaml(control_plane_configuration(namespace, url)), nl=False)


def _write_certificates(namespace: str, place: str) -> None:
    from numawise.codec.outfile import PRIVATE, check_place, write_whole  # noqa: PLC0415

    folder = Path(place)
    if not folder.exists() and folder.parent.is_dir():
        folder.mkdir(mode=0o700)
    files = [folder / name for name in FILES]
    for file in files:
        check_place(file)
    made = _new_certificates(namespace)
    texts = {
        "ca.crt": made.authority,
        "server.crt": made.server.certificate,
        "server.key": made.server.key,
        "client.crt": made.client.certificate,
        "client.key": made.client.key,
    }
    for file in files:
        write_whole(file, texts[file.name], PRIVATE if file.suffix == ".key" else 0o644)
    click.echo(f"written below {place}: {', '.join(FILES)}")

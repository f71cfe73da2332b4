"""``numawise scheduler``: an extender that tells kube-scheduler what every kubelet would say."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.serving import (
    check_waiting,
    cluster_options,
    listen_address,
    log_option,
    needed_address,
    pages_option,
    service_log,
    waiting_options,
)
from numawise.errors import InputError

if TYPE_CHECKING:
    from numawise.apps.scheduler.run import SchedulerPlan
    from numawise.apps.scheduler.serving import ExtenderAddress

LISTEN, PAGES = "127.0.0.1:9443", "127.0.0.1:9798"
WAYS = ("pass", "hold")
HEAD = (
    "For kube-scheduler --config: it asks numawise about every pod, and goes on where it does not answer.",
    "One step of its score outweighs all stock plugins together: docs/reference/scheduler.md.",
)


@click.command(
    epilog="""\b
Examples:
  numawise scheduler --dry-run
  numawise scheduler --listen 127.0.0.1:9443 --tls-cert tls.crt --tls-key tls.key
  numawise scheduler --listen 0.0.0.0:9443 --tls-cert tls.crt --tls-key tls.key --client-ca ca.crt
  numawise scheduler --print-config --tls-cert tls.crt --tls-key tls.key > kube-scheduler.yaml
  curl 'http://127.0.0.1:9443/capacity?shape=cpu=88,memory=900Gi,nvidia.com/gpu=4'

\b
Exit status: 0 ended by SIGTERM or SIGINT, 2 bad options or an extra is missing, 3 host,
5 cluster."""
)
@click.option(
    "--listen",
    default=LISTEN,
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where kube-scheduler is answered; without a certificate only an address of this machine itself.",
)
@click.option(
    "--tls-cert", default="", metavar="FILE", help="The certificate; a new file is taken up by itself."
)
@click.option("--tls-key", default="", metavar="FILE", help="Its key.")
@click.option(
    "--client-ca",
    default="",
    metavar="FILE",
    help="Answer only clients with a certificate of this authority.",
)
@pages_option(PAGES)
@click.option(
    "--unpublished",
    type=click.Choice(WAYS),
    default=WAYS[0],
    show_default=True,
    help="What becomes of pods on nodes that publish nothing; hold keeps those back that would be aligned.",
)
@click.option(
    "--unreadable",
    type=click.Choice(WAYS),
    default=WAYS[0],
    show_default=True,
    help="What becomes of pods that cannot be read.",
)
@waiting_options
@cluster_options
@log_option
@click.option("--dry-run", is_flag=True, help="Print what would be done, and the configuration, and end.")
@click.option(
    "--print-config", is_flag=True, help="Print the KubeSchedulerConfiguration that asks here, and end."
)
def command(**given: Any) -> int:  # noqa: ANN401 - the options
    """Be a scheduler extender: kube-scheduler asks, and every node answers as its kubelet would.

    Nodes come from the cluster's NodeResourceTopology objects, as 'numawise agent --export' publishes them.
    It runs until SIGTERM or SIGINT, and changes nothing in the cluster.
    """
    address = _address(given)
    pages = listen_address(given["pages"], PAGES, "--pages")
    check_waiting(given)
    if given["print_config"]:
        _print_config(address)
        return 0
    if given["dry_run"]:
        _show(address, pages, given)
        return 0
    from numawise.apps.scheduler.run import run  # noqa: PLC0415 - keeps --help quick

    return run(_plan(address, pages, given), service_log(given["log_form"]))


def _address(given: dict[str, Any]) -> "ExtenderAddress":
    from numawise.apps.scheduler.certificates import CertificateFiles, Certificates  # noqa: PLC0415
    from numawise.apps.scheduler.serving import ExtenderAddress, check_address  # noqa: PLC0415

    place = needed_address(given["listen"], LISTEN)
    cert, key, authority = given["tls_cert"], given["tls_key"], given["client_ca"]
    if bool(cert) != bool(key):
        missing, other = ("--tls-key", "--tls-cert") if cert else ("--tls-cert", "--tls-key")
        raise InputError(f"{other} needs {missing}", advice="give both")
    if authority and not cert:
        raise InputError("--client-ca needs --tls-cert and --tls-key", advice="give them")
    files = CertificateFiles(Path(cert), Path(key), Path(authority) if authority else None) if cert else None
    address = ExtenderAddress(*place, files)
    check_address(address)
    if files is not None and not given["print_config"]:
        Certificates(files)  # says what is wrong with them before anything starts
    return address


def _plan(
    address: "ExtenderAddress", pages: tuple[str, int] | None, given: dict[str, Any]
) -> "SchedulerPlan":
    from numawise.apps.scheduler.questions import ExtenderSettings  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.scheduler.run import SchedulerPlan  # noqa: PLC0415
    from numawise.cluster.kept_places import KeptTerms  # noqa: PLC0415
    from numawise.cluster.live import LiveSettings  # noqa: PLC0415
    from numawise.kube.client import access_to  # noqa: PLC0415

    live = LiveSettings(
        unpublished=given["unpublished"],
        promise_seconds=given["promise"],
        patience=given["patience"],
        kept=KeptTerms(given["kept_places"], given["kept_seconds"]),
    )
    settings = ExtenderSettings(given["unpublished"], given["unreadable"])
    return SchedulerPlan(access_to(given["kubeconfig"], given["cluster"]), address, pages, live, settings)


def _configuration(address: "ExtenderAddress") -> str:
    from numawise.apps.scheduler.configuration import ExtenderWish, scheduler_configuration  # noqa: PLC0415
    from numawise.codec.output import comment_lines, manifest_yaml  # noqa: PLC0415

    files = address.files
    host = f"[{address.host}]" if ":" in address.host else address.host
    if host in ("0.0.0.0", "[::]"):  # noqa: S104 - everybody reaches it by a name of its own
        host = "numawise-scheduler.numawise.svc"
    wish = ExtenderWish(f"{'https' if files is not None else 'http'}://{host}:{address.port}")
    if files is not None and files.client_authority is not None:
        folder = Path(wish.ca_file).parent
        wish = ExtenderWish(
            wish.address,
            client_cert=str(folder / "client.crt"),
            client_key=str(folder / "client.key"),
        )
    return comment_lines(HEAD) + manifest_yaml(scheduler_configuration(wish))


def _print_config(address: "ExtenderAddress") -> None:
    click.echo(_configuration(address), nl=False)


def _show(address: "ExtenderAddress", pages: tuple[str, int] | None, given: dict[str, Any]) -> None:
    from numawise.apps.scheduler.rights import SCHEDULER_RIGHTS  # noqa: PLC0415 - keeps --help quick
    from numawise.codec.output import comment_lines  # noqa: PLC0415
    from numawise.kube.client import access_to  # noqa: PLC0415

    access = access_to(given["kubeconfig"], given["cluster"])
    files = address.files
    who = "everybody who reaches it"
    if files is not None and files.client_authority is not None:
        who = f"clients with a certificate of {files.client_authority}"
    reads = ", ".join(f"{right.resource} ({', '.join(right.verbs)})" for right in SCHEDULER_RIGHTS)
    how = "in the clear" if files is None else f"with {files.certificate}"
    kept = "no places are kept for pods that wait"
    if given["kept_places"]:
        kept = f"places are kept for pods that have waited {given['patience']:.0f} seconds, "
        kept += f"{given['kept_places']} for each namespace, for {given['kept_seconds']:.0f} seconds"
    unread = f"pods that cannot be read: {given['unreadable']}"
    lines = [
        f"Would answer kube-scheduler at {address.host}:{address.port}, {how}: {who}.",
        f"Would say how it is at {f'{pages[0]}:{pages[1]}' if pages else 'no address'}.",
        f"Would read from {access.server}, and change nothing: {reads}.",
        f"Nodes that publish nothing: {given['unpublished']}; {unread}; {kept}.",
        "kube-scheduler would need this configuration:",
    ]
    click.echo(comment_lines(lines) + _configuration(address), nl=False)

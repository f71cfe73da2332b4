"""``numawise check``: lint kubelet configurations, machines, state files and pods, together."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from numawise import __version__
from numawise.cli.options import bundle_option, output_option
from numawise.errors import InputError

if TYPE_CHECKING:
    from numawise.results.finding import CheckReport
    from numawise.rules.versions import Profile, Version


@click.command(
    epilog="""\b
Examples:
  numawise check --kubelet-config /var/lib/kubelet/config.yaml
  numawise check --kubelet-config config.yaml --machine node7.yaml --state /var/lib/kubelet pods/*.yaml
  numawise check --kubelet-flags "--cpu-manager-policy=static --reserved-cpus=0-1" --kube 1.31
  numawise check --kubelet-config config.yaml --upgrade 1.34:1.36
  numawise check --bundle node7.tar.gz
  numawise check --explain NW221
  numawise check -o sarif --kubelet-config config.yaml deploy/*.yaml > check.sarif

\b
A comment '# numawise: ignore NW221' silences a code on its line, the next line, or, at the top, the file.
Exit status: 0 no errors, 1 errors (with --strict: or warnings), 2 bad input."""
)
@click.option(
    "--kubelet-config",
    "configs",
    multiple=True,
    metavar="FILE",
    help="A KubeletConfiguration, or an object that carries one; several are several kubelets.",
)
@click.option("--config-dir", metavar="DIR", help="The kubelet's drop-in directory: *.conf, by name.")
@click.option(
    "--kubelet-flags",
    "flags",
    metavar="TEXT|FILE",
    help="The kubelet's command line, a file of variables with it, or its systemd unit.",
)
@click.option(
    "--machine",
    "machines",
    multiple=True,
    metavar="FILE",
    help="The machine: a machine file, a folder with its /sys, or what lscpu, nvidia-smi and others print.",
)
@click.option("--state", metavar="DIR", help="The kubelet's state files, as in /var/lib/kubelet.")
@bundle_option
@click.option(
    "--kube",
    metavar="VERSION",
    help="The release of the kubelet, such as 1.31 or v1.34.2.  [default: the newest that is known]",
)
@click.option("--upgrade", metavar="OLD:NEW", help="Also tell what an upgrade changes, such as 1.34:1.36.")
@click.option("--ignore", metavar="CODES", help="Leave these out: NW115,NW4 (the start of a code is enough).")
@click.option("--select", metavar="CODES", help="Tell only of these.")
@click.option("--strict", is_flag=True, help="Warnings fail the check too.")
@click.option("--explain", metavar="CODE", help="Tell what a code is about, and leave.")
@output_option("text", "json", "sarif", "github")
@click.argument("pods", nargs=-1, metavar="[PODS]...")
@click.pass_context
def command(
    context: click.Context,
    configs: Sequence[str],
    config_dir: str | None,
    flags: str | None,
    machines: Sequence[str],
    state: str | None,
    bundle: str | None,
    kube: str | None,
    upgrade: str | None,
    ignore: str | None,
    select: str | None,
    strict: bool,
    explain: str | None,
    output: str,
    pods: Sequence[str],
) -> int:
    """Find what a kubelet would refuse, in its own words, and what it accepts and will hurt.

    Everything is judged together: the configuration on the machine, with the state files it would start on,
    and the pods on all that.  Whatever is not given is not judged.  PODS are files with Pods, Deployments,
    Jobs, Lists, or any object with pod templates inside, or folders of them; - reads standard input.
    """
    from numawise.apps.check.lint import lint  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.check.pages import explained  # noqa: PLC0415
    from numawise.apps.check.sources import Given  # noqa: PLC0415

    if explain:
        click.echo(explained(explain), nl=False)
        return 0
    if sum(path == "-" for path in (*configs, *machines, *pods)) > 1:
        raise InputError("standard input (-) can be read only once", advice="save one of them to a file")
    if not (configs or config_dir or flags or machines or state or bundle or pods):
        raise InputError("nothing to check", advice="give --kubelet-config, --machine, --state or pods")
    ways = _upgrade(upgrade)
    profile = _profile(kube, bundle, ways)
    if profile.remark:
        click.echo(f"numawise: {profile.remark}", err=True)
    given = Given(
        configs=tuple(configs),
        config_dir=config_dir or "",
        flags=flags or "",
        machines=tuple(machines),
        state=state or "",
        pods=tuple(pods),
        bundle=bundle or "",
        version=profile.version,
    )
    report = lint(given, ignore=_codes(ignore), select=_codes(select), upgrade=ways)
    _show(report, output, context)
    return 1 if report.failed(strict=strict) else 0


def _profile(kube: str | None, bundle: str | None, upgrade: "tuple[Version, Version] | None") -> "Profile":
    """The release that is named; else that of the bundle, or the one that is upgraded from."""
    from numawise.inputs.bundle import open_bundle  # noqa: PLC0415
    from numawise.inputs.files import load_profile  # noqa: PLC0415
    from numawise.rules.versions import DEFAULT, Profile  # noqa: PLC0415

    if kube is not None:
        return load_profile(kube)
    if bundle:
        return open_bundle(bundle).profile()
    return Profile(upgrade[0] if upgrade else DEFAULT)


def _codes(text: str | None) -> tuple[str, ...]:
    from numawise.results.finding import codes as registry  # noqa: PLC0415

    codes = tuple(word.strip().upper() for word in (text or "").split(",") if word.strip())
    for code in codes:
        if not any(known.startswith(code) for known in registry()):
            raise InputError(f"there is no code {code!r}", field="--ignore/--select", advice="see --explain")
    return codes


def _upgrade(text: str | None) -> "tuple[Version, Version] | None":
    from numawise.inputs.files import load_profile  # noqa: PLC0415

    if not text:
        return None
    old, colon, new = text.partition(":")
    if not colon:
        raise InputError(f"{text!r} is no pair of releases", field="--upgrade", advice="write 1.34:1.36")
    return load_profile(old, "--upgrade").version, load_profile(new, "--upgrade").version


def _show(report: "CheckReport", output: str, context: click.Context) -> None:
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.render.findings import github, sarif, terminal_text  # noqa: PLC0415
    from numawise.results.plain import document  # noqa: PLC0415

    if output == "json":
        click.echo(to_json(document("Check", report)), nl=False)
    elif output == "sarif":
        click.echo(to_json(sarif(report.findings, __version__)), nl=False)
    elif output == "github":
        click.echo(github(report.findings), nl=False)
    else:
        text, color = terminal_text(report.findings, sys.stdout, color=context.color, ignored=report.ignored)
        click.echo(text, nl=False, color=color)

"""``numawise check``: lint kubelet configurations, machines, state files and pods, together."""

import shutil
import sys
from collections.abc import Sequence

import click

from numawise import __version__
from numawise.apps.check.lint import Report, lint
from numawise.apps.check.pages import explained
from numawise.apps.check.sources import Given
from numawise.cli.options import bundle_option, output_option
from numawise.codec.findings import Row, github, row_data, sarif
from numawise.codec.output import to_json
from numawise.errors import InputError
from numawise.inputs.bundle import open_bundle
from numawise.inputs.files import load_profile
from numawise.render.findings import findings_text
from numawise.results.codes import CODES
from numawise.results.finding import Severity
from numawise.results.plain import API_VERSION
from numawise.rules.versions import DEFAULT, Profile, Version, shown


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
    help=f"The release of the kubelet, such as 1.31 or v1.34.2; {shown(DEFAULT)} if nothing tells.",
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


def _profile(kube: str | None, bundle: str | None, upgrade: tuple[Version, Version] | None) -> Profile:
    """The release that is named; else that of the bundle, or the one that is upgraded from."""
    if kube is not None:
        return load_profile(kube)
    if bundle:
        return open_bundle(bundle).profile()
    return Profile(upgrade[0] if upgrade else DEFAULT)


def _codes(text: str | None) -> tuple[str, ...]:
    codes = tuple(word.strip().upper() for word in (text or "").split(",") if word.strip())
    for code in codes:
        if not any(known.startswith(code) for known in CODES):
            raise InputError(f"there is no code {code!r}", field="--ignore/--select", advice="see --explain")
    return codes


def _upgrade(text: str | None) -> tuple[Version, Version] | None:
    if not text:
        return None
    old, colon, new = text.partition(":")
    if not colon:
        raise InputError(f"{text!r} is no pair of releases", field="--upgrade", advice="write 1.34:1.36")
    return load_profile(old, "--upgrade").version, load_profile(new, "--upgrade").version


def _show(report: Report, output: str, context: click.Context) -> None:
    rows = [
        Row(
            one.code, one.severity.value, one.title, one.file, one.line, one.field, one.message, one.why,
            one.fix, one.stage,
        )
        for one in report.findings
    ]  # fmt: skip
    if output == "json":
        found = {
            "apiVersion": API_VERSION,
            "kind": "Check",
            "errors": report.count(Severity.ERROR),
            "warnings": report.count(Severity.WARNING),
            "notes": report.count(Severity.INFO),
            "ignored": report.ignored,
            "findings": [row_data(row) for row in rows],
        }
        click.echo(to_json(found), nl=False)
    elif output == "sarif":
        click.echo(to_json(sarif(rows, CODES, __version__)), nl=False)
    elif output == "github":
        click.echo(github(rows), nl=False)
    else:
        terminal = sys.stdout.isatty()
        color = terminal if context.color is None else context.color
        width = shutil.get_terminal_size().columns if terminal else 0
        click.echo(findings_text(rows, report.ignored, width=width, color=color), nl=False, color=color)

"""``numawise check``: lint kubelet configurations, machines, state files and pods, together."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from numawise.cli.options import (
    node_options,
    node_spec,
    output_option,
    say_remarks,
    several_configs,
)
from numawise.errors import InputError, quoted
from numawise.version import __version__

if TYPE_CHECKING:
    from numawise.inputs.spec import NodeSpec
    from numawise.results.correction import CorrectedFile
    from numawise.results.finding import CheckReport
    from numawise.rules.versions import Version

GIVE_SOMETHING = (
    "give kubelet configurations, machines, state files, device plugin configurations, or objects that make "
    "pods"
)


@click.command(
    epilog="""\b
Examples:
  numawise check /var/lib/kubelet/config.yaml
  numawise check kubelet.yaml machine.yaml cpu_manager_state deploy/
  numawise check --kubelet-config config.yaml --machine node7.yaml --state /var/lib/kubelet pods/*.yaml
  numawise check --kubelet-flags "--cpu-manager-policy=static --reserved-cpus=0-1" --kube 1.31
  numawise check --kubelet-config config.yaml --upgrade 1.34:1.36
  numawise check --bundle node7.tar.gz
  numawise check --fix --dry-run kubelet.yaml deploy/
  numawise check --brief manifests/ | grep " error "
  numawise check --explain NW221
  numawise check -o sarif --kubelet-config config.yaml deploy/*.yaml > check.sarif

\b
A comment '# numawise: ignore NW221' silences a code on its line, the next line, or, at the top, the file.
Exit status: 0 no errors, 1 errors (with --strict: or warnings), 2 bad input, or nothing in it to check."""
)
@several_configs
@node_options("kubelet_config")
@click.option("--upgrade", metavar="OLD:NEW", help="Also report what an upgrade changes, such as 1.34:1.36.")
@click.option("--ignore", metavar="CODES", help="Leave these out: NW115,NW4 (the start of a code is enough).")
@click.option("--select", metavar="CODES", help="Report only these.")
@click.option("--strict", is_flag=True, help="Warnings fail the check too.")
@click.option("--brief", is_flag=True, help="One line for each finding: FILE:LINE: LEVEL CODE SENTENCE.")
@click.option(
    "--fix", is_flag=True, help="Correct the files where only one change can be meant; report what is left."
)
@click.option("--dry-run", is_flag=True, help="With --fix: show the changes, and make none.")
@click.option("--explain", metavar="CODE", help="Explain a code, and exit.")
@output_option("text", "json", "sarif", "github")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.pass_context
def command(
    context: click.Context,
    /,
    upgrade: str | None,
    ignore: str | None,
    select: str | None,
    strict: bool,
    brief: bool,
    fix: bool,
    dry_run: bool,
    explain: str | None,
    output: str,
    files: Sequence[str],
    **node: Any,  # noqa: ANN401 - the options of a node
) -> int:
    """Find what a kubelet would refuse, in its own words, and what it accepts but does harm.

    Everything is judged together: the configuration on the machine, with the state files it would start on,
    and the pods on all that.  Whatever is not given is not judged.

    Every FILE is recognised by what is in it: pods and any object with pod templates (Deployments, Jobs,
    those of Ray, Kubeflow, Volcano, …), kubelet configurations, state files, machines, Node objects, and all
    else that the options take.  Several configurations are several kubelets.  A folder stands for all YAML
    and JSON in it, and state files; a name for a pod of the bundle; - reads pods from standard input.

    With --fix, files are changed where the right change is certain, and each change is proved by another
    check; comments and layout stay.  What is a choice is left, and said.
    """
    from numawise.apps.check.lint import lint  # noqa: PLC0415 - keeps --help quick
    from numawise.inputs.bundle import open_bundle  # noqa: PLC0415
    from numawise.inputs.recognise import recognised  # noqa: PLC0415
    from numawise.inputs.spec import NodeSpec, read_release  # noqa: PLC0415
    from numawise.rules.versions import Profile  # noqa: PLC0415

    if explain:
        _explain(explain, output)
        return 0
    if brief and output != "text":
        raise InputError(f"cannot go with -o {output}", field="--brief", advice="leave out one of them")
    _check_fix(files, fix=fix, dry_run=dry_run)
    spec = node_spec(node, *files)
    if spec == NodeSpec(kube=spec.kube, node_name=spec.node_name) and not files:
        raise InputError("nothing to check", advice=GIVE_SOMETHING)
    given = recognised(spec, files)
    say_remarks(given.remarks)
    spec = given.spec
    ways = _upgrade(upgrade)
    if ways is not None and not spec.kube and not spec.bundle:
        profile = Profile(ways[0])
    else:
        profile = read_release(spec.kube, open_bundle(spec.bundle) if spec.bundle else None)
    say_remarks([profile.remark] if profile.remark else [])
    ignored, selected = _codes(ignore), _codes(select)

    def check() -> "CheckReport":
        return lint(
            spec,
            given.objects,
            profile.version,
            ignore=ignored,
            select=selected,
            upgrade=ways,
            terminal=sys.stderr,
        )

    report = check()
    say_remarks(report.remarks)
    if fix:
        report = _fixed(check, report, spec, output if not brief else "brief", dry_run=dry_run)
    _show(report, "brief" if brief else output, context)
    if report.looked_at.nothing and not report.failed(strict=strict):
        what = f"in these {len(files)} files " if len(files) > 1 else ""
        raise InputError(
            f"nothing {what}was checked", file=files[0] if len(files) == 1 else "", advice=GIVE_SOMETHING
        )
    return 1 if report.failed(strict=strict) else 0


def _check_fix(files: Sequence[str], *, fix: bool, dry_run: bool) -> None:
    if dry_run and not fix:
        raise InputError("goes with --fix", field="--dry-run", advice="write --fix --dry-run")
    if fix and "-" in files:
        raise InputError("cannot change standard input", field="--fix", advice="save it to a file")


def _fixed(
    check: "Callable[[], CheckReport]", report: "CheckReport", spec: "NodeSpec", output: str, *, dry_run: bool
) -> "CheckReport":
    """Correct the files, say what was changed, and give what is left to report."""
    from numawise.apps.check.mend import mended  # noqa: PLC0415 - few ask for it
    from numawise.render.corrections import corrections_text, diff_text  # noqa: PLC0415

    done = mended(check, report)
    if not dry_run:
        _write(done.files, spec)
    elif output == "text":
        click.echo(diff_text(done.files), nl=False)
    text = corrections_text(done.applied, len(done.files), dry_run=dry_run)
    click.echo(f"{text}\n" if output == "text" else text, nl=False, err=output != "text")
    return done.report


def _write(files: "Sequence[CorrectedFile]", spec: "NodeSpec") -> None:
    """Write the files: state files as ``state repair`` does, and first, as that may refuse; others whole."""
    from numawise.apps.state.change import carry_out  # noqa: PLC0415 - few ask for it
    from numawise.codec.infile import read_raw  # noqa: PLC0415
    from numawise.codec.outfile import check_place, write_whole  # noqa: PLC0415
    from numawise.inputs.state import read_state  # noqa: PLC0415
    from numawise.node.state.change import FileChange  # noqa: PLC0415

    folder = read_state(spec.state) if spec.state else None
    states = {str(one.path): one for one in folder.files} if folder is not None else {}
    for one in files:
        check_place(one.file)
        if read_raw(one.file)[0] != one.before.encode():
            raise InputError("was changed meanwhile", file=one.file, advice="check it again")
    changes = [FileChange(states[one.file], one.text, ()) for one in files if one.file in states]
    if folder is not None and changes:
        kept = carry_out(folder, changes)
        say_remarks([f"the old state files are kept in {kept}"] if kept is not None else [])
    for one in files:
        if one.file not in states:
            write_whole(one.file, one.text)


def _explain(code: str, output: str) -> None:
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.render.findings import code_page, explained  # noqa: PLC0415
    from numawise.results.plain import document  # noqa: PLC0415

    known = explained(code)
    text = to_json(document("FindingCode", known)) if output == "json" else code_page(known)
    click.echo(text, nl=False)


def _codes(text: str | None) -> tuple[str, ...]:
    from numawise.results.finding import codes as registry  # noqa: PLC0415

    codes = tuple(word.strip().upper() for word in (text or "").split(",") if word.strip())
    for code in codes:
        if not any(known.startswith(code) for known in registry()):
            raise InputError(
                f"there is no code {quoted(code)}", field="--ignore/--select", advice="see --explain"
            )
    return codes


def _upgrade(text: str | None) -> "tuple[Version, Version] | None":
    from numawise.inputs.spec import read_release  # noqa: PLC0415

    if not text:
        return None
    old, colon, new = text.partition(":")
    if not colon or not old or not new:
        raise InputError(
            f"{quoted(text)} is not a pair of releases", field="--upgrade", advice="write 1.34:1.36"
        )
    return read_release(old, field="--upgrade").version, read_release(new, field="--upgrade").version


def _show(report: "CheckReport", output: str, context: click.Context) -> None:
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.render.findings import brief_text, github, sarif, terminal_text  # noqa: PLC0415
    from numawise.results.plain import document  # noqa: PLC0415

    if output == "json":
        click.echo(to_json(document("Check", report)), nl=False)
    elif output == "sarif":
        click.echo(to_json(sarif(report.findings, __version__)), nl=False)
    elif output == "brief":
        click.echo(brief_text(report.findings), nl=False)
    elif output == "github":
        click.echo(github(report.findings), nl=False)
    else:
        text, color = terminal_text(
            report.findings,
            sys.stdout,
            color=context.color,
            ignored=report.ignored,
            looked_at=report.looked_at,
        )
        click.echo(text, nl=False, color=color)

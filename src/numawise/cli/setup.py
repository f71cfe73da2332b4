"""``numawise setup``: prepare a box that several people share, and take that back."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numawise.cli.options import say, say_remarks

if TYPE_CHECKING:
    from numawise.apps.setup.design import BoxWish
    from numawise.apps.setup.steps import BoxPlan

EXAMPLES = """\b
Examples:
  numawise setup --dry-run
  sudo numawise setup
  sudo numawise setup --group gpu-users --fence-gpus
  sudo numawise setup --undo

\b
Exit status: 0 all is as it should be, 1 something is in the way and was left alone, 2 bad input, 3 host.
"""
HERE = Path("/")


@click.command("setup", epilog=EXAMPLES)
@click.option(
    "--group", metavar="NAME", help="Only members of this group use the box's ledger; it is added if missing."
)
@click.option("--ledger", metavar="DIR", help="The ledger's folder.  [default: /var/lib/numawise]")
@click.option(
    "--fence-gpus/--no-fence-gpus",
    default=None,
    help="Jobs see no GPUs but their own.  [default: no-fence-gpus]",
)
@click.option(
    "--program", metavar="FILE", help="The installed numawise that the timer runs.  [default: this one]"
)
@click.option("--undo", is_flag=True, help="Take back what setup made; what was changed since stays.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@click.option("--root", metavar="DIR", default="/", help="Set up the system below DIR instead.")
def command(
    group: str | None,
    ledger: str | None,
    fence_gpus: bool | None,
    program: str | None,
    *,
    undo: bool,
    dry_run: bool,
    root: str,
) -> int:
    """Prepare a box that several people share: its ledger, its settings, delegation, a reaper, completion.

    Run it again at any time: what is as it should be is left alone, and options that are not given stay as
    they were.  Nothing that setup did not write is overwritten or removed.  'numawise doctor' checks it.
    """
    import numawise  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.setup import steps  # noqa: PLC0415 - keeps --help quick
    from numawise.apps.setup.design import design, read_facts  # noqa: PLC0415
    from numawise.errors import HostError  # noqa: PLC0415
    from numawise.host.box import read_record  # noqa: PLC0415
    from numawise.host.settings import ADMINISTRATORS  # noqa: PLC0415

    folder = _folder(root)
    if undo and (group, ledger, fence_gpus, program) != (None, None, None, None):
        raise click.UsageError(
            "--undo takes back all that setup made: it goes with --dry-run and --root alone"
        )
    if folder == HERE and os.geteuid() != 0 and not dry_run:
        raise HostError(
            "setup changes the system for all its users, which only root may do",
            "run it with sudo, or see what it would do with --dry-run",
        )
    trusted = ADMINISTRATORS if folder == HERE else ADMINISTRATORS | {os.geteuid()}
    with steps.alone(folder):
        record = read_record(folder, trusted)
        wish = _wish(folder, group, ledger, fence_gpus=fence_gpus, program=program)
        facts = read_facts(folder, wish.program, trusted, () if program else numawise.__path__)
        if undo:
            plan = steps.plan_undo(record, folder, wish.ledger, running=facts.running)
        else:
            plan = steps.plan_setup(design(wish, facts), record, folder, facts, trusted)
        _tell(plan, folder)
        if not dry_run and undo:
            steps.do_undo(plan, folder, wish.ledger, trusted)
        elif not dry_run:
            steps.do_setup(plan, folder, trusted)
    return _outcome(plan, undo=undo, dry_run=dry_run)


def _folder(root: str) -> Path:
    from numawise.errors import InputError, quoted  # noqa: PLC0415

    folder = Path(os.path.realpath(root))
    if not folder.is_dir():
        raise InputError(
            f"{quoted(root)} is not a folder", field="--root", advice="name the root of a system"
        )
    return folder


def _wish(
    root: Path, group: str | None, ledger: str | None, *, fence_gpus: bool | None, program: str | None
) -> "BoxWish":
    """What was asked for now, over what an earlier setup wrote."""
    from numawise.apps.setup.design import BoxWish  # noqa: PLC0415
    from numawise.cli.completion import sources  # noqa: PLC0415
    from numawise.errors import InputError  # noqa: PLC0415
    from numawise.host.box import LEDGER, written_settings  # noqa: PLC0415

    for value, name in ((group, "--group"), (ledger, "--ledger"), (program, "--program")):
        if value == "":
            raise InputError("is empty", field=name, advice="leave it out, or give it a value")
    before = written_settings(root)
    return BoxWish(
        ledger=ledger or before.box_ledger or LEDGER,
        group=group or before.group,
        fence_gpus=before.fence_gpus if fence_gpus is None else fence_gpus,
        program=os.path.abspath(program) if program else _program(),  # noqa: PTH100 - links stay: a venv is one
        program_named=bool(program),
        completion=sources(),
    )


def _program() -> str:
    """The program that runs here, as others would start it."""
    beside = Path(sys.executable).parent / "numawise"
    for path in (Path(sys.argv[0]), beside):
        if path.name == "numawise" and path.is_file():
            return os.path.abspath(path)  # noqa: PTH100 - as above
    return shutil.which("numawise") or ""


def _tell(plan: "BoxPlan", root: Path) -> None:
    from numawise.apps.setup.steps import step_lines  # noqa: PLC0415
    from numawise.host.box import below  # noqa: PLC0415

    for path in plan.good:
        click.echo(f"as it should be: {below(root, path)}")
    for step in plan.steps:
        for line in step_lines(step, root):
            click.echo(line)


def _outcome(plan: "BoxPlan", *, undo: bool, dry_run: bool) -> int:
    say_remarks(plan.remarks)
    say_remarks(plan.blocked)
    if not plan.steps:
        say("there is nothing to take back" if undo and not plan.blocked else "there is nothing to do")
    elif not dry_run and not undo:
        say("done; 'numawise doctor' checks it")
    return 1 if plan.blocked else 0

"""``numawise why --log``: the admissions of a kubelet's log, explained."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from numawise.cli.options import say_remarks
from numawise.values import dataclass

if TYPE_CHECKING:
    from numawise.inputs.spec import NodeSpec


@dataclass(frozen=True, slots=True)
class LogFlags:
    """What was given beside ``--log``."""

    logs: Sequence[str]
    pod: str | None
    since: str | None
    everything: bool
    node: "NodeSpec"
    pods: Sequence[str]
    policy: str | None
    numa: int | None


def explain_log(context: click.Context, flags: LogFlags, output: str, width: int | None) -> int:
    """Read the logs, print what they say; 1 when a pod was rejected or a kubelet did not start."""
    from datetime import datetime  # noqa: PLC0415 - keeps --help quick

    from numawise.apps.logs.check import checked, load_log_node  # noqa: PLC0415
    from numawise.apps.logs.groups import LogFilter  # noqa: PLC0415
    from numawise.apps.logs.read import (  # noqa: PLC0415
        Source,
        parse_since,
        read_log,
    )
    from numawise.inputs.spec import read_node  # noqa: PLC0415
    from numawise.render.logs import reading  # noqa: PLC0415

    now = datetime.now()  # noqa: DTZ005 - a log has the time of its node
    since = parse_since(flags.since, now) if flags.since is not None else None
    node = read_node(flags.node)
    say_remarks(node.remarks)
    beside = load_log_node(node, flags.pods)
    wanted = LogFilter(flags.pod or "", since, flags.everything)
    size = Source(flags.logs).size
    shown = sys.stderr.isatty()
    with reading(sys.stderr, size, shown=shown) as progress:
        report = read_log(Source(flags.logs, progress), wanted, beside.given(flags.policy, flags.numa))
    report = checked(report, beside)
    if output == "text":
        from numawise.cli.show import default_width, speaks_unicode, wants_color  # noqa: PLC0415
        from numawise.render.logs import log_text  # noqa: PLC0415

        colored = wants_color(context.color)
        drawn = log_text(report, width or default_width(), color=colored, ascii_only=not speaks_unicode())
        click.echo(drawn, nl=False, color=colored)
    else:
        from numawise.codec.output import to_json, to_yaml  # noqa: PLC0415
        from numawise.results.log_data import report_data  # noqa: PLC0415

        found = report_data(report)
        click.echo(to_json(found) if output == "json" else to_yaml(found), nl=False)
    return 1 if report.refused else 0

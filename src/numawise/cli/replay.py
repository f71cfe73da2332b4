"""``numawise replay``: recorded scenarios through the engine, in the recording's form."""

import os
from collections.abc import Iterator, Sequence

import click

from numawise.cli.options import say

CHUNK = 8


@click.command(
    epilog="""\b
Examples:
  numawise replay traces.jsonl.gz --out results.jsonl
  compare-traces traces.jsonl.gz results.jsonl"""
)
@click.option("--out", metavar="FILE", help="Write here (when all is done) instead of to standard output.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes (default: CPUs).")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def command(files: Sequence[str], out: str | None, jobs: int | None) -> int:
    """Run the scenario of each trace line and write one {"id", "result"} line for it.

    Lines are JSON; .gz is unpacked; - reads standard input.  Only the scenario is looked at, never the
    recorded result.  Its field "kubernetes" says which release is run; one newer than any known is taken for
    the newest.  A scenario that cannot be run becomes {"id", "failed"}, and the exit status is 1.
    """
    from numawise.codec.tracefile import read_lines, written  # noqa: PLC0415 - keeps --help quick

    lines = (line for path in files for line in read_lines(path))
    failed = 0
    remarks: dict[str, None] = {}
    with written(out) as write:
        for text, ok, remark in _results(lines, jobs or os.cpu_count() or 1):
            write(text)
            failed += not ok
            remarks[remark] = None
    for remark in filter(None, remarks):
        say(remark)
    return 1 if failed else 0


def _results(lines: Iterator[tuple[str, bytes]], jobs: int) -> Iterator[tuple[str, bool, str]]:
    if jobs == 1:
        yield from map(_result, lines)
        return
    import multiprocessing  # noqa: PLC0415

    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(_result, lines, chunksize=CHUNK)


def _result(line: tuple[str, bytes]) -> tuple[str, bool, str]:
    """A line of results, whether it went well, and what is to be said about the release."""
    from numawise.codec.tracefile import check_scenario, encode_line, scenario_of  # noqa: PLC0415
    from numawise.errors import NumawiseError  # noqa: PLC0415
    from numawise.node.replay import release_of, replay  # noqa: PLC0415

    scenario = scenario_of(*line)
    try:
        check_scenario(scenario)
        profile = release_of(scenario)
        result = replay(scenario, profile.version)
        return encode_line({"id": scenario["id"], "result": result}), True, profile.remark
    except NumawiseError as error:
        return encode_line({"id": scenario["id"], "failed": str(error)}), False, ""
    except Exception as error:  # noqa: BLE001 - one scenario that breaks us shall not cost the others
        failure = f"internal error: {type(error).__name__}: {error}"
        return encode_line({"id": scenario["id"], "failed": failure}), False, ""

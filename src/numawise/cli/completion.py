"""Completion of the command line: for bash, zsh and fish, and for ``kubectl numawise``.

Rules kept here:

1. A shell asks by the variable ``_NUMAWISE_COMPLETE``: ``bash_source`` prints what it has to load,
   ``bash_complete`` the words that may follow.
2. kubectl asks the program ``kubectl_complete-numawise`` with the words so far, the last one unfinished.  A
   line is a word, or a word, a tab and what it is; the last line says with ``:4`` that these are all, and
   with ``:0`` that files will do, too.
3. Values of options are files, unless they are names that are known here: machines, releases, codes.
4. Nodes, pods and owners of a cluster are asked of the API server, where a command takes them.
"""

import sys
from collections.abc import Callable, Iterable, Sequence

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    _resolve_context,
    _resolve_incomplete,
)

from numawise.cli.main import COMPLETE, PROGRAM, group
from numawise.errors import InputError, cut, quoted

FILE, DIRECTORY = "file", "dir"
ALL, FILES_TOO = ":4", ":0"
FILE_WORDS = ("FILE", "DIR", "MACHINE", "PODS")
LONGEST_HELP = 80
SHELLS = "bash, zsh and fish"
Items = list[CompletionItem[str]]


def complete(instruction: str) -> int:
    """Answer a shell (rule 1)."""
    shell, _, what = instruction.partition("_")
    kind = CLASSES.get(shell)
    if kind is None or what not in ("source", "complete"):
        advice = f"completion is for {SHELLS}: bash_source, for one"
        raise InputError(f"{quoted(instruction)} is not known", field=COMPLETE, advice=advice)
    answers = kind(group, {}, PROGRAM, COMPLETE)
    click.echo(answers.source() if what == "source" else answers.complete())
    return 0


def sources() -> dict[str, str]:
    """What each shell has to load, whether or not it is installed here."""
    return {
        shell: ShellComplete.source(kind(group, {}, PROGRAM, COMPLETE)).rstrip("\n") + "\n"
        for shell, kind in CLASSES.items()
    }


def kubectl(words: Sequence[str] | None = None) -> int:
    """Answer kubectl (rule 2)."""
    *before, unfinished = (sys.argv[1:] if words is None else list(words)) or [""]
    items = _Answers(group, {}, PROGRAM, COMPLETE).get_completions(list(before), unfinished)
    names = [item for item in items if item.type == "plain"]
    for item in names:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(ALL if names and len(names) == len(items) else FILES_TOO)
    return 0


class _Answers(ShellComplete):
    """Which words may follow, whichever shell asks."""

    name = PROGRAM

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        """What click knows, else values of the option or argument (rule 3)."""
        items = super().get_completions(args, incomplete)
        if items:
            return [CompletionItem(item.value, item.type, _short(item.help)) for item in items]
        context = _resolve_context(self.cli, self.ctx_args, self.prog_name, args)
        what, rest = _resolve_incomplete(context, args, incomplete)
        if not isinstance(what, click.Parameter):
            return []
        return _cluster_values(context, what, rest) or _values(what, rest)


def _short(text: str | None) -> str | None:
    """The first sentence of a help, or the beginning of it."""
    return cut(text.partition(".  ")[0].partition(": ")[0], LONGEST_HELP) if text else text


class _Bash(_Answers, BashComplete):
    name = "bash"


class _Zsh(_Answers, ZshComplete):
    name = "zsh"


class _Fish(_Answers, FishComplete):
    name = "fish"


CLASSES: dict[str, type[_Answers]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def _cluster_values(context: click.Context, parameter: click.Parameter, unfinished: str) -> Items:
    """Names of a cluster (rule 4); none: something else is meant."""
    from numawise.cli.cluster_names import node_names, target_words  # noqa: PLC0415 - shells alone ask

    match context.info_name, parameter.name:
        case "nodes", "names":
            names, files = node_names(context.params), False
        case "why", "pods":
            names, files = target_words(context.params, unfinished), "/" not in unfinished
        case _:
            return []
    items = [CompletionItem(name) for name in names if name.startswith(unfinished)]
    return [CompletionItem(unfinished, type=FILE), *items] if files else items


def _values(parameter: click.Parameter, unfinished: str) -> Items:
    """Files where the option or argument takes some, and names that are known (rule 3)."""
    metavar = parameter.metavar or ""
    takes_files = isinstance(parameter, click.Argument) or any(word in metavar for word in FILE_WORDS)
    items: Items = []
    if takes_files:  # first: bash forgets what stands before it
        items = [CompletionItem(unfinished, type=DIRECTORY if metavar == "DIR" else FILE)]
    known = NAMES.get(parameter.name or "")
    return items + [
        CompletionItem(name) for name in (known() if known else ()) if name.startswith(unfinished)
    ]


def _machines() -> Iterable[str]:
    from numawise.machine.catalog import CATALOG  # noqa: PLC0415 - only for this option

    return CATALOG


def _codes() -> Iterable[str]:
    from numawise.results.finding import codes  # noqa: PLC0415

    return codes()


def _releases() -> Iterable[str]:
    from numawise.rules.versions import NEWEST, OLDEST, shown  # noqa: PLC0415

    return (shown((NEWEST[0], minor)) for minor in range(NEWEST[1], OLDEST[1] - 1, -1))


NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "machine": _machines,
    "name": _machines,
    "explain": _codes,
    "select": _codes,
    "ignore": _codes,
    "kube": _releases,
}


if __name__ == "__main__":
    sys.exit(kubectl())

"""The ``numawise`` command: a table of commands, loaded when they run, and one place for errors.

Exit status: 0 yes · 1 no (rejected, findings) · 2 bad input · 3 host · 4 ledger · 5 cluster.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM, COMPLETE = "numawise", "_NUMAWISE_COMPLETE"
COMMANDS = {
    "agent": "A Kubernetes node's agent: offer devices with their NUMA nodes to the kubelet.",
    "bind": "Run one rank of a job on the CPUs and memory near to its GPU.",
    "bundle": "Collect a node into one small file without names, for every other command.",
    "capacity": "How many more pods of these shapes would the nodes let in now?",
    "check": "Lint kubelet configurations, machines, state files and pods, together.",
    "discover": "Read this machine, a sysfs tree, or saved output of lscpu and other tools.",
    "docker": "Start a Docker container on CPUs, memory and GPUs that belong together.",
    "doctor": "What on this host stands in the way of alignment, and what to do.",
    "exec": "Run a command inside a running hold: a debugger, a shell, a sidecar.",
    "flags": "A placement as text for numactl, containers, systemd, Slurm and Kubernetes.",
    "heal": "Pods that kubelets refuse: say why, hold their owners, clean up.",
    "history": "Which jobs ended on this host, when and how.",
    "lab": "Virtual nodes on any API server that admit pods exactly as kubelets do.",
    "machine": "Make machine files from a description or a catalogue of known servers.",
    "manifest": "The objects that run numawise in a cluster, for kubectl apply and delete.",
    "ps": "Who holds which CPUs, memory and GPUs on this host.",
    "reap": "Free what dead jobs held on this host.",
    "release": "Give holds back before their jobs end.",
    "run": "Run a job on CPUs, memory and GPUs that belong together.",
    "nerdctl": "Likewise with nerdctl (containerd).",
    "nodes": "What is free on every node of a cluster, by NUMA node, and what fits there?",
    "plan": "Kubelet configurations, policy switches and pods that will be aligned.",
    "podman": "Likewise with podman.",
    "replay": "Run recorded scenarios through the engine, in the recording's form.",
    "scheduler": "Tell kube-scheduler what every kubelet would say: an extender, aligned and kept whole.",
    "schema": "The JSON Schema of what -o json prints.",
    "serve": "A page that shows the machine, why, and what if; and its API.",
    "setup": "Prepare a box that several people share, or take that back.",
    "show": "Draw a machine: NUMA nodes, caches, cores, GPUs, NICs and their links.",
    "simulate": "What would a kubelet do with these pods on this machine?",
    "state": "A kubelet's state files: show, verify, repair, convert.",
    "top": "What the jobs on this host use: CPUs and memory, again and again.",
    "verify": "Whether jobs are where they should be: threads, pages and GPUs.",
    "why": "Why is this pod rejected, and what is the smallest change that lets it in?",
}


SECTIONS = {
    "On one host": (
        "run",
        "docker",
        "podman",
        "nerdctl",
        "bind",
        "exec",
        "flags",
        "ps",
        "top",
        "history",
        "verify",
        "release",
        "reap",
    ),
    "The machine": ("show", "serve", "discover", "machine", "doctor", "setup"),
    "Kubernetes": (
        "why",
        "simulate",
        "nodes",
        "capacity",
        "check",
        "plan",
        "state",
        "bundle",
        "agent",
        "heal",
        "scheduler",
        "lab",
        "manifest",
        "replay",
    ),
    "For programs": ("schema",),
}
"""How the help groups the commands; the most used first."""
CHANGES = frozenset(
    [
        "agent",
        "bind",
        "docker",
        "exec",
        "heal",
        "lab",
        "nerdctl",
        "podman",
        "reap",
        "release",
        "run",
        "scheduler",
        "setup",
    ]
)
"""Commands that start, change or remove something: a word that only resembles one does not mean it."""
HELP = "help"
MEANT = {
    "describe": ("why", "show"),
    "diagnose": ("why", "doctor"),
    "docs": (HELP,),
    "explain": ("why",),
    "get": ("nodes", "ps", "why"),
    "info": ("show", "--version"),
    "lint": ("check",),
    "list": ("ps", "nodes", "machine list"),
    "log": ("why --log FILE",),
    "logs": ("why --log FILE",),
    "lscpu": ("discover",),
    "lstopo": ("show",),
    "man": (HELP,),
    "numactl": ("run", "flags"),
    "pod": ("why", "simulate"),
    "pods": ("why", "simulate"),
    "predict": ("simulate",),
    "status": ("ps", "doctor", "nodes"),
    "taskset": ("run", "flags"),
    "topo": ("show",),
    "topology": ("show", "nodes"),
    "usage": ("top", HELP),
    "validate": ("check",),
    "version": ("--version",),
}
"""Words of other programs, and what they mean here."""
HOME = {"podman": "docker", "nerdctl": "docker"}
"""Commands that are another one with another engine."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and help, and imports one when it is called for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All commands, by name."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"numawise.cli.{HOME.get(cmd_name, cmd_name)}")
        command: click.Command = module.container_command(cmd_name) if cmd_name in HOME else module.command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take ``help COMMAND``; say how to make a launcher stop that puts a rank before the command."""
        if args[:2] == [HELP, HELP]:
            args = ["--help"]
        elif args[:1] == [HELP]:
            below = self.get_command(ctx, args[1]) if len(args) > 1 else None
            args = [
                *args[1 : 3 if isinstance(below, click.Group) else 2],
                "--help",
            ]  # and nothing that is run
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in ("--local_rank", "--local-rank"):
                raise
            what = f"{error.option_name} stands before the command, where the launcher put it"
            advice = "start deepspeed with --no_local_rank, torch.distributed.launch with --use-env"
            raise click.UsageError(f"{what}: {advice}.", ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and say which one may have been meant when there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from numawise.errors import meant  # noqa: PLC0415 - for mistakes alone

            near = meant(args[0], COMMANDS.keys() - CHANGES)
            words = MEANT.get(args[0].lower()) or ((near,) if near else ())
            if not words:
                raise
            known = " or ".join(f"'{word}'" for word in words)
            raise click.UsageError(f"{error.message} Did you mean {known}?", ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Complete the commands without importing any of them."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - shells alone ask

        names = [
            CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing any of them."""
        left = set(COMMANDS)
        for title, names in (
            *SECTIONS.items(),
            ("More", tuple(sorted(left - {*sum(SECTIONS.values(), ())}))),
        ):
            known = [(name, COMMANDS[name]) for name in names if name in left]
            if known:
                with formatter.section(title):
                    formatter.write_dl(known)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 yes, 1 no, 2 bad input, 3 host, 4 ledger, 5 cluster.  'numawise help COMMAND' "
    "shows examples.",
)
@click.version_option(package_name="numawise", message="%(prog)s %(version)s")
def group() -> None:
    """CPUs, memory and GPUs that belong together: decided exactly as the kubelet does it."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; errors become one sentence and an exit status."""
    from numawise.render.terminal import printing  # noqa: PLC0415 - the table above needs nothing else

    with printing():
        status = _status(lambda: _command(arguments))
        return _status(sys.stdout.flush) or status


def _command(arguments: list[str] | None) -> Any:  # noqa: ANN401 - what a command returns
    if COMPLETE in os.environ:
        from numawise.cli.completion import complete  # noqa: PLC0415 - shells alone ask

        return complete(os.environ[COMPLETE])
    color = False if os.environ.get("NO_COLOR") else None
    return group.main(args=arguments, prog_name=PROGRAM, standalone_mode=False, color=color)


def _status(act: Callable[[], Any]) -> int:
    """The exit status of an act; what goes wrong is said."""
    from numawise.cli.options import say  # noqa: PLC0415
    from numawise.errors import LONGEST_MESSAGE, HostError, NumawiseError, cut  # noqa: PLC0415

    try:
        status = act()
    except NumawiseError as error:
        say(str(error))
        return error.exit_code
    except click.ClickException as error:
        error.message = cut(error.message, LONGEST_MESSAGE)  # type: ignore[misc]
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        return 130
    except (BrokenPipeError, SystemExit):  # the reader has gone; click leaves this way, too
        return 141
    except Exception as error:
        if os.environ.get("NUMAWISE_DEBUG"):
            raise
        if isinstance(error, OSError):
            where = f"{error.filename}: " if error.filename else ""
            say(f"{where}{error.strerror or error}; check this file, and what the host logs about it")
            return HostError.exit_code
        say(f"internal error: {type(error).__name__}: {error}; please report it, with NUMAWISE_DEBUG=1 set")
        return 70
    return status if isinstance(status, int) else 0


if __name__ == "__main__":
    sys.exit(main())

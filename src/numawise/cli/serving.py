"""Options of commands that go on for ever: where they answer, how they log, which cluster they serve."""

import math
import sys
from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, Any

import click

from numawise.errors import InputError, quoted
from numawise.strconv import whole_number

if TYPE_CHECKING:
    from numawise.service.log import ServiceLog

OFF = "off"


def listen_option(default: str) -> Callable[[Any], Any]:
    """Where the pages are, of a program that answers nothing else."""
    return _health_option("--listen", default)


def pages_option(default: str) -> Callable[[Any], Any]:
    """Where the pages are, of a program that listens elsewhere for what it does."""
    return _health_option("--pages", default)


def _health_option(name: str, default: str) -> Callable[[Any], Any]:
    return click.option(
        name,
        default=default,
        show_default=True,
        metavar="ADDRESS:PORT",
        help="Where /healthz, /readyz and /metrics are answered; 'off' for nowhere.",
    )


log_option = click.option(
    "--log",
    "log_form",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    show_default=True,
    help="How the log on standard error is written; auto is text on a terminal and JSON elsewhere.",
)


CLUSTER_OPTIONS = (
    click.option(
        "--kubeconfig", default="", metavar="FILE", help="How to reach the cluster; in a pod, its account."
    ),
    click.option("--context", "cluster", default="", metavar="NAME", help="The context of the kubeconfig."),
)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--kubeconfig`` and ``--context``."""
    for option in reversed(CLUSTER_OPTIONS):
        command = option(command)
    return command


def _seconds(name: str, least: float, most: float, default: float, text: str) -> Callable[..., Any]:
    """An option that is a number of seconds."""
    kind = click.FloatRange(least, most)
    return click.option(name, type=kind, default=default, show_default=True, metavar="SECONDS", help=text)


WAITING_OPTIONS = (
    _seconds(
        "--patience",
        0,
        10**7,
        300,
        "A pod that has waited so long gets a place kept: nobody of its priority who came later, and "
        "nobody of a lower one, takes it away.",
    ),
    click.option(
        "--kept-places",
        type=click.IntRange(0, 8),
        default=1,
        show_default=True,
        metavar="N",
        help="How many places are kept for the pods of one namespace at a time; 0: none is ever kept.",
    ),
    _seconds(
        "--kept-seconds",
        1,
        10**7,
        1800,
        "How long a place is kept; then the namespace has none in its stead for as long.",
    ),
    _seconds("--promise", 1, 3600, 30, "How long a node counts as chosen for a pod that is not seen bound."),
)
"""How the extender treats pods that wait."""


def waiting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--patience``, ``--kept-places``, ``--kept-seconds`` and ``--promise``."""
    for option in reversed(WAITING_OPTIONS):
        command = option(command)
    return command


def check_waiting(given: Mapping[str, Any]) -> None:
    """What is no number passes click's bounds."""
    for name in ("patience", "kept_seconds", "promise"):
        if not math.isfinite(given[name]):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} {quoted(given[name])} is not a number of seconds")


def listen_address(text: str, default: str, field: str = "--listen") -> tuple[str, int] | None:
    """An address and a port; None: nowhere."""
    return None if text == OFF else needed_address(text, f"{default}, or 'off'", field)


def needed_address(text: str, likeness: str, field: str = "--listen") -> tuple[str, int]:
    """An address and a port, where nothing is done without one; ``likeness``: what may be written."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not port.isascii() or whole_number(port) > 65535:
        raise InputError(
            f"{field} {quoted(text)} is not an address and a port", advice=f"write it like {likeness}"
        )
    return host.strip("[]") or "127.0.0.1", whole_number(port)


def service_log(form: str, stream: IO[str] | None = None) -> "ServiceLog":
    """The log, on standard error unless something else is named."""
    from numawise.service.log import ServiceLog  # noqa: PLC0415 - keeps --help quick

    stream = stream or sys.stderr
    return ServiceLog(stream, structured=form == "json" or (form == "auto" and not stream.isatty()))

"""The flags that say what a job wants, the same for every command that places one."""

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from numawise.errors import InputError, quoted

if TYPE_CHECKING:
    from numawise.apps.launch.request import JobRequest
    from numawise.host.settings import HostSettings

Command = TypeVar("Command", bound=Callable[..., Any])
DURATION = re.compile(
    r"(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)s?)?", re.ASCII
)
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
MEMORY_POLICIES = ("bind", "preferred", "interleave")
NAMES = (
    *("cpus", "memory", "gpus", "gpu_ids", "devices", "nics", "policy", "full_cores", "name"),
    *("numa", "cpu_ids", "exclusive", "memory_policy", "ignore_affinity", "like"),
)
TEXTS = ("cpus", "memory", "gpus", "gpu_ids", "name", "numa", "cpu_ids", "exclusive", "like")
"""Given, they say something."""


def placement_options(command: Command) -> Command:
    """Add the flags of a request to a command; ``request_of`` takes them out of its arguments again."""
    options = (
        click.option(
            "--cpus",
            metavar="N",
            help="Exclusive CPUs; a fraction (0.5, 1500m): in the shared pool.",
        ),
        click.option("--memory", metavar="SIZE", help="Memory, such as 64g or 64Gi (the same)."),
        click.option(
            "--memory-policy",
            type=click.Choice(MEMORY_POLICIES),
            help="Pages from its NUMA nodes alone (bind), from others when these are full (preferred), or "
            "from all of its nodes in turn.  [default: preferred; bind under restricted, single-numa-node]",
        ),
        click.option(
            "--gpus",
            metavar="N|all",
            help="Number of GPUs, of which the best linked are taken; or all of them.",
        ),
        click.option("--gpu-ids", metavar="LIST", help="These GPUs: 0-3,6 or UUIDs or PCI addresses."),
        click.option("--cpu-ids", metavar="LIST", help="These CPUs, exclusive: 0-7 or 0-3,64-67."),
        click.option("--numa", metavar="LIST", help="All of it from these NUMA nodes: 1 or 0-1."),
        click.option(
            "--exclusive",
            is_flag=False,
            flag_value="numa",
            metavar="[numa|machine]",
            help="The whole NUMA nodes that it is placed on, or the whole machine.",
        ),
        click.option(
            "--device", "devices", metavar="RESOURCE=N", multiple=True, help="Other devices, such as nvme=1."
        ),
        click.option(
            "--nics", metavar="N", type=click.IntRange(1, 1000), help="Network cards, nearest to the GPUs."
        ),
        click.option(
            "--policy",
            type=click.Choice(POLICIES),
            help="Topology policy; best-effort unless configured otherwise.",
        ),
        click.option(
            "--like", metavar="HOLD", help="As much as this hold asked for, but for what is given beside it."
        ),
        click.option("--full-cores", is_flag=True, help="Whole cores only, shared with no other job."),
        click.option(
            "--ignore-affinity",
            is_flag=True,
            help="Do not keep within what this was started with: taskset, numactl, CUDA_VISIBLE_DEVICES.",
        ),
        click.option("--name", metavar="NAME", help="Name of the hold.  [default: the command's]"),
    )
    for option in reversed(options):
        command = option(command)
    return command


wait_option = click.option(
    "--wait",
    is_flag=False,
    flag_value="forever",
    default="",
    metavar="[SECONDS]",
    help="Wait for room, at most this long; first come, first served.",
)


def request_of(arguments: dict[str, Any], settings: "HostSettings") -> "JobRequest":
    """Take the flags of a request out of a command's arguments; the rest is as the settings say."""
    from numawise.apps.launch.request import read_request  # noqa: PLC0415 - keeps --help quick

    given = {name: arguments.pop(name) for name in NAMES}
    for name in TEXTS:
        if given[name] == "":  # an unset variable must not mean less care, or every GPU
            raise InputError(
                "is empty",
                field=f"--{name.replace('_', '-')}",
                advice="give a value, or leave the option out; is a variable of the shell unset?",
            )
    for name in ("cpus", "memory", "name", "numa", "cpu_ids", "exclusive"):
        given[name] = given[name] or ""
    if given["like"]:
        from numawise.apps.launch.held import request_like  # noqa: PLC0415 - reads the ledger

        given["like"] = request_like(given["like"], os.environ, settings)
    given["policy"] = given["policy"] or ("" if given["like"] else settings.policy)
    given["gpus"], given["nics"] = given["gpus"] or 0, given["nics"] or 0
    return read_request(**given)


def seconds(text: str) -> float:
    """How long ``--wait`` means: not at all, without limit, or so many seconds."""
    if not text:
        return 0.0
    if text == "forever":
        return float("inf")
    return duration(text, "--wait", "write --wait=60 or --wait=10m, or --wait alone before --")


def duration(text: str, field: str, advice: str) -> float:
    """Seconds: ``90``, ``90m``, ``1h30m``, ``2d``."""
    found = DURATION.fullmatch(text)
    if not text or not found:
        raise InputError(f"{quoted(text)} is not a number of seconds", field=field, advice=advice)
    amounts = zip(found.groups(), (86400, 3600, 60, 1), strict=True)
    return sum(float(amount) * unit for amount, unit in amounts if amount)

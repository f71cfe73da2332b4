"""Every option and argument of every command with texts that no person would type: a sentence, never a crash."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from numawise.cli.main import COMMANDS, group
from tests.cli.run import EXAMPLES, Ran, program

VALUES = {
    "longer than a file name": "x" * 300,
    "longer than a path": "a/" * 3000,
    "escapes": "x\x1b[31m\nred\u202e\x9b",
    "bytes that are not UTF-8": "caf\udce9",
    "digits": "9" * 5000,
    "a size": "9" * 5000 + "Gi",
    "an amount": f"cpu={'9' * 5000}",
    "a range": "0-" + "9" * 5000,
    "nested": "[" * 20_000,
    "superscript": "²",
}
SERVER = EXAMPLES / "3gpu-server"
CONFIG, STATE = SERVER / "kubelet.yaml", EXAMPLES / "8gpu-server/state"
POD = str(SERVER / "pods/01-3cpu/a-3cpu.yaml")
NODE = {"--machine": str(SERVER / "machine.yaml"), "--kubelet-config": str(CONFIG)}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "simulate": NODE, "why": NODE, "check": NODE, "plan kubelet": {"--machine": "8gpu-server"},
    "plan pod": {"--image": "box", "--cpus": "2"}, "state convert": {"--to": "1.33"}, "bind": {"--local-size": "2"},
}  # fmt: skip
"""What else a command needs, unless it is what is tried."""
WORDS: Mapping[str, list[str]] = {
    "simulate": [POD], "why": [POD], "check": [POD], "plan switch": [str(CONFIG), str(CONFIG)], "release": ["none"],
    "setup": ["--dry-run"], "serve": ["--dry-run"], "machine new": ["4c"], "replay": [], "bundle show": [], "bind": ["--dry-run"], "run": ["--dry-run", "--", "true"],
    **{engine: ["--print", "--", "run", "image"] for engine in ("docker", "podman", "nerdctl")},
    **{f"state {name}": [str(STATE)] for name in ("show", "verify", "repair", "convert")},
}  # fmt: skip
ALONE = {"--hints": ["why", "--policy", "restricted"], "--log": ["why"], "--since": ["why", "--log", POD]}
"""Options that go with others than the rest of their command."""
STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LONGEST = 3500


def leaves() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from (((name, below), inner) for below, inner in command.commands.items())
        else:
            yield (name,), command


def lines() -> Iterator[tuple[str, list[str]]]:
    """An id and a command line with ``VALUE`` in it, for every option and argument."""
    for words, command in leaves():
        name = " ".join(words)
        options, after = OPTIONS.get(name, {}), WORDS.get(name, [])
        for parameter in command.params:
            if isinstance(parameter, click.Argument):
                given = [f"{key}={value}" for key, value in options.items()]
                yield f"{name} {parameter.name}", [*words, *given, "--", "VALUE"]
            elif not parameter.is_flag and "--watch" not in parameter.opts:
                option = max(parameter.opts, key=len)
                others = [f"{key}={value}" for key, value in options.items() if key not in parameter.opts]
                line = [*words, f"{option}=VALUE", *others, *after]
                yield f"{name} {option}", [*ALONE[option], f"{option}=VALUE"] if option in ALONE else line


def judge(ran: Ran) -> None:
    assert ran.status in range(6), ran.err[-500:]
    assert "Traceback" not in ran.err
    assert not STEERING.search(ran.out + ran.err)
    assert max(map(len, ran.err.splitlines()), default=0) < LONGEST


@pytest.mark.parametrize(("line"), [pytest.param(line, id=name) for name, line in lines()])
def test_hostile_arguments(line: list[str], tmp_path: Path) -> None:
    settings = {"NUMAWISE_LEDGER": str(tmp_path / "ledger"), "HOME": str(tmp_path), "KUBECONFIG": ""}
    for value in VALUES.values():
        judge(program(*(word.replace("VALUE", value) for word in line), cwd=tmp_path, **settings))

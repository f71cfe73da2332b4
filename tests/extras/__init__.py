"""Every command without the libraries that an extra would bring: what it says, and that it ends.

``tests/kube/test_extras.py`` hides libraries from one interpreter; ``python -m tests.extras`` (make extras) installs the
wheel with each extra in an environment of its own.  Both run the same commands, below.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any

import click
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from numawise.cli.main import group
from numawise.host.pod_groups import group_trees
from tests.cli.run import ROOT, Ran

PROGRAM = Path(__file__).with_name("program.py")
CORE = "core"
ENVIRONMENTS = (CORE, "kube", "web", "agent", "cluster")
SERVER = "http://127.0.0.1:1"
"""Nobody listens there."""
UNREACHABLE = "http://127.0.0.1:1 cannot be reached: Connection refused"
CLUSTER = ("kube", "agent", "cluster")
"""Extras that bring what asks an API server."""
NODE = ("--machine", "8gpu-server", "--kubelet-config", "examples/8gpu-server/kubelet.yaml")
PODS = "examples/8gpu-server/pods/01-single-gpu-training.yaml"
STATE = "examples/8gpu-server/state/after-reboot"


@dataclass(frozen=True, slots=True)
class Case:
    """A command line, and what it needs."""

    words: tuple[str, ...]
    extra: str = ""
    """The extra that it names where something is missing; '': it needs none."""
    enough: tuple[str, ...] = ENVIRONMENTS
    """Where nothing is missing."""
    status: int | None = None
    """How it ends there; None: as it likes, but by no mistake of ours."""
    until: str = ""
    """It goes on there until this stands on its standard error and a signal comes."""

    @property
    def name(self) -> str:
        return " ".join(self.words)


def asking(*words: str) -> Case:
    """A command that asks the cluster, and fails because it is not there."""
    return Case(words, "kube", CLUSTER, 5)


WATCHES = 0 if group_trees() else 3
"""How a watcher ends: it needs control groups with the cpuset controller."""
CASES: dict[str, tuple[Case, ...]] = {
    "agent": (
        Case(("agent", "--device-plugin", "--fake", "examples/agent/fake.yaml", "--dry-run"), status=0),
        Case(("agent", "--definition"), status=0),
        Case(("agent", "--export", "--node", "n", "--dry-run"), "agent", ("agent",)),
        Case(("agent", "--export", "--node", "n", "--listen", "off"), "agent", ("agent",), 0, UNREACHABLE),
        Case(("agent", "--watch", "--node", "n", "--listen", "off"), "agent", ("agent",), WATCHES, UNREACHABLE),
        Case(
            ("agent", "--device-plugin", "--fake", "examples/agent/fake.yaml", "--kubelet-dir", "{folder}", "--listen", "127.0.0.1:0"),
            "agent",
            ("agent",),
            0,
            "listening",
        ),
    ),
    "bind": (Case(("bind", "--dry-run", "--", "true")),),
    "bundle": (asking("bundle", "--node", "n", "--kubeconfig", "{kubeconfig}", "-o", "{folder}/node.tar.gz"),),
    "bundle show": (Case(("bundle", "show", "{folder}/none.tar.gz"), status=2),),
    "capacity": (
        asking("capacity", PODS),
        Case(("capacity", "--nodes", "8gpu-server:2", *NODE[2:], PODS), status=0),
    ),
    "check": (Case(("check", *NODE, PODS)),),
    "discover": (Case(("discover",)),),
    "docker": (Case(("docker", "--dry-run", "--", "run", "box")),),
    "doctor": (Case(("doctor",)),),
    "exec": (Case(("exec", "--dry-run", "nobody", "--", "true")),),
    "flags": (Case(("flags", "--machine", "8gpu-server", "--cpus", "2"), status=0),),
    "heal": (
        Case(("heal", "--once"), "cluster", CLUSTER, 5),
        Case(("heal", "--defrag", "x"), "cluster", CLUSTER, 5),
        Case(("heal", "--policy"), status=0),
        Case(("heal", "--listen", "127.0.0.1:0"), "cluster", CLUSTER, 0, UNREACHABLE),
        Case(("heal", "--apply", "--listen", "off"), "cluster", CLUSTER, 0, UNREACHABLE),
    ),
    "history": (Case(("history",)),),
    "lab": (
        Case(("lab", "--remove"), "cluster", ("agent", "cluster"), 5),
        Case(("lab", "--nodes", "8gpu-server:2", *NODE[2:], "--listen", "off"), "cluster", ("agent", "cluster"), 5),
    ),
    "machine list": (Case(("machine", "list"), status=0),),
    "machine new": (Case(("machine", "new", "1s", "4c"), status=0),),
    "machine show": (Case(("machine", "show", "dgx-h100"), status=0),),
    "manifest": (Case(("manifest", "--image", "registry.example.com/numawise:1", "--tls", "cert-manager")),),
    "nerdctl": (Case(("nerdctl", "--dry-run", "--", "run", "box")),),
    "nodes": (asking("nodes"), Case(("nodes", "--nodes", "8gpu-server:2", *NODE[2:]), status=0)),
    "plan kubelet": (Case(("plan", "kubelet", "--machine", "dgx-h100", "--goal", "training"), status=0),),
    "plan pod": (Case(("plan", "pod", "--machine", "dgx-h100", "--gpus", "1", "--image", "train:1")),),
    "plan switch": (Case(("plan", "switch", NODE[3], NODE[3], *NODE[:2])),),
    "podman": (Case(("podman", "--dry-run", "--", "run", "box")),),
    "ps": (Case(("ps",)),),
    "reap": (Case(("reap",)),),
    "release": (Case(("release", "nobody")),),
    "replay": (Case(("replay", "--jobs", "1", "{folder}/none.jsonl")),),
    "run": (Case(("run", "--dry-run", "--cpus", "1", "--", "true")),),
    "scheduler": (
        Case(("scheduler", "--listen", "127.0.0.1:0", "--pages", "127.0.0.1:0"), "cluster", ("cluster",), 0, UNREACHABLE),
        Case(("scheduler", "--dry-run"), status=0),
        Case(("scheduler", "--print-config"), status=0),
    ),
    "schema": (Case(("schema",), status=0),),
    "serve": (
        Case(("serve", "--dry-run"), "web", ("web",), 0),
        Case(("serve", "--listen", "127.0.0.1:0"), "web", ("web",), 0, "the page is at"),
        Case(("serve", "--cluster", "--listen", "127.0.0.1:0"), "web,kube", (), 0, UNREACHABLE),
    ),
    "setup": (Case(("setup", "--dry-run", "--root", "{folder}")),),
    "show": (Case(("show", "dgx-h100"), status=0),),
    "simulate": (Case(("simulate", *NODE, PODS), status=0),),
    "state convert": (Case(("state", "convert", STATE, "--to", "1.36")),),
    "state repair": (Case(("state", "repair", STATE, *NODE)),),
    "state show": (Case(("state", "show", STATE)),),
    "state verify": (Case(("state", "verify", STATE, *NODE)),),
    "top": (Case(("top", "--count", "1")),),
    "verify": (Case(("verify", "nobody")), Case(("verify", "--pods", "--kubelet-dir", "{folder}"))),
    "why": (
        asking("why", "pod/x"),
        asking("why", "deploy/x", "--kubeconfig", "{kubeconfig}"),
        Case(("why", *NODE, PODS), status=0),
    ),
}  # fmt: skip
"""Of each command below the table of commands."""


def commands(command: click.Command = group, words: tuple[str, ...] = ()) -> Iterator[str]:
    """The words of every command that does something."""
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    if words and command.invoke_without_command:
        yield " ".join(words)
    for name in command.list_commands(click.Context(command)):
        below = command.get_command(click.Context(command), name)
        assert below is not None
        yield from commands(below, (*words, name))


def cases() -> list[Case]:
    return [case for of_command in CASES.values() for case in of_command]


# --- hiding -----------------------------------------------------------------------------------------


def brought_by(extra: str, name: str = "numawise", seen: set[tuple[str, str]] | None = None) -> set[str]:
    """The packages that come with an extra, the core's among them."""
    seen = set() if seen is None else seen
    if (name, extra) in seen:
        return set()
    seen.add((name, extra))
    names = {name}
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        asked = ("", extra)
        if requirement.marker is not None and not any(
            requirement.marker.evaluate({"extra": one}) for one in asked
        ):
            continue
        other = canonicalize_name(requirement.name)
        for inner in ("", *requirement.extras):
            names |= brought_by(inner, other, seen)
    return names


def hidden(extra: str) -> list[str]:
    """The modules that are installed here, and would not be with this extra alone."""
    kept = brought_by("" if extra == CORE else extra)
    return sorted(
        module
        for module, owners in packages_distributions().items()
        if not kept & {canonicalize_name(owner) for owner in owners}
    )


# --- running ----------------------------------------------------------------------------------------


def kubeconfig() -> str:
    """A file that leads nowhere."""
    name = {"name": "nowhere"}
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "nowhere",
        "clusters": [name | {"cluster": {"server": SERVER}}],
        "users": [name | {"user": {"token": "none"}}],
        "contexts": [name | {"context": {"cluster": "nowhere", "user": "nowhere"}}],
    }
    return json.dumps(value)


@dataclass(frozen=True, slots=True)
class Environment:
    """What was run with an extra."""

    extra: str
    ran: dict[str, Ran] = field(default_factory=dict)

    def check(self, case: Case) -> None:
        """A case did what it should."""
        ran = self.ran[case.name]
        whole = f"{ran.status}\n{ran.out[-2000:]}\n{ran.err[-4000:]}"
        assert "Traceback" not in ran.out + ran.err, whole
        assert "internal error" not in ran.err, whole
        if self.extra not in case.enough:
            assert ran.status == 2, whole
            assert not ran.out, whole
            (line,) = ran.err.splitlines()
            said = rf"numawise: \w+ is not installed, which comes with the extra {case.extra}; .*\[{case.extra}\]'?"
            assert re.fullmatch(said, line), whole
            return
        assert ran.status in ((0, 1, 2, 3, 4, 5) if case.status is None else (case.status,)), whole
        assert "is not installed, which comes with" not in ran.err, whole


def run_all(extra: str, interpreter: str, folder: Path, unwanted: Sequence[str] = ()) -> Environment:
    """Run every case, each in a process that the interpreter forks."""
    (folder / "kubeconfig").write_text(kubeconfig())
    places = {"folder": str(folder), "kubeconfig": str(folder / "kubeconfig")}
    wishes = [
        {
            "words": [word.format(**places) for word in case.words],
            "until": case.until if extra in case.enough else "",
        }
        for case in cases()
    ]
    request = {"hidden": [*unwanted], "cases": wishes, "folder": str(folder)}
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "KUBECONFIG": places["kubeconfig"],
        "NUMAWISE_LEDGER": str(folder / "ledger"),
        "XDG_CONFIG_HOME": str(folder / "settings"),
    }  # fmt: skip
    done = subprocess.run(
        [interpreter, "-P", str(PROGRAM)],
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
        env=environment,
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    ran = {case.name: Ran(**answer) for case, answer in zip(cases(), answers, strict=True)}
    return Environment(extra, ran)

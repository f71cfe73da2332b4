"""A switch as numbered steps for people, and as data."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from numawise.apps.plan.switch import Switch
from numawise.apps.plan.switch_script import Place
from numawise.codec.checkpoint import CPU_FILE, MEMORY_FILE
from numawise.results.plain import API_VERSION
from numawise.rules.versions import shown

POD_COLUMNS = ("POD", "BY A RESTART", "CREATED ANEW", "WHY")
LONGEST = 60
PINNED = (CPU_FILE, MEMORY_FILE)
SURROUNDS = re.compile(
    r"^start \w+ manager error: (?:could not restore state from checkpoint: )?(?:\[\w+\] )?"
    r"|, please drain this node .*$"
)
Data = dict[str, object]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a switch."""

    title: str
    commands: tuple[str, ...] = ()
    why: str = ""


def steps_of(switch: Switch, place: Place, new: str) -> tuple[Step, ...]:
    """The steps in order; ``new``: the file with the new configuration."""
    return tuple(_steps(switch, place, new))


def _steps(switch: Switch, place: Place, new: str) -> Iterator[Step]:
    node = shlex.quote(place.node) if place.node else "NODE"
    service, config = shlex.quote(place.service), shlex.quote(place.config)
    files = [f"{place.directory}/{one.name}" for one in switch.files if one.name in PINNED]
    yield Step("Cordon the node", (f"kubectl cordon {node}",), "no new pod comes while the kubelet is down")
    if switch.drain:
        drain = (
            f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data --timeout={place.drain_timeout}"
        )
        yield Step("Drain it", (drain,), switch.drain)
    yield Step("Stop the kubelet", (f"systemctl stop {service}",), "it would write its state files again")
    backup = f"{place.directory}/backup"
    copies = " ".join(shlex.quote(name) for name in (place.config, *files))
    yield Step(
        "Keep the old files", (f"mkdir -p {shlex.quote(backup)}", f"cp -p {copies} {shlex.quote(backup)}")
    )
    for verdict in switch.files:
        if verdict.remove:
            path = shlex.quote(f"{place.directory}/{verdict.name}")
            yield Step(f"Remove {verdict.name}", (f"rm -f {path}",), brief(verdict.why))
    yield Step("Write the new configuration", (f"cp {shlex.quote(new)} {config}",))
    yield Step("Start the kubelet", (f"systemctl start {service}",))
    checks = [f"systemctl is-active {service}"]
    for name, policy in switch.policies:
        checks.append(
            f'grep -o \'"policyName":"[^"]*"\' {shlex.quote(f"{place.directory}/{name}")}  # {policy}'
        )
    checks.append(f"kubectl wait --for=condition=Ready node/{node} --timeout=180s")
    yield Step("Verify", tuple(checks))
    yield Step("Uncordon the node", (f"kubectl uncordon {node}",))


def brief(message: str) -> str:
    """What the kubelet says of a state file, without what surrounds it."""
    return SURROUNDS.sub("", message)


def switch_lines(switch: Switch, place: Place, new: str) -> list[str]:
    """The steps and what led to them, as text."""
    lines = ["Changes:"] if switch.fields else ["The two configurations are the same."]
    lines += [f"  {one.name}: {_value(one.old)} -> {_value(one.new)}" for one in switch.fields]
    if switch.files:
        lines += ["", "State files:"]
        lines += [
            f"  {one.name}: {'remove' if one.remove else 'keep'}, {brief(one.why)}" for one in switch.files
        ]
    lines.append("")
    if not switch.drain:
        lines += ["No pod has to leave: every state file stays, and the restart admits all pods again.", ""]
    for number, step in enumerate(steps_of(switch, place, new), 1):
        why = f" ({step.why})" if step.why else ""
        lines.append(f"{number}. {step.title}{why}")
        lines += [f"     {command}" for command in step.commands]
    return lines


def pod_rows(switch: Switch) -> list[tuple[str, ...]]:
    """A row for each pod, under ``POD_COLUMNS``."""
    return [(one.name, one.restart or "-", one.anew or "-", one.words or "-") for one in switch.pods]


def switch_data(switch: Switch, place: Place, new: str) -> Data:
    """The switch as JSON."""
    return {
        "apiVersion": API_VERSION,
        "kind": "SwitchPlan",
        "kubernetes": shown(switch.request.version),
        "node": place.node or None,
        "refusal": switch.refusal or None,
        "changes": {one.name: {"old": one.old, "new": one.new} for one in switch.fields},
        "stateFiles": [{"file": one.name, "remove": one.remove, "why": one.why} for one in switch.files],
        "drain": switch.drain or None,
        "steps": []
        if switch.refusal
        else [
            {"title": step.title, "commands": list(step.commands), "why": step.why or None}
            for step in steps_of(switch, place, new)
        ],
        "pods": [
            {
                "name": one.name,
                "restart": one.restart or None,
                "createdAnew": one.anew or None,
                "why": one.words or None,
            }
            for one in switch.pods
        ],
        "remarks": list(switch.remarks),
    }


def _value(value: object) -> str:
    if value is None:
        return "(not set)"
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

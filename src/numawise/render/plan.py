"""Plans in words and as data: configurations with reasons, pods with comments, switches in steps."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator

from numawise.codec.checkpoint import CPU_FILE, MEMORY_FILE
from numawise.codec.output import annotated_yaml, comment_lines, manifest_yaml
from numawise.machine.hardware import Hardware
from numawise.quantity import Quantity
from numawise.render.picture.layout import summary
from numawise.render.words import clean, counted
from numawise.results.alignment import Alignment, ResourceAlignment
from numawise.results.plain import API_VERSION, plain
from numawise.results.plan import (
    Entry,
    KubeletPlace,
    KubeletPlan,
    PlannedPod,
    PlatformPlan,
    PodPlan,
    SwitchPlan,
    SwitchStep,
)
from numawise.rules.versions import shown
from numawise.sets import format_ids

Data = dict[str, object]
MEBI = 1 << 20
FEW = 16
"""NUMA nodes up to which each has its line."""


def kubelet_plan_yaml(plan: KubeletPlan, hardware: Hardware) -> str:
    """The configuration, ready to be used, with its reasons as comments."""
    text = annotated_yaml(plan.entries, tuple(_header(plan, hardware)))
    if not plan.kept:
        return text
    return f"{text}\n{comment_lines(['Kept as it was.'])}{manifest_yaml(dict(plan.kept))}"


def _header(plan: KubeletPlan, hardware: Hardware) -> Iterator[str]:
    goal = plan.goal
    name = clean(hardware.name) or "this machine"
    yield f"{name}: {summary(hardware)}"
    yield f"For {goal.goal}, Kubernetes {shown(goal.version)}. Tried by simulation: {plan.trial}."
    if not plan.kept:
        yield (
            "It says what the managers need, and is not a whole configuration: keep the other fields of the "
            "node beside it (--kubelet-config FILE lays it over them)."
        )
    rooms = [one for one in plan.capacities if one.cpus or one.memory or one.devices]
    if len(rooms) <= FEW:
        for one in rooms:
            yield f"NUMA {one.numa} can give {_room(one.cpus, one.memory, one.devices)}."
    for size, count in goal.hugepages:
        nodes = ",".join(f"{numa}:{count}" for numa in plan.machine.layout.numas)
        page = size.removesuffix("i")
        yield "Reserve the huge pages at boot:"
        yield f"  hugepagesz={page} hugepages={nodes}"
    for remark in plan.remarks:
        yield f"Note: {remark}"


def _room(cpus: int, memory: int, devices: tuple[tuple[str, int], ...]) -> str:
    parts = [counted(cpus, "CPU"), str(Quantity.of(memory // MEBI * MEBI))]
    parts += [f"{count} {resource}" for resource, count in devices]
    return ", ".join(parts)


def kubelet_plan_data(plan: KubeletPlan, hardware: Hardware) -> Data:
    """The plan as JSON."""
    return {
        "apiVersion": API_VERSION,
        "kind": "KubeletPlan",
        "machine": {"name": hardware.name or None, "summary": summary(hardware)},
        "goal": plan.goal.goal,
        "kubernetes": shown(plan.goal.version),
        "configuration": plan.config,
        "reasons": dict(_reasons(plan.entries, "")),
        "rooms": [
            {"numa": one.numa, "cpus": one.cpus, "memory": one.memory, "devices": dict(one.devices)}
            for one in plan.capacities
        ],
        "trial": plan.trial,
        "remarks": list(plan.remarks),
    }


def _reasons(entries: tuple[Entry, ...], path: str) -> Iterator[tuple[str, str]]:
    for entry in entries:
        name = f"{path}.{entry.name}" if path else entry.name
        if entry.why:
            yield name, entry.why
        value = entry.value
        if isinstance(value, tuple) and value and isinstance(value[0], Entry):
            yield from _reasons(tuple(one for one in value if isinstance(one, Entry)), name)


# --------------------------------------------------------------------------------------------------
# Planned pods as manifests with comments, and as data.


def pod_plan_text(plan: PodPlan) -> str:
    """The manifests, ready for kubectl; comments say what was changed, and what came of it."""
    header = comment_lines([line for pod in plan.pods for line in _lines(pod, many=len(plan.pods) > 1)])
    return header + "---\n".join(manifest_yaml(document) for document in plan.manifests)


def _lines(pod: PlannedPod, *, many: bool) -> Iterator[str]:
    if many:
        yield f"{pod.kind} {pod.name}:"
    if not pod.changes:
        yield "Nothing had to be changed."
    for change in pod.changes:
        yield f"{change.where}: {change.text}"
    if pod.proof is not None:
        proof = pod.proof
        fits = f"; {proof.fits} of these fit there" if proof.fits > 1 else ""
        yield f"Tried: {proof.text}{fits}."
        if proof.crosses:
            yield f"{proof.crosses}."
        if proof.instead:
            yield "What would be aligned:"
        for line in proof.instead:
            yield f"  {line}"
    for remark in pod.remarks:
        yield f"Note: {remark}"


def pod_plan_data(plan: PodPlan) -> Data:
    """The plan as JSON."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PodPlan",
        "aligned": plan.good,
        "pods": [_pod_data(pod) for pod in plan.pods],
        "manifests": list(plan.manifests),
    }


def _containers_data(alignment: Alignment) -> list[Data]:
    """What each container has of its own."""
    rows: dict[str, list[ResourceAlignment]] = {}
    for one in alignment.resources:
        rows.setdefault(one.container, []).extend([one] if one.given else [])
    return [
        {
            "name": name,
            "cpus": format_ids(_union(cpus for one in own for _, cpus in one.cpus)),
            "memory": format_ids(_union(one.numa.bits for one in own if one.size)),
            "devices": sorted(device for one in own for device, _ in one.devices),
            "numa": format_ids(_union(one.numa.bits for one in own)),
        }
        for name, own in rows.items()
    ]


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def _pod_data(pod: PlannedPod) -> Data:
    proof = pod.proof
    return {
        "name": pod.name,
        "kind": pod.kind,
        "changes": [{"where": one.where, "text": one.text} for one in pod.changes],
        "proof": None
        if proof is None
        else {
            "admitted": proof.admitted,
            "aligned": proof.aligned,
            "text": proof.text,
            "fits": proof.fits,
            "crosses": proof.crosses or None,
            "instead": list(proof.instead),
            "alignment": plain(proof.alignment),
            "containers": [] if proof.alignment is None else _containers_data(proof.alignment),
        },
        "remarks": list(pod.remarks),
    }


# --------------------------------------------------------------------------------------------------
# A switch as numbered steps for people, and as data.


COMMAND = " " * 5
"""What a line with a command begins with."""
POD_COLUMNS = ("POD", "BY A RESTART", "CREATED AGAIN", "WHY")
LONGEST = 60
PINNED = (CPU_FILE, MEMORY_FILE)
SURROUNDS = re.compile(
    r"^start \w+ manager error: (?:could not restore state from checkpoint: )?(?:\[\w+\] )?"
    r"|, please drain this node .*$"
)


def steps_of(switch: SwitchPlan, place: KubeletPlace, new: str) -> tuple[SwitchStep, ...]:
    """The steps in order, the platform's where it has some; ``new``: the file with the configuration."""
    if switch.platform is not None and switch.platform.steps:
        return switch.platform.steps
    return tuple(_steps(switch, place, new))


def _steps(switch: SwitchPlan, place: KubeletPlace, new: str) -> Iterator[SwitchStep]:
    node = shlex.quote(place.node) if place.node else "NODE"
    service, config = shlex.quote(place.service), shlex.quote(place.config)
    files = [f"{place.directory}/{one.name}" for one in switch.files if one.name in PINNED]
    yield SwitchStep(
        "Cordon the node", (f"kubectl cordon {node}",), "no new pod comes while the kubelet is down"
    )
    if switch.drain:
        drain = (
            f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data --timeout={place.drain_timeout}"
        )
        yield SwitchStep("Drain it", (drain,), switch.drain)
    yield SwitchStep(
        "Stop the kubelet", (f"systemctl stop {service}",), "it would write its state files again"
    )
    backup = f"{place.directory}/backup"
    copies = " ".join(shlex.quote(name) for name in (place.config, *files))
    yield SwitchStep(
        "Keep the old files", (f"mkdir -p {shlex.quote(backup)}", f"cp -p {copies} {shlex.quote(backup)}")
    )
    for verdict in switch.files:
        if verdict.remove:
            path = shlex.quote(f"{place.directory}/{verdict.name}")
            yield SwitchStep(f"Remove {verdict.name}", (f"rm -f {path}",), brief(verdict.why))
    over = "the new one over the old one, as --config-out writes it" if switch.kept else ""
    yield SwitchStep("Write the new configuration", (f"cp {shlex.quote(new)} {config}",), over)
    yield SwitchStep("Start the kubelet", (f"systemctl start {service}",))
    checks = [f"systemctl is-active {service}"]
    for name, policy in switch.policies:
        checks.append(
            f'grep -o \'"policyName":"[^"]*"\' {shlex.quote(f"{place.directory}/{name}")}  # {policy}'
        )
    checks.append(f"kubectl wait --for=condition=Ready node/{node} --timeout=180s")
    yield SwitchStep("Verify", tuple(checks))
    yield SwitchStep("Uncordon the node", (f"kubectl uncordon {node}",))


def brief(message: str) -> str:
    """What the kubelet says of a state file, without what surrounds it."""
    return SURROUNDS.sub("", message)


def switch_lines(switch: SwitchPlan, place: KubeletPlace, new: str) -> list[str]:
    """The steps and what led to them, as text."""
    lines = ["Changes:"] if switch.fields else ["The two configurations are the same."]
    lines += [f"  {one.name}: {_value(one.old)} -> {_value(one.new)}" for one in switch.fields]
    if switch.files:
        lines += ["", "State files:"]
        lines += [
            f"  {one.name}: {'remove' if one.remove else 'keep'}, {brief(one.why)}" for one in switch.files
        ]
    lines.append("")
    platform = switch.platform
    if platform is not None:
        lines += [*_platform_lines(platform), ""]
    if not switch.drain and (platform is None or not platform.steps):
        lines += ["No pod has to leave: every state file stays, and the restart admits all pods again.", ""]
    for number, step in enumerate(steps_of(switch, place, new), 1):
        why = f" ({step.why})" if step.why else ""
        lines.append(f"{number}. {step.title}{why}")
        lines += [f"{COMMAND}{command}" for command in step.commands]
    return lines


def _platform_lines(platform: PlatformPlan) -> Iterator[str]:
    """Whose configuration it is, what it is written as, and what cannot be."""
    yield f"Platform: {platform.title} ({platform.found})"
    yield f"  {platform.regenerates}."
    yield f"  {'So the platform gets' if platform.steps else 'So keep beside it'}, as {platform.file}:"
    yield from (f"    {line}".rstrip() for line in platform.text.rstrip("\n").split("\n"))
    if platform.refused:
        yield "Cannot be set there:"
        yield from (f"  {name}: {why}" for name, why in platform.refused)
    yield from platform.remarks


def pod_rows(switch: SwitchPlan) -> list[tuple[str, ...]]:
    """A row for each pod, under ``POD_COLUMNS``."""
    return [(one.name, one.restart or "-", one.created_again or "-", one.words or "-") for one in switch.pods]


def switch_plan_data(switch: SwitchPlan, place: KubeletPlace, new: str) -> Data:
    """The switch as JSON."""
    return {
        "apiVersion": API_VERSION,
        "kind": "SwitchPlan",
        "kubernetes": shown(switch.version),
        "node": place.node or None,
        "refusal": switch.refusal or None,
        "kept": list(switch.kept),
        "changes": {one.name: {"old": one.old, "new": one.new} for one in switch.fields},
        "stateFiles": [{"file": one.name, "remove": one.remove, "why": one.why} for one in switch.files],
        "drain": switch.drain or None,
        "platform": _platform_data(switch.platform),
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
                "createdAnew": one.created_again or None,
                "why": one.words or None,
            }
            for one in switch.pods
        ],
        "remarks": list(switch.remarks),
    }


def _platform_data(platform: PlatformPlan | None) -> Data | None:
    if platform is None:
        return None
    return {
        "name": platform.name,
        "title": platform.title,
        "found": platform.found,
        "regenerates": platform.regenerates,
        "inPlace": platform.in_place,
        "file": platform.file,
        "text": platform.text,
        "notSettable": [{"field": name, "why": why} for name, why in platform.refused],
        "remarks": list(platform.remarks),
    }


def _value(value: object) -> str:
    if value is None:
        return "(not set)"
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

"""Pods whose restart lets another one in, in words: a sentence, a table, and the same as data."""

from collections.abc import Mapping

from numawise.render.simulation import Row
from numawise.render.words import both, counted
from numawise.results.restart import RestartPlan, RestartSearch, RestartStep

COLUMNS = ("POD", "OWNER", "PRIORITY", "ASKS FOR", "ON", "THEN ON")
MOST_REASONS = 4
JOB = "Job "


def restart_rows(plan: RestartPlan) -> list[Row]:
    """A row for each pod that is restarted, in the order in which they are let in again."""
    return [
        [
            pod_title(step.namespace, step.name),
            step.owner,
            str(step.priority),
            step.shape.name,
            step.node,
            step.to if step.to != step.node else f"{step.to} again",
        ]
        for step in plan.steps
    ]


def step_line(step: RestartStep) -> str:
    """One step, where a table has no room."""
    pod = (
        f"{pod_title(step.namespace, step.name)} of {step.owner}, priority {step.priority}, {step.shape.name}"
    )
    again = " again" if step.to == step.node else ""
    return f"{pod}: from node {step.node} to node {step.to}{again}"


def restart_sentence(search: RestartSearch) -> str:
    """What came of the search, in one sentence without a full stop."""
    plan = search.plan
    if plan is None:
        if not search.complete:
            return (
                "No restart of other pods was found that lets it in; the search ended before all were tried"
            )
        return f"No restart of up to {counted(search.most, 'other pod')} lets it in{_fixed(search.fixed)}"
    where = f"on node {plan.node}{f' (NUMA {plan.numa})' if plan.numa else ''}"
    if not plan.steps:
        return f"It is let in {where} as it is"
    pods = [pod_title(step.namespace, step.name) for step in plan.steps]
    has = "has" if len(pods) == 1 else "have"
    text = f"It is let in {where} once {counted(len(pods), 'pod')} {has} been restarted: {both(pods)}"
    return text if plan.smallest else f"{text}; fewer may do, as the search ended before all were tried"


def restart_notes(search: RestartSearch) -> list[str]:
    """What there is to know before it is done, a clause each."""
    if search.plan is None or not search.plan.steps:
        return []
    notes = ["in this order: they end, the waiting pod comes, and they come again, each where there is room"]
    jobs = [pod_title(step.namespace, step.name) for step in search.plan.steps if step.owner.startswith(JOB)]
    if jobs:
        lose = "loses" if len(jobs) == 1 else "lose"
        notes.append(f"{both(jobs)} {lose} what was done so far, and the Job may count it as a failure")
    return notes


def pod_title(namespace: str, name: str) -> str:
    """A pod's name, with its namespace where that is not the usual one."""
    return name if namespace in ("", "default") else f"{namespace}/{name}"


def _fixed(fixed: Mapping[str, int]) -> str:
    """``; 12 pods may not be restarted: 8 of a DaemonSet, 4 static``."""
    if not fixed:
        return ""
    reasons = sorted(fixed.items(), key=lambda one: (-one[1], one[0]))
    named = [f"{count} {reason}" for reason, count in reasons[:MOST_REASONS]]
    many = sum(fixed.values())
    return f"; {counted(many, 'pod')} may not be restarted: {', '.join(named)}"

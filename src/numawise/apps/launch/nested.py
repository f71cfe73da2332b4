"""``run`` typed inside of a job that numawise placed: a step of that job, or a hold beside it.

Rules kept here are those of ``steps``, 2 and 3.  What only a hold of its own could have (a control group,
CPUs from which even strangers are kept) is refused to a step.
"""

from numawise.apps.launch.run import Job, OnStarted, OnWaiting, Report, capacity_here, open_holdings
from numawise.apps.launch.steps import StepJob, enclosing, preview_step, run_step
from numawise.errors import InputError
from numawise.host.settings import HostSettings
from numawise.results.placement import AFFINITY, RULES, Capacity, Hold, NoRoom, Preview


def run_inside(
    job: Job,
    path: str,
    settings: HostSettings,
    capacity: Capacity,
    on_started: OnStarted,
    on_waiting: OnWaiting,
    report: Report,
) -> int | NoRoom | None:
    """Run a command as a step to its end; None when this is inside of no hold, so that it needs its own."""
    with open_holdings(capacity, job.environment, settings) as holdings:
        inside = enclosing(holdings, job.environment)
    if inside.hold is None:
        if inside.remark:
            report(inside.remark)
        return None
    step = as_step(job, inside.hold)
    return run_step(
        step,
        path,
        inside.hold,
        lambda: open_holdings(capacity, job.environment, settings),
        on_started,
        on_waiting,
        report,
    )


def preview_inside(job: Job, settings: HostSettings) -> tuple[Preview | NoRoom, Capacity] | None:
    """What ``run_inside`` would do; None when this is inside of no hold."""
    capacity = capacity_here(settings)
    with open_holdings(capacity, job.environment, settings) as holdings:
        hold = enclosing(holdings, job.environment).hold
        return None if hold is None else (preview_step(holdings, as_step(job, hold), hold), capacity)


def as_step(job: Job, hold: Hold) -> StepJob:
    """The job as a step of a hold."""
    for asked, option in (
        (job.isolate, "--isolate"),
        (job.request.exclusive, "--exclusive"),
        (job.mode not in ("", AFFINITY), "--mode"),
        (job.fence == RULES, "--fence=rules"),
    ):
        if asked:
            raise InputError(
                f"cannot be had inside hold {hold.name} ({hold.id}): a step takes a part of that",
                field=option,
                advice="leave it out, or start beside the hold with --outside",
            )
    hide = bool(job.fence or hold.fence)
    return StepJob(job.request, job.command, job.environment, job.wait, hide, job.time_limit)

"""A hold from Python: the calling process is the owner, and is bound while it has it.

Rules kept here:

1. The hold ends with the block, or with the process, whichever comes first.
2. Bound are all threads of the process and what it starts from then on; the memory policy is that of the
   calling thread, and of threads it starts.  Leaving the block puts both back as they were.
3. Variables of the job are set in ``os.environ`` for the block, so import CUDA users inside it.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numawise.apps.launch.capacity import with_gpu_users
from numawise.apps.launch.decide import place as decided_place
from numawise.apps.launch.environment import MODE, job_environment, joined
from numawise.apps.launch.holds import Taken
from numawise.apps.launch.request import read_request
from numawise.apps.launch.run import Job, capacity_here, imagined, open_holdings, take_patiently
from numawise.errors import NumawiseError
from numawise.host import confine, mempolicy
from numawise.host.settings import read_settings
from numawise.results.placement import AFFINITY, PYTHON, Held, JobPlacement, NoRoom, Placement
from numawise.rules.model import BEST_EFFORT
from numawise.sets import ids_of
from numawise.values import replace


class NoRoomError(NumawiseError):
    """The machine has what was asked for, but not now."""


def place(
    *,
    cpus: float | str = "",
    memory: int | str = "",
    gpus: int = 0,
    gpu_ids: str | None = None,
    devices: Mapping[str, int] | None = None,
    nics: int = 0,
    policy: str = "",
    full_cores: bool = False,
    machine: str = "",
) -> JobPlacement | NoRoom:
    """Where a job would go now, or why there is no room; nothing is held.

    ``machine``: another one than this, in any form that ``--machine`` takes; nothing runs on it.
    """
    settings = read_settings()
    request = read_request(
        cpus=str(cpus),
        memory=str(memory),
        gpus=gpus,
        gpu_ids=gpu_ids,
        devices=_devices(devices),
        nics=nics,
        policy=policy or settings.policy or BEST_EFFORT,
        full_cores=full_cores,
    )
    capacity, holds, _ = imagined((machine,) if machine else (), settings, os.environ)
    found = decided_place(capacity, holds, request, "place")
    if isinstance(found, NoRoom):
        return found
    variables = job_environment(found, "", "", capacity.hardware)
    return JobPlacement(
        environment={name: value for name, value in variables if not name.startswith("NUMAWISE_")},
        **_plain(found),
    )


def _devices(devices: Mapping[str, int] | None) -> list[str]:
    return [f"{resource}={count}" for resource, count in (devices or {}).items()]


def _plain(placement: Placement) -> dict[str, Any]:
    """A placement in plain numbers."""
    return {
        "cpus": tuple(ids_of(placement.cpus)),
        "exclusive": bool(placement.grant.cpus),
        "mems": tuple(ids_of(placement.mems)),
        "memory": placement.memory,
        "gpus": placement.gpus,
        "devices": dict(placement.grant.devices),
        "aligned": placement.aligned,
        "remarks": placement.remarks,
    }


@contextmanager
def hold(
    *,
    cpus: float | str = "",
    memory: int | str = "",
    gpus: int = 0,
    gpu_ids: str | None = None,
    devices: Mapping[str, int] | None = None,
    nics: int = 0,
    policy: str = "",
    full_cores: bool = False,
    name: str = "",
    wait: float = 0.0,
    bind: bool = True,
) -> Iterator[Held]:
    """Hold CPUs, memory and GPUs that belong together for the length of a block.

    ``bind=False`` only holds: the process stays where it is, and uses ``environment`` and ``cpus`` itself.
    Raise ``NoRoomError`` when there is no room (within ``wait`` seconds), ``InputError`` for what this
    machine does not have.
    """
    settings = read_settings()
    request = read_request(
        cpus=str(cpus),
        memory=str(memory),
        gpus=gpus,
        gpu_ids=gpu_ids,
        devices=_devices(devices),
        nics=nics,
        policy=policy or settings.policy or BEST_EFFORT,
        full_cores=full_cores,
        name=name,
    )
    environment = dict(os.environ)
    job = Job(request, (sys.argv[0] or "python",), wait, AFFINITY, "", environment, PYTHON)
    capacity = with_gpu_users(capacity_here(settings), request)
    with open_holdings(capacity, environment, settings.ledger) as holdings:
        taken = take_patiently(holdings, job, os.getpid(), lambda _: None)
        if isinstance(taken, NoRoom):
            raise NoRoomError(taken.reason, "wait for it, or see 'numawise ps' for who holds what")
        try:
            with _bound(taken, bind=bind) as held:
                yield replace(held, environment=_variables(taken, environment))
        finally:
            holdings.end(taken.hold, even_alive=True)


@contextmanager
def _bound(taken: Taken, *, bind: bool) -> Iterator[Held]:
    placement = taken.placement
    held = Held(id=taken.hold.id, name=taken.hold.name, bound=bind, **_plain(placement))
    if not bind:
        yield held
        return
    ours = dict(os.environ)
    plan = confine.plan(AFFINITY, held.id, os.getpid(), placement.cpus, placement.mems)
    confine.carry_out(plan)
    policy = confine.settle(plan.itself)
    os.environ.update(_variables(taken, ours))
    try:
        yield replace(held, remarks=(*held.remarks, *plan.remarks))
    finally:
        for variable in set(os.environ) - set(ours):
            del os.environ[variable]
        os.environ.update(ours)
        mempolicy.set_mempolicy(policy.mode, policy.nodes)
        confine.leave(plan)


def _variables(taken: Taken, environment: Mapping[str, str]) -> dict[str, str]:
    hold = taken.hold
    wanted = job_environment(taken.placement, hold.id, hold.name, taken.hardware)
    found = joined(environment, (*wanted, (MODE, AFFINITY))).environment
    return {key: value for key, value in found.items() if environment.get(key) != value}

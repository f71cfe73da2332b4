"""A hold from Python: the calling process is the owner, and is bound while it has it.

Rules kept here:

1. The hold ends with the block, or with the process, whichever comes first.
2. Bound are all threads of the process and what it starts from then on; the memory policy is that of the
   calling thread, and of threads it starts.  Leaving the block puts both back as they were.
3. Variables of the job are set in ``os.environ`` for the block, so import CUDA users inside it.  At its end
   those that still have our value get back what they had; whatever else the program changed stays.
4. A process with several holds, nested or in threads, runs on the CPUs of all of them, and after the last on
   those it had before the first, in whichever order they end.
"""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numawise.apps.launch.capacity import with_gpu_users
from numawise.apps.launch.decide import place as decided_place
from numawise.apps.launch.environment import MODE, job_environment, joined
from numawise.apps.launch.held import request_like
from numawise.apps.launch.holds import Taken
from numawise.apps.launch.outer import within_outer
from numawise.apps.launch.request import read_request
from numawise.apps.launch.run import Job, capacity_here, imagined, open_holdings, take_patiently
from numawise.errors import NumawiseError
from numawise.host import confine, mempolicy, processes
from numawise.host.settings import read_settings
from numawise.results.placement import AFFINITY, PYTHON, Held, JobPlacement, NoRoom, Placement
from numawise.sets import bits_of, ids_of
from numawise.values import dataclass, field, replace


class NoRoomError(NumawiseError):
    """The machine has what was asked for, but not now."""


def place(
    *,
    cpus: float | str = "",
    memory: int | str = "",
    memory_policy: str | None = None,
    gpus: int | str = 0,
    gpu_ids: str | None = None,
    devices: Mapping[str, int] | None = None,
    nics: int = 0,
    policy: str = "",
    full_cores: bool = False,
    numa: int | str = "",
    cpu_ids: str = "",
    exclusive: str = "",
    ignore_affinity: bool = False,
    like: str = "",
    machine: str = "",
) -> JobPlacement | NoRoom:
    """Where a job would go now, or why there is no room; nothing is held.

    ``machine``: another one than this, in any form that ``--machine`` takes; nothing runs on it.
    """
    settings = read_settings()
    request = read_request(
        cpus=str(cpus),
        memory=str(memory),
        memory_policy=memory_policy,
        gpus=gpus,
        gpu_ids=gpu_ids,
        devices=_devices(devices),
        nics=nics,
        policy=policy or ("" if like else settings.policy),
        full_cores=full_cores,
        numa=str(numa),
        cpu_ids=cpu_ids,
        exclusive=exclusive,
        ignore_affinity=ignore_affinity,
        like=request_like(like, os.environ, settings) if like else None,
    )
    capacity, holds, here = imagined((machine,) if machine else (), settings, os.environ)
    if here:
        capacity, request = within_outer(capacity, request, os.environ)
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
        "memory_policy": placement.grant.memory_policy,
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
    memory_policy: str | None = None,
    gpus: int | str = 0,
    gpu_ids: str | None = None,
    devices: Mapping[str, int] | None = None,
    nics: int = 0,
    policy: str = "",
    full_cores: bool = False,
    numa: int | str = "",
    cpu_ids: str = "",
    exclusive: str = "",
    ignore_affinity: bool = False,
    like: str = "",
    name: str = "",
    wait: float = 0.0,
    bind: bool = True,
) -> Iterator[Held]:
    """Hold CPUs, memory and GPUs that belong together for the length of a block.

    ``bind=False`` only holds: the process stays where it is, and uses ``environment`` and ``cpus`` itself.
    What the process was started with (``taskset``, ``numactl``, ``CUDA_VISIBLE_DEVICES``) is kept to, unless
    ``ignore_affinity``.
    Raise ``NoRoomError`` when there is no room (within ``wait`` seconds), ``InputError`` for what this
    machine does not have.
    """
    settings = read_settings()
    request = read_request(
        cpus=str(cpus),
        memory=str(memory),
        memory_policy=memory_policy,
        gpus=gpus,
        gpu_ids=gpu_ids,
        devices=_devices(devices),
        nics=nics,
        policy=policy or ("" if like else settings.policy),
        full_cores=full_cores,
        numa=str(numa),
        cpu_ids=cpu_ids,
        exclusive=exclusive,
        ignore_affinity=ignore_affinity,
        like=request_like(like, os.environ, settings) if like else None,
        name=name,
    )
    environment = dict(os.environ)
    capacity, request = within_outer(capacity_here(settings), request, environment)
    job = Job(request, (sys.argv[0] or "python",), wait, AFFINITY, "", environment, PYTHON)
    capacity = with_gpu_users(capacity, request)
    with open_holdings(capacity, environment, settings) as holdings:
        taken = take_patiently(holdings, job, os.getpid(), lambda _: None)
        if isinstance(taken, NoRoom):
            raise NoRoomError(taken.reason, "wait for it, or see 'numawise ps' for who holds what")
        try:
            with _bound(taken, bind=bind) as held:
                remarks = (*holdings.place.warnings, *held.remarks)
                yield replace(held, environment=_variables(taken, environment), remarks=remarks)
        finally:
            holdings.end(taken.hold, even_alive=True)


@contextmanager
def _bound(taken: Taken, *, bind: bool) -> Iterator[Held]:
    placement = taken.placement
    held = Held(id=taken.hold.id, name=taken.hold.name, bound=bind, **_plain(placement))
    if not bind:
        yield held
        return
    remarks, policy = _BINDINGS.enter(taken)
    try:
        yield replace(held, remarks=(*held.remarks, *remarks))
    finally:
        mempolicy.set_mempolicy(policy.mode, policy.nodes, policy.flags)
        _BINDINGS.leave(held.id)


@dataclass(slots=True)
class _Bindings:
    """What the open holds of this process have bound and set (rules 3 and 4)."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    cpus: dict[str, int] = field(default_factory=dict)
    """Hold → its CPUs."""
    before: int = 0
    """CPUs of the process before the first hold."""
    variables: dict[str, dict[str, str]] = field(default_factory=dict)
    """Hold → what it set, in the order of entering."""
    environment: dict[str, str | None] = field(default_factory=dict)
    """What variables were before the first hold that set them; None: they were not there."""

    def enter(self, taken: Taken) -> tuple[tuple[str, ...], mempolicy.Policy]:
        """Bind the process and set its variables; remarks, and the memory policy that it had."""
        placement, hold = taken.placement, taken.hold.id
        with self.lock:
            if not self.cpus:
                self.before = bits_of(os.sched_getaffinity(0))
            every = placement.cpus | self._held()
            plan = confine.plan(
                AFFINITY,
                hold,
                os.getpid(),
                every,
                placement.mems,
                memory_policy=placement.grant.memory_policy,
            )
            confine.carry_out(plan)
            policy = confine.settle(plan.itself)
            self.cpus[hold] = placement.cpus
            ours = _variables(taken, os.environ)
            for name in ours:
                if all(name not in others for others in self.variables.values()):
                    self.environment[name] = os.environ.get(name)
            self.variables[hold] = ours
            os.environ.update(ours)
        return plan.remarks, policy

    def leave(self, hold: str) -> None:
        """Undo what one hold did, as far as no other hold and not the program itself has replaced it."""
        with self.lock:
            del self.cpus[hold]
            processes.set_affinity((os.getpid(),), self._held() or self.before)
            for name, value in self.variables.pop(hold).items():
                others = [ours[name] for ours in self.variables.values() if name in ours]
                before = others[-1] if others else self.environment.get(name)
                if os.environ.get(name) == value:
                    if before is None:
                        del os.environ[name]
                    else:
                        os.environ[name] = before
                if not others:
                    self.environment.pop(name, None)

    def _held(self) -> int:
        every = 0
        for cpus in self.cpus.values():
            every |= cpus
        return every


_BINDINGS = _Bindings()
# Of the whole process, as affinity and variables are.


def _variables(taken: Taken, environment: Mapping[str, str]) -> dict[str, str]:
    hold = taken.hold
    wanted = job_environment(taken.placement, hold.id, hold.name, taken.hardware)
    found = joined(environment, (*wanted, (MODE, AFFINITY))).environment
    return {key: value for key, value in found.items() if environment.get(key) != value}

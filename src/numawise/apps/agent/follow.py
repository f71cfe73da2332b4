"""Devices that come and go while the agent runs: what is offered is worked out again when something changed.

Rules kept here:

1. Looked at are signs that cost next to nothing: the stamp of the file that says what is offered, names in
   ``/sys/bus/pci``, in NVIDIA's folder of ``/proc``, and of the paths of the configuration.  Only when they
   differ is the machine read again, in a thread.
2. What was worked out after a change is worked out once more a little later: a driver lists a device before
   it answers for it.  A driver that does not answer although there are GPUs is asked again, ever more rarely.
3. A file that cannot be read, or says nonsense, leaves everything as it was, and is said once.
"""

import asyncio
from collections.abc import Awaitable, Callable

from numawise.apps.agent.offer_plan import OfferPlan
from numawise.errors import NumawiseError
from numawise.host.device_files import device_signs
from numawise.host.files import stamp
from numawise.service.log import ERROR, ServiceLog

FILE_TICK, DEVICE_TICK = 0.5, 2.0
SETTLED = 3.0
"""Seconds after which a change is looked at once more."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
ABOUT = "offers"


class OfferFollowing:
    """Notices when other devices are to be offered, and hands the new plan on."""

    def __init__(
        self,
        plan: OfferPlan,
        read: Callable[[OfferPlan], Awaitable[OfferPlan]],
        renew: Callable[[OfferPlan, float], None],
        log: ServiceLog,
    ) -> None:
        self.plan, self.log = plan, log
        self._read, self._renew = read, renew
        self._seen: tuple[object, ...] | None = None
        """Nothing yet: something may have changed since the plan was made."""
        self._again: float | None = None
        self._wait = FIRST_WAIT

    @property
    def tick(self) -> float:
        """Seconds until the next look."""
        return FILE_TICK if self.plan.fake else DEVICE_TICK

    def signs(self) -> tuple[object, ...]:
        """What is different when other devices are to be offered (rule 1)."""
        written = stamp(self.plan.file) if self.plan.file else None
        return written, () if self.plan.fake else device_signs(self.plan.root, self.plan.patterns)

    def again(self) -> None:
        """Work out what is offered at the next look, whatever the signs say."""
        self._again = 0.0

    async def turn(self, now: float) -> bool:
        """Look once; whether the devices were worked out again."""
        signs = await asyncio.to_thread(self.signs)
        changed = signs != self._seen
        if not changed and (self._again is None or now < self._again):
            return False
        self._seen = signs
        try:
            plan = await self._read(self.plan)
        except NumawiseError as problem:
            self.log.once(ABOUT, ERROR, f"{problem}; everything stays as it was")
            self._again = None
            return False
        self.log.forget(ABOUT)
        self._plan_next(plan, now, changed=changed)
        self.plan = plan
        self._renew(plan, now)
        return True

    def _plan_next(self, plan: OfferPlan, now: float, *, changed: bool) -> None:
        """When to look again although nothing seems different (rule 2)."""
        if plan.waits:
            self._wait = FIRST_WAIT if changed else min(self._wait * 2, LONGEST_WAIT)
            self._again = now + self._wait
        else:
            self._again = now + SETTLED if changed and not plan.fake else None

"""What a hold asked for, so that another job can ask for the same, and what it has now.

Rules kept here:

1. A hold says in a label what it asked for, written as a waiter's row is (``asked``).  Where the label is
   missing or cannot be read, what it was granted stands for it.
2. The label is what its user wrote: it is read as a request from outside, and gives no right to anything.
3. Memory of whole NUMA nodes is held, not a limit: the limit is what was asked for.
"""

import os
from collections.abc import Iterable, Mapping

from numawise.apps.launch.asked import ASKED_LABEL, request_in
from numawise.apps.launch.capacity import NIC_RESOURCE, nics_of
from numawise.apps.launch.holds import named_hold
from numawise.apps.launch.request import POLICIES, JobRequest
from numawise.apps.launch.where import EXCLUSIVE_LABEL
from numawise.host.settings import HostSettings
from numawise.inputs.ledger import ledger_place
from numawise.ledger.place import machine_id
from numawise.ledger.store import Ledger
from numawise.machine.hardware import GPU_RESOURCE
from numawise.results.allotment import shared_cpus
from numawise.results.placement import Capacity, Hold, Placement, in_ids_of, pool_of
from numawise.values import replace


def request_like(name: str, environment: Mapping[str, str], settings: HostSettings) -> JobRequest:
    """The request of the hold that has this id or name."""
    place = ledger_place(environment, settings)
    with Ledger.open(place.folders, machine_id()) as ledger:
        return request_of_hold(named_hold(ledger.holds(), name, os.geteuid(), field="--like"))


def request_of_hold(hold: Hold) -> JobRequest:
    """What a hold asked for, as far as is known (rule 1)."""
    request = request_in(dict(hold.labels).get(ASKED_LABEL, ""))
    return replace(request, name="") if request is not None else _granted(hold)


def _granted(hold: Hold) -> JobRequest:
    """A request for as much as a hold was granted."""
    grant = hold.grant
    counts = {resource: len(ids) for resource, ids in grant.devices}
    gpus = sum(count for resource, count in counts.items() if GPU_RESOURCE.search(resource))
    return JobRequest(
        cpus=grant.cpus.bit_count() * 1000 or grant.cpu_limit,
        memory=sum(part.size for part in grant.memory),
        gpus=gpus,
        nics=counts.get(NIC_RESOURCE, 0),
        devices=tuple(
            (resource, count)
            for resource, count in counts.items()
            if resource != NIC_RESOURCE and not GPU_RESOURCE.search(resource)
        ),
        policy=hold.policy if hold.policy in POLICIES else JobRequest().policy,
    )


def placement_of(capacity: Capacity, holds: Iterable[Hold], hold: Hold) -> Placement:
    """What a hold has, as it is now."""
    grant = in_ids_of(capacity, (hold,))[0].grant
    devices = {device for _, ids in grant.devices for device in ids}
    gpus = tuple(gpu for name, gpu in zip(capacity.gpu_ids, capacity.gpus, strict=True) if name in devices)
    memory = sum(part.size for part in grant.memory)
    if dict(hold.labels).get(EXCLUSIVE_LABEL):
        request = request_in(dict(hold.labels).get(ASKED_LABEL, ""))
        memory = request.memory if request is not None else 0
    return Placement(
        grant=grant,
        cpus=grant.cpus or shared_cpus(capacity, pool_of(capacity, holds), hold),
        mems=grant.mems,
        memory=memory,
        gpus=gpus,
        nics=nics_of(capacity, gpus, dict(grant.devices).get(NIC_RESOURCE, ())),
        policy=hold.policy,
    )

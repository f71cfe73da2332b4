"""What the containers of a Guaranteed pod ask for: ``plan pod`` writes it, ``check`` advises it.

Rules kept here:

1. The containers that a pod is about are those with devices; where none has any, those with a CPU or more.
   They get whole CPUs, and whole cores where the kubelet gives those.
2. Their CPUs are what was requested, their memory is what it was limited to: less CPU is slower, less memory
   is killed.
3. The other containers stay in the shared pool: as much as they had, the limit before the request.  One that
   asks for nothing gets a little (``LITTLE``).
"""

from collections.abc import Mapping, Sequence

from numawise.quantity import BINARY, DECIMAL, Quantity
from numawise.request.defaults import RawContainer
from numawise.request.model import CPU, MEMORY, Role
from numawise.values import dataclass

ASKED = "as asked for"
SAME = "request and limit must be the same"
GUARANTEED = "so that the pod is Guaranteed"
ASSUMED = f"assumed, {GUARANTEED}"
LITTLE = {CPU: Quantity.parse("100m"), MEMORY: Quantity.parse("128Mi")}


@dataclass(frozen=True, slots=True)
class GuaranteedAmount:
    """What request and limit of a resource become."""

    value: Quantity
    why: str = ""
    """Why it is not what the container has today; '' when there is nothing to say."""
    same: bool = False
    """Both are that already."""


@dataclass(frozen=True, slots=True)
class WantedAmount:
    """What is wanted of a container beside what it says itself."""

    wanted: int | None = None
    """Asked for by the user."""
    share: int | None = None
    """Its part of the machine, by its GPUs; None: not known."""
    share_of: str = ""
    """Whose part that is: ``2 GPUs``."""


@dataclass(frozen=True, slots=True)
class RequestAndLimit:
    """Request and limit of a container for one resource; None: not written."""

    request: Quantity | None = None
    limit: Quantity | None = None

    @property
    def most(self) -> Quantity | None:
        """The request, or the limit where there is none."""
        return self.request or self.limit

    @property
    def differ(self) -> bool:
        """True when both are written and are not the same."""
        return self.request is not None and self.limit is not None and self.request.nano != self.limit.nano

    def are(self, value: Quantity) -> bool:
        """True when both are written and are that much."""
        return all(one is not None and one.nano == value.nano for one in (self.request, self.limit))


def main_containers(
    devices: Sequence[bool], apps: Sequence[bool], cpus: Sequence[RequestAndLimit]
) -> tuple[int, ...]:
    """Which containers a pod is about (rule 1), by their position."""
    with_devices = tuple(at for at, has in enumerate(devices) if has)
    own = tuple(at for at, is_app in enumerate(apps) if is_app)
    with_cpus = tuple(at for at in own if (cpus[at].most or Quantity()).milli >= 1000)
    return with_devices or with_cpus or own[:1]


def own_cpus(cpus: RequestAndLimit, given: WantedAmount, threads: int = 1) -> GuaranteedAmount | None:
    """Whole CPUs for a container that the pod is about (rule 2); None: nobody says how many."""
    has = cpus.most
    if given.wanted is not None:
        wanted, why = given.wanted, ASKED
    elif has is not None and has.milli > 0:
        wanted, why = -(-has.milli // 1000), ""
    elif given.share is not None:
        wanted, why = given.share, f"the share of {given.share_of} on this machine"
    else:
        return None
    whole = -(-wanted // threads) * threads
    if whole != wanted:
        raised = f"raised from {wanted}: cores have {threads} threads, and come whole"
        why = f"{why}; {raised}" if why else raised
    elif has is not None and has.milli % 1000 and not why:
        why = f"raised from {has}: CPUs of its own come whole"
    if cpus.differ and not why:
        why = f"instead of up to {cpus.limit}: CPUs of its own cannot be exceeded"
    if (cpus.request is None) != (cpus.limit is None) and not why:
        why = SAME
    value = Quantity.of(whole, DECIMAL)
    return GuaranteedAmount(value, why, same=cpus.are(value))


def own_memory(
    memory: RequestAndLimit, given: WantedAmount, *, by_request: bool = False
) -> GuaranteedAmount | None:
    """Memory for a container that the pod is about (rule 2); ``by_request``: the limit does not fit."""
    if given.wanted is not None:
        wanted, why = given.wanted, ASKED
    elif by_request and memory.request is not None:
        wanted, why = memory.request.value, "the request: the limit does not fit"
    elif memory.limit is not None or memory.request is not None:
        wanted, why = (memory.limit or memory.request or Quantity()).value, ""
        if memory.differ:
            why = f"its limit, instead of {memory.request}: with less it could be killed"
        elif memory.limit is None:
            why = SAME
    elif given.share is not None:
        wanted, why = given.share, f"the share of {given.share_of} on this machine"
    else:
        return None
    value = Quantity.of(wanted, BINARY)
    return GuaranteedAmount(value, why, same=memory.are(value))


def shared_amount(resource: str, sizes: RequestAndLimit) -> GuaranteedAmount:
    """What a container beside those has (rule 3)."""
    kept = sizes.limit if sizes.limit is not None else sizes.request
    if kept is None or not kept.nano:
        return GuaranteedAmount(LITTLE[resource], ASSUMED if kept is None else GUARANTEED)
    return GuaranteedAmount(kept, GUARANTEED, same=sizes.are(kept))


def guaranteed_amounts(
    containers: Sequence[RawContainer], threads: int = 1
) -> Mapping[str, Mapping[str, GuaranteedAmount | None]]:
    """CPU and memory of each container, by its name; None: nobody says how much."""
    sizes = {
        resource: [
            RequestAndLimit(one.requests.get(resource), one.limits.get(resource)) for one in containers
        ]
        for resource in (CPU, MEMORY)
    }
    main = main_containers(
        [any("/" in name for name in {**one.requests, **one.limits}) for one in containers],
        [one.role is Role.APP for one in containers],
        sizes[CPU],
    )
    nothing = WantedAmount()
    return {
        one.name: {
            CPU: own_cpus(sizes[CPU][at], nothing, threads),
            MEMORY: own_memory(sizes[MEMORY][at], nothing),
        }
        if at in main
        else {resource: shared_amount(resource, sizes[resource][at]) for resource in (CPU, MEMORY)}
        for at, one in enumerate(containers)
    }

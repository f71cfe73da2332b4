"""Which GPUs a job may get: those it names, or the best linked sets of the free ones.

Rules kept here:

1. A GPU is named by its index, its name, its UUID or the beginning of one, or its PCI address.
2. A job's GPUs are of one maker; by number it gets the maker that the machine has most of.
3. GPUs in use without a hold are passed over as long as enough others are free.
4. With NUMA nodes named, GPUs by number and ``all`` are those whose home is there; one that is named must be.
"""

from collections.abc import Iterable, Sequence

from numawise.apps.launch.decide import gpus_text
from numawise.apps.launch.request import EVERY_GPU, JobRequest
from numawise.apps.launch.where import MachinePart
from numawise.errors import InputError, quoted
from numawise.gpus.choose import Choice, choices
from numawise.machine.locality import short_address
from numawise.render.words import gpu_ranges
from numawise.results.placement import Capacity, Hold, NoRoom
from numawise.sets import bits_of, format_ids, ids_of


def gpus_wanted(
    capacity: Capacity, holds: Sequence[Hold], request: JobRequest, part: MachinePart
) -> NoRoom | tuple[tuple[Choice, ...], str, int]:
    """Sets of GPUs to ask the engine about, best first; their resource; how many."""
    if not request.gpus and not request.gpu_ids:
        return (), "", 0
    if not capacity.gpus or capacity.links is None:
        raise InputError(
            "no usable GPU was found on this machine",
            field="--gpus" if request.gpus else "--gpu-ids",
            advice="see 'numawise discover', and 'numawise doctor' for what hides them",
        )
    holder = {
        (resource, name): hold for hold in holds for resource, names in hold.grant.devices for name in names
    }
    taken = {
        position: holder[key]
        for position, key in enumerate(zip(capacity.gpu_resources, capacity.gpu_ids, strict=True))
        if key in holder
    }
    if request.gpu_ids:
        positions = named_gpus(capacity, request)
        _check_numa(capacity, request, positions)
        _check_within(capacity, part, positions)
        kinds = {capacity.gpu_resources[position] for position in positions}
        if len(kinds) > 1:
            raise InputError(
                f"GPUs of several makers ({', '.join(sorted(kinds))}) cannot be held together",
                field="--gpu-ids",
                advice="hold them one after another",
            )
        missing = [position for position in positions if position in taken]
        if missing:
            is_are = "is" if len(missing) == 1 else "are"
            reason = f"{gpu_ranges(capacity.gpus[position].name for position in missing)} {is_are} not free"
            return NoRoom(reason, tuple(dict.fromkeys(taken[p] for p in missing)))
        mask = bits_of(positions)
        return choices(capacity.links, mask, len(positions), mask), kinds.pop(), len(positions)
    resource = resource_by_number(capacity)
    own = part_gpus(capacity, part) & bits_of(
        p for p, kind in enumerate(capacity.gpu_resources) if kind == resource
    )
    free = own & ~bits_of(taken)
    if free.bit_count() < request.gpus:
        reason = (
            f"{gpus_text(request.gpus)} asked for, {free.bit_count()} of {own.bit_count()} free{part.text}"
        )
        return NoRoom(reason, tuple(dict.fromkeys(taken.values())))
    quiet = free & ~bits_of(capacity.users or ())
    return (
        choices(capacity.links, quiet if quiet.bit_count() >= request.gpus else free, request.gpus),
        resource,
        request.gpus,
    )


def resource_by_number(capacity: Capacity) -> str:
    """The resource whose GPUs a number means (rule 2)."""
    return max(dict.fromkeys(capacity.gpu_resources), key=capacity.gpu_resources.count)  # the first of equals


def part_gpus(capacity: Capacity, part: MachinePart) -> int:
    """The GPUs of a part of the machine, as packed positions (rule 4)."""
    links = capacity.links
    allotted = part.within.gpus
    inside = bits_of(p for p, name in enumerate(capacity.gpu_ids) if allotted is None or name in allotted)
    if part.whole or links is None:
        return inside
    return inside & bits_of(position for position, home in enumerate(links.numa) if home & part.numa)


def named_gpus(capacity: Capacity, request: JobRequest) -> tuple[int, ...]:
    """The positions of the GPUs that a request names, in the order in which it does."""
    if request.gpu_ids == (EVERY_GPU,):
        homes = capacity.links.numa if capacity.links else ()
        allotted = request.within.gpus if request.within else None
        inside = [
            p
            for p, home in enumerate(homes)
            if (request.numa is None or home & request.numa.bits)
            and (allotted is None or capacity.gpu_ids[p] in allotted)
        ]
        if not inside and allotted is not None and request.within:
            raise InputError(
                f"this was started within {request.within.words}, which leaves no GPU",
                field="--gpus",
                advice="drop it with --ignore-affinity",
            )
        if not inside:
            raise InputError(
                f"there is no GPU on NUMA {request.numa}",
                field="--gpus and --numa",
                advice="see 'numawise show' for where the GPUs are",
            )
        return tuple(inside)
    positions = tuple(_position(capacity, text) for text in request.gpu_ids)
    if len(set(positions)) != len(positions):
        raise InputError(
            f"{quoted(','.join(request.gpu_ids))} names a GPU twice",
            field="--gpu-ids",
            advice="name each once",
        )
    return positions


def _check_numa(capacity: Capacity, request: JobRequest, positions: Sequence[int]) -> None:
    """Refuse GPUs that are named but known to be elsewhere than the NUMA nodes that are."""
    if request.numa is None or capacity.links is None:
        return
    homes = capacity.links.numa
    outside = [position for position in positions if homes[position] & ~request.numa.bits]
    if outside:
        names = gpu_ranges(capacity.gpus[position].name for position in outside)
        where = format_ids(sum({homes[position] for position in outside}))
        there = [gpu.name for gpu, home in zip(capacity.gpus, homes, strict=True) if home & request.numa.bits]
        raise InputError(
            f"{names} {'is' if len(outside) == 1 else 'are'} on NUMA {where}, not on {request.numa}",
            field="--gpu-ids and --numa",
            advice=f"on NUMA {request.numa} there is {gpu_ranges(there) or 'no GPU'}",
        )


def _check_within(capacity: Capacity, part: MachinePart, positions: Sequence[int]) -> None:
    """Refuse GPUs that are named but not allotted."""
    allotted = part.within.gpus
    if allotted is None:
        return
    outside = [p for p in positions if capacity.gpu_ids[p] not in allotted]
    if outside:
        names = gpu_ranges(capacity.gpus[position].name for position in outside)
        raise InputError(
            f"this was started within {part.within.words}, and {names} would be outside",
            field="--gpu-ids",
            advice="name others, or drop it with --ignore-affinity",
        )


def _position(capacity: Capacity, text: str) -> int:
    """The GPU that a user means by an index, a name, a UUID or the beginning of one, or a PCI address."""
    found: list[int] = []
    for position, gpu in enumerate(capacity.gpus):
        exact = (str(position), gpu.name, gpu.uuid, gpu.address, capacity.gpu_ids[position])
        if text in exact or (gpu.address and short_address(text) == short_address(gpu.address)):
            return position
        if len(text) >= 8 and gpu.uuid.startswith(text):
            found.append(position)
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{position} ({capacity.gpu_ids[position]})" for position in range(len(capacity.gpus)))
    what = "matches several GPUs" if found else "is not a GPU of this machine"
    raise InputError(f"{quoted(text)} {what}", field="--gpu-ids", advice=f"it has {known}")


def use_remarks(capacity: Capacity, gpus: int) -> Iterable[str]:
    """A sentence on each of some GPUs, as packed positions, that is in use without a hold."""
    for position in ids_of(gpus):
        pids = (capacity.users or {}).get(position)
        if pids:
            listed = ", ".join(map(str, pids[:5]))
            yield f"{capacity.gpus[position].name} is in use by process {listed}, which has no hold on it"

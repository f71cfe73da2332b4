"""Which GPUs a job may get: those it names, or the best linked sets of the free ones.

Rules kept here:

1. A GPU is named by its index, its name, its UUID or the beginning of one, or its PCI address.
2. A job's GPUs are of one maker; by number it gets the maker that the machine has most of.
3. GPUs in use without a hold are passed over as long as enough others are free.
"""

from collections.abc import Sequence

from numawise.apps.launch.decide import gpus_text
from numawise.apps.launch.request import JobRequest
from numawise.errors import InputError, quoted
from numawise.gpus.choose import Choice, choices
from numawise.machine.locality import short_address
from numawise.results.placement import Capacity, Hold, NoRoom
from numawise.sets import bits_of


def gpus_wanted(
    capacity: Capacity, holds: Sequence[Hold], request: JobRequest
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
        positions = [_position(capacity, text) for text in request.gpu_ids]
        if len(set(positions)) != len(positions):
            raise InputError(
                f"{quoted(','.join(request.gpu_ids))} names a GPU twice",
                field="--gpu-ids",
                advice="name each once",
            )
        kinds = {capacity.gpu_resources[position] for position in positions}
        if len(kinds) > 1:
            raise InputError(
                f"GPUs of several makers ({', '.join(sorted(kinds))}) cannot be held together",
                field="--gpu-ids",
                advice="hold them one after another",
            )
        missing = [position for position in positions if position in taken]
        if missing:
            names = ", ".join(capacity.gpus[position].name for position in missing)
            return NoRoom(f"{names} is not free", tuple(dict.fromkeys(taken[p] for p in missing)))
        mask = bits_of(positions)
        return choices(capacity.links, mask, len(positions), mask), kinds.pop(), len(positions)
    resource = max(
        dict.fromkeys(capacity.gpu_resources), key=capacity.gpu_resources.count
    )  # the first of equals
    own = bits_of(p for p, kind in enumerate(capacity.gpu_resources) if kind == resource)
    free = own & ~bits_of(taken)
    if free.bit_count() < request.gpus:
        reason = f"{gpus_text(request.gpus)} asked for, {free.bit_count()} of {own.bit_count()} free"
        return NoRoom(reason, tuple(dict.fromkeys(taken.values())))
    quiet = free & ~bits_of(capacity.users or ())
    return (
        choices(capacity.links, quiet if quiet.bit_count() >= request.gpus else free, request.gpus),
        resource,
        request.gpus,
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

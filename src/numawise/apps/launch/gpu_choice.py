"""Which GPUs a job may get: those it names, or the best linked sets of the free ones.

Rules kept here:

1. A GPU is named by its index, its name, its UUID or the beginning of one, or its PCI address.
2. A job's GPUs are of one maker; by number it gets the maker that the machine has most of.
3. GPUs that somebody uses without a hold are passed over as long as enough others are free.
"""

from collections.abc import Sequence

from numawise.apps.launch.capacity import Site
from numawise.apps.launch.no_room import NoRoom, gpus_text
from numawise.apps.launch.request import Wish
from numawise.errors import InputError
from numawise.gpus.choose import Choice, choices
from numawise.machine.places import short_address
from numawise.results.hold import Hold
from numawise.sets import bits_of


def gpus_wanted(
    site: Site, holds: Sequence[Hold], wish: Wish
) -> NoRoom | tuple[tuple[Choice, ...], str, int]:
    """Sets of GPUs to ask the engine about, best first; their resource; how many."""
    if not wish.gpus and not wish.gpu_ids:
        return (), "", 0
    if not site.gpus or site.links is None:
        raise InputError(
            "this machine has no GPUs that can be told",
            field="--gpus" if wish.gpus else "--gpu-ids",
            advice="see 'numawise discover', and 'numawise doctor' for what hides them",
        )
    holder = {
        (resource, name): hold for hold in holds for resource, names in hold.grant.devices for name in names
    }
    taken = {
        position: holder[key]
        for position, key in enumerate(zip(site.gpu_resources, site.gpu_ids, strict=True))
        if key in holder
    }
    if wish.gpu_ids:
        positions = [_position(site, text) for text in wish.gpu_ids]
        if len(set(positions)) != len(positions):
            raise InputError(
                f"{','.join(wish.gpu_ids)!r} names a GPU twice", field="--gpu-ids", advice="name each once"
            )
        kinds = {site.gpu_resources[position] for position in positions}
        if len(kinds) > 1:
            raise InputError(
                f"GPUs of several makers ({', '.join(sorted(kinds))}) cannot be held together",
                field="--gpu-ids",
                advice="hold them one after another",
            )
        missing = [position for position in positions if position in taken]
        if missing:
            names = ", ".join(site.gpus[position].name for position in missing)
            return NoRoom(f"{names} is not free", tuple(dict.fromkeys(taken[p] for p in missing)))
        mask = bits_of(positions)
        return choices(site.links, mask, len(positions), mask), kinds.pop(), len(positions)
    resource = max(dict.fromkeys(site.gpu_resources), key=site.gpu_resources.count)  # the first of equals
    own = bits_of(p for p, kind in enumerate(site.gpu_resources) if kind == resource)
    free = own & ~bits_of(taken)
    if free.bit_count() < wish.gpus:
        reason = f"{gpus_text(wish.gpus)} asked for, {free.bit_count()} of {own.bit_count()} free"
        return NoRoom(reason, tuple(dict.fromkeys(taken.values())))
    quiet = free & ~bits_of(site.users or ())
    return (
        choices(site.links, quiet if quiet.bit_count() >= wish.gpus else free, wish.gpus),
        resource,
        wish.gpus,
    )


def _position(site: Site, text: str) -> int:
    """The GPU that a user means by an index, a name, a UUID or the beginning of one, or a PCI address."""
    found: list[int] = []
    for position, gpu in enumerate(site.gpus):
        exact = (str(position), gpu.name, gpu.uuid, gpu.address, site.gpu_ids[position])
        if text in exact or (gpu.address and short_address(text) == short_address(gpu.address)):
            return position
        if len(text) >= 8 and gpu.uuid.startswith(text):
            found.append(position)
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{position} ({site.gpu_ids[position]})" for position in range(len(site.gpus)))
    what = "could be several GPUs" if found else "is no GPU of this machine"
    raise InputError(f"{text!r} {what}", field="--gpu-ids", advice=f"it has {known}")

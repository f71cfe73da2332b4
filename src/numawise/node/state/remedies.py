"""What helps against state files that a kubelet does not start on: one list for every command.

Rules kept here:

1. Each remedy was carried out on a copy of the files; the caller asks whether the kubelet then starts.
2. First what takes nothing from a pod; then what trusts the content of a file with a wrong checksum; then the
   end of single pods.  That files are deleted, after which the kubelet knows of no pod, comes last.
"""

from collections.abc import Iterator
from itertools import islice

from numawise.codec.checkpoint import CPU_FILE, MEMORY_FILE
from numawise.errors import NumawiseError
from numawise.node.state.change import folder_after
from numawise.node.state.convert import convert
from numawise.node.state.folder import Against, StateFolder, holders
from numawise.node.state.repair import repair
from numawise.node.state.repair_request import (
    ADAPT_CPUS,
    ADAPT_MEMORY,
    CHECKSUM,
    COUNT_AGAIN,
    DRAINED,
    IF_RIGHT,
    KEEPS,
    RepairRequest,
)
from numawise.rules.versions import shown
from numawise.values import dataclass, field, replace

MOST_DROPPED = 16
"""Of so many pods each alone is tried."""
GENTLE = (ADAPT_MEMORY, COUNT_AGAIN, ADAPT_CPUS, RepairRequest(adapt_memory=True, adapt_cpus=True))


@dataclass(frozen=True, slots=True)
class Remedy:
    """A way to state files that a kubelet may start on."""

    command: str
    price: str
    """What pods keep or lose by it, or what must be true for it."""
    folder: StateFolder
    """The files afterwards."""
    options: tuple[str, ...] = ()
    """Of ``numawise state repair``."""
    drop: tuple[str, ...] = ()
    """Pods that have to end for it."""
    delete: tuple[str, ...] = field(default=())
    """Files that go."""

    @property
    def lossless(self) -> bool:
        """Whether pods keep what they have."""
        return self.price == KEEPS


def remedies(folder: StateFolder, against: Against) -> Iterator[Remedy]:
    """All that may help, in the order of rule 2."""
    right = all(file.look.fits for file in folder.files)
    for request in GENTLE:
        yield from _repaired(folder, against, request, KEEPS if right else IF_RIGHT)
    yield from _converted(folder, against)
    if not right:
        yield from _repaired(folder, against, CHECKSUM, IF_RIGHT)
    if against.machine is not None:
        online = against.machine.layout.all
        offline = tuple(dict.fromkeys(one.uid for one in holders(folder) if one.uid and one.cpus & ~online))
        if offline:
            yield from _repaired(folder, against, replace(ADAPT_CPUS, drop=offline))
    uids = dict.fromkeys(one.uid for one in holders(folder) if one.uid and (one.cpus or one.blocks))
    for uid in islice(uids, MOST_DROPPED):
        yield from _repaired(folder, against, RepairRequest(drop=(uid,)))
    present = [name for name in (CPU_FILE, MEMORY_FILE) if folder.file(name) is not None]
    for names in (*((name,) for name in present), *([tuple(present)] if len(present) > 1 else [])):
        yield from _repaired(folder, against, RepairRequest(reset=names), DRAINED)


def _repaired(
    folder: StateFolder, against: Against, request: RepairRequest, price: str = ""
) -> Iterator[Remedy]:
    if request.drop:
        many = len(request.drop) > 1
        which = f"pod{'s' if many else ''} {', '.join(request.drop)}"
        price = f"end {which} first: what {'they hold' if many else 'it holds'} is forgotten"
    try:
        change = repair(folder, request, against)
    except NumawiseError:
        return
    if not change.refused and change.changes:
        after = folder_after(folder, change)
        yield Remedy(request.command, price, after, request.options, request.drop, request.reset)


def _converted(folder: StateFolder, against: Against) -> Iterator[Remedy]:
    try:
        change = convert(folder, against)
    except NumawiseError:
        return
    doubtful = any(said.startswith(("lost: ", "assumed: ")) for one in change.files for said in one.said)
    if not change.refused and change.changes and not doubtful:
        command = f"numawise state convert --to {shown(against.version)}"
        yield Remedy(command, KEEPS, folder_after(folder, change))

"""What a job was allotted from outside, before it asked: CPUs, memory and GPUs that it keeps within.

Rules kept here:

1. A kind that is not limited says so: no CPUs, no NUMA nodes, no list of GPUs.  A list of GPUs may be empty.
2. A hold keeps its allotment in the label ``within``, since a place in the shared pool moves later.  Others
   read it there and do not trust it: what makes no sense limits nothing.
"""

from numawise.results.placement import Capacity, Hold, pool_cpus
from numawise.sets import LARGEST_ID, format_ids, parse_ids
from numawise.values import dataclass

WITHIN = "within"
"""The label of a hold."""
LONGEST = 4096
BETWEEN = "; "


@dataclass(frozen=True, slots=True)
class Allotment:
    """What whoever started a job left to it."""

    cpus: int = 0
    """Packed; 0: all."""
    mems: int = 0
    """NUMA nodes that memory may come from, packed; 0: all."""
    gpus: tuple[str, ...] | None = None
    """What the ledger calls them; None: all."""
    gpus_by: str = ""
    """The variable that names the GPUs, with its value."""

    @property
    def limits(self) -> bool:
        """Whether anything is limited."""
        return bool(self.cpus or self.mems or self.gpus is not None)

    @property
    def words(self) -> str:
        """``CPUs 0-3 (affinity), memory of NUMA 0 (membind)``; '' without limits."""
        parts = [
            f"CPUs {format_ids(self.cpus)} (affinity)" if self.cpus else "",
            f"memory of NUMA {format_ids(self.mems)} (membind)" if self.mems else "",
            f"the GPUs of {self.gpus_by}" if self.gpus is not None else "",
        ]
        return ", ".join(part for part in parts if part)

    @property
    def label(self) -> str:
        """The text that ``read_allotment`` reads."""
        parts = [
            f"cpus {format_ids(self.cpus)}" if self.cpus else "",
            f"mems {format_ids(self.mems)}" if self.mems else "",
            f"gpus {','.join(self.gpus)}" if self.gpus is not None else "",
        ]
        return BETWEEN.join(part for part in parts if part)


def read_allotment(text: str) -> Allotment:
    """An allotment as a label has it (rule 2)."""
    if len(text) > LONGEST:
        return Allotment()
    fields = dict(part.partition(" ")[::2] for part in text.split(BETWEEN))
    try:
        cpus, mems = parse_ids(fields.get("cpus", "")), parse_ids(fields.get("mems", ""))
    except ValueError:
        return Allotment()
    if max(cpus, mems).bit_length() > LARGEST_ID:
        return Allotment()
    gpus = tuple(gpu for gpu in fields["gpus"].split(",") if gpu) if "gpus" in fields else None
    return Allotment(cpus, mems, gpus, "its allotment" if gpus is not None else "")


def allotment_of(hold: Hold) -> Allotment:
    """What a hold's job was allotted from outside."""
    return read_allotment(dict(hold.labels).get(WITHIN, ""))


def kept_within(pool: int, hold: Hold) -> int:
    """The part of the shared pool that a hold may run on; where nothing of it is left, all of it."""
    cpus = allotment_of(hold).cpus
    return (pool & cpus or pool) if cpus else pool


def shared_cpus(capacity: Capacity, pool: int, hold: Hold) -> int:
    """The part of the shared pool that a hold runs on."""
    return pool_cpus(capacity, kept_within(pool, hold), hold.grant.near)

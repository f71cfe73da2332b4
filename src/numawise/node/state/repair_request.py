"""What ``numawise state repair`` is asked to do, and how every command writes that for people."""

from numawise.node.state.folder import short_name
from numawise.values import dataclass

KEEPS = "pods keep what they have"
DRAIN = "drain the node first"
DRAINED = f"{DRAIN}: what its pods hold is forgotten"
IF_RIGHT = "if the content is right"


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What is to be repaired."""

    drop: tuple[str, ...] = ()
    """Pods by uid, its beginning, or name."""
    remove_stale: bool = False
    recompute_checksum: bool = False
    recompute_tables: bool = False
    adapt_memory: bool = False
    adapt_cpus: bool = False
    reset: tuple[str, ...] = ()
    """Names of files."""

    @property
    def something(self) -> bool:
        """True when anything is asked for."""
        return self != RepairRequest()

    @property
    def options(self) -> tuple[str, ...]:
        """The options of ``numawise state repair`` that ask for it."""
        flags = ("remove_stale", "recompute_checksum", "recompute_tables", "adapt_memory", "adapt_cpus")
        return (
            *(f"--drop-pod {uid}" for uid in self.drop),
            *(f"--{flag.replace('_', '-')}" for flag in flags if getattr(self, flag)),
            *(f"--reset {short_name(name)}" for name in self.reset),
        )

    @property
    def command(self) -> str:
        """``numawise state repair --adapt-memory``."""
        return " ".join(("numawise state repair", *self.options))


ADAPT_MEMORY, ADAPT_CPUS = RepairRequest(adapt_memory=True), RepairRequest(adapt_cpus=True)
COUNT_AGAIN, CHECKSUM = RepairRequest(recompute_tables=True), RepairRequest(recompute_checksum=True)

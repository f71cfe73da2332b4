"""What differs between kubelet releases, as named ways of doing things.

The algorithms ask for a way by name (``rules.behaviour.cpus_by_numa``) and never for a version
number.  ``WAYS`` and ``CONFIGURATION_WAYS`` say in which releases each holds; a release is nothing but a
column of these tables, and adding one is a matter of its rows.  ``Behaviour`` is about decisions,
``Manners`` about configurations; other tables whose rows come and go are made of ``Dated`` rows.

A release stands for its last patch.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Generic, TypeVar

from numawise.errors import quoted
from numawise.strconv import whole_number
from numawise.values import dataclass

Version = tuple[int, int]

OLDEST, REFERENCE, NEWEST = (1, 20), (1, 36), (1, 37)
"""The releases that are known, from and to, and the one everything is measured by."""
DEFAULT = NEWEST
"""What is taken when nobody says which release it is."""
EVER, ENDLESS = (0, 0), (99, 0)
VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?(?:[-+].*)?", re.ASCII)

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Dated(Generic[Row]):
    """A row that holds from one release to another, both included."""

    row: Row
    since: Version = OLDEST
    until: Version = ENDLESS


def at(version: Version, rows: Iterable[Dated[Row]]) -> Iterator[Row]:
    """The rows that hold in one release, in order."""
    return (dated.row for dated in rows if dated.since <= version <= dated.until)


@dataclass(frozen=True, slots=True)
class Way:
    """A named way of doing things: what it is, and in which releases it holds."""

    name: str
    says: str
    since: Version = EVER
    until: Version = ENDLESS

    def holds(self, version: Version) -> bool:
        """True when a release does it so."""
        return self.since <= version <= self.until

    @property
    def span(self) -> str:
        """``since 1.24``, ``until 1.36`` or ``1.22 to 1.31``."""
        since, until = shown(self.since), shown(self.until)
        if self.since == EVER:
            return "always" if self.until == ENDLESS else f"until {until}"
        return f"since {since}" if self.until == ENDLESS else f"{since} to {until}"


@dataclass(frozen=True, slots=True)
class Manners:
    """How a release reads its configuration and words a refusal; the defaults are those of 1.36."""

    gates_settled_while_decoding: bool = True
    lists_every_locked_gate: bool = True
    gates_have_needs: bool = True
    options_have_levels: bool = True
    topology_gate_told_twice: bool = False
    none_reads_topology_options: bool = False
    capital_topology_levels: bool = False
    best_effort_memory_named: bool = True
    reserved_cpus_must_be_online: bool = True
    shares_end_at_all: bool = True


CONFIGURATION_WAYS = (
    Way(
        "gates_settled_while_decoding",
        "Wrong feature gates stop the decoding; before, they were checked after it.",
        since=(1, 32),
    ),
    Way(
        "lists_every_locked_gate",
        "All gates set against their lock are named, not only the first.",
        since=(1, 31),
    ),
    Way(
        "gates_have_needs",
        "The gates that an enabled gate depends on must be enabled, too.",
        since=(1, 35),
    ),
    Way(
        "options_have_levels",
        "An option is alpha, beta or stable; before, one gate was for all of them.",
        since=(1, 23),
    ),
    Way(
        "topology_gate_told_twice",
        "Where the gate of topology options is off, `TopologyManager` is named too.",
        until=(1, 26),
    ),
    Way(
        "none_reads_topology_options",
        "Topology options are checked under policy `none` too.",
        until=(1, 27),
    ),
    Way(
        "capital_topology_levels",
        "`Topology Manager Policy Alpha-level Options` in a refusal, not in small letters.",
        until=(1, 32),
    ),
    Way(
        "best_effort_memory_named",
        "Memory policy `BestEffort` is known, though for Windows only.",
        since=(1, 32),
    ),
    Way(
        "reserved_cpus_must_be_online",
        "The list of reserved CPUs is compared with those that are online.",
        since=(1, 22),
    ),
    Way(
        "shares_end_at_all",
        "An eviction threshold above 100% is refused; before, only one above 10000%.",
        since=(1, 21),
    ),
)


@cache
def manners_of(version: Version = REFERENCE) -> Manners:
    """How one release treats a configuration."""
    return Manners(**{way.name: way.holds(version) for way in CONFIGURATION_WAYS})


# --- reading a version ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Profile:
    """The release whose ways are used, and what is to be said about that."""

    version: Version
    remark: str = ""
    """A sentence where it is not the release that was asked for."""


def shown(version: Version) -> str:
    """``1.36``."""
    return ".".join(map(str, version))


def parse_version(text: str) -> Version:
    """Read ``1.36``, ``v1.36.4`` or ``v1.37.0-rc.1``; raise ``ValueError`` for anything else."""
    found = VERSION.fullmatch(text)
    if not found:
        raise ValueError(f"{quoted(text)} is not a Kubernetes version such as {shown(REFERENCE)}")
    return whole_number(found[1]), whole_number(found[2])


def profile_of(text: str) -> Profile:
    """The profile for a version as people write it: its own, or else the nearest older one.

    ``ValueError``: not a version, or older than any known.
    """
    version = parse_version(text)
    if version < OLDEST:
        check_known(version)
    if version > NEWEST:
        told = (
            f"Kubernetes {shown(version)} is newer than any known release; it is treated as {shown(NEWEST)}"
        )
        return Profile(NEWEST, told)
    return Profile(version)


def check_known(version: Version) -> None:
    """Raise ``ValueError`` for a release that is not known."""
    if not OLDEST <= version <= NEWEST:
        told = f"Kubernetes {shown(version)} is not known; known are {shown(OLDEST)} to {shown(NEWEST)}"
        raise ValueError(told)
